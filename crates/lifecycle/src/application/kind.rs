//! The parts of a pass that are specific to `FlinkDeployment`: its configuration, and the derived fields of its status.

use std::sync::Arc;

use jiff::SignedDuration;

use crate::application::preflight::PREFLIGHT_FAILED;
use crate::attempts::Attempts;
use crate::conditions::{READINESS_TIMEOUT, problems};
use crate::diff::{SpecDiff, diff};
use crate::error_document::reason_of;
use crate::job;
use crate::kind::{End, Kind};
use crate::lifecycle::{lifecycle_state, needs_a_person, running_condition};
use crate::memo::{Memo, Source};
use crate::notes::{Note, RESTART_ATTEMPTS, SCALED_TO};
use crate::pass::{DeploymentPass, Pass};
use crate::paused;
use crate::plan::{ClusterStep, Plan};
use crate::problem::{Halt, VALIDATION_ERROR, invalid_configuration};
use crate::resource::JobResource;
use crate::transitions::stopping::may_be_cancelled;
use crate::turn::Wait;
use crate::verdict::outcome::VALIDATOR_UNAVAILABLE;
use crate::world::{Job, PodProblem, Question, World};
use api::DEPLOYMENT_FINALIZER;
use api::deployment::{DeploymentMode, FlinkDeployment, FlinkDeploymentSpec};
use api::job::JobState;
use api::reconciled::{ReconciledSpec, deployed};
use api::state_snapshot::JobKind;
use api::status::{JobManagerDeploymentStatus, JobStatusState, ReconciliationState};
use api::version::FlinkVersion;
use config::cluster::{self, ResourceId, is_high_availability_on};
use config::memory::MemorySize;
use config::option::{ConfigOption, InvalidValue};
use config::{FlinkConfig, OperatorConfig, options};

/// How long a start is held up before the cause is reported. A transient one is gone by then.
const HELD_UP_AFTER: SignedDuration = SignedDuration::from_mins(1);

/// What a pass over a deployment finds out in addition to the job.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each found out by itself")]
pub(crate) struct OfCluster {
    /// The Deployment exists, but its other objects may not.
    pub(crate) is_unfinished: bool,
    /// Problem that keeps a pod of the cluster from running.
    pub(crate) pod_problem: Option<PodProblem>,
    /// Why the deployed spec was not ready in time.
    pub(crate) late: Option<String>,
    /// Why nothing follows from the record of the job: it runs again.
    pub(crate) rerun: Option<String>,
    /// The desired spec is being tried.
    pub(crate) is_in_preflight: bool,
    /// Why a requested hot upgrade is not hot.
    pub(crate) cold_because: Option<&'static str>,
    /// Standby pods exist that are not to take over; `None` if that was not looked up.
    pub(crate) standby_is_left: Option<bool>,
    /// Name of the run whose standby pods take over now.
    pub(crate) run: Option<String>,
    /// Reason and message for an upgrade that does not begin.
    pub(crate) waits_for_turn: Option<Wait>,
    /// The JobManager has not listed the job for so long that it no longer knows it.
    pub(crate) is_job_lost: bool,
    /// It is unknown which jobs run in the session cluster. Those that have left for a change do not come back for that.
    pub(crate) are_jobs_unknown: bool,
}

impl JobResource for FlinkDeployment {
    const JOB: JobKind = JobKind::FlinkDeployment;
    const FINALIZER: &'static str = DEPLOYMENT_FINALIZER;
    type Step = ClusterStep;
    type Remembered = ();
    type Source = Source;

    fn may_ask(world: &World<'_>) -> Result<bool, Question> {
        let job_manager = world.job_manager()?;
        let is_up = matches!(job_manager, Ok(Some(found)) if found.available_replicas > 0
            && !found.is_deleting
            && !found.is_stopped);
        let is_ready =
            world.status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready;
        Ok(world.resource.spec.job.is_some() && is_ready && is_up)
    }

    fn decide(world: &World<'_>) -> Result<Plan, Question> {
        Pass::new(world).decide()
    }
}

impl Kind for FlinkDeployment {
    type Own = OfCluster;

    fn observe_config(pass: &DeploymentPass<'_>) -> Result<Arc<FlinkConfig>, Halt> {
        let status = &pass.status.reconciliation_status;
        let last = pass.last.as_ref().map(|last| deployed(status, last));
        let deployed = last.as_ref().map_or(&*pass.spec, |last| &last.spec);
        let (operator, memo) = (pass.world.operator, &pass.world.memo);
        let config = observed_config(operator, &pass.id(), (deployed, &pass.spec), memo);
        config.map_err(|error| Halt::problem(invalid_configuration(&error.to_string())))
    }

