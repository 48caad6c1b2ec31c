//! The configuration of one cluster: layers, and the values derived from its spec.
//!
//! "Forced" values win over every layer and every name of their option; "default" values are used only if no layer sets
//! them.

use std::collections::BTreeMap;

use api::GENERATION_ANNOTATION;
use api::deployment::{DeploymentMode, FlinkDeploymentSpec};
use api::job::{JobSpec, UpgradeMode};
use api::resources::{Quantity, Resource, ResourceRequirements};
use api::version::FlinkVersion;

use super::flink_config::{AUTOSCALER_PREFIX, OPERATOR_PREFIX};
use super::memory::{self, StatedMemory};
use super::option::{ConfigOption, InvalidValue, OptionValue};
use super::{FlinkConfig, OperatorConfig, options, quantity, structure, template_file};

/// Checkpoint interval of a last-state job whose user sets none: without checkpoints there would be no last state.
const DEFAULT_CHECKPOINT_INTERVAL: &str = "5 min";
/// Where a server of ZooKeeper listens if its quorum does not say.
const ZOOKEEPER_PORT: u16 = 2181;

/// The resource that a configuration is for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ResourceId {
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

/// Returns the configuration that a cluster is submitted with.
///
/// `upgrade_mode` is that of the user's current spec. It determines the default checkpoint interval, and is separate
/// from `spec` because a recovered job is built from a stored spec whose mode says how it was last restored, not what
/// it needs from now on.
pub fn deploy_config(
    operator: &OperatorConfig,
    id: &ResourceId,
    spec: &FlinkDeploymentSpec,
    upgrade_mode: Option<UpgradeMode>,
    generation: i64,
) -> Result<FlinkConfig, InvalidValue> {
    let mut config = operator.defaults(&id.namespace, spec.flink_version);
    config.overlay(&own_options(spec));
    derive(&mut config, id, spec, upgrade_mode)?;
    let mut annotations = config.find(&options::JOB_MANAGER_ANNOTATIONS)?.unwrap_or_default();
    let _previous = annotations.insert(GENERATION_ANNOTATION.to_owned(), generation.to_string());
    config.force(&options::JOB_MANAGER_ANNOTATIONS, structure::join_map(&annotations));
    Ok(config)
}

/// Returns the configuration for observing a running cluster: the deployed spec's, with the operator's and autoscaler's
/// options and the savepoint directory of the current spec, so that those take effect without a redeploy.
pub fn observe_config(
    operator: &OperatorConfig,
    id: &ResourceId,
    deployed: &FlinkDeploymentSpec,
    current: &FlinkDeploymentSpec,
) -> Result<FlinkConfig, InvalidValue> {
    let mut config = operator.defaults(&id.namespace, deployed.flink_version);
    let mut from_deployed = FlinkConfig::flatten(&deployed.flink_configuration);
    from_deployed.retain(|key| !is_for_operator(key));
    config.overlay(&from_deployed);
    let current_options = own_options(current);
    let mut from_current = current_options.clone();
    from_current.retain(is_for_operator);
    config.overlay(&from_current);
    if let Some(directory) = current_options.text_of(&options::SAVEPOINT_DIRECTORY) {
        config.force(&options::SAVEPOINT_DIRECTORY, directory);
    }
    derive(&mut config, id, deployed, current.job.as_ref().map(|job| job.upgrade_mode))?;
    Ok(config)
}

/// Returns the options that a resource sets and that count. It may go without an Ingress, and not demand one from an
/// operator that creates none, and it does not say what is in the operator's files.
fn own_options(spec: &FlinkDeploymentSpec) -> FlinkConfig {
    let mut own = FlinkConfig::flatten(&spec.flink_configuration);
    own.retain(|key| !template_file::is_entry(key));
    if own.get(&options::INGRESS_MANAGE) != Ok(false) {
        own.retain(|key| key != options::INGRESS_MANAGE.key());
    }
    own
}

/// Returns whether a key controls the operator or its autoscaler and never reaches Flink.
pub fn is_for_operator(key: &str) -> bool {
    key.starts_with(OPERATOR_PREFIX) || key.starts_with(AUTOSCALER_PREFIX)
}

/// Returns whether Flink keeps metadata about its jobs outside of the JobManager.
pub fn is_high_availability_on(config: &FlinkConfig) -> bool {
    config
        .text_of(&options::HA_TYPE)
        .map(str::trim)
        .is_some_and(|kind| !kind.is_empty() && !kind.eq_ignore_ascii_case("none"))
}

