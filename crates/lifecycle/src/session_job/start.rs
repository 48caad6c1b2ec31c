//! Submitting a job: the restore point is chosen, recorded with the job's id, and then used.

use std::time::Duration;

use super::identity;
use super::plan::{Plan, SessionJobStep, Step, Submission};
use super::submission::NOT_SUBMITTED;
use super::world::FailedSubmission;
use super::{End, Pass};
use crate::event::{Component, Event};
use crate::job;
use crate::pauses::pause_after;
use crate::phase::Phase;
use crate::problem::{Halt, Problem};
use crate::wait::Awaited;
use api::job::JobState;
use api::reconciled::ReconciledJob;
use api::session_job::FlinkSessionJobSpec;
use api::status::JobStatusState;
use config::session_job::submitted;
use state::restore_point::RestorePoint;

/// Pause while a job is scheduled.
pub(super) const STARTING: Duration = Duration::from_secs(1);

impl Pass<'_> {
    pub(super) fn first_deployment(&mut self) -> End {
        if self.desired_state() == JobState::Suspended {
            self.enter(Phase::New);
            let because = "created suspended: waiting to be resumed";
            return Ok(self.rest(because, Some(self.interval())));
        }
        self.start(self.first_restore_point(), true)
    }

    /// The job is stopped: start it from its restore point, or leave it suspended.
    pub(super) fn start_again(&mut self, last: &ReconciledJob) -> End {
        if self.desired_state() == JobState::Suspended {
            self.store_suspended(None);
            return Ok(self.rest("suspended", Some(self.interval())));
        }
        let restore = self.next_restore_point(last)?;
        self.start(restore, false)
    }

    /// Submits the desired spec from `restore`.
    pub(super) fn start(&mut self, restore: RestorePoint, is_first: bool) -> End {
        if let Some(plan) = self.await_new_cluster().or_else(|| self.pause_after_failure()) {
            return Ok(plan);
        }
        self.refuse_a_second_start()?;
        let spec = self.spec.clone();
        let submission = self.prepare(&spec, &restore)?;
        let mode = restore.upgrade_mode();
        self.store_before_deploy(mode, is_first);
        self.submit(submission);
        self.store_running(mode, is_first);
        let because = format!("submitting the job from {}", restore.describe());
        Ok(self.go_on(because, STARTING))
    }

    /// Submits the stable spec from `restore`; the failed one remains the stored one.
    pub(super) fn start_stable(
        &mut self,
        failed: &ReconciledJob,
        stable: &FlinkSessionJobSpec,
        restore: &RestorePoint,
    ) -> End {
        if let Some(plan) = self.await_new_cluster().or_else(|| self.pause_after_failure()) {
            return Ok(plan);
        }
        self.refuse_a_second_start()?;
        let submission = self.prepare(stable, restore)?;
        let stored = |state| job::stored(&failed.spec, state, restore.upgrade_mode(), false);
        self.store_last(stored(JobState::Suspended));
        self.enter(Phase::RollingBack);
        self.stamp();
        // The loss of the previous job is over. The reason for the rollback is reported separately.
        if self.loss_on_record().is_some() {
            self.own.loss = None;
            self.status.error = None;
        }
        self.submit(submission);
        self.store_last(stored(JobState::Running));
        self.enter(Phase::RolledBack);
        let because = format!("rolled back, starting from {}", restore.describe());
        Ok(self.go_on(because, STARTING))
    }

    /// Prepares the submission of `spec`, and records its id and what it restores in the status.
    fn prepare(
        &mut self,
        spec: &FlinkSessionJobSpec,
        restore: &RestorePoint,
    ) -> Result<Submission, Halt> {
        let savepoint_path = match restore {
            RestorePoint::Empty => None,
            RestorePoint::Path(path) => Some(path.clone()),
            RestorePoint::HaMetadata => {
                return Err(Halt::cannot("a session job does not start from HA metadata"));
            }
        };
        let job_id = self.next_job_id();
        let submission = self.submission(spec, &job_id, savepoint_path.clone())?;
        let job = &mut self.status.job_status;
        job.job_id = Some(job_id);
        job.upgrade_savepoint_path = savepoint_path;
        if *restore == RestorePoint::Empty
            && let Some(info) = &mut job.savepoint_info
        {
            // It must not come back as the state of a job that never had it.
            info.last_savepoint = None;
        }
        Ok(submission)
    }

    /// Adds the submission, after a step that writes the status with the job's id.
    fn submit(&mut self, submission: Submission) {
        self.set_job_state(JobStatusState::Reconciling);
        self.status.job_status.update_time = Some(self.world.now.as_millisecond().to_string());
        self.write_intent();
        let event = Event::normal("Submit", Component::Job, "Starting deployment");
        self.steps.push(Step::Event(event));
        self.steps.push(Step::Own(SessionJobStep::Submit(Box::new(submission))));
    }

    /// Returns the id of the next job. A submission with an unknown outcome is repeated with the same id, which Flink
    /// accepts only once.
    fn next_job_id(&self) -> String {
        let open = self.is_submission_open().then(|| job::id(&self.status.job_status)).flatten();
        let new = identity::job_id(self.world.uid(), &self.world.fresh.job_id, self.world.now);
        open.unwrap_or(new)
    }

    fn submission(
        &self,
        spec: &FlinkSessionJobSpec,
        job_id: &str,
        savepoint_path: Option<String>,
    ) -> Result<Submission, Halt> {
        let job = spec.job.clone().unwrap_or_default();
        let config = self.config(spec)?;
        let flink_version = self
            .running_version()
            .ok_or_else(|| Halt::cannot("the session cluster has no Flink version"))?;
        Ok(Submission {
            job_id: job_id.to_owned(),
            may_arrive: self.may_arrive(),
            jar_uri: job.jar_uri.filter(|uri| !uri.trim().is_empty()),
            entry_class: job.entry_class.filter(|class| !class.trim().is_empty()),
            args: job.args,
            parallelism: job.parallelism.and_then(|parallelism| u32::try_from(parallelism).ok()),
            allow_non_restored_state: job.allow_non_restored_state.unwrap_or(false),
            savepoint_path,
            configuration: submitted(&config),
            flink_version,
        })
    }

    /// Pauses after the job was refused or its jar was unavailable, and reports that.
    fn pause_after_failure(&mut self) -> Option<Plan> {
        let FailedSubmission {
            job_id,
            generation,
            message,
            http_response_code,
            may_arrive,
            at,
            attempts,
        } = self.world.remembered.failed_submission.as_ref()?;
        let is_same = self.status.job_status.job_id.as_ref() == Some(job_id)
            && *generation == self.generation;
        let waited = Duration::try_from(self.world.now.duration_since(*at)).unwrap_or_default();
        let left = pause_after(*attempts).saturating_sub(waited);
        if !is_same || left.is_zero() {
            return None;
        }
        let detail = may_arrive.is_none().then(|| NOT_SUBMITTED.to_owned());
        let http_response_code = *http_response_code;
        self.problem =
            Some(Problem { detail, http_response_code, ..Problem::of_job(message.clone()) });
        Some(self.wait_for(Awaited::Retry, format!("the job was not submitted: {message}"), left))
    }

    /// Checks the jar before a job is stopped for it: a running job continues if its successor could not start.
    pub(super) fn check_jar(&self) -> Result<(), Halt> {
        let uri = self.job().jar_uri.filter(|uri| !uri.trim().is_empty());
        if uri.is_none() || self.desired_state() == JobState::Suspended {
            return Ok(());
        }
        match self.world.jar()? {
            Ok(()) => Ok(()),
            Err(reason) => Err(Halt::problem(Problem::of_job(format!(
                "the job is not stopped for its new spec, because the jar cannot be fetched: \
                 {reason}"
            )))),
        }
    }
}