    fn spec_stored(pass: &mut DeploymentPass<'_>, state: JobState) {
        pass.status.task_manager = match state {
            JobState::Running => pass.task_manager_info(),
            JobState::Suspended => pass.no_task_managers(),
        };
    }

    fn tidy(pass: &mut DeploymentPass<'_>) {
        if !pass.own.is_in_preflight && !pass.is_cut_short {
            pass.end_preflight();
        }
    }

    fn settle(pass: &mut DeploymentPass<'_>) {
        pass.forget_passed_preflight();
        pass.forget_last_checkpoint();
        let needs_a_person = needs_a_person(&pass.status);
        let state = lifecycle_state(&pass.status, &pass.world.memo, needs_a_person);
        pass.status.lifecycle_state = Some(state);
        let is_application = !pass.is_session();
        let before = std::mem::take(&mut pass.status.conditions);
        let (own, now) = (&pass.own, pass.world.now);
        pass.status.conditions =
            problems(&before, own.pod_problem.as_ref(), own.late.as_deref(), now);
        pass.status
            .conditions
            .splice(0..0, running_condition(&pass.status, &before, is_application, now));
        let waits = pass.upgrade_waits(&before);
        let paused = pass.paused.as_deref().map(|message| paused::condition(&before, message, now));
        pass.status.conditions.extend(waits.into_iter().chain(paused));
    }

    fn has_recovered(pass: &DeploymentPass<'_>) -> bool {
        let status = &pass.status;
        let error = status.error.as_deref().unwrap_or_default();
        let was_invalid = reason_of(error).is_some_and(|reason| {
            [VALIDATION_ERROR, VALIDATOR_UNAVAILABLE, PREFLIGHT_FAILED].contains(&reason.as_str())
        });
        let is_up = status.job_manager_deployment_status != JobManagerDeploymentStatus::Error
            && status.job_status.state != Some(JobStatusState::Failed);
        let is_settled =
            pass.is_stable() || status.reconciliation_status.last_reconciled_spec.is_none();
        let was_late = reason_of(error).as_deref() == Some(READINESS_TIMEOUT);
        let is_running = status.job_status.state == Some(JobStatusState::Running);
        was_invalid || (was_late && is_running) || (is_up && is_settled)
    }

    fn is_held_up(pass: &DeploymentPass<'_>) -> bool {
        let metadata = &pass.world.resource.metadata;
        let created = metadata.creation_timestamp.as_ref();
        let is_young =
            created.is_some_and(|at| pass.world.now.duration_since(at.0) <= HELD_UP_AFTER);
        if metadata.deletion_timestamp.is_some() || is_young || !pass.has_gone_on_for(HELD_UP_AFTER)
        {
            return false;
        }
        let Some(last) = &pass.last else { return true };
        match pass.status.reconciliation_status.state {
            ReconciliationState::Upgrading | ReconciliationState::RollingBack => true,
            ReconciliationState::Deployed | ReconciliationState::RolledBack => {
                let state = pass.status.job_status.state;
                let has_ended = last.job_state() == JobState::Running
                    && state.is_some_and(JobStatusState::is_globally_terminal);
                let is_missing = pass.status.job_manager_deployment_status
                    == JobManagerDeploymentStatus::Missing;
                is_missing && !has_ended && pass.desired_state() == JobState::Running
            }
        }
    }

    fn record_end(pass: &mut DeploymentPass<'_>, job: &Job) -> Result<(), Halt> {
        pass.record_last_state(job)
    }

    fn note_stopped(pass: &mut DeploymentPass<'_>) {
        pass.store_stopped();
    }

    fn is_answering(pass: &DeploymentPass<'_>) -> bool {
        pass.status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready
    }

    fn is_job_over(pass: &DeploymentPass<'_>) -> bool {
        pass.status.job_status.state.is_some_and(JobStatusState::is_globally_terminal)
            || pass.status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing
    }

    fn may_be_cancelled(pass: &DeploymentPass<'_>, job_id: &str) -> Result<bool, Halt> {
        if pass.status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing {
            return Ok(false);
        }
        Ok(may_be_cancelled(&pass.status.job_status, job_id, pass.world.jobs()?))
    }

    fn flink_version(pass: &DeploymentPass<'_>) -> Option<FlinkVersion> {
        pass.last.as_ref().and_then(|last| last.spec.flink_version)
    }

    fn submit_config(
        pass: &DeploymentPass<'_>,
        spec: &FlinkDeploymentSpec,
    ) -> Result<Arc<FlinkConfig>, Halt> {
        pass.deploy_config(spec, pass.generation)
    }

