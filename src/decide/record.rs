//! What a pass writes down: the stored specs, the job's state, errors, and the end of the plan.

use std::sync::Arc;
use std::time::Duration;

use super::application::{Halt, Pass, Problem, VALIDATION_ERROR};
use super::conditions::{READINESS_TIMEOUT, troubles};
use super::config_cache::Source;
use super::diff::SpecDiff;
use super::error_document::{error_document, reason_of};
use super::job;
use super::lifecycle::{lifecycle_state, running_condition};
use super::plan::{Component, Event, Plan, Step, Superseded};
use super::reconciled::ReconciledSpec;
use super::restore::RestorePoint;
use crate::api::deployment::FlinkDeploymentSpec;
use crate::api::job::{JobSpec, JobState, UpgradeMode};
use crate::api::status::{
    JobManagerDeploymentStatus, JobStatusState, LifecycleState, ReconciliationState,
};
use crate::config::cluster::{self, ResourceId, is_high_availability_on};
use crate::config::memory::MemorySize;
use crate::config::option::ConfigOption;
use crate::config::{FlinkConfig, options};

impl Pass<'_> {
    pub(super) fn id(&self) -> ResourceId {
        ResourceId {
            namespace: self.world.namespace().to_owned(),
            name: self.world.name().to_owned(),
            uid: self.world.uid().to_owned(),
        }
    }

    /// The job of the spec; an empty one for a session cluster.
    pub(super) fn job(&self) -> JobSpec {
        self.spec.job.clone().unwrap_or_default()
    }

    pub(super) fn desired_state(&self) -> JobState {
        self.spec.job.as_ref().map_or(JobState::Running, |job| job.state)
    }

    /// How the running job was started, or the stopped one was stopped.
    pub(super) fn last_mode(&self) -> UpgradeMode {
        let job = self.last.as_ref().and_then(|last| last.spec.job.as_ref());
        job.map_or(UpgradeMode::Stateless, |job| job.upgrade_mode)
    }

    /// What runs: after a rollback not the last spec but the last stable one.
    pub(super) fn deployed_spec(&self, last: &ReconciledSpec) -> FlinkDeploymentSpec {
        super::reconciled::deployed(&self.status.reconciliation_status, last).spec
    }

    /// The restore point on record: the path of the last savepoint or checkpoint.
    pub(super) fn savepoint_path(&self) -> Option<String> {
        job::savepoint_path(&self.status.job_status)
    }

    pub(super) fn job_id(&self) -> Result<String, Halt> {
        job::id(&self.status.job_status).ok_or_else(|| Halt::cannot("the status names no job id"))
    }

    /// The configuration that the running cluster is looked at with.
    pub(super) fn observe_config(&self) -> Result<Arc<FlinkConfig>, Halt> {
        let deployed =
            self.last.as_ref().map_or_else(|| self.spec.clone(), |last| self.deployed_spec(last));
        self.config(Source::Observe { deployed, wanted: Box::new(self.spec.clone()) })
    }

    /// The configuration that the spec is submitted with.
    pub(super) fn deploy_config(
        &self,
        spec: &FlinkDeploymentSpec,
        generation: i64,
    ) -> Result<Arc<FlinkConfig>, Halt> {
        let mode = self.world.resource.spec.job.as_ref().map(|job| job.upgrade_mode);
        self.config(Source::Deploy { spec: spec.clone(), mode, generation })
    }

    fn config(&self, source: Source) -> Result<Arc<FlinkConfig>, Halt> {
        let (operator, id) = (self.world.operator, self.id());
        let config = self.world.configs.get(source, |source| match source {
            Source::Observe { deployed, wanted } => {
                cluster::observe_config(operator, &id, deployed, wanted)
            }
            Source::Deploy { spec, mode, generation } => {
                cluster::deploy_config(operator, &id, spec, *mode, *generation)
            }
        });
        config.map_err(|error| Halt::problem(invalid_configuration(&error.to_string())))
    }

    /// Whether the wanted spec has high availability.
    pub(super) fn is_high_availability_on(&self) -> Result<bool, Halt> {
        Ok(is_high_availability_on(&*self.deploy_config(&self.spec, self.generation)?))
    }

    /// `kubernetes.operator.reconcile.interval`.
    pub(super) fn interval(&self) -> Duration {
        self.observe_config()
            .ok()
            .and_then(|config| config.get(&options::RECONCILE_INTERVAL).ok())
            .unwrap_or(Duration::from_mins(1))
    }

    /// What the job does is not known; a session cluster has none.
    pub(super) fn lose_job_from_sight(&mut self) {
        if !self.is_session() {
            self.set_job_state(JobStatusState::Reconciling);
        }
    }

    pub(super) fn set_job_state(&mut self, state: JobStatusState) {
        let event = job::set_state(&mut self.status.job_status, state, self.world.now);
        self.steps.extend(event.map(Step::Event));
    }

    /// Text of `spec` as stored, with the trigger nonces that were used up so far.
    pub(super) fn store_last(&mut self, last: ReconciledSpec) {
        let reconciliation = &mut self.status.reconciliation_status;
        self.last = Some(job::store(reconciliation, self.last.as_ref(), last));
    }

    pub(super) fn stored(
        &self,
        state: JobState,
        mode: UpgradeMode,
        is_first: bool,
    ) -> ReconciledSpec {
        job::stored(&self.spec, state, mode, is_first)
    }

    /// The wanted spec is about to replace what runs: nothing runs for it yet.
    pub(super) fn store_stopping(&mut self, mode: UpgradeMode) {
        self.store_before_deploy(mode, false);
    }

    pub(super) fn store_before_deploy(&mut self, mode: UpgradeMode, is_first: bool) {
        self.store_last(self.stored(JobState::Suspended, mode, is_first));
        self.status.observed_generation = Some(self.generation);
        self.status.reconciliation_status.state = ReconciliationState::Upgrading;
        self.status.reconciliation_status.reconciliation_timestamp =
            self.world.now.as_millisecond();
        self.status.error = None;
        self.status.task_manager = self.no_task_managers();
    }

    /// The wanted spec runs, or is about to.
    pub(super) fn store_running(&mut self, mode: UpgradeMode, is_first: bool) {
        let last = self.stored(JobState::Running, mode, is_first);
        self.store_deployed(last, ReconciliationState::Deployed);
        self.status.task_manager = self.task_manager_info();
    }

    pub(super) fn store_deployed(&mut self, last: ReconciledSpec, state: ReconciliationState) {
        self.store_last(last);
        self.status.observed_generation = Some(self.generation);
        self.status.reconciliation_status.state = state;
        self.status.reconciliation_status.reconciliation_timestamp =
            self.world.now.as_millisecond();
        self.status.error = None;
    }

    /// The job is stopped and stays so; `mode` says how it was stopped.
    pub(super) fn store_suspended(&mut self, mode: Option<UpgradeMode>) {
        let mode = mode.unwrap_or_else(|| self.last_mode());
        let last = self.stored(JobState::Suspended, mode, false);
        self.store_deployed(last, ReconciliationState::Deployed);
        self.status.task_manager = self.no_task_managers();
        self.mark_stable();
    }

    /// The job ended on request: the stored spec no longer runs.
    pub(super) fn store_stopped(&mut self) {
        let Some(last) = &self.last else { return };
        let has_state = self.status.job_status.upgrade_savepoint_path.is_some();
        let last = job::stopped(last, has_state);
        self.store_last(last);
    }

    pub(super) fn mark_stable(&mut self) {
        job::mark_stable::<FlinkDeploymentSpec>(&mut self.status.reconciliation_status);
    }

    /// A change that needs nothing done is still noted as seen.
    pub(super) fn refresh_metadata(&mut self, last: &ReconciledSpec) {
        if self.status.observed_generation == Some(self.generation) {
            return;
        }
        self.status.observed_generation = Some(self.generation);
        let refreshed = job::refreshed(last, &self.spec);
        let was_stable = self.is_stable();
        self.store_last(refreshed);
        if was_stable {
            self.mark_stable();
        }
    }

    pub(super) fn is_stable(&self) -> bool {
        job::is_stable::<FlinkDeploymentSpec>(&self.status.reconciliation_status)
    }

    /// `total-cpu` in cores and `total-memory` in bytes, limits included.
    pub(super) fn totals(&self, task_managers: i64) -> Vec<(String, String)> {
        let Ok(config) = self.observe_config() else { return vec![] };
        let count = f64::from(i32::try_from(task_managers).unwrap_or(i32::MAX));
        let replicas = f64::from(config.get(&options::JOB_MANAGER_REPLICAS).unwrap_or(1));
        let cpu = config.get(&options::JOB_MANAGER_CPU).unwrap_or(1.0)
            * config.get(&options::JOB_MANAGER_CPU_LIMIT_FACTOR).unwrap_or(1.0)
            * replicas
            + config.get(&options::TASK_MANAGER_CPU).unwrap_or(1.0)
                * config.get(&options::TASK_MANAGER_CPU_LIMIT_FACTOR).unwrap_or(1.0)
                * count;
        // Whole mebibytes fit a float exactly.
        let bytes = |option: &ConfigOption<MemorySize>| {
            let size = config.find(option).ok().flatten().unwrap_or_default();
            f64::from(u32::try_from(size.mebibytes()).unwrap_or(u32::MAX)) * 1024.0 * 1024.0
        };
        let memory = bytes(&options::JOB_MANAGER_PROCESS_MEMORY)
            * config.get(&options::JOB_MANAGER_MEMORY_LIMIT_FACTOR).unwrap_or(1.0)
            * replicas
            + bytes(&options::TASK_MANAGER_PROCESS_MEMORY)
                * config.get(&options::TASK_MANAGER_MEMORY_LIMIT_FACTOR).unwrap_or(1.0)
                * count;
        vec![
            ("total-cpu".to_owned(), format!("{cpu:?}")),
            ("total-memory".to_owned(), format!("{memory:.0}")),
        ]
    }

    /// Says once per generation what changed.
    pub(super) fn announce(&mut self, diff: &SpecDiff) {
        self.steps.extend(diff.announcement(self.generation).map(Step::Event));
    }

    pub(super) fn announce_stop(&mut self) {
        self.steps.push(Step::Event(Event::normal(
            "Suspended",
            Component::JobManagerDeployment,
            "Suspending existing deployment.",
        )));
    }

    /// Keeps the spec that ran, and the state that it leaves, for `history` and `rollback`.
    pub(super) fn supersede(&mut self, last: &ReconciledSpec, restore_point: RestorePoint) {
        let spec = self.deployed_spec(last);
        self.steps.push(Step::RecordRevision(Box::new(Superseded { spec, restore_point })));
    }

    /// The status as it is now must be stored before the steps that follow.
    pub(super) fn write_intent(&mut self) {
        self.settle();
        self.steps.push(Step::WriteStatus(Box::new(self.status.clone())));
    }

    /// Brings the derived fields in line with the rest.
    fn settle(&mut self) {
        if let Some(problem) = &self.problem {
            let Problem { kind, reason: _, component: _, message, detail, causes } = problem;
            let document = error_document(*kind, message, detail.as_deref(), causes);
            self.status.error = Some(document);
        } else if self.has_recovered() {
            self.status.error = None;
        }
        self.status.lifecycle_state = Some(lifecycle_state(&self.status));
        let is_application = !self.is_session();
        let before = std::mem::take(&mut self.status.conditions);
        let now = self.world.now;
        self.status.conditions =
            troubles(&before, self.pod_problem.as_ref(), self.late.as_deref(), now);
        self.status
            .conditions
            .splice(0..0, running_condition(&self.status, &before, is_application, now));
    }

    /// Nothing is wrong any more with what the stored error was about.
    fn has_recovered(&self) -> bool {
        let error = self.status.error.as_deref().unwrap_or_default();
        let was_invalid = reason_of(error).as_deref() == Some(VALIDATION_ERROR);
        let is_up = self.status.job_manager_deployment_status != JobManagerDeploymentStatus::Error
            && self.status.job_status.state != Some(JobStatusState::Failed);
        let is_settled =
            self.is_stable() || self.status.reconciliation_status.last_reconciled_spec.is_none();
        let was_late = reason_of(error).as_deref() == Some(READINESS_TIMEOUT);
        let is_running = self.status.job_status.state == Some(JobStatusState::Running);
        was_invalid || (was_late && is_running) || (is_up && is_settled)
    }

    /// The plan as it stands, with its reason.
    pub(super) fn finish(
        &mut self,
        because: impl Into<String>,
        look_again: Option<Duration>,
    ) -> Plan {
        self.settle();
        let look_again = match (look_again, self.wake) {
            (Some(pause), Some(wake)) => Some(pause.min(wake)),
            (pause, wake) => pause.or(wake),
        };
        if let Some(problem) = &self.problem
            && self.status.error != self.world.status.error
        {
            self.steps.push(Step::Event(job::problem_event(problem)));
        }
        Plan {
            steps: std::mem::take(&mut self.steps),
            status: Box::new(self.status.clone()),
            because: because.into(),
            look_again,
            blocker: self.blocker.take(),
        }
    }

    /// A plan that changes nothing at all, not even the status.
    pub(super) fn untouched(&self, because: impl Into<String>) -> Plan {
        Plan {
            steps: vec![],
            status: Box::new(self.world.status.clone()),
            because: because.into(),
            look_again: None,
            blocker: None,
        }
    }

    pub(super) fn is_marked_deleting(&self) -> bool {
        self.status.lifecycle_state == Some(LifecycleState::Deleting)
    }
}

/// Where savepoints go, when the user says so.
pub fn savepoint_directory(config: &FlinkConfig) -> Option<String> {
    config
        .text_of(&options::SAVEPOINT_DIRECTORY)
        .map(str::trim)
        .filter(|directory| !directory.is_empty())
        .map(str::to_owned)
}

fn invalid_configuration(message: &str) -> Problem {
    Problem {
        kind: super::error_document::ErrorType::Reconciliation,
        reason: "ValidationError",
        component: Component::Operator,
        message: message.to_owned(),
        detail: None,
        causes: vec![],
    }
}
