//! Rules D1 to D31, for a `FlinkDeployment`.

use api::deployment::{
    DeploymentMode, FlinkDeploymentSpec, IngressSpec, JobManagerSpec, TaskManagerSpec,
};
use api::job::{JobSpec, JobState, UpgradeMode};
use api::resources::{Resource, ResourceRequirements};
use api::version::FlinkVersion;
use config::cluster::{ResourceId, deploy_config, is_for_operator, is_high_availability_on};
use config::file::survives_flink_conf;
use config::memory::StatedMemory;
use config::option::ConfigOption;
use config::options::node_notice::{self, NoticeSnapshot};
use config::{FlinkConfig, options};

use super::memory_model::{self, Problem};
use super::{
    Finding, NAME_RULE, Places, Rule, ValidationInput, autoscaler, ingress, is_blank,
    is_valid_name, jar_uri, kerberos, options_form, resources,
};

/// Keys that identify the cluster; only the operator sets them (D5).
const FORBIDDEN_KEYS: [&str; 3] =
    ["kubernetes.namespace", "kubernetes.cluster-id", "high-availability.cluster-id"];
/// Files of `spec.logConfiguration` (D10).
const LOG_FILES: [&str; 2] = ["log4j-console.properties", "logback-console.xml"];
const PULL_POLICIES: [&str; 3] = ["IfNotPresent", "Always", "Never"];

pub(super) fn check(input: &ValidationInput<'_>) -> Vec<Finding> {
    let ValidationInput { name, namespace, spec, last_reconciled, operator } = input;
    let own = FlinkConfig::flatten(&spec.flink_configuration);
    let mut config = operator.defaults(namespace, spec.flink_version);
    config.overlay(&own);
    let check = Check { spec, config, places: Places { own } };
    let mut violations = Vec::new();
    if !is_valid_name(name) {
        violations
            .push(Rule::Name.found("metadata.name", format!("invalid name `{name}`: {NAME_RULE}")));
    }
    violations.extend(check.version());
    violations.extend(check.config());
    violations.extend(kerberos::check(spec, &check.config, &check.places));
    violations.extend(check.ingress(name, namespace));
    violations.extend(ingress::check(
        (name, namespace),
        spec.ingress.as_ref(),
        last_reconciled.and_then(|last| last.ingress.as_ref()),
        &operator.base,
    ));
    violations.extend(check.log_files());
    if let Some(job) = &spec.job {
        violations.extend(check.job(job));
    }
    violations.extend(check.job_manager());
    violations.extend(check.task_manager());
    if let Some(last) = last_reconciled {
        violations.extend(check.change(last));
    }
    violations.extend(check.pods());
    violations.extend(autoscaler::check(&check.config, &check.places));
    violations.extend(check.derived(input, &violations));
    violations
}

/// Checks directories and parallelism of a job, in a deployment or a session job: D11 to D12d and D14.
pub(super) fn check_job(
    job: &JobSpec,
    has_task_manager_replicas: bool,
    config: &FlinkConfig,
    places: &Places,
) -> Vec<Finding> {
    let mut violations = Vec::new();
    if job.upgrade_mode != UpgradeMode::Stateless
        && is_blank(config.text_of(&options::CHECKPOINT_DIRECTORY))
    {
        violations.push(Rule::CheckpointDirectory.found(
            missing_place(config, places, &options::CHECKPOINT_DIRECTORY, "state.checkpoints.dir"),
            format!("must be set: upgrade mode `{}` restores from it", job.upgrade_mode.into_str()),
        ));
    }
    let reasons = savepoint_directory_needs(job, config);
    if is_blank(config.text_of(&options::SAVEPOINT_DIRECTORY)) && !reasons.is_empty() {
        violations.push(Rule::SavepointDirectory.found(
            missing_place(config, places, &options::SAVEPOINT_DIRECTORY, "state.savepoints.dir"),
            format!("must be set: {}", reasons.join(", and ")),
        ));
    }
    if !has_task_manager_replicas {
        violations.extend(check_parallelism(job));
    }
    violations
}

