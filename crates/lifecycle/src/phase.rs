//! Where a resource with a job stands, by its stored status alone.
//!
//! [`Phase`] is a total function of what is stored, whoever stored it: this operator, an older version
//! of it, or the Java operator. [`Phase::next`] says which phases a pass may store after it.

use api::deployment::FlinkDeploymentSpec;
use api::job::JobState;
use api::session_job::{FlinkSessionJobSpec, SessionJobStatus};
use api::status::{DeploymentStatus, JobStatusState, LifecycleState, ReconciliationState};

use super::job;
use super::pass::StatusOfJob;
use super::reconciled::{Reconciled, StoredSpec};

/// Where a `FlinkDeployment` or `FlinkSessionJob` stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Phase {
    /// Nothing was deployed yet.
    New,
    /// `lastReconciledSpec` cannot be read. Nothing is done until it can.
    Unreadable,
    /// The spec on record was deployed. Its job runs, starts, fails or has ended by itself.
    Running,
    /// The job is being stopped with a savepoint, for its successor or to be suspended.
    Stopping,
    /// The job is being cancelled, for its successor or to be suspended.
    Cancelling,
    /// What ran is gone or going, and the spec on record is to be started.
    Starting,
    /// The job is stopped, and its restore point is on record.
    Suspended,
    /// A spec did not get stable: what runs of it is gone or going, and the last stable one is to be
    /// started.
    RollingBack,
    /// The last stable spec runs in the place of the one on record.
    RolledBack,
    /// The resource is being deleted.
    Deleting,
}

impl Phase {
    pub fn of_deployment(status: &DeploymentStatus) -> Self {
        of::<FlinkDeploymentSpec>(status)
    }

    pub fn of_session_job(status: &SessionJobStatus) -> Self {
        of::<FlinkSessionJobSpec>(status)
    }

    /// The phases that a pass may store after this one, beside the same again.
    pub const fn next(self) -> &'static [Self] {
        use Phase::{
            Cancelling, Deleting, New, RolledBack, RollingBack, Running, Starting, Stopping,
            Suspended, Unreadable,
        };
        match self {
            New | Suspended => &[Starting, Deleting],
            Unreadable | Deleting => &[Deleting],
            Running => &[Stopping, Cancelling, Starting, Suspended, RollingBack, Deleting],
            // A stop that failed leaves the job running, as what it ran as.
            Stopping => &[Running, RolledBack, Starting, Suspended, Deleting],
            // A cancellation that never arrived is decided anew.
            Cancelling => &[Running, Starting, Suspended, Deleting],
            // A session job that was never submitted is new again where its spec is refused.
            Starting => &[New, Running, Stopping, Cancelling, Suspended, Deleting],
            RollingBack => &[RolledBack, Starting, Suspended, Deleting],
            RolledBack => &[Running, Stopping, Cancelling, Starting, Suspended, Deleting],
        }
    }

    /// Whether a pass over a resource in this phase may leave it in the `next` one.
    pub fn may_lead_to(self, next: Self) -> bool {
        self == next || self.next().contains(&next)
    }
}

fn of<S: StoredSpec>(status: &impl StatusOfJob) -> Phase {
    if let Some(LifecycleState::Deleting | LifecycleState::Deleted) = status.lifecycle_state() {
        return Phase::Deleting;
    }
    let reconciliation = status.reconciliation();
    let Some(text) = &reconciliation.last_reconciled_spec else { return Phase::New };
    let Ok(last) = Reconciled::<S>::parse(text) else { return Phase::Unreadable };
    if job::pending_stop(status.job()).is_some() {
        // Whatever else is on record, how the stop ends comes first.
        return Phase::Stopping;
    }
    match reconciliation.state {
        ReconciliationState::Upgrading
            if status.job().state == Some(JobStatusState::Cancelling) =>
        {
            Phase::Cancelling
        }
        ReconciliationState::Upgrading => Phase::Starting,
        ReconciliationState::RollingBack => Phase::RollingBack,
        ReconciliationState::RolledBack => Phase::RolledBack,
        ReconciliationState::Deployed => match last.job_state() {
            JobState::Running => Phase::Running,
            JobState::Suspended => Phase::Suspended,
        },
    }
}
