//! Advice about a resource that the operator would accept: it runs, but something will go wrong.
//!
//! Like the rules of [`crate`], these are pure functions, report everything at once, and have stable codes.

use crate::rule::Rule;
use crate::{Finding, operator_files};
use api::deployment::FlinkDeploymentSpec;
use api::job::{JobSpec, UpgradeMode};
use api::resources::{Resource, ResourceRequirements};
use api::session_job::FlinkSessionJobSpec;
use api::version::FlinkVersion;
use config::cluster::is_high_availability_on;
use config::known::unknown_options;
use config::memory::StatedMemory;
use config::option::ConfigOption;
use config::secret::is_secret;
use config::{FlinkConfig, OperatorConfig, options};

/// Flink's metaspace, overhead and network alone use half of it.
const MEMORY_MIN: u64 = 1 << 30;

/// Returns advice about a `FlinkDeployment`.
pub fn deployment(
    namespace: &str,
    spec: &FlinkDeploymentSpec,
    operator: &OperatorConfig,
) -> Vec<Finding> {
    let own = FlinkConfig::flatten(&spec.flink_configuration);
    let mut config = operator.defaults(namespace, spec.flink_version);
    config.overlay(&own);
    let mut found = Vec::new();
    if let Some(job) = &spec.job {
        found.extend(of_job(job, &config));
        found.extend(last_state(job, &config));
        found.extend(idle_slots(job, spec, &config));
    }
    found.extend(image(spec.image.as_deref()));
    let job_manager = spec.job_manager.as_ref();
    let task_manager = spec.task_manager.as_ref();
    found.extend(memory(
        "spec.jobManager",
        (
            job_manager.and_then(|it| it.resource.as_ref()),
            job_manager.and_then(|it| it.resources.as_ref()),
        ),
        &config,
        &options::JOB_MANAGER_PROCESS_MEMORY,
    ));
    found.extend(memory(
        "spec.taskManager",
        (
            task_manager.and_then(|it| it.resource.as_ref()),
            task_manager.and_then(|it| it.resources.as_ref()),
        ),
        &config,
        &options::TASK_MANAGER_PROCESS_MEMORY,
    ));
    found.extend(limits_of_ingresses(&own));
    let has_volumes = has_volumes(spec);
    found.extend(directories(&own, has_volumes));
    found.extend(of_options(&own));
    found.extend(files_of_the_operator(namespace, spec, operator));
    if spec.flink_version.is_some_and(|version| version >= FlinkVersion::V2_0) {
        found.extend(own.iter().filter(|(key, _)| options::GONE_IN_FLINK_2.contains(key)).map(
            |(key, _)| {
                Rule::GoneInFlink2.found(
                    format!("spec.flinkConfiguration.{key}"),
                    "is not read by Flink 2.0 and later",
                )
            },
        ));
    }
    found
}

/// Returns advice about a `FlinkSessionJob`. Without its cluster, the cluster's options are unknown.
pub fn session_job(
    namespace: &str,
    spec: &FlinkSessionJobSpec,
    cluster: Option<&FlinkDeploymentSpec>,
    operator: &OperatorConfig,
) -> Vec<Finding> {
    let own = FlinkConfig::flatten(&spec.flink_configuration);
    let mut config = operator.defaults(namespace, cluster.and_then(|it| it.flink_version));
    if let Some(cluster) = cluster {
        config.overlay(&FlinkConfig::flatten(&cluster.flink_configuration));
    }
    config.overlay(&own);
    let mut found = Vec::new();
    if let (Some(job), Some(_)) = (&spec.job, cluster) {
        found.extend(of_job(job, &config));
    }
    found.extend(of_options(&own));
    found
}

fn of_job(job: &JobSpec, config: &FlinkConfig) -> Vec<Finding> {
    let mut found = Vec::new();
    let keeps_state = job.upgrade_mode != UpgradeMode::Stateless;
    if !keeps_state {
        found.push(Rule::Stateless.found(
            "spec.job.upgradeMode",
            "is `stateless`: each upgrade drops the state of the job",
        ));
    }
    if keeps_state && !config.is_set(&options::CHECKPOINTING_INTERVAL) {
        found.push(Rule::NoCheckpoints.found(
            option(&options::CHECKPOINTING_INTERVAL),
            "is not set: unless the job enables checkpoints itself, it takes none",
        ));
    }
    if keeps_state && is_blank(config.text_of(&options::SAVEPOINT_DIRECTORY)) {
        found.push(Rule::NoSavepointDirectory.found(
            "spec.flinkConfiguration.state.savepoints.dir",
            "is not set: neither an upgrade of Flink nor a deletion can save the state",
        ));
    }
    if job.allow_non_restored_state == Some(true) {
        found.push(Rule::DropsUnmatchedState.found(
            "spec.job.allowNonRestoredState",
            "is on: state that belongs to no operator of the job is silently dropped",
        ));
    }
    found
}

