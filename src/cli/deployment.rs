//! A `FlinkDeployment` or `FlinkSessionJob` as commands see it.
//!
//! It is read leniently: objects that another version wrote, or that our types would reject, must still be shown and
//! must survive being written back.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};

use api::PAUSED_ANNOTATION;
use api::blue_green::{FlinkBlueGreenDeployment, SERVING};
use api::deployment::{FlinkConfiguration, FlinkDeployment};
use api::reconciled::session_cluster_in;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::JobKind;
use clients::cluster::apply::ObjectId;
use config::FlinkConfig;
use config::options;
use lifecycle::application::preflight::PREFLIGHT_FAILED;
use lifecycle::conditions::{UPGRADE_ADMITTED, UPGRADES_PAUSED};
use lifecycle::error_document;
use lifecycle::notes::{PREFLIGHT, Trial};
use lifecycle::paused::{self, PAUSED};
use state::revision;

/// Type prefix of a session job's name, as `kubectl get` knows it.
pub(super) const SESSION_JOB: &str = "sessionjob";
/// Type prefix of a blue/green deployment's name.
pub(super) const BLUE_GREEN: &str = "bluegreen";
/// Key under which a colour that stands for its blue/green deployment holds that object.
pub(super) const PARENT: &str = "blueGreenDeployment";

/// One stored object.
#[derive(Clone, Debug, PartialEq)]
pub struct Deployment(pub Value);

impl Deployment {
    fn text(&self, path: &str) -> Option<&str> {
        self.0.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn number(&self, path: &str) -> Option<i64> {
        self.0.pointer(path).and_then(Value::as_i64)
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name").unwrap_or_default()
    }

    pub fn namespace(&self) -> &str {
        self.text("/metadata/namespace").unwrap_or_default()
    }

    pub fn uid(&self) -> Option<&str> {
        self.text("/metadata/uid")
    }

    /// Returns the uids that may own its other objects; see [`api::blue_green::uids_of`].
    pub fn owner_uids(&self) -> Vec<&str> {
        let parent = self.parent().and_then(|parent| parent["uid"].as_str());
        self.uid().into_iter().chain(parent).collect()
    }

    pub fn resource_version(&self) -> Option<&str> {
        self.text("/metadata/resourceVersion")
    }

    pub fn is_being_deleted(&self) -> bool {
        self.text("/metadata/deletionTimestamp").is_some()
    }

    /// Returns the generation, which the API server increments with every change of the spec.
    pub fn generation(&self) -> i64 {
        self.number("/metadata/generation").unwrap_or_default()
    }

    /// Returns the generation that the operator has reconciled.
    pub fn observed_generation(&self) -> Option<i64> {
        let of_condition = || self.condition(SERVING)?.get("observedGeneration")?.as_i64();
        self.number("/status/observedGeneration").or_else(of_condition)
    }

    /// Returns the condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Value> {
        self.0.pointer("/status/conditions")?.as_array()?.iter().find(|it| it["type"] == kind)
    }

    /// Returns reason and message if the operator does not start to roll out a changed spec. The status of a session job
    /// only says so if upgrades are paused.
    pub fn upgrade_waits(&self) -> Option<(&str, Cow<'_, str>)> {
        if self.error_reason().as_deref() == Some(UPGRADES_PAUSED) {
            return Some((UPGRADES_PAUSED, self.error()?.into()));
        }
        let condition = self.condition(UPGRADE_ADMITTED)?;
        let message = condition["message"].as_str().unwrap_or_default();
        Some((condition["reason"].as_str()?, message.into()))
    }

    /// Returns whether the resource is paused by its own annotation.
    pub fn is_paused_by_itself(&self) -> bool {
        let annotations = self.0.pointer("/metadata/annotations");
        let value =
            annotations.and_then(|annotations| annotations.get(PAUSED_ANNOTATION)?.as_str());
        value.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns why the operator only observes the resource, if it does.
    pub fn paused(&self) -> Option<Cow<'_, str>> {
        if self.is_paused_by_itself() {
            return Some(paused::message().into());
        }
        Some(self.condition(PAUSED)?["message"].as_str().unwrap_or_default().into())
    }

    /// Returns true while a preflight tries a changed spec in pods of its own.
    pub fn is_tried(&self) -> bool {
        let trial = self.0.pointer("/status/clusterInfo").and_then(|info| info.get(PREFLIGHT.key));
        let trial = trial.and_then(Value::as_str).and_then(|it| it.parse::<Trial>().ok());
        trial.is_some_and(|trial| trial.is_under_way())
    }

