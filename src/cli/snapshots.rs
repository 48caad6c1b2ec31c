//! `snapshots`: the savepoints and checkpoints of jobs, and what still refers to each.
//!
//! They are found where the operator looks for them: `FlinkStateSnapshot` resources, the deprecated
//! history in a job's status, and the last checkpoint that a running job has completed.

mod dispose;
mod gc;

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use jiff::Timestamp;
use kube::{Client, Resource};
use serde::Serialize;
use serde_json::json;

use super::args::{FlinkAccess, Global, Output, OutputFormat};
use super::connection::Connection;
use super::deployment::Deployment;
use super::failure::Failure;
use super::printer::Printer;
use super::table::{self, NONE};
use super::{complete, deployment, job_manager, restore, savepoint};
use crate::api::deployment::FlinkDeployment;
use crate::api::session_job::FlinkSessionJob;
use crate::api::state_snapshot::{FlinkStateSnapshot, SnapshotState};
use crate::api::status::{JobStatus, SnapshotTriggerType};
use crate::cluster::read::{self, Scope};
use crate::cluster::{self, revisions};
use crate::decide::error_document::message_of;
use crate::decide::garbage::snapshots::job_of;
use crate::decide::references::{Referrers, is_same_location};
use crate::decide::revision::Revision;
use crate::decide::snapshot::{trigger_type, type_label};
use crate::flink::Deadlines;
use crate::flink::access::Access;
use crate::flink::checkpoints::{Checkpoints, LastState};

/// Arguments of `snapshots`.
#[derive(Args)]
#[command(after_help = "\
REFERENCES counts who could still start from a snapshot: specs, statuses, stored revisions and other snapshots.
A savepoint without any may be deleted; the operator never disposes of one with any. Checkpoints are Flink's to delete.

Examples:
  # All snapshots of the namespace, or of all namespaces
  kubectl flink snapshots
  kubectl flink snapshots -A

  # Those of one job, with its last checkpoint and who refers to each
  kubectl flink snapshots orders -o wide

  # Take one, go back to it, delete it with its savepoint
  kubectl flink snapshots trigger orders
  kubectl flink snapshots restore orders-savepoint-manual-1767225600000
  kubectl flink snapshots dispose orders-savepoint-manual-1767225600000

  # Delete old ones that nothing refers to
  kubectl flink snapshots gc --keep 5 --older-than 720h")]
pub struct SnapshotsArgs {
    #[command(subcommand)]
    action: Option<Action>,
    /// Only those of this FlinkDeployment, or sessionjob/NAME
    #[arg(add = complete::deployments())]
    name: Option<String>,
    /// List those of all namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    all_namespaces: bool,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    output: Output,
}

/// What is done about a snapshot; without it all are listed.
#[derive(Subcommand)]
enum Action {
    /// Take a savepoint, or with --checkpoint a checkpoint, of a running job
    Trigger(savepoint::SavepointArgs),
    /// Start the job that it was taken of again, from there
    Restore(restore::SnapshotArgs),
    /// Delete a snapshot together with its savepoint, if nothing refers to it
    Dispose(dispose::DisposeArgs),
    /// Delete snapshots that are old and that nothing refers to, with their savepoints
    Gc(gc::GcArgs),
}

/// Where a snapshot was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
enum Source {
    /// A `FlinkStateSnapshot`.
    Resource,
    /// The status of its job.
    Status,
    /// The JobManager of its job.
    JobManager,
}

/// One line of the list.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Snapshot {
    source: Source,
    namespace: String,
    /// Of the resource.
    name: Option<String>,
    /// As `orders` or `sessionjob/orders`.
    job: Option<String>,
    /// `SAVEPOINT` or `CHECKPOINT`.
    kind: &'static str,
    /// `MANUAL`, `PERIODIC`, `UPGRADE` or `UNKNOWN`.
    trigger: &'static str,
    state: &'static str,
    created: Option<Timestamp>,
    path: Option<String>,
    /// Whether the savepoint goes with its resource; absent where there is none to go.
    is_disposed_on_delete: Option<bool>,
    /// Absent where not everything could be read that might refer to it.
    referred_to_by: Option<Vec<String>>,
    /// Why it failed.
    error: Option<String>,
}

