//! Kerberos files, which nobody mounts.
//!
//! Flink's client reads a keytab and a `krb5.conf` where it runs, and makes a Secret and a ConfigMap
//! of them. In native mode the pods refer to these whatever their templates mount, so that without
//! them no TaskManager starts.

use serde_json::Value;

use api::deployment::{DeploymentMode, FlinkDeploymentSpec};
use api::job::JobState;
use api::pod_template::PodTemplate;
use config::{FlinkConfig, options};
use render::names::MAIN_CONTAINER;

use super::{Finding, Places, Rule, is_blank};

pub(super) fn check(
    spec: &FlinkDeploymentSpec,
    config: &FlinkConfig,
    places: &Places,
) -> Vec<Finding> {
    let mut violations = Vec::new();
    // A suspended job starts no pods, and a running job can be stopped with its state.
    if spec.job.as_ref().is_some_and(|job| job.state == JobState::Suspended) {
        return violations;
    }
    let keytab = config.text_of(&options::KERBEROS_KEYTAB);
    if let Some(problem) =
        keytab.filter(|path| !path.trim().is_empty()).and_then(|path| keytab_problem(spec, path))
    {
        let place = places.of(config, &options::KERBEROS_KEYTAB);
        violations.push(Rule::KerberosFile.found(place, problem));
    }
    if !is_blank(config.text_of(&options::KERBEROS_KRB5_CONF)) {
        violations.push(Rule::KerberosFile.found(
            places.of(config, &options::KERBEROS_KRB5_CONF),
            "no krb5.conf is mounted: leave the option out, and mount the file at `/etc/krb5.conf` \
             by `spec.podTemplate`, where Java looks for it",
        ));
    }
    violations
}

fn keytab_problem(spec: &FlinkDeploymentSpec, path: &str) -> Option<String> {
    match spec.mode.unwrap_or_default() {
        DeploymentMode::Native => Some(
            "no keytab is mounted: Flink's pods would wait for a Secret that nobody makes. Leave the \
             option out, and mount by `spec.podTemplate` a ticket cache that a sidecar renews, or \
             a keytab that the job itself names, as in `sasl.jaas.config`"
                .to_owned(),
        ),
        DeploymentMode::Standalone if is_mounted(spec, path) => None,
        DeploymentMode::Standalone => Some(format!(
            "no keytab is mounted at `{path}`: mount it in the container `{MAIN_CONTAINER}` by \
             `spec.podTemplate`, for JobManager and TaskManagers"
        )),
    }
}

/// True if the pods of both roles have the file from their templates.
fn is_mounted(spec: &FlinkDeploymentSpec, path: &str) -> bool {
    let mounts = |template: Option<&PodTemplate>| template.is_some_and(|it| has_mount(it, path));
    let job_manager = spec.job_manager.as_ref().and_then(|role| role.pod_template.as_ref());
    let task_manager = spec.task_manager.as_ref().and_then(|role| role.pod_template.as_ref());
    mounts(spec.pod_template.as_ref()) || (mounts(job_manager) && mounts(task_manager))
}

fn has_mount(PodTemplate(template): &PodTemplate, path: &str) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let containers = template.get("spec").map(|spec| list(&spec["containers"])).unwrap_or_default();
    let main = containers.iter().filter(|container| container["name"] == MAIN_CONTAINER);
    let mut mounts = main.flat_map(|main| list(&main["volumeMounts"]));
    mounts.any(|mount| mount["mountPath"].as_str().is_some_and(|at| is_below(path, at)))
}

/// True if a path is this one, or in a folder of this name.
fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.trim().strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
