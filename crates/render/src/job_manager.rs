//! The JobManager's Deployment.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EmptyDirVolumeSource, EnvVar, EnvVarSource, HTTPGetAction,
    ObjectFieldSelector, PodSpec, Probe, Volume,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::{Map, Value};

use config::cluster::is_high_availability_on;
use config::option::InvalidValue;
use config::{FlinkConfig, options, process_memory};

use super::names::{self, JOB_MANAGER};
use super::pod::{self, ImageChoice, Pod, container_port};
use super::submission::port;
use super::{Cluster, Mode, RenderError, config_map, service};

const USER_LIBRARY_DIRECTORY: &str = "/opt/flink/usrlib";

pub(super) fn deployment(
    cluster: &Cluster,
    config: &FlinkConfig,
    template: Option<&Map<String, Value>>,
    has_template_map: bool,
) -> Result<Value, RenderError> {
    let selector = cluster.selector(JOB_MANAGER);
    let own_labels = config.find(&options::JOB_MANAGER_LABELS)?.unwrap_or_default();
    let (mut labels, over) = match cluster.mode {
        Mode::Native => (own_labels, selector.clone()),
        Mode::Standalone => (selector.clone(), own_labels),
    };
    labels.extend(over);
    let annotations = config.find(&options::JOB_MANAGER_ANNOTATIONS)?.unwrap_or_default();

    let mut pod = Pod::from_template(template.cloned().unwrap_or_default())?;
    lay_spec(&mut pod, config)?;
    lay_container(&mut pod, cluster, config)?;
    mount_volumes(&mut pod, cluster, config, has_template_map)?;

    let metadata = cluster.metadata(names::job_manager(&cluster.id.name), labels, annotations);
    let replicas = config.get(&options::JOB_MANAGER_REPLICAS)?;
    pod.into_deployment(cluster, metadata, replicas, selector)
}

fn lay_spec(pod: &mut Pod, config: &FlinkConfig) -> Result<(), RenderError> {
    let is_templated = pod.is_set("serviceAccountName") || pod.is_set("serviceAccount");
    let fallback = (!is_templated).then_some("default");
    pod.set_service_account(config, &options::JOB_MANAGER_SERVICE_ACCOUNT, fallback)?;
    let is_on_host_network = config.get(&options::HOST_NETWORK_ENABLED)?;
    let dns_policy = if is_on_host_network {
        Some("ClusterFirstWithHostNet")
    } else {
        (!pod.is_set("dnsPolicy")).then_some("ClusterFirst")
    };
    pod.lay_spec(PodSpec {
        host_network: Some(is_on_host_network),
        dns_policy: dns_policy.map(str::to_owned),
        ..PodSpec::default()
    })?;
    pod.place(config, &options::JOB_MANAGER_NODE_SELECTOR, &options::JOB_MANAGER_TOLERATIONS)
}

fn lay_container(
    pod: &mut Pod,
    cluster: &Cluster,
    config: &FlinkConfig,
) -> Result<(), RenderError> {
    let mut own = Container {
        command: Some(vec![config.get(&options::ENTRY_PATH)?]),
        args: Some(args(cluster, config)?),
        env: Some(pod::env(config, "containerized.master.env.", Some(pod_address()))?),
        ports: Some(ports(config)?),
        resources: Some(pod::resources(
            config,
            config.get(&options::JOB_MANAGER_CPU)?,
            process_memory::job_manager(config)?,
            &options::JOB_MANAGER_CPU_LIMIT_FACTOR,
            &options::JOB_MANAGER_MEMORY_LIMIT_FACTOR,
        )?),
        ..Container::default()
    };
    let mut defaults = Container::default();
    match pod::image(cluster, config)? {
        ImageChoice::Configured(image) => own.image = Some(image),
        ImageChoice::Default(image) => defaults.image = Some(image),
    }
    match pod::configured_pull_policy(config)? {
        Some(policy) => own.image_pull_policy = Some(policy.into_str().to_owned()),
        None => defaults.image_pull_policy = Some("IfNotPresent".to_owned()),
    }
    if config.get(&options::JM_DEPLOYMENT_STARTUP_PROBE_ENABLED)? {
        defaults.startup_probe = Some(startup_probe());
    }
    pod.set_main_defaults(defaults);
    pod.lay_main(own)
}

