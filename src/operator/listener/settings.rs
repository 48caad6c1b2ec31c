//! How listeners are configured.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::config::FlinkConfig;
use crate::config::option::OptionValue;

const PREFIX: &str = "kubernetes.operator.plugins.listeners.";
const TIMEOUT: Duration = Duration::from_secs(5);
const QUEUE: usize = 1_000;
const QUEUE_MAX: usize = 100_000;

type Headers = BTreeMap<String, String>;

/// One listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub name: String,
    pub target: Target,
    /// For one try to deliver one event.
    pub timeout: Duration,
    /// Events that may wait.
    pub queue: usize,
}

/// Who is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// `POST` with content type `application/cloudevents+json`; any 2xx is success.
    Http { url: url::Url, headers: Vec<(String, String)> },
    /// Program and arguments, started once an event with the event on its standard input; exit code
    /// 0 is success.
    Command(Vec<String>),
}

/// Why a listener cannot be started.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("operator configuration `{key}`: {problem}")]
pub struct InvalidListener {
    pub key: String,
    pub problem: String,
}

impl Settings {
    /// The listeners of the operator's configuration, in the order of their names.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn all(config: &FlinkConfig) -> Result<Vec<Self>, Vec<InvalidListener>> {
        let names: BTreeSet<&str> = config
            .below(PREFIX)
            .filter_map(|(key, _)| key.split_once('.').map(|(name, _)| name))
            .collect();
        let (mut settings, mut problems) = (Vec::new(), Vec::new());
        for name in names {
            match Self::of(name, config) {
                Ok(listener) => settings.push(listener),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(settings) } else { Err(problems) }
    }

    fn of(name: &str, config: &FlinkConfig) -> Result<Self, InvalidListener> {
        let key = |option: &str| format!("{PREFIX}{name}.{option}");
        let invalid = |option: &str, problem: String| InvalidListener { key: key(option), problem };
        let text = |option: &str| config.get_text(&key(option)).map(str::trim);
        let known = ["url", "headers", "command", "timeout", "queue"];
        let prefix = key("");
        let stated = config.below(&prefix).map(|(option, _)| option.to_owned());
        if let Some(option) = stated.into_iter().find(|option| !known.contains(&option.as_str())) {
            let problem = if option == "class" {
                "Java classes cannot be loaded here; set `url` or `command` instead".to_owned()
            } else {
                format!("unknown option: expected one of {}", known.join(", "))
            };
            return Err(invalid(&option, problem));
        }
        let target = match (text("url"), text("command")) {
            (Some(url), None) => {
                let url = url::Url::parse(url)
                    .ok()
                    .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
                    .ok_or_else(|| invalid("url", "expected an http or https URL".to_owned()))?;
                let headers = Headers::parse(text("headers").unwrap_or_default())
                    .ok_or_else(|| invalid("headers", format!("expected {}", Headers::EXPECTED)))?;
                Target::Http { url, headers: headers.into_iter().collect() }
            }
            (None, Some(command)) => {
                let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
                if words.is_empty() {
                    return Err(invalid("command", "expected a program".to_owned()));
                }
                Target::Command(words)
            }
            (Some(_), Some(_)) => {
                return Err(invalid("command", "set `url` or `command`, not both".to_owned()));
            }
            (None, None) => return Err(invalid("url", "set `url` or `command`".to_owned())),
        };
        let timeout = match text("timeout") {
            Some(text) => <Duration as OptionValue>::parse(text)
                .filter(|timeout| !timeout.is_zero())
                .ok_or_else(|| invalid("timeout", "expected a duration, as `5 s`".to_owned()))?,
            None => TIMEOUT,
        };
        let queue = match text("queue") {
            Some(text) => {
                let queue = text.parse().ok().filter(|queue| (1..=QUEUE_MAX).contains(queue));
                let expected = || format!("expected a number from 1 to {QUEUE_MAX}");
                queue.ok_or_else(|| invalid("queue", expected()))?
            }
            None => QUEUE,
        };
        Ok(Self { name: name.to_owned(), target, timeout, queue })
    }
}
