//! Manifest files given with `-f`.

use std::path::Path;

use super::failure::Failure;
use api::manifest::{self, Document, Problem};

/// Reads a manifest strictly and reports all its problems at once. `-` is stdin; `input`, if given, replaces the file's
/// content.
pub(super) fn read(file: &Path, input: Option<&str>) -> anyhow::Result<Vec<Document>> {
    let (documents, problems) = match input {
        Some(text) => manifest::read(&shown(file), text),
        None => read_what_can_be(file)?,
    };
    if problems.is_empty() {
        return Ok(documents);
    }
    let lines = problems.iter().map(|problem| format!("\n  {problem}")).collect::<Vec<_>>();
    Err(Failure::new(format!("`{}` cannot be used:{}", shown(file), lines.concat())).into())
}

/// Reads what is valid in a manifest, and the problems of the rest. A missing file is an error.
pub(super) fn read_what_can_be(file: &Path) -> anyhow::Result<(Vec<Document>, Vec<Problem>)> {
    let shown = shown(file);
    let text = if file.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| Failure::new(format!("`{shown}` cannot be read: {error}")))?;
    Ok(manifest::read(&shown, &text))
}

/// Returns the file's name for messages.
pub(super) fn shown(file: &Path) -> String {
    if file.as_os_str() == "-" { "stdin".to_owned() } else { file.display().to_string() }
}
