//! The controller of `FlinkDeployment`: one pass over one resource.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;

use super::autoscaler;
use super::context::{Context, Progress, STATUS_DELAY};
use super::kind::{Guarded, Kept, Operated, Sight};
use super::observe::{self, Subject};
use super::pass::{Again, Error};
use super::resource::Act;
use super::session_job;
use super::snapshot::index;
use super::validator::Kind;
use api::DEPLOYMENT_FINALIZER;
use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use api::state_snapshot::JobKind;
use api::status::{DeploymentStatus, JobStatusState, LifecycleState};
use clients::flink::new_trigger_id;
use config::OperatorConfig;
use lifecycle::application::decide;
use lifecycle::audit;
use lifecycle::error_document::WentBack;
use lifecycle::event::Component;
use lifecycle::memo::Memo;
use lifecycle::phase::Phase;
use lifecycle::plan::{Plan, Step};
use lifecycle::reads;
use lifecycle::snapshots::{are_held, keep_unasked, keep_undisposed};
use lifecycle::transitions::etcd_restore::{self, Record};
use lifecycle::world::{Fact, Facts, Fresh, World};

/// A decision asks for each fact at most once, and there are this many.
const QUESTIONS_MAX: usize = 24;

impl Operated for FlinkDeployment {
    const FINALIZER: &'static str = DEPLOYMENT_FINALIZER;
    const FAILURE: (&'static str, Component) =
        ("ClusterDeploymentException", Component::JobManagerDeployment);
    const KIND: metrics::Kind = metrics::Kind::FlinkDeployment;

    fn facts(&self, status: &DeploymentStatus) -> metrics::Facts {
        metrics::Facts::of_deployment(status)
    }

    fn audit(previous: &DeploymentStatus, current: &DeploymentStatus) -> Option<String> {
        audit::of_deployment(previous, current)
    }

    fn kept(context: &Context) -> &Kept<Self> {
        &context.deployments
    }

    fn went_back(known: &Self, listed: &Self) -> Option<WentBack> {
        let none = DeploymentStatus::default();
        let known = record(known, known.status.as_ref().unwrap_or(&none));
        let now = record(listed, listed.status.as_ref().unwrap_or(&none));
        etcd_restore::went_back(known, now, listed.spec.job.as_ref())
    }

    fn seen(resource: &Guarded<Self>, sight: Sight, context: &Context) {
        let namespace = resource.namespace().unwrap_or_default();
        let (kind, name) = (JobKind::FlinkDeployment, resource.name_any());
        if sight == Sight::Gone {
            context.nodes.forget(&(kind, namespace.clone(), name.clone()));
        }
        index::wake(context, &namespace, kind, &name);
        session_job::wake_jobs_of(resource, context);
    }

    async fn pass(resource: Self, context: &Context) -> Result<Again, Error> {
        let mut act = Act::new(context, resource);
        let kept = &context.deployments;
        let pending = kept.written(&act.uid).and_then(|written| written.pending);
        let status = pending.as_ref().map_or(&act.stored, |(status, _)| status).clone();
        let operator = Arc::clone(&act.operator);
        autoscaler::tidy(&act.resource, &status, None, &operator, context)
            .await
            .map_err(Error::Observe)?;
        let plan = plan(&act.resource, &status, &operator, context).await?;
        report(&act.resource, &status, &plan, context);
        let Plan { steps, status: end, because: _, look_again, blocker: _ } = plan;
        let creates = steps.iter().any(|step| matches!(step, Step::CreateCluster(_)));
        let is_gone = steps.iter().any(|step| matches!(step, Step::RemoveFinalizer));
        let since = pending.as_ref().map(|(_, since)| *since);
        let is_waiting =
            since.is_some_and(|since| since.elapsed() < STATUS_DELAY) && *end == status;
        let notices = steps.iter().filter_map(|step| match step {
            Step::Snapshot(step) => Some(step.notices()),
            _ => None,
        });
        let notices: Vec<String> = notices.flatten().collect();
        let taken = act.take(steps).await.map_err(Error::Act)?;
        context.note_notices(&act.uid, &notices, Timestamp::now());
        let mut end = end;
        taken.note_unfinished(&mut end);
        keep_undisposed(&mut end.job_status, &status.job_status, &taken.snapshots.undisposed);
        keep_unasked::<FlinkDeploymentSpec>(
            &mut end.reconciliation_status,
            &status.reconciliation_status,
            &taken.snapshots.refused,
        );
        if is_gone {
            kept.forget(&act.uid);
            context.forget(&act.uid);
            context.rewinds.forget(&act.uid);
            return Ok(None);
        }
        let may_wait = (creates || is_waiting) && taken.unfinished.is_none();
        let status = end.clone();
        act.end_with(*end, may_wait, since.filter(|_| is_waiting)).await.map_err(Error::Act)?;
        taken.outcome().map_err(Error::Act)?;
        let next = autoscaler::follow(&act.resource, &status, None, &operator, context);
        let look_again = look_again.into_iter().chain(next).min();
        Ok(match (look_again, may_wait) {
            (Some(after), true) => Some(after.min(STATUS_DELAY)),
            (after, false) => after,
            (None, true) => Some(STATUS_DELAY),
        })
    }
}

/// Decides, answering the decision's questions on the way.
pub async fn plan(
    resource: &FlinkDeployment,
    status: &DeploymentStatus,
    operator: &OperatorConfig,
    context: &Context,
) -> Result<Plan, Error> {
    let wanted = autoscaler::wanted(resource, status, None, operator, context);
    let resource = &*wanted.await.map_err(Error::Observe)?;
    let mut world = World {
        now: Timestamp::now(),
        resource,
        status,
        operator,
        has_snapshot_resources: context.has_snapshot_resources(),
        fresh: fresh(),
        told_exceptions: context
            .told_exceptions(resource.metadata.uid.as_deref().unwrap_or_default()),
        validators: context
            .validators
            .known(Kind::FlinkDeployment, resource.metadata.uid.as_deref().unwrap_or_default()),
        periodic: context.periodic(resource.metadata.uid.as_deref().unwrap_or_default()),
        went_back: context.rewinds.known(resource.metadata.uid.as_deref().unwrap_or_default()),
        zone: context.zone.clone(),
        facts: Facts { stopped_at: context.stopped_at(&resource.metadata), ..Facts::default() },
        memo: Memo::default(),
    };
    let phase = Phase::of_world(&world);
    for _ in 0..=QUESTIONS_MAX {
        let decided = reads::of_deployment(phase, &world).map_or_else(|| decide(&world), Err);
        match decided {
            Ok(plan) => {
                context.note_told_exceptions(
                    world.uid(),
                    &world.status.job_status,
                    (&world.facts.exceptions, &world.facts.jobs),
                    world.now,
                );
                if are_held(&world.facts.references) {
                    context.note_held(world.uid(), world.now);
                }
                if runs(&world) {
                    // The running job is on record again, with what it saves from now on.
                    context.rewinds.forget(world.uid());
                }
                return Ok(plan);
            }
            Err(question) => {
                let subject = Subject {
                    resource,
                    status,
                    namespace: resource.metadata.namespace.as_deref().unwrap_or("default"),
                    name: resource.metadata.name.as_deref().unwrap_or_default(),
                    operator,
                    memo: Some(&world.memo),
                };
                observe::answer(question, &subject, context, &mut world.facts)
                    .await
                    .map_err(Error::Observe)?;
            }
        }
    }
    Err(Error::Undecided)
}

fn record<'a>(resource: &FlinkDeployment, status: &'a DeploymentStatus) -> Record<'a> {
    let generation = resource.metadata.generation;
    let reconciliation = &status.reconciliation_status;
    Record { generation, job: &status.job_status, reconciliation }
}

