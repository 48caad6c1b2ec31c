//! The restore point of every kind of start, chosen from the record by a single function, [`restore_point`].

use super::restore::{CHOOSE, HighAvailability, Refusal, RestoreFacts, restore_point};
use super::stop::MOVED;
use crate::job;
use crate::kind::Kind;
use crate::kind::Lifecycle;
use crate::pass::{DeploymentPass, Pass};
use crate::problem::{Halt, Problem};
use crate::resource::StatusOfJob;
use crate::world::HaMetadata;
use api::deployment::FlinkDeploymentSpec;
use api::job::UpgradeMode;
use api::reconciled::{Reconciled, ReconciledSpec, StoredSpec};
use api::status::LAST_STATE_PATH;
use config::cluster::is_high_availability_on;
use state::restore_point::RestorePoint;

/// Returns the restore point, or why there is none.
fn point(facts: &RestoreFacts) -> Result<RestorePoint, Halt> {
    restore_point(facts).map_err(|refusal| match refusal {
        Refusal::NotYet(message) => Halt::cannot(message),
        Refusal::NeedsPerson(message) => Halt::problem(Problem::upgrade("RestoreFailed", message)),
    })
}

impl<K: Kind> Pass<'_, K> {
    /// Returns the restore point of a first start: what the user names, or nothing.
    pub(crate) fn first_restore_point(&self) -> RestorePoint {
        self.named_state().map_or(RestorePoint::Empty, RestorePoint::Path)
    }

    /// Returns the restore point that the existing cluster was started from.
    pub(crate) fn restored_from(&self) -> RestorePoint {
        match self.savepoint_path() {
            Some(path) if path == LAST_STATE_PATH => RestorePoint::HaMetadata,
            Some(path) => RestorePoint::Path(path),
            None => RestorePoint::Empty,
        }
    }

    /// Returns true if the stop was for a savepoint redeploy. The path given by the user is then used, regardless of
    /// the job's upgrade mode.
    pub(crate) fn is_savepoint_redeploy(&self, last: &Reconciled<K::Spec>) -> bool {
        let path = self.status.job().upgrade_savepoint_path.as_deref();
        last.spec.job().is_some_and(|job| job::is_savepoint_redeploy(job, path))
    }

    /// Returns the mode for starting a job whose spec did not become stable. It is empty only if its user does not need
    /// state. The spec in force decides: the mode of the stored one says how the job was started, not what it has saved
    /// since.
    pub(crate) fn mode_of_rollback(&self) -> UpgradeMode {
        match self.job().upgrade_mode {
            UpgradeMode::Stateless => UpgradeMode::Stateless,
            UpgradeMode::Savepoint | UpgradeMode::LastState => UpgradeMode::LastState,
        }
    }
}

impl<K: Lifecycle> Pass<'_, K> {
    /// Returns the restore point of the desired spec, after the job on record was stopped.
    pub(crate) fn next_restore_point(
        &self,
        last: &Reconciled<K::Spec>,
    ) -> Result<RestorePoint, Halt> {
        let wanted = if self.is_savepoint_redeploy(last) {
            UpgradeMode::Savepoint
        } else {
            self.job().upgrade_mode
        };
        self.restore_point_after_stop(wanted, self.stopped_as(last), &last.spec, &self.spec)
    }

    /// Returns the restore point of `next`, after the job of `last` was stopped as `stopped_as`.
    fn restore_point_after_stop(
        &self,
        wanted: UpgradeMode,
        stopped_as: UpgradeMode,
        last: &K::Spec,
        next: &K::Spec,
    ) -> Result<RestorePoint, Halt> {
        let reads_metadata =
            stopped_as == UpgradeMode::LastState && wanted != UpgradeMode::Stateless;
        let high_availability = if reads_metadata {
            K::metadata_left(self, last, next)?
        } else {
            HighAvailability::Off
        };
        point(&RestoreFacts { wanted, stopped_as, path: self.savepoint_path(), high_availability })
    }
}

