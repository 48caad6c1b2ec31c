//! One pass over a `FlinkSessionJob`: observe, validate, reconcile.
//!
//! The job runs in a cluster that is somebody else's: while that cluster is not ready nothing is
//! concluded and nothing is done. A job's id is in the status before anything is uploaded, and a
//! submission whose end is not known is looked for before it is made again, with the same id: so
//! one job never runs twice. Nor is one submitted beside another of the same resource, which its id
//! tells ([`identity`]), whatever the record says. Cancelling is how a job stops with its last checkpoint; HA metadata
//! plays no part.

mod care;
mod deletion;
pub mod identity;
mod kind;
mod observe;
pub mod plan;
mod rewind;
mod rollback;
mod start;
mod stop;
mod submission;
pub mod world;

use std::time::Duration;

use self::plan::{Plan, Step};
use self::world::{Question, World};
use super::application::{self, Problem, VALIDATION_ERROR};
use super::diff::{ChangeClass, diff_session_job};
use super::extension::verdict::Outcome;
use super::job;
use super::pass;
use super::reconciled::running_spec;
use super::validate::session_job::{SessionCluster, SessionJobInput, validate};
use api::SESSION_JOB_FINALIZER;
use api::deployment::FlinkDeployment;
use api::job::JobState;
use api::session_job::FlinkSessionJob;
use api::status::{JobManagerDeploymentStatus, JobStatusState, ReconciliationState};
use api::version::FlinkVersion;

/// Label with the name of the job's cluster, for selectors.
pub const SESSION_LABEL: &str = "target.session";

type Halt = application::Halt<Question>;

/// One pass over a `FlinkSessionJob`.
type Pass<'w> = pass::Pass<'w, FlinkSessionJob>;

