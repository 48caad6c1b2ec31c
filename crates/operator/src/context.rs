//! The state that the tasks of one operator share: clients, configuration, caches, and recent writes.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::runtime::reflector::{ObjectRef, Store};

use super::api_server_health::ApiServerHealth;
use super::autoscaler::Autoscalers;
use super::etcd_restore::EtcdRestores;
use super::files::Files;
use super::health::Health;
use super::kind::Cache;
use super::listener::{Listener, Listeners};
use super::live::Live;
use super::nodes::Nodes;
use super::request_slots::RequestSlots;
use super::scaling_rules::ScalingRules;
use super::snapshot::index::ByJob;
use super::transient_failures::TransientFailures;
use super::upgrades::Upgrades;
use super::validator::{Validator, Verdicts};
use super::watch_freshness::{Sighting, Trust};
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::FlinkStateSnapshot;
use api::status::JobStatus;
use clients::artifact::Jars;
use clients::cluster::workload::Workload;
use clients::fence::{self, Fence};
use clients::flink::access::Connector;
use config::OperatorConfig;
use lifecycle::plan::TakeSnapshot;
use lifecycle::session_job::world::{FailedSubmission, Tried};
use lifecycle::trigger::known::SnapshotKind;
use lifecycle::trigger::memory::Memory;
use lifecycle::wait::{Awaited, Waiting};
use lifecycle::world::{Fact, Job, JobException, ReportedExceptions};
use metrics::{Metrics, Now, Wait};

/// Maximum time that a status that only reports the creation of a JobManager waits for the next one. Most JobManagers
/// whose image is not pulled from afar are running by then, which saves a write.
pub(super) const STATUS_DELAY: Duration = Duration::from_secs(2);

/// Progress of a resource, for people who watch the operator work.
#[derive(Clone, Debug)]
pub struct Progress {
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    /// One word for its state.
    pub state: Option<&'static str>,
    /// Whether the resource is gone after this decision.
    pub is_gone: bool,
    pub because: String,
}

/// State shared by all passes.
pub struct Context {
    pub client: Client,
    /// The operator's configuration.
    pub live: Arc<Live>,
    pub connector: Connector,
    /// Closed when this process must no longer write.
    pub(super) fence: Fence,
    /// Answers probes.
    pub(super) health: Health,
    pub(super) metrics: Metrics,
    /// Whether `FlinkStateSnapshot` was installed at the start.
    pub(super) had_snapshot_resources: bool,
    /// Whether a label selector is set: resources that it does not select belong to another operator.
    pub(super) is_selective: bool,
    /// Receive every event and status change.
    pub(super) listeners: Listeners,
    /// The validators of changes, and their verdicts.
    pub(super) validators: Verdicts,
    /// Rules that jobs name for their autoscaler.
    pub(super) scaling_rules: ScalingRules,
    /// Deployments of JobManagers, and of the TaskManagers of standalone clusters.
    pub(super) clusters: Mutex<Vec<(Option<String>, Store<Workload>)>>,
    pub(super) deployments: Cache<FlinkDeployment>,
    pub(super) upgrades: Upgrades,
    pub(super) snapshots: Cache<FlinkStateSnapshot>,
    pub(super) snapshots_by_job: ByJob,
    pub(super) session_jobs: Cache<FlinkSessionJob>,
    pub(super) blue_greens: Cache<FlinkBlueGreenDeployment>,
    pub(super) autoscalers: Autoscalers,
    pub(super) nodes: Nodes,
    /// Slots for passes that wait for Flink, so that they hold up no others.
    pub(super) request_slots: RequestSlots,
    reported_exceptions: Mutex<HashMap<String, ReportedExceptions>>,
    /// What the last plan of each resource waits for, by its uid.
    waits: Mutex<HashMap<String, Waiting>>,
    /// The newest state that this process knows of JobManagers besides their watch, by the resource's uid.
    sightings: Mutex<HashMap<String, Sighting>>,
    /// The health of the API server.
    pub(super) api_server_health: ApiServerHealth,
    /// Reports that the API server's store went back.
    pub(super) etcd_restores: Arc<EtcdRestores>,
    failed_submissions: Mutex<HashMap<String, FailedSubmission>>,
    tried: Mutex<HashMap<String, Tried>>,
    /// The error at which the last plan stopped, with the generation that it was for, by the resource's uid.
    stopped_at: Mutex<HashMap<String, (Option<i64>, String)>>,
    /// Errors of plans that are usually transient.
    pub(super) transient_failures: TransientFailures,
    /// Resources whose conditions this process has written, by uid, of a kind whose CRD may drop them.
    with_conditions: Mutex<HashSet<String>>,
    /// When periodic snapshots were requested, by the uid of the job.
    periodic: Mutex<HashMap<String, Memory>>,
    /// Time zone of cron expressions.
    pub(super) zone: TimeZone,
    /// Files that become part of a cluster's objects.
    pub(super) files: Files,
    /// Jars of session jobs.
    pub(super) jars: Jars,
    progress: tokio::sync::broadcast::Sender<Progress>,
}

