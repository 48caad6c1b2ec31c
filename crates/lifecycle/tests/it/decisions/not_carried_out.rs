//! What stopped a plan is reported in the status without hiding what else is reported there.

use std::time::Duration;

use lifecycle::error_document::{message_of, reason_of};

use super::*;

const REFUSED: &str = "exceeded quota: compute";

fn stopped_at(mut scene: Scene) -> Scene {
    scene.facts.stopped_at = Some(REFUSED.to_owned());
    scene
}

fn goes_on(mut scene: Scene) -> Scene {
    scene.facts.stopped_at = None;
    scene
}

fn error_of(scene: &Scene) -> String {
    scene.status.error.clone().unwrap_or_default()
}

/// Stopped, and about to be started.
fn upgrading() -> Scene {
    Scene::running("savepoint").path(SAVEPOINT).upgrading(UpgradeMode::Savepoint)
}

#[test]
fn it_is_stored_before_the_next_plan_stops_too() {
    let scene = upgrading();
    let plan = stopped_at(scene.clone()).plan();
    let Some(Step::WriteStatus(first)) = plan.steps.first() else { panic!("{}", described(&plan)) };
    let mut expected = scene.status.clone();
    expected.error.clone_from(&first.error);
    expected.lifecycle_state = first.lifecycle_state;
    expected.conditions.clone_from(&first.conditions);
    assert_eq!(**first, expected, "nothing else is noted before it is done");
    let error = first.error.as_deref().unwrap();
    assert_eq!(message_of(error), REFUSED);
    assert_eq!(reason_of(error).as_deref(), Some("NotCarriedOut"));

    let known = Scene { status: (**first).clone(), ..stopped_at(scene) };
    let is_reported = |step: &Step| matches!(step, Step::WriteStatus(of) if **of == known.status);
    assert!(!known.plan().steps.iter().any(is_reported), "it is told once");
}

/// Returns scenes in which only the start is missing.
fn down() -> [Scene; 3] {
    let mut rolling_back = upgrading();
    rolling_back.store(JobState::Running, UpgradeMode::Savepoint);
    rolling_back.status.reconciliation_status.state = ReconciliationState::RollingBack;
    let mut lost = Scene::running("last-state").gone();
    lost.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
    lost.status.job_status.update_time = Some(ago(600).as_millisecond().to_string());
    [upgrading(), rolling_back, lost]
}

#[test]
fn pods_that_nobody_ends_are_reported_by_name_and_waited_for() {
    let running = Pod { name: "orders-orphan".to_owned(), ..pod() };
    let stuck = Pod { name: "orders-stuck".to_owned(), ending_since: Some(ago(60)), ..pod() };
    let ending = Pod { name: "orders-ending".to_owned(), ending_since: Some(ago(10)), ..pod() };
    for scene in down() {
        let mut left = scene.clone();
        left.facts.pods = Fact::Known(vec![running.clone(), stuck.clone(), ending.clone()]);
        let plan = left.plan();
        assert!(!step_names(&plan).contains(&"create-cluster"), "{}", described(&plan));
        assert!(plan.look_again.unwrap() <= Duration::from_secs(5));
        assert!(error(&plan).contains("pods [orders-orphan, orders-stuck] of"), "{}", error(&plan));
        let left = left.after(&plan);
        let again = left.plan();
        assert_eq!(again.status.error, left.status.error);
        assert_eq!(step_names(&again), [""; 0], "{}", described(&again));
        assert!(!again.steps.iter().any(|step| matches!(step, Step::Event(_))), "told once");
        let mut gone = left;
        gone.facts.pods = Fact::Known(vec![]);
        let plan = gone.plan();
        assert!(step_names(&plan).contains(&"create-cluster"), "{}", described(&plan));
        assert_eq!(plan.status.error, None);

        let mut going = scene;
        going.facts.pods = Fact::Known(vec![ending.clone()]);
        assert_eq!(going.plan().status.error, None);
        going.facts.pods = Fact::Known(vec![running.clone()]);
        going.status.reconciliation_status.reconciliation_timestamp = ago(5).as_millisecond();
        assert_eq!(going.plan().status.error, None, "somebody may yet end it");
    }
}

#[test]
fn what_holds_up_a_start_for_long_is_reported_until_it_passes() {
    let mut first = Scene::new("last-state");
    first.resource.metadata.creation_timestamp = Some(Time(ago(3600)));
    let resumed = Scene::running("last-state").suspended(UpgradeMode::LastState);
    let upgraded = Scene::running("last-state").upgrading(UpgradeMode::LastState);
    let [_, _, lost] = down();
    for mut scene in [first.clone(), resumed, upgraded, lost] {
        let metadata = scene.facts.ha_metadata.clone();
        scene.facts.ha_metadata = Fact::Unknown("ZooKeeper does not answer".to_owned());
        let plan = scene.plan();
        assert!(error(&plan).contains("ZooKeeper does not answer"), "{}", described(&plan));
        let held_up = scene.after(&plan);
        let again = held_up.plan();
        assert_eq!(again.status.error, held_up.status.error);
        assert!(again.steps.is_empty(), "{}", described(&again));
        let mut goes_on = held_up;
        goes_on.facts.ha_metadata = metadata;
        let plan = goes_on.plan();
        assert!(step_names(&plan).contains(&"create-cluster"), "{}", described(&plan));
        assert_eq!(plan.status.error, None);
    }
    first.facts.ha_metadata = Fact::Unknown("ZooKeeper does not answer".to_owned());
    first.resource.metadata.creation_timestamp = Some(Time(ago(10)));
    assert_eq!(first.plan().status.error, None, "it may pass");
}

#[test]
fn it_ends_with_a_plan_that_is_carried_out() {
    let scene = stopped_at(Scene::running("savepoint"));
    let scene = scene.clone().after(&scene.plan());
    assert_eq!(message_of(&error_of(&scene)), REFUSED);
    let scene = goes_on(scene);
    assert_eq!(scene.plan().status.error, None);
}

#[test]
fn that_the_record_went_back_stays_alongside_it() {
    let mut scene = upgrading();
    scene.went_back = Some(etcd_restore::went());
    let refused = scene.clone().after(&scene.plan());
    let mut scene = stopped_at(refused);
    scene.went_back = None;
    let scene = scene.clone().after(&scene.plan());
    assert!(WentBack::read(&error_of(&scene)).is_some(), "{}", error_of(&scene));
    let scene = goes_on(scene);
    let scene = scene.clone().after(&scene.plan());
    assert!(WentBack::read(&error_of(&scene)).is_some(), "{}", error_of(&scene));
}

#[test]
fn that_the_spec_was_rolled_back_stays_alongside_it() {
    let message =
        "the spec of 2026-11-01T00:00:00Z was not stable in time and is rolled back: late";
    let mut scene = Scene::running("savepoint");
    scene.status.reconciliation_status.state = ReconciliationState::RolledBack;
    scene.status.error = Some(serde_json::json!({ "message": message }).to_string());
    let scene = stopped_at(scene);
    let scene = scene.clone().after(&scene.plan());
    assert_eq!(message_of(&error_of(&scene)), REFUSED);
    assert!(error_of(&scene).contains(message), "{}", error_of(&scene));
    let scene = goes_on(scene);
    assert_eq!(message_of(&scene.plan().status.error.unwrap()), message);
}
