//! Observation of a job that its JobManager lists: updates its status.

use crate::job;
use crate::kind::Kind;
use crate::pass::Pass;
use crate::problem::Halt;
use crate::resource::StatusOfJob;
use crate::world::Job;
use api::status::{JobStatusState, ReconciliationState};

impl<K: Kind> Pass<'_, K> {
    /// Updates the status from a job that its JobManager lists. Returns false while its cancellation is in progress,
    /// when only its end matters.
    pub(crate) fn follow_listed_job(&mut self, job: &Job) -> Result<bool, Halt> {
        let before = self.status.job().state;
        let was_terminal = before.is_some_and(JobStatusState::is_globally_terminal);
        let was_cancelling = before == Some(JobStatusState::Cancelling);
        let has_ended = job.state.is_globally_terminal();
        if has_ended && !was_terminal {
            K::record_end(self, job)?;
        }
        let is_reported = before == Some(JobStatusState::Failed) && self.status.error().is_some();
        if job.state == JobStatusState::Failed && !is_reported {
            self.problem = Some(job::failure(self.world.failure()?));
        }
        if !was_terminal {
            self.report_exceptions(job)?;
        }
        let status = self.status.job_mut();
        status.job_name = Some(job.name.clone());
        status.start_time = Some(job.start_time.to_string());
        if was_cancelling && !has_ended && self.is_cancel_on_its_way(job.state) {
            return Ok(false);
        }
        self.set_job_state(job.state);
        if job.state == JobStatusState::Canceled || (was_cancelling && has_ended) {
            K::note_stopped(self);
        }
        let is_up = matches!(job.state, JobStatusState::Running | JobStatusState::Finished);
        if is_up && self.status.reconciliation().state == ReconciliationState::Deployed {
            self.mark_if_stable(job.state)?;
        }
        Ok(true)
    }
}