/// Returns whether a key is about high availability, under any name that it has had.
pub fn is_of_high_availability(key: &str) -> bool {
    key == "high-availability"
        || key.starts_with("high-availability.")
        || key.starts_with("recovery.")
}

/// The options that say whether there is HA metadata, and where. None of them is secret.
pub const HIGH_AVAILABILITY: [&ConfigOption<String>; 3] =
    [&options::HA_TYPE, &options::ZOOKEEPER_QUORUM, &options::ZOOKEEPER_ROOT];

/// Returns the options of high availability that are set, under their current names.
pub fn high_availability_of(config: &FlinkConfig) -> FlinkConfig {
    let stated = HIGH_AVAILABILITY.into_iter().filter_map(|option| {
        let text = config.text_of(option)?;
        Some((option.key(), text))
    });
    stated.collect()
}

/// Returns whether the metadata is in ConfigMaps of the cluster's namespace.
pub fn is_kubernetes_high_availability_on(config: &FlinkConfig) -> bool {
    config.text_of(&options::HA_TYPE).is_some_and(|kind| {
        let kind = kind.trim();
        kind.eq_ignore_ascii_case("kubernetes")
            || kind == "org.apache.flink.kubernetes.highavailability.KubernetesHaServicesFactory"
    })
}

/// Returns whether the metadata is in `ZooKeeper`.
pub fn is_zookeeper_high_availability_on(config: &FlinkConfig) -> bool {
    config.text_of(&options::HA_TYPE).is_some_and(|kind| {
        let kind = kind.trim();
        kind.eq_ignore_ascii_case("zookeeper")
            || kind
                == "org.apache.flink.runtime.highavailability.zookeeper.ZooKeeperHaServicesFactory"
    })
}

/// Returns whether a cluster with one configuration finds the HA metadata that it left with the other, under the same
/// namespace and id. `false` if there is no metadata.
pub fn is_metadata_shared(one: &FlinkConfig, other: &FlinkConfig) -> bool {
    if is_kubernetes_high_availability_on(one) {
        return is_kubernetes_high_availability_on(other);
    }
    if is_zookeeper_high_availability_on(one) {
        return is_zookeeper_high_availability_on(other) && is_ensemble_shared(one, other);
    }
    is_high_availability_on(one)
        && one.text_of(&options::HA_TYPE).map(str::trim)
            == other.text_of(&options::HA_TYPE).map(str::trim)
}

/// An ensemble that gains or loses servers stays the same ensemble.
fn is_ensemble_shared(one: &FlinkConfig, other: &FlinkConfig) -> bool {
    let servers = |config: &FlinkConfig| -> Vec<String> {
        let quorum = config.text_of(&options::ZOOKEEPER_QUORUM).unwrap_or_default();
        let servers = quorum.split(',').map(|server| server.trim().to_ascii_lowercase());
        servers.filter(|server| !server.is_empty()).collect()
    };
    let root = |config: &FlinkConfig| {
        let root = config.get(&options::ZOOKEEPER_ROOT).ok();
        root.map(|root| root.trim().trim_matches('/').to_owned())
    };
    let others = servers(other);
    servers(one).iter().any(|server| others.contains(server)) && root(one) == root(other)
}

/// Returns the servers of ZooKeeper as `host:port,…`, and the root path: that at the end of the quorum, if there is
/// one, and in it that of the cluster.
pub fn zookeeper_place(config: &FlinkConfig) -> Result<(String, String), InvalidValue> {
    let quorum = config.text_of(&options::ZOOKEEPER_QUORUM).unwrap_or_default();
    let quorum: String = quorum.chars().filter(|c| !c.is_whitespace()).collect();
    let (servers, path) = quorum.split_once('/').unwrap_or((&quorum, ""));
    Ok((servers.to_owned(), format!("/{path}/{}", config.get(&options::ZOOKEEPER_ROOT)?.trim())))
}

