//! A deployment whose spec is in place: recover it, clean up after it, or leave it alone.

use std::time::Duration;

use jiff::SignedDuration;

use super::version::refuse_old_version;
use crate::conditions::READINESS_TIMEOUT;
use crate::error_document::ErrorType;
use crate::event::{Component, Event};
use crate::kind::End;
use crate::notes::REMOVED_UNSTARTED;
use crate::pass::DeploymentPass;
use crate::pauses::SOON;
use crate::plan::Step;
use crate::problem::{Halt, Problem};
use crate::transitions::restore::HighAvailability;
use crate::transitions::rollback::Due;
use crate::wait::Awaited;
use api::job::JobState;
use api::reconciled::ReconciledSpec;
use api::status::{JobManagerDeploymentStatus, JobStatusState, ReconciliationState};
use config::{FlinkConfig, options};

/// Shortest and longest pause between two checks of a starting job.
const START_PAUSE_MIN: Duration = Duration::from_millis(300);
const START_PAUSE_MAX: Duration = Duration::from_secs(1);
/// A pause is this fraction of the time that the start has taken so far.
const START_CHECKS: u32 = 16;
/// How long a JobManager that was removed for a change is not recreated while the change is held up.
const CHANGE_PATIENCE: SignedDuration = SignedDuration::from_mins(1);

impl DeploymentPass<'_> {
    /// Nothing to change: recover, clean up, or wait.
    pub(crate) fn maintain(&mut self, last: &ReconciledSpec) -> End {
        if self.is_session() {
            return self.maintain_session(last);
        }
        let config = self.observe_config()?;
        let job_manager = self.status.job_manager_deployment_status;
        let state = self.status.job_status.state;
        let is_terminal = state.is_some_and(JobStatusState::is_globally_terminal);
        let is_running = last.job_state() == JobState::Running;
        if is_running && let Some(plan) = self.restart_failed(last)? {
            return Ok(plan);
        }
        if is_running
            && !is_terminal
            && let Some(plan) = self.restart_unhealthy(last)?
        {
            return Ok(plan);
        }
        if is_running && !is_terminal && job_manager == JobManagerDeploymentStatus::Missing {
            let is_enabled = config.get(&options::JM_DEPLOYMENT_RECOVERY_ENABLED)?;
            // The operator recreates a JobManager that it removed itself, even if recovery is disabled.
            if is_enabled || self.removed_unstarted().is_some() {
                return self.recover(last);
            }
        }
        if let Some(plan) = self.maintain_task_managers(last)? {
            return Ok(plan);
        }
        if is_terminal && job_manager != JobManagerDeploymentStatus::Missing {
            return self.retire(&config);
        }
        if is_running {
            self.note_if_late(last)?;
        }
        let next = self.maintain_snapshots(&config)?;
        let because = self.resting_because();
        let look_again = match job_manager {
            JobManagerDeploymentStatus::Ready if state == Some(JobStatusState::Running) => {
                self.interval()
            }
            JobManagerDeploymentStatus::Ready if !is_running => self.interval(),
            JobManagerDeploymentStatus::Ready => self.start_pause(START_PAUSE_MAX),
            JobManagerDeploymentStatus::DeployedNotReady => self.start_pause(SOON),
            // Its Deployment triggers a pass when it can be asked.
            JobManagerDeploymentStatus::Deploying => SOON,
            JobManagerDeploymentStatus::Error => Duration::from_secs(10),
            JobManagerDeploymentStatus::Missing => self.interval(),
        };
        let pause = next.map_or(look_again, |next| next.min(look_again));
        let is_deployed = self.status.reconciliation_status.state == ReconciliationState::Deployed;
        let on = match job_manager {
            _ if !is_running || is_terminal => None,
            JobManagerDeploymentStatus::Ready if state != Some(JobStatusState::Running) => {
                Some(Awaited::JobRunning)
            }
            JobManagerDeploymentStatus::Ready if is_deployed && !self.is_stable() => {
                Some(Awaited::Stable)
            }
            JobManagerDeploymentStatus::Ready | JobManagerDeploymentStatus::Missing => None,
            JobManagerDeploymentStatus::Deploying
            | JobManagerDeploymentStatus::DeployedNotReady
            | JobManagerDeploymentStatus::Error => Some(Awaited::JobManagerAnswer),
        };
        Ok(match on {
            Some(on) => self.wait_for(on, because, pause),
            None => self.rest(because, Some(pause)),
        })
    }

    /// Returns the pause before the next check of a start. A recent start is checked often, because it may be done at
    /// any moment; a long one costs few checks.
    fn start_pause(&self, longest: Duration) -> Duration {
        let waited = self.world.now.duration_since(self.job_state_since());
        let waited = Duration::try_from(waited).unwrap_or_default();
        (waited / START_CHECKS).clamp(START_PAUSE_MIN, longest)
    }

    /// Reports an error if a spec did not get its job running in time, whether it is rolled back or not.
    fn note_if_late(&mut self, last: &ReconciledSpec) -> Result<(), Halt> {
        match self.rollback_due(last)? {
            Due::In(left) => self.wake_within(left),
            Due::Now | Due::Never => {}
        }
        let state = self.status.job_status.state;
        let has_ended = state.is_some_and(JobStatusState::is_globally_terminal);
        if has_ended || state == Some(JobStatusState::Running) {
            return Ok(());
        }
        let patience: Duration =
            self.observe_config()?.get(&options::DEPLOYMENT_READINESS_TIMEOUT)?;
        // A new spec has this time from its start on, whatever happens to its job meanwhile.
        let since = if self.is_proven(last) {
            self.job_state_since().as_millisecond()
        } else {
            self.deployed_since()
        };
        let waited = self.world.now.as_millisecond().saturating_sub(since);
        let waited = Duration::from_millis(u64::try_from(waited).unwrap_or(0));
        if waited < patience {
            self.wake_within(patience.saturating_sub(waited));
            return Ok(());
        }
        let cause = self.instability();
        let message = format!("the job was not seen running for {patience:?}: {cause}");
        self.own.late = Some(cause);
        let (kind, component) = (ErrorType::DeploymentFailed, Component::JobManagerDeployment);
        self.problem.get_or_insert(Problem {
            detail: Some(READINESS_TIMEOUT.to_owned()),
            ..Problem::new(kind, READINESS_TIMEOUT, component, message)
        });
        Ok(())
    }

    pub(crate) fn resting_because(&self) -> String {
        let state = self.status.job_status.state.map_or("not seen yet", |it| it.into_str());
        match self.status.job_manager_deployment_status {
            JobManagerDeploymentStatus::Ready if self.is_session() => {
                "the session cluster is ready".to_owned()
            }
            JobManagerDeploymentStatus::Ready => format!("the job is {state}"),
            JobManagerDeploymentStatus::DeployedNotReady => format!(
                "the JobManager does not answer: {}",
                self.unreachable.as_deref().unwrap_or("no reason given")
            ),
            JobManagerDeploymentStatus::Deploying => "the JobManager is starting".to_owned(),
            JobManagerDeploymentStatus::Error => self.problem.as_ref().map_or_else(
                || "the JobManager failed".to_owned(),
                |problem| problem.message.clone(),
            ),
            JobManagerDeploymentStatus::Missing if self.is_session() => {
                "there is no JobManager".to_owned()
            }
            JobManagerDeploymentStatus::Missing => {
                format!("there is no JobManager, the job is {state}")
            }
        }
    }

    /// Removes the JobManager of an ended job after a while, so that the end can be inspected until then.
    fn retire(&mut self, config: &FlinkConfig) -> End {
        let ttl: Duration = config.get(&options::JM_DEPLOYMENT_SHUTDOWN_TTL)?;
        let ended = self
            .status
            .job_status
            .update_time
            .as_deref()
            .and_then(|text| text.parse::<i64>().ok())
            .unwrap_or_else(|| self.world.now.as_millisecond());
        let age = u64::try_from(self.world.now.as_millisecond() - ended).unwrap_or(0);
        let left = ttl.saturating_sub(Duration::from_millis(age));
        if left > Duration::ZERO {
            let because = self.resting_because();
            return Ok(self.rest(because, Some(left.min(self.interval()))));
        }
        if let Some(message) = self.rerun_of_ended_job()? {
            return Err(Halt::problem(Problem::upgrade("UpgradeFailed", message)));
        }
        if let Some(job_manager) = self.read_job_manager()? {
            let uid = job_manager.uid.clone();
            self.write_intent();
            self.delete_cluster(Some(uid))?;
        }
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        Ok(self.rest("the job ended long ago: removing its JobManager", Some(self.interval())))
    }
}

