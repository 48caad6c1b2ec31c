//! Decisions after a plan that stopped at an error.

use std::time::Duration;

use api::blue_green::{ABORT_ANNOTATION, ABORTED, BlueGreenState, Colour, PROGRESSING};
use api::job::{JobState, UpgradeMode};
use blue_green::child::Child;
use blue_green::plan::Step;

use crate::upheaval::{Change, Refused, Untold};
use crate::world::Sim;

const REPORTED: &str = "the last step was not carried out: quota";

/// A transition is due, and the API server rejects such writes.
fn refused(what: Refused) -> Sim {
    let mut sim = Sim::new(UpgradeMode::Savepoint);
    sim.settle();
    sim.edit_job(|job| job.parallelism = Some(3));
    sim.change_around(Change::RefusedForGood(what));
    sim
}

fn wait(sim: &mut Sim, seconds: usize) {
    for _ in 0..seconds {
        sim.tick();
        sim.pass(None);
    }
}

fn error(sim: &Sim) -> &str {
    sim.status.error.as_deref().unwrap_or_default()
}

#[test]
fn a_target_that_is_not_admitted_is_reported_once_and_created_when_it_is() {
    let mut sim = refused(Refused::Creations);
    wait(&mut sim, 8);
    assert_eq!(error(&sim), REPORTED);
    assert_eq!(sim.status.blue_green_state, Some(BlueGreenState::TransitioningToGreen));
    let writes = sim.writes;
    wait(&mut sim, 8);
    assert_eq!(sim.writes, writes, "told once");
    sim.end_upheaval();
    sim.settle();
    assert_eq!((error(&sim), sim.serving()), ("", Some(Colour::Green)));
}

#[test]
fn a_target_that_is_not_admitted_in_time_is_given_up() {
    let mut sim = refused(Refused::Creations);
    wait(&mut sim, 50);
    assert!(error(&sim).contains("could not be created within 30s: quota"), "{}", error(&sim));
    assert_eq!(sim.serving(), Some(Colour::Blue));
    let progress = sim.status.conditions.iter().find(|it| it.type_.as_deref() == Some(PROGRESSING));
    assert_eq!(progress.unwrap().reason.as_deref(), Some(ABORTED));
    sim.assert_rests();
}

#[test]
fn a_target_that_is_not_admitted_makes_room_for_the_next_edit() {
    for state in [JobState::Running, JobState::Suspended] {
        let mut sim = refused(Refused::Creations);
        wait(&mut sim, 8);
        sim.edit_job(|job| {
            job.parallelism = Some(2);
            job.state = state;
        });
        sim.settle();
        assert_eq!((error(&sim), sim.serving()), ("", Some(Colour::Blue)), "{state:?}");
    }
}

#[test]
fn a_first_child_that_is_not_admitted_is_reported() {
    let mut sim = Sim::new(UpgradeMode::Savepoint);
    sim.change_around(Change::RefusedForGood(Refused::Creations));
    wait(&mut sim, 5);
    assert_eq!(error(&sim), REPORTED);
    sim.end_upheaval();
    sim.settle();
    assert_eq!(error(&sim), "");
}

#[test]
fn a_change_of_the_target_that_is_not_admitted_is_reported_and_may_be_aborted() {
    for is_aborted in [false, true] {
        let mut sim = refused(Refused::Changes);
        // Long enough for the edit to come before the end of the transition.
        sim.settings.deletion_delay = Duration::from_mins(1);
        while sim.children.len() < 2 {
            wait(&mut sim, 1);
        }
        sim.edit_job(|job| job.parallelism = Some(5));
        wait(&mut sim, 5);
        assert_eq!(error(&sim), REPORTED);
        if is_aborted {
            let uid = Child(&sim.children[&Colour::Green].object).uid().to_owned();
            sim.annotate(ABORT_ANNOTATION, uid);
            // Its deletion needs no change.
            wait(&mut sim, 2);
            assert!(error(&sim).contains("a user requested the abort"), "{}", error(&sim));
        } else {
            wait(&mut sim, 40);
            assert!(error(&sim).contains("did not get the spec within 30s"), "{}", error(&sim));
        }
        assert_eq!(sim.serving(), Some(Colour::Blue));
    }
}

/// A webhook that changes the spec of children, such as their image.
#[test]
fn a_target_that_does_not_keep_its_spec_is_given_up() {
    let mut sim = Sim::new(UpgradeMode::Savepoint);
    sim.settle();
    sim.change_around(Change::Rewrite);
    sim.edit_job(|job| job.parallelism = Some(3));
    wait(&mut sim, 60);
    assert!(error(&sim).contains("does not keep it, as with admission"), "{}", error(&sim));
    assert_eq!((sim.children.len(), sim.serving()), (1, Some(Colour::Blue)));
    sim.assert_rests();
}

/// The serving child is changed in place, and a webhook changes the image that it is given.
#[test]
fn a_change_in_place_that_does_not_stay_is_reported_once() {
    let mut sim = Sim::new(UpgradeMode::Savepoint);
    sim.settle();
    sim.change_around(Change::Rewrite);
    sim.edit_job(|job| job.state = JobState::Suspended);
    wait(&mut sim, 50);
    assert!(error(&sim).starts_with("`orders-blue` is not changed: it did not get the spec"));
    let (writes, plan) = (sim.status.clone(), sim.pass(None));
    assert_eq!(sim.status, writes, "told once: {}", plan.because);
    assert!(!plan.steps.iter().any(|step| matches!(step, Step::Event(_))));
    sim.end_upheaval();
    wait(&mut sim, 10);
    assert_eq!(error(&sim), "");
}

#[test]
fn children_and_a_web_ui_that_cannot_be_read_are_left_alone_and_reported() {
    for (untold, told) in [
        (Untold::Children, "the last step was not carried out: the children cannot be read"),
        (Untold::WebUi, "`orders-blue` stays while the web UI points to it"),
    ] {
        let mut sim = Sim::new(UpgradeMode::Savepoint);
        sim.settle();
        sim.change_around(Change::Untold(untold));
        sim.edit_job(|job| job.parallelism = Some(3));
        wait(&mut sim, 90);
        assert!(error(&sim).starts_with(told), "{}", error(&sim));
        assert!(sim.runs(Colour::Blue) && sim.ingress == Some(Colour::Blue));
        sim.end_upheaval();
        sim.settle();
        assert_eq!((error(&sim), sim.serving()), ("", Some(Colour::Green)));
    }
}
