//! The last checkpoint of a job that was stopped with HA metadata alone.
//!
//! If the next program cannot restore it, the job fails before it runs, and Flink deletes the metadata with it. The
//! checkpoint is still there, and is the newest state as long as nothing has run since. The path of one is noted while
//! the JobManager that took it answers, and the number that the metadata named once that JobManager was gone says which
//! is the newest: that one, or one after it in the same folder.

use jiff::SignedDuration;

use crate::error_document::refusals::asks_for_state;
use crate::job;
use crate::notes::{LAST_CHECKPOINT, LastCheckpoint, MetadataUsed};
use crate::pass::DeploymentPass;
use crate::problem::Halt;
use crate::transitions::stop::StopDecision;
use crate::world::HaMetadata;
use api::status::{
    JobManagerDeploymentStatus, JobStatusState, LAST_STATE_PATH, ReconciliationState,
};
use state::references::{checkpoint_number, neighbour};
use state::restore_point::RestorePoint;

/// How long after its Deployment the first pod of a JobManager is created at the latest. A later one may have replaced
/// another.
const FIRST_POD: SignedDuration = SignedDuration::from_secs(30);

impl DeploymentPass<'_> {
    /// Notes the newest checkpoint before the job is stopped with HA metadata alone.
    pub(crate) fn note_last_checkpoint(&mut self) -> Result<(), Halt> {
        LAST_CHECKPOINT.clear(&mut self.status.cluster_info);
        let answers =
            self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready;
        if !answers || !job::retains_checkpoints(&*self.observe_config()?) {
            return Ok(());
        }
        let Ok(checkpoints) = self.world.checkpoints()? else { return Ok(()) };
        let latest = checkpoints.latest.as_ref().filter(|_| checkpoints.unusable.is_none());
        let Some(path) = latest.map(|latest| latest.path.clone()) else { return Ok(()) };
        // A savepoint has no number to compare.
        let Some(checkpoint) = checkpoint_number(&path) else { return Ok(()) };
        let started = self.last_start().started;
        let noted = LastCheckpoint { checkpoint, path, started, used: None };
        LAST_CHECKPOINT.set(&mut self.status.cluster_info, &noted);
        Ok(())
    }

    /// Notes what HA metadata names when a start uses it, which nobody writes at that time. Any other start makes the
    /// note meaningless.
    pub(crate) fn note_metadata_used(&mut self, restore: &RestorePoint) -> Result<(), Halt> {
        let Some(noted) = LAST_CHECKPOINT.get(&self.status.cluster_info) else { return Ok(()) };
        let start = self.last_start();
        let is_its_job = match noted.used {
            None => noted.started == start.started,
            Some(used) => used.deployed == start.deployed,
        };
        if *restore != RestorePoint::HaMetadata || !is_its_job {
            LAST_CHECKPOINT.clear(&mut self.status.cluster_info);
            return Ok(());
        }
        let metadata = self.world.ha_metadata()?;
        let named = metadata.ok().and_then(|metadata| metadata.checkpoint);
        let used = Some(MetadataUsed { deployed: self.world.now.as_millisecond(), named });
        LAST_CHECKPOINT.set(&mut self.status.cluster_info, &LastCheckpoint { used, ..noted });
        Ok(())
    }

    /// Forgets the note once the next program has proved that it runs, with checkpoints of its own.
    pub(crate) fn forget_last_checkpoint(&mut self) {
        let is_noted = self.status.cluster_info.contains_key(LAST_CHECKPOINT.key);
        if is_noted
            && self.status.reconciliation_status.state == ReconciliationState::Deployed
            && self.status.job_status.state == Some(JobStatusState::Running)
            && self.is_stable()
        {
            LAST_CHECKPOINT.clear(&mut self.status.cluster_info);
        }
    }

    /// Returns the note and what HA metadata named, if the note is about the last start.
    fn last_checkpoint(&self) -> Option<(LastCheckpoint, Option<u64>)> {
        let noted = LAST_CHECKPOINT.get(&self.status.cluster_info)?;
        let used = noted.used.filter(|used| used.deployed == self.last_start().deployed)?;
        Some((noted, used.named))
    }

    fn has_only_metadata(&self) -> bool {
        self.status.job_status.upgrade_savepoint_path.as_deref() == Some(LAST_STATE_PATH)
    }

    /// Records the checkpoint that HA metadata named as the state of a job that failed without any of its own, if
    /// nothing newer can exist.
    pub(crate) fn adopt_unrestored_checkpoint(&mut self) -> Result<(), Halt> {
        if !self.has_only_metadata() {
            return Ok(());
        }
        let Some((noted, named)) = self.last_checkpoint() else { return Ok(()) };
        let Some(newest) = named.filter(|named| *named >= noted.checkpoint) else { return Ok(()) };
        let Some(path) = self.path_of(newest, noted) else { return Ok(()) };
        if !self.is_first_process()? {
            return Ok(());
        }
        // Metadata that is still there may name a checkpoint that the failed program took.
        match self.world.ha_metadata()? {
            Ok(HaMetadata { checkpoint, .. }) if checkpoint.is_none_or(|it| it == newest) => {
                self.status.job_status.upgrade_savepoint_path = Some(path);
            }
            Ok(_) | Err(_) => {}
        }
        Ok(())
    }

    /// Returns the path of the job's checkpoint with this number.
    fn path_of(&self, number: u64, noted: LastCheckpoint) -> Option<String> {
        if number == noted.checkpoint {
            return Some(noted.path);
        }
        neighbour(&noted.path, self.status.job_status.job_id.as_deref()?, number)
    }

    /// Returns true if no other process of this JobManager can have run the job: one that did may have completed a
    /// checkpoint that this one does not know.
    fn is_first_process(&self) -> Result<bool, Halt> {
        let Some(job_manager) = self.read_job_manager()? else { return Ok(false) };
        let made = job_manager.created.and_then(|at| at.checked_add(FIRST_POD).ok());
        let Ok(pods) = self.world.pods()? else { return Ok(false) };
        Ok(match pods.as_slice() {
            [pod] => {
                let is_first = pod.created.zip(made).is_some_and(|(pod, made)| pod <= made);
                is_first && !pod.has_restarted && pod.ending_since.is_none()
            }
            _ => false,
        })
    }

    /// Adds the noted checkpoint to a refusal for a person who looks for the job's state.
    pub(crate) fn with_last_checkpoint(
        &self,
        decision: StopDecision,
    ) -> Result<StopDecision, Halt> {
        let StopDecision::Refuse(message) = &decision else { return Ok(decision) };
        if !asks_for_state(message) || !self.has_only_metadata() {
            return Ok(decision);
        }
        let Some((noted, named)) = self.last_checkpoint() else { return Ok(decision) };
        let LastCheckpoint { checkpoint, path, .. } = noted.clone();
        let now = self.world.ha_metadata()?.ok().and_then(|metadata| metadata.checkpoint);
        let newest = now.max(named).filter(|newest| *newest != checkpoint);
        let than_it = match newest.map(|newest| (newest, self.path_of(newest, noted))) {
            Some((newest, Some(beside))) => {
                format!(
                    "and HA metadata of the job has named checkpoint {newest} since, `{beside}`"
                )
            }
            Some((newest, None)) => format!(
                "but HA metadata of the job has named checkpoint {newest}, whose path is not \
                 known. It may be beside the other"
            ),
            None => "and whether there is a newer one is not known".to_owned(),
        };
        Ok(StopDecision::Refuse(format!(
            "{}. The operator has noted checkpoint {checkpoint} of the job before its last \
             start, `{path}`, {than_it}",
            message.trim_end_matches('.')
        )))
    }
}