/// Returns why the operator's configuration does not allow to use the ZooKeeper or the path. Without a list of servers
/// it allows all.
fn zookeeper_not_allowed(
    config: &FlinkConfig,
    operator: &FlinkConfig,
) -> Result<Option<String>, InvalidValue> {
    let allowed = operator.get(&options::ZOOKEEPER_ALLOWED_SERVERS)?;
    let servers = |text: &str| -> Vec<String> {
        let servers = text.split(',').map(|server| server.trim().to_ascii_lowercase());
        let with_port = |server: String| match server.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => server,
            _ => format!("{server}:{ZOOKEEPER_PORT}"),
        };
        servers.filter(|server| !server.is_empty()).map(with_port).collect()
    };
    let allowed: Vec<_> = allowed.iter().flat_map(|entry| servers(entry)).collect();
    let (quorum, root) = zookeeper_place(config)?;
    let key = options::ZOOKEEPER_ALLOWED_SERVERS.key();
    if allowed.is_empty() {
        return Ok(None);
    }
    if let Some(server) = servers(&quorum).iter().find(|server| !allowed.contains(server)) {
        return Ok(Some(format!(
            "`{server}` in `{}` is not one of the servers that `{key}` in the operator's \
             configuration allows",
            options::ZOOKEEPER_QUORUM.key()
        )));
    }
    if !operator.is_set(&options::ZOOKEEPER_ROOT) {
        return Ok(None);
    }
    let segments = |path: &str| -> Vec<String> {
        path.split('/').filter(|segment| !segment.is_empty()).map(str::to_owned).collect()
    };
    let (_, own) = zookeeper_place(operator)?;
    let own = segments(&own);
    Ok((!segments(&root).starts_with(&own)).then(|| {
        format!(
            "`{}` is not below `/{}`, where the operator's configuration has it, and `{key}` is set",
            options::ZOOKEEPER_ROOT.key(),
            own.join("/")
        )
    }))
}

/// Returns why the operator cannot reach the ZooKeeper with the metadata, or may not. Kerberos and TLS are set up in
/// the JVM and the pods of Flink; the operator has neither the ticket nor the key. `operator` is the operator's own
/// configuration.
pub fn zookeeper_out_of_reach(config: &FlinkConfig, operator: &FlinkConfig) -> Option<String> {
    match zookeeper_not_allowed(config, operator) {
        Ok(None) => {}
        Ok(reason) => return reason,
        Err(error) => return Some(error.to_string()),
    }
    let acl = config.text_of(&options::ZOOKEEPER_ACL);
    let is_creator = acl.is_some_and(|acl| acl.trim().eq_ignore_ascii_case("creator"));
    let version = config.text_of(&options::FLINK_VERSION).and_then(FlinkVersion::parse);
    let has_password = config.is_set(&options::ZOOKEEPER_AUTHORIZATION)
        && version.is_none_or(|version| version >= FlinkVersion::V1_20);
    if is_creator && !has_password {
        return Some(format!(
            "`{}: creator` only gives access to those who log in as Flink does, and the operator \
             does not log in with Kerberos (SASL), but with `{}`, such as \
             `digest:'USER:PASSWORD'`, which Flink 1.20 and later uses beside Kerberos",
            options::ZOOKEEPER_ACL.key(),
            options::ZOOKEEPER_AUTHORIZATION.key()
        ));
    }
    let is_tls = config
        .iter()
        .filter(|(key, _)| key.starts_with("env.java."))
        .any(|(_, value)| value.contains("-Dzookeeper.client.secure=true"));
    is_tls.then(|| {
        "it requires TLS (`-Dzookeeper.client.secure=true`), which the operator does not support"
            .to_owned()
    })
}

/// Returns whether the operator can read the metadata and remove it.
pub fn is_high_availability_readable(config: &FlinkConfig) -> bool {
    is_kubernetes_high_availability_on(config) || is_zookeeper_high_availability_on(config)
}

fn derive(
    config: &mut FlinkConfig,
    id: &ResourceId,
    spec: &FlinkDeploymentSpec,
    upgrade_mode: Option<UpgradeMode>,
) -> Result<(), InvalidValue> {
    let is_legacy = spec.flink_version.is_some_and(|version| version < FlinkVersion::V1_17);
    derive_for_any_cluster(config, id, spec, is_legacy)?;
    derive_job_manager(config, spec, is_legacy)?;
    derive_task_manager(config, spec, is_legacy)?;
    if let Some(job) = &spec.job {
        derive_for_job(config, id, spec, job, upgrade_mode)?;
    }
    derive_mode(config, spec)
}

