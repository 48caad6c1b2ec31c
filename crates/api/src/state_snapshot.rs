//! `FlinkStateSnapshot`: one savepoint or checkpoint of a job.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use strum::IntoStaticStr;

use super::null_as_default;
use super::status::SavepointFormatType;

/// Desired snapshot.
#[skip_serializing_none]
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    crates(kube_core = "kube_core"),
    group = "flink.apache.org",
    version = "v1beta1",
    kind = "FlinkStateSnapshot",
    plural = "flinkstatesnapshots",
    singular = "flinkstatesnapshot",
    shortname = "flinksnp",
    namespaced,
    doc = "One savepoint or checkpoint of a job.",
    status = "StateSnapshotStatus",
    derive = "PartialEq",
    printcolumn(name = "Path", type_ = "string", json_path = ".status.path"),
    printcolumn(
        name = "Result Timestamp",
        type_ = "string",
        json_path = ".status.resultTimestamp"
    ),
    printcolumn(name = "Snapshot State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct FlinkStateSnapshotSpec {
    /// The job, in the same namespace.
    pub job_reference: Option<JobReference>,
    /// Exactly one of `savepoint` and `checkpoint`.
    pub savepoint: Option<SavepointSpec>,
    pub checkpoint: Option<CheckpointSpec>,
    /// Retries; absent or −1 means without limit.
    pub backoff_limit: Option<i32>,
}

/// Kind of the job that a snapshot is taken of.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize, IntoStaticStr,
)]
#[strum(const_into_str)]
pub enum JobKind {
    FlinkDeployment,
    FlinkSessionJob,
}

/// The job that a snapshot is taken of.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct JobReference {
    pub kind: Option<JobKind>,
    pub name: Option<String>,
}

/// A savepoint to take, or an existing one to record.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SavepointSpec {
    /// Target directory, or with `alreadyExists` the savepoint itself.
    pub path: Option<String>,
    pub format_type: Option<SavepointFormatType>,
    /// Absent means true.
    pub dispose_on_delete: Option<bool>,
    pub already_exists: Option<bool>,
}

/// A full checkpoint to take.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CheckpointSpec {}

/// State of a snapshot.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize, IntoStaticStr,
)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE", const_into_str)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum SnapshotState {
    #[default]
    TriggerPending,
    InProgress,
    Completed,
    Failed,
    Abandoned,
}

impl SnapshotState {
    /// Returns whether no other state follows.
    pub fn is_final(self) -> bool {
        match self {
            Self::TriggerPending | Self::InProgress => false,
            Self::Completed | Self::Failed | Self::Abandoned => true,
        }
    }
}

/// Status of a `FlinkStateSnapshot`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateSnapshotStatus {
    #[serde(default, deserialize_with = "null_as_default")]
    pub state: SnapshotState,
    pub trigger_id: Option<String>,
    /// ISO-8601.
    pub trigger_timestamp: Option<String>,
    /// ISO-8601.
    pub result_timestamp: Option<String>,
    pub path: Option<String>,
    pub error: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub failures: i32,
}
