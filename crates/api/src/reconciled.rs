//! `lastReconciledSpec` and `lastStableSpec`: a spec stored as text in the status.
//!
//! The text is that of the Java operator: every field in its order, including nulls, and the `resource_metadata` block.
//! An older format is the bare spec with an `apiVersion`. Whatever cannot be read is reported as corrupt and never
//! guessed at.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value, json};

use crate::API_VERSION;
use crate::deployment::{FlinkDeployment, FlinkDeploymentSpec, JobManagerSpec, TaskManagerSpec};
use crate::job::{JobSpec, JobState};
use crate::resources::Resource;
use crate::session_job::{FlinkSessionJob, FlinkSessionJobSpec, SessionJobStatus};
use crate::status::{ReconciliationState, ReconciliationStatus};

/// Beginning of the text of a stored spec, for both operators.
const START: &str = r#"{"spec":{"#;

/// A spec that is stored as text in a status.
pub trait StoredSpec: Clone + DeserializeOwned {
    /// Returns every field in the order of the Java operator, absent ones as null.
    fn to_value(&self) -> Value;

    fn job(&self) -> Option<&JobSpec>;

    fn job_mut(&mut self) -> Option<&mut JobSpec>;
}

impl StoredSpec for FlinkDeploymentSpec {
    fn to_value(&self) -> Value {
        spec_value(self)
    }

    fn job(&self) -> Option<&JobSpec> {
        self.job.as_ref()
    }

    fn job_mut(&mut self) -> Option<&mut JobSpec> {
        self.job.as_mut()
    }
}

impl StoredSpec for FlinkSessionJobSpec {
    fn to_value(&self) -> Value {
        let Self { job, restart_nonce, flink_configuration, deployment_name } = self;
        json!({
            "job": job.as_ref().map(job_value),
            "restartNonce": restart_nonce,
            "flinkConfiguration": flink_configuration,
            "deploymentName": deployment_name,
        })
    }

    fn job(&self) -> Option<&JobSpec> {
        self.job.as_ref()
    }

    fn job_mut(&mut self) -> Option<&mut JobSpec> {
        self.job.as_mut()
    }
}

/// The stored spec of a `FlinkDeployment`.
pub type ReconciledSpec = Reconciled<FlinkDeploymentSpec>;
/// The stored spec of a `FlinkSessionJob`.
pub type ReconciledJob = Reconciled<FlinkSessionJobSpec>;

/// A reconciled spec and its metadata.
#[derive(Clone, Debug, PartialEq)]
pub struct Reconciled<S> {
    pub spec: S,
    /// True until a later deployment, so that a failed first one can start over. `None` in the old format.
    pub first_deployment: Option<bool>,
}

/// Why a stored spec cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the stored spec is not readable: {reason}")]
pub struct CorruptSpec {
    pub reason: String,
}

impl<S: StoredSpec> Reconciled<S> {
    /// Creates the stored form of a spec about to be deployed.
    pub fn new(spec: S, first_deployment: bool) -> Self {
        Self { spec, first_deployment: Some(first_deployment) }
    }

    /// Reads the text of a status field.
    ///
    /// # Errors
    /// If the text is not a JSON object, or its spec does not have the shape of a spec.
    pub fn parse(text: &str) -> Result<Self, CorruptSpec> {
        #[derive(Deserialize)]
        #[serde(bound = "S: DeserializeOwned")]
        struct Document<S> {
            spec: S,
            resource_metadata: Option<Value>,
        }
        // This runs in every pass, so a text in the usual format is parsed directly.
        if text.starts_with(START)
            && let Ok(Document { spec, resource_metadata }) = serde_json::from_str(text)
        {
            return Ok(Self { spec, first_deployment: resource_metadata.as_ref().and_then(first) });
        }
        Self::parse_any(text)
    }

