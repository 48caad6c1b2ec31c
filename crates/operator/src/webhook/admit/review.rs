//! A review as the API server sends it, and the parts of it that are examined.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Answer, Change, Malformed, Wanted};
use api::state_snapshot::{FlinkStateSnapshot, JobKind};
use api::{CANARY_LABEL, GROUP};
use config::json;
use validation::extension::subject;

/// The only version that exists.
pub(super) const API_VERSION: &str = "admission.k8s.io/v1";
pub(super) const KIND: &str = "AdmissionReview";
/// Stands for a name that the API server has yet to generate.
const NAME_TO_COME: &str = "name-to-come";
/// Maximum number of values in a body. Resources as large as etcd stores them have fewer; a body of nothing but
/// brackets and commas would take a hundred times its length in memory.
const VALUES_MAX: usize = 250_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Envelope {
    api_version: String,
    kind: String,
    request: Option<Request>,
}

/// The part of a request that is read; the API server may send more.
#[derive(Clone, Debug, Deserialize)]
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

#[derive(Clone, Debug, Deserialize)]
struct GroupKind {
    group: String,
    kind: String,
}

/// Kinds that are operated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Deployment,
    SessionJob,
    StateSnapshot,
    BlueGreen,
}

impl Kind {
    const ALL: [Self; 4] =
        [Self::Deployment, Self::SessionJob, Self::StateSnapshot, Self::BlueGreen];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "FlinkDeployment",
            Self::SessionJob => "FlinkSessionJob",
            Self::StateSnapshot => "FlinkStateSnapshot",
            Self::BlueGreen => "FlinkBlueGreenDeployment",
        }
    }
}

/// The API server's question about a change.
#[derive(Clone, Debug)]
pub struct Review(Request);

impl Review {
    /// # Errors
    /// If the body is not a review, or asks nothing.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        if json::count_values(body) > VALUES_MAX {
            return Err(Malformed::new(format!("it holds more than {VALUES_MAX} values")));
        }
        let Envelope { api_version, kind, request } =
            serde_json::from_slice(body).map_err(Malformed::new)?;
        if (api_version.as_str(), kind.as_str()) != (API_VERSION, KIND) {
            return Err(Malformed::new(format!("it is a `{kind}` of `{api_version}`")));
        }
        let request = request.ok_or_else(|| Malformed::new("it has no `request`"))?;
        let mut review = Self(request);
        review.name_what_has_none();
        Ok(review)
    }

    /// Sets a stand-in for a name that is yet to be generated, for code that expects a name.
    fn name_what_has_none(&mut self) {
        let metadata = self.0.object.get_mut("metadata").and_then(Value::as_object_mut);
        let Some(metadata) = metadata else { return };
        let name = metadata.get("name").and_then(Value::as_str);
        if name.is_none_or(str::is_empty) {
            metadata.insert("name".to_owned(), json!(NAME_TO_COME));
        }
    }

    pub fn uid(&self) -> &str {
        &self.0.uid
    }

    pub fn namespace(&self) -> &str {
        self.0.namespace.as_deref().unwrap_or_default()
    }

    /// Returns the object as it would be stored.
    pub(super) fn object(&self) -> &Value {
        &self.0.object
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        let GroupKind { group, kind } = &self.0.kind;
        Kind::ALL.into_iter().find(|known| group == GROUP && known.as_str() == kind)
    }

    /// Returns the job that a snapshot is taken of.
    pub fn job(&self) -> Option<(JobKind, &str)> {
        self.kind().filter(|kind| *kind == Kind::StateSnapshot)?;
        let reference = &self.0.object["spec"]["jobReference"];
        let kind = JobKind::deserialize(&reference["kind"]).ok()?;
        Some((kind, reference["name"].as_str().filter(|name| !name.is_empty())?))
    }

    /// Returns `true` for a change that is not examined: of a status, of a resource that is being deleted or gone, or
    /// of a canary, which the operator only uses to see that it is alive.
    fn is_exempt(&self) -> bool {
        let Request { sub_resource, operation, object, old_object, .. } = &self.0;
        let goes = |object: &Value| !object["metadata"]["deletionTimestamp"].is_null();
        let is_part = sub_resource.as_deref().is_some_and(|name| !name.is_empty());
        let is_write = ["CREATE", "UPDATE"].contains(&operation.as_str());
        let label = object["metadata"]["labels"][CANARY_LABEL].as_str();
        let is_canary = self.kind().is_some_and(|kind| api::is_canary(kind.as_str(), label));
        is_part || !is_write || goes(object) || goes(old_object) || is_canary
    }

    /// Returns the stored object, which alone is certain to have a status; before it is stored, the object that is
    /// sent.
    pub fn stored(&self) -> &Value {
        if self.0.old_object.is_null() { &self.0.object } else { &self.0.old_object }
    }

    /// Returns `true` if the spec is the stored one, so that no job is about to change.
    fn keeps_spec(&self) -> bool {
        let Request { operation, object, old_object, .. } = &self.0;
        operation == "UPDATE" && object.get("spec") == old_object.get("spec")
    }

    /// Returns the change to examine; `None` if the change is not examined here, for example because its kind is not
    /// operated.
    ///
    /// # Errors
    /// The answer, if the object cannot be read.
    pub fn change(mut self) -> Result<Option<Change>, Answer> {
        if self.is_exempt() || self.keeps_spec() {
            return Ok(None);
        }
        let Some(kind) = self.kind() else { return Ok(None) };
        let status = self.stored()["status"].clone();
        let object = std::mem::take(&mut self.0.object);
        let wanted = match kind {
            Kind::Deployment => {
                Wanted::Deployment(Box::new(typed(object)?), Box::new(lenient(&status)))
            }
            Kind::SessionJob => {
                Wanted::SessionJob(Box::new(typed(object)?), Box::new(lenient(&status)))
            }
            Kind::StateSnapshot => {
                let mut snapshot: Box<FlinkStateSnapshot> = Box::new(typed(object)?);
                snapshot.status = lenient(&status);
                Wanted::StateSnapshot(snapshot)
            }
            Kind::BlueGreen => {
                Wanted::BlueGreen(Box::new(typed(object)?), Box::new(lenient(&status)))
            }
        };
        Ok(Some(Change { namespace: self.0.namespace.unwrap_or_default(), wanted }))
    }

    /// Returns the object for mutators. A change that leaves the spec as it is is not for them: a new mutator would
    /// restart jobs that no one edited.
    pub fn mutable(&self) -> Option<(subject::Kind, &Value)> {
        if self.keeps_spec() {
            return None;
        }
        Some((self.kind()?.of_extensions()?, self.patchable()?))
    }

    /// Returns the object that a patch is created for.
    pub(super) fn patchable(&self) -> Option<&Value> {
        self.kind().filter(|_| !self.is_exempt())?;
        let object = &self.0.object;
        object.get("metadata")?.as_object().map(|_| object)
    }
}

/// Returns the object without its status, which is not part of a submission.
fn typed<T: DeserializeOwned>(mut object: Value) -> Result<T, Answer> {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    serde_path_to_error::deserialize(object).map_err(|error| {
        let path = error.path().to_string();
        Answer::refused(&path, error.into_inner().to_string())
    })
}

/// Returns the status, or the default: one that cannot be read is the operator's to report, and no reason to reject an
/// edit.
fn lenient<T: DeserializeOwned + Default>(status: &Value) -> T {
    T::deserialize(status).unwrap_or_default()
}
