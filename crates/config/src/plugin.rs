//! Options of plugins, `kubernetes.operator.plugins.<kind>.<name>.<option>`, and what listeners, validators and
//! mutators have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::FlinkConfig;
use super::option::OptionValue;

/// Default timeout of one call of a plugin.
pub const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum timeout that the options may set.
pub const TIMEOUT_MAX: Duration = Duration::from_mins(1);

/// The kind of plugins that are notified of events.
pub const LISTENERS: &str = "listeners";
/// The option that names a Java class.
const CLASS: &str = "class";

type Headers = BTreeMap<String, String>;

/// Why a plugin cannot be started.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("operator configuration `{key}`: {problem}")]
pub struct InvalidPlugin {
    pub key: String,
    pub problem: String,
}

/// An address at which plugins are called.
#[derive(Clone, Debug, PartialEq)]
pub struct Endpoint {
    pub url: url::Url,
    /// May be secret.
    pub headers: Vec<(String, String)>,
    /// Timeout of one call.
    pub timeout: Duration,
}

/// The options of one plugin.
#[derive(Clone, Copy, Debug)]
pub struct Options<'c> {
    config: &'c FlinkConfig,
    /// `listeners`, `validators` or `mutators`.
    kind: &'static str,
    pub name: &'c str,
}

impl<'c> Options<'c> {
    /// Reads every plugin of a kind, in the order of their names.
    ///
    /// # Errors
    /// Everything that is wrong with them, so that one edit can fix it.
    pub fn read_all<T>(
        config: &'c FlinkConfig,
        kind: &'static str,
        read: impl Fn(Self) -> Result<T, InvalidPlugin>,
    ) -> Result<Vec<T>, Vec<InvalidPlugin>> {
        let prefix = format!("kubernetes.operator.plugins.{kind}.");
        let names: BTreeSet<&'c str> = config
            .iter()
            .filter_map(|(key, _)| key.strip_prefix(&prefix)?.split_once('.'))
            .map(|(name, _)| name)
            .collect();
        let (mut plugins, mut problems) = (Vec::new(), Vec::new());
        for name in names {
            match read(Self { config, kind, name }) {
                Ok(plugin) => plugins.push(plugin),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(plugins) } else { Err(problems) }
    }

    /// Returns the full key of an option.
    fn key(&self, option: &str) -> String {
        format!("kubernetes.operator.plugins.{}.{}.{option}", self.kind, self.name)
    }

    pub fn invalid(&self, option: &str, problem: impl Into<String>) -> InvalidPlugin {
        InvalidPlugin { key: self.key(option), problem: problem.into() }
    }

    /// Returns the value of an option.
    pub fn text(&self, option: &str) -> Option<&'c str> {
        self.config.get_text(&self.key(option)).map(str::trim)
    }

    /// Returns whether there is only a Java class with its own options. The configuration may be shared with the Java
    /// operator.
    pub fn is_java_alone(&self) -> bool {
        self.text(CLASS).is_some() && self.text("url").or(self.text("command")).is_none()
    }

    /// Rejects unknown options.
    pub fn expect_only(&self, known: &[&str]) -> Result<(), InvalidPlugin> {
        let prefix = self.key("");
        let mut stated = self.config.below(&prefix).map(|(option, _)| option);
        // A listener's class is reported differently: see [`java_listeners`].
        let is_pointed_out = |option: &str| self.kind == LISTENERS && option == CLASS;
        let is_unknown = |option: &&str| !known.contains(option) && !is_pointed_out(option);
        let Some(option) = stated.find(is_unknown) else { return Ok(()) };
        let problem = if option == CLASS {
            let ways = known.iter().filter(|way| ["url", "expression"].contains(way));
            let ways: Vec<String> = ways.map(|way| format!("`{way}`")).collect();
            format!("Java classes cannot be loaded here; set {} instead", ways.join(" or "))
        } else {
            format!("unknown option: expected one of {}", known.join(", "))
        };
        Err(self.invalid(option, problem))
    }

    /// Reads `timeout`.
    pub fn timeout(&self) -> Result<Duration, InvalidPlugin> {
        let Some(text) = self.text("timeout") else { return Ok(TIMEOUT) };
        <Duration as OptionValue>::parse(text)
            .filter(|timeout| !timeout.is_zero() && *timeout <= TIMEOUT_MAX)
            .ok_or_else(|| {
                self.invalid("timeout", "expected a duration of at most 1 min, such as `5 s`")
            })
    }

    /// Reads `url` with `headers` and `timeout`.
    pub fn endpoint(&self, url: &str) -> Result<Endpoint, InvalidPlugin> {
        let url = url::Url::parse(url)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
            .ok_or_else(|| self.invalid("url", "expected an http or https URL"))?;
        let headers = Headers::parse(self.text("headers").unwrap_or_default())
            .ok_or_else(|| self.invalid("headers", format!("expected {}", Headers::EXPECTED)))?;
        Ok(Endpoint { url, headers: headers.into_iter().collect(), timeout: self.timeout()? })
    }
}

/// Returns the remarks on Java classes of listeners, which have no effect. Unlike a validator that is not called, a
/// listener that is not called cannot let anything invalid happen.
pub fn java_listeners(config: &FlinkConfig) -> Vec<String> {
    let prefix = format!("kubernetes.operator.plugins.{LISTENERS}.");
    let keys = config.below(&prefix).map(|(key, _)| key);
    let names = keys.filter_map(|key| key.split_once('.').filter(|(_, option)| *option == CLASS));
    let told = names.map(|(name, _)| {
        format!(
            "`{prefix}{name}.{CLASS}` has no effect: Java classes cannot be loaded here; set \
             `{prefix}{name}.url` or `{prefix}{name}.command` to receive events"
        )
    });
    told.collect()
}
