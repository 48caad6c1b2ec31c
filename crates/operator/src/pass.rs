//! The frame of a pass over a resource of any kind: it provides the newest version, and handles errors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::core::error_boundary::InvalidObject;
use kube::{Resource, ResourceExt};
use tracing::Instrument as _;

use super::about;
use super::act;
use super::canary;
use super::context::{Context, now, resource_version};
use super::kind::{Guarded, Operated};
use super::listener::{Happening, Subject};
use super::observe::show;
use super::resource::{Act, note};
use api::API_VERSION;
use clients::cluster;
use clients::cluster::events::{self, EventRequest, EventType, Repeat};
use lifecycle::audit;
use lifecycle::event::{Component, Event};

/// How long the watch may lag behind our own writes before the resource is read instead.
const CACHE_LAG_MAX: Duration = Duration::from_millis(200);
const CACHE_LAG_STEP: Duration = Duration::from_millis(5);

/// First pause after an error, and the longest; each is half as long again as the one before.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_mins(5);
/// Longest pause while the API server does not answer: passes should resume soon after it is back.
const RETRY_UNREACHABLE_MAX: Duration = Duration::from_secs(5);

/// How long a pass keeps its slot while it waits for an API server that does not answer, and the pause after that.
const AWAY: Duration = Duration::from_secs(2);

/// Pause until a doubt is resolved.
const SUSPECT_PAUSE: Duration = Duration::from_millis(500);

/// Pause after a plan was carried out, until the status no longer shows what an earlier one stopped at.
const CARRIED_OUT: Duration = Duration::from_millis(500);

/// When to look at a resource again; `None` if only when something changes.
pub(super) type Again = Option<Duration>;