fn derive_for_any_cluster(
    config: &mut FlinkConfig,
    id: &ResourceId,
    spec: &FlinkDeploymentSpec,
    is_legacy: bool,
) -> Result<(), InvalidValue> {
    config.set_default(&options::REST_SERVICE_EXPOSED_TYPE, "ClusterIP");
    config.set_default(&options::WEB_CANCEL_ENABLE, "false");
    // What Flink ignores must be ignored here too: otherwise the REST endpoint would seem to have TLS.
    if spec.flink_version.is_some_and(|version| version >= FlinkVersion::V2_0) {
        config.retain(|key| !options::GONE_IN_FLINK_2.contains(&key));
    }
    if let Some(version) = spec.flink_version {
        config.force(&options::FLINK_VERSION, version.into_str());
    }
    if let Some(image) = stated(spec.image.as_ref()) {
        force_versioned(config, &options::CONTAINER_IMAGE, image, is_legacy);
    }
    if let Some(policy) = stated(spec.image_pull_policy.as_ref()) {
        // Upstream compares case-sensitively here, unlike for the Flink option.
        if !["IfNotPresent", "Always", "Never"].contains(&policy) {
            let expected = "`IfNotPresent`, `Always` or `Never`";
            return Err(InvalidValue::new("spec.imagePullPolicy", policy, expected));
        }
        config.force(&options::CONTAINER_IMAGE_PULL_POLICY, policy);
    }
    if let Some(account) = stated(spec.service_account.as_ref()) {
        config.force(&options::SERVICE_ACCOUNT, account);
    }
    config.force(&options::KUBERNETES_NAMESPACE, &id.namespace);
    config.force(&options::KUBERNETES_CLUSTER_ID, &id.name);
    if is_high_availability_on(config) {
        config.force(&options::HA_CLUSTER_ID, &id.name);
    }
    config.force(&options::JOB_MANAGER_OWNER_REFERENCE, owner_reference(id));
    Ok(())
}

fn owner_reference(id: &ResourceId) -> String {
    structure::join_map([
        ("apiVersion", api::API_VERSION),
        ("blockOwnerDeletion", "true"),
        ("controller", "false"),
        ("kind", "FlinkDeployment"),
        ("name", &id.name),
        ("uid", &id.uid),
    ])
}

fn derive_job_manager(
    config: &mut FlinkConfig,
    spec: &FlinkDeploymentSpec,
    is_legacy: bool,
) -> Result<(), InvalidValue> {
    let Some(job_manager) = &spec.job_manager else { return Ok(()) };
    let keys = ResourceKeys {
        path: "spec.jobManager",
        memory: options::JOB_MANAGER_PROCESS_MEMORY.key(),
        cpu: &options::JOB_MANAGER_CPU,
        cpu_limit_factor: &options::JOB_MANAGER_CPU_LIMIT_FACTOR,
        memory_limit_factor: &options::JOB_MANAGER_MEMORY_LIMIT_FACTOR,
        is_legacy,
    };
    derive_resources(config, &keys, job_manager.resource.as_ref(), job_manager.resources.as_ref())?;
    let replicas = job_manager.replicas.unwrap_or(1);
    if replicas > 0 {
        config.force(&options::JOB_MANAGER_REPLICAS, replicas.to_string());
    }
    Ok(())
}

fn derive_task_manager(
    config: &mut FlinkConfig,
    spec: &FlinkDeploymentSpec,
    is_legacy: bool,
) -> Result<(), InvalidValue> {
    let Some(task_manager) = &spec.task_manager else { return Ok(()) };
    let keys = ResourceKeys {
        path: "spec.taskManager",
        memory: options::TASK_MANAGER_PROCESS_MEMORY.key(),
        cpu: &options::TASK_MANAGER_CPU,
        cpu_limit_factor: &options::TASK_MANAGER_CPU_LIMIT_FACTOR,
        memory_limit_factor: &options::TASK_MANAGER_MEMORY_LIMIT_FACTOR,
        is_legacy,
    };
    derive_resources(
        config,
        &keys,
        task_manager.resource.as_ref(),
        task_manager.resources.as_ref(),
    )?;
    if let Some(replicas) = stated_replicas(spec) {
        config.force(&options::STANDALONE_TASK_MANAGER_REPLICAS, replicas.to_string());
    }
    Ok(())
}

/// Returns the TaskManager replicas if they are more than zero.
fn stated_replicas(spec: &FlinkDeploymentSpec) -> Option<i32> {
    spec.task_manager.as_ref()?.replicas.filter(|replicas| *replicas > 0)
}

