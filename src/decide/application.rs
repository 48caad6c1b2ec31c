//! One pass over a `FlinkDeployment`: observe, validate, reconcile.
//!
//! A pass makes at most one decision that changes the cluster. What it intends is in the status
//! before anything is destroyed or submitted, so that any pass, of any process, can go on from what
//! it finds.

use std::time::Duration;

use super::blocker::Blocker;
use super::diff::{ChangeClass, diff};
use super::error_document::ErrorType;
use super::observe::{SOON, foreign_deployment};
use super::plan::{Component, Plan, Step};
use super::reconciled::ReconciledSpec;
use super::restore::RestorePoint;
use super::validate;
use super::version::refuse_old_version;
use super::world::{PodProblem, Question, World};
use crate::api::deployment::FlinkDeploymentSpec;
use crate::api::job::{JobState, UpgradeMode};
use crate::api::status::{DeploymentStatus, JobStatusState, ReconciliationState};
use crate::api::{CANARY_LABEL, DEPLOYMENT_FINALIZER};
use crate::config::cluster::{is_high_availability_readable, is_kubernetes_high_availability_on};
use crate::config::option::InvalidValue;

/// Reason of an error that ends with the next valid spec.
pub(super) const VALIDATION_ERROR: &str = "ValidationError";

/// Longest pause while something waits for a person.
const PROBLEM_INTERVAL_MAX: Duration = Duration::from_secs(15);

/// Something that is wrong and is told to the user: status, event and log say the same.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) kind: ErrorType,
    /// Reason of the event.
    pub(super) reason: &'static str,
    pub(super) component: Component,
    pub(super) message: String,
    /// Machine-readable detail, such as Kubernetes' reason.
    pub(super) detail: Option<String>,
    pub(super) causes: Vec<String>,
}

impl Problem {
    pub(super) fn upgrade(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind: ErrorType::UpgradeFailure,
            reason,
            component: Component::JobManagerDeployment,
            message: message.into(),
            detail: None,
            causes: vec![],
        }
    }
}

/// Why a pass ends early.
#[derive(Debug)]
pub(super) enum Halt<Q = Question> {
    Ask(Q),
    /// Something cannot be read now; nothing is changed.
    Cannot(String),
    /// Something is wrong; nothing but the status is changed.
    Problem(Box<Problem>),
}

impl<Q> Halt<Q> {
    pub(super) fn cannot(because: impl Into<String>) -> Self {
        Self::Cannot(because.into())
    }

    pub(super) fn problem(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

impl From<Question> for Halt {
    fn from(question: Question) -> Self {
        Self::Ask(question)
    }
}

impl<Q> From<InvalidValue> for Halt<Q> {
    fn from(error: InvalidValue) -> Self {
        Self::Cannot(error.to_string())
    }
}

/// The state of one pass.
pub(super) struct Pass<'w> {
    pub(super) world: &'w World<'w>,
    pub(super) status: DeploymentStatus,
    pub(super) steps: Vec<Step>,
    pub(super) last: Option<ReconciledSpec>,
    /// The spec to bring about: the user's, or the last good one while the user's is invalid.
    pub(super) spec: FlinkDeploymentSpec,
    /// Generation of `spec`.
    pub(super) generation: i64,
    pub(super) problem: Option<Problem>,
    /// Why the JobManager's REST API does not answer.
    pub(super) unreachable: Option<String>,
    /// The job was asked to cancel, and its JobManager does not know of it.
    pub(super) is_cancel_lost: bool,
    /// The Deployment exists, and what belongs beside it may not.
    pub(super) is_cluster_unfinished: bool,
    /// What keeps a pod of the cluster from running.
    pub(super) pod_problem: Option<PodProblem>,
    /// Why the deployed spec did not get ready in time.
    pub(super) late: Option<String>,
    /// Why the job that runs does not count as stable yet.
    pub(super) unproven: Option<String>,
    /// The longest pause before the next look, beside what the plan itself asks for.
    pub(super) wake: Option<Duration>,
    /// What the deletion waits for.
    pub(super) blocker: Option<Box<Blocker>>,
}

/// Decides what to do with a `FlinkDeployment` now.
///
/// # Errors
/// The question to answer before the decision can be made.
pub fn decide(world: &World<'_>) -> Result<Plan, Question> {
    let mut pass = Pass::new(world);
    match pass.run() {
        Ok(plan) => Ok(plan),
        Err(Halt::Ask(question)) => Err(question),
        Err(Halt::Cannot(because)) => Ok(pass.finish(because, Some(SOON))),
        Err(Halt::Problem(problem)) => {
            let because = problem.message.clone();
            pass.problem = Some(*problem);
            // A repair of the status wakes nobody, so it is looked for.
            let interval = pass.interval().min(PROBLEM_INTERVAL_MAX);
            Ok(pass.finish(because, Some(interval)))
        }
    }
}

impl<'w> Pass<'w> {
    fn new(world: &'w World<'w>) -> Self {
        Self {
            world,
            status: world.status.clone(),
            steps: Vec::new(),
            last: None,
            spec: world.resource.spec.clone(),
            generation: world.generation(),
            problem: None,
            unreachable: None,
            is_cancel_lost: false,
            is_cluster_unfinished: false,
            pod_problem: None,
            late: None,
            unproven: None,
            wake: None,
            blocker: None,
        }
    }

