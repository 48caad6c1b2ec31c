//! `why`: the single cause of what is wrong with a deployment, in three sentences.
//!
//! All sources are read concurrently. Sources that cannot be read are skipped and reported. The verdict is a pure
//! function of the facts.

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

/// Examples shown below the flags.
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

/// The answer for other callers than this command.
pub(super) struct Explanation {
    pub(super) weight: Weight,
    pub(super) what: String,
    pub(super) evidence: String,
    pub(super) remedy: String,
    /// The next command to run.
    pub(super) next: String,
    /// What could not be read.
    pub(super) unread: Vec<String>,
}

/// Severity of a verdict.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Weight {
    Well,
    /// Something is under way, or is stopped on purpose.
    Waits,
    Wrong,
}

/// Reads the facts and returns the verdict.
pub(super) async fn explain(
    connection: &Connection,
    name: &str,
    access: Access,
) -> anyhow::Result<Explanation> {
    let (facts, unread) = facts::observe(connection, name, access).await?;
    let Verdict { cause, what, evidence, remedy, next } = verdict::verdict(&facts);
    let weight = match cause {
        Cause::Healthy => Weight::Well,
        Cause::Starting
        | Cause::Deleting
        | Cause::Paused
        | Cause::Suspended
        | Cause::UpgradeWaits => Weight::Waits,
        _ => Weight::Wrong,
    };
    Ok(Explanation { weight, what, evidence, remedy, next, unread })
}

/// Reads the facts and prints the verdict.
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
