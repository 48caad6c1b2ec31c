//! The rights of the operator, out of its installation.

use serde_json::Value;

/// Account of the operator in an installation.
pub(crate) const ACCOUNT: &str = "flink-operator";

/// The account, the two roles and their bindings among the objects of `operator install`.
pub(crate) fn of_operator(objects: Vec<Value>) -> Vec<Value> {
    let is_of_operator = |object: &Value| {
        ["ServiceAccount", "Role", "RoleBinding"].contains(&object["kind"].as_str().unwrap())
            && object["metadata"]["name"].as_str().unwrap().starts_with(ACCOUNT)
    };
    let rights: Vec<Value> = objects.into_iter().filter(is_of_operator).collect();
    assert_eq!(rights.len(), 5, "an account, two roles and their bindings");
    rights
}
