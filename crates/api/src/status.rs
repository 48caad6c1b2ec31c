//! Status blocks, as the Java operator writes them; absent means unset.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use strum::{EnumString, IntoStaticStr};

use super::null_as_default;

/// Value of `upgradeSavepointPath` meaning that only HA metadata knows the path.
pub const LAST_STATE_PATH: &str = "KUBERNETES_OPERATOR_LAST_STATE";

/// Flink's job states.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize, IntoStaticStr,
)]
#[strum(serialize_all = "UPPERCASE", const_into_str)]
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
    /// Returns whether the job will not run again by itself: `FAILED`, `CANCELED` and `FINISHED`.
    pub fn is_globally_terminal(self) -> bool {
        matches!(self, Self::Failed | Self::Canceled | Self::Finished)
    }
}

/// State of the JobManager Deployment, as far as it is known.
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
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, JsonSchema, PartialEq, Serialize, IntoStaticStr,
)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE", const_into_str)]
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

/// Who asked for a snapshot.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize, IntoStaticStr)]
#[strum(serialize_all = "UPPERCASE", const_into_str)]
#[serde(rename_all = "UPPERCASE")]
pub enum SnapshotTriggerType {
    Manual,
    Periodic,
    Upgrade,
    Unknown,
}

/// Format of a savepoint.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize, EnumString,
)]
#[strum(serialize_all = "UPPERCASE", ascii_case_insensitive)]
#[serde(rename_all = "UPPERCASE")]
pub enum SavepointFormatType {
    #[default]
    Canonical,
    Native,
    #[strum(disabled)]
    Unknown,
}

/// Format of a checkpoint.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize, EnumString)]
#[strum(serialize_all = "UPPERCASE", ascii_case_insensitive)]
#[serde(rename_all = "UPPERCASE")]
pub enum CheckpointType {
    Full,
    Incremental,
    Unknown,
}

/// Status of a `FlinkDeployment`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentStatus {
    #[serde(default, deserialize_with = "null_as_default")]
    pub job_status: JobStatus,
    /// A JSON document with `type`, `message` and the causes.
    pub error: Option<String>,
    /// Generation of the spec in `lastReconciledSpec`.
    pub observed_generation: Option<i64>,
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
    pub task_manager: Option<TaskManagerInfo>,
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Status of the job.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobStatus {
    pub job_name: Option<String>,
    /// 32 hex digits.
    pub job_id: Option<String>,
    pub state: Option<JobStatusState>,
    /// Milliseconds since the epoch, as text.
    pub start_time: Option<String>,
    /// Milliseconds since the epoch, as text.
    pub update_time: Option<String>,
    /// State to restore on the next start, or [`LAST_STATE_PATH`].
    pub upgrade_savepoint_path: Option<String>,
    /// Deprecated: used where snapshot resources are off.
    pub savepoint_info: Option<SavepointInfo>,
    /// Deprecated: used where snapshot resources are off.
    pub checkpoint_info: Option<CheckpointInfo>,
}

/// Deprecated savepoint bookkeeping.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SavepointInfo {
    pub last_savepoint: Option<Savepoint>,
    pub trigger_id: Option<String>,
    /// Milliseconds since the epoch.
    pub trigger_timestamp: Option<i64>,
    pub trigger_type: Option<SnapshotTriggerType>,
    pub format_type: Option<SavepointFormatType>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub savepoint_history: Vec<Savepoint>,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "null_as_default")]
    pub last_periodic_savepoint_timestamp: i64,
}

/// A savepoint in the deprecated history.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Savepoint {
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "null_as_default")]
    pub time_stamp: i64,
    pub location: Option<String>,
    pub trigger_type: Option<SnapshotTriggerType>,
    pub format_type: Option<SavepointFormatType>,
    pub trigger_nonce: Option<i64>,
}

/// Deprecated checkpoint bookkeeping.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointInfo {
    pub last_checkpoint: Option<Checkpoint>,
    pub trigger_id: Option<String>,
    /// Milliseconds since the epoch.
    pub trigger_timestamp: Option<i64>,
    pub trigger_type: Option<SnapshotTriggerType>,
    pub format_type: Option<CheckpointType>,
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "null_as_default")]
    pub last_periodic_checkpoint_timestamp: i64,
}

/// A checkpoint in the deprecated bookkeeping.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "null_as_default")]
    pub time_stamp: i64,
    pub trigger_type: Option<SnapshotTriggerType>,
    pub format_type: Option<CheckpointType>,
    pub trigger_nonce: Option<i64>,
}

/// The specs that were reconciled, and how far.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReconciliationStatus {
    /// Milliseconds since the epoch.
    #[serde(default, deserialize_with = "null_as_default")]
    pub reconciliation_timestamp: i64,
    /// `{"spec":{…},"resource_metadata":{…}}`; absent means never deployed.
    pub last_reconciled_spec: Option<String>,
    /// Copy of `lastReconciledSpec` when it was judged stable: the target of a rollback.
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
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    pub type_: Option<String>,
    pub status: Option<String>,
    pub observed_generation: Option<i64>,
    /// RFC 3339.
    pub last_transition_time: Option<String>,
    pub reason: Option<String>,
    pub message: Option<String>,
}
