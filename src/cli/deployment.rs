//! A `FlinkDeployment`, or a `FlinkSessionJob`, as commands look at it.
//!
//! It is read leniently: what another version wrote, or what our types would refuse, must still be
//! shown and must survive being written back.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::connection::Connection;
use super::failure::Failure;
use api::blue_green::{BlueGreenState, BlueGreenStatus, Colour, FlinkBlueGreenDeployment, SERVING};
use api::deployment::{FlinkConfiguration, FlinkDeployment};
use api::reconciled::session_cluster_in;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::JobKind;
use clients::cluster;
use clients::cluster::apply::ObjectId;
use clients::cluster::read::{self, Scope};
use config::FlinkConfig;
use config::options;
use lifecycle::application::preflight::PREFLIGHT_FAILED;
use lifecycle::conditions::{PAUSED, UPGRADE_ADMITTED};
use lifecycle::error_document;
use lifecycle::notes::{PREFLIGHT, Trial};
use state::revision;

/// Names shown in a hint at most.
const NAMES_SHOWN: usize = 8;
/// How much alike a name is to the one that is meant by it: two letters of eight in the wrong order
/// have 0.97.
const LIKENESS_MIN: f64 = 0.85;
/// Type that stands before the name of a session job, as `kubectl get` knows it.
const SESSION_JOB: &str = "sessionjob";
/// Type that stands before the name of a blue/green deployment.
const BLUE_GREEN: &str = "bluegreen";
/// Where a colour that stands for its blue/green deployment has this one.
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

    /// The uids of what its other objects may belong to, see [`api::blue_green::uids_of`].
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

    /// Raised by the API server with every change of the spec.
    pub fn generation(&self) -> i64 {
        self.number("/metadata/generation").unwrap_or_default()
    }

    /// The generation that the operator has reconciled.
    pub fn observed_generation(&self) -> Option<i64> {
        let of_condition = || self.condition(SERVING)?.get("observedGeneration")?.as_i64();
        self.number("/status/observedGeneration").or_else(of_condition)
    }

    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Value> {
        self.0.pointer("/status/conditions")?.as_array()?.iter().find(|it| it["type"] == kind)
    }

    /// Why the operator does not begin with a changed spec: reason and message.
    pub fn upgrade_waits(&self) -> Option<(&str, &str)> {
        let condition = self.condition(UPGRADE_ADMITTED)?;
        Some((condition["reason"].as_str()?, condition["message"].as_str().unwrap_or_default()))
    }

    /// True while pods of their own try a changed spec.
    pub fn is_tried(&self) -> bool {
        let trial = self.0.pointer("/status/clusterInfo").and_then(|info| info.get(PREFLIGHT.key));
        trial.and_then(Value::as_str).and_then(|it| it.parse().ok()) == Some(Trial::UnderWay)
    }

    /// The reason that the operator gives its error, by a word.
    pub fn error_reason(&self) -> Option<String> {
        error_document::reason_of(self.text("/status/error")?)
    }

    /// How far an upgrade of it is; absent where none is under way and none waits.
    pub fn upgrade(&self) -> Option<&'static str> {
        if let Some((reason, _)) = self.upgrade_waits() {
            return Some(if reason == PAUSED { "paused" } else { "waiting" });
        }
        if self.error_reason().as_deref() == Some(PREFLIGHT_FAILED) {
            return Some("new spec would not start");
        }
        if self.is_tried() {
            return Some("trying new spec");
        }
        let has_been_stable =
            self.0.pointer("/status/reconciliationStatus/lastStableSpec").is_some();
        match self.lifecycle()? {
            "UPGRADING" => Some("restarting"),
            "ROLLING_BACK" => Some("rolling back"),
            "DEPLOYED" if has_been_stable => Some("becoming stable"),
            _ if self.text("/status/jobStatus/savepointInfo/triggerType") == Some("UPGRADE") => {
                Some("stopping with a savepoint")
            }
            _ => None,
        }
    }

    /// True if the operator has reconciled this spec, or at least begun to.
    pub fn is_taken_up(&self) -> bool {
        self.observed_generation().is_some_and(|observed| observed >= self.generation())
    }

    /// `STABLE`, `UPGRADING`, …, or `ACTIVE_BLUE`, …; absent before the operator has seen it.
    pub fn lifecycle(&self) -> Option<&str> {
        self.text("/status/lifecycleState").or_else(|| self.text("/status/blueGreenState"))
    }

    /// `RUNNING`, `FAILED`, …
    pub fn job_state(&self) -> Option<&str> {
        self.text("/status/jobStatus/state")
    }

    pub fn job_id(&self) -> Option<&str> {
        self.text("/status/jobStatus/jobId")
    }

    /// `READY`, `DEPLOYING`, …
    pub fn job_manager_status(&self) -> Option<&str> {
        self.text("/status/jobManagerDeploymentStatus")
    }

    /// The spec that was reconciled last, with the operator's metadata.
    pub fn last_reconciled_spec(&self) -> Option<Value> {
        let document: Value = serde_json::from_str(self.last_reconciled()?).ok()?;
        if let Some(template) = document.pointer("/spec/template/spec") {
            return Some(template.clone());
        }
        // The oldest form is the spec itself.
        Some(document.get("spec").cloned().unwrap_or(document))
    }

    /// True if the operator has ever deployed it.
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

    /// A field of the spec of the job, which a blue/green deployment has in its template.
    fn of_spec(&self, path: &str) -> Option<&Value> {
        let template = self.0.pointer("/spec/template/spec");
        template.or_else(|| self.0.get("spec"))?.pointer(path)
    }

    /// True if the last stable spec takes the place of the reconciled one.
    pub fn is_rolling_back(&self) -> bool {
        self.text("/status/reconciliationStatus/state") == Some("ROLLING_BACK")
    }

    /// When the last reconciled spec was written.
    pub fn reconciled_at(&self) -> Option<Timestamp> {
        let milliseconds = self.number("/status/reconciliationStatus/reconciliationTimestamp")?;
        Timestamp::from_millisecond(milliseconds).ok().filter(|at| *at > Timestamp::UNIX_EPOCH)
    }

    /// A job in a session cluster, which is another resource.
    pub fn is_session_job(&self) -> bool {
        self.text("/kind") == Some("FlinkSessionJob")
    }

    /// The session cluster that a session job runs in, whatever its spec names since it was deployed.
    pub fn session_cluster(&self) -> Option<Cow<'_, str>> {
        if self.is_session_job() { session_cluster_in(&self.0) } else { None }
    }

    /// Two colours, which are deployments of their own.
    pub fn is_blue_green(&self) -> bool {
        self.text("/kind") == Some("FlinkBlueGreenDeployment")
    }

    /// The object that has its spec: itself, or the blue/green deployment that it stands for.
    #[must_use]
    pub fn stored(&self) -> Self {
        Self(self.0.get(PARENT).unwrap_or(&self.0).clone())
    }

    /// Where a field of its job's spec is, as `job.parallelism` is at `spec.job.parallelism`.
    pub fn place_of(&self, field: &str) -> String {
        let template = if self.stands_for_blue_green() { "template.spec." } else { "" };
        format!("spec.{template}{field}")
    }

    /// It is a colour with the spec of its blue/green deployment.
    pub fn stands_for_blue_green(&self) -> bool {
        self.0.get(PARENT).is_some()
    }

    /// A deployment without a job is a session cluster.
    pub fn is_session(&self) -> bool {
        !self.is_session_job()
            && !self.is_blue_green()
            && self.0.pointer("/spec/job").is_none_or(Value::is_null)
    }

    /// The blue/green deployment that it is a colour of, which says what its spec is.
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

    /// The name that tells it from every other resource: `orders`, `sessionjob/orders` or `bluegreen/orders`.
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

    /// Under which name its revisions are kept.
    pub fn history_name(&self) -> String {
        match self.blue_green_parent() {
            Some(parent) => revision::blue_green_history_name(parent),
            None if self.is_blue_green() => revision::blue_green_history_name(self.name()),
            None => revision::history_name(self.job_kind(), self.name()),
        }
    }

    /// Where the API server keeps it.
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

    /// True if the operator starts the TaskManagers, not Flink.
    pub fn is_standalone(&self) -> bool {
        self.text("/spec/mode") == Some("standalone")
    }

    /// Desired state of the job; `running` when the spec does not say.
    pub fn desired_state(&self) -> &str {
        self.text_of_spec("/job/state").unwrap_or("running")
    }

    /// `stateless` when the spec does not say.
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

    /// TaskManagers that the spec asks for, where it does.
    pub fn stated_task_managers(&self) -> Option<i64> {
        self.number("/spec/taskManager/replicas").filter(|replicas| *replicas > 0)
    }

    /// TaskManagers that the operator counts on.
    pub fn task_managers(&self) -> Option<i64> {
        self.number("/status/taskManager/replicas")
    }

    pub fn created_at(&self) -> Option<Timestamp> {
        self.text("/metadata/creationTimestamp")?.parse().ok()
    }

    /// Its labels, by name.
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

    /// When the newest savepoint or checkpoint was taken that its status has; it need not have any.
    pub fn snapshot_at(&self) -> Option<Timestamp> {
        let places = [
            "/status/jobStatus/savepointInfo/lastSavepoint/timeStamp",
            "/status/jobStatus/checkpointInfo/lastCheckpoint/timeStamp",
        ];
        let newest = places.into_iter().filter_map(|place| self.number(place)).max()?;
        Timestamp::from_millisecond(newest).ok().filter(|at| *at > Timestamp::UNIX_EPOCH)
    }

    /// The state that the next start would take.
    pub fn upgrade_savepoint_path(&self) -> Option<&str> {
        self.text("/status/jobStatus/upgradeSavepointPath")
    }

    /// The spec's own Flink configuration, flattened; the operator's defaults are not known here.
    pub fn flink_config(&self) -> FlinkConfig {
        let configuration = self.0.pointer("/spec/flinkConfiguration").and_then(Value::as_object);
        configuration
            .map(|map| FlinkConfig::flatten(&FlinkConfiguration(map.clone())))
            .unwrap_or_default()
    }

    /// The configuration of what runs, which was made from the reconciled spec: the present one may
    /// differ from it.
    pub fn reconciled_config(&self) -> FlinkConfig {
        self.last_reconciled_spec()
            .and_then(|spec| spec.get("flinkConfiguration")?.as_object().cloned())
            .map_or_else(
                || self.flink_config(),
                |map| FlinkConfig::flatten(&FlinkConfiguration(map)),
            )
    }

    /// Where the spec wants savepoints to go.
    pub fn savepoint_directory(&self) -> Option<String> {
        self.flink_config().text_of(&options::SAVEPOINT_DIRECTORY).map(str::to_owned)
    }

    /// The last error with its causes, on one line.
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

