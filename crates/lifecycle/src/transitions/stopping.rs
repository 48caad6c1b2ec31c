//! Stop-with-savepoint of any resource that has a job. Its trigger id is stored before Flink is asked, so that after a
//! crash in between the same id is sent again.

use std::ops::ControlFlow;
use std::time::Duration;

use jiff::Timestamp;

use super::failed_stop::not_stopped;
use super::stop::{Lazy, Need, OTHER_STATE, StopDecision, StopFacts, decide_stop, lazy};
use crate::blocker::{give_up_at, savepoint_patience};
use crate::diff::{ChangeClass, SpecDiff};
use crate::error_document::wording::NOT_STOPPED;
use crate::job::{self, StopOutcome};
use crate::kind::{End, Kind, Lifecycle};
use crate::pass::Pass;
use crate::pauses::{GOING, SOON};
use crate::phase::Phase;
use crate::plan::{PlanOf, Step};
use crate::problem::{Halt, Problem, SAVEPOINT_OVERDUE};
use crate::resource::StatusOfJob;
use crate::wait::Awaited;
use crate::world::{Answer, HaMetadata, Job};
use api::job::UpgradeMode;
use api::reconciled::{Reconciled, StoredSpec, deployed};
use api::status::{JobManagerDeploymentStatus, JobStatus, JobStatusState, SavepointFormatType};
use config::cluster::savepoint_directory;
use config::{FlinkConfig, options};
use state::references::{is_checkpoint, is_checkpoint_of};
use state::restore_point::RestorePoint;

