//! A resource as validators and mutators see it.

use serde::Serialize;
use serde_json::{Value, json};

use api::API_VERSION;
use api::deployment::FlinkDeployment;
use api::reconciled::{ReconciledJob, ReconciledSpec};
use api::session_job::{FlinkSessionJob, SessionJobStatus};
use api::state_snapshot::FlinkStateSnapshot;
use api::status::DeploymentStatus;
use config::secret::{HIDDEN, is_secret};

/// A copy of the whole object, written by kubectl.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Kinds that rules can be about.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum Kind {
    FlinkDeployment,
    FlinkSessionJob,
    FlinkStateSnapshot,
}

impl Kind {
    pub const ALL: [Self; 3] =
        [Self::FlinkDeployment, Self::FlinkSessionJob, Self::FlinkStateSnapshot];

    /// Returns the kind with this name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.into_str() == text)
    }
}

/// Objects that a rule may use. They have no status, which would contain copies of specs.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    pub kind: Kind,
    /// The resource as desired.
    pub object: Value,
    /// The resource with the last reconciled spec; `null` before the first deployment.
    pub old_object: Value,
    /// The session cluster of a session job if it is known; else `null`.
    pub session: Value,
}

impl Subject {
    /// Creates the subject of any resource from its manifest.
    pub fn new(kind: Kind, object: &Value) -> Self {
        Self { kind, object: bare(object.clone()), old_object: Value::Null, session: Value::Null }
    }

    pub fn of_deployment(resource: &FlinkDeployment, status: &DeploymentStatus) -> Self {
        let last = status.reconciliation_status.last_reconciled_spec.as_deref();
        let last = last.and_then(|text| ReconciledSpec::parse(text).ok());
        Self::new(Kind::FlinkDeployment, &value(resource))
            .with_old_spec(last.map(|last| value(&last.spec)))
    }

    pub fn of_session_job(
        resource: &FlinkSessionJob,
        status: &SessionJobStatus,
        session: Option<&FlinkDeployment>,
    ) -> Self {
        let last = status.reconciliation_status.last_reconciled_spec.as_deref();
        let last = last.and_then(|text| ReconciledJob::parse(text).ok());
        Self::new(Kind::FlinkSessionJob, &value(resource))
            .with_old_spec(last.map(|last| value(&last.spec)))
            .with_session(session.map(value))
    }

    pub fn of_snapshot(resource: &FlinkStateSnapshot) -> Self {
        Self::new(Kind::FlinkStateSnapshot, &value(resource))
    }

    /// Adds the last reconciled spec.
    #[must_use]
    pub fn with_old_spec(mut self, spec: Option<Value>) -> Self {
        if let Some(spec) = spec {
            let mut old = self.object.clone();
            old["spec"] = spec;
            self.old_object = old;
        }
        self
    }

    /// Adds the session cluster of a session job.
    #[must_use]
    pub fn with_session(mut self, session: Option<Value>) -> Self {
        self.session = session.map_or(Value::Null, bare);
        self
    }

    /// Returns the request that leaves this process, without values that may be secret.
    pub fn request(&self) -> Value {
        let mut body = json!({
            "apiVersion": API_VERSION,
            "kind": self.kind.into_str(),
            "object": self.object,
            "oldObject": self.old_object,
            "session": self.session,
        });
        hide_secrets(&mut body, None);
        body
    }
}

fn value<T: Serialize>(object: &T) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

/// Removes the status, and metadata about who wrote the object.
fn bare(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
        }
    }
    object
}

/// Hides values with secret keys: options, environment variables of pod templates, arguments, and anything in addresses
/// except host and path. Options may be nested: `path` is the key so far.
pub fn hide_secrets(value: &mut Value, path: Option<&str>) {
    match value {
        Value::Object(fields) => {
            let is_named_secret = fields.get("name").and_then(Value::as_str).is_some_and(is_secret);
            for (key, value) in fields.iter_mut() {
                let inner = path.map_or_else(|| key.clone(), |path| format!("{path}.{key}"));
                let is_option = path.is_some() || key == "flinkConfiguration";
                let is_hidden = (is_secret(&inner) && key != "secretName")
                    || (is_named_secret && key == "value");
                match value {
                    // Outside of options, a key with `secret` names a Secret.
                    Value::Object(_) | Value::Array(_) => {
                        let below = if path.is_some() { inner.as_str() } else { "" };
                        hide_secrets(value, is_option.then_some(below));
                    }
                    Value::Number(_) | Value::String(_) if is_hidden => *value = json!(HIDDEN),
                    Value::String(text) => hide_in_text(text),
                    Value::Null | Value::Bool(_) | Value::Number(_) => {}
                }
            }
        }
        Value::Array(items) => {
            let mut is_next_hidden = path.is_some_and(is_secret);
            for item in items {
                let Value::String(text) = item else {
                    hide_secrets(item, path);
                    continue;
                };
                // `--password` and its value are two arguments.
                let names_secret = text.starts_with('-') && !text.contains('=') && is_secret(text);
                if is_next_hidden && !names_secret {
                    HIDDEN.clone_into(text);
                } else {
                    hide_in_text(text);
                }
                is_next_hidden = names_secret || path.is_some_and(is_secret);
            }
        }
        Value::String(text) => hide_in_text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Hides secrets in `scheme://user:password@host/path?signature`, and in lines with `password=…`.
fn hide_in_text(text: &mut String) {
    if let Ok(mut url) = url::Url::parse(text)
        && (url.password().is_some() || url.query().is_some())
    {
        if url.password().is_some() && url.set_password(Some(HIDDEN)).is_err() {
            HIDDEN.clone_into(text);
            return;
        }
        if url.query().is_some() {
            url.set_query(Some(HIDDEN));
        }
        *text = url.into();
        return;
    }
    let has_secret = |line: &str| line.split_once('=').is_some_and(|(key, _)| is_secret(key));
    if text.lines().any(has_secret) {
        let shown = text.lines().map(|line| match line.split_once('=') {
            Some((key, _)) if is_secret(key) => format!("{key}={HIDDEN}"),
            Some(_) | None => line.to_owned(),
        });
        *text = shown.collect::<Vec<_>>().join("\n");
    }
}

#[cfg(test)]
mod tests;