fn last_state(job: &JobSpec, config: &FlinkConfig) -> Option<Finding> {
    (job.upgrade_mode == UpgradeMode::LastState && !is_high_availability_on(config)).then(|| {
        Rule::LastStateWithoutHa.found(
            "spec.job.upgradeMode",
            "is `last-state`, but `high-availability.type` is off: without the JobManager the last \
             checkpoint cannot be found",
        )
    })
}

fn idle_slots(job: &JobSpec, spec: &FlinkDeploymentSpec, config: &FlinkConfig) -> Option<Finding> {
    let slots = config.get(&options::TASK_SLOTS).ok().filter(|slots| *slots > 1)?;
    let parallelism = job.parallelism.filter(|parallelism| *parallelism > 0)?;
    let idle = slots - 1 - (parallelism - 1) % slots;
    let is_counted = spec.task_manager.as_ref().is_none_or(|it| it.replicas.is_none());
    (idle > 0 && is_counted).then(|| {
        Rule::IdleSlots.found(
            "spec.job.parallelism",
            format!("is {parallelism}, with {slots} slots in each TaskManager: {idle} stay idle"),
        )
    })
}

/// Accepts a digest, and a tag that someone chose.
fn image(image: Option<&str>) -> Option<Finding> {
    let image = image.filter(|image| !image.trim().is_empty() && !image.contains('@'))?;
    let last = image.rsplit('/').next().unwrap_or(image);
    let problem = match last.split_once(':') {
        None => "has no tag, which means `latest`",
        Some((_, "latest")) => "has the tag `latest`, which moves",
        Some(_) => return None,
    };
    Some(Rule::ImageTag.found("spec.image", format!("`{image}` {problem}")))
}

fn memory(
    path: &str,
    (resource, resources): (Option<&Resource>, Option<&ResourceRequirements>),
    config: &FlinkConfig,
    option: &ConfigOption<config::memory::MemorySize>,
) -> Option<Finding> {
    let requested = resources.and_then(|it| it.requests.get("memory").or(it.limits.get("memory")));
    let stated = requested
        .map(ToString::to_string)
        .or_else(|| resource.and_then(|it| it.memory.clone()))
        .and_then(|text| StatedMemory::parse(&text))
        .map(StatedMemory::size);
    let size = stated.or_else(|| config.find(option).ok().flatten())?;
    (size.bytes() < MEMORY_MIN && size.bytes() > 0).then(|| {
        Rule::SmallMemory.found(
            path,
            format!("has {} MiB of memory, and Flink itself needs half of it", size.mebibytes()),
        )
    })
}

/// Finds limits of Ingresses, which protect others from who edits the resource.
fn limits_of_ingresses(own: &FlinkConfig) -> Vec<Finding> {
    let allowed = [
        options::INGRESS_ALLOWED_HOSTS.key(),
        options::INGRESS_ALLOWED_CLASSES.key(),
        options::INGRESS_ALLOWED_ANNOTATIONS.key(),
    ];
    let forgoes = own.get(&options::INGRESS_MANAGE) == Ok(false);
    let manage = (!forgoes).then(|| options::INGRESS_MANAGE.key());
    let set = allowed.into_iter().chain(manage).filter(|key| own.contains(key));
    let found = |key| {
        let path = format!("spec.flinkConfiguration.{key}");
        Rule::OperatorOption
            .found(path, "has no effect: only the operator's own configuration sets it")
    };
    set.map(found).collect()
}

