//! The Services: one for TaskManagers to find the JobManager, one for the REST API.

use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Value, json};

use config::option::{InvalidValue, ServiceExposedType};
use config::{FlinkConfig, options};

use super::names::{self, JOB_MANAGER};
use super::submission::port;
use super::{Cluster, RenderError, TextMap};

pub(super) const REST_PORT_NAME: &str = "rest";
pub(super) const RPC_PORT_NAME: &str = "jobmanager-rpc";
pub(super) const BLOB_PORT_NAME: &str = "blobserver";

/// Port of the REST API if `rest.bind-port` is 0.
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
    let mut ports = vec![service_port(RPC_PORT_NAME, rpc_port)];
    if let Some(blob_port) = port(config, &options::BLOB_SERVER_PORT)? {
        ports.push(service_port(BLOB_PORT_NAME, blob_port));
    }
    let spec = ServiceSpec {
        cluster_ip: Some("None".to_owned()),
        ports: Some(ports),
        ..ServiceSpec::default()
    };
    let name = names::internal_service(&cluster.id.name);
    let annotations = config.find(&options::INTERNAL_SERVICE_ANNOTATIONS)?.unwrap_or_default();
    Ok(service(cluster, name, annotations, spec))
}

fn rest(cluster: &Cluster, config: &FlinkConfig) -> Result<Value, InvalidValue> {
    let rest_port = config.get(&options::REST_PORT)?;
    let target_port = if config.is_set(&options::REST_BIND_PORT) {
        port(config, &options::REST_BIND_PORT)?.unwrap_or(DEFAULT_REST_PORT)
    } else {
        rest_port
    };
    let port = ServicePort {
        target_port: Some(IntOrString::Int(target_port.into())),
        ..service_port(REST_PORT_NAME, rest_port)
    };
    let (exposed_type, cluster_ip) = match config.get(&options::REST_SERVICE_EXPOSED_TYPE)? {
        ServiceExposedType::ClusterIp => ("ClusterIP", None),
        ServiceExposedType::NodePort => ("NodePort", None),
        ServiceExposedType::LoadBalancer => ("LoadBalancer", None),
        ServiceExposedType::HeadlessClusterIp => ("ClusterIP", Some("None".to_owned())),
    };
    let spec = ServiceSpec {
        type_: Some(exposed_type.to_owned()),
        cluster_ip,
        ports: Some(vec![port]),
        ..ServiceSpec::default()
    };
    let name = names::rest_service(&cluster.id.name);
    let annotations = config.find(&options::REST_SERVICE_ANNOTATIONS)?.unwrap_or_default();
    Ok(service(cluster, name, annotations, spec))
}

fn service_port(name: &str, port: u16) -> ServicePort {
    ServicePort { name: Some(name.to_owned()), port: port.into(), ..ServicePort::default() }
}

/// Returns a Service that leads to JobManagers.
fn service(cluster: &Cluster, name: String, annotations: TextMap, spec: ServiceSpec) -> Value {
    let metadata = cluster.metadata(name, cluster.labels(), annotations);
    let spec = ServiceSpec { selector: Some(cluster.selector(JOB_MANAGER)), ..spec };
    json!(Service { metadata, spec: Some(spec), status: None })
}
