//! One pass over one resource.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::controller::Action;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};

use super::act::{self, Act};
use super::context::{Context, Progress, STATUS_DELAY, resource_version};
use super::observe::{self, Subject, tell};
use super::run::Guarded;
use crate::api::API_VERSION;
use crate::api::deployment::FlinkDeployment;
use crate::api::status::DeploymentStatus;
use crate::cluster;
use crate::cluster::events::{self, EventRequest, EventType, Repeat};
use crate::decide::application::decide;
use crate::decide::plan::{Component, Plan, Step};
use crate::decide::world::{Fact, Facts, Fresh, ToldExceptions, World};
use crate::flink::new_trigger_id;

/// A decision asks for each fact at most once, and there are this many.
const QUESTIONS_MAX: usize = 9;
/// How long the watch may lag behind our own writes before the resource is read instead.
const CACHE_LAG_MAX: Duration = Duration::from_millis(200);
const CACHE_LAG_STEP: Duration = Duration::from_millis(5);

/// First pause after an error, and the longest; each is half as long again as the one before.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_mins(5);
/// The longest while the API server is away: when it is back, nobody wants to wait.
const RETRY_UNREACHABLE_MAX: Duration = Duration::from_secs(15);

/// Why a pass did not end.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the cluster cannot be observed")]
    Observe(#[source] cluster::Error),
    #[error("the plan stopped at an error")]
    Act(#[source] act::Error),
    #[error("the decision did not come to an end")]
    Undecided,
}

impl Error {
    /// Whether the API server gave no answer at all, or cannot serve now.
    fn is_unreachable(&self) -> bool {
        match self {
            Self::Act(act::Error::Cluster(error)) | Self::Observe(error) => matches!(
                error,
                cluster::Error::Unreachable { .. } | cluster::Error::Unavailable { .. }
            ),
            Self::Act(_) | Self::Undecided => false,
        }
    }

    /// Whether somebody else changed the resource, so that looking again at once helps.
    fn is_race(&self) -> bool {
        match self {
            Self::Act(act::Error::StatusTaken) => true,
            Self::Act(act::Error::Cluster(error)) | Self::Observe(error) => {
                matches!(error, cluster::Error::Conflict { .. })
            }
            Self::Act(_) | Self::Undecided => false,
        }
    }
}

/// Observes, decides and acts once; says when to look again.
#[tracing::instrument(
    name = "reconcile",
    skip_all,
    fields(namespace = resource.namespace(), name = resource.name_any())
)]
pub(super) async fn reconcile(
    resource: Arc<Guarded>,
    context: Arc<Context>,
    store: Store<Guarded>,
) -> Result<Action, Error> {
    let resource = match freshest(&resource, &context, &store).await? {
        Some(Ok(resource)) => resource,
        Some(Err(invalid)) => {
            report_unreadable(&invalid, &context).await;
            return Ok(Action::await_change());
        }
        None => return Ok(Action::await_change()),
    };
    let uid = resource.metadata.uid.clone().unwrap_or_default();
    let stored = resource.status.clone().unwrap_or_default();
    let pending = context.written(&uid).and_then(|written| written.pending);
    let status = pending.as_ref().map_or(&stored, |(status, _)| status).clone();
    let plan = plan(&resource, &status, &context).await?;
    report(&resource, &status, &plan, &context);
    let Plan { steps, status: end, because: _, look_again } = plan;
    let creates = steps.iter().any(|step| matches!(step, Step::CreateCluster(_)));
    let is_gone = steps.iter().any(|step| matches!(step, Step::RemoveFinalizer));
    let since = pending.as_ref().map(|(_, since)| *since);
    let is_waiting = since.is_some_and(|since| since.elapsed() < STATUS_DELAY) && *end == status;
    let mut act = Act { context: &context, resource, stored, uid: uid.clone() };
    act.take(steps).await.map_err(Error::Act)?;
    if is_gone {
        context.forget(&uid);
        context.forget_exceptions(&uid);
        return Ok(Action::await_change());
    }
    let may_wait = creates || is_waiting;
    act.end_with(*end, may_wait, since.filter(|_| is_waiting)).await.map_err(Error::Act)?;
    Ok(match (look_again, may_wait) {
        (Some(after), true) => Action::requeue(after.min(STATUS_DELAY)),
        (Some(after), false) => Action::requeue(after),
        (None, true) => Action::requeue(STATUS_DELAY),
        (None, false) => Action::await_change(),
    })
}

