//! Writes the program's bill of materials as `CycloneDX`: `make sbom`.
#![allow(clippy::disallowed_methods, reason = "a program of its own, which reads and writes files")]

mod document;

use std::fs;

use anyhow::{Context as _, bail};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [metadata, lock, to] = arguments.as_slice() else {
        bail!(
            "expected three files: the answer of `cargo metadata`, Cargo.lock, and where to write"
        );
    };
    let read =
        |path: &str| fs::read_to_string(path).with_context(|| format!("while reading `{path}`"));
    let metadata = serde_json::from_str(&read(metadata)?).context("while reading the metadata")?;
    let document = document::of(&metadata, &read(lock)?)?;
    let text = serde_json::to_string_pretty(&document)? + "\n";
    fs::write(to, text).with_context(|| format!("while writing `{to}`"))
}