impl DeploymentPass<'_> {
    /// Returns the restore point of the last stable spec, after the job of the failed one was stopped as `stopped_as`.
    pub(crate) fn rollback_restore_point(
        &self,
        stopped_as: UpgradeMode,
        failed: &FlinkDeploymentSpec,
        stable: &FlinkDeploymentSpec,
    ) -> Result<RestorePoint, Halt> {
        if self.is_session() {
            return Ok(RestorePoint::Empty);
        }
        self.restore_point_after_stop(self.mode_of_rollback(), stopped_as, failed, stable)
    }

    /// Returns the restore point of a job whose JobManager is lost, and whether it keeps its id.
    pub(crate) fn recovery_restore_point(
        &self,
        last: &ReconciledSpec,
    ) -> Result<(RestorePoint, bool), Halt> {
        let high_availability = match self.is_started_with_high_availability()? {
            // It did not write any metadata that may exist under its id.
            Some(false) => HighAvailability::Off,
            Some(true) | None => self.high_availability(&self.deployed_spec(last))?,
        };
        let has_metadata = match &high_availability {
            HighAvailability::Off => false,
            HighAvailability::Known(metadata) => metadata.has_job,
            HighAvailability::Unknown(_) => true,
        };
        if self.removed_unstarted().is_some() && !has_metadata {
            return Ok((self.restored_from(), true));
        }
        if high_availability == HighAvailability::Off {
            return Ok((self.restore_point_without_metadata()?, false));
        }
        let keeps_no_state = self.job().upgrade_mode == UpgradeMode::Stateless;
        let has_no_checkpoint = matches!(
            high_availability,
            HighAvailability::Known(HaMetadata { has_job: true, checkpoint: None })
        );
        if has_no_checkpoint
            && !keeps_no_state
            && let Some(message) = self.why_start_is_unsure()
        {
            return Err(Halt::problem(Problem::upgrade("RestoreFailed", message)));
        }
        let started_empty = self.has_started_empty();
        let restore = point(&RestoreFacts {
            wanted: UpgradeMode::LastState,
            stopped_as: UpgradeMode::LastState,
            path: self.savepoint_path().filter(|_| !started_empty),
            high_availability,
        })?;
        Ok((restore, true))
    }

    /// Returns the restore point without HA metadata: a stateless job starts over. Any other waits for a person, and so
    /// does one that only a refused spec declares stateless.
    fn restore_point_without_metadata(&self) -> Result<RestorePoint, Halt> {
        if self.job().upgrade_mode == UpgradeMode::Stateless {
            return Ok(RestorePoint::Empty);
        }
        Err(Halt::problem(Problem::upgrade("UpgradeFailed", self.lost()?)))
    }

    /// Refuses to move the HA metadata of a job that was stopped with nothing else.
    pub(crate) fn refuse_moved_metadata(
        &self,
        left_by: &FlinkDeploymentSpec,
        next: &FlinkDeploymentSpec,
    ) -> Result<(), Halt> {
        if self.moves_metadata(left_by, next)? || self.keeps_metadata_elsewhere(next)? {
            return Err(Halt::problem(Problem::upgrade("RestoreFailed", MOVED)));
        }
        Ok(())
    }

    /// Refuses HA metadata older than what it named when it was decided to restore from it.
    pub(crate) fn refuse_older_metadata(&self, left: &HighAvailability) -> Result<(), Halt> {
        let HighAvailability::Known(HaMetadata { checkpoint: Some(newest), .. }) = left else {
            return Ok(());
        };
        let Some(checkpoint) = self.stopped_at().filter(|checkpoint| checkpoint > newest) else {
            return Ok(());
        };
        let message = format!(
            "HA metadata names checkpoint {newest} as the job's newest, but named checkpoint \
             {checkpoint} when the operator decided to continue from it. Somebody has changed \
             the metadata, or Flink has lost a checkpoint. Restore the metadata, or {CHOOSE}"
        );
        Err(Halt::problem(Problem::upgrade("RestoreFailed", message)))
    }

    /// Returns the high availability of `spec`, with the job's metadata.
    pub(crate) fn high_availability(
        &self,
        spec: &FlinkDeploymentSpec,
    ) -> Result<HighAvailability, Halt> {
        if !is_high_availability_on(&*self.deploy_config(spec, self.generation)?) {
            return Ok(HighAvailability::Off);
        }
        Ok(match self.world.ha_metadata()? {
            Ok(metadata) => HighAvailability::Known(*metadata),
            Err(reason) => HighAvailability::Unknown(reason.to_owned()),
        })
    }
}