/// Checks the parallelism of a job whose number of TaskManagers is not given.
pub(super) fn check_parallelism(job: &JobSpec) -> Option<Finding> {
    if job.parallelism.is_some_and(|parallelism| parallelism >= 1) {
        return None;
    }
    let given = job.parallelism.map_or("missing".to_owned(), |given| format!("`{given}`"));
    let message = format!("is {given}: it must be 1 or more");
    Some(Rule::Parallelism.found("spec.job.parallelism", message))
}

/// D28, for a deployment or a session job: whoever drops the current state has to name the one to start from.
pub(super) fn check_redeploy(last: &JobSpec, job: &JobSpec) -> Option<Finding> {
    let is_asked = job.savepoint_redeploy_nonce.is_some()
        && job.savepoint_redeploy_nonce != last.savepoint_redeploy_nonce;
    (is_asked && is_blank(job.initial_savepoint_path.as_deref())).then(|| {
        Rule::RedeployNeedsPath.found(
            "spec.job.initialSavepointPath",
            "must be set: `savepointRedeployNonce` starts the job from it",
        )
    })
}

/// Returns the path of a missing directory: the name that is set and blank, or else the one that every Flink version
/// reads.
fn missing_place(
    config: &FlinkConfig,
    places: &Places,
    option: &ConfigOption<String>,
    name_for_all: &str,
) -> String {
    if config.is_set(option) {
        return places.of(config, option);
    }
    format!("spec.flinkConfiguration.{name_for_all}")
}

/// Returns why a savepoint directory is needed: D12a to D12d.
fn savepoint_directory_needs(job: &JobSpec, config: &FlinkConfig) -> Vec<String> {
    let mut reasons = Vec::new();
    if job.upgrade_mode == UpgradeMode::Savepoint {
        reasons.push("upgrade mode `savepoint` writes to it".to_owned());
    }
    if job.savepoint_trigger_nonce.is_some() {
        reasons.push("`savepointTriggerNonce` asks for a savepoint".to_owned());
    }
    if config.is_set(&options::PERIODIC_SAVEPOINT_INTERVAL) {
        reasons.push(format!("`{}` is set", options::PERIODIC_SAVEPOINT_INTERVAL.key()));
    }
    if config.get(&node_notice::SNAPSHOT) == Ok(NoticeSnapshot::Savepoint) {
        let key = node_notice::SNAPSHOT.key();
        reasons.push(format!("`{key}` writes to it before a node goes away"));
    }
    let age = &options::JOB_UPGRADE_LAST_STATE_MAX_ALLOWED_CHECKPOINT_AGE;
    if config.is_set(age) {
        reasons.push(format!("`{}` falls back to savepoints", age.key()));
    }
    reasons
}

struct Check<'a> {
    spec: &'a FlinkDeploymentSpec,
    /// The operator's defaults, overridden by the resource's own options.
    config: FlinkConfig,
    places: Places,
}

