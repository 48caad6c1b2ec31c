//! Deletion of a `FlinkDeployment`: its job, its JobManager, its HA metadata, its finalizer.
//!
//! No step waits for ever: what Kubernetes has to finish gets `resource.cleanup.timeout`, after which the resource is
//! deleted anyway. Only state that would be lost delays it further; the status reports that, and what to do about it.

use std::ops::ControlFlow;

use jiff::Timestamp;

use super::session::Jobs;
use crate::blocker::WITHOUT_SAVEPOINT;
use crate::blocker::{Blocker, Reason, give_up_at, patience};
use crate::event::{Component, Event};
use crate::job;
use crate::kind::{End, Maybe};
use crate::pass::DeploymentPass;
use crate::pauses::{GOING, SOON};
use crate::plan::{Plan, Step};
use crate::problem::Halt;
use crate::transitions::stop::is_cancellable;
use api::job::{JobState, UpgradeMode};
use api::status::{JobStatusState, ReconciliationState};
use config::option::DeletionPropagation;
use config::options;

/// Outcome of a deletion that waits for too long.
const DELETED_ANYWAY: &str =
    "the resource is deleted anyway, and Kubernetes continues to remove what is left";
/// Remedy for a Deployment or pods that Kubernetes does not remove.
const CHECK_PODS: &str = "check why its pods do not end: if their node is lost, remove them \
                            with `kubectl delete pod NAME --force`";

