//! What the API server does to an object by itself, and what it refuses.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use api::crd;
use axum::http::Method;
use serde_json::{Value, json};

use super::store::{Answer, Request, merge};

/// The finalizer of an object that is deleted after its dependents.
pub(super) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of an object whose dependents stay.
pub(super) const ORPHAN: &str = "orphan";
/// Kinds of which the API server counts the changes.
const WITH_GENERATION: [&str; 6] =
    ["Deployment", "Ingress", "NetworkPolicy", "Pod", "PodDisruptionBudget", "ReplicaSet"];

pub(super) fn has_generation(object: &Value) -> bool {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    text("apiVersion").starts_with("flink.apache.org/") || WITH_GENERATION.contains(&text("kind"))
}

pub(super) fn count_generation(object: &mut Value) {
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
    object["metadata"]["generation"] = json!(generation + 1);
}

/// Marks an object as deleted.
pub(super) fn end(object: &mut Value) {
    object["metadata"]["deletionTimestamp"] =
        json!(jiff::Timestamp::now().round(jiff::Unit::Second).unwrap());
    object["metadata"]["deletionGracePeriodSeconds"] = json!(0);
    if has_generation(object) {
        count_generation(object);
    }
}

pub(super) fn add_finalizer(object: &mut Value, finalizer: &str) {
    let finalizers = &mut object["metadata"]["finalizers"];
    if finalizers.is_null() {
        *finalizers = json!([]);
    }
    finalizers.as_array_mut().unwrap().push(json!(finalizer));
}

/// Returns the kind with this plural name.
pub(super) fn kind_of(plural: &str) -> &'static str {
    // Definitions take long to make.
    static OURS: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
        let names = crd::all().into_iter().map(|definition| definition.spec.names);
        names.map(|names| (names.plural, names.kind)).collect()
    });
    let of_others = match plural {
        "configmaps" => "ConfigMap",
        "controllerrevisions" => "ControllerRevision",
        "deployments" => "Deployment",
        "events" => "Event",
        "ingresses" => "Ingress",
        "leases" => "Lease",
        "namespaces" => "Namespace",
        "nodes" => "Node",
        "pods" => "Pod",
        "replicasets" => "ReplicaSet",
        "secrets" => "Secret",
        "services" => "Service",
        _ => "",
    };
    OURS.get(plural).map_or(of_others, String::as_str)
}

/// Returns why the API server refuses to write an object.
pub(super) fn refusal(request: &Request, name: &str, before: &Value) -> Option<Answer> {
    let (now, new) = (&before["metadata"], &request.body["metadata"]);
    let kind = kind_of(&request.plural);
    let (uid, version) = (&new["uid"], &new["resourceVersion"]);
    if !uid.is_null() && *uid != now["uid"] {
        let message = format!("Invalid value: {uid}: field is immutable");
        return Some(request.invalid(kind, name, "metadata.uid", ("FieldValueInvalid", &message)));
    }
    if request.method == Method::PUT && version.is_null() && request.is_of_ours() {
        let cause = ("FieldValueInvalid", "Invalid value: 0: must be specified for an update");
        return Some(request.invalid(&request.plural, name, "metadata.resourceVersion", cause));
    }
    if !version.is_null() && *version != now["resourceVersion"] {
        return Some(request.conflict(name));
    }
    let all = |finalizers: &Value| finalizers.as_array().cloned().unwrap_or_default();
    let had = all(&now["finalizers"]);
    let added: Vec<String> = all(&new["finalizers"])
        .into_iter()
        .filter(|one| !had.contains(one))
        .map(|one| one.to_string())
        .collect();
    if now["deletionTimestamp"].is_null() || added.is_empty() {
        return None;
    }
    let message = format!(
        "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        added.join(", ")
    );
    let cause = ("FieldValueForbidden", &*message);
    Some(request.invalid(kind, name, "metadata.finalizers", cause))
}

/// Returns the object as the request wants it.
pub(super) fn written(request: &Request, before: &Value) -> Value {
    let mut after = before.clone();
    if request.method == Method::PUT {
        after = request.body.clone();
        for field in SYSTEM {
            match &before["metadata"][field] {
                Value::Null => drop(after["metadata"].as_object_mut().unwrap().remove(field)),
                value => after["metadata"][field] = value.clone(),
            }
        }
    } else {
        merge(&mut after, &request.body);
    }
    let metadata = after["metadata"].as_object_mut().unwrap();
    metadata.insert("resourceVersion".to_owned(), before["metadata"]["resourceVersion"].clone());
    // What is empty is not there.
    metadata.retain(|_, value| *value != json!([]) && *value != json!({}));
    after
}

/// What only the API server writes.
const SYSTEM: [&str; 6] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "namespace",
    "uid",
];

pub(super) fn has_finalizers(object: &Value) -> bool {
    object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .is_some_and(|all| !all.is_empty())
}

/// Resets `field` to its previous value.
pub(super) fn restore(after: &mut Value, before: &Value, field: &str) {
    let Some(after) = after.as_object_mut() else { return };
    match before.get(field) {
        Some(value) => drop(after.insert(field.to_owned(), value.clone())),
        None => drop(after.remove(field)),
    }
}
