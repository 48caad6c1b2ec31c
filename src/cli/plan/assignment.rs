//! `--set path=value`: one field of a spec, in Helm's notation.

use serde_json::{Map, Value};

/// The field below which the rest of a path is a single key, including dots.
const CONFIGURATION: &str = "flinkConfiguration";

/// A field and its new value; null removes the field.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::cli) struct Assignment {
    /// Path below `spec`.
    path: Vec<Part>,
    value: Value,
}

#[derive(Clone, Debug, Eq, PartialEq)]
enum Part {
    Field(String),
    Index(usize),
}

/// Maximum array index.
const INDEX_MAX: usize = 1000;

/// Parses `job.parallelism=4`, `spec.job.args[0]=x` or `flinkConfiguration.state.backend.type=rocksdb`.
///
/// A value that is valid JSON is used as such, anything else as text; the value of a Flink option is always text.
pub(in crate::cli) fn parse(text: &str) -> Result<Assignment, String> {
    let (path, value) = text.split_once('=').ok_or("expected PATH=VALUE")?;
    let path = path.trim().trim_start_matches('.');
    let path = path.strip_prefix("spec.").unwrap_or(path);
    let option = path.strip_prefix(CONFIGURATION).and_then(|rest| rest.strip_prefix('.'));
    let parts = match option {
        Some(key) => vec![Part::Field(CONFIGURATION.to_owned()), Part::Field(unquoted(key))],
        None => parts(path)?,
    };
    if parts.iter().any(|part| *part == Part::Field(String::new())) {
        return Err(format!("`{path}` is not the path of a field, such as `job.parallelism`"));
    }
    let read = serde_json::from_str(value).ok();
    let value = match (option, read) {
        (_, Some(Value::Null)) => Value::Null,
        (None, Some(value)) => value,
        (Some(_), Some(Value::String(text))) => Value::from(text),
        (Some(_), _) | (None, None) => Value::from(value),
    };
    Ok(Assignment { path: parts, value })
}

fn unquoted(key: &str) -> String {
    let inner = key.strip_prefix('"').and_then(|key| key.strip_suffix('"'));
    inner.unwrap_or(key).to_owned()
}

fn parts(path: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    for field in path.split('.') {
        let (name, mut rest) = field.split_at(field.find('[').unwrap_or(field.len()));
        parts.push(Part::Field(name.to_owned()));
        while let Some((index, after)) = rest.strip_prefix('[').and_then(|it| it.split_once(']')) {
            let index = index.parse().ok().filter(|index| *index <= INDEX_MAX);
            parts.push(Part::Index(index.ok_or(format!("`{field}` has no valid index"))?));
            rest = after;
        }
        if !rest.is_empty() {
            return Err(format!("`{field}` is not a field"));
        }
    }
    Ok(parts)
}

impl Assignment {
    /// Sets the field in a spec and creates the objects on the way to it.
    pub(in crate::cli) fn put(&self, spec: &mut Value) {
        put(&self.path, &self.value, spec);
    }
}

fn put(path: &[Part], value: &Value, target: &mut Value) {
    let Some((first, rest)) = path.split_first() else {
        *target = value.clone();
        return;
    };
    match first {
        Part::Field(name) => {
            if !target.is_object() {
                *target = Value::Object(Map::new());
            }
            let Some(object) = target.as_object_mut() else { return };
            if rest.is_empty() && value.is_null() {
                object.remove(name);
            } else {
                put(rest, value, object.entry(name.clone()).or_insert(Value::Null));
            }
        }
        Part::Index(index) => {
            if !target.is_array() {
                *target = Value::Array(Vec::new());
            }
            let Some(items) = target.as_array_mut() else { return };
            if items.len() <= *index {
                items.resize(index.saturating_add(1), Value::Null);
            }
            if let Some(item) = items.get_mut(*index) {
                put(rest, value, item);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(texts: &[&str], expected: &Value) {
        let mut spec = json!({"image": "a", "job": {"parallelism": 1, "args": ["x"]},
            "flinkConfiguration": {"a.b": "1"}});
        for text in texts {
            parse(text).unwrap().put(&mut spec);
        }
        assert_eq!(spec, *expected);
    }

    #[test]
    fn a_field_is_set_wherever_it_is() {
        check(
            &["spec.job.parallelism=4", "job.args[1]=--y=z", "image=flink:1.20", "mode=standalone"],
            &json!({"image": "flink:1.20", "job": {"parallelism": 4, "args": ["x", "--y=z"]},
                "flinkConfiguration": {"a.b": "1"}, "mode": "standalone"}),
        );
        check(
            &["taskManager.resources.requests.memory=2Gi", "image=null", "job.args=[]"],
            &json!({"job": {"parallelism": 1, "args": []}, "flinkConfiguration": {"a.b": "1"},
                "taskManager": {"resources": {"requests": {"memory": "2Gi"}}}}),
        );
    }

    #[test]
    fn options_keep_their_dots_and_are_text() {
        check(
            &["flinkConfiguration.taskmanager.numberOfTaskSlots=2", "flinkConfiguration.a.b=null"],
            &json!({"image": "a", "job": {"parallelism": 1, "args": ["x"]},
                "flinkConfiguration": {"taskmanager.numberOfTaskSlots": "2"}}),
        );
    }

    #[test]
    fn what_names_no_field_is_refused() {
        for text in ["job", "=1", "job..x=1", "job.args[x]=1", "job.args[0=1", "job.args[99999]=1"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