/// What the lists of a namespace hold.
struct Inventory {
    namespace: String,
    snapshots: Vec<FlinkStateSnapshot>,
    deployments: Vec<FlinkDeployment>,
    session_jobs: Vec<FlinkSessionJob>,
    /// Or why they cannot be read.
    revisions: Result<Vec<(String, Revision)>, String>,
}

/// Collects and prints.
pub async fn run(args: SnapshotsArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let SnapshotsArgs { action, name, all_namespaces, access, output: Output { output } } = args;
    if action.is_some() && (name.is_some() || all_namespaces || output.is_some()) {
        return Err(Failure::usage(
            "flags of the list do not go with trigger, restore, dispose and gc",
        )
        .hint("write flags behind those words, such as: kubectl flink snapshots trigger NAME")
        .into());
    }
    match action {
        Some(Action::Trigger(args)) => return savepoint::run(args, global, printer).await,
        Some(Action::Restore(args)) => return restore::snapshot(args, global, printer).await,
        Some(Action::Dispose(args)) => return dispose::run(args, global, printer).await,
        Some(Action::Gc(args)) => return Box::pin(gc::run(args, global, printer)).await,
        None => {}
    }
    let connection = global.connect().await?;
    let job = match &name {
        Some(name) => Some(deployment::fetch(&connection, name).await?),
        None => None,
    };
    let scope = connection.scope(all_namespaces);
    let mut snapshots = Vec::new();
    for inventory in inventories(&connection.client, scope).await? {
        if let Err(reason) = &inventory.revisions {
            let namespace = &inventory.namespace;
            printer.warning(format_args!(
                "what refers to a snapshot of namespace `{namespace}` is not known: {reason}"
            ));
        }
        let of = job.as_ref().map(Deployment::shown_name);
        snapshots.extend(collect(&inventory, of.as_deref()));
    }
    if let Some(job) = &job {
        match last_checkpoint(&connection, job, access.flink_access).await {
            Ok(found) => snapshots.extend(found),
            Err(error) => printer.note(format_args!("its last checkpoint is not shown: {error:#}")),
        }
    }
    print(&snapshots, output, printer, name.as_deref(), scope)
}

fn print(
    snapshots: &[Snapshot],
    output: Option<OutputFormat>,
    printer: &Printer,
    name: Option<&str>,
    scope: Scope<'_>,
) -> anyhow::Result<()> {
    match output {
        Some(OutputFormat::Json | OutputFormat::Yaml) => {
            if let Some(format) = output.and_then(OutputFormat::for_value) {
                printer.value(&json!({"snapshots": snapshots}), format)?;
            }
        }
        Some(OutputFormat::Name) => {
            for name in snapshots.iter().filter_map(|snapshot| snapshot.name.as_ref()) {
                printer.line(format_args!("flinkstatesnapshot.flink.apache.org/{name}"))?;
            }
        }
        None | Some(OutputFormat::Wide) if snapshots.is_empty() => match (name, scope) {
            (Some(name), _) => printer.note(format_args!("`{name}` has no snapshots")),
            (None, Scope::AllNamespaces) => printer.note("no snapshots"),
            (None, Scope::Namespace(namespace)) => {
                printer.note(format_args!("no snapshots in namespace `{namespace}`"));
            }
        },
        None | Some(OutputFormat::Wide) => {
            let is_wide = output == Some(OutputFormat::Wide);
            let has_namespaces = scope == Scope::AllNamespaces;
            printer.line(render(snapshots, has_namespaces, is_wide, Timestamp::now()))?;
        }
    }
    Ok(())
}

/// One per namespace that has anything, by name.
async fn inventories(client: &Client, scope: Scope<'_>) -> anyhow::Result<Vec<Inventory>> {
    let (snapshots, deployments, session_jobs) = tokio::join!(
        read::list(client, scope, None),
        read::list(client, scope, None),
        read::list(client, scope, None),
    );
    let mut snapshots = by_namespace::<FlinkStateSnapshot>(or_none(snapshots)?);
    let mut deployments = by_namespace::<FlinkDeployment>(deployments?);
    let mut session_jobs = by_namespace::<FlinkSessionJob>(or_none(session_jobs)?);
    let namespaces: BTreeSet<String> =
        snapshots.keys().chain(deployments.keys()).chain(session_jobs.keys()).cloned().collect();
    let mut inventories = Vec::new();
    for namespace in namespaces {
        let revisions = revisions::list_all(client, &namespace).await;
        inventories.push(Inventory {
            snapshots: snapshots.remove(&namespace).unwrap_or_default(),
            deployments: deployments.remove(&namespace).unwrap_or_default(),
            session_jobs: session_jobs.remove(&namespace).unwrap_or_default(),
            revisions: revisions.map_err(|error| error.to_string()),
            namespace,
        });
    }
    Ok(inventories)
}

