//! A `FlinkDeployment` or `FlinkSessionJob` as commands see it.
//!
//! It is read leniently: objects that another version wrote, or that our types would reject, must still be shown and
//! must survive being written back.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::connection::Connection;
use super::failure::Failure;
use api::PAUSED_ANNOTATION;
use api::blue_green::{BlueGreenState, BlueGreenStatus, Colour, FlinkBlueGreenDeployment, SERVING};
use api::deployment::{FlinkConfiguration, FlinkDeployment};
use api::reconciled::session_cluster_in;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::{FlinkStateSnapshot, JobKind};
use clients::cluster;
use clients::cluster::apply::ObjectId;
use clients::cluster::read::{self, Scope};
use config::FlinkConfig;
use config::options;
use lifecycle::application::preflight::PREFLIGHT_FAILED;
use lifecycle::conditions::{UPGRADE_ADMITTED, UPGRADES_PAUSED};
use lifecycle::error_document;
use lifecycle::notes::{PREFLIGHT, Trial};
use lifecycle::paused::{self, PAUSED};
use state::revision;

/// Maximum number of names shown in a hint.
const NAMES_SHOWN: usize = 8;
/// Minimum similarity of a name to a suggested one. Two swapped letters out of eight give 0.97.
const LIKENESS_MIN: f64 = 0.85;
/// Type prefix of a session job's name, as `kubectl get` knows it.
const SESSION_JOB: &str = "sessionjob";
/// Type prefix of a blue/green deployment's name.
const BLUE_GREEN: &str = "bluegreen";
/// Type prefixes of a snapshot's name.
const SNAPSHOT: [&str; 4] = ["snapshot", "flinksnp", "flinkstatesnapshot", "flinkstatesnapshots"];
/// Key under which a colour that stands for its blue/green deployment holds that object.
const PARENT: &str = "blueGreenDeployment";

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

/// Returns the identity of a deployment in the connection's namespace.
pub fn id(connection: &Connection, name: &str) -> ObjectId {
    ObjectId::of::<FlinkDeployment>(&connection.namespace, name)
}

/// Kinds that a name on the command line may refer to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Meant {
    Deployment,
    SessionJob,
    /// Refers to the serving colour.
    BlueGreen,
    Either,
}

/// Parses `orders`, `sessionjob/orders`, `flinkdeployment/orders` or `bluegreen/orders`, and kubectl's other spellings.
fn meaning(name: &str) -> (Meant, &str) {
    let Some((kind, rest)) = name.split_once('/') else { return (Meant::Either, name) };
    let kind = kind.strip_suffix(".flink.apache.org").unwrap_or(kind).to_lowercase();
    match kind.as_str() {
        "sessionjob" | "flinksessionjob" | "flinksessionjobs" => (Meant::SessionJob, rest),
        "flinkdep" | "flinkdeployment" | "flinkdeployments" => (Meant::Deployment, rest),
        BLUE_GREEN | "flinkbgdep" | "flinkbluegreendeployment" | "flinkbluegreendeployments" => {
            (Meant::BlueGreen, rest)
        }
        // No object has such a name, so the lookup reports that it does not exist.
        _ => (Meant::Either, name),
    }
}

/// Returns the name without its optional kind prefix.
pub fn plain(name: &str) -> &str {
    meaning(name).1
}

