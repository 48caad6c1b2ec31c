//! Options of a resource's `flinkConfiguration`, which may be written flat or nested.

use serde_json::{Map, Value};

use super::FlinkConfig;
use api::deployment::FlinkConfiguration;

/// Sets an option, replacing it whether it was written flat or nested.
pub fn set_option(configuration: &mut Map<String, Value>, key: &str, text: &str) {
    remove_option(configuration, key);
    configuration.insert(key.to_owned(), Value::from(text));
}

/// Removes an option, and the groups that this leaves empty.
pub fn remove_option(configuration: &mut Map<String, Value>, key: &str) {
    configuration.retain(|name, value| {
        if name == key {
            return false;
        }
        let rest = key.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('.'));
        let (Some(rest), Value::Object(inner)) = (rest, value) else { return true };
        let was_empty = inner.is_empty();
        remove_option(inner, rest);
        was_empty || !inner.is_empty()
    });
}

/// Removes all options below a prefix, which must end in a dot.
pub fn remove_below(configuration: &mut Map<String, Value>, prefix: &str) {
    let flat = FlinkConfig::flatten(&FlinkConfiguration(configuration.clone()));
    for (key, _) in flat.below(prefix) {
        remove_option(configuration, &format!("{prefix}{key}"));
    }
}
