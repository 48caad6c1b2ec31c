//! `snapshots gc`: shows and deletes snapshots that nothing refers to.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use kube::Client;
use serde_json::json;

use super::dispose::delete;
use super::inventory::{Inventory, inventories};
use crate::cli::args::{DryRunMode, Global, ObjectFormat, Output, duration};
use crate::cli::complete;
use crate::cli::gc;
use crate::cli::lookup;
use crate::cli::printer::Printer;
use crate::cli::table::{self, NONE};
use api::reconciled::session_cluster_of;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::FlinkStateSnapshot;
use clients::artifact::storage::shown;
use clients::cluster::read::Scope;
use config::FlinkConfig;
use state::garbage::snapshots::{self as decide, Facts, Finding, Loss, Rules};
use state::references::claims;

/// Arguments of `snapshots gc`.
#[derive(Args)]
#[command(after_help = "\
Deletes a FlinkStateSnapshot together with its savepoint if it is old, not among the newest of its job, and no spec,
status, stored revision or other snapshot refers to the savepoint. For failed snapshots and for checkpoints, only the
resource is deleted. The operator checks again before it disposes of a savepoint. For savepoints without a resource use
kubectl flink gc.

Examples:
  # Show what could be deleted
  kubectl flink snapshots gc --dry-run

  # For one job, all older than a month but the five newest, including manual ones
  kubectl flink snapshots gc orders --keep 5 --older-than 720h --include-kept")]
#[allow(clippy::struct_excessive_bools, reason = "flags")]
pub(super) struct GcArgs {
    /// Only those of this FlinkDeployment, or sessionjob/NAME, which may no longer exist
    #[arg(add = complete::deployments())]
    name: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    all_namespaces: bool,
    /// Keep those newer than this
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "168h")]
    older_than: Duration,
    /// Keep this many of each job, the newest completed ones
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    keep: usize,
    /// Also those with disposeOnDelete: false, together with their savepoints
    #[arg(long)]
    include_kept: bool,
    /// Only show what would be deleted
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    yes: bool,
    #[command(flatten)]
    output: Output<ObjectFormat>,
}

/// Shows what can be deleted, asks, and deletes it.
pub(super) async fn run(args: GcArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let connection = global.connect().await?;
    let client = &connection.client;
    let scope = connection.scope(args.all_namespaces);
    let rules = Rules {
        now: Timestamp::now(),
        age_min: args.older_than,
        keep: args.keep,
        includes_kept: args.include_kept,
    };
    let (name, missing) = match &args.name {
        None => (None, None),
        Some(given) => match lookup::fetch(&connection, given).await {
            Ok(job) => (Some(job.shown_name()), None),
            // The job may be deleted while its snapshots remain.
            Err(error) => (Some(given.clone()), Some(error)),
        },
    };
    let name = name.as_deref();
    let found = inspect(client, scope, name, &rules, Some(printer)).await?;
    if let (Some(error), true) = (missing, found.is_empty()) {
        return Err(error);
    }
    show(&found, args.all_namespaces, args.output, rules.now, printer)?;
    let going = found.iter().filter(|(finding, _)| finding.is_removable).count();
    if args.dry_run || going == 0 {
        return Ok(());
    }
    if !args.yes {
        let question = format!("Delete {going} of these, savepoints included?");
        gc::agree(question, "deleted", printer)?;
    }
    // Another reference may have been added in the meantime.
    let now = inspect(client, scope, name, &rules, None).await?;
    let mut deleted = 0_usize;
    for (finding, _) in found.iter().filter(|(finding, _)| finding.is_removable) {
        let still = now.iter().find(|(other, _)| other == finding);
        let Some((_, resource)) = still else {
            printer.note(format_args!("`{}` has changed and is kept", finding.name));
            continue;
        };
        match delete(client, resource, finding.loss == Loss::Savepoint, DryRunMode::None).await {
            Ok(()) => deleted += 1,
            Err(error) => {
                printer.note(format_args!("{deleted} of {going} deleted"));
                return Err(error);
            }
        }
    }
    printer.note(format_args!(
        "{deleted} of {going} deleted; the operator disposes of their savepoints"
    ));
    Ok(())
}

