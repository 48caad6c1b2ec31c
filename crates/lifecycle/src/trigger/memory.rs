//! Memory of the process about the snapshots that it asked for.

use std::collections::HashMap;

use jiff::Timestamp;

use super::known::SnapshotKind;
use crate::node_notice::Answered;

/// Facts about a job's snapshots that this process knows beside the resources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// When a periodic savepoint was asked for last; absent after a start of the operator.
    pub savepoint: Option<Timestamp>,
    /// Like [`Self::savepoint`], for checkpoints.
    pub checkpoint: Option<Timestamp>,
    /// Nodes whose going a snapshot was asked for.
    pub notices: Answered,
    /// By their kind, the triggers of the status' own bookkeeping, with the nonce that asked: there may
    /// be another one by the time that they end.
    pub asked: HashMap<SnapshotKind, (String, i64)>,
    /// When it was last seen that somebody else holds savepoints of the status' history, or may.
    pub held: Option<Timestamp>,
}

impl Memory {
    /// When a periodic one was asked for last.
    pub fn of(&self, kind: SnapshotKind) -> Option<Timestamp> {
        match kind {
            SnapshotKind::Savepoint => self.savepoint,
            SnapshotKind::Checkpoint => self.checkpoint,
        }
    }

    /// Notes that a periodic one was asked for.
    pub fn note(&mut self, kind: SnapshotKind, at: Timestamp) {
        match kind {
            SnapshotKind::Savepoint => self.savepoint = Some(at),
            SnapshotKind::Checkpoint => self.checkpoint = Some(at),
        }
    }

    /// The nonce that asked for the snapshot with this trigger.
    pub(crate) fn nonce_of(&self, trigger_id: &str) -> Option<i64> {
        self.asked.values().find(|(id, _)| id == trigger_id).map(|(_, nonce)| *nonce)
    }
}
