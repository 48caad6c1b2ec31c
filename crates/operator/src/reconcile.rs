//! One pass over a resource that has a job: what a `FlinkDeployment` and a `FlinkSessionJob` have in common.

use std::sync::Arc;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::core::object::HasSpec;
use serde::Serialize;

use super::act::{self, Stopped, Taken};
use super::autoscaler::{self, Cluster, Scaled};
use super::blue_green;
use super::context::{Context, Progress, STATUS_DELAY, now};
use super::kind::{Guarded, Sight};
use super::observe::{self, Subject, show};
use super::pass::{Again, Error};
use super::resource::Act;
use super::session_job::jar::NotSubmitted;
use super::snapshot::index;
use super::upgrades::Upgraded;
use super::validator;
use api::deployment::FlinkDeployment;
use api::is_paused;
use api::reconciled::StoredSpec as _;
use api::state_snapshot::JobKind;
use api::status::JobStatusState;
use clients::cluster;
use clients::cluster::Error::{Deposed, Unreachable};
use clients::flink::{Client, Deadlines, new_trigger_id};
use config::{FlinkConfig, OperatorConfig, options};
use lifecycle::error_document::WentBack;
use lifecycle::phase::Phase;
use lifecycle::plan::{Plan, PlanOf, Step};
use lifecycle::reads;
use lifecycle::reconcile::decide;
use lifecycle::resource::{JobResource, StatusOfJob as _};
use lifecycle::snapshots::{are_held, restore_refused_nonces, restore_undisposed_entries};
use lifecycle::transitions::etcd_restore::{self, Record};
use lifecycle::world::{Fact, Facts, Fresh, Job, Question, World};

/// Maximum number of questions: a decision asks for each fact at most once, and for the files of up to three specs.
const QUESTIONS_MAX: usize = 29;

/// A kind of resource with a job that is operated.
pub(super) trait OperatedJob: Upgraded + JobResource + HasSpec<Spec: Serialize> {
    /// Name of the kind for validators.
    const SUBJECT: validator::Kind;

    /// Returns the cluster of a session job. An absence is read, so that it is a fact and not a late watch.
    fn session_cluster(
        &self,
        _context: &Context,
    ) -> impl Future<Output = cluster::Result<Option<Arc<FlinkDeployment>>>> + Send {
        std::future::ready(Ok(None))
    }

