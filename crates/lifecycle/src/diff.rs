//! Changes between two specs, and what it takes to apply them.

use serde_json::Value;

use super::event::{Component, Event};
use api::deployment::{DeploymentMode, FlinkConfiguration, FlinkDeploymentSpec, JobManagerSpec};
use api::job::JobSpec;
use api::reconciled::{StoredSpec, job_value, spec_value};
use api::session_job::FlinkSessionJobSpec;
use config::FlinkConfig;
use config::options::PARALLELISM_OVERRIDES as OVERRIDES;
use config::secret::{self, HIDDEN, hide_in_value, is_secret};

/// How a change is applied. The greatest class of all changes decides.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, strum::IntoStaticStr)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE", const_into_str)]
pub enum ChangeClass {
    /// The running cluster is not affected.
    Ignore,
    /// May be applied in place.
    Scale,
    /// Stop and start again with the state carried over.
    Upgrade,
    /// Drop the state and start from `initialSavepointPath`.
    SavepointRedeploy,
}

/// One field that changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Path of the field, such as `job.parallelism` or `flinkConfiguration.state.backend.type`.
    pub field: String,
    pub from: Value,
    pub to: Value,
    pub class: ChangeClass,
}

impl Change {
    /// Returns the values before and after as they may be displayed, without secrets.
    pub fn shown(&self) -> (String, String) {
        (plain(&self.field, &self.from), plain(&self.field, &self.to))
    }
}

/// All changes from one spec to another, in the order of the spec's fields.
#[derive(Clone, Debug, PartialEq)]
pub struct SpecDiff {
    /// The Java operator's name of the spec, for events.
    pub of: &'static str,
    pub changes: Vec<Change>,
}

impl SpecDiff {
    /// Returns the greatest class; [`ChangeClass::Ignore`] if nothing changed.
    pub fn class(&self) -> ChangeClass {
        self.changes.iter().map(|change| change.class).max().unwrap_or(ChangeClass::Ignore)
    }

    /// Returns the event that announces the changes once per generation; `None` if they have no effect.
    pub(super) fn announcement(&self, generation: i64) -> Option<Event> {
        if self.class() == ChangeClass::Ignore {
            return None;
        }
        let message = format!(
            "{} change(s) detected ({self}), starting reconciliation.",
            self.class().into_str()
        );
        let mut event = Event::normal("SpecChanged", Component::JobManagerDeployment, message);
        event.key = Some(format!("SpecChange: {generation}"));
        Some(event)
    }
}

impl std::fmt::Display for SpecDiff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Diff: {}[", self.of)?;
        for (index, Change { field, from, to, class: _ }) in self.changes.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{field} : {} -> {}", plain(field, from), plain(field, to))?;
        }
        f.write_str("]")
    }
}

/// Formats text without quotes and anything else as JSON. Secrets are hidden, because events are widely readable.
fn plain(field: &str, value: &Value) -> String {
    let option = field.strip_prefix("flinkConfiguration.");
    if option.is_some_and(is_secret) && !value.is_null() {
        return HIDDEN.to_owned();
    }
    let mut shown = value.clone();
    if let (Some(key), Value::String(text)) = (option, &mut shown) {
        *text = secret::shown(key, text);
    }
    hide_in_value(&mut shown, None);
    shown.as_str().map_or_else(|| shown.to_string(), str::to_owned)
}

/// Compares the reconciled spec with the desired one. Defaults are applied: an absent `jobManager.replicas` equals 1.
/// Pod templates are compared without `apiVersion`, `kind`, `status` and nulls, which never reach a pod.
pub fn diff(last: &FlinkDeploymentSpec, wanted: &FlinkDeploymentSpec) -> SpecDiff {
    const OF: &str = "FlinkDeploymentSpec";
    if last == wanted {
        return SpecDiff { of: OF, changes: vec![] };
    }
    let mode = wanted.mode.unwrap_or_default();
    let changes = match only_jobs(last, wanted) {
        Some((from, to)) => changes_of_job(from, to, mode),
        None => changes(
            (&comparable(last), &last.flink_configuration),
            (&comparable(wanted), &wanted.flink_configuration),
            mode,
        ),
    };
    SpecDiff { of: OF, changes }
}