/// An exception's message, or its class where it has none.
fn message_of(throwable: &Value) -> Option<String> {
    let field =
        |name| throwable.get(name).and_then(Value::as_str).filter(|text: &&str| !text.is_empty());
    let class = || field("type").map(|class| class.rsplit('.').next().unwrap_or(class));
    field("message").or_else(class).map(|text| text.trim().replace('\n', " "))
}

/// Identity of a deployment in the connection's namespace.
pub fn id(connection: &Connection, name: &str) -> ObjectId {
    ObjectId::of::<FlinkDeployment>(&connection.namespace, name)
}

/// Which kinds a name on the command line may mean.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Meant {
    Deployment,
    SessionJob,
    /// The colour of it that serves.
    BlueGreen,
    Either,
}

/// Reads `orders`, `sessionjob/orders`, `flinkdeployment/orders` or `bluegreen/orders`, with kubectl's other spellings.
fn meaning(name: &str) -> (Meant, &str) {
    let Some((kind, rest)) = name.split_once('/') else { return (Meant::Either, name) };
    let kind = kind.strip_suffix(".flink.apache.org").unwrap_or(kind).to_lowercase();
    match kind.as_str() {
        "sessionjob" | "flinksessionjob" | "flinksessionjobs" => (Meant::SessionJob, rest),
        "flinkdep" | "flinkdeployment" | "flinkdeployments" => (Meant::Deployment, rest),
        BLUE_GREEN | "flinkbgdep" | "flinkbluegreendeployment" | "flinkbluegreendeployments" => {
            (Meant::BlueGreen, rest)
        }
        // No object has such a name: it is not found, and said so.
        _ => (Meant::Either, name),
    }
}

