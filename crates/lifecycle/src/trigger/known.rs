//! The snapshots of a job, as far as its decisions look at them.

use jiff::Timestamp;

use api::job::JobSpec;
use api::state_snapshot::{FlinkStateSnapshot, SnapshotState};
use api::status::SnapshotTriggerType;
use api::{NODE_NOTICES_ANNOTATION, TRIGGERED_BY_ANNOTATION};
use config::option::ConfigOption;
use config::options;

/// A savepoint or a checkpoint.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum SnapshotKind {
    Savepoint,
    Checkpoint,
}

impl SnapshotKind {
    /// Savepoints come first.
    pub const ALL: [Self; 2] = [Self::Savepoint, Self::Checkpoint];

    /// The option with its schedule.
    pub fn schedule_option(self) -> ConfigOption<String> {
        match self {
            Self::Savepoint => options::PERIODIC_SAVEPOINT_INTERVAL,
            Self::Checkpoint => options::PERIODIC_CHECKPOINT_INTERVAL,
        }
    }

    /// Of a resource.
    pub fn of(snapshot: &FlinkStateSnapshot) -> Self {
        if snapshot.spec.savepoint.is_some() { Self::Savepoint } else { Self::Checkpoint }
    }

    /// The nonce of `job` that asks for one.
    pub fn nonce(self, job: &JobSpec) -> Option<i64> {
        match self {
            Self::Savepoint => job.savepoint_trigger_nonce,
            Self::Checkpoint => job.checkpoint_trigger_nonce,
        }
    }

    pub(crate) fn set_nonce(self, job: &mut JobSpec, nonce: Option<i64>) {
        match self {
            Self::Savepoint => job.savepoint_trigger_nonce = nonce,
            Self::Checkpoint => job.checkpoint_trigger_nonce = nonce,
        }
    }
}

/// A `FlinkStateSnapshot` of the job, as far as the job's decisions look at it.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownSnapshot {
    pub name: String,
    pub uid: String,
    /// The `resourceVersion` that it was seen in.
    pub version: String,
    pub kind: SnapshotKind,
    pub trigger_type: SnapshotTriggerType,
    pub state: SnapshotState,
    pub created: Timestamp,
    pub path: Option<String>,
    /// The nonce that asked for it.
    pub nonce: Option<i64>,
    /// Whose nonce it was; absent of one that an operator before made.
    pub asked_by: Option<Asker>,
    /// Uids of the nodes whose going it was taken for.
    pub notices: Vec<String>,
    /// Its savepoint goes with it.
    pub is_disposed_of: bool,
    pub is_deleting: bool,
}

/// A spec that asked for a snapshot: of which job resource, and which generation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Asker {
    pub uid: String,
    pub generation: i64,
}

impl Asker {
    /// The one that a snapshot's annotation names.
    pub fn of(snapshot: &FlinkStateSnapshot) -> Option<Self> {
        let text = snapshot.metadata.annotations.as_ref()?.get(TRIGGERED_BY_ANNOTATION)?;
        let (uid, generation) = text.rsplit_once('/')?;
        Some(Self { uid: uid.to_owned(), generation: generation.parse().ok()? })
    }
}

/// The reason why a snapshot is asked for: a nonce, the schedule, or an upgrade.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    Manual { nonce: i64 },
    Periodic,
    Upgrade,
}

impl Cause {
    /// Its name in status and labels.
    pub fn trigger_type(self) -> SnapshotTriggerType {
        match self {
            Self::Manual { .. } => SnapshotTriggerType::Manual,
            Self::Periodic => SnapshotTriggerType::Periodic,
            Self::Upgrade => SnapshotTriggerType::Upgrade,
        }
    }
}

/// Uids of the nodes whose going a snapshot was taken for.
pub fn notices_of(snapshot: &FlinkStateSnapshot) -> Vec<String> {
    let annotations = snapshot.metadata.annotations.as_ref();
    let uids = annotations.and_then(|of| of.get(NODE_NOTICES_ANNOTATION));
    let uids = uids.map(String::as_str).unwrap_or_default().split(',');
    uids.map(str::trim).filter(|uid| !uid.is_empty()).map(str::to_owned).collect()
}
