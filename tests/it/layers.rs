//! Checks the layer rules within crates, and what pure modules and crates must never mention.
//!
//! The dependencies between crates are in their `Cargo.toml`, and enforced by Cargo.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use testing::sources::path;

/// Pure modules of crates that are not pure.
const PURE_MODULES: [&str; 2] =
    ["crates/operator/src/install", "crates/operator/src/webhook/admit"];

/// Modules of `crates/operator` that its others do not use, and what each of them uses; not specified for the webhook.
const PROGRAMS: [(&str, Option<&[&str]>); 3] = [
    ("install", Some(&[])),
    ("standalone", Some(&["heavy", "http", "scaling_rules"])),
    ("webhook", None),
];

/// Third-party crates with access to the outside. Pure crates must not depend on them, so that they are built and
/// tested without.
const OTHERS_CLIENTS: &[&str] = &[
    "axum",
    "hdfs-native",
    "hyper",
    "hyper-util",
    "kube",
    "kube-client",
    "object_store",
    "reqwest",
    "sqlx",
    "tokio",
    "zookeeper-client",
];

/// Words that would give a pure module access to the outside.
const WORLD: &[&str] = &[
    "tokio::",
    "reqwest::",
    "kube::Client",
    "kube::Api",
    "std::env",
    "std::fs",
    "std::net",
    "std::process",
    "SystemTime",
    "Instant::now",
    "Timestamp::now",
    "Zoned::now",
    "async fn",
    "clients::",
    "sandbox::",
];

/// Crates that are not pure: they access the outside, enable features of crates that do, or serve tests.
const SHELL_CRATES: &[&str] = &["client-features", "clients", "operator", "sandbox", "testing"];

/// The only module of `crates/clients` that its others use.
const FENCE: &str = "fence";