fn pod_address() -> EnvVar {
    let field = ObjectFieldSelector {
        api_version: Some("v1".to_owned()),
        field_path: "status.podIP".to_owned(),
    };
    let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
    EnvVar { name: "_POD_IP_ADDRESS".to_owned(), value: None, value_from: Some(source) }
}

/// Returns the container's ports. On the host's network Flink binds random ports, so there are none to declare.
fn ports(config: &FlinkConfig) -> Result<Vec<ContainerPort>, InvalidValue> {
    if config.get(&options::HOST_NETWORK_ENABLED)? {
        return Ok(Vec::new());
    }
    let rpc_port = config.get(&options::JOB_MANAGER_RPC_PORT)?;
    let mut ports = vec![
        container_port(service::REST_PORT_NAME, config.get(&options::REST_PORT)?),
        container_port(service::RPC_PORT_NAME, rpc_port),
    ];
    let blob_port = port(config, &options::BLOB_SERVER_PORT)?;
    ports.extend(blob_port.map(|port| container_port(service::BLOB_PORT_NAME, port)));
    Ok(ports)
}

/// Returns the probe for the REST API; the number of attempts is unlimited.
fn startup_probe() -> Probe {
    let port = IntOrString::String(service::REST_PORT_NAME.to_owned());
    let path = Some("/config".to_owned());
    Probe {
        http_get: Some(HTTPGetAction { path, port, ..HTTPGetAction::default() }),
        failure_threshold: Some(i32::MAX),
        period_seconds: Some(1),
        ..Probe::default()
    }
}

/// Returns the arguments of the image's entry point.
fn args(cluster: &Cluster, config: &FlinkConfig) -> Result<Vec<String>, InvalidValue> {
    if cluster.mode == Mode::Native {
        let target =
            if cluster.is_application() { "kubernetes-application" } else { "kubernetes-session" };
        let more = config.get(&options::JOB_MANAGER_ENTRYPOINT_ARGS)?;
        let script = format!("kubernetes-jobmanager.sh {target} {more}");
        return Ok(vec!["bash".to_owned(), "-c".to_owned(), script]);
    }
    let mut args = Vec::new();
    if cluster.is_application() {
        args.push("standalone-job".to_owned());
        if let Some(class) = config.find(&options::APPLICATION_MAIN_CLASS)? {
            args.extend(["--job-classname".to_owned(), class]);
        }
        if config.get(&options::SAVEPOINT_IGNORE_UNCLAIMED_STATE)? {
            args.push("--allowNonRestoredState".to_owned());
        }
        if let Some(path) = config.find(&options::SAVEPOINT_PATH)? {
            args.extend(["--fromSavepoint".to_owned(), path]);
        }
    } else {
        args.push("jobmanager".to_owned());
    }
    if is_high_availability_on(config) {
        // Every JobManager announces its own address, so that the leader can be reached.
        args.extend(["-D", "jobmanager.rpc.address=$(_POD_IP_ADDRESS)"].map(str::to_owned));
    }
    if cluster.is_application() {
        args.extend(config.find(&options::APPLICATION_ARGS)?.unwrap_or_default());
    }
    Ok(args)
}

fn mount_volumes(
    pod: &mut Pod,
    cluster: &Cluster,
    config: &FlinkConfig,
    has_template_map: bool,
) -> Result<(), RenderError> {
    let artifacts = config.get(&options::USER_ARTIFACTS_DIRECTORY)?;
    if !pod.has_mount_below(&artifacts) {
        pod.mount(empty_volume("user-artifacts-volume"), &artifacts)?;
    }
    pod.mount_common(cluster, config)?;
    if has_template_map {
        pod.mount(config_map::template_volume(cluster), config_map::TEMPLATE_DIRECTORY)?;
    }
    let has_class_path =
        !config.find(&options::PIPELINE_CLASSPATHS)?.unwrap_or_default().is_empty();
    if cluster.mode == Mode::Standalone
        && cluster.is_application()
        && has_class_path
        && !pod.has_mount_below(USER_LIBRARY_DIRECTORY)
    {
        pod.mount(empty_volume("user-lib-dir"), USER_LIBRARY_DIRECTORY)?;
    }
    Ok(())
}

fn empty_volume(name: &str) -> Volume {
    let empty_dir = Some(EmptyDirVolumeSource::default());
    Volume { name: name.to_owned(), empty_dir, ..Volume::default() }
}
