//! The listeners of the operator's configuration: an HTTP endpoint, or a program.

use std::process::Stdio;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::settings::{Settings, Target};
use super::{CloudEvent, Listener, Undelivered};
use crate::endpoint::{self, Caller};
use config::plugin::InvalidPlugin;

/// A listener that the configuration names.
pub(super) struct Configured {
    name: String,
    timeout: Duration,
    queue: usize,
    way: Way,
}

enum Way {
    Http(Caller),
    Program(Vec<String>),
}

impl Configured {
    pub(super) fn new(settings: Settings) -> Result<Self, InvalidPlugin> {
        let Settings { name, target, timeout, queue } = settings;
        let way = match target {
            Target::Http(endpoint) => Way::Http(Caller::new(endpoint).map_err(|error| {
                let key = format!("kubernetes.operator.plugins.listeners.{name}.headers");
                InvalidPlugin { key, problem: error.to_string() }
            })?),
            Target::Command(words) => Way::Program(words),
        };
        Ok(Self { name, timeout, queue, way })
    }
}

impl Listener for Configured {
    fn name(&self) -> &str {
        &self.name
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    fn queue(&self) -> usize {
        self.queue
    }

    fn hear<'a>(&'a self, event: &'a CloudEvent) -> BoxFuture<'a, Result<(), Undelivered>> {
        async move {
            match &self.way {
                Way::Http(caller) => {
                    let content_type = "application/cloudevents+json; charset=utf-8";
                    caller.post(content_type, event.text()).await.map(drop).map_err(Into::into)
                }
                Way::Program(words) => run(words, event).await,
            }
        }
        .boxed()
    }
}

impl From<endpoint::Error> for Undelivered {
    fn from(error: endpoint::Error) -> Self {
        Self { is_transient: error.is_transient(), message: error.to_string() }
    }
}

/// Runs the program once; it is killed when this is dropped.
async fn run(words: &[String], event: &CloudEvent) -> Result<(), Undelivered> {
    let for_good = |message: String| Undelivered { message, is_transient: false };
    let Some((program, arguments)) = words.split_first() else {
        return Err(for_good("there is no program".to_owned()));
    };
    let cannot_start =
        |error: std::io::Error| for_good(format!("the program cannot be started: {error}"));
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(cannot_start)?;
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read to the end may still succeed.
        drop(input.write_all(event.text().as_bytes()).await);
    }
    let status = child.wait().await.map_err(cannot_start)?;
    if status.success() {
        return Ok(());
    }
    Err(Undelivered { message: format!("the program ended with {status}"), is_transient: true })
}
