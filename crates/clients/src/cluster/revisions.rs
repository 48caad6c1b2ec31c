//! The history of a deployment or session job, stored as `apps/v1` `ControllerRevision` objects that it owns.

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::Client;
use kube::api::{Api, PostParams};

use super::apply::{self, Deletion, ObjectId, Propagation};
use super::read::{self, Scope};
use super::{Error, Result};
use state::revision::{self, Content, Revision};

/// Maximum number of revisions read of a namespace: 500 deployments with a full history.
const ALL_MAX: usize = 5000;

/// Returns the revisions of a history, oldest first; see [`revision::history_name`]. Unreadable ones are skipped with a
/// warning: one foreign object must not hide the history.
pub async fn list(client: &Client, namespace: &str, history: &str) -> Result<Vec<Revision>> {
    let selector = revision::label_selector(history);
    let objects =
        read::list::<ControllerRevision>(client, Scope::Namespace(namespace), Some(&selector))
            .await?;
    let mut revisions = objects.into_iter().filter_map(from_object).collect::<Vec<_>>();
    revisions.sort_by_key(|revision| revision.number);
    Ok(revisions)
}

/// Returns the revisions of all histories of a namespace, each with its history's name. An unreadable one, or more than
/// [`ALL_MAX`], is an error: the caller needs to know that something is in none of them.
pub async fn list_all(client: &Client, namespace: &str) -> Result<Vec<(String, Revision)>> {
    let selector = format!("component={}", revision::COMPONENT);
    let objects =
        read::list::<ControllerRevision>(client, Scope::Namespace(namespace), Some(&selector))
            .await?;
    if objects.len() > ALL_MAX {
        let message = format!("namespace `{namespace}` has more than {ALL_MAX} revisions");
        return Err(Error::Invalid { message, causes: Vec::new() });
    }
    objects
        .into_iter()
        .map(|object| {
            let labels = object.metadata.labels.clone().unwrap_or_default();
            let owner = labels.get("app").cloned().unwrap_or_default();
            let name = object.metadata.name.clone().unwrap_or_default();
            from_object(object).map(|revision| (owner, revision)).ok_or_else(|| Error::Invalid {
                message: format!("revision `{name}` cannot be read"),
                causes: Vec::new(),
            })
        })
        .collect()
}

/// Where to record revisions.
#[derive(Clone, Debug)]
pub struct History {
    pub namespace: String,
    /// See [`revision::history_name`].
    pub name: String,
    /// The revisions are deleted with it.
    pub owner: OwnerReference,
    /// See [`revision::decide_repeated_revision`].
    pub is_repeated: bool,
}

/// Adds a spec with its restore point to the history and prunes the history to its limit. May be called again after any
/// failure.
pub async fn record(client: &Client, history: &History, content: Content) -> Result<()> {
    let History { namespace, name, .. } = history;
    let existing = list(client, namespace, name).await?;
    let change = if history.is_repeated {
        revision::decide_repeated_revision(&existing, content)
    } else {
        revision::decide_revision(&existing, content)
    };
    if let Some(created) = &change.create {
        let revisions: Api<ControllerRevision> = Api::namespaced(client.clone(), namespace);
        revisions.create(&PostParams::default(), &to_object(history, created)?).await?;
    }
    for number in change.prune {
        let id =
            ObjectId::of::<ControllerRevision>(namespace, &revision::object_name(name, number));
        apply::delete(client, &id, Deletion::with(Propagation::Background)).await?;
    }
    Ok(())
}

fn to_object(history: &History, revision: &Revision) -> Result<ControllerRevision> {
    let data = serde_json::to_value(&revision.content)
        .map_err(|source| Error::Unreadable { source: kube::Error::SerdeError(source) })?;
    let owner = OwnerReference {
        controller: Some(true),
        block_owner_deletion: Some(false),
        ..history.owner.clone()
    };
    Ok(ControllerRevision {
        metadata: ObjectMeta {
            name: Some(revision::object_name(&history.name, revision.number)),
            namespace: Some(history.namespace.clone()),
            labels: Some(revision::labels(&history.name)),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: RawExtension(data),
        revision: Some(revision.number),
    })
}

fn from_object(object: ControllerRevision) -> Option<Revision> {
    let ControllerRevision { metadata, data, revision } = object;
    match serde_json::from_value::<Content>(data.0) {
        Ok(content) => Some(Revision { number: revision?, content }),
        Err(error) => {
            tracing::warn!(name = metadata.name, %error, "revision cannot be read");
            None
        }
    }
}