/// True if the job on record was seen running.
fn runs(world: &World<'_>) -> bool {
    let Fact::Known(jobs) = &world.facts.jobs else { return false };
    let id = world.status.job_status.job_id.as_ref();
    jobs.iter().any(|job| Some(&job.id) == id && job.state == JobStatusState::Running)
}

/// Names for one decision to use up.
pub(super) fn fresh() -> Fresh {
    Fresh {
        job_id: new_trigger_id(),
        trigger_id: new_trigger_id(),
        uuid: hyphenated(&new_trigger_id()),
    }
}

/// 32 hex digits as a UUID: `8-4-4-4-12`.
fn hyphenated(hex: &str) -> String {
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// One line for each decision that does something or changes the status.
fn report(resource: &FlinkDeployment, before: &DeploymentStatus, plan: &Plan, context: &Context) {
    let steps: Vec<&'static str> = plan.steps.iter().map(Step::name).collect();
    let state = plan.status.lifecycle_state.map_or("-", |state| state.as_str());
    if steps.is_empty() && *plan.status == *before {
        tracing::debug!(state, because = plan.because, "nothing to do");
    } else {
        tracing::info!(state, because = plan.because, steps = steps.join(" "), "decided");
    }
    context.tell(Progress {
        kind: "FlinkDeployment",
        namespace: resource.namespace().unwrap_or_default(),
        name: resource.name_any(),
        state: plan.status.lifecycle_state.map(LifecycleState::as_str),
        is_gone: plan.steps.iter().any(|step| matches!(step, Step::RemoveFinalizer)),
        because: plan.because.clone(),
    });
}
