//! Facts for `snapshots`: the recorded snapshots, and what could still start from each.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::{Client, Resource};
use serde::Serialize;

use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::{FlinkStateSnapshot, SnapshotState};
use api::status::JobStatus;
use clients::cluster::read::{self, Scope};
use clients::cluster::revisions;
use lifecycle::error_document::message_of;
use lifecycle::snapshot::labels::{trigger_type, type_label};
use state::garbage::snapshots::job_of;
use state::references::{Referrers, is_same_location};
use state::revision::Revision;

/// Where a snapshot was found.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(super) enum Source {
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
pub(super) struct Snapshot {
    pub(super) source: Source,
    pub(super) namespace: String,
    /// Name of the resource.
    pub(super) name: Option<String>,
    /// Name of the job, such as `orders` or `sessionjob/orders`.
    pub(super) job: Option<String>,
    /// `SAVEPOINT` or `CHECKPOINT`.
    pub(super) kind: &'static str,
    /// `MANUAL`, `PERIODIC`, `UPGRADE` or `UNKNOWN`.
    pub(super) trigger: &'static str,
    pub(super) state: &'static str,
    pub(super) created: Option<Timestamp>,
    pub(super) path: Option<String>,
    /// Whether the savepoint is deleted with its resource; `None` if there is none to delete.
    pub(super) is_disposed_on_delete: Option<bool>,
    /// `None` if not everything that might refer to it could be read.
    pub(super) referred_to_by: Option<Vec<String>>,
    /// Why the snapshot failed.
    pub(super) error: Option<String>,
}

/// The lists of a namespace.
pub(super) struct Inventory {
    pub(super) namespace: String,
    pub(super) snapshots: Vec<FlinkStateSnapshot>,
    pub(super) deployments: Vec<FlinkDeployment>,
    pub(super) session_jobs: Vec<FlinkSessionJob>,
    /// The revisions, or why they cannot be read.
    pub(super) revisions: Result<Vec<(String, Revision)>, String>,
}

impl Inventory {
    /// Returns everything in the namespace that can refer to a savepoint.
    pub(super) fn referrers<'a>(&'a self, revisions: &'a [(String, Revision)]) -> Referrers<'a> {
        Referrers {
            namespace: &self.namespace,
            deployments: self.deployments.iter().collect(),
            session_jobs: self.session_jobs.iter().collect(),
            revisions,
            snapshots: self.snapshots.iter().collect(),
            unread: &[],
        }
    }
}

/// Returns an inventory for each namespace that has anything, ordered by name.
pub(super) async fn inventories(
    client: &Client,
    scope: Scope<'_>,
) -> anyhow::Result<Vec<Inventory>> {
    let (snapshots, deployments, session_jobs) = tokio::join!(
        read::list(client, scope, None),
        read::list(client, scope, None),
        read::list(client, scope, None),
    );
    let snapshots = read::or_none::<FlinkStateSnapshot, _>(client, snapshots).await?;
    let session_jobs = read::or_none::<FlinkSessionJob, _>(client, session_jobs).await?;
    let mut snapshots = by_namespace::<FlinkStateSnapshot>(snapshots);
    let mut deployments = by_namespace::<FlinkDeployment>(deployments?);
    let mut session_jobs = by_namespace::<FlinkSessionJob>(session_jobs);
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

pub(super) fn by_namespace<K: Resource>(objects: Vec<K>) -> BTreeMap<String, Vec<K>> {
    let mut found = BTreeMap::<String, Vec<K>>::new();
    for object in objects {
        found.entry(object.meta().namespace.clone().unwrap_or_default()).or_default().push(object);
    }
    found
}

/// Returns the snapshots of one job, or of all, oldest first.
pub(super) fn collect(inventory: &Inventory, of: Option<&str>) -> Vec<Snapshot> {
    let is_meant = |job: Option<&str>| of.is_none_or(|of| Some(of) == job);
    let revisions = inventory.revisions.as_ref().ok();
    let referrers = revisions.map(|revisions| inventory.referrers(revisions));
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

pub(super) fn of_resource(
    resource: &FlinkStateSnapshot,
    referrers: Option<&Referrers<'_>>,
) -> Snapshot {
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
        trigger: trigger_type(resource).into_str(),
        state: if resource.metadata.deletion_timestamp.is_some() {
            "DELETING"
        } else {
            status.state.into_str()
        },
        created: resource.metadata.creation_timestamp.as_ref().map(|at| at.0),
        is_disposed_on_delete: savepoint
            .map(|savepoint| savepoint.dispose_on_delete != Some(false)),
        referred_to_by: references(path.as_deref(), uid, referrers),
        path,
        error: status.error.as_deref().map(message_of),
    }
}

/// Returns what refers to the path, except the snapshot itself; empty for a snapshot without a path.
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

/// Returns the savepoints in a job's status that have no resource.
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
            trigger: savepoint.trigger_type.map_or("UNKNOWN", |it| it.into_str()),
            state: SnapshotState::Completed.into_str(),
            created: Timestamp::from_millisecond(savepoint.time_stamp).ok(),
            path: Some(path.to_owned()),
            is_disposed_on_delete: None,
            referred_to_by: references(Some(path), None, referrers),
            error: None,
        });
    }
    found
}
