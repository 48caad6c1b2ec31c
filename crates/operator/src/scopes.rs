//! The namespaces that are watched, which may change while the operator runs.
//!
//! A scope, a namespace or the whole cluster, has its own watches and a controller for each kind. When it is closed,
//! its passes finish and its objects stay as they are. A scope is opened only after those that are given up have ended,
//! so that no resource ever has two controllers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, Stream, StreamExt};
use kube::api::Api;
use kube::runtime::reflector::store;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::context::{Context, lock, now};
use super::controller::{self, Settings, api};
use super::observe::show;
use super::pod_watch::follow_pods;
use super::request_slots::Cancellation;
use super::resource::flush;
use super::watching;
use ::api::deployment::FlinkDeployment;
use clients::cluster::workload::Workload;
use config::options;

/// How long passes may take to finish if the configuration is invalid.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time to write statuses that were allowed to wait.
pub(super) const FLUSH_MAX: Duration = Duration::from_secs(5);

/// A namespace, or `None` for the whole cluster.
pub(super) type Scope = Option<String>;

/// The scopes that are watched.
pub(super) struct Scopes {
    settings: Settings,
    /// Whether snapshots are resources here.
    has_snapshots: bool,
    opened: Mutex<BTreeMap<Scope, Open>>,
}

struct Open {
    cancellation: Cancellation,
    tasks: Vec<JoinHandle<()>>,
}

/// The scopes that a change opened and closed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Moved {
    pub opened: Vec<String>,
    pub closed: Vec<String>,
}

impl Scopes {
    pub(super) fn new(settings: Settings, has_snapshots: bool) -> Self {
        Self { settings, has_snapshots, opened: Mutex::default() }
    }

    /// Opens the first scopes.
    pub(super) fn open_first(&mut self, wanted: &BTreeSet<Scope>) {
        let all = wanted.iter().map(|scope| (scope.clone(), self.open(scope))).collect();
        *self.opened.get_mut() = all;
    }

    /// Watches these scopes and no others.
    pub(super) async fn set(&self, wanted: &BTreeSet<Scope>) -> Moved {
        let mut opened = self.opened.lock().await;
        let mut moved = Moved::default();
        let former: Vec<Scope> =
            opened.keys().filter(|it| !wanted.contains(*it)).cloned().collect();
        // All of them at once: none begins another pass while one before it ends.
        former
            .iter()
            .filter_map(|scope| opened.get(scope))
            .for_each(|open| open.cancellation.stop.cancel());
        let end = Instant::now() + termination_timeout(&self.settings.context);
        for scope in former {
            if let Some(open) = opened.get_mut(&scope) {
                self.close(&scope, open, end).await;
            }
            // Only now: a caller that stops the operator meanwhile must wait for its tasks.
            opened.remove(&scope);
            moved.closed.push(shown(&scope));
        }
        for scope in wanted {
            if !opened.contains_key(scope) {
                opened.insert(scope.clone(), self.open(scope));
                moved.opened.push(shown(scope));
            }
        }
        moved
    }

    fn open(&self, scope: &Scope) -> Open {
        let context = &self.settings.context;
        let stop = self.settings.cancellation.stop.child_token();
        let cancellation = Cancellation { stop: stop.clone(), ..Cancellation::default() };
        let settings = Settings { cancellation: cancellation.clone(), ..self.settings.clone() };
        let (reader, writer) = store();
        let clusters: Api<Workload> = api(context, scope.as_deref());
        let config = watching::labelled("component in (jobmanager,taskmanager)");
        let seen = watching::watch(clusters, config, context.etcd_restores.follow());
        let clusters = reflector(writer, seen.modify(Workload::prune)).touched_objects().boxed();
        lock(&context.clusters).push((scope.clone(), reader));
        let mut tasks = vec![
            controller::spawn(context.deployments.open(scope.clone()), settings.clone()),
            controller::spawn(context.session_jobs.open(scope.clone()), settings.clone()),
            controller::spawn(context.blue_greens.open(scope.clone()), settings.clone()),
        ];
        if self.has_snapshots {
            // The job determines whose snapshot it is: the labels of the snapshot itself are ignored.
            let settings = Settings { label_selector: None, ..settings };
            tasks.push(controller::spawn(context.snapshots.open(scope.clone()), settings));
        }
        for (what, work) in [
            ("Deployments", follow_clusters(clusters, Arc::clone(context)).boxed()),
            ("pods", follow_pods(scope.clone(), Arc::clone(context)).boxed()),
        ] {
            let watched =
                context.health.worker(format!("{what} in {}", shown(scope)), stop.clone());
            let work = stop.clone().run_until_cancelled_owned(work);
            tasks.push(tokio::spawn(work.map(move |_| drop(watched))));
        }
        Open { cancellation, tasks }
    }

