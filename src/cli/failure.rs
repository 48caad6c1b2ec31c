//! Turns an error into what a person reads and an exit code.
//!
//! Prints one `error:` line, the chain of causes below it, and `hint:` lines with remedies. The exit codes are part of
//! the interface and listed in `--help`.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

use super::printer::Printer;
use clients::cluster;

/// The command failed.
pub const FAILED: u8 = 1;
/// There is a difference, as in `diff(1)`.
pub const DIFFERENT: u8 = 1;
/// A comparing command failed, as in `diff(1)`.
pub const NOT_COMPARED: u8 = 2;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// A `--timeout` expired, as in `timeout(1)`.
pub const TIMED_OUT: u8 = 124;

/// Ctrl-C while waiting, as in shells.
pub const INTERRUPTED: u8 = 130;

/// Kind of a failure, which determines the exit code.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Kind {
    #[default]
    Failed,
    Usage,
    TimedOut,
    Interrupted,
    /// Not a failure: there is a difference, which scripts detect by the exit code.
    Differs,
    /// A command that ran in a pod exited with this code and has reported why itself.
    Exited(u8),
}

/// A failure with a self-contained message, and hints.
#[derive(Debug, Default)]
pub struct Failure {
    kind: Kind,
    message: String,
    hints: Vec<String>,
    source: Option<anyhow::Error>,
}

impl Failure {
    /// Creates a plain failure.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// Creates a failure for an invalid command line.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, ..Self::new(message) }
    }

    /// Creates a failure for an expired timeout.
    pub fn timed_out(message: impl Into<String>) -> Self {
        Self { kind: Kind::TimedOut, ..Self::new(message) }
    }

    /// Creates a failure for a user who stopped waiting.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self { kind: Kind::Interrupted, ..Self::new(message) }
    }

    /// Creates the result for a difference, which has already been shown.
    pub fn differs() -> Self {
        Self { kind: Kind::Differs, ..Self::new("there are changes") }
    }

    /// Creates a failure for a program in a pod that exited with `code`; this program exits with it too.
    pub fn exited(code: u8) -> Self {
        Self {
            kind: Kind::Exited(code),
            ..Self::new(format!("the command exited with code {code}"))
        }
    }

    /// Adds a hint line.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds the cause, shown below the message.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<anyhow::Error>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the hints.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Returns the kind, which determines the exit code.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| &**source as &(dyn Error + 'static))
    }
}

/// Prints the error with its causes and hints, and returns its exit code. `failed` is the code of a plain failure, for
/// commands in which 1 has another meaning.
pub fn report(error: &anyhow::Error, failed: u8, printer: &Printer) -> ExitCode {
    if is_closed_pipe(error) {
        return ExitCode::FAILURE;
    }
    match kind_of(error) {
        Kind::Differs => return ExitCode::from(DIFFERENT),
        Kind::Exited(code) => return ExitCode::from(code),
        Kind::Failed | Kind::Usage | Kind::TimedOut | Kind::Interrupted => {}
    }
    let mut shown = String::new();
    for (depth, cause) in error.chain().enumerate() {
        let text = cause.to_string();
        // Some libraries repeat the cause in their own message.
        if shown.contains(text.trim()) {
            continue;
        }
        if depth == 0 {
            printer.error(&text);
        } else {
            printer.note(format_args!("  caused by: {text}"));
        }
        shown.push_str(&text);
    }
    for cause in error.chain() {
        if let Some(failure) = cause.downcast_ref::<Failure>() {
            failure.hints.iter().for_each(|hint| printer.hint(hint));
        } else if let Some(hint) = cause.downcast_ref().and_then(cluster_hint) {
            printer.hint(hint);
        }
    }
    match kind_of(error) {
        Kind::Failed => ExitCode::from(failed),
        Kind::Differs => ExitCode::from(DIFFERENT),
        Kind::Exited(code) => ExitCode::from(code),
        Kind::Usage => ExitCode::from(USAGE),
        Kind::TimedOut => ExitCode::from(TIMED_OUT),
        Kind::Interrupted => ExitCode::from(INTERRUPTED),
    }
}

/// Returns a remedy for an error from the API server, for any command.
fn cluster_hint(error: &cluster::Error) -> Option<&'static str> {
    match error {
        cluster::Error::KindMissing { .. } => {
            Some("the Flink resources are not installed; install them with: kubectl flink init")
        }
        cluster::Error::Unauthorized { .. } => {
            Some("log in again, or choose another --context or --user")
        }
        _ => None,
    }
}

/// Returns the kind of the outermost [`Failure`] in the chain.
pub fn kind_of(error: &anyhow::Error) -> Kind {
    error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Failure>())
        .map_or(Kind::Failed, Failure::kind)
}

/// Returns true if the reader of our output has exited, as `head` does. No one is left to report it to.
pub(super) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests;
