//! `suspend` and `resume`: the desired state of a job.

use clap::Args;
use serde_json::json;

use super::args::{ChangeFlags, DryRunMode, Global};
use super::failure::Failure;
use super::printer::Printer;
use super::{change, complete, deployment};
use crate::api::job::JobState;
use crate::cluster::apply;

/// Arguments of `suspend` and `resume`.
#[derive(Args)]
pub struct DesiredStateArgs {
    /// The FlinkDeployment, or sessionjob/NAME
    #[arg(add = complete::deployments())]
    name: String,
    #[command(flatten)]
    flags: ChangeFlags,
}

/// Writes the desired state into the spec; the operator does the rest.
pub async fn run(
    args: DesiredStateArgs,
    desired: JobState,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let DesiredStateArgs { name, flags } = args;
    let dry_run = flags.dry_run.dry_run;
    let (word, verb) = match desired {
        JobState::Running => ("running", "resumed"),
        JobState::Suspended => ("suspended", "suspended"),
    };
    let connection = global.connect().await?;
    let present = deployment::fetch(&connection, &name).await?;
    let name = present.name();
    if present.is_session() {
        return Err(Failure::new(format!(
            "`{name}` is a session cluster: it has no job of its own to stop or start"
        ))
        .hint("suspend its jobs instead: see them with: kubectl flink status")
        .into());
    }
    if present.desired_state() == word {
        printer.note(format_args!("`{name}` is meant to be {word} already"));
    }
    if desired == JobState::Suspended
        && present.desired_state() != word
        && present.upgrade_mode() == "stateless"
    {
        printer.warning(format_args!(
            "spec.job.upgradeMode of `{name}` is stateless: the state of the job is not kept"
        ));
    }
    let patch = json!({"spec": {"job": {"state": word}}});
    let written = if dry_run == DryRunMode::Client {
        let mut object = present.0.clone();
        object["spec"]["job"]["state"] = json!(word);
        object
    } else {
        apply::merge_patch(&connection.client, &present.id(), &patch, change::writer(dry_run))
            .await?
    };
    change::finish(&connection, written, verb, flags, printer).await
}
