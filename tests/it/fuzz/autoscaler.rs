//! The autoscaler's state: the content of its ConfigMap, written by the Java operator or anyone else.

use autoscaler::state::{Data, Stored, read, write};

use super::{Input, Target, fuzz, kind_of};

const WORDS: &[&str] = &[
    "---\n",
    "scalingRecords:",
    "restartDuration: ",
    "vertexMetrics:",
    "globalMetrics:",
    "delayedVertices:",
    "recommendedParallelisms:",
    "triggerTime: ",
    "overrides:",
    "removals:",
    "currentParallelism: ",
    "20ba6b65f97481d5570070de90e4e791",
    "2023-11-14T22:14:20.123Z",
    "1700000000.123456789",
    "NaN",
    "-Infinity",
    "{}",
    "&a",
    "*a",
    "H4sIAAAAAAAA/",
    "1e999",
    "null",
];

/// The key is the name of the corpus file.
#[test]
fn what_is_stored_of_the_autoscaler_comes_back_as_it_was_written() {
    let target =
        Target { name: "autoscaler-state", words: WORDS, bytes_max: 32 << 10, outcomes_min: 80 };
    fuzz(&target, |Input { of, bytes }| {
        let value = String::from_utf8_lossy(bytes).into_owned();
        let data = Data::from([(of.clone(), value.clone())]);
        let stored = match read(&data) {
            Ok(stored) => stored,
            Err(error) => return kind_of(&error.to_string()),
        };
        let written = write(&stored).unwrap();
        assert_eq!(written.dropped_samples, 0);
        let again = read(&written.data).unwrap();
        assert_eq!(again, Stored { set_aside: Vec::new(), ..stored.clone() });
        assert_eq!(write(&again).unwrap(), written, "what did not change is written the same");
        let is_retained = written.data.values().any(|kept| *kept == value);
        assert!(stored.set_aside.is_empty() || is_retained, "what cannot be read is not dropped");
        match stored.set_aside.first() {
            Some(aside) => kind_of(&aside.reason),
            None => format!("read {}", written.data.len()),
        }
    });
}