/// The options for the resources of one role.
struct ResourceKeys {
    path: &'static str,
    memory: &'static str,
    cpu: &'static ConfigOption<f64>,
    cpu_limit_factor: &'static ConfigOption<f64>,
    memory_limit_factor: &'static ConfigOption<f64>,
    is_legacy: bool,
}

fn derive_resources(
    config: &mut FlinkConfig,
    keys: &ResourceKeys,
    resource: Option<&Resource>,
    resources: Option<&ResourceRequirements>,
) -> Result<(), InvalidValue> {
    if let Some(resources) = resources.filter(|r| !r.requests.is_empty() || !r.limits.is_empty()) {
        return derive_requirements(config, keys, resources);
    }
    let Some(resource) = resource else { return Ok(()) };
    if let Some(text) = stated(resource.memory.as_ref()) {
        let path = format!("{}.resource.memory", keys.path);
        config.set(keys.memory, parse_memory(&path, text)?.config_text());
    }
    if let Some(cpu) = resource.cpu {
        force_versioned(config, keys.cpu, &decimal(cpu), keys.is_legacy);
    }
    Ok(())
}

fn derive_requirements(
    config: &mut FlinkConfig,
    keys: &ResourceKeys,
    resources: &ResourceRequirements,
) -> Result<(), InvalidValue> {
    let memory = |entries: &BTreeMap<String, Quantity>, group: &str| {
        let path = format!("{}.resources.{group}.memory", keys.path);
        entries.get("memory").map(|text| parse_memory(&path, &text.to_string())).transpose()
    };
    let cpu = |entries: &BTreeMap<String, Quantity>, group: &str| {
        let parse = |text: String| {
            let path = format!("{}.resources.{group}.cpu", keys.path);
            quantity::parse(&text).ok_or_else(|| {
                InvalidValue::new(path, text, "a quantity such as `1`, `0.5` or `500m`")
            })
        };
        entries.get("cpu").map(|text| parse(text.to_string())).transpose()
    };
    let requested = memory(&resources.requests, "requests")?;
    let limited = memory(&resources.limits, "limits")?;
    if let Some(stated) = requested.or(limited) {
        config.set(keys.memory, stated.config_text());
    }
    if let (Some(request), Some(limit)) = (requested, limited) {
        // Both sides by the same rule, so that `2048m` and `4Gi` give a factor of 2.
        force_factor(config, keys.memory_limit_factor, in_bytes(request), in_bytes(limit));
    }
    let requested = cpu(&resources.requests, "requests")?;
    let limited = cpu(&resources.limits, "limits")?;
    if let Some(amount) = requested.or(limited) {
        force_versioned(config, keys.cpu, &decimal(amount), keys.is_legacy);
    }
    if let (Some(request), Some(limit)) = (requested, limited) {
        force_factor(config, keys.cpu_limit_factor, request, limit);
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "a factor needs no exact bytes")]
fn in_bytes(memory: StatedMemory) -> f64 {
    memory.size().bytes() as f64
}

fn force_factor(config: &mut FlinkConfig, option: &ConfigOption<f64>, request: f64, limit: f64) {
    if request > 0.0 {
        config.force(option, decimal(limit / request));
    }
}

fn parse_memory(path: &str, text: &str) -> Result<StatedMemory, InvalidValue> {
    StatedMemory::parse(text).ok_or_else(|| InvalidValue::new(path, text, memory::EXPECTED))
}

fn derive_for_job(
    config: &mut FlinkConfig,
    id: &ResourceId,
    spec: &FlinkDeploymentSpec,
    job: &JobSpec,
    upgrade_mode: Option<UpgradeMode>,
) -> Result<(), InvalidValue> {
    if let Some(uri) = stated(job.jar_uri.as_ref()) {
        if is_standalone(spec) {
            let class_path =
                uri.strip_prefix("local:").map_or_else(|| uri.to_owned(), |p| format!("file:{p}"));
            config.force(&options::PIPELINE_CLASSPATHS, structure::join_list(&[class_path]));
        } else {
            config.force(&options::PIPELINE_JARS, structure::join_list(&[uri]));
        }
    }
    if let Some(parallelism) = parallelism(config, spec, job)? {
        config.force(&options::PARALLELISM, parallelism.to_string());
    }
    config.force(&options::SHUTDOWN_ON_APPLICATION_FINISH, "false");
    config.set_default(&options::SUBMIT_FAILED_JOB_ON_APPLICATION_ERROR, "true");
    derive_for_any_job(config, &id.name, job, upgrade_mode);
    Ok(())
}

