//! The tasks of the operator: watches, one controller per kind and namespace scope, and an orderly
//! end.

use std::sync::Arc;

use futures::stream::select_all;
use futures::{FutureExt, Stream, StreamExt};
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::store;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::controller::{self, Settings, api};
use super::kind::Kept;
use super::observe::tell;
use super::pod_watch::follow_pods;
use super::resource::flush;
use super::retention;
use super::rewind;
use super::validator::{Judged, Kind};
use super::vitals;
use super::watching;
use crate::api::deployment::FlinkDeployment;
use crate::api::session_job::FlinkSessionJob;
use crate::cluster::workload::Workload;
use crate::config::options;

/// How soon a watch that has shown what is there is noticed.
const READY_LOOK: std::time::Duration = std::time::Duration::from_millis(50);

/// How long passes may take to their end, where the configuration says nonsense.
const TERMINATION_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
/// How long statuses that were allowed to wait may take to be written.
const FLUSH_MAX: std::time::Duration = std::time::Duration::from_secs(5);

/// Which resources to operate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Watch {
    AllNamespaces,
    Namespaces(Vec<String>),
}

impl Watch {
    /// As people say it, with the labels that are asked for.
    pub fn in_words(&self, label_selector: Option<&str>) -> String {
        let mut words = match self {
            Self::AllNamespaces => "all namespaces".to_owned(),
            Self::Namespaces(names) => format!("namespace {}", names.join(", ")),
        };
        if let Some(selector) = label_selector {
            words.push_str(" with labels ");
            words.push_str(selector);
        }
        words
    }

    /// One API per scope, `None` for the whole cluster.
    pub fn scopes(&self) -> Vec<Option<String>> {
        match self {
            Self::AllNamespaces => vec![None],
            Self::Namespaces(namespaces) => namespaces.iter().cloned().map(Some).collect(),
        }
    }
}

/// A running operator.
pub struct Operator {
    pub context: Arc<Context>,
    scopes: Vec<Option<String>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    stop: CancellationToken,
}

/// Starts the watches and controllers; they run until [`Operator::stop`].
pub fn start(mut context: Context, watch: &Watch, label_selector: Option<&str>) -> Operator {
    let stop = CancellationToken::new();
    let scopes = watch.scopes();
    let mut clusters = Vec::new();
    for scope in &scopes {
        let api: Api<Workload> = api(&context, scope.as_deref());
        let (reader, writer) = store();
        let config = watching::labelled("component in (jobmanager,taskmanager)");
        let seen = watching::watch(api, config, context.rewinds.follow()).modify(Workload::prune);
        let stream = reflector(writer, seen).touched_objects().boxed();
        context.clusters.push(reader);
        clusters.push(stream);
    }
    let (deployments, deployment_feeds) = Kept::new(&scopes);
    // The start of the program made sure of it.
    deployments.set_served();
    context.deployments = deployments;
    context.is_selective = label_selector.is_some();
    let wants_snapshots = context.operator.base.get(&options::SNAPSHOT_RESOURCE_ENABLED);
    let snapshot_scopes: &[Option<String>] =
        if wants_snapshots.unwrap_or(true) { &scopes } else { &[] };
    let (snapshots, snapshot_feeds) = Kept::new(snapshot_scopes);
    if context.had_snapshot_resources && !snapshot_scopes.is_empty() {
        snapshots.set_served();
    }
    context.snapshots = snapshots;
    let (session_jobs, session_job_feeds) = Kept::new(&scopes);
    context.session_jobs = session_jobs;
    let context = Arc::new(context);
    let settings = Settings {
        context: Arc::clone(&context),
        label_selector: label_selector.map(str::to_owned),
        stop: stop.clone(),
    };
    let mut tasks = Vec::new();
    for feed in deployment_feeds {
        tasks.push(controller::spawn(feed, settings.clone()));
    }
    for feed in session_job_feeds {
        tasks.push(controller::spawn(feed, settings.clone()));
    }
    // Whose snapshot it is, its job says: the labels of the snapshot itself do not count.
    let settings = Settings { label_selector: None, ..settings };
    for feed in snapshot_feeds {
        tasks.push(controller::spawn(feed, settings.clone()));
    }
    for scope in &scopes {
        let pods = follow_pods(scope.clone(), Arc::clone(&context));
        tasks.push(tokio::spawn(stop.clone().run_until_cancelled_owned(pods).map(drop)));
    }
    if let Some(late) = context.validators.late() {
        let verdicts = follow_verdicts(late, Arc::clone(&context));
        tasks.push(tokio::spawn(stop.clone().run_until_cancelled_owned(verdicts).map(drop)));
    }
    let clusters = follow_clusters(select_all(clusters), Arc::clone(&context));
    tasks.push(tokio::spawn(stop.clone().run_until_cancelled_owned(clusters).map(drop)));
    let rewinds = rewind::follow_store(scopes.first().cloned().flatten(), Arc::clone(&context));
    tasks.push(tokio::spawn(stop.clone().run_until_cancelled_owned(rewinds).map(drop)));
    tasks.push(tokio::spawn(stop.clone().run_until_cancelled_owned(vitals::log()).map(drop)));
    let tidy = retention::keep_tidy(Arc::clone(&context), scopes.clone());
    tasks.push(tokio::spawn(stop.clone().run_until_cancelled_owned(tidy).map(drop)));
    Operator { context, scopes, tasks, stop }
}

