//! A Flink configuration: keys and texts, ordered by key.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use api::deployment::FlinkConfiguration;

use super::option::{ConfigOption, InvalidValue, OptionValue};
use super::structure::join_map;

/// Prefix of keys that control the operator and never reach Flink.
pub(super) const OPERATOR_PREFIX: &str = "kubernetes.operator.";
/// Prefix of keys that control the autoscaler and never reach Flink.
pub(super) const AUTOSCALER_PREFIX: &str = "job.autoscaler.";

/// Flat options. Every value is text, as in Flink.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct FlinkConfig(BTreeMap<String, String>);

impl FlinkConfig {
    pub fn new() -> Self {
        Self::default()
    }

    /// Flattens what a user wrote: path parts joined with dots, lists with `;`. An empty list gives no key; a later key
    /// overwrites an earlier one that flattens to the same.
    pub fn flatten(configuration: &FlinkConfiguration) -> Self {
        let mut flat = Self::new();
        flat.flatten_into(None, &configuration.0);
        flat
    }

    fn flatten_into(&mut self, group: Option<&str>, entries: &Map<String, Value>) {
        for (name, value) in entries {
            let key = key_in(group, name);
            match value {
                Value::Object(inner) => self.flatten_into(Some(&key), inner),
                Value::Array(items) if items.is_empty() => {}
                Value::Array(items) => {
                    self.set(key, items.iter().map(text_of).collect::<Vec<_>>().join(";"));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                    self.set(key, text_of(value));
                }
            }
        }
    }

    /// Returns the text of exactly this key.
    pub fn get_text(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        let _previous = self.0.insert(key.into(), value.into());
    }

    pub fn remove(&mut self, key: &str) -> Option<String> {
        self.0.remove(key)
    }

    pub fn contains(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Returns keys and texts, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Overwrites entries of this configuration with those of `other`.
    pub fn overlay(&mut self, other: &Self) {
        for (key, value) in other.iter() {
            self.set(key, value);
        }
    }

    /// Keeps the entries whose key `keep` accepts.
    pub fn retain(&mut self, mut keep: impl FnMut(&str) -> bool) {
        self.0.retain(|key, _| keep(key));
    }

    /// Returns the entries below `prefix`, which must end in a dot, without the prefix.
    pub fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.iter().filter_map(move |(key, value)| {
            key.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(|rest| (rest, value))
        })
    }

    /// Returns whether the option is set under any of its names, even to an empty text.
    pub fn is_set<T: OptionValue>(&self, option: &ConfigOption<T>) -> bool {
        self.find_entry(option).is_some() || self.find_map(option).is_some()
    }

    /// Returns the option's text, under whichever of its names it is set; the current name wins.
    pub fn text_of<T: OptionValue>(&self, option: &ConfigOption<T>) -> Option<&str> {
        self.find_entry(option).map(|(_, text)| text)
    }

    fn find_entry<T: OptionValue>(&self, option: &ConfigOption<T>) -> Option<(&'static str, &str)> {
        option.keys().find_map(|key| self.get_text(key).map(|text| (key, text)))
    }

    /// Returns the entries below a map's own key, which Flink also reads if that key is not set.
    fn find_map<T: OptionValue>(&self, option: &ConfigOption<T>) -> Option<(&'static str, String)> {
        let text = |key| join_map(self.below(&format!("{key}.")));
        let mut maps = option.keys().filter(|_| T::IS_MAP).map(|key| (key, text(key)));
        maps.find(|(_, text)| !text.is_empty())
    }

    /// Returns the option's value, or its default if it is not set.
    pub fn find<T: OptionValue>(
        &self,
        option: &ConfigOption<T>,
    ) -> Result<Option<T>, InvalidValue> {
        if let Some((key, text)) = self.find_entry(option) {
            return option.parse(key, text).map(Some);
        }
        if let Some((key, text)) = self.find_map(option) {
            return option.parse(key, &text).map(Some);
        }
        option.default_text().map(|default| option.parse(option.key(), default)).transpose()
    }

    /// Returns the option's value or its default; without either, an error that asks for a value.
    pub fn get<T: OptionValue>(&self, option: &ConfigOption<T>) -> Result<T, InvalidValue> {
        self.find(option)?.ok_or_else(|| {
            InvalidValue::new(option.key(), "", format!("{}, and it has no default", T::EXPECTED))
        })
    }

    /// Sets the option under its current name and removes its older names, so that no other value can win.
    pub fn force<T: OptionValue>(&mut self, option: &ConfigOption<T>, value: impl Into<String>) {
        self.unset(option);
        self.set(option.key(), value);
    }

    /// Sets the option unless it is set under any of its names.
    pub fn set_default<T: OptionValue>(
        &mut self,
        option: &ConfigOption<T>,
        value: impl Into<String>,
    ) {
        if !self.is_set(option) {
            self.set(option.key(), value);
        }
    }

    /// Removes the option under all of its names.
    pub fn unset<T: OptionValue>(&mut self, option: &ConfigOption<T>) {
        for key in option.keys() {
            let _previous = self.remove(key);
            if T::IS_MAP {
                let group = format!("{key}.");
                self.retain(|other| !other.starts_with(&group));
            }
        }
    }
}

impl<K: Into<String>, V: Into<String>> FromIterator<(K, V)> for FlinkConfig {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        Self(entries.into_iter().map(|(key, value)| (key.into(), value.into())).collect())
    }
}

/// Returns the flat key of `name` in a group. In Flink's reader a name may be empty too, so `.a` is the entry `a` of
/// the group with the empty name.
pub(super) fn key_in(group: Option<&str>, name: &str) -> String {
    group.map_or_else(|| name.to_owned(), |group| format!("{group}.{name}"))
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests;
