//! The rules of each phase, in order. `docs/lifecycle.md` is generated from this.

use super::diff::ChangeClass;
use super::phase::Phase;
use api::job::JobState;

/// What the user wants, compared with the record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Desired {
    /// The spec on record, or a change that makes no difference.
    Same,
    /// Another parallelism, possibly without a restart.
    Rescale,
    /// Another spec.
    Change,
    /// Stop the job, with any other change.
    Suspend,
    /// Resume the suspended job, with any other change.
    Resume,
    /// Start from another state: a new `spec.job.savepointRedeployNonce`.
    Redeploy,
}

impl Desired {
    pub const ALL: [Self; 6] =
        [Self::Same, Self::Rescale, Self::Change, Self::Suspend, Self::Resume, Self::Redeploy];

    pub(super) const fn of(class: ChangeClass, last: JobState, wanted: JobState) -> Self {
        match (class, last, wanted) {
            (ChangeClass::Ignore, _, _) => Self::Same,
            (ChangeClass::SavepointRedeploy, _, _) => Self::Redeploy,
            (_, JobState::Suspended, JobState::Running) => Self::Resume,
            (_, JobState::Running, JobState::Suspended) => Self::Suspend,
            (ChangeClass::Scale, _, _) => Self::Rescale,
            (ChangeClass::Upgrade, _, _) => Self::Change,
        }
    }

    /// Describes the wish in a few words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Same => "no change",
            Self::Rescale => "new parallelism",
            Self::Change => "new spec",
            Self::Suspend => "`state: suspended`",
            Self::Resume => "`state: running`",
            Self::Redeploy => "redeploy from a named state",
        }
    }
}

/// A rule of a phase. The first one that returns a plan decides.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Rule {
    SettleRecord,
    Deploy,
    ContinueStop,
    ContinueCancel,
    Start,
    ContinueRollback,
    FinishStart,
    Maintain,
    AwaitSavepoint,
    ReturnToStable,
    RefuseVersion,
    Redeploy,
    Scale,
    Stop,
    Resume,
    StoreEdit,
}

impl Rule {
    /// Describes what the rule does.
    pub const fn text(self) -> &'static str {
        match self {
            Self::SettleRecord => "if the status does not say what runs: wait, or refuse to act",
            Self::Deploy => "deploy the job for the first time, unless it is created suspended",
            Self::ContinueStop => {
                "wait for the savepoint, or decide again if the stop request was lost"
            }
            Self::ContinueCancel => "wait until the job has ended",
            Self::Start => {
                "start the desired spec from the recorded restore point, or suspend the job"
            }
            Self::ContinueRollback => {
                "start the last stable spec or, after an edit, the desired one"
            }
            Self::FinishStart => "create the missing objects of a JobManager that runs",
            Self::Maintain => "recover, restart, roll back, take snapshots, clean up",
            Self::AwaitSavepoint => "wait for a savepoint in progress",
            Self::ReturnToStable => "if the desired spec is already running, record it",
            Self::RefuseVersion => "refuse a Flink version that can no longer be started",
            Self::Redeploy => "drop the current job and start from that state",
            Self::Scale => "scale without a restart, if Flink can",
            Self::Stop => {
                "stop the job according to [table 8](decisions.md#8-how-a-running-job-is-stopped-for-a-change)"
            }
            Self::Resume => "start the desired spec from the recorded restore point",
            Self::StoreEdit => "record the desired spec, which starts on resume",
        }
    }

    /// Returns true if the rule replaces or ends what runs because its user wants something else.
    pub const fn is_change(self) -> bool {
        matches!(self, Self::Redeploy | Self::Scale | Self::Stop)
    }

    /// Returns true if the rule applies to this wish of the user.
    pub const fn is_for(self, wish: Desired) -> bool {
        match self {
            Self::Maintain => matches!(wish, Desired::Same),
            Self::Redeploy => matches!(wish, Desired::Redeploy),
            Self::Scale => matches!(wish, Desired::Rescale),
            Self::Resume => matches!(wish, Desired::Resume),
            Self::SettleRecord
            | Self::Deploy
            | Self::ContinueStop
            | Self::ContinueCancel
            | Self::Start
            | Self::ContinueRollback
            | Self::FinishStart
            | Self::AwaitSavepoint
            | Self::ReturnToStable
            | Self::RefuseVersion
            | Self::Stop
            | Self::StoreEdit => true,
        }
    }
}

impl Phase {
    /// Returns the rules of this phase, in order. What was begun is continued before an edit is carried out, except
    /// that a start gives way to another state that the user names.
    pub const fn rules(self) -> &'static [Rule] {
        use Rule::{
            AwaitSavepoint, ContinueCancel, ContinueRollback, ContinueStop, Deploy, FinishStart,
            Maintain, Redeploy, RefuseVersion, Resume, ReturnToStable, Scale, SettleRecord, Start,
            Stop, StoreEdit,
        };
        match self {
            Self::New => &[SettleRecord, Deploy],
            // The pass ends before any rules.
            Self::Unreadable | Self::Deleting => &[],
            Self::Stopping => &[SettleRecord, ContinueStop],
            Self::Cancelling => &[SettleRecord, ContinueCancel],
            Self::Starting => &[SettleRecord, Redeploy, Start],
            Self::RollingBack => &[SettleRecord, ContinueRollback],
            Self::Running => &[
                SettleRecord,
                FinishStart,
                Maintain,
                AwaitSavepoint,
                RefuseVersion,
                Redeploy,
                Scale,
                Stop,
            ],
            Self::Suspended => {
                &[SettleRecord, Maintain, RefuseVersion, Redeploy, Resume, StoreEdit]
            }
            Self::RolledBack => &[
                SettleRecord,
                FinishStart,
                Maintain,
                AwaitSavepoint,
                ReturnToStable,
                RefuseVersion,
                Redeploy,
                Stop,
            ],
        }
    }
}
