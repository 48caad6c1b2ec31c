//! Checks the patches of `tests/mutations.sh`: each removes a guard from the code, and names the test that must notice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use testing::laws::Law;
use testing::sources::{Named, path, tests_below};

use super::table::tests;
use crate::support::program::other;

/// Minimum number of patches for a meaningful sample.
const PATCHES_MIN: usize = 10;
/// Minimum number of patches for each law.
const GUARDS_MIN: usize = 2;

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

/// A patch: the guard that it takes out, and the tests that must notice.
struct Patch {
    name: String,
    guard: String,
    noticed: Vec<Noticed>,
    files: usize,
}

/// A test that must notice, and the law that it says is broken.
struct Noticed {
    law: Option<String>,
    test: String,
}

impl Patch {
    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let (header, diff) = text.split_once("\n\n").unwrap();
        let mut lines = header.lines();
        let guard = lines.next().and_then(|line| line.strip_prefix("Guard: "));
        let guard = guard.unwrap_or_else(|| panic!("{name} has no `Guard`")).to_owned();
        let (mut noticed, mut law) = (vec![], None);
        for line in lines {
            match line.split_once(": ") {
                Some(("Law", of)) => law = Some(of.to_owned()),
                Some(("Test", of)) => {
                    noticed.push(Noticed { law: law.take(), test: of.to_owned() });
                }
                _ => panic!("{name}: {line}"),
            }
        }
        assert!(law.is_none() && !noticed.is_empty(), "{name} has no `Test` at the end");
        let files = diff.lines().filter(|line| line.starts_with("diff --git ")).count();
        Self { name, guard, noticed, files }
    }
}

#[test]
fn each_patch_says_what_it_takes_out_and_who_notices() {
    let (patches, tests) = (patches(), tests());
    let all: BTreeSet<String> =
        ["tests/it", "crates"].into_iter().flat_map(tests_below).map(|test| test.name).collect();
    assert!(patches.len() >= PATCHES_MIN, "{}", patches.len());
    for Patch { name, guard, noticed, files } in patches.iter().map(|path| Patch::read(path)) {
        assert!(guard.ends_with('.'), "{name}: {guard}");
        for Noticed { test, .. } in &noticed {
            assert!(all.contains(test), "{name}: there is no test `{test}`");
        }
        // A guard against a bug of the Java operator has its id, any other one a name.
        if let Some(id) = name.strip_prefix("FLINK-") {
            // One bug may have several guards, which are distinguished by a word.
            let (id, test) = (id.split('-').next().unwrap(), &noticed[0].test);
            assert!(test.starts_with(&format!("flink_{id}_")), "{name}: {test}");
            assert!(tests.contains(test.as_str()), "{name}: there is no test `{test}`");
        }
        assert_eq!(files, 1, "{name} changes more than one file");
    }
}

/// Whether a test is one of those that assert laws, rather than a row of a table.
fn is_simulated(test: &Named) -> bool {
    let file = test.file.to_str().unwrap();
    let is_simulation =
        ["simulation", "exploration", "java", "waves"].iter().any(|it| file.contains(it));
    is_simulation && file.contains("/tests/it/")
}

#[test]
fn each_law_has_guards_whose_removal_its_simulation_notices() {
    let simulated: BTreeSet<String> =
        tests_below("crates").into_iter().filter(is_simulated).map(|test| test.name).collect();
    let mut guards: BTreeMap<Law, BTreeSet<String>> = BTreeMap::new();
    for Patch { name, noticed, .. } in patches().iter().map(|path| Patch::read(path)) {
        for Noticed { law, test } in noticed {
            let Some(law) = law else { continue };
            let known = Law::ALL.iter().find(|known| known.name() == law);
            let known = known.unwrap_or_else(|| panic!("{name}: there is no law `{law}`"));
            assert!(simulated.contains(&test), "{name}: `{test}` simulates nothing");
            guards.entry(*known).or_default().insert(name.clone());
        }
    }
    let has_few = |law: &&Law| guards.get(law).map_or(0, BTreeSet::len) < GUARDS_MIN;
    let few: Vec<&str> = Law::ALL.iter().filter(has_few).map(|law| law.name()).collect();
    assert!(few.is_empty(), "fewer than {GUARDS_MIN} patches name the laws {few:?}");
}