/// The name without the kind that may stand before it.
pub fn plain(name: &str) -> &str {
    meaning(name).1
}

/// Reads the deployment or session job; a missing one is a failure that names those that are there. Of a blue/green
/// deployment it is the colour that serves.
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
                // Where the kind is not installed, or not to be read, none of it is meant.
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

/// What stands for a blue/green deployment on the command line.
pub fn blue_green_name(plain: &str) -> String {
    format!("{BLUE_GREEN}/{plain}")
}

/// The blue/green deployment that the name means, where it means one.
pub async fn find_blue_green(
    connection: &Connection,
    name: &str,
) -> anyhow::Result<Option<Deployment>> {
    match meaning(name) {
        (Meant::BlueGreen, plain) => fetch_blue_green(connection, plain).await.map(Some),
        (Meant::Deployment | Meant::SessionJob | Meant::Either, _) => Ok(None),
    }
}

/// As [`fetch`], of a blue/green deployment that one itself.
pub async fn fetch_itself(connection: &Connection, name: &str) -> anyhow::Result<Deployment> {
    match find_blue_green(connection, name).await? {
        Some(resource) => Ok(resource),
        None => fetch(connection, name).await,
    }
}

/// The colours that there are, that which serves first and one that is being deleted last. What only has the name of a
/// colour is none.
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

