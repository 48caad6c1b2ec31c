//! The options `kubernetes.operator.node-notice.*`: what is done for a job before a node that it runs
//! on goes. Options of this operator's own.

use std::time::Duration;

use super::List;
use crate::option::{ConfigOption, OptionValue};

/// The snapshot that is taken of a job whose node is about to go.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NoticeSnapshot {
    Nothing,
    Savepoint,
    Checkpoint,
}

impl OptionValue for NoticeSnapshot {
    const EXPECTED: &str = "`NONE`, `SAVEPOINT` or `CHECKPOINT`";

    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_uppercase().as_str() {
            "NONE" => Some(Self::Nothing),
            "SAVEPOINT" => Some(Self::Savepoint),
            "CHECKPOINT" => Some(Self::Checkpoint),
            _ => None,
        }
    }
}

options! {
    TABLE =>
    /// What is taken of a job when a node that it runs on is about to go.
    Live SNAPSHOT: NoticeSnapshot = "kubernetes.operator.node-notice.snapshot" or "NONE";
    /// Pause between two such snapshots of a job.
    Live COOLDOWN: Duration = "kubernetes.operator.node-notice.cooldown" or "10 min";
    /// Keys of taints that tell of it, beside those that are known.
    Live TAINTS: List = "kubernetes.operator.node-notice.taints" or "";
}
