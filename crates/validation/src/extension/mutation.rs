//! Mutators: their answer becomes another object, or a reason why not.
//!
//! A mutator changes what a user submits before it is validated: spec, labels and annotations. It cannot change the
//! identity of the object, or what Kubernetes and the operator write.

use json_patch::{Patch, PatchOperation};
use serde_json::{Map, Value};

use super::subject::{Kind, Subject};
use api::manifest;

/// Maximum number of operations in a patch.
const OPERATIONS_MAX: usize = 1000;
/// Maximum size of the resulting object, in bytes of JSON: what the API server accepts.
const BYTES_MAX: usize = 1_500_000;
/// Maximum depth of the object while it is patched: what JSON is parsed to.
const DEPTH_MAX: usize = 128;
/// Fields of `metadata` that users may set.
const METADATA: [&str; 2] = ["annotations", "labels"];

/// Applies a mutator's answer to the object: a JSON Patch is a list, a merge patch an object, and `null` means no
/// change.
///
/// # Errors
/// Why the answer cannot be applied.
pub fn mutated(kind: Kind, object: &Value, answer: &Value) -> Result<Value, String> {
    let mut changed = object.clone();
    match answer {
        Value::Null => return Ok(changed),
        Value::Array(operations) => {
            if operations.len() > OPERATIONS_MAX {
                return Err(format!("its patch has more than {OPERATIONS_MAX} operations"));
            }
            let patch: Patch = serde_json::from_value(answer.clone())
                .map_err(|error| format!("its answer is not a JSON Patch: {error}"))?;
            apply(&patch, &mut changed)?;
        }
        Value::Object(_) => json_patch::merge(&mut changed, answer),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Err("its answer is neither a JSON Patch nor an object to merge".to_owned());
        }
    }
    check_identity(object, &changed)?;
    check_form(kind, &changed)?;
    Ok(changed)
}

/// Applies a patch, one operation at a time: each `copy` may double the object, and each `move` may nest it deeper.
fn apply(patch: &[PatchOperation], object: &mut Value) -> Result<(), String> {
    let mut room = BYTES_MAX;
    for (index, operation) in patch.iter().enumerate() {
        // A path that does not exist is an error of the operation itself.
        let value = match operation {
            PatchOperation::Add(it) => Some(&it.value),
            PatchOperation::Replace(it) => Some(&it.value),
            PatchOperation::Move(it) => it.from.resolve(object).ok(),
            PatchOperation::Copy(it) => it.from.resolve(object).ok(),
            PatchOperation::Remove(_) | PatchOperation::Test(_) => None,
        };
        if let Some((bytes, depth)) = value.map(extent) {
            let is_too_large = |limit: usize, unit: &str| {
                format!("operation {index} of its patch makes more than {limit} {unit}")
            };
            room = room.checked_sub(bytes).ok_or_else(|| is_too_large(BYTES_MAX, "bytes"))?;
            if operation.path().count() + depth > DEPTH_MAX {
                return Err(is_too_large(DEPTH_MAX, "levels"));
            }
        }
        json_patch::patch_unsafe(object, std::slice::from_ref(operation)).map_err(
            |mut error| {
                error.operation = index;
                format!("its patch cannot be applied: {error}")
            },
        )?;
    }
    Ok(())
}

/// Returns about how many bytes a value takes as JSON, and how many levels it has.
fn extent(value: &Value) -> (usize, usize) {
    let within = |values: &mut dyn Iterator<Item = (usize, &Value)>| {
        values.fold((2, 1), |(bytes, depth), (name, value)| {
            let (more, below) = extent(value);
            (bytes + name + more + 1, depth.max(below + 1))
        })
    };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => (4, 0),
        Value::String(text) => (text.len() + 2, 0),
        Value::Array(items) => within(&mut items.iter().map(|item| (0, item))),
        Value::Object(fields) => {
            within(&mut fields.iter().map(|(name, field)| (name.len() + 3, field)))
        }
    }
}

/// Checks that only spec, labels and annotations differ.
fn check_identity(before: &Value, after: &Value) -> Result<(), String> {
    let empty = Map::new();
    let fields = |value| Value::as_object(value).unwrap_or(&empty);
    let metadata = |value: &Value| value.get("metadata").and_then(Value::as_object).cloned();
    let (before_metadata, after_metadata) =
        (metadata(before).unwrap_or_default(), metadata(after).unwrap_or_default());
    let changed = differing(fields(before), fields(after))
        .filter(|name| !["spec", "metadata"].contains(name))
        .map(str::to_owned);
    let changed_metadata = differing(&before_metadata, &after_metadata)
        .filter(|name| !METADATA.contains(name))
        .map(|name| format!("metadata.{name}"));
    match changed.chain(changed_metadata).next() {
        Some(field) => Err(format!(
            "it changes `{field}`: a mutator can only change the spec, labels and annotations"
        )),
        None => Ok(()),
    }
}

fn differing<'m>(
    before: &'m Map<String, Value>,
    after: &'m Map<String, Value>,
) -> impl Iterator<Item = &'m str> {
    let removed = before.keys().filter(|name| !after.contains_key(*name));
    let others = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
    removed.chain(others.map(|(name, _)| name)).map(String::as_str)
}

/// Checks that the object is still one of its kind, with fields that the kind has.
fn check_form(kind: Kind, object: &Value) -> Result<(), String> {
    let text = Subject::new(kind, object).object.to_string();
    if text.len() > BYTES_MAX {
        return Err(format!("the object it produces is larger than {BYTES_MAX} bytes"));
    }
    manifest::parse("", &text).map(drop).map_err(|problems| {
        let told = problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message));
        format!(
            "the object it produces is not a valid {}: {}",
            kind.into_str(),
            told.collect::<Vec<_>>().join("; ")
        )
    })
}

/// Returns the merge patch that turns `before` into `after`; empty if they are equal.
pub fn difference(before: &Value, after: &Value) -> Value {
    let (Value::Object(before), Value::Object(after)) = (before, after) else {
        return after.clone();
    };
    let mut patch = Map::new();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in after {
        match before.get(name) {
            Some(same) if same == value => {}
            Some(other) => drop(patch.insert(name.clone(), difference(other, value))),
            None => drop(patch.insert(name.clone(), value.clone())),
        }
    }
    Value::Object(patch)
}

#[cfg(test)]
mod tests;
