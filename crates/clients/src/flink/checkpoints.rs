//! Checkpoints: statistics, and the newest state that a job can be restored from.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    client::{Client, path},
    error::Error,
    failures::{FailureCause, StatusId},
    savepoints::is_trigger_unknown,
    wire::{null_as_default, timestamp},
};
use config::duration;

/// Path that Flink reports for a checkpoint in the JobManager's memory.
const NOT_ADDRESSABLE: &str = "<checkpoint-not-externally-addressable>";

/// Checkpoint storage that Flink reports for a job without an execution graph.
const BLANK: &str = "Unknown";

const STATISTICS_AGE_OPTION: &str = "rest.cache.checkpoint-statistics.timeout";
/// Default of `web.refresh-interval`.
const STATISTICS_AGE_DEFAULT: Duration = Duration::from_secs(3);
/// Maximum time to wait for fresh ones.
const STATISTICS_AGE_LIMIT: Duration = Duration::from_mins(1);

/// Response of `GET /jobs/:jobid/checkpoints`.
#[derive(Clone, Debug, PartialEq)]
pub enum Checkpoints {
    /// Flink says that checkpointing is not enabled for the job.
    Disabled,
    Statistics(Box<CheckpointStatistics>),
}

/// Checkpoints of the job's current attempt on this JobManager: they are lost with it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct CheckpointStatistics {
    #[serde(default, deserialize_with = "null_as_default")]
    pub counts: CheckpointCounts,
    pub latest: LatestCheckpoints,
    /// Newest first.
    #[serde(default, deserialize_with = "null_as_default")]
    pub history: Vec<Checkpoint>,
}

/// Numbers of checkpoints so far.
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

impl LatestCheckpoints {
    /// Returns when the newest completed checkpoint or savepoint was triggered, in milliseconds since the epoch. The one
    /// that the job was started from does not count: its state is older than that.
    pub fn saved_at(&self) -> Option<i64> {
        let taken = [&self.completed, &self.savepoint].into_iter().flatten();
        let lasting = taken.filter(|it| it.external_path.as_deref() != Some(NOT_ADDRESSABLE));
        lasting.filter_map(|it| it.trigger_timestamp).max()
    }
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

/// The checkpoint or savepoint that the job was started from.
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

/// The newest state in the statistics.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum LastState {
    /// No checkpoint was completed or restored.
    None,
    At(StatePoint),
    /// It is in the JobManager's memory: no other JobManager can read it.
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
    /// Returns the state with the highest id among the restored one, the completed one and the savepoint.
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
        // If the ids are equal, the one taken here is used: it has the information whether it was discarded.
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

    /// Returns whether no checkpoint was restored, completed or attempted.
    pub fn has_none(&self) -> bool {
        let CheckpointCounts { restored, total, .. } = self.counts;
        restored == 0 && total == 0 && self.last_state() == LastState::None
    }

    /// Returns the savepoint with which a stop-with-savepoint ended the job, if it is the newest state.
    ///
    /// Flink calls it `SYNC_SAVEPOINT`; after any other savepoint, the job may have processed further records.
    pub fn stopped_with(&self) -> Option<StatePoint> {
        let savepoint = self.latest.savepoint.as_ref()?;
        let LastState::At(point) = self.last_state() else { return None };
        let is_stop = savepoint.checkpoint_type == "SYNC_SAVEPOINT";
        (is_stop && savepoint.id == Some(point.checkpoint_id)).then_some(point)
    }

    /// Returns the checkpoint in progress: the newest in the history, if it has that status.
    pub fn in_progress(&self) -> Option<&Checkpoint> {
        self.history.first().filter(|checkpoint| checkpoint.status == "IN_PROGRESS")
    }

    /// Returns the size in bytes of the state in the last completed checkpoint.
    pub fn state_size_bytes(&self) -> Option<i64> {
        self.latest.completed.as_ref()?.state_size
    }
}

/// Kind of checkpoint to trigger.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CheckpointKind {
    /// As the job is configured.
    Configured,
    Full,
    Incremental,
}

/// The status of a triggered checkpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CheckpointStatus {
    InProgress,
    /// [`Client::checkpoint`] returns its path.
    Completed {
        checkpoint_id: i64,
    },
    Failed(FailureCause),
    /// This JobManager does not know the trigger, which says nothing about the checkpoint.
    TriggerLost,
}

