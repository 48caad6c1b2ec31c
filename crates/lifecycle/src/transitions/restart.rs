//! Restarts a job that failed permanently or is unhealthy, with a backoff.
//!
//! The attempts of a deployment are counted in `status.clusterInfo`, so that a new operator does not start over. The
//! status of a session job has no place for them.

use std::borrow::Cow;
use std::time::Duration;

use super::stop::StopDecision;
use crate::attempts::Attempts;
use crate::event::{Component, Event};
use crate::health::{HealthRules, evaluate};
use crate::kind::{Kind, Maybe};
use crate::notes::CLUSTER_HEALTH;
use crate::pass::{DeploymentPass, Pass};
use crate::pauses::GOING;
use crate::plan::{Plan, Step};
use crate::problem::{Halt, Problem};
use crate::resource::StatusOfJob;
use api::job::UpgradeMode;
use api::reconciled::ReconciledSpec;
use api::status::{JobManagerDeploymentStatus, JobStatusState, ReconciliationState};
use config::options;

impl<K: Kind> Pass<'_, K> {
    /// Returns the attempts of the running generation.
    fn attempts(&self) -> Attempts {
        let generation = self.status.observed_generation().unwrap_or(self.generation);
        let deployed = self.status.reconciliation().reconciliation_timestamp;
        let stored = K::attempts(self).and_then(|attempts| attempts.of_generation(generation));
        stored.unwrap_or(Attempts { generation, deployed, ..Attempts::default() })
    }

    /// Returns when the deployed spec was first deployed, in milliseconds since the epoch.
    pub(crate) fn deployed_since(&self) -> i64 {
        self.attempts().deployed
    }

    /// Counts this attempt, or returns how long it has to wait.
    pub(crate) fn take_attempt(&mut self) -> Result<u32, Duration> {
        let now = self.world.now.as_millisecond();
        let attempts = self.attempts().recent(now);
        let wait = attempts.wait(now);
        if !wait.is_zero() {
            return Err(wait);
        }
        let attempts = attempts.next(now);
        K::note_attempts(self, Some(attempts));
        Ok(attempts.count)
    }

    /// Reports that a failed job is started again. The cause of its failure is in the events; the next attempt begins
    /// without it.
    pub(crate) fn announce_restart(&mut self, attempt: u32) {
        self.emit(Event::warning(
            "RestartFailedJob",
            Component::Job,
            format!("Restarting failed job, attempt {attempt}"),
        ));
        self.problem = None;
        self.status.set_error(None);
    }
}

impl DeploymentPass<'_> {
    /// Carries out `job.restart.failed`: a job that failed permanently is started again from what it left.
    pub(crate) fn restart_failed(&mut self, last: &ReconciledSpec) -> Maybe {
        let is_asked = self.observe_config()?.get(&options::JOB_RESTART_FAILED)?;
        if !is_asked || self.status.job_status.state != Some(JobStatusState::Failed) {
            return Ok(None);
        }
        let mut facts = self.stop_facts(last)?;
        if facts.mode == UpgradeMode::Savepoint {
            facts.mode = UpgradeMode::LastState;
        }
        let decision = self.ask_table(facts)?;
        if let Some(plan) = self.stop_unstarted(&decision)? {
            return Ok(Some(plan));
        }
        let mode = match decision {
            StopDecision::AlreadyStopped(mode) | StopDecision::NeverStarted(mode) => mode,
            StopDecision::LastState => UpgradeMode::LastState,
            StopDecision::Stateless => UpgradeMode::Stateless,
            StopDecision::Refuse(reason) => {
                return Err(Halt::problem(Problem::upgrade("RestoreFailed", reason)));
            }
            StopDecision::Wait(_, reason) => return Err(Halt::Cannot(reason)),
            StopDecision::Savepoint | StopDecision::Cancel => return Ok(None),
        };
        let count = match self.take_attempt() {
            Ok(count) => count,
            Err(wait) => {
                self.wake_within(wait);
                return Ok(None);
            }
        };
        self.adopt_last_checkpoint(mode)?;
        self.announce_restart(count);
        let because = "the job failed: restarting it from its last state";
        if self.status.reconciliation_status.state == ReconciliationState::RolledBack {
            return self.take_down_for_rollback(last, mode, because).map(Some);
        }
        // The spec that failed, not one that waits for it.
        self.spec = Cow::Owned(last.spec.clone());
        self.generation = self.status.observed_generation.unwrap_or(self.generation);
        let plan = self.take_down(mode, false)?;
        Ok(Some(Plan { because: because.to_owned(), ..plan }))
    }

    /// Records the job's health if that is enabled.
    pub(crate) fn observe_health(&mut self) -> Result<(), Halt> {
        let config = self.observe_config()?;
        if !config.get(&options::CLUSTER_HEALTH_CHECK_ENABLED)? {
            return Ok(());
        }
        let rules = HealthRules::of(&config)?;
        let Ok(metrics) = self.world.job_metrics()? else { return Ok(()) };
        let before = CLUSTER_HEALTH.get(&self.status.cluster_info);
        let now = self.world.now.as_millisecond();
        if let Some(info) = evaluate(before.as_ref(), metrics, &rules, now) {
            CLUSTER_HEALTH.set(&mut self.status.cluster_info, &info);
        }
        Ok(())
    }

    /// Carries out `cluster.health-check.enabled`: an unhealthy job gets a new JobManager, which the recovery of lost
    /// ones then starts with the newest state.
    pub(crate) fn restart_unhealthy(&mut self, last: &ReconciledSpec) -> Maybe {
        let is_ready =
            self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready;
        let is_asked = self.observe_config()?.get(&options::CLUSTER_HEALTH_CHECK_ENABLED)?;
        let error = match CLUSTER_HEALTH.get(&self.status.cluster_info) {
            Some(info) if is_asked && is_ready && !info.health_result.healthy => {
                info.health_result.error
            }
            Some(_) | None => return Ok(None),
        };
        if let Err(reason) = self.recovery_restore_point(last) {
            return match reason {
                Halt::Ask(question) => Err(Halt::Ask(question)),
                Halt::Cannot(_) | Halt::Wait(..) => Ok(None),
                Halt::Problem(problem) => {
                    let error = error.unwrap_or_default();
                    let message = format!(
                        "the job is unhealthy ({error}) but is not restarted: {}",
                        problem.message
                    );
                    self.problem = Some(Problem { message, ..*problem });
                    Ok(None)
                }
            };
        }
        if let Err(wait) = self.take_attempt() {
            self.wake_within(wait);
            return Ok(None);
        }
        self.steps.push(Step::Event(Event::warning(
            "RestartUnhealthyJob",
            Component::Job,
            error.unwrap_or_else(|| "Restarting unhealthy job".to_owned()),
        )));
        let uid = self.read_job_manager()?.map(|job_manager| job_manager.uid.clone());
        self.set_job_state(JobStatusState::Reconciling);
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        self.note_checkpoint_in_metadata()?;
        self.write_intent();
        self.delete_cluster_of(UpgradeMode::LastState, uid)?;
        Ok(Some(self.go_on("the job is unhealthy: replacing its JobManager", GOING)))
    }
}
