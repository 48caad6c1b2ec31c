//! Names of a cluster's objects; `id` is the name of the resource.

/// The container that runs Flink.
pub const MAIN_CONTAINER: &str = "flink-main-container";
/// Label that distinguishes the JobManager from TaskManagers.
pub const COMPONENT_LABEL: &str = "component";
/// Labels of objects next to a cluster: their purpose, and the name of the cluster.
pub(super) const NAME_LABEL: &str = "app.kubernetes.io/name";
pub(super) const INSTANCE_LABEL: &str = "app.kubernetes.io/instance";
pub const JOB_MANAGER: &str = "jobmanager";
pub const TASK_MANAGER: &str = "taskmanager";

/// Returns the name of the JobManager's Deployment.
pub fn job_manager(id: &str) -> String {
    id.to_owned()
}

/// Returns the name of a standalone cluster's TaskManager Deployment.
pub fn task_manager(id: &str) -> String {
    format!("{id}-taskmanager")
}

/// Returns the name of the Service for the REST API and the web UI.
pub fn rest_service(id: &str) -> String {
    format!("{id}-rest")
}

/// Returns the name of the headless Service through which TaskManagers find the JobManager.
pub fn internal_service(id: &str) -> String {
    id.to_owned()
}

/// Returns the name of the ConfigMap with the Flink configuration.
pub fn config_map(id: &str) -> String {
    format!("flink-config-{id}")
}

/// Returns the name of the ConfigMap with the template of native TaskManager pods.
pub fn pod_template_config_map(id: &str) -> String {
    format!("pod-template-{id}")
}
