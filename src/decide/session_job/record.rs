//! What a pass writes down: stored specs, the job's state, errors, and the end of the plan.

use std::time::Duration;

use super::plan::{Plan, Step, Superseded};
use super::{Halt, Pass};
use crate::api::job::{JobSpec, JobState, UpgradeMode};
use crate::api::session_job::FlinkSessionJobSpec;
use crate::api::status::{JobStatusState, LifecycleState, ReconciliationState};
use crate::config::cluster::ResourceId;
use crate::config::session_job::{JobSpecs, job_config};
use crate::config::{FlinkConfig, options};
use crate::decide::application::{Problem, VALIDATION_ERROR};
use crate::decide::diff::SpecDiff;
use crate::decide::error_document::{ErrorType, error_document, reason_of};
use crate::decide::job;
use crate::decide::lifecycle::{JOB_NOT_FOUND, session_job_lifecycle_state};
use crate::decide::plan::{Component, Event};
use crate::decide::reconciled::{ReconciledJob, deployed, running_spec};
use crate::decide::restore::RestorePoint;

impl Pass<'_> {
    /// The job of the spec; validation asks for one.
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
    pub(super) fn deployed_spec(&self, last: &ReconciledJob) -> FlinkSessionJobSpec {
        deployed(&self.status.reconciliation_status, last).spec
    }

    pub(super) fn job_id(&self) -> Result<String, Halt> {
        job::id(&self.status.job_status).ok_or_else(|| Halt::cannot("the status names no job id"))
    }

    /// The configuration of the job as it runs, with the operator's options as they are wanted now.
    pub(super) fn observe_config(&self) -> Result<FlinkConfig, Halt> {
        let deployed =
            self.last.as_ref().map_or_else(|| self.spec.clone(), |last| self.deployed_spec(last));
        self.config(&deployed)
    }

    /// The configuration of `spec` in the cluster as it runs.
    pub(super) fn config(&self, spec: &FlinkSessionJobSpec) -> Result<FlinkConfig, Halt> {
        let cluster =
            self.world.cluster.ok_or_else(|| Halt::cannot("the session cluster does not exist"))?;
        let id = ResourceId {
            namespace: self.world.namespace().to_owned(),
            name: cluster.metadata.name.clone().unwrap_or_default(),
            uid: cluster.metadata.uid.clone().unwrap_or_default(),
        };
        let deployed =
            running_spec(cluster).map_err(|error| Halt::cannot(format!("the cluster: {error}")))?;
        job_config(&JobSpecs {
            operator: self.world.operator,
            cluster: &id,
            deployed_cluster: &deployed,
            current_cluster: &cluster.spec,
            name: self.world.name(),
            deployed: spec,
            current: &self.world.resource.spec,
        })
        .map_err(|error| Halt::problem(invalid_configuration(&error.to_string())))
    }

    /// `kubernetes.operator.reconcile.interval`.
    pub(super) fn interval(&self) -> Duration {
        self.observe_config()
            .ok()
            .and_then(|config| config.get(&options::RECONCILE_INTERVAL).ok())
            .unwrap_or(Duration::from_mins(1))
    }

    pub(super) fn set_job_state(&mut self, state: JobStatusState) {
        let event = job::set_state(&mut self.status.job_status, state, self.world.now);
        self.steps.extend(event.map(Step::Event));
    }

    pub(super) fn store_last(&mut self, last: ReconciledJob) {
        let reconciliation = &mut self.status.reconciliation_status;
        self.last = Some(job::store(reconciliation, self.last.as_ref(), last));
    }

    /// The wanted spec is about to replace what runs: nothing runs for it yet.
    pub(super) fn store_before_deploy(&mut self, mode: UpgradeMode, is_first: bool) {
        self.store_last(job::stored(&self.spec, JobState::Suspended, mode, is_first));
        self.note_reconciled(ReconciliationState::Upgrading);
    }

    /// The wanted spec runs, or is about to.
    pub(super) fn store_running(&mut self, mode: UpgradeMode, is_first: bool) {
        self.store_last(job::stored(&self.spec, JobState::Running, mode, is_first));
        self.note_reconciled(ReconciliationState::Deployed);
    }

    /// The wanted spec is the one that runs already.
    pub(super) fn store_as_it_runs(&mut self) {
        self.store_last(ReconciledJob::new(self.spec.clone(), false));
        self.note_reconciled(ReconciliationState::Deployed);
    }

    /// The job is stopped and stays so; `mode` says how it was stopped.
    pub(super) fn store_suspended(&mut self, mode: Option<UpgradeMode>) {
        let mode = mode.unwrap_or_else(|| self.last_mode());
        self.store_last(job::stored(&self.spec, JobState::Suspended, mode, false));
        self.note_reconciled(ReconciliationState::Deployed);
        job::mark_stable::<FlinkSessionJobSpec>(&mut self.status.reconciliation_status);
    }

    fn note_reconciled(&mut self, state: ReconciliationState) {
        let reconciliation = &mut self.status.reconciliation_status;
        reconciliation.state = state;
        reconciliation.reconciliation_timestamp = self.world.now.as_millisecond();
        self.status.observed_generation = Some(self.generation);
        self.status.error = None;
    }

    /// A change that needs nothing done is still noted as seen.
    pub(super) fn refresh_metadata(&mut self, last: &ReconciledJob) {
        if self.status.observed_generation == Some(self.generation) {
            return;
        }
        self.status.observed_generation = Some(self.generation);
        let was_stable = self.is_stable();
        self.store_last(job::refreshed(last, &self.spec));
        if was_stable {
            job::mark_stable::<FlinkSessionJobSpec>(&mut self.status.reconciliation_status);
        }
    }

    pub(super) fn is_stable(&self) -> bool {
        job::is_stable::<FlinkSessionJobSpec>(&self.status.reconciliation_status)
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
    pub(super) fn supersede(&mut self, last: &ReconciledJob, restore_point: RestorePoint) {
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
        } else if self.is_job_lost {
            self.status.error = Some(JOB_NOT_FOUND.to_owned());
        } else if self.has_recovered() {
            self.status.error = None;
        }
        self.status.lifecycle_state = Some(session_job_lifecycle_state(&self.status));
    }

    /// Nothing is wrong any more with what the stored error was about.
    fn has_recovered(&self) -> bool {
        let error = self.status.error.as_deref().unwrap_or_default();
        let was_invalid = reason_of(error).as_deref() == Some(VALIDATION_ERROR);
        let state = self.status.job_status.state;
        let is_lost = error == JOB_NOT_FOUND && state == Some(JobStatusState::Reconciling);
        let is_settled =
            self.is_stable() || self.status.reconciliation_status.last_reconciled_spec.is_none();
        was_invalid || (!is_lost && state != Some(JobStatusState::Failed) && is_settled)
    }

    /// The plan as it stands, with its reason.
    pub(super) fn finish(
        &mut self,
        because: impl Into<String>,
        look_again: Option<Duration>,
    ) -> Plan {
        self.settle();
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

    /// The steps so far, and the status as it was; a change of the cluster wakes the job.
    pub(super) fn leave(&mut self, because: impl Into<String>) -> Plan {
        let steps = std::mem::take(&mut self.steps);
        Plan { steps, ..self.untouched(because) }
    }

    pub(super) fn is_marked_deleting(&self) -> bool {
        self.status.lifecycle_state == Some(LifecycleState::Deleting)
    }
}

fn invalid_configuration(message: &str) -> Problem {
    Problem {
        kind: ErrorType::Reconciliation,
        reason: VALIDATION_ERROR,
        component: Component::Operator,
        message: message.to_owned(),
        detail: None,
        causes: vec![],
    }
}
