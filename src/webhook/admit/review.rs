//! A review as the API server sends it, and what of it is there to judge.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Answer, Change, Malformed, Wanted};
use crate::api::state_snapshot::FlinkStateSnapshot;
use crate::api::{CANARY_LABEL, GROUP};
use crate::decide::extension::subject;

/// The only version that there is.
pub(super) const API_VERSION: &str = "admission.k8s.io/v1";
pub(super) const KIND: &str = "AdmissionReview";
/// Stands for the name that the API server has yet to make up.
const NAME_TO_COME: &str = "name-to-come";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

/// The part of a request that is read; the API server may send more.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request {
    uid: String,
    kind: GroupKind,
    sub_resource: Option<String>,
    namespace: Option<String>,
    operation: String,
    #[serde(default)]
    object: Value,
    #[serde(default)]
    old_object: Value,
}

#[derive(Debug, Deserialize)]
struct GroupKind {
    group: String,
    kind: String,
}

/// Kinds that are judged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Deployment,
    SessionJob,
    StateSnapshot,
    BlueGreenDeployment,
}

impl Kind {
    const ALL: [Self; 4] =
        [Self::Deployment, Self::SessionJob, Self::StateSnapshot, Self::BlueGreenDeployment];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "FlinkDeployment",
            Self::SessionJob => "FlinkSessionJob",
            Self::StateSnapshot => "FlinkStateSnapshot",
            Self::BlueGreenDeployment => "FlinkBlueGreenDeployment",
        }
    }
}

/// What the API server asks about.
#[derive(Debug)]
pub struct Review(Request);

impl Review {
    /// # Errors
    /// When the body is no review, or asks nothing.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let Envelope { api_version, kind, request } =
            serde_json::from_slice(body).map_err(Malformed::new)?;
        if (api_version.as_str(), kind.as_str()) != (API_VERSION, KIND) {
            return Err(Malformed::new(format!("it is a `{kind}` of `{api_version}`")));
        }
        request.map(Self).ok_or_else(|| Malformed::new("it has no `request`"))
    }

    pub fn uid(&self) -> &str {
        &self.0.uid
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        let GroupKind { group, kind } = &self.0.kind;
        Kind::ALL.into_iter().find(|known| group == GROUP && known.as_str() == kind)
    }

    /// What is nobody's to judge or change: statuses, what goes or is gone, and canaries, which the
    /// operator only uses to see that it is alive.
    fn is_exempt(&self) -> bool {
        let Request { sub_resource, operation, object, old_object, .. } = &self.0;
        let goes = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let is_part = sub_resource.as_deref().is_some_and(|name| !name.is_empty());
        let is_write = ["CREATE", "UPDATE"].contains(&operation.as_str());
        let canary = object["metadata"]["labels"][CANARY_LABEL].as_str();
        let is_canary = canary.is_some_and(|value| value.eq_ignore_ascii_case("true"));
        is_part || !is_write || goes(object) || goes(old_object) || is_canary
    }

    /// Whether the spec is the one that is stored, so that nobody's job is about to change.
    fn keeps_spec(&self) -> bool {
        let Request { operation, object, old_object, .. } = &self.0;
        operation == "UPDATE" && object.get("spec") == old_object.get("spec")
    }

    /// What there is to judge; nothing where the change is none of anybody's business.
    ///
    /// # Errors
    /// The answer, where the object cannot be read.
    pub fn change(&self) -> Result<Option<Change>, Answer> {
        if self.is_exempt() || self.keeps_spec() {
            return Ok(None);
        }
        let GroupKind { group, kind } = &self.0.kind;
        let Some(known) = self.kind() else {
            let message =
                format!("`{kind}` of `{group}` is none of the kinds that the operator knows");
            return Err(Answer::refused("kind", message));
        };
        let Request { namespace, object, old_object, .. } = &self.0;
        let stored = if old_object.is_null() { object } else { old_object };
        let status = &stored["status"];
        let wanted = match known {
            Kind::Deployment => {
                Wanted::Deployment(Box::new(typed(object)?), Box::new(lenient(status)))
            }
            Kind::SessionJob => {
                Wanted::SessionJob(Box::new(typed(object)?), Box::new(lenient(status)))
            }
            Kind::StateSnapshot => {
                let mut snapshot: Box<FlinkStateSnapshot> = Box::new(typed(object)?);
                snapshot.status = lenient(status);
                Wanted::StateSnapshot(snapshot)
            }
            Kind::BlueGreenDeployment => Wanted::BlueGreenDeployment(Box::new(typed(object)?)),
        };
        Ok(Some(Change { namespace: namespace.clone().unwrap_or_default(), wanted }))
    }

    /// What mutators are asked about. A change that leaves the spec as it is is not for them: a new
    /// mutator would restart what nobody edited.
    pub fn mutable(&self) -> Option<(subject::Kind, Value)> {
        if self.keeps_spec() {
            return None;
        }
        Some((self.kind()?.of_extensions()?, self.patchable()?))
    }

    /// The object that a patch is made for; one whose name is yet to come has a stand-in.
    pub(super) fn patchable(&self) -> Option<Value> {
        self.kind().filter(|_| !self.is_exempt())?;
        let mut object = self.0.object.clone();
        let metadata = object.get_mut("metadata")?.as_object_mut()?;
        let has_name =
            metadata.get("name").and_then(Value::as_str).is_some_and(|it| !it.is_empty());
        if !has_name {
            metadata.insert("name".to_owned(), json!(NAME_TO_COME));
        }
        Some(object)
    }
}

/// The object without its status, which is not what is handed in.
fn typed<T: DeserializeOwned>(object: &Value) -> Result<T, Answer> {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    serde_path_to_error::deserialize(object).map_err(|error| {
        let path = error.path().to_string();
        Answer::refused(&path, error.into_inner().to_string())
    })
}

/// A status that cannot be read is the operator's to tell, and no reason to refuse an edit.
fn lenient<T: DeserializeOwned + Default>(status: &Value) -> T {
    T::deserialize(status).unwrap_or_default()
}
