//! The controller of `FlinkSessionJob`: one pass over one resource.

mod act;
mod jar;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;

use self::act::Stopped;
use self::jar::NotSubmitted;
use super::autoscaler;
use super::context::{Context, Progress};
use super::job::Asked;
use super::kind::{Guarded, Kept, Operated, Sight};
use super::nodes;
use super::observe::{Subject, deployed_config, fact, job_manager_start, tell};
use super::pass::{Again, Error};
use super::reconcile::fresh;
use super::resource::Act;
use super::snapshot::{index, of_job};
use super::validator::{self, Judging, Kind};
use api::SESSION_JOB_FINALIZER;
use api::deployment::FlinkDeployment;
use api::reconciled::session_cluster_of;
use api::session_job::{FlinkSessionJob, FlinkSessionJobSpec, SessionJobStatus};
use api::state_snapshot::JobKind;
use api::status::{DeploymentStatus, LifecycleState};
use clients::cluster;
use clients::flink::Client;
use config::OperatorConfig;
use lifecycle::audit;
use lifecycle::error_document::WentBack;
use lifecycle::event::Component;
use lifecycle::memo::Memo;
use lifecycle::phase::Phase;
use lifecycle::reads;
use lifecycle::session_job::decide;
use lifecycle::session_job::plan::{Plan, Step};
use lifecycle::session_job::world::{Facts, FailedSubmission, Question, World};
use lifecycle::snapshots::{are_held, keep_unasked, keep_undisposed};
use lifecycle::transitions::etcd_restore::{self, Record};
use lifecycle::trigger::known::SnapshotKind;
use lifecycle::verdict::Verdict;
use lifecycle::world::Fact;

/// A decision asks for each fact at most once, and there are this many.
const QUESTIONS_MAX: usize = 19;