impl Context {
    /// Creates a context without caches; [`super::run::start`] adds them.
    pub fn new(
        client: Client,
        operator: OperatorConfig,
        connector: Connector,
        had_snapshot_resources: bool,
    ) -> Self {
        Self {
            connector: connector.checking_services(client.clone()),
            client,
            live: Arc::new(Live::new(operator)),
            fence: Fence::default(),
            health: Health::default(),
            metrics: Metrics::default(),
            had_snapshot_resources,
            is_selective: false,
            listeners: Listeners::default(),
            validators: Verdicts::default(),
            scaling_rules: ScalingRules::default(),
            clusters: Mutex::default(),
            deployments: Cache::default(),
            upgrades: Upgrades::default(),
            snapshots: Cache::default(),
            snapshots_by_job: ByJob::default(),
            session_jobs: Cache::default(),
            blue_greens: Cache::default(),
            autoscalers: Autoscalers::default(),
            nodes: Nodes::default(),
            request_slots: RequestSlots::default(),
            reported_exceptions: Mutex::default(),
            waits: Mutex::default(),
            sightings: Mutex::default(),
            api_server_health: ApiServerHealth::default(),
            etcd_restores: Arc::default(),
            failed_submissions: Mutex::default(),
            tried: Mutex::default(),
            stopped_at: Mutex::default(),
            transient_failures: TransientFailures::default(),
            with_conditions: Mutex::default(),
            periodic: Mutex::default(),
            zone: TimeZone::system(),
            files: Files::default(),
            jars: Jars::default(),
            progress: tokio::sync::broadcast::Sender::new(1024),
        }
    }

    /// Sets the listeners. A task of its own reports everything that happens to each.
    #[must_use]
    pub fn with_listeners(mut self, listeners: Vec<Arc<dyn Listener>>) -> Self {
        self.listeners = Listeners::start(listeners);
        self
    }

    /// Sets a configuration that others follow too.
    #[must_use]
    pub fn following(mut self, live: Arc<Live>) -> Self {
        self.live = live;
        self
    }

    /// Sets the fence. The client and the connector must be behind the same one.
    #[must_use]
    pub fn behind(mut self, fence: Fence) -> Self {
        self.fence = fence;
        self
    }

    /// Sets the health that probes report.
    #[must_use]
    pub fn with_health(mut self, health: Health) -> Self {
        self.health = health;
        self
    }

    /// Sets the metrics, which count from then on; the client and the connector count their own.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Sets the files of the environment that the operator runs in.
    #[must_use]
    pub fn with_files(mut self, files: Files) -> Self {
        self.files = files;
        self
    }

    /// Sets the validators. Each is asked about every change.
    #[must_use]
    pub fn with_validators(mut self, validators: Vec<Arc<dyn Validator>>) -> Self {
        self.validators = Verdicts::new(validators);
        self
    }

    /// Sets the rules that jobs may name for their autoscaler.
    #[must_use]
    pub fn with_scaling_rules(mut self, rules: ScalingRules) -> Self {
        self.scaling_rules = rules;
        self
    }

    /// Returns the current configuration. A pass calls this once, so that it uses the same configuration throughout.
    pub(super) fn operator(&self) -> Arc<OperatorConfig> {
        self.live.get()
    }

    /// Returns `true` if snapshots are resources here: the kind is installed, and not disabled for all.
    pub(super) fn has_snapshot_resources(&self) -> bool {
        self.snapshots.is_served()
    }