    /// Reads a text in any format, or returns what is wrong with it.
    fn parse_any(text: &str) -> Result<Self, CorruptSpec> {
        let corrupt = |reason: String| CorruptSpec { reason };
        let value: Value =
            serde_json::from_str(text).map_err(|error| corrupt(error.to_string()))?;
        let Value::Object(mut document) = value else {
            return Err(corrupt("expected a JSON object".to_owned()));
        };
        let metadata = document.remove("resource_metadata");
        let (spec, first_deployment) = match (document.remove("spec"), metadata) {
            (Some(spec), metadata) => (spec, metadata.as_ref().and_then(first)),
            // In the old format the whole document is the spec.
            (None, None) if document.contains_key("apiVersion") => {
                document.remove("apiVersion");
                (Value::Object(document), None)
            }
            (None, _) => return Err(corrupt("it has no `spec`".to_owned())),
        };
        if !spec.is_object() {
            return Err(corrupt("its `spec` is not an object".to_owned()));
        }
        let spec = serde_json::from_value(spec).map_err(|error| corrupt(error.to_string()))?;
        Ok(Self { spec, first_deployment })
    }

    /// Returns whether nothing has replaced the first deployment yet.
    pub fn is_first_deployment(&self) -> bool {
        self.first_deployment.unwrap_or(false)
    }

    /// Returns the desired state that was actually reached; a session cluster is regarded as running.
    pub fn job_state(&self) -> JobState {
        self.spec.job().map_or(JobState::Running, |job| job.state)
    }

    /// Returns whether both are the same spec, in whatever format they were stored.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.spec.to_value() == other.spec.to_value()
    }

    /// Returns the text for the status field.
    pub fn to_text(&self) -> String {
        let mut metadata = Map::new();
        metadata.insert("apiVersion".to_owned(), json!(API_VERSION));
        metadata.insert("firstDeployment".to_owned(), json!(self.is_first_deployment()));
        let mut document = Map::new();
        document.insert("spec".to_owned(), self.spec.to_value());
        document.insert("resource_metadata".to_owned(), Value::Object(metadata));
        Value::Object(document).to_string()
    }
}

/// Reads `firstDeployment` from a stored spec's `resource_metadata`.
fn first(metadata: &Value) -> Option<bool> {
    metadata.get("firstDeployment").and_then(Value::as_bool)
}

/// Returns the running spec: after a rollback the last stable one rather than the last one.
pub fn deployed<'a, S: StoredSpec>(
    status: &ReconciliationStatus,
    last: &'a Reconciled<S>,
) -> Cow<'a, Reconciled<S>> {
    let is_rolled_back = status.state == ReconciliationState::RolledBack;
    let stable = status.last_stable_spec.as_ref().filter(|_| is_rolled_back);
    let stable = stable.and_then(|text| Reconciled::parse(text).ok());
    stable.map_or(Cow::Borrowed(last), Cow::Owned)
}

/// Returns the name of a session job's cluster: the one it was deployed to, even if the user's spec names another one
/// since, as that edit is refused (J3). Before the first deployment, and if the stored spec cannot be read, it is the
/// desired one.
pub fn session_cluster<'a>(wanted: Option<&'a str>, last: Option<&str>) -> Option<Cow<'a, str>> {
    let deployed = last.and_then(stored_cluster);
    let name = deployed.map(Cow::Owned).or(wanted.map(Cow::Borrowed));
    name.filter(|name| !name.is_empty())
}

/// Returns the name in a stored spec without parsing the rest of it, as this runs for each event.
fn stored_cluster(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Spec {
        deployment_name: Option<String>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Document {
        spec: Option<Spec>,
        /// Only in the old format, which is the bare spec.
        api_version: Option<IgnoredAny>,
        deployment_name: Option<String>,
    }
    let Document { spec, api_version, deployment_name } = serde_json::from_str(text).ok()?;
    match spec {
        Some(spec) => spec.deployment_name,
        None => deployment_name.filter(|_| api_version.is_some()),
    }
}

/// Returns the [`session_cluster`] of a resource with this status.
pub fn session_cluster_of<'a>(
    job: &'a FlinkSessionJob,
    status: Option<&SessionJobStatus>,
) -> Option<Cow<'a, str>> {
    let last = status.and_then(|s| s.reconciliation_status.last_reconciled_spec.as_deref());
    session_cluster(job.spec.deployment_name.as_deref(), last)
}

/// Returns the [`session_cluster`] of a stored resource.
pub fn session_cluster_in(job: &Value) -> Option<Cow<'_, str>> {
    session_cluster_over(job, job)
}

