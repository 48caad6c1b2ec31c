//! The JobManager's Deployment.

use serde_json::{Value, json};

use config::cluster::is_high_availability_on;
use config::option::InvalidValue;
use config::{FlinkConfig, options, process_memory};

use super::names::{self, JOB_MANAGER};
use super::pod::{self, ImageChoice, Pod, Resources};
use super::submission::port;
use super::{Cluster, Mode, RenderError, config_map, pod_template, service};

const USER_LIBRARY_DIRECTORY: &str = "/opt/flink/usrlib";

pub(super) fn deployment(
    cluster: &Cluster,
    config: &FlinkConfig,
    has_template_map: bool,
) -> Result<Value, RenderError> {
    let selector = cluster.selector(JOB_MANAGER);
    let own_labels = config.find(&options::JOB_MANAGER_LABELS)?.unwrap_or_default();
    let mut labels = match cluster.mode {
        Mode::Native => own_labels.clone(),
        Mode::Standalone => selector.clone(),
    };
    labels.extend(match cluster.mode {
        Mode::Native => selector.clone(),
        Mode::Standalone => own_labels,
    });
    let annotations = config.find(&options::JOB_MANAGER_ANNOTATIONS)?.unwrap_or_default();

    let mut pod = Pod::from_template(pod_template::job_manager(cluster.spec, config)?)?;
    pod.lay_labels(&labels)?;
    pod.lay_annotations(&annotations)?;
    fill_spec(&mut pod, config)?;
    fill_container(&mut pod, cluster, config)?;
    mount_volumes(&mut pod, cluster, config, has_template_map)?;

    let metadata = cluster.metadata(names::job_manager(&cluster.id.name), labels, annotations);
    let replicas = config.get(&options::JOB_MANAGER_REPLICAS)?;
    pod.into_deployment(cluster, metadata, replicas, selector)
}

fn fill_spec(pod: &mut Pod, config: &FlinkConfig) -> Result<(), RenderError> {
    let account = match config.find(&options::JOB_MANAGER_SERVICE_ACCOUNT)? {
        Some(account) => Some(account),
        None => config.find(&options::SERVICE_ACCOUNT)?,
    };
    let is_templated = pod.is_set("serviceAccountName") || pod.is_set("serviceAccount");
    if account.is_some() || !is_templated {
        let account = account.unwrap_or_else(|| "default".to_owned());
        pod.set("serviceAccount", account.clone());
        pod.set("serviceAccountName", account);
    }
    let is_on_host_network = config.get(&options::HOST_NETWORK_ENABLED)?;
    pod.set("hostNetwork", is_on_host_network);
    if is_on_host_network {
        pod.set("dnsPolicy", "ClusterFirstWithHostNet");
    } else {
        pod.set_default("dnsPolicy", "ClusterFirst");
    }
    pod.place(config, &options::JOB_MANAGER_NODE_SELECTOR, &options::JOB_MANAGER_TOLERATIONS)
}

fn fill_container(
    pod: &mut Pod,
    cluster: &Cluster,
    config: &FlinkConfig,
) -> Result<(), RenderError> {
    match pod::image(cluster, config)? {
        ImageChoice::Configured(image) => pod.set_main("image", image),
        ImageChoice::Default(image) => pod.set_main_default("image", image),
    }
    match pod::configured_pull_policy(config)? {
        Some(policy) => pod.set_main("imagePullPolicy", policy.as_str()),
        None => pod.set_main_default("imagePullPolicy", "IfNotPresent"),
    }
    pod.set_main("command", json!([config.get(&options::ENTRY_PATH)?]));
    pod.set_main("args", args(cluster, config)?);

    pod.add_role_env(config, "containerized.master.env.")?;
    let pod_ip = json!({ "fieldRef": { "apiVersion": "v1", "fieldPath": "status.podIP" } });
    pod.add_env(json!({ "name": "_POD_IP_ADDRESS", "valueFrom": pod_ip }))?;
    pod.add_common_env(config)?;

    // On the host's network Flink binds random ports, so there is nothing to announce.
    if !config.get(&options::HOST_NETWORK_ENABLED)? {
        pod.add_port(service::REST_PORT_NAME, config.get(&options::REST_PORT)?)?;
        pod.add_port(service::RPC_PORT_NAME, config.get(&options::JOB_MANAGER_RPC_PORT)?)?;
        if let Some(blob_port) = port(config, &options::BLOB_SERVER_PORT)? {
            pod.add_port(service::BLOB_PORT_NAME, blob_port)?;
        }
    }
    pod.set_resources(&Resources::new(
        config,
        config.get(&options::JOB_MANAGER_CPU)?,
        process_memory::job_manager(config)?,
        &options::JOB_MANAGER_CPU_LIMIT_FACTOR,
        &options::JOB_MANAGER_MEMORY_LIMIT_FACTOR,
    )?)
}

/// Arguments of the image's entry point.
fn args(cluster: &Cluster, config: &FlinkConfig) -> Result<Value, InvalidValue> {
    if cluster.mode == Mode::Native {
        let target =
            if cluster.is_application() { "kubernetes-application" } else { "kubernetes-session" };
        let more = config.get(&options::JOB_MANAGER_ENTRYPOINT_ARGS)?;
        return Ok(json!(["bash", "-c", format!("kubernetes-jobmanager.sh {target} {more}")]));
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
        // Every JobManager announces itself, so that the leader can be reached.
        args.extend(["-D", "jobmanager.rpc.address=$(_POD_IP_ADDRESS)"].map(str::to_owned));
    }
    if cluster.is_application() {
        args.extend(config.find(&options::APPLICATION_ARGS)?.unwrap_or_default());
    }
    Ok(args.into())
}

fn mount_volumes(
    pod: &mut Pod,
    cluster: &Cluster,
    config: &FlinkConfig,
    has_template_map: bool,
) -> Result<(), RenderError> {
    let artifacts = config.get(&options::USER_ARTIFACTS_DIRECTORY)?;
    if !pod.has_mount_below(&artifacts) {
        pod.mount(json!({ "name": "user-artifacts-volume", "emptyDir": {} }), &artifacts)?;
    }
    pod.mount_common(cluster, config)?;
    if has_template_map {
        pod.mount(json!(config_map::template_volume(cluster)), config_map::TEMPLATE_DIRECTORY)?;
    }
    let has_class_path =
        !config.find(&options::PIPELINE_CLASSPATHS)?.unwrap_or_default().is_empty();
    if cluster.mode == Mode::Standalone
        && cluster.is_application()
        && has_class_path
        && !pod.has_mount_below(USER_LIBRARY_DIRECTORY)
    {
        pod.mount(json!({ "name": "user-lib-dir", "emptyDir": {} }), USER_LIBRARY_DIRECTORY)?;
    }
    Ok(())
}
