//! `FlinkSessionJob`: a job in a session cluster.

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_with::skip_serializing_none;

use super::deployment::FlinkConfiguration;
use super::job::JobSpec;
use super::null_as_default;
use super::status::{JobStatus, LifecycleState, ReconciliationStatus};

/// Desired job in a session cluster of the same namespace.
#[skip_serializing_none]
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[kube(
    crates(kube_core = "kube_core"),
    group = "flink.apache.org",
    version = "v1beta1",
    kind = "FlinkSessionJob",
    plural = "flinksessionjobs",
    singular = "flinksessionjob",
    shortname = "sessionjob",
    namespaced,
    doc = "A job in a session cluster, which is a `FlinkDeployment` without `spec.job`.",
    status = "SessionJobStatus",
    derive = "PartialEq",
    printcolumn(name = "Job Status", type_ = "string", json_path = ".status.jobStatus.state"),
    printcolumn(name = "Lifecycle State", type_ = "string", json_path = ".status.lifecycleState"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct FlinkSessionJobSpec {
    pub job: Option<JobSpec>,
    /// A new value forces a restart.
    pub restart_nonce: Option<i64>,
    /// Overlays the cluster's options for this job.
    #[serde(default, deserialize_with = "null_as_default")]
    pub flink_configuration: FlinkConfiguration,
    /// The session cluster; cannot change after the first deploy.
    pub deployment_name: Option<String>,
}

/// As in `FlinkDeploymentSpec`: a canary has no spec.
impl<'de> Deserialize<'de> for FlinkSessionJobSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Present(FlinkSessionJobSpec);
        impl<'de> Deserialize<'de> for Present {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                FlinkSessionJobSpec::deserialize(deserializer).map(Self)
            }
        }
        let present = Option::<Present>::deserialize(deserializer)?;
        Ok(present.map(|Present(spec)| spec).unwrap_or_default())
    }
}

impl Serialize for FlinkSessionJobSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// Status of a `FlinkSessionJob`.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionJobStatus {
    #[serde(default, deserialize_with = "null_as_default")]
    pub job_status: JobStatus,
    pub error: Option<String>,
    pub observed_generation: Option<i64>,
    pub lifecycle_state: Option<LifecycleState>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub reconciliation_status: ReconciliationStatus,
}