/// Like [`diff`], for session jobs. They change as in native mode, because they own no TaskManagers.
pub fn diff_session_job(last: &FlinkSessionJobSpec, wanted: &FlinkSessionJobSpec) -> SpecDiff {
    const OF: &str = "FlinkSessionJobSpec";
    if last == wanted {
        return SpecDiff { of: OF, changes: vec![] };
    }
    let mode = DeploymentMode::Native;
    let changes = match only_jobs_of_session(last, wanted) {
        Some((from, to)) => changes_of_job(from, to, mode),
        None => changes(
            (&without_inner_nulls(last.to_value()), &last.flink_configuration),
            (&without_inner_nulls(wanted.to_value()), &wanted.flink_configuration),
            mode,
        ),
    };
    SpecDiff { of: OF, changes }
}

/// Returns the changes if only the job differs. The stored upgrade mode says how the job was started, and usually
/// differs from the one its user requests. Most comparisons therefore end here, without converting the whole specs to
/// JSON.
fn changes_of_job(from: &JobSpec, to: &JobSpec, mode: DeploymentMode) -> Vec<Change> {
    let mut changes = Vec::new();
    let as_wanted = JobSpec { upgrade_mode: to.upgrade_mode, ..from.clone() };
    if as_wanted == *to {
        let [from, to] = [from, to].map(|job| Value::from(job.upgrade_mode.into_str()));
        push_change("job.upgradeMode".to_owned(), &from, &to, mode, &mut changes);
        return changes;
    }
    let [from, to] = [from, to].map(|job| without_nulls(job_value(job)));
    object_changes("job", &from, &to, mode, &mut changes);
    changes
}

/// Returns both jobs if it is certain that nothing else differs. Stored specs include the defaults.
fn only_jobs<'a>(
    last: &'a FlinkDeploymentSpec,
    wanted: &'a FlinkDeploymentSpec,
) -> Option<(&'a JobSpec, &'a JobSpec)> {
    let FlinkDeploymentSpec {
        job,
        restart_nonce,
        flink_configuration,
        image,
        image_pull_policy,
        service_account,
        flink_version,
        ingress,
        pod_template,
        job_manager,
        task_manager,
        log_configuration,
        mode,
    } = last;
    let is_same = *restart_nonce == wanted.restart_nonce
        && *flink_configuration == wanted.flink_configuration
        && *image == wanted.image
        && *image_pull_policy == wanted.image_pull_policy
        && *service_account == wanted.service_account
        && *flink_version == wanted.flink_version
        && *ingress == wanted.ingress
        && *pod_template == wanted.pod_template
        && is_same_job_manager(job_manager.as_ref(), wanted.job_manager.as_ref())
        && *task_manager == wanted.task_manager
        && *log_configuration == wanted.log_configuration
        && mode.unwrap_or_default() == wanted.mode.unwrap_or_default();
    job.as_ref().zip(wanted.job.as_ref()).filter(|_| is_same)
}

fn is_same_job_manager(last: Option<&JobManagerSpec>, wanted: Option<&JobManagerSpec>) -> bool {
    let (Some(last), Some(wanted)) = (last, wanted) else { return last == wanted };
    let JobManagerSpec { resource, resources, replicas, pod_template } = last;
    *resource == wanted.resource
        && *resources == wanted.resources
        && replicas.unwrap_or(1) == wanted.replicas.unwrap_or(1)
        && *pod_template == wanted.pod_template
}

/// Like [`only_jobs`], for session jobs.
fn only_jobs_of_session<'a>(
    last: &'a FlinkSessionJobSpec,
    wanted: &'a FlinkSessionJobSpec,
) -> Option<(&'a JobSpec, &'a JobSpec)> {
    let FlinkSessionJobSpec { job, restart_nonce, flink_configuration, deployment_name } = last;
    let is_same = *restart_nonce == wanted.restart_nonce
        && *flink_configuration == wanted.flink_configuration
        && *deployment_name == wanted.deployment_name;
    job.as_ref().zip(wanted.job.as_ref()).filter(|_| is_same)
}

/// Returns the changes from one spec to another, each given as its value and its configuration.
fn changes(
    (last_value, last): (&Value, &FlinkConfiguration),
    (wanted_value, wanted): (&Value, &FlinkConfiguration),
    mode: DeploymentMode,
) -> Vec<Change> {
    let mut changes = Vec::new();
    for (field, to) in wanted_value.as_object().into_iter().flatten() {
        let from = last_value.get(field).unwrap_or(&Value::Null);
        match field.as_str() {
            "flinkConfiguration" => configuration_changes(last, wanted, mode, &mut changes),
            "job" | "taskManager" if from.is_object() && to.is_object() => {
                object_changes(field, from, to, mode, &mut changes);
            }
            _ => push_change(field.clone(), from, to, mode, &mut changes),
        }
    }
    changes
}

