//! Stopping a running job so that its changed spec can start: carries out the decision of the table.

use std::ops::ControlFlow;
use std::time::Duration;

use jiff::Timestamp;

use crate::blocker::{give_up_at, savepoint_patience};
use crate::diff::SpecDiff;
use crate::event::{Component, Event};
use crate::job::{self, StopOutcome};
use crate::kind::{End, Maybe};
use crate::notes::{
    LastStart, REMOVED_UNSTARTED, REPLACED_DEPLOYMENT, Removed, STARTING_JOB, STOPPED_AT, StoppedAt,
};
use crate::pass::DeploymentPass;
use crate::pass::PROBLEM_INTERVAL_MAX;
use crate::pauses::{GOING, SOON};
use crate::plan::{ClusterStep, Plan, Step};
use crate::problem::{Halt, Problem};
use crate::transitions::restore::HighAvailability;
use crate::transitions::stop::OTHER_STATE;
use crate::transitions::stop::{
    LOST, Lazy, MOVED, NOT_RUNNING, StopDecision, StopFacts, VANISHED, is_cancellable,
    may_have_ha_metadata,
};
use crate::wait::Awaited;
use crate::world::HaMetadata;
use api::deployment::FlinkDeploymentSpec;
use api::job::{JobState, UpgradeMode};
use api::reconciled::ReconciledSpec;
use api::status::{JobManagerDeploymentStatus, JobStatusState, LAST_STATE_PATH};
use config::cluster;
use config::options;
use state::restore_point::RestorePoint;

