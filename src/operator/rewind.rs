//! Notices that the store behind the API server went back: etcd was restored from a snapshot.
//!
//! A watch that goes on after that stays silent until the store has come to the version that it saw
//! last, and what was read before would be taken for newer than what there is. So everything is
//! listed anew, and what the jobs were known to have done since is not forgotten: see
//! [`crate::decide::rewind`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::Resource;
use kube::api::{Api, ListParams};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};

use super::context::{Context, lock, resource_version};
use super::controller::api;
use super::kind::{Guarded, Operated};
use crate::api::deployment::FlinkDeployment;
use crate::decide::rewind::WentBack;

/// How often the store is looked at; a watch that ends has it looked at right away.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Pause while the API server does not answer.
const AGAIN: Duration = Duration::from_millis(500);
/// Namespaces that are tried until one may be read.
const SCOPES_MAX: usize = 5;
/// How long the watches are given to list everything anew.
const LIST_PATIENCE: Duration = Duration::from_mins(2);

/// Whether the store went back, for those who follow it.
pub(super) struct Rewinds {
    times: watch::Sender<u64>,
    /// A watch ended, which it also does when the store is replaced.
    is_suspected: Notify,
    /// What is listed now is compared with what was known.
    is_comparing: AtomicBool,
    /// What is known of resources whose record went back, by uid.
    known: Mutex<HashMap<String, WentBack>>,
}

impl Default for Rewinds {
    fn default() -> Self {
        Self {
            times: watch::Sender::new(0),
            is_suspected: Notify::new(),
            is_comparing: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }
}

impl Rewinds {
    /// Changes each time.
    pub(super) fn follow(self: &Arc<Self>) -> Follower {
        Follower { rewinds: Arc::clone(self), times: self.times.subscribe() }
    }

    /// Whether a list is to be compared with what was seen before it.
    pub(super) fn is_comparing(&self) -> bool {
        self.is_comparing.load(Ordering::Relaxed)
    }

    pub(super) fn note(&self, uid: &str, known: WentBack) {
        lock(&self.known).insert(uid.to_owned(), known);
    }

    pub(super) fn known(&self, uid: &str) -> Option<WentBack> {
        lock(&self.known).get(uid).cloned()
    }

    pub(super) fn forget(&self, uid: &str) {
        lock(&self.known).remove(uid);
    }
}

/// One watch's view of it.
pub(super) struct Follower {
    rewinds: Arc<Rewinds>,
    times: watch::Receiver<u64>,
}

impl Follower {
    /// Ends when the store went back, as often as it does.
    pub(super) async fn changed(&mut self) {
        if self.times.changed().await.is_err() {
            // The operator is about to end.
            std::future::pending::<()>().await;
        }
    }

    /// The watch ended: perhaps the store is another.
    pub(super) fn suspect(&self) {
        self.rewinds.is_suspected.notify_one();
    }
}

/// Looks at the store again and again; ends never.
pub(super) async fn follow_store(context: Arc<Context>) {
    let mut newest = 0;
    let mut pause = LOOK_EVERY;
    loop {
        // Either will do.
        drop(timeout(pause, context.rewinds.is_suspected.notified()).await);
        let Some(now) = revision(&context).await else {
            sleep(AGAIN).await;
            pause = Duration::ZERO;
            continue;
        };
        pause = LOOK_EVERY;
        if now >= newest {
            newest = now;
            continue;
        }
        // One answer may be an old one, from wherever it was kept.
        let Some(again) = revision(&context).await else { continue };
        if again < newest {
            tracing::error!(
                was = newest,
                is = again,
                "the API server's store went back to an earlier state: everything is looked at anew"
            );
            begin_anew(&context).await;
            newest = again;
        }
    }
}

/// The present revision of the store: that of a list which nothing but the store may answer. Nothing
/// while there is no answer.
async fn revision(context: &Context) -> Option<u64> {
    for scope in context.deployments.namespaces().into_iter().take(SCOPES_MAX) {
        let deployments: Api<FlinkDeployment> = api(context, scope.as_deref());
        // One that may not be read says nothing about the store.
        let list = deployments.list_metadata(&ListParams::default().limit(1)).await;
        let version = list.ok().and_then(|list| list.metadata.resource_version?.parse().ok());
        if version.is_some() {
            return version;
        }
    }
    None
}

async fn begin_anew(context: &Context) {
    let kinds = [
        Listing::of(&context.deployments),
        Listing::of(&context.session_jobs),
        Listing::of(&context.snapshots),
    ];
    context.rewinds.is_comparing.store(true, Ordering::Relaxed);
    context.forget_what_was_seen();
    for kind in &kinds {
        (kind.unlist)();
    }
    context.rewinds.times.send_modify(|times| *times += 1);
    let begin = Instant::now();
    while !kinds.iter().all(|kind| (kind.is_listed)()) && begin.elapsed() < LIST_PATIENCE {
        sleep(AGAIN).await;
    }
    context.rewinds.is_comparing.store(false, Ordering::Relaxed);
    for kind in &kinds {
        (kind.wake)();
    }
}

/// What is done with the list of each kind.
struct Listing<'a> {
    unlist: Box<dyn Fn() + Send + Sync + 'a>,
    is_listed: Box<dyn Fn() -> bool + Send + Sync + 'a>,
    wake: Box<dyn Fn() + Send + Sync + 'a>,
}

impl<'a> Listing<'a> {
    fn of<K: Operated>(kept: &'a super::kind::Kept<K>) -> Self {
        Self {
            unlist: Box::new(|| kept.unlist()),
            // A kind that is not served lists nothing.
            is_listed: Box::new(|| !kept.is_served() || kept.is_listed()),
            wake: Box::new(|| kept.wake_all()),
        }
    }
}

/// Whether a resource that is listed is an earlier form of the one that was known.
pub(super) fn is_earlier<K: Operated>(listed: &Guarded<K>, known: &Guarded<K>) -> bool {
    listed.meta().uid == known.meta().uid
        && resource_version(listed.meta()) < resource_version(known.meta())
}
