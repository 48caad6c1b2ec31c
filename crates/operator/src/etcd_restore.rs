//! Detects that the store behind the API server went back: etcd was restored from a snapshot.
//!
//! A watch that continues after a restore stays silent until the store reaches the version that the watch saw last, and
//! what was read before would seem newer than the present state. So everything is listed again, and what the jobs are
//! known to have done since is kept: see [`lifecycle::transitions::etcd_restore`].

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use serde::de::DeserializeOwned;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

use super::context::{Context, lock, resource_version};
use super::controller::api;
use super::kind::{Cache, Guarded, Newest, Operated};
use super::observe::show;
use super::watching::is_refusal;
use ::api::deployment::FlinkDeployment;
use lifecycle::error_document::WentBack;

/// How often to check the store; a watch that fails triggers a check at once.
const POLL_EVERY: Duration = Duration::from_secs(5);
/// Pause while the API server does not answer.
const AGAIN: Duration = Duration::from_millis(500);
/// Number of resources of each kind, those written last, to read after a watch has failed.
const COMPARED: usize = 3;
/// Number of namespaces to try until one can be read.
const SCOPES_MAX: usize = 5;
/// How long the watches may take to list everything again.
const LIST_PATIENCE: Duration = Duration::from_mins(2);

/// Notifies those who follow the store that it went back.
pub(super) struct EtcdRestores {
    times: watch::Sender<u64>,
    /// A watch failed, as it also does when the store is replaced.
    is_suspected: Notify,
    /// Highest revision of the store seen so far.
    newest: AtomicU64,
    /// Whether lists are compared with what was known before.
    is_comparing: AtomicBool,
    /// The known state of resources whose record went back, by uid.
    known: Mutex<HashMap<String, WentBack>>,
    /// Resources that a watch or its list showed in an earlier form than was known, by uid, until that is confirmed.
    suspects: Mutex<HashMap<String, Suspect>>,
}

/// A resource that appeared in an earlier form: the answer may be stale, or the store went back.
#[derive(Clone)]
struct Suspect {
    kind: ApiResource,
    known: Newest,
    went_back: Option<WentBack>,
}

impl Default for EtcdRestores {
    fn default() -> Self {
        Self {
            times: watch::Sender::new(0),
            is_suspected: Notify::new(),
            newest: AtomicU64::new(0),
            is_comparing: AtomicBool::new(false),
            known: Mutex::default(),
            suspects: Mutex::default(),
        }
    }
}

impl EtcdRestores {
    /// Returns a follower that is notified each time.
    pub(super) fn follow(self: &Arc<Self>) -> Follower {
        Follower { restores: Arc::clone(self), times: self.times.subscribe() }
    }

    /// Returns `true` if a list must be compared with what was seen before it.
    pub(super) fn is_comparing(&self) -> bool {
        self.is_comparing.load(Ordering::Relaxed)
    }

    /// Notes a revision that was seen.
    pub(super) fn saw(&self, revision: u64) {
        self.newest.fetch_max(revision, Ordering::Relaxed);
    }

    pub(super) fn note(&self, uid: &str, known: WentBack) {
        lock(&self.known).insert(uid.to_owned(), known);
    }

    /// Notes that a watch, or its list, shows a resource in an earlier form than was known. Nothing is done about it
    /// until the resource itself was read.
    pub(super) fn suspect<K: Operated>(&self, known: &Guarded<K>, went_back: Option<WentBack>) {
        let known = Newest::of(known);
        let doubt = Suspect { kind: ApiResource::erase::<K>(&()), known, went_back };
        lock(&self.suspects).insert(doubt.known.uid.clone(), doubt);
        self.is_suspected.notify_one();
    }

    pub(super) fn is_suspect(&self, uid: &str) -> bool {
        lock(&self.suspects).contains_key(uid)
    }

    /// Confirms everything that was in doubt, because the store went back.
    fn confirm_suspects(&self) {
        for (uid, Suspect { known, went_back, .. }) in std::mem::take(&mut *lock(&self.suspects)) {
            let Some(went_back) = went_back else { continue };
            let Newest { namespace, name, .. } = known;
            tracing::error!(namespace, name, "{}", went_back.message);
            self.note(&uid, went_back);
        }
    }

    pub(super) fn known(&self, uid: &str) -> Option<WentBack> {
        lock(&self.known).get(uid).cloned()
    }

    pub(super) fn forget(&self, uid: &str) {
        lock(&self.known).remove(uid);
    }
}