/// Reads the deployment or session job; for a blue/green deployment, the serving colour. If it is missing, the error
/// suggests existing names.
pub async fn fetch(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    let (meant, plain) = meaning(name);
    if meant == Meant::BlueGreen {
        let resource = fetch_blue_green(connection, plain).await?;
        let found = serving(connection, &resource).await?;
        return found.ok_or_else(|| no_colour(plain, &connection.namespace).into());
    }
    let deployment = async {
        match meant {
            Meant::SessionJob | Meant::BlueGreen => Ok(None),
            Meant::Deployment | Meant::Either => {
                read::get_value(&connection.client, &id(connection, plain)).await
            }
        }
    };
    let session_job = async {
        let id = ObjectId::of::<FlinkSessionJob>(&connection.namespace, plain);
        match (meant, read::get_value(&connection.client, &id)) {
            (Meant::Deployment | Meant::BlueGreen, _) => Ok(None),
            (Meant::SessionJob, found) => found.await,
            (Meant::Either, found) => match found.await {
                // A kind that is not installed or not readable cannot be meant.
                Err(cluster::Error::KindMissing { .. } | cluster::Error::Forbidden { .. }) => {
                    Ok(None)
                }
                other => other,
            },
        }
    };
    let (deployment, session_job) = tokio::join!(deployment, session_job);
    match (deployment?, session_job?) {
        (Some(_), Some(_)) => Err(Failure::usage(format!(
            "`{plain}` is both a FlinkDeployment and a FlinkSessionJob: use flinkdeployment/{plain} or \
             {SESSION_JOB}/{plain}"
        ))
        .into()),
        (Some(value), None) | (None, Some(value)) => Ok(Deployment(value)),
        (None, None) => Err(not_found(connection, name).await.into()),
    }
}

/// Returns the name of a blue/green deployment on the command line.
pub fn blue_green_name(plain: &str) -> String {
    format!("{BLUE_GREEN}/{plain}")
}

/// Returns the blue/green deployment that the name refers to; `None` for other kinds.
pub async fn find_blue_green(
    connection: &Connection,
    name: &str,
) -> anyhow::Result<Option<Deployment>> {
    match meaning(name) {
        (Meant::BlueGreen, plain) => fetch_blue_green(connection, plain).await.map(Some),
        (Meant::Deployment | Meant::SessionJob | Meant::Either, _) => Ok(None),
    }
}

/// Like [`fetch`], but returns a blue/green deployment itself.
pub async fn fetch_itself(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    match find_blue_green(connection, name).await? {
        Some(resource) => Ok(resource),
        None => fetch(connection, name).await,
    }
}

/// Like [`fetch_itself`], also for `snapshot/NAME`.
pub async fn fetch_of_any_kind(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    let (kind, plain) = name.split_once('/').unwrap_or_default();
    let kind = kind.strip_suffix(".flink.apache.org").unwrap_or(kind).to_lowercase();
    if !SNAPSHOT.contains(&&*kind) {
        return fetch_itself(connection, name).await;
    }
    let namespace = &connection.namespace;
    let id = ObjectId::of::<FlinkStateSnapshot>(namespace, plain);
    let found = read::get_value(&connection.client, &id).await?;
    found.map(Deployment).ok_or_else(|| {
        Failure::new(format!("no FlinkStateSnapshot `{plain}` in namespace `{namespace}`")).into()
    })
}

/// Returns the existing colours: the serving one first, one that is being deleted last. A deployment that only has the
/// name of a colour is left out.
pub async fn colours(
    connection: &Connection,
    resource: &Deployment,
) -> anyhow::Result<Vec<Deployment>> {
    let (client, name) = (&connection.client, resource.name());
    let status = resource.0.get("status").cloned().unwrap_or_default();
    let status: BlueGreenStatus = serde_json::from_value(status).unwrap_or_default();
    let state = status.blue_green_state.unwrap_or(BlueGreenState::InitializingBlue);
    let serving = if status.is_decided() { state.serving().other() } else { state.serving() };
    let read = async |colour: Colour| {
        read::get_value(client, &id(connection, &colour.child_of(name))).await
    };
    let (first, second) = tokio::try_join!(read(serving), read(serving.other()))?;
    let found = [first, second].into_iter().flatten().map(Deployment);
    let is_child = |it: &Deployment| {
        it.owner_uids().into_iter().skip(1).any(|uid| Some(uid) == resource.uid())
    };
    let mut colours: Vec<_> = found.filter(is_child).collect();
    colours.sort_by_key(Deployment::is_being_deleted);
    Ok(colours)
}

