//! One pass over a `FlinkDeployment`: observe, validate, reconcile.
//!
//! A pass makes at most one decision that changes the cluster. It writes its intent to the status before it destroys or
//! submits anything, so that any later pass, in any process, can continue from what it finds.

pub mod deletion;
pub mod deploy;
pub(crate) mod former_jobs;
pub(crate) mod hand_over;
pub(crate) mod hot;
pub(crate) mod ingress;
pub mod kind;
mod last_checkpoint;
pub mod maintain;
pub mod objects;
pub(crate) mod observe;
pub mod preflight;
pub(crate) mod rerun;
pub mod session;
pub mod started_with;
pub mod task_managers;
pub(crate) mod turn;
pub mod upgrade;
pub mod version;

use super::application::version::{allow_running_version, refuse_old_version};
use super::diff::{ChangeClass, SpecDiff, diff};
use super::event::Component;
use super::job::StopOutcome;
use super::kind::{End, Lifecycle, Maybe};
use super::pass::DeploymentPass;
use super::pauses::SOON;
use super::problem::{Halt, Problem, VALIDATION_ERROR, foreign_deployment};
use super::reconcile::RETURNED;
use super::transitions::restore::HighAvailability;
use super::verdict::outcome::Outcome;
use super::world::{Question, World};
use crate::verdict::Version;
use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use api::job::{JobState, UpgradeMode};
use api::reconciled::ReconciledSpec;
use api::status::JobManagerDeploymentStatus;
use config::cluster::{is_high_availability_readable, is_kubernetes_high_availability_on};
use config::options;
use state::restore_point::RestorePoint;

