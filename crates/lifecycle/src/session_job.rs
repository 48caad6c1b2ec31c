//! One pass over a `FlinkSessionJob`: observe, validate, reconcile.
//!
//! The job runs in a cluster that belongs to another resource: while that cluster is not ready, nothing is concluded
//! and nothing is done. A job's id is in the status before anything is uploaded. A submission with an unknown outcome
//! is looked for before it is repeated with the same id, so that a job never runs twice. Nor is a job submitted while
//! another one of the same resource, recognisable by its id ([`identity`]), runs, whatever the record says. A job stops
//! with its last checkpoint by being cancelled; HA metadata plays no part.

mod deletion;
mod etcd_restore;
pub mod identity;
mod kind;
pub mod leaving;
mod maintain;
mod observe;
pub mod plan;
mod rollback;
mod start;
mod stop;
mod submission;
mod turn;
pub mod world;

use std::time::Duration;

use self::plan::{Plan, SessionJobStep, Step};
use self::world::World;
use super::diff::SpecDiff;
use super::kind::Lifecycle;
use super::pass;
use super::problem::{Halt, Problem, VALIDATION_ERROR};
use super::reconcile::RETURNED;
use super::verdict::outcome::Outcome;
use super::world::Question;
use crate::phase::Phase;
use crate::wait::Awaited;
use api::deployment::FlinkDeployment;
use api::job::UpgradeMode;
use api::reconciled::{ReconciledJob, running_spec};
use api::session_job::FlinkSessionJob;
use api::status::ReconciliationState;
use api::version::FlinkVersion;
use validation::session_job::{SessionCluster, SessionJobInput, validate};

/// Label with the name of the job's cluster, for selectors.
pub const SESSION_LABEL: &str = "target.session";

type End = super::kind::End<FlinkSessionJob>;
type Maybe = super::kind::Maybe<FlinkSessionJob>;

/// One pass over a `FlinkSessionJob`.
type Pass<'w> = pass::Pass<'w, FlinkSessionJob>;

impl Pass<'_> {
    /// Sets the label by which users select the jobs of a cluster.
    fn label_resource(&mut self) {
        let metadata = &self.world.resource.metadata;
        let label = metadata.labels.as_ref().and_then(|labels| labels.get(SESSION_LABEL));
        let cluster = self.cluster_name();
        if !cluster.is_empty() && label.is_none_or(|label| label != cluster) {
            let cluster = cluster.to_owned();
            self.steps.push(Step::Own(SessionJobStep::SetSessionLabel { cluster }));
        }
    }

    /// Returns the Flink version that the cluster runs, even if its spec has changed since.
    fn running_version(&self) -> Option<FlinkVersion> {
        let cluster = self.world.session_cluster?;
        running_spec(cluster).map_or(cluster.spec.flink_version, |spec| spec.flink_version)
    }

    /// Reports the missing cluster. It may be created later, and its watch triggers a pass for the job: only the error
    /// is written.
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
        let version = cluster.spec.flink_version.map_or("null", |it| it.into_str());
        let message = format!(
            "Flink version {version} of the session cluster `{}` is not supported by this \
             operator version",
            self.cluster_name()
        );
        self.refuse_cluster("UnsupportedFlinkVersion", UNSUPPORTED_CLUSTER, message)
    }

    /// Reports why the cluster is refused by status and event. The error is cleared once its cause is gone.
    fn refuse_cluster(&mut self, reason: &'static str, detail: &str, message: String) -> Plan {
        let detail = Some(detail.to_owned());
        self.problem = Some(Problem { reason, detail, ..Problem::of_resource(message.clone()) });
        self.rest(message, None)
    }

    /// Returns true if the cluster accepts requests.
    fn is_cluster_ready(&self) -> bool {
        self.world.session_cluster.is_some_and(leaving::is_ready)
    }

    /// Returns the cluster that the job was deployed to, or else will be.
    fn cluster_name(&self) -> &str {
        let deployed = self.last.as_ref().and_then(|last| last.spec.deployment_name.as_deref());
        deployed.or(self.spec.deployment_name.as_deref()).unwrap_or_default()
    }

    /// Switches to the desired cluster if the first submission never began. The next pass is about that cluster.
    fn go_to_wanted_cluster(&mut self) -> Option<Plan> {
        let wanted = self.world.resource.spec.deployment_name.as_deref();
        let looked_at =
            self.world.session_cluster.and_then(|cluster| cluster.metadata.name.as_deref());
        if self.last.is_some() || wanted == looked_at {
            return None;
        }
        self.status.reconciliation_status.last_reconciled_spec.take()?;
        self.status.job_status.job_id = None;
        let because = "nothing was deployed yet, and the spec now names another session cluster";
        Some(self.go_on(because, Duration::ZERO))
    }

    /// Validates the spec; returns why there is nothing to continue with.
    fn validate(&mut self) -> Result<Option<String>, Halt> {
        let world = self.world;
        let input = SessionJobInput {
            namespace: world.namespace(),
            spec: &world.resource.spec,
            last_reconciled: self.last.as_ref().map(|last| &last.spec),
            // A refused edit of the cluster's name must not be validated against the cluster that the job is in.
            cluster: world.session_cluster.map(SessionCluster::of).filter(|cluster| {
                Some(cluster.name) == world.resource.spec.deployment_name.as_deref()
            }),
            operator: world.operator,
            // The fetch itself accepts public hosts only, and is tried before a job is stopped.
            host: None,
        };
        let mut violations = self.world.memo.violations(input.last_reconciled, || validate(&input));
        let Outcome { violations: of_others, hold } = self.consult()?;
        violations.extend(of_others);
        let because = self.accept(&violations, hold, VALIDATION_ERROR);
        if because.is_some() {
            self.enter(Phase::New);
            self.status.job_status.job_id = None;
        }
        Ok(because)
    }

    /// Asks the external validators, except about a spec that was already reconciled.
    fn consult(&self) -> Result<Outcome, Halt> {
        let World { now, facts, validators, .. } = self.world;
        if self.last.is_some() && self.world.status.observed_generation == Some(self.generation) {
            return Ok(Outcome::default());
        }
        Ok(validators.judge(self.world.version(), *now, &facts.verdict, Question::Verdict)?)
    }
}

