//! Which manager owns which field of an object: what server-side apply needs to know. A list is one field.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use serde_json::{Value, json};

use super::store::Answer;

/// Names from the object to the field.
type Path = Vec<String>;

#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Manager {
    pub(super) name: String,
    /// It has applied the fields, and did not just write them.
    pub(super) applies: bool,
}

/// The fields of one object.
#[derive(Clone, Default, Eq, PartialEq)]
pub(super) struct Owners(BTreeMap<Manager, BTreeSet<Path>>);

impl Owners {
    /// Makes the manager an owner of what it has written.
    pub(super) fn write(&mut self, manager: &Manager, before: &Value, after: &Value) {
        let changed: BTreeSet<Path> = leaves(before)
            .into_iter()
            .chain(leaves(after))
            .filter(|path| field(before, path) != field(after, path))
            .collect();
        self.take_from_others(manager, &changed);
        let is_left = |path: &&Path| field(after, path).is_some();
        let written = changed.iter().filter(is_left).cloned();
        self.0.entry(manager.clone()).or_default().extend(written);
    }

    /// Makes the manager the owner of what it applies, and returns what it no longer does and nobody else owns.
    pub(super) fn apply(
        &mut self,
        manager: &Manager,
        before: &Value,
        applied: &Value,
    ) -> Vec<Path> {
        let fields = leaves(applied);
        let changed = fields.iter().filter(|path| field(before, path) != field(applied, path));
        self.take_from_others(manager, &changed.cloned().collect());
        let former = self.0.insert(manager.clone(), fields.clone()).unwrap_or_default();
        let is_owned = |path: &Path| self.0.values().any(|owned| owned.contains(path));
        former.into_iter().filter(|path| !is_owned(path)).collect()
    }

    fn take_from_others(&mut self, manager: &Manager, fields: &BTreeSet<Path>) {
        for (_, owned) in self.0.iter_mut().filter(|(other, _)| *other != manager) {
            owned.retain(|path| !fields.contains(path));
        }
    }

    /// Returns the conflict of an apply with fields of others that have another value.
    pub(super) fn conflict(
        &self,
        manager: &Manager,
        before: &Value,
        applied: &Value,
    ) -> Option<Answer> {
        let fields = leaves(applied);
        let changed: Vec<&Path> =
            fields.iter().filter(|path| field(before, path) != field(applied, path)).collect();
        let version = before["apiVersion"].as_str().unwrap_or_default();
        let mut causes = Vec::new();
        let mut by_manager = Vec::new();
        for (other, owned) in self.0.iter().filter(|(other, _)| *other != manager) {
            let theirs: Vec<String> = changed
                .iter()
                .filter(|path| owned.contains(**path))
                .map(|path| format!(".{}", path.join(".")))
                .collect();
            if theirs.is_empty() {
                continue;
            }
            let using = if other.applies { String::new() } else { format!(" using {version}") };
            let who = format!("\"{}\"{using}", other.name);
            causes.extend(theirs.iter().map(|field| {
                json!({"reason": "FieldManagerConflict", "field": field,
                       "message": format!("conflict with {who}")})
            }));
            by_manager.push(match &*theirs {
                [field] => format!("conflict with {who}: {field}"),
                _ => format!("conflicts with {who}:\n- {}", theirs.join("\n- ")),
            });
        }
        let count = causes.len();
        let conflicts = if count == 1 { "conflict" } else { "conflicts" };
        (count > 0).then(|| Answer::Failure {
            code: 409,
            reason: "Conflict",
            message: format!("Apply failed with {count} {conflicts}: {}", by_manager.join("\n")),
            details: json!({ "causes": causes }),
        })
    }
}

/// Removes a field.
pub(super) fn remove(object: &mut Value, path: &[String]) {
    let Some((last, parents)) = path.split_last() else { return };
    let parent = parents.iter().try_fold(object, |it, key| it.get_mut(key));
    if let Some(parent) = parent.and_then(Value::as_object_mut) {
        parent.remove(last);
    }
}

fn field<'a>(object: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(object, |it, key| it.get(key)).filter(|it| !it.is_null())
}

/// Returns the fields that can be owned.
fn leaves(object: &Value) -> BTreeSet<Path> {
    let mut found = BTreeSet::new();
    for (key, value) in object.as_object().into_iter().flatten() {
        match key.as_str() {
            "apiVersion" | "kind" => {}
            "metadata" => {
                for part in ["annotations", "finalizers", "labels", "ownerReferences"] {
                    add_leaves(&value[part], vec![key.clone(), part.to_owned()], &mut found);
                }
            }
            _ => add_leaves(value, vec![key.clone()], &mut found),
        }
    }
    found
}

fn add_leaves(value: &Value, path: Path, found: &mut BTreeSet<Path>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                add_leaves(value, [&*path, slice::from_ref(key)].concat(), found);
            }
        }
        Value::Null => {}
        _ => drop(found.insert(path)),
    }
}
