//! The project's own files: where they are, and which tests they contain.

use std::fs;
use std::path::{Path, PathBuf};

/// A test as found in its source file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Named {
    /// Its file, relative to the root of the project.
    pub file: PathBuf,
    pub name: String,
}

pub fn path(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join(of)
}

/// Returns all tests of the folder and its subfolders.
pub fn tests_below(folder: &str) -> Vec<Named> {
    let named = |(file, text): (PathBuf, String)| {
        names(&text).into_iter().map(move |name| Named { file: file.clone(), name })
    };
    texts_below(folder).into_iter().flat_map(named).collect()
}

/// Returns the source files of the folder and its subfolders, with paths relative to the root of the project.
pub fn texts_below(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path(folder)).unwrap() {
        let entry = entry.unwrap();
        let file = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            found.extend(texts_below(&file));
        } else if entry.path().extension().is_some_and(|extension| extension == "rs") {
            found.push((PathBuf::from(&file), fs::read_to_string(entry.path()).unwrap()));
        }
    }
    found
}

/// Returns the names of the functions that are marked as tests.
fn names(source: &str) -> Vec<String> {
    let (mut found, mut is_test) = (Vec::new(), false);
    for line in source.lines().map(str::trim) {
        let line = line.strip_prefix("async ").unwrap_or(line);
        if line == "#[test]" || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if let Some(rest) = line.strip_prefix("fn ") {
            let name = rest.split('(').next().filter(|_| is_test);
            found.extend(name.map(str::to_owned));
            is_test = false;
        }
    }
    found
}

#[test]
fn tests_are_found_in_every_form() {
    let source = "fn no() {\n#[test]\nfn a() {\n} fn no\n  #[test]\n  /// Why.\n  #[ignore = \"x\"]\n  fn b(\
                  x in 0..1) {\n#[tokio::test(flavor = \"x\")]\nasync fn c() {\nfn no() {\n";
    assert_eq!(names(source), ["a", "b", "c"]);
}