impl DeploymentPass<'_> {
    pub(crate) fn delete(&mut self) -> End {
        let job_manager = self.read_job_manager()?.cloned();
        let is_under_way = job_manager.as_ref().is_some_and(|found| found.is_deleting);
        let stands_by = self.remove_standby_in_deletion(is_under_way || job_manager.is_none())?;
        let is_unheard = self.was_deployed() && self.is_session() && !is_under_way && {
            self.refuse_needed_session(job_manager.as_ref())? == Jobs::Unheard
        };
        let Some(job_manager) = job_manager else {
            return self.delete_remains(stands_by);
        };
        if job_manager.owner_uid.as_deref() != Some(self.world.uid()) {
            self.steps.push(Step::RemoveFinalizer);
            return Ok(self.rest("deleted: its Deployment belongs to another resource", None));
        }
        if is_under_way {
            if let Some(plan) = self.await_stopped_job_manager()? {
                return Ok(plan);
            }
            self.delete_cluster(job_manager.is_stopped.then_some(job_manager.uid))?;
            let since = job_manager.deleting_since;
            let because = "waiting for the JobManager to end";
            return match self.await_end(Reason::JobManager, because, since) {
                Some(plan) => Ok(plan),
                None => self.end_late("the JobManager's Deployment did not end"),
            };
        }
        if is_unheard {
            // Its jobs may be running, and only their HA metadata leads to their state.
            self.delete_cluster_of(UpgradeMode::LastState, Some(job_manager.uid))?;
            let because = "stopping the JobManager, which does not say what jobs it runs";
            return Ok(self.go_on(because, GOING));
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
        Ok(self.go_on("deleting the JobManager", GOING))
    }

    /// Waits for the JobManager of a session cluster that was stopped so that its jobs can continue from their HA
    /// metadata. The rest of the cluster waits for it, for as long as anything is waited for.
    fn await_stopped_job_manager(&mut self) -> Maybe {
        if !self.is_session() {
            return Ok(None);
        }
        let since = self.away_since();
        // The wait for an answer of the JobManager may have taken that long already.
        let patience = patience(self.observe_config().ok().as_deref()).saturating_mul(2);
        let at = give_up_at(&self.world.resource.metadata, since, patience, self.world.now);
        if self.world.now >= at { Ok(None) } else { self.delete_stopped_cluster() }
    }

    /// Returns the plan that waits for something of the cluster to end; `None` once its time is over.
    fn await_end(
        &mut self,
        reason: Reason,
        because: &str,
        since: Option<Timestamp>,
    ) -> Option<Plan> {
        let patience = patience(self.observe_config().ok().as_deref());
        let at = give_up_at(&self.world.resource.metadata, since, patience, self.world.now);
        if self.world.now >= at {
            return None;
        }
        let blocker = Blocker::new(reason, because).until(at, DELETED_ANYWAY).remedy(CHECK_PODS);
        let pause = self.going();
        Some(self.await_blocker(blocker, at, because, pause))
    }

    fn delete_remains(&mut self, stands_by: bool) -> End {
        let task_managers = self.read_task_managers()?.filter(|found| self.owns(found));
        if let Some(found) = task_managers {
            self.delete_cluster(None)?;
            let since = if found.is_deleting { found.deleting_since } else { Some(self.world.now) };
            let because = "waiting for the TaskManagers to end";
            return match self.await_end(Reason::TaskManagers, because, since) {
                Some(plan) => Ok(plan),
                None => self.end_late("the TaskManagers' Deployment did not end"),
            };
        }
        let pods = self.pods()?;
        if stands_by {
            let since = self.standby_pods()?.iter().filter_map(|pod| pod.ending_since).max();
            let because = "waiting for the pods that stood by to end";
            return match self.await_end(Reason::Pods, because, since) {
                Some(plan) => Ok(plan),
                None => self.end_late("pods that stood by did not end"),
            };
        }
        if pods.is_empty() {
            return self.end(false, "deleted");
        }
        // Pods that were not asked to end keep running, with the metadata that they need.
        let runs_on = pods.iter().any(|pod| pod.ending_since.is_none());
        if runs_on && self.leaves_orphans() {
            return self.end(
                true,
                "deleted: its pods keep running, because the deletion propagation is Orphan",
            );
        }
        let since = pods.iter().filter_map(|pod| pod.ending_since).max();
        let because = "waiting for the JobManager's pods to end";
        match self.await_end(Reason::Pods, because, since) {
            Some(plan) => Ok(plan),
            None => self.end_late("pods of the JobManager did not end"),
        }
    }

    /// Returns true for `resource.deletion.propagation: Orphan`.
    pub(crate) fn leaves_orphans(&self) -> bool {
        let config = self.observe_config().ok();
        let configured =
            config.and_then(|config| config.get(&options::RESOURCE_DELETION_PROPAGATION).ok());
        configured == Some(DeletionPropagation::Orphan)
    }

    /// Releases the resource although part of its cluster still exists.
    fn end_late(&mut self, what: &str) -> End {
        let runs_on = self.pods()?.iter().any(|pod| pod.ending_since.is_none());
        let message = format!(
            "{what} in time (`kubernetes.operator.resource.cleanup.timeout`). The resource is \
             deleted anyway; {CHECK_PODS}"
        );
        self.steps.push(Step::Event(Event::warning("CleanupFailed", Component::Operator, message)));
        self.end(runs_on, "deleted: the rest of the cluster did not end in time")
    }

    /// Releases the resource, and deletes its HA metadata unless something still needs it.
    fn end(&mut self, is_metadata_needed: bool, because: &str) -> End {
        if self.is_state_unsaved() {
            let message = "deleted without the savepoint that \
                           `kubernetes.operator.job.savepoint-on-deletion` asks for, because the \
                           job has no JobManager to take it. HA metadata of the job is kept, and \
                           leads to its newest checkpoint";
            let event = Event::warning("SavepointError", Component::Operator, message);
            self.steps.push(Step::Event(event));
        } else if !is_metadata_needed && self.was_deployed() && !self.keeps_metadata_of_jobs()? {
            self.delete_ha_metadata();
        }
        self.steps.push(Step::RemoveFinalizer);
        Ok(self.rest(because, None))
    }

    /// Returns true if the resource was ever deployed. Otherwise it has no HA metadata: any under its name was left by
    /// an earlier resource, and may be all that leads to its state.
    fn was_deployed(&self) -> bool {
        self.status.reconciliation_status.last_reconciled_spec.is_some()
    }

    /// Returns true if a savepoint is required, and none was taken of the state that the job left.
    fn is_state_unsaved(&self) -> bool {
        if self.is_session() || !self.was_deployed() {
            return false;
        }
        // If the option cannot be read, whatever leads to the state is kept.
        let config = self.observe_config().ok();
        let wants_savepoint = config
            .is_none_or(|config| config.get(&options::JOB_SAVEPOINT_ON_DELETION) != Ok(false));
        let is_over =
            self.status.job_status.state.is_some_and(JobStatusState::is_globally_terminal);
        // The spec of the rollback may have been deployed, and may have run, although only its intent is on record.
        let is_rolling_back = self.status.reconciliation_status.state
            == ReconciliationState::RollingBack
            && (self.last_mode() == UpgradeMode::LastState || self.is_starting());
        let is_unsaved = self.last.as_ref().is_none_or(|last| match last.job_state() {
            JobState::Running => !is_over || is_rolling_back,
            // Stopped with only its metadata.
            JobState::Suspended => self.last_mode() == UpgradeMode::LastState || self.is_starting(),
        });
        wants_savepoint && is_unsaved
    }

    /// Forgets the cancellation for an upgrade, which may never have arrived: a job that still runs has to be saved,
    /// unless it is another run. While that is unknown, the cancellation stays on record.
    fn forget_cancel_of_upgrade(&mut self) -> Maybe {
        if self.status.reconciliation_status.state != ReconciliationState::Upgrading
            || self.status.job_status.state != Some(JobStatusState::Cancelling)
        {
            return Ok(None);
        }
        match self.rerun_of_cancelled_job()? {
            ControlFlow::Continue(()) => {
                self.decide_again();
                Ok(None)
            }
            ControlFlow::Break(Some(message)) => Err(self.refuse_unsaved(message)),
            ControlFlow::Break(None) => self.wait_for_running_job().map(Some),
        }
    }

    /// Adopts a completed rollback of which only the intent is on record.
    fn adopt_unrecorded_rollback(&mut self) -> Result<(), Halt> {
        let is_made = self.status.reconciliation_status.state == ReconciliationState::RollingBack
            && self.is_rollback_made(self.read_job_manager()?);
        if let (true, Some(stable)) = (is_made, self.stable_spec()) {
            self.note_rollback_made(&stable.spec);
        }
        Ok(())
    }

    /// Carries out `job.savepoint-on-deletion`: the job is deleted only once its state is saved.
    fn save_before_deletion(&mut self) -> Maybe {
        if self.is_session() {
            return Ok(None);
        }
        let config = self.observe_config()?;
        if !config.get(&options::JOB_SAVEPOINT_ON_DELETION)? {
            return Ok(None);
        }
        let Some(last) = self.last.clone() else {
            let because = "no savepoint can be taken before the deletion, because \
                           status.reconciliationStatus.lastReconciledSpec is missing or not \
                           readable";
            return Err(self.refuse_unsaved(because));
        };
        let is_upgrading =
            self.status.reconciliation_status.state == ReconciliationState::Upgrading;
        let is_stopped = last.job_state() == JobState::Suspended;
        // The new job may be running although only the intent of its start is on record.
        if is_stopped && !(is_upgrading && self.adopt_finished_upgrade(&last)?) {
            return Ok(None);
        }
        self.adopt_unrecorded_rollback()?;
        if let Some(plan) = self.forget_cancel_of_upgrade()? {
            return Ok(Some(plan));
        }
        self.observe()?;
        if let Some(message) = self.own.rerun.take() {
            return Err(self.refuse_unsaved(message));
        }
        let is_over =
            self.status.job_status.state.is_some_and(JobStatusState::is_globally_terminal);
        // A job ended by its stop leaves a savepoint, which has to be on record.
        if is_over && job::pending_stop(&self.status.job_status).is_none() {
            return match self.rerun_of_ended_job()? {
                Some(message) => Err(self.refuse_unsaved(message)),
                None => Ok(None),
            };
        }
        if let Some(trigger_id) = job::pending_stop(&self.status.job_status) {
            return self.finish_saving(&trigger_id, &config, |pass, blocker, at| {
                pass.wait_for_savepoint(blocker, at).map(Some)
            });
        }
        let is_running = self.status.job_status.state == Some(JobStatusState::Running);
        if is_running {
            let pause = self.pause_before_saving();
            return pause.map_or_else(|| self.begin_stop(), Ok).map(Some);
        }
        self.wait_for_running_job().map(Some)
    }

    fn wait_for_running_job(&mut self) -> End {
        let patience = patience(Some(&*self.observe_config()?));
        let at = give_up_at(&self.world.resource.metadata, None, patience, self.world.now);
        let blocker = Blocker::new(
            Reason::JobNotRunning,
            "deletion waits for the job to run so that a savepoint can be taken",
        );
        self.wait_for_savepoint(blocker, at)
    }

    fn wait_for_savepoint(&mut self, blocker: Blocker, told_at: Timestamp) -> End {
        let pause = if blocker.reason == Reason::Savepoint { GOING } else { SOON };
        self.wait(blocker.remedy(WITHOUT_SAVEPOINT), told_at, pause)
    }

    fn refuse_unsaved(&mut self, because: impl Into<String>) -> Halt {
        let blocker = Blocker::new(Reason::Savepoint, because).remedy(WITHOUT_SAVEPOINT);
        let problem = blocker.problem();
        self.blocker = Some(Box::new(blocker));
        Halt::problem(problem)
    }
}