impl Lifecycle for FlinkSessionJob {
    fn enter_deletion(pass: &mut Pass<'_>, begins: bool) -> Result<(), Halt> {
        pass.keep_in_mind_set_back_record();
        if begins {
            pass.forget_cancel_of_upgrade();
        }
        Ok(())
    }

    fn delete(pass: &mut Pass<'_>) -> End {
        pass.delete()
    }

    fn unreadable(reason: &str) -> Problem {
        Problem::of_resource(format!(
            "status.reconciliationStatus.lastReconciledSpec is not readable ({reason}): the job is left as \
             it is. Restore the field from a backup"
        ))
    }

    fn observe(pass: &mut Pass<'_>) -> Maybe {
        if pass.paused.is_none() {
            pass.label_resource();
        }
        let Some(cluster) = pass.world.session_cluster else {
            return Ok(Some(pass.miss_cluster()));
        };
        let is_supported =
            |version: Option<FlinkVersion>| version.is_some_and(FlinkVersion::is_supported);
        // The spec may be one that its cluster refused.
        if !is_supported(cluster.spec.flink_version) && !is_supported(pass.running_version()) {
            return Ok(Some(pass.refuse_version(cluster)));
        }
        if pass.is_cluster_ready() {
            pass.observe()?;
        }
        if pass.paused.is_some() {
            return Ok(None);
        }
        Ok(pass.go_to_wanted_cluster())
    }

    fn validate(pass: &mut Pass<'_>) -> Maybe {
        if let Some(because) = pass.validate()? {
            return Ok(Some(pass.rest(because, None)));
        }
        if pass.is_cluster_ready() {
            return Ok(None);
        }
        let because =
            format!("waiting for the session cluster `{}` to be READY", pass.cluster_name());
        Ok(Some(pass.wait_for(Awaited::SessionCluster, because, pass.interval())))
    }

    fn settle_record(pass: &mut Pass<'_>) -> Maybe {
        match pass.settle_set_back_record()? {
            Some(plan) => Ok(Some(plan)),
            None => pass.settle_submission(),
        }
    }

    fn deploy(pass: &mut Pass<'_>) -> End {
        pass.first_deployment()
    }

    fn stopped(pass: &mut Pass<'_>) -> End {
        // If the id were kept, the Java operator would take the ended job for the new one.
        pass.status.job_status.job_id = None;
        Ok(pass.succeed_later(UpgradeMode::Savepoint))
    }

    fn start(pass: &mut Pass<'_>, last: &ReconciledJob) -> End {
        let is_starting = pass.status.reconciliation_status.state == ReconciliationState::Upgrading;
        if is_starting && last.is_first_deployment() {
            return pass.first_deployment();
        }
        pass.start_again(last)
    }

    fn continue_rollback(pass: &mut Pass<'_>, last: &ReconciledJob, diff: &SpecDiff) -> End {
        pass.continue_rollback(last, diff)
    }

    fn maintain_or_roll_back(pass: &mut Pass<'_>, last: &ReconciledJob) -> End {
        pass.maintain(last)
    }

    fn return_to_stable(pass: &mut Pass<'_>, _last: &ReconciledJob) -> Maybe {
        if !pass.is_back_at_stable() {
            return Ok(None);
        }
        pass.store_as_it_runs();
        Ok(Some(pass.rest(RETURNED, Some(pass.interval()))))
    }

    fn scale(pass: &mut Pass<'_>, last: &ReconciledJob, diff: &SpecDiff) -> Maybe {
        pass.scale_in_place(last, diff)
    }

    fn redeploy(pass: &mut Pass<'_>, last: &ReconciledJob, diff: &SpecDiff) -> End {
        pass.redeploy_from_savepoint(last, diff)
    }

    fn stop(pass: &mut Pass<'_>, last: &ReconciledJob, diff: &SpecDiff) -> End {
        pass.stop(last, diff)
    }
}

/// Machine-readable reasons of a refusal that ends when the cluster changes.
pub(crate) const MISSING_CLUSTER: &str = "SessionClusterMissing";
pub(crate) const UNSUPPORTED_CLUSTER: &str = "UnsupportedFlinkVersion";

#[cfg(test)]
mod tests;
