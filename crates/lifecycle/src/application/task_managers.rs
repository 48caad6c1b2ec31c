//! The TaskManagers of a standalone cluster: a separate Deployment, which the operator creates, scales and deletes.
//! Native clusters have none; Flink starts their TaskManagers.

use super::version::refuse_old_version;
use crate::diff::{ChangeClass, SpecDiff};
use crate::event::{Component, Event};
use crate::kind::Maybe;
use crate::notes::{REMOVED_UNSTARTED, Removed};
use crate::pass::DeploymentPass;
use crate::pauses::{GOING, OVERDUE_AFTER, SOON};
use crate::phase::Phase;
use crate::plan::{ClusterStep, Step};
use crate::problem::{Halt, foreign_deployment};
use crate::wait::Awaited;
use crate::world::{JobManager, TaskManagers};
use api::deployment::{DeploymentMode, FlinkDeploymentSpec};
use api::job::{JobState, UpgradeMode};
use api::reconciled::ReconciledSpec;
use api::status::{
    JobManagerDeploymentStatus, JobStatusState, ReconciliationState, TaskManagerInfo,
};
use config::options;
use render::names;

impl DeploymentPass<'_> {
    /// Returns true if the operator runs the TaskManagers. The deployed spec decides.
    pub(crate) fn is_standalone(&self) -> bool {
        let spec = self.last.as_ref().map_or(&*self.spec, |last| &last.spec);
        spec.mode.unwrap_or_default() == DeploymentMode::Standalone
    }

    /// Returns the TaskManagers' Deployment; always `None` in native mode.
    pub(crate) fn read_task_managers(&self) -> Result<Option<TaskManagers>, Halt> {
        if !self.is_standalone() {
            return Ok(None);
        }
        match self.world.task_managers()? {
            Ok(task_managers) => Ok(task_managers.clone()),
            Err(reason) => {
                Err(Halt::cannot(format!("the TaskManagers' Deployment cannot be read: {reason}")))
            }
        }
    }

    /// Like [`Self::read_task_managers`], or a problem if the Deployment belongs to someone else.
    fn read_own_task_managers(&self) -> Result<Option<TaskManagers>, Halt> {
        let found = self.read_task_managers()?;
        if found.as_ref().is_some_and(|found| !self.owns(found)) {
            let name = names::task_manager(self.world.name());
            return Err(Halt::problem(foreign_deployment(&name)));
        }
        Ok(found)
    }

    pub(crate) fn owns(&self, task_managers: &TaskManagers) -> bool {
        task_managers.owner_uid.as_deref() == Some(self.world.uid())
    }

    /// Deletes the JobManager with this uid, and then the TaskManagers that belong to it.
    pub(crate) fn delete_cluster(&mut self, job_manager_uid: Option<String>) -> Result<(), Halt> {
        let task_managers = self.read_task_managers()?;
        if job_manager_uid.is_some() {
            self.hold_before_stop();
        }
        self.steps
            .extend(job_manager_uid.map(|uid| Step::Own(ClusterStep::DeleteJobManager { uid })));
        if let Some(task_managers) = task_managers
            && self.owns(&task_managers)
            && !task_managers.is_deleting
        {
            self.steps.push(Step::Own(ClusterStep::DeleteTaskManagers { uid: task_managers.uid }));
        }
        Ok(())
    }

    pub(crate) fn stop_task_managers(&mut self) -> Result<(), Halt> {
        if let Some(TaskManagers { uid, is_deleting: false, .. }) = self.read_own_task_managers()? {
            self.steps.push(Step::Own(ClusterStep::StopTaskManagers { uid }));
        }
        Ok(())
    }

    /// Removes the cluster of a job that is stopped in this mode. If jobs will be restored from HA metadata, the
    /// JobManager ends first: if it saw its TaskManagers go, it would fail a job that has used up its restarts, and
    /// delete the HA metadata. It takes itself for the leader for some time after it has lost the lock.
    pub(crate) fn delete_cluster_of(
        &mut self,
        mode: UpgradeMode,
        job_manager_uid: Option<String>,
    ) -> Result<(), Halt> {
        let needs_metadata = self.is_session() || mode == UpgradeMode::LastState;
        match job_manager_uid {
            Some(uid) if needs_metadata && !self.leaves_orphans() => {
                self.hold_before_stop();
                self.steps.push(Step::Own(ClusterStep::StopJobManager { uid, unstarted: None }));
                Ok(())
            }
            job_manager_uid => self.delete_cluster(job_manager_uid),
        }
    }

    /// Finishes what [`Self::delete_cluster_of`] began: the rest may be deleted once the JobManager's pods have ended,
    /// or do not end.
    pub(crate) fn delete_stopped_cluster(&mut self) -> Maybe {
        let stopped = self.read_job_manager()?.filter(|job_manager| job_manager.is_stopped);
        let Some(JobManager { uid, is_stopped_unstarted, .. }) = stopped.cloned() else {
            return Ok(None);
        };
        let pods = self.pods()?;
        let has_started = pods.iter().any(|pod| pod.has_started);
        let has_ended = pods.is_empty();
        if !pods.iter().all(|pod| self.is_overdue(pod)) {
            let is_left = pods.iter().any(|pod| pod.ending_since.is_none());
            // If it was stopped before it started, that was the last change of its spec, so its pods go and no others
            // come: only what they did can contradict the note.
            let is_late = !is_stopped_unstarted && self.has_gone_on_for(OVERDUE_AFTER) && is_left;
            if is_late || is_stopped_unstarted && has_started {
                // Something gave it replicas again, whose actions were not observed; or it started to run while it was
                // being stopped.
                self.steps.push(Step::Own(ClusterStep::StopJobManager { uid, unstarted: None }));
            }
            return self.await_pods_left().map(Some);
        }
        if is_stopped_unstarted {
            let removed = Removed { at: self.world.now, start: Some(self.last_start()) };
            REMOVED_UNSTARTED.set(&mut self.status.cluster_info, &removed);
            self.write_intent();
        }
        if has_ended && let Some(plan) = self.let_standby_lead()? {
            return Ok(Some(plan));
        }
        self.delete_cluster(Some(uid))?;
        Ok(Some(self.go_on("the JobManager has ended: removing the rest", GOING)))
    }

    /// Returns true if the TaskManagers of a JobManager that is gone still exist, after asking them to go.
    pub(crate) fn has_old_task_managers(&mut self) -> Result<bool, Halt> {
        let Some(task_managers) = self.read_own_task_managers()? else { return Ok(false) };
        if !task_managers.is_deleting {
            self.steps.push(Step::Own(ClusterStep::DeleteTaskManagers { uid: task_managers.uid }));
        }
        Ok(true)
    }

    /// Like [`Self::has_old_task_managers`], as the plan that waits for them.
    pub(crate) fn wait_for_old_task_managers(&mut self) -> Maybe {
        if !self.has_old_task_managers()? {
            return Ok(None);
        }
        self.report_all_pods_left()?;
        let pause = self.going();
        let because = "waiting for the old TaskManagers to end";
        Ok(Some(self.wait_for(Awaited::TaskManagersGone, because, pause)))
    }

    /// Returns true if TaskManagers are being deleted, so that a new JobManager should wait.
    pub(crate) fn has_ending_task_managers(&self) -> Result<bool, Halt> {
        Ok(self.read_own_task_managers()?.is_some_and(|found| found.is_deleting))
    }

    /// Keeps the TaskManagers in line with the JobManager: lost ones are recreated, and those whose JobManager was
    /// removed are deleted.
    pub(crate) fn maintain_task_managers(&mut self, last: &ReconciledSpec) -> Maybe {
        let found = self.read_own_task_managers()?;
        let is_job_manager_gone =
            self.status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing;
        let has_ended =
            self.status.job_status.state.is_some_and(JobStatusState::is_globally_terminal);
        let is_over = last.job_state() == JobState::Suspended || (has_ended && !self.is_session());
        if is_over {
            let is_left_over = found.is_some() && is_job_manager_gone;
            return if is_left_over { self.wait_for_old_task_managers() } else { Ok(None) };
        }
        let is_lost = self.is_standalone() && found.is_none() && !is_job_manager_gone;
        let config = self.observe_config()?;
        if !is_lost || !config.get(&options::JM_DEPLOYMENT_RECOVERY_ENABLED)? {
            return Ok(None);
        }
        let spec = self.deployed_spec(last);
        refuse_old_version(&spec)?;
        let generation = self.status.observed_generation.unwrap_or(self.generation);
        let objects = self.render_again(&spec, generation)?;
        self.steps.push(Step::Own(ClusterStep::FinishCluster(Box::new(objects))));
        // Reported afterwards: while Kubernetes refuses it, it is tried again and again.
        self.steps.push(Step::Event(Event::warning(
            "RecoverDeployment",
            Component::JobManagerDeployment,
            "Recovered lost TaskManager deployment",
        )));
        Ok(Some(self.go_on("recreating the lost TaskManagers", SOON)))
    }

    /// Scales the TaskManagers. In reactive mode, a job uses all available slots, so that a change of scale only takes
    /// another number of TaskManagers.
    pub(crate) fn scale_task_managers(&mut self, last: &ReconciledSpec, diff: &SpecDiff) -> Maybe {
        // After a rollback, the running spec is not the stored one, but would be taken for it from then on.
        let is_stored = self.status.reconciliation_status.state == ReconciliationState::Deployed;
        let is_scale = diff.class() == ChangeClass::Scale
            && is_stored
            && self.is_standalone()
            && last.job_state() == JobState::Running;
        if !is_scale {
            return Ok(None);
        }
        let mode = self.observe_config()?.find(&options::SCHEDULER_MODE)?;
        let is_reactive = mode.is_some_and(|mode| mode.trim().eq_ignore_ascii_case("reactive"));
        let there =
            self.read_own_task_managers()?.filter(|found| is_reactive && !found.is_deleting);
        let Some(uid) = there.map(|found| found.uid.clone()) else { return Ok(None) };
        let replicas = self.task_manager_replicas(&self.spec);
        self.announce(diff);
        self.steps.push(Step::Event(Event::normal(
            "Scaling",
            Component::Job,
            "In-place scaling triggered",
        )));
        self.steps.push(Step::Own(ClusterStep::ScaleTaskManagers { uid, replicas }));
        let mut scaled =
            ReconciledSpec::new(self.spec.clone().into_owned(), last.is_first_deployment());
        if let Some(job) = &mut scaled.spec.job {
            job.upgrade_mode = self.last_mode();
        }
        self.store_deployed(scaled, Phase::Running);
        self.status.task_manager = self.task_manager_info();
        Ok(Some(self.go_on(format!("scaling to {replicas} TaskManagers"), SOON)))
    }

    /// Returns the replicas of the TaskManagers' Deployment that the spec requests.
    fn task_manager_replicas(&self, spec: &FlinkDeploymentSpec) -> i32 {
        self.deploy_config(spec, self.generation)
            .ok()
            .and_then(|config| {
                config.find(&options::STANDALONE_TASK_MANAGER_REPLICAS).ok().flatten()
            })
            .unwrap_or(1)
    }

    /// Returns the number of TaskManagers of the spec, as read by `kubectl scale`. Only Flink knows how many a native
    /// session cluster has.
    pub(crate) fn task_manager_info(&self) -> Option<TaskManagerInfo> {
        self.task_manager_info_of(&self.spec)
    }

    pub(crate) fn task_manager_info_of(
        &self,
        spec: &FlinkDeploymentSpec,
    ) -> Option<TaskManagerInfo> {
        let replicas = if self.is_standalone() {
            self.task_manager_replicas(spec)
        } else {
            spec.job.as_ref()?;
            let config = self.deploy_config(spec, self.generation).ok()?;
            let slots = config.get(&options::TASK_SLOTS).unwrap_or(1).max(1);
            let parallelism = config.get(&options::PARALLELISM).unwrap_or(1).max(1);
            (parallelism - 1) / slots + 1
        };
        Some(TaskManagerInfo {
            label_selector: format!("component=taskmanager,app={}", self.world.name()),
            replicas,
        })
    }

    /// Like [`Self::task_manager_info`], while no TaskManagers should run.
    pub(crate) fn no_task_managers(&self) -> Option<TaskManagerInfo> {
        (self.is_standalone() || !self.is_session()).then(TaskManagerInfo::default)
    }
}