#[test]
fn programs_outside_of_the_loop_stand_alone() {
    let files = files_of("crates/operator/src");
    let mut broken = Vec::new();
    for file in &files {
        let place = file.strip_prefix(path("crates/operator/src")).unwrap().with_extension("");
        let module = place.iter().next().unwrap().to_str().unwrap();
        let own = PROGRAMS.iter().find(|(name, _)| *name == module);
        let is_allowed = |used: &str| match own {
            Some((name, _)) if used == *name => true,
            Some((_, Some(others))) => others.contains(&used),
            _ => PROGRAMS.iter().all(|(name, _)| used != *name),
        };
        let used = layers_used(&code_of(file));
        let others = used.iter().filter(|used| !is_allowed(used));
        broken.extend(others.map(|used| format!("{}: `{module}` uses `{used}`", file.display())));
    }
    assert!(files.len() > 50, "{files:?}");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn clients_do_not_use_each_other() {
    let lib = fs::read_to_string(path("crates/clients/src/lib.rs")).unwrap();
    let modules: Vec<&str> =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    assert!(modules.len() > 4 && modules.contains(&FENCE), "{modules:?}");
    let mut broken = Vec::new();
    for module in modules {
        for file in files_of(&format!("crates/clients/src/{module}")) {
            for used in layers_used(&code_of(&file)) {
                if used != module && used != FENCE {
                    broken.push(format!("{}: `{module}` uses `{used}`", file.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "one client uses another:\n{}", broken.join("\n"));
}

#[test]
fn pure_modules_see_no_world() {
    let mut broken = Vec::new();
    let modules = PURE_MODULES.map(str::to_owned).into_iter();
    let crates = crates().into_iter().map(|name| format!("crates/{name}/src"));
    for place in modules.chain(crates) {
        // Tests of pure modules may read golden files.
        for file in files_of(&place).into_iter().filter(|file| !file.ends_with("tests.rs")) {
            let code = code_of(&file);
            for word in WORLD.iter().filter(|word| code.contains(**word)) {
                broken.push(format!("{}: `{place}` mentions `{word}`", file.display()));
            }
        }
    }
    assert!(
        broken.is_empty(),
        "pure modules take what they need as arguments:\n{}",
        broken.join("\n")
    );
}

#[test]
fn pure_crates_are_built_without_clients() {
    let mut broken = Vec::new();
    for name in crates() {
        let manifest = fs::read_to_string(path(&format!("crates/{name}/Cargo.toml"))).unwrap();
        let used = manifest.lines().filter_map(|line| line.split([' ', '.', '=']).next());
        broken.extend(
            used.filter(|used| OTHERS_CLIENTS.contains(used))
                .map(|it| format!("`{name}` has `{it}`")),
        );
    }
    assert!(broken.is_empty(), "pure crates have no clients:\n{}", broken.join("\n"));
}

#[test]
fn uses_are_found_in_every_form() {
    let code = "use crate::webhook::admit;\nuse crate::{install::{self, Values}, fence};\nlet x = crate::flink::id();";
    let used = layers_used(code);
    assert_eq!(used.into_iter().collect::<Vec<_>>(), ["fence", "flink", "install", "webhook"]);
}

/// Every option with an effect is implemented: it is read outside of the tables, by its constant. One without an effect
/// is not.
#[test]
fn options_that_count_are_read() {
    let option = Regex::new(r"(?m)^ +(Nowhere|Live|AtStart|AtDeploy) ([A-Z0-9_]+):").unwrap();
    let tables: Vec<PathBuf> = files_of("crates/config/src/options");
    let named = |file: &PathBuf| {
        let text = code_of(file);
        option
            .captures_iter(&text)
            .map(|it| (it[1].to_owned(), it[2].to_owned()))
            .collect::<Vec<_>>()
    };
    let options: Vec<_> = tables.iter().flat_map(named).collect();
    assert!(options.len() > 100, "{}", options.len());
    let names_tests = |file: &PathBuf| {
        file.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "tests.rs")
    };
    let readers = [files_of("src"), files_of("crates")].concat();
    let readers = readers.iter().filter(|file| !tables.contains(file) && !names_tests(file));
    let word = Regex::new("[A-Z][A-Z0-9_]+").unwrap();
    let mut read = BTreeSet::new();
    for file in readers {
        let code = code_of(file);
        // Tests are at the end of a file.
        let code = code.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        read.extend(word.find_iter(code).map(|it| it.as_str().to_owned()));
    }
    let is_told_wrong =
        |(effect, name): &&(String, String)| read.contains(name) == (effect == "Nowhere");
    let wrong: Vec<_> = options.iter().filter(is_told_wrong).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Returns the pure folders of `crates/`.
fn crates() -> Vec<String> {
    let folders = fs::read_dir(path("crates")).unwrap();
    let names = folders.map(|folder| folder.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.filter(|name| !SHELL_CRATES.contains(&name.as_str())).collect();
    assert!(names.len() > 4, "{names:?}");
    names
}

/// Returns `place.rs` if it exists, and every file under `place/`.
fn files_of(place: &str) -> Vec<PathBuf> {
    let file = path(&format!("{place}.rs"));
    let mut files: Vec<PathBuf> = file.is_file().then_some(file).into_iter().collect();
    let mut folders = vec![path(place)];
    while let Some(folder) = folders.pop() {
        // A layer with a single file has no folder.
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries.map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                files.push(entry);
            }
        }
    }
    assert!(!files.is_empty(), "nothing is at {place}");
    files
}

/// Returns the file without its comments, which may name anything.
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// Returns the first segments of all `crate::…` paths, including those in braces.
fn layers_used(code: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (at, found) in code.match_indices("crate::") {
        if code[..at].ends_with(|before: char| before.is_alphanumeric() || "_$:".contains(before)) {
            continue;
        }
        let rest = &code[at + found.len()..];
        match rest.strip_prefix('{') {
            None => used.extend(first_word(rest)),
            Some(group) => {
                let mut depth = 0_usize;
                let mut start_of_item = true;
                for (at, character) in group.char_indices() {
                    match character {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => start_of_item = true,
                        _ if start_of_item && !character.is_whitespace() => {
                            used.extend(first_word(&group[at..]));
                            start_of_item = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    used
}

fn first_word(text: &str) -> Option<String> {
    let word: String = text.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
    (!word.is_empty()).then_some(word)
}
