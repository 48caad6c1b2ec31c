//! Checkpoints: statistics, and the newest state that a job can be restored from.

use serde::Deserialize;

use super::{
    client::{Client, path},
    error::Error,
    wire::{null_as_default, timestamp},
};

/// What Flink writes as the path of a checkpoint in the JobManager's memory.
const NOT_ADDRESSABLE: &str = "<checkpoint-not-externally-addressable>";

/// Answer of `GET /jobs/:jobid/checkpoints`.
#[derive(Clone, Debug, PartialEq)]
pub enum Checkpoints {
    /// Flink says that checkpointing is not enabled for the job.
    Disabled,
    Statistics(Box<CheckpointStatistics>),
}

/// Checkpoints of the job's current attempt on this JobManager: they die with it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct CheckpointStatistics {
    #[serde(default, deserialize_with = "null_as_default")]
    pub counts: CheckpointCounts,
    pub latest: LatestCheckpoints,
    /// Newest first.
    #[serde(default, deserialize_with = "null_as_default")]
    pub history: Vec<Checkpoint>,
}

/// How many checkpoints there were.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct CheckpointCounts {
    pub restored: u64,
    pub total: u64,
    pub in_progress: u64,
    pub completed: u64,
    pub failed: u64,
}

/// The newest of each kind.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct LatestCheckpoints {
    #[serde(default)]
    pub completed: Option<Checkpoint>,
    #[serde(default)]
    pub savepoint: Option<Checkpoint>,
    #[serde(default)]
    pub failed: Option<Checkpoint>,
    #[serde(default)]
    pub restored: Option<RestoredCheckpoint>,
}

/// One checkpoint or savepoint; times are milliseconds since the epoch, sizes are bytes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct Checkpoint {
    pub id: Option<i64>,
    /// `IN_PROGRESS`, `COMPLETED` or `FAILED`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub status: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub is_savepoint: bool,
    #[serde(default, deserialize_with = "timestamp")]
    pub trigger_timestamp: Option<i64>,
    #[serde(default, deserialize_with = "timestamp")]
    pub latest_ack_timestamp: Option<i64>,
    #[serde(default)]
    pub state_size: Option<i64>,
    /// Milliseconds.
    #[serde(default)]
    pub end_to_end_duration: Option<i64>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub checkpoint_type: String,
    #[serde(default)]
    pub external_path: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub discarded: bool,
    #[serde(default, deserialize_with = "timestamp")]
    pub failure_timestamp: Option<i64>,
    #[serde(default)]
    pub failure_message: Option<String>,
}

/// What the job was started from.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct RestoredCheckpoint {
    pub id: Option<i64>,
    #[serde(default, deserialize_with = "timestamp")]
    pub restore_timestamp: Option<i64>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub is_savepoint: bool,
    #[serde(default)]
    pub external_path: Option<String>,
}

/// A state that a job can be restored from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StatePoint {
    pub checkpoint_id: i64,
    pub path: String,
    /// Milliseconds since the epoch: when it was triggered, or restored.
    pub timestamp: Option<i64>,
    pub is_savepoint: bool,
}

/// The newest state that the statistics know of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LastState {
    /// No checkpoint was completed or restored.
    None,
    At(StatePoint),
    /// It lives in the JobManager's memory: no other JobManager can read it.
    NotAddressable {
        checkpoint_id: i64,
    },
    /// It was deleted; an older one would take the job back in time.
    Discarded {
        checkpoint_id: i64,
        path: String,
    },
}

impl CheckpointStatistics {
    /// The state with the highest id among the restored, the completed and the savepoint.
    pub fn last_state(&self) -> LastState {
        let LatestCheckpoints { completed, savepoint, restored, failed: _ } = &self.latest;
        let taken = [completed, savepoint].into_iter().flatten().filter_map(|checkpoint| {
            let point = StatePoint {
                checkpoint_id: checkpoint.id?,
                path: checkpoint.external_path.clone()?,
                timestamp: checkpoint.trigger_timestamp,
                is_savepoint: checkpoint.is_savepoint,
            };
            Some((point, checkpoint.discarded))
        });
        let restored = restored.iter().filter_map(|checkpoint| {
            let point = StatePoint {
                checkpoint_id: checkpoint.id?,
                path: checkpoint.external_path.clone()?,
                timestamp: checkpoint.restore_timestamp,
                is_savepoint: checkpoint.is_savepoint,
            };
            Some((point, false))
        });
        // Of equal ids the one taken here counts: it knows whether it was discarded.
        match restored.chain(taken).max_by_key(|(point, _)| point.checkpoint_id) {
            None => LastState::None,
            Some((point, _)) if point.path == NOT_ADDRESSABLE => {
                LastState::NotAddressable { checkpoint_id: point.checkpoint_id }
            }
            Some((point, true)) => {
                LastState::Discarded { checkpoint_id: point.checkpoint_id, path: point.path }
            }
            Some((point, false)) => LastState::At(point),
        }
    }

    /// The checkpoint that is being taken: the newest in the history, if it is in progress.
    pub fn in_progress(&self) -> Option<&Checkpoint> {
        self.history.first().filter(|checkpoint| checkpoint.status == "IN_PROGRESS")
    }

    /// Bytes of state in the last completed checkpoint.
    pub fn state_size_bytes(&self) -> Option<i64> {
        self.latest.completed.as_ref()?.state_size
    }
}

impl Client {
    /// `GET /jobs/:jobid/checkpoints`.
    pub async fn checkpoints(&self, job_id: &str) -> Result<Checkpoints, Error> {
        match self.get(path(&["jobs", job_id, "checkpoints"])?).await {
            Ok(statistics) => Ok(Checkpoints::Statistics(Box::new(statistics))),
            Err(error)
                if matches!(error, Error::Refused { status: 404, .. })
                    && error.says(|line| line.contains("Checkpointing has not been enabled")) =>
            {
                Ok(Checkpoints::Disabled)
            }
            Err(error) => Err(error),
        }
    }
}
