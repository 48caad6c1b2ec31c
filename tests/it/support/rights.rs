//! The operator's permissions, from its installation manifests.

use serde_json::Value;

/// Service account of an installed operator.
pub(crate) const ACCOUNT: &str = "flink-operator";

/// Selects the account, the two roles and their bindings from the objects of `operator install`.
pub(crate) fn of_operator(objects: Vec<Value>) -> Vec<Value> {
    let is_of_operator = |object: &Value| {
        ["ServiceAccount", "Role", "RoleBinding"].contains(&object["kind"].as_str().unwrap())
            && object["metadata"]["name"].as_str().unwrap().starts_with(ACCOUNT)
    };
    let rights: Vec<Value> = objects.into_iter().filter(is_of_operator).collect();
    assert_eq!(rights.len(), 5, "an account, two roles and their bindings");
    rights
}
