//! Memory of the process about the snapshots that it requested.

use std::collections::HashMap;

use jiff::Timestamp;

use super::known::SnapshotKind;
use crate::node_notice::Answered;

/// What this process knows about a job's snapshots in addition to the resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// When a periodic savepoint was last requested; `None` after a start of the operator.
    pub savepoint: Option<Timestamp>,
    /// Like [`Self::savepoint`], for checkpoints.
    pub checkpoint: Option<Timestamp>,
    /// Departing nodes for which a snapshot was requested.
    pub notices: Answered,
    /// The triggers of the status' own bookkeeping by kind, with the nonce that requested them: it may have changed by
    /// the time they end.
    pub asked: HashMap<SnapshotKind, (String, i64)>,
    /// When savepoints of the status' history were last seen, or suspected, to be referred to elsewhere.
    pub held: Option<Timestamp>,
}

impl Memory {
    /// Returns when a periodic snapshot was last requested.
    pub fn of(&self, kind: SnapshotKind) -> Option<Timestamp> {
        match kind {
            SnapshotKind::Savepoint => self.savepoint,
            SnapshotKind::Checkpoint => self.checkpoint,
        }
    }

    /// Records that a periodic snapshot was requested.
    pub fn note(&mut self, kind: SnapshotKind, at: Timestamp) {
        match kind {
            SnapshotKind::Savepoint => self.savepoint = Some(at),
            SnapshotKind::Checkpoint => self.checkpoint = Some(at),
        }
    }

    /// Returns the nonce that requested the snapshot of this trigger.
    pub(crate) fn nonce_of(&self, trigger_id: &str) -> Option<i64> {
        self.asked.values().find(|(id, _)| id == trigger_id).map(|(_, nonce)| *nonce)
    }
}
