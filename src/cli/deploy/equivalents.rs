//! Equivalent kubectl commands, as a dry run of `deploy` shows them.

use serde_json::Value;

use super::{Checked, Request, Source};
use crate::cli::connection::Connection;
use crate::cli::equivalent;
use clients::cluster::apply::Writer;

/// A line for the file, where it is sent as it stands, else one for each object.
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
        // kubectl refuses objects of other namespaces than the one it is given.
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
    /// Where it comes from, if nothing but its namespace was added to what stands there.
    fn as_written(&self) -> Option<&Source> {
        let Request::Manifest { source: Some(source), .. } = &self.request else { return None };
        let mut written = source.document.value.clone();
        written["metadata"]["namespace"] = Value::from(self.id.namespace.clone());
        (written == self.wanted).then_some(source)
    }
}
