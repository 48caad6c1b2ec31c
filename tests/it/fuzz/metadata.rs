//! The `_metadata` files of savepoints and checkpoints, written by Flink or by someone pretending to be Flink.

use state::metadata::parse;

use super::{Target, fuzz, kind_of};

/// Prefixes of handles, and invalid counts and sizes.
const WORDS: &[&str] = &[
    "I`g-",
    "\0\0\0\u{6}",
    "\0\0\0\u{7}",
    "\u{3}\0\0\0\0\0\0\0\u{1}\0\0\0\0\0\0\0\0",
    "\u{b}\0\0\0\0\0\0\0\u{7}\0",
    "\u{e}\0\0\0\0\0\0\0\0",
    "\u{f}\0\0\0\0\0\0\0\0",
    "\u{11}\0\0\0\u{1}\0\u{1}a",
    "\u{7f}\0\0\0",
    "\0\u{7}../a/b/",
    "SavepointType",
];

#[test]
fn metadata_is_read_in_proportion_or_refused() {
    let target = Target { name: "metadata", words: WORDS, bytes_max: 32 << 10, outcomes_min: 18 };
    fuzz(&target, |input| match parse(&input.bytes) {
        Ok(told) => {
            let shown = serde_json::to_string(&told).unwrap();
            assert!(!shown.contains('\u{1b}'), "{shown}");
            for operator in &told.operators {
                assert!(operator.operator_states.len() <= 50 && operator.id.len() == 32);
                assert!(operator.bytes.total() >= operator.bytes.keyed);
            }
            assert!(told.files.folders.len() <= 200);
            let all = told.files.outside("nowhere");
            assert!(all.references >= told.files.outside("s3://lake").references);
            format!("{} {:?} {}", told.format_version, told.kind, told.operators.len().min(9))
        }
        Err(error) => {
            let message = error.to_string();
            assert!(message.len() < 500 && !message.contains('\u{1b}'), "{message}");
            kind_of(&message)
        }
    });
}
