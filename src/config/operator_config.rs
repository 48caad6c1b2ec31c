//! The operator's own configuration and the defaults it gives to resources.

use crate::api::version::FlinkVersion;

use super::FlinkConfig;

const DEFAULTS: &str = "kubernetes.operator.default-configuration.";

/// What the operator's files say, before any resource.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OperatorConfig {
    pub base: FlinkConfig,
}

impl OperatorConfig {
    pub fn new(base: FlinkConfig) -> Self {
        Self { base }
    }

    /// The configuration of a resource before its own: the base, then the namespace's defaults,
    /// then those of every `vX_Y+` up to `version`, oldest first, then those of exactly `version`.
    /// Defaults are read from the base alone; the prefixed keys themselves stay in the result.
    pub fn defaults(&self, namespace: &str, version: Option<FlinkVersion>) -> FlinkConfig {
        let mut config = self.base.clone();
        let namespace_prefix = format!("{DEFAULTS}namespace.{namespace}.");
        self.overlay_below(&mut config, &namespace_prefix);
        let Some(version) = version else { return config };
        for known in FlinkVersion::ALL.into_iter().filter(|known| *known <= version) {
            self.overlay_below(&mut config, &format!("{DEFAULTS}flink-version.{known}+."));
        }
        self.overlay_below(&mut config, &format!("{DEFAULTS}flink-version.{version}."));
        config
    }

    fn overlay_below(&self, config: &mut FlinkConfig, prefix: &str) {
        for (key, value) in self.base.below(prefix) {
            config.set(key, value);
        }
    }

    /// Keys with defaults for a Flink version that nobody knows: they have no effect.
    pub fn unknown_version_keys(&self) -> Vec<&str> {
        let prefix = format!("{DEFAULTS}flink-version.");
        self.base
            .iter()
            .map(|(key, _)| key)
            .filter(|key| {
                key.strip_prefix(prefix.as_str()).is_some_and(|rest| {
                    let name = rest.split('.').next().unwrap_or_default();
                    let version = name.strip_suffix('+').unwrap_or(name);
                    !FlinkVersion::ALL.iter().any(|known| known.as_str() == version)
                })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
