//! Whatever a plan waits for, the status says so once that takes longer than is normal.

use lifecycle::wait::{Awaited, Limit, STILL_WAITING, Waiting};

use super::*;

/// Returns the scene after its process has waited for this for an hour.
fn waited(mut scene: Scene, on: Awaited) -> Scene {
    let since = ago(3600);
    scene.waits = Some(Waiting { on, since, told_at: Some(since) });
    scene
}

/// Stopped for an upgrade, while something keeps the Deployment that was deleted in the foreground.
fn leaving() -> Scene {
    let mut scene = Scene::running("last-state").upgrading(UpgradeMode::LastState);
    scene.status.reconciliation_status.reconciliation_timestamp = ago(600).as_millisecond();
    scene.status.job_status.update_time = Some(ago(600).as_millisecond().to_string());
    let deleted = job_manager();
    scene.facts.job_manager = Fact::Known(Some(JobManager {
        is_deleting: true,
        deleting_since: Some(ago(600)),
        available_replicas: 0,
        ..deleted
    }));
    scene.facts.pods = Fact::Known(vec![]);
    scene.facts.remains = Fact::Known(vec![]);
    scene
}

#[test]
fn a_pod_that_keeps_the_old_deployment_is_reported_by_name_node_and_finalizer() {
    let held = Pod {
        name: "orders-taskmanager-1-1".to_owned(),
        ending_since: Some(ago(60)),
        node: Some("gone-7".to_owned()),
        finalizers: vec!["example.com/hold".to_owned()],
        has_ended: true,
        ..pod()
    };
    for is_suspended in [false, true] {
        let mut scene = leaving();
        if is_suspended {
            scene = scene.edit_job(|job| job.state = JobState::Suspended);
        }
        scene.facts.remains = Fact::Known(vec![held.clone()]);
        let plan = scene.plan();
        let told = error(&plan);
        for part in ["orders-taskmanager-1-1", "gone-7", "example.com/hold", "out-of-service"] {
            assert!(told.contains(part), "{told} {}", described(&plan));
        }
        assert_eq!(step_names(&plan), [""; 0], "nothing is forced: {}", described(&plan));
        let mut gone = scene.after(&plan);
        gone.facts.remains = Fact::Known(vec![]);
        assert_eq!(gone.plan().status.error, None, "the word goes with the pod");
    }
}

#[test]
fn a_deployment_that_does_not_go_is_reported_without_a_pod() {
    let scene = leaving();
    let plan = scene.plan();
    assert_eq!(plan.status.error, None, "this process has just begun to wait");
    let waits = plan.waits.unwrap();
    assert_eq!(waits.on, Awaited::JobManagerGone);
    let plan = waited(scene, Awaited::JobManagerGone).plan();
    assert!(error(&plan).contains("waiting for the old JobManager to end"), "{}", error(&plan));
    let is_event =
        |step: &Step| matches!(step, Step::Event(event) if event.reason == STILL_WAITING);
    assert!(plan.steps.iter().any(is_event), "{}", described(&plan));
}

#[test]
fn a_dry_run_that_fails_holds_up_the_edit_alone() {
    let mut scene =
        Scene::running("last-state").edit(|spec| spec.image = Some("flink:2".to_owned()));
    scene.facts.refusal = Fact::Unknown("Service `orders-rest`: webhook failed".to_owned());
    let plan = scene.plan();
    assert_eq!(plan.waits.unwrap().on, Awaited::Fact);
    assert!(plan.because.starts_with("the change waits: "), "{}", plan.because);
    let told_later = waited(scene.clone(), Awaited::Fact).plan();
    assert!(error(&told_later).contains("Service `orders-rest`: webhook failed"));

    let mut lost = scene.gone();
    lost.facts.pods = Fact::Known(vec![]);
    let plan = lost.plan();
    assert!(step_names(&plan).contains(&"create-cluster"), "it is recovered: {}", described(&plan));
}

#[test]
fn the_limit_of_each_wait_is_short_or_the_users() {
    for on in Awaited::ALL {
        if let Limit::After(limit) = on.limit() {
            assert!(limit.as_secs() <= 600, "{on:?}");
        }
        assert!(!on.remedy().is_empty(), "{on:?}");
    }
}