/// The object, and the colours of a blue/green deployment after it.
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

/// Itself; of a blue/green deployment the colour that serves, or the other one where there is no such.
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

/// The blue/green deployment itself.
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

/// As [`fetch`], of what a person may change. Of a blue/green deployment it is the colour that serves, with the spec that
/// the template gives it; a colour by itself comes and goes as its blue/green deployment needs it.
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

/// The deployment whose JobManager knows the job: itself, or the cluster of a session job.
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

/// The session jobs of the cluster; none where the kind is not installed.
///
/// # Errors
/// When they cannot be read, which does not mean that there are none.
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

/// Says what there is instead: near names, the same name elsewhere, or all there are.
pub async fn not_found(connection: &Connection, name: &str) -> Failure {
    let (client, namespace) = (&connection.client, &connection.namespace);
    let (kind, plain) = match meaning(name) {
        (Meant::SessionJob, name) => ("FlinkSessionJob", name),
        (Meant::Deployment | Meant::BlueGreen | Meant::Either, name) => ("FlinkDeployment", name),
    };
    let failure = Failure::new(format!("no {kind} `{plain}` in namespace `{namespace}`"));
    let scope = Scope::Namespace(namespace);
    // The hint is a courtesy; without the right to list there is none.
    let (deployments, jobs, parents, elsewhere) = tokio::join!(
        read::names::<FlinkDeployment>(client, scope),
        read::names::<FlinkSessionJob>(client, scope),
        read::names::<FlinkBlueGreenDeployment>(client, scope),
        read::namespaces_with::<FlinkDeployment>(client, plain),
    );
    let Ok(mut names) = deployments else { return failure };
    // A parent before its children, whose names begin with its own.
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

/// Names that may be meant by one that there is not: those it begins, else those spelled much alike,
/// the nearest first.
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
