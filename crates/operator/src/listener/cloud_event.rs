//! The message to a listener, in the structured JSON form of `CloudEvents` 1.0.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use config::secret::hide_in_value;
use lifecycle::event::Event;

/// The resource that something happened to.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Subject {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) generation: Option<i64>,
}

/// Something that happened to a resource.
pub(crate) enum Happening<'a, S> {
    /// A Kubernetes event was recorded about it.
    Event(&'a Event),
    /// Its status was written.
    Status { previous: &'a S, current: &'a S },
    /// The operator has cleaned up after it and removes the finalizer.
    Deleted { last: &'a S },
}

/// The message to a listener.
#[derive(Clone, Debug, PartialEq)]
pub struct CloudEvent {
    body: Value,
}

impl CloudEvent {
    pub(super) fn new<S: Serialize>(
        subject: &Subject,
        happening: &Happening<'_, S>,
        now: Timestamp,
    ) -> Self {
        let (kind, mut data) = match happening {
            Happening::Event(event) => ("event", json!({"event": described(event)})),
            Happening::Status { previous, current } => {
                ("status", json!({"previousStatus": previous, "status": current}))
            }
            Happening::Deleted { last } => ("deleted", json!({"previousStatus": last})),
        };
        // A status contains whole specs.
        hide_in_value(&mut data, None);
        data["resource"] = json!(subject);
        let Subject { api_version, kind: resource, namespace, name, .. } = subject;
        let body = json!({
            "specversion": "1.0",
            "id": clients::flink::new_trigger_id(),
            "source": format!("/apis/{api_version}/namespaces/{namespace}/{resource}/{name}"),
            "type": format!("org.apache.flink.kubernetes.{kind}"),
            "subject": name,
            "time": now.to_string(),
            "datacontenttype": "application/json",
            "data": data,
        });
        Self { body }
    }

    /// Returns the whole event in JSON: `type`, `source`, `time`, and `data` with what happened.
    pub fn body(&self) -> &Value {
        &self.body
    }

    /// Returns the unique id of the event.
    pub fn id(&self) -> &str {
        self.body["id"].as_str().unwrap_or_default()
    }

    pub(super) fn text(&self) -> String {
        self.body.to_string()
    }
}

fn described(event: &Event) -> Value {
    let Event { is_warning, reason, component, message, key: _, annotations } = event;
    json!({
        "type": if *is_warning { "Warning" } else { "Normal" },
        "reason": reason,
        "component": component.into_str(),
        "message": message,
        "annotations": annotations,
    })
}
