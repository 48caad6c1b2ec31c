//! The snapshots of a job, as its decisions see them.

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
    /// All kinds, savepoints first.
    pub const ALL: [Self; 2] = [Self::Savepoint, Self::Checkpoint];

    /// Returns the option with its schedule.
    pub fn schedule_option(self) -> ConfigOption<String> {
        match self {
            Self::Savepoint => options::PERIODIC_SAVEPOINT_INTERVAL,
            Self::Checkpoint => options::PERIODIC_CHECKPOINT_INTERVAL,
        }
    }

    /// Returns the kind of a resource.
    pub fn of(snapshot: &FlinkStateSnapshot) -> Self {
        if snapshot.spec.savepoint.is_some() { Self::Savepoint } else { Self::Checkpoint }
    }

    /// Returns the nonce of `job` that requests a snapshot.
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

/// A `FlinkStateSnapshot` of the job, reduced to what the job's decisions need.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownSnapshot {
    pub name: String,
    pub uid: String,
    /// The `resourceVersion` in which it was seen.
    pub version: String,
    pub kind: SnapshotKind,
    pub trigger_type: SnapshotTriggerType,
    pub state: SnapshotState,
    pub created: Timestamp,
    pub path: Option<String>,
    /// The nonce that requested it.
    pub nonce: Option<i64>,
    /// Whose nonce it was; `None` if it was created by an older operator.
    pub asked_by: Option<Asker>,
    /// Uids of the departing nodes that it was taken for.
    pub notices: Vec<String>,
    /// Its savepoint is deleted with it.
    pub is_disposed_of: bool,
    pub is_deleting: bool,
}

/// The spec that requested a snapshot: a job resource, and its generation.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Asker {
    pub uid: String,
    pub generation: i64,
}

impl Asker {
    /// Returns the one that a snapshot's annotation names.
    pub fn of(snapshot: &FlinkStateSnapshot) -> Option<Self> {
        let text = snapshot.metadata.annotations.as_ref()?.get(TRIGGERED_BY_ANNOTATION)?;
        let (uid, generation) = text.rsplit_once('/')?;
        Some(Self { uid: uid.to_owned(), generation: generation.parse().ok()? })
    }
}

/// The reason for a snapshot: a nonce, the schedule, or an upgrade.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Cause {
    Manual { nonce: i64 },
    Periodic,
    Upgrade,
}

impl Cause {
    /// Returns its name in status and labels.
    pub fn trigger_type(self) -> SnapshotTriggerType {
        match self {
            Self::Manual { .. } => SnapshotTriggerType::Manual,
            Self::Periodic => SnapshotTriggerType::Periodic,
            Self::Upgrade => SnapshotTriggerType::Upgrade,
        }
    }
}

/// Returns the uids of the departing nodes that a snapshot was taken for.
pub fn notices_of(snapshot: &FlinkStateSnapshot) -> Vec<String> {
    let annotations = snapshot.metadata.annotations.as_ref();
    let uids = annotations.and_then(|of| of.get(NODE_NOTICES_ANNOTATION));
    let uids = uids.map(String::as_str).unwrap_or_default().split(',');
    uids.map(str::trim).filter(|uid| !uid.is_empty()).map(str::to_owned).collect()
}