/// How the job takes checkpoints; times are milliseconds.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
pub struct CheckpointConfig {
    /// `exactly_once` or `at_least_once`.
    #[serde(default, deserialize_with = "null_as_default")]
    pub mode: String,
    #[serde(default)]
    pub interval: Option<i64>,
    #[serde(default)]
    pub timeout: Option<i64>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub externalization: Externalization,
    #[serde(default, deserialize_with = "null_as_default")]
    pub state_backend: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub checkpoint_storage: String,
}

/// Retention of checkpoints after the end of the job.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default)]
pub struct Externalization {
    pub enabled: bool,
    pub delete_on_cancellation: bool,
}

impl CheckpointConfig {
    /// Returns whether this is of a job without an execution graph: one that is being created, that the adaptive
    /// scheduler has no resources for, or that ended so. The statistics are then empty, whatever the job had before
    /// (Flink's `ArchivedExecutionGraph.createSparseArchivedExecutionGraph`).
    pub fn is_blank(&self) -> bool {
        self.checkpoint_storage == BLANK
    }
}

impl Externalization {
    /// Returns whether the last checkpoint is kept when the job is cancelled.
    pub fn retains_on_cancellation(self) -> bool {
        self.enabled && !self.delete_on_cancellation
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TriggerBody<'a> {
    checkpoint_type: CheckpointKind,
    trigger_id: &'a str,
}

#[derive(Deserialize)]
struct StatusBody {
    status: StatusId,
    #[serde(default)]
    operation: Option<Operation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Operation {
    #[serde(default)]
    checkpoint_id: Option<i64>,
    #[serde(default)]
    failure_cause: Option<FailureCause>,
}

impl Client {
    /// `POST /jobs/:jobid/checkpoints` (1.17 and newer); returns the trigger's id, to be polled.
    ///
    /// May be repeated with the same trigger id, see [`super::new_trigger_id`].
    pub async fn trigger_checkpoint(
        &self,
        job_id: &str,
        kind: CheckpointKind,
        trigger_id: &str,
    ) -> Result<String, Error> {
        let body = TriggerBody { checkpoint_type: kind, trigger_id };
        self.trigger(path(&["jobs", job_id, "checkpoints"])?, &body).await
    }

    /// `GET /jobs/:jobid/checkpoints/:triggerid`.
    pub async fn checkpoint_status(
        &self,
        job_id: &str,
        trigger_id: &str,
    ) -> Result<CheckpointStatus, Error> {
        let path = path(&["jobs", job_id, "checkpoints", trigger_id])?;
        let request = format!("GET {path}");
        let body = match self.get::<StatusBody>(path).await {
            Ok(body) => body,
            Err(error) if is_trigger_unknown(&error) => return Ok(CheckpointStatus::TriggerLost),
            Err(error) => return Err(error),
        };
        match (body.status.id.as_str(), body.operation) {
            ("IN_PROGRESS", _) => Ok(CheckpointStatus::InProgress),
            ("COMPLETED", Some(Operation { failure_cause: Some(cause), checkpoint_id: _ })) => {
                Ok(CheckpointStatus::Failed(cause))
            }
            (
                "COMPLETED",
                Some(Operation { checkpoint_id: Some(checkpoint_id), failure_cause: None }),
            ) => Ok(CheckpointStatus::Completed { checkpoint_id }),
            (other, _) => Err(Error::Malformed {
                request,
                problem: format!("status `{other}` with neither checkpoint nor failure"),
            }),
        }
    }

