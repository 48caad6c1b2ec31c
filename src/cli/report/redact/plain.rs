//! Removes what looks like a secret from texts: logs line by line, in a pattern layout or as JSON.

use serde_json::{Map, Value};

use super::{ARGUMENTS, DOCUMENT_BYTES_MAX, is_hidden};
use config::secret::{HIDDEN, hide_in, is_secret};

/// Keys under which a JSON log event has its message.
const MESSAGES: [&str; 3] = ["message", "msg", "@message"];
/// How the first and the last line of a private key end.
const PRIVATE_KEY: &str = "PRIVATE KEY-----";

/// What the previous lines imply for the next one.
#[derive(Default)]
struct Before {
    /// Set if the previous line is an argument whose value is secret, as Flink logs each argument of a program on a
    /// line of its own; `true` if that line had a prefix.
    names_secret: Option<bool>,
    is_in_key: bool,
}

/// Returns the text, such as a log, without what looks like a secret.
pub(in crate::cli::report) fn text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut before = Before::default();
    let (mut from, mut to) = (0, 0);
    for whole in text.split_inclusive('\n') {
        let line = whole.trim_end_matches(['\n', '\r']);
        let start = to;
        to += whole.len();
        let Some(event) = event_of(line) else { continue };
        before.show(text.get(from..start).unwrap_or_default(), &mut shown);
        from = to;
        match before.hide_event(&event) {
            Some(hidden) => shown.push_str(&hidden),
            None => shown.push_str(line),
        }
        shown.push_str(whole.get(line.len()..).unwrap_or_default());
    }
    before.show(text.get(from..).unwrap_or_default(), &mut shown);
    shown
}

/// Returns the event of a log line in a JSON layout.
fn event_of(line: &str) -> Option<Map<String, Value>> {
    if !line.starts_with('{') || line.len() > DOCUMENT_BYTES_MAX {
        return None;
    }
    let event: Map<String, Value> = serde_json::from_str(line).ok()?;
    MESSAGES.iter().any(|key| event.get(*key).is_some_and(Value::is_string)).then_some(event)
}

impl Before {
    /// Appends lines that are not events.
    fn show(&mut self, text: &str, shown: &mut String) {
        for whole in hide_in(text).split_inclusive('\n') {
            let line = whole.trim_end_matches(['\n', '\r']);
            if self.is_of_key(line) {
                shown.push_str(HIDDEN);
            } else {
                let (lead, message) = message_of(line);
                if self.is_secret(!lead.trim().is_empty(), message) {
                    shown.push_str(lead);
                    shown.push_str(HIDDEN);
                } else {
                    shown.push_str(&hide_arguments(line));
                }
            }
            shown.push_str(whole.get(line.len()..).unwrap_or_default());
        }
    }

    /// Returns whether the line is part of a private key, between its first and its last line.
    fn is_of_key(&mut self, line: &str) -> bool {
        let line = line.trim();
        if line.ends_with(PRIVATE_KEY) {
            self.is_in_key = line.contains("-----BEGIN");
            return false;
        }
        // A key whose end is missing must not hide the rest of a log.
        self.is_in_key &= line.chars().all(is_of_base64);
        self.is_in_key
    }

    /// Returns whether the message is the value of the argument before it.
    fn is_secret(&mut self, has_lead: bool, message: &str) -> bool {
        let names_secret = names_secret(message.trim_matches(is_separator));
        let before = self.names_secret;
        self.names_secret = names_secret.then_some(has_lead);
        before == Some(has_lead) && !names_secret && !message.contains(HIDDEN)
    }

    /// Returns the event without its secrets; `None` if it has none.
    fn hide_event(&mut self, event: &Map<String, Value>) -> Option<String> {
        let mut hidden = event.clone();
        for (key, value) in &mut hidden {
            match value {
                Value::String(message) if MESSAGES.contains(&key.as_str()) => {
                    if self.is_secret(true, message.trim()) {
                        HIDDEN.clone_into(message);
                    } else {
                        *message = text(message);
                    }
                }
                other => hide_below(other, key),
            }
        }
        if hidden == *event {
            return None;
        }
        Some(serde_json::to_string(&hidden).unwrap_or_else(|_| HIDDEN.to_owned()))
    }
}

