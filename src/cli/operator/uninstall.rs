//! `operator uninstall`: removes the operator, and keeps jobs and what they need.

use clap::Args;

use super::install::{installed, is_of_jobs, manager, objects, values_of};
use super::{MANAGER, namespace};
use crate::cli::args::{DryRun, DryRunMode, Global};
use crate::cli::change;
use crate::cli::failure::Failure;
use crate::cli::printer::Printer;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use clients::cluster::apply::{self, Deletion, ObjectId, Propagation};
use clients::cluster::read;

/// Arguments of `operator uninstall`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  # Show what would be removed
  kubectl flink operator uninstall --dry-run=client

  # Remove it; CRDs, resources, jobs and the jobs' own account and permissions stay
  kubectl flink operator uninstall --yes")]
pub(super) struct UninstallArgs {
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    dry_run: DryRun,
}

/// Removes the objects of an installation, the last created first.
pub(super) async fn run(
    args: UninstallArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let UninstallArgs { yes, dry_run: DryRun { dry_run } } = args;
    let client = global.connect().await?.client;
    let namespace = namespace(global);
    let deployment = installed(&client, &namespace).await?;
    let objects = objects(&values_of(&deployment)?, &namespace)?;
    let mut ours = Vec::new();
    for object in objects.iter().rev().filter(|object| !is_of_jobs(object)) {
        let stored = read::get_value(&client, &ObjectId::in_manifest(object)?).await?;
        if stored.as_ref().and_then(manager) == Some(MANAGER) {
            ours.push(object);
        }
    }
    for object in &ours {
        printer.note(format_args!("{} goes", change::qualified_name(object)));
    }
    let is_asking = printer.terminals().input && !yes && dry_run == DryRunMode::None;
    if is_asking && !printer.confirm("Continue?")? {
        return Err(Failure::new("nothing was changed").into());
    }
    for object in ours {
        if dry_run != DryRunMode::Client {
            let is_dry_run = dry_run == DryRunMode::Server;
            let deletion = Deletion { is_dry_run, ..Deletion::with(Propagation::Foreground) };
            apply::delete(&client, &ObjectId::in_manifest(object)?, deletion).await?;
        }
        printer.line(format_args!(
            "{} deleted{}",
            change::qualified_name(object),
            dry_run.suffix()
        ))?;
    }
    warn_of_what_stays(&client, printer).await
}

/// Warns that resources with a finalizer cannot be deleted while no operator runs.
async fn warn_of_what_stays(client: &kube::Client, printer: &Printer) -> anyhow::Result<()> {
    let scope = read::Scope::AllNamespaces;
    let counts = (
        read::list::<FlinkDeployment>(client, scope, None).await.map(|it| it.len()),
        read::list::<FlinkSessionJob>(client, scope, None).await.map(|it| it.len()),
    );
    // Only a courtesy: skip the warning if the user may not list them.
    let (Ok(deployments), Ok(jobs)) = counts else { return Ok(()) };
    if deployments + jobs > 0 {
        printer.warning(format_args!(
            "{deployments} FlinkDeployments and {jobs} FlinkSessionJobs stay, and their jobs keep running. \
             They are not upgraded, recovered or deleted until an operator runs again"
        ));
    }
    Ok(())
}
