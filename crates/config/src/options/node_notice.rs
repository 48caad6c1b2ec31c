//! The options `kubernetes.operator.node-notice.*`: what is done for a job before its node is removed. The Java
//! operator has no such options.

use std::time::Duration;

use strum::EnumString;

use super::List;
use crate::option::{ConfigOption, values_from_str};

/// The snapshot to take of a job whose node is about to be removed.
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
    /// Snapshot to take of a job when one of its nodes is about to be drained or reclaimed.
    Live SNAPSHOT: NoticeSnapshot = "kubernetes.operator.node-notice.snapshot" or "NONE";
    /// Pause between two such snapshots of a job.
    Live COOLDOWN: Duration = "kubernetes.operator.node-notice.cooldown" or "10 min";
    /// Keys of additional taints that count as a notice.
    Live TAINTS: List = "kubernetes.operator.node-notice.taints" or "";
}