impl Operated for FlinkSessionJob {
    const FINALIZER: &'static str = SESSION_JOB_FINALIZER;
    const FAILURE: (&'static str, Component) = ("SessionJobException", Component::Job);
    const KIND: metrics::Kind = metrics::Kind::FlinkSessionJob;

    fn facts(&self, status: &SessionJobStatus) -> metrics::Facts {
        metrics::Facts::of_session_job(status)
    }

    fn audit(previous: &SessionJobStatus, current: &SessionJobStatus) -> Option<String> {
        audit::of_session_job(previous, current)
    }

    fn kept(context: &Context) -> &Kept<Self> {
        &context.session_jobs
    }

    fn went_back(known: &Self, listed: &Self) -> Option<WentBack> {
        let none = SessionJobStatus::default();
        let known = record(known, known.status.as_ref().unwrap_or(&none));
        let now = record(listed, listed.status.as_ref().unwrap_or(&none));
        etcd_restore::went_back(known, now, listed.spec.job.as_ref())
    }

    fn seen(resource: &Guarded<Self>, sight: Sight, context: &Context) {
        let namespace = resource.namespace().unwrap_or_default();
        if sight == Sight::Gone {
            context.nodes.forget(&(
                JobKind::FlinkSessionJob,
                namespace.clone(),
                resource.name_any(),
            ));
        }
        index::wake(context, &namespace, JobKind::FlinkSessionJob, &resource.name_any());
        // A session cluster waits for the end of its jobs before it goes.
        if let Ok(job) = &resource.0
            && let Some(cluster) = session_cluster_of(job, job.status.as_ref())
        {
            context.deployments.wake(&namespace, &cluster);
        }
    }

    async fn pass(resource: Self, context: &Context) -> Result<Again, Error> {
        let cluster = session_cluster(&resource, context).await?;
        let cluster = cluster.as_deref();
        let mut act = Act::new(context, resource);
        let operator = Arc::clone(&act.operator);
        autoscaler::tidy(&act.resource, &act.stored, cluster, &operator, context)
            .await
            .map_err(Error::Observe)?;
        let plan = plan(&act.resource, &act.stored, cluster, &operator, context).await?;
        report(&act.resource, &act.stored, &plan, context);
        let Plan { steps, status: mut end, because: _, look_again, blocker: _ } = plan;
        let notices = steps.iter().filter_map(|step| match step {
            Step::Snapshot(step) => Some(step.notices()),
            _ => None,
        });
        let notices: Vec<String> = notices.flatten().collect();
        let before = act.stored.clone();
        let is_gone = steps.iter().any(|step| matches!(step, Step::RemoveFinalizer));
        let submits = steps.iter().any(|step| matches!(step, Step::Submit(_)));
        let taken = match act.take(steps, cluster).await {
            Ok(taken) => taken,
            Err(Stopped::Submission(failure)) => {
                note_failure(&act, failure);
                // The next pass looks whether the job runs all the same, and tells what went wrong.
                return Ok(Some(Duration::ZERO));
            }
            Err(Stopped::Error(error)) => return Err(Error::Act(error)),
        };
        keep_undisposed(&mut end.job_status, &before.job_status, &taken.undisposed);
        keep_unasked::<FlinkSessionJobSpec>(
            &mut end.reconciliation_status,
            &before.reconciliation_status,
            &taken.refused,
        );
        context.note_notices(&act.uid, &notices, Timestamp::now());
        if submits {
            context.forget_failed_submission(&act.uid);
            // The running job is on record.
            context.rewinds.forget(&act.uid);
        }
        if is_gone {
            context.session_jobs.forget(&act.uid);
            context.forget(&act.uid);
            context.rewinds.forget(&act.uid);
            return Ok(None);
        }
        act.end_with(*end, false, None).await.map_err(Error::Act)?;
        taken.outcome().map_err(Error::Act)?;
        let next = autoscaler::follow(&act.resource, &act.stored, cluster, &operator, context);
        Ok(look_again.into_iter().chain(next).min())
    }
}

/// Looks at the jobs of a session cluster soon: it became ready, or changed, or went.
pub(super) fn wake_jobs_of(cluster: &Guarded<FlinkDeployment>, context: &Context) {
    let Ok(cluster) = &cluster.0 else { return };
    if cluster.spec.job.is_some() {
        return;
    }
    let (namespace, name) = (cluster.namespace(), cluster.name_any());
    for job in context.session_jobs.all() {
        let Ok(job) = &job.0 else { continue };
        if job.namespace() == namespace && is_in(job, &name) {
            let namespace = namespace.as_deref().unwrap_or_default();
            context.session_jobs.wake(namespace, &job.name_any());
        }
    }
}

/// True if the job is in this cluster. Most stored specs need not be parsed to tell.
fn is_in(job: &FlinkSessionJob, cluster: &str) -> bool {
    let last = job.status.as_ref().map(|status| &status.reconciliation_status);
    let last = last.and_then(|status| status.last_reconciled_spec.as_deref());
    let is_wanted = job.spec.deployment_name.as_deref() == Some(cluster);
    let may_be = is_wanted || last.is_some_and(|text| text.contains(cluster));
    may_be && session_cluster_of(job, job.status.as_ref()).as_deref() == Some(cluster)
}

/// The job's cluster; an absence is read, so that it is a fact and not a late watch.
pub(super) async fn session_cluster(
    job: &FlinkSessionJob,
    context: &Context,
) -> Result<Option<Arc<FlinkDeployment>>, Error> {
    let Some(name) = session_cluster_of(job, job.status.as_ref()) else { return Ok(None) };
    let namespace = job.namespace().unwrap_or_default();
    if let Some(cached) = context.deployments.cached(&namespace, &name)
        && let Ok(cluster) = &cached.0
    {
        return Ok(Some(Arc::new(cluster.clone())));
    }
    let found = cluster::read::get(&context.client, &namespace, &name).await;
    Ok(found.map_err(Error::Observe)?.map(Arc::new))
}

/// A client of the cluster's JobManager.
pub(super) fn flink(
    cluster: Option<&FlinkDeployment>,
    operator: &OperatorConfig,
    context: &Context,
) -> Result<Client, String> {
    let cluster = cluster.ok_or("the session cluster does not exist")?;
    let none = DeploymentStatus::default();
    let subject = Subject {
        resource: cluster,
        status: cluster.status.as_ref().unwrap_or(&none),
        namespace: cluster.metadata.namespace.as_deref().unwrap_or("default"),
        name: cluster.metadata.name.as_deref().unwrap_or_default(),
        operator,
        memo: None,
    };
    subject.flink(context)
}

/// Decides, answering the decision's questions on the way.
pub(super) async fn plan(
    resource: &FlinkSessionJob,
    status: &SessionJobStatus,
    cluster: Option<&FlinkDeployment>,
    operator: &OperatorConfig,
    context: &Context,
) -> Result<Plan, Error> {
    let wanted = autoscaler::wanted(resource, status, cluster, operator, context);
    let resource = &*wanted.await.map_err(Error::Observe)?;
    let uid = resource.metadata.uid.as_deref().unwrap_or_default();
    let mut world = World {
        now: Timestamp::now(),
        resource,
        status,
        cluster,
        operator,
        has_snapshot_resources: context.has_snapshot_resources(),
        fresh: fresh(),
        told_exceptions: context.told_exceptions(uid),
        periodic: context.periodic(uid),
        went_back: context.rewinds.known(uid),
        zone: context.zone.clone(),
        failed_submission: context.failed_submission(uid),
        tried: context.tried(uid),
        validators: context.validators.known(Kind::FlinkSessionJob, uid),
        facts: Facts { stopped_at: context.stopped_at(&resource.metadata), ..Facts::default() },
        memo: Memo::default(),
    };
    let asked = Asked { status: &status.job_status, flink: flink(cluster, operator, context) };
    let phase = Phase::of_session_job_world(&world);
    for _ in 0..=QUESTIONS_MAX {
        let decided = reads::of_session_job(phase, &world).map_or_else(|| decide(&world), Err);
        match decided {
            Ok(plan) => {
                context.note_told_exceptions(
                    uid,
                    &status.job_status,
                    (&world.facts.exceptions, &world.facts.jobs),
                    world.now,
                );
                if are_held(&world.facts.references) {
                    context.note_held(uid, world.now);
                }
                if runs(&world) {
                    context.rewinds.forget(uid);
                }
                return Ok(plan);
            }
            Err(Question::Verdict) => {
                world.facts.verdict = Fact::Known(verdict(&world, context).await);
            }
            Err(question) => {
                let job = (resource, cluster, operator);
                answer(question, &asked, job, context, &mut world.facts).await;
            }
        }
    }
    Err(Error::Undecided)
}

/// Answers one question about a job whose change is only thought of; nobody else is asked for a verdict.
pub(super) async fn look_up(
    question: Question,
    (resource, cluster, operator): jar::Job<'_>,
    context: &Context,
    facts: &mut Facts,
) {
    let status = resource.status.clone().unwrap_or_default();
    let asked = Asked { status: &status.job_status, flink: flink(cluster, operator, context) };
    answer(question, &asked, (resource, cluster, operator), context, facts).await;
}

fn record<'a>(resource: &FlinkSessionJob, status: &'a SessionJobStatus) -> Record<'a> {
    let generation = resource.metadata.generation;
    let reconciliation = &status.reconciliation_status;
    Record { generation, job: &status.job_status, reconciliation }
}

