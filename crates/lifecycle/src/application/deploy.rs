//! Starting a JobManager: the restore point is chosen, recorded, and then used.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::started_with;
use super::version::refuse_old_version;
use crate::event::{Component, Event};
use crate::kind::End;
use crate::notes::{OF_ONE_CLUSTER, REPLACED_DEPLOYMENT, STARTING_JOB};
use crate::pass::DeploymentPass;
use crate::pauses::{GOING, HANDOVER, OVERDUE_AFTER, SOON};
use crate::plan::{ClusterStep, Step};
use crate::problem::{Halt, NOT_CARRIED_OUT, Problem, foreign_deployment};
use crate::transitions::stop::MOVED;
use crate::transitions::stop::OTHER_STATE;
use crate::wait::Awaited;
use crate::world::{HaMetadata, Job, JobManager, Pod};
use api::deployment::FlinkDeploymentSpec;
use api::job::{JobState, UpgradeMode};
use api::reconciled::ReconciledSpec;
use api::status::{JobManagerDeploymentStatus, LAST_STATE_PATH, ReconciliationState};
use config::cluster::{is_high_availability_on, is_high_availability_readable};
use config::{FlinkConfig, options};
use render::{Objects, RenderError, RenderInput, Submission, render_cluster};
use state::restore_point::RestorePoint;

/// Longest pause while something takes its time to end.
const GOING_MAX: Duration = Duration::from_secs(5);
/// A pause is this fraction of the time that the end has taken so far.
const GOING_CHECKS: u32 = 16;

