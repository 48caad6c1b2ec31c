//! Manifest files, as `-f` names them.

use std::path::Path;

use super::failure::Failure;
use api::manifest::{self, Document, Problem};

/// Reads a manifest strictly; `-` is stdin. All that is wrong with it is told at once.
pub(super) fn read(file: &Path) -> anyhow::Result<Vec<Document>> {
    try_read(file)?.map_err(|problems| {
        let lines = problems.iter().map(|problem| format!("\n  {problem}")).collect::<Vec<_>>();
        Failure::new(format!("`{}` cannot be used:{}", shown(file), lines.concat())).into()
    })
}

/// The same, for who goes on with other files: only that the file cannot be read is an error.
pub(super) fn try_read(file: &Path) -> anyhow::Result<Result<Vec<Document>, Vec<Problem>>> {
    let shown = shown(file);
    let text = if file.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.map_err(|error| Failure::new(format!("`{shown}` cannot be read: {error}")))?;
    Ok(manifest::parse(&shown, &text))
}

/// The file as messages name it.
pub(super) fn shown(file: &Path) -> String {
    if file.as_os_str() == "-" { "stdin".to_owned() } else { file.display().to_string() }
}