    /// Ends what was stopped: its passes have until `end`.
    async fn close(&self, scope: &Scope, open: &mut Open, end: Instant) {
        let context = &self.settings.context;
        let Open { cancellation, tasks } = open;
        let mut is_orderly = finish(tasks, end).await;
        cancellation.away.close();
        if tokio::time::timeout_at(end, cancellation.away.wait()).await.is_err() {
            is_orderly = false;
            cancellation.drop.cancel();
            cancellation.away.wait().await;
        }
        if !is_orderly {
            let scope = shown(scope);
            tracing::warn!(scope, "passes took too long and were dropped: nothing continues them");
        }
        let flushed = tokio::time::timeout(FLUSH_MAX, flush::<FlinkDeployment>(context)).await;
        if flushed.is_err() {
            tracing::warn!(scope = shown(scope), "statuses were not written in time");
        }
        let namespace = scope.as_deref();
        let mut uids = context.deployments.close(namespace);
        uids.extend(context.session_jobs.close(namespace));
        uids.extend(context.blue_greens.close(namespace));
        for uid in &uids {
            context.forget(uid);
        }
        drop(context.snapshots.close(namespace));
        lock(&context.clusters).retain(|(of, _)| of != scope);
        context.health.forget_scope(namespace);
        context.metrics.scope_closes(namespace, now());
    }

    /// Lets every task finish, or drops it at `end` and returns `false`.
    pub(super) async fn finish(&mut self, end: Instant) -> bool {
        let mut is_orderly = true;
        for open in self.opened.get_mut().values() {
            open.cancellation.stop.cancel();
        }
        for open in self.opened.get_mut().values_mut() {
            is_orderly &= finish(&mut open.tasks, end).await;
        }
        is_orderly
    }

    /// Drops all running work immediately.
    pub(super) fn abandon(&mut self) {
        for open in self.opened.get_mut().values() {
            open.cancellation.stop.cancel();
            open.tasks.iter().for_each(JoinHandle::abort);
        }
    }
}

/// Waits for each task until `end`, drops those that take longer, and returns `false` then.
pub(super) async fn finish(tasks: &mut Vec<JoinHandle<()>>, end: Instant) -> bool {
    let mut is_orderly = true;
    // One by one, so that no task is awaited twice.
    while let Some(task) = tasks.last_mut() {
        match tokio::time::timeout_at(end, &mut *task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(error = show(&error), "a controller ended badly"),
            Err(_) => {
                is_orderly = false;
                task.abort();
            }
        }
        tasks.pop();
    }
    is_orderly
}

/// Returns `kubernetes.operator.termination.timeout`.
pub(super) fn termination_timeout(context: &Context) -> Duration {
    let within = context.operator().base.get(&options::TERMINATION_TIMEOUT);
    within.unwrap_or(TERMINATION_TIMEOUT)
}

/// Returns the scope in words.
pub(super) fn shown(scope: &Scope) -> String {
    scope.clone().unwrap_or_else(|| "all namespaces".to_owned())
}

/// Wakes the resource that a Deployment of a JobManager or of TaskManagers belongs to.
async fn follow_clusters(
    mut events: impl Stream<Item = watcher::Result<Workload>> + Unpin,
    context: Arc<Context>,
) {
    while let Some(event) = events.next().await {
        // The watch restarts by itself after an error.
        let Ok(deployment) = event else { continue };
        let owners = deployment.metadata.owner_references.unwrap_or_default();
        if let Some(owner) = owners.iter().find(|owner| owner.kind == "FlinkDeployment") {
            let namespace = deployment.metadata.namespace.unwrap_or_default();
            context.deployments.wake(&namespace, &owner.name);
        }
    }
}
