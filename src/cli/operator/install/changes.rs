//! Changes made by an installation: objects that are created, updated or deleted, and those of other owners.

use k8s_openapi::api::apps::v1::Deployment;
use kube::{Client, ResourceExt};
use serde_json::Value;

use super::{objects as objects_of, values_of};
use crate::cli::change;
use crate::cli::failure::Failure;
use crate::cli::operator::{MANAGED_BY, MANAGER, VALUES};
use clients::cluster::apply::ObjectId;
use clients::cluster::read;

pub(super) struct Change {
    pub(super) object: Value,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Eq, PartialEq)]
pub(super) enum Kind {
    New,
    Ours,
    /// Belongs to the jobs or to another owner.
    Foreign,
}

impl Kind {
    pub(super) fn said(self) -> &'static str {
        match self {
            Self::New => "is created",
            Self::Ours => "will be updated",
            Self::Foreign => "does not belong to this installation and is left alone",
        }
    }
}

/// Formats an object, such as `clusterrole.rbac.authorization.k8s.io/x`, with its namespace if it has one.
pub(super) fn shown(object: &Value) -> String {
    let name = change::qualified_name(object);
    match object.pointer("/metadata/namespace").and_then(Value::as_str) {
        Some(namespace) => format!("{name} in {namespace}"),
        None => name,
    }
}

/// Finds what applying each object would change; fails if one belongs to another owner.
pub(super) async fn changes(client: &Client, objects: &[Value]) -> anyhow::Result<Vec<Change>> {
    let mut changes = Vec::new();
    let mut foreign = Vec::new();
    for object in objects {
        let id = ObjectId::in_manifest(object)?;
        let stored = read::get_value(client, &id).await?;
        let kind = match &stored {
            None => Kind::New,
            Some(stored) if manager(stored) == Some(MANAGER) => Kind::Ours,
            // Accounts may exist before, with permissions granted by the cluster's administrator.
            Some(_) if id.kind == "ServiceAccount" || is_of_jobs(object) => Kind::Foreign,
            Some(stored) => {
                let by =
                    manager(stored).map_or_else(String::new, |by| format!(", managed by {by}"));
                foreign.push(format!("{}{by}", shown(object)));
                Kind::Foreign
            }
        };
        changes.push(Change { object: object.clone(), kind });
    }
    if foreign.is_empty() {
        return Ok(changes);
    }
    Err(Failure::new(format!(
        "these objects already exist and are not from `operator install`: {}",
        foreign.join("; ")
    ))
    .hint("choose other names, such as --set nameOverride=NAME,rbac.operatorRole.name=NAME,rbac.operatorRoleBinding.name=NAME")
    .hint("or remove the other installation first; its CRDs and jobs can stay")
    .into())
}

/// Returns the objects that the installation created with its former values and no longer needs, the last created
/// first. Accounts are kept: others may use them.
pub(super) async fn superfluous(
    client: &Client,
    namespace: &str,
    objects: &[Value],
) -> anyhow::Result<Vec<Value>> {
    let Some(deployment) = objects.iter().find(|it| it["kind"] == "Deployment") else {
        return Ok(vec![]);
    };
    let id = ObjectId::in_manifest(deployment)?;
    let Some(stored) = read::get::<Deployment>(client, namespace, &id.name).await? else {
        return Ok(vec![]);
    };
    if !stored.annotations().contains_key(VALUES) {
        return Ok(vec![]);
    }
    // Former values that are no longer valid must not block the upgrade.
    let former = values_of(&stored).ok().and_then(|values| objects_of(&values, namespace).ok());
    let ids: Vec<ObjectId> = objects.iter().flat_map(ObjectId::in_manifest).collect();
    let mut superfluous = Vec::new();
    for object in former.into_iter().flatten().rev() {
        let id = ObjectId::in_manifest(&object)?;
        let is_retained = ["Deployment", "ServiceAccount"].contains(&id.kind.as_str());
        if is_retained || is_of_jobs(&object) || ids.contains(&id) {
            continue;
        }
        let stored = read::get_value(client, &id).await?;
        if stored.as_ref().and_then(manager) == Some(MANAGER) {
            superfluous.push(object);
        }
    }
    Ok(superfluous)
}

/// Returns who manages a stored object, according to its label.
pub(in crate::cli::operator) fn manager(stored: &Value) -> Option<&str> {
    stored.pointer("/metadata/labels")?.get(MANAGED_BY)?.as_str()
}

/// Returns whether the object outlives the installation because running jobs need it.
pub(in crate::cli::operator) fn is_of_jobs(object: &Value) -> bool {
    object
        .pointer("/metadata/annotations")
        .is_some_and(|it| it.get("helm.sh/resource-policy").is_some())
}
