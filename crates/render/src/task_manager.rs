//! The TaskManagers' Deployment of a standalone cluster. Native TaskManager pods are created by Flink: for those, this
//! is what they will look like.

use k8s_openapi::api::core::v1::Container;
use serde_json::{Map, Value};

use config::{FlinkConfig, options, process_memory};

use super::names::{self, TASK_MANAGER};
use super::pod::{self, ImageChoice, Pod, container_port};
use super::submission::port;
use super::{Cluster, Mode, RenderError};

pub(super) fn deployment(
    cluster: &Cluster,
    config: &FlinkConfig,
    template: Option<&Map<String, Value>>,
) -> Result<Value, RenderError> {
    let selector = cluster.selector(TASK_MANAGER);
    let mut labels = selector.clone();
    labels.extend(config.find(&options::TASK_MANAGER_LABELS)?.unwrap_or_default());
    let annotations = config.find(&options::TASK_MANAGER_ANNOTATIONS)?.unwrap_or_default();

    let mut pod = Pod::from_template(template.cloned().unwrap_or_default())?;
    pod.set_service_account(config, &options::TASK_MANAGER_SERVICE_ACCOUNT, Some("default"))?;
    pod.place(config, &options::TASK_MANAGER_NODE_SELECTOR, &options::TASK_MANAGER_TOLERATIONS)?;
    lay_container(&mut pod, cluster, config)?;
    pod.mount_common(cluster, config)?;

    let metadata = cluster.metadata(names::task_manager(&cluster.id.name), labels, annotations);
    let replicas = config.find(&options::STANDALONE_TASK_MANAGER_REPLICAS)?.unwrap_or(1);
    pod.into_deployment(cluster, metadata, replicas, selector)
}

fn lay_container(
    pod: &mut Pod,
    cluster: &Cluster,
    config: &FlinkConfig,
) -> Result<(), RenderError> {
    let image = match (pod::image(cluster, config)?, cluster.mode) {
        (ImageChoice::Default(image), Mode::Native) => {
            pod.set_main_defaults(Container { image: Some(image), ..Container::default() });
            None
        }
        // Unlike for the JobManager, a template's image is not used.
        (ImageChoice::Configured(image) | ImageChoice::Default(image), _) => Some(image),
    };
    let policy = config.get(&options::CONTAINER_IMAGE_PULL_POLICY)?;
    let rpc_port = port(config, &options::TASK_MANAGER_RPC_PORT)?;
    let cpu = match config.find(&options::TASK_MANAGER_CPU)? {
        Some(cpu) => cpu,
        None => f64::from(config.get(&options::TASK_SLOTS)?),
    };
    pod.lay_main(Container {
        image,
        image_pull_policy: Some(policy.into_str().to_owned()),
        command: Some(vec![config.get(&options::ENTRY_PATH)?]),
        args: Some(vec!["taskmanager".to_owned()]),
        env: Some(pod::env(config, "containerized.taskmanager.env.", None)?),
        ports: rpc_port.map(|port| vec![container_port("taskmanager-rpc", port)]),
        resources: Some(pod::resources(
            config,
            cpu,
            process_memory::task_manager(config)?,
            &options::TASK_MANAGER_CPU_LIMIT_FACTOR,
            &options::TASK_MANAGER_MEMORY_LIMIT_FACTOR,
        )?),
        ..Container::default()
    })
}
