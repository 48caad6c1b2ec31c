//! `FlinkDeployment`: an application cluster (with `job`) or a session cluster (without).

use std::borrow::Cow;
use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use super::job::JobSpec;
use super::null_as_default;
use super::pod_template::PodTemplate;
use super::resources::{Resource, ResourceRequirements};
use super::status::DeploymentStatus;
use super::version::FlinkVersion;

/// Who starts TaskManagers: Flink itself or the operator.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeploymentMode {
    #[default]
    Native,
    Standalone,
}

/// Flink options: a flat map or nested YAML, kept as the user wrote it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(transparent)]
pub struct FlinkConfiguration(pub Map<String, Value>);

/// No type at all, as in the Java operator's schema.
impl JsonSchema for FlinkConfiguration {
    fn schema_name() -> Cow<'static, str> {
        "FlinkConfiguration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "x-kubernetes-preserve-unknown-fields": true })
    }
}

/// Desired cluster and job.
#[skip_serializing_none]
#[derive(Clone, CustomResource, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", remote = "Self")]
#[kube(
    crates(kube_core = "kube_core"),
    group = "flink.apache.org",
    version = "v1beta1",
    kind = "FlinkDeployment",
    plural = "flinkdeployments",
    singular = "flinkdeployment",
    shortname = "flinkdep",
    namespaced,
    doc = "A Flink cluster that the operator keeps running: an application cluster with one job if `spec.job` is set, otherwise a session cluster.",
    status = "DeploymentStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.taskManager.replicas",
        status_replicas_path = ".status.taskManager.replicas",
        label_selector_path = ".status.taskManager.labelSelector"
    ),
    printcolumn(name = "Job Status", type_ = "string", json_path = ".status.jobStatus.state"),
    printcolumn(name = "Lifecycle State", type_ = "string", json_path = ".status.lifecycleState"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
pub struct FlinkDeploymentSpec {
    /// Present: application cluster. Absent: session cluster.
    pub job: Option<JobSpec>,
    /// A new value forces a redeploy.
    pub restart_nonce: Option<i64>,
    /// Flink and operator options.
    #[serde(default, deserialize_with = "null_as_default")]
    pub flink_configuration: FlinkConfiguration,
    /// Image of JobManager and TaskManagers; blank for Flink's default image.
    pub image: Option<String>,
    /// `IfNotPresent`, `Always` or `Never`.
    pub image_pull_policy: Option<String>,
    /// Service account of the pods.
    pub service_account: Option<String>,
    /// The Flink version of the image.
    pub flink_version: Option<FlinkVersion>,
    /// Ingress of the web UI.
    pub ingress: Option<IngressSpec>,
    /// Base template of JobManager and TaskManager pods.
    pub pod_template: Option<PodTemplate>,
    pub job_manager: Option<JobManagerSpec>,
    pub task_manager: Option<TaskManagerSpec>,
    /// `log4j-console.properties` and `logback-console.xml` by name.
    pub log_configuration: Option<BTreeMap<String, String>>,
    /// Absent means native.
    pub mode: Option<DeploymentMode>,
}

/// Reads a resource without a spec as one with an empty spec: canaries need none, and a list that contains one must not
/// fail as a whole.
impl<'de> Deserialize<'de> for FlinkDeploymentSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Present(FlinkDeploymentSpec);
        impl<'de> Deserialize<'de> for Present {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                FlinkDeploymentSpec::deserialize(deserializer).map(Self)
            }
        }
        let present = Option::<Present>::deserialize(deserializer)?;
        Ok(present.map(|Present(spec)| spec).unwrap_or_default())
    }
}

impl Serialize for FlinkDeploymentSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// The JobManager.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobManagerSpec {
    /// Deprecated form of `resources`.
    pub resource: Option<Resource>,
    pub resources: Option<ResourceRequirements>,
    /// Default 1; more need high availability.
    pub replicas: Option<i32>,
    /// Merged over `spec.podTemplate`.
    pub pod_template: Option<PodTemplate>,
}

/// The TaskManagers.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskManagerSpec {
    /// Deprecated form of `resources`.
    pub resource: Option<Resource>,
    pub resources: Option<ResourceRequirements>,
    /// Takes precedence over `job.parallelism`.
    pub replicas: Option<i32>,
    /// Merged over `spec.podTemplate`.
    pub pod_template: Option<PodTemplate>,
}

/// Ingress of the web UI.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressSpec {
    /// URL with `{{name}}` and `{{namespace}}`.
    pub template: Option<String>,
    pub class_name: Option<String>,
    pub annotations: Option<BTreeMap<String, String>>,
    pub labels: Option<BTreeMap<String, String>>,
    pub tls: Option<Vec<IngressTls>>,
}

/// One TLS entry of an Ingress.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IngressTls {
    pub hosts: Option<Vec<String>>,
    pub secret_name: Option<String>,
}