/// The resource at least as new as our own last write to it.
async fn freshest(
    resource: &Guarded,
    context: &Context,
    store: &Store<Guarded>,
) -> Result<Option<Result<FlinkDeployment, InvalidObject>>, Error> {
    let uid = resource.uid().unwrap_or_default();
    let Some(written) = context.written(&uid) else { return Ok(Some(resource.0.clone())) };
    let key = ObjectRef::from_obj(resource);
    let mut waited = Duration::ZERO;
    while waited <= CACHE_LAG_MAX {
        match store.get(&key) {
            Some(seen) if seen.meta().uid.as_deref() != Some(&uid) => {
                context.forget(&uid);
                return Ok(Some(seen.0.clone()));
            }
            Some(seen) if resource_version(seen.meta()) >= written.resource_version => {
                if written.pending.is_none() {
                    context.forget(&uid);
                }
                return Ok(Some(seen.0.clone()));
            }
            Some(_) => {}
            None => break,
        }
        tokio::time::sleep(CACHE_LAG_STEP).await;
        waited += CACHE_LAG_STEP;
    }
    let namespace = resource.namespace().unwrap_or_default();
    let found = cluster::read::get(&context.client, &namespace, &resource.name_any()).await;
    let found: Option<FlinkDeployment> = found.map_err(Error::Observe)?;
    if found.is_none() {
        context.forget(&uid);
    }
    Ok(found.map(Ok))
}

/// Tells that a resource cannot be read; it waits for a change.
async fn report_unreadable(invalid: &InvalidObject, context: &Context) {
    let InvalidObject { error, metadata } = invalid;
    tracing::error!(error, "the resource cannot be read and is left alone");
    let request = EventRequest {
        regarding: ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some("FlinkDeployment".to_owned()),
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            ..ObjectReference::default()
        },
        event_type: EventType::Warning,
        reason: "Unreadable".to_owned(),
        component: Component::Operator,
        message: format!("this operator version cannot read the resource: {error}"),
        key: None,
        repeat: Repeat::Once,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        now: Timestamp::now(),
    };
    if let Err(error) = events::record(&context.client, &request).await {
        tracing::warn!(error = tell(&error), "event not recorded");
    }
}

/// Decides, answering the decision's questions on the way.
pub async fn plan(
    resource: &FlinkDeployment,
    status: &DeploymentStatus,
    context: &Context,
) -> Result<Plan, Error> {
    let uuid = new_trigger_id();
    let mut world = World {
        now: Timestamp::now(),
        resource,
        status,
        operator: &context.operator,
        has_snapshot_resources: context.has_snapshot_resources,
        fresh: Fresh {
            job_id: new_trigger_id(),
            trigger_id: new_trigger_id(),
            uuid: hyphenated(&uuid),
        },
        told_exceptions: context
            .told_exceptions(resource.metadata.uid.as_deref().unwrap_or_default()),
        facts: Facts::default(),
    };
    let subject = Subject {
        resource,
        status,
        namespace: resource.metadata.namespace.as_deref().unwrap_or("default"),
        name: resource.metadata.name.as_deref().unwrap_or_default(),
    };
    for _ in 0..=QUESTIONS_MAX {
        match decide(&world) {
            Ok(plan) => {
                note_told_exceptions(&world, context);
                return Ok(plan);
            }
            Err(question) => observe::answer(question, &subject, context, &mut world.facts)
                .await
                .map_err(Error::Observe)?,
        }
    }
    Err(Error::Undecided)
}

