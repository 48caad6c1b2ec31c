//! Kubernetes events of the operator, named so that they continue those of the Java operator.
//!
//! The name is a hash of the object and the message, so the same message again raises a count instead of adding an
//! object. Rule: `EventUtils.generateEventName` of the Flink Kubernetes operator.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde_json::json;

use super::apply::OPERATOR_MANAGER;
use super::{Error, Result};
use config::secret::{hide_in, hide_in_document};
use lifecycle::event::Component;

/// Maximum length of a message in characters; longer ones are cut.
const MESSAGE_LIMIT: usize = 4096;
/// Maximum number of events read of one object; the API server drops them after an hour.
const EVENTS_MAX: u32 = 1000;
/// Number of attempts if another write of the same event comes first.
const ATTEMPTS: usize = 3;

/// The type of an event: success or failure.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq, strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum EventType {
    Normal,
    Warning,
}

/// What happens if an event of the same name exists.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Repeat {
    /// Raises the count and updates time and message.
    #[default]
    Count,
    /// Changes nothing.
    Once,
}

/// An event to record about an object.
#[derive(Clone, Debug)]
pub struct EventRequest {
    /// The object, with its uid.
    pub regarding: ObjectReference,
    pub event_type: EventType,
    pub reason: String,
    pub component: Component,
    pub message: String,
    /// Replaces the message in the name, for messages that vary.
    pub key: Option<String>,
    pub repeat: Repeat,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub now: Timestamp,
}