fn by_namespace<K: Resource>(objects: Vec<K>) -> BTreeMap<String, Vec<K>> {
    let mut found = BTreeMap::<String, Vec<K>>::new();
    for object in objects {
        found.entry(object.meta().namespace.clone().unwrap_or_default()).or_default().push(object);
    }
    found
}

/// Where the kind is not installed there are none.
fn or_none<K>(listed: cluster::Result<Vec<K>>) -> cluster::Result<Vec<K>> {
    match listed {
        Err(cluster::Error::KindMissing { .. }) => Ok(Vec::new()),
        other => other,
    }
}

/// The snapshots of a job, or of all, oldest first.
fn collect(inventory: &Inventory, of: Option<&str>) -> Vec<Snapshot> {
    let is_meant = |job: Option<&str>| of.is_none_or(|of| Some(of) == job);
    let referrers = inventory.revisions.as_ref().ok().map(|revisions| Referrers {
        deployments: inventory.deployments.iter().collect(),
        session_jobs: inventory.session_jobs.iter().collect(),
        revisions,
        snapshots: inventory.snapshots.iter().collect(),
    });
    let mut found: Vec<Snapshot> = inventory
        .snapshots
        .iter()
        .map(|resource| of_resource(resource, referrers.as_ref()))
        .collect();
    for resource in &inventory.deployments {
        let job = resource.metadata.name.clone().unwrap_or_default();
        let status = resource.status.clone().unwrap_or_default().job_status;
        found.extend(of_status(&job, &status, referrers.as_ref(), inventory));
    }
    for resource in &inventory.session_jobs {
        let job = format!("sessionjob/{}", resource.metadata.name.as_deref().unwrap_or_default());
        let status = resource.status.clone().unwrap_or_default().job_status;
        found.extend(of_status(&job, &status, referrers.as_ref(), inventory));
    }
    found.retain(|snapshot| is_meant(snapshot.job.as_deref()));
    found.sort_by_key(|snapshot| snapshot.created);
    found
}

fn of_resource(resource: &FlinkStateSnapshot, referrers: Option<&Referrers<'_>>) -> Snapshot {
    let status = resource.status.clone().unwrap_or_default();
    let savepoint = resource.spec.savepoint.as_ref();
    let job = job_of(resource);
    let path = status.path.clone().filter(|path| !path.is_empty());
    let uid = resource.metadata.uid.as_deref();
    Snapshot {
        source: Source::Resource,
        namespace: resource.metadata.namespace.clone().unwrap_or_default(),
        name: resource.metadata.name.clone(),
        job,
        kind: type_label(&resource.spec).unwrap_or("UNKNOWN"),
        trigger: trigger_type(resource).as_str(),
        state: if resource.metadata.deletion_timestamp.is_some() {
            "DELETING"
        } else {
            status.state.as_str()
        },
        created: resource.metadata.creation_timestamp.as_ref().map(|at| at.0),
        is_disposed_on_delete: savepoint
            .map(|savepoint| savepoint.dispose_on_delete != Some(false)),
        referred_to_by: references(path.as_deref(), uid, referrers),
        path,
        error: status.error.as_deref().map(message_of),
    }
}

/// Who refers to the path beside the snapshot itself; a snapshot without one is referred to by none.
fn references(
    path: Option<&str>,
    except: Option<&str>,
    referrers: Option<&Referrers<'_>>,
) -> Option<Vec<String>> {
    match path {
        Some(path) => referrers.as_ref().map(|referrers| referrers.of(path, except)),
        None => Some(Vec::new()),
    }
}

