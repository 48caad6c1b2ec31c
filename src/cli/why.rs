//! `why`: the one cause of what is wrong with a deployment, in three sentences.
//!
//! Everything that may tell is read at the same time; what cannot be read is passed over and said. The
//! verdict is a pure function of the facts.

mod facts;
mod signs;
mod verdict;

use clap::Args;
use serde::Serialize;

use self::verdict::Verdict;
use super::args::{FlinkAccess, Global, Output};
use super::complete;
use super::printer::{BOLD, DIM, Printer, ValueFormat, styled};

/// Shown below the flags.
const EXAMPLES: &str = "\
Examples:
  kubectl flink why orders
  kubectl flink why sessionjob/orders -o json";

/// Arguments of `why`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct WhyArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

/// The answer as `-o json` shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    kind: String,
    namespace: &'a str,
    name: &'a str,
    #[serde(flatten)]
    verdict: &'a Verdict,
    /// Facts that could not be read, and why.
    unread: &'a [String],
}

/// Reads, judges and prints.
pub async fn run(args: WhyArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let WhyArgs { name, access, output: Output { output } } = args;
    let connection = global.connect().await?;
    let (facts, unread) = facts::observe(&connection, &name, access.flink_access).await?;
    let verdict = verdict::verdict(&facts);
    if let Some(format) = output {
        let asked_about = facts.parent.as_ref().unwrap_or(&facts.resource);
        let answer = Answer {
            kind: asked_about.id().kind,
            namespace: asked_about.namespace(),
            name: asked_about.name(),
            verdict: &verdict,
            unread: &unread,
        };
        return printer.value(&answer, format);
    }
    printer.line(styled(BOLD, &verdict.what))?;
    printer.line(&verdict.evidence)?;
    printer.line(&verdict.remedy)?;
    printer.line(format_args!("\n{} {}", styled(DIM, "next:"), verdict.next))?;
    for unread in unread {
        printer.note(format_args!("not read: {unread}"));
    }
    Ok(())
}
