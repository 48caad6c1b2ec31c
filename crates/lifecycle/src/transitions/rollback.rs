//! Automatic rollback to the last stable spec.
//!
//! A spec that did not become stable in time is replaced by the previous one. The newest state is carried over by the
//! same table and the same choice of a restore point as in any upgrade. If these would wait or refuse, nothing is
//! rolled back, and the reason is reported.
//!
//! The progress of a rollback is in the status alone. `ROLLING_BACK` with a JobManager that is `MISSING` means that the
//! failed one is being removed. With one that is `DEPLOYING`, the failed one was seen to be gone, so that a JobManager
//! found then is already that of the rollback.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::stop::StopDecision;
use crate::application::version::refuse_old_version;
use crate::diff::{ChangeClass, SpecDiff};
use crate::error_document::wording::{NOT_BACK, NOT_STABLE, ROLLED_BACK};
use crate::error_document::{ErrorNote, ErrorType, StoredError, message_of};
use crate::event::{Component, Event};
use crate::kind::{End, Kind, Maybe};
use crate::notes::{REMOVED_UNSTARTED, STARTING_JOB};
use crate::pass::{DeploymentPass, Pass};
use crate::pauses::{GOING, SOON};
use crate::phase::Phase;
use crate::plan::{ClusterStep, Plan, Step};
use crate::problem::{Halt, Problem, foreign_deployment};
use crate::resource::StatusOfJob;
use crate::world::{JobManager, PodProblem};
use api::deployment::FlinkDeploymentSpec;
use api::job::{JobState, UpgradeMode};
use api::reconciled::{Reconciled, ReconciledSpec};
use api::status::{JobManagerDeploymentStatus, JobStatusState, ReconciliationState};
use config::cluster::is_high_availability_on;
use config::options;
use state::restore_point::RestorePoint;

/// Facts that decide when to roll back, for any kind of resource.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct RollbackFacts {
    pub now: Timestamp,
    /// `kubernetes.operator.deployment.rollback.enabled`.
    pub is_enabled: bool,
    pub state: ReconciliationState,
    /// The deployed spec does not differ significantly from the last stable one.
    pub is_stable: bool,
    /// There is a last stable spec, and it ran.
    pub has_target: bool,
    /// The last stable spec is for another Flink version.
    pub is_version_changed: bool,
    /// `status.reconciliationStatus.reconciliationTimestamp`.
    pub deployed: Timestamp,
    /// How long a spec may take to become stable.
    pub patience: Duration,
}

/// When to roll back, if at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Due {
    Never,
    /// After this long, unless the spec becomes stable.
    In(Duration),
    Now,
}

/// Decides whether the deployed spec has used up its time. Says nothing about the state to restore.
pub fn due(facts: &RollbackFacts) -> Due {
    let RollbackFacts { now, is_enabled, state, is_stable, has_target, .. } = *facts;
    let may_go_back = is_enabled && has_target && !is_stable && !facts.is_version_changed;
    if !may_go_back || state != ReconciliationState::Deployed {
        return Due::Never;
    }
    let patience = SignedDuration::try_from(facts.patience).unwrap_or(SignedDuration::MAX);
    let left = patience.saturating_sub(now.duration_since(facts.deployed));
    match Duration::try_from(left) {
        Ok(left) if !left.is_zero() => Due::In(left),
        Ok(_) | Err(_) => Due::Now,
    }
}

