//! `restart`: stops and starts a job or a session cluster by setting a new `restartNonce`.

use clap::Args;
use serde_json::json;

use super::args::Global;
use super::edit::{self, EditFlags};
use super::failure::Failure;
use super::printer::Printer;
use super::{complete, lookup};

/// Arguments of `restart`.
#[derive(Args)]
#[command(after_help = "\
The job is stopped and started as in an upgrade: with its state, according to spec.job.upgradeMode.

Examples:
  kubectl flink restart orders --wait
  kubectl flink restart sessionjob/clicks
  kubectl flink restart orders --dry-run=client    # shows the patch")]
pub struct RestartArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    #[command(flatten)]
    flags: EditFlags,
}

/// Writes the nonce; the operator does the rest.
pub async fn run(args: RestartArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let RestartArgs { name, flags } = args;
    let connection = global.connect().await?;
    let present = lookup::fetch_to_change(&connection, &name).await?;
    let name = present.shown_name();
    if !present.is_session() && present.desired_state() == "suspended" {
        return Err(Failure::new(format!("`{name}` is suspended: there is nothing to restart"))
            .hint(format!("start it: kubectl flink resume {name}"))
            .into());
    }
    let patch = json!({"spec": {"restartNonce": edit::next_nonce(&present, "/restartNonce")}});
    edit::carry_out(&connection, &present, &patch, "restarted", flags, printer).await
}