/// Derives the options that applications and session jobs have in common.
pub(super) fn derive_for_any_job(
    config: &mut FlinkConfig,
    name: &str,
    job: &JobSpec,
    upgrade_mode: Option<UpgradeMode>,
) {
    config.set_default(&options::PIPELINE_NAME, name);
    if upgrade_mode == Some(UpgradeMode::LastState) {
        config.set_default(&options::CHECKPOINTING_INTERVAL, DEFAULT_CHECKPOINT_INTERVAL);
    }
    config.set_default(&options::CHECKPOINT_RETENTION, "RETAIN_ON_CANCELLATION");
    if let Some(allow) = job.allow_non_restored_state {
        config.force(&options::SAVEPOINT_IGNORE_UNCLAIMED_STATE, allow.to_string());
    }
    if let Some(class) = stated(job.entry_class.as_ref()) {
        config.force(&options::APPLICATION_MAIN_CLASS, class);
    }
    config.force(&options::APPLICATION_ARGS, structure::join_list(&job.args));
}

/// Returns the parallelism of an application; `None` if neither replicas nor parallelism are set.
fn parallelism(
    config: &FlinkConfig,
    spec: &FlinkDeploymentSpec,
    job: &JobSpec,
) -> Result<Option<i32>, InvalidValue> {
    if let Some(replicas) = stated_replicas(spec) {
        let slots = config.get(&options::TASK_SLOTS)?;
        return Ok(Some(replicas.saturating_mul(slots)));
    }
    if is_standalone(spec)
        && let Some(overrides) = config.find(&options::PARALLELISM_OVERRIDES)?
    {
        let mut largest = 0;
        for (vertex, text) in &overrides {
            let key = format!("{}[{vertex}]", options::PARALLELISM_OVERRIDES.key());
            largest = largest.max(
                i32::parse(text)
                    .ok_or_else(|| InvalidValue::new(key, text, <i32 as OptionValue>::EXPECTED))?,
            );
        }
        if largest > 0 {
            return Ok(Some(largest));
        }
    }
    Ok(job.parallelism.filter(|parallelism| *parallelism > 0))
}

fn derive_mode(config: &mut FlinkConfig, spec: &FlinkDeploymentSpec) -> Result<(), InvalidValue> {
    let is_application = spec.job.is_some();
    if !is_standalone(spec) {
        let target = if is_application { "kubernetes-application" } else { "kubernetes-session" };
        config.force(&options::EXECUTION_TARGET, target);
        return Ok(());
    }
    config.force(&options::EXECUTION_TARGET, "remote");
    let mode = if is_application { "APPLICATION" } else { "SESSION" };
    config.force(&options::KUBERNETES_CLUSTER_MODE, mode);
    if is_application && stated_replicas(spec).is_none() {
        let parallelism = config.get(&options::PARALLELISM)?.max(1);
        let slots = config.get(&options::TASK_SLOTS)?.max(1);
        let replicas = (parallelism - 1) / slots + 1;
        config.force(&options::STANDALONE_TASK_MANAGER_REPLICAS, replicas.to_string());
    }
    Ok(())
}

fn is_standalone(spec: &FlinkDeploymentSpec) -> bool {
    spec.mode == Some(DeploymentMode::Standalone)
}

/// Forces an option under the name that the cluster's Flink knows: before 1.17 the older one, alone for the image, and
/// beside the current one for CPU.
fn force_versioned<T: OptionValue>(
    config: &mut FlinkConfig,
    option: &ConfigOption<T>,
    value: &str,
    is_legacy: bool,
) {
    config.force(option, value);
    if !is_legacy {
        return;
    }
    for former in option.keys().skip(1) {
        config.set(former, value);
    }
    if option.key() == options::CONTAINER_IMAGE.key() {
        let _current = config.remove(option.key());
    }
}

/// Formats a number as Java writes a double: `1.0`, `0.25`.
fn decimal(number: f64) -> String {
    format!("{number:?}")
}

fn stated(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str).filter(|text| !text.trim().is_empty())
}

/// Returns the directory for savepoints, if the user sets one.
pub fn savepoint_directory(config: &FlinkConfig) -> Option<String> {
    config
        .text_of(&options::SAVEPOINT_DIRECTORY)
        .map(str::trim)
        .filter(|directory| !directory.is_empty())
        .map(str::to_owned)
}

#[cfg(test)]
mod tests;
