//! CPU and memory of JobManager and TaskManager.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The deprecated `resource` block.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// CPU cores.
    pub cpu: Option<f64>,
    /// Memory in Flink's syntax (`2048m`, binary units), else Kubernetes' (`2Gi`).
    pub memory: Option<String>,
    /// Kubernetes quantity.
    pub ephemeral_storage: Option<String>,
}

/// A Kubernetes quantity as written: text or a bare number.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Quantity {
    /// `cpu: 1`
    Number(serde_json::Number),
    /// `cpu: 500m`
    Text(String),
}

impl std::fmt::Display for Quantity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Kubernetes-style requests and limits; takes precedence over `resource` unless empty.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ResourceRequirements {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(
        with = "BTreeMap<String, k8s_openapi::apimachinery::pkg::util::intstr::IntOrString>"
    )]
    pub requests: BTreeMap<String, Quantity>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(
        with = "BTreeMap<String, k8s_openapi::apimachinery::pkg::util::intstr::IntOrString>"
    )]
    pub limits: BTreeMap<String, Quantity>,
    /// Accepted but not used.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<k8s_openapi::api::core::v1::ResourceClaim>")]
    pub claims: Vec<serde_json::Value>,
}
