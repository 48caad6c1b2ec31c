//! `suspend` and `resume`: the desired state of a job.

use clap::Args;
use serde_json::json;

use super::args::{DryRun, DryRunMode, Global, Output, Wait};
use super::deployment::{self, Deployment};
use super::failure::Failure;
use super::printer::Printer;
use super::wait::{self, Goal};
use super::{change, complete};
use crate::api::job::JobState;
use crate::cluster::apply;

/// Arguments of `suspend` and `resume`.
#[derive(Args)]
pub struct DesiredStateArgs {
    /// The FlinkDeployment, or sessionjob/NAME
    #[arg(add = complete::deployments())]
    name: String,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    dry_run: DryRun,
    #[command(flatten)]
    output: Output,
}

/// Writes the desired state into the spec; the operator does the rest.
pub async fn run(
    args: DesiredStateArgs,
    desired: JobState,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let DesiredStateArgs { name, wait, dry_run: DryRun { dry_run }, output: Output { output } } =
        args;
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
    change::report(&written, verb, dry_run, output, printer)?;
    if wait.wait && dry_run == DryRunMode::None {
        let goal = Goal::Reconciled { written: Box::new(Deployment(written)) };
        wait::until(&connection, &present.id(), &goal, wait.timeout, printer).await?;
    }
    Ok(())
}
