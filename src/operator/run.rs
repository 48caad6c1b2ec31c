//! The tasks of the operator: watches, one controller per namespace scope, and an orderly end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use kube::api::Api;
use kube::core::DeserializeGuard;
use kube::runtime::controller::{Action, Config};
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::runtime::{Controller, PredicateConfig, WatchStreamExt, predicates, reflector, watcher};
use kube::{Resource, ResourceExt};
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::observe::tell;
use super::reconcile::{self, flush, reconcile, retry_after};
use crate::api::deployment::FlinkDeployment;

/// How soon a watch that has shown what is there is noticed.
const READY_LOOK: std::time::Duration = std::time::Duration::from_millis(50);
/// Reconciles that run at the same time.
const CONCURRENCY: u16 = 50;

/// Which resources to operate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Watch {
    AllNamespaces,
    Namespaces(Vec<String>),
}

impl Watch {
    /// One API per scope, `None` for the whole cluster.
    fn scopes(&self) -> Vec<Option<String>> {
        match self {
            Self::AllNamespaces => vec![None],
            Self::Namespaces(namespaces) => namespaces.iter().cloned().map(Some).collect(),
        }
    }
}

/// A resource, or what is wrong with it: one that cannot be read must not stop the watch of all.
pub type Guarded = DeserializeGuard<FlinkDeployment>;

/// A running operator.
pub struct Operator {
    pub context: Arc<Context>,
    stores: Vec<Store<Guarded>>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
    stop: CancellationToken,
}

/// Errors in a row, by resource.
type Failures = Mutex<HashMap<String, u32>>;

/// Starts the watches and controllers; they run until [`Operator::stop`].
pub fn start(mut context: Context, watch: &Watch, label_selector: Option<&str>) -> Operator {
    let stop = CancellationToken::new();
    let mut deployment_streams = Vec::new();
    for scope in watch.scopes() {
        let api: Api<Deployment> = api(&context, scope.as_deref());
        let (reader, writer) = store();
        let config = watcher::Config::default().labels("component=jobmanager");
        let stream = reflector(writer, watcher(api, config).modify(prune).default_backoff())
            .touched_objects()
            .boxed();
        context.job_managers.push(reader);
        deployment_streams.push(stream);
    }
    let context = Arc::new(context);
    let mut stores = Vec::new();
    let mut tasks = Vec::new();
    for (scope, deployments) in watch.scopes().into_iter().zip(deployment_streams) {
        let api: Api<Guarded> = api(&context, scope.as_deref());
        let mut config = watcher::Config::default();
        if let Some(selector) = label_selector {
            config = config.labels(selector);
        }
        let (reader, writer) = store();
        let stream = reflector(writer, watcher(api, config).modify(drop_managed_fields))
            .default_backoff()
            .applied_objects()
            .predicate_filter(
                |resource: &Guarded| {
                    // Status writes are ours; everything else wakes the resource.
                    let generation = predicates::generation(resource)?;
                    let finalizers = predicates::finalizers(resource).unwrap_or_default();
                    let labels = predicates::labels(resource).unwrap_or_default();
                    let deletion = u64::from(resource.meta().deletion_timestamp.is_some());
                    Some(
                        generation
                            ^ finalizers.rotate_left(21)
                            ^ labels.rotate_left(42)
                            ^ (deletion << 63),
                    )
                },
                PredicateConfig::default(),
            );
        let controller = Controller::for_stream(stream, reader.clone())
            .with_config(Config::default().concurrency(CONCURRENCY))
            .watches_stream(deployments, |deployment: Deployment| owner_of(&deployment))
            .graceful_shutdown_on(stop.clone().cancelled_owned());
        let failures = Arc::new(Failures::default());
        let (task_context, task_store) = (Arc::clone(&context), reader.clone());
        tasks.push(tokio::spawn(
            controller
                .run(
                    {
                        let failures = Arc::clone(&failures);
                        move |resource: Arc<Guarded>, context| {
                            let (failures, store) = (Arc::clone(&failures), task_store.clone());
                            async move {
                                let key = resource.uid().unwrap_or_default();
                                let result = reconcile(resource, context, store).await;
                                if result.is_ok() {
                                    lock(&failures).remove(&key);
                                }
                                result
                            }
                        }
                    },
                    move |resource, error, _context| pause(&resource, error, &failures),
                    task_context,
                )
                .for_each(|_| std::future::ready(())),
        ));
        stores.push(reader);
    }
    Operator { context, stores, tasks, stop }
}

impl Operator {
    /// Every resource in scope as the watch last saw it; an error for each that cannot be read.
    pub fn resources(&self) -> Vec<Arc<Guarded>> {
        self.stores.iter().flat_map(Store::state).collect()
    }

    /// Waits until the watches have shown what is there.
    pub async fn ready(&self) {
        for store in &self.stores {
            // A store wakes only the last one that waits, which may be its controller: look again.
            // An error means that the task ended, which `stop` reports.
            while tokio::time::timeout(READY_LOOK, store.wait_until_ready()).await.is_err() {}
        }
    }

    /// Lets the passes that run come to their end, writes what is known and stops.
    pub async fn stop(mut self) {
        self.stop.cancel();
        for task in std::mem::take(&mut self.tasks) {
            if let Err(error) = task.await {
                tracing::error!(error = tell(&error), "a controller ended badly");
            }
        }
        let resources = self.resources();
        flush(&self.context, &resources).await;
    }
}

fn api<K>(context: &Context, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(context.client.clone(), namespace),
        None => Api::all(context.client.clone()),
    }
}

/// The resource that a JobManager Deployment belongs to.
fn owner_of(deployment: &Deployment) -> Option<ObjectRef<Guarded>> {
    let owner = deployment
        .metadata
        .owner_references
        .iter()
        .flatten()
        .find(|owner| owner.kind == "FlinkDeployment")?;
    Some(ObjectRef::new(&owner.name).within(deployment.metadata.namespace.as_deref()?))
}

/// Only metadata and status are looked at: the rest would be most of the memory.
fn prune(deployment: &mut Deployment) {
    deployment.metadata.managed_fields = None;
    deployment.spec = DeploymentSpec::default();
}

fn drop_managed_fields(resource: &mut Guarded) {
    let metadata = resource.meta_mut();
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

fn pause(resource: &Guarded, error: &reconcile::Error, failures: &Failures) -> Action {
    let count = {
        let mut failures = lock(failures);
        let count = failures.entry(resource.uid().unwrap_or_default()).or_default();
        *count = count.saturating_add(1);
        *count
    };
    let after = retry_after(error, count);
    tracing::warn!(
        namespace = resource.namespace(),
        name = resource.name_any(),
        error = tell(error),
        again_in = ?after,
        "not reconciled"
    );
    Action::requeue(after)
}

fn lock(failures: &Failures) -> std::sync::MutexGuard<'_, HashMap<String, u32>> {
    failures.lock().unwrap_or_else(PoisonError::into_inner)
}