impl DeploymentPass<'_> {
    /// The job is stopped: start it from its restore point, or leave it suspended.
    pub(crate) fn start_again(&mut self, last: &ReconciledSpec) -> End {
        let job_manager = self.read_job_manager()?.cloned();
        if let Some(job_manager) = &job_manager
            && job_manager.owner_uid.as_deref() != Some(self.world.uid())
        {
            return Err(Halt::problem(foreign_deployment(self.world.name())));
        }
        if let Some(job_manager) = &job_manager {
            self.note_end_before_removal(job_manager)?;
            self.refuse_job_that_runs_again(job_manager, last)?;
        }
        if self.desired_state() == JobState::Suspended {
            // The JobManager of a start that is not on record as done has not ended its job, nor has one being removed.
            let keeps_job_manager = !self.is_starting()
                && !job_manager.as_ref().is_some_and(|it| self.is_replaced(it))
                && self.last_mode() == UpgradeMode::Savepoint
                && self.keeps_ended_job_manager()?;
            if !keeps_job_manager {
                if let Some(job_manager) = job_manager {
                    return self.remove(job_manager.is_deleting, &job_manager.uid);
                }
                if let Some(plan) = self.wait_for_old_task_managers()? {
                    return Ok(plan);
                }
                self.refuse_unknown_start(&last.spec, self.job().upgrade_mode)?;
            }
            if let Some(plan) = self.await_standby_left()? {
                return Ok(plan);
            }
            self.store_suspended(None);
            return Ok(self.rest("suspended", Some(self.interval())));
        }
        let restore = match self.next_restore_point(last) {
            Err(Halt::Problem(problem)) if self.stands_by() => {
                return Ok(self.remove_standby(*problem));
            }
            restore => restore?,
        };
        if let Some(job_manager) = job_manager {
            if self.status.reconciliation_status.state != ReconciliationState::Upgrading {
                self.store_before_deploy(self.last_mode(), false);
                self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
                // The spec may not have been edited: the Deployment must not be taken for the new one.
                REPLACED_DEPLOYMENT.set(&mut self.status.cluster_info, &job_manager.uid);
            }
            return self.remove(job_manager.is_deleting, &job_manager.uid);
        }
        if self.stands_by() && self.has_old_pods()? {
            // Its TaskManagers outlive a JobManager that may still take itself for the leader.
            return self.await_pods_left();
        }
        if let Some(plan) = self.wait_for_old_task_managers()? {
            return Ok(plan);
        }
        if self.has_old_pods()? {
            return self.await_pods_left();
        }
        // Under its old id, Flink would find the state that a stateless job must start without.
        self.refuse_unknown_start(&last.spec, self.job().upgrade_mode)?;
        let keeps_job_id = self.last_mode() == UpgradeMode::LastState
            && self.job().upgrade_mode != UpgradeMode::Stateless;
        if let Some(plan) = self.settle_standby(&restore)? {
            return Ok(plan);
        }
        self.deploy(restore, false, keeps_job_id)
    }

    /// Records the end of a job whose JobManager is about to be removed. After it was decided to restore from HA
    /// metadata, the job may have ended and deleted its metadata. Its JobManager still knows the last checkpoint.
    fn note_end_before_removal(&mut self, job_manager: &JobManager) -> Result<(), Halt> {
        if self.has_ended_before_removal(job_manager)? {
            self.store_before_deploy(UpgradeMode::Savepoint, false);
        }
        Ok(())
    }

    /// Like [`Self::note_end_before_removal`], except that the caller stores how the job was stopped.
    pub(crate) fn has_ended_before_removal(
        &mut self,
        job_manager: &JobManager,
    ) -> Result<bool, Halt> {
        if self.last_mode() != UpgradeMode::LastState {
            return Ok(false);
        }
        let job = self.job_before_removal(job_manager)?.cloned();
        let Some(job) = job.filter(|job| job.state.is_globally_terminal()) else {
            if !self.is_session() && !job_manager.is_deleting {
                // It may have completed its first checkpoint since the decision to restore from the metadata.
                self.note_checkpoint_in_metadata()?;
            }
            return Ok(false);
        };
        self.record_last_state(&job)?;
        self.set_job_state(job.state);
        Ok(true)
    }

    /// Reads the job from a JobManager that will be removed, if it can be asked.
    pub(crate) fn job_before_removal(
        &self,
        job_manager: &JobManager,
    ) -> Result<Option<&Job>, Halt> {
        if self.is_session() || job_manager.available_replicas == 0 || job_manager.is_deleting {
            return Ok(None);
        }
        let Ok(jobs) = self.world.jobs()? else { return Ok(None) };
        let id = self.status.job_status.job_id.as_ref();
        Ok(jobs.iter().find(|job| Some(&job.id) == id))
    }

    /// Returns true if the removal of this JobManager is on record.
    pub(crate) fn is_replaced(&self, job_manager: &JobManager) -> bool {
        REPLACED_DEPLOYMENT.get(&self.status.cluster_info).as_ref() == Some(&job_manager.uid)
    }

    /// Returns true if the JobManager of an ended job may stay to be inspected. Without high availability, it must be
    /// removed: if its pod were moved, it would not know that the job has ended and would run it again. In standalone
    /// mode it is removed with its TaskManagers, which would stay.
    pub(crate) fn keeps_ended_job_manager(&self) -> Result<bool, Halt> {
        Ok(!self.is_standalone() && self.is_started_with_high_availability()? == Some(true))
    }

    pub(crate) fn remove(&mut self, is_deleting: bool, uid: &str) -> End {
        if !is_deleting {
            // The status observed in this pass is stored first: it cannot be observed again without the JobManager.
            self.write_intent();
        }
        self.delete_cluster_of(self.last_mode(), (!is_deleting).then(|| uid.to_owned()))?;
        if is_deleting {
            self.report_all_pods_left()?;
        }
        let pause = self.going();
        Ok(self.wait_for(Awaited::JobManagerGone, "waiting for the old JobManager to end", pause))
    }

    /// Returns the JobManager's pods that have not ended.
    pub(crate) fn pods(&self) -> Result<&[Pod], Halt> {
        match self.world.pods()? {
            Ok(pods) => Ok(pods),
            Err(reason) => {
                Err(Halt::cannot(format!("the JobManager's pods cannot be read: {reason}")))
            }
        }
    }

    /// Two JobManagers must never run the same job: wait until the last pod is gone.
    pub(crate) fn has_old_pods(&self) -> Result<bool, Halt> {
        Ok(!self.pods()?.is_empty())
    }

    /// Waits for the pods of the old JobManager, and names those that only a person can end.
    pub(crate) fn await_pods_left(&mut self) -> End {
        self.report_pods_left()?;
        let pause = self.going();
        let because = "waiting for the old JobManager's pods to end";
        Ok(self.wait_for(Awaited::JobManagerPodsGone, because, pause))
    }

    /// Waits for the pods of a lost JobManager, and for TaskManagers that go with it.
    pub(crate) fn await_lost_pods(&mut self) -> End {
        if self.has_old_pods()? {
            self.report_pods_left()?;
        } else {
            self.report_all_pods_left()?;
        }
        let because = "waiting for the lost JobManager's pods to end";
        Ok(self.wait_for(Awaited::JobManagerPodsGone, because, SOON))
    }

    /// Names pods that were asked to end and stay, as on a lost node, and those that nothing will end, as those of a
    /// Deployment that was deleted without its dependents.
    pub(crate) fn report_pods_left(&mut self) -> Result<(), Halt> {
        let names = self.names_left(self.pods()?);
        self.report_left(&names);
        Ok(())
    }

    /// Like [`Self::report_pods_left`], with the TaskManagers. While a Deployment is deleted in the foreground, each of
    /// its pods keeps it, and in native mode the TaskManagers are among them. They are looked at only once the end takes
    /// longer than it should.
    pub(crate) fn report_all_pods_left(&mut self) -> Result<(), Halt> {
        if !self.has_gone_on_for(OVERDUE_AFTER) {
            return Ok(());
        }
        let remains = self.world.remains()?.map_err(|reason| {
            Halt::cannot(format!("the cluster's pods cannot be read: {reason}"))
        })?;
        let names = self.names_left(remains);
        self.report_left(&names);
        Ok(())
    }

    /// Lists the pods that should have ended by now.
    fn names_left(&self, pods: &[Pod]) -> String {
        let is_late = self.is_down_for(OVERDUE_AFTER);
        let is_left = |pod: &&Pod| match pod.ending_since {
            Some(_) => self.is_overdue(pod),
            None => is_late,
        };
        Pod::list(pods.iter().filter(is_left))
    }

    fn report_left(&mut self, names: &str) {
        if names.is_empty() {
            return;
        }
        let message = format!(
            "pods [{names}] of the previous cluster do not end. Nothing is started beside them, \
             because together they could run the job twice. Remove the finalizers whose controller \
             is gone; delete pods that nothing ends, and their ReplicaSet if there is one. If their \
             node is gone for good, taint it with `node.kubernetes.io/out-of-service`, or delete \
             the pods with `--force --grace-period=0`. Make sure first that it is gone: a process \
             that still runs there goes on working"
        );
        let beside = self.problem.take().map(|problem| problem.message);
        self.problem = Some(Problem {
            // The error ends with the pods, which nothing else in the status shows.
            detail: Some(NOT_CARRIED_OUT.to_owned()),
            causes: beside.into_iter().collect(),
            ..Problem::upgrade("PodsLeft", message)
        });
    }

    /// Returns the TaskManagers' pods that have not ended.
    pub(crate) fn task_manager_pods(&self) -> Result<&[Pod], Halt> {
        let pods = self.world.task_manager_pods()?;
        Ok(pods.map_err(|reason| {
            Halt::cannot(format!("the TaskManagers' pods cannot be read: {reason}"))
        })?)
    }

    /// Returns true if the JobManager has been down for this long according to the stored status. A loss that the
    /// status does not show yet is new.
    fn is_down_for(&self, patience: SignedDuration) -> bool {
        let status = self.world.status;
        let is_known = status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing
            || status.reconciliation_status.state == ReconciliationState::RollingBack;
        is_known
            && self.has_gone_on_for(patience)
            && (!self.is_session() || self.is_unready_for(patience))
    }

    /// Returns true if a session cluster has been unready for this long. It has no job whose state would show since
    /// when.
    fn is_unready_for(&self, patience: SignedDuration) -> bool {
        let conditions = &self.world.status.conditions;
        let running = conditions.iter().find(|of| of.type_.as_deref() == Some("Running"));
        let since = running.and_then(|running| running.last_transition_time.as_deref());
        let since = since.and_then(|text| text.parse::<Timestamp>().ok());
        since.is_some_and(|since| self.world.now.duration_since(since) > patience)
    }

    /// Like [`Self::await_pods_left`], before a first start, when the pods belong to an earlier resource of this name.
    /// Only a person can end those without a Deployment.
    pub(crate) fn await_pods_of_others(&mut self) -> End {
        let staying = self.pods()?.iter().filter(|pod| pod.ending_since.is_none());
        let names = staying.map(|pod| pod.name.as_str()).collect::<Vec<_>>().join(", ");
        if names.is_empty() {
            return self.await_pods_left();
        }
        let message = format!(
            "pods [{names}] of an earlier cluster `{}` are running, and its Deployment is gone. \
             No JobManager is started, because it would run the same jobs a second time. Delete \
             the pods, and their ReplicaSet if there is one",
            self.world.name()
        );
        Err(Halt::problem(Problem::upgrade("PodsLeft", message)))
    }

    /// Returns true if the pod's grace period ended long ago.
    pub(crate) fn is_overdue(&self, pod: &Pod) -> bool {
        self.is_overdue_since(pod.ending_since)
    }

    /// Like [`Self::is_overdue`], for the end of a grace period.
    pub(crate) fn is_overdue_since(&self, ending_since: Option<Timestamp>) -> bool {
        let late = |ending| self.world.now.duration_since(ending) > OVERDUE_AFTER;
        ending_since.is_some_and(late)
    }

    /// Returns the pause until the next check of something that was asked to end. A quick end is noticed soon, and a
    /// slow one costs few checks.
    pub(crate) fn going(&self) -> Duration {
        let waited = self.world.now.duration_since(self.going_since());
        let waited = Duration::try_from(waited).unwrap_or_default();
        let least = if self.is_taking_over() { HANDOVER } else { GOING };
        (waited / GOING_CHECKS).clamp(least, GOING_MAX)
    }

    pub(crate) fn has_gone_on_for(&self, patience: SignedDuration) -> bool {
        self.world.now.duration_since(self.going_since()) > patience
    }

    /// Returns when something was asked to end, according to the status. The request may have been earlier, but not
    /// later.
    fn going_since(&self) -> Timestamp {
        let stored = self.status.reconciliation_status.reconciliation_timestamp;
        let stored = Timestamp::from_millisecond(stored).unwrap_or_default();
        match &self.world.resource.metadata.deletion_timestamp {
            Some(deleted) => deleted.0,
            None => stored.max(self.job_state_since()),
        }
    }

    /// Starts the desired spec from `restore`.
    pub(crate) fn deploy(
        &mut self,
        restore: RestorePoint,
        is_first: bool,
        keeps_job_id: bool,
    ) -> End {
        let mode = restore.upgrade_mode();
        let spec = self.spec.clone();
        refuse_old_version(&spec)?;
        let (job_id, objects) = self.prepare(&spec, self.generation, &restore, keeps_job_id)?;
        if spec.job.is_some() {
            self.note_start(&spec, &restore, &job_id)?;
            self.note_former_job(&spec, &job_id)?;
            self.note_metadata_used(&restore)?;
            self.note_restore(&restore, job_id);
        }
        self.store_before_deploy(mode, is_first);
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        self.write_intent();
        let keeps_ha_metadata = keeps_job_id || restore == RestorePoint::HaMetadata;
        self.submit(&spec, objects, keeps_ha_metadata, is_first)?;
        self.store_running(mode, is_first);
        let because = if self.is_session() {
            "deploying the session cluster".to_owned()
        } else {
            format!("deploying the job from {}", restore.describe())
        };
        Ok(self.go_on(because, SOON))
    }

    /// Returns the id of the job that a start of `spec` runs, and the objects. Called before anything is recorded: a
    /// start whose objects cannot be rendered does not begin.
    pub(crate) fn prepare(
        &self,
        spec: &FlinkDeploymentSpec,
        generation: i64,
        restore: &RestorePoint,
        keeps_job_id: bool,
    ) -> Result<(String, Objects), Halt> {
        self.refuse_metadata_out_of_reach(spec, generation)?;
        let job_id = self.id_of_start(spec, restore, keeps_job_id)?;
        let objects = self.render(spec, generation, restore, &job_id)?;
        self.refuse_missing_files(spec, generation, &objects)?;
        Ok((job_id, objects))
    }

    /// Returns the job id of a start. A session cluster has no job, and no id.
    fn id_of_start(
        &self,
        spec: &FlinkDeploymentSpec,
        restore: &RestorePoint,
        keeps_job_id: bool,
    ) -> Result<String, Halt> {
        if spec.job.is_none() {
            return Ok(String::new());
        }
        self.refuse_set_back_record()?;
        let config = self.deploy_config(spec, self.generation)?;
        let reads_metadata = *restore == RestorePoint::HaMetadata;
        let keeps_job_id = keeps_job_id || reads_metadata;
        Ok(match (config.text_of(&options::FIXED_JOB_ID), &self.status.job_status.job_id) {
            (Some(fixed), Some(id)) if reads_metadata && fixed != id => {
                return Err(Halt::problem(Problem::upgrade("RestoreFailed", MOVED)));
            }
            (Some(fixed), _) => fixed.to_owned(),
            (None, Some(id)) if keeps_job_id => id.clone(),
            (None, Some(_) | None) => self.world.fresh.job_id.clone(),
        })
    }

    /// Records the start of a job for which HA metadata names no checkpoint.
    pub(crate) fn note_start(
        &mut self,
        spec: &FlinkDeploymentSpec,
        restore: &RestorePoint,
        job_id: &str,
    ) -> Result<(), Halt> {
        let config = self.deploy_config(spec, self.generation)?;
        let is_fixed = config.text_of(&options::FIXED_JOB_ID).is_some();
        if *restore != RestorePoint::HaMetadata && !is_fixed {
            STARTING_JOB.set(&mut self.status.cluster_info, &job_id.to_owned());
        }
        Ok(())
    }

    /// Returns true if only the intent of the job's start is on record.
    pub(crate) fn is_starting(&self) -> bool {
        let starting = STARTING_JOB.get(&self.status.cluster_info);
        starting.is_some() && starting == self.status.job_status.job_id
    }

    /// Returns true if a start of which only the intent is on record, and whose JobManager does not exist, did happen
    /// and was lost since. The job may then have run for long, and is restored from its HA metadata. If that names no
    /// checkpoint, the start is repeated.
    pub(crate) fn was_lost_after_its_start(
        &self,
        spec: &FlinkDeploymentSpec,
    ) -> Result<bool, Halt> {
        if !self.is_starting()
            || !is_high_availability_readable(&*self.deploy_config(spec, self.generation)?)
        {
            return Ok(false);
        }
        let is_found = |metadata: &HaMetadata| metadata.checkpoint.is_some();
        Ok(self.world.ha_metadata()?.is_ok_and(is_found))
    }

    /// Like [`Self::was_lost_after_its_start`], if that is not known because its Deployment is still being deleted, or
    /// its HA metadata cannot be read. A stateless job starts over anyway.
    pub(crate) fn may_have_started(&self, spec: &FlinkDeploymentSpec) -> Result<bool, Halt> {
        if !self.is_starting() || self.is_stateless_in_force()? {
            return Ok(false);
        }
        if let Some(job_manager) = self.read_job_manager()? {
            let is_ours = job_manager.owner_uid.as_deref() == Some(self.world.uid());
            return Ok(is_ours && job_manager.is_deleting);
        }
        let is_readable =
            is_high_availability_readable(&*self.deploy_config(spec, self.generation)?);
        Ok(is_readable && self.world.ha_metadata()?.is_err())
    }

    /// Refuses to repeat a start while it is unknown whether it happened.
    pub(crate) fn refuse_unknown_start(
        &self,
        spec: &FlinkDeploymentSpec,
        wanted: UpgradeMode,
    ) -> Result<(), Halt> {
        if wanted == UpgradeMode::Stateless
            || !self.is_starting()
            || !is_high_availability_readable(&*self.deploy_config(spec, self.generation)?)
        {
            return Ok(());
        }
        let Err(reason) = self.world.ha_metadata()? else { return Ok(()) };
        let message = format!(
            "the job was about to be started, and it is unknown whether it was, because its HA \
             metadata cannot be read: {reason}. It may have run since and be ahead of its \
             restore point, so nothing is started until the metadata can be read. {OTHER_STATE}"
        );
        Err(Halt::problem(Problem::upgrade("RestoreFailed", message)))
    }

    /// Records in the status what the start restores, and under which job id.
    pub(crate) fn note_restore(&mut self, restore: &RestorePoint, job_id: String) {
        let job = &mut self.status.job_status;
        job.job_id = Some(job_id);
        job.upgrade_savepoint_path = match restore {
            RestorePoint::Empty => None,
            RestorePoint::Path(path) => Some(path.clone()),
            RestorePoint::HaMetadata => Some(LAST_STATE_PATH.to_owned()),
        };
        if *restore == RestorePoint::Empty
            && let Some(info) = &mut job.savepoint_info
        {
            // It must not come back as the state of a job that never had it.
            info.last_savepoint = None;
        }
    }

    /// Adds the steps that create the cluster, after the one that writes the intent.
    pub(crate) fn submit(
        &mut self,
        spec: &FlinkDeploymentSpec,
        objects: Objects,
        keeps_ha_metadata: bool,
        is_first: bool,
    ) -> Result<(), Halt> {
        self.steps.push(Step::Event(Event::normal(
            "Submit",
            Component::JobManagerDeployment,
            "Starting deployment",
        )));
        let config = self.deploy_config(spec, self.generation)?;
        // In a session cluster, only HA metadata leads back to its jobs.
        if spec.job.is_some() && is_high_availability_on(&config) {
            if !keeps_ha_metadata && !is_first {
                self.delete_ha_metadata();
            } else if self.own.run.is_some() {
                self.steps.push(Step::Own(ClusterStep::ReleaseLeadership));
            } else if is_high_availability_readable(&config) {
                self.steps
                    .push(Step::Own(ClusterStep::ForgetJobGraphs { jobs: self.jobs_on_record() }));
            }
        }
        self.steps.push(Step::Own(ClusterStep::CreateCluster(Box::new(objects))));
        self.set_job_unknown();
        self.status.job_manager_deployment_status = JobManagerDeploymentStatus::Deploying;
        self.forget_former_cluster();
        started_with::note(&mut self.status.cluster_info, &config);
        Ok(())
    }

    /// Forgets what was noted on the way to a cluster that was now created, or about the previous one.
    pub(crate) fn forget_former_cluster(&mut self) {
        self.status.cluster_info.retain(|key, _| !OF_ONE_CLUSTER.contains(&key.as_str()));
    }

    /// Returns the objects for a start from `restore` of a job with this id.
    pub(crate) fn render(
        &self,
        spec: &FlinkDeploymentSpec,
        generation: i64,
        restore: &RestorePoint,
        job_id: &str,
    ) -> Result<Objects, Halt> {
        let config = self.deploy_config(spec, generation)?;
        let submission = Submission {
            job_id: job_id.to_owned(),
            savepoint_path: match restore {
                RestorePoint::Empty => None,
                RestorePoint::Path(path) => Some(path.clone()),
                // Flink finds the checkpoint by the job id. If it is gone by then, a start from this path fails, while
                // a start without one would silently be empty.
                RestorePoint::HaMetadata => Some(LAST_STATE_PATH.to_owned()),
            },
            job_result_store_id: self.own.run.clone().unwrap_or(self.world.fresh.uuid.clone()),
        };
        self.render_with(spec, &config, &submission, render_cluster)
    }

    /// Renders this spec and submission.
    pub(crate) fn render_with<T>(
        &self,
        spec: &FlinkDeploymentSpec,
        config: &FlinkConfig,
        submission: &Submission,
        render: impl FnOnce(&RenderInput<'_>) -> Result<T, RenderError>,
    ) -> Result<T, Halt> {
        let (id, hadoop_conf) = (self.id(), self.world.hadoop_conf.as_ref());
        render(&RenderInput { id: &id, spec, config, submission, hadoop_conf })
            .map_err(|error| Halt::problem(Problem::upgrade("Error", error.to_string())))
    }

    /// Returns the objects of the existing cluster of `spec`.
    pub(crate) fn render_deployed(&self, spec: &FlinkDeploymentSpec) -> Result<Objects, Halt> {
        self.render_again(spec, self.generation)
    }

    /// Returns the objects of the cluster of `spec` with the job on record.
    pub(crate) fn render_again(
        &self,
        spec: &FlinkDeploymentSpec,
        generation: i64,
    ) -> Result<Objects, Halt> {
        let job_id = if spec.job.is_some() { self.job_id()? } else { String::new() };
        self.render(spec, generation, &self.restored_from(), &job_id)
    }
}
