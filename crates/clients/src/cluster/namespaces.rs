//! Namespaces, as far as objects in them are concerned.

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::Api;

use super::{Error, Result};

/// The facts about a namespace that is being deleted.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Termination {
    /// Kubernetes' messages about what the deletion waits for.
    pub messages: Vec<String>,
}

/// True if the namespace exists. A caller that may write into a namespace need not be allowed to
/// read it, so one that may not be read counts as existing.
pub async fn exists(client: &Client, name: &str) -> Result<bool> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    match namespaces.get_metadata(name).await.map_err(Error::from) {
        Ok(_) | Err(Error::Forbidden { .. }) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// The namespace's termination; nothing while it is there to stay, or is not to be seen.
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