/// The savepoints of a job's status that are no resources.
fn of_status(
    job: &str,
    status: &JobStatus,
    referrers: Option<&Referrers<'_>>,
    inventory: &Inventory,
) -> Vec<Snapshot> {
    let Some(info) = &status.savepoint_info else { return Vec::new() };
    let is_resource = |path: &str| {
        inventory.snapshots.iter().any(|resource| {
            let taken = resource.status.as_ref().and_then(|status| status.path.as_deref());
            taken.is_some_and(|taken| is_same_location(taken, path))
        })
    };
    let mut paths: Vec<&str> = Vec::new();
    let mut found = Vec::new();
    for savepoint in info.savepoint_history.iter().chain(&info.last_savepoint) {
        let Some(path) = savepoint.location.as_deref().filter(|path| !path.is_empty()) else {
            continue;
        };
        if paths.contains(&path) || is_resource(path) {
            continue;
        }
        paths.push(path);
        found.push(Snapshot {
            source: Source::Status,
            namespace: inventory.namespace.clone(),
            name: None,
            job: Some(job.to_owned()),
            kind: "SAVEPOINT",
            trigger: savepoint.trigger_type.map_or("UNKNOWN", SnapshotTriggerType::as_str),
            state: SnapshotState::Completed.as_str(),
            created: Timestamp::from_millisecond(savepoint.time_stamp).ok(),
            path: Some(path.to_owned()),
            is_disposed_on_delete: None,
            referred_to_by: references(Some(path), None, referrers),
            error: None,
        });
    }
    found
}

/// The last checkpoint of a running job, which is Flink's to keep and to delete.
async fn last_checkpoint(
    connection: &Connection,
    job: &Deployment,
    access: Access,
) -> anyhow::Result<Option<Snapshot>> {
    let (Some("RUNNING"), Some(job_id)) = (job.job_state(), job.job_id()) else { return Ok(None) };
    let cluster = deployment::cluster_of(connection, job).await?;
    let client = job_manager::client(connection, &cluster, access, Deadlines::default())?;
    let checkpoints = client.without_retries().checkpoints(job_id).await?;
    let Checkpoints::Statistics(statistics) = checkpoints else {
        return Ok(None);
    };
    let LastState::At(point) = statistics.last_state() else { return Ok(None) };
    if point.is_savepoint {
        return Ok(None);
    }
    Ok(Some(Snapshot {
        source: Source::JobManager,
        namespace: connection.namespace.clone(),
        name: None,
        job: Some(job.shown_name()),
        kind: "CHECKPOINT",
        trigger: "PERIODIC",
        state: SnapshotState::Completed.as_str(),
        created: point.timestamp.and_then(|at| Timestamp::from_millisecond(at).ok()),
        path: Some(point.path),
        is_disposed_on_delete: None,
        referred_to_by: Some(vec![format!("the running job of `{}`", job.shown_name())]),
        error: None,
    }))
}

fn render(snapshots: &[Snapshot], has_namespaces: bool, is_wide: bool, now: Timestamp) -> String {
    let none = || NONE.to_owned();
    let row = |snapshot: &Snapshot| {
        let mut cells = Vec::new();
        if has_namespaces {
            cells.push(snapshot.namespace.clone());
        }
        cells.extend([
            snapshot.name.clone().unwrap_or_else(none),
            snapshot.job.clone().unwrap_or_else(none),
            snapshot.kind.to_owned(),
            snapshot.trigger.to_owned(),
            snapshot.state.to_owned(),
            snapshot.created.map_or_else(none, |at| table::age(now.duration_since(at).as_secs())),
            snapshot
                .referred_to_by
                .as_ref()
                .map_or_else(|| "unknown".to_owned(), |all| all.len().to_string()),
            snapshot.path.clone().unwrap_or_else(none),
        ]);
        if is_wide {
            let fate = match snapshot.is_disposed_on_delete {
                Some(true) => "dispose".to_owned(),
                Some(false) => "keep".to_owned(),
                None => none(),
            };
            let all = snapshot.referred_to_by.as_ref().filter(|all| !all.is_empty());
            cells.extend([fate, all.map_or_else(none, |all| all.join(", "))]);
        }
        cells
    };
    let mut headers = if has_namespaces { vec!["NAMESPACE"] } else { Vec::new() };
    headers.extend(["NAME", "JOB", "KIND", "TRIGGER", "STATE", "AGE", "REFERENCES", "PATH"]);
    if is_wide {
        headers.extend(["ON DELETE", "REFERRED TO BY"]);
    }
    table::render(&headers, snapshots.iter().map(row).collect())
}

#[cfg(test)]
mod tests;
