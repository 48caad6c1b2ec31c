//! The operator's own options as a table: the default of each, how its value is parsed, and when a change takes effect.

use super::FlinkConfig;
use super::option::{ConfigOption, InvalidValue, OptionValue};
use super::options as o;
use super::secret::is_secret;

/// Prefix of defaults for resources, by namespace or Flink version.
const DEFAULTS: &str = "kubernetes.operator.default-configuration.";

/// When a new value takes effect.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// With the next pass over each resource.
    Live,
    /// When the cluster of a resource is next started.
    AtDeploy,
    /// When the operator is restarted.
    AtStart,
    /// Never: an option of the Java operator that has no effect here.
    Nowhere,
}

impl Effect {
    /// Returns a short text for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::AtDeploy => "at deploy",
            Self::AtStart => "at start",
            Self::Nowhere => "never",
        }
    }
}

/// One option.
#[derive(Debug)]
pub struct Known {
    pub key: &'static str,
    /// Older names, which are used unless the key itself is set.
    pub former_keys: &'static [&'static str],
    pub default: Option<&'static str>,
    pub effect: Effect,
    /// A description in one line.
    pub description: &'static str,
    /// The format of a value.
    pub expected: &'static str,
    /// Checks that its value in a configuration can be parsed.
    pub check: fn(&FlinkConfig) -> Result<(), InvalidValue>,
}

impl Known {
    /// Returns the entry of an option; `check` reads the same option.
    pub const fn new<T: OptionValue>(
        option: &ConfigOption<T>,
        effect: Effect,
        description: &'static str,
        check: fn(&FlinkConfig) -> Result<(), InvalidValue>,
    ) -> Self {
        Self {
            key: option.key(),
            former_keys: option.former_keys(),
            default: option.default_text(),
            effect,
            description,
            expected: T::EXPECTED,
            check,
        }
    }

    /// Returns every name of the option, the current one first.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.key).chain(self.former_keys.iter().copied())
    }
}

/// Returns every typed option of the operator and its autoscaler.
pub fn all() -> impl Iterator<Item = &'static Known> {
    let tables = [
        o::OF_RESOURCES,
        o::OF_OPERATOR,
        o::OF_JARS,
        o::autoscaler::TABLE,
        o::blue_green::TABLE,
        o::node_notice::TABLE,
        o::metrics::TABLE,
    ];
    tables.into_iter().flatten()
}

/// Returns the option with this name, current or former.
pub fn find(key: &str) -> Option<&'static Known> {
    named(all(), key)
}

fn named(mut options: impl Iterator<Item = &'static Known>, key: &str) -> Option<&'static Known> {
    options.find(|known| known.keys().any(|name| name == key))
}

/// Returns the key without the part that makes it a default of a namespace or Flink version.
pub(super) fn plain(key: &str) -> &str {
    let Some(below) = key.strip_prefix(DEFAULTS) else { return key };
    below.splitn(3, '.').nth(2).unwrap_or(key)
}

/// Returns options of the Java operator that are set but have no effect here, and what they do there.
pub fn without_effect(config: &FlinkConfig) -> Vec<(&str, &'static str)> {
    let what = |key| {
        let known = named(all(), plain(key))?;
        (known.effect == Effect::Nowhere).then_some((key, known.description))
    };
    config.iter().filter_map(|(key, _)| what(key)).collect()
}

/// Returns values that do not have their option's type, including defaults of a namespace or version.
pub fn wrong_values(config: &FlinkConfig) -> Vec<InvalidValue> {
    let mut found = Vec::new();
    for (key, text) in config.iter() {
        let name = plain(key);
        let Some(known) = named(all().chain(o::OF_EACH_LOOK), name) else { continue };
        if known.effect == Effect::Nowhere {
            continue;
        }
        let alone = FlinkConfig::from_iter([(known.key, text)]);
        let Err(invalid) = (known.check)(&alone) else { continue };
        let wrong = InvalidValue { key: key.to_owned(), ..invalid };
        found.push(if is_secret(key) { wrong.hidden() } else { wrong });
    }
    found
}

#[cfg(test)]
mod tests;
