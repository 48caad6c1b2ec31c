//! What the operated kinds of resources have in common: how a resource is watched, what is cached of it, and what wakes
//! it.
//!
//! A controller is a file with an [`Operated`] implementation: its own decision and its own steps. Everything around a
//! pass is in [`super::controller`] and [`super::pass`].

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use futures::Stream;
use k8s_openapi::NamespaceResourceScope;
use kube::core::DeserializeGuard;
use kube::core::object::HasStatus;
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store, store};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;

use super::context::{Context, lock, resource_version};
use super::pass::{Again, Error};
use super::scopes::shown;
use lifecycle::error_document::WentBack;
use lifecycle::event::Component;
use lifecycle::status_texts::StatusTexts;

/// A resource, or what is wrong with it: one that cannot be read must not stop the watch of all.
pub type Guarded<K> = DeserializeGuard<K>;

/// Whether a watch saw the resource or its end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Sight {
    There,
    Gone,
}

/// A kind of resource that is operated.
pub(super) trait Operated: Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + HasStatus<Status: StatusTexts + Clone + Default + PartialEq + Serialize + Send + Sync + 'static>
    + Clone
    + Debug
    + DeserializeOwned
    + Send
    + Sync
    + 'static
{
    /// Keeps the resource until the operator has cleaned up after it; `None` if owner references do that.
    const FINALIZER: Option<&'static str>;

    /// Reason and component of the event that reports why a plan was not carried out, as the Java operator names them.
    const FAILURE: (&'static str, Component);

    /// Name of the kind in metrics.
    const KIND: metrics::Kind;

    /// Returns the facts that metrics count of a resource with this status.
    fn facts(&self, status: &Self::Status) -> metrics::Facts;

    /// Returns the line of the audit log about a status that was written.
    fn audit(previous: &Self::Status, current: &Self::Status) -> Option<String>;

    /// Returns the cache of this kind.
    fn cache(context: &Context) -> &Cache<Self>;

    /// Runs one pass over the resource, which is at least as new as our own last write to it.
    fn pass(resource: Self, context: &Context)
    -> impl Future<Output = Result<Again, Error>> + Send;

    /// Returns the facts in `known` that are no longer on record because the store went back to `listed`.
    fn went_back(_known: &Self, _listed: &Self) -> Option<WentBack> {
        None
    }

    /// Handles each event of the watch, after the store: wakes resources of other kinds with [`Cache::wake`].
    fn seen(_resource: &Guarded<Self>, _sight: Sight, _context: &Context) {}
}

/// A write of this process that the watch has not shown yet.
#[derive(Clone, Debug)]
pub(super) struct Written<S> {
    /// Resource version of the last write.
    pub(super) resource_version: u64,
    /// A status that is current but not written yet, and since when.
    pub(super) pending: Option<(S, Instant)>,
}

/// The last known write to a resource.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Newest {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) resource_version: u64,
    pub(super) generation: i64,
}

impl Newest {
    /// Returns this for a resource as a watch saw it.
    pub(super) fn of<K: Operated>(resource: &Guarded<K>) -> Self {
        Self {
            namespace: resource.namespace().unwrap_or_default(),
            name: resource.name_any(),
            uid: resource.uid().unwrap_or_default(),
            resource_version: resource_version(resource.meta()),
            generation: resource.meta().generation.unwrap_or_default(),
        }
    }
}

/// One watched namespace, or the whole cluster.
struct Scope<K: Operated> {
    namespace: Option<String>,
    store: Store<Guarded<K>>,
    wakes: Arc<Wakes<K>>,
    is_listed: Arc<AtomicBool>,
}

/// Resources that something else wants looked at, each once.
pub(super) struct Wakes<K: Operated> {
    keys: Mutex<HashSet<ObjectRef<Guarded<K>>>>,
    bell: Notify,
}

