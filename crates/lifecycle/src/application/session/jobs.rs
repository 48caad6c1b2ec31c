//! The jobs of a session cluster that will be replaced. Jobs that the next JobManager would not recover delay the
//! replacement until they have ended.

use std::collections::HashSet;
use std::time::Duration;

use crate::event::{Component, Event};
use crate::kind::Maybe;
use crate::notes::{AWAITS_JOBS, KEEPS_JOBS};
use crate::pass::DeploymentPass;
use crate::pauses::SOON;
use crate::plan::Plan;
use crate::problem::{Halt, Problem};
use crate::wait::Awaited;
use crate::world::{Job, SessionJob};
use api::reconciled::ReconciledSpec;
use api::status::{JobManagerDeploymentStatus, ReconciliationState, ReconciliationStatus};
use api::version::FlinkVersion;
use config::options;

/// Maximum number of jobs named in a message.
const JOBS_SHOWN: usize = 20;

impl DeploymentPass<'_> {
    /// Waits until no job in the cluster is being stopped, or would be lost with its JobManager.
    pub(super) fn await_jobs(&mut self, last: &ReconciledSpec) -> Maybe {
        let config = self.observe_config()?;
        if self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing
            || !config.get(&options::SESSION_UPGRADE_WAIT_FOR_JOBS)?
        {
            return Ok(None);
        }
        let session_jobs = match self.world.session_jobs()? {
            Ok(session_jobs) => session_jobs.clone(),
            Err(reason) => {
                let reason = format!("the FlinkSessionJobs: {reason}");
                return Err(self.refuse_unknown_jobs(&reason));
            }
        };
        if self.is_started_with_high_availability()? == Some(true)
            && self.is_high_availability_on()?
        {
            // They are recovered from HA metadata, but a savepoint in progress is not. A JobManager that is down, such as
            // for its image, stops nothing, and the change may be what mends it.
            let is_up = self.read_job_manager()?.is_some_and(|found| found.available_replicas > 0);
            let may_stop = is_up || self.world.jobs()?.is_ok();
            let stopping = named(&session_jobs, |job| job.is_stopping && may_stop);
            return Ok(self.await_stops(!session_jobs.is_empty(), stopping));
        }
        let jobs = match self.world.jobs()? {
            Ok(jobs) => jobs.clone(),
            Err(reason) => {
                // No job was submitted to a JobManager that never answered, and none is left without a process.
                let reason = reason.to_owned();
                let has_jobs = self.is_proven(last)
                    && self.read_job_manager()?.is_some_and(|found| found.available_replicas > 0);
                return if has_jobs { Err(self.refuse_unknown_jobs(&reason)) } else { Ok(None) };
            }
        };
        let of_session_jobs: HashSet<&String> =
            session_jobs.iter().filter_map(|session_job| session_job.job_id.as_ref()).collect();
        let (managed, unmanaged): (Vec<Job>, Vec<Job>) =
            jobs.into_iter().partition(|job| of_session_jobs.contains(&job.id));
        if let Some(unmanaged) = not_ended(&unmanaged, |job| format!("{} ({})", job.name, job.id)) {
            return Err(unmanaged_refused(&unmanaged));
        }
        if session_jobs.is_empty() {
            return Ok(None);
        }
        let running = managed.iter().filter(|job| !job.state.is_globally_terminal());
        let running: HashSet<&String> = running.map(|job| &job.id).collect();
        let runs = |session_job: &SessionJob| {
            session_job.is_active
                || session_job.job_id.as_ref().is_some_and(|id| running.contains(id))
        };
        Ok(self.await_ends(named(&session_jobs, runs)))
    }

    /// Refuses to replace a cluster while it is unknown what runs in it.
    fn refuse_unknown_jobs(&mut self, reason: &str) -> Halt {
        self.own.are_jobs_unknown = true;
        let option = options::SESSION_UPGRADE_WAIT_FOR_JOBS.key();
        Halt::problem(Problem::upgrade(
            "UpgradeFailed",
            format!(
                "could not determine which jobs run in the session cluster ({reason}). Nothing is \
                 stopped, and the change waits. To go on anyway, which ends the jobs, set \
                 `{option}: false`"
            ),
        ))
    }

    /// Waits until none of the session jobs is being stopped. The replacement is on record before that is checked for
    /// the last time, and a job looks for that record once its own stop is on record. So one of them sees the other,
    /// and the cluster is the one that waits.
    fn await_stops(&mut self, has_jobs: bool, stopping: Option<String>) -> Option<Plan> {
        if let Some(names) = stopping {
            KEEPS_JOBS.clear(&mut self.status.cluster_info);
            let because = format!("the change waits: session jobs [{names}] are being stopped");
            return Some(self.wait_for(Awaited::SessionJobs, because, SOON));
        }
        let generation = self.generation;
        if !has_jobs || KEEPS_JOBS.get(&self.status.cluster_info) == Some(generation) {
            return None;
        }
        KEEPS_JOBS.set(&mut self.status.cluster_info, &generation);
        let because = "the change waits until it is known that no session job is being stopped";
        Some(self.go_on(because, Duration::ZERO))
    }

    /// Waits until none of these session jobs is in the cluster. The wait is on record before their absence is checked,
    /// and keeps jobs from being submitted.
    fn await_ends(&mut self, running: Option<String>) -> Option<Plan> {
        let generation = self.generation;
        let is_known = AWAITS_JOBS.get(&self.status.cluster_info) == Some(generation);
        if is_known && running.is_none() {
            return None;
        }
        // An error about jobs that only their owner could stop is over.
        self.status.error = None;
        if !is_known {
            AWAITS_JOBS.set(&mut self.status.cluster_info, &generation);
        }
        let Some(running) = running else {
            let because = "the change waits until it is known that no job runs";
            return Some(self.go_on(because, Duration::ZERO));
        };
        let because = format!("the change waits until the session jobs [{running}] are stopped");
        if !is_known {
            let component = Component::JobManagerDeployment;
            let message = format!("{because}: {ENDS_JOBS}");
            self.emit(Event::normal("AwaitingJobs", component, message));
        }
        Some(self.wait_for(Awaited::SessionJobs, because, SOON))
    }

    /// Refuses a change after which the next JobManager would look for the HA metadata of unfinished jobs in another
    /// place, or run another Flink version.
    pub(crate) fn refuse_moved_jobs(&self, last: &ReconciledSpec) -> Result<(), Halt> {
        let ReconciliationStatus { state, last_stable_spec, .. } =
            &self.status.reconciliation_status;
        // The spec that is rolled back did not come up, either.
        let is_back = match self.stable_spec() {
            Some(stable) if *state == ReconciliationState::RollingBack => {
                !self.moves_metadata(&stable.spec, &self.spec)?
            }
            Some(_) | None => false,
        };
        let deployed = self.deployed_spec(last);
        let is_moved = self.moves_metadata(&deployed, &self.spec)?
            || self.keeps_metadata_elsewhere(&self.spec)?;
        // While it runs, HA metadata is looked for where the current defaults have it.
        let runs = matches!(state, ReconciliationState::Deployed | ReconciliationState::RolledBack);
        let is_sought_elsewhere = runs && self.keeps_metadata_elsewhere(&deployed)?;
        if is_back || !is_moved {
            return Ok(());
        }
        let is_missing =
            self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing;
        let jobs = if is_missing {
            Err("there is no JobManager")
        } else {
            self.world.jobs()?.map(Vec::as_slice)
        };
        let name = |job: &Job| format!("{} ({})", job.name, job.id);
        let jobs = match jobs.map(|jobs| not_ended(jobs, name)) {
            Ok(None) => return Ok(()),
            Ok(Some(running)) => Ok(running),
            // A spec that never came up has none, unless it did so unobserved.
            Err(_)
                if last_stable_spec.is_none()
                    && !self.world.ha_metadata()?.is_ok_and(|metadata| metadata.has_job) =>
            {
                return Ok(());
            }
            // A spec that does not come up may be replaced by one that does.
            Err(_)
                if !is_sought_elsewhere
                    && self.world.ha_metadata()?.is_ok_and(|metadata| !metadata.has_job) =>
            {
                return Ok(());
            }
            Err(reason) => Err(reason),
        };
        let message = match (deployed.flink_version, self.spec.flink_version) {
            (Some(from), Some(to)) if from != to => version_refused(from, to, jobs),
            _ => place_refused(jobs),
        };
        Err(Halt::problem(Problem::upgrade("UpgradeFailed", message)))
    }
}