impl Operator {
    /// Every deployment in scope as the watch last saw it; an error for each that cannot be read.
    pub fn resources(&self) -> Vec<Arc<DeserializeGuard<FlinkDeployment>>> {
        self.context.deployments.all()
    }

    /// Every session job in scope as the watch last saw it; none where the kind is not installed.
    pub fn session_jobs(&self) -> Vec<Arc<DeserializeGuard<FlinkSessionJob>>> {
        self.context.session_jobs.all()
    }

    /// Waits until the watches have shown what is there.
    pub async fn ready(&self) {
        for store in self.context.deployments.stores() {
            // A store wakes only the last one that waits, which may be its controller: look again.
            // An error means that the task ended, which `stop` reports.
            while tokio::time::timeout(READY_LOOK, store.wait_until_ready()).await.is_err() {}
        }
        for (scope, store) in self.scopes.iter().zip(self.context.session_jobs.stores()) {
            let probe = controller::probe::<FlinkSessionJob>(scope.as_deref(), &self.context);
            // A kind that is not there has nothing to show.
            if probe.await.is_ok() {
                while tokio::time::timeout(READY_LOOK, store.wait_until_ready()).await.is_err() {}
            }
        }
    }

    /// Lets the passes that run come to their end, writes what is known and stops.
    pub async fn stop(mut self) {
        let _is_orderly = self.rest().await;
        self.tell_the_rest().await;
    }

    /// Lets the passes that run come to their end, and writes what is known. What takes longer than
    /// `kubernetes.operator.termination.timeout` is dropped, as by a crash: then answers `false`,
    /// and a write of it may still be on its way.
    pub async fn rest(&mut self) -> bool {
        self.stop.cancel();
        let within = self.context.operator.base.get(&options::TERMINATION_TIMEOUT);
        let end = tokio::time::Instant::now() + within.unwrap_or(TERMINATION_TIMEOUT);
        let mut is_orderly = true;
        for mut task in std::mem::take(&mut self.tasks) {
            match tokio::time::timeout_at(end, &mut task).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::error!(error = tell(&error), "a controller ended badly");
                }
                Err(_) => {
                    is_orderly = false;
                    task.abort();
                }
            }
        }
        if tokio::time::timeout_at(end, self.context.ways.finish()).await.is_err() {
            is_orderly = false;
            self.context.ways.abandon();
        }
        let flushed = tokio::time::timeout(FLUSH_MAX, flush::<FlinkDeployment>(&self.context));
        let is_flushed = flushed.await.is_ok();
        if !is_orderly {
            tracing::warn!("passes took too long and were dropped: the next operator goes on");
        }
        is_orderly && is_flushed
    }

    /// Gives listeners what they were not told yet, for a while.
    pub async fn tell_the_rest(self) {
        self.context.listeners.finish().await;
    }

    /// Drops whatever runs, where it is.
    pub fn abandon(&mut self) {
        self.stop.cancel();
        for task in &self.tasks {
            task.abort();
        }
        self.context.ways.abandon();
    }
}

/// Wakes the resource that a Deployment of a JobManager or of TaskManagers belongs to.
async fn follow_clusters(
    mut events: impl Stream<Item = watcher::Result<Workload>> + Unpin,
    context: Arc<Context>,
) {
    while let Some(event) = events.next().await {
        // The watch starts again by itself after an error.
        let Ok(deployment) = event else { continue };
        let owners = deployment.metadata.owner_references.unwrap_or_default();
        if let Some(owner) = owners.iter().find(|owner| owner.kind == "FlinkDeployment") {
            let namespace = deployment.metadata.namespace.unwrap_or_default();
            context.deployments.wake(&namespace, &owner.name);
        }
    }
}

/// Wakes resources that validators have answered about.
async fn follow_verdicts(mut late: Receiver<Judged>, context: Arc<Context>) {
    while let Some(Judged { kind, namespace, name }) = late.recv().await {
        match kind {
            Kind::FlinkDeployment => context.deployments.wake(&namespace, &name),
            Kind::FlinkSessionJob => context.session_jobs.wake(&namespace, &name),
            Kind::FlinkStateSnapshot => context.snapshots.wake(&namespace, &name),
        }
    }
}
