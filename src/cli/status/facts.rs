//! Reads everything that the tree shows, concurrently.
//!
//! A part that cannot be read is a fact as well: the tree shows the reason in its place.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use serde_json::Value;

use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::job_manager;
use crate::cli::lookup;
use ::autoscaler::advice;
use api::state_snapshot::FlinkStateSnapshot;
use clients::cluster::read::{self, Scope};
use clients::cluster::{self, autoscaler, events, pods};
use clients::flink::access::Access;
use clients::flink::checkpoints::Checkpoints;
use clients::flink::cluster::TaskManagers;
use clients::flink::failures::JobExceptions;
use clients::flink::jobs::{JobDetails, JobsOverview};
use clients::flink::{self, Deadlines};
use config::options::autoscaler::ENABLED;

/// How long to wait for the JobManager, as a user is waiting; what it does not answer in time is shown as missing.
const PATIENCE: Duration = Duration::from_secs(3);

/// Everything known about one deployment.
pub(super) struct Facts {
    pub(super) deployment: Deployment,
    pub(super) pods: cluster::Result<Vec<Pod>>,
    /// Snapshots that refer to it, newest first.
    pub(super) snapshots: cluster::Result<Vec<Value>>,
    /// The cluster of a session job, or why there is none.
    pub(super) session_cluster: Option<Result<Deployment, String>>,
    /// The session jobs that name a session cluster.
    pub(super) session_jobs: Vec<Deployment>,
    /// `None` if there is no JobManager to ask.
    pub(super) flink: Option<FlinkFacts>,
    /// Events about the deployment itself, oldest first.
    pub(super) events: cluster::Result<Vec<Event>>,
    /// Until when the autoscaler only advises because the job is new to it.
    pub(super) advised_until: Option<Timestamp>,
}

/// Facts related to a deployment that depend on its content.
struct Around {
    session_cluster: Option<Result<Deployment, String>>,
    session_jobs: Vec<Deployment>,
    flink: Option<FlinkFacts>,
}

/// Answers of the JobManager.
pub(super) struct FlinkFacts {
    pub(super) task_managers: Result<TaskManagers, flink::Error>,
    /// The facts about the job; `None` for a session cluster.
    pub(super) job: Option<JobFacts>,
    /// All jobs that run in a session cluster; `None` for others, or if they could not be read.
    pub(super) overview: Option<JobsOverview>,
}

/// Answers of the JobManager about the job.
pub(super) struct JobFacts {
    pub(super) details: Result<JobDetails, flink::Error>,
    pub(super) checkpoints: Result<Checkpoints, flink::Error>,
    pub(super) exceptions: Result<JobExceptions, flink::Error>,
}

/// Reads the deployment, and everything that depends on it.
pub(super) async fn observe(
    connection: &Connection,
    name: &str,
    access: Access,
) -> anyhow::Result<Facts> {
    // Reads that need only the name do not wait for the deployment.
    let by_name = by_name(connection, lookup::plain(name));
    let (deployment, by_name) = tokio::join!(lookup::fetch(connection, name), by_name);
    complete(connection, deployment?, by_name, access).await
}

/// Like [`observe`], for a deployment that has already been read.
pub(super) async fn observe_present(
    connection: &Connection,
    deployment: Deployment,
    access: Access,
) -> anyhow::Result<Facts> {
    let by_name = by_name(connection, deployment.name()).await;
    complete(connection, deployment, by_name, access).await
}

/// Pods, and all snapshots of the namespace.
type ByName = (cluster::Result<Vec<Pod>>, cluster::Result<Vec<Value>>);

async fn by_name(connection: &Connection, name: &str) -> ByName {
    let (client, namespace) = (&connection.client, connection.namespace.as_str());
    tokio::join!(
        pods::list(client, namespace, name, None),
        read::list_values::<FlinkStateSnapshot>(client, Scope::Namespace(namespace), None),
    )
}

