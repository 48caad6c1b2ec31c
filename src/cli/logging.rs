//! Where diagnostics go: always stderr, never mixed with a command's data.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

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

/// For commands that print their own messages: silent unless `KUBECTL_FLINK_LOG` asks.
pub(super) fn for_commands() {
    set_up("off", LogFormat::Text);
}

/// Sends events at or above the `default` directives, or those in `KUBECTL_FLINK_LOG`, to stderr.
///
/// Called once per process; a second call changes nothing.
pub fn set_up(default: &str, format: LogFormat) {
    set_up_with(default, format, std::io::stderr);
}

/// The same, with another way to stderr.
pub(super) fn set_up_with<W>(default: &str, format: LogFormat, writer: W)
where
    W: for<'a> tracing_subscriber::fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let filter =
        EnvFilter::try_from_env(FILTER_VARIABLE).unwrap_or_else(|_| EnvFilter::new(default));
    let is_coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(is_coloured)
        .with_target(false);
    drop(match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    });
}