/// Hides secrets in a field of an event; `path` consists of the keys on the way to it.
fn hide_below(value: &mut Value, path: &str) {
    match value {
        Value::String(_) | Value::Number(_) if is_hidden(path) => *value = Value::from(HIDDEN),
        Value::String(field) => *field = text(field),
        Value::Array(items) => {
            let mut is_next_hidden = false;
            for item in items {
                let names_secret = item.as_str().is_some_and(names_secret);
                if is_next_hidden && !names_secret {
                    *item = Value::from(HIDDEN);
                } else {
                    hide_below(item, path);
                }
                is_next_hidden = names_secret;
            }
        }
        Value::Object(fields) => {
            for (key, value) in fields {
                hide_below(value, &format!("{path}.{key}"));
            }
        }
        Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
}

/// Returns whether the character occurs in base64.
pub(super) fn is_of_base64(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '+' | '/' | '=')
}

/// Splits a line of a log or a list into its prefix and its message.
fn message_of(line: &str) -> (&str, &str) {
    let from = match line.find(" - ") {
        Some(at) => at + " - ".len(),
        None if line.starts_with("- ") => "- ".len(),
        None => 0,
    };
    let (_, rest) = line.split_at(from);
    let message = rest.trim_start();
    line.split_at(line.len() - message.len())
}

/// Returns whether the argument that follows this one is a secret.
fn names_secret(word: &str) -> bool {
    let name = word.trim_start_matches('-');
    name.len() < word.len()
        && name.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && !word.contains(['=', ' '])
        && is_secret(word)
}

/// Returns whether the character separates arguments, in a command or in a list of them.
fn is_separator(letter: char) -> bool {
    letter.is_whitespace() || "\"'`\\,;()[]{}".contains(letter)
}

/// Returns the line without the word after `--token` and the like, and without the arguments of a job.
fn hide_arguments(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    let mut rest = line;
    let mut is_next_hidden = false;
    while !rest.is_empty() {
        let from = rest.find(|letter| !is_separator(letter)).unwrap_or(rest.len());
        let (between, after) = rest.split_at(from);
        // The list has ended.
        is_next_hidden &= !between.contains([']', ')', '}']);
        let quote = between.chars().next_back().filter(|it| is_next_hidden && "\"'`".contains(*it));
        let end = quote
            .and_then(|quote| after.find(quote))
            .or_else(|| after.find(is_separator))
            .unwrap_or(after.len());
        let (word, after) = after.split_at(end);
        shown.push_str(between);
        if let Some((key, _)) = word.split_once(ARGUMENTS)
            && has_value(word.get(key.len() + ARGUMENTS.len()..).unwrap_or_default(), after)
        {
            shown.extend([key, ARGUMENTS, ": ", HIDDEN]);
            return shown;
        }
        let names_secret = names_secret(word);
        let is_shown = names_secret || !is_next_hidden || word.contains(HIDDEN);
        shown.push_str(if is_shown { word } else { HIDDEN });
        is_next_hidden = names_secret;
        rest = after;
    }
    shown
}

/// Returns whether the arguments of a job follow their key, as in `program-args, --token;x`, which is how Flink logs
/// its configuration.
fn has_value(after_key: &str, rest: &str) -> bool {
    let value = after_key.trim_start_matches([':', '=']);
    let is_pair = value.len() < after_key.len() || after_key.is_empty() && rest.starts_with(", ");
    let rest = rest.trim_start_matches(is_separator);
    is_pair && !(value.is_empty() && rest.is_empty()) && !rest.starts_with(HIDDEN)
}

#[cfg(test)]
mod tests;
