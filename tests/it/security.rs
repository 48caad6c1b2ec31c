//! Each promise of SECURITY.md names tests that hold it.

use std::collections::BTreeSet;
use std::fs;

use testing::sources::{path, tests_below};

/// Marks what nothing can hold.
const NO_PROMISE: &str = "–";

#[test]
fn each_promise_is_held_by_tests() {
    let text = fs::read_to_string(path("SECURITY.md")).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'))
        .map(|row| row.split('|').map(str::trim).collect())
        .collect();
    let [head, _, rows @ ..] = &*rows else { panic!("a table") };
    assert_eq!(*head, ["who", "may", "must not be able to", "tests"]);
    assert!(rows.len() > 10, "{rows:?}");
    let all: BTreeSet<String> = ["tests/it", "crates", "src"]
        .into_iter()
        .flat_map(tests_below)
        .map(|test| test.name)
        .collect();
    for row in rows {
        let [_, _, promise, tests] = **row else { panic!("{row:?}") };
        let tests: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(promise.starts_with(NO_PROMISE) || !tests.is_empty(), "nothing holds: {promise}");
        for test in tests {
            assert!(all.contains(test), "there is no test `{test}` to hold: {promise}");
        }
    }
}
