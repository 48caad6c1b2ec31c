//! Logging of diagnostics, always to stderr so that they never mix with a command's data.

use std::io::{self, IsTerminal};
use std::sync::Arc;

use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

use config::log_levels::{LogForm, LogLevels};
use config::secret::{hide_in, hide_in_document};

/// Environment variable with filter directives, such as `debug` or `kubectl_flink=trace,kube=debug`.
pub const FILTER_VARIABLE: &str = "KUBECTL_FLINK_LOG";

/// Form of a log line.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, clap::ValueEnum)]
pub enum LogFormat {
    /// One readable line per event
    #[default]
    Text,
    /// One JSON object per event
    Json,
}

impl From<LogForm> for LogFormat {
    fn from(form: LogForm) -> Self {
        match form {
            LogForm::Text => Self::Text,
            LogForm::Json => Self::Json,
        }
    }
}

/// Levels of the log, which can change at any time.
#[derive(Clone)]
pub(super) struct Levels {
    default: &'static str,
    /// `None` if the environment fixes the levels.
    put: Option<Arc<dyn Fn(EnvFilter) + Send + Sync>>,
}

impl Levels {
    /// Applies these levels from now on, on top of the default ones.
    pub(super) fn set(&self, levels: &LogLevels) {
        if let Some(put) = &self.put {
            put(EnvFilter::new(format!("{},{}", self.default, levels.directives())));
        }
    }
}

/// Sets up logging for commands that print their own messages: silent unless `KUBECTL_FLINK_LOG` is set.
pub(super) fn for_commands() {
    drop(set_up_with("off", LogFormat::Text, io::stderr));
}

/// Writes events that pass the `default` directives, or those in `KUBECTL_FLINK_LOG`, to `writer`. The latter cannot be
/// changed afterwards.
///
/// Called once per process; a second call changes nothing.
pub(super) fn set_up_with<W>(default: &'static str, format: LogFormat, writer: W) -> Levels
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let of_environment = EnvFilter::try_from_env(FILTER_VARIABLE).ok();
    let is_fixed = of_environment.is_some();
    let filter = of_environment.unwrap_or_else(|| EnvFilter::new(default));
    let is_coloured = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (subscriber, levels) = subscriber(filter, default, format, is_coloured, writer);
    // An error means that a subscriber is already set; it stays.
    drop(subscriber.try_init());
    if is_fixed { Levels { default, put: None } } else { levels }
}

/// Writes lines to `W` without their secrets, whoever wrote them.
struct WithoutSecrets<W>(W);

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for WithoutSecrets<W> {
    type Writer = WithoutSecrets<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        WithoutSecrets(self.0.make_writer())
    }
}

impl<W: io::Write> io::Write for WithoutSecrets<W> {
    /// Writes a line, which comes as a whole.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let mut shown = hide_in(&text);
        if shown != text && text.starts_with('{') {
            shown = hide_in_document(&text);
            if !shown.ends_with('\n') {
                shown.push('\n');
            }
        }
        self.0.write_all(shown.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns the subscriber that writes the lines, and the handle that changes its levels.
fn subscriber<W>(
    filter: EnvFilter,
    default: &'static str,
    format: LogFormat,
    is_coloured: bool,
    writer: W,
) -> (Box<dyn Subscriber + Send + Sync>, Levels)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(WithoutSecrets(writer))
        .with_ansi(is_coloured)
        .with_target(format == LogFormat::Json);
    // Reloading only fails if the subscriber is gone.
    match format {
        LogFormat::Text => {
            let builder = builder.with_filter_reloading();
            let handle = builder.reload_handle();
            let put = Arc::new(move |filter: EnvFilter| drop(handle.reload(filter)));
            (Box::new(builder.finish()), Levels { default, put: Some(put) })
        }
        LogFormat::Json => {
            let builder = builder.json().flatten_event(true).with_filter_reloading();
            let handle = builder.reload_handle();
            let put = Arc::new(move |filter: EnvFilter| drop(handle.reload(filter)));
            (Box::new(builder.finish()), Levels { default, put: Some(put) })
        }
    }
}

#[cfg(test)]
mod tests;