/// Finds directories of state that only one pod can see. If the pods have volumes, it may be one of them.
fn directories(own: &FlinkConfig, has_volumes: bool) -> Vec<Finding> {
    const KEYS: [&str; 6] = [
        "state.checkpoints.dir",
        "execution.checkpointing.dir",
        "state.savepoints.dir",
        "execution.checkpointing.savepoint-dir",
        "high-availability.storageDir",
        "state.backend.fs.checkpointdir",
    ];
    if has_volumes {
        return Vec::new();
    }
    let is_local = |text: &str| text.starts_with('/') || text.starts_with("file:");
    KEYS.into_iter()
        .filter_map(|key| Some((key, own.get_text(key).filter(|text| is_local(text))?)))
        .map(|(key, text)| {
            Rule::LocalDirectory.found(
                format!("spec.flinkConfiguration.{key}"),
                format!("`{text}` is on the disk of one pod, and is deleted with it"),
            )
        })
        .collect()
}

fn has_volumes(spec: &FlinkDeploymentSpec) -> bool {
    let templates = [
        spec.pod_template.as_ref(),
        spec.job_manager.as_ref().and_then(|it| it.pod_template.as_ref()),
        spec.task_manager.as_ref().and_then(|it| it.pod_template.as_ref()),
    ];
    templates.into_iter().flatten().any(|template| {
        serde_json::to_value(template).is_ok_and(|template| {
            template
                .pointer("/spec/volumes")
                .and_then(serde_json::Value::as_array)
                .is_some_and(|it| !it.is_empty())
        })
    })
}

/// Returns true if an option says how to get a secret, but is not one: `fs.s3a.aws.credentials.provider`.
fn is_about_a_secret(key: &str) -> bool {
    const ENDS: [&str; 10] = [
        "class",
        "enabled",
        "file",
        "interval",
        "location",
        "path",
        "provider",
        "providers",
        "ratio",
        "type",
    ];
    key.rsplit(['.', '-']).next().is_some_and(|end| ENDS.contains(&end))
}

/// Finds secrets in plain text, and names that the operator does not know.
fn of_options(own: &FlinkConfig) -> Vec<Finding> {
    let place = |key: &str| format!("spec.flinkConfiguration.{key}");
    let secrets = own.iter().filter(|(key, value)| {
        // `kubernetes.secrets` and the like name a Secret, which is how it should be.
        is_secret(key)
            && !value.trim().is_empty()
            && !key.starts_with("kubernetes.")
            && !is_about_a_secret(key)
    });
    let mut found: Vec<Finding> = secrets
        .map(|(key, _)| {
            Rule::PlainSecret
                .found(place(key), "is a secret, and anyone who can read the resource can read it")
        })
        .collect();
    found.extend(
        unknown_options(own)
            .into_iter()
            .map(|unknown| Rule::UnknownOption.found(place(&unknown.key), unknown.to_string())),
    );
    found
}

/// Warns of files in the operator's pod for which it would refuse to start or stop anything.
fn files_of_the_operator(
    namespace: &str,
    spec: &FlinkDeploymentSpec,
    operator: &OperatorConfig,
) -> Vec<Finding> {
    let files = operator_files::of_deployment(namespace, spec, operator).into_iter();
    let refused = files.filter_map(|file| {
        let refusal = file.refusal?;
        let place = format!("spec.flinkConfiguration.{}", file.key);
        let message = format!(
            "names `{}`, a file in the operator's pod, and nothing is started or stopped with it: \
             {refusal}",
            file.path
        );
        Some(Rule::OperatorFile.found(place, message))
    });
    refused.collect()
}

fn option<T: config::option::OptionValue>(option: &ConfigOption<T>) -> String {
    format!("spec.flinkConfiguration.{}", option.key())
}

