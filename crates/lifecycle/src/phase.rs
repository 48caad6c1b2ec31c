//! The phase of a resource with a job, derived from its stored status alone.
//!
//! [`Phase`] is a total function of what is stored, whoever stored it: this operator, an older version of it, or the
//! Java operator. [`Phase::next`] lists the phases that a pass may store after it.

use strum::VariantArray;

use api::job::JobState;
use api::status::{JobStatusState, LifecycleState, ReconciliationState};

use super::job;
use super::resource::{JobResource, StatusOfJob};
use super::world::World;
use api::reconciled::{CorruptSpec, Reconciled};

/// The phase of a `FlinkDeployment` or `FlinkSessionJob`; [`Phase::text`] describes each.
#[derive(Clone, Copy, Debug, Eq, PartialEq, VariantArray)]
pub enum Phase {
    New,
    Unreadable,
    Running,
    Stopping,
    Cancelling,
    Starting,
    Suspended,
    RollingBack,
    RolledBack,
    Deleting,
}

impl Phase {
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Describes what the phase means for a resource.
    pub const fn text(self) -> &'static str {
        match self {
            Self::New => "Nothing has been deployed yet.",
            Self::Unreadable => {
                "`lastReconciledSpec` cannot be read. Nothing is done until it can be."
            }
            Self::Running => {
                "The recorded spec was deployed. Its job runs, starts, fails or has ended on its own."
            }
            Self::Stopping => {
                "The job is being stopped with a savepoint, for an upgrade or a suspend."
            }
            Self::Cancelling => "The job is being cancelled, for an upgrade or a suspend.",
            Self::Starting => {
                "The old pods are gone or terminating, and the recorded spec will be started."
            }
            Self::Suspended => "The job is stopped, and its restore point is recorded.",
            Self::RollingBack => {
                "A spec did not become stable. Its pods are gone or terminating, and the last stable spec \
                 will be started."
            }
            Self::RolledBack => "The last stable spec runs instead of the recorded one.",
            Self::Deleting => "The resource is being deleted.",
        }
    }

    /// Describes the fields of the status that put a resource into this phase; the first matching row applies.
    pub const fn record(self) -> &'static str {
        match self {
            Self::Deleting => "`lifecycleState` is `DELETING` or `DELETED`",
            Self::New => "no `lastReconciledSpec`",
            Self::Unreadable => "a `lastReconciledSpec` that is not a spec",
            Self::Stopping => "the trigger of an upgrade in `jobStatus.savepointInfo`",
            Self::Cancelling => "`state` is `UPGRADING`, and `jobStatus.state` is `CANCELLING`",
            Self::Starting => "`state` is `UPGRADING`",
            Self::RollingBack => "`state` is `ROLLING_BACK`",
            Self::Suspended => {
                "`state` is `DEPLOYED` or `ROLLED_BACK`, and `lastReconciledSpec` has a suspended job"
            }
            Self::RolledBack => "`state` is `ROLLED_BACK`",
            Self::Running => "`state` is `DEPLOYED`",
        }
    }

    /// Returns the phase of a resource of this kind with this status.
    pub fn of<K: JobResource>(status: &K::Status) -> Self {
        of(status, |text| Reconciled::<K::Spec>::parse(text).map(|last| last.job_state()))
    }

    /// Returns the phase at the beginning of a pass, which parses the stored spec only once.
    pub fn of_world<K: JobResource>(world: &World<'_, K>) -> Self {
        of(world.status, |text| world.memo.parse(text).map(|last| last.job_state()))
    }

    /// Returns the phase of a resource that is not being deleted and whose recorded job is in this state.
    pub(super) fn of_record(status: &impl StatusOfJob, last: JobState) -> Self {
        if job::pending_stop(status.job()).is_some() {
            // Whatever else is on record, the outcome of the stop comes first.
            return Self::Stopping;
        }
        let is_cancelling = status.job().state == Some(JobStatusState::Cancelling);
        match status.reconciliation().state {
            ReconciliationState::Upgrading if is_cancelling => Self::Cancelling,
            ReconciliationState::Upgrading => Self::Starting,
            ReconciliationState::RollingBack => Self::RollingBack,
            ReconciliationState::Deployed | ReconciliationState::RolledBack
                if last == JobState::Suspended =>
            {
                Self::Suspended
            }
            ReconciliationState::RolledBack => Self::RolledBack,
            ReconciliationState::Deployed => Self::Running,
        }
    }

    /// Returns the `state` that is stored with this phase; `None` if the phase shows in other fields alone.
    pub(super) const fn state(self) -> Option<ReconciliationState> {
        match self {
            Self::Cancelling | Self::Starting => Some(ReconciliationState::Upgrading),
            Self::Running | Self::Suspended => Some(ReconciliationState::Deployed),
            Self::RollingBack => Some(ReconciliationState::RollingBack),
            Self::RolledBack => Some(ReconciliationState::RolledBack),
            Self::New | Self::Unreadable | Self::Stopping | Self::Deleting => None,
        }
    }

    /// Returns the phases that a pass may store after this one, other than the same one.
    pub const fn next(self) -> &'static [Self] {
        use Phase::{
            Cancelling, Deleting, New, RolledBack, RollingBack, Running, Starting, Stopping,
            Suspended, Unreadable,
        };
        match self {
            New | Suspended => &[Starting, Deleting],
            Unreadable => &[Deleting],
            Deleting => &[],
            Running => &[Stopping, Cancelling, Starting, Suspended, RollingBack, Deleting],
            // If the stop fails, the job keeps running as before. A stop that takes too long gives way to a state that
            // the user names.
            Stopping => &[Running, RolledBack, Cancelling, Starting, Suspended, Deleting],
            // A cancellation that never arrived is decided again by the same pass.
            Cancelling => &[Running, Starting, Suspended, RollingBack, Deleting],
            // A session job that was never submitted is new again if its spec is refused.
            Starting => &[New, Running, Stopping, Cancelling, Suspended, Deleting],
            RollingBack => &[RolledBack, Starting, Suspended, Deleting],
            // A lost stateless session job starts again in the phase it ran in.
            RolledBack => {
                &[Running, Stopping, Cancelling, Starting, Suspended, RollingBack, Deleting]
            }
        }
    }

    /// Returns true if a pass over a resource in this phase may leave it in the `next` one.
    pub fn may_lead_to(self, next: Self) -> bool {
        self == next || self.next().contains(&next)
    }
}

fn of(
    status: &impl StatusOfJob,
    job_state: impl FnOnce(&str) -> Result<JobState, CorruptSpec>,
) -> Phase {
    if let Some(LifecycleState::Deleting | LifecycleState::Deleted) = status.lifecycle_state() {
        return Phase::Deleting;
    }
    let Some(text) = &status.reconciliation().last_reconciled_spec else { return Phase::New };
    let Ok(last) = job_state(text) else { return Phase::Unreadable };
    Phase::of_record(status, last)
}