impl DeploymentPass<'_> {
    /// Returns true if the job keeps no state according to a spec that is in force. The spec is observed before it is
    /// validated, and one that will be refused must not drop state.
    pub(super) fn is_stateless_in_force(&self) -> Result<bool, Halt> {
        let is_stateless = self.job().upgrade_mode == UpgradeMode::Stateless;
        if !is_stateless || self.is_stateless_for_certain() {
            return Ok(is_stateless);
        }
        let Outcome { violations, hold } = self.judge()?;
        Ok(violations.is_empty() && hold.is_none())
    }

    /// Validates the spec; the outcome includes what is not known yet.
    pub(crate) fn judge(&self) -> Result<Outcome, Halt> {
        let input = validation::ValidationInput {
            name: self.world.name(),
            namespace: self.world.namespace(),
            spec: &self.world.resource.spec,
            last_reconciled: self.last.as_ref().map(|last| &last.spec),
            operator: self.world.operator,
        };
        let mut violations = self.world.memo.violations(input.last_reconciled, || {
            let mut violations = validation::validate(&input);
            allow_running_version(input.spec, input.last_reconciled, &mut violations);
            violations
        });
        let Outcome { violations: of_others, hold } = self.consult()?;
        violations.extend(of_others);
        Ok(Outcome { violations, hold })
    }

    /// Asks the external validators, except about a spec that was already reconciled.
    fn consult(&self) -> Result<Outcome, Halt> {
        let World { now, facts, validators, .. } = self.world;
        if self.last.is_some() && self.world.status.observed_generation == Some(self.generation) {
            return Ok(Outcome::default());
        }
        let version = Version { generation: self.generation, session: None };
        Ok(validators.judge(version, *now, &facts.verdict, Question::Verdict)?)
    }

    fn first_deployment(&mut self) -> End {
        if self.desired_state() == JobState::Suspended {
            return Ok(self.rest("created suspended: waiting to be resumed", Some(self.interval())));
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
        self.deploy(self.first_restore_point(), true, false)
    }

    /// Returns true if the job id is fixed in the configuration. Under the same id, Flink would take leftover metadata
    /// for the job's own, whatever it is started from.
    fn has_fixed_job_id(&self) -> Result<bool, Halt> {
        let config = self.deploy_config(&self.spec, self.generation)?;
        Ok(config.text_of(&options::FIXED_JOB_ID).is_some())
    }

    /// Refuses to start if HA metadata is left over under the resource's name. A stateful job must not start empty next
    /// to it.
    fn refuse_left_over_state(&self) -> Result<(), Halt> {
        let config = self.deploy_config(&self.spec, self.generation)?;
        // Elsewhere it cannot be searched for. The new job has a new id, so nothing is overwritten.
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
                "with `{}`, Flink would start from it. Delete {place} to start without it, or \
                 remove the option",
                options::FIXED_JOB_ID.key()
            )
        } else {
            format!(
                "set `spec.job.initialSavepointPath` to the state to start from, or delete {place} \
                 to start without it"
            )
        };
        match self.world.ha_metadata()? {
            Ok(metadata) if metadata.checkpoint.is_some() => Err(Halt::problem(Problem::upgrade(
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

impl Lifecycle for FlinkDeployment {
    fn enter_deletion(pass: &mut DeploymentPass<'_>, begins: bool) -> Result<(), Halt> {
        if begins { pass.record_started_config() } else { Ok(()) }
    }

    fn delete(pass: &mut DeploymentPass<'_>) -> End {
        pass.delete()
    }

    fn unreadable(reason: &str) -> Problem {
        Problem::of_resource(format!(
            "status.reconciliationStatus.lastReconciledSpec is not readable ({reason}): the cluster is \
             left as it is. Restore the field from a backup, or take a savepoint, delete this resource \
             with `--cascade=orphan` and create it again with `spec.job.initialSavepointPath`"
        ))
    }

    fn observe(pass: &mut DeploymentPass<'_>) -> Maybe {
        pass.observe()?;
        if pass.paused.is_some() {
            return Ok(None);
        }
        pass.keep_standby_in_check()?;
        if pass.last.is_some() { pass.delete_stopped_cluster() } else { Ok(None) }
    }

    fn validate(pass: &mut DeploymentPass<'_>) -> Maybe {
        let Outcome { violations, hold } = pass.judge()?;
        let because = pass.accept(&violations, hold, pass.violation_reason(VALIDATION_ERROR));
        if because.is_none() {
            pass.warn_of_unmanaged_ingress();
        }
        Ok(because.map(|because| pass.rest(because, None)))
    }

    fn settle_record(pass: &mut DeploymentPass<'_>) -> Maybe {
        match (pass.last.clone(), pass.own.rerun.take()) {
            (Some(last), Some(message)) => pass.refuse_rerun(&last, message).map(Some),
            (Some(_) | None, _) => Ok(None),
        }
    }

    fn deploy(pass: &mut DeploymentPass<'_>) -> End {
        pass.first_deployment()
    }

    fn unanswered_stop(pass: &DeploymentPass<'_>) -> Option<StopOutcome> {
        pass.unanswered_stop()
    }

    fn continue_without_answer(pass: &mut DeploymentPass<'_>, last: &ReconciledSpec) -> Maybe {
        pass.continue_without_answer(last)
    }

    fn note_lost_stop(pass: &mut DeploymentPass<'_>) {
        if pass.status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing {
            pass.trust_metadata_only();
        }
    }

    fn stopped(pass: &mut DeploymentPass<'_>) -> End {
        pass.take_down_stopped()
    }

    fn start(pass: &mut DeploymentPass<'_>, last: &ReconciledSpec) -> End {
        if pass.is_session() {
            pass.refuse_moved_jobs(last)?;
            return pass.start_session();
        }
        pass.start_again(last)
    }

    fn continue_rollback(
        pass: &mut DeploymentPass<'_>,
        last: &ReconciledSpec,
        diff: &SpecDiff,
    ) -> End {
        pass.continue_rollback(last, diff)
    }

    fn finish_start(
        pass: &mut DeploymentPass<'_>,
        last: &ReconciledSpec,
        diff: &SpecDiff,
    ) -> Maybe {
        if pass.own.is_unfinished { pass.finish_cluster(last, diff.class()) } else { Ok(None) }
    }

    fn apply_ignored(
        pass: &mut DeploymentPass<'_>,
        last: &ReconciledSpec,
        diff: &SpecDiff,
    ) -> Result<(), Halt> {
        pass.move_ingress(last, diff)
    }

    fn maintain_or_roll_back(pass: &mut DeploymentPass<'_>, last: &ReconciledSpec) -> End {
        match pass.roll_back_if_due(last)? {
            Some(plan) => Ok(plan),
            None => pass.maintain(last),
        }
    }

    fn return_to_stable(pass: &mut DeploymentPass<'_>, last: &ReconciledSpec) -> Maybe {
        let runs = pass.deployed_spec(last);
        if diff(&runs, &pass.spec).class() != ChangeClass::Ignore {
            return Ok(None);
        }
        pass.moving_ingress(runs.ingress.as_ref(), |pass| {
            pass.store_as_it_runs();
            Ok(())
        })?;
        let again = if runs.ingress == pass.spec.ingress { pass.interval() } else { SOON };
        Ok(Some(pass.rest(RETURNED, Some(again))))
    }

    fn refuse_version(pass: &DeploymentPass<'_>) -> Result<(), Halt> {
        refuse_old_version(&pass.spec)
    }

    fn scale(pass: &mut DeploymentPass<'_>, last: &ReconciledSpec, diff: &SpecDiff) -> Maybe {
        let ingress = last.spec.ingress.as_ref();
        if pass.is_standalone() {
            return pass.moving_ingress(ingress, |pass| pass.scale_task_managers(last, diff));
        }
        if pass.is_session() {
            return Ok(None);
        }
        pass.moving_ingress(ingress, |pass| pass.scale_in_place(last, diff))
    }

    fn redeploy(pass: &mut DeploymentPass<'_>, last: &ReconciledSpec, diff: &SpecDiff) -> End {
        pass.redeploy_from_savepoint(last, diff)
    }

    fn stop(pass: &mut DeploymentPass<'_>, last: &ReconciledSpec, diff: &SpecDiff) -> End {
        if pass.is_session() { pass.replace_session(last, diff) } else { pass.stop(last, diff) }
    }

    fn metadata_left(
        pass: &DeploymentPass<'_>,
        last: &FlinkDeploymentSpec,
        next: &FlinkDeploymentSpec,
    ) -> Result<HighAvailability, Halt> {
        pass.refuse_moved_metadata(last, next)?;
        let left = pass.high_availability(next)?;
        pass.refuse_older_metadata(&left)?;
        Ok(left)
    }

    fn refuse_edit_of_suspended(
        pass: &DeploymentPass<'_>,
        last: &ReconciledSpec,
    ) -> Result<(), Halt> {
        if pass.last_mode() == UpgradeMode::LastState {
            pass.refuse_moved_metadata(&last.spec, &pass.spec)?;
        }
        Ok(())
    }
}

fn lost_status(name: &str) -> Problem {
    let message = format!(
        "the JobManager Deployment `{name}` is already running, but the status that describes it \
         is lost, so nothing is touched. Restore the status from a backup, or take a savepoint \
         of each job, delete the Deployment and set `initialSavepointPath`"
    );
    Problem { component: Component::JobManagerDeployment, ..Problem::of_resource(message) }
}