    /// Returns a client of the JobManager, or the reason that it cannot be addressed.
    fn flink(subject: &Subject<'_, Self>, context: &Context) -> Result<Client, String>;

    /// Checks once more, after a stop was recorded and before Flink is asked, that nothing else ends the JobManager.
    fn check_stop(
        _act: &Act<'_, Self>,
        _cluster: Cluster<'_>,
    ) -> impl Future<Output = Result<(), act::Error>> + Send {
        std::future::ready(Ok(()))
    }

    /// Returns the subject that validators are asked about.
    fn judged(subject: &Subject<'_, Self>) -> validator::Subject;

    fn remembered(_context: &Context, _uid: &str) -> Self::Remembered {
        Self::Remembered::default()
    }

    /// Returns `true` if the step starts a job.
    fn is_start(step: &Self::Step) -> bool;

    /// Notes that a plan that starts a job was carried out.
    fn note_start(_context: &Context, _uid: &str) {}

    /// Notes that a plan was not carried out, because the job was not submitted. Returns when to look again.
    fn note_failure(_act: &Act<'_, Self>, _failure: NotSubmitted) -> Again {
        None
    }

    /// Notes that objects are missing beside the JobManager Deployment with this uid, so that they are created later.
    fn note_unfinished(_status: &mut Self::Status, _uid: &String) {}

    /// Answers a question that applies to this kind only.
    fn answer(
        question: Question,
        subject: &Subject<'_, Self>,
        context: &Context,
        facts: &mut Facts,
    ) -> impl Future<Output = cluster::Result<()>> + Send;

    /// Takes a step that applies to this kind only.
    fn take(
        act: &mut Act<'_, Self>,
        step: Self::Step,
        cluster: Cluster<'_>,
        taken: &mut Taken,
    ) -> impl Future<Output = Result<(), Stopped>> + Send;
}

/// Observes, decides and acts once.
pub(super) async fn pass<K: Scaled>(resource: K, context: &Context) -> Result<Again, Error> {
    let cluster = resource.session_cluster(context).await.map_err(Error::Observe)?;
    let cluster = cluster.as_deref();
    let mut act = Act::new(context, resource);
    let kept = K::cache(context);
    let pending = kept.written(&act.uid).and_then(|written| written.pending);
    let status = pending.as_ref().map_or(&act.stored, |(status, _)| status).clone();
    let operator = Arc::clone(&act.operator);
    if !is_paused(act.resource.meta()) {
        autoscaler::tidy(&act.resource, &status, cluster, &operator, context)
            .await
            .map_err(Error::Observe)?;
    }
    let plan = plan(&act.resource, &status, cluster, &operator, context).await?;
    report(&act.resource, &status, &plan, context);
    context.upgrades.decided(&act.resource, (&plan.status, plan.waits), context);
    let Plan { steps, status: mut end, because: _, look_again, blocker: _, waits } = plan;
    context.note_wait(&act.uid, waits);
    let starts = steps.iter().any(|step| matches!(step, Step::Own(step) if K::is_start(step)));
    let is_gone = steps.iter().any(|step| matches!(step, Step::RemoveFinalizer));
    let since = pending.as_ref().map(|(_, since)| *since);
    let is_waiting = since.is_some_and(|since| since.elapsed() < STATUS_DELAY) && *end == status;
    let notices = steps.iter().filter_map(|step| match step {
        Step::Snapshot(step) => Some(step.notices()),
        _ => None,
    });
    let notices: Vec<String> = notices.flatten().collect();
    let taken = match act.take(steps, cluster).await {
        Ok(taken) => taken,
        // The next pass checks whether the job runs all the same, and reports what went wrong.
        Err(Stopped::Submission(failure)) => return Ok(K::note_failure(&act, failure)),
        Err(Stopped::Error(error)) => return Err(Error::Act(error)),
    };
    context.note_notices(&act.uid, &notices, Timestamp::now());
    taken.note_unfinished::<K>(&mut end);
    restore_undisposed_entries(end.job_mut(), status.job(), &taken.snapshots.undisposed);
    restore_refused_nonces::<K::Spec>(
        end.reconciliation_mut(),
        status.reconciliation(),
        &taken.snapshots.refused,
    );
    if starts {
        K::note_start(context, &act.uid);
    }
    if is_gone {
        kept.forget(&act.uid);
        context.forget(&act.uid);
        context.etcd_restores.forget(&act.uid);
        return Ok(None);
    }
    // A newer status of a cluster that was just created follows in a moment.
    let may_wait =
        K::JOB == JobKind::FlinkDeployment && (starts || is_waiting) && taken.unfinished.is_none();
    let status = end.clone();
    act.end_with(*end, may_wait, since.filter(|_| is_waiting)).await.map_err(Error::Act)?;
    taken.outcome().map_err(Error::Act)?;
    let next = autoscaler::follow(&act.resource, &status, cluster, &operator, context);
    let delay = may_wait.then_some(STATUS_DELAY);
    Ok(look_again.into_iter().chain(next).chain(delay).min())
}

/// Decides, and answers the decision's questions on the way.
pub(super) async fn plan<K: Scaled>(
    resource: &K,
    status: &K::Status,
    cluster: Cluster<'_>,
    operator: &OperatorConfig,
    context: &Context,
) -> Result<PlanOf<K>, Error> {
    let wanted = autoscaler::wanted(resource, status, cluster, operator, context);
    let resource = &*wanted.await.map_err(Error::Observe)?;
    let parent = blue_green::parent(resource.meta(), context).await.map_err(Error::Observe)?;
    let uid = resource.meta().uid.as_deref().unwrap_or_default();
    let mut world = World {
        has_snapshot_resources: context.has_snapshot_resources(),
        is_target: blue_green::is_target(resource.meta(), context),
        parent,
        fresh: fresh(),
        reported_exceptions: context.reported_exceptions(uid),
        waits: context.wait_of(uid),
        validators: context.validators.known(K::SUBJECT, uid),
        periodic: context.periodic(uid),
        went_back: context.etcd_restores.known(uid),
        zone: context.zone.clone(),
        hadoop_conf: context.files.hadoop_conf(),
        remembered: K::remembered(context, uid),
        facts: Facts { stopped_at: context.stopped_at(resource.meta()), ..Facts::default() },
        ..World::new(Timestamp::now(), (resource, status), cluster, operator)
    };
    let mut subject = Subject::new((resource, status), cluster, operator);
    subject.memo = Some(&world.memo);
    let phase = Phase::of_world(&world);
    for _ in 0..=QUESTIONS_MAX {
        match reads::next(phase, &world).map_or_else(|| decide(&world), Err) {
            Ok(plan) => {
                let seen = (&world.facts.exceptions, &world.facts.jobs);
                context.note_reported_exceptions(uid, status.job(), seen, world.now);
                if are_held(&world.facts.references) {
                    context.note_held(uid, world.now);
                }
                if runs(&world) {
                    // The running job is on record again, with what it saves from now on.
                    context.etcd_restores.forget(uid);
                }
                if plan.steps.is_empty() {
                    age_of_checkpoint(&subject, &world.facts.jobs, context).await;
                }
                return Ok(plan);
            }
            Err(question) => {
                let asked = question.clone();
                let answered = observe::answer(question, &subject, context, &mut world.facts);
                match answered.await {
                    // Nothing can be written either.
                    Err(error @ (Unreachable { .. } | Deposed(_))) => {
                        return Err(Error::Observe(error));
                    }
                    Err(error) => {
                        if error.is_transient() {
                            context.api_server_health.suspect();
                        }
                        world.facts.note_unknown(&asked, show(&error));
                    }
                    Ok(()) => {}
                }
            }
        }
    }
    Err(Error::Undecided)
}

/// Asks a job that runs for its newest checkpoint, for metrics and the console. At most once a minute, in a pass that has
/// nothing to do.
async fn age_of_checkpoint<K: OperatedJob>(
    subject: &Subject<'_, K>,
    jobs: &Fact<Vec<Job>>,
    context: &Context,
) {
    let uid = subject.resource.meta().uid.as_deref().unwrap_or_default();
    let status = subject.status.job();
    if status.state != Some(JobStatusState::Running) {
        return context.metrics.saved(uid, None);
    }
    let Fact::Known(jobs) = jobs else { return };
    let Some(job) = jobs.iter().find(|job| status.job_id.as_ref() == Some(&job.id)) else { return };
    if !context.metrics.asks_when_saved(uid, now()) {
        return;
    }
    // An answer that does not come leaves the last one, whose age grows.
    if let Ok(saved) = subject.job(context).saved(job.start_time).await {
        context.metrics.saved(uid, saved);
    }
}

/// Returns the facts in `known` that are no longer on record because the store went back to `listed`.
pub(super) fn went_back<K: OperatedJob>(known: &K, listed: &K) -> Option<WentBack> {
    let none = K::Status::default();
    let known = record(known, known.status().unwrap_or(&none));
    let now = record(listed, listed.status().unwrap_or(&none));
    etcd_restore::went_back(known, now, listed.spec().job())
}

fn record<'a, K: OperatedJob>(resource: &K, status: &'a K::Status) -> Record<'a> {
    let generation = resource.meta().generation;
    Record { generation, job: status.job(), reconciliation: status.reconciliation() }
}