fn is_blank(text: Option<&str>) -> bool {
    text.is_none_or(|text| text.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;

    #[track_caller]
    fn check(change: impl FnOnce(&mut Value), expected: Expect) {
        let mut spec = json!({
            "image": "flink:1.20", "flinkVersion": "v1_20", "serviceAccount": "flink",
            "flinkConfiguration": {
                "execution.checkpointing.interval": "60 s", "high-availability.type": "kubernetes",
                "state.checkpoints.dir": "s3://b/chk", "state.savepoints.dir": "s3://b/sp",
                "taskmanager.numberOfTaskSlots": "2",
            },
            "jobManager": {"resource": {"memory": "1g"}}, "taskManager": {"resource": {"memory": "2g"}},
            "job": {"jarURI": "local:///job.jar", "parallelism": 4, "upgradeMode": "last-state"},
        });
        change(&mut spec);
        let spec = serde_json::from_value(spec).unwrap();
        let found = deployment("default", &spec, &OperatorConfig::default());
        let lines = found.iter().map(|finding| format!("{} {finding}\n", finding.rule));
        expected.assert_eq(&lines.collect::<String>());
    }

    #[test]
    fn a_sound_deployment_needs_no_advice() {
        check(|_| {}, expect![[""]]);
    }

    #[test]
    fn a_file_that_the_operator_would_refuse_is_reported_before() {
        check(
            |spec| {
                let options = spec["flinkConfiguration"].as_object_mut().unwrap();
                options.insert("security.kerberos.login.keytab".into(), "/opt/it.keytab".into());
            },
            expect![[r#"
                FK0114 spec.flinkConfiguration.security.kerberos.login.keytab: names `/opt/it.keytab`, a file in the operator's pod, and nothing is started or stopped with it: `kubernetes.operator.kerberos.directories` in the operator's configuration allows no directory above it: name an object of the namespace in `kubernetes.operator.kerberos.keytab.secret.name`, or have the directory allowed
            "#]],
        );
    }

    #[test]
    fn each_advice_is_given_where_it_is_due() {
        check(
            |spec| {
                spec["flinkConfiguration"] = json!({
                    "state.checkpoints.dir": "file:///tmp/chk", "s3.secret-key": "hunter2",
                    "taskmanager.numberOfTaskSlots": "3", "kubernetes.operator.savepoint.history.max.counts": "3",
                });
                spec["image"] = json!("registry:5000/orders");
                spec["job"]["allowNonRestoredState"] = json!(true);
                spec["taskManager"]["resource"]["memory"] = json!("512m");
            },
            expect![[r#"
                FK0102 spec.flinkConfiguration.execution.checkpointing.interval: is not set: unless the job enables checkpoints itself, it takes none
                FK0107 spec.flinkConfiguration.state.savepoints.dir: is not set: neither an upgrade of Flink nor a deletion can save the state
                FK0110 spec.job.allowNonRestoredState: is on: state that belongs to no operator of the job is silently dropped
                FK0101 spec.job.upgradeMode: is `last-state`, but `high-availability.type` is off: without the JobManager the last checkpoint cannot be found
                FK0111 spec.job.parallelism: is 4, with 3 slots in each TaskManager: 2 stay idle
                FK0103 spec.image: `registry:5000/orders` has no tag, which means `latest`
                FK0104 spec.taskManager: has 512 MiB of memory, and Flink itself needs half of it
                FK0106 spec.flinkConfiguration.state.checkpoints.dir: `file:///tmp/chk` is on the disk of one pod, and is deleted with it
                FK0108 spec.flinkConfiguration.s3.secret-key: is a secret, and anyone who can read the resource can read it
                FK0109 spec.flinkConfiguration.kubernetes.operator.savepoint.history.max.counts: `kubernetes.operator.savepoint.history.max.counts` has no effect: there is no such option; did you mean `kubernetes.operator.savepoint.history.max.count`?
            "#]],
        );
        check(
            |spec| {
                spec["job"]["upgradeMode"] = json!("stateless");
                spec["image"] = json!("orders:latest");
            },
            expect![[r#"
                FK0105 spec.job.upgradeMode: is `stateless`: each upgrade drops the state of the job
                FK0103 spec.image: `orders:latest` has the tag `latest`, which moves
            "#]],
        );
    }

    #[test]
    fn options_that_flink_2_dropped_are_named_there_alone() {
        let set = |version: &'static str| {
            move |spec: &mut Value| {
                spec["flinkVersion"] = json!(version);
                spec["flinkConfiguration"]["security.ssl.enabled"] = json!("true");
            }
        };
        check(set("v1_20"), expect![[""]]);
        check(
            set("v2_3"),
            expect![[r#"
                FK0112 spec.flinkConfiguration.security.ssl.enabled: is not read by Flink 2.0 and later
            "#]],
        );
    }

    #[test]
    fn what_may_be_meant_so_is_left_alone() {
        check(
            |spec| {
                spec["image"] = json!("orders@sha256:0123");
                spec["flinkConfiguration"]["state.checkpoints.dir"] = json!("file:///state");
                spec["podTemplate"] = json!({"spec": {"volumes": [{"name": "state"}]}});
                let options = &mut spec["flinkConfiguration"];
                options["fs.s3a.aws.credentials.provider"] = json!("org.example.Provider");
                options["kubernetes.operator.node-notice.snapshot"] = json!("SAVEPOINT");
            },
            expect![[""]],
        );
    }
}