/// True if the job on record was seen and had not ended. Its work is on record again then.
fn runs(world: &World<'_>) -> bool {
    let Fact::Known(jobs) = &world.facts.jobs else { return false };
    etcd_restore::is_alive(world.status.job_status.job_id.as_deref(), jobs)
}

/// Which job resource it is.
fn of(resource: &FlinkSessionJob) -> (JobKind, &str, &str) {
    let namespace = resource.metadata.namespace.as_deref().unwrap_or("default");
    let name = resource.metadata.name.as_deref().unwrap_or_default();
    (JobKind::FlinkSessionJob, namespace, name)
}

async fn verdict(world: &World<'_>, context: &Context) -> Verdict {
    let judging = Judging {
        namespace: world.namespace(),
        name: world.name(),
        uid: world.uid(),
        version: world.version(),
        subject: validator::Subject::of_session_job(world.resource, world.status, world.cluster),
    };
    context.validators.ask(judging).await
}

async fn answer(
    question: Question,
    asked: &Asked<'_>,
    (resource, cluster, operator): jar::Job<'_>,
    context: &Context,
    facts: &mut Facts,
) {
    match question {
        Question::Jobs => facts.jobs = fact(asked.jobs().await),
        Question::Checkpoints => facts.checkpoints = fact(asked.checkpoints(&facts.jobs).await),
        Question::Retention => facts.retention = fact(asked.retention().await),
        Question::Stop => facts.stop = fact(asked.stop().await),
        Question::Failure => facts.failure = fact(asked.failure().await),
        Question::Exceptions => facts.exceptions = fact(asked.exceptions().await),
        Question::JobMetrics => facts.job_metrics = fact(asked.metrics().await),
        Question::ResourceRequirements => {
            facts.resource_requirements = fact(asked.resource_requirements().await);
        }
        Question::Snapshots => facts.snapshots = fact(of_job::snapshots(of(resource), context)),
        Question::Savepoint => {
            facts.savepoint = fact(of_job::trigger(asked, SnapshotKind::Savepoint).await);
        }
        Question::Checkpoint => {
            facts.checkpoint = fact(of_job::trigger(asked, SnapshotKind::Checkpoint).await);
        }
        Question::Revisions => {
            let paths = of_job::revisions(of(resource), context).await;
            facts.revisions = fact(paths.map_err(|error| tell(&error)));
        }
        Question::References => {
            let references = of_job::references(&resource.metadata, asked.status, context).await;
            facts.references = fact(references);
        }
        Question::Nodes => facts.nodes = fact(context.nodes.known(of(resource))),
        Question::PodNodes => {
            let (_, namespace, _) = of(resource);
            let name = cluster.map(ResourceExt::name_any).unwrap_or_default();
            facts.pod_nodes = fact(nodes::of_pods(namespace, &name, context).await);
        }
        Question::JobManagerStart => {
            let (_, namespace, _) = of(resource);
            let name = cluster.map(ResourceExt::name_any).unwrap_or_default();
            facts.job_manager_start = fact(job_manager_start(namespace, &name, context).await);
        }
        Question::DeployedConfig => {
            let (_, namespace, _) = of(resource);
            let name = cluster.map(ResourceExt::name_any).unwrap_or_default();
            let found = deployed_config(namespace, &name, context).await;
            facts.deployed_config = found.unwrap_or_else(|error| Fact::Unknown(tell(&error)));
        }
        Question::Jar => facts.jar = fact(jar::look((resource, cluster, operator)).await),
        // Asked of the whole world, by the caller.
        Question::Verdict => {}
    }
}

