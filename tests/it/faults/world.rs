//! The world of the clusters: JobManagers whose pods start and end, with the fake Flink in them and HA metadata in real
//! ConfigMaps. It checks that the operator keeps the laws of state.
//!
//! The control plane's garbage collector is real: a JobManager's pod is deleted with its Deployment, and keeps the
//! Deployment until it has ended.

mod flink;
mod kubelet;
mod metadata;
mod session;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::runtime::utils::Backoff;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::{OwnedMutexGuard, RwLock};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::support::fake_flink::{FakeFlink, Job};

pub(super) use kubelet::BROKEN_IMAGE;

/// Pause before an unavailable API server is asked again.
const AGAIN: Duration = Duration::from_millis(200);

/// `namespace/name` of a cluster.
type Key = String;

/// A JobManager's process.
#[derive(Clone, Debug)]
struct Process {
    /// Uid of its Deployment.
    uid: String,
    config: Arc<flink::Config>,
    /// Whether it has led since it started.
    has_led: bool,
}

/// Content of a job's ConfigMap.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct InMap {
    /// Number of the newest checkpoint.
    checkpoint: Option<i64>,
    /// Number of the next one.
    counter: Option<i64>,
}

impl InMap {
    /// Whatever an earlier process has left there.
    const UNSEEN: Self = Self { checkpoint: None, counter: Some(-1) };
}

/// What Flink keeps of a job outside its JobManager.
#[derive(Clone, Debug, Default)]
struct Retained {
    /// Path and number of the newest checkpoint that HA metadata refers to.
    checkpoint: Option<(String, i64)>,
    /// Where its stored graph starts if HA metadata has no checkpoint.
    path: Option<String>,
    /// The job's result, and where it is stored: a cluster that reads it does not run the job again.
    result: Option<(String, Job)>,
    /// Whether it ended under a JobManager that had lost the lock. That one cannot remove its graph or store a result.
    has_ended_unled: bool,
    /// Content of the job's ConfigMap; `None` if there is none.
    in_map: Option<InMap>,
}

impl Retained {
    /// Returns the job's result if a cluster finds it.
    fn result_for(&self, config: &flink::Config) -> Option<&Job> {
        let (store, job) = self.result.as_ref()?;
        (*store == config.result_store()).then_some(job)
    }
}

#[derive(Default)]
struct State {
    processes: BTreeMap<Key, Vec<Process>>,
    /// Uids of Deployments and pods already handled.
    started: BTreeSet<String>,
    stopped: BTreeSet<String>,
    ended: BTreeSet<String>,
    /// Pods that try a spec or stand by.
    tried: BTreeSet<String>,
    /// Deployments by the uids of the standby pods they adopted.
    adopted: BTreeMap<String, String>,
    /// Deployments whose JobManager has ended: no more pods start for them.
    finished: BTreeSet<String>,
    kept: BTreeMap<(Key, String), Retained>,
    /// Clusters with JobManagers that stand by.
    contended: BTreeSet<Key>,
    /// Held while a JobManager of a cluster looks at the lock or at its jobs and acts on that, and while it ends.
    contending: BTreeMap<Key, Arc<tokio::sync::Mutex<()>>>,
    /// Clusters in which a JobManager led before the pods of another one had ended.
    overlapped: BTreeSet<Key>,
    /// When the last process of a cluster has ended.
    left_since: BTreeMap<Key, Instant>,
    /// How long pods take to start and to end, by namespace.
    slow_starts: BTreeMap<String, Duration>,
    slow_ends: BTreeMap<String, Duration>,
    /// What users of session jobs requested, by uid.
    wanted: BTreeMap<String, session::Wanted>,
    broken: Vec<(Key, String)>,
    /// Namespaces in which nothing runs any more.
    left: BTreeSet<String>,
}

/// All clusters of a test.
pub(super) struct World {
    client: Client,
    flink: FakeFlink,
    state: Mutex<State>,
    /// Held while HA metadata is written, and exclusively while a JobManager ends: a process that has ended writes
    /// nothing.
    writing: RwLock<()>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for World {
    fn drop(&mut self) {
        for task in self.tasks.lock().unwrap().drain(..) {
            task.abort();
        }
    }
}

impl World {
    pub(super) async fn start(client: Client) -> Arc<Self> {
        let flink = FakeFlink::start().await;
        flink.use_real_time();
        let world = Arc::new(Self {
            client,
            flink,
            state: Mutex::default(),
            writing: RwLock::default(),
            tasks: Mutex::default(),
        });
        world.follow();
        world
    }

    fn follow(self: &Arc<Self>) {
        // The tasks end with the world, so they must not keep it alive.
        let tasks = [
            tokio::spawn(follow_deployments(Arc::downgrade(self), self.client.clone())),
            tokio::spawn(follow_pods(Arc::downgrade(self), self.client.clone())),
            tokio::spawn(session::follow(Arc::downgrade(self), self.client.clone())),
            tokio::spawn(metadata::keep(Arc::downgrade(self))),
        ];
        for former in std::mem::replace(&mut *self.tasks.lock().unwrap(), tasks.into()) {
            former.abort();
        }
    }

