//! `why`: the one cause of what is wrong with a deployment, in three sentences.
//!
//! Everything that may tell is read at the same time; what cannot be read is passed over and said. The
//! verdict is a pure function of the facts.

mod facts;
mod signs;
mod verdict;

use clap::Args;
use serde::Serialize;

use self::verdict::{Cause, Verdict};
use super::args::{FlinkAccess, Global, Output};
use super::complete;
use super::connection::Connection;
use super::printer::{BOLD, DIM, Printer, ValueFormat, styled};
use clients::flink::access::Access;

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

/// The answer for others than this command.
pub(super) struct Told {
    pub(super) weight: Weight,
    pub(super) what: String,
    pub(super) evidence: String,
    pub(super) remedy: String,
    /// The next command to type.
    pub(super) next: String,
    /// What could not be read.
    pub(super) unread: Vec<String>,
}

/// How a verdict is to be taken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Weight {
    Well,
    /// It is on its way, or rests as somebody wants it.
    Waits,
    Wrong,
}

/// Reads and judges.
pub(super) async fn tell(
    connection: &Connection,
    name: &str,
    access: Access,
) -> anyhow::Result<Told> {
    let (facts, unread) = facts::observe(connection, name, access).await?;
    let Verdict { cause, what, evidence, remedy, next } = verdict::verdict(&facts);
    let weight = match cause {
        Cause::Healthy => Weight::Well,
        Cause::Starting | Cause::Deleting | Cause::Suspended | Cause::UpgradeWaits => Weight::Waits,
        _ => Weight::Wrong,
    };
    Ok(Told { weight, what, evidence, remedy, next, unread })
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
        printer.note(format_args!("could not read {unread}"));
    }
    Ok(())
}