impl DeploymentPass<'_> {
    pub(crate) fn stop(&mut self, last: &ReconciledSpec, diff: &SpecDiff) -> End {
        if let Err(halt) = self.refuse_unrenderable_spec() {
            return self.refuse_and_maintain(last, halt);
        }
        let decision = self.ask_table(self.stop_facts(last)?)?;
        let stops = !matches!(decision, StopDecision::Wait(..) | StopDecision::Refuse(_));
        if stops && let Err(halt) = self.refuse_rejected_objects() {
            // No watch reports that it is accepted.
            self.wake_within(PROBLEM_INTERVAL_MAX);
            return self.refuse_and_maintain(last, halt);
        }
        if decision.ends_what_runs() {
            let is_last_state = decision == StopDecision::LastState;
            if let Some(plan) = self.admit_upgrade(last, is_last_state)? {
                return Ok(plan);
            }
            self.report_cold_upgrade(is_last_state)?;
        }
        match decision {
            StopDecision::Wait(_, reason) if reason == MOVED => {
                // It ends only by someone's decision.
                let moved = Halt::problem(Problem::upgrade("UpgradeFailed", reason));
                self.refuse_and_maintain(last, moved)
            }
            StopDecision::Wait(on, reason) => {
                self.meanwhile(last, on, format!("the change waits: {reason}"))
            }
            StopDecision::Refuse(message) => {
                Err(Halt::problem(Problem::upgrade("UpgradeFailed", message)))
            }
            StopDecision::Savepoint => self.stop_with_savepoint(last, diff),
            StopDecision::Cancel => {
                self.announce_stop(diff);
                self.begin_cancel(last)
            }
            StopDecision::Stateless => {
                self.announce_stop(diff);
                self.supersede(last, RestorePoint::Empty);
                self.status.job_status.upgrade_savepoint_path = None;
                self.take_down(UpgradeMode::Stateless, true)
            }
            StopDecision::LastState => {
                if let Some(plan) = self.await_fresh_checkpoint(last)? {
                    return Ok(plan);
                }
                self.announce_stop(diff);
                self.supersede(last, RestorePoint::HaMetadata);
                self.note_last_checkpoint()?;
                if self.has_started_empty() {
                    // It started without state, and does so again if HA metadata names no checkpoint.
                    self.status.job_status.upgrade_savepoint_path = None;
                }
                self.take_down(UpgradeMode::LastState, false)
            }
            StopDecision::AlreadyStopped(mode) | StopDecision::NeverStarted(mode) => {
                self.stop_ended(last, diff, &decision, mode)
            }
        }
    }

    /// Removes the JobManager of a job that has ended, or never ran.
    fn stop_ended(
        &mut self,
        last: &ReconciledSpec,
        diff: &SpecDiff,
        decision: &StopDecision,
        mode: UpgradeMode,
    ) -> End {
        if let Some(plan) = self.stop_unstarted(decision)? {
            return Ok(plan);
        }
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
            return Ok(self.rest("suspended: the job had ended", Some(self.interval())));
        }
        self.take_down(mode, false)
    }

    fn stop_with_savepoint(&mut self, last: &ReconciledSpec, diff: &SpecDiff) -> End {
        if let Some(plan) = self.pause_before_stop(last)? {
            return Ok(plan);
        }
        self.announce_stop(diff);
        self.begin_stop()
    }

    /// Reports a refused change, and maintains what runs meanwhile.
    pub(crate) fn refuse_and_maintain(&mut self, last: &ReconciledSpec, refusal: Halt) -> End {
        let Halt::Problem(problem) = refusal else { return Err(refusal) };
        let because = problem.message.clone();
        self.problem = Some(*problem);
        let plan = self.maintain(last)?;
        Ok(Plan { because, ..plan })
    }

    /// Returns the facts for the upgrade table, without those that it has to request.
    pub(crate) fn stop_facts(&self, last: &ReconciledSpec) -> Result<StopFacts, Halt> {
        let deployed = self.deployed_spec(last);
        Ok(StopFacts {
            job_manager: self.status.job_manager_deployment_status,
            // If it is unknown what runs, its metadata decides.
            is_high_availability_on: self.is_high_availability_on()?
                && self.is_started_with_high_availability()? != Some(false),
            moves_metadata: self.moves_metadata(&deployed, &self.spec)?
                || self.keeps_metadata_elsewhere(&self.spec)?,
            is_version_changed: deployed.flink_version != self.spec.flink_version,
            ha_metadata: Lazy::NotAsked,
            never_started: Lazy::NotAsked,
            ..self.stop_facts_of_job(self.job().upgrade_mode)?
        })
    }

    /// Returns true if a job of `from` would look for its HA metadata elsewhere with `to`, or under a fixed id that is
    /// not its own. The metadata of a session cluster holds the graphs of its jobs, which another Flink version does
    /// not look for, or cannot read.
    pub(crate) fn moves_metadata(
        &self,
        from: &FlinkDeploymentSpec,
        to: &FlinkDeploymentSpec,
    ) -> Result<bool, Halt> {
        let is_version_changed = from.flink_version != to.flink_version;
        if from.flink_configuration == to.flink_configuration && !is_version_changed {
            return Ok(false);
        }
        let has_job = to.job.is_some();
        let from = self.deploy_config(from, self.generation)?;
        let to = self.deploy_config(to, self.generation)?;
        let is_retained =
            cluster::is_high_availability_on(&from) && cluster::is_high_availability_on(&to);
        let is_renamed = || {
            let id = self.status.job_status.job_id.as_deref();
            let id = id.or_else(|| from.text_of(&options::FIXED_JOB_ID));
            let fixed = to.text_of(&options::FIXED_JOB_ID).filter(|_| has_job);
            fixed.is_some() && fixed != id
        };
        let is_unread = is_version_changed && !has_job;
        Ok(is_retained && (is_unread || !cluster::is_metadata_shared(&from, &to) || is_renamed()))
    }

    pub(crate) fn ask_table(&self, mut facts: StopFacts) -> Result<StopDecision, Halt> {
        let decision = self.stop_decision(&mut facts, || self.job_manager_never_started())?;
        let decision = self.unless_switched_off(decision)?;
        let decision = self.unless_vanished(decision, &facts);
        let decision = self.refuse_unsure_path(decision)?;
        self.with_last_checkpoint(self.unless_run_again(decision)?)
    }

    /// Corrects the reason if state that is considered lost may be in metadata that a start would not look for.
    fn unless_switched_off(&self, decision: StopDecision) -> Result<StopDecision, Halt> {
        let is_lost = decision == StopDecision::Refuse(LOST.to_owned());
        Ok(if is_lost { StopDecision::Refuse(self.lost()?.to_owned()) } else { decision })
    }

    /// Corrects the decision for a job that its JobManager no longer knows and that has no HA metadata. It will not run
    /// again by itself: it has ended unobserved, for example with the requested savepoint, and waiting for it would
    /// never end.
    fn unless_vanished(&self, decision: StopDecision, facts: &StopFacts) -> StopDecision {
        let is_waiting =
            decision == StopDecision::Wait(Awaited::JobRunning, NOT_RUNNING.to_owned());
        let is_ready = facts.job_manager == JobManagerDeploymentStatus::Ready;
        if is_waiting
            && is_ready
            && self.own.is_job_lost
            && may_have_ha_metadata(facts) == Ok(false)
        {
            return StopDecision::Refuse(format!("{VANISHED}. {OTHER_STATE}"));
        }
        decision
    }

    /// Keeps a JobManager that never ran from starting. It may start at any moment, and its job would then have newer
    /// state than it started from. It is stopped with the reason noted on it, and what follows is decided once it is
    /// gone, whenever that is.
    pub(crate) fn stop_unstarted(&mut self, decision: &StopDecision) -> Maybe {
        if !matches!(decision, StopDecision::NeverStarted(_)) {
            return Ok(None);
        }
        let Some(job_manager) = self.read_job_manager()?.filter(|found| !found.is_deleting) else {
            return Ok(None);
        };
        let uid = job_manager.uid.clone();
        let Some(version) = job_manager.version.clone() else {
            return Err(Halt::cannot("the JobManager Deployment has no version"));
        };
        // The completion of its start may not be stored yet, and a stopped one is not recognised as such.
        self.write_intent();
        self.steps.push(Step::Own(ClusterStep::StopJobManager { uid, unstarted: Some(version) }));
        Ok(Some(self.go_on("removing the JobManager, which never ran", GOING)))
    }

    /// Returns when the missing JobManager was removed, if it never ran.
    pub(crate) fn removed_unstarted(&self) -> Option<Timestamp> {
        let is_missing =
            self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing;
        self.noted_unstarted().filter(|_| is_missing)
    }

    /// Returns when a JobManager was removed that never ran. The Java operator keeps the note unchanged: it is void if
    /// something was deployed, or a job was seen starting, since.
    fn noted_unstarted(&self) -> Option<Timestamp> {
        let Removed { at, start } = REMOVED_UNSTARTED.get(&self.status.cluster_info)?;
        let now = self.last_start();
        let at_millis = at.as_millisecond();
        let is_last = start
            .map_or(now.deployed <= at_millis && now.started <= at_millis, |start| start == now);
        is_last.then_some(at)
    }

    /// Returns the record of the last start.
    pub(crate) fn last_start(&self) -> LastStart {
        let started = job::started(&self.status.job_status);
        LastStart {
            deployed: self.status.reconciliation_status.reconciliation_timestamp,
            started: started.map_or(0, Timestamp::as_millisecond),
        }
    }

    /// Returns true only if neither the Deployment nor any of its pods ever got to run a JobManager.
    fn job_manager_never_started(&self) -> Result<bool, Halt> {
        let Some(job_manager) = self.read_job_manager()? else {
            return Ok(self.removed_unstarted().is_some());
        };
        if job_manager.is_deleting {
            // While being deleted it may have started to run; only the note about it is trusted.
            return Ok(self.noted_unstarted().is_some());
        }
        if !job_manager.was_never_available {
            return Ok(false);
        }
        Ok(match self.world.pods()? {
            Ok(pods) => pods.iter().all(|pod| !pod.has_started),
            Err(_) => false,
        })
    }

    /// Returns the outcome of the stop if the JobManager that was asked for it does not answer.
    pub(crate) fn unanswered_stop(&self) -> Option<StopOutcome> {
        match self.status.job_manager_deployment_status {
            JobManagerDeploymentStatus::Ready => None,
            JobManagerDeploymentStatus::Missing => Some(StopOutcome::Lost),
            JobManagerDeploymentStatus::Deploying
            | JobManagerDeploymentStatus::DeployedNotReady
            | JobManagerDeploymentStatus::Error => Some(StopOutcome::Pending),
        }
    }

    /// The job has ended with its savepoint on record: remove its JobManager, unless that is kept.
    pub(crate) fn take_down_stopped(&mut self) -> End {
        if self.desired_state() == JobState::Suspended && self.keeps_ended_job_manager()? {
            self.store_suspended(Some(UpgradeMode::Savepoint));
            return Ok(self.rest("suspended with a savepoint", Some(self.interval())));
        }
        self.take_down(UpgradeMode::Savepoint, false)
    }

    /// Continues if the JobManager that was asked to stop or cancel the job does not answer: with another state named
    /// by the user at once, and with the newest state when the JobManager's time is over. `None` while it may still
    /// answer.
    pub(crate) fn continue_without_answer(&mut self, last: &ReconciledSpec) -> Maybe {
        let job_manager = self.status.job_manager_deployment_status;
        let is_away = matches!(
            job_manager,
            JobManagerDeploymentStatus::Deploying
                | JobManagerDeploymentStatus::DeployedNotReady
                | JobManagerDeploymentStatus::Error
        );
        if !is_away {
            return Ok(None);
        }
        if let Some(diff) = self.named_redeploy(last) {
            return self.redeploy_from_savepoint(last, &diff).map(Some);
        }
        if self.world.now < self.silence_ends_at()? {
            return Ok(None);
        }
        self.decide_without_answer(last).map(Some)
    }

    /// Returns when the wait for a JobManager that does not answer ends. One that runs may still be taking the
    /// savepoint.
    fn silence_ends_at(&self) -> Result<Timestamp, Halt> {
        let config = self.observe_config()?;
        let patience = config.get(&options::DEPLOYMENT_READINESS_TIMEOUT)?;
        let (metadata, now) = (&self.world.resource.metadata, self.world.now);
        let at = give_up_at(metadata, Some(self.job_state_since()), patience, now);
        let runs = self.status.job_manager_deployment_status
            == JobManagerDeploymentStatus::DeployedNotReady;
        if runs && job::pending_stop(&self.status.job_status).is_some() {
            return Ok(at.max(self.stop_ends_at(savepoint_patience(&config))));
        }
        Ok(at)
    }

    /// Forgets the stop or the cancellation, and decides again from HA metadata. It must name a checkpoint: a job that
    /// has ended deletes its metadata, the checkpoints first, and may leave a savepoint that no one knows of.
    fn decide_without_answer(&mut self, last: &ReconciledSpec) -> End {
        let deployed = self.deployed_spec(last);
        let is_version_changed = deployed.flink_version != self.spec.flink_version;
        let config = self.observe_config()?;
        let may_fall_back = config.get(&options::JOB_UPGRADE_LAST_STATE_FALLBACK_ENABLED)?;
        let needs_savepoint = self.job().upgrade_mode == UpgradeMode::Savepoint && !may_fall_back;
        let doubt = match self.high_availability(&deployed)? {
            _ if is_version_changed => {
                Some("another Flink version cannot use HA metadata".to_owned())
            }
            _ if needs_savepoint => {
                Some(format!("`{}` is off", options::JOB_UPGRADE_LAST_STATE_FALLBACK_ENABLED.key()))
            }
            HighAvailability::Known(HaMetadata { checkpoint: Some(_), .. }) => None,
            HighAvailability::Known(_) => Some(
                "HA metadata names no checkpoint of the job, which may have ended and left a \
                 savepoint"
                    .to_owned(),
            ),
            HighAvailability::Unknown(reason) => {
                Some(format!("HA metadata cannot be read ({reason})"))
            }
            HighAvailability::Off => Some(
                "without high availability, nothing else knows the job's newest state".to_owned(),
            ),
        };
        let silence = format!(
            "the JobManager was asked to stop the job and has not answered for a long time ({})",
            self.instability()
        );
        if let Some(doubt) = doubt {
            let message = format!(
                "{silence}, and {doubt}. Nothing is started, and the change waits until the \
                 JobManager answers. {OTHER_STATE}"
            );
            return Err(Halt::problem(Problem::upgrade("UpgradeFailed", message)));
        }
        let message =
            format!("{silence}. The operator no longer waits for it and uses HA metadata");
        self.emit(Event::warning("UpgradeFailed", Component::JobManagerDeployment, message));
        job::forget_stop(&mut self.status.job_status);
        self.trust_metadata_only();
        if self.status.job_status.state == Some(JobStatusState::Cancelling) {
            self.decide_again();
        }
        Ok(self.go_on("the JobManager does not answer: deciding again", Duration::ZERO))
    }

    /// Records that the state the job started from is no longer its newest: a start that finds no checkpoint in HA
    /// metadata must be refused.
    pub(crate) fn trust_metadata_only(&mut self) {
        let state = self.status.job_status.state;
        if !state.is_some_and(JobStatusState::is_globally_terminal) {
            self.status.job_status.upgrade_savepoint_path = Some(LAST_STATE_PATH.to_owned());
        }
    }

    /// Records the checkpoint in the HA metadata that will be used. The metadata must name it, or a newer one, when it
    /// is used: a job that ends deletes its checkpoints first, and the rest later or never. This ignores what is on
    /// record as the end of the job, since that of a job being taken down is only intended.
    pub(crate) fn note_checkpoint_in_metadata(&mut self) -> Result<(), Halt> {
        if let Ok(HaMetadata { checkpoint: Some(newest), .. }) = self.world.ha_metadata()? {
            self.status.job_status.upgrade_savepoint_path = Some(LAST_STATE_PATH.to_owned());
            let checkpoint = self.stopped_at().map_or(*newest, |before| before.max(*newest));
            let stopped_at = StoppedAt { checkpoint, started: self.last_start().started };
            STOPPED_AT.set(&mut self.status.cluster_info, &stopped_at);
        }
        Ok(())
    }

    /// Returns the newest checkpoint named by HA metadata since it was decided to restore from it.
    pub(crate) fn stopped_at(&self) -> Option<u64> {
        let StoppedAt { checkpoint, started } = STOPPED_AT.get(&self.status.cluster_info)?;
        (started == self.last_start().started).then_some(checkpoint)
    }

    /// Returns true if the path on record is not state of the running job, which started without any and is not known
    /// to have some. The path of an ended job is the state it left.
    pub(crate) fn has_started_empty(&self) -> bool {
        let path = self.status.job_status.upgrade_savepoint_path.as_deref();
        let has_ended =
            self.status.job_status.state.is_some_and(JobStatusState::is_globally_terminal);
        self.last_mode() == UpgradeMode::Stateless && path != Some(LAST_STATE_PATH) && !has_ended
    }

    fn begin_cancel(&mut self, last: &ReconciledSpec) -> End {
        let job_id = self.job_id()?;
        if self.has_started_empty() {
            // It started without state, and does so again if it leaves no checkpoint of its own.
            self.status.job_status.upgrade_savepoint_path = None;
        }
        if self.is_started_with_high_availability()? != Some(false) {
            // It has a checkpoint. If the one it leaves is not observed, the state it started from is not its newest.
            self.note_checkpoint_in_metadata()?;
        }
        self.store_cancelling(last, UpgradeMode::Savepoint);
        self.steps.push(Step::CancelJob { job_id, is_best_effort: false });
        Ok(self.go_on("cancelling the job and keeping its checkpoint", SOON))
    }

    pub(crate) fn redeploy_from_savepoint(
        &mut self,
        last: &ReconciledSpec,
        diff: &SpecDiff,
    ) -> End {
        let path = self.named_for_redeploy()?;
        self.refuse_unrenderable_spec()?;
        let left = match self.left_behind(last)? {
            ControlFlow::Continue(left) => left,
            ControlFlow::Break(plan) => return Ok(plan),
        };
        self.refuse_rejected_objects()?;
        if let Some(plan) = self.preflight_of_wanted(last, false)? {
            return Ok(plan);
        }
        self.announce_stop(diff);
        self.supersede(last, left);
        self.status.job_status.upgrade_savepoint_path = Some(path);
        job::forget_stop(&mut self.status.job_status);
        self.take_down(UpgradeMode::Savepoint, true)
    }

    /// Records the last state of an ended job that was found only now, before its JobManager is removed.
    pub(crate) fn adopt_last_checkpoint(&mut self, mode: UpgradeMode) -> Result<(), Halt> {
        if mode == UpgradeMode::Savepoint
            && self.savepoint_path().is_none()
            && let Ok(checkpoints) = self.world.checkpoints()?
            && let Some(latest) = &checkpoints.latest
        {
            self.status.job_status.upgrade_savepoint_path = Some(latest.path.clone());
        }
        Ok(())
    }

    /// Returns the job if there is one to cancel and a JobManager to ask.
    pub(crate) fn cancellable_job(&self) -> Option<String> {
        let job_manager = self.status.job_manager_deployment_status;
        let job_id = self.status.job_status.job_id.clone();
        job_id.filter(|_| is_cancellable(job_manager, self.status.job_status.state))
    }

    /// Writes the intent, then deletes the JobManager; the next pass starts the new one.
    pub(crate) fn take_down(&mut self, mode: UpgradeMode, cancel: bool) -> End {
        let job_id = self.cancellable_job();
        self.store_before_deploy(mode, false);
        STARTING_JOB.clear(&mut self.status.cluster_info);
        if mode == UpgradeMode::LastState {
            self.note_checkpoint_in_metadata()?;
        }
        let state = self.status.job_status.state;
        if !state.is_some_and(JobStatusState::is_globally_terminal) {
            self.set_job_state(JobStatusState::Finished);
        }
        let uid = self.read_job_manager()?.map(|job_manager| job_manager.uid.clone());
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        if let Some(uid) = &uid {
            // If this ends before the deletion, the Deployment must not be taken for the new one (a new parallelism, or
            // a restart, has no generation of its own), nor for that of an ended job, which may stay.
            REPLACED_DEPLOYMENT.set(&mut self.status.cluster_info, uid);
        }
        self.write_intent();
        if let (true, Some(job_id)) = (cancel, job_id) {
            self.steps.push(Step::CancelJob { job_id, is_best_effort: true });
        }
        self.delete_cluster_of(mode, uid)?;
        let because = match mode {
            UpgradeMode::Stateless => "stopping the job without keeping its state",
            UpgradeMode::Savepoint => "removing the JobManager, with the job's state on record",
            UpgradeMode::LastState => "removing the JobManager and keeping HA metadata",
        };
        let pause = self.going();
        Ok(self.go_on(because, pause))
    }
}

#[cfg(test)]
mod tests;
