//! The custom resources of `flink.apache.org/v1beta1` as they are sent and stored.
//!
//! The types contain no policy: an absent field stays absent, and unknown parts of a pod template or a Flink
//! configuration are preserved.

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

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

/// API group of every resource.
pub const GROUP: &str = "flink.apache.org";
/// Version of the API group that this program reads and writes.
pub const VERSION: &str = "v1beta1";
/// `apiVersion` of every resource.
pub const API_VERSION: &str = "flink.apache.org/v1beta1";
/// Finalizer that keeps a `FlinkDeployment` until its cluster is gone.
pub const DEPLOYMENT_FINALIZER: &str = "flinkdeployments.flink.apache.org/finalizer";
/// Finalizer that keeps a `FlinkSessionJob` until its job is gone.
pub const SESSION_JOB_FINALIZER: &str = "flinksessionjobs.flink.apache.org/finalizer";
/// Finalizer that keeps a `FlinkStateSnapshot` until its data is disposed of.
pub const STATE_SNAPSHOT_FINALIZER: &str = "flinkstatesnapshots.flink.apache.org/finalizer";
/// Annotation on a JobManager Deployment: the generation of the resource it was made from.
pub const GENERATION_ANNOTATION: &str = "flinkdeployment.flink.apache.org/generation";
/// Annotation on a JobManager Deployment that is deleted as soon as its pods have ended.
pub const ENDING_ANNOTATION: &str = "flinkdeployment.flink.apache.org/ending";
/// Value of [`ENDING_ANNOTATION`] if no JobManager process ever ran, followed by `/` and the generation of the
/// Deployment to which this applies.
pub const NEVER_STARTED: &str = "never-started";
/// Annotation on a `FlinkStateSnapshot`: the trigger nonce that requested it.
pub const TRIGGER_NONCE_ANNOTATION: &str = "flink.apache.org/trigger-nonce";
/// Annotation on a `FlinkStateSnapshot`: uid and generation of the job resource with that nonce.
pub const TRIGGERED_BY_ANNOTATION: &str = "flink.apache.org/triggered-by";
/// Annotation on a `FlinkStateSnapshot`: uids of the departing nodes for which it was taken.
pub const NODE_NOTICES_ANNOTATION: &str = "flink.apache.org/node-notices";
/// Annotation on a pod that tries a changed spec: digest of what is tried.
pub const PREFLIGHT_ANNOTATION: &str = "flink.apache.org/preflight";
/// Annotation on a standby pod with a new spec that is ready to take over.
pub const STANDBY_ANNOTATION: &str = "flink.apache.org/standby";
/// Annotation on a standby pod: the `pod-template-hash` of the Deployment that it will belong to.
pub const TEMPLATE_HASH_ANNOTATION: &str = "flink.apache.org/template-hash";
/// Annotation on a `FlinkDeployment`: the generation to deploy without a trial start.
pub const NO_PREFLIGHT_ANNOTATION: &str = "flink.apache.org/no-preflight";
/// Annotation on a `FlinkDeployment` that waits because upgrades are paused: each new value resumes them.
pub const CONTINUE_UPGRADES_ANNOTATION: &str = "flink.apache.org/continue-upgrades";
/// Annotation on a resource: while its value is `true`, the operator only observes it.
pub const PAUSED_ANNOTATION: &str = "flink.apache.org/paused";
/// Label of a resource that the operator uses only to prove that it is alive.
pub const CANARY_LABEL: &str = "flink.apache.org/canary";

/// Returns whether a resource of this kind, with this value of [`CANARY_LABEL`], is a canary: it may have no spec, and
/// nothing is started for it.
pub fn is_canary(kind: &str, label: Option<&str>) -> bool {
    ["FlinkDeployment", "FlinkSessionJob"].contains(&kind)
        && label.is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Returns whether a resource is paused by its own [`PAUSED_ANNOTATION`]; `None` if it has none.
pub fn paused_by_itself(metadata: &ObjectMeta) -> Option<bool> {
    let value = metadata.annotations.as_ref()?.get(PAUSED_ANNOTATION)?;
    Some(value.eq_ignore_ascii_case("true"))
}

/// Returns whether a resource is paused by its own [`PAUSED_ANNOTATION`].
pub fn is_paused(metadata: &ObjectMeta) -> bool {
    paused_by_itself(metadata) == Some(true)
}

/// Reads an explicit `null` as the type's default, as in specs stored by the Java operator.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