/// Why the jobs of a session cluster do not outlive its JobManager.
const ENDS_JOBS: &str =
    "without high availability both before and after the change, they end with the JobManager";

/// Refuses because only their owner can stop jobs without a resource with a savepoint, and start them again.
fn unmanaged_refused(jobs: &str) -> Halt {
    let option = options::SESSION_UPGRADE_WAIT_FOR_JOBS.key();
    Halt::problem(Problem::upgrade(
        "UpgradeFailed",
        format!(
            "jobs [{jobs}] of the session cluster belong to no FlinkSessionJob, and {ENDS_JOBS}. \
             Nothing is stopped. Stop them with a savepoint or cancel them, and the operator \
             then makes the change. Or set `{option}: false`, and they end without a savepoint"
        ),
    ))
}

/// Returns the names of these session jobs; `None` if there are none.
fn named(session_jobs: &[SessionJob], is_one: impl Fn(&SessionJob) -> bool) -> Option<String> {
    let names = session_jobs.iter().filter(|job| is_one(job)).map(|job| job.name.clone());
    shown(names.collect())
}

/// Returns why HA metadata is not moved to another place, with the unfinished jobs, or why they cannot be listed.
fn place_refused(jobs: Result<String, &str>) -> String {
    let because = match jobs {
        Ok(running) => format!(
            "jobs [{running}] have not ended. Nothing is stopped. Suspend its session jobs and \
             cancel the others first"
        ),
        Err(reason) => format!(
            "the operator could not determine whether jobs run ({reason}). Nothing is stopped or \
             started. Revert the change of `high-availability.*`, and make it once the cluster \
             answers and its jobs have ended"
        ),
    };
    format!(
        "the change moves HA metadata to another place, where a new JobManager would not find \
         the cluster's jobs, and {because}. Do not turn high availability off instead: that ends \
         all jobs, and what they did since their last savepoints is lost"
    )
}