impl<K: Kind> Pass<'_, K> {
    /// Returns the facts of any job for the upgrade table, assuming a JobManager that answers and no HA metadata.
    pub(crate) fn stop_facts_of_job(&self, mode: UpgradeMode) -> Result<StopFacts, Halt> {
        let config = self.observe_config()?;
        Ok(StopFacts {
            now: self.world.now,
            mode,
            started_as: self.last_mode(),
            state: self.status.job().state,
            job_manager: JobManagerDeploymentStatus::Ready,
            is_high_availability_on: false,
            moves_metadata: false,
            is_version_changed: false,
            has_savepoint_directory: savepoint_directory(&config).is_some(),
            may_fall_back: config.get(&options::JOB_UPGRADE_LAST_STATE_FALLBACK_ENABLED)?,
            may_cancel: config.get(&options::JOB_UPGRADE_LAST_STATE_JOB_CANCEL_ENABLED)?,
            retains_checkpoints: job::retains_checkpoints(&config),
            retention: Lazy::NotAsked,
            checkpoint_age_max: config
                .find(&options::JOB_UPGRADE_LAST_STATE_MAX_ALLOWED_CHECKPOINT_AGE)?,
            job_started: job::started(self.status.job()),
            path: self.savepoint_path(),
            ha_metadata: Lazy::Known(HaMetadata::default()),
            checkpoints: Lazy::NotAsked,
            never_started: Lazy::Known(false),
        })
    }

    /// Asks the upgrade table, and for each fact that it needs.
    pub(crate) fn stop_decision(
        &self,
        facts: &mut StopFacts,
        never_started: impl Fn() -> Result<bool, Halt>,
    ) -> Result<StopDecision, Halt> {
        loop {
            // Each fact is requested once, so this ends after at most five rounds.
            match decide_stop(facts) {
                Ok(decision) => return Ok(decision),
                Err(Need::HaMetadata) => facts.ha_metadata = lazy(self.world.ha_metadata()?),
                Err(Need::Checkpoints) => facts.checkpoints = self.checkpoints_for_table()?,
                Err(Need::Retention) => facts.retention = lazy(self.world.retention()?),
                Err(Need::NeverStarted) => facts.never_started = Lazy::Known(never_started()?),
            }
        }
    }

    /// Records the trigger id, then asks Flink.
    pub(crate) fn begin_stop(&mut self) -> End<K> {
        let config = self.observe_config()?;
        let format = config.get(&options::SAVEPOINT_FORMAT_TYPE)?;
        self.give_up_savepoint("an upgrade stops the job with its own savepoint");
        let trigger_id = self.world.fresh.trigger_id.clone();
        let now = self.world.now;
        job::note_stop(self.status.job_mut(), &trigger_id, format, now);
        self.write_intent();
        self.trigger_stop(&config, trigger_id, format)?;
        Ok(self.go_on("stopping the job with a savepoint", GOING))
    }

    fn trigger_stop(
        &mut self,
        config: &FlinkConfig,
        trigger_id: String,
        format: SavepointFormatType,
    ) -> Result<(), Halt> {
        let job_id = self.job_id()?;
        let is_deleting = self.world.metadata().deletion_timestamp.is_some();
        let drain = is_deleting && config.get(&options::JOB_DRAIN_ON_SAVEPOINT_DELETION)?;
        let directory = savepoint_directory(config);
        self.steps.push(Step::TriggerStop { job_id, trigger_id, directory, format, drain });
        Ok(())
    }

    /// Applies a `savepointRedeployNonce` that was changed while the job was being stopped. What was saved is then in
    /// the history, and the next start uses the path that the user names: a spec stored with a nonce is considered to
    /// have followed it.
    pub(crate) fn apply_redeploy(&mut self, last: &Reconciled<K::Spec>) {
        // Without a path, which is invalid, the new savepoint remains the restore point.
        if let (Some(diff), Some(path)) = (self.named_redeploy(last), self.named_state()) {
            self.announce(&diff);
            self.status.job_mut().upgrade_savepoint_path = Some(path);
        }
    }

    /// Returns the state that a redeploy starts the job from. Every valid spec has it: state must not be dropped
    /// without naming its replacement.
    pub(crate) fn named_for_redeploy(&self) -> Result<String, Halt> {
        let path = self.named_state().ok_or_else(|| {
            let message = "`savepointRedeployNonce` changed, but \
                           `spec.job.initialSavepointPath`, from which the job would start, is \
                           not set. Nothing is stopped";
            Halt::problem(Problem::upgrade("UpgradeFailed", message))
        })?;
        self.refuse_own_passing_checkpoint(&path)?;
        Ok(path)
    }

    /// Refuses a redeploy from the job's own checkpoint if that would be deleted. A job that does not retain its
    /// checkpoints deletes them all when it is cancelled, and the named one may be its newest state. If nothing is
    /// cancelled, the checkpoint stays.
    fn refuse_own_passing_checkpoint(&self, path: &str) -> Result<(), Halt> {
        let Some(id) = job::id(self.status.job()) else { return Ok(()) };
        let is_own = is_checkpoint_of(path, &id) || is_checkpoint_without_job(path);
        if !is_own || !K::may_be_cancelled(self, &id)? {
            return Ok(());
        }
        // A redeploy is also the solution if no one answers.
        if self.retains_checkpoints()? {
            return Ok(());
        }
        let message = format!(
            "`spec.job.initialSavepointPath` names `{path}`, which may be a checkpoint of the \
             job that would be cancelled. That job does not retain its checkpoints \
             (`execution.checkpointing.externalized-checkpoint-retention`), so the checkpoint \
             would be deleted. Nothing is stopped. Name a savepoint instead: `kubectl flink \
             savepoint` takes one"
        );
        Err(Halt::problem(Problem::upgrade("UpgradeFailed", message)))
    }

    /// Returns the savepoint's path, or what to do while there is none.
    pub(crate) fn stopped_with(
        &mut self,
        outcome: StopOutcome,
    ) -> Result<ControlFlow<PlanOf<K>, String>, Halt> {
        match outcome {
            StopOutcome::Saved(path) => Ok(ControlFlow::Continue(path)),
            StopOutcome::Pending if self.is_savepoint_overdue()? => Err(self.overdue()),
            StopOutcome::Unheard
                if self.world.now
                    >= self.stop_ends_at(
                        self.observe_config()?.get(&options::DEPLOYMENT_READINESS_TIMEOUT)?,
                    ) =>
            {
                Ok(ControlFlow::Break(self.lose_stop()))
            }
            StopOutcome::Pending | StopOutcome::Resend | StopOutcome::Unheard => {
                Ok(ControlFlow::Break(self.wait_for(
                    Awaited::Savepoint,
                    "waiting for the savepoint",
                    GOING,
                )))
            }
            StopOutcome::Lost => Ok(ControlFlow::Break(self.lose_stop())),
            StopOutcome::Failed(message) => {
                job::forget_stop(self.status.job_mut());
                self.note_failed_stop();
                let message = format!("the job {NOT_STOPPED} and keeps running: {message}");
                Err(Halt::problem(not_stopped(message)))
            }
        }
    }

    /// Records that the job is being cancelled, and the mode in which it will have stopped. The running spec remains
    /// stored until the job has ended.
    pub(crate) fn store_cancelling(&mut self, last: &Reconciled<K::Spec>, mode: UpgradeMode) {
        let redeploy_nonce = last.spec.job().and_then(|job| job.savepoint_redeploy_nonce);
        // From here on, nothing shows that this spec was the result of a rollback.
        let mut last = deployed(self.status.reconciliation(), last).into_owned();
        last.first_deployment = Some(false);
        if let Some(job) = last.spec.job_mut() {
            job.upgrade_mode = mode;
            // The nonce was followed once, and must not drop the state again.
            job.savepoint_redeploy_nonce = redeploy_nonce;
        }
        self.store_last(last);
        self.enter(Phase::Cancelling);
        self.write_intent();
    }

    /// Returns the change to a state that the user names, if there is one.
    pub(crate) fn named_redeploy(&self, last: &Reconciled<K::Spec>) -> Option<SpecDiff> {
        let diff = K::changes(&last.spec, &self.spec);
        let is_one = diff.class() == ChangeClass::SavepointRedeploy && self.named_state().is_some();
        is_one.then_some(diff)
    }

    /// Like [`Self::named_redeploy`], once the savepoint that was to stop the job is overdue.
    pub(crate) fn overtaken_by(
        &self,
        outcome: &StopOutcome,
        last: &Reconciled<K::Spec>,
    ) -> Result<Option<SpecDiff>, Halt> {
        let is_over = matches!(outcome, StopOutcome::Pending) && self.is_savepoint_overdue()?;
        Ok(if is_over { self.named_redeploy(last) } else { None })
    }

    /// Has the table decide again, from what became of the job.
    fn lose_stop(&mut self) -> PlanOf<K> {
        job::forget_stop(self.status.job_mut());
        self.go_on("the stop-with-savepoint was lost", Duration::ZERO)
    }

    /// Returns true if Flink should have ended the savepoint that stops the job long ago.
    pub(crate) fn is_savepoint_overdue(&self) -> Result<bool, Halt> {
        let patience = savepoint_patience(&*self.observe_config()?);
        Ok(self.world.now >= self.stop_ends_at(patience))
    }

    /// Returns when a stop that may take this long is over.
    pub(crate) fn stop_ends_at(&self, patience: Duration) -> Timestamp {
        let since = job::stop_since(self.status.job());
        give_up_at(self.world.metadata(), since, patience, self.world.now)
    }

    /// Returns a halt because Flink says, or may say, that the stop is in progress: another one would not help.
    fn overdue(&self) -> Halt {
        let message = format!(
            "the job was asked to stop with a savepoint long ago and has not stopped, so the \
             change waits. To see what its tasks are waiting for: kubectl flink status {}. \
             {OTHER_STATE}",
            self.world.name()
        );
        let detail = Some(SAVEPOINT_OVERDUE.to_owned());
        Halt::problem(Problem { detail, ..Problem::upgrade("SavepointError", message) })
    }
}

