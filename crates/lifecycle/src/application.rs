//! One pass over a `FlinkDeployment`: observe, validate, reconcile.
//!
//! A pass makes at most one decision that changes the cluster. What it intends is in the status
//! before anything is destroyed or submitted, so that any pass, of any process, can go on from what
//! it finds.

use super::diff::{ChangeClass, diff};
use super::error_document::{Document, ErrorNote, ErrorType, Part};
use super::extension::verdict::{Outcome, Version};
use super::observe::{SOON, foreign_deployment};
use super::pass;
use super::plan::{Component, Plan, Step};
use super::restore::RestorePoint;
use super::validate;
use super::version::{allow_running_version, refuse_old_version};
use super::world::{AnyQuestion, Question, World};
use api::DEPLOYMENT_FINALIZER;
use api::deployment::FlinkDeployment;
use api::job::{JobState, UpgradeMode};
use api::status::{JobStatusState, ReconciliationState};
use config::cluster::{is_high_availability_readable, is_kubernetes_high_availability_on};
use config::option::InvalidValue;
use config::options;

/// Reason of an error that ends with the next valid spec.
pub(super) const VALIDATION_ERROR: &str = "ValidationError";

/// Reason of an error that a plan stopped at; it ends with a plan that is carried out.
pub(super) const NOT_CARRIED_OUT: &str = "NotCarriedOut";

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
    /// By which the next passes know it again.
    pub(super) note: Option<ErrorNote>,
}

impl Problem {
    pub(super) fn new(
        kind: ErrorType,
        reason: &'static str,
        component: Component,
        message: impl Into<String>,
    ) -> Self {
        let message = message.into();
        Self { kind, reason, component, message, detail: None, causes: vec![], note: None }
    }

    pub(super) fn upgrade(reason: &'static str, message: impl Into<String>) -> Self {
        let kind = ErrorType::UpgradeFailure;
        Self::new(kind, reason, Component::JobManagerDeployment, message)
    }

    /// What was to be done was refused; who was to do it has told the event.
    pub(super) fn not_carried_out(message: &str) -> Self {
        let detail = Some(NOT_CARRIED_OUT.to_owned());
        Self { detail, ..Self::of_resource(message) }
    }

    /// Something is wrong with the resource, or with what is said of it.
    pub(super) fn of_resource(message: impl Into<String>) -> Self {
        Self::new(ErrorType::Reconciliation, "Error", Component::Operator, message)
    }

    /// Something is wrong with the job itself.
    pub(super) fn of_job(message: impl Into<String>) -> Self {
        Self::new(ErrorType::Reconciliation, "Error", Component::Job, message)
    }

    /// The problem as it is stored, with what is wrong beside it.
    pub(super) fn document(&self, beside: impl Iterator<Item = Part>) -> Document {
        let Self { kind, reason: _, component: _, message, detail, causes, note } = self.clone();
        Document {
            reason: detail,
            causes: beside.chain(causes.iter().map(Part::from)).collect(),
            ..Document::of(kind, Part { message, note })
        }
    }
}