/// Streams the keys of woken resources; never ends.
pub(super) fn woken<K: Operated>(
    wakes: Arc<Wakes<K>>,
) -> impl Stream<Item = ObjectRef<Guarded<K>>> {
    futures::stream::unfold(wakes, |wakes| async {
        loop {
            let next = {
                let mut keys = lock(&wakes.keys);
                let next = keys.iter().next().cloned();
                next.and_then(|key| keys.take(&key))
            };
            match next {
                Some(key) => return Some((key, wakes)),
                None => wakes.bell.notified().await,
            }
        }
    })
}

/// The other ends of a scope of [`Cache`], for the controller that runs it.
pub(super) struct Feed<K: Operated> {
    /// `None` for all namespaces.
    pub(super) namespace: Option<String>,
    pub(super) store: Store<Guarded<K>>,
    pub(super) writer: Writer<Guarded<K>>,
    pub(super) wakes: Arc<Wakes<K>>,
    /// Set when the watch has completed its first list.
    pub(super) is_listed: Arc<AtomicBool>,
}

/// The operator's cache of one kind.
pub(super) struct Cache<K: Operated> {
    scopes: RwLock<Vec<Scope<K>>>,
    written: Mutex<HashMap<String, Written<K::Status>>>,
    is_served: AtomicBool,
}

impl<K: Operated> Default for Cache<K> {
    fn default() -> Self {
        Self {
            scopes: RwLock::default(),
            written: Mutex::default(),
            is_served: AtomicBool::new(false),
        }
    }
}

impl<K: Operated> Cache<K> {
    fn scopes(&self) -> RwLockReadGuard<'_, Vec<Scope<K>>> {
        self.scopes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens one more scope and returns what its controller needs.
    pub(super) fn open(&self, namespace: Option<String>) -> Feed<K> {
        let (store, writer) = store();
        let wakes = Arc::new(Wakes { keys: Mutex::default(), bell: Notify::new() });
        let is_listed = Arc::new(AtomicBool::new(false));
        self.scopes.write().unwrap_or_else(PoisonError::into_inner).push(Scope {
            namespace: namespace.clone(),
            store: store.clone(),
            wakes: Arc::clone(&wakes),
            is_listed: Arc::clone(&is_listed),
        });
        Feed { namespace, store, writer, wakes, is_listed }
    }

    /// Closes a scope whose controller has ended and forgets everything in it. That includes statuses that were not
    /// written: they would be the base of the next pass if the scope is opened again, whatever another operator has
    /// done meanwhile. Returns the uids of the resources in it.
    pub(super) fn close(&self, namespace: Option<&str>) -> Vec<String> {
        let mut scopes = self.scopes.write().unwrap_or_else(PoisonError::into_inner);
        let closed = scopes.extract_if(.., |scope| scope.namespace.as_deref() == namespace);
        let all = closed.flat_map(|scope| scope.store.state());
        let uids: Vec<String> = all.filter_map(|resource| resource.meta().uid.clone()).collect();
        drop(scopes);
        for uid in &uids {
            self.forget(uid);
        }
        uids
    }

    /// Returns the watched namespaces; `None` for the whole cluster.
    pub(super) fn namespaces(&self) -> Vec<Option<String>> {
        self.scopes().iter().map(|scope| scope.namespace.clone()).collect()
    }

    /// Returns `true` if any scope of this kind is watched.
    pub(super) fn is_watched(&self) -> bool {
        !self.scopes().is_empty()
    }

    /// Returns `true` if the API server has this kind and permits reading it.
    pub(super) fn is_served(&self) -> bool {
        self.is_served.load(Ordering::Relaxed)
    }

    pub(super) fn set_served(&self) {
        self.is_served.store(true, Ordering::Relaxed);
    }

    /// Returns `true` if all watches have completed their first lists. Until then, a resource that they do not show may
    /// exist.
    pub(super) fn is_listed(&self) -> bool {
        self.scopes().iter().all(|scope| scope.is_listed.load(Ordering::Relaxed))
    }

    /// Returns, in words, a scope whose watch has not completed its first list.
    pub(super) fn unlisted(&self) -> Option<String> {
        let scopes = self.scopes();
        let mut unlisted = scopes.iter().filter(|scope| !scope.is_listed.load(Ordering::Relaxed));
        unlisted.next().map(|scope| shown(&scope.namespace))
    }

