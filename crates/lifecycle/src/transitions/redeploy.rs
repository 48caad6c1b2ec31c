//! The newest state of a job that is dropped for one named by its user. Once its HA metadata is gone, only the history
//! leads to it.

use std::ops::ControlFlow;

use jiff::SignedDuration;

use crate::job;
use crate::kind::Kind;
use crate::notes::{REDEPLOY_WAITS, Waiting};
use crate::pass::{DeploymentPass, Pass};
use crate::pauses::SOON;
use crate::plan::Plan;
use crate::problem::Halt;
use crate::wait::Awaited;
use api::deployment::FlinkDeployment;
use api::job::{JobState, UpgradeMode};
use api::reconciled::ReconciledSpec;
use api::status::{JobManagerDeploymentStatus, JobStatusState, LAST_STATE_PATH};
use state::references::is_checkpoint;
use state::restore_point::RestorePoint;

/// How long a redeploy waits for statistics. Some JobManagers never report them, and what the user names has to be
/// started.
const PATIENCE: SignedDuration = SignedDuration::from_mins(1);

impl<K: Kind> Pass<'_, K> {
    /// Returns the path of a running job's newest state if it outlives the job's cancellation, or a reason if its
    /// JobManager does not say.
    pub(crate) fn state_to_drop(&self) -> Result<Result<Option<String>, String>, Halt> {
        let latest = match self.world.checkpoints()? {
            Ok(checkpoints) => checkpoints.latest.as_ref().map(|latest| latest.path.clone()),
            Err(reason) => return Ok(Err(reason.to_owned())),
        };
        let Some(path) = latest else { return Ok(Ok(None)) };
        let stays = !is_checkpoint(&path) || self.retains_checkpoints()?;
        Ok(Ok(stays.then_some(path)))
    }

    /// Returns true if checkpoints outlive a cancelled job. If no one answers, its configuration decides.
    pub(crate) fn retains_checkpoints(&self) -> Result<bool, Halt> {
        Ok(match self.world.retention()? {
            Ok(is_retained) => *is_retained,
            Err(_) => job::retains_checkpoints(&*self.observe_config()?),
        })
    }
}

impl DeploymentPass<'_> {
    /// Returns the state of the job that a redeploy drops, or the plan that waits for its JobManager to report it. One
    /// that does not answer is not waited for: the redeploy may be the solution.
    pub(crate) fn left_behind(
        &mut self,
        last: &ReconciledSpec,
    ) -> Result<ControlFlow<Plan, RestorePoint>, Halt> {
        let is_recorded = match last.job_state() {
            JobState::Suspended => self.last_mode() == UpgradeMode::Savepoint,
            // Its end was observed, and what it left.
            JobState::Running => {
                self.status.job_status.state.is_some_and(JobStatusState::is_globally_terminal)
            }
        };
        let path = self.savepoint_path().filter(|path| is_recorded && path != LAST_STATE_PATH);
        if let Some(path) = path {
            return Ok(ControlFlow::Continue(RestorePoint::Path(path)));
        }
        let is_ready =
            self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready;
        let runs = match job::id(&self.status.job_status) {
            Some(id) if is_ready => FlinkDeployment::may_be_cancelled(self, &id)?,
            Some(_) | None => false,
        };
        if !runs {
            return Ok(ControlFlow::Continue(RestorePoint::HaMetadata));
        }
        let left = match self.state_to_drop()? {
            Ok(path) => path.map_or(RestorePoint::HaMetadata, RestorePoint::Path),
            Err(reason) if self.waits_for_statistics() => {
                let because = format!(
                    "the redeploy waits up to a minute for the checkpoints of the job that it \
                     replaces: {reason}"
                );
                return Ok(ControlFlow::Break(self.wait_for(Awaited::Statistics, because, SOON)));
            }
            Err(_) => RestorePoint::HaMetadata,
        };
        REDEPLOY_WAITS.clear(&mut self.status.cluster_info);
        Ok(ControlFlow::Continue(left))
    }

    fn waits_for_statistics(&mut self) -> bool {
        let (generation, now) = (self.generation, self.world.now);
        let noted = REDEPLOY_WAITS.get(&self.status.cluster_info);
        let noted = noted.filter(|noted| noted.generation == generation);
        let waiting = noted.unwrap_or(Waiting { generation, since: now });
        REDEPLOY_WAITS.set(&mut self.status.cluster_info, &waiting);
        now.duration_since(waiting.since) < PATIENCE
    }
}