    /// Reconciles with a store that was replaced: like a kubelet, ends what it does not list and starts what it lists.
    pub(super) async fn see_anew(self: &Arc<Self>) {
        let deployments: Api<Deployment> = Api::all(self.client.clone());
        let list = loop {
            match deployments.list(&ListParams::default()).await {
                Ok(list) => break list,
                Err(_) => sleep(AGAIN).await,
            }
        };
        let stored: BTreeSet<String> = list.items.iter().filter_map(ResourceExt::uid).collect();
        let ended: Vec<(Key, Process)> = {
            let mut state = self.state();
            let State { processes, started, stopped, ended, finished, .. } = &mut *state;
            let mut unknown = Vec::new();
            for (key, processes) in processes.iter_mut() {
                for process in processes.extract_if(.., |process| !stored.contains(&process.uid)) {
                    unknown.push((key.clone(), process));
                }
            }
            let runs = |uid: &String| processes.values().flatten().any(|one| one.uid == *uid);
            started.retain(runs);
            stopped.clear();
            ended.clear();
            finished.clear();
            unknown
        };
        let _writing = self.writing.write().await;
        for (key, process) in ended {
            flink::end(self, &key, &process);
        }
        // The content of ConfigMaps is no longer known.
        self.state().kept.values_mut().for_each(|kept| kept.in_map = None);
        self.follow();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// `127.0.0.1:port` of all JobManagers.
    pub(super) fn flink_address(&self) -> &str {
        self.flink.address()
    }

    /// The fake Flink in the clusters.
    pub(super) fn flink(&self) -> &FakeFlink {
        &self.flink
    }

    fn broke(&self, key: &str, law: String) {
        self.state().broken.push((key.to_owned(), law));
    }

    /// Returns the laws that were broken in a namespace.
    pub(super) fn broken(&self, namespace: &str) -> Vec<String> {
        let prefix = format!("{namespace}/");
        let by_sessions = session::broken(self, namespace);
        let state = self.state();
        let broken = state.broken.iter().filter(|(key, _)| key.starts_with(&prefix));
        broken.map(|(key, law)| format!("{key}: {law}")).chain(by_sessions).collect()
    }

    /// Whether a JobManager of the cluster led before the pods of another one had ended.
    pub(super) fn has_overlapped(&self, namespace: &str, name: &str) -> bool {
        self.state().overlapped.contains(&format!("{namespace}/{name}"))
    }

    /// Runs nothing more in a namespace whose test has ended. What runs for nobody would slow down all the others.
    pub(super) fn leave(&self, namespace: &str) {
        let is_there = |key: &Key| key.split_once('/').is_some_and(|(of, _)| of == namespace);
        let mut state = self.state();
        state.processes.retain(|key, _| !is_there(key));
        state.left.insert(namespace.to_owned());
    }

    /// Lets pods of the clusters in a namespace take this long to end.
    pub(super) fn end_slowly(&self, namespace: &str, takes: Duration) {
        self.state().slow_ends.insert(namespace.to_owned(), takes);
    }

    /// Lets pods that are created in a namespace from now on take this long to start.
    pub(super) fn start_slowly(&self, namespace: &str, takes: Duration) {
        self.state().slow_starts.insert(namespace.to_owned(), takes);
    }

    /// Returns how long a pod takes to start.
    fn startup(&self, namespace: &str) -> Duration {
        self.state().slow_starts.get(namespace).copied().unwrap_or(kubelet::START)
    }

    /// Waits until no JobManager of the cluster is about to write its metadata, or is ending.
    async fn alone(&self, key: &str) -> OwnedMutexGuard<()> {
        let contending = self.state().contending.entry(key.to_owned()).or_default().clone();
        contending.lock_owned().await
    }

    /// Lets JobManagers, or the operator, contend for the lock of a cluster.
    pub(super) fn contend(&self, namespace: &str, name: &str) {
        self.state().contended.insert(format!("{namespace}/{name}"));
    }

    /// Brings a cluster's HA metadata up to date, as Flink does before it answers.
    pub(super) async fn keep_metadata(&self, namespace: &str, name: &str) {
        metadata::keep_of(self, &format!("{namespace}/{name}")).await;
    }

    /// Crashes a cluster's JobManager, which its kubelet starts again.
    pub(super) async fn crash_job_manager(&self, namespace: &str, name: &str) {
        self.keep_metadata(namespace, name).await;
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        kubelet::restart(self, &deployments.get(name).await.unwrap()).await;
    }

    /// Returns the number of running JobManagers in a namespace.
    pub(super) fn job_managers(&self, namespace: &str) -> usize {
        let prefix = format!("{namespace}/");
        let state = self.state();
        let here = state.processes.iter().filter(|(key, _)| key.starts_with(&prefix));
        here.map(|(_, processes)| processes.len()).sum()
    }
}

/// Short pauses, because a kubelet does not delay after the API server is back.
struct Soon;

impl Iterator for Soon {
    type Item = Duration;

    fn next(&mut self) -> Option<Self::Item> {
        Some(AGAIN)
    }
}

impl Backoff for Soon {
    fn reset(&mut self) {}
}

async fn follow_deployments(world: std::sync::Weak<World>, client: Client) {
    let deployments: Api<Deployment> = Api::all(client);
    let events = watcher(deployments, watcher::Config::default()).backoff(Soon);
    let mut events = events.touched_objects().boxed();
    while let Some(event) = events.next().await {
        let Some(world) = world.upgrade() else { return };
        if let Ok(deployment) = event {
            kubelet::see_deployment(&world, deployment);
        }
    }
}

async fn follow_pods(world: std::sync::Weak<World>, client: Client) {
    let pods: Api<Pod> = Api::all(client);
    let mut events =
        watcher(pods, watcher::Config::default()).backoff(Soon).touched_objects().boxed();
    while let Some(event) = events.next().await {
        let Some(world) = world.upgrade() else { return };
        if let Ok(pod) = event {
            kubelet::see_pod(&world, pod);
        }
    }
}
