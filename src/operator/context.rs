//! What the tasks of one operator share: clients, configuration, caches, and what was just written.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::runtime::reflector::{ObjectRef, Store};

use crate::api::deployment::FlinkDeployment;
use crate::api::status::DeploymentStatus;
use crate::config::OperatorConfig;
use crate::flink::access::Connector;

/// How long a status that only says that a JobManager was created may wait for the next one: most
/// JobManagers that are not pulled from afar are seen running before, which saves a write.
pub(super) const STATUS_DELAY: Duration = Duration::from_secs(2);

/// What this process wrote and has not seen come back from its watch.
#[derive(Clone, Debug, Default)]
pub(super) struct Written {
    /// Resource version of the last write.
    pub(super) resource_version: u64,
    /// A status that is true and not written yet, with the time since when.
    pub(super) pending: Option<(DeploymentStatus, Instant)>,
}

/// Progress of a resource, for people who watch the operator work.
#[derive(Clone, Debug)]
pub struct Progress {
    pub namespace: String,
    pub name: String,
    /// Absent: the resource is gone.
    pub status: Option<Box<DeploymentStatus>>,
    pub generation: i64,
    pub because: String,
}

/// Shared by all reconciles.
pub struct Context {
    pub client: Client,
    pub operator: OperatorConfig,
    pub connector: Connector,
    /// Whether `FlinkStateSnapshot` is installed.
    pub has_snapshot_resources: bool,
    pub(super) job_managers: Vec<Store<Deployment>>,
    written: Mutex<HashMap<String, Written>>,
    progress: tokio::sync::broadcast::Sender<Progress>,
}

impl Context {
    /// A context without caches; [`super::run::start`] adds them.
    pub fn new(
        client: Client,
        operator: OperatorConfig,
        connector: Connector,
        has_snapshot_resources: bool,
    ) -> Self {
        Self {
            client,
            operator,
            connector,
            has_snapshot_resources,
            job_managers: Vec::new(),
            written: Mutex::default(),
            progress: tokio::sync::broadcast::Sender::new(1024),
        }
    }

    /// Follows every decision from now on; a slow reader misses the oldest.
    pub fn follow(&self) -> tokio::sync::broadcast::Receiver<Progress> {
        self.progress.subscribe()
    }

    pub(super) fn tell(&self, progress: Progress) {
        // Nobody may be listening.
        let _listeners = self.progress.send(progress);
    }

    /// The JobManager Deployment as the watch last saw it.
    pub(super) fn cached_job_manager(
        &self,
        namespace: &str,
        name: &str,
    ) -> Option<Arc<Deployment>> {
        let key = ObjectRef::new(name).within(namespace);
        self.job_managers.iter().find_map(|store| store.get(&key))
    }

    pub(super) fn written(&self, uid: &str) -> Option<Written> {
        self.lock().get(uid).cloned()
    }

    pub(super) fn remember(&self, uid: &str, written: Written) {
        self.lock().insert(uid.to_owned(), written);
    }

    pub(super) fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    /// Uids of resources with a status that is not written yet.
    pub(super) fn with_pending_status(&self) -> Vec<(String, DeploymentStatus)> {
        self.lock()
            .iter()
            .filter_map(|(uid, written)| {
                written.pending.as_ref().map(|(status, _)| (uid.clone(), status.clone()))
            })
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Written>> {
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The resource version as a number: etcd's revision, so that later writes compare greater.
pub(super) fn resource_version(resource: &FlinkDeployment) -> u64 {
    resource.metadata.resource_version.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0)
}
