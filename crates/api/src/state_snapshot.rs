//! `FlinkStateSnapshot`: one savepoint or checkpoint of a job.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::null_as_default;
use super::status::SavepointFormatType;

/// The snapshot wanted.
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_reference: Option<JobReference>,
    /// Exactly one of `savepoint` and `checkpoint`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savepoint: Option<SavepointSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointSpec>,
    /// Retries; absent or −1 means without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff_limit: Option<i32>,
}

/// Kind of job that a snapshot is of.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
pub enum JobKind {
    FlinkDeployment,
    FlinkSessionJob,
}

impl JobKind {
    /// The spelling in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FlinkDeployment => "FlinkDeployment",
            Self::FlinkSessionJob => "FlinkSessionJob",
        }
    }
}

/// The job that a snapshot is of.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct JobReference {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<JobKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A savepoint wanted, or an existing one to record.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SavepointSpec {
    /// Target directory, or with `alreadyExists` the savepoint itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_type: Option<SavepointFormatType>,
    /// Absent means true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispose_on_delete: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub already_exists: Option<bool>,
}

/// A full checkpoint wanted.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CheckpointSpec {}

/// State of a snapshot.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
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
    /// Whether nothing comes after it.
    pub fn is_final(self) -> bool {
        match self {
            Self::TriggerPending | Self::InProgress => false,
            Self::Completed | Self::Failed | Self::Abandoned => true,
        }
    }

    /// The spelling in status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TriggerPending => "TRIGGER_PENDING",
            Self::InProgress => "IN_PROGRESS",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Abandoned => "ABANDONED",
        }
    }
}

/// Status of a `FlinkStateSnapshot`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateSnapshotStatus {
    #[serde(default, deserialize_with = "null_as_default")]
    pub state: SnapshotState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_id: Option<String>,
    /// ISO-8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_timestamp: Option<String>,
    /// ISO-8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_timestamp: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub failures: i32,
}