async fn complete(
    connection: &Connection,
    deployment: Deployment,
    (pods, snapshots): ByName,
    access: Access,
) -> anyhow::Result<Facts> {
    let (client, namespace) = (&connection.client, connection.namespace.as_str());
    let snapshots = snapshots.map(|all| of_job(all, &deployment));
    let around = async {
        if deployment.is_session_job() {
            around_session_job(connection, &deployment, access).await
        } else {
            around_cluster(connection, &deployment, access).await
        }
    };
    let kind = deployment.id().kind;
    let (around, events, advised_until) = tokio::join!(
        around,
        events::about(client, namespace, &kind, deployment.name()),
        advised_until(connection, &deployment),
    );
    let Around { session_cluster, session_jobs, flink } = around?;
    // The pods of a session job are those of its cluster, which has a tree of its own.
    let pods = if deployment.is_session_job() { Ok(Vec::new()) } else { pods };
    Ok(Facts {
        deployment,
        pods,
        snapshots,
        session_cluster,
        session_jobs,
        flink,
        events,
        advised_until,
    })
}

async fn around_cluster(
    connection: &Connection,
    deployment: &Deployment,
    access: Access,
) -> anyhow::Result<Around> {
    let session_jobs = if deployment.is_session() {
        lookup::session_jobs_of(connection, deployment.name()).await.unwrap_or_default()
    } else {
        Vec::new()
    };
    let flink = match deployment.job_manager_status() {
        Some("READY" | "DEPLOYED_NOT_READY") => {
            let job_id = deployment.job_id().filter(|_| !deployment.is_session());
            Some(observe_flink(connection, deployment, job_id, access).await?)
        }
        _ => None,
    };
    Ok(Around { session_cluster: None, session_jobs, flink })
}

async fn around_session_job(
    connection: &Connection,
    job: &Deployment,
    access: Access,
) -> anyhow::Result<Around> {
    let cluster = lookup::cluster_of(connection, job).await.map_err(|error| error.to_string());
    let flink = match &cluster {
        Ok(cluster) if cluster.job_manager_status() == Some("READY") => {
            Some(observe_flink(connection, cluster, job.job_id(), access).await?)
        }
        Ok(_) | Err(_) => None,
    };
    Ok(Around { session_cluster: Some(cluster), session_jobs: Vec::new(), flink })
}

/// Returns until when the autoscaler only advises. Its stored state is read only if the spec enables it; `None` if it
/// may not be read.
async fn advised_until(connection: &Connection, deployment: &Deployment) -> Option<Timestamp> {
    if !deployment.flink_config().get(&ENABLED).unwrap_or_default() {
        return None;
    }
    let (namespace, name) = (deployment.namespace(), deployment.name());
    let found = autoscaler::find(&connection.client, namespace, name).await.ok()??;
    advice::until(&found.data, Timestamp::now())
}

async fn observe_flink(
    connection: &Connection,
    deployment: &Deployment,
    job_id: Option<&str>,
    access: Access,
) -> anyhow::Result<FlinkFacts> {
    let deadlines = Deadlines { request: PATIENCE, ..Deadlines::default() };
    let client = job_manager::client(connection, deployment, access, deadlines)?.without_retries();
    let Some(job_id) = job_id else {
        let (task_managers, overview) = tokio::join!(client.taskmanagers(), async {
            if deployment.is_session() { client.jobs_overview().await.ok() } else { None }
        });
        return Ok(FlinkFacts { task_managers, job: None, overview });
    };
    let (task_managers, details, checkpoints, exceptions) = tokio::join!(
        client.taskmanagers(),
        client.job(job_id),
        client.checkpoints(job_id),
        client.exceptions(job_id, 1),
    );
    let job = Some(JobFacts { details, checkpoints, exceptions });
    Ok(FlinkFacts { task_managers, job, overview: None })
}

/// Returns the snapshots of this job, newest first.
pub(in crate::cli) fn of_job(snapshots: Vec<Value>, job: &Deployment) -> Vec<Value> {
    let (kind, name) = (job.id().kind, job.name());
    let text =
        |value: &Value, path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let mut snapshots = snapshots
        .into_iter()
        .filter(|snapshot| {
            text(snapshot, "/spec/jobReference/kind").as_deref() == Some(&kind)
                && text(snapshot, "/spec/jobReference/name").as_deref() == Some(name)
        })
        .collect::<Vec<_>>();
    snapshots
        .sort_by_key(|snapshot| std::cmp::Reverse(text(snapshot, "/metadata/creationTimestamp")));
    snapshots
}
