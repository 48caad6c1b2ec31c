//! The end of a `FlinkDeployment`: its job, its JobManager, its HA metadata, its finalizer.

use super::application::{Halt, Pass, Problem};
use super::deploy::GOING;
use super::job::StopOutcome;
use super::observe::SOON;
use super::plan::{Component, Event, Plan, Step};
use super::reconciled::ReconciledSpec;
use super::stop::is_cancellable;
use crate::api::DEPLOYMENT_FINALIZER;
use crate::api::job::JobState;
use crate::api::status::{JobStatusState, LifecycleState};
use crate::config::options;

impl Pass<'_> {
    pub(super) fn delete(&mut self) -> Result<Plan, Halt> {
        let finalizers = self.world.resource.metadata.finalizers.as_deref().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == DEPLOYMENT_FINALIZER) {
            return Ok(self.untouched("being deleted without this operator's finalizer"));
        }
        let text = self.status.reconciliation_status.last_reconciled_spec.clone();
        let was_deployed = text.is_some();
        self.last = text.and_then(|text| ReconciledSpec::parse(&text).ok());
        if !self.is_marked_deleting() {
            self.status.lifecycle_state = Some(LifecycleState::Deleting);
            self.steps.push(Step::Event(Event::normal(
                "Cleanup",
                Component::Operator,
                "Cleaning up FlinkDeployment",
            )));
            self.write_intent();
        }
        let job_manager = self.read_job_manager()?.cloned();
        let is_under_way = job_manager.as_ref().is_some_and(|found| found.is_deleting);
        if was_deployed && self.is_session() && !is_under_way {
            self.refuse_needed_session(job_manager.as_ref())?;
        }
        let Some(job_manager) = job_manager else {
            return self.delete_remains();
        };
        if job_manager.owner_uid.as_deref() != Some(self.world.uid()) {
            self.steps.push(Step::RemoveFinalizer);
            return Ok(self.finish("deleted: its Deployment belongs to another resource", None));
        }
        if is_under_way {
            self.delete_cluster(None)?;
            return Ok(self.finish("waiting for the JobManager to end", Some(GOING)));
        }
        if let Some(plan) = self.save_before_deletion()? {
            return Ok(plan);
        }
        let is_cancellable = job_manager.available_replicas > 0
            && is_cancellable(
                self.status.job_manager_deployment_status,
                self.status.job_status.state,
            );
        if let (true, Ok(job_id)) = (is_cancellable, self.job_id()) {
            self.steps.push(Step::CancelJob { job_id, is_best_effort: true });
        }
        self.delete_cluster(Some(job_manager.uid))?;
        Ok(self.finish("deleting the JobManager", Some(GOING)))
    }

    fn delete_remains(&mut self) -> Result<Plan, Halt> {
        let task_managers = self.read_task_managers()?;
        if task_managers.is_some_and(|found| self.owns(&found)) {
            self.delete_cluster(None)?;
            return Ok(self.finish("waiting for the TaskManagers to end", Some(GOING)));
        }
        if self.has_old_pods()? {
            return Ok(self.finish("waiting for the JobManager's pods to end", Some(GOING)));
        }
        self.steps.push(Step::DeleteHaMetadata);
        self.steps.push(Step::RemoveFinalizer);
        Ok(self.finish("deleted", None))
    }

    /// `job.savepoint-on-deletion`: the job goes only when its state is saved.
    fn save_before_deletion(&mut self) -> Result<Option<Plan>, Halt> {
        let Some(last) = self.last.clone() else { return Ok(None) };
        let config = self.observe_config()?;
        let wants_savepoint = config.get(&options::JOB_SAVEPOINT_ON_DELETION)?;
        if !wants_savepoint || last.job_state() == JobState::Suspended {
            return Ok(None);
        }
        self.observe()?;
        if self.status.job_status.state.is_some_and(JobStatusState::is_globally_terminal) {
            return Ok(None);
        }
        if let Some(trigger_id) = self.pending_stop() {
            return match self.stop_outcome(&trigger_id)? {
                StopOutcome::Pending | StopOutcome::Resend => {
                    Ok(Some(self.finish("waiting for the savepoint before deletion", Some(GOING))))
                }
                StopOutcome::Saved(path) => {
                    self.record_savepoint(&path);
                    self.set_job_state(JobStatusState::Finished);
                    self.write_intent();
                    Ok(None)
                }
                StopOutcome::Failed(message) => {
                    self.forget_stop();
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
                    self.forget_stop();
                    Ok(Some(self.finish("the stop-with-savepoint was lost", Some(GOING))))
                }
            };
        }
        let is_running = self.status.job_status.state == Some(JobStatusState::Running);
        if is_running {
            return self.begin_stop().map(Some);
        }
        Ok(Some(self.finish(
            "deletion waits for the job to run, to take a savepoint; set \
             `kubernetes.operator.job.savepoint-on-deletion: false` to delete it without one",
            Some(SOON),
        )))
    }
}