/// Finds snapshots that are old and not among the newest, each with its resource.
async fn inspect(
    client: &Client,
    scope: Scope<'_>,
    name: Option<&str>,
    rules: &Rules,
    printer: Option<&Printer>,
) -> anyhow::Result<Vec<(Finding, FlinkStateSnapshot)>> {
    let mut found = Vec::new();
    for inventory in inventories(client, scope).await? {
        if let (Err(reason), Some(printer)) = (&inventory.revisions, printer) {
            printer.warning(format_args!(
                "snapshots in namespace `{}` are left alone, because references to them are unknown: {reason}",
                inventory.namespace
            ));
        }
        let findings = judge(&inventory, rules);
        let of_name = findings.into_iter().filter(|it| name.is_none() || it.job.as_deref() == name);
        found.extend(of_name.filter_map(|finding| {
            let is_it = |it: &&FlinkStateSnapshot| it.metadata.uid.as_deref() == Some(&finding.uid);
            let resource = inventory.snapshots.iter().find(is_it)?.clone();
            Some((finding, resource))
        }));
    }
    Ok(found)
}

fn in_cluster(job: &FlinkSessionJob) -> Option<Cow<'_, str>> {
    session_cluster_of(job, job.status.as_ref())
}

fn judge(inventory: &Inventory, rules: &Rules) -> Vec<Finding> {
    let Ok(revisions) = &inventory.revisions else { return Vec::new() };
    let mut claimers = BTreeSet::new();
    for deployment in &inventory.deployments {
        let config = FlinkConfig::flatten(&deployment.spec.flink_configuration);
        if claims(&config) {
            let name = deployment.metadata.name.clone().unwrap_or_default();
            // Session jobs of the cluster inherit this configuration.
            let jobs = inventory
                .session_jobs
                .iter()
                .filter(|job| in_cluster(job) == Some(Cow::Borrowed(name.as_str())));
            let names = jobs.filter_map(|job| job.metadata.name.as_deref());
            claimers.extend(names.map(|name| format!("sessionjob/{name}")));
            claimers.insert(name);
        }
    }
    for job in &inventory.session_jobs {
        if claims(&FlinkConfig::flatten(&job.spec.flink_configuration)) {
            let name = job.metadata.name.as_deref().unwrap_or_default();
            claimers.insert(format!("sessionjob/{name}"));
        }
    }
    let facts = Facts { referrers: inventory.referrers(revisions), claimers };
    decide::garbage(&inventory.snapshots, &facts, rules)
}

fn show(
    found: &[(Finding, FlinkStateSnapshot)],
    has_namespaces: bool,
    Output { output }: Output<ObjectFormat>,
    now: Timestamp,
    printer: &Printer,
) -> anyhow::Result<()> {
    let findings: Vec<&Finding> = found.iter().map(|(finding, _)| finding).collect();
    match output {
        Some(ObjectFormat::Value(format)) => {
            printer.value(&json!({"findings": findings}), format)?;
        }
        Some(ObjectFormat::Name) => {
            for finding in findings.iter().filter(|finding| finding.is_removable) {
                let name = &finding.name;
                printer.line(format_args!("flinkstatesnapshot.flink.apache.org/{name}"))?;
            }
        }
        None | Some(ObjectFormat::Wide) if findings.is_empty() => {
            printer
                .note("nothing to delete: no snapshot is old and not among the newest of its job");
        }
        None | Some(ObjectFormat::Wide) => {
            printer.line(render(&findings, has_namespaces, now))?;
        }
    }
    Ok(())
}

fn render(findings: &[&Finding], has_namespaces: bool, now: Timestamp) -> String {
    let row = |finding: &&Finding| {
        let action = match (finding.is_removable, finding.loss) {
            (false, _) => "keep",
            (true, Loss::Savepoint) => "delete with savepoint",
            (true, Loss::Record) => "delete record",
        };
        let mut cells = if has_namespaces { vec![finding.namespace.clone()] } else { Vec::new() };
        cells.extend([
            finding.name.clone(),
            finding.job.clone().unwrap_or_else(|| NONE.to_owned()),
            table::age(now.duration_since(finding.taken).as_secs()),
            action.to_owned(),
            finding.why.clone(),
            finding.path.as_deref().map_or_else(|| NONE.to_owned(), shown),
        ]);
        cells
    };
    let mut headers = if has_namespaces { vec!["NAMESPACE"] } else { Vec::new() };
    headers.extend(["NAME", "JOB", "AGE", "ACTION", "WHY", "PATH"]);
    table::render(&headers, findings.iter().map(row).collect())
}
