//! The live lines of `operate` on a terminal: one per resource, below the log.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use operator::context::Progress;

/// Maximum number of lines; more would push the log off the screen.
const LINES_MAX: usize = 20;

/// Lines at the bottom of the terminal.
#[derive(Clone)]
pub(super) struct Live {
    lines: Arc<MultiProgress>,
}

impl Live {
    pub(super) fn new() -> Self {
        Self { lines: Arc::new(MultiProgress::new()) }
    }

    /// Returns a writer for log lines that keeps the live lines in place.
    pub(super) fn log_writer(&self) -> LogWriter {
        LogWriter { lines: Arc::clone(&self.lines) }
    }

    /// Redraws a resource's line with each decision, until the operator has stopped.
    pub(super) async fn follow(self, mut decisions: Receiver<Progress>) {
        let mut bars: BTreeMap<(&str, String, String), ProgressBar> = BTreeMap::new();
        loop {
            let progress = match decisions.recv().await {
                Ok(progress) => progress,
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            };
            let key = (progress.kind, progress.namespace.clone(), progress.name.clone());
            if progress.is_gone {
                if let Some(bar) = bars.remove(&key) {
                    bar.finish_and_clear();
                }
                continue;
            }
            if !bars.contains_key(&key) && bars.len() >= LINES_MAX {
                continue;
            }
            let bar = bars.entry(key).or_insert_with(|| self.lines.add(line()));
            bar.set_message(describe(&progress));
        }
    }

    pub(super) fn clear(&self) {
        // If the terminal is gone, there is nothing to clear.
        let _cleared = self.lines.clear();
    }
}

fn line() -> ProgressBar {
    let style = ProgressStyle::with_template("{msg}");
    ProgressBar::new_spinner()
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

fn describe(progress: &Progress) -> String {
    let Progress { kind: _, namespace, name, state, because, is_gone: _ } = progress;
    let state = state.unwrap_or("-");
    format!("{namespace}/{name}  {state}  {because}")
}

/// Writes complete log lines above the live ones.
pub(super) struct LogWriter {
    lines: Arc<MultiProgress>,
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lines.suspend(|| io::stderr().write_all(bytes))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
