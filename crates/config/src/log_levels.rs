//! The levels of the operator's own log: one for the operator, and separate ones for its modules.

use strum::EnumString;

use super::option::{OptionValue, values_from_str};

/// Target of the operator's own lines.
const OWN: &str = "kubectl_flink";
/// Maximum number of entries in one text.
const ENTRIES_MAX: usize = 100;
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Directives of a filter: each a module and a level.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct LogLevels(Vec<(String, &'static str)>);

impl LogLevels {
    /// Returns the directives in the format of `KUBECTL_FLINK_LOG`.
    pub fn directives(&self) -> String {
        let each = self.0.iter().map(|(module, level)| format!("{module}={level}"));
        each.collect::<Vec<_>>().join(",")
    }
}

impl OptionValue for LogLevels {
    const EXPECTED: &str = "`off`, `error`, `warn`, `info`, `debug` or `trace`, optionally with \
                            `module=level`, separated by commas";

    fn parse(text: &str) -> Option<Self> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let entries = entries.map(|entry| {
            let (module, level) = entry.split_once('=').unwrap_or((OWN, entry));
            let (module, level) = (module.trim(), level.trim());
            let is_module = !module.is_empty()
                && module.chars().all(|c| c.is_ascii_alphanumeric() || "_:-".contains(c));
            let level = LEVELS.into_iter().find(|known| known.eq_ignore_ascii_case(level))?;
            is_module.then(|| (module.to_owned(), level))
        });
        let entries: Vec<(String, &'static str)> = entries.collect::<Option<_>>()?;
        (entries.len() <= ENTRIES_MAX).then_some(Self(entries))
    }
}

/// Format of a log line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, EnumString)]
#[strum(ascii_case_insensitive)]
pub enum LogForm {
    /// One readable line per event.
    #[default]
    Text,
    /// One JSON object per event.
    Json,
}

values_from_str! {
    LogForm: "`text` or `json`";
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directives(text: &str) -> Option<String> {
        LogLevels::parse(text).map(|levels| levels.directives())
    }

    #[test]
    fn a_level_alone_is_the_operators_own() {
        assert_eq!(directives("debug").as_deref(), Some("kubectl_flink=debug"));
        assert_eq!(
            directives(" WARN, kubectl_flink_operator::pods = trace,hyper=off").as_deref(),
            Some("kubectl_flink=warn,kubectl_flink_operator::pods=trace,hyper=off")
        );
        assert_eq!(directives("").as_deref(), Some(""));
    }

    #[test]
    fn what_is_no_level_is_refused() {
        for text in ["inof", "a=b=c", "=info", "kubectl_flink=loud", "[span]=info", "a b=info"] {
            assert_eq!(directives(text), None, "{text}");
        }
        assert_eq!(directives(&"info,".repeat(101)), None);
    }
}
