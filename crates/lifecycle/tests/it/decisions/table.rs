//! Checks that `docs/decisions.md` and the tests refer to each other, and that every row of the tables is covered.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use testing::sources::{Named, path, tests_below};

/// Folders whose tests are named after rows.
const FOLDERS: [&str; 4] = [
    "crates/lifecycle/tests/it/decisions",
    "crates/lifecycle/tests/it/simulation",
    "crates/lifecycle/src",
    "crates/validation/src",
];

/// Prefix of a table's ids, their number of digits, and the number of rows.
const TABLES: [(&str, usize, u32); 15] = [
    ("8.", 1, 12),
    ("8.A", 1, 4),
    ("9.", 1, 20),
    ("12.", 1, 13),
    ("13.", 1, 7),
    ("t", 2, 35),
    ("q", 2, 14),
    ("D", 1, 31),
    ("R", 1, 5),
    ("A", 1, 12),
    ("J", 1, 13),
    ("S", 1, 3),
    ("s", 2, 16),
    ("submit ", 1, 4),
    ("scenario ", 1, 15),
];

struct Row {
    rule: String,
    tests: BTreeSet<String>,
}

fn rows() -> BTreeMap<String, Row> {
    let text = fs::read_to_string(path("docs/decisions.md")).unwrap();
    let mut rows = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [id, rule, tests] = cells[..] else { panic!("not three cells: {line}") };
        if tests == "Test" || tests.starts_with("---") {
            continue;
        }
        let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let before = rows.insert(id.to_owned(), Row { rule: rule.to_owned(), tests });
        assert!(before.is_none(), "{id} is there twice");
    }
    rows
}

/// Whether an id covers the row: by its own id, for a part as in `D12a`, or as any row of a section.
fn means(id: &str, row: &str) -> bool {
    row.strip_prefix(id).is_some_and(|rest| {
        let is_part = rest.len() == 1 && rest.starts_with(|c: char| c.is_ascii_lowercase());
        rest.is_empty() || is_part || id.ends_with('.')
    })
}

/// Parses a letter and a number: `t18b` is 18 of `t`.
fn letter_and_number(part: &str) -> Option<(char, u32)> {
    let letter = part.chars().next().filter(|letter| "adjqrst".contains(*letter))?;
    let digits = part[1..].trim_end_matches(|c: char| c.is_ascii_lowercase());
    Some((letter, digits.parse().ok()?))
}

/// Returns the ids of the rows that a test is named after.
fn ids(test: &Named) -> Vec<String> {
    let parts: Vec<&str> = test.name.split('_').collect();
    match parts[..] {
        ["scenario", number, ..] => return vec![format!("scenario {number}")],
        ["section", number, ..] => return vec![format!("{number}.")],
        _ => {}
    }
    let (mut found, mut is_range) = (Vec::<(char, u32)>::new(), false);
    for part in parts {
        if part == "to" {
            is_range = true;
            continue;
        }
        let Some((letter, number)) = letter_and_number(part) else { break };
        let first = found.last().filter(|_| is_range).map_or(number, |(_, last)| last + 1);
        found.extend((first..=number).map(|number| (letter, number)));
        is_range = false;
    }
    let is_rule = test.file.starts_with("crates/validation/src");
    let is_section = test.file.starts_with("crates/lifecycle/tests/it/decisions");
    let id = |(letter, number): (char, u32)| match letter {
        _ if is_rule => format!("{}{number}", letter.to_ascii_uppercase()),
        's' if is_section => format!("{number}."),
        _ => format!("{letter}{number:02}"),
    };
    found.into_iter().map(id).collect()
}

#[test]
fn every_row_is_reported_and_shown_by_tests_that_there_are() {
    let known = ["src", "crates", "tests/it"].into_iter().flat_map(tests_below);
    let known: BTreeSet<String> = known.map(|test| test.name).collect();
    for (id, Row { rule, tests }) in rows() {
        assert!(rule.ends_with('.') && rule.len() > 20, "{id} is not told: {rule}");
        assert!(!tests.is_empty(), "{id} has no test");
        let missing: Vec<&String> = tests.difference(&known).collect();
        assert!(missing.is_empty(), "{id}: there is no test {missing:?}");
    }
}

#[test]
fn every_row_of_the_tables_is_there() {
    let rows = rows();
    for (prefix, digits, count) in TABLES {
        for number in 1..=count {
            let id = format!("{prefix}{number:0digits$}");
            assert!(rows.keys().any(|row| means(&id, row)), "{id} is missing");
        }
        let beyond = format!("{prefix}{:0digits$}", count + 1);
        assert!(!rows.contains_key(&beyond), "{beyond} is beyond its table");
    }
}

#[test]
fn a_test_that_is_named_by_a_row_is_in_that_row() {
    let (rows, mut count) = (rows(), 0);
    for test in FOLDERS.into_iter().flat_map(tests_below) {
        for id in ids(&test) {
            count += 1;
            let is_there =
                rows.iter().any(|(row, it)| means(&id, row) && it.tests.contains(&test.name));
            assert!(is_there, "{} of {} is not in row {id}", test.name, test.file.display());
        }
    }
    assert!(count > 150, "only {count} ids were found");
}

#[test]
fn ids_are_found_in_names() {
    let ids =
        |file: &str, name: &str| ids(&Named { file: file.into(), name: name.to_owned() }).join(" ");
    let (decisions, rules) =
        ("crates/lifecycle/tests/it/decisions/x.rs", "crates/validation/src/x/tests.rs");
    assert_eq!(ids(decisions, "t18b_q03_a_suspend"), "t18 q03");
    assert_eq!(ids(decisions, "s13_3_an_unhealthy_job"), "13.");
    assert_eq!(ids(rules, "d09_to_d11_d13_x"), "D9 D10 D11 D13");
    assert_eq!(ids("crates/lifecycle/src/session_job/tests/x.rs", "s05_a_job"), "s05");
    assert_eq!(
        ids("crates/lifecycle/src/transitions/stop/tests/rows.rs", "section_8_a1_to_a4"),
        "8."
    );
    assert_eq!(ids(decisions, "to_look_again"), "");
    assert!(means("D12", "D12a") && means("8.", "8.A1") && !means("t1", "t18"));
}