    /// Subscribes to every decision from now on; a slow reader misses the oldest.
    pub fn follow(&self) -> tokio::sync::broadcast::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn emit(&self, progress: Progress) {
        // There may be no subscribers.
        let _listeners = self.progress.send(progress);
    }

    /// Returns a Deployment of a Flink cluster as the watch last saw it.
    pub(super) fn cached_deployment(&self, namespace: &str, name: &str) -> Option<Arc<Workload>> {
        let key = ObjectRef::new(name).within(namespace);
        lock(&self.clusters).iter().find_map(|(_, store)| store.get(&key))
    }

    /// Returns how far the exceptions of the resource's job have been reported.
    pub(super) fn reported_exceptions(&self, uid: &str) -> Option<ReportedExceptions> {
        lock(&self.reported_exceptions).get(uid).cloned()
    }

    /// Returns what the resource's last plan waits for.
    pub(super) fn wait_of(&self, uid: &str) -> Option<Waiting> {
        lock(&self.waits).get(uid).copied()
    }

    /// Counts a resource that is paused, or whose wait is longer than normal.
    pub(super) fn note_lateness(&self, uid: &str, waits: Option<Waiting>) {
        let wait = match waits {
            Some(waits) if waits.on == Awaited::Unpaused => Wait::Paused,
            Some(waits) if waits.is_late(Timestamp::now()) => Wait::Late,
            Some(_) | None => Wait::Normal,
        };
        self.metrics.note_wait(uid, wait);
    }

    pub(super) fn note_wait(&self, uid: &str, waits: Option<Waiting>) {
        self.note_lateness(uid, waits);
        let mut all = lock(&self.waits);
        match waits {
            Some(waits) => drop(all.insert(uid.to_owned(), waits)),
            None => drop(all.remove(uid)),
        }
    }

    /// Notes the exceptions that a pass has reported, so that this process does not report them
    /// again.
    pub(super) fn note_reported_exceptions(
        &self,
        uid: &str,
        job: &JobStatus,
        (exceptions, jobs): (&Fact<Vec<JobException>>, &Fact<Vec<Job>>),
        now: Timestamp,
    ) {
        let (Fact::Known(exceptions), Some(job_id)) = (exceptions, &job.job_id) else { return };
        let modified = match jobs {
            Fact::Known(jobs) => jobs.iter().find(|job| job.id == *job_id),
            Fact::NotAsked | Fact::Unknown(_) => None,
        };
        let modified = modified.and_then(|job| job.modified);
        let mut all = lock(&self.reported_exceptions);
        let told = ReportedExceptions::after(all.get(uid), job_id, exceptions, modified, now);
        all.insert(uid.to_owned(), told);
    }

    /// Returns the attempts of this process with the resource's job.
    pub(super) fn tried(&self, uid: &str) -> Tried {
        lock(&self.tried).get(uid).copied().unwrap_or_default()
    }

    pub(super) fn note_tried(&self, uid: &str, tried: Tried) {
        lock(&self.tried).insert(uid.to_owned(), tried);
    }

    pub(super) fn forget_tried(&self, uid: &str) {
        lock(&self.tried).remove(uid);
    }

    pub(super) fn periodic(&self, uid: &str) -> Memory {
        lock(&self.periodic).get(uid).cloned().unwrap_or_default()
    }

    pub(super) fn note_periodic(&self, uid: &str, kind: SnapshotKind, at: Timestamp) {
        lock(&self.periodic).entry(uid.to_owned()).or_default().note(kind, at);
    }

    /// Notes that a snapshot that is tracked in the status is about to be requested.
    pub(super) fn note_taken(&self, uid: &str, snapshot: &TakeSnapshot) {
        lock(&self.periodic).entry(uid.to_owned()).or_default().note_taken(snapshot);
    }

    /// Notes that a snapshot was requested in response to the notices of these nodes.
    pub(super) fn note_notices(&self, uid: &str, nodes: &[String], at: Timestamp) {
        if !nodes.is_empty() {
            lock(&self.periodic).entry(uid.to_owned()).or_default().notices.note(nodes, at);
        }
    }

    /// Notes that someone else holds savepoints of the status's history.
    pub(super) fn note_held(&self, uid: &str, at: Timestamp) {
        lock(&self.periodic).entry(uid.to_owned()).or_default().held = Some(at);
    }