    fn run(&mut self) -> Result<Plan, Halt> {
        let metadata = &self.world.resource.metadata;
        let label = metadata.labels.as_ref().and_then(|labels| labels.get(CANARY_LABEL));
        if label.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(self.leave_canary());
        }
        if metadata.deletion_timestamp.is_some() {
            return self.delete();
        }
        if let Some(text) = &self.status.reconciliation_status.last_reconciled_spec {
            match ReconciledSpec::parse(text) {
                Ok(last) => self.last = Some(last),
                Err(error) => return Err(Halt::problem(corrupt_spec(&error.reason))),
            }
        }
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == DEPLOYMENT_FINALIZER) {
            self.steps.push(Step::AddFinalizer);
        }
        self.observe()?;
        if !self.validate() {
            return Ok(self.finish("the spec is invalid and nothing was deployed yet", None));
        }
        self.warn_of_unsupported();
        self.reconcile()
    }

    /// Whether to go on. An invalid edit never touches a running job: the last good spec stays.
    fn validate(&mut self) -> bool {
        let input = validate::ValidationInput {
            name: self.world.name(),
            namespace: self.world.namespace(),
            spec: &self.world.resource.spec,
            last_reconciled: self.last.as_ref().map(|last| &last.spec),
            operator: self.world.operator,
        };
        let mut violations = validate::validate(&input);
        self.allow_running_version(&mut violations);
        if violations.is_empty() {
            return true;
        }
        let message = violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        self.problem = Some(Problem {
            kind: ErrorType::Reconciliation,
            reason: self.violation_reason(VALIDATION_ERROR),
            component: Component::Operator,
            message,
            detail: Some(VALIDATION_ERROR.to_owned()),
            causes: vec![],
        });
        let Some(last) = &self.last else { return false };
        self.spec = super::job::in_force(&last.spec, &self.world.resource.spec);
        let state = self.status.reconciliation_status.state;
        if let Some(job) = &mut self.spec.job
            && matches!(state, ReconciliationState::Upgrading | ReconciliationState::RollingBack)
        {
            job.state = JobState::Running;
        }
        self.generation = self.status.observed_generation.unwrap_or(self.generation);
        true
    }

    fn reconcile(&mut self) -> Result<Plan, Halt> {
        let Some(last) = self.last.clone() else { return self.first_deployment() };
        if self.is_cluster_unfinished {
            let objects = self.render_deployed(&last.spec)?;
            self.steps.push(Step::FinishCluster(Box::new(objects)));
            return Ok(self.finish("the JobManager was created already", Some(SOON)));
        }
        if let Some(trigger_id) = self.pending_stop() {
            return self.go_on_stopping(&last, &trigger_id);
        }
        if self.status.reconciliation_status.state == ReconciliationState::Upgrading {
            if self.status.job_status.state == Some(JobStatusState::Cancelling) {
                if self.is_cancel_lost {
                    let job_id = self.job_id()?;
                    self.steps.push(Step::CancelJob { job_id, is_best_effort: false });
                }
                return Ok(self.finish("waiting for the job to be cancelled", Some(SOON)));
            }
            return if self.is_session() { self.start_session() } else { self.start_again(&last) };
        }
        let deployed = self.deployed_spec(&last);
        let diff = diff(&last.spec, &self.spec);
        if self.status.reconciliation_status.state == ReconciliationState::RollingBack {
            return self.go_on_rolling_back(&last, &diff);
        }
        let is_resumed =
            last.job_state() == JobState::Suspended && self.desired_state() == JobState::Running;
        if diff.class() == ChangeClass::Ignore {
            self.refresh_metadata(&last);
            let last = self.last.clone().unwrap_or(last);
            if let Some(plan) = self.roll_back_if_due(&last)? {
                return Ok(plan);
            }
            return self.look_after(&last);
        }
        if let Some(plan) = self.hold_for_savepoint(&last)? {
            return Ok(plan);
        }
        if self.status.reconciliation_status.state == ReconciliationState::RolledBack
            && super::diff::diff(&deployed, &self.spec).class() == ChangeClass::Ignore
        {
            // What runs was started as the rollback noted, whatever the user would have it now.
            self.store_deployed(
                self.stored(JobState::Running, self.last_mode(), false),
                ReconciliationState::Deployed,
            );
            return Ok(self.finish(
                "the spec is the one that runs since the rollback",
                Some(self.interval()),
            ));
        }
        if self.desired_state() == JobState::Running {
            refuse_old_version(&self.spec)?;
        }
        if let Some(plan) = self.scale_task_managers(&last, &diff)? {
            return Ok(plan);
        }
        if self.is_session() {
            return self.replace_session(&last, &diff);
        }
        if diff.class() == ChangeClass::SavepointRedeploy {
            return self.redeploy_from_savepoint(&last, &diff);
        }
        if diff.class() == ChangeClass::Scale
            && !self.is_standalone()
            && let Some(plan) = self.scale_in_place(&last)?
        {
            return Ok(plan);
        }
        if last.job_state() == JobState::Running {
            return self.stop(&last, &diff);
        }
        if is_resumed {
            self.announce(&diff);
            return self.start_again(&last);
        }
        // Suspended before and after: the new spec is what a resume will start.
        self.store_suspended(last.spec.job.as_ref().map(|job| job.upgrade_mode));
        Ok(self.finish("the suspended job's spec is updated", Some(self.interval())))
    }

    fn first_deployment(&mut self) -> Result<Plan, Halt> {
        if self.desired_state() == JobState::Suspended {
            return Ok(
                self.finish("created suspended: waiting to be resumed", Some(self.interval()))
            );
        }
        if let Some(job_manager) = self.read_job_manager()? {
            if job_manager.owner_uid.as_deref() != Some(self.world.uid()) {
                return Err(Halt::problem(foreign_deployment(self.world.name())));
            }
            return Err(Halt::problem(lost_status(self.world.name())));
        }
        if let Some(plan) = self.wait_for_old_task_managers()? {
            return Ok(plan);
        }
        if self.is_session() {
            return self.deploy(RestorePoint::Empty, true, false);
        }
        let initial =
            self.job().initial_savepoint_path.clone().filter(|path| !path.trim().is_empty());
        if initial.is_none() && self.job().upgrade_mode != UpgradeMode::Stateless {
            self.refuse_left_over_state()?;
        }
        let restore = initial.map_or(RestorePoint::Empty, RestorePoint::Path);
        self.deploy(restore, true, false)
    }

    /// A stateful job must not start empty beside HA metadata that somebody left under its name.
    fn refuse_left_over_state(&self) -> Result<(), Halt> {
        let config = self.deploy_config(&self.spec, self.generation)?;
        // Elsewhere it cannot be looked for; the new job's id is new, so nothing is overwritten.
        if !is_high_availability_readable(&config) {
            return Ok(());
        }
        let name = self.world.name();
        let place = if is_kubernetes_high_availability_on(&config) {
            format!("the ConfigMaps `{name}-*-config-map`")
        } else {
            format!("the node `{name}` in ZooKeeper")
        };
        match self.world.ha_metadata()? {
            Ok(metadata) if metadata.has_checkpoint => Err(Halt::problem(Problem::upgrade(
                "RestoreFailed",
                format!(
                    "HA metadata with checkpoints of an earlier `{name}` exists, and this resource \
                     has no record of it: set `spec.job.initialSavepointPath` to the state to start \
                     from, or delete {place} to start without it"
                ),
            ))),
            Ok(_) => Ok(()),
            Err(reason) => Err(Halt::cannot(format!("HA metadata cannot be read: {reason}"))),
        }
    }
}

fn corrupt_spec(reason: &str) -> Problem {
    Problem {
        kind: ErrorType::Reconciliation,
        reason: "Error",
        component: Component::Operator,
        message: format!(
            "status.reconciliationStatus.lastReconciledSpec is not readable ({reason}): the \
             cluster is left as it is. Restore the field from a backup, or take a savepoint, \
             delete this resource with `--cascade=orphan` and create it again with \
             `spec.job.initialSavepointPath`"
        ),
        detail: None,
        causes: vec![],
    }
}

fn lost_status(name: &str) -> Problem {
    Problem {
        kind: ErrorType::Reconciliation,
        reason: "Error",
        component: Component::JobManagerDeployment,
        message: format!(
            "the JobManager Deployment `{name}` runs already, but the status that describes it is \
             lost: nothing is touched. Restore the status from a backup, or take a savepoint of each \
             job, delete the Deployment and set `initialSavepointPath`"
        ),
        detail: None,
        causes: vec![],
    }
}
