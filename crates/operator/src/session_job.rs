//! The controller of `FlinkSessionJob`: the parts of a pass that are specific to it.

mod act;
pub(super) mod jar;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;

use self::jar::NotSubmitted;
use super::act::{Stopped, Taken};
use super::autoscaler::Cluster;
use super::context::Context;
use super::kind::{Cache, Guarded, Operated, Sight};
use super::observe::{Subject, fact};
use super::pass::{Again, Error};
use super::reconcile::{self, OperatedJob};
use super::resource::Act;
use super::validator::{self, Kind};
use api::SESSION_JOB_FINALIZER;
use api::deployment::FlinkDeployment;
use api::reconciled::session_cluster_of;
use api::session_job::{FlinkSessionJob, SessionJobStatus};
use api::status::DeploymentStatus;
use clients::cluster;
use clients::flink::Client;
use lifecycle::audit;
use lifecycle::error_document::WentBack;
use lifecycle::event::Component;
use lifecycle::session_job::plan::SessionJobStep;
use lifecycle::session_job::world::{FailedSubmission, Remembered};
use lifecycle::world::{Facts, Question};

impl Operated for FlinkSessionJob {
    const FINALIZER: Option<&'static str> = Some(SESSION_JOB_FINALIZER);
    const FAILURE: (&'static str, Component) = ("SessionJobException", Component::Job);
    const KIND: metrics::Kind = metrics::Kind::FlinkSessionJob;

    fn facts(&self, status: &SessionJobStatus) -> metrics::Facts {
        metrics::Facts::of_session_job(status)
    }

    fn audit(previous: &SessionJobStatus, current: &SessionJobStatus) -> Option<String> {
        audit::of_job(previous, current)
    }

    fn cache(context: &Context) -> &Cache<Self> {
        &context.session_jobs
    }

    fn went_back(known: &Self, listed: &Self) -> Option<WentBack> {
        reconcile::went_back(known, listed)
    }

    fn seen(resource: &Guarded<Self>, sight: Sight, context: &Context) {
        reconcile::seen(resource, sight, context);
        // A session cluster waits for its jobs to end before it is deleted.
        if let Ok(job) = &resource.0
            && let Some(cluster) = session_cluster_of(job, job.status.as_ref())
        {
            context.deployments.wake(&resource.namespace().unwrap_or_default(), &cluster);
        }
    }

    async fn pass(resource: Self, context: &Context) -> Result<Again, Error> {
        Box::pin(reconcile::pass(resource, context)).await
    }
}

impl OperatedJob for FlinkSessionJob {
    const SUBJECT: Kind = Kind::FlinkSessionJob;

    async fn session_cluster(
        &self,
        context: &Context,
    ) -> cluster::Result<Option<Arc<FlinkDeployment>>> {
        let Some(name) = session_cluster_of(self, self.status.as_ref()) else { return Ok(None) };
        let namespace = self.namespace().unwrap_or_default();
        if let Some(cached) = context.deployments.cached(&namespace, &name)
            && let Ok(cluster) = &cached.0
        {
            return Ok(Some(Arc::new(cluster.clone())));
        }
        Ok(cluster::read::get(&context.client, &namespace, &name).await?.map(Arc::new))
    }

    fn flink(subject: &Subject<'_, Self>, context: &Context) -> Result<Client, String> {
        let cluster = subject.cluster.ok_or("the session cluster does not exist")?;
        let none = DeploymentStatus::default();
        let status = cluster.status.as_ref().unwrap_or(&none);
        FlinkDeployment::flink(&Subject::new((cluster, status), None, subject.operator), context)
    }

    async fn check_stop(
        act: &Act<'_, Self>,
        cluster: Cluster<'_>,
    ) -> Result<(), super::act::Error> {
        act.find_cluster_keeping_on(cluster).await
    }

    fn judged(subject: &Subject<'_, Self>) -> validator::Subject {
        validator::Subject::of_session_job(subject.resource, subject.status, subject.cluster)
    }

    fn remembered(context: &Context, uid: &str) -> Remembered {
        Remembered { failed_submission: context.failed_submission(uid), tried: context.tried(uid) }
    }

    fn is_start(step: &SessionJobStep) -> bool {
        matches!(step, SessionJobStep::Submit(_))
    }

    fn note_start(context: &Context, uid: &str) {
        context.forget_failed_submission(uid);
        // The running job is on record.
        context.etcd_restores.forget(uid);
    }

    fn note_failure(act: &Act<'_, Self>, failure: NotSubmitted) -> Again {
        let NotSubmitted { job_id, message, http_response_code, may_arrive } = failure;
        let before = act.context.failed_submission(&act.uid);
        let before = before.filter(|failed| failed.job_id == job_id);
        let failed = FailedSubmission {
            job_id,
            generation: act.resource.metadata.generation.unwrap_or_default(),
            message,
            http_response_code,
            may_arrive,
            at: Timestamp::now(),
            attempts: before.map_or(0, |failed| failed.attempts).saturating_add(1),
        };
        let (message, attempts) = (&failed.message, failed.attempts);
        tracing::warn!(message, attempts, "job not submitted");
        act.context.note_failed_submission(&act.uid, failed);
        Some(Duration::ZERO)
    }

    async fn answer(
        question: Question,
        subject: &Subject<'_, Self>,
        context: &Context,
        facts: &mut Facts,
    ) -> cluster::Result<()> {
        match question {
            Question::Jar => {
                let job = (subject.resource, subject.cluster, subject.operator);
                facts.jar = fact(jar::inspect(job, &context.jars).await);
            }
            other => tracing::error!(question = ?other, "no answer to this for a session job"),
        }
        Ok(())
    }

    async fn take(
        act: &mut Act<'_, Self>,
        step: SessionJobStep,
        cluster: Cluster<'_>,
        _taken: &mut Taken,
    ) -> Result<(), Stopped> {
        act.take_own(step, cluster).await
    }
}

/// Wakes the jobs of a session cluster, because it became ready, changed, or was deleted.
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

/// Returns `true` if the job is in this cluster. Most stored specs need not be parsed to know that.
fn is_in(job: &FlinkSessionJob, cluster: &str) -> bool {
    let last = job.status.as_ref().map(|status| &status.reconciliation_status);
    let last = last.and_then(|status| status.last_reconciled_spec.as_deref());
    let is_wanted = job.spec.deployment_name.as_deref() == Some(cluster);
    let may_be = is_wanted || last.is_some_and(|text| text.contains(cluster));
    may_be && session_cluster_of(job, job.status.as_ref()).as_deref() == Some(cluster)
}