    fn changes(last: &FlinkDeploymentSpec, wanted: &FlinkDeploymentSpec) -> SpecDiff {
        diff(last, wanted)
    }

    fn is_version_changed(one: &FlinkDeploymentSpec, other: &FlinkDeploymentSpec) -> bool {
        one.flink_version != other.flink_version
    }

    fn attempts(pass: &DeploymentPass<'_>) -> Option<Attempts> {
        RESTART_ATTEMPTS.get(&pass.status.cluster_info)
    }

    fn note_attempts(pass: &mut DeploymentPass<'_>, attempts: Option<Attempts>) {
        note(pass, &RESTART_ATTEMPTS, attempts);
    }

    fn has_elastic_slots(pass: &DeploymentPass<'_>) -> bool {
        pass.spec.mode.unwrap_or_default() == DeploymentMode::Native
    }

    fn scaled_to(pass: &DeploymentPass<'_>) -> Option<i64> {
        SCALED_TO.get(&pass.status.cluster_info)
    }

    fn note_scaling(pass: &mut DeploymentPass<'_>, generation: Option<i64>) {
        note(pass, &SCALED_TO, generation);
    }

    fn maintain(pass: &mut DeploymentPass<'_>, last: &ReconciledSpec) -> End {
        pass.maintain(last)
    }
}

/// Returns the configuration of a cluster that runs `deployed` while `wanted` is requested.
///
/// # Errors
/// If an option cannot be read.
pub fn observed_config(
    operator: &OperatorConfig,
    id: &ResourceId,
    (deployed, wanted): (&FlinkDeploymentSpec, &FlinkDeploymentSpec),
    memo: &Memo,
) -> Result<Arc<FlinkConfig>, InvalidValue> {
    let is_it = |source: &Source| {
        matches!(source, Source::Observe { deployed: runs, wanted: next }
            if runs == deployed && **next == *wanted)
    };
    memo.config(is_it, || {
        let config = cluster::observe_config(operator, id, deployed, wanted)?;
        let wanted = Box::new(wanted.clone());
        Ok((Source::Observe { deployed: deployed.clone(), wanted }, config))
    })
}

fn note<T>(pass: &mut DeploymentPass<'_>, note: &Note<T>, value: Option<T>) {
    let info = &mut pass.status.cluster_info;
    match value {
        Some(value) => note.set(info, &value),
        None => drop(note.clear(info)),
    }
}

impl DeploymentPass<'_> {
    pub(crate) fn id(&self) -> ResourceId {
        ResourceId {
            namespace: self.world.namespace().to_owned(),
            name: self.world.name().to_owned(),
            uid: self.world.uid().to_owned(),
        }
    }

    /// Returns the configuration that the spec is submitted with.
    pub(crate) fn deploy_config(
        &self,
        spec: &FlinkDeploymentSpec,
        generation: i64,
    ) -> Result<Arc<FlinkConfig>, Halt> {
        let mode = self.world.resource.spec.job.as_ref().map(|job| job.upgrade_mode);
        let is_it = |source: &Source| {
            matches!(source, Source::Deploy { spec: of, mode: by, generation: at }
                if *at == generation && *by == mode && of == spec)
        };
        let make = || {
            let operator = self.world.operator;
            let config = cluster::deploy_config(operator, &self.id(), spec, mode, generation)?;
            Ok((Source::Deploy { spec: spec.clone(), mode, generation }, config))
        };
        let config = self.world.memo.config(is_it, make);
        config
            .map_err(|error: InvalidValue| Halt::problem(invalid_configuration(&error.to_string())))
    }

    /// Returns true if the desired spec has high availability.
    pub(crate) fn is_high_availability_on(&self) -> Result<bool, Halt> {
        Ok(is_high_availability_on(&*self.deploy_config(&self.spec, self.generation)?))
    }

    /// Records that the job's state is unknown; a session cluster has no job.
    pub(crate) fn set_job_unknown(&mut self) {
        if !self.is_session() {
            self.set_job_state(JobStatusState::Reconciling);
        }
    }

    /// Records that the job ended on request: the stored spec no longer runs.
    pub(crate) fn store_stopped(&mut self) {
        let Some(last) = &self.last else { return };
        let has_state = self.status.job_status.upgrade_savepoint_path.is_some();
        let last = job::stopped(last, has_state);
        self.store_last(last);
    }

    /// Returns `total-cpu` in cores and `total-memory` in bytes, including limits.
    pub(crate) fn totals(&self, task_managers: i64) -> Vec<(String, String)> {
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
}