impl Check<'_> {
    /// D2 and D3.
    fn version(&self) -> Option<Finding> {
        let message = match self.spec.flink_version {
            None => "must be set to the Flink version of the image, such as `v1_20`".to_owned(),
            Some(version) if !version.is_supported() => {
                format!("`{version}` is not supported; the oldest supported version is `v1_15`")
            }
            Some(_) => return None,
        };
        Some(Rule::FlinkVersion.found("spec.flinkVersion", message))
    }

    /// D5 to D7, the format of every option that the operator reads, and keys that `config.yaml` cannot hold.
    fn config(&self) -> Vec<Finding> {
        let mut violations: Vec<Finding> = FORBIDDEN_KEYS
            .into_iter()
            .filter(|key| self.config.contains(key))
            .map(|key| {
                Rule::OperatorKey
                    .found(self.places.of_key(key, true), "the operator alone sets this key")
            })
            .collect();
        violations.extend(options_form::check(&self.config, &self.places));
        let is_on = |option| self.config.get(option).unwrap_or(false);
        if is_on(&options::DEPLOYMENT_ROLLBACK_ENABLED) && !is_high_availability_on(&self.config) {
            violations.push(Rule::RollbackNeedsHa.found(
                self.places.of(&self.config, &options::DEPLOYMENT_ROLLBACK_ENABLED),
                "rollback needs high availability: set `high-availability.type: kubernetes`",
            ));
        }
        // A recovery switch that cannot be read is reported above, not here again.
        let recovers = self.config.get(&options::JM_DEPLOYMENT_RECOVERY_ENABLED).unwrap_or(true);
        if is_on(&options::CLUSTER_HEALTH_CHECK_ENABLED) && !recovers {
            violations.push(Rule::HealthNeedsRecovery.found(
                self.places.of(&self.config, &options::CLUSTER_HEALTH_CHECK_ENABLED),
                format!(
                    "the health check restarts clusters: it needs `{}`",
                    options::JM_DEPLOYMENT_RECOVERY_ENABLED.key()
                ),
            ));
        }
        violations.extend(self.keys_in_each_other());
        violations
    }

    /// From Flink 2.0 on, the options are a YAML tree, in which `a.b` cannot have both a value and an `a.b.c` below it.
    fn keys_in_each_other(&self) -> Vec<Finding> {
        if self.spec.flink_version.is_none_or(|version| version < FlinkVersion::V2_0) {
            return Vec::new();
        }
        let keys: Vec<&str> =
            self.config.iter().map(|(key, _)| key).filter(|key| !is_for_operator(key)).collect();
        let inner = |key: &str| {
            let prefix = format!("{key}.");
            keys.iter().copied().find(|other| other.starts_with(&prefix))
        };
        keys.iter()
            .filter_map(|key| {
                let inner = inner(key)?;
                Some(Rule::KeyInKey.found(
                    self.places.of_key(key, true),
                    format!(
                        "cannot be set together with `{inner}`: Flink 2 keeps options as a tree"
                    ),
                ))
            })
            .collect()
    }

    /// D8 and D9.
    fn ingress(&self, name: &str, namespace: &str) -> Option<Finding> {
        let IngressSpec { template, .. } = self.spec.ingress.as_ref()?;
        let message = match template {
            None => "must be set, such as `{{name}}.{{namespace}}.flink.example.com`".to_owned(),
            Some(template) => {
                let problem = jar_uri::url_problem(&fill_in(template, name, namespace))?;
                format!("`{template}` is not a URL: {problem}")
            }
        };
        Some(Rule::IngressTemplate.found("spec.ingress.template", message))
    }

    /// D10.
    fn log_files(&self) -> Vec<Finding> {
        let names = self.spec.log_configuration.iter().flat_map(|files| files.keys());
        names
            .filter(|name| !LOG_FILES.contains(&name.as_str()))
            .map(|name| {
                Rule::LogFile.found(
                    format!("spec.logConfiguration.{name}"),
                    "only `log4j-console.properties` and `logback-console.xml` can be set",
                )
            })
            .collect()
    }

    /// D11 to D14, and whether the jar can be passed to Flink at all.
    fn job(&self, job: &JobSpec) -> Vec<Finding> {
        let has_replicas = self
            .spec
            .task_manager
            .as_ref()
            .is_some_and(|task_manager| task_manager.replicas.is_some());
        let mut violations = check_job(job, has_replicas, &self.config, &self.places);
        if let Some(uri) = job.jar_uri.as_deref().filter(|uri| !uri.trim().is_empty())
            && let Err(problem) = jar_uri::parse(uri)
        {
            violations.push(
                Rule::JarUri.found("spec.job.jarURI", format!("`{uri}` is not a URI: {problem}")),
            );
        }
        violations.extend(self.args(job));
        violations
    }

    /// Checks the arguments. Native clusters pass them in the configuration file, whose format before Flink 2.0 would
    /// cut some of them, and the job would run with different ones.
    fn args(&self, job: &JobSpec) -> Vec<Finding> {
        let is_native = self.spec.mode.unwrap_or_default() == DeploymentMode::Native;
        let is_cut = |arg: &str| !survives_flink_conf(arg);
        if !is_native || self.spec.flink_version >= Some(FlinkVersion::V2_0) {
            return Vec::new();
        }
        let cut = job.args.iter().enumerate().filter(|(_, arg)| is_cut(arg));
        // It is not shown, as it may be the password that the argument before it names.
        cut.map(|(index, _)| {
            Rule::CutArgument.found(
                format!("spec.job.args[{index}]"),
                "contains a `#` or a line break, where flink-conf.yaml would cut it; Flink 2.0 and \
                 standalone mode pass it unchanged",
            )
        })
        .collect()
    }

    /// D15 to D19.
    fn job_manager(&self) -> Vec<Finding> {
        let path = "spec.jobManager";
        let spec = self.spec.job_manager.as_ref();
        let (resource, resources) =
            (spec.and_then(|s| s.resource.as_ref()), spec.and_then(|s| s.resources.as_ref()));
        let mut violations = Vec::new();
        violations.extend(self.memory(
            path,
            resources::stated_memory(resource, resources),
            options::JOB_MANAGER_PROCESS_MEMORY.key(),
            memory_model::check_job_manager,
        ));
        let Some(JobManagerSpec { replicas, .. }) = spec else { return violations };
        violations.extend(check_resources(path, resource, resources));
        let replicas = replicas.unwrap_or(1);
        if replicas < 1 {
            violations.push(Rule::JobManagerReplicas.found(
                format!("{path}.replicas"),
                format!("is `{replicas}`: it must be 1 or more"),
            ));
        } else if replicas > 1 && !is_high_availability_on(&self.config) {
            violations.push(Rule::StandbyNeedsHa.found(
                format!("{path}.replicas"),
                "standby JobManagers need high availability: set `high-availability.type: kubernetes`",
            ));
        }
        violations
    }

    /// D13 and D20 to D23.
    fn task_manager(&self) -> Vec<Finding> {
        let path = "spec.taskManager";
        let spec = self.spec.task_manager.as_ref();
        let (resource, resources) =
            (spec.and_then(|s| s.resource.as_ref()), spec.and_then(|s| s.resources.as_ref()));
        let mut violations = Vec::new();
        violations.extend(self.memory(
            path,
            resources::stated_memory(resource, resources),
            options::TASK_MANAGER_PROCESS_MEMORY.key(),
            memory_model::check_task_manager,
        ));
        let Some(TaskManagerSpec { replicas, .. }) = spec else { return violations };
        violations.extend(check_resources(path, resource, resources));
        if let Some(replicas) = replicas.filter(|replicas| *replicas < 1) {
            let remedy = if self.spec.job.is_some() {
                "; to stop the job set spec.job.state to `suspended`"
            } else {
                ""
            };
            violations.push(Rule::TaskManagerReplicas.found(
                format!("{path}.replicas"),
                format!("is `{replicas}`: it must be 1 or more{remedy}"),
            ));
        }
        violations
    }

    /// D15 and D20, and the same model for memory that the spec sets: Flink would not start.
    fn memory(
        &self,
        path: &str,
        stated: Option<(&'static str, String)>,
        key: &str,
        model: fn(&FlinkConfig) -> Result<(), Problem>,
    ) -> Option<Finding> {
        let (place, config) = match stated {
            None => (format!("{path}.resource.memory"), self.config.clone()),
            Some((field, text)) => {
                // Memory that cannot be read or is zero is reported with the other resources.
                let memory = StatedMemory::parse(&text).filter(|m| m.size().bytes() > 0)?;
                let mut config = self.config.clone();
                config.set(key, memory.config_text());
                (format!("{path}.{field}"), config)
            }
        };
        match model(&config).err()? {
            Problem::Undefined => Some(
                Rule::MemoryMissing
                    .found(place, format!("must be set, or `{key}` in spec.flinkConfiguration")),
            ),
            Problem::Contradiction(problem) => Some(Rule::MemoryModel.found(place, problem)),
            Problem::Invalid(invalid) => Some(self.places.invalid(&invalid)),
        }
    }

    /// D4 and D24 to D28: what must not change compared to the last reconciled spec.
    fn change(&self, last: &FlinkDeploymentSpec) -> Vec<Finding> {
        let mut violations = Vec::new();
        match (&last.job, &self.spec.job) {
            (None, Some(_)) => violations.push(
                Rule::KindOfCluster
                    .found("spec.job", "a session cluster cannot become an application cluster"),
            ),
            (Some(_), None) => violations.push(
                Rule::KindOfCluster
                    .found("spec.job", "an application cluster cannot become a session cluster"),
            ),
            (Some(last_job), Some(job)) => violations.extend(self.job_change(last, last_job, job)),
            (None, None) => {}
        }
        let mode = |spec: &FlinkDeploymentSpec| spec.mode.unwrap_or_default();
        let name = |mode| match mode {
            DeploymentMode::Native => "native",
            DeploymentMode::Standalone => "standalone",
        };
        let (before, after) = (mode(last), mode(self.spec));
        if before != after {
            violations.push(Rule::ModeChange.found(
                "spec.mode",
                format!("cannot change from `{}` to `{}`", name(before), name(after)),
            ));
        }
        violations
    }

    fn job_change(
        &self,
        last: &FlinkDeploymentSpec,
        last_job: &JobSpec,
        job: &JobSpec,
    ) -> Vec<Finding> {
        let mut violations = Vec::new();
        let is_suspended_by_last_state = last_job.state == JobState::Suspended
            && last_job.upgrade_mode == UpgradeMode::LastState;
        if is_suspended_by_last_state
            && job.upgrade_mode != UpgradeMode::Stateless
            && last.flink_version != self.spec.flink_version
        {
            let before = last.flink_version.map_or("the previous one", |it| it.into_str());
            violations.push(Rule::VersionWhileSuspended.found(
                "spec.flinkVersion",
                format!(
                    "cannot change while the job is suspended by `last-state`: resume it with \
                     `{before}` first, then upgrade"
                ),
            ));
        }
        violations.extend(check_redeploy(last_job, job));
        violations
    }

    /// D29, and the pull policy, which nothing else checks before the pods are created.
    fn pods(&self) -> Vec<Finding> {
        let mut violations = Vec::new();
        if self.spec.service_account.is_none() {
            violations.push(Rule::ServiceAccount.found(
                "spec.serviceAccount",
                "must be set; `kubectl flink init` creates one named `flink`",
            ));
        }
        if let Some(policy) = self.spec.image_pull_policy.as_deref()
            && !policy.trim().is_empty()
            && !PULL_POLICIES.contains(&policy)
        {
            violations.push(Rule::PullPolicy.found(
                "spec.imagePullPolicy",
                format!("invalid value `{policy}`: expected `IfNotPresent`, `Always` or `Never`"),
            ));
        }
        violations
    }

    /// Finds the problem that still prevents the configuration from being built.
    fn derived(&self, input: &ValidationInput<'_>, found: &[Finding]) -> Option<Finding> {
        let id = ResourceId {
            namespace: input.namespace.to_owned(),
            name: input.name.to_owned(),
            uid: String::new(),
        };
        let upgrade_mode = self.spec.job.as_ref().map(|job| job.upgrade_mode);
        let invalid = deploy_config(input.operator, &id, self.spec, upgrade_mode, 0).err()?;
        let finding = self.places.invalid(&invalid);
        let is_known = found.iter().any(|known| known.violation.path == finding.violation.path);
        (!is_known).then_some(finding)
    }
}

fn check_resources(
    path: &str,
    resource: Option<&Resource>,
    requirements: Option<&ResourceRequirements>,
) -> Vec<Finding> {
    let mut violations = Vec::new();
    if let Some(resource) = resource {
        violations.extend(resources::check_resource(&format!("{path}.resource"), resource));
    }
    if let Some(requirements) = requirements {
        violations
            .extend(resources::check_requirements(&format!("{path}.resources"), requirements));
    }
    violations
}

/// Fills in the variables of the ingress template, and adds a scheme.
fn fill_in(template: &str, name: &str, namespace: &str) -> String {
    let filled = render::ingress::fill(template, name, namespace);
    let lower = filled.to_ascii_lowercase();
    let has_scheme = ["http://", "https://"].iter().any(|scheme| lower.starts_with(scheme));
    if has_scheme { filled } else { format!("http://{filled}") }
}

#[cfg(test)]
mod tests;
