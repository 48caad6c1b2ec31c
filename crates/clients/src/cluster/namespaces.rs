//! Namespaces, as far as they affect the objects in them.

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;

use super::{Error, Result};

/// A namespace that is being deleted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Termination {
    /// Kubernetes' messages about what blocks the deletion.
    pub messages: Vec<String>,
}

/// Returns whether the namespace exists. A caller that may write into a namespace need not be allowed to read it, so an
/// unreadable one is assumed to exist.
pub async fn exists(client: &Client, name: &str) -> Result<bool> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.get_metadata(name).await.map_err(Error::from) {
        Ok(_) | Err(Error::Forbidden { .. }) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the namespace's termination; `None` if it is not being deleted or cannot be read.
pub async fn termination(client: &Client, name: &str) -> Result<Option<Termination>> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = match namespaces.get(name).await.map_err(Error::from) {
        Ok(namespace) => namespace,
        Err(Error::NotFound { .. } | Error::Forbidden { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    if namespace.metadata.deletion_timestamp.is_none() {
        return Ok(None);
    }
    let conditions = namespace.status.and_then(|status| status.conditions).unwrap_or_default();
    let messages = conditions
        .into_iter()
        .filter(|condition| condition.status == "True")
        .filter_map(|condition| condition.message)
        .collect();
    Ok(Some(Termination { messages }))
}