impl DeploymentPass<'_> {
    /// Starts the deployed spec again after the JobManager was lost unexpectedly.
    fn recover(&mut self, last: &ReconciledSpec) -> End {
        if let Some(plan) = self.await_standby_left()? {
            return Ok(plan);
        }
        if self.has_old_pods()? || self.has_ending_task_managers()? {
            return self.await_lost_pods();
        }
        if self.is_change_due() {
            let because = "waiting for the change that the JobManager was removed for";
            return Ok(self.wait_for(Awaited::Change, because, SOON));
        }
        let spec = self.deployed_spec(last);
        refuse_old_version(&spec)?;
        let (restore, keeps_job_id) = self.recovery_restore_point(last)?;
        // That of the running spec, not of a newer one that still waits.
        let generation = self.status.observed_generation.unwrap_or(self.generation);
        let (job_id, objects) = self.prepare(&spec, generation, &restore, keeps_job_id)?;
        self.steps.push(Step::Event(Event::warning(
            "RecoverDeployment",
            Component::Job,
            "Recovering lost deployment",
        )));
        self.note_former_job(&spec, &job_id)?;
        self.note_restore(&restore, job_id);
        let mut recovered = last.clone();
        if let Some(job) = &mut recovered.spec.job {
            job.upgrade_mode = restore.upgrade_mode();
        }
        self.store_last(recovered);
        if matches!(self.high_availability(&spec)?, HighAvailability::Unknown(_)) {
            // From here on it may run, and what would show that cannot be read. Without high availability the
            // JobManager itself shows it, as after any other start.
            REMOVED_UNSTARTED.clear(&mut self.status.cluster_info);
        }
        self.write_intent();
        self.submit(&spec, objects, keeps_job_id, false)?;
        let because = format!("recovering the lost JobManager from {}", restore.describe());
        Ok(self.go_on(because, SOON))
    }

    /// Returns true if the JobManager was removed, before it ever ran, for a change that has not been carried out yet,
    /// as when a validator was asked again and does not answer.
    fn is_change_due(&self) -> bool {
        let Some(removed) = self.removed_unstarted() else { return false };
        let is_waiting = self.status.observed_generation != self.world.resource.metadata.generation;
        is_waiting && self.world.now.duration_since(removed) < CHANGE_PATIENCE
    }
}
