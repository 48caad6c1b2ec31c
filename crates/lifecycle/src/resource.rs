//! Resources that have a job, `FlinkDeployment` and `FlinkSessionJob`, as seen by the code they share.

use std::fmt::Debug;

use kube_core::Resource;
use kube_core::object::{HasSpec, HasStatus};

use super::plan::PlanOf;
use super::status_texts::StatusTexts;
use super::world::{Question, World};
use api::reconciled::StoredSpec;
use api::state_snapshot::JobKind;
use api::status::{Condition, JobStatus, LifecycleState, ReconciliationStatus};

/// A kind of resource that has a job.
pub trait JobResource:
    Resource<DynamicType = ()>
    + HasSpec<Spec: StoredSpec + PartialEq>
    + HasStatus<Status: StatusOfJob>
    + Clone
    + Debug
{
    const JOB: JobKind;
    const FINALIZER: &'static str;
    /// A step that exists only for this kind.
    type Step: OwnStep;
    /// Facts about a resource of this kind that this process remembers and that have no place in a status.
    type Remembered: Clone + Debug + Default;
    /// Everything that a configuration is built from, apart from what is the same for a whole pass.
    type Source: Debug;

    /// Returns true if the JobManager can be asked for the job.
    ///
    /// # Errors
    /// The question to answer before that is known.
    fn may_ask(world: &World<'_, Self>) -> Result<bool, Question>;

    /// Decides what to do now.
    ///
    /// # Errors
    /// The question to answer before the decision can be made.
    fn decide(world: &World<'_, Self>) -> Result<PlanOf<Self>, Question>;
}

/// A step that exists only for one kind of resource.
pub trait OwnStep: Clone + Debug + PartialEq {
    /// Returns its name for logs.
    fn name(&self) -> &'static str;
}

/// The parts of a status that every resource with a job has.
pub trait StatusOfJob: StatusTexts + Clone + Debug + Default + PartialEq {
    fn job(&self) -> &JobStatus;
    fn job_mut(&mut self) -> &mut JobStatus;
    fn reconciliation(&self) -> &ReconciliationStatus;
    fn reconciliation_mut(&mut self) -> &mut ReconciliationStatus;
    fn error(&self) -> Option<&str>;
    fn set_error(&mut self, error: Option<String>);
    fn observed_generation(&self) -> Option<i64>;
    fn set_observed_generation(&mut self, generation: i64);
    fn lifecycle_state(&self) -> Option<LifecycleState>;
    fn set_lifecycle_state(&mut self, state: LifecycleState);
    /// The conditions; `None` if the kind has none.
    fn conditions(&self) -> Option<&Vec<Condition>>;
    fn conditions_mut(&mut self) -> Option<&mut Vec<Condition>>;
}

macro_rules! status_of_job {
    ($($status:ty $(: $conditions:ident)?),* $(,)?) => {$(
        impl StatusOfJob for $status {
            fn job(&self) -> &JobStatus {
                &self.job_status
            }

            fn job_mut(&mut self) -> &mut JobStatus {
                &mut self.job_status
            }

            fn reconciliation(&self) -> &ReconciliationStatus {
                &self.reconciliation_status
            }

            fn reconciliation_mut(&mut self) -> &mut ReconciliationStatus {
                &mut self.reconciliation_status
            }

            fn error(&self) -> Option<&str> {
                self.error.as_deref()
            }

            fn set_error(&mut self, error: Option<String>) {
                self.error = error;
            }

            fn observed_generation(&self) -> Option<i64> {
                self.observed_generation
            }

            fn set_observed_generation(&mut self, generation: i64) {
                self.observed_generation = Some(generation);
            }

            fn lifecycle_state(&self) -> Option<LifecycleState> {
                self.lifecycle_state
            }

            fn set_lifecycle_state(&mut self, state: LifecycleState) {
                self.lifecycle_state = Some(state);
            }

            fn conditions(&self) -> Option<&Vec<Condition>> {
                None$(.or(Some(&self.$conditions)))?
            }

            fn conditions_mut(&mut self) -> Option<&mut Vec<Condition>> {
                None$(.or(Some(&mut self.$conditions)))?
            }
        }
    )*};
}

status_of_job!(
    api::status::DeploymentStatus: conditions,
    api::session_job::SessionJobStatus,
);