impl EventRequest {
    /// Returns an event about `object` without key, labels and annotations, counted when it repeats.
    pub fn about<K: Resource<DynamicType = ()>>(
        object: &K,
        event_type: EventType,
        component: Component,
        reason: impl Into<String>,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        Self {
            regarding: object.object_ref(&()),
            event_type,
            reason: reason.into(),
            component,
            message: message.into(),
            key: None,
            repeat: Repeat::default(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            now,
        }
    }

    /// Returns what is published of the event.
    fn without_secrets(&self) -> Self {
        let mut shown = self.clone();
        shown.message = hide_in_document(&shown.message);
        for value in shown.annotations.values_mut() {
            *value = hide_in(value);
        }
        shown
    }

    /// Returns `<component>.<hash>`.
    pub fn name(&self) -> String {
        let text = [
            self.reason.as_str(),
            self.key.as_deref().unwrap_or(&self.message),
            self.event_type.into_str(),
            self.regarding.kind.as_deref().unwrap_or_default(),
            self.regarding.name.as_deref().unwrap_or_default(),
            self.regarding.uid.as_deref().unwrap_or_default(),
        ]
        .concat();
        format!("{}.{}", self.component.into_str(), java_hash(&text) & i32::MAX)
    }
}

/// Computes `java.lang.String.hashCode`: over UTF-16 units, wrapping.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16()
        .fold(0, |hash: i32, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// Returns the events about an object, oldest first; at most the newest thousand that the API server returns.
pub async fn about(client: &Client, namespace: &str, kind: &str, name: &str) -> Result<Vec<Event>> {
    let fields = format!("involvedObject.kind={kind},involvedObject.name={name}");
    of(client, namespace, &fields, |about| {
        about.kind.as_deref() == Some(kind) && about.name.as_deref() == Some(name)
    })
    .await
}

/// Returns the events about objects with these names and about the ReplicaSets and pods created for them, whose names
/// begin with theirs. Oldest first.
pub async fn around(client: &Client, namespace: &str, names: &[&str]) -> Result<Vec<Event>> {
    of(client, namespace, "", |about| {
        let about = about.name.as_deref().unwrap_or_default();
        names.iter().any(|name| {
            about.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
    })
    .await
}

/// Lists the events that `fields` select and `is_meant` confirms.
async fn of(
    client: &Client,
    namespace: &str,
    fields: &str,
    is_meant: impl Fn(&ObjectReference) -> bool,
) -> Result<Vec<Event>> {
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    let mut params = ListParams::default().limit(EVENTS_MAX);
    if !fields.is_empty() {
        params = params.fields(fields);
    }
    let mut events = api.list(&params).await?.items;
    events.retain(|event| is_meant(&event.involved_object));
    events.sort_by_key(last_seen);
    Ok(events)
}

/// Returns when the event was last reported.
pub fn last_seen(event: &Event) -> Option<Timestamp> {
    let micro = event.event_time.as_ref().map(|at| at.0);
    let series = event.series.as_ref().and_then(|it| it.last_observed_time.as_ref()).map(|at| at.0);
    let times = [event.last_timestamp.as_ref().map(|at| at.0), series, micro];
    let created = event.metadata.creation_timestamp.as_ref().map(|at| at.0);
    times.into_iter().flatten().max().or(created)
}

/// Creates the event, or counts it if it exists; returns whether it did either. May be called again after any failure.
///
/// Events are a courtesy: if RBAC forbids them, that is logged and nothing fails.
pub async fn record(client: &Client, request: &EventRequest) -> Result<bool> {
    match create_or_count(client, request).await {
        Err(error @ Error::Forbidden { .. }) => {
            tracing::debug!(%error, reason = request.reason, "event not recorded");
            Ok(false)
        }
        // The namespace is being deleted, and its events with it.
        Err(Error::NotFound { .. } | Error::Rejected { .. }) => Ok(false),
        other => other,
    }
}

async fn create_or_count(client: &Client, request: &EventRequest) -> Result<bool> {
    let request = &request.without_secrets();
    let namespace = request.regarding.namespace.as_deref().unwrap_or("default");
    let events: Api<Event> = Api::namespaced(client.clone(), namespace);
    let event = new_event(request, namespace);
    let name = request.name();
    for _ in 0..ATTEMPTS {
        match events.create(&PostParams::default(), &event).await.map_err(Error::from) {
            Ok(_) => return Ok(true),
            Err(Error::AlreadyExists { .. }) if request.repeat == Repeat::Once => return Ok(false),
            Err(Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
        let existing = match events.get(&name).await.map_err(Error::from) {
            Ok(existing) => existing,
            // It expired between the two calls.
            Err(Error::NotFound { .. }) => continue,
            Err(error) => return Err(error),
        };
        let patch = json!({
            "metadata": {"resourceVersion": existing.metadata.resource_version},
            "count": existing.count.unwrap_or(1).saturating_add(1),
            "lastTimestamp": Time(request.now),
            "message": cut(&request.message),
        });
        let params = PatchParams {
            field_manager: Some(OPERATOR_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        match events.patch(&name, &params, &Patch::Merge(&patch)).await.map_err(Error::from) {
            Ok(_) => return Ok(true),
            Err(Error::Conflict { .. } | Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    tracing::debug!(name, "event not counted: others keep changing it");
    Ok(false)
}

fn new_event(request: &EventRequest, namespace: &str) -> Event {
    let some = |map: &BTreeMap<String, String>| (!map.is_empty()).then(|| map.clone());
    Event {
        metadata: ObjectMeta {
            name: Some(request.name()),
            namespace: Some(namespace.to_owned()),
            labels: some(&request.labels),
            annotations: some(&request.annotations),
            ..ObjectMeta::default()
        },
        involved_object: request.regarding.clone(),
        type_: Some(request.event_type.into_str().to_owned()),
        reason: Some(request.reason.clone()),
        message: Some(cut(&request.message)),
        count: Some(1),
        first_timestamp: Some(Time(request.now)),
        last_timestamp: Some(Time(request.now)),
        source: Some(EventSource {
            component: Some(request.component.into_str().to_owned()),
            host: None,
        }),
        ..Event::default()
    }
}

fn cut(message: &str) -> String {
    message.chars().take(MESSAGE_LIMIT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_javas() {
        // Values of `"…".hashCode()` in Java 17; the last text has characters outside the BMP.
        assert_eq!(java_hash(""), 0);
        assert_eq!(java_hash("hello"), 99_162_322);
        assert_eq!(java_hash("polygenelubricants"), i32::MIN);
        assert_eq!(java_hash("😀"), 1_772_899);
    }

    #[test]
    fn name_never_has_a_sign() {
        let request = EventRequest {
            regarding: ObjectReference::default(),
            event_type: EventType::Normal,
            reason: String::new(),
            component: Component::Job,
            message: String::new(),
            key: Some("polygenelubricants".to_owned()),
            repeat: Repeat::Once,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            now: Timestamp::UNIX_EPOCH,
        };
        let name = request.name();
        assert!(name.starts_with("Job.") && !name.contains('-'), "{name}");
    }
}
