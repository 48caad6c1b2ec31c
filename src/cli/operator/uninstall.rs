//! `operator uninstall`: removes the operator, and keeps jobs and what they need.

use std::fmt::Debug;

use clap::Args;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::de::DeserializeOwned;

use super::install::{installed, is_of_jobs, manager, objects, values_of};
use super::{MANAGER, namespace};
use crate::cli::args::{DryRun, DryRunMode, Global};
use crate::cli::change;
use crate::cli::failure::Failure;
use crate::cli::printer::Printer;
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use api::is_paused;
use api::session_job::FlinkSessionJob;
use clients::cluster;
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
    let (deployments, jobs, blue_greens) = tokio::join!(
        metadata_of::<FlinkDeployment>(client),
        metadata_of::<FlinkSessionJob>(client),
        metadata_of::<FlinkBlueGreenDeployment>(client),
    );
    // Only a courtesy: skip the warning if the user may not list them.
    let (Ok(deployments), Ok(jobs)) = (deployments, jobs) else { return Ok(()) };
    if deployments.len() + jobs.len() > 0 {
        printer.warning(format_args!(
            "{} FlinkDeployments and {} FlinkSessionJobs stay, and their jobs keep running. They are \
             not upgraded, recovered or deleted until an operator runs again",
            deployments.len(),
            jobs.len()
        ));
    }
    let all =
        [("", deployments), ("sessionjob/", jobs), ("bluegreen/", blue_greens.unwrap_or_default())];
    let paused = paused(&all);
    if !paused.is_empty() {
        printer.warning(format_args!(
            "these are paused, and the Java operator would act on them at once: {}",
            paused.join(", ")
        ));
    }
    Ok(())
}

async fn metadata_of<K>(client: &kube::Client) -> cluster::Result<Vec<ObjectMeta>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug,
{
    let all = read::list::<K>(client, read::Scope::AllNamespaces, None).await?;
    Ok(all.into_iter().map(|resource| resource.meta().clone()).collect())
}

/// Names the paused ones among resources of several kinds, each with the prefix of its names.
fn paused(all: &[(&str, Vec<ObjectMeta>)]) -> Vec<String> {
    let of_kind = |(prefix, of_kind): &(&str, Vec<ObjectMeta>)| {
        let paused = of_kind.iter().filter(|metadata| is_paused(metadata));
        let named = paused.map(|it| {
            let (name, namespace) = (it.name.as_deref(), it.namespace.as_deref());
            format!("{prefix}{} in {}", name.unwrap_or_default(), namespace.unwrap_or_default())
        });
        named.collect::<Vec<_>>()
    };
    all.iter().flat_map(of_kind).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_paused_is_named() {
        let metadata = |value| serde_json::from_value::<ObjectMeta>(value).unwrap();
        let of = |paused: &str| {
            let annotations = json!({"flink.apache.org/paused": paused});
            metadata(json!({"name": "orders", "namespace": "shop", "annotations": annotations}))
        };
        let all = [("", vec![of("true"), of("false")]), ("sessionjob/", vec![of("TRUE")])];
        assert_eq!(paused(&all), ["orders in shop", "sessionjob/orders in shop"]);
    }
}