/// Why a pass did not complete.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the cluster cannot be observed")]
    Observe(#[source] cluster::Error),
    #[error("the plan stopped at an error")]
    Act(#[source] act::Error),
    #[error("the decision did not finish")]
    Undecided,
}

impl Error {
    /// Returns `true` if the API server did not answer at all, or cannot serve now.
    fn is_unreachable(&self) -> bool {
        match self {
            Self::Act(act::Error::Cluster(error)) | Self::Observe(error) => matches!(
                error,
                cluster::Error::Unreachable { .. } | cluster::Error::Unavailable { .. }
            ),
            Self::Act(_) | Self::Undecided => false,
        }
    }

    /// Returns `true` if someone else changed the resource, so that looking again at once helps.
    fn is_race(&self) -> bool {
        match self {
            Self::Act(
                act::Error::ClusterReplaced { .. } | act::Error::Raced | act::Error::StatusTaken,
            ) => true,
            Self::Act(act::Error::Cluster(error)) | Self::Observe(error) => {
                matches!(error, cluster::Error::Conflict { .. })
            }
            Self::Act(_) | Self::Undecided => false,
        }
    }
}

/// Observes, decides and acts once; returns when to look again.
pub(super) async fn reconcile<K: Operated>(
    resource: Arc<Guarded<K>>,
    context: Arc<Context>,
) -> Result<Again, Error> {
    let span = about::span(&K::kind(&()), resource.meta());
    run_pass(resource, context).instrument(span).await
}

async fn run_pass<K: Operated>(
    resource: Arc<Guarded<K>>,
    context: Arc<Context>,
) -> Result<Again, Error> {
    if !context.api_server_health.until_there(AWAY).await {
        return Ok(Some(AWAY));
    }
    let namespace = resource.namespace().unwrap_or_default();
    let about = format!("{} {namespace}/{}", K::kind(&()), resource.name_any());
    let _running = context.health.pass(about);
    if let Some(again) = canary::check(&resource, &context).await {
        return Ok(again);
    }
    let uid = resource.uid().unwrap_or_default();
    if context.etcd_restores.is_suspect(&uid) {
        // It was listed in an earlier form than was known; the true form is being looked up.
        return Ok(Some(SUSPECT_PAUSE));
    }
    let is_cleanup = resource.meta().deletion_timestamp.is_some();
    context.metrics.pass_begins(&uid, is_cleanup, now());
    let outcome = pass(&resource, &context).await;
    if matches!(&outcome, Err(error) if error.is_unreachable()) {
        context.api_server_health.suspect();
    }
    context.metrics.pass_ends(&uid, outcome.is_err(), now());
    outcome
}

async fn pass<K: Operated>(resource: &Guarded<K>, context: &Context) -> Result<Again, Error> {
    let newest = freshest(resource, context).await?;
    if context.etcd_restores.is_suspect(&resource.uid().unwrap_or_default()) {
        // The version that arrived meanwhile is an earlier form.
        return Ok(Some(SUSPECT_PAUSE));
    }
    match newest {
        Some(Ok(newest)) => {
            let (uid, generation) = (newest.uid().unwrap_or_default(), newest.meta().generation);
            let outcome = K::pass(newest, context).await;
            if let (Err(Error::Act(error)), Ok(known)) = (&outcome, &resource.0) {
                let has_lasted = error.is_reported_late()
                    && context.transient_failures.note(&uid, Instant::now());
                let is_reported = error.is_refusal() || has_lasted;
                if is_reported {
                    context.note_stop(&uid, generation, show(error));
                } else if !error.is_transient() {
                    context.forget_stop(&uid);
                }
                // A transient error is only logged, and a snapshot has an event of its own.
                let has_event = matches!(error, act::Error::Snapshot { .. });
                if !has_event && (is_reported || !error.is_transient()) {
                    report_failure(error, known, context).await;
                }
            }
            if outcome.is_ok() {
                context.transient_failures.forget(&uid);
            }
            if outcome.is_ok() && context.forget_stop(&uid) {
                // The status still shows what the previous plan stopped at.
                return outcome.map(|again| again.into_iter().chain([CARRIED_OUT]).min());
            }
            outcome
        }
        Some(Err(invalid)) => {
            report_unreadable::<K>(&invalid, context).await;
            Ok(None)
        }
        None => Ok(None),
    }
}

/// Returns the resource, at least as new as our own last write to it.
async fn freshest<K: Operated>(
    resource: &Guarded<K>,
    context: &Context,
) -> Result<Option<Result<K, InvalidObject>>, Error> {
    let kept = K::cache(context);
    let uid = resource.uid().unwrap_or_default();
    let Some(written) = kept.written(&uid) else { return Ok(Some(resource.0.clone())) };
    let namespace = resource.namespace().unwrap_or_default();
    let name = resource.name_any();
    let mut waited = Duration::ZERO;
    while waited <= CACHE_LAG_MAX {
        match kept.cached(&namespace, &name) {
            Some(seen) if seen.meta().uid.as_deref() != Some(&uid) => {
                kept.forget(&uid);
                return Ok(Some(seen.0.clone()));
            }
            Some(seen) if resource_version(seen.meta()) >= written.resource_version => {
                if written.pending.is_none() {
                    kept.forget(&uid);
                }
                return Ok(Some(seen.0.clone()));
            }
            Some(_) => {}
            None => break,
        }
        tokio::time::sleep(CACHE_LAG_STEP).await;
        waited += CACHE_LAG_STEP;
    }
    let found = cluster::read::get(&context.client, &namespace, &name).await;
    let found: Option<K> = found.map_err(Error::Observe)?;
    if found.is_none() {
        kept.forget(&uid);
    }
    Ok(found.map(Ok))
}

/// Reports to the user what a plan stopped at.
async fn report_failure<K: Operated>(error: &act::Error, resource: &K, context: &Context) {
    let (reason, component) = K::FAILURE;
    let event = Event::warning(reason, component, show(error));
    if let Err(error) = Act::new(context, resource.clone()).record_event(event).await {
        tracing::warn!(error = show(&error), "event not recorded");
    }
}

/// Reports that a resource cannot be read; it waits for a change.
async fn report_unreadable<K: Operated>(invalid: &InvalidObject, context: &Context) {
    let InvalidObject { error, metadata } = invalid;
    tracing::error!(error, "the resource cannot be read and is left alone");
    let event = Event::warning(
        "Unreadable",
        Component::Operator,
        format!("this operator version cannot read the resource: {error}"),
    );
    let kind = K::kind(&()).into_owned();
    let request = EventRequest {
        regarding: ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some(kind.clone()),
            name: metadata.name.clone(),
            namespace: metadata.namespace.clone(),
            uid: metadata.uid.clone(),
            ..ObjectReference::default()
        },
        event_type: EventType::Warning,
        reason: event.reason.to_owned(),
        component: event.component,
        message: event.message.clone(),
        key: None,
        repeat: Repeat::Once,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        now: Timestamp::now(),
    };
    let subject = || Subject {
        api_version: API_VERSION.to_owned(),
        kind,
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        generation: metadata.generation,
    };
    match events::record(&context.client, &request).await {
        Ok(true) => {
            note(&audit::of_event(&event));
            context.listeners.emit(subject, &Happening::<K::Status>::Event(&event));
        }
        Ok(false) => {}
        Err(error) => tracing::warn!(error = show(&error), "event not recorded"),
    }
}

/// Returns the pause before the next attempt of a pass that failed `failures` times in a row.
pub(super) fn retry_after(error: &Error, failures: u32) -> Duration {
    if error.is_race() && failures <= 3 {
        return Duration::from_millis(100);
    }
    let factor = 1.5_f64.powi(i32::try_from(failures.min(20)).unwrap_or(20) - 1);
    let longest = if error.is_unreachable() { RETRY_UNREACHABLE_MAX } else { RETRY_MAX };
    RETRY_MIN.mul_f64(factor.max(1.0)).min(longest)
}
