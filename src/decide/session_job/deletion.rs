//! The end of a `FlinkSessionJob`: its job, then its finalizer.
//!
//! Every state leads on: to a step, or to a wait whose reason is told with the way out of it.

use std::time::Duration;

use super::plan::{Plan, Step};
use super::{Halt, Pass};
use crate::api::SESSION_JOB_FINALIZER;
use crate::api::deployment::FlinkDeployment;
use crate::api::job::JobState;
use crate::api::status::{JobStatusState, LifecycleState};
use crate::config::cluster::is_high_availability_on;
use crate::config::{FlinkConfig, options};
use crate::decide::application::Problem;
use crate::decide::deploy::GOING;
use crate::decide::job::{self, StopOutcome};
use crate::decide::lifecycle::JOB_NOT_FOUND;
use crate::decide::observe::SOON;
use crate::decide::plan::{Component, Event};
use crate::decide::reconciled::ReconciledJob;

/// Pause while the cluster is away.
const AWAY: Duration = Duration::from_secs(10);

impl Pass<'_> {
    pub(super) fn delete(&mut self) -> Result<Plan, Halt> {
        let finalizers = self.world.resource.metadata.finalizers.as_deref().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == SESSION_JOB_FINALIZER) {
            return Ok(self.untouched("being deleted without this operator's finalizer"));
        }
        let text = self.status.reconciliation_status.last_reconciled_spec.as_deref();
        self.last = text.and_then(|text| ReconciledJob::parse(text).ok());
        if !self.is_marked_deleting() {
            self.status.lifecycle_state = Some(LifecycleState::Deleting);
            self.steps.push(Step::Event(Event::normal(
                "Cleanup",
                Component::Operator,
                "Cleaning up FlinkSessionJob",
            )));
            self.write_intent();
        }
        let Some(cluster) = self.world.cluster else {
            return Ok(self.end("deleted: its session cluster does not exist"));
        };
        if self.has_nothing_to_cancel() {
            return Ok(self.end("deleted: no job of it runs"));
        }
        let config = self.config_or_defaults();
        if is_going(cluster) && !config.get(&options::SESSION_DELETION_BLOCK_ON_SESSION_JOBS)? {
            return Ok(self.end("deleted: its session cluster is being deleted"));
        }
        if !self.is_cluster_ready() {
            return Ok(self.delete_without_cluster(&config));
        }
        self.delete_job(&config)
    }

    /// Nothing was submitted, or what was has ended or is gone.
    fn has_nothing_to_cancel(&self) -> bool {
        let job = &self.status.job_status;
        if job::id(job).is_none() {
            return true;
        }
        if job.state == Some(JobStatusState::Cancelling) || self.is_submission_open() {
            return false;
        }
        let is_stopped =
            self.last.as_ref().is_none_or(|last| last.job_state() == JobState::Suspended);
        let is_terminal = job.state.is_some_and(JobStatusState::is_globally_terminal)
            && job::pending_stop(job).is_none();
        is_stopped || is_terminal || self.status.error.as_deref() == Some(JOB_NOT_FOUND)
    }

    fn config_or_defaults(&self) -> FlinkConfig {
        self.observe_config().unwrap_or_default()
    }

    /// Without high availability the job went with its JobManager. With it the job comes back.
    fn delete_without_cluster(&mut self, config: &FlinkConfig) -> Plan {
        if !is_high_availability_on(config) {
            return self.end("deleted: its session cluster does not run and keeps no jobs");
        }
        let because = format!(
            "deletion waits for the session cluster `{}` to be READY, to cancel the job that its \
             high availability brings back; to go on without, delete the cluster with \
             `kubernetes.operator.session.deletion.block-on-session-jobs: false`",
            self.cluster_name()
        );
        self.finish(because, Some(AWAY))
    }

    fn delete_job(&mut self, config: &FlinkConfig) -> Result<Plan, Halt> {
        let Some(job) = self.listed_job()? else {
            return Ok(self.end("deleted: the cluster has no such job"));
        };
        let wants_savepoint = config.get(&options::JOB_SAVEPOINT_ON_DELETION)?;
        let is_cancelling = self.status.job_status.state == Some(JobStatusState::Cancelling);
        let has_ended = job.state.is_globally_terminal();
        let is_stopping = job::pending_stop(&self.status.job_status).is_some();
        if is_stopping || (wants_savepoint && !is_cancelling && !has_ended) {
            self.set_job_state(job.state);
            if let Some(plan) = self.save_before_deletion(job.state)? {
                return Ok(plan);
            }
        }
        if has_ended {
            self.set_job_state(job.state);
            return Ok(self.end("deleted: the job has ended"));
        }
        if job.state == JobStatusState::Cancelling {
            self.set_job_state(JobStatusState::Cancelling);
            return Ok(self.finish("waiting for the job to be cancelled", Some(SOON)));
        }
        let job_id = self.job_id()?;
        self.set_job_state(JobStatusState::Cancelling);
        self.write_intent();
        self.steps.push(Step::CancelJob { job_id });
        Ok(self.finish("cancelling the job", Some(GOING)))
    }

    /// `job.savepoint-on-deletion`: the job goes only when its state is saved.
    fn save_before_deletion(&mut self, state: JobStatusState) -> Result<Option<Plan>, Halt> {
        let Some(trigger_id) = job::pending_stop(&self.status.job_status) else {
            if state == JobStatusState::Running {
                return self.begin_stop().map(Some);
            }
            let because = format!(
                "deletion waits for the job, which is {}, to run, to take a savepoint; set \
                 `kubernetes.operator.job.savepoint-on-deletion: false` to delete it without one",
                state.as_str()
            );
            return Ok(Some(self.finish(because, Some(SOON))));
        };
        match self.stop_outcome(&trigger_id)? {
            StopOutcome::Pending | StopOutcome::Resend => {
                Ok(Some(self.finish("waiting for the savepoint before deletion", Some(GOING))))
            }
            StopOutcome::Saved(path) => {
                // The savepoint is good; the job itself may need to be cancelled still.
                let job_id = self.status.job_status.job_id.clone();
                self.note_savepoint(&path);
                self.status.job_status.job_id = job_id;
                self.write_intent();
                Ok(None)
            }
            StopOutcome::Failed(message) => {
                job::forget_stop(&mut self.status.job_status);
                Err(Halt::problem(Problem::upgrade(
                    "SavepointError",
                    format!(
                        "the job is not deleted, as no savepoint could be taken: {message}. Set \
                         `kubernetes.operator.job.savepoint-on-deletion: false` to delete it \
                         without one"
                    ),
                )))
            }
            StopOutcome::Lost => {
                job::forget_stop(&mut self.status.job_status);
                Ok(Some(self.finish("the stop-with-savepoint was lost", Some(GOING))))
            }
        }
    }

    fn end(&mut self, because: &str) -> Plan {
        self.steps.push(Step::RemoveFinalizer);
        self.finish(because, None)
    }
}

/// Whether the cluster is on its way out.
fn is_going(cluster: &FlinkDeployment) -> bool {
    let state = cluster.status.as_ref().and_then(|status| status.lifecycle_state);
    cluster.metadata.deletion_timestamp.is_some()
        || matches!(state, Some(LifecycleState::Deleting | LifecycleState::Deleted))
}
