//! `check`: whether a cluster, and the user, is ready for Flink.
//!
//! All checks run concurrently and independently. A check that cannot be made is reported as unknown, never as passed.
//! `--pre` checks what `init` and `operator install` need before an installation.

mod facts;
pub(super) mod judge;

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use super::args::{Global, Output};
use super::failure::Failure;
use super::printer::{GREEN, Printer, RED, ValueFormat, YELLOW, styled};

/// Examples shown below the flags.
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

/// Outcome of a check.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Result {
    Passed,
    /// Flink works without it, but the user should know.
    Warning,
    Failed,
    /// The check could not be made.
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

/// One check, as `-o json` shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    /// Stable name of the check.
    #[serde(rename = "check")]
    name: &'static str,
    result: Result,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Makes all checks and prints a table. Fails if a check failed.
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
        None => printer.text(table(&checks))?,
    }
    match failed {
        0 => Ok(()),
        1 => Err(Failure::new("1 check failed").into()),
        count => Err(Failure::new(format!("{count} checks failed")).into()),
    }
}

/// Formats one line per check, with its hint below it. The results are padded to one width, with or without colour.
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
