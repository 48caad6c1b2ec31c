//! Checks the patches of `tests/mutations.sh`: each removes a guard from the code, and names the test that must notice.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use testing::sources::{path, tests_below};

use super::table::tests;
use crate::support::program::other;

/// Minimum number of patches for a meaningful sample.
const PATCHES_MIN: usize = 10;

fn patches() -> Vec<PathBuf> {
    let files = fs::read_dir(path("tests/mutations")).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn each_patch_still_takes_out_its_guard() {
    for patch in patches() {
        let mut check = other("git");
        check.args(["apply", "--check"]).arg(&patch).current_dir(path(""));
        let output = check.output().expect("git is there");
        assert!(
            output.status.success(),
            "the guard is written otherwise now: make {} anew, and run `tests/mutations.sh` with \
             its name\n{}",
            patch.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn each_patch_says_what_it_takes_out_and_who_notices() {
    let (patches, tests) = (patches(), tests());
    let all: BTreeSet<String> =
        ["tests/it", "crates"].into_iter().flat_map(tests_below).map(|test| test.name).collect();
    assert!(patches.len() >= PATCHES_MIN, "{}", patches.len());
    for patch in patches {
        let name = patch.file_stem().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&patch).unwrap();
        let field = |field: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(": "));
            line.unwrap_or_else(|| panic!("{name} has no `{field}`"))
        };
        assert!(field("Guard").ends_with('.'), "{name}: {}", field("Guard"));
        let noticed_by = field("Test");
        // A guard against a bug of the Java operator has its id, any other one a name.
        if let Some(id) = name.strip_prefix("FLINK-") {
            // One bug may have several guards, which are distinguished by a word.
            let id = id.split('-').next().unwrap();
            assert!(noticed_by.starts_with(&format!("flink_{id}_")), "{name}: {noticed_by}");
            assert!(tests.contains(noticed_by), "{name}: there is no test `{noticed_by}`");
        }
        assert!(all.contains(noticed_by), "{name}: there is no test `{noticed_by}`");
        let changed = text.lines().filter(|line| line.starts_with("diff --git "));
        assert_eq!(changed.count(), 1, "{name} changes more than one file");
    }
}
