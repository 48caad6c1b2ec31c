//! The names of functions, types, constants, modules and tests are in the words of Flink, Kubernetes and their Rust
//! libraries. Words that a reader of those does not expect are listed with what is said instead.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use testing::sources::texts_below;

/// A word with its forms, and what is said instead.
const INSTEAD: [(&[&str], &str); 8] = [
    (&["told", "tell", "tells", "telling"], "reported, described, emit"),
    (&["beside"], "alongside, with"),
    (&["kept"], "stored, cached, retained"),
    (&["standing"], "readiness, progress, standby"),
    (&["wish", "wishes"], "request, desired"),
    (&["look", "looks", "looked", "looking"], "read, check, poll, inspect, resolve"),
    (&["doubt", "doubts", "doubted", "doubtful"], "unknown, suspected, unsure"),
    (&["trouble", "troubles"], "problem, failure, fault"),
];

static DECLARED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:fn|struct|enum|union|trait|type|mod|const|static(?: mut)?)\s+(\w+)").unwrap()
});
static WORD: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?:[^a-z]|$)").unwrap());

#[test]
fn names_are_in_the_words_of_the_field() {
    let mut odd = Vec::new();
    let texts = ["src", "crates", "tests", "bench"].into_iter().flat_map(texts_below);
    for (file, text) in texts {
        for found in DECLARED.captures_iter(&text) {
            let instead = instead(&found[1])
                .map(|it| format!("{}: `{}`, say {it}", file.display(), &found[1]));
            odd.extend(instead);
        }
    }
    assert!(odd.is_empty(), "names with odd words:\n{}", odd.join("\n"));
}

#[test]
fn words_are_found_in_names_of_each_kind() {
    for name in ["is_told", "ToldStep", "LOOK_EVERY", "Kept", "KEPT", "beside"] {
        assert!(instead(name).is_some(), "{name}");
    }
    for name in ["lookup", "Outlook", "toll", "STANDALONE", "wishlist"] {
        assert_eq!(instead(name), None, "{name}");
    }
}

/// Returns what is said instead of a word in the name.
fn instead(name: &str) -> Option<&'static str> {
    static ODD: LazyLock<BTreeMap<&str, &str>> = LazyLock::new(|| {
        INSTEAD
            .iter()
            .flat_map(|(words, instead)| words.iter().map(|word| (*word, *instead)))
            .collect()
    });
    let mut words =
        WORD.find_iter(name).map(|word| word.as_str().trim_end_matches('_').to_ascii_lowercase());
    words.find_map(|word| ODD.get(word.as_str()).copied())
}
