//! The configuration of one job in a session cluster: the cluster's, overridden by the job's own.

use std::collections::BTreeMap;

use api::deployment::FlinkDeploymentSpec;
use api::session_job::FlinkSessionJobSpec;

use super::cluster::{
    ResourceId, derive_for_any_job, is_for_operator, is_of_high_availability, observe_config,
};
use super::option::InvalidValue;
use super::{FlinkConfig, OperatorConfig, options};

/// The specs that determine the configuration of a session job.
#[derive(Clone, Copy, Debug)]
pub struct JobSpecs<'a> {
    pub operator: &'a OperatorConfig,
    pub cluster: &'a ResourceId,
    /// The cluster as deployed.
    pub deployed_cluster: &'a FlinkDeploymentSpec,
    /// The cluster as desired.
    pub current_cluster: &'a FlinkDeploymentSpec,
    /// Name of the session job.
    pub name: &'a str,
    /// The job as it is running, or about to run.
    pub deployed: &'a FlinkSessionJobSpec,
    /// The job as desired: its options for the operator take effect at once.
    pub current: &'a FlinkSessionJobSpec,
}

/// Returns the configuration for submitting and observing a session job.
///
/// # Errors
/// If the value of a cluster or operator option cannot be parsed.
pub fn job_config(specs: &JobSpecs<'_>) -> Result<FlinkConfig, InvalidValue> {
    let JobSpecs { operator, cluster, deployed_cluster, current_cluster, name, deployed, current } =
        specs;
    let mut config = observe_config(operator, cluster, deployed_cluster, current_cluster)?;
    // A savepoint in the cluster's options is not meant for this job.
    config.unset(&options::SAVEPOINT_PATH);
    config.unset(&options::FIXED_JOB_ID);
    let mut from_deployed = FlinkConfig::flatten(&deployed.flink_configuration);
    // A cluster has high availability for all of its jobs, or for none.
    from_deployed.retain(|key| !is_for_operator(key) && !is_of_high_availability(key));
    config.overlay(&from_deployed);
    let current_options = FlinkConfig::flatten(&current.flink_configuration);
    let mut from_current = current_options.clone();
    from_current.retain(is_for_operator);
    config.overlay(&from_current);
    if let Some(directory) = current_options.text_of(&options::SAVEPOINT_DIRECTORY) {
        config.force(&options::SAVEPOINT_DIRECTORY, directory);
    }
    if let Some(job) = &deployed.job {
        if let Some(parallelism) = job.parallelism.filter(|parallelism| *parallelism > 0) {
            config.force(&options::PARALLELISM, parallelism.to_string());
        }
        let mode = current.job.as_ref().map(|job| job.upgrade_mode);
        derive_for_any_job(&mut config, name, job, mode);
    }
    Ok(config)
}

/// Returns the options that are sent to Flink with the job, without options that only the operator reads, and without
/// the id and the restore point, which the request itself contains.
pub fn submitted(config: &FlinkConfig) -> BTreeMap<String, String> {
    let mut config = config.clone();
    config.unset(&options::SAVEPOINT_PATH);
    config.retain(|key| !is_for_operator(key) && !key.starts_with("$internal."));
    config.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::job::{JobSpec, UpgradeMode};
    use serde_json::json;

    fn config(
        cluster: serde_json::Value,
        job: serde_json::Value,
        mode: UpgradeMode,
    ) -> FlinkConfig {
        let cluster: FlinkDeploymentSpec =
            serde_json::from_value(json!({"flinkVersion": "v1_20", "flinkConfiguration": cluster}))
                .unwrap();
        let job: FlinkSessionJobSpec = serde_json::from_value(json!({
            "deploymentName": "cluster",
            "flinkConfiguration": job,
            "job": {"jarURI": "https://h/j.jar", "parallelism": 3, "upgradeMode": mode},
        }))
        .unwrap();
        job_config(&JobSpecs {
            operator: &OperatorConfig::default(),
            cluster: &ResourceId::default(),
            deployed_cluster: &cluster,
            current_cluster: &cluster,
            name: "orders",
            deployed: &job,
            current: &job,
        })
        .unwrap()
    }

    #[test]
    fn the_job_is_laid_over_its_cluster() {
        let cluster = json!({"state.backend.type": "rocksdb", "rest.port": "8088"});
        let job = json!({"state.backend.type": "hashmap", "high-availability.type": "kubernetes"});
        let config = config(cluster, job, UpgradeMode::LastState);
        assert_eq!(config.get_text("state.backend.type"), Some("hashmap"));
        assert_eq!(config.get_text("rest.port"), Some("8088"));
        assert_eq!(config.text_of(&options::HA_TYPE), None, "it is the cluster's");
        assert_eq!(config.text_of(&options::PIPELINE_NAME), Some("orders"));
        assert_eq!(config.text_of(&options::PARALLELISM), Some("3"));
        assert_eq!(config.text_of(&options::CHECKPOINTING_INTERVAL), Some("5 min"));
        assert_eq!(config.text_of(&options::CHECKPOINT_RETENTION), Some("RETAIN_ON_CANCELLATION"));
    }

    #[test]
    fn what_the_operator_reads_and_where_to_start_do_not_go_to_flink() {
        let cluster = json!({"execution.savepoint.path": "s3://old"});
        let job = json!({
            "kubernetes.operator.user.artifacts.http.header": "Authorization:secret",
            "execution.state-recovery.path": "s3://older",
        });
        let sent = submitted(&config(cluster, job, UpgradeMode::Stateless));
        assert!(sent.keys().all(|key| !key.starts_with("kubernetes.operator.")), "{sent:?}");
        assert!(!sent.contains_key("execution.savepoint.path"), "{sent:?}");
        assert!(!sent.contains_key("execution.state-recovery.path"), "{sent:?}");
        assert!(!sent.keys().any(|key| key.starts_with("$internal.")), "{sent:?}");
        assert_eq!(sent["parallelism.default"], "3");
    }

    #[test]
    fn a_job_without_a_spec_has_its_clusters_configuration() {
        let spec = FlinkSessionJobSpec { job: Some(JobSpec::default()), ..Default::default() };
        let cluster = FlinkDeploymentSpec::default();
        let config = job_config(&JobSpecs {
            operator: &OperatorConfig::default(),
            cluster: &ResourceId::default(),
            deployed_cluster: &cluster,
            current_cluster: &cluster,
            name: "orders",
            deployed: &spec,
            current: &spec,
        })
        .unwrap();
        assert_eq!(config.text_of(&options::PARALLELISM), None);
    }
}