    /// Returns the one-word reason that the operator gives for its error.
    pub fn error_reason(&self) -> Option<String> {
        error_document::reason_of(self.text("/status/error")?)
    }

    /// Returns the phase of the upgrade; `None` if no upgrade is under way or waiting.
    pub fn upgrade(&self) -> Option<&'static str> {
        if self.paused().is_some() {
            return Some("resource paused");
        }
        if let Some((reason, _)) = self.upgrade_waits() {
            return Some(if reason == UPGRADES_PAUSED { "paused" } else { "waiting" });
        }
        if self.error_reason().as_deref() == Some(PREFLIGHT_FAILED) {
            return Some("new spec would not start");
        }
        if self.is_tried() {
            return Some("trying new spec");
        }
        let has_been_stable =
            self.0.pointer("/status/reconciliationStatus/lastStableSpec").is_some();
        let serves = || self.condition(SERVING).is_some_and(|it| it["status"] == "True");
        match self.lifecycle()? {
            "SAVEPOINTING_BLUE" | "SAVEPOINTING_GREEN" => Some("taking a savepoint"),
            "TRANSITIONING_TO_BLUE" | "TRANSITIONING_TO_GREEN" if serves() => Some("in transition"),
            "UPGRADING" => Some("restarting"),
            "ROLLING_BACK" => Some("rolling back"),
            "DEPLOYED" if has_been_stable => Some("becoming stable"),
            _ if self.text("/status/jobStatus/savepointInfo/triggerType") == Some("UPGRADE") => {
                Some("stopping with a savepoint")
            }
            // Nothing else in its status says that it waits for its turn.
            "STABLE" if self.is_session_job() && !self.is_taken_up() && self.error().is_none() => {
                Some("waiting")
            }
            _ => None,
        }
    }

    /// Returns true if the operator has at least started to reconcile this spec.
    pub fn is_taken_up(&self) -> bool {
        self.observed_generation().is_some_and(|observed| observed >= self.generation())
    }

    /// Returns `STABLE`, `UPGRADING`, …, or `ACTIVE_BLUE`, …; `None` until the operator has seen it.
    pub fn lifecycle(&self) -> Option<&str> {
        self.text("/status/lifecycleState").or_else(|| self.text("/status/blueGreenState"))
    }

    /// Returns `RUNNING`, `FAILED`, …
    pub fn job_state(&self) -> Option<&str> {
        self.text("/status/jobStatus/state")
    }

    pub fn job_id(&self) -> Option<&str> {
        self.text("/status/jobStatus/jobId")
    }

    /// Returns `READY`, `DEPLOYING`, …
    pub fn job_manager_status(&self) -> Option<&str> {
        self.text("/status/jobManagerDeploymentStatus")
    }

    /// Returns the spec that was reconciled last, with the operator's metadata.
    pub fn last_reconciled_spec(&self) -> Option<Value> {
        let document: Value = serde_json::from_str(self.last_reconciled()?).ok()?;
        if let Some(template) = document.pointer("/spec/template/spec") {
            return Some(template.clone());
        }
        // In the oldest format the document is the spec itself.
        Some(document.get("spec").cloned().unwrap_or(document))
    }

    /// Returns true if the operator has ever deployed it.
    pub fn was_deployed(&self) -> bool {
        self.last_reconciled().is_some()
    }

    fn last_reconciled(&self) -> Option<&str> {
        let of_job = self.text("/status/reconciliationStatus/lastReconciledSpec");
        of_job.or_else(|| self.text("/status/lastReconciledSpec"))
    }

    fn text_of_spec(&self, path: &str) -> Option<&str> {
        self.of_spec(path)?.as_str().filter(|text| !text.is_empty())
    }

    /// Returns a field of the job's spec, which is in the template for a blue/green deployment.
    fn of_spec(&self, path: &str) -> Option<&Value> {
        let template = self.0.pointer("/spec/template/spec");
        template.or_else(|| self.0.get("spec"))?.pointer(path)
    }

    /// Returns true if the last stable spec is replacing the reconciled one.
    pub fn is_rolling_back(&self) -> bool {
        self.text("/status/reconciliationStatus/state") == Some("ROLLING_BACK")
    }

    /// Returns when the last reconciled spec was written.
    pub fn reconciled_at(&self) -> Option<Timestamp> {
        let milliseconds = self.number("/status/reconciliationStatus/reconciliationTimestamp")?;
        Timestamp::from_millisecond(milliseconds).ok().filter(|at| *at > Timestamp::UNIX_EPOCH)
    }

    /// Returns true for a job in a session cluster, which is a resource of its own.
    pub fn is_session_job(&self) -> bool {
        self.text("/kind") == Some("FlinkSessionJob")
    }

    /// Returns the session cluster that a session job runs in, even if its spec has since named another.
    pub fn session_cluster(&self) -> Option<Cow<'_, str>> {
        if self.is_session_job() { session_cluster_in(&self.0) } else { None }
    }

    /// Returns true for a blue/green deployment, whose two colours are deployments of their own.
    pub fn is_blue_green(&self) -> bool {
        self.text("/kind") == Some("FlinkBlueGreenDeployment")
    }

    /// Returns the object that holds the spec: itself, or the blue/green deployment that it stands for.
    #[must_use]
    pub fn stored(&self) -> Self {
        Self(self.0.get(PARENT).unwrap_or(&self.0).clone())
    }

    /// Returns the path of a field of the job's spec, such as `spec.job.parallelism` for `job.parallelism`.
    pub fn place_of(&self, field: &str) -> String {
        let template = if self.stands_for_blue_green() { "template.spec." } else { "" };
        format!("spec.{template}{field}")
    }

    /// Returns true for a colour that carries the spec of its blue/green deployment.
    pub fn stands_for_blue_green(&self) -> bool {
        self.0.get(PARENT).is_some()
    }

    /// Returns true for a session cluster, which is a deployment without a job.
    pub fn is_session(&self) -> bool {
        !self.is_session_job()
            && !self.is_blue_green()
            && self.0.pointer("/spec/job").is_none_or(Value::is_null)
    }

    /// Returns the name of the blue/green deployment that it is a colour of, which determines its spec.
    pub fn blue_green_parent(&self) -> Option<&str> {
        self.parent()?["name"].as_str()
    }

    fn parent(&self) -> Option<&Value> {
        let owners = self.0.pointer("/metadata/ownerReferences")?.as_array()?;
        owners.iter().find(|it| it["kind"] == "FlinkBlueGreenDeployment")
    }

    pub fn job_kind(&self) -> JobKind {
        if self.is_session_job() { JobKind::FlinkSessionJob } else { JobKind::FlinkDeployment }
    }

    /// Returns the name that is unique among all kinds: `orders`, `sessionjob/orders` or `bluegreen/orders`.
    pub fn shown_name(&self) -> String {
        let stored = self.0.get(PARENT).unwrap_or(&self.0);
        if stored["kind"] == "FlinkBlueGreenDeployment" {
            blue_green_name(stored["metadata"]["name"].as_str().unwrap_or_default())
        } else if self.is_session_job() {
            format!("{SESSION_JOB}/{}", self.name())
        } else {
            self.name().to_owned()
        }
    }

    /// Returns the name that its revisions are stored under.
    pub fn history_name(&self) -> String {
        match self.blue_green_parent() {
            Some(parent) => revision::blue_green_history_name(parent),
            None if self.is_blue_green() => revision::blue_green_history_name(self.name()),
            None => revision::history_name(self.job_kind(), self.name()),
        }
    }

    /// Returns its identity in the API server.
    pub fn id(&self) -> ObjectId {
        let (namespace, name) = (self.namespace(), self.name());
        if self.is_blue_green() {
            return ObjectId::of::<FlinkBlueGreenDeployment>(namespace, name);
        }
        match self.job_kind() {
            JobKind::FlinkDeployment => ObjectId::of::<FlinkDeployment>(namespace, name),
            JobKind::FlinkSessionJob => ObjectId::of::<FlinkSessionJob>(namespace, name),
        }
    }

    /// Returns true if the operator starts the TaskManagers rather than Flink.
    pub fn is_standalone(&self) -> bool {
        self.text("/spec/mode") == Some("standalone")
    }

    /// Returns the desired state of the job; `running` if the spec does not set it.
    pub fn desired_state(&self) -> &str {
        self.text_of_spec("/job/state").unwrap_or("running")
    }

    /// Returns the upgrade mode; `stateless` if the spec does not set it.
    pub fn upgrade_mode(&self) -> &str {
        self.text_of_spec("/job/upgradeMode").unwrap_or("stateless")
    }

    pub fn flink_version(&self) -> Option<&str> {
        self.text_of_spec("/flinkVersion")
    }

    pub fn image(&self) -> Option<&str> {
        self.text_of_spec("/image")
    }

    pub fn parallelism(&self) -> Option<i64> {
        self.of_spec("/job/parallelism")?.as_i64()
    }

    /// Returns the number of TaskManagers that the spec requests, if it does.
    pub fn stated_task_managers(&self) -> Option<i64> {
        self.number("/spec/taskManager/replicas").filter(|replicas| *replicas > 0)
    }

    /// Returns the number of TaskManagers that the operator reports.
    pub fn task_managers(&self) -> Option<i64> {
        self.number("/status/taskManager/replicas")
    }

    pub fn created_at(&self) -> Option<Timestamp> {
        self.text("/metadata/creationTimestamp")?.parse().ok()
    }

    /// Iterates over its labels, sorted by name.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.0.pointer("/metadata/labels").and_then(Value::as_object);
        let mut labels: Vec<_> = labels
            .into_iter()
            .flatten()
            .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
            .collect();
        labels.sort_unstable();
        labels.into_iter()
    }

    /// Returns the time of the newest savepoint or checkpoint in the status, if any.
    pub fn snapshot_at(&self) -> Option<Timestamp> {
        let places = [
            "/status/jobStatus/savepointInfo/lastSavepoint/timeStamp",
            "/status/jobStatus/checkpointInfo/lastCheckpoint/timeStamp",
        ];
        let newest = places.into_iter().filter_map(|place| self.number(place)).max()?;
        Timestamp::from_millisecond(newest).ok().filter(|at| *at > Timestamp::UNIX_EPOCH)
    }

    /// Sets what [`Self::snapshot_at`] returns, unless it is known to be later.
    pub fn set_saved_at(&mut self, at: Timestamp) {
        if self.snapshot_at().is_some_and(|known| known > at) {
            return;
        }
        let job = self.0.pointer_mut("/status/jobStatus").and_then(Value::as_object_mut);
        if let Some(job) = job {
            let checkpoint = json!({"lastCheckpoint": {"timeStamp": at.as_millisecond()}});
            job.insert("checkpointInfo".to_owned(), checkpoint);
        }
    }

    /// Returns the path of the state that the next start would restore.
    pub fn upgrade_savepoint_path(&self) -> Option<&str> {
        self.text("/status/jobStatus/upgradeSavepointPath")
    }

    /// Returns the spec's own Flink configuration, flattened. The operator's defaults are not known here.
    pub fn flink_config(&self) -> FlinkConfig {
        let configuration = self.0.pointer("/spec/flinkConfiguration").and_then(Value::as_object);
        configuration
            .map(|map| FlinkConfig::flatten(&FlinkConfiguration(map.clone())))
            .unwrap_or_default()
    }

    /// Returns the configuration that the running cluster was created with. It comes from the reconciled spec, which
    /// may differ from the present one.
    pub fn reconciled_config(&self) -> FlinkConfig {
        self.last_reconciled_spec()
            .and_then(|spec| spec.get("flinkConfiguration")?.as_object().cloned())
            .map_or_else(
                || self.flink_config(),
                |map| FlinkConfig::flatten(&FlinkConfiguration(map)),
            )
    }

    /// Returns the directory that the spec sets for savepoints.
    pub fn savepoint_directory(&self) -> Option<String> {
        self.flink_config().text_of(&options::SAVEPOINT_DIRECTORY).map(str::to_owned)
    }

    /// Returns the last error with its causes, on one line.
    pub fn error(&self) -> Option<String> {
        let text = self.text("/status/error")?;
        let Ok(document) = serde_json::from_str::<Value>(text) else {
            return Some(text.to_owned());
        };
        let Some(message) = message_of(&document) else { return Some(text.to_owned()) };
        let mut line = message;
        for cause in document.get("throwableList").and_then(Value::as_array).into_iter().flatten() {
            if let Some(cause) = message_of(cause).filter(|cause| !line.contains(cause.as_str())) {
                line.push_str(": ");
                line.push_str(&cause);
            }
        }
        Some(line)
    }
}

/// Returns an exception's message, or its class if it has none.
fn message_of(throwable: &Value) -> Option<String> {
    let field =
        |name| throwable.get(name).and_then(Value::as_str).filter(|text: &&str| !text.is_empty());
    let class = || field("type").map(|class| class.rsplit('.').next().unwrap_or(class));
    field("message").or_else(class).map(|text| text.trim().replace('\n', " "))
}

/// Returns the name of a blue/green deployment on the command line.
pub fn blue_green_name(plain: &str) -> String {
    format!("{BLUE_GREEN}/{plain}")
}

#[cfg(test)]
mod tests;
