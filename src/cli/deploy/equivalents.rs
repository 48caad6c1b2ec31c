//! Equivalent kubectl commands, as shown by a dry run of `deploy`.

use serde_json::Value;

use super::{Checked, Request, Source};
use crate::cli::connection::Connection;
use crate::cli::equivalent;
use clients::cluster::apply::Writer;

/// Returns one command for the file if it is sent unchanged, else one for each object.
pub(super) fn lines(
    checked: &[Checked],
    connection: &Connection,
    writer: Writer<'_>,
) -> Vec<String> {
    let as_written = checked.iter().map(Checked::as_written).collect::<Option<Vec<_>>>();
    if let Some(sources @ [first, ..]) = as_written.as_deref() {
        let stated = || sources.iter().map(|source| source.namespace());
        let namespace = connection.namespace.as_str();
        if stated().all(|it| it.is_some()) {
            return vec![equivalent::apply_file(&first.file, None, writer)];
        }
        // kubectl refuses objects whose namespace differs from the one on the command line.
        if stated().flatten().all(|it| it == namespace) {
            return vec![equivalent::apply_file(&first.file, Some(namespace), writer)];
        }
    }
    let of = |checked: &Checked| match (&checked.request, &checked.present) {
        (Request::Patch { patch, .. }, Some(present)) => equivalent::patch(present, patch),
        _ => equivalent::apply(&checked.wanted, writer),
    };
    checked.iter().map(of).collect()
}

impl Source {
    fn namespace(&self) -> Option<&str> {
        self.document.value.pointer("/metadata/namespace").and_then(Value::as_str)
    }
}

impl Checked {
    /// Returns the source if at most the namespace was added to the written object.
    fn as_written(&self) -> Option<&Source> {
        let Request::Manifest { source: Some(source), .. } = &self.request else { return None };
        let mut written = source.document.value.clone();
        written["metadata"]["namespace"] = Value::from(self.id.namespace.clone());
        (written == self.wanted).then_some(source)
    }
}
