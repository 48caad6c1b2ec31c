//! The job that a snapshot is taken of.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::context::Context;
use crate::observe::Subject;
use crate::reconcile::OperatedJob as _;
use api::blue_green::{Colour, parent_of};
use api::deployment::FlinkDeployment;
use api::reconciled::session_cluster_of;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::{FlinkStateSnapshot, JobKind, JobReference, SnapshotState};
use api::status::{JobStatus, JobStatusState};
use clients::cluster;
use clients::cluster::read;
use clients::flink::Client;
use config::cluster::savepoint_directory;
use config::{FlinkConfig, OperatorConfig, options};
use lifecycle::snapshot::world::{Job, Target};
use lifecycle::world::Fact;
use state::references::claims;

/// How to reach the job's JobManager.
pub(crate) struct Found {
    pub(super) client: Client,
    pub(super) job_id: Option<String>,
    /// As the status of its resource has it.
    pub(super) state: Option<JobStatusState>,
}

type Answer = (Fact<Target>, Option<Found>);

/// Returns the job that the snapshot refers to.
pub(super) async fn find(
    snapshot: &FlinkStateSnapshot,
    operator: &OperatorConfig,
    context: &Context,
) -> cluster::Result<Answer> {
    let namespace = snapshot.namespace().unwrap_or_default();
    match &snapshot.spec.job_reference {
        Some(JobReference { kind: Some(JobKind::FlinkDeployment), name: Some(name) }) => {
            let found = of_deployment((&namespace, name), operator, context).await?;
            if is_to_be_disposed_of(snapshot)
                && matches!(found, (Fact::Known(Target::Absent), _))
                && let Some(other) = other_colour(&namespace, name, context).await?
            {
                // The child that took over disposes of it.
                return of_deployment((&namespace, &other), operator, context).await;
            }
            Ok(found)
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
    let resource: &FlinkDeployment = &deployment;
    let subject = Subject::new((resource, &status), None, operator);
    let config = match subject.config() {
        Ok(config) => config,
        Err(reason) => return Ok((Fact::Unknown(reason), None)),
    };
    Ok(match FlinkDeployment::flink(&subject, context) {
        Ok(client) => present(&deployment, &status.job_status, &config, client),
        Err(reason) => (Fact::Unknown(reason), None),
    })
}

/// Returns `true` if its savepoint is complete, and may be deleted with it.
fn is_to_be_disposed_of(snapshot: &FlinkStateSnapshot) -> bool {
    let state = snapshot.status.as_ref().map(|status| status.state);
    snapshot.metadata.deletion_timestamp.is_some() && state == Some(SnapshotState::Completed)
}

/// Returns the other child of the blue/green deployment that this is, or was, a child of.
async fn other_colour(
    namespace: &str,
    name: &str,
    context: &Context,
) -> cluster::Result<Option<String>> {
    for colour in Colour::ALL {
        let Some(parent) = name.strip_suffix(&colour.child_of("")) else { continue };
        let other = colour.other().child_of(parent);
        let Deployment::There(found) = deployment(namespace, &other, context).await? else {
            continue;
        };
        let is_child = parent_of(&found.metadata).is_some_and(|owner| owner.name == parent);
        return Ok(is_child.then_some(other));
    }
    Ok(None)
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
            return Ok((Fact::Known(Target::Unserved(reason)), None));
        }
        Deployment::Unreadable(reason) => return Ok((Fact::Unknown(reason), None)),
    };
    let status = cluster.status.clone().unwrap_or_default();
    let resource: &FlinkDeployment = &cluster;
    let subject = Subject::new((resource, &status), None, operator);
    let mut config = match subject.config() {
        Ok(config) => Arc::unwrap_or_clone(config),
        Err(reason) => return Ok((Fact::Unknown(reason), None)),
    };
    config.overlay(&FlinkConfig::flatten(&job.spec.flink_configuration));
    let job_status = job.status.clone().unwrap_or_default().job_status;
    Ok(match FlinkDeployment::flink(&subject, context) {
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
        claims: claims(config),
    };
    let found = Found { client, job_id: job.id.clone(), state: status.state };
    (Fact::Known(Target::Present(Box::new(job))), Some(found))
}

enum Deployment {
    There(Box<FlinkDeployment>),
    Absent,
    /// It does not have the labels that this operator selects.
    Foreign,
    Unreadable(String),
}

/// Returns the deployment from the watch; what the watch does not show is read, so that an absence is a fact.
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