/// One watch's view of the store.
pub(super) struct Follower {
    restores: Arc<EtcdRestores>,
    times: watch::Receiver<u64>,
}

impl Follower {
    /// Completes each time the store goes back.
    pub(super) async fn changed(&mut self) {
        if self.times.changed().await.is_err() {
            // The operator is about to end.
            std::future::pending::<()>().await;
        }
    }

    /// Reports that the watch failed: the store may have been replaced.
    pub(super) fn suspect(&self) {
        self.restores.is_suspected.notify_one();
    }
}

/// Checks the store repeatedly; never ends.
pub(super) async fn follow_store(context: Arc<Context>) {
    let restores = Arc::clone(&context.etcd_restores);
    let mut is_suspected = false;
    let mut pause = POLL_EVERY;
    let mut last_look = Instant::now();
    loop {
        let settled = async {
            context.api_server_health.suspected().await;
            // A fleet raises many suspects at a time.
            sleep_until(last_look + AGAIN).await;
        };
        tokio::select! {
            () = restores.is_suspected.notified() => is_suspected = true,
            () = settled => {}
            () = sleep(pause) => {}
        }
        last_look = Instant::now();
        match inspect(&context, is_suspected).await {
            Reading::NoAnswer => {
                // The suspicion stays until there is an answer.
                sleep(AGAIN).await;
                pause = Duration::ZERO;
                continue;
            }
            Reading::WentBack { was, is } => {
                tracing::error!(
                    was,
                    is,
                    "the API server's store went back to an earlier state: everything is checked \
                     again"
                );
                restores.confirm_suspects();
                begin_anew(&context).await;
                restores.newest.store(is, Ordering::Relaxed);
            }
            Reading::WentOn => {}
        }
        (is_suspected, pause) = (false, POLL_EVERY);
    }
}

/// The result of one check of the store.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Reading {
    NoAnswer,
    WentOn,
    WentBack { was: u64, is: u64 },
}

/// Compares what was seen with the present state. A store that was set back soon reaches a higher revision than was
/// ever seen. After that only the resources that were written last reveal it: they are read if `is_suspected`.
async fn inspect(context: &Context, is_suspected: bool) -> Reading {
    let settled = settle_suspects(context).await;
    if settled != Reading::WentOn {
        return settled;
    }
    let was = context.etcd_restores.newest.load(Ordering::Relaxed);
    let now = match revision(context).await {
        Revision::NoAnswer => return Reading::NoAnswer,
        Revision::Unreadable => return Reading::WentOn,
        Revision::Is(now) => now,
    };
    if now < was {
        // One answer may be stale, from some cache.
        return match revision(context).await {
            Revision::NoAnswer => Reading::NoAnswer,
            Revision::Is(is) if is < was => Reading::WentBack { was, is },
            Revision::Is(_) | Revision::Unreadable => Reading::WentOn,
        };
    }
    if is_suspected {
        let deployments = compare(&context.deployments, context).await;
        let session_jobs = compare(&context.session_jobs, context).await;
        match (deployments, session_jobs) {
            (Reading::WentBack { was, .. }, _) | (_, Reading::WentBack { was, .. }) => {
                return Reading::WentBack { was, is: now };
            }
            (Reading::NoAnswer, _) | (_, Reading::NoAnswer) => return Reading::NoAnswer,
            (Reading::WentOn, Reading::WentOn) => {}
        }
    }
    context.etcd_restores.saw(now);
    Reading::WentOn
}

/// Reads the resources that appeared in an earlier form than was known. If none of them is, what appeared was stale.
async fn settle_suspects(context: &Context) -> Reading {
    let mut suspects: Vec<Suspect> =
        lock(&context.etcd_restores.suspects).values().cloned().collect();
    if suspects.is_empty() {
        return Reading::WentOn;
    }
    suspects.sort_by_key(|doubt| Reverse(doubt.known.resource_version));
    suspects.truncate(COMPARED);
    for Suspect { kind, known, .. } in &suspects {
        let client = context.client.clone();
        let resources: Api<DynamicObject> = Api::namespaced_with(client, &known.namespace, kind);
        match compare_one(&resources, known, context).await {
            Reading::WentOn => {}
            other => return other,
        }
    }
    lock(&context.etcd_restores.suspects).clear();
    Reading::WentOn
}

