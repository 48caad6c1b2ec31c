//! The tasks of the operator: watches, one controller per kind and namespace scope, and an orderly shutdown.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::core::DeserializeGuard;
use tokio::sync::Mutex;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::controller::{self, Settings};
use super::etcd_restore;
use super::nodes;
use super::observe::show;
use super::request_slots::Cancellation;
use super::resource::flush;
use super::retention;
use super::scopes::{FLUSH_MAX, Moved, Scope, Scopes, finish, shown, termination_timeout};
use super::validator::{Judged, Kind};
use super::vitals;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use config::namespaces::Namespaces;
use config::options;
use election::shard::shard_of;

/// Time between checks whether a watch has completed its first list.
const READY_POLL: std::time::Duration = std::time::Duration::from_millis(50);
/// Maximum time to find out whether a new namespace can be read.
const PROBE_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// Which resources to operate.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Watch {
    AllNamespaces,
    Namespaces(Vec<String>),
}

impl Watch {
    /// Returns the scope in words, with the label selector if there is one.
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

    /// Returns the scopes, one per API; `None` for the whole cluster.
    pub fn scopes(&self) -> BTreeSet<Option<String>> {
        match self {
            Self::AllNamespaces => [None].into(),
            Self::Namespaces(namespaces) => namespaces.iter().cloned().map(Some).collect(),
        }
    }
}

impl From<Namespaces> for Watch {
    fn from(namespaces: Namespaces) -> Self {
        match namespaces {
            Namespaces::All => Self::AllNamespaces,
            Namespaces::Named(names) => Self::Namespaces(names.into_iter().collect()),
        }
    }
}

/// The share of this process if several processes divide the watched namespaces.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Part {
    /// Number of shards that the namespaces are divided into.
    pub shards: u16,
    pub held: BTreeSet<u16>,
    /// All existing namespaces: what the whole cluster consists of.
    pub namespaces: BTreeSet<String>,
}

/// The namespaces to watch.
struct Wanted {
    watch: Watch,
    part: Option<Part>,
}

impl Wanted {
    /// Returns the scopes to watch. A shard consists of whole namespaces, each with its own watches, so that giving one
    /// up ends everything about it.
    fn scopes(&self) -> BTreeSet<Scope> {
        let Some(Part { shards, held, namespaces }) = &self.part else {
            return self.watch.scopes();
        };
        let is_held = |name: &&String| held.contains(&shard_of(name, *shards));
        match &self.watch {
            Watch::AllNamespaces => namespaces.iter().filter(is_held).cloned().map(Some).collect(),
            Watch::Namespaces(names) => names.iter().filter(is_held).cloned().map(Some).collect(),
        }
    }
}

/// A running operator.
pub struct Operator {
    pub context: Arc<Context>,
    scopes: Scopes,
    /// Locked while the scopes change to match it.
    wanted: Mutex<Wanted>,
    tasks: Vec<JoinHandle<()>>,
    stop: CancellationToken,
}

/// Starts the watches and controllers; they run until [`Operator::stop`].
pub fn start(context: Context, watch: &Watch, label_selector: Option<&str>) -> Operator {
    start_part(context, watch, label_selector, None)
}

/// Like [`start`], for a part of the namespaces, which [`Operator::share`] may change.
pub fn start_part(
    mut context: Context,
    watch: &Watch,
    label_selector: Option<&str>,
    part: Option<Part>,
) -> Operator {
    let stop = CancellationToken::new();
    // Checked when the program started.
    context.deployments.set_served();
    context.is_selective = label_selector.is_some();
    let wants_snapshots = context.operator().base.get(&options::SNAPSHOT_RESOURCE_ENABLED);
    let wants_snapshots = wants_snapshots.unwrap_or(true);
    if context.had_snapshot_resources && wants_snapshots {
        context.snapshots.set_served();
    }
    let context = Arc::new(context);
    context.autoscalers.bind(&context);
    let settings = Settings {
        context: Arc::clone(&context),
        label_selector: label_selector.map(str::to_owned),
        // Scopes that are opened later use the same value.
        concurrency: controller::concurrency(&context),
        cancellation: Cancellation { stop: stop.clone(), ..Cancellation::default() },
    };
    let mut scopes = Scopes::new(settings, wants_snapshots);
    let wanted = Wanted { watch: watch.clone(), part };
    scopes.open_first(&wanted.scopes());
    let mut tasks = Vec::new();
    let mut spawn = |name: &str, work: BoxFuture<'static, ()>| {
        let watched = context.health.worker(name.to_owned(), stop.clone());
        let work = stop.clone().run_until_cancelled_owned(work);
        tasks.push(tokio::spawn(work.map(move |_| drop(watched))));
    };
    if let Some(late) = context.validators.late() {
        spawn("late verdicts", follow_verdicts(late, Arc::clone(&context)).boxed());
    }
    spawn("the store's revision", etcd_restore::follow_store(Arc::clone(&context)).boxed());
    spawn("vitals", vitals::log().boxed());
    spawn("nodes", nodes::follow(Arc::clone(&context)).boxed());
    spawn("leftovers", retention::keep_tidy(Arc::clone(&context)).boxed());
    Operator { context, scopes, wanted: Mutex::new(wanted), tasks, stop }
}

impl Operator {
    /// Returns every deployment in scope as the watch last saw it, or an error for each that cannot be read.
    pub fn resources(&self) -> Vec<Arc<DeserializeGuard<FlinkDeployment>>> {
        self.context.deployments.all()
    }

    /// Returns every session job in scope as the watch last saw it; empty if the kind is not installed.
    pub fn session_jobs(&self) -> Vec<Arc<DeserializeGuard<FlinkSessionJob>>> {
        self.context.session_jobs.all()
    }

