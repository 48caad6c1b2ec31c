use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;

#[track_caller]
fn check(status: Value, expected: Expect) {
    let status: Status = serde_json::from_value(status).unwrap();
    let error = Error::from(kube::Error::Api(Box::new(status)));
    expected.assert_eq(&format!("{}: {error}", error.reason()));
}

#[test]
fn forbidden_names_verb_and_resource() {
    check(
        json!({"status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "flinkdeployments.flink.apache.org \"wordcount\" is forbidden: User \"jane\" cannot patch resource \"flinkdeployments\" in API group \"flink.apache.org\" in the namespace \"team\"",
            "details": {"name": "wordcount", "group": "flink.apache.org", "kind": "flinkdeployments"}}),
        expect![
            "Forbidden: forbidden: `jane` cannot patch flinkdeployments.flink.apache.org in \
             namespace `team`"
        ],
    );
    check(
        json!({"status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "nodes is forbidden: User \"jane\" cannot list resource \"nodes\" in API group \"\" at the cluster scope"}),
        expect!["Forbidden: forbidden: `jane` cannot list nodes in the whole cluster"],
    );
    check(
        json!({"status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "pods \"x\" is forbidden: exceeded quota: small"}),
        expect!["Rejected: rejected by admission: pods \"x\" is forbidden: exceeded quota: small"],
    );
}

#[test]
fn missing_kind_is_not_a_missing_object() {
    check(
        json!({"status": "Failure", "code": 404, "reason": "NotFound", "message": "flinkdeployments.flink.apache.org \"x\" not found",
            "details": {"name": "x", "group": "flink.apache.org", "kind": "flinkdeployments"}}),
        expect!["NotFound: flinkdeployments.flink.apache.org `x` not found"],
    );
    check(
        json!({"status": "Failure", "code": 404, "reason": "NotFound", "message": "the server could not find the requested resource", "details": {}}),
        expect![
            "KindMissing: the API server does not know this kind of resource: the server could not find the requested resource"
        ],
    );
    check(
        json!({"status": "Failure", "code": 404, "reason": "Failed to parse error data", "message": "404 page not found"}),
        expect![
            "KindMissing: the API server does not know this kind of resource: 404 page not found"
        ],
    );
}

/// The kube-apiserver's response to a patch that is meant for an earlier incarnation.
#[test]
fn a_patch_of_another_incarnation_is_a_conflict() {
    let cause = json!({"reason": "FieldValueInvalid", "message": "Invalid value: \"other\": field is immutable", "field": "metadata.uid"});
    let status = json!({"status": "Failure", "code": 422, "reason": "Invalid",
        "message": "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable",
        "details": {"name": "a", "kind": "ConfigMap", "causes": [cause]}});
    assert!(matches!(from_status(serde_json::from_value(status).unwrap()), Error::Conflict { .. }));
}

#[test]
fn apply_conflict_names_fields_and_owners() {
    check(
        json!({"status": "Failure", "code": 409, "reason": "Conflict", "message": "Apply failed with 1 conflict: …",
            "details": {"causes": [
                {"reason": "FieldManagerConflict", "field": ".spec.job.parallelism", "message": "conflict with \"kubectl-edit\" using flink.apache.org/v1beta1"},
                {"reason": "FieldManagerConflict", "field": ".spec.image", "message": "conflict with \"helm\""}]}}),
        expect![
            "FieldConflict: other field managers own spec.job.parallelism (`kubectl-edit`), spec.image (`helm`)"
        ],
    );
    check(
        json!({"status": "Failure", "code": 409, "reason": "Conflict", "message": "the object has been modified", "details": {"name": "x", "kind": "pods"}}),
        expect!["Conflict: the object was changed in the meantime: the object has been modified"],
    );
}

#[test]
fn an_api_server_that_begins_is_not_a_refusal() {
    check(
        json!({"status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "pods \"x\" is forbidden: not yet ready to handle request"}),
        expect![
            "ApiServerUnavailable: the API server answered 403: pods \"x\" is forbidden: not yet ready to handle request"
        ],
    );
}

#[test]
fn unknown_outcome_is_distinguished_from_refusal() {
    let of = |code| {
        Error::from(kube::Error::Api(Box::new(
            serde_json::from_value(
                json!({"status": "Failure", "code": code, "message": "m", "reason": ""}),
            )
            .unwrap(),
        )))
    };
    assert!(of(504).is_outcome_unknown() && of(500).is_outcome_unknown());
    assert!(!of(429).is_outcome_unknown() && of(429).is_transient());
    assert!(!of(422).is_outcome_unknown() && !of(422).is_transient());
}
