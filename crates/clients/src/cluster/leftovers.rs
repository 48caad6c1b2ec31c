//! Everything in a namespace that shows which of Flink's ConfigMaps are still needed.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{Client, Resource, ResourceExt};
use serde_json::Value;

use super::apply::{self, Deletion, ObjectId, Propagation};
use super::read::{self, Scope};
use super::{Error, Result};
use api::blue_green::FlinkBlueGreenDeployment;
use api::deployment::FlinkDeployment;
use api::reconciled::session_cluster_in;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::FlinkStateSnapshot;
use state::garbage::{ClusterName, Finding, FoundMap, Inventory, job_ids_in};

/// Labels that Flink and the operator set on the ConfigMaps of a cluster.
pub(super) const MAPS: &str = "app,type=flink-native-kubernetes";
/// Prefixes of keys under which a JobManager finds what to run when it starts: jobs of Flink 1.x and of 2.x, and since
/// 2.3 the applications that were submitted to a session cluster, whose `main()` it runs again.
const RECOVERED: [&str; 3] = ["jobGraph-", "executionPlan-", "application-"];
pub(super) const AUTOSCALER_MAPS: &str = "app,component=autoscaler";

/// Returns whether a JobManager of any version starts a job or an application from what is under the key.
pub fn is_recovered(key: &str) -> bool {
    RECOVERED.iter().any(|start| key.starts_with(start))
}

/// Reads the whole inventory. Objects that may be removed are read first, so that anything that refers to them is seen.
///
/// # Errors
/// If anything cannot be read: nothing can be decided on half of the objects.
pub async fn inventory(client: &Client, scope: Scope<'_>) -> Result<Inventory> {
    let mut inventory = Inventory::default();
    let mut seen = BTreeSet::new();
    for selector in [MAPS, AUTOSCALER_MAPS] {
        for map in read::list::<ConfigMap>(client, scope, Some(selector)).await? {
            if seen.insert(map.uid()) {
                inventory.maps.push(found(&map));
            }
        }
    }
    for deployment in read::list_values::<FlinkDeployment>(client, scope, None).await? {
        if is_settled_application(&deployment) {
            inventory.settled_applications.insert(name_of(&deployment));
        }
        note(&mut inventory, &deployment);
    }
    for job in optional::<FlinkSessionJob>(client, scope).await? {
        let mut cluster = name_of(&job);
        cluster.name = session_cluster_in(&job).unwrap_or_default().into_owned();
        inventory.named.insert(cluster);
        note(&mut inventory, &job);
    }
    for resource in optional::<FlinkBlueGreenDeployment>(client, scope).await? {
        let ClusterName { namespace, name } = name_of(&resource);
        for colour in ["blue", "green"] {
            let name = format!("{name}-{colour}");
            inventory.named.insert(ClusterName { namespace: namespace.clone(), name });
        }
        note(&mut inventory, &resource);
    }
    for snapshot in optional::<FlinkStateSnapshot>(client, scope).await? {
        let mut cluster = name_of(&snapshot);
        text(&snapshot, "/spec/jobReference/name").clone_into(&mut cluster.name);
        inventory.named.insert(cluster);
        note(&mut inventory, &snapshot);
    }
    for revision in read::list_values::<ControllerRevision>(client, scope, None).await? {
        mention(&mut inventory, &name_of(&revision).namespace, &revision);
    }
    for deployment in read::list::<Deployment>(client, scope, Some("app")).await? {
        inventory.running.insert(labelled(&deployment));
        // A native cluster's Deployment has its name.
        inventory.running.insert(ClusterName {
            namespace: deployment.namespace().unwrap_or_default(),
            name: deployment.name_any(),
        });
    }
    for pod in read::list::<Pod>(client, scope, Some("app")).await? {
        inventory.running.insert(labelled(&pod));
    }
    Ok(inventory)
}

/// Removes a finding if it has not been written since; returns whether it did.
pub async fn remove(client: &Client, finding: &Finding) -> Result<bool> {
    let id = ObjectId::of::<ConfigMap>(&finding.namespace, &finding.name);
    let deletion = Deletion {
        propagation: Propagation::Background,
        uid: Some(&finding.uid),
        resource_version: Some(&finding.version),
        is_dry_run: false,
    };
    match apply::delete(client, &id, deletion).await {
        Ok(_) => Ok(true),
        Err(Error::Conflict { .. } | Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Lists the objects of a kind; none if the kind is not installed.
pub(super) async fn optional<K>(client: &Client, scope: Scope<'_>) -> Result<Vec<Value>>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
{
    read::or_none::<K, _>(client, read::list_values::<K>(client, scope, None).await).await
}

fn note(inventory: &mut Inventory, resource: &Value) {
    let name = name_of(resource);
    mention(inventory, &name.namespace, resource);
    inventory.named.insert(name);
}

/// Records every job id in the object, wherever it appears, even in a text within a text.
fn mention(inventory: &mut Inventory, namespace: &str, object: &Value) {
    let text = object.to_string();
    let ids = job_ids_in(&text).map(|id| (namespace.to_owned(), id.to_owned()));
    inventory.mentioned.extend(ids);
}

pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn name_of(object: &Value) -> ClusterName {
    ClusterName {
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
    }
}

fn labelled<K: ResourceExt>(object: &K) -> ClusterName {
    ClusterName {
        namespace: object.namespace().unwrap_or_default(),
        name: object.labels().get("app").cloned().unwrap_or_default(),
    }
}

fn is_settled_application(deployment: &Value) -> bool {
    let state = text(deployment, "/status/reconciliationStatus/state");
    let has_job = deployment.pointer("/spec/job").is_some_and(Value::is_object);
    let is_deleting = deployment.pointer("/metadata/deletionTimestamp").is_some();
    let knows_its_job = !text(deployment, "/status/jobStatus/jobId").is_empty();
    has_job && knows_its_job && !is_deleting && matches!(state, "DEPLOYED" | "ROLLED_BACK")
}

fn found(map: &ConfigMap) -> FoundMap {
    let written = map.managed_fields().iter().filter_map(|entry| entry.time.as_ref());
    let created = map.creation_timestamp();
    let changed = written.chain(created.as_ref()).map(|time| time.0).max();
    let is_deleting = map.meta().deletion_timestamp.is_some();
    FoundMap {
        cluster: labelled(map),
        name: map.name_any(),
        uid: map.uid().unwrap_or_default(),
        version: map.resource_version().unwrap_or_default(),
        is_autoscaler: map.labels().get("component").is_some_and(|of| of == "autoscaler"),
        // Without a time, it is treated as new.
        changed: changed.unwrap_or(Timestamp::MAX),
        has_state: map
            .data
            .iter()
            .flatten()
            .any(|(key, _)| key.starts_with("checkpointID-") || is_recovered(key)),
        is_taken_care_of: is_deleting || !map.owner_references().is_empty(),
    }
}