fn object_changes(
    parent: &str,
    from: &Value,
    to: &Value,
    mode: DeploymentMode,
    changes: &mut Vec<Change>,
) {
    let names = from.as_object().into_iter().chain(to.as_object()).flat_map(|o| o.keys());
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let from = from.get(name).unwrap_or(&Value::Null);
        let to = to.get(name).unwrap_or(&Value::Null);
        push_change(format!("{parent}.{name}"), from, to, mode, changes);
    }
}

fn push_change(
    field: String,
    from: &Value,
    to: &Value,
    mode: DeploymentMode,
    changes: &mut Vec<Change>,
) {
    if from == to {
        return;
    }
    let class = field_class(&field, to, mode);
    changes.push(Change { field, from: from.clone(), to: to.clone(), class });
}

fn field_class(field: &str, to: &Value, mode: DeploymentMode) -> ChangeClass {
    match field {
        "job.savepointTriggerNonce"
        | "job.checkpointTriggerNonce"
        | "job.initialSavepointPath"
        | "job.upgradeMode"
        | "job.allowNonRestoredState"
        | "job.autoscalerResetNonce"
        // Does not affect running pods; `lifecycle::ingress` applies it.
        | "ingress" => ChangeClass::Ignore,
        "job.parallelism" | "taskManager.replicas" => match mode {
            DeploymentMode::Standalone => ChangeClass::Scale,
            DeploymentMode::Native => ChangeClass::Upgrade,
        },
        "job.savepointRedeployNonce" | "restartNonce" if to.is_null() => ChangeClass::Ignore,
        "job.savepointRedeployNonce" => ChangeClass::SavepointRedeploy,
        _ => ChangeClass::Upgrade,
    }
}

fn configuration_changes(
    last: &FlinkConfiguration,
    wanted: &FlinkConfiguration,
    mode: DeploymentMode,
    changes: &mut Vec<Change>,
) {
    let last = FlinkConfig::flatten(last);
    let wanted = FlinkConfig::flatten(wanted);
    let mut keys: Vec<&str> = last.iter().chain(wanted.iter()).map(|(key, _)| key).collect();
    keys.sort_unstable();
    keys.dedup();
    let as_value = |text: Option<&str>| text.map_or(Value::Null, Value::from);
    for key in keys {
        let (from, to) = (last.get_text(key), wanted.get_text(key));
        if from != to && !(key == OVERRIDES.key() && has_same_overrides(&last, &wanted)) {
            changes.push(Change {
                field: format!("flinkConfiguration.{key}"),
                from: as_value(from),
                to: as_value(to),
                class: configuration_class(key, mode),
            });
        }
    }
}

/// Compares overrides as maps, because their order does not matter.
fn has_same_overrides(last: &FlinkConfig, wanted: &FlinkConfig) -> bool {
    matches!((last.find(&OVERRIDES), wanted.find(&OVERRIDES)), (Ok(one), Ok(other)) if one == other)
}

/// The prefixes have no trailing dot, as in the comparison upstream.
fn configuration_class(key: &str, mode: DeploymentMode) -> ChangeClass {
    const IGNORED: [&str; 3] = ["job.autoscaler", "parallelism.default", "kubernetes.operator"];
    if IGNORED.iter().any(|prefix| key.starts_with(prefix)) {
        return ChangeClass::Ignore;
    }
    if key.starts_with("pipeline.jobvertex-parallelism-overrides") {
        return match mode {
            DeploymentMode::Native => ChangeClass::Scale,
            DeploymentMode::Standalone => ChangeClass::Upgrade,
        };
    }
    ChangeClass::Upgrade
}

/// Returns the spec as JSON without anything that cannot make a difference.
fn comparable(spec: &FlinkDeploymentSpec) -> Value {
    let mut value = spec_value(spec);
    for path in ["/podTemplate", "/jobManager/podTemplate", "/taskManager/podTemplate"] {
        if let Some(template) = value.pointer_mut(path) {
            for name in ["apiVersion", "kind", "status"] {
                template.as_object_mut().map(|template| template.remove(name));
            }
        }
    }
    if value.pointer("/mode").is_some_and(Value::is_null) {
        value["mode"] = Value::from("native");
    }
    without_inner_nulls(value)
}

/// Keeps the fields of a spec, null or not. Below them, a null means nothing and is removed.
fn without_inner_nulls(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        for field in fields.values_mut() {
            *field = without_nulls(field.take());
        }
    }
    value
}

/// Removes nulls, which mean nothing below the top level.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(object) => Value::Object(
            object
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(key, value)| (key, without_nulls(value)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

#[cfg(test)]
mod tests;
