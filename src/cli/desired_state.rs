//! `suspend` and `resume`: set the desired state of a job.

use clap::Args;
use serde_json::json;

use super::args::{ChangeFlags, Global};
use super::connection::Connection;
use super::deployment::Deployment;
use super::edit::{self, EditFlags};
use super::failure::Failure;
use super::lookup;
use super::printer::Printer;
use super::{change, complete};

const RUNNING: &str = "running";
const SUSPENDED: &str = "suspended";

/// Arguments of `suspend`.
#[derive(Args)]
#[command(after_help = "\
The job stops according to spec.job.upgradeMode: with a savepoint, with its last checkpoint or, if it
is stateless, without its state; that needs confirmation.

Examples:
  kubectl flink suspend orders --wait
  kubectl flink suspend sessionjob/clicks
  kubectl flink suspend preview --lose-state")]
pub struct SuspendArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    #[command(flatten)]
    flags: EditFlags,
}

/// Arguments of `resume`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink resume orders --wait
  kubectl flink resume sessionjob/clicks --dry-run=client")]
pub struct ResumeArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    #[command(flatten)]
    flags: ChangeFlags,
}

/// Sets the desired state to suspended; the operator does the rest.
pub async fn suspend(args: SuspendArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let SuspendArgs { name, flags } = args;
    let connection = global.connect().await?;
    let present = find(&connection, &name).await?;
    if present.desired_state() == SUSPENDED {
        return is_so_already(&connection, present, flags.change, printer).await;
    }
    if present.was_deployed() && present.upgrade_mode() == "stateless" {
        let loss = format!(
            "{} of `{}` is stateless: its job stops without keeping its state",
            present.place_of("job.upgradeMode"),
            present.shown_name()
        );
        edit::agree_unless(&loss, flags, printer)?;
    }
    let patch = json!({"spec": {"job": {"state": SUSPENDED}}});
    edit::send(&connection, &present, &patch, "suspended", flags.change, printer).await
}

/// Sets the desired state to running; the operator does the rest.
pub async fn resume(args: ResumeArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let ResumeArgs { name, flags } = args;
    let connection = global.connect().await?;
    let present = find(&connection, &name).await?;
    if present.desired_state() == RUNNING {
        return is_so_already(&connection, present, flags, printer).await;
    }
    let patch = json!({"spec": {"job": {"state": RUNNING}}});
    edit::send(&connection, &present, &patch, "resumed", flags, printer).await
}

async fn is_so_already(
    connection: &Connection,
    present: Deployment,
    flags: ChangeFlags,
    printer: &Printer,
) -> anyhow::Result<()> {
    let (name, state) = (present.shown_name(), present.desired_state());
    printer.note(format_args!("`{name}` is already set to {state}"));
    change::finish(connection, present.stored().0, "unchanged", flags, printer).await
}

/// Reads a deployment that has a job of its own.
async fn find(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    let present = lookup::fetch_to_change(connection, name).await?;
    if present.is_session() {
        return Err(Failure::new(format!(
            "`{}` is a session cluster: it has no job of its own to stop or start",
            present.name()
        ))
        .hint("suspend its jobs instead; to list them: kubectl flink status")
        .into());
    }
    Ok(present)
}
