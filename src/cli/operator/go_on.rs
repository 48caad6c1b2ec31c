//! `operator continue`: continues paused upgrades.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::cli::args::{DryRun, DryRunMode, Global, Yes, duration};
use crate::cli::change;
use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::failure::Failure;
use crate::cli::list;
use crate::cli::printer::Printer;
use api::CONTINUE_UPGRADES_ANNOTATION;
use clients::cluster::{apply, read};
use lifecycle::conditions::UPGRADES_PAUSED;

/// Pause between checks whether the operator has reacted.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Arguments of `operator continue`.
#[derive(Args)]
#[command(after_help = "\
After kubernetes.operator.upgrade.pause-after-failures consecutive failures, other upgrades wait. They continue once one of
them is changed and becomes stable; this command continues them as they are.

It notifies the operator by annotating one waiting resource in each namespace. Without -n it does so in all
namespaces.

Examples:
  kubectl flink list -A --upgrading
  kubectl flink operator continue
  kubectl flink operator continue -n shop --dry-run=server")]
pub(super) struct ContinueArgs {
    /// How long to wait for the operator before exiting with code 124
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s")]
    timeout: Duration,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    yes: Yes,
}

/// Annotates a waiting resource of each namespace, and waits until the operator has reacted.
pub(super) async fn run(
    args: ContinueArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let ContinueArgs { timeout, dry_run: DryRun { dry_run }, yes: _ } = args;
    let connection = global.connect().await?;
    let scope = connection.scope(global.namespace.is_none());
    let rows = list::rows(&connection, scope, None).await?;
    let mut paused: BTreeMap<String, Vec<Deployment>> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| is_paused(&row.0)) {
        paused.entry(row.0.namespace().to_owned()).or_default().push(row.0);
    }
    if paused.is_empty() {
        printer.note("no upgrades are paused");
        return Ok(());
    }
    let patch = json!({"metadata": {
        "annotations": {CONTINUE_UPGRADES_ANNOTATION: Timestamp::now().to_string()},
    }});
    let mut told = Vec::new();
    for (namespace, waiting) in &paused {
        let Some(first) = waiting.first() else { continue };
        if dry_run != DryRunMode::Client {
            let writer = change::writer(dry_run);
            let _metadata = apply::amend(&connection.client, &first.id(), &patch, writer).await?;
        }
        told.push(first);
        printer.line(format_args!(
            "upgrades in namespace {namespace} continue, {} of them paused{}",
            waiting.len(),
            dry_run.suffix()
        ))?;
    }
    if dry_run == DryRunMode::None {
        await_operator(&connection, &told, timeout).await?;
    }
    Ok(())
}

async fn await_operator(
    connection: &Connection,
    told: &[&Deployment],
    timeout: Duration,
) -> anyhow::Result<()> {
    let end = Instant::now() + timeout;
    for one in told {
        loop {
            let seen = read::get_value(&connection.client, &one.id()).await?;
            if !seen.is_some_and(|it| is_paused(&Deployment(it))) {
                break;
            }
            if Instant::now() >= end {
                return Err(Failure::timed_out(format!(
                    "the operator of namespace `{}` has not reacted after {timeout:?}",
                    one.namespace()
                ))
                .hint("it will continue them when it runs again; see: kubectl flink why NAME -n NAMESPACE")
                .into());
            }
            sleep(POLL_INTERVAL).await;
        }
    }
    Ok(())
}

fn is_paused(deployment: &Deployment) -> bool {
    deployment.upgrade_waits().is_some_and(|(reason, _)| reason == UPGRADES_PAUSED)
}
