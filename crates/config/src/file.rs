//! Configuration files: the old `flink-conf.yaml`, one `key: value` per line, which is not YAML, and
//! `config.yaml`, which is.

use serde_json::{Map, Value};

use super::FlinkConfig;
use super::flink_config::key_in;
use super::structure::list_text;

/// Maximum number of nodes that YAML aliases may expand to: a few lines of nested aliases can expand to millions.
const REPLAYED_MAX: usize = 10_000;

/// Why a file is not valid standard YAML.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ParseError {
    /// Contains the position, with the line.
    pub message: String,
}

/// A key that is also the prefix of another one, which nested YAML cannot represent.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{key}` and `{longer}` cannot both be set: in config.yaml a key is a value or a group")]
pub struct KeyConflict {
    pub key: String,
    pub longer: String,
}

/// Parses the old format as Flink does: `#` starts a comment anywhere, the first `: ` separates, and a line without a
/// pair is skipped (see [`skipped_lines`]).
pub fn parse_flink_conf(text: &str) -> FlinkConfig {
    let text = with_plain_line_ends(text);
    text.lines().filter_map(|line| pair(line).ok().flatten()).collect()
}

/// Flink also ends a line at a lone carriage return.
fn with_plain_line_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Returns whether a value survives a round trip through `flink-conf.yaml`. The format has no escapes, so a comment
/// sign or a line break cuts the value.
pub fn survives_flink_conf(value: &str) -> bool {
    !value.contains(['#', '\n', '\r'])
}

/// Returns the numbers, from 1, of non-empty lines without a `key: value`.
pub fn skipped_lines(text: &str) -> Vec<usize> {
    with_plain_line_ends(text)
        .lines()
        .enumerate()
        .filter(|(_, line)| pair(line).is_err())
        .map(|(index, _)| index + 1)
        .collect()
}

/// Returns `None` for a blank line, an error for one without a pair.
fn pair(line: &str) -> Result<Option<(&str, &str)>, ()> {
    let content = line.split('#').next().unwrap_or_default().trim();
    if content.is_empty() {
        return Ok(None);
    }
    let (key, value) = content.split_once(": ").ok_or(())?;
    let (key, value) = (key.trim(), value.trim());
    if key.is_empty() || value.is_empty() { Err(()) } else { Ok(Some((key, value))) }
}

/// Parses standard YAML and flattens it; a list becomes `a;b`, which every version of Flink reads, and a key without a
/// value is unset. Only `true` and `false` are booleans, so `yes` and `on` stay text.
pub fn parse_config_yaml(text: &str) -> Result<FlinkConfig, ParseError> {
    let options = serde_yaml::options! {
        strict_booleans: true,
        alias_limits: serde_yaml::alias_limits! { max_total_replayed_events: REPLAYED_MAX },
    };
    let root: Option<Map<String, Value>> = serde_yaml::from_str_with_options(text, options)
        .map_err(|error| ParseError { message: error.to_string() })?;
    let mut flat = FlinkConfig::new();
    flatten(&mut flat, None, &root.unwrap_or_default());
    Ok(flat)
}

fn flatten(flat: &mut FlinkConfig, group: Option<&str>, entries: &Map<String, Value>) {
    for (name, value) in entries {
        let key = key_in(group, name);
        match value {
            Value::Null => {}
            Value::Object(inner) => flatten(flat, Some(&key), inner),
            Value::String(text) => flat.set(key, text),
            // Flink 1 accepts no other form in `flink-conf.yaml`.
            Value::Array(items) => flat.set(key, list_text(items)),
            Value::Bool(_) | Value::Number(_) => flat.set(key, value.to_string()),
        }
    }
}

/// Returns the nested form of flat options, with every value as text.
pub fn nest(config: &FlinkConfig) -> Result<Map<String, Value>, KeyConflict> {
    let mut root = Map::new();
    for (key, text) in config.iter() {
        let mut level = &mut root;
        let mut parts: Vec<&str> = key.split('.').collect();
        let last = parts.pop().unwrap_or_default();
        for (depth, part) in parts.iter().enumerate() {
            let entry = level.entry(*part).or_insert_with(|| Value::Object(Map::new()));
            level = entry.as_object_mut().ok_or_else(|| KeyConflict {
                key: parts[..=depth].join("."),
                longer: key.to_owned(),
            })?;
        }
        if level.contains_key(last) {
            // Keys are in order, but `a-b` is between `a` and `a.b`.
            let longer = config.iter().find(|(k, _)| k.starts_with(&format!("{key}.")));
            return Err(KeyConflict {
                key: key.to_owned(),
                longer: longer.map_or_else(String::new, |(k, _)| k.to_owned()),
            });
        }
        let _previous = level.insert(last.to_owned(), Value::String(text.to_owned()));
    }
    Ok(root)
}

#[cfg(test)]
mod tests;
