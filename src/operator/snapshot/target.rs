//! The job that a snapshot is of, and who refers to a savepoint.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::api::deployment::FlinkDeployment;
use crate::api::session_job::FlinkSessionJob;
use crate::api::state_snapshot::{FlinkStateSnapshot, JobKind, JobReference};
use crate::api::status::JobStatus;
use crate::cluster::read::{self, Scope};
use crate::cluster::{self, revisions};
use crate::config::{FlinkConfig, OperatorConfig, options};
use crate::decide::reconciled::session_cluster_of;
use crate::decide::record::savepoint_directory;
use crate::decide::references::Referrers;
use crate::decide::snapshot::world::{Job, Target};
use crate::decide::world::Fact;
use crate::flink::Client;
use crate::operator::context::Context;
use crate::operator::observe::{Subject, tell};

/// Way to the job's JobManager.
pub(in crate::operator) struct Found {
    pub(super) client: Client,
    pub(super) job_id: Option<String>,
}

type Answer = (Fact<Target>, Option<Found>);

/// The job that the snapshot refers to.
pub(super) async fn find(
    snapshot: &FlinkStateSnapshot,
    operator: &OperatorConfig,
    context: &Context,
) -> cluster::Result<Answer> {
    let namespace = snapshot.namespace().unwrap_or_default();
    match &snapshot.spec.job_reference {
        Some(JobReference { kind: Some(JobKind::FlinkDeployment), name: Some(name) }) => {
            of_deployment((&namespace, name), operator, context).await
        }
        Some(JobReference { kind: Some(JobKind::FlinkSessionJob), name: Some(name) }) => {
            of_session_job((&namespace, name), operator, context).await
        }
        Some(_) | None => Ok((Fact::Known(Target::Absent), None)),
    }
}

async fn of_deployment(
    (namespace, name): (&str, &str),
    operator: &OperatorConfig,
    context: &Context,
) -> cluster::Result<Answer> {
    let deployment = match deployment(namespace, name, context).await? {
        Deployment::There(deployment) => deployment,
        Deployment::Absent => return Ok((Fact::Known(Target::Absent), None)),
        Deployment::Foreign => return Ok((Fact::Known(Target::Foreign), None)),
        Deployment::Unreadable(reason) => return Ok((Fact::Unknown(reason), None)),
    };
    let status = deployment.status.clone().unwrap_or_default();
    let resource = &deployment;
    let subject = Subject { resource, status: &status, namespace, name, operator, memo: None };
    let config = match subject.config() {
        Ok(config) => config,
        Err(reason) => return Ok((Fact::Unknown(reason), None)),
    };
    Ok(match subject.flink(context) {
        Ok(client) => present(&deployment, &status.job_status, &config, client),
        Err(reason) => (Fact::Unknown(reason), None),
    })
}

async fn of_session_job(
    (namespace, name): (&str, &str),
    operator: &OperatorConfig,
    context: &Context,
) -> cluster::Result<Answer> {
    let job: Option<FlinkSessionJob> = read::get(&context.client, namespace, name).await?;
    let Some(job) = job else { return Ok((Fact::Known(Target::Absent), None)) };
    let cluster_name = session_cluster_of(&job, job.status.as_ref()).unwrap_or_default();
    let cluster = match deployment(namespace, &cluster_name, context).await? {
        Deployment::There(cluster) => cluster,
        Deployment::Foreign => return Ok((Fact::Known(Target::Foreign), None)),
        Deployment::Absent => {
            let reason = format!("its session cluster `{cluster_name}` does not exist");
            return Ok((Fact::Unknown(reason), None));
        }
        Deployment::Unreadable(reason) => return Ok((Fact::Unknown(reason), None)),
    };
    let status = cluster.status.clone().unwrap_or_default();
    let (resource, name) = (&cluster, &*cluster_name);
    let subject = Subject { resource, status: &status, namespace, name, operator, memo: None };
    let mut config = match subject.config() {
        Ok(config) => Arc::unwrap_or_clone(config),
        Err(reason) => return Ok((Fact::Unknown(reason), None)),
    };
    config.overlay(&FlinkConfig::flatten(&job.spec.flink_configuration));
    let job_status = job.status.clone().unwrap_or_default().job_status;
    Ok(match subject.flink(context) {
        Ok(client) => present(&cluster, &job_status, &config, client),
        Err(reason) => (Fact::Unknown(reason), None),
    })
}

