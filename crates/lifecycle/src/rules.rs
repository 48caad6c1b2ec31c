//! Rules that are looked at in each phase, in their order: `docs/lifecycle.md` is made from this.

use super::diff::ChangeClass;
use super::phase::Phase;
use api::job::JobState;

/// Wish of the user, beside what is on record.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Wish {
    /// The spec on record, or a change that makes no difference.
    Same,
    /// Another parallelism, which may be had without a restart.
    Rescale,
    /// Another spec.
    Change,
    /// That the job stops, with any other change.
    Suspend,
    /// That the suspended job goes on, with any other change.
    Resume,
    /// Another state to start from: a new `spec.job.savepointRedeployNonce`.
    Redeploy,
}

impl Wish {
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

    /// The wish in a few words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Same => "no change",
            Self::Rescale => "another parallelism",
            Self::Change => "another spec",
            Self::Suspend => "`state: suspended`",
            Self::Resume => "`state: running`",
            Self::Redeploy => "another state to start from",
        }
    }
}

/// A rule of a phase. The first one that has a plan decides.
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
    /// Says what the rule does.
    pub const fn text(self) -> &'static str {
        match self {
            Self::SettleRecord => "refuse or wait where the record does not tell what runs",
            Self::Deploy => "deploy it for the first time, if it is not wanted suspended",
            Self::ContinueStop => "wait for the savepoint, or decide anew when the stop is lost",
            Self::ContinueCancel => "wait for the end of the job",
            Self::Start => "start the wanted spec from the restore point on record, or suspend it",
            Self::ContinueRollback => "start the last stable spec, or the wanted one after an edit",
            Self::FinishStart => "make what is missing beside a JobManager that runs",
            Self::Maintain => "recover, restart, roll back, take snapshots, clean up",
            Self::AwaitSavepoint => "wait for a savepoint that is being taken",
            Self::ReturnToStable => {
                "take the spec that runs for the wanted one, where they are the same"
            }
            Self::RefuseVersion => "refuse a version of Flink that is not started any more",
            Self::Redeploy => "drop what runs for the state that is named",
            Self::Scale => "scale without a restart, where Flink can",
            Self::Stop => "stop the job by the upgrade table",
            Self::Resume => "start the wanted spec from the restore point on record",
            Self::StoreEdit => "put the wanted spec on record: a resume will start it",
        }
    }

    /// True if the rule is looked at when the user wants this.
    pub const fn is_for(self, wish: Wish) -> bool {
        match self {
            Self::Maintain => matches!(wish, Wish::Same),
            Self::Redeploy => matches!(wish, Wish::Redeploy),
            Self::Scale => matches!(wish, Wish::Rescale),
            Self::Resume => matches!(wish, Wish::Resume),
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
    /// The rules that are looked at in this phase, in order. What was begun is continued before an edit is carried
    /// out, but that a start which was begun gives way to another state that its user names.
    pub const fn rules(self) -> &'static [Rule] {
        use Rule::{
            AwaitSavepoint, ContinueCancel, ContinueRollback, ContinueStop, Deploy, FinishStart,
            Maintain, Redeploy, RefuseVersion, Resume, ReturnToStable, Scale, SettleRecord, Start,
            Stop, StoreEdit,
        };
        match self {
            Self::New => &[SettleRecord, Deploy],
            // A pass ends before there are rules to be looked at.
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