/// Wakes the snapshots of the job, and the upgrades that may begin once its own has ended.
pub(super) fn seen<K: OperatedJob>(resource: &Guarded<K>, sight: Sight, context: &Context) {
    let (namespace, name) = (resource.namespace().unwrap_or_default(), resource.name_any());
    if sight == Sight::Gone {
        context.nodes.forget(&(K::JOB, namespace.clone(), name.clone()));
    }
    index::wake(context, &namespace, K::JOB, &name);
    context.upgrades.seen(resource, sight, context);
}

/// Returns how long Flink may take to answer.
pub(super) fn deadlines(config: &FlinkConfig) -> Result<Deadlines, String> {
    let get = |option| config.get(option).map_err(|error| error.to_string());
    Ok(Deadlines {
        request: get(&options::FLINK_CLIENT_TIMEOUT)?,
        cancel: get(&options::FLINK_CLIENT_CANCEL_TIMEOUT)?,
        submission: get(&options::JOB_SUBMISSION_TIMEOUT)?,
        savepoint: get(&options::CHECKPOINTING_TIMEOUT)?,
    })
}

/// Returns `true` if the job on record was seen running, or in a session cluster at least not ended. Its work is then
/// on record again.
fn runs<K: OperatedJob>(world: &World<'_, K>) -> bool {
    let Fact::Known(jobs) = &world.facts.jobs else { return false };
    let id = world.status.job().job_id.as_deref();
    match K::JOB {
        JobKind::FlinkDeployment => {
            jobs.iter().any(|job| Some(&*job.id) == id && job.state == JobStatusState::Running)
        }
        JobKind::FlinkSessionJob => etcd_restore::is_alive(id, jobs),
    }
}

/// Returns unique names for one decision.
fn fresh() -> Fresh {
    Fresh {
        job_id: new_trigger_id(),
        trigger_id: new_trigger_id(),
        uuid: hyphenated(&new_trigger_id()),
    }
}

/// Formats 32 hex digits as a UUID: `8-4-4-4-12`.
fn hyphenated(hex: &str) -> String {
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// Logs one line for each decision that does something or changes the status.
fn report<K: OperatedJob>(resource: &K, before: &K::Status, plan: &PlanOf<K>, context: &Context) {
    let steps: Vec<&'static str> = plan.steps.iter().map(Step::name).collect();
    let lifecycle = plan.status.lifecycle_state().map(|it| it.into_str());
    let state = lifecycle.unwrap_or("-");
    if steps.is_empty() && *plan.status == *before {
        tracing::debug!(state, because = plan.because, "nothing to do");
    } else {
        tracing::info!(state, because = plan.because, steps = steps.join(" "), "decided");
    }
    context.emit(Progress {
        kind: K::JOB.into_str(),
        namespace: resource.namespace().unwrap_or_default(),
        name: resource.name_any(),
        state: lifecycle,
        is_gone: plan.steps.iter().any(|step| matches!(step, Step::RemoveFinalizer)),
        because: plan.because.clone(),
    });
}