/// Decides what to do with a `FlinkSessionJob` now.
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
        self.mark_resource();
        let Some(cluster) = self.world.cluster else { return Ok(self.miss_cluster()) };
        let is_supported =
            |version: Option<FlinkVersion>| version.is_some_and(FlinkVersion::is_supported);
        // The spec may be one that its cluster refused.
        if !is_supported(cluster.spec.flink_version) && !is_supported(self.running_version()) {
            return Ok(self.refuse_version(cluster));
        }
        if self.is_cluster_ready() {
            self.observe()?;
        }
        if let Some(plan) = self.go_to_wanted_cluster() {
            return Ok(plan);
        }
        if let Some(because) = self.validate()? {
            return Ok(self.finish(because, None));
        }
        if !self.is_cluster_ready() {
            let because =
                format!("waiting for the session cluster `{}` to be READY", self.cluster_name());
            return Ok(self.finish(because, Some(self.interval())));
        }
        self.warn_of_schedules();
        self.reconcile()
    }

    /// The finalizer, and the label that users select the jobs of a cluster by.
    fn mark_resource(&mut self) {
        let metadata = &self.world.resource.metadata;
        let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
        if !finalizers.iter().any(|finalizer| finalizer == SESSION_JOB_FINALIZER) {
            self.steps.push(Step::AddFinalizer);
        }
        let label = metadata.labels.as_ref().and_then(|labels| labels.get(SESSION_LABEL));
        let cluster = self.cluster_name();
        if !cluster.is_empty() && label.is_none_or(|label| label != cluster) {
            let cluster = cluster.to_owned();
            self.steps.push(Step::SetSessionLabel { cluster });
        }
    }

    /// The version of Flink that the cluster runs, whatever its user wants by now.
    fn running_version(&self) -> Option<FlinkVersion> {
        let cluster = self.world.cluster?;
        running_spec(cluster).map_or(cluster.spec.flink_version, |spec| spec.flink_version)
    }

    /// The cluster may come later, and its watch wakes the job: nothing but the error is written.
    fn miss_cluster(&mut self) -> Plan {
        let message = format!(
            "the session cluster `{}` does not exist in namespace `{}`: create the \
             FlinkDeployment, or correct `spec.deploymentName`",
            self.cluster_name(),
            self.world.namespace()
        );
        self.refuse_cluster("Missing", MISSING_CLUSTER, message)
    }

    fn refuse_version(&mut self, cluster: &FlinkDeployment) -> Plan {
        let version = cluster.spec.flink_version.map_or("null", FlinkVersion::as_str);
        let message = format!(
            "Flink version {version} of the session cluster `{}` is not supported by this \
             operator version",
            self.cluster_name()
        );
        self.refuse_cluster("UnsupportedFlinkVersion", UNSUPPORTED_CLUSTER, message)
    }

    /// Told by status and event, and gone from the status with its cause.
    fn refuse_cluster(&mut self, reason: &'static str, detail: &str, message: String) -> Plan {
        let detail = Some(detail.to_owned());
        self.problem = Some(Problem { reason, detail, ..Problem::of_resource(message.clone()) });
        self.finish(message, None)
    }

    /// Whether the cluster can be asked and told anything.
    fn is_cluster_ready(&self) -> bool {
        self.world.cluster.and_then(|cluster| cluster.status.as_ref()).is_some_and(|status| {
            status.job_manager_deployment_status == JobManagerDeploymentStatus::Ready
        })
    }

    /// The cluster that the job was deployed to, or else is to go to.
    fn cluster_name(&self) -> &str {
        let deployed = self.last.as_ref().and_then(|last| last.spec.deployment_name.as_deref());
        deployed.or(self.spec.deployment_name.as_deref()).unwrap_or_default()
    }

    /// The first submission never began, and another cluster is wanted now: the next pass is about
    /// that one.
    fn go_to_wanted_cluster(&mut self) -> Option<Plan> {
        let wanted = self.world.resource.spec.deployment_name.as_deref();
        let looked_at = self.world.cluster.and_then(|cluster| cluster.metadata.name.as_deref());
        if self.last.is_some() || wanted == looked_at {
            return None;
        }
        self.status.reconciliation_status.last_reconciled_spec.take()?;
        self.status.job_status.job_id = None;
        let because = "nothing was deployed yet, and another session cluster is wanted";
        Some(self.finish(because, Some(Duration::ZERO)))
    }

    /// Why there is nothing to go on with.
    fn validate(&mut self) -> Result<Option<String>, Halt> {
        let world = self.world;
        let input = SessionJobInput {
            namespace: world.namespace(),
            spec: &world.resource.spec,
            last_reconciled: self.last.as_ref().map(|last| &last.spec),
            // The one that the job is in is not the one to judge a refused edit of its name by.
            cluster: world.cluster.map(SessionCluster::of).filter(|cluster| {
                Some(cluster.name) == world.resource.spec.deployment_name.as_deref()
            }),
            operator: world.operator,
            // The fetch itself keeps to public hosts, and is tried before a job is stopped.
            host: None,
        };
        let mut violations = self.world.memo.violations(input.last_reconciled, || validate(&input));
        let Outcome { violations: of_others, hold } = self.consult()?;
        violations.extend(of_others);
        let because = self.accept(&violations, hold, VALIDATION_ERROR);
        if because.is_some() {
            self.status.reconciliation_status.last_reconciled_spec = None;
            self.status.job_status.job_id = None;
        }
        Ok(because)
    }

    /// What validators outside say. What is reconciled already they are not asked about.
    fn consult(&self) -> Result<Outcome, Halt> {
        let World { now, facts, validators, .. } = self.world;
        if self.last.is_some() && self.world.status.observed_generation == Some(self.generation) {
            return Ok(Outcome::default());
        }
        Ok(validators.judge(self.world.version(), *now, &facts.verdict, Question::Verdict)?)
    }

    fn reconcile(&mut self) -> Result<Plan, Halt> {
        if let Some(plan) = self.heed_set_back_record()? {
            return Ok(plan);
        }
        if let Some(plan) = self.settle_submission()? {
            return Ok(plan);
        }
        let Some(last) = self.last.clone() else { return self.first_deployment() };
        if let Some(trigger_id) = job::pending_stop(&self.status.job_status) {
            return self.go_on_stopping(&last, &trigger_id);
        }
        if self.status.reconciliation_status.state == ReconciliationState::Upgrading {
            if self.status.job_status.state == Some(JobStatusState::Cancelling) {
                return self.wait_for_cancel();
            }
            let diff = diff_session_job(&last.spec, &self.spec);
            if diff.class() == ChangeClass::SavepointRedeploy {
                // Whatever was to be started, its user wants another state now; or the start was
                // refused, and this is the answer.
                return self.redeploy_from_savepoint(&last, &diff);
            }
            if last.is_first_deployment() {
                return self.first_deployment();
            }
            return self.start_again(&last);
        }
        let diff = diff_session_job(&last.spec, &self.spec);
        if self.status.reconciliation_status.state == ReconciliationState::RollingBack {
            return self.go_on_rolling_back(&last, &diff);
        }
        if diff.class() == ChangeClass::Ignore {
            self.forget_failed_stop();
            self.refresh_metadata(&last);
            let last = self.last.clone().unwrap_or(last);
            return self.look_after(&last);
        }
        if let Some(plan) = self.hold_for_savepoint(&last)? {
            return Ok(plan);
        }
        if self.is_back_at_stable() {
            self.store_as_it_runs();
            let because = "the spec is the one that runs since the rollback";
            return Ok(self.finish(because, Some(self.interval())));
        }
        if diff.class() == ChangeClass::SavepointRedeploy {
            return self.redeploy_from_savepoint(&last, &diff);
        }
        if diff.class() == ChangeClass::Scale
            && let Some(plan) = self.scale_in_place(&last)?
        {
            return Ok(plan);
        }
        if last.job_state() == JobState::Running {
            return self.stop(&last, &diff);
        }
        if self.desired_state() == JobState::Running {
            return self.announcing(&diff, |pass| pass.start_again(&last));
        }
        // Suspended before and after: the new spec is what a resume will start.
        self.store_suspended(None);
        Ok(self.finish("the suspended job's spec is updated", Some(self.interval())))
    }
}

/// Machine-readable reasons of a refusal that ends when the cluster is another.
pub(crate) const MISSING_CLUSTER: &str = "SessionClusterMissing";
pub(crate) const UNSUPPORTED_CLUSTER: &str = "UnsupportedFlinkVersion";

fn corrupt_spec(reason: &str) -> Problem {
    Problem::of_resource(format!(
        "status.reconciliationStatus.lastReconciledSpec is not readable ({reason}): the job is left as \
         it is. Restore the field from a backup"
    ))
}

#[cfg(test)]
mod tests;
