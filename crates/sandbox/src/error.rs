//! Errors of a sandbox, with hints at what would help.
//!
//! Every variant says what was being done; if a part failed, it contains the end of that part's log.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A request that the sandbox could not carry out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Everything that the machine lacks, in one error.
    #[error("this machine lacks what a sandbox needs: {}", list(.0))]
    Missing(Vec<Missing>),
    /// The request is not possible in the present state.
    #[error("{0}")]
    Refused(String),
    /// A wait timed out.
    #[error("{what} after {}s{}", .after.as_secs(), tail(.log.as_ref()))]
    TimedOut { what: String, after: Duration, log: Option<LogTail> },
    /// A part ended by itself.
    #[error("{part} exited right after it started{}", tail(Some(.log)))]
    Ended { part: String, log: LogTail },
    /// A program failed.
    #[error("`{command}` failed with {status}{}", tail(.log.as_ref()))]
    Command { command: String, status: String, log: Option<LogTail> },
    /// A file or folder could not be read or written.
    #[error("cannot {action} `{}`", .path.display())]
    File { action: &'static str, path: PathBuf, source: io::Error },
    /// The sandbox's API server rejected a request.
    #[error("the sandbox's API server rejected a request")]
    Kubernetes(#[from] kube::Error),
    /// An image registry could not be read.
    #[error("cannot pull `{image}`: {message}")]
    Registry { image: String, message: String },
}

/// A missing thing, and how to get it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Missing {
    pub what: String,
    pub fix: String,
}

/// The end of a log, and the path of the whole log.
#[derive(Clone, Debug, Default)]
pub struct LogTail {
    pub path: Option<PathBuf>,
    pub lines: Vec<String>,
}

/// Number of log lines shown in a message.
const TAIL_LINES: usize = 12;

impl Error {
    pub(super) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { action, path, source }
    }

    /// Returns what the reader can do about it, one hint per line.
    pub fn hints(&self) -> Vec<String> {
        match self {
            Self::Missing(missing) => {
                let mut fixes: Vec<String> = Vec::new();
                for fix in missing.iter().map(|missing| missing.fix.clone()) {
                    if !fixes.contains(&fix) {
                        fixes.push(fix);
                    }
                }
                fixes
            }
            _ => Vec::new(),
        }
    }

    /// Returns whether a wait timed out, rather than something failing.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }
}

impl LogTail {
    /// Returns the last lines of the file at `path`; empty if it cannot be read.
    pub(super) fn of_file(path: &Path) -> Self {
        let bytes = std::fs::read(path).unwrap_or_default();
        let mut tail = Self::of_text(&String::from_utf8_lossy(&bytes));
        tail.path = Some(path.to_owned());
        tail
    }

    /// Returns the last lines of `text`.
    pub(super) fn of_text(text: &str) -> Self {
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let skipped = lines.len().saturating_sub(TAIL_LINES);
        Self { path: None, lines: lines[skipped..].iter().map(|line| shortened(line)).collect() }
    }
}

impl fmt::Display for LogTail {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.lines {
            write!(formatter, "\n    {line}")?;
        }
        if let Some(path) = &self.path {
            write!(formatter, "\n  full log: {}", path.display())?;
        }
        Ok(())
    }
}

fn shortened(line: &str) -> String {
    const LONGEST: usize = 300;
    let mut text: String = line.chars().take(LONGEST).collect();
    if line.chars().nth(LONGEST).is_some() {
        text.push('…');
    }
    text
}

fn tail(log: Option<&LogTail>) -> String {
    log.map(
        |log| {
            if log.lines.is_empty() { log.to_string() } else { format!("; its last output:{log}") }
        },
    )
    .unwrap_or_default()
}

fn list(missing: &[Missing]) -> String {
    missing.iter().map(|missing| missing.what.as_str()).collect::<Vec<_>>().join(", ")
}