/// Returns the [`session_cluster`] of a resource that will replace the stored one.
pub fn session_cluster_over<'a>(job: &'a Value, stored: &Value) -> Option<Cow<'a, str>> {
    let last = stored.pointer("/status/reconciliationStatus/lastReconciledSpec");
    let wanted = job.pointer("/spec/deploymentName").and_then(Value::as_str);
    session_cluster(wanted, last.and_then(Value::as_str))
}

/// Returns the running spec of a `FlinkDeployment`.
///
/// # Errors
/// If a stored spec cannot be read.
pub fn running_spec(deployment: &FlinkDeployment) -> Result<FlinkDeploymentSpec, CorruptSpec> {
    let status = deployment.status.as_ref().map(|status| &status.reconciliation_status);
    let last = status.and_then(|status| status.last_reconciled_spec.as_deref());
    match (status, last.map(ReconciledSpec::parse).transpose()?) {
        (Some(status), Some(last)) => Ok(deployed(status, &last).into_owned().spec),
        (None | Some(_), _) => Ok(deployment.spec.clone()),
    }
}

/// Returns the spec with every field in the order of the Java operator, absent ones as null.
pub fn spec_value(spec: &FlinkDeploymentSpec) -> Value {
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
    } = spec;
    json!({
        "job": job.as_ref().map(job_value),
        "restartNonce": restart_nonce,
        "flinkConfiguration": flink_configuration,
        "image": image,
        "imagePullPolicy": image_pull_policy,
        "serviceAccount": service_account,
        "flinkVersion": flink_version,
        "ingress": ingress.as_ref().map(|ingress| json!({
            "template": ingress.template,
            "className": ingress.class_name,
            "annotations": ingress.annotations,
            "labels": ingress.labels,
            "tls": ingress.tls,
        })),
        "podTemplate": pod_template,
        "jobManager": job_manager.as_ref().map(job_manager_value),
        "taskManager": task_manager.as_ref().map(task_manager_value),
        "logConfiguration": log_configuration,
        "mode": mode,
    })
}

/// Returns a job with every field in the order of the Java operator, absent ones as null.
pub fn job_value(job: &JobSpec) -> Value {
    let JobSpec {
        jar_uri,
        parallelism,
        entry_class,
        args,
        state,
        savepoint_trigger_nonce,
        initial_savepoint_path,
        checkpoint_trigger_nonce,
        upgrade_mode,
        allow_non_restored_state,
        savepoint_redeploy_nonce,
        autoscaler_reset_nonce,
    } = job;
    json!({
        "jarURI": jar_uri,
        "parallelism": parallelism.unwrap_or(0),
        "entryClass": entry_class,
        "args": args,
        "state": state,
        "savepointTriggerNonce": savepoint_trigger_nonce,
        "initialSavepointPath": initial_savepoint_path,
        "checkpointTriggerNonce": checkpoint_trigger_nonce,
        "upgradeMode": upgrade_mode,
        "allowNonRestoredState": allow_non_restored_state,
        "savepointRedeployNonce": savepoint_redeploy_nonce,
        "autoscalerResetNonce": autoscaler_reset_nonce,
    })
}

fn resource_value(resource: &Resource) -> Value {
    json!({
        "cpu": resource.cpu,
        "memory": resource.memory,
        "ephemeralStorage": resource.ephemeral_storage,
    })
}

fn job_manager_value(job_manager: &JobManagerSpec) -> Value {
    let JobManagerSpec { resource, resources, replicas, pod_template } = job_manager;
    let mut value = json!({
        "resource": resource.as_ref().map(resource_value),
        "replicas": replicas.unwrap_or(1),
        "podTemplate": pod_template,
    });
    insert_resources(&mut value, resources.as_ref());
    value
}

fn task_manager_value(task_manager: &TaskManagerSpec) -> Value {
    let TaskManagerSpec { resource, resources, replicas, pod_template } = task_manager;
    let mut value = json!({
        "resource": resource.as_ref().map(resource_value),
        "replicas": replicas,
        "podTemplate": pod_template,
    });
    insert_resources(&mut value, resources.as_ref());
    value
}

/// Inserts `resources` only if present: it was added later, and older operators still find the text that they would
/// have written.
fn insert_resources<T: serde::Serialize>(value: &mut Value, resources: Option<&T>) {
    if let (Some(resources), Some(object)) = (resources, value.as_object_mut()) {
        object.insert("resources".to_owned(), json!(resources));
    }
}

#[cfg(test)]
mod tests;
