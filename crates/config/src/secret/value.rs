//! Secrets in structured values: objects of Kubernetes, configurations, and JSON documents within texts.

use serde_json::{Value, json};

use super::names::is_secret;
use super::text::hide_in;
use super::{HIDDEN, is_hidden};

/// Fields that hold the name of the value beside it: of an environment variable, and of an option in Flink's answers.
const NAMES: [&str; 2] = ["name", "key"];
/// Maximum size of a text that is parsed as a document, in bytes, and how many such documents are within each other.
/// Others are searched as texts.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;
const DOCUMENTS_MAX: usize = 4;

/// Hides what is secret in a value: options, environment variables of pod templates, arguments, anything in addresses
/// except host and path, also in JSON documents that are in a text. Options may be nested: `path` is the key so far.
pub fn hide_in_value(value: &mut Value, path: Option<&str>) {
    hide(value, path, DOCUMENTS_MAX);
}

/// Hides secrets in a text that may be a JSON document, which it stays.
pub fn hide_in_document(text: &str) -> String {
    let mut shown = text.to_owned();
    in_text(&mut shown, DOCUMENTS_MAX);
    shown
}

fn hide(value: &mut Value, path: Option<&str>, documents: usize) {
    match value {
        Value::Object(fields) => {
            let named = NAMES.iter().find_map(|name| fields.get(*name)?.as_str());
            let is_named_secret = named.is_some_and(is_secret);
            for (key, value) in fields.iter_mut() {
                let inner = path.map_or_else(|| key.clone(), |path| format!("{path}.{key}"));
                let is_option = path.is_some() || key == "flinkConfiguration";
                let hides = |text: &str| {
                    is_hidden(&inner, text)
                        || is_named_secret && key == "value" && !matches!(text, "true" | "false")
                };
                match value {
                    Value::Array(items) if path.is_none() && is_secret(key) => {
                        for item in items {
                            if item.is_string() || item.is_number() {
                                *item = json!(HIDDEN);
                            } else {
                                hide(item, None, documents);
                            }
                        }
                    }
                    // Outside of options, a key with `secret` names a Secret.
                    Value::Object(_) | Value::Array(_) => {
                        let below = if path.is_some() { inner.as_str() } else { "" };
                        hide(value, is_option.then_some(below), documents);
                    }
                    Value::String(text) if !text.is_empty() && hides(text) => {
                        HIDDEN.clone_into(text);
                    }
                    Value::Number(_) if hides("") => *value = json!(HIDDEN),
                    Value::String(text) => in_text(text, documents),
                    Value::Null | Value::Bool(_) | Value::Number(_) => {}
                }
            }
        }
        Value::Array(items) => {
            let is_secret_list = path.is_some_and(is_secret);
            let mut is_next_hidden = is_secret_list;
            for item in items {
                let Value::String(text) = item else {
                    hide(item, path, documents);
                    continue;
                };
                // `--password` and its value are two arguments.
                let names_secret = text.starts_with('-') && !text.contains('=') && is_secret(text);
                if is_next_hidden && !names_secret {
                    HIDDEN.clone_into(text);
                } else {
                    in_text(text, documents);
                }
                is_next_hidden = names_secret || is_secret_list;
            }
        }
        Value::String(text) => in_text(text, documents),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Hides secrets in a text: a JSON document, an address, or any other.
fn in_text(text: &mut String, documents: usize) {
    if documents > 0
        && text.len() <= DOCUMENT_BYTES_MAX
        && text.trim_start().starts_with(['{', '['])
        && let Ok(document) = serde_json::from_str::<Value>(text)
    {
        let mut shown = document.clone();
        hide(&mut shown, None, documents - 1);
        if shown != document {
            *text = shown.to_string();
        }
        return;
    }
    if let Ok(mut url) = url::Url::parse(text)
        && url.query().is_some()
        && url.has_host()
    {
        url.set_query(Some(HIDDEN));
        *text = url.into();
    }
    *text = hide_in(text);
}
