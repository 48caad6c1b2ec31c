//! The custom resources `flink.apache.org/v1beta1` as they stand on the wire.
//!
//! Types here carry no policy: a field that is absent stays absent, and what this operator does not
//! know inside a pod template or a Flink configuration is kept as it is.

#![allow(clippy::duplicated_attributes, reason = "printer columns share a type")]

pub mod blue_green;
pub mod crd;
pub mod deployment;
pub mod job;
pub mod manifest;
pub mod pod_template;
pub mod reconciled;
pub mod resources;
pub mod session_job;
pub mod state_snapshot;
pub mod status;
pub mod version;

use serde::{Deserialize, Deserializer};

/// API group of every resource.
pub const GROUP: &str = "flink.apache.org";
/// The version of them that this program reads and writes.
pub const VERSION: &str = "v1beta1";
/// `apiVersion` of every resource.
pub const API_VERSION: &str = "flink.apache.org/v1beta1";
/// Keeps a `FlinkDeployment` until its cluster is gone.
pub const DEPLOYMENT_FINALIZER: &str = "flinkdeployments.flink.apache.org/finalizer";
/// Keeps a `FlinkSessionJob` until its job is gone.
pub const SESSION_JOB_FINALIZER: &str = "flinksessionjobs.flink.apache.org/finalizer";
/// Keeps a `FlinkStateSnapshot` until its data is disposed of.
pub const STATE_SNAPSHOT_FINALIZER: &str = "flinkstatesnapshots.flink.apache.org/finalizer";
/// Annotation on a JobManager Deployment: the generation of the resource it was made from.
pub const GENERATION_ANNOTATION: &str = "flinkdeployment.flink.apache.org/generation";
/// Annotation on a JobManager Deployment that goes as soon as its pods have ended.
pub const ENDING_ANNOTATION: &str = "flinkdeployment.flink.apache.org/ending";
/// Value of [`ENDING_ANNOTATION`] where no process of the JobManager ever ran, followed by `/` and the
/// generation of the Deployment that this is true of.
pub const NEVER_STARTED: &str = "never-started";
/// Annotation on a `FlinkStateSnapshot`: the trigger nonce that asked for it.
pub const TRIGGER_NONCE_ANNOTATION: &str = "flink.apache.org/trigger-nonce";
/// Annotation on a `FlinkStateSnapshot`: uid and generation of the job resource whose nonce that is.
pub const TRIGGERED_BY_ANNOTATION: &str = "flink.apache.org/triggered-by";
/// Annotation on a `FlinkStateSnapshot`: uids of the nodes whose going it was taken for.
pub const NODE_NOTICES_ANNOTATION: &str = "flink.apache.org/node-notices";
/// Annotation on a pod that tries a changed spec: digest of what was tried.
pub const PREFLIGHT_ANNOTATION: &str = "flink.apache.org/preflight";
/// Annotation on a pod of a new spec that stands by to take over.
pub const STANDBY_ANNOTATION: &str = "flink.apache.org/standby";
/// Annotation on such a pod: the `pod-template-hash` of the Deployment that it will belong to.
pub const TEMPLATE_HASH_ANNOTATION: &str = "flink.apache.org/template-hash";
/// Annotation on a `FlinkDeployment`: the generation that is carried out untried.
pub const NO_PREFLIGHT_ANNOTATION: &str = "flink.apache.org/no-preflight";
/// Annotation on a `FlinkDeployment` that waits, as upgrades are paused: each new value lets them go on.
pub const CONTINUE_UPGRADES_ANNOTATION: &str = "flink.apache.org/continue-upgrades";
/// Label that marks a resource the operator only uses to see that it is alive.
pub const CANARY_LABEL: &str = "flink.apache.org/canary";

/// True if a resource of this kind, with this value of [`CANARY_LABEL`], is a canary: it may be without a
/// spec, and nothing is started for it.
pub fn is_canary(kind: &str, label: Option<&str>) -> bool {
    ["FlinkDeployment", "FlinkSessionJob"].contains(&kind)
        && label.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Reads an explicit `null` as the type's default, as stored specs of the Java operator write it.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
