//! A session cluster that will be replaced and whose jobs would end with its JobManager: each of them is stopped as for
//! an upgrade, and starts again in the new cluster.
//!
//! The cluster announces this in its status before it checks for running jobs. A job has its id in its status before it
//! is submitted, and then checks the cluster once more. So either the cluster waits for the job, or the job waits for
//! the cluster.
//!
//! A cluster with high availability keeps its jobs, but not the result of a stop that is in progress. It announces that
//! it will be replaced in the same way, and a job whose stop is on record checks the cluster before it is stopped.

use serde_json::Value;

use super::plan::Plan;
use super::submission::is_not_submitted;
use super::{Maybe, Pass};
use crate::error_document::StoredError;
use crate::event::{Component, Event};
use crate::job;
use crate::kind::Kind;
use crate::notes::{AWAITS_JOBS, KEEPS_JOBS};
use crate::phase::Phase;
use crate::transitions::stop::StopDecision;
use crate::wait::Awaited;
use crate::world::SessionJob;
use api::deployment::FlinkDeployment;
use api::job::JobState;
use api::reconciled::ReconciledJob;
use api::session_job::FlinkSessionJob;
use api::status::{JobManagerDeploymentStatus, JobStatusState};

/// Returns true if the session cluster waits until the jobs have left it, for its current spec.
fn awaits_jobs(cluster: &FlinkDeployment) -> bool {
    let info = cluster.status.as_ref().map(|status| &status.cluster_info);
    let generation = info.and_then(|info| AWAITS_JOBS.get(info));
    cluster.metadata.deletion_timestamp.is_none()
        && generation.is_some()
        && generation == cluster.metadata.generation
}

/// Returns true if the session cluster accepts requests.
pub fn is_ready(cluster: &FlinkDeployment) -> bool {
    cluster.status.as_ref().is_some_and(|status| {
        status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready
    })
}

/// Returns true if a job may be submitted to the session cluster.
pub fn takes_jobs(cluster: &FlinkDeployment) -> bool {
    is_ready(cluster) && !awaits_jobs(cluster)
}

/// Returns true if a job in the session cluster may be stopped: its JobManager is not about to be replaced, and takes the
/// result along. One that is being deleted waits for its jobs.
pub fn lets_stop(cluster: &FlinkDeployment) -> bool {
    let info = cluster.status.as_ref().map(|status| &status.cluster_info);
    cluster.metadata.deletion_timestamp.is_some()
        || info.and_then(|info| KEEPS_JOBS.get(info)).is_none()
}

/// Returns the session job as its cluster sees it. A job has ended once its last state is on record: until then, only
/// the JobManager knows it. For a job that cannot be parsed, only the name and the id are known.
pub fn seen(job: &Value) -> Option<SessionJob> {
    let text = |pointer| job.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let name = text("/metadata/name")?;
    let job_id = text("/status/jobStatus/jobId");
    let read = serde_json::from_value::<FlinkSessionJob>(job.clone()).ok();
    let Some(status) = read.and_then(|job| job.status) else {
        return Some(SessionJob { name, job_id, ..SessionJob::default() });
    };
    let has_ended = status.job_status.state.is_some_and(JobStatusState::is_globally_terminal);
    let error = StoredError::read(status.error.as_deref());
    let is_active = job_id.is_some()
        && !has_ended
        && error.lost().is_none()
        && !is_not_submitted(status.error.as_deref());
    let is_stopping = match Phase::of::<FlinkSessionJob>(&status) {
        Phase::Stopping | Phase::Cancelling => true,
        Phase::Deleting => job::pending_stop(&status.job_status).is_some(),
        Phase::New
        | Phase::Unreadable
        | Phase::Running
        | Phase::Suspended
        | Phase::Starting
        | Phase::RollingBack
        | Phase::RolledBack => false,
    };
    Some(SessionJob { name, job_id, is_active, is_stopping })
}

impl Pass<'_> {
    /// Stops the job that would end with the JobManager of its cluster. Returns `None` while the upgrade table waits.
    pub(super) fn leave_cluster(&mut self, last: &ReconciledJob) -> Maybe {
        let runs = last.job_state() == JobState::Running
            && !self.status.job_status.state.is_some_and(JobStatusState::is_globally_terminal);
        if !runs || self.own.is_lost() || !self.world.session_cluster.is_some_and(awaits_jobs) {
            return Ok(None);
        }
        let decision = self.decide_stop(self.job().upgrade_mode)?;
        if matches!(decision, StopDecision::Wait(..)) {
            return Ok(None);
        }
        let message = format!(
            "The session cluster `{}` will be replaced: the job is stopped, and starts again \
             afterwards.",
            self.cluster_name()
        );
        self.emit(Event::normal("SessionClusterReplaced", Component::Job, message));
        self.stop_as(decision, last, &FlinkSessionJob::changes(&last.spec, &self.spec)).map(Some)
    }

    /// Waits with a submission to a cluster that waits until its jobs have left it. A submission that may already have
    /// resulted in a job is repeated.
    pub(super) fn await_new_cluster(&mut self) -> Option<Plan> {
        let waits =
            self.world.session_cluster.is_some_and(awaits_jobs) && self.may_arrive().is_none();
        waits.then(|| {
            let because =
                format!("waiting until the session cluster `{}` is replaced", self.cluster_name());
            self.wait_for(Awaited::SessionCluster, because, self.interval())
        })
    }
}