fn note_failure(act: &Act<'_, FlinkSessionJob>, failure: NotSubmitted) {
    let NotSubmitted { job_id, message, may_arrive } = failure;
    let before = act.context.failed_submission(&act.uid).filter(|failed| failed.job_id == job_id);
    let failed = FailedSubmission {
        job_id,
        generation: act.resource.metadata.generation.unwrap_or_default(),
        message,
        may_arrive,
        at: Timestamp::now(),
        attempts: before.map_or(0, |failed| failed.attempts).saturating_add(1),
    };
    tracing::warn!(message = failed.message, attempts = failed.attempts, "job not submitted");
    act.context.note_failed_submission(&act.uid, failed);
}

/// One line for each decision that does something or changes the status.
fn report(resource: &FlinkSessionJob, before: &SessionJobStatus, plan: &Plan, context: &Context) {
    let steps: Vec<&'static str> = plan.steps.iter().map(Step::name).collect();
    let state = plan.status.lifecycle_state.map_or("-", LifecycleState::as_str);
    if steps.is_empty() && *plan.status == *before {
        tracing::debug!(state, because = plan.because, "nothing to do");
    } else {
        tracing::info!(state, because = plan.because, steps = steps.join(" "), "decided");
    }
    context.tell(Progress {
        kind: "FlinkSessionJob",
        namespace: resource.namespace().unwrap_or_default(),
        name: resource.name_any(),
        state: plan.status.lifecycle_state.map(LifecycleState::as_str),
        is_gone: plan.steps.iter().any(|step| matches!(step, Step::RemoveFinalizer)),
        because: plan.because.clone(),
    });
}
