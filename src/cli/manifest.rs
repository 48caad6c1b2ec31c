//! Manifest files, as `-f` names them.

use std::path::Path;

use super::failure::Failure;
use api::manifest::{self, Document, Problem};

/// Reads a manifest strictly; `-` is stdin, or `input` where there is one. All that is wrong with it is told at once.
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

/// Reads what can be read of a manifest beside what is wrong with it. That there is no such file is an error.
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

/// The file as messages name it.
pub(super) fn shown(file: &Path) -> String {
    if file.as_os_str() == "-" { "stdin".to_owned() } else { file.display().to_string() }
}
