//! `spec.job`: shared by `FlinkDeployment` and `FlinkSessionJob`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use strum::IntoStaticStr;

use super::null_as_default;

/// Desired state of the job.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    #[default]
    Running,
    Suspended,
}

/// How state is carried over an upgrade.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize, IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
#[serde(rename_all = "kebab-case")]
pub enum UpgradeMode {
    /// Start empty.
    #[default]
    Stateless,
    /// Stop with a savepoint and start from it.
    Savepoint,
    /// Start from the latest checkpoint, found through HA metadata or by cancelling the job.
    LastState,
}

/// The job of an application cluster or of a session job.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobSpec {
    /// Application: path in the container (`local://…`). Session job: fetched and uploaded.
    #[serde(rename = "jarURI")]
    pub jar_uri: Option<String>,
    /// Ignored when `taskManager.replicas` is set.
    pub parallelism: Option<i32>,
    /// Main class; from the jar's manifest when absent.
    pub entry_class: Option<String>,
    /// Program arguments.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Desired state.
    #[serde(default, deserialize_with = "null_as_default")]
    pub state: JobState,
    /// Deprecated: a new value triggers a savepoint.
    pub savepoint_trigger_nonce: Option<i64>,
    /// State for the first start and for a savepoint redeploy.
    pub initial_savepoint_path: Option<String>,
    /// Deprecated: a new value triggers a checkpoint (Flink 1.17 and later).
    pub checkpoint_trigger_nonce: Option<i64>,
    /// How state is carried over an upgrade.
    #[serde(default, deserialize_with = "null_as_default")]
    pub upgrade_mode: UpgradeMode,
    /// Start even if some state of the restore point no longer has an operator.
    pub allow_non_restored_state: Option<bool>,
    /// A new value discards the state and starts from `initialSavepointPath`.
    pub savepoint_redeploy_nonce: Option<i64>,
    /// A new value wipes the autoscaler's state.
    pub autoscaler_reset_nonce: Option<i64>,
}
