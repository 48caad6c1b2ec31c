//! Writes: server-side apply, create, patch, delete, and the status subresource.

use http::HeaderValue;
use http::header::ACCEPT;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{
    Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions,
    PropagationPolicy, ValidationDirective,
};
use kube::core::{ApiResource, GroupVersionKind, PartialObjectMeta, Request};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Error, Result};

/// Field manager of changes that a person makes with this program.
pub const CLI_MANAGER: &str = "kubectl-flink";
/// Field manager of the operator.
pub const OPERATOR_MANAGER: &str = "kubectl-flink-operator";

/// Makes the API server return only the metadata. Writing and reading the rest is most of the work of a response.
const METADATA_ONLY: HeaderValue =
    HeaderValue::from_static("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1");

/// Identifies an object.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub struct ObjectId {
    pub api_version: String,
    pub kind: String,
    /// `None` for cluster-scoped kinds.
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectId {
    /// Returns the id of a namespaced object of a kind known at compile time.
    pub fn of<K: Resource<DynamicType = ()>>(namespace: &str, name: &str) -> Self {
        Self {
            api_version: K::api_version(&()).into_owned(),
            kind: K::kind(&()).into_owned(),
            namespace: Some(namespace.to_owned()),
            name: name.to_owned(),
        }
    }

    /// Returns the id of the object that a manifest describes.
    pub fn in_manifest(object: &Value) -> Result<Self> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let missing = |field: &str| Error::Invalid {
            message: format!("the object has no `{field}`"),
            causes: Vec::new(),
        };
        Ok(Self {
            api_version: text("/apiVersion").ok_or_else(|| missing("apiVersion"))?,
            kind: text("/kind").ok_or_else(|| missing("kind"))?,
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name").ok_or_else(|| missing("metadata.name"))?,
        })
    }

    /// Returns the API of the object's kind and namespace.
    pub(super) fn api(&self, client: &Client) -> Api<DynamicObject> {
        let (group, version) = self.api_version.split_once('/').unwrap_or(("", &self.api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &self.kind));
        match &self.namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        }
    }

    /// Returns the path of all objects of its kind and namespace.
    fn path(&self, client: &Client) -> String {
        self.api(client).resource_url().to_owned()
    }
}

/// Who makes a write, and with which options.
#[derive(Clone, Copy, Debug)]
pub struct Writer<'a> {
    /// Field manager that owns the written fields.
    pub manager: &'a str,
    /// Take fields from other managers. Only for objects that the operator owns.
    pub is_forced: bool,
    /// Let the API server validate the write without storing it.
    pub is_dry_run: bool,
    /// Reject fields that the schema does not know, which are otherwise dropped silently.
    pub is_strict: bool,
}

impl Writer<'static> {
    /// The operator, on objects it owns.
    pub const OPERATOR: Self =
        Self { manager: OPERATOR_MANAGER, is_forced: true, is_dry_run: false, is_strict: false };
    /// A person, on objects that others may manage too.
    pub const CLI: Self =
        Self { manager: CLI_MANAGER, is_forced: false, is_dry_run: false, is_strict: true };
}

impl Writer<'_> {
    fn post(self) -> PostParams {
        PostParams { dry_run: self.is_dry_run, field_manager: Some(self.manager.to_owned()) }
    }

    fn patch(self) -> PatchParams {
        PatchParams {
            dry_run: self.is_dry_run,
            field_manager: Some(self.manager.to_owned()),
            field_validation: self.is_strict.then_some(ValidationDirective::Strict),
            ..PatchParams::default()
        }
    }
}

/// Applies a manifest with `apiVersion`, `kind` and name server-side; returns the stored object.
pub async fn apply(client: &Client, object: &Value, writer: Writer<'_>) -> Result<Value> {
    let id = ObjectId::in_manifest(object)?;
    let params = PatchParams { force: writer.is_forced, ..writer.patch() };
    let stored = id.api(client).patch(&id.name, &params, &Patch::Apply(object)).await?;
    to_value(&stored)
}