/// A configuration that cannot be put together.
pub(super) fn invalid_configuration(message: &str) -> Problem {
    Problem { reason: VALIDATION_ERROR, ..Problem::of_resource(message) }
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

impl<Q: AnyQuestion> From<Q> for Halt<Q> {
    fn from(question: Q) -> Self {
        Self::Ask(question)
    }
}

impl<Q> From<InvalidValue> for Halt<Q> {
    fn from(error: InvalidValue) -> Self {
        Self::Cannot(error.to_string())
    }
}

/// One pass over a `FlinkDeployment`.
pub(super) type Pass<'w> = pass::Pass<'w, FlinkDeployment>;

/// Decides what to do with a `FlinkDeployment` now.
///
/// # Errors
/// The question to answer before the decision can be made.
pub fn decide(world: &World<'_>) -> Result<Plan, Question> {
    let mut pass = Pass::new(world);
    let end = pass.run();
    pass.conclude(end)
}

impl Pass<'_> {
    fn run(&mut self) -> Result<Plan, Halt> {
        let metadata = &self.world.resource.metadata;
        if self.is_canary() {
            return Ok(self.leave_canary());
        }
        if metadata.deletion_timestamp.is_some() {
            return self.delete();
        }
        if let Err(error) = self.read_last() {
            return Err(Halt::problem(corrupt_spec(&error.reason)));
        }
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == DEPLOYMENT_FINALIZER) {
            self.steps.push(Step::AddFinalizer);
        }
        self.observe()?;
        if self.last.is_some()
            && let Some(plan) = self.delete_stopped_cluster()?
        {
            return Ok(plan);
        }
        if let Some(because) = self.validate()? {
            return Ok(self.finish(because, None));
        }
        self.warn_of_schedules();
        self.reconcile()
    }

    /// Why there is nothing to go on with.
    fn validate(&mut self) -> Result<Option<String>, Halt> {
        let Outcome { violations, hold } = self.judge()?;
        Ok(self.accept(&violations, hold, self.violation_reason(VALIDATION_ERROR)))
    }

    /// Whether the job keeps no state, by a spec that is carried out. Observing comes first, and a spec
    /// that will be refused drops none.
    pub(super) fn is_stateless_in_force(&self) -> Result<bool, Halt> {
        let is_stateless = self.job().upgrade_mode == UpgradeMode::Stateless;
        if !is_stateless || self.is_stateless_for_certain() {
            return Ok(is_stateless);
        }
        let Outcome { violations, hold } = self.judge()?;
        Ok(violations.is_empty() && hold.is_none())
    }

    /// What is wrong with the spec, and what it waits for to be known.
    fn judge(&self) -> Result<Outcome, Halt> {
        let input = validate::ValidationInput {
            name: self.world.name(),
            namespace: self.world.namespace(),
            spec: &self.world.resource.spec,
            last_reconciled: self.last.as_ref().map(|last| &last.spec),
            operator: self.world.operator,
        };
        let mut violations = self.world.memo.violations(input.last_reconciled, || {
            let mut violations = validate::validate(&input);
            allow_running_version(input.spec, input.last_reconciled, &mut violations);
            violations
        });
        let Outcome { violations: of_others, hold } = self.consult()?;
        violations.extend(of_others);
        Ok(Outcome { violations, hold })
    }

    /// What validators outside say. What is reconciled already they are not asked about.
    fn consult(&self) -> Result<Outcome, Halt> {
        let World { now, facts, validators, .. } = self.world;
        if self.last.is_some() && self.world.status.observed_generation == Some(self.generation) {
            return Ok(Outcome::default());
        }
        let version = Version { generation: self.generation, session: None };
        Ok(validators.judge(version, *now, &facts.verdict, Question::Verdict)?)
    }

    fn reconcile(&mut self) -> Result<Plan, Halt> {
        let Some(last) = self.last.clone() else { return self.first_deployment() };
        if let Some(message) = self.own.rerun.take() {
            return self.refuse_rerun(&last, message);
        }
        if let Some(trigger_id) = self.pending_stop() {
            return self.go_on_stopping(&last, &trigger_id);
        }
        if self.status.reconciliation_status.state == ReconciliationState::Upgrading {
            if self.status.job_status.state == Some(JobStatusState::Cancelling) {
                return self.wait_for_cancel(&last);
            }
            let diff = diff(&last.spec, &self.spec);
            if diff.class() == ChangeClass::SavepointRedeploy {
                // Whatever was to be started, its user wants another state now; or the start was
                // refused, and this is the answer.
                return self.redeploy_from_savepoint(&last, &diff);
            }
            if self.is_session() {
                self.refuse_moved_jobs(&last)?;
                return self.start_session();
            }
            return self.start_again(&last);
        }
        let diff = diff(&last.spec, &self.spec);
        if self.status.reconciliation_status.state == ReconciliationState::RollingBack {
            return self.go_on_rolling_back(&last, &diff);
        }
        if self.own.is_unfinished
            && let Some(plan) = self.finish_cluster(&last, diff.class())?
        {
            return Ok(plan);
        }
        let is_resumed =
            last.job_state() == JobState::Suspended && self.desired_state() == JobState::Running;
        if diff.class() == ChangeClass::Ignore {
            self.forget_failed_stop();
            self.move_ingress(&last, &diff)?;
            let last = self.last.clone().unwrap_or(last);
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
            && let deployed = self.deployed_spec(&last)
            && super::diff::diff(&deployed, &self.spec).class() == ChangeClass::Ignore
        {
            self.beside_ingress(deployed.ingress.as_ref(), |pass| {
                pass.store_as_it_runs();
                Ok(())
            })?;
            let again = if deployed.ingress == self.spec.ingress { self.interval() } else { SOON };
            return Ok(self.finish("the spec is the one that runs since the rollback", Some(again)));
        }
        if self.desired_state() == JobState::Running {
            refuse_old_version(&self.spec)?;
        }
        let ingress = last.spec.ingress.as_ref();
        let scaled = self.beside_ingress(ingress, |pass| pass.scale_task_managers(&last, &diff))?;
        if let Some(plan) = scaled {
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
            && let Some(plan) = self.beside_ingress(ingress, |pass| pass.scale_in_place(&last))?
        {
            return Ok(plan);
        }
        if last.job_state() == JobState::Running {
            return self.stop(&last, &diff);
        }
        if is_resumed {
            return self.announcing(&diff, |pass| pass.start_again(&last));
        }
        // Suspended before and after: the new spec is what a resume will start.
        if self.last_mode() == UpgradeMode::LastState {
            self.refuse_moved_metadata(&last.spec, &self.spec)?;
        }
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
        if self.has_old_pods()? {
            return self.await_pods_of_others();
        }
        if self.is_session() {
            return self.deploy(RestorePoint::Empty, true, false);
        }
        let initial = self.named_state();
        let is_stateless = self.job().upgrade_mode == UpgradeMode::Stateless;
        if self.has_fixed_job_id()? || (initial.is_none() && !is_stateless) {
            self.refuse_left_over_state()?;
        }
        let restore = initial.map_or(RestorePoint::Empty, RestorePoint::Path);
        self.deploy(restore, true, false)
    }

    /// Under the same id Flink would take what was left for the job's own, whatever it is to start
    /// from.
    fn has_fixed_job_id(&self) -> Result<bool, Halt> {
        let config = self.deploy_config(&self.spec, self.generation)?;
        Ok(config.text_of(&options::FIXED_JOB_ID).is_some())
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
        let remedy = if self.has_fixed_job_id()? {
            format!(
                "with `{}` Flink would start from it. Delete {place} to start without it, or leave \
                 the id out",
                options::FIXED_JOB_ID.key()
            )
        } else {
            format!(
                "set `spec.job.initialSavepointPath` to the state to start from, or delete {place} \
                 to start without it"
            )
        };
        match self.world.ha_metadata()? {
            Ok(metadata) if metadata.has_checkpoint => Err(Halt::problem(Problem::upgrade(
                "RestoreFailed",
                format!(
                    "HA metadata with checkpoints of an earlier `{name}` exists, and this resource \
                     has no record of it: {remedy}"
                ),
            ))),
            Ok(_) => Ok(()),
            Err(reason) => Err(Halt::cannot(format!("HA metadata cannot be read: {reason}"))),
        }
    }
}

fn corrupt_spec(reason: &str) -> Problem {
    Problem::of_resource(format!(
        "status.reconciliationStatus.lastReconciledSpec is not readable ({reason}): the cluster is \
         left as it is. Restore the field from a backup, or take a savepoint, delete this resource \
         with `--cascade=orphan` and create it again with `spec.job.initialSavepointPath`"
    ))
}

fn lost_status(name: &str) -> Problem {
    let message = format!(
        "the JobManager Deployment `{name}` runs already, but the status that describes it is lost: \
         nothing is touched. Restore the status from a backup, or take a savepoint of each job, \
         delete the Deployment and set `initialSavepointPath`"
    );
    Problem { component: Component::JobManagerDeployment, ..Problem::of_resource(message) }
}
