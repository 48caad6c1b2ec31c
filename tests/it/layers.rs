//! The layer rule of `src/lib.rs`: who may use whom, and what pure modules never mention.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

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

/// The one shell module that others use.
const FENCE: &str = "fence";

/// What a part of `src/lib.rs` holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Part {
    Pure,
    Shell,
    Program,
}

/// The modules of `src/lib.rs`, in its order.
fn layers() -> Vec<(Part, String)> {
    let mut part = None;
    let mut found = Vec::new();
    for line in fs::read_to_string(source("lib.rs")).unwrap().lines() {
        if let Some(name) = line.strip_prefix("pub mod ").and_then(|it| it.strip_suffix(';')) {
            found.push((part.expect("a heading stands above every module"), name.to_owned()));
        } else if line.starts_with("// ") {
            part = Some(match line {
                _ if line.starts_with("// Pure:") => Part::Pure,
                _ if line.starts_with("// Shell:") => Part::Shell,
                "// Programs." => Part::Program,
                other => panic!("`{other}` is no heading that this test knows"),
            });
        }
    }
    found
}

/// The layers that each one may use.
fn allowed(layers: &[(Part, String)]) -> Vec<(&str, Vec<&str>)> {
    let each = layers.iter().enumerate().map(|(index, (part, layer))| {
        let above = layers[..index]
            .iter()
            .filter(|(other, name)| *part != Part::Shell || *other == Part::Pure || name == FENCE);
        (layer.as_str(), above.map(|(_, name)| name.as_str()).collect())
    });
    each.collect()
}

#[test]
fn the_order_of_lib_rs_is_the_rule() {
    let layers = layers();
    let allowed: BTreeMap<&str, Vec<&str>> = allowed(&layers).into_iter().collect();
    assert_eq!(allowed["render"], ["api", "config"]);
    assert!(allowed["flink"].contains(&"autoscaler") && allowed["flink"].contains(&"fence"));
    assert!(!allowed["flink"].contains(&"artifact"), "shell modules do not use each other");
    assert!(allowed["cli"].contains(&"webhook") && !allowed["operator"].contains(&"cli"));
    let pure = layers.iter().filter(|(part, _)| *part == Part::Pure).count();
    assert!(pure > 5 && layers.len() > 15, "{layers:?}");
}

#[test]
fn a_module_uses_only_the_layers_above_it() {
    let mut broken = Vec::new();
    for (layer, allowed) in allowed(&layers()) {
        for file in files_of(layer) {
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
fn pure_modules_see_no_world() {
    let mut broken = Vec::new();
    let layers = layers();
    let pure = layers.iter().filter(|(part, _)| *part == Part::Pure).map(|(_, name)| name.as_str());
    for layer in pure.chain(PURE_PARTS.iter().copied()) {
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
