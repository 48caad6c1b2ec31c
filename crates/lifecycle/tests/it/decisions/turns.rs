//! An edit of a running job waits for its turn among the upgrades of a fleet.

use super::*;
use api::status::LifecycleState;
use lifecycle::conditions::{UPGRADE_ADMITTED, UPGRADES_PAUSED, WAITS_FOR_TURN};
use lifecycle::upgrade_budget::{Limits, Of, Progress, ResourceKind, UpgradeBudget};
use lifecycle::world::Turn;

fn edited(turn: Turn) -> Scene {
    let mut scene =
        Scene::running("savepoint").edit(|spec| spec.image = Some("flink:1.20.1".to_owned()));
    scene.facts.turn = Fact::Known(turn);
    scene
}

fn reported_of(plan: &Plan) -> Option<(&str, Option<i64>)> {
    let condition =
        plan.status.conditions.iter().find(|it| it.type_.as_deref() == Some(UPGRADE_ADMITTED))?;
    Some((condition.reason.as_deref()?, condition.observed_generation))
}

#[test]
fn a_change_that_waits_stops_nothing_and_says_so_once() {
    let mut scene = edited(Turn::Waits);
    let plan = scene.plan();
    assert!(matches!(plan.steps[..], [Step::Event(_)]), "{:?}", plan.steps);
    assert_eq!(reported_of(&plan), Some((WAITS_FOR_TURN, Some(2))));
    scene.status = (*plan.status).clone();
    let again = scene.plan();
    assert!(again.steps.is_empty() && again.status == plan.status, "{:?}", step_names(&again));

    scene.facts.turn = Fact::Known(Turn::Paused);
    let paused = scene.plan();
    assert!(matches!(paused.steps[..], [Step::Event(_)]), "{:?}", paused.steps);
    assert_eq!(reported_of(&paused), Some((UPGRADES_PAUSED, Some(2))));
    scene.facts.turn = Fact::Known(Turn::Taken);
    let taken = scene.plan();
    assert!(step_names(&taken).contains(&"stop-with-savepoint"), "{:?}", step_names(&taken));
    assert_eq!(reported_of(&taken), None);
}

#[test]
fn who_waits_for_one_that_takes_long_is_shown_its_name() {
    let since = "2026-01-01T00:00:00Z".parse().unwrap();
    let scene = edited(Turn::WaitsFor { name: "shop/clicks".to_owned(), since });
    let plan = scene.plan();
    assert_eq!(reported_of(&plan), Some((WAITS_FOR_TURN, Some(2))));
    assert!(
        plan.because.contains("the one of `shop/clicks` since 2026-01-01T00:00:00Z"),
        "{plan:?}"
    );
}

/// A job may stay down until a person mends it, which must not stop the rest of the fleet.
#[test]
fn an_upgrade_that_stays_down_does_not_keep_its_turn() {
    let limits = Limits {
        at_once: Some(1),
        failures: Some(1),
        patience: SignedDuration::from_mins(5),
        ..Limits::default()
    };
    let of = |name: &str| Of {
        kind: ResourceKind::FlinkDeployment,
        parent: None,
        uid: name.to_owned(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
    };
    let mut status = Scene::running("last-state").status;
    status.reconciliation_status.last_stable_spec =
        status.reconciliation_status.last_reconciled_spec.clone();
    status.lifecycle_state = Some(LifecycleState::Upgrading);
    for error in [None, Some("Manual restore required.".to_owned())] {
        let (is_reported, mut budget) = (error.is_some(), UpgradeBudget::default());
        let mut now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        assert_eq!(budget.ask(&of("a"), 2, &limits, now), Turn::Taken);
        status.error = None;
        let _woken = budget.seen(&of("a"), 2, Progress::of(&status), &limits, now);
        assert_eq!(budget.ask(&of("b"), 2, &limits, now), Turn::Waits);
        status.error = error;
        if is_reported {
            status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
        } else {
            now += limits.patience;
        }
        let _woken = budget.seen(&of("a"), 2, Progress::of(&status), &limits, now);
        assert_eq!(budget.ask(&of("b"), 2, &limits, now), Turn::Paused, "it has failed");
        let _woken = budget.resume(&limits, now);
        assert_eq!(budget.ask(&of("b"), 2, &limits, now), Turn::Taken);
    }
}

#[test]
fn whether_it_is_its_turn_must_be_known() {
    let mut scene = edited(Turn::Waits);
    scene.status = (*scene.plan().status).clone();
    scene.facts.turn = Fact::Unknown("the list is not complete".to_owned());
    let plan = scene.plan();
    assert!(plan.steps.is_empty(), "{:?}", step_names(&plan));
    assert_eq!(reported_of(&plan), Some((WAITS_FOR_TURN, Some(2))), "it keeps its place");
}

#[test]
fn a_suspend_and_the_autoscaler_wait_for_nobody() {
    let mut suspended =
        edited(Turn::Paused).edit(|spec| spec.job.as_mut().unwrap().state = JobState::Suspended);
    suspended.facts.turn = Fact::Known(Turn::Paused);
    assert!(step_names(&suspended.plan()).contains(&"stop-with-savepoint"));

    // An autoscaler's change has no generation of its own.
    let mut scaled = edited(Turn::Paused);
    scaled.status.observed_generation = scaled.resource.metadata.generation;
    assert!(step_names(&scaled.plan()).contains(&"stop-with-savepoint"));
}
