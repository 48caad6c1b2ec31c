//! A session cluster: a JobManager without a job of its own.
//!
//! It is started, replaced and recovered in the same steps as an application, but there is no state to choose: jobs
//! belong to their `FlinkSessionJob`s or to whoever submitted them, and are restored from HA metadata, which is kept
//! until the cluster is deleted.

mod jobs;

use std::time::Duration;

use jiff::Timestamp;

use self::jobs::not_ended;
use super::version::refuse_old_version;
use crate::blocker::{Blocker, Reason, cleanup_failed, give_up_at};
use crate::diff::SpecDiff;
use crate::event::{Component, Event};
use crate::kind::End;
use crate::notes::{AWAITS_JOBS, AWAY_SINCE, KEEPS_JOBS};
use crate::pass::DeploymentPass;
use crate::pass::PROBLEM_INTERVAL_MAX;
use crate::pauses::{GOING, SOON};
use crate::plan::Step;
use crate::problem::{Halt, foreign_deployment};
use crate::wait::Awaited;
use crate::world::JobManager;
use api::job::UpgradeMode;
use api::reconciled::ReconciledSpec;
use api::status::{JobManagerDeploymentStatus, ReconciliationStatus};
use config::cluster::{is_high_availability_readable, is_zookeeper_high_availability_on};
use config::options;
use state::restore_point::RestorePoint;

/// What is known about the jobs in a session cluster that is deleted.
#[derive(Clone, Copy, Eq, PartialEq)]
pub(crate) enum Jobs {
    /// No jobs need the cluster, or their user allows them to end with it.
    Unneeded,
    /// The JobManager could not be asked for them for too long.
    Unheard,
}

