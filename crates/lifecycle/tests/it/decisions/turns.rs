//! An edit of a running job waits for its turn among the upgrades of a fleet.

use super::*;
use lifecycle::conditions::{PAUSED, UPGRADE_ADMITTED, WAITS_FOR_TURN};
use lifecycle::upgrade_budget::Turn;

fn edited(turn: Turn) -> Scene {
    let mut scene =
        Scene::running("savepoint").edit(|spec| spec.image = Some("flink:1.20.1".to_owned()));
    scene.facts.turn = Fact::Known(turn);
    scene
}

fn told_of(plan: &Plan) -> Option<(&str, Option<i64>)> {
    let condition =
        plan.status.conditions.iter().find(|it| it.type_.as_deref() == Some(UPGRADE_ADMITTED))?;
    Some((condition.reason.as_deref()?, condition.observed_generation))
}

#[test]
fn a_change_that_waits_stops_nothing_and_says_so_once() {
    let mut scene = edited(Turn::Waits);
    let plan = scene.plan();
    assert!(matches!(plan.steps[..], [Step::Event(_)]), "{:?}", plan.steps);
    assert_eq!(told_of(&plan), Some((WAITS_FOR_TURN, Some(2))));
    scene.status = (*plan.status).clone();
    let again = scene.plan();
    assert!(again.steps.is_empty() && again.status == plan.status, "{:?}", step_names(&again));

    scene.facts.turn = Fact::Known(Turn::Paused);
    let paused = scene.plan();
    assert!(matches!(paused.steps[..], [Step::Event(_)]), "{:?}", paused.steps);
    assert_eq!(told_of(&paused), Some((PAUSED, Some(2))));
    scene.facts.turn = Fact::Known(Turn::Taken);
    let taken = scene.plan();
    assert!(step_names(&taken).contains(&"stop-with-savepoint"), "{:?}", step_names(&taken));
    assert_eq!(told_of(&taken), None);
}

#[test]
fn whether_it_is_its_turn_must_be_known() {
    let mut scene = edited(Turn::Waits);
    scene.status = (*scene.plan().status).clone();
    scene.facts.turn = Fact::Unknown("the list is not complete".to_owned());
    let plan = scene.plan();
    assert!(plan.steps.is_empty(), "{:?}", step_names(&plan));
    assert_eq!(told_of(&plan), Some((WAITS_FOR_TURN, Some(2))), "it keeps its place");
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