/// Reads the resources of a kind that were written last: one in an earlier form than was known means that the store
/// went back.
async fn compare<K: Operated>(kept: &Cache<K>, context: &Context) -> Reading {
    let mut answer = Reading::WentOn;
    for newest in kept.newest(COMPARED) {
        let resources: Api<K> = api(context, Some(&newest.namespace));
        match compare_one(&resources, &newest, context).await {
            Reading::WentOn => {}
            Reading::NoAnswer => answer = Reading::NoAnswer,
            went_back @ Reading::WentBack { .. } => return went_back,
        }
    }
    answer
}

/// Checks whether the resource is in an earlier form than was known.
async fn compare_one<K>(resources: &Api<K>, known: &Newest, context: &Context) -> Reading
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    match heard(resources.get_metadata_opt(&known.name).await, context) {
        Ok(Some(found)) if found.metadata.uid.as_deref() == Some(&known.uid) => {
            let (was, is) = (known.resource_version, resource_version(&found.metadata));
            let is_earlier = is_before(&found.metadata, was, known.generation);
            if is_earlier { Reading::WentBack { was, is } } else { Reading::WentOn }
        }
        // It is gone, another resource has its name, or it may not be read.
        Ok(_) => Reading::WentOn,
        Err(error) if is_refusal(&error) => Reading::WentOn,
        Err(_) => Reading::NoAnswer,
    }
}

/// Notes whether the API server answered.
fn heard<T>(answer: kube::Result<T>, context: &Context) -> kube::Result<T> {
    match &answer {
        Err(error) if !is_refusal(error) => context.api_server_health.missed(&show(error)),
        Ok(_) | Err(_) => context.api_server_health.answered(),
    }
    answer
}

/// The store's current revision, according to a list.
enum Revision {
    NoAnswer,
    /// The API server answers, but there is nothing that may be read.
    Unreadable,
    Is(u64),
}

/// Returns the current revision of the store: that of a list which only the store itself may answer.
async fn revision(context: &Context) -> Revision {
    let mut answer = Revision::Unreadable;
    for scope in context.deployments.namespaces().into_iter().take(SCOPES_MAX) {
        let deployments: Api<FlinkDeployment> = api(context, scope.as_deref());
        match heard(deployments.list_metadata(&ListParams::default().limit(1)).await, context) {
            Ok(list) => {
                let version = list.metadata.resource_version.and_then(|text| text.parse().ok());
                return version.map_or(answer, Revision::Is);
            }
            Err(error) if is_refusal(&error) => {}
            Err(_) => answer = Revision::NoAnswer,
        }
    }
    answer
}

async fn begin_anew(context: &Context) {
    let kinds = [
        Listing::of(&context.deployments),
        Listing::of(&context.session_jobs),
        Listing::of(&context.snapshots),
    ];
    context.etcd_restores.is_comparing.store(true, Ordering::Relaxed);
    context.forget_what_was_seen();
    for kind in &kinds {
        (kind.unlist)();
    }
    context.etcd_restores.times.send_modify(|times| *times += 1);
    let begin = Instant::now();
    while !kinds.iter().all(|kind| (kind.is_listed)()) && begin.elapsed() < LIST_PATIENCE {
        sleep(AGAIN).await;
    }
    context.etcd_restores.is_comparing.store(false, Ordering::Relaxed);
    for kind in &kinds {
        (kind.wake)();
    }
}

/// The operations on the list of a kind.
struct Listing<'a> {
    unlist: Box<dyn Fn() + Send + Sync + 'a>,
    is_listed: Box<dyn Fn() -> bool + Send + Sync + 'a>,
    wake: Box<dyn Fn() + Send + Sync + 'a>,
}

impl<'a> Listing<'a> {
    fn of<K: Operated>(kept: &'a Cache<K>) -> Self {
        Self {
            unlist: Box::new(|| kept.unlist()),
            // A kind that is not served lists nothing.
            is_listed: Box::new(|| !kept.is_served() || kept.is_listed()),
            wake: Box::new(|| kept.wake_all()),
        }
    }
}

/// Returns `true` if `seen` is an earlier form of the resource than `known`.
pub(super) fn is_earlier<K: Operated>(seen: &Guarded<K>, known: &Guarded<K>) -> bool {
    let (seen, known) = (seen.meta(), known.meta());
    let generation = known.generation.unwrap_or_default();
    seen.uid == known.uid && is_before(seen, resource_version(known), generation)
}

/// The API server never lowers a generation. In a store that was set back and written to since, it may still be lower
/// although the resource version is already higher.
fn is_before(seen: &ObjectMeta, version: u64, generation: i64) -> bool {
    resource_version(seen) < version || seen.generation.unwrap_or_default() < generation
}

#[cfg(test)]
mod tests;
