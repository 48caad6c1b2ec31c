//! Ambiguous records that the Java operator leaves in a status, and this one never does.

use super::stop::OTHER_STATE;
use super::stop::StopDecision;
use crate::kind::Kind;
use crate::pass::{DeploymentPass, Pass};
use crate::problem::Halt;
use crate::resource::StatusOfJob;
use api::job::{JobState, UpgradeMode};
use api::reconciled::Reconciled;
use api::status::JobStatusState;

impl<K: Kind> Pass<'_, K> {
    /// Returns how the job on record was stopped. The Java operator stores a job that someone cancelled as suspended in
    /// the mode it was *started* in, which is stateless at first, with the path of the state that it left.
    pub(crate) fn stopped_as(&self, last: &Reconciled<K::Spec>) -> UpgradeMode {
        let job = self.status.job();
        let has_left_state = last.job_state() == JobState::Suspended
            && job.state == Some(JobStatusState::Canceled)
            && job.upgrade_savepoint_path.is_some();
        match self.last_mode() {
            UpgradeMode::Stateless if has_left_state => UpgradeMode::Savepoint,
            mode @ (UpgradeMode::Stateless | UpgradeMode::Savepoint | UpgradeMode::LastState) => {
                mode
            }
        }
    }
}

impl DeploymentPass<'_> {
    /// Returns why it is unknown what a job stored as started without state was started from, although a path is on
    /// record. The Java operator keeps the path of an earlier start there, and restarts a failed job from one without
    /// changing the stored spec.
    pub(crate) fn why_start_is_unsure(&self) -> Option<String> {
        let path = self.status.job_status.upgrade_savepoint_path.as_deref();
        let path = path.filter(|_| self.has_started_empty())?;
        Some(format!(
            "the status says that the job was started without state, but it also names `{path}`. \
             That may be from an earlier start, or what the Java operator restarted the failed \
             job from. The job is not known to have a checkpoint of its own yet, so nothing is \
             stopped or started. {OTHER_STATE}"
        ))
    }

    /// Returns a decision that does not use that path, or a refusal.
    pub(crate) fn refuse_unsure_path(&self, decision: StopDecision) -> Result<StopDecision, Halt> {
        let Some(message) = self.why_start_is_unsure() else { return Ok(decision) };
        let is_settled = match &decision {
            StopDecision::LastState => {
                self.world.ha_metadata()?.is_ok_and(|metadata| metadata.checkpoint.is_some())
            }
            // Statistics show what the job was restored from, once there are any.
            StopDecision::Cancel => {
                self.world.checkpoints()?.is_ok_and(|checkpoints| !checkpoints.is_blank)
            }
            StopDecision::NeverStarted(_) => false,
            StopDecision::AlreadyStopped(_)
            | StopDecision::Stateless
            | StopDecision::Savepoint
            | StopDecision::Wait(..)
            | StopDecision::Refuse(_) => true,
        };
        Ok(if is_settled { decision } else { StopDecision::Refuse(message) })
    }
}
