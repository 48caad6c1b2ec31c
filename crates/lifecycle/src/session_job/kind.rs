//! The parts of a pass that are specific to `FlinkSessionJob`: its configuration, and the derived fields of its status.

use std::sync::Arc;

use super::leaving::is_ready;
use super::plan::{Plan, SessionJobStep, Step};
use super::world::{Remembered, Tried, World};
use super::{End, MISSING_CLUSTER, Pass, UNSUPPORTED_CLUSTER};
use crate::application::started_with::{NOT_ON_RECORD, on_record};
use crate::attempts::Attempts;
use crate::conditions::UPGRADES_PAUSED;
use crate::diff::{SpecDiff, diff_session_job};
use crate::error_document::refusals::asks_for_state;
use crate::error_document::{LostJob, StoredError, reason_of};
use crate::kind::Kind;
use crate::lifecycle::lifecycle_state;
use crate::problem::{Halt, VALIDATION_ERROR, invalid_configuration};
use crate::resource::JobResource;
use crate::transitions::stopping::may_be_cancelled;
use crate::verdict::outcome::VALIDATOR_UNAVAILABLE;
use crate::world::{Job, Question};
use api::SESSION_JOB_FINALIZER;
use api::job::JobState;
use api::reconciled::{ReconciledJob, running_spec};
use api::session_job::{FlinkSessionJob, FlinkSessionJobSpec};
use api::state_snapshot::JobKind;
use api::status::{JobManagerDeploymentStatus, JobStatusState};
use api::version::FlinkVersion;
use config::FlinkConfig;
use config::cluster::ResourceId;
use config::option::InvalidValue;
use config::session_job::{JobSpecs, job_config};

/// What a pass over a session job finds out in addition to the job.
#[derive(Default)]
pub(crate) struct OfSessionJob {
    /// How the job was lost, if the cluster answers and does not know it.
    pub(super) loss: Option<LostJob>,
}

impl OfSessionJob {
    /// Returns true if the cluster answers and does not know the job, and nothing is started for it.
    pub(super) fn is_lost(&self) -> bool {
        self.loss.is_some()
    }
}

impl JobResource for FlinkSessionJob {
    const JOB: JobKind = JobKind::FlinkSessionJob;
    const FINALIZER: &'static str = SESSION_JOB_FINALIZER;
    type Step = SessionJobStep;
    type Remembered = Remembered;
    type Source = FlinkSessionJobSpec;

    fn may_ask(world: &World<'_>) -> Result<bool, Question> {
        Ok(world.session_cluster.is_some_and(is_ready))
    }

    fn decide(world: &World<'_>) -> Result<Plan, Question> {
        Pass::new(world).decide()
    }
}

impl Kind for FlinkSessionJob {
    type Own = OfSessionJob;

    fn observe_config(pass: &Pass<'_>) -> Result<Arc<FlinkConfig>, Halt> {
        match &pass.last {
            Some(last) => pass.config(&pass.deployed_spec(last)),
            None => pass.config(&pass.spec),
        }
    }

    fn settle(pass: &mut Pass<'_>) {
        if pass.problem.is_none()
            && let Some(loss) = pass.loss_on_record()
        {
            pass.status.error = Some(loss.document());
        }
        let error = pass.status.error.as_deref();
        let needs_a_person =
            StoredError::read(error).lost().is_some() || asks_for_state(error.unwrap_or_default());
        let state = lifecycle_state(&pass.status, &pass.world.memo, needs_a_person);
        pass.status.lifecycle_state = Some(state);
    }

    fn lost(pass: &Pass<'_>) -> Option<LostJob> {
        pass.loss_on_record()
    }

    fn has_recovered(pass: &Pass<'_>) -> bool {
        let error = pass.status.error.as_deref().unwrap_or_default();
        let reason = reason_of(error);
        let was_invalid = matches!(
            reason.as_deref(),
            Some(VALIDATION_ERROR | VALIDATOR_UNAVAILABLE | MISSING_CLUSTER | UNSUPPORTED_CLUSTER)
        );
        let is_failed = pass.status.job_status.state == Some(JobStatusState::Failed);
        let is_settled =
            pass.is_stable() || pass.status.reconciliation_status.last_reconciled_spec.is_none();
        let is_over = match reason.as_deref() {
            // Otherwise it is not known whether they still are.
            Some(UPGRADES_PAUSED) => !pass.is_cut_short,
            _ => was_invalid || (!is_failed && is_settled),
        };
        pass.loss_on_record().is_none() && is_over
    }

    fn record_end(pass: &mut Pass<'_>, job: &Job) -> Result<(), Halt> {
        pass.note_end(job).map_err(|halt| pass.report_unknown_end(halt))
    }

    fn note_stopped(pass: &mut Pass<'_>) {
        pass.note_stopped();
    }

    fn is_answering(pass: &Pass<'_>) -> bool {
        pass.is_cluster_ready() && pass.unreachable.is_none()
    }

    fn is_job_over(pass: &Pass<'_>) -> bool {
        pass.own.is_lost()
            || pass.status.job_status.state.is_some_and(JobStatusState::is_globally_terminal)
            || pass.last.as_ref().is_none_or(|last| last.job_state() == JobState::Suspended)
    }

