//! The options `kubernetes.operator.node-notice.*`: what is done for a job before a node that it runs
//! on goes. Options of this operator's own.

use std::time::Duration;

use strum::EnumString;

use super::List;
use crate::option::{ConfigOption, values_from_str};

/// The snapshot that is taken of a job whose node is about to go.
#[derive(Clone, Copy, Debug, Eq, PartialEq, EnumString)]
#[strum(ascii_case_insensitive)]
pub enum NoticeSnapshot {
    #[strum(serialize = "NONE")]
    Nothing,
    Savepoint,
    Checkpoint,
}

values_from_str! {
    NoticeSnapshot: "`NONE`, `SAVEPOINT` or `CHECKPOINT`";
}

options! {
    TABLE =>
    /// Snapshot that is taken of a job when a node that it runs on is about to go.
    Live SNAPSHOT: NoticeSnapshot = "kubernetes.operator.node-notice.snapshot" or "NONE";
    /// Pause between two such snapshots of a job.
    Live COOLDOWN: Duration = "kubernetes.operator.node-notice.cooldown" or "10 min";
    /// Keys of taints that tell of it, beside those that are known.
    Live TAINTS: List = "kubernetes.operator.node-notice.taints" or "";
}