/// Like [`place_refused`], for another Flink version.
fn version_refused(from: FlinkVersion, to: FlinkVersion, jobs: Result<String, &str>) -> String {
    let because = match jobs {
        Ok(running) => format!(
            "jobs [{running}] have not ended. Nothing is stopped. Suspend the FlinkSessionJobs \
             of the cluster (kubectl flink suspend sessionjob/NAME) and stop its other jobs with \
             a savepoint: the operator then makes the change. Resume the jobs after it, or set \
             `spec.flinkVersion` back to {from}"
        ),
        Err(reason) => format!(
            "the operator could not determine whether jobs run ({reason}). Nothing is stopped or \
             started. Set `spec.flinkVersion` back to {from}, and change it once the cluster \
             answers and its jobs are suspended or have ended"
        ),
    };
    format!(
        "`spec.flinkVersion` changes from {from} to {to}, a JobManager of {to} cannot recover \
         the jobs in the HA metadata of {from}, and {because}"
    )
}

/// Returns the unfinished jobs in readable form; `None` if all have ended.
pub(super) fn not_ended(jobs: &[Job], name: impl Fn(&Job) -> String) -> Option<String> {
    shown(jobs.iter().filter(|job| !job.state.is_globally_terminal()).map(name).collect())
}

/// Returns the first names in one line.
fn shown(mut names: Vec<String>) -> Option<String> {
    let has_more = names.len() > JOBS_SHOWN;
    names.truncate(JOBS_SHOWN);
    if has_more {
        names.push("…".to_owned());
    }
    (!names.is_empty()).then(|| names.join(", "))
}
