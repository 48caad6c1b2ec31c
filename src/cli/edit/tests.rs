use expect_test::expect;

use super::*;

fn deployed(spec: Value) -> Deployment {
    let last = json!({"spec": spec}).to_string();
    Deployment(json!({
        "kind": "FlinkDeployment", "metadata": {"name": "orders", "namespace": "shop"}, "spec": spec,
        "status": {"reconciliationStatus": {"lastReconciledSpec": last}},
    }))
}

fn application(upgrade_mode: &str, state: &str) -> Deployment {
    deployed(json!({
        "image": "orders:1", "flinkVersion": "v1_20",
        "job": {"jarURI": "local:///a.jar", "parallelism": 2, "state": state, "upgradeMode": upgrade_mode},
    }))
}

fn loss(present: &Deployment, patch: &Value) -> Option<String> {
    decide_loss(present, &patched(present, patch), Ok(&[]))
}

#[test]
fn state_is_lost_where_a_running_stateless_job_stops() {
    let image = json!({"spec": {"image": "orders:2"}});
    assert!(loss(&application("stateless", "running"), &image).is_some());
    assert_eq!(loss(&application("savepoint", "running"), &image), None);
    assert_eq!(loss(&application("stateless", "suspended"), &image), None, "nothing runs");
    let to_stateless = json!({"spec": {"image": "orders:2", "job": {"upgradeMode": "stateless"}}});
    assert!(loss(&application("savepoint", "running"), &to_stateless).is_some());
}

#[test]
fn what_does_not_stop_the_job_loses_nothing() {
    let ignored =
        json!({"spec": {"flinkConfiguration": {"kubernetes.operator.retry.max.attempts": "3"}}});
    assert_eq!(loss(&application("stateless", "running"), &ignored), None);
    let mut new = application("stateless", "running");
    new.0["status"] = json!({});
    assert_eq!(loss(&new, &json!({"spec": {"image": "orders:2"}})), None, "it never ran");
}

#[test]
fn a_session_cluster_without_high_availability_takes_its_jobs_along() {
    let cluster = |configuration: Value| {
        deployed(json!({"flinkVersion": "v1_20", "flinkConfiguration": configuration}))
    };
    let patch = json!({"spec": {"restartNonce": 1}});
    let job = Deployment(json!({"kind": "FlinkSessionJob", "metadata": {"name": "clicks"}}));
    let of = |present: &Deployment, jobs: &[Deployment]| {
        decide_loss(present, &patched(present, &patch), Ok(jobs))
    };
    expect!["session cluster `orders` has no high availability to recover its jobs from: when it stops, they are lost with their unsaved state: `clicks`"]
        .assert_eq(&of(&cluster(json!({})), std::slice::from_ref(&job)).unwrap());
    assert_eq!(of(&cluster(json!({})), &[]), None);
    let available = json!({"high-availability.type": "kubernetes", "high-availability.storageDir": "s3://b/ha"});
    assert_eq!(of(&cluster(available), std::slice::from_ref(&job)), None);
    // Its operator saves the jobs' state first.
    let mut ours = cluster(json!({}));
    ours.0["status"]["clusterInfo"] = json!({"HighAvailability": "{}"});
    assert_eq!(of(&ours, std::slice::from_ref(&job)), None);
    ours.0["spec"]["flinkConfiguration"] =
        json!({"kubernetes.operator.session.upgrade.wait-for-jobs": "false"});
    assert!(of(&ours, &[job]).is_some());
}

#[test]
fn a_nonce_was_never_used_before() {
    let mut present = application("savepoint", "running");
    assert_eq!(next_nonce(&present, "/restartNonce"), 1);
    present.0["spec"]["restartNonce"] = json!(4);
    assert_eq!(next_nonce(&present, "/restartNonce"), 5);
    let last = json!({"spec": {"restartNonce": 9}}).to_string();
    present.0["status"]["reconciliationStatus"]["lastReconciledSpec"] = json!(last);
    assert_eq!(next_nonce(&present, "/restartNonce"), 10);
    present.0["spec"]["restartNonce"] = json!(i64::MAX);
    assert_eq!(next_nonce(&present, "/restartNonce"), 1);
}

#[test]
fn only_new_violations_are_reported() {
    let present = application("savepoint", "running");
    assert_eq!(new_violations(&present, &present), []);
    let wanted = patched(&present, &json!({"spec": {"job": {"parallelism": 0}}}));
    let found = new_violations(&present, &wanted);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].path, "spec.job.parallelism");
}
