//! The layer rules of `src/lib.rs` and `crates/clients`: who may use whom, and what pure modules and
//! crates never mention.
//!
//! Which crate uses which is in their `Cargo.toml`, and held by Cargo.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use testing::sources::path;

/// Pure parts of modules that are not.
const PURE_PARTS: &[&str] = &["webhook/admit"];

/// Crates of others that reach the world. A pure crate has none of them, so that it is built and tested without.
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

/// What would let a pure module see the world.
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

/// Crates that are not pure: they reach the world, ask for features of what does, or serve tests.
const SHELL_CRATES: &[&str] = &["client-features", "clients", "sandbox", "testing"];

/// The one module of `crates/clients` that its others use.
const FENCE: &str = "fence";

/// What a part of `src/lib.rs` holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    Pure,
    Program,
}

/// The modules of `src/lib.rs`, in its order.
fn layers() -> Vec<(Part, String)> {
    let mut part = None;
    let mut found = Vec::new();
    for line in fs::read_to_string(path("src/lib.rs")).unwrap().lines() {
        if let Some(name) = line.strip_prefix("pub mod ").and_then(|it| it.strip_suffix(';')) {
            found.push((part.expect("a heading stands above every module"), name.to_owned()));
        } else if line.starts_with("// ") {
            part = Some(match line {
                _ if line.starts_with("// Pure:") => Part::Pure,
                "// Programs." => Part::Program,
                other => panic!("`{other}` is no heading that this test knows"),
            });
        }
    }
    found
}

/// The layers that each one may use.
fn allowed(layers: &[(Part, String)]) -> Vec<(&str, Vec<&str>)> {
    let each = layers.iter().enumerate().map(|(index, (_, layer))| {
        (layer.as_str(), layers[..index].iter().map(|(_, name)| name.as_str()).collect())
    });
    each.collect()
}

#[test]
fn the_order_of_lib_rs_is_the_rule() {
    let layers = layers();
    let allowed: BTreeMap<&str, Vec<&str>> = allowed(&layers).into_iter().collect();
    assert!(allowed["cli"].contains(&"webhook") && !allowed["operator"].contains(&"cli"));
    let pure = layers.iter().filter(|(part, _)| *part == Part::Pure).count();
    assert!(pure > 0 && layers.len() > 4, "{layers:?}");
}

#[test]
fn a_module_uses_only_the_layers_above_it() {
    let mut broken = Vec::new();
    for (layer, allowed) in allowed(&layers()) {
        for file in files_of(&format!("src/{layer}")) {
            for used in layers_used(&code_of(&file)) {
                if used != layer && !allowed.contains(&used.as_str()) {
                    broken.push(format!("{}: `{layer}` uses `{used}`", file.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "the layer rule of src/lib.rs is broken:\n{}", broken.join("\n"));
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
    let layers = layers();
    let pure = layers.iter().filter(|(part, _)| *part == Part::Pure).map(|(_, name)| name.as_str());
    let modules = pure.chain(PURE_PARTS.iter().copied()).map(|layer| format!("src/{layer}"));
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

/// The pure folders of `crates/`.
fn crates() -> Vec<String> {
    let folders = fs::read_dir(path("crates")).unwrap();
    let names = folders.map(|folder| folder.unwrap().file_name().into_string().unwrap());
    let names: Vec<String> = names.filter(|name| !SHELL_CRATES.contains(&name.as_str())).collect();
    assert!(names.len() > 4, "{names:?}");
    names
}

/// `place.rs`, where there is one, and every file under `place/`.
fn files_of(place: &str) -> Vec<PathBuf> {
    let file = path(&format!("{place}.rs"));
    let mut files: Vec<PathBuf> = file.is_file().then_some(file).into_iter().collect();
    let mut folders = vec![path(place)];
    while let Some(folder) = folders.pop() {
        // A layer of one file has no folder.
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

/// The file without its comments, which may name anything.
fn code_of(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

/// First segments of all `crate::…` paths, those in braces too.
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
