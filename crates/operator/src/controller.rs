//! The controller of one kind in one scope: its watch, its wakes and its pauses after errors.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::{FutureExt, StreamExt, TryStreamExt};
use kube::api::{Api, ListParams};
use kube::runtime::controller::Config;
use kube::runtime::reflector::ObjectRef;
use kube::runtime::{Controller, PredicateConfig, WatchStreamExt, predicates, reflector, watcher};
use kube::{Resource, ResourceExt};
use tokio::task::JoinHandle;

use super::about;
use super::context::{Context, now, resource_version};
use super::etcd_restore;
use super::failures::Failures;
use super::kind::{Feed, Guarded, Operated, Sight, woken};
use super::observe::show;
use super::pass::{self, Again, reconcile, retry_after};
use super::request_slots::{Cancellation, PassRun};
use super::resource::Act;
use super::unlisted::Unlisted;
use super::watching;
use api::is_paused;
use clients::cluster;
use config::options;
use metrics::Sighting;

/// Number of concurrent passes of one kind and scope if none is configured, or no limit.
const CONCURRENCY: u16 = 50;
/// How often to check for a kind that is not installed.
const PROBE_INTERVAL: Duration = Duration::from_secs(30);

/// The settings that the controllers of one operator start with.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) context: Arc<Context>,
    /// Restricts the controllers to resources with these labels.
    pub(super) label_selector: Option<String>,
    /// Maximum number of concurrent passes of one kind and scope.
    pub(super) concurrency: u16,
    pub(super) cancellation: Cancellation,
}

/// Runs the controller of a kind until it is stopped, once the API server has the kind.
pub(super) fn spawn<K: Operated>(feed: Feed<K>, settings: Settings) -> JoinHandle<()> {
    tokio::spawn(async move {
        let scope = feed.namespace.as_deref().unwrap_or("all namespaces");
        let name = format!("{} in {scope}", K::kind(&()));
        let stop = settings.cancellation.stop.clone();
        let _watched = settings.context.health.worker(name, stop.clone());
        tokio::select! {
            () = stop.cancelled() => return,
            () = wait_until_served::<K>(feed.namespace.as_deref(), &settings.context) => {}
        }
        run(feed, settings).await;
    })
}

async fn run<K: Operated>(feed: Feed<K>, settings: Settings) {
    let Feed { namespace, store, writer, wakes, is_listed } = feed;
    let Settings { context, label_selector, concurrency, cancellation } = settings;
    let mut config = watching::config();
    if let Some(selector) = &label_selector {
        config = config.labels(selector);
    }
    let api: Api<Guarded<K>> = api(&context, namespace.as_deref());
    let (seen_by, scope) = (Arc::clone(&context), namespace.clone());
    let compared_by = Arc::clone(&context);
    let seen = watching::watch(api, config, context.etcd_restores.follow())
        .modify(drop_unread_fields)
        // Before the store has the event: afterwards it no longer knows the previous version.
        .inspect_ok(move |event| note_rewind(event, &compared_by));
    let (mut unlisted, listed) = (Unlisted::new(), store.clone());
    let stream = reflector(writer, seen)
        .inspect_ok(move |event| {
            notify_others(event, &seen_by);
            for gone in unlisted.follow(event, &listed) {
                lose_sight(&gone, &seen_by);
                // Another resource of this name has been created since.
                if let Some(present) = listed.get(&ObjectRef::from_obj(&*gone)) {
                    K::seen(&present, Sight::There, &seen_by);
                }
            }
            count(event, scope.as_deref(), &seen_by);
            if matches!(event, watcher::Event::InitDone) {
                is_listed.store(true, Ordering::Relaxed);
            }
        })
        .applied_objects()
        .predicate_filter(wake_hash, PredicateConfig::default());
    let failures = Arc::new(Failures::of(store.clone()));
    let (stop, seen) = (cancellation.stop.clone(), store.clone());
    // A controller waits for its first list before anything else, which never comes if it may not list. It has not
    // begun a pass by then, so nothing is cut off.
    let has_nothing = async move {
        stop.cancelled().await;
        if seen.wait_until_ready().now_or_never().is_some() {
            std::future::pending::<()>().await;
        }
    };
    let work = Controller::for_stream(stream, store)
        .with_config(Config::default().concurrency(concurrency))
        .reconcile_on(woken(wakes))
        .graceful_shutdown_on(cancellation.stop.clone().cancelled_owned())
        .run(
            move |resource: Arc<Guarded<K>>, context: Arc<Context>| {
                let (failures, of) = (Arc::clone(&failures), Arc::clone(&resource));
                let run = PassRun {
                    pass: reconcile(Arc::clone(&resource), Arc::clone(&context)),
                    end: move |ended| again(ended, &of, &failures),
                    resource,
                    context: Arc::clone(&context),
                    cancellation: cancellation.clone(),
                };
                async move { Ok::<_, Infallible>(context.request_slots.run(run).await) }
            },
            |_, never, _| match *never {},
            context,
        )
        .for_each(|_| std::future::ready(()));
    tokio::select! {
        () = work => {}
        () = has_nothing => {}
    }
}