/// Returns the object, followed by its colours if it is a blue/green deployment.
pub async fn with_colours(
    connection: &Connection,
    stored: &Deployment,
) -> anyhow::Result<Vec<Deployment>> {
    let mut all = vec![stored.clone()];
    if stored.is_blue_green() {
        all.extend(colours(connection, stored).await?);
    }
    Ok(all)
}

/// Returns the object itself; for a blue/green deployment the serving colour, or the other one if that does not exist.
pub async fn serving(
    connection: &Connection,
    resource: &Deployment,
) -> anyhow::Result<Option<Deployment>> {
    if !resource.is_blue_green() {
        return Ok(Some(resource.clone()));
    }
    Ok(colours(connection, resource).await?.into_iter().next())
}

fn no_colour(name: &str, namespace: &str) -> Failure {
    Failure::new(format!("the blue/green deployment `{name}` has no FlinkDeployment yet")).hint(
        format!("see what it waits for: kubectl get flinkbgdep {name} -n {namespace} -o yaml"),
    )
}

/// Reads a blue/green deployment itself.
pub async fn fetch_blue_green(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    let namespace = &connection.namespace;
    let id = ObjectId::of::<FlinkBlueGreenDeployment>(namespace, name);
    let found = read::get_value(&connection.client, &id).await?;
    found.map(Deployment).ok_or_else(|| {
        Failure::new(format!("no FlinkBlueGreenDeployment `{name}` in namespace `{namespace}`"))
            .hint(format!("list them: kubectl get flinkbgdep -n {namespace}"))
            .into()
    })
}

/// Like [`fetch`], for an object that the user is about to change. For a blue/green deployment it returns the serving
/// colour with the template's spec. Refuses a colour by itself, because its blue/green deployment manages it.
pub async fn fetch_to_change(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    let (Meant::BlueGreen, plain) = meaning(name) else {
        let present = fetch(connection, name).await?;
        refuse_colour(&present)?;
        return Ok(present);
    };
    let resource = fetch_blue_green(connection, plain).await?;
    let colour = serving(connection, &resource).await?.unwrap_or_else(|| {
        let name = Colour::Blue.child_of(plain);
        Deployment(json!({"metadata": {"name": name, "namespace": resource.namespace()}}))
    });
    Ok(standing_for(colour, resource))
}

fn standing_for(colour: Deployment, resource: Deployment) -> Deployment {
    let Deployment(mut it) = colour;
    it["spec"] = resource.0.pointer("/spec/template/spec").cloned().unwrap_or_default();
    it[PARENT] = resource.0;
    Deployment(it)
}

/// Refuses a colour of a blue/green deployment.
pub fn refuse_colour(present: &Deployment) -> Result<(), Failure> {
    let Some(parent) = present.blue_green_parent() else { return Ok(()) };
    let (name, namespace) = (present.name(), present.namespace());
    Err(Failure::new(format!(
        "`{name}` cannot be changed directly: it is a colour of the blue/green deployment `{parent}`"
    ))
    .hint(format!("change its spec.template: kubectl edit flinkbgdep {parent} -n {namespace}"))
    .hint(format!("or pass {BLUE_GREEN}/{parent} to commands that change or delete")))
}

/// Like [`cluster_of`], for a row of a list, which lacks the options that determine where the JobManager listens.
pub async fn cluster_of_row(
    connection: &Connection,
    row: &Deployment,
) -> anyhow::Result<Deployment> {
    let mut home = connection.clone();
    home.namespace = row.namespace().to_owned();
    let deployment = || format!("flinkdeployment/{}", row.name());
    let name = if row.is_session_job() { row.shown_name() } else { deployment() };
    let whole = fetch(&home, &name).await?;
    cluster_of(&home, &whole).await
}

/// Returns the deployment whose JobManager runs the job: itself, or the cluster of a session job.
pub async fn cluster_of(
    connection: &Connection,
    deployment: &Deployment,
) -> anyhow::Result<Deployment> {
    let Some(cluster) = deployment.session_cluster() else { return Ok(deployment.clone()) };
    let id = ObjectId::of::<FlinkDeployment>(deployment.namespace(), &cluster);
    match read::get_value(&connection.client, &id).await? {
        Some(value) => Ok(Deployment(value)),
        None => Err(Failure::new(format!(
            "the session cluster `{cluster}` of `{}` does not exist",
            deployment.name()
        ))
        .into()),
    }
}