    /// `GET /jobs/:jobid/checkpoints/details/:checkpointid`; `None` if the history, which is short, no longer has it,
    /// or does not have it yet: it is up to 3 s old.
    pub async fn checkpoint(
        &self,
        job_id: &str,
        checkpoint_id: i64,
    ) -> Result<Option<Checkpoint>, Error> {
        let id = checkpoint_id.to_string();
        match self.get(path(&["jobs", job_id, "checkpoints", "details", &id])?).await {
            Ok(checkpoint) => Ok(Some(checkpoint)),
            Err(error)
                if matches!(error, Error::Refused { status: 404, .. })
                    && error.says(|line| {
                        line.contains("Could not find checkpointing statistics for checkpoint")
                    }) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// `GET /jobs/:jobid/checkpoints/config`; `None` if Flink says that checkpointing is not enabled for the job.
    pub async fn checkpoint_config(&self, job_id: &str) -> Result<Option<CheckpointConfig>, Error> {
        match self.get(path(&["jobs", job_id, "checkpoints", "config"])?).await {
            Ok(config) => Ok(Some(config)),
            Err(error) if is_checkpointing_disabled(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// [`Client::checkpoints`] of a job that is known to have ended, not older than that.
    ///
    /// The JobManager returns statistics that are up to 3 s old, even if the job has ended meanwhile: the last
    /// checkpoint, or the savepoint that stopped the job, may be missing. So this waits until such statistics have
    /// expired before it requests them.
    pub async fn final_checkpoints(&self, job_id: &str) -> Result<Checkpoints, Error> {
        let age = statistics_age_max(&self.job_manager_config().await?)?;
        tokio::time::sleep(age + age / 5).await;
        self.checkpoints(job_id).await
    }

    /// [`Client::checkpoints`] of a job that may run, with a newest state that has not been discarded since.
    ///
    /// Statistics that are up to 3 s old show at once that a checkpoint was discarded, but not the newer one that
    /// replaced it: Flink marks the same object in both (`CompletedCheckpoint.markAsDiscardedOnSubsume`). In that case
    /// this requests fresh ones.
    pub async fn current_checkpoints(&self, job_id: &str) -> Result<Checkpoints, Error> {
        match self.checkpoints(job_id).await? {
            Checkpoints::Statistics(statistics)
                if matches!(statistics.last_state(), LastState::Discarded { .. }) =>
            {
                self.final_checkpoints(job_id).await
            }
            answer => Ok(answer),
        }
    }

    /// The newest of [`Client::checkpoints`], without their history; `None` if checkpointing is not enabled for the job.
    pub async fn latest_checkpoints(
        &self,
        job_id: &str,
    ) -> Result<Option<LatestCheckpoints>, Error> {
        #[derive(Deserialize)]
        struct Answer {
            latest: LatestCheckpoints,
        }
        match self.get(path(&["jobs", job_id, "checkpoints"])?).await {
            Ok(Answer { latest }) => Ok(Some(latest)),
            Err(error) if is_checkpointing_disabled(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// `GET /jobs/:jobid/checkpoints`: up to 3 s old, see [`Client::final_checkpoints`].
    pub async fn checkpoints(&self, job_id: &str) -> Result<Checkpoints, Error> {
        match self.get(path(&["jobs", job_id, "checkpoints"])?).await {
            Ok(statistics) => Ok(Checkpoints::Statistics(Box::new(statistics))),
            Err(error) if is_checkpointing_disabled(&error) => Ok(Checkpoints::Disabled),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether Flink says that checkpointing is not enabled. Its two endpoints word this differently.
fn is_checkpointing_disabled(error: &Error) -> bool {
    matches!(error, Error::Refused { status: 404, .. })
        && error.says(|line| {
            line.contains("Checkpointing has not been enabled")
                || line.contains("Checkpointing is not enabled for this job")
        })
}

/// Returns how long the JobManager returns the same statistics.
///
/// Up to 1.18 that is `web.refresh-interval`, later an option of its own that defaults to it.
fn statistics_age_max(config: &BTreeMap<String, String>) -> Result<Duration, Error> {
    let option = |key: &str| match config.get(key).map(String::as_str) {
        None => Ok(None),
        Some(text) => duration::parse(text).map(Some).ok_or_else(|| Error::Invalid {
            problem: format!("invalid duration `{text}` of the JobManager's `{key}`"),
        }),
    };
    let refresh = option("web.refresh-interval")?.unwrap_or(STATISTICS_AGE_DEFAULT);
    let age = option(STATISTICS_AGE_OPTION)?.map_or(refresh, |own| own.max(refresh));
    if age > STATISTICS_AGE_LIMIT {
        return Err(Error::Invalid {
            problem: format!(
                "checkpoint statistics may be {age:?} old: set `{STATISTICS_AGE_OPTION}` and \
                 `web.refresh-interval` to a minute or less"
            ),
        });
    }
    Ok(age)
}

#[cfg(test)]
mod tests;