/// Returns `kubernetes.operator.reconcile.parallelism`. `-1` requests no limit, but then the objects of thousands of
/// passes would be in memory at the same time.
pub(super) fn concurrency(context: &Context) -> u16 {
    let configured = context.operator().base.get(&options::RECONCILE_PARALLELISM);
    let configured = configured.ok().and_then(|number| u16::try_from(number).ok());
    configured.filter(|number| *number > 0).unwrap_or(CONCURRENCY)
}

/// Returns the API of a kind in a scope.
pub(super) fn api<K>(context: &Context, namespace: Option<&str>) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    match namespace {
        Some(namespace) => Api::namespaced(context.client.clone(), namespace),
        None => Api::all(context.client.clone()),
    }
}

/// Waits until the kind can be watched. Keeps checking for one that is not installed or not readable, so that the
/// operator need not be restarted when it becomes available.
async fn wait_until_served<K: Operated>(namespace: Option<&str>, context: &Context) {
    let kind = K::kind(&());
    let mut is_reported = false;
    let mut soon = watching::PAUSE_MIN;
    while !K::cache(context).is_served() {
        let Err(error) = probe::<K>(namespace, context).await else { break };
        let is_answer = matches!(
            error,
            cluster::Error::KindMissing { .. }
                | cluster::Error::NotFound { .. }
                | cluster::Error::Forbidden { .. }
                | cluster::Error::Unauthorized { .. }
        );
        let look_again = if is_answer { PROBE_INTERVAL } else { soon };
        soon = (soon * 2).min(watching::PAUSE_MAX);
        if !is_reported {
            is_reported = true;
            tracing::warn!(
                kind = &*kind,
                error = show(&error),
                ?look_again,
                "this kind is not operated until the operator can read it"
            );
        }
        tokio::time::sleep(look_again).await;
    }
    if is_reported {
        tracing::info!(kind = &*kind, "this kind is operated from now on");
    }
    K::cache(context).set_served();
}

/// Checks that the API server permits listing the kind.
pub(super) async fn probe<K: Operated>(
    namespace: Option<&str>,
    context: &Context,
) -> cluster::Result<()> {
    api::<Guarded<K>>(context, namespace).list(&ListParams::default().limit(1)).await?;
    Ok(())
}

/// Returns a hash of what wakes the resource when it changes. The status is left out, because the operator writes it.
fn wake_hash<K: Operated>(resource: &Guarded<K>) -> Option<u64> {
    let generation = predicates::generation(resource)?;
    let finalizers = predicates::finalizers(resource).unwrap_or_default();
    let labels = predicates::labels(resource).unwrap_or_default();
    let deletion = u64::from(resource.meta().deletion_timestamp.is_some());
    let pause = u64::from(is_paused(resource.meta()));
    let flags = deletion << 63 | pause << 62;
    Some(generation ^ finalizers.rotate_left(21) ^ labels.rotate_left(42) ^ flags)
}

pub(super) fn notify_others<K: Operated>(event: &watcher::Event<Guarded<K>>, context: &Context) {
    match event {
        watcher::Event::Apply(resource) => {
            context.etcd_restores.saw(resource_version(resource.meta()));
            K::seen(resource, Sight::There, context);
        }
        watcher::Event::InitApply(resource) => K::seen(resource, Sight::There, context),
        watcher::Event::Delete(resource) => forget(resource, context),
        watcher::Event::Init | watcher::Event::InitDone => {}
    }
}

