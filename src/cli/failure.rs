//! From an error to what a person reads and to the exit code.
//!
//! One `error:` line, the chain of causes below it, and `hint:` lines that say what would help.
//! The exit codes are part of the interface and stand in `--help`.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

use super::printer::Printer;
use clients::cluster;

/// The command could not do what it was asked for.
pub const FAILED: u8 = 1;
/// There is a difference, as `diff(1)` reports it.
pub const DIFFERENT: u8 = 1;
/// A command that compares failed, as `diff(1)` reports it.
pub const TROUBLE: u8 = 2;
/// The command line is wrong.
pub const USAGE: u8 = 2;
/// A `--timeout` ran out, as `timeout(1)` reports it.
pub const TIMED_OUT: u8 = 124;

/// Ctrl-C while waiting, as shells report it.
pub const INTERRUPTED: u8 = 130;

/// Kind of a failure, which decides the exit code.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Kind {
    #[default]
    Failed,
    Usage,
    TimedOut,
    Interrupted,
    /// Not a failure: there is a difference, which scripts ask for by the exit code.
    Differs,
    /// A command that was run elsewhere ended with this code and has said why itself.
    Exited(u8),
}

/// A failure with a message that stands alone, and what would help.
#[derive(Debug, Default)]
pub struct Failure {
    kind: Kind,
    message: String,
    hints: Vec<String>,
    source: Option<anyhow::Error>,
}

impl Failure {
    /// The command could not do what it was asked to.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), ..Self::default() }
    }

    /// The command line asks for something that cannot be.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { kind: Kind::Usage, ..Self::new(message) }
    }

    /// The time given ran out.
    pub fn timed_out(message: impl Into<String>) -> Self {
        Self { kind: Kind::TimedOut, ..Self::new(message) }
    }

    /// The person who waited left.
    pub fn interrupted(message: impl Into<String>) -> Self {
        Self { kind: Kind::Interrupted, ..Self::new(message) }
    }

    /// There is a difference; it was shown already.
    pub fn differs() -> Self {
        Self { kind: Kind::Differs, ..Self::new("there are changes") }
    }

    /// A program elsewhere ended with `code`, which becomes that of this one.
    pub fn exited(code: u8) -> Self {
        Self {
            kind: Kind::Exited(code),
            ..Self::new(format!("the command exited with code {code}"))
        }
    }

    /// Adds a line that says what would help.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds what caused it, shown below the message.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<anyhow::Error>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns hints on what would help.
    pub fn hints(&self) -> &[String] {
        &self.hints
    }

    /// Returns the kind, which decides the exit code.
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

/// Prints the error with its causes and hints, and returns its exit code. `failed` is the one of a
/// plain failure, where the command means something else by 1.
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
        // Some libraries repeat the cause in the text of what it caused.
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

/// Returns a remedy for an answer of the API server, whichever command met it.
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

/// The kind that the outermost [`Failure`] in the chain names.
pub fn kind_of(error: &anyhow::Error) -> Kind {
    error
        .chain()
        .find_map(|cause| cause.downcast_ref::<Failure>())
        .map_or(Kind::Failed, Failure::kind)
}

/// The reader of our output left, as `head` does; there is nobody to tell.
pub(super) fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests;
