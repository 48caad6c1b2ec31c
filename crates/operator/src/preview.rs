//! Finds out what the operator would do about a resource, or about its deletion, without doing it.
//!
//! The decision is the operator's own, on facts that are read in the same way. A deletion that was not requested yet is
//! decided as if it were requested now.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::autoscaler::Scaled;
use super::context::Context;
use super::kind::Operated;
use super::pass::Error;
use super::reconcile;
use super::snapshot;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::FlinkStateSnapshot;
use lifecycle::blocker::Blocker;
use lifecycle::error_document::message_of;
use lifecycle::plan::Step;
use lifecycle::resource::StatusOfJob as _;

/// What the next pass over a resource would do.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The reason, in a phrase; for a deletion, its current step.
    pub because: String,
    /// Names of the steps that change something besides the resource's status.
    pub steps: Vec<&'static str>,
    /// The error that its status would show and does not show yet.
    pub error: Option<String>,
    pub blocker: Option<Blocker>,
}

/// Previews the next pass over the deletion of an application or a session cluster.
pub async fn of_deployment_deletion(
    mut resource: FlinkDeployment,
    context: &Context,
) -> Result<Preview, Error> {
    mark::<FlinkDeployment>(&mut resource.metadata);
    of_deployment(resource, context).await
}

/// Previews the next pass over an application or a session cluster.
pub async fn of_deployment(resource: FlinkDeployment, context: &Context) -> Result<Preview, Error> {
    of(resource, context).await
}

/// Previews the next pass over the deletion of a session job.
pub async fn of_session_job_deletion(
    mut resource: FlinkSessionJob,
    context: &Context,
) -> Result<Preview, Error> {
    mark::<FlinkSessionJob>(&mut resource.metadata);
    of_session_job(resource, context).await
}

/// Previews the next pass over a session job.
pub async fn of_session_job(
    resource: FlinkSessionJob,
    context: &Context,
) -> Result<Preview, Error> {
    of(resource, context).await
}

async fn of<K: Scaled>(resource: K, context: &Context) -> Result<Preview, Error> {
    let status = resource.status().cloned().unwrap_or_default();
    let cluster = resource.session_cluster(context).await.map_err(Error::Observe)?;
    let (cluster, operator) = (cluster.as_deref(), context.operator());
    let plan = reconcile::plan(&resource, &status, cluster, &operator, context).await?;
    let is_operation = |step: &&Step<K>| !matches!(step, Step::WriteStatus(_) | Step::Event(_));
    Ok(Preview {
        steps: plan.steps.iter().filter(is_operation).map(Step::name).collect(),
        error: news(status.error(), plan.status.error()),
        because: plan.because,
        blocker: plan.blocker.map(|blocker| *blocker),
    })
}

/// Previews the next pass over the deletion of a snapshot.
pub async fn of_snapshot_deletion(
    mut resource: FlinkStateSnapshot,
    context: &Context,
) -> Result<Preview, Error> {
    mark::<FlinkStateSnapshot>(&mut resource.metadata);
    of_snapshot(resource, context).await
}

/// Previews the next pass over a snapshot.
pub async fn of_snapshot(
    resource: FlinkStateSnapshot,
    context: &Context,
) -> Result<Preview, Error> {
    use lifecycle::snapshot::step::Step;
    let (_, _, plan) = snapshot::plan(&resource, context).await?;
    let is_operation =
        |step: &&Step| !matches!(step, Step::WriteStatus(_) | Step::Event(_) | Step::Mark { .. });
    let before = resource.status.as_ref().and_then(|status| status.error.as_deref());
    Ok(Preview {
        steps: plan.steps.iter().filter(is_operation).map(snapshot::step_name).collect(),
        error: news(before, plan.status.error.as_deref()),
        because: plan.because,
        blocker: plan.blocker.map(|blocker| *blocker),
    })
}

/// Returns the message of an error that was not there before.
fn news(before: Option<&str>, after: Option<&str>) -> Option<String> {
    after.filter(|_| before != after).map(message_of)
}

/// Marks a resource as a deletion would: one that an operator has never seen would disappear at once, and one that it
/// has seen has its finalizer.
fn mark<K: Operated>(metadata: &mut ObjectMeta) {
    if metadata.deletion_timestamp.is_none() {
        metadata.deletion_timestamp = Some(Time(Timestamp::now()));
        let finalizers = metadata.finalizers.get_or_insert_default();
        let is_there = |finalizer: &&str| finalizers.iter().any(|it| it == finalizer);
        let missing = K::FINALIZER.filter(|finalizer| !is_there(finalizer));
        finalizers.extend(missing.map(str::to_owned));
    }
}
