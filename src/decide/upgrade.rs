//! Stopping a running job so that its changed spec can start: the table's decision, carried out.

use std::ops::ControlFlow;

use super::application::{Halt, Pass, Problem};
use super::deploy::GOING;
use super::diff::SpecDiff;
use super::job::{self, StopOutcome};
use super::observe::SOON;
use super::plan::{Plan, Step};
use super::reconciled::{ReconciledSpec, deployed};
use super::record::savepoint_directory;
use super::restore::RestorePoint;
use super::stop::{Lazy, Need, StopDecision, StopFacts, decide_stop, is_cancellable};
use super::world::Answer;
use crate::api::job::{JobState, UpgradeMode};
use crate::api::status::{JobManagerDeploymentStatus, JobStatusState, ReconciliationState};
use crate::config::cluster;
use crate::config::options;

/// In `status.clusterInfo`: uid of the JobManager's Deployment that an upgrade replaces, until the new
/// one is made.
pub const REPLACED_KEY: &str = "ReplacedDeployment";

impl Pass<'_> {
    pub(super) fn stop(&mut self, last: &ReconciledSpec, diff: &SpecDiff) -> Result<Plan, Halt> {
        let decision = self.ask_table(self.stop_facts(last)?)?;
        match decision {
            StopDecision::Wait(reason) => {
                let plan = self.look_after(last)?;
                Ok(Plan { because: format!("the change waits: {reason}"), ..plan })
            }
            StopDecision::Refuse(message) => {
                Err(Halt::problem(Problem::upgrade("UpgradeFailed", message)))
            }
            StopDecision::Savepoint => {
                self.announce(diff);
                self.announce_stop();
                self.begin_stop()
            }
            StopDecision::Cancel => {
                self.announce(diff);
                self.announce_stop();
                self.begin_cancel(last)
            }
            StopDecision::Stateless => {
                self.announce(diff);
                self.announce_stop();
                self.supersede(last, RestorePoint::Empty);
                self.status.job_status.upgrade_savepoint_path = None;
                self.take_down(UpgradeMode::Stateless, true)
            }
            StopDecision::LastState => {
                self.announce(diff);
                self.announce_stop();
                self.supersede(last, RestorePoint::HaMetadata);
                if self.last_mode() == UpgradeMode::Stateless {
                    // What the job started from, should HA metadata name no checkpoint.
                    self.status.job_status.upgrade_savepoint_path = None;
                }
                self.take_down(UpgradeMode::LastState, false)
            }
            StopDecision::AlreadyStopped(mode) | StopDecision::NeverStarted(mode) => {
                self.announce(diff);
                self.adopt_last_checkpoint(mode)?;
                let restore = match (mode, self.savepoint_path()) {
                    (UpgradeMode::Savepoint, Some(path)) => RestorePoint::Path(path),
                    (UpgradeMode::LastState, _) => RestorePoint::HaMetadata,
                    (UpgradeMode::Stateless | UpgradeMode::Savepoint, _) => RestorePoint::Empty,
                };
                self.supersede(last, restore);
                if mode == UpgradeMode::Stateless {
                    self.status.job_status.upgrade_savepoint_path = None;
                }
                if self.desired_state() == JobState::Suspended
                    && matches!(decision, StopDecision::AlreadyStopped(_))
                    && self.keeps_ended_job_manager()?
                {
                    self.store_suspended(Some(mode));
                    return Ok(self.finish("suspended: the job had ended", Some(self.interval())));
                }
                self.take_down(mode, false)
            }
        }
    }

    /// What the upgrade table looks at, without the facts that it has to ask for.
    pub(super) fn stop_facts(&self, last: &ReconciledSpec) -> Result<StopFacts, Halt> {
        let config = self.observe_config()?;
        let now = self.world.now;
        let deployed = self.deployed_spec(last);
        Ok(StopFacts {
            now,
            mode: self.job().upgrade_mode,
            started_as: self.last_mode(),
            state: self.status.job_status.state,
            job_manager: self.status.job_manager_deployment_status,
            is_high_availability_on: cluster::is_high_availability_on(&config)
                && self.is_high_availability_on()?,
            is_version_changed: deployed.flink_version != self.spec.flink_version,
            has_savepoint_directory: savepoint_directory(&config).is_some(),
            may_fall_back: config.get(&options::JOB_UPGRADE_LAST_STATE_FALLBACK_ENABLED)?,
            may_cancel: config.get(&options::JOB_UPGRADE_LAST_STATE_JOB_CANCEL_ENABLED)?,
            retains_checkpoints: job::retains_checkpoints(&config),
            checkpoint_age_max: config
                .find(&options::JOB_UPGRADE_LAST_STATE_MAX_ALLOWED_CHECKPOINT_AGE)?,
            job_started: job::started(&self.status.job_status),
            path: self.savepoint_path(),
            ha_metadata: Lazy::NotAsked,
            checkpoints: Lazy::NotAsked,
            never_started: Lazy::NotAsked,
        })
    }

    pub(super) fn ask_table(&self, mut facts: StopFacts) -> Result<StopDecision, Halt> {
        loop {
            // Each need is met once, so this ends after at most four rounds.
            match decide_stop(&facts) {
                Ok(decision) => return Ok(decision),
                Err(Need::HaMetadata) => facts.ha_metadata = lazy(self.world.ha_metadata()?),
                Err(Need::Checkpoints) => facts.checkpoints = lazy(self.world.checkpoints()?),
                Err(Need::NeverStarted) => {
                    facts.never_started = Lazy::Known(self.job_manager_never_started()?);
                }
            }
        }
    }

    /// True only when neither the Deployment nor any of its pods ever got to run a JobManager.
    fn job_manager_never_started(&self) -> Result<bool, Halt> {
        let Some(job_manager) = self.read_job_manager()? else { return Ok(false) };
        if !job_manager.was_never_available {
            return Ok(false);
        }
        Ok(match self.world.pods()? {
            Ok(pods) => pods.iter().all(|pod| !pod.has_started),
            Err(_) => false,
        })
    }

    /// Trigger id of the stop-with-savepoint that is under way.
    pub(super) fn pending_stop(&self) -> Option<String> {
        job::pending_stop(&self.status.job_status)
    }

    pub(super) fn forget_stop(&mut self) {
        job::forget_stop(&mut self.status.job_status);
    }

    /// What became of the stop-with-savepoint, as far as it can be known.
    pub(super) fn stop_outcome(&mut self, trigger_id: &str) -> Result<StopOutcome, Halt> {
        if self.status.job_manager_deployment_status != JobManagerDeploymentStatus::Ready {
            let is_gone =
                self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing;
            return Ok(if is_gone { StopOutcome::Lost } else { StopOutcome::Pending });
        }
        let outcome = job::stop_outcome(self.world.stop()?, self.status.job_status.state);
        self.resend_if_lost(&outcome, trigger_id)?;
        Ok(outcome)
    }

    pub(super) fn go_on_stopping(
        &mut self,
        last: &ReconciledSpec,
        trigger_id: &str,
    ) -> Result<Plan, Halt> {
        let outcome = self.stop_outcome(trigger_id)?;
        let path = match self.stopped_with(outcome)? {
            ControlFlow::Continue(path) => path,
            ControlFlow::Break(plan) => return Ok(plan),
        };
        self.record_savepoint(&path);
        self.supersede(last, RestorePoint::Path(path));
        self.set_job_state(JobStatusState::Finished);
        self.heed_redeploy(last);
        if self.desired_state() == JobState::Suspended && self.keeps_ended_job_manager()? {
            self.store_suspended(Some(UpgradeMode::Savepoint));
            return Ok(self.finish("suspended with a savepoint", Some(self.interval())));
        }
        self.take_down(UpgradeMode::Savepoint, false)
    }

    fn begin_cancel(&mut self, last: &ReconciledSpec) -> Result<Plan, Halt> {
        let job_id = self.job_id()?;
        if self.last_mode() == UpgradeMode::Stateless {
            // What the job started from, should it leave no checkpoint of its own.
            self.status.job_status.upgrade_savepoint_path = None;
        }
        let redeploy_nonce = last.spec.job.as_ref().and_then(|job| job.savepoint_redeploy_nonce);
        // From here on nothing tells any more that this was rolled back to.
        let mut last = deployed(&self.status.reconciliation_status, last).into_owned();
        last.first_deployment = Some(false);
        if let Some(job) = &mut last.spec.job {
            job.upgrade_mode = UpgradeMode::Savepoint;
            // It was followed once, and must not drop the state again.
            job.savepoint_redeploy_nonce = redeploy_nonce;
        }
        self.store_last(last);
        self.status.reconciliation_status.state = ReconciliationState::Upgrading;
        self.set_job_state(JobStatusState::Cancelling);
        self.write_intent();
        self.steps.push(Step::CancelJob { job_id, is_best_effort: false });
        Ok(self.finish("cancelling the job, its checkpoint is kept", Some(SOON)))
    }

    pub(super) fn redeploy_from_savepoint(
        &mut self,
        last: &ReconciledSpec,
        diff: &SpecDiff,
    ) -> Result<Plan, Halt> {
        self.announce(diff);
        self.announce_stop();
        let path = self.job().initial_savepoint_path.clone();
        let left = match (last.job_state(), self.last_mode(), self.savepoint_path()) {
            (JobState::Suspended, UpgradeMode::Savepoint, Some(path)) => RestorePoint::Path(path),
            _ => RestorePoint::HaMetadata,
        };
        self.supersede(last, left);
        self.status.job_status.upgrade_savepoint_path = path;
        self.forget_stop();
        self.take_down(UpgradeMode::Savepoint, true)
    }

    /// The last state of an ended job that was found only now, before its JobManager goes.
    pub(super) fn adopt_last_checkpoint(&mut self, mode: UpgradeMode) -> Result<(), Halt> {
        if mode == UpgradeMode::Savepoint
            && self.savepoint_path().is_none()
            && let Ok(checkpoints) = self.world.checkpoints()?
            && let Some(latest) = &checkpoints.latest
        {
            self.status.job_status.upgrade_savepoint_path = Some(latest.path.clone());
        }
        Ok(())
    }

    /// The job, when there is one to cancel and a JobManager to ask.
    pub(super) fn cancellable_job(&self) -> Option<String> {
        let job_manager = self.status.job_manager_deployment_status;
        let job_id = self.status.job_status.job_id.clone();
        job_id.filter(|_| is_cancellable(job_manager, self.status.job_status.state))
    }

    /// Writes what is intended, then deletes the JobManager; the next pass starts the new one.
    pub(super) fn take_down(&mut self, mode: UpgradeMode, cancel: bool) -> Result<Plan, Halt> {
        let job_id = self.cancellable_job();
        // A new parallelism, or a restart, has no generation of its own: should this end before the
        // deletion, the Deployment that is there must not be taken for the new one.
        let has_its_generation = self.status.observed_generation == Some(self.generation);
        self.store_before_deploy(mode, false);
        let state = self.status.job_status.state;
        if !state.is_some_and(JobStatusState::is_globally_terminal) {
            self.set_job_state(JobStatusState::Finished);
        }
        let uid = self.read_job_manager()?.map(|job_manager| job_manager.uid.clone());
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        if let Some(uid) = uid.as_ref().filter(|_| has_its_generation) {
            self.status.cluster_info.insert(REPLACED_KEY.to_owned(), uid.clone());
        }
        self.write_intent();
        if let (true, Some(job_id)) = (cancel, job_id) {
            self.steps.push(Step::CancelJob { job_id, is_best_effort: true });
        }
        self.delete_cluster(uid)?;
        let because = match mode {
            UpgradeMode::Stateless => "stopping the job without its state",
            UpgradeMode::Savepoint => "removing the JobManager, the job's state is recorded",
            UpgradeMode::LastState => "removing the JobManager, HA metadata is kept",
        };
        Ok(self.finish(because, Some(GOING)))
    }
}

fn lazy<T: Clone>(answer: Answer<'_, T>) -> Lazy<T> {
    match answer {
        Ok(value) => Lazy::Known(value.clone()),
        Err(reason) => Lazy::Unknown(reason.to_owned()),
    }
}
