//! A resource as validators and mutators see it.

use serde::Serialize;
use serde_json::{Value, json};

use api::API_VERSION;
use api::deployment::FlinkDeployment;
use api::reconciled::{ReconciledJob, ReconciledSpec};
use api::session_job::{FlinkSessionJob, SessionJobStatus};
use api::state_snapshot::FlinkStateSnapshot;
use api::status::DeploymentStatus;
use config::secret::hide_in_value;

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
        hide_in_value(&mut body, None);
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

#[cfg(test)]
mod tests;