/// What this plan tells is not told again by this process.
fn note_told_exceptions(world: &World<'_>, context: &Context) {
    let (Fact::Known(exceptions), Some(job_id)) =
        (&world.facts.exceptions, &world.status.job_status.job_id)
    else {
        return;
    };
    let newest = exceptions.iter().map(|exception| exception.at).max();
    let before = world.told_exceptions.as_ref().filter(|told| told.job_id == *job_id);
    let started = world.now.as_millisecond();
    let until = newest.or(before.map(|told| told.until)).unwrap_or(started);
    context.tell_exceptions(world.uid(), ToldExceptions { job_id: job_id.clone(), until });
}

/// 32 hex digits as a UUID: `8-4-4-4-12`.
fn hyphenated(hex: &str) -> String {
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// One line for each decision that does something or changes the status.
fn report(resource: &FlinkDeployment, before: &DeploymentStatus, plan: &Plan, context: &Context) {
    let steps: Vec<&'static str> = plan.steps.iter().map(step_name).collect();
    let state = plan.status.lifecycle_state.map_or("-", |state| state.as_str());
    if steps.is_empty() && *plan.status == *before {
        tracing::debug!(state, because = plan.because, "nothing to do");
    } else {
        tracing::info!(state, because = plan.because, steps = steps.join(" "), "decided");
    }
    context.tell(Progress {
        namespace: resource.namespace().unwrap_or_default(),
        name: resource.name_any(),
        status: plan.status.clone(),
        is_gone: plan.steps.iter().any(|step| matches!(step, Step::RemoveFinalizer)),
        generation: resource.metadata.generation.unwrap_or_default(),
        because: plan.because.clone(),
    });
}

/// The step's name in logs.
pub fn step_name(step: &Step) -> &'static str {
    match step {
        Step::AddFinalizer => "add-finalizer",
        Step::RemoveFinalizer => "remove-finalizer",
        Step::WriteStatus(_) => "write-status",
        Step::Event(_) => "event",
        Step::RecordRevision(_) => "record-revision",
        Step::RecordSavepoint { .. } => "record-savepoint",
        Step::TriggerStop { .. } => "stop-with-savepoint",
        Step::CancelJob { .. } => "cancel-job",
        Step::DeleteJobManager { .. } => "delete-job-manager",
        Step::DeleteHaMetadata => "delete-ha-metadata",
        Step::ForgetJobGraphs => "forget-job-graphs",
        Step::CreateCluster(_) => "create-cluster",
        Step::FinishCluster(_) => "finish-cluster",
    }
}

/// Pause before the next try of a pass that failed `failures` times in a row.
pub(super) fn retry_after(error: &Error, failures: u32) -> Duration {
    if error.is_race() && failures <= 3 {
        return Duration::from_millis(100);
    }
    let factor = 1.5_f64.powi(i32::try_from(failures.min(20)).unwrap_or(20) - 1);
    let longest = if error.is_unreachable() { RETRY_UNREACHABLE_MAX } else { RETRY_MAX };
    RETRY_MIN.mul_f64(factor.max(1.0)).min(longest)
}

/// Writes statuses that were allowed to wait, before the process leaves.
pub(super) async fn flush(context: &Context, resources: &[Arc<Guarded>]) {
    for (uid, status) in context.with_pending_status() {
        let Some(resource) = resources
            .iter()
            .filter_map(|guarded| guarded.0.as_ref().ok())
            .find(|resource| resource.metadata.uid.as_deref() == Some(&uid))
        else {
            continue;
        };
        let mut act = Act {
            context,
            resource: resource.clone(),
            stored: resource.status.clone().unwrap_or_default(),
            uid,
        };
        if let Err(error) = act.write_status(&status).await {
            // The next process finds out by the Deployment's annotation.
            tracing::warn!(name = resource.name_any(), error = tell(&error), "status not written");
        }
    }
}
