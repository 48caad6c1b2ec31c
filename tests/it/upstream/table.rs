//! Checks that `docs/upstream-bugs.md` and the tests refer to each other, and that every bug is covered.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use testing::sources::{path, tests_below};

/// Reason for which a bug may have no test.
const REASON: &str = "not found in the public history";

/// Folders of the tests: those of one crate alone are in that crate.
const FOLDERS: [&str; 2] = ["tests/it/upstream", "crates"];

const IDS: [u32; 77] = [
    // State loss.
    27572, 27594, 30437, 30408, 33011, 35857, 37571, 38033, 39270, 39814, 40374,
    // Double action.
    35831, 38858, 28228, 39165, // Nothing runs.
    40092, 40119, 40550, // Stuck or looping.
    27337, 31860, 33067, 37320, 37370, 37372, 37766, 38077, 38290, 39043, 39271, 39356, 39507,
    39618, 39967, 40162, 40164, // Leaks.
    27569, 27573, 27914, 34212, 34438, 35192, 36876, 39439, 39559, 40384, // Spurious changes.
    33187, 33710, 36890, 37193, 38479, 38517, 39509, 40696, // Hidden errors.
    37430, 37470, 37730, // The autoscaler's figures.
    31318, 33306, 34178, 34266, 36535, 39299, 39306, 39743, 39890, 39925, 39958, 40055, 40389,
    40587, // What a job reaches.
    40400, 40401, 40402, 40414, 40443, 40448, // The chart.
    39791,
];

/// Returns the id in the name of a test; other names begin with a version of Flink.
fn id(name: &str) -> Option<u32> {
    let (id, _) = name.strip_prefix("flink_")?.split_once('_')?;
    id.parse().ok().filter(|_| id.len() == 5)
}

/// Returns the names of the tests with an id.
pub(super) fn tests() -> BTreeSet<String> {
    let names = FOLDERS.into_iter().flat_map(tests_below).map(|test| test.name);
    names.filter(|name| id(name).is_some()).collect()
}

/// Returns the rows of the table: what each bug was, and its test or why there is none.
fn rows() -> BTreeMap<u32, (String, String)> {
    let text = fs::read_to_string(path("docs/upstream-bugs.md")).unwrap();
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [id, what, shown_by] = cells[..] else { continue };
        let Some(id) = id.strip_prefix("FLINK-") else { continue };
        let id = id.parse().unwrap_or_else(|_| panic!("no id: {line}"));
        let before = rows.insert(id, (what.to_owned(), shown_by.to_owned()));
        assert_eq!(before, None, "FLINK-{id} is there twice");
    }
    rows
}

#[test]
fn every_bug_is_in_the_table() {
    let rows = rows();
    let listed: BTreeSet<u32> = rows.keys().copied().collect();
    assert_eq!(listed, BTreeSet::from(IDS));
    for (id, (what, shown_by)) in rows {
        assert!(what.ends_with('.') && what.len() > 20, "FLINK-{id} is not told: {what}");
        let is_reason = shown_by == REASON;
        let is_test = shown_by.starts_with(&format!("`flink_{id}_"));
        assert!(is_reason || is_test, "FLINK-{id} has neither a test nor a reason: {shown_by}");
    }
}

#[test]
fn the_table_names_the_tests_that_there_are() {
    let in_table: BTreeSet<String> = rows()
        .into_values()
        .flat_map(|(_, test)| {
            test.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()
        })
        .filter(|name| id(name).is_some())
        .collect();
    assert_eq!(in_table, tests());
}