/// Applies a typed object server-side.
///
/// Kubernetes types carry `apiVersion` and `kind` when they are serialised, so nothing else is needed.
pub async fn apply_typed<K>(client: &Client, object: &K, writer: Writer<'_>) -> Result<K>
where
    K: Serialize + DeserializeOwned,
{
    from_value(apply(client, &to_value(object)?, writer).await?)
}

/// Creates an object that must not exist yet; returns its stored metadata.
pub async fn create(client: &Client, object: &Value, writer: Writer<'_>) -> Result<ObjectMeta> {
    let path = ObjectId::in_manifest(object)?.path(client);
    let request = Request::new(path).create(&writer.post(), to_bytes(object)?);
    metadata_after(client, request).await
}

/// Replaces a whole object. With `metadata.resourceVersion`, only if no one else has written it meanwhile.
pub async fn replace(client: &Client, object: &Value, writer: Writer<'_>) -> Result<Value> {
    let id = ObjectId::in_manifest(object)?;
    let object: DynamicObject = from_value(object.clone())?;
    to_value(&id.api(client).replace(&id.name, &writer.post(), &object).await?)
}

/// Applies a JSON merge patch. With `metadata.resourceVersion` in the patch, a stale write is a conflict.
pub async fn merge_patch(
    client: &Client,
    id: &ObjectId,
    patch: &Value,
    writer: Writer<'_>,
) -> Result<Value> {
    to_value(&id.api(client).patch(&id.name, &writer.patch(), &Patch::Merge(patch)).await?)
}

/// Applies a JSON merge patch like [`merge_patch`]; returns the stored metadata.
pub async fn amend(
    client: &Client,
    id: &ObjectId,
    patch: &Value,
    writer: Writer<'_>,
) -> Result<ObjectMeta> {
    let api = id.api(client);
    Ok(api.patch_metadata(&id.name, &writer.patch(), &Patch::Merge(patch)).await?.metadata)
}

/// Replaces the finalizers of the object as it was read; returns its stored metadata.
pub async fn set_finalizers<K>(
    client: &Client,
    object: &K,
    finalizers: &[String],
) -> Result<ObjectMeta>
where
    K: Resource<DynamicType = ()>,
{
    let (id, resource_version) = as_read(object)?;
    let patch =
        json!({"metadata": {"resourceVersion": resource_version, "finalizers": finalizers}});
    amend(client, &id, &patch, Writer::OPERATOR).await
}

/// Replaces the status of the object as it was read: a newer resource version is a conflict.
///
/// Only identity, resource version and status are sent. The API server takes everything else from the stored object, so
/// no field that our types do not know is lost. Returns the stored metadata.
pub async fn replace_status<K, S>(
    client: &Client,
    object: &K,
    status: &S,
    writer: Writer<'_>,
) -> Result<ObjectMeta>
where
    K: Resource<DynamicType = ()>,
    S: Serialize,
{
    let (id, resource_version) = as_read(object)?;
    let body = json!({
        "apiVersion": id.api_version,
        "kind": id.kind,
        "metadata": {"name": id.name, "namespace": id.namespace, "resourceVersion": resource_version},
        "status": status,
    });
    let request = Request::new(id.path(client)).replace_subresource(
        "status",
        &id.name,
        &writer.post(),
        to_bytes(&body)?,
    );
    metadata_after(client, request).await
}

/// Writes and returns the metadata of the stored result.
async fn metadata_after(
    client: &Client,
    request: std::result::Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<ObjectMeta> {
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    request.headers_mut().insert(ACCEPT, METADATA_ONLY);
    let stored: PartialObjectMeta<DynamicObject> = client.request(request).await?;
    Ok(stored.metadata)
}

/// What happens to the objects that the deleted one owns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Propagation {
    /// They are deleted first; the object stays visible until they are gone.
    Foreground,
    /// They are deleted later.
    Background,
    /// They are kept.
    Orphan,
}

/// Which incarnation to delete, and how.
#[derive(Clone, Copy, Debug)]
pub struct Deletion<'a> {
    pub propagation: Propagation,
    /// Deletes only this incarnation; another one is a conflict.
    pub uid: Option<&'a str>,
    /// Deletes only this version; a newer one is a conflict.
    pub resource_version: Option<&'a str>,
    /// Let the API server validate the deletion without carrying it out.
    pub is_dry_run: bool,
}

impl Deletion<'static> {
    /// Deletes whichever incarnation exists.
    pub fn with(propagation: Propagation) -> Self {
        Self { propagation, uid: None, resource_version: None, is_dry_run: false }
    }
}

/// Deletes an object; returns whether it existed.
pub async fn delete(client: &Client, id: &ObjectId, deletion: Deletion<'_>) -> Result<bool> {
    let Deletion { propagation, uid, resource_version, is_dry_run } = deletion;
    let preconditions = Preconditions {
        uid: uid.map(str::to_owned),
        resource_version: resource_version.map(str::to_owned),
    };
    let is_conditional = uid.is_some() || resource_version.is_some();
    let params = DeleteParams {
        dry_run: is_dry_run,
        propagation_policy: Some(match propagation {
            Propagation::Foreground => PropagationPolicy::Foreground,
            Propagation::Background => PropagationPolicy::Background,
            Propagation::Orphan => PropagationPolicy::Orphan,
        }),
        preconditions: is_conditional.then_some(preconditions),
        ..DeleteParams::default()
    };
    match id.api(client).delete(&id.name, &params).await.map_err(Error::from) {
        Ok(_) => Ok(true),
        Err(Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the identity and resource version of an object that came from the API server.
fn as_read<K: Resource<DynamicType = ()>>(object: &K) -> Result<(ObjectId, &str)> {
    let ObjectMeta { name, namespace, resource_version, .. } = object.meta();
    match (name, resource_version) {
        (Some(name), Some(version)) => {
            let id = ObjectId {
                api_version: K::api_version(&()).into_owned(),
                kind: K::kind(&()).into_owned(),
                namespace: namespace.clone(),
                name: name.clone(),
            };
            Ok((id, version))
        }
        _ => Err(Error::Invalid {
            message: "the object has no name or resource version: it was never stored".to_owned(),
            causes: Vec::new(),
        }),
    }
}

pub(super) fn to_value<T: Serialize>(value: &T) -> Result<Value> {
    serde_json::to_value(value)
        .map_err(|source| Error::Unreadable { source: kube::Error::SerdeError(source) })
}

fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value)
        .map_err(|source| Error::Unreadable { source: kube::Error::SerdeError(source) })
}

fn from_value<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value)
        .map_err(|source| Error::Unreadable { source: kube::Error::SerdeError(source) })
}