/// Returns the session jobs of the cluster; none if the kind is not installed.
///
/// # Errors
/// If they cannot be read, which does not mean that there are none.
pub async fn session_jobs_of(
    connection: &Connection,
    cluster: &str,
) -> cluster::Result<Vec<Deployment>> {
    let scope = Scope::Namespace(&connection.namespace);
    let listed = read::list_values::<FlinkSessionJob>(&connection.client, scope, None).await;
    let all = read::or_none::<FlinkSessionJob, _>(&connection.client, listed).await?;
    let jobs = all.into_iter().map(Deployment);
    Ok(jobs.filter(|job| job.session_cluster().as_deref() == Some(cluster)).collect())
}

/// Returns an error that suggests similar names, the same name in another namespace, or all names in this one.
pub async fn not_found(connection: &Connection, name: &str) -> Failure {
    let (client, namespace) = (&connection.client, &connection.namespace);
    let (kind, plain) = match meaning(name) {
        (Meant::SessionJob, name) => ("FlinkSessionJob", name),
        (Meant::Deployment | Meant::BlueGreen | Meant::Either, name) => ("FlinkDeployment", name),
    };
    let failure = Failure::new(format!("no {kind} `{plain}` in namespace `{namespace}`"));
    let scope = Scope::Namespace(namespace);
    // The hint is optional; without the right to list there is none.
    let (deployments, jobs, parents, elsewhere) = tokio::join!(
        read::names::<FlinkDeployment>(client, scope),
        read::names::<FlinkSessionJob>(client, scope),
        read::names::<FlinkBlueGreenDeployment>(client, scope),
        read::namespaces_with::<FlinkDeployment>(client, plain),
    );
    let Ok(mut names) = deployments else { return failure };
    // Parents come before their children, whose names start with the parent's.
    names.splice(..0, parents.unwrap_or_default().iter().map(|name| blue_green_name(name)));
    names.extend(jobs.unwrap_or_default().into_iter().map(|job| format!("{SESSION_JOB}/{job}")));
    if let Some(other) = elsewhere.unwrap_or_default().first() {
        return failure.hint(format!("namespace `{other}` has one: add -n {other}"));
    }
    if names.is_empty() {
        return failure
            .hint("the namespace has none; search all namespaces: kubectl flink list -A");
    }
    let near = near(plain, &names);
    let (lead, shown) = match near.as_slice() {
        [] => ("the namespace has", names.iter().map(String::as_str).collect::<Vec<_>>()),
        _ => ("did you mean", near),
    };
    let more = if shown.len() > NAMES_SHOWN { ", …" } else { "" };
    let mark = if lead == "did you mean" { "?" } else { "" };
    let shown = shown.iter().take(NAMES_SHOWN).map(|name| format!("`{name}`")).collect::<Vec<_>>();
    failure.hint(format!("{lead} {}{more}{mark}", shown.join(", ")))
}

/// Returns names that the missing one may refer to: those that it is a prefix of, else similar ones, best match first.
fn near<'a>(name: &str, names: &'a [String]) -> Vec<&'a str> {
    let plain = |name: &'a String| name.rsplit('/').next().unwrap_or(name);
    let begun = names.iter().filter(|other| !name.is_empty() && plain(other).starts_with(name));
    let begun = begun.map(String::as_str).collect::<Vec<_>>();
    if !begun.is_empty() {
        return begun;
    }
    let alike = |other: &'a String| (strsim::jaro_winkler(name, plain(other)), other.as_str());
    let mut alike = names.iter().map(alike).collect::<Vec<_>>();
    alike.retain(|(likeness, _)| *likeness > LIKENESS_MIN);
    alike.sort_by(|one, other| other.0.total_cmp(&one.0));
    alike.into_iter().map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests;
