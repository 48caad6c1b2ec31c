//! What the operator would do about a deletion, found out as it would and without doing it.
//!
//! The decision is the operator's own, on facts that are read in the same way. It is made as if the
//! deletion had been asked for now where it was not yet.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

use super::context::Context;
use super::kind::Operated;
use super::pass::Error;
use super::reconcile::{self, step_name};
use super::{session_job, snapshot};
use crate::api::deployment::FlinkDeployment;
use crate::api::session_job::FlinkSessionJob;
use crate::api::state_snapshot::FlinkStateSnapshot;
use crate::decide::blocker::Blocker;
use crate::decide::plan;

/// The next pass over a resource that is being deleted.
#[derive(Clone, Debug)]
pub struct Preview {
    /// The step that the deletion is at, in a phrase.
    pub because: String,
    /// Names of the steps that change something beside the resource's status.
    pub steps: Vec<&'static str>,
    pub blocker: Option<Blocker>,
}

/// The next pass over the deletion of an application or a session cluster.
pub async fn of_deployment(
    mut resource: FlinkDeployment,
    context: &Context,
) -> Result<Preview, Error> {
    mark::<FlinkDeployment>(&mut resource.metadata);
    let status = resource.status.clone().unwrap_or_default();
    let plan = reconcile::plan(&resource, &status, context).await?;
    let is_deed =
        |step: &&plan::Step| !matches!(step, plan::Step::WriteStatus(_) | plan::Step::Event(_));
    let steps = plan.steps.iter().filter(is_deed).map(step_name).collect();
    Ok(Preview { because: plan.because, steps, blocker: plan.blocker.map(|blocker| *blocker) })
}

/// The next pass over the deletion of a session job.
pub async fn of_session_job(
    mut resource: FlinkSessionJob,
    context: &Context,
) -> Result<Preview, Error> {
    use crate::decide::session_job::plan::Step;
    mark::<FlinkSessionJob>(&mut resource.metadata);
    let status = resource.status.clone().unwrap_or_default();
    let cluster = session_job::session_cluster(&resource, context).await?;
    let cluster = cluster.as_ref().map(Arc::as_ref);
    let plan = session_job::plan(&resource, &status, cluster, context).await?;
    let is_deed = |step: &&Step| !matches!(step, Step::WriteStatus(_) | Step::Event(_));
    let steps = plan.steps.iter().filter(is_deed).map(Step::name).collect();
    Ok(Preview { because: plan.because, steps, blocker: plan.blocker.map(|blocker| *blocker) })
}

/// The next pass over the deletion of a snapshot.
pub async fn of_snapshot(
    mut resource: FlinkStateSnapshot,
    context: &Context,
) -> Result<Preview, Error> {
    use crate::decide::snapshot::Step;
    mark::<FlinkStateSnapshot>(&mut resource.metadata);
    let (_, _, plan) = snapshot::plan(&resource, context).await?;
    let is_deed =
        |step: &&Step| !matches!(step, Step::WriteStatus(_) | Step::Event(_) | Step::Mark { .. });
    let steps = plan.steps.iter().filter(is_deed).map(snapshot::step_name).collect();
    Ok(Preview { because: plan.because, steps, blocker: plan.blocker.map(|blocker| *blocker) })
}

/// As a deletion leaves it: one that an operator has never seen would just go, and one that it has
/// seen carries its finalizer.
fn mark<K: Operated>(metadata: &mut ObjectMeta) {
    if metadata.deletion_timestamp.is_none() {
        metadata.deletion_timestamp = Some(Time(Timestamp::now()));
        let finalizers = metadata.finalizers.get_or_insert_default();
        if !finalizers.iter().any(|finalizer| finalizer == K::FINALIZER) {
            finalizers.push(K::FINALIZER.to_owned());
        }
    }
}
