//! Shows a person the progress of a long task: a bar or spinner on a terminal, plain lines elsewhere.

use std::fmt::Display;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Where progress is shown.
#[derive(Clone, Copy)]
pub enum Progress<'a> {
    /// A spinner or bar on stderr.
    Terminal,
    /// One line when a task starts, and one when it took long; through the caller's printer.
    Lines(&'a (dyn Fn(&str) + Sync)),
}

/// A task in progress.
pub(super) struct Task<'a> {
    name: String,
    started: Instant,
    shown: Shown<'a>,
}

enum Shown<'a> {
    Bar(ProgressBar),
    Lines(&'a (dyn Fn(&str) + Sync)),
}

/// How often a spinner moves.
const TICK: Duration = Duration::from_millis(120);
/// Tasks that took longer print a line when they are done.
const WORTH_SHOWING: Duration = Duration::from_secs(1);

impl<'a> Progress<'a> {
    /// Starts a task of unknown length.
    pub(super) fn task(&self, name: impl Display) -> Task<'a> {
        let name = name.to_string();
        let shown = match *self {
            Self::Terminal => {
                let bar = ProgressBar::new_spinner();
                bar.set_style(style("{spinner} {prefix} {wide_msg:.dim} {elapsed:.dim}"));
                bar.set_prefix(name.clone());
                bar.enable_steady_tick(TICK);
                Shown::Bar(bar)
            }
            Self::Lines(say) => {
                say(&name);
                Shown::Lines(say)
            }
        };
        Task { name, started: Instant::now(), shown }
    }

    /// Starts a task of `length` steps.
    pub(super) fn bar(&self, name: impl Display, length: u64) -> Task<'a> {
        let task = self.task(name);
        if let Shown::Bar(bar) = &task.shown {
            bar.set_style(style(
                "{spinner} {prefix} {bar:30} {pos}/{len} {wide_msg:.dim} {elapsed:.dim}",
            ));
            bar.set_length(length);
        }
        task
    }
}

impl Task<'_> {
    /// Shows the current step, on terminals only.
    pub(super) fn detail(&self, text: &str) {
        if let Shown::Bar(bar) = &self.shown {
            bar.set_message(text.trim().to_owned());
        }
    }

    /// Completes one more step.
    pub(super) fn advance(&self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.inc(1);
        }
    }

    /// Completes the task.
    pub(super) fn done(self) {
        let elapsed = self.started.elapsed();
        match &self.shown {
            Shown::Bar(bar) => {
                bar.set_style(style("✓ {prefix} {msg:.dim}"));
                bar.finish_with_message(format!("{:.1}s", elapsed.as_secs_f64()));
            }
            Shown::Lines(say) if elapsed >= WORTH_SHOWING => {
                say(&format!("{} took {:.1}s", self.name, elapsed.as_secs_f64()));
            }
            Shown::Lines(_) => {}
        }
    }
}

impl Drop for Task<'_> {
    /// A failed task leaves no spinner behind.
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown
            && !bar.is_finished()
        {
            bar.abandon();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants of this file; an invalid one would show as the default style.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
