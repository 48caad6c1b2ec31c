//! The layer rule of `src/lib.rs`: who may use whom, and what pure modules never mention.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const PURE: &[&str] = &["api", "config", "render", "decide", "autoscaler", "install", "metrics"];

/// The layers that each one may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("api", &[]),
    ("config", &["api"]),
    ("render", &["api", "config"]),
    ("decide", &["api", "config", "render"]),
    ("autoscaler", &["api", "config", "decide"]),
    ("fence", &[]),
    ("install", &["api"]),
    ("metrics", &["api", "config"]),
    ("artifact", PURE),
    ("flink", &["api", "config", "render", "decide", "autoscaler", "metrics", "fence"]),
    ("cluster", &["api", "config", "render", "decide", "metrics", "fence"]),
    (
        "operator",
        &[
            "api",
            "config",
            "render",
            "decide",
            "autoscaler",
            "metrics",
            "fence",
            "artifact",
            "flink",
            "cluster",
            "zookeeper",
        ],
    ),
    ("zookeeper", PURE),
    ("store", PURE),
    ("standalone", &["api", "config", "decide", "autoscaler", "flink", "store", "operator"]),
    ("webhook", &["api", "config", "render", "decide", "fence", "cluster", "operator"]),
    ("sandbox", PURE),
    (
        "cli",
        &[
            "api",
            "config",
            "render",
            "decide",
            "autoscaler",
            "metrics",
            "fence",
            "artifact",
            "flink",
            "cluster",
            "zookeeper",
            "operator",
            "webhook",
            "sandbox",
            "standalone",
            "store",
            "install",
        ],
    ),
];

/// Pure parts of modules that are not.
const PURE_PARTS: &[&str] = &["webhook/admit"];

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
];

#[test]
fn a_module_uses_only_the_layers_above_it() {
    let mut broken = Vec::new();
    for (layer, allowed) in LAYERS {
        for file in files_of(layer) {
            for used in layers_used(&code_of(&file)) {
                if used != *layer && !allowed.contains(&used.as_str()) {
                    broken.push(format!("{}: `{layer}` uses `{used}`", file.display()));
                }
            }
        }
    }
    assert!(broken.is_empty(), "the layer rule of src/lib.rs is broken:\n{}", broken.join("\n"));
}

#[test]
fn pure_modules_see_no_world() {
    let mut broken = Vec::new();
    for layer in PURE.iter().chain(PURE_PARTS) {
        // Tests of pure modules may read golden files.
        for file in files_of(layer).into_iter().filter(|file| !file.ends_with("tests.rs")) {
            let code = code_of(&file);
            for word in WORLD.iter().filter(|word| code.contains(**word)) {
                broken.push(format!("{}: `{layer}` mentions `{word}`", file.display()));
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
fn every_module_has_a_layer() {
    let lib = fs::read_to_string(source("lib.rs")).unwrap();
    let declared: BTreeSet<&str> =
        lib.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).collect();
    let known: BTreeSet<&str> = LAYERS.iter().map(|(layer, _)| *layer).collect();
    assert_eq!(declared, known, "lib.rs and this test name the same modules");
}

#[test]
fn uses_are_found_in_every_form() {
    let code = "use crate::api::job;\nuse crate::{config::{self, FlinkConfig}, render};\nlet x = crate::decide::plan();";
    let used = layers_used(code);
    assert_eq!(used.into_iter().collect::<Vec<_>>(), ["api", "config", "decide", "render"]);
}

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path)
}

/// `src/layer.rs` and every file under `src/layer/`.
fn files_of(layer: &str) -> Vec<PathBuf> {
    let mut files = vec![source(&format!("{layer}.rs"))];
    let mut folders = vec![source(layer)];
    while let Some(folder) = folders.pop() {
        // A layer of one file has no folder.
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
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
