//! The properties of one submission, and the options that Flink's deployer writes.

use api::version::FlinkVersion;
use config::FlinkConfig;
use config::cluster::{ResourceId, is_high_availability_on};
use config::option::{ConfigOption, InvalidValue, OptionValue};
use config::options;

use super::{Cluster, Mode, RenderError};

/// Ids and restore point of one submission of a job.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Submission {
    /// 32 hexadecimal digits, fixed before anything is created.
    pub job_id: String,
    /// The state to start from: a savepoint or checkpoint, or the marker that lets Flink fail if the HA metadata is
    /// gone. `None` to start empty, or from HA metadata if there is any.
    pub savepoint_path: Option<String>,
    /// Separates the results of this run from those of earlier ones: a uuid.
    pub job_result_store_id: String,
}

impl Submission {
    pub(super) fn write_to(
        &self,
        id: &ResourceId,
        version: Option<FlinkVersion>,
        config: &mut FlinkConfig,
    ) -> Result<(), InvalidValue> {
        let Self { job_id, savepoint_path, job_result_store_id } = self;
        config.force(&options::FIXED_JOB_ID, job_id);
        // Under every name: a path in the user's configuration must not take precedence.
        config.unset(&options::SAVEPOINT_PATH);
        if let Some(path) = savepoint_path {
            config.set(options::SAVEPOINT_PATH.key(), path);
        }
        if let Some(directory) = config.find(&options::HA_STORAGE_DIRECTORY)? {
            let directory = directory.trim_end_matches('/');
            let of_this_run =
                |store: &str| format!("{directory}/{store}/{}/{job_result_store_id}", id.name);
            config.set_default(&options::JOB_RESULT_STORE_DELETE_ON_COMMIT, "false");
            config.force(&options::JOB_RESULT_STORE_PATH, of_this_run("job-result-store"));
            // Flink 2.3 also stores the result of an application, under an id that all its runs share.
            if version.is_some_and(|version| version >= FlinkVersion::V2_3) {
                config.set_default(&options::APPLICATION_RESULT_STORE_DELETE_ON_COMMIT, "false");
                let path = of_this_run("application-result-store");
                config.force(&options::APPLICATION_RESULT_STORE_PATH, path);
            }
        }
        Ok(())
    }
}

const BLOB_SERVER_PORT: u16 = 6124;
const TASK_MANAGER_RPC_PORT: u16 = 6122;

/// Fixes ports that would be chosen at start, because Services and containers name them.
pub(super) fn write_addresses(
    cluster: &Cluster,
    config: &mut FlinkConfig,
) -> Result<(), RenderError> {
    fix_port(config, &options::BLOB_SERVER_PORT, BLOB_SERVER_PORT)?;
    fix_port(config, &options::TASK_MANAGER_RPC_PORT, TASK_MANAGER_RPC_PORT)?;
    if is_high_availability_on(config) {
        let rpc_port = config.get(&options::JOB_MANAGER_RPC_PORT)?;
        fix_port(config, &options::HA_JOB_MANAGER_PORT, rpc_port)?;
    }
    if cluster.has_internal_service(config) {
        let address = format!("{}.{}", cluster.id.name, cluster.id.namespace);
        config.force(&options::JOB_MANAGER_RPC_ADDRESS, address);
    }
    Ok(())
}

fn fix_port(
    config: &mut FlinkConfig,
    option: &ConfigOption<String>,
    fallback: u16,
) -> Result<(), InvalidValue> {
    if port(config, option)?.is_none() {
        config.force(option, fallback.to_string());
    }
    Ok(())
}

/// Returns a single port; `None` if it is 0 or not set. A Service cannot contain ranges.
pub(super) fn port(
    config: &FlinkConfig,
    option: &ConfigOption<String>,
) -> Result<Option<u16>, InvalidValue> {
    let Some(text) = config.find(option)? else { return Ok(None) };
    let port = u16::parse(&text)
        .ok_or_else(|| InvalidValue::new(option.key(), &text, "a single port number"))?;
    Ok((port != 0).then_some(port))
}

/// Writes the options that make Flink's entry point start a native cluster.
pub(super) fn write_mode(cluster: &Cluster, config: &mut FlinkConfig) {
    if cluster.mode == Mode::Standalone {
        return;
    }
    let kind = if cluster.is_application() { "Application" } else { "Session" };
    let class = format!("org.apache.flink.kubernetes.entrypoint.Kubernetes{kind}ClusterEntrypoint");
    config.force(&options::JOB_MANAGER_ENTRYPOINT_CLASS, class);
    config.force(&options::CLUSTER_EXECUTION_MODE, "NORMAL");
}

/// Sets the path of the mounted template. Flink reads it if this option is set, and fails if the file is missing. Other
/// paths are of files in the operator's pod, whose content is in the template.
pub(super) fn write_template_path(cluster: &Cluster, has_template: bool, config: &mut FlinkConfig) {
    config.retain(|key| !key.starts_with("kubernetes.pod-template-file"));
    if cluster.mode == Mode::Native && has_template {
        let path = format!(
            "{}/{}",
            super::config_map::TEMPLATE_DIRECTORY,
            super::config_map::TEMPLATE_KEY
        );
        config.force(&options::TASK_MANAGER_POD_TEMPLATE, path);
    }
}
