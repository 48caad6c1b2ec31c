//! Merges values from files and `--set` as Helm does: maps are merged, everything else is replaced, and a null empties
//! a default.

use serde_json::{Map, Value};

use super::values::Values;

/// Why values cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Error {
    /// A `--set` that is not `path=value`.
    #[error("`{text}`: expected PATH=VALUE, such as image.tag=1.2 or watchNamespaces={{a,b}}")]
    Form { text: String },
    /// A `--set` whose path leads through a value that is not a map.
    #[error("`{text}`: `{path}` is not a map, so nothing can be set below it")]
    NoMap { text: String, path: String },
    /// A value that does not exist, or that has the wrong type.
    #[error("value `{path}`: {message}")]
    Value { path: String, message: String },
    /// Not a map of values.
    #[error("the values must be a map")]
    NotAMap,
}

/// Merges `over` into `under`.
pub fn merge(under: &mut Map<String, Value>, over: Map<String, Value>) {
    for (name, value) in over {
        match (under.get_mut(&name), value) {
            (Some(Value::Object(under)), Value::Object(over)) => merge(under, over),
            (Some(under), Value::Null) if empty_of(under).is_some() => {
                *under = empty_of(under).unwrap_or_default();
            }
            (_, Value::Null) => {
                under.remove(&name);
            }
            (_, value) => {
                under.insert(name, value);
            }
        }
    }
}

/// The type that `true`, `null` and whole numbers get.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Scalars {
    /// The type that they look like.
    Typed,
    /// A string, for tags such as `12`.
    Text,
}

/// Returns the empty value that remains of a removed value, if its type has one.
fn empty_of(value: &Value) -> Option<Value> {
    match value {
        Value::Object(_) => Some(Value::Object(Map::new())),
        Value::Array(_) => Some(Value::Array(Vec::new())),
        Value::String(_) => Some(Value::String(String::new())),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Sets one or more `PATH=VALUE` in `values`. A comma separates them, and `\` escapes the next character.
pub fn set(values: &mut Map<String, Value>, text: &str, scalars: Scalars) -> Result<(), Error> {
    for assignment in split(text, ',') {
        let form = || Error::Form { text: assignment.clone() };
        let mut halves = split(&assignment, '=').into_iter();
        let path = halves.next().filter(|path| !path.is_empty()).ok_or_else(form)?;
        let value = assignment.get(path.len() + 1..).ok_or_else(form)?;
        let names: Vec<String> = split(&path, '.').iter().map(|name| plain(name)).collect();
        if names.iter().any(String::is_empty) {
            return Err(form());
        }
        put(values, &names, scalar_or_list(value, scalars), &assignment)?;
    }
    Ok(())
}

fn put(
    values: &mut Map<String, Value>,
    names: &[String],
    value: Value,
    text: &str,
) -> Result<(), Error> {
    let Some((last, groups)) = names.split_last() else { return Ok(()) };
    let mut level = values;
    for (depth, name) in groups.iter().enumerate() {
        let entry = level.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
        level = entry.as_object_mut().ok_or_else(|| Error::NoMap {
            text: text.to_owned(),
            path: names[..=depth].join("."),
        })?;
    }
    level.insert(last.clone(), value);
    Ok(())
}

/// Parses `{a,b}` as a list, and everything else as a scalar.
fn scalar_or_list(text: &str, scalars: Scalars) -> Value {
    if let Some(items) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        if items.is_empty() {
            return Value::Array(Vec::new());
        }
        return split(items, ',').iter().map(|item| scalar(item, scalars)).collect();
    }
    scalar(text, scalars)
}

fn scalar(text: &str, scalars: Scalars) -> Value {
    match text {
        text if scalars == Scalars::Text => Value::String(plain(text)),
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        "null" => Value::Null,
        // A number with a leading zero is a string, as in `007`.
        number if number == "0" || !number.starts_with('0') => {
            number.parse::<i64>().map_or_else(|_| Value::String(plain(number)), Value::from)
        }
        text => Value::String(plain(text)),
    }
}

/// Splits a text at a character, unless `\` escapes it or `{…}` encloses it.
fn split(text: &str, sign: char) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut is_escaped, mut depth) = (false, 0_u32);
    for letter in text.chars() {
        let is_end = letter == sign && !is_escaped && depth == 0;
        match letter {
            '{' if !is_escaped => depth += 1,
            '}' if !is_escaped => depth = depth.saturating_sub(1),
            _ => {}
        }
        is_escaped = letter == '\\' && !is_escaped;
        if is_end {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push(letter);
        }
    }
    parts
}

/// Returns the text without the `\` of escaped characters.
fn plain(text: &str) -> String {
    let mut letters = text.chars();
    let mut plain = String::new();
    while let Some(letter) = letters.next() {
        plain.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    plain
}

/// Returns the typed form of values that were merged into the defaults.
pub fn typed(values: Map<String, Value>) -> Result<Values, Error> {
    let read = serde_path_to_error::deserialize::<_, Values>(Value::Object(values));
    read.map(Values::named).map_err(|error| {
        let path = error.path().to_string();
        Error::Value { path, message: error.into_inner().to_string() }
    })
}

/// Returns the defaults as a map to merge others into.
pub fn defaults() -> Map<String, Value> {
    match serde_json::to_value(Values::default()) {
        Ok(Value::Object(map)) => map,
        // The defaults are a struct of maps and texts.
        Ok(_) | Err(_) => Map::new(),
    }
}