impl<K: Kind> Pass<'_, K> {
    /// Returns how long a spec may take to become stable: to start running, and then to prove itself.
    pub(crate) fn patience(&self) -> Result<Duration, Halt> {
        let config = self.observe_config()?;
        let ready: Duration = config.get(&options::DEPLOYMENT_READINESS_TIMEOUT)?;
        Ok(ready.saturating_add(config.get(&options::DEPLOYMENT_STABLE_RUNNING_FOR)?))
    }

    /// Returns how much time the spec has left to become stable; `Never` if it is not rolled back.
    pub(crate) fn rollback_due(&self, last: &Reconciled<K::Spec>) -> Result<Due, Halt> {
        let config = self.observe_config()?;
        let state = self.status.reconciliation().state;
        let is_enabled = config.get(&options::DEPLOYMENT_ROLLBACK_ENABLED)?;
        // Most resources end here, which saves parsing their stable spec.
        if !is_enabled || state != ReconciliationState::Deployed {
            return Ok(Due::Never);
        }
        let stable = self.stable_spec();
        let deployed = Timestamp::from_millisecond(self.deployed_since());
        let is_stopped = |spec: &Reconciled<K::Spec>| spec.job_state() == JobState::Suspended;
        Ok(due(&RollbackFacts {
            now: self.world.now,
            is_enabled,
            state,
            is_stable: self.is_proven(last),
            has_target: stable.as_ref().is_some_and(|stable| !is_stopped(stable))
                && !is_stopped(last),
            is_version_changed: stable
                .as_ref()
                .is_some_and(|stable| K::is_version_changed(&stable.spec, &last.spec)),
            deployed: deployed.unwrap_or(self.world.now),
            patience: self.patience()?,
        }))
    }

    /// Returns the last stable spec, without which nothing is rolled back.
    pub(crate) fn spec_to_roll_back_to(&self) -> Result<Reconciled<K::Spec>, Halt> {
        self.stable_spec().ok_or_else(|| {
            Halt::problem(Problem::upgrade(
                "RestoreFailed",
                "status.reconciliationStatus.lastStableSpec, the spec to roll back to, is not \
                 readable. The job stays stopped and its state is kept. Change the spec to one \
                 that works",
            ))
        })
    }

    /// Reports that the spec failed for this cause within the given time.
    pub(crate) fn announce_rollback(&mut self, component: Component, time: &str, cause: &str) {
        let message = "Rolling back failed deployment.";
        self.emit(Event::normal("Rollback", Component::JobManagerDeployment, message));
        let message = format!("{NOT_STABLE} {time}{ROLLED_BACK}{cause}");
        let kind = ErrorType::DeploymentFailed;
        let problem = Problem::new(kind, "RolledBack", component, message);
        self.problem = Some(Problem { note: Some(ErrorNote::RolledBack), ..problem });
        // The attempts of the failed spec do not apply to the next one.
        K::note_attempts(self, None);
    }

    /// Returns true if nothing significant has changed since a spec was stable.
    pub(crate) fn is_proven(&self, last: &Reconciled<K::Spec>) -> bool {
        self.stable_spec().is_some_and(|stable| {
            K::changes(&stable.spec, &last.spec).class() == ChangeClass::Ignore
        })
    }
}