fn present(
    cluster: &FlinkDeployment,
    status: &JobStatus,
    config: &FlinkConfig,
    client: Client,
) -> Answer {
    let since = status.update_time.as_deref().and_then(|text| text.parse().ok());
    let timeout = config.get(&options::CHECKPOINTING_TIMEOUT).unwrap_or_default();
    let job = Job {
        state: status.state,
        since: since.and_then(|at| Timestamp::from_millisecond(at).ok()),
        id: status.job_id.clone().filter(|id| !id.is_empty()),
        flink_version: cluster.spec.flink_version,
        savepoint_directory: savepoint_directory(config),
        timeout: SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX),
    };
    let found = Found { client, job_id: job.id.clone() };
    (Fact::Known(Target::Present(Box::new(job))), Some(found))
}

enum Deployment {
    There(Box<FlinkDeployment>),
    Absent,
    /// It has not the labels that this operator looks for.
    Foreign,
    Unreadable(String),
}

/// From the watch; what the watch does not show is read, so that an absence is a fact.
async fn deployment(namespace: &str, name: &str, context: &Context) -> cluster::Result<Deployment> {
    if let Some(seen) = context.deployments.cached(namespace, name) {
        return Ok(match &seen.0 {
            Ok(deployment) => Deployment::There(Box::new(deployment.clone())),
            Err(invalid) => Deployment::Unreadable(invalid.error.clone()),
        });
    }
    let found: Option<FlinkDeployment> = read::get(&context.client, namespace, name).await?;
    Ok(match found {
        None => Deployment::Absent,
        Some(_) if context.is_selective => Deployment::Foreign,
        Some(deployment) => Deployment::There(Box::new(deployment)),
    })
}

/// Who refers to the savepoint of the snapshot.
pub(super) async fn references(
    snapshot: &FlinkStateSnapshot,
    context: &Context,
) -> Fact<Vec<String>> {
    let path = snapshot.status.as_ref().and_then(|status| status.path.clone()).unwrap_or_default();
    match all_references(snapshot, &path, context).await {
        Ok(references) => Fact::Known(references),
        Err(error) => Fact::Unknown(tell(&error)),
    }
}

async fn all_references(
    snapshot: &FlinkStateSnapshot,
    path: &str,
    context: &Context,
) -> cluster::Result<Vec<String>> {
    let namespace = snapshot.namespace().unwrap_or_default();
    let client = &context.client;
    // The namespace is read, as a cache may be late; beyond it the watch has to do.
    let deployments: Vec<FlinkDeployment> =
        read::list(client, Scope::Namespace(&namespace), None).await?;
    let elsewhere = context.deployments.all();
    let elsewhere = elsewhere
        .iter()
        .filter_map(|guarded| guarded.0.as_ref().ok())
        .filter(|deployment| deployment.namespace().as_ref() != Some(&namespace));
    let session_jobs = session_jobs(&namespace, context).await?;
    let revisions = revisions::list_all(client, &namespace).await?;
    let listed = listed_snapshots(&namespace, context).await?;
    let watched = context.snapshots.all();
    let watched = watched.iter().filter_map(|guarded| guarded.0.as_ref().ok());
    let referrers = Referrers {
        deployments: deployments.iter().chain(elsewhere).collect(),
        session_jobs: session_jobs.iter().collect(),
        revisions: &revisions,
        snapshots: watched.chain(&listed).collect(),
    };
    Ok(referrers.of(path, snapshot.metadata.uid.as_deref()))
}

async fn session_jobs(namespace: &str, context: &Context) -> cluster::Result<Vec<FlinkSessionJob>> {
    match read::list(&context.client, Scope::Namespace(namespace), None).await {
        Err(cluster::Error::KindMissing { .. }) => Ok(Vec::new()),
        other => other,
    }
}

/// The snapshots of the namespace where none are watched, as in a preview.
async fn listed_snapshots(
    namespace: &str,
    context: &Context,
) -> cluster::Result<Vec<FlinkStateSnapshot>> {
    if context.snapshots.is_watched() {
        return Ok(Vec::new());
    }
    read::list(&context.client, Scope::Namespace(namespace), None).await
}
