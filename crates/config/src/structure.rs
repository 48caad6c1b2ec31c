//! Lists and maps as one text: `a;b;'c;d'` and `k1:v1,k2:v2`, with Flink's quoting.
//!
//! The rules are those of Flink's `StructuredOptionsSplitter`. Text written here is parsed back unchanged: besides
//! elements with separators, elements that would not survive unquoted (empty, blank at an edge, beginning like a YAML
//! list or map) are quoted as well.

use std::collections::BTreeMap;

/// Returns the elements of a list: a YAML flow list, or elements separated by `;`. A comma does not separate. `None` if
/// quotes are unbalanced.
pub fn split_list(text: &str) -> Option<Vec<String>> {
    if text.trim_start().starts_with('[')
        && let Some(items) = flow::<Vec<serde_json::Value>>(text)
    {
        return Some(items.iter().map(scalar_text).collect());
    }
    split(text, ';')
}

/// Returns the entries of a map: a YAML flow map, or `k:v` entries separated by `,`. `None` if an entry is not one key
/// and one value, or if quotes are unbalanced.
pub fn split_map(text: &str) -> Option<BTreeMap<String, String>> {
    if text.trim_start().starts_with('{')
        && let Some(entries) = flow::<serde_json::Map<String, serde_json::Value>>(text)
    {
        return Some(entries.iter().map(|(k, v)| (k.clone(), scalar_text(v))).collect());
    }
    split(text, ',')?
        .into_iter()
        .map(|entry| match <[String; 2]>::try_from(split(&entry, ':')?) {
            Ok([key, value]) => Some((key, value)),
            Err(_) => None,
        })
        .collect()
}

/// Joins a list into one text.
pub fn join_list<T: AsRef<str>>(items: &[T]) -> String {
    items.iter().map(|item| quoted(item.as_ref(), ';')).collect::<Vec<_>>().join(";")
}

/// Joins a YAML list into one text, with Flink's form for maps in it.
pub fn list_text(items: &[serde_json::Value]) -> String {
    let text = |item: &serde_json::Value| match item.as_object() {
        Some(entries) => join_map(entries.iter().map(|(key, value)| (key, scalar_text(value)))),
        None => scalar_text(item),
    };
    join_list(&items.iter().map(text).collect::<Vec<_>>())
}

/// Joins a map into one text, ordered by key.
pub fn join_map<K: AsRef<str>, V: AsRef<str>>(entries: impl IntoIterator<Item = (K, V)>) -> String {
    entries
        .into_iter()
        .map(|(key, value)| {
            quoted(&format!("{}:{}", quoted(key.as_ref(), ':'), quoted(value.as_ref(), ':')), ',')
        })
        .collect::<Vec<_>>()
        .join(",")
}

fn flow<T: serde::de::DeserializeOwned>(text: &str) -> Option<T> {
    serde_yaml::from_str_with_options(text, serde_yaml::options! { strict_booleans: true }).ok()
}

fn scalar_text(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn quoted(text: &str, separator: char) -> String {
    let is_bare = !text.is_empty()
        && text.trim() == text
        && !text.contains([separator, '\'', '"'])
        && !text.starts_with(['[', '{'])
        // Flink 2 tries to read a YAML list first.
        && text != "-"
        && !text.starts_with("- ");
    if is_bare { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}

fn split(text: &str, separator: char) -> Option<Vec<String>> {
    let mut items = Vec::new();
    let mut rest = text.trim_start();
    let mut after_separator = false;
    while let Some(first) = rest.chars().next() {
        if first == separator {
            // Flink recognizes an empty element only between two separators.
            if after_separator {
                items.push(String::new());
            }
            rest = &rest[first.len_utf8()..];
            after_separator = true;
        } else if first == '\'' || first == '"' {
            let (item, after) = unquote(&rest[first.len_utf8()..], first)?;
            items.push(item);
            rest = after.trim_start();
            if !rest.is_empty() && !rest.starts_with(separator) {
                return None;
            }
            after_separator = false;
        } else {
            let end = rest.find(separator).unwrap_or(rest.len());
            items.push(rest[..end].trim().to_owned());
            rest = &rest[end..];
            after_separator = false;
        }
        rest = rest.trim_start();
    }
    Some(items)
}

/// Reads up to the closing quote; a doubled quote stands for one.
fn unquote(text: &str, quote: char) -> Option<(String, &str)> {
    let mut item = String::new();
    let mut rest = text;
    loop {
        let end = rest.find(quote)?;
        item.push_str(&rest[..end]);
        rest = &rest[end + quote.len_utf8()..];
        match rest.strip_prefix(quote) {
            Some(after) => {
                item.push(quote);
                rest = after;
            }
            None => return Some((item, rest)),
        }
    }
}

#[cfg(test)]
mod tests;
