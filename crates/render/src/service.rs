//! The Services: one for TaskManagers to find the JobManager, one for the REST API.

use serde_json::{Value, json};

use config::option::{InvalidValue, ServiceExposedType};
use config::{FlinkConfig, options};

use super::names::{self, JOB_MANAGER};
use super::pod::to_json;
use super::submission::port;
use super::{Cluster, RenderError};

pub(super) const REST_PORT_NAME: &str = "rest";
pub(super) const RPC_PORT_NAME: &str = "jobmanager-rpc";
pub(super) const BLOB_PORT_NAME: &str = "blobserver";

/// Where the REST API listens when `rest.bind-port` is 0.
const DEFAULT_REST_PORT: u16 = 8081;

pub(super) fn all(cluster: &Cluster, config: &FlinkConfig) -> Result<Vec<Value>, RenderError> {
    let mut services = Vec::new();
    if cluster.has_internal_service(config) {
        services.push(internal(cluster, config)?);
    }
    services.push(rest(cluster, config)?);
    Ok(services)
}

fn internal(cluster: &Cluster, config: &FlinkConfig) -> Result<Value, InvalidValue> {
    let rpc_port = config.get(&options::JOB_MANAGER_RPC_PORT)?;
    let mut ports = vec![json!({ "name": RPC_PORT_NAME, "port": rpc_port })];
    if let Some(blob_port) = port(config, &options::BLOB_SERVER_PORT)? {
        ports.push(json!({ "name": BLOB_PORT_NAME, "port": blob_port }));
    }
    let spec = json!({
        "clusterIP": "None",
        "selector": cluster.selector(JOB_MANAGER),
        "ports": ports,
    });
    let name = names::internal_service(&cluster.id.name);
    let annotations = config.find(&options::INTERNAL_SERVICE_ANNOTATIONS)?.unwrap_or_default();
    Ok(service(cluster, &name, to_json(&annotations).into(), spec))
}

fn rest(cluster: &Cluster, config: &FlinkConfig) -> Result<Value, InvalidValue> {
    let rest_port = config.get(&options::REST_PORT)?;
    let target_port = if config.is_set(&options::REST_BIND_PORT) {
        port(config, &options::REST_BIND_PORT)?.unwrap_or(DEFAULT_REST_PORT)
    } else {
        rest_port
    };
    let mut spec = json!({
        "selector": cluster.selector(JOB_MANAGER),
        "ports": [{ "name": REST_PORT_NAME, "port": rest_port, "targetPort": target_port }],
    });
    match config.get(&options::REST_SERVICE_EXPOSED_TYPE)? {
        ServiceExposedType::ClusterIp => spec["type"] = "ClusterIP".into(),
        ServiceExposedType::NodePort => spec["type"] = "NodePort".into(),
        ServiceExposedType::LoadBalancer => spec["type"] = "LoadBalancer".into(),
        ServiceExposedType::HeadlessClusterIp => {
            spec["type"] = "ClusterIP".into();
            spec["clusterIP"] = "None".into();
        }
    }
    let name = names::rest_service(&cluster.id.name);
    let annotations = config.find(&options::REST_SERVICE_ANNOTATIONS)?.unwrap_or_default();
    Ok(service(cluster, &name, to_json(&annotations).into(), spec))
}

fn service(cluster: &Cluster, name: &str, annotations: Value, spec: Value) -> Value {
    let mut metadata = json!({
        "name": name,
        "namespace": cluster.id.namespace,
        "labels": cluster.labels(),
    });
    if annotations.as_object().is_some_and(|annotations| !annotations.is_empty()) {
        metadata["annotations"] = annotations;
    }
    json!({ "apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec })
}