    fn may_be_cancelled(pass: &Pass<'_>, job_id: &str) -> Result<bool, Halt> {
        if pass.world.session_cluster.is_none() {
            return Ok(false);
        }
        let jobs = if Self::is_answering(pass) { pass.world.jobs()? } else { Err("no answer") };
        Ok(may_be_cancelled(&pass.status.job_status, job_id, jobs))
    }

    fn flink_version(pass: &Pass<'_>) -> Option<FlinkVersion> {
        pass.running_version()
    }

    fn submit_config(
        pass: &Pass<'_>,
        spec: &FlinkSessionJobSpec,
    ) -> Result<Arc<FlinkConfig>, Halt> {
        pass.config(spec)
    }

    fn changes(last: &FlinkSessionJobSpec, wanted: &FlinkSessionJobSpec) -> SpecDiff {
        diff_session_job(last, wanted)
    }

    fn attempts(pass: &Pass<'_>) -> Option<Attempts> {
        pass.world.remembered.tried.restarts
    }

    fn note_attempts(pass: &mut Pass<'_>, restarts: Option<Attempts>) {
        if restarts != pass.world.remembered.tried.restarts {
            pass.steps.push(Step::Own(SessionJobStep::Remember(Tried {
                restarts,
                ..pass.world.remembered.tried
            })));
        }
    }

    /// A standalone cluster has as many TaskManagers as its spec says, which may be enough.
    fn has_elastic_slots(_pass: &Pass<'_>) -> bool {
        true
    }

    fn scaled_to(pass: &Pass<'_>) -> Option<i64> {
        pass.world.remembered.tried.scaled_to
    }

    fn note_scaling(pass: &mut Pass<'_>, generation: Option<i64>) {
        let tried = &pass.world.remembered.tried;
        let is_noted = |step: &Step| {
            let Step::Own(SessionJobStep::Remember(tried)) = step else { return false };
            tried.scaled_to.is_some()
        };
        // Once it has worked, the autoscaler may scale the same generation again.
        if generation.is_some() || tried.scaled_to.is_some() || pass.steps.iter().any(is_noted) {
            let tried = Tried { scaled_to: generation, ..*tried };
            pass.steps.push(Step::Own(SessionJobStep::Remember(tried)));
        }
    }

    fn maintain(pass: &mut Pass<'_>, last: &ReconciledJob) -> End {
        pass.maintain(last)
    }
}

impl Pass<'_> {
    /// Returns how the job was lost, as found by this pass, or by an earlier one if nothing is known of the job since.
    pub(super) fn loss_on_record(&self) -> Option<LostJob> {
        let is_unknown = self.status.job_status.state == Some(JobStatusState::Reconciling);
        self.own.loss.or_else(|| self.stored_loss().filter(|_| is_unknown))
    }

    /// Returns the loss that the status reports, whatever is known of the job since.
    pub(super) fn stored_loss(&self) -> Option<LostJob> {
        StoredError::read(self.status.error.as_deref()).lost()
    }

    /// Returns the high availability options that the session cluster was started with, or why they are not known. The
    /// job's own options say nothing about its cluster.
    pub(super) fn cluster_started_with(&self) -> Result<Result<FlinkConfig, String>, Halt> {
        let Some(status) = self.world.session_cluster.and_then(|cluster| cluster.status.as_ref())
        else {
            return Ok(Err(NOT_ON_RECORD.to_owned()));
        };
        let is_missing =
            status.job_manager_deployment_status == JobManagerDeploymentStatus::Missing;
        let reason = if is_missing {
            NOT_ON_RECORD
        } else {
            match self.world.deployed_config()? {
                Ok(config) => return Ok(Ok(config.clone())),
                Err(reason) => reason,
            }
        };
        Ok(on_record(&status.cluster_info).ok_or_else(|| reason.to_owned()))
    }

    /// Returns the configuration of `spec` in the cluster as it runs.
    pub(super) fn config(&self, spec: &FlinkSessionJobSpec) -> Result<Arc<FlinkConfig>, Halt> {
        let cluster = self
            .world
            .session_cluster
            .ok_or_else(|| Halt::cannot("the session cluster does not exist"))?;
        let id = ResourceId {
            namespace: self.world.namespace().to_owned(),
            name: cluster.metadata.name.clone().unwrap_or_default(),
            uid: cluster.metadata.uid.clone().unwrap_or_default(),
        };
        let deployed =
            running_spec(cluster).map_err(|error| Halt::cannot(format!("the cluster: {error}")))?;
        let make = || {
            let config = job_config(&JobSpecs {
                operator: self.world.operator,
                cluster: &id,
                deployed_cluster: &deployed,
                current_cluster: &cluster.spec,
                name: self.world.name(),
                deployed: spec,
                current: &self.world.resource.spec,
            })?;
            Ok((spec.clone(), config))
        };
        let config = self.world.memo.config(|known| known == spec, make);
        config
            .map_err(|error: InvalidValue| Halt::problem(invalid_configuration(&error.to_string())))
    }
}