    /// Operates these namespaces and no others from now on. Resources in the others stay as they are.
    pub async fn watch(&self, watch: &Watch) -> Moved {
        let mut wanted = self.wanted.lock().await;
        wanted.watch = watch.clone();
        let scopes = wanted.scopes();
        let moved = self.scopes.set(&scopes).await;
        drop(wanted);
        for scope in scopes.iter().filter(|scope| moved.opened.contains(&shown(scope))) {
            self.report_unreadable(scope).await;
        }
        moved
    }

    /// Operates this part of the namespaces from now on. When it returns, passes in other namespaces have ended.
    pub async fn share(&self, part: Part) -> Moved {
        let mut wanted = self.wanted.lock().await;
        wanted.part = Some(part);
        self.scopes.set(&wanted.scopes()).await
    }

    /// Returns `true` if all namespaces of the cluster are watched, including future ones.
    pub async fn watches_all(&self) -> bool {
        self.wanted.lock().await.watch == Watch::AllNamespaces
    }

    /// Logs once why a scope cannot be read; the watch itself retries.
    async fn report_unreadable(&self, scope: &Scope) {
        let probe = controller::probe::<FlinkDeployment>(scope.as_deref(), &self.context);
        if let Ok(Err(error)) = tokio::time::timeout(PROBE_MAX, probe).await {
            let (scope, error) = (shown(scope), show(&error));
            tracing::error!(scope, error, "not operated until the operator can read it");
        }
    }

    /// Waits until the watches have completed their first lists.
    pub async fn ready(&self) {
        for (_, store) in self.context.deployments.stores() {
            // A store wakes only its last waiter, which may be its controller, so check repeatedly. An error means that
            // the task ended, which `stop` reports.
            while tokio::time::timeout(READY_POLL, store.wait_until_ready()).await.is_err() {}
        }
        for (scope, store) in self.context.session_jobs.stores() {
            let probe = controller::probe::<FlinkSessionJob>(scope.as_deref(), &self.context);
            // A kind that is not installed has nothing to list.
            if probe.await.is_ok() {
                while tokio::time::timeout(READY_POLL, store.wait_until_ready()).await.is_err() {}
            }
        }
    }

    /// Lets running passes finish, writes pending statuses and stops.
    pub async fn stop(mut self) {
        let _is_orderly = self.rest().await;
        self.report_the_rest().await;
    }

    /// Lets running passes finish and writes pending statuses. Whatever takes longer than
    /// `kubernetes.operator.termination.timeout` is dropped as in a crash; `false` is returned then, and one of its
    /// writes may still be in flight.
    pub async fn rest(&mut self) -> bool {
        self.stop.cancel();
        let end = Instant::now() + termination_timeout(&self.context);
        let mut is_orderly = self.scopes.finish(end).await;
        is_orderly &= finish(&mut self.tasks, end).await;
        if tokio::time::timeout_at(end, self.context.request_slots.finish()).await.is_err() {
            is_orderly = false;
            self.context.request_slots.abandon();
        }
        if tokio::time::timeout_at(end, self.context.autoscalers.finish()).await.is_err() {
            is_orderly = false;
            self.context.autoscalers.abandon();
        }
        let flushed = tokio::time::timeout(FLUSH_MAX, flush::<FlinkDeployment>(&self.context));
        let is_flushed = flushed.await.is_ok();
        if !is_orderly {
            tracing::warn!(
                "passes took too long and were dropped: the next operator continues them"
            );
        }
        is_orderly && is_flushed
    }

    /// Delivers pending events to listeners, for a limited time.
    pub async fn report_the_rest(self) {
        self.context.listeners.finish().await;
    }

    /// Drops all running work immediately.
    pub fn abandon(&mut self) {
        self.stop.cancel();
        self.scopes.abandon();
        for task in &self.tasks {
            task.abort();
        }
        self.context.request_slots.abandon();
        self.context.autoscalers.abandon();
    }
}

/// Wakes resources for which validators have answered.
async fn follow_verdicts(mut late: Receiver<Judged>, context: Arc<Context>) {
    while let Some(Judged { kind, namespace, name }) = late.recv().await {
        match kind {
            Kind::FlinkDeployment => context.deployments.wake(&namespace, &name),
            Kind::FlinkSessionJob => context.session_jobs.wake(&namespace, &name),
            Kind::FlinkStateSnapshot => context.snapshots.wake(&namespace, &name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARDS: u16 = 4;

    fn names() -> Vec<String> {
        (0..40).map(|number| format!("team-{number}")).collect()
    }

    fn scopes(watch: &Watch, held: &[u16]) -> BTreeSet<Scope> {
        let namespaces = names().into_iter().collect();
        let part = Part { shards: SHARDS, held: held.iter().copied().collect(), namespaces };
        Wanted { watch: watch.clone(), part: Some(part) }.scopes()
    }

    #[test]
    fn the_parts_of_all_shards_are_everything_and_have_nothing_in_common() {
        for watch in [Watch::AllNamespaces, Watch::Namespaces(names())] {
            let parts: Vec<BTreeSet<Scope>> =
                (0..SHARDS).map(|shard| scopes(&watch, &[shard])).collect();
            let together: BTreeSet<Scope> = parts.iter().flatten().cloned().collect();
            assert_eq!(together, names().into_iter().map(Some).collect());
            assert_eq!(parts.iter().map(BTreeSet::len).sum::<usize>(), together.len());
            assert_eq!(scopes(&watch, &[0, 1, 2, 3]), together);
            assert!(scopes(&watch, &[]).is_empty());
        }
    }

    #[test]
    fn who_shares_nothing_watches_what_is_asked_for() {
        let wanted = Wanted { watch: Watch::AllNamespaces, part: None };
        assert_eq!(wanted.scopes(), [None].into());
    }
}