    /// Like [`Self::is_listed`], for one namespace: another namespace that cannot be read is no reason to wait. If
    /// nothing is watched, there is nothing to wait for.
    pub(super) fn is_listed_in(&self, namespace: &str) -> bool {
        let scopes = self.scopes();
        if scopes.is_empty() {
            return true;
        }
        let mut of_it = scopes
            .iter()
            .filter(|scope| scope.namespace.as_deref().is_none_or(|name| name == namespace));
        of_it.any(|scope| scope.is_listed.load(Ordering::Relaxed))
    }

    /// Marks the watches as incomplete until they have listed everything again.
    pub(super) fn unlist(&self) {
        for scope in self.scopes().iter() {
            scope.is_listed.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the resource as the watch last saw it.
    pub(super) fn cached(&self, namespace: &str, name: &str) -> Option<Arc<Guarded<K>>> {
        let key = ObjectRef::new(name).within(namespace);
        self.scopes().iter().find_map(|scope| scope.store.get(&key))
    }

    /// Returns every resource in scope as the watch last saw it, or an error for each that cannot be read.
    pub(super) fn all(&self) -> Vec<Arc<Guarded<K>>> {
        self.scopes().iter().flat_map(|scope| scope.store.state()).collect()
    }

    /// Returns the resources that were written last as far as is known, at most `count`.
    pub(super) fn newest(&self, count: usize) -> Vec<Newest> {
        let mut all = self.all();
        let written = lock(&self.written);
        let version = |resource: &Guarded<K>| {
            let meta = resource.meta();
            let own = meta.uid.as_ref().and_then(|uid| written.get(uid));
            resource_version(meta).max(own.map_or(0, |own| own.resource_version))
        };
        all.sort_by_cached_key(|resource| Reverse(version(resource)));
        all.truncate(count);
        let newest = |resource: Arc<Guarded<K>>| {
            let resource_version = version(&resource);
            Newest { resource_version, ..Newest::of(&resource) }
        };
        all.into_iter().map(newest).collect()
    }

    /// Returns each scope with its store.
    pub(super) fn stores(&self) -> Vec<(Option<String>, Store<Guarded<K>>)> {
        let scopes = self.scopes();
        scopes.iter().map(|scope| (scope.namespace.clone(), scope.store.clone())).collect()
    }

    /// Schedules a look at the resource, because something that it depends on changed. A resource that the watch has
    /// not seen yet is looked at anyway when it appears.
    pub(super) fn wake(&self, namespace: &str, name: &str) {
        let key = ObjectRef::new(name).within(namespace);
        let scopes = self.scopes();
        if let Some(scope) = scopes.iter().find(|scope| scope.store.get(&key).is_some()) {
            lock(&scope.wakes.keys).insert(key);
            scope.wakes.bell.notify_one();
        }
    }

    /// Schedules a look at every resource.
    pub(super) fn wake_all(&self) {
        for scope in self.scopes().iter() {
            let all = scope.store.state();
            let keys = all.iter().map(|resource| ObjectRef::from_obj(&**resource));
            lock(&scope.wakes.keys).extend(keys);
            scope.wakes.bell.notify_one();
        }
    }

    pub(super) fn written(&self, uid: &str) -> Option<Written<K::Status>> {
        lock(&self.written).get(uid).cloned()
    }

    pub(super) fn remember(&self, uid: &str, written: Written<K::Status>) {
        lock(&self.written).insert(uid.to_owned(), written);
    }

    pub(super) fn forget(&self, uid: &str) {
        lock(&self.written).remove(uid);
    }

    pub(super) fn forget_all(&self) {
        lock(&self.written).clear();
    }

    /// Returns the statuses that are current but not written yet, by uid.
    pub(super) fn pending(&self) -> Vec<(String, K::Status)> {
        lock(&self.written)
            .iter()
            .filter_map(|(uid, written)| {
                written.pending.as_ref().map(|(status, _)| (uid.clone(), status.clone()))
            })
            .collect()
    }
}
