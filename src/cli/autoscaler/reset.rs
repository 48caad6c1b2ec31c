//! `autoscaler reset`: makes the operator discard what its autoscaler has stored about a job.

use clap::Args;
use serde_json::json;

use super::stored;
use crate::cli::args::{ChangeFlags, DryRunMode, Global};
use crate::cli::failure::Failure;
use crate::cli::printer::Printer;
use crate::cli::{complete, edit};

/// Arguments of `autoscaler reset`.
#[derive(Args)]
#[command(after_help = "\
This sets spec.job.autoscalerResetNonce. The operator then clears the samples, the history and the current decision. An
upgrade, with state, returns the job to the parallelism of its spec, and it is measured again.

Examples:
  # Reset without asking
  kubectl flink autoscaler reset orders --yes")]
pub(super) struct ResetArgs {
    /// The FlinkDeployment, or sessionjob/NAME
    #[arg(add = complete::deployments())]
    name: String,
    #[command(flatten)]
    flags: ChangeFlags,
}

/// Explains the consequences, asks for confirmation, and writes the nonce.
pub(super) async fn run(args: ResetArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let ResetArgs { name, flags } = args;
    let (dry_run, yes) = (flags.dry_run.dry_run, flags.yes.yes);
    let connection = global.connect().await?;
    let job = stored::fetch(&connection, &name).await?;
    let name = job.resource.shown_name();
    // Stored state that cannot be read must not block the reset: it is a reason for one.
    let in_force = job.stored.as_ref().and_then(|stored| stored.as_ref().ok());
    if in_force.is_some_and(|stored| !stored.state.overrides.is_empty()) {
        printer.warning(format_args!("an upgrade returns `{name}` to the parallelism of its spec"));
    }
    let is_asking = printer.terminals().input && !yes && dry_run == DryRunMode::None;
    if is_asking && !printer.confirm(format_args!("Reset the autoscaler of `{name}`?"))? {
        return Err(Failure::new("nothing was changed").into());
    }
    let present = job.resource.0.pointer("/spec/job/autoscalerResetNonce");
    let nonce = present.and_then(serde_json::Value::as_i64).unwrap_or_default().wrapping_add(1);
    let patch = json!({"spec": {"job": {"autoscalerResetNonce": nonce}}});
    edit::send(&connection, &job.resource, &patch, "autoscaler reset", flags, printer).await
}
