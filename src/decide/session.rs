//! A session cluster: a JobManager without a job of its own.
//!
//! It is started, replaced and recovered like an application, in the same steps, but there is no
//! state to choose: jobs belong to their `FlinkSessionJob`s or to whoever submitted them, and come
//! back through HA metadata, which is kept until the cluster is deleted.

use std::time::Duration;

use super::application::{Halt, Pass, Problem};
use super::deploy::GOING;
use super::diff::SpecDiff;
use super::error_document::ErrorType;
use super::observe::{SOON, foreign_deployment};
use super::plan::{Component, Event, Plan, Step};
use super::reconciled::ReconciledSpec;
use super::restore::RestorePoint;
use super::version::refuse_old_version;
use super::world::JobManager;
use crate::api::job::UpgradeMode;
use crate::api::status::JobManagerDeploymentStatus;
use crate::config::options;

/// Ids of jobs named in one message.
const IDS_SHOWN: usize = 20;

impl Pass<'_> {
    /// Whether there is no job. What was deployed decides: an edit that adds one is invalid.
    pub(super) fn is_session(&self) -> bool {
        self.last.as_ref().map_or(&self.spec, |last| &last.spec).job.is_none()
    }

    /// Puts the wanted spec in the place of the one that runs.
    pub(super) fn replace_session(
        &mut self,
        last: &ReconciledSpec,
        diff: &SpecDiff,
    ) -> Result<Plan, Halt> {
        self.announce(diff);
        self.announce_stop();
        self.supersede(last, RestorePoint::Empty);
        let job_manager = self.read_job_manager()?.map(|job_manager| job_manager.uid.clone());
        self.store_stopping(UpgradeMode::Stateless);
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        self.write_intent();
        self.delete_cluster(job_manager)?;
        Ok(self.finish("replacing the session cluster, HA metadata is kept", Some(GOING)))
    }

    /// The cluster is recorded as stopped: start the wanted one once nothing is left of the old.
    pub(super) fn start_session(&mut self) -> Result<Plan, Halt> {
        if let Some(job_manager) = self.read_job_manager()?.cloned() {
            if job_manager.owner_uid.as_deref() != Some(self.world.uid()) {
                return Err(Halt::problem(foreign_deployment(self.world.name())));
            }
            return self.remove(job_manager.is_deleting, &job_manager.uid);
        }
        if let Some(plan) = self.wait_for_old_task_managers()? {
            return Ok(plan);
        }
        if self.has_old_pods()? {
            return Ok(self.finish("waiting for the old JobManager's pods to end", Some(GOING)));
        }
        self.deploy(RestorePoint::Empty, false, false)
    }

    /// Nothing to change: recover, or rest.
    pub(super) fn look_after_session(&mut self, last: &ReconciledSpec) -> Result<Plan, Halt> {
        let config = self.observe_config()?;
        let job_manager = self.status.job_manager_deployment_status;
        if job_manager == JobManagerDeploymentStatus::Missing
            && config.get(&options::JM_DEPLOYMENT_RECOVERY_ENABLED)?
        {
            return self.recover_session(last);
        }
        if let Some(plan) = self.look_after_task_managers(last)? {
            return Ok(plan);
        }
        let look_again = match job_manager {
            JobManagerDeploymentStatus::Ready | JobManagerDeploymentStatus::Missing => {
                self.interval()
            }
            JobManagerDeploymentStatus::Deploying
            | JobManagerDeploymentStatus::DeployedNotReady => SOON,
            JobManagerDeploymentStatus::Error => Duration::from_secs(10),
        };
        let because = self.resting_because();
        Ok(self.finish(because, Some(look_again)))
    }

    /// The JobManager is lost although nothing asked for that. A cluster without high availability
    /// comes back empty: its jobs ended with the JobManager.
    fn recover_session(&mut self, last: &ReconciledSpec) -> Result<Plan, Halt> {
        if self.has_old_pods()? || self.has_ending_task_managers()? {
            return Ok(self.finish("waiting for the lost JobManager's pods to end", Some(SOON)));
        }
        let spec = self.deployed_spec(last);
        refuse_old_version(&spec)?;
        self.steps.push(Step::Event(Event::warning(
            "RecoverDeployment",
            Component::JobManagerDeployment,
            "Recovering lost deployment",
        )));
        // Of the spec that runs, not of a newer one that still waits.
        let generation = self.status.observed_generation.unwrap_or(self.generation);
        let objects = self.render(&spec, generation, &RestorePoint::Empty)?;
        self.submit(&spec, objects, true, false)?;
        Ok(self.finish("recovering the lost JobManager of the session cluster", Some(SOON)))
    }

    /// Who still needs the session cluster that is being deleted.
    pub(super) fn refuse_needed_session(
        &self,
        job_manager: Option<&JobManager>,
    ) -> Result<(), Halt> {
        let config = self.observe_config()?;
        if !config.get(&options::SESSION_DELETION_BLOCK_ON_SESSION_JOBS)? {
            return Ok(());
        }
        match self.world.session_jobs()? {
            Ok(names) if names.is_empty() => {}
            Ok(names) => {
                return Err(blocked(format!(
                    "The session jobs [{}] should be deleted first",
                    names.join(", ")
                )));
            }
            Err(reason) => {
                return Err(Halt::cannot(format!(
                    "whether session jobs refer to the cluster cannot be read: {reason}"
                )));
            }
        }
        let runs = job_manager.is_some_and(|job_manager| job_manager.available_replicas > 0);
        if !runs || !config.get(&options::SESSION_DELETION_BLOCK_ON_UNMANAGED_JOBS)? {
            return Ok(());
        }
        let jobs = match self.world.jobs()? {
            Ok(jobs) => jobs.as_slice(),
            Err(reason)
                if self.is_deletion_young(config.get(&options::RESOURCE_CLEANUP_TIMEOUT)?) =>
            {
                return Err(Halt::cannot(format!(
                    "whether jobs run in the cluster cannot be read: {reason}"
                )));
            }
            // A JobManager that never answers must not keep the resource for ever.
            Err(_) => &[],
        };
        let running: Vec<&str> = jobs
            .iter()
            .filter(|job| !job.state.is_globally_terminal())
            .map(|job| job.id.as_str())
            .collect();
        if running.is_empty() {
            return Ok(());
        }
        let shown = running.iter().take(IDS_SHOWN).copied().collect::<Vec<_>>().join(", ");
        let more = if running.len() > IDS_SHOWN { ", …" } else { "" };
        Err(blocked(format!(
            "The session cluster has non terminated jobs [{shown}{more}] that should be cancelled \
             first"
        )))
    }
}

impl Pass<'_> {
    /// Whether deletion was asked for less than `limit` ago.
    fn is_deletion_young(&self, limit: Duration) -> bool {
        let since = self.world.resource.metadata.deletion_timestamp.as_ref();
        since.is_some_and(|since| {
            self.world.now.duration_since(since.0)
                < jiff::SignedDuration::try_from(limit).unwrap_or_default()
        })
    }
}

fn blocked(message: String) -> Halt {
    Halt::problem(Problem {
        kind: ErrorType::Reconciliation,
        reason: "CleanupFailed",
        component: Component::Operator,
        message,
        detail: Some("CleanupFailed".to_owned()),
        causes: vec![],
    })
}
