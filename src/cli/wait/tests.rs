use serde_json::{Value, json};

use super::*;

/// A deployment written as generation 2, before the operator has seen it.
fn written() -> Deployment {
    Deployment(json!({
        "metadata": {"name": "x", "generation": 2, "resourceVersion": "10", "uid": "u"},
        "spec": {"job": {"state": "running"}},
        "status": {"observedGeneration": 1, "lifecycleState": "STABLE",
            "reconciliationStatus": {"lastReconciledSpec": "{}"}},
    }))
}

fn seen(resource_version: &str, status: Value) -> Deployment {
    let mut seen = written();
    seen.0["metadata"]["resourceVersion"] = json!(resource_version);
    seen.0["status"] = status;
    seen
}

#[track_caller]
fn check(seen: &Deployment, expected: Verdict) {
    assert_eq!(judge(&Goal::Reconciled { written: Box::new(written()) }, Some(seen)), expected);
}

fn waiting(phase: &str, is_taken_up: bool) -> Verdict {
    Verdict::Waiting { phase: phase.to_owned(), is_taken_up }
}

#[test]
fn stable_of_the_old_generation_does_not_count() {
    check(&written(), waiting("STABLE", false));
    check(
        &seen(
            "11",
            json!({"observedGeneration": 2, "lifecycleState": "STABLE", "jobStatus": {"state": "RUNNING"}}),
        ),
        Verdict::Reached,
    );
    check(
        &seen(
            "11",
            json!({"observedGeneration": 2, "lifecycleState": "UPGRADING", "jobManagerDeploymentStatus": "MISSING", "jobStatus": {"state": "FINISHED"}}),
        ),
        waiting("UPGRADING · JobManager MISSING · job FINISHED", true),
    );
}

#[test]
fn stable_before_anything_runs_does_not_count() {
    check(
        &seen(
            "11",
            json!({"observedGeneration": 2, "lifecycleState": "STABLE", "jobStatus": {"state": "RECONCILING"}}),
        ),
        waiting("STABLE · job RECONCILING", true),
    );
    let mut session = seen(
        "11",
        json!({"observedGeneration": 2, "lifecycleState": "STABLE", "jobManagerDeploymentStatus": "DEPLOYING"}),
    );
    session.0["spec"] = json!({});
    check(&session, waiting("STABLE · JobManager DEPLOYING", true));
    session.0["status"]["jobManagerDeploymentStatus"] = json!("READY");
    check(&session, Verdict::Reached);
}

#[test]
fn refused_edit_fails_at_once_and_old_errors_do_not() {
    let mut old = written();
    old.0["status"]["error"] = json!("old trouble");
    check(&old, waiting("STABLE", false));
    let refused = seen(
        "11",
        json!({"observedGeneration": 1, "lifecycleState": "STABLE", "error": "parallelism must be positive",
        "reconciliationStatus": {"lastReconciledSpec": "{}"}}),
    );
    check(&refused, Verdict::Failed("parallelism must be positive".to_owned()));
}

#[test]
fn failed_names_the_cause() {
    check(
        &seen(
            "11",
            json!({"observedGeneration": 2, "lifecycleState": "FAILED", "error": "no such image"}),
        ),
        Verdict::Failed("no such image".to_owned()),
    );
    check(
        &seen("11", json!({"lifecycleState": "FAILED", "error": "flinkVersion is missing"})),
        Verdict::Failed("flinkVersion is missing".to_owned()),
    );
}

#[test]
fn suspended_is_the_goal_where_the_spec_wants_it() {
    let mut suspended = seen("11", json!({"observedGeneration": 2, "lifecycleState": "SUSPENDED"}));
    suspended.0["spec"]["job"]["state"] = json!("suspended");
    check(&suspended, Verdict::Reached);
}

#[test]
fn deletion_ends_with_this_incarnation() {
    let goal = Goal::Deleted { uid: Some("u".to_owned()) };
    assert_eq!(judge(&goal, None), Verdict::Reached);
    let mut other = written();
    assert_eq!(judge(&goal, Some(&other)), waiting("STABLE", false));
    other.0["status"] = json!({"lifecycleState": "DELETING", "error": "jobs run"});
    assert_eq!(judge(&goal, Some(&other)), waiting("DELETING · jobs run", true));
    other.0["metadata"]["uid"] = json!("another");
    assert_eq!(judge(&goal, Some(&other)), Verdict::Reached);
}

#[test]
fn deleted_or_changed_meanwhile_fails() {
    let goal = Goal::Reconciled { written: Box::new(written()) };
    assert_eq!(judge(&goal, None), Verdict::Failed("it was deleted in the meantime".to_owned()));
    let mut changed = written();
    changed.0["metadata"]["generation"] = json!(3);
    check(&changed, Verdict::Failed("its spec was changed again in the meantime".to_owned()));
}

#[test]
fn a_session_job_that_waits_for_its_cluster_was_taken_up() {
    let job = |status: Value| {
        Deployment(json!({
            "kind": "FlinkSessionJob",
            "metadata": {"name": "x"}, "spec": {"deploymentName": "lab"}, "status": status,
        }))
    };
    let waiting = untaken(Some(&job(json!({"lifecycleState": "CREATED"}))), "team");
    assert!(waiting.contains("session cluster `lab`"), "{waiting}");
    for unseen in [json!({}), json!({"lifecycleState": "STABLE"})] {
        let hint = untaken(Some(&job(unseen)), "team");
        assert!(hint.contains("kubectl flink operate -n team"), "{hint}");
    }
}

#[test]
fn who_leaves_is_shown_what_goes_on() {
    let goal = Goal::Reconciled { written: Box::new(written()) };
    let failure = interrupted("x", &goal, Some(&written()));
    assert_eq!(failure.kind(), crate::cli::failure::Kind::Interrupted);
    assert_eq!(failure.to_string(), "stopped waiting for `x`, which is STABLE");
}

#[test]
fn a_blue_green_deployment_is_done_when_nothing_of_it_is_under_way() {
    let seen = |generation: i64, job: &str, progressing: Value| {
        let serving =
            json!({"type": "Serving", "status": "True", "observedGeneration": generation});
        let conditions: Vec<Value> =
            [serving, progressing].into_iter().filter(|it| !it.is_null()).collect();
        Deployment(json!({
            "kind": "FlinkBlueGreenDeployment", "metadata": {"name": "x", "generation": 2},
            "status": {"blueGreenState": "ACTIVE_BLUE", "jobStatus": {"state": job}, "error": "no pods",
                "conditions": conditions},
        }))
    };
    let progressing = |status: &str| json!({"type": "Progressing", "status": status, "message": "`x-green` starts"});
    check(&seen(1, "RUNNING", Value::Null), waiting("ACTIVE_BLUE · job RUNNING", false));
    check(
        &seen(2, "RECONCILING", progressing("True")),
        waiting("ACTIVE_BLUE · job RECONCILING · `x-green` starts", true),
    );
    check(&seen(2, "FAILING", progressing("False")), Verdict::Failed("no pods".to_owned()));
    check(&seen(2, "RUNNING", Value::Null), Verdict::Reached);
    check(&seen(2, "SUSPENDED", Value::Null), Verdict::Reached);
}