impl DeploymentPass<'_> {
    /// Returns true if there is no job. The deployed spec decides: an edit that adds a job is invalid.
    pub(crate) fn is_session(&self) -> bool {
        self.last.as_ref().map_or(&*self.spec, |last| &last.spec).job.is_none()
    }

    /// Replaces the running spec by the desired one.
    pub(crate) fn replace_session(&mut self, last: &ReconciledSpec, diff: &SpecDiff) -> End {
        if let Err(halt) = self.refuse_unrenderable_spec() {
            return self.refuse_and_maintain(last, halt);
        }
        if let Err(halt) = self.refuse_moved_jobs(last) {
            return self.refuse_and_maintain(last, halt);
        }
        if let Err(halt) = self.refuse_rejected_objects() {
            self.wake_within(PROBLEM_INTERVAL_MAX);
            return self.refuse_and_maintain(last, halt);
        }
        if let Some(plan) = self.admit_upgrade(last, false)? {
            return Ok(plan);
        }
        match self.await_jobs(last) {
            Ok(None) => {}
            Ok(Some(plan)) => return Ok(plan),
            Err(halt) => return self.refuse_and_maintain(last, halt),
        }
        self.announce_stop(diff);
        self.supersede(last, RestorePoint::Empty);
        let job_manager = self.read_job_manager()?.map(|job_manager| job_manager.uid.clone());
        self.store_before_deploy(UpgradeMode::Stateless, false);
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        self.write_intent();
        self.delete_cluster_of(self.last_mode(), job_manager)?;
        Ok(self.go_on("replacing the session cluster and keeping HA metadata", GOING))
    }

    /// Starts the desired cluster after the old one was recorded as stopped, once nothing is left of it.
    pub(crate) fn start_session(&mut self) -> End {
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
            return self.await_pods_left();
        }
        self.deploy(RestorePoint::Empty, false, false)
    }

    /// Nothing to change: recover, or wait.
    pub(crate) fn maintain_session(&mut self, last: &ReconciledSpec) -> End {
        KEEPS_JOBS.clear(&mut self.status.cluster_info);
        if !self.own.are_jobs_unknown {
            AWAITS_JOBS.clear(&mut self.status.cluster_info);
        }
        let config = self.observe_config()?;
        let job_manager = self.status.job_manager_deployment_status;
        if job_manager == JobManagerDeploymentStatus::Missing
            && config.get(&options::JM_DEPLOYMENT_RECOVERY_ENABLED)?
        {
            return self.recover_session(last);
        }
        if let Some(plan) = self.maintain_task_managers(last)? {
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
        Ok(match job_manager {
            JobManagerDeploymentStatus::Ready | JobManagerDeploymentStatus::Missing => {
                self.rest(because, Some(look_again))
            }
            JobManagerDeploymentStatus::Deploying
            | JobManagerDeploymentStatus::DeployedNotReady
            | JobManagerDeploymentStatus::Error => {
                self.wait_for(Awaited::JobManagerAnswer, because, look_again)
            }
        })
    }

    /// Recovers from an unexpected loss of the JobManager. A cluster without high availability comes back empty: its
    /// jobs ended with the JobManager.
    fn recover_session(&mut self, last: &ReconciledSpec) -> End {
        if self.has_old_pods()? || self.has_ending_task_managers()? {
            return self.await_lost_pods();
        }
        let spec = self.deployed_spec(last);
        refuse_old_version(&spec)?;
        // That of the running spec, not of a newer one that still waits.
        let generation = self.status.observed_generation.unwrap_or(self.generation);
        let objects = self.render(&spec, generation, &RestorePoint::Empty, "")?;
        self.refuse_missing_files(&spec, generation, &objects)?;
        self.steps.push(Step::Event(Event::warning(
            "RecoverDeployment",
            Component::JobManagerDeployment,
            "Recovering lost deployment",
        )));
        self.write_intent();
        self.submit(&spec, objects, true, false)?;
        Ok(self.go_on("recovering the lost JobManager of the session cluster", SOON))
    }

    /// Refuses the deletion of a session cluster that is still needed.
    pub(crate) fn refuse_needed_session(
        &mut self,
        job_manager: Option<&JobManager>,
    ) -> Result<Jobs, Halt> {
        let config = self.observe_config()?;
        if !config.get(&options::SESSION_DELETION_BLOCK_ON_SESSION_JOBS)? {
            return Ok(Jobs::Unneeded);
        }
        match self.world.session_jobs()? {
            Ok(session_jobs) if session_jobs.is_empty() => {}
            Ok(session_jobs) => {
                let names: Vec<&str> = session_jobs.iter().map(|job| job.name.as_str()).collect();
                let message =
                    format!("The session jobs [{}] should be deleted first", names.join(", "));
                return Err(self.blocked(
                    Reason::SessionJobs,
                    message,
                    "delete them (kubectl flink delete sessionjob/NAME), or set \
                     `kubernetes.operator.session.deletion.block-on-session-jobs: false`: their \
                     jobs then end without a savepoint",
                ));
            }
            Err(reason) => {
                let message = format!(
                    "could not determine whether session jobs refer to the cluster: {reason}"
                );
                return Err(self.blocked(
                    Reason::SessionJobs,
                    message,
                    "allow the operator to list flinksessionjobs, or set \
                     `kubernetes.operator.session.deletion.block-on-session-jobs: false`",
                ));
            }
        }
        let Some(job_manager) = job_manager.filter(|job_manager| job_manager.replicas > 0) else {
            return Ok(Jobs::Unneeded);
        };
        let is_up = job_manager.available_replicas > 0;
        // With high availability, jobs outlive a process that is gone.
        let has_been_up = self.status.reconciliation_status.last_stable_spec.is_some();
        let may_run =
            is_up || has_been_up && self.is_started_with_high_availability()? != Some(false);
        if !may_run || !config.get(&options::SESSION_DELETION_BLOCK_ON_UNMANAGED_JOBS)? {
            return Ok(Jobs::Unneeded);
        }
        let jobs = if is_up { self.world.jobs()? } else { Err("its JobManager is not available") };
        let running = match jobs {
            Ok(jobs) => {
                let running = not_ended(jobs, |job| job.id.clone());
                AWAY_SINCE.clear(&mut self.status.cluster_info);
                running
            }
            Err(reason) => {
                let reason = reason.to_owned();
                let patience = config.get(&options::RESOURCE_CLEANUP_TIMEOUT)?;
                return self.wait_for_answer(&reason, patience);
            }
        };
        let Some(running) = running else { return Ok(Jobs::Unneeded) };
        let message = format!(
            "The session cluster has non terminated jobs [{running}] that should be cancelled first"
        );
        Err(self.blocked(
            Reason::UnmanagedJobs,
            message,
            "cancel them, or set \
             `kubernetes.operator.session.deletion.block-on-unmanaged-jobs: false`: they then end \
             without a savepoint",
        ))
    }

    /// Waits while the JobManager may still answer for its jobs. One that never does must not keep the resource for
    /// ever. The wait begins when it is first seen to be away: while no one asked, it was not silent.
    fn wait_for_answer(&mut self, reason: &str, patience: Duration) -> Result<Jobs, Halt> {
        let now = self.world.now;
        let since = self.away_since().unwrap_or(now);
        AWAY_SINCE.set(&mut self.status.cluster_info, &since);
        let at = give_up_at(&self.world.resource.metadata, Some(since), patience, now);
        if now >= at {
            return Ok(Jobs::Unheard);
        }
        let message = format!("could not determine whether jobs run in the cluster: {reason}");
        let blocker = Blocker::new(Reason::Unreadable, message.clone());
        let then = "a JobManager that never answers is deleted anyway, and HA metadata of its \
                    jobs is kept";
        self.blocker = Some(Box::new(blocker.until(at, then)));
        Err(Halt::cannot(message))
    }

    /// Returns when a deletion began to wait for a JobManager that cannot be asked for its jobs.
    pub(crate) fn away_since(&self) -> Option<Timestamp> {
        AWAY_SINCE.get(&self.status.cluster_info)
    }

    /// Returns true if HA metadata of the session cluster leads to jobs that were not seen to end. Its user may have
    /// allowed them to end with the cluster.
    pub(crate) fn keeps_metadata_of_jobs(&mut self) -> Result<bool, Halt> {
        let ReconciliationStatus { last_reconciled_spec, last_stable_spec, .. } =
            &self.status.reconciliation_status;
        if !self.is_session() || last_reconciled_spec.is_none() {
            return Ok(false);
        }
        let was_seen = last_stable_spec.is_some();
        let config = self.observe_config()?;
        let waits = config.get(&options::SESSION_DELETION_BLOCK_ON_SESSION_JOBS)?
            && config.get(&options::SESSION_DELETION_BLOCK_ON_UNMANAGED_JOBS)?;
        // If that is unknown, existing metadata is not removed unseen.
        let is_readable = self.started_with()?.as_ref().map_or(true, is_high_availability_readable);
        if !waits || !is_readable {
            return Ok(false);
        }
        let because = match self.world.ha_metadata()? {
            Ok(metadata) if !metadata.has_job => return Ok(false),
            Ok(_) => "leads to jobs of the session cluster whose end was not observed".to_owned(),
            // A cluster that never came up has none, unless it did so unobserved.
            Err(_) if !was_seen => return Ok(false),
            // A later check would not find out more.
            Err(reason)
                if is_zookeeper_high_availability_on(&config)
                    && self.zookeeper_out_of_reach(&config).is_some() =>
            {
                format!("may lead to jobs of the session cluster ({reason})")
            }
            Err(reason) => {
                let reason = reason.to_owned();
                let patience = config.get(&options::RESOURCE_CLEANUP_TIMEOUT)?;
                let metadata = &self.world.resource.metadata;
                let at = give_up_at(metadata, None, patience, self.world.now);
                let message =
                    format!("could not determine whether HA metadata leads to jobs: {reason}");
                if self.world.now < at {
                    let blocker = Blocker::new(Reason::Unreadable, message.clone());
                    let then = "the resource is deleted, and HA metadata is kept";
                    self.blocker = Some(Box::new(blocker.until(at, then)));
                    return Err(Halt::cannot(message));
                }
                format!("may lead to jobs of the session cluster ({reason})")
            }
        };
        let message = format!(
            "HA metadata is kept because it {because}. A session cluster of the same name would \
             run them again. Remove the metadata once nothing needs it"
        );
        let event = Event::warning("CleanupFailed", Component::Operator, message);
        self.steps.push(Step::Event(event));
        Ok(true)
    }

    fn blocked(&mut self, reason: Reason, message: String, remedy: &str) -> Halt {
        let problem = cleanup_failed(message.clone());
        self.blocker = Some(Box::new(Blocker::new(reason, message).remedy(remedy)));
        Halt::problem(problem)
    }
}
