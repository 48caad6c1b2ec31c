use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use lifecycle::blocker::{self, Reason};

const NOW: &str = "2026-01-01T12:00:00Z";

fn deployment(requested: Option<&str>, finalizers: &[&str], lifecycle: &str) -> Value {
    json!({
        "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "shop", "finalizers": finalizers,
            "deletionTimestamp": requested},
        "status": {"lifecycleState": lifecycle},
    })
}

#[allow(clippy::unnecessary_wraps, reason = "as it is seen")]
fn preview(because: &str, blocker: Option<blocker::Blocker>) -> Result<Option<Preview>, String> {
    let steps = if blocker.is_some() { vec![] } else { vec!["delete-job-manager"] };
    Ok(Some(Preview { because: because.to_owned(), steps, error: None, blocker }))
}

fn seen(resource: Value, preview: Result<Option<Preview>, String>) -> Seen {
    Seen { resource, preview, termination: None, denied: None, now: NOW.parse().unwrap() }
}

fn check(seen: &Seen, expected: Expect) {
    expected.assert_eq(&shown(&explain(seen), seen.now));
}

#[test]
fn a_wait_is_shown_with_its_deadline_and_what_helps() {
    let at = "2026-01-01T12:03:00Z".parse().unwrap();
    let pods = blocker::Blocker {
        reason: Reason::Pods,
        message: "waiting for the JobManager's pods to end".to_owned(),
        deadline: Some(Deadline { at, then: "the resource is deleted anyway" }),
        remedy: Some("check why its pods do not end".to_owned()),
    };
    let resource = deployment(Some("2026-01-01T11:58:00Z"), &[DEPLOYMENT_FINALIZER], "DELETING");
    check(
        &seen(resource, preview("waiting for the JobManager's pods to end", Some(pods))),
        expect![[r#"
            FlinkDeployment `orders` in namespace `shop`
              Deletion:   requested 2m ago
              Finalizer:  flinkdeployments.flink.apache.org/finalizer (the Flink operator, which cleans up first)
              Operator:   has picked up the deletion
              Step:       waiting for the JobManager's pods to end
            Pods: waiting for the JobManager's pods to end
              deadline: in 3m: the resource is deleted anyway
              remedy: check why its pods do not end"#]],
    );
}

#[test]
fn nobody_acts_on_the_finalizer() {
    let asked = Some("2026-01-01T11:50:00Z");
    let resource = deployment(asked, &[DEPLOYMENT_FINALIZER], "STABLE");
    check(
        &seen(resource, preview("deleting the JobManager", None)),
        expect![[r#"
            FlinkDeployment `orders` in namespace `shop`
              Deletion:   requested 10m ago
              Finalizer:  flinkdeployments.flink.apache.org/finalizer (the Flink operator, which cleans up first)
              Operator:   has not picked up the deletion
              Step:       deleting the JobManager
              Next:       delete-job-manager
            OperatorSilent: no operator has picked up the deletion
              deadline: none
              remedy: check that an operator is running, that it watches this namespace and these labels, and what it is allowed to do: --explain --as system:serviceaccount:NAMESPACE:ACCOUNT; or run one: kubectl flink operate"#]],
    );
    let begun = deployment(asked, &[DEPLOYMENT_FINALIZER], "DELETING");
    let found = explain(&seen(begun, preview("deleting the JobManager", None)));
    assert_eq!(found.blockers[0].reason, "OperatorSilent");
    assert!(found.blockers[0].message.contains("does not continue"));
    let young = deployment(Some("2026-01-01T11:59:50Z"), &[DEPLOYMENT_FINALIZER], "STABLE");
    assert_eq!(explain(&seen(young, preview("deleting the JobManager", None))).blockers, []);
}

#[test]
fn what_others_hold_is_distinguished() {
    let asked = Some("2026-01-01T11:50:00Z");
    let resource = deployment(asked, &["foregroundDeletion", "example.com/hold"], "DELETING");
    check(
        &seen(resource, preview("being deleted without this finalizer", None)),
        expect![[r#"
            FlinkDeployment `orders` in namespace `shop`
              Deletion:   requested 10m ago
              Finalizer:  foregroundDeletion (Kubernetes, which deletes what it owns first)
              Finalizer:  example.com/hold (an unknown owner)
            ForeignFinalizer: finalizer `foregroundDeletion` of Kubernetes, which deletes what it owns first
              deadline: none
              remedy: look at the objects that the resource owns
            ForeignFinalizer: finalizer `example.com/hold` of an unknown owner
              deadline: none
              remedy: only its owner knows its purpose: make sure that the owner is running; removing the finalizer by hand skips its cleanup"#]],
    );
}

#[test]
fn a_terminating_namespace_and_missing_rights_are_named() {
    let asked = Some("2026-01-01T11:50:00Z");
    let resource = deployment(asked, &[DEPLOYMENT_FINALIZER], "STABLE");
    let mut seen = seen(resource, Err("forbidden: `bob` may not list pods".to_owned()));
    seen.termination = Some(Termination { messages: vec!["Some content remains".to_owned()] });
    seen.denied = Some(Denied {
        account: "system:serviceaccount:shop:operator".to_owned(),
        operations: vec!["patch flinkdeployments.flink.apache.org".to_owned()],
    });
    check(
        &seen,
        expect![[r#"
            FlinkDeployment `orders` in namespace `shop`
              Deletion:   requested 10m ago
              Finalizer:  flinkdeployments.flink.apache.org/finalizer (the Flink operator, which cleans up first)
              Operator:   has not picked up the deletion
            Unreadable: could not determine the next step: forbidden: `bob` may not list pods
              deadline: none
              remedy: use an account that can read what the operator reads
            OperatorSilent: no operator has picked up the deletion
              deadline: none
              remedy: check that an operator is running, that it watches this namespace and these labels, and what it is allowed to do: --explain --as system:serviceaccount:NAMESPACE:ACCOUNT; or run one: kubectl flink operate
            Forbidden: `system:serviceaccount:shop:operator` is not allowed to patch flinkdeployments.flink.apache.org
              deadline: none
              remedy: grant the account these permissions; in a terminating namespace its Role and RoleBinding may already be gone: grant them with a ClusterRoleBinding
            NamespaceTerminating: the namespace is terminating, which deletes the operator's permissions and the cluster's objects in any order; Some content remains
              deadline: none
              remedy: run an operator that has its permissions from a ClusterRoleBinding; it creates nothing in such a namespace and needs nothing from it"#]],
    );
}

#[test]
fn a_deletion_that_nobody_asked_for_is_checked_ahead() {
    let resource = deployment(None, &[DEPLOYMENT_FINALIZER, "example.com/hold"], "STABLE");
    check(
        &seen(resource, preview("deleting the JobManager", None)),
        expect![[r#"
            FlinkDeployment `orders` in namespace `shop`
              Deletion:   not requested; this is how it would start
              Finalizer:  flinkdeployments.flink.apache.org/finalizer (the Flink operator, which cleans up first)
              Finalizer:  example.com/hold (an unknown owner)
              Step:       deleting the JobManager
              Next:       delete-job-manager
            ForeignFinalizer: finalizer `example.com/hold` of an unknown owner
              deadline: none
              remedy: only its owner knows its purpose: make sure that the owner is running; removing the finalizer by hand skips its cleanup"#]],
    );
}

#[test]
fn json_is_a_contract() {
    let resource = deployment(Some("2026-01-01T11:50:00Z"), &[DEPLOYMENT_FINALIZER], "DELETING");
    let jobs = blocker::Blocker {
        reason: Reason::SessionJobs,
        message: "The session jobs [a] should be deleted first".to_owned(),
        deadline: None,
        remedy: Some("delete them".to_owned()),
    };
    let found = explain(&seen(resource, preview("The session jobs [a] …", Some(jobs))));
    expect![[r#"
        {
          "kind": "FlinkDeployment",
          "namespace": "shop",
          "name": "orders",
          "deletionRequested": "2026-01-01T11:50:00Z",
          "isNamespaceTerminating": false,
          "finalizers": [
            {
              "name": "flinkdeployments.flink.apache.org/finalizer",
              "owner": "the Flink operator, which cleans up first",
              "isOperators": true
            }
          ],
          "isTakenUp": true,
          "step": "The session jobs [a] …",
          "next": [],
          "blockers": [
            {
              "reason": "SessionJobs",
              "message": "The session jobs [a] should be deleted first",
              "remedy": "delete them"
            }
          ]
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&found).unwrap());
}
