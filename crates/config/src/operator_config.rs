//! The operator's own configuration and the defaults it gives to resources.

use api::version::FlinkVersion;

use super::FlinkConfig;
use super::layers::Layer;

/// Packages of `java.base` and others that Flink accesses by reflection. A Flink image opens them in its own
/// configuration file, which the cluster's ConfigMap hides: without them no job starts on Java 17.
const JAVA_MODULE_OPTIONS: [&str; 15] = [
    "--add-exports=java.base/sun.net.util=ALL-UNNAMED",
    "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
    "--add-exports=java.security.jgss/sun.security.krb5=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.text=ALL-UNNAMED",
    "--add-opens=java.base/java.time=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.atomic=ALL-UNNAMED",
    "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED",
];

const DEFAULTS: &str = "kubernetes.operator.default-configuration.";

/// The configuration in the operator's files, before any resource.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct OperatorConfig {
    pub base: FlinkConfig,
}

impl OperatorConfig {
    pub fn new(base: FlinkConfig) -> Self {
        Self { base }
    }

    /// Returns the configuration of a resource before its own: what every cluster of the version needs, the base, then
    /// the namespace's defaults, then those of every `vX_Y+` up to `version`, oldest first, then those of exactly
    /// `version`. Defaults are read from the base alone; the prefixed keys themselves stay in the result.
    pub fn defaults(&self, namespace: &str, version: Option<FlinkVersion>) -> FlinkConfig {
        let mut config = built_in(version);
        config.overlay(&self.base);
        for prefix in prefixes(Some(namespace), version) {
            for (key, value) in self.base.below(&format!("{DEFAULTS}{prefix}.")) {
                config.set(key, value);
            }
        }
        config
    }

    /// Returns the layers of [`Self::defaults`], each of which overrides those before it. `base` has the layers of the
    /// base.
    pub fn layers(
        &self,
        base: Vec<Layer>,
        namespace: Option<&str>,
        version: Option<FlinkVersion>,
    ) -> Vec<Layer> {
        let of = |prefix: String| {
            let name = format!("defaults of {}", prefix.replacen('.', " ", 1));
            let config = self.base.below(&format!("{DEFAULTS}{prefix}.")).collect();
            Layer { name, config }
        };
        let mut layers = vec![Layer { name: "built in".to_owned(), config: built_in(version) }];
        layers.extend(base);
        layers.extend(prefixes(namespace, version).map(of));
        layers
    }

    /// Returns keys with defaults for an unknown Flink version: they have no effect.
    pub fn unknown_version_keys(&self) -> Vec<&str> {
        let prefix = format!("{DEFAULTS}flink-version.");
        self.base
            .iter()
            .map(|(key, _)| key)
            .filter(|key| {
                key.strip_prefix(prefix.as_str()).is_some_and(|rest| {
                    let name = rest.split('.').next().unwrap_or_default();
                    let version = name.strip_suffix('+').unwrap_or(name);
                    !FlinkVersion::ALL.iter().any(|known| known.into_str() == version)
                })
            })
            .collect()
    }
}

/// Returns the prefixes of the defaults of a resource, by increasing priority.
fn prefixes(
    namespace: Option<&str>,
    version: Option<FlinkVersion>,
) -> impl Iterator<Item = String> {
    let of_namespace = namespace.map(|name| format!("namespace.{name}"));
    let known = FlinkVersion::ALL.iter().copied().filter(move |known| version >= Some(*known));
    let up_to = known.map(|known| format!("flink-version.{known}+"));
    let exact = version.map(|version| format!("flink-version.{version}"));
    of_namespace.into_iter().chain(up_to).chain(exact)
}

/// Returns the defaults from the configuration file of the Java operator. Flink before 1.18 does not run on Java 17;
/// 1.19 has a key that leaves the user's own options alone.
fn built_in(version: Option<FlinkVersion>) -> FlinkConfig {
    let key = match version {
        Some(version) if version >= FlinkVersion::V1_19 => "env.java.default-opts.all",
        Some(FlinkVersion::V1_18) => "env.java.opts.all",
        _ => return FlinkConfig::new(),
    };
    [(key, JAVA_MODULE_OPTIONS.join(" "))].into_iter().collect()
}

#[cfg(test)]
mod tests;
