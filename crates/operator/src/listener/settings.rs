//! The configuration of listeners.

use std::time::Duration;

use config::FlinkConfig;
use config::plugin::{Endpoint, InvalidPlugin, LISTENERS, Options};

/// Default and maximum number of events that may wait for a listener.
pub(super) const QUEUE: usize = 1_000;
const QUEUE_MAX: usize = 100_000;
const KNOWN: [&str; 5] = ["url", "headers", "command", "timeout", "queue"];

/// One listener.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub name: String,
    pub target: Target,
    /// Timeout of one attempt to deliver one event.
    pub timeout: Duration,
    /// Maximum number of events that may wait.
    pub queue: usize,
}

/// Where events are sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// `POST` with content type `application/cloudevents+json`; any 2xx is success.
    Http(Endpoint),
    /// Program and arguments, started once per event with the event on its standard input; exit code 0 is success.
    Command(Vec<String>),
}

impl Settings {
    /// Returns the listeners of the operator's configuration, in the order of their names.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn all(config: &FlinkConfig) -> Result<Vec<Self>, Vec<InvalidPlugin>> {
        let read = |options: Options<'_>| {
            (!options.is_java_alone()).then(|| Self::of(options)).transpose()
        };
        Ok(Options::read_all(config, LISTENERS, read)?.into_iter().flatten().collect())
    }

    fn of(options: Options<'_>) -> Result<Self, InvalidPlugin> {
        options.expect_only(&KNOWN)?;
        let target = match (options.text("url"), options.text("command")) {
            (Some(url), None) => Target::Http(options.endpoint(url)?),
            (None, Some(command)) => {
                let words: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
                if words.is_empty() {
                    return Err(options.invalid("command", "expected a program"));
                }
                Target::Command(words)
            }
            (Some(_), Some(_)) => {
                return Err(options.invalid("command", "set `url` or `command`, not both"));
            }
            (None, None) => return Err(options.invalid("url", "set `url` or `command`")),
        };
        let queue = match options.text("queue") {
            Some(text) => {
                let queue = text.parse().ok().filter(|queue| (1..=QUEUE_MAX).contains(queue));
                let expected = || format!("expected a number from 1 to {QUEUE_MAX}");
                queue.ok_or_else(|| options.invalid("queue", expected()))?
            }
            None => QUEUE,
        };
        Ok(Self { name: options.name.to_owned(), target, timeout: options.timeout()?, queue })
    }
}
