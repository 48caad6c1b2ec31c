//! Status blocks, as the Java operator writes them; absent means unset.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::null_as_default;

/// Stands in `upgradeSavepointPath` for "the path is known to HA metadata only".
pub const LAST_STATE_PATH: &str = "KUBERNETES_OPERATOR_LAST_STATE";

/// Flink's job states.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum JobStatusState {
    Initializing,
    Created,
    Running,
    Failing,
    Failed,
    Cancelling,
    Canceled,
    Finished,
    Restarting,
    Suspended,
    Reconciling,
}

impl JobStatusState {
    /// `FAILED`, `CANCELED` and `FINISHED`: the job will not run again by itself.
    pub fn is_globally_terminal(self) -> bool {
        matches!(self, Self::Failed | Self::Canceled | Self::Finished)
    }

    /// Flink's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initializing => "INITIALIZING",
            Self::Created => "CREATED",
            Self::Running => "RUNNING",
            Self::Failing => "FAILING",
            Self::Failed => "FAILED",
            Self::Cancelling => "CANCELLING",
            Self::Canceled => "CANCELED",
            Self::Finished => "FINISHED",
            Self::Restarting => "RESTARTING",
            Self::Suspended => "SUSPENDED",
            Self::Reconciling => "RECONCILING",
        }
    }
}

/// What is known of the JobManager Deployment.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum JobManagerDeploymentStatus {
    Ready,
    DeployedNotReady,
    Deploying,
    #[default]
    Missing,
    Error,
}

/// Where an upgrade stands.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ReconciliationState {
    Deployed,
    #[default]
    Upgrading,
    RollingBack,
    RolledBack,
}

/// The one word for a resource's condition.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum LifecycleState {
    Created,
    Suspended,
    Upgrading,
    Deployed,
    Stable,
    RollingBack,
    RolledBack,
    Failed,
    Deleting,
    Deleted,
}

impl LifecycleState {
    /// The spelling in status.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "CREATED",
            Self::Suspended => "SUSPENDED",
            Self::Upgrading => "UPGRADING",
            Self::Deployed => "DEPLOYED",
            Self::Stable => "STABLE",
            Self::RollingBack => "ROLLING_BACK",
            Self::RolledBack => "ROLLED_BACK",
            Self::Failed => "FAILED",
            Self::Deleting => "DELETING",
            Self::Deleted => "DELETED",
        }
    }
}

/// Who asked for a snapshot.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SnapshotTriggerType {
    Manual,
    Periodic,
    Upgrade,
    Unknown,
}

impl SnapshotTriggerType {
    /// The spelling in status and labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Manual => "MANUAL",
            Self::Periodic => "PERIODIC",
            Self::Upgrade => "UPGRADE",
            Self::Unknown => "UNKNOWN",
        }
    }
}

/// Format of a savepoint.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SavepointFormatType {
    #[default]
    Canonical,
    Native,
    Unknown,
}

/// Format of a checkpoint.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum CheckpointType {
    Full,
    Incremental,
    Unknown,
}

/// Status of a `FlinkDeployment`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentStatus {
    #[serde(default, deserialize_with = "null_as_default")]
    pub job_status: JobStatus,
    /// A JSON document with `type`, `message` and the causes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Generation of the spec in `lastReconciledSpec`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle_state: Option<LifecycleState>,
    /// `flink-version`, `flink-revision`, `total-cpu`, `total-memory`, `state-size`, …
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub cluster_info: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub job_manager_deployment_status: JobManagerDeploymentStatus,
    #[serde(default, deserialize_with = "null_as_default")]
    pub reconciliation_status: ReconciliationStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_manager: Option<TaskManagerInfo>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Status of the job.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    /// 32 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobStatusState>,
    /// Milliseconds since the epoch, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// Milliseconds since the epoch, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_time: Option<String>,
    /// State to restore on the next start, or [`LAST_STATE_PATH`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade_savepoint_path: Option<String>,
    /// Deprecated: used where snapshot resources are off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub savepoint_info: Option<SavepointInfo>,
    /// Deprecated: used where snapshot resources are off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_info: Option<CheckpointInfo>,
}

/// Deprecated savepoint bookkeeping.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SavepointInfo {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_savepoint: Option<Savepoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_id: Option<String>,
    /// Milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_timestamp: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_type: Option<SnapshotTriggerType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_type: Option<SavepointFormatType>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub savepoint_history: Vec<Savepoint>,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "null_as_default")]
    pub last_periodic_savepoint_timestamp: i64,
}

/// A savepoint in the deprecated history.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Savepoint {
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "null_as_default")]
    pub time_stamp: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_type: Option<SnapshotTriggerType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_type: Option<SavepointFormatType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_nonce: Option<i64>,
}

/// Deprecated checkpoint bookkeeping.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointInfo {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_checkpoint: Option<Checkpoint>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_id: Option<String>,
    /// Milliseconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_timestamp: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_type: Option<SnapshotTriggerType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_type: Option<CheckpointType>,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "null_as_default")]
    pub last_periodic_checkpoint_timestamp: i64,
}

/// A checkpoint in the deprecated bookkeeping.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "null_as_default")]
    pub time_stamp: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_type: Option<SnapshotTriggerType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format_type: Option<CheckpointType>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_nonce: Option<i64>,
}

/// What was reconciled, and how far.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReconciliationStatus {
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "null_as_default")]
    pub reconciliation_timestamp: i64,
    /// `{"spec":{…},"resource_metadata":{…}}`; absent means never deployed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_reconciled_spec: Option<String>,
    /// Copy of `lastReconciledSpec` when it was judged stable: the target of a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_stable_spec: Option<String>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub state: ReconciliationState,
}

/// Input of the `scale` subresource.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskManagerInfo {
    #[serde(default, deserialize_with = "null_as_default")]
    pub label_selector: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub replicas: i32,
}

/// A Kubernetes condition; the fields are optional as stored objects may lack any.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