/// Forgets everything about a resource that is gone.
fn forget<K: Operated>(resource: &Guarded<K>, context: &Context) {
    context.forget(&resource.uid().unwrap_or_default());
    lose_sight(resource, context);
    // Without a finalizer, no pass reports its end. With a label selector, a resource that lost its label looks the
    // same.
    if K::FINALIZER.is_none()
        && !context.is_selective
        && let Ok(gone) = &resource.0
    {
        let act = Act::new(context, gone.clone());
        about::span(&K::kind(&()), resource.meta()).in_scope(|| act.report_end());
    }
}

/// Handles a resource that a new list does not show. The list may be an old one, so whatever a pass may need to know if
/// the resource comes back is kept.
fn lose_sight<K: Operated>(resource: &Guarded<K>, context: &Context) {
    let uid = resource.uid().unwrap_or_default();
    context.validators.forget(&uid);
    context.health.forget_canary(&uid);
    K::seen(resource, Sight::Gone, context);
}

/// Updates the metrics from an event of the watch.
fn count<K: Operated>(event: &watcher::Event<Guarded<K>>, scope: Option<&str>, context: &Context) {
    let metrics = &context.metrics;
    match event {
        watcher::Event::Init => metrics.list_begins(K::KIND, scope),
        watcher::Event::InitDone => metrics.list_ends(K::KIND, scope, now()),
        watcher::Event::Delete(resource) => {
            metrics.gone(resource.meta().uid.as_deref().unwrap_or_default(), now());
        }
        watcher::Event::Apply(resource) | watcher::Event::InitApply(resource) => {
            // A resource that cannot be read counts as what it was before, until the next list.
            let Ok(resource) = &resource.0 else { return };
            let metadata = resource.meta();
            let of = || Sighting {
                uid: metadata.uid.as_deref().unwrap_or_default(),
                namespace: metadata.namespace.as_deref().unwrap_or_default(),
                name: metadata.name.as_deref().unwrap_or_default(),
                version: resource_version(metadata),
                created: metadata.creation_timestamp.as_ref().map(|time| time.0),
                facts: resource.facts(resource.status().unwrap_or(&K::Status::default())),
            };
            metrics.see(of, now());
        }
    }
}

/// Compares what a watch shows, in its list or after it, with what was known before.
fn note_rewind<K: Operated>(event: &watcher::Event<Guarded<K>>, context: &Context) {
    let (watcher::Event::Apply(listed) | watcher::Event::InitApply(listed)) = event else { return };
    let (namespace, name) = (listed.namespace().unwrap_or_default(), listed.name_any());
    let Some(known) = K::cache(context).cached(&namespace, &name) else { return };
    if !etcd_restore::is_earlier(listed, &known) {
        return;
    }
    let went_back = match (&listed.0, &known.0) {
        (Ok(listed), Ok(known)) => K::went_back(known, listed),
        (Ok(_) | Err(_), _) => None,
    };
    if !context.etcd_restores.is_comparing() {
        context.etcd_restores.suspect(&known, went_back);
    } else if let Some(went_back) = went_back {
        tracing::error!(namespace, name, "{}", went_back.message);
        context.etcd_restores.note(&listed.uid().unwrap_or_default(), went_back);
    }
}

fn drop_unread_fields<K: Operated>(resource: &mut Guarded<K>) {
    let metadata = resource.meta_mut();
    metadata.managed_fields = None;
    if let Some(annotations) = &mut metadata.annotations {
        annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    }
}

/// Returns when to look again after a pass with this result.
fn again<K: Operated>(
    ended: Result<Again, pass::Error>,
    resource: &Guarded<K>,
    failures: &Failures<K>,
) -> Again {
    match ended {
        Ok(again) => {
            failures.end(resource);
            again
        }
        Err(error) => Some(pause(resource, &error, failures.add(resource))),
    }
}

fn pause<K: Operated>(resource: &Guarded<K>, error: &pass::Error, count: u32) -> Duration {
    let after = retry_after(error, count);
    tracing::warn!(
        kind = &*K::kind(&()),
        namespace = resource.namespace(),
        name = resource.name_any(),
        generation = resource.meta().generation,
        error = show(error),
        again_in = ?after,
        "not reconciled"
    );
    after
}