    pub(super) fn forget_periodic(&self, uid: &str) {
        lock(&self.periodic).remove(uid);
    }

    pub(super) fn has_written_conditions(&self, uid: &str) -> bool {
        lock(&self.with_conditions).contains(uid)
    }

    pub(super) fn note_written_conditions(&self, uid: &str) {
        lock(&self.with_conditions).insert(uid.to_owned());
    }

    /// Forgets a job that is gone, or that someone else operates from now on.
    pub(super) fn forget(&self, uid: &str) {
        self.forget_tried(uid);
        self.forget_periodic(uid);
        self.forget_exceptions(uid);
        self.note_wait(uid, None);
        self.forget_sighting(uid);
        self.forget_failed_submission(uid);
        self.forget_stop(uid);
        lock(&self.with_conditions).remove(uid);
        self.transient_failures.forget(uid);
        self.autoscalers.forget(uid);
        self.autoscalers.settle(uid);
        self.upgrades.forget(uid, self);
    }

    /// For callers that do not watch: it is unknown which snapshots exist.
    #[must_use]
    pub fn blind_to_snapshots(self) -> Self {
        self.snapshots.set_served();
        drop(self.snapshots.open(None));
        self
    }

    fn forget_exceptions(&self, uid: &str) {
        lock(&self.reported_exceptions).remove(uid);
    }

    /// Notes a JobManager's Deployment that was just created or read.
    pub(super) fn note_sighting(&self, uid: &str, deployment: &ObjectMeta) {
        let sighting = Sighting {
            deployment: deployment.uid.clone().unwrap_or_default(),
            resource_version: resource_version(deployment),
            at: Instant::now(),
        };
        lock(&self.sightings).insert(uid.to_owned(), sighting);
    }

    /// Returns how far the watch can be trusted that shows this JobManager's Deployment.
    pub(super) fn trust(&self, uid: &str, cached: &Workload) -> Trust {
        lock(&self.sightings)
            .get(uid)
            .map_or(Trust::Unknown, |sighting| sighting.trust(&cached.metadata))
    }

    fn forget_sighting(&self, uid: &str) {
        lock(&self.sightings).remove(uid);
    }

    /// Forgets what was seen because the API server's store went back: versions that were seen mean nothing any more,
    /// and another spec may appear under a generation that was already validated.
    pub(super) fn forget_what_was_seen(&self) {
        lock(&self.sightings).clear();
        self.deployments.forget_all();
        self.session_jobs.forget_all();
        self.snapshots.forget_all();
        self.validators.forget_all();
        self.autoscalers.forget_all();
        self.metrics.forget_versions();
    }

    /// Returns the last failed submission of the resource's job, if none has succeeded since.
    pub(super) fn failed_submission(&self, uid: &str) -> Option<FailedSubmission> {
        lock(&self.failed_submissions).get(uid).cloned()
    }

    pub(super) fn note_failed_submission(&self, uid: &str, failed: FailedSubmission) {
        lock(&self.failed_submissions).insert(uid.to_owned(), failed);
    }

    pub(super) fn forget_failed_submission(&self, uid: &str) {
        lock(&self.failed_submissions).remove(uid);
    }

    /// Returns the error at which the last plan stopped, if it was for this generation of the resource.
    pub(super) fn stopped_at(&self, resource: &ObjectMeta) -> Option<String> {
        let all = lock(&self.stopped_at);
        let (generation, error) = all.get(resource.uid.as_deref()?)?;
        (*generation == resource.generation).then(|| error.clone())
    }

    pub(super) fn note_stop(&self, uid: &str, generation: Option<i64>, error: String) {
        lock(&self.stopped_at).insert(uid.to_owned(), (generation, error));
    }

    /// Notes that a plan was carried out. Returns `true` if the previous one was not.
    pub(super) fn forget_stop(&self, uid: &str) -> bool {
        lock(&self.stopped_at).remove(uid).is_some()
    }
}

/// Returns the current time, for metrics.
pub(super) fn now() -> Now {
    Now { clock: fence::now(), time: Timestamp::now() }
}

pub(super) fn lock<T>(map: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the resource version as a number: etcd's revision, so that later writes compare greater.
pub(super) fn resource_version(metadata: &ObjectMeta) -> u64 {
    metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}
