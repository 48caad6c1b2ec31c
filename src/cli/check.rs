//! `check`: whether a cluster, and whoever asks, is ready for Flink.
//!
//! Each thing is looked at by itself and at the same time as the others, and what cannot be looked at is
//! told as such: an unknown is never a pass. `--pre` is for before an installation: what `init` and
//! `operator install` will need.

mod facts;
pub(super) mod judge;

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::args::{Global, Output};
use super::failure::Failure;
use super::printer::{GREEN, Printer, RED, ValueFormat, YELLOW, styled};

/// Shown below the flags.
const EXAMPLES: &str = "\
Exit codes:
  0  all required checks passed
  1  a check failed: see its hint

Examples:
  kubectl flink check --pre        # before an installation
  kubectl flink check -n shop      # after it, for the jobs of namespace shop
  kubectl flink check -o json";

/// Arguments of `check`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct CheckArgs {
    /// Check only what an installation requires, before you install
    #[arg(long)]
    pre: bool,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

/// How a check ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Result {
    Passed,
    /// It works without, and a person should know.
    Warning,
    Failed,
    /// It could not be looked at.
    Unknown,
}

impl Result {
    pub(super) fn shown(self) -> String {
        match self {
            Self::Passed => styled(GREEN, "ok"),
            Self::Warning => styled(YELLOW, "warning"),
            Self::Failed => styled(RED, "failed"),
            Self::Unknown => styled(YELLOW, "unknown"),
        }
    }
}

/// One thing that was checked, as `-o json` shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    /// A stable name.
    #[serde(rename = "check")]
    name: &'static str,
    result: Result,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Looks at everything, prints a table, and fails where something does not hold.
pub async fn run(args: CheckArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let CheckArgs { pre, output: Output { output } } = args;
    let connection = global.connect().await?;
    let facts = Box::pin(facts::observe(&connection, pre)).await?;
    let checks = judge::judge(&facts);
    let failed = checks.iter().filter(|check| check.result == Result::Failed).count();
    match output {
        Some(format) => {
            printer.value(&json!({ "passed": failed == 0, "checks": checks }), format)?;
        }
        None => printer.raw(table(&checks))?,
    }
    match failed {
        0 => Ok(()),
        1 => Err(Failure::new("1 check failed").into()),
        count => Err(Failure::new(format!("{count} checks failed")).into()),
    }
}

/// A line a check, its hint below it. Words have one width, with or without colour.
fn table(checks: &[Check]) -> String {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    let mut text = String::new();
    for Check { name, result, message, hint } in checks {
        let padding = " ".repeat("warning".len() - word(*result).len());
        let _infallible = writeln!(text, "{}{padding}  {name:<width$}  {message}", result.shown());
        if let Some(hint) = hint {
            let _infallible = writeln!(text, "{:indent$}hint: {hint}", "", indent = 9);
        }
    }
    text
}

fn word(result: Result) -> &'static str {
    match result {
        Result::Passed => "ok",
        Result::Warning => "warning",
        Result::Failed => "failed",
        Result::Unknown => "unknown",
    }
}