impl DeploymentPass<'_> {
    /// Begins a rollback if it is due and the newest state can be carried over.
    pub(crate) fn roll_back_if_due(&mut self, last: &ReconciledSpec) -> Maybe {
        if self.rollback_due(last)? != Due::Now {
            return Ok(None);
        }
        let Some(stable) = self.stable_spec() else { return Ok(None) };
        let mode = match self.rollback_mode(last, &stable)? {
            Ok(mode) => match self.preflight_of_rollback(last, &stable, &mode.0)? {
                Ok(None) => Ok(mode),
                Ok(Some(plan)) => return Ok(Some(plan)),
                Err(reason) => Err(format!("the last stable spec would not start: {reason}")),
            },
            Err(reason) => Err(reason),
        };
        match mode {
            Ok((decision, mode)) => match self.stop_unstarted(&decision)? {
                Some(plan) => Ok(Some(plan)),
                None => self.begin_rollback(last, mode).map(Some),
            },
            Err(reason) => {
                let cause = self.instability();
                let message =
                    format!("{NOT_STABLE} {:?} ({cause}{NOT_BACK}{reason}", self.patience()?);
                let note = Some(ErrorNote::RollbackRefused { cause });
                let problem = Problem { note, ..Problem::upgrade("RollbackRefused", message) };
                self.problem = Some(problem);
                Ok(None)
            }
        }
    }

    /// Tries the spec of the rollback if a job runs that the rollback would stop. Without a running job, it is rolled
    /// back at once.
    fn preflight_of_rollback(
        &mut self,
        last: &ReconciledSpec,
        stable: &ReconciledSpec,
        decision: &StopDecision,
    ) -> Result<Result<Option<Plan>, String>, Halt> {
        let runs = self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready
            && self.status.job_status.state == Some(JobStatusState::Running);
        if !runs || !decision.ends_what_runs() {
            return Ok(Ok(None));
        }
        self.preflight(last, (&last.spec, &stable.spec), false)
    }

    /// Returns how to stop the failed job so that the previous spec can start with the newest state, or why that is
    /// impossible.
    fn rollback_mode(
        &self,
        last: &ReconciledSpec,
        stable: &ReconciledSpec,
    ) -> Result<Result<(StopDecision, UpgradeMode), String>, Halt> {
        if self.is_session() {
            // It has no state of its own, and HA metadata of its jobs is kept.
            return Ok(Ok((StopDecision::Stateless, UpgradeMode::Stateless)));
        }
        let mut facts = self.stop_facts(last)?;
        // A failed job is not asked for a savepoint, and the state it was started from may be old.
        facts.mode = self.mode_of_rollback();
        facts.is_version_changed = false;
        facts.checkpoint_age_max = None;
        facts.may_cancel = false;
        let decision = self.ask_table(facts)?;
        let mode = match decision {
            StopDecision::Stateless => UpgradeMode::Stateless,
            StopDecision::LastState => UpgradeMode::LastState,
            StopDecision::AlreadyStopped(mode) | StopDecision::NeverStarted(mode) => mode,
            StopDecision::Wait(_, reason) | StopDecision::Refuse(reason) => return Ok(Err(reason)),
            StopDecision::Savepoint | StopDecision::Cancel => {
                return Ok(Err("the running job has no HA metadata".to_owned()));
            }
        };
        // Nothing is removed before it is known that what follows can start.
        match self.rollback_restore_point(mode, &last.spec, &stable.spec) {
            Ok(_) => Ok(Ok((decision, mode))),
            Err(Halt::Ask(question)) => Err(Halt::Ask(question)),
            Err(Halt::Cannot(reason) | Halt::Wait(_, reason)) => Ok(Err(reason)),
            Err(Halt::Problem(problem)) => Ok(Err(problem.message)),
        }
    }

    /// Records that the spec failed and how its job is stopped, then removes its JobManager.
    fn begin_rollback(&mut self, last: &ReconciledSpec, mode: UpgradeMode) -> End {
        let cause = self.instability();
        let time = format!("{:?}", self.patience()?);
        self.announce_rollback(Component::JobManagerDeployment, &time, &cause);
        let because = "rolling back: removing the JobManager of the failed spec";
        self.take_down_for_rollback(last, mode, because)
    }

    /// Removes the JobManager of a spec that remains the stored one.
    pub(crate) fn take_down_for_rollback(
        &mut self,
        last: &ReconciledSpec,
        mode: UpgradeMode,
        because: &str,
    ) -> End {
        let job_id = self.cancellable_job();
        let job_manager = self.read_job_manager()?.cloned();
        self.note_how_it_was_stopped(last, mode);
        STARTING_JOB.clear(&mut self.status.cluster_info);
        if mode == UpgradeMode::LastState {
            self.note_checkpoint_in_metadata()?;
        }
        self.enter(Phase::RollingBack);
        self.status.task_manager = self.no_task_managers();
        if !self.is_session()
            && !self.status.job_status.state.is_some_and(JobStatusState::is_globally_terminal)
        {
            self.set_job_state(JobStatusState::Finished);
        }
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        self.write_intent();
        if let (UpgradeMode::Stateless, Some(job_id)) = (mode, job_id) {
            self.steps.push(Step::CancelJob { job_id, is_best_effort: true });
        }
        self.delete_cluster_of(mode, job_manager.map(|job_manager| job_manager.uid))?;
        Ok(self.go_on(because, GOING))
    }

    fn note_how_it_was_stopped(&mut self, last: &ReconciledSpec, mode: UpgradeMode) {
        let started_empty = self.has_started_empty();
        if mode == UpgradeMode::Stateless || (mode == UpgradeMode::LastState && started_empty) {
            // Not a path of the running job; HA metadata may name no checkpoint.
            self.status.job_status.upgrade_savepoint_path = None;
        }
        let mut last = last.clone();
        last.first_deployment = Some(false);
        if let Some(job) = &mut last.spec.job {
            job.upgrade_mode = mode;
        }
        self.store_last(last);
    }

    /// Replaces the failed JobManager by the last stable spec. An edit of the user meanwhile takes precedence.
    pub(crate) fn continue_rollback(&mut self, last: &ReconciledSpec, diff: &SpecDiff) -> End {
        let stable = self.spec_to_roll_back_to()?;
        let job_manager = self.read_job_manager()?.cloned();
        if let Some(job_manager) = &job_manager
            && job_manager.owner_uid.as_deref() != Some(self.world.uid())
        {
            return Err(Halt::problem(foreign_deployment(self.world.name())));
        }
        if self.is_rollback_made(job_manager.as_ref()) {
            return self.adopt_rollback(&stable.spec);
        }
        if job_manager.is_none()
            && diff.class() != ChangeClass::SavepointRedeploy
            && !self.moves_metadata(&last.spec, &stable.spec)?
            && self.was_lost_after_its_start(&stable.spec)?
        {
            self.note_rollback_made(&stable.spec);
            let because = "the JobManager created by the rollback is lost";
            return Ok(self.go_on(because, Duration::ZERO));
        }
        if diff.class() != ChangeClass::Ignore {
            match self.refuse_edit_without_metadata(last, diff) {
                Ok(()) => return self.leave_rollback(last, diff),
                Err(Halt::Problem(problem)) => {
                    self.problem = Some(*problem);
                    self.keep_in_force(&last.spec);
                }
                Err(halt) => return Err(halt),
            }
        }
        if let Some(job_manager) = &job_manager {
            if self.has_ended_before_removal(job_manager)? {
                self.note_how_it_was_stopped(last, UpgradeMode::Savepoint);
            }
            self.refuse_job_that_runs_again(job_manager, last)?;
            return self.remove(job_manager.is_deleting, &job_manager.uid);
        }
        if let Some(plan) = self.wait_for_old_task_managers()? {
            return Ok(plan);
        }
        if self.has_old_pods()? {
            return self.await_pods_left();
        }
        if let Some(plan) = self.await_standby_left()? {
            return Ok(plan);
        }
        self.refuse_unknown_start(&stable.spec, self.mode_of_rollback())?;
        let restore = self.rollback_restore_point(self.last_mode(), &last.spec, &stable.spec)?;
        self.deploy_stable(last, &stable.spec, &restore)
    }

    /// Refuses an edit, until the rollback is done, that would not find the HA metadata of a job stopped with nothing
    /// else, or cannot read it. A running job can be saved first. If the edit were stored, the location of the metadata
    /// would no longer be known.
    fn refuse_edit_without_metadata(
        &self,
        last: &ReconciledSpec,
        diff: &SpecDiff,
    ) -> Result<(), Halt> {
        let needs_metadata = self.last_mode() == UpgradeMode::LastState
            && self.job().upgrade_mode != UpgradeMode::Stateless
            && diff.class() != ChangeClass::SavepointRedeploy;
        if !needs_metadata {
            return Ok(());
        }
        let is_retained =
            is_high_availability_on(&*self.deploy_config(&self.spec, self.generation)?);
        let because = if last.spec.flink_version != self.spec.flink_version {
            "another version of Flink cannot read"
        } else if !is_retained || self.moves_metadata(&last.spec, &self.spec)? {
            "the change of `high-availability.*`, or of the job's id, would hide"
        } else {
            return Ok(());
        };
        let message = format!(
            "the rollback uses HA metadata of the job, which {because}. The change waits until \
             the last stable spec is running"
        );
        Err(Halt::problem(Problem::upgrade("UpgradeFailed", message)))
    }

    /// Ends the rollback as an upgrade to the user's current spec, with the available state.
    fn leave_rollback(&mut self, last: &ReconciledSpec, diff: &SpecDiff) -> End {
        if diff.class() == ChangeClass::SavepointRedeploy {
            return self.redeploy_from_savepoint(last, diff);
        }
        if self.is_session() {
            self.refuse_moved_jobs(last)?;
        }
        self.announce(diff);
        self.store_before_deploy(self.last_mode(), false);
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        if self.is_session() {
            return self.start_session();
        }
        let stored = self.last.clone();
        self.start_again(stored.as_deref().unwrap_or(last))
    }

    fn deploy_stable(
        &mut self,
        last: &ReconciledSpec,
        stable: &FlinkDeploymentSpec,
        restore: &RestorePoint,
    ) -> End {
        let keeps_job_id = self.last_mode() == UpgradeMode::LastState
            && self.mode_of_rollback() != UpgradeMode::Stateless;
        refuse_old_version(stable)?;
        let (job_id, objects) = self.prepare(stable, self.generation, restore, keeps_job_id)?;
        if stable.job.is_some() {
            self.note_start(stable, restore, &job_id)?;
            self.note_former_job(stable, &job_id)?;
            self.note_metadata_used(restore)?;
            self.note_restore(restore, job_id);
        }
        let mut last = last.clone();
        if let Some(job) = &mut last.spec.job {
            job.upgrade_mode = restore.upgrade_mode();
        }
        self.store_last(last);
        self.stamp();
        // From here on, any JobManager that is found is this one.
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Deploying;
        self.write_intent();
        let keeps_ha_metadata = keeps_job_id || *restore == RestorePoint::HaMetadata;
        self.submit(stable, objects, keeps_ha_metadata, false)?;
        self.store_rolled_back(stable);
        let because = format!("rolled back, starting from {}", restore.describe());
        Ok(self.go_on(because, SOON))
    }

    /// Returns true if the existing JobManager is that of the rollback.
    pub(crate) fn is_rollback_made(&self, job_manager: Option<&JobManager>) -> bool {
        self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Deploying
            && job_manager.is_some_and(|job_manager| !job_manager.is_deleting)
    }

    pub(crate) fn note_rollback_made(&mut self, stable: &FlinkDeploymentSpec) {
        self.forget_former_cluster();
        self.set_job_unknown();
        self.store_rolled_back(stable);
    }

    /// Adopts a rollback after a crash between the creation and the status that records it.
    fn adopt_rollback(&mut self, stable: &FlinkDeploymentSpec) -> End {
        let objects = self.render_deployed(stable)?;
        self.note_rollback_made(stable);
        self.record_started_config()?;
        self.steps.push(Step::Own(ClusterStep::FinishCluster(Box::new(objects))));
        Ok(self.go_on("the JobManager was already created", SOON))
    }

    fn store_rolled_back(&mut self, stable: &FlinkDeploymentSpec) {
        self.enter(Phase::RolledBack);
        self.status.task_manager = self.task_manager_info_of(stable);
    }

    /// Returns what keeps the deployed spec from being stable, as far as known.
    pub(crate) fn instability(&self) -> String {
        if let Some(problem) = &self.problem {
            return problem.message.clone();
        }
        if let Some(PodProblem { reason, message }) = &self.own.pod_problem {
            return format!("{reason}: {message}");
        }
        if let Some(because) = &self.unproven {
            return format!("the job is running, but {because}");
        }
        let state = self.status.job_status.state.map_or("unknown", |it| it.into_str());
        let is_reported = self.status.job_status.state == Some(JobStatusState::Failed)
            || REMOVED_UNSTARTED.get(&self.status.cluster_info).is_some();
        if let Some(error) = self.status.error.as_ref().filter(|_| is_reported) {
            match StoredError::read(Some(error)).note() {
                // A refusal from an earlier pass is not the cause, but contains it.
                Some(ErrorNote::RollbackRefused { cause }) => return cause.clone(),
                Some(ErrorNote::RolledBack) => {}
                Some(_) | None => return message_of(error),
            }
        }
        match self.status.job_manager_deployment_status {
            JobManagerDeploymentStatus::Ready => format!("the job is {state}"),
            JobManagerDeploymentStatus::DeployedNotReady => {
                "the JobManager does not answer".to_owned()
            }
            JobManagerDeploymentStatus::Deploying => "the JobManager is starting".to_owned(),
            JobManagerDeploymentStatus::Missing | JobManagerDeploymentStatus::Error => {
                "the JobManager is missing or has failed".to_owned()
            }
        }
    }
}

#[cfg(test)]
mod tests;
