//! One event to one listener.

use std::process::Stdio;

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::cloud_event::CloudEvent;
use super::settings::{Settings, Target};

/// Why a listener was not told. Says nothing of URLs and headers, which may hold secrets.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("it cannot be asked: {0}")]
    Invalid(String),
    #[error("no answer: {0}")]
    Unreachable(String),
    #[error("it answered {0}")]
    Refused(u16),
    #[error("the program cannot be started: {0}")]
    Start(std::io::Error),
    #[error("the program ended with {0}")]
    Failed(std::process::ExitStatus),
    #[error("it took longer than {0:?}")]
    TimedOut(std::time::Duration),
}

impl Error {
    /// Whether trying again may help.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Failed(_) | Self::TimedOut(_) => true,
            Self::Refused(status) => *status >= 500 || *status == 429 || *status == 408,
            Self::Invalid(_) | Self::Start(_) => false,
        }
    }
}

/// A listener that can be told.
pub(super) struct Delivery<'s> {
    settings: &'s Settings,
    http: Option<reqwest::Client>,
}

impl<'s> Delivery<'s> {
    pub(super) fn of(settings: &'s Settings) -> Result<Self, Error> {
        let http = match &settings.target {
            Target::Http { headers, .. } => {
                // reqwest's builder panics where the process has none; a second one is refused.
                drop(rustls::crypto::ring::default_provider().install_default());
                let client = reqwest::Client::builder()
                    .default_headers(header_map(headers)?)
                    .user_agent(concat!("kubectl-flink/", env!("CARGO_PKG_VERSION")))
                    .redirect(reqwest::redirect::Policy::none())
                    .timeout(settings.timeout)
                    .build();
                Some(client.map_err(|error| Error::Invalid(error.without_url().to_string()))?)
            }
            Target::Command(_) => None,
        };
        Ok(Self { settings, http })
    }

    pub(super) async fn deliver(&self, event: &CloudEvent) -> Result<(), Error> {
        match (&self.settings.target, &self.http) {
            (Target::Http { url, .. }, Some(http)) => {
                let request = http
                    .post(url.clone())
                    .header(CONTENT_TYPE, "application/cloudevents+json; charset=utf-8")
                    .body(event.text());
                let answer = request.send().await.map_err(|error| {
                    if error.is_timeout() {
                        Error::TimedOut(self.settings.timeout)
                    } else {
                        Error::Unreachable(super::tell(&error.without_url()))
                    }
                })?;
                let status = answer.status();
                if status.is_success() { Ok(()) } else { Err(Error::Refused(status.as_u16())) }
            }
            (Target::Command(words), _) => {
                let limit = self.settings.timeout;
                tokio::time::timeout(limit, run(words, event))
                    .await
                    .unwrap_or(Err(Error::TimedOut(limit)))
            }
            (Target::Http { .. }, None) => Err(Error::Invalid("there is no client".to_owned())),
        }
    }
}

/// Runs the program once; it is killed when this is dropped.
async fn run(words: &[String], event: &CloudEvent) -> Result<(), Error> {
    let Some((program, arguments)) = words.split_first() else {
        return Err(Error::Invalid("there is no program".to_owned()));
    };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(Error::Start)?;
    if let Some(mut input) = child.stdin.take() {
        // A program that does not read to the end may still succeed.
        drop(input.write_all(event.text().as_bytes()).await);
    }
    let status = child.wait().await.map_err(Error::Start)?;
    if status.success() { Ok(()) } else { Err(Error::Failed(status)) }
}

fn header_map(headers: &[(String, String)]) -> Result<HeaderMap, Error> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let invalid = || Error::Invalid("`headers` holds something that is no header".to_owned());
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
        value.set_sensitive(true);
        map.append(name, value);
    }
    Ok(map)
}