impl<K: Lifecycle> Pass<'_, K> {
    /// Finds out what became of the stop-with-savepoint, as far as possible. A request that Flink does not know of is
    /// repeated.
    pub(crate) fn stop_outcome(&mut self, trigger_id: &str) -> Result<StopOutcome, Halt> {
        if let Some(outcome) = K::unanswered_stop(self) {
            return Ok(outcome);
        }
        let state = self.status.job().state;
        let outcome = job::stop_outcome(self.world.stop()?, state, || self.world.checkpoints())?;
        if matches!(outcome, StopOutcome::Resend) {
            let config = self.observe_config()?;
            let format = config.get(&options::SAVEPOINT_FORMAT_TYPE)?;
            self.trigger_stop(&config, trigger_id.to_owned(), format)?;
        }
        Ok(outcome)
    }

    /// Follows the stop-with-savepoint of this trigger id.
    pub(crate) fn continue_stop(&mut self, last: &Reconciled<K::Spec>, trigger_id: &str) -> End<K> {
        if let Some(plan) = K::continue_without_answer(self, last)? {
            return Ok(plan);
        }
        let outcome = self.stop_outcome(trigger_id)?;
        if matches!(outcome, StopOutcome::Lost) {
            K::note_lost_stop(self);
        }
        if let Some(diff) = self.overtaken_by(&outcome, last)? {
            return K::redeploy(self, last, &diff);
        }
        let path = match self.stopped_with(outcome)? {
            ControlFlow::Continue(path) => path,
            ControlFlow::Break(plan) => return Ok(plan),
        };
        self.record_savepoint(&path);
        self.supersede(last, RestorePoint::Path(path));
        self.set_job_state(JobStatusState::Finished);
        self.apply_redeploy(last);
        K::stopped(self)
    }

    /// Waits for the end of the cancelled job. A request that did not arrive is repeated.
    pub(crate) fn continue_cancel(&mut self, last: &Reconciled<K::Spec>) -> End<K> {
        if let Some(plan) = K::continue_without_answer(self, last)? {
            return Ok(plan);
        }
        if self.is_cancel_lost {
            let job_id = self.job_id()?;
            self.steps.push(Step::CancelJob { job_id, is_best_effort: false });
        }
        let mut because = "waiting for the job to be cancelled".to_owned();
        if let Some(reason) = &self.unreachable {
            because = format!("{because}; the cluster: {reason}");
        }
        Ok(self.wait_for(Awaited::JobEnded, because, SOON))
    }
}

/// Returns true if a cancellation would meet the job with this id: it is listed and has not ended, whatever is on
/// record of a former run. If no one answers, the record is used.
pub(crate) fn may_be_cancelled(
    status: &JobStatus,
    job_id: &str,
    jobs: Answer<'_, Vec<Job>>,
) -> bool {
    match jobs {
        Ok(jobs) => jobs.iter().any(|job| job.id == job_id && !job.state.is_globally_terminal()),
        Err(_) => !status.state.is_some_and(JobStatusState::is_globally_terminal),
    }
}

/// Returns true if the path is that of a checkpoint and does not show its job: `execution.checkpointing.create-subdir`
/// may be off.
fn is_checkpoint_without_job(path: &str) -> bool {
    let is_id = |part: &str| part.len() == 32 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_checkpoint(path) && !path.split('/').any(is_id)
}
