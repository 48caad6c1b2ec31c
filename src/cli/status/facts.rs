//! Reads everything that the tree shows, all at the same time.
//!
//! A part that cannot be read is a fact as well: the tree shows the reason in its place.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::api::state_snapshot::FlinkStateSnapshot;
use crate::cli::connection::Connection;
use crate::cli::deployment::{self, Deployment};
use crate::cli::job_manager;
use crate::cluster::read::{self, Scope};
use crate::cluster::{self, pods};
use crate::flink::access::Access;
use crate::flink::checkpoints::Checkpoints;
use crate::flink::cluster::TaskManagers;
use crate::flink::failures::JobExceptions;
use crate::flink::jobs::JobDetails;
use crate::flink::{self, Deadlines};

/// A person waits: what the JobManager does not say in this time is shown as missing.
const PATIENCE: Duration = Duration::from_secs(3);

/// All that is known of one deployment.
pub(super) struct Facts {
    pub(super) deployment: Deployment,
    pub(super) pods: cluster::Result<Vec<Pod>>,
    /// Those that refer to it, newest first.
    pub(super) snapshots: cluster::Result<Vec<Value>>,
    /// Of a session job: its cluster, or why there is none.
    pub(super) session_cluster: Option<Result<Deployment, String>>,
    /// Of a session cluster: the session jobs that name it.
    pub(super) session_jobs: Vec<Deployment>,
    /// Absent where there is no JobManager to ask.
    pub(super) flink: Option<FlinkFacts>,
}

/// What the JobManager says.
pub(super) struct FlinkFacts {
    pub(super) task_managers: Result<TaskManagers, flink::Error>,
    /// The facts of the job; absent in a session cluster.
    pub(super) job: Option<JobFacts>,
}

/// What the JobManager says of the job.
pub(super) struct JobFacts {
    pub(super) details: Result<JobDetails, flink::Error>,
    pub(super) checkpoints: Result<Checkpoints, flink::Error>,
    pub(super) exceptions: Result<JobExceptions, flink::Error>,
}

/// Reads the deployment, and with it in hand everything else.
pub(super) async fn observe(
    connection: &Connection,
    name: &str,
    access: Access,
) -> anyhow::Result<Facts> {
    let (client, namespace) = (&connection.client, connection.namespace.as_str());
    // Pods and snapshots go by name and need not wait for the deployment.
    let (deployment, pods, snapshots) = tokio::join!(
        deployment::fetch(connection, name),
        pods::list(client, namespace, name, None),
        read::list_values::<FlinkStateSnapshot>(client, Scope::Namespace(namespace), None),
    );
    let deployment = deployment?;
    let snapshots = snapshots.map(|all| of_job(all, &deployment));
    if deployment.is_session_job() {
        return observe_session_job(connection, deployment, snapshots, access).await;
    }
    let session_jobs = if deployment.is_session() {
        deployment::session_jobs_of(connection, deployment.name()).await.unwrap_or_default()
    } else {
        Vec::new()
    };
    let flink = match deployment.job_manager_status() {
        Some("READY" | "DEPLOYED_NOT_READY") => {
            let job_id = deployment.job_id().filter(|_| !deployment.is_session());
            Some(observe_flink(connection, &deployment, job_id, access).await?)
        }
        _ => None,
    };
    Ok(Facts { deployment, pods, snapshots, session_cluster: None, session_jobs, flink })
}

/// The pods are the cluster's, which has a tree of its own.
async fn observe_session_job(
    connection: &Connection,
    job: Deployment,
    snapshots: cluster::Result<Vec<Value>>,
    access: Access,
) -> anyhow::Result<Facts> {
    let cluster = deployment::cluster_of(connection, &job).await.map_err(|error| error.to_string());
    let flink = match &cluster {
        Ok(cluster) if cluster.job_manager_status() == Some("READY") => {
            Some(observe_flink(connection, cluster, job.job_id(), access).await?)
        }
        Ok(_) | Err(_) => None,
    };
    Ok(Facts {
        deployment: job,
        pods: Ok(Vec::new()),
        snapshots,
        session_cluster: Some(cluster),
        session_jobs: Vec::new(),
        flink,
    })
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
        return Ok(FlinkFacts { task_managers: client.taskmanagers().await, job: None });
    };
    let (task_managers, details, checkpoints, exceptions) = tokio::join!(
        client.taskmanagers(),
        client.job(job_id),
        client.checkpoints(job_id),
        client.exceptions(job_id, 1),
    );
    Ok(FlinkFacts { task_managers, job: Some(JobFacts { details, checkpoints, exceptions }) })
}

/// The snapshots of this job, newest first.
fn of_job(snapshots: Vec<Value>, job: &Deployment) -> Vec<Value> {
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
