//! A paused resource is only observed, and says so.

use api::PAUSED_ANNOTATION;
use lifecycle::blocker::Reason;
use lifecycle::conditions::of_type;
use lifecycle::notes::UNFINISHED_DEPLOYMENT;
use lifecycle::paused::{PAUSED, Parent};
use lifecycle::readiness::{READY, STALLED};

use super::silence::stopping;
use super::*;

fn paused(mut scene: Scene) -> Scene {
    let annotations = scene.resource.metadata.annotations.get_or_insert_default();
    annotations.insert(PAUSED_ANNOTATION.to_owned(), "True".to_owned());
    scene
}

fn condition<'p>(plan: &'p Plan, type_: &str) -> Option<(&'p str, &'p str)> {
    let condition = of_type(&plan.status.conditions, type_)?;
    Some((condition.status.as_deref()?, condition.reason.as_deref()?))
}

fn edited(mode: &str) -> Scene {
    Scene::running(mode).edit(|spec| spec.image = Some("flink:1.20.1".to_owned()))
}

#[test]
fn nothing_is_done_for_a_paused_resource_whatever_its_spec_asks_for() {
    for (what, scene) in [
        ("a first deployment", Scene::new("savepoint")),
        ("an edit", edited("savepoint")),
        ("an edit, last-state", edited("last-state")),
        ("a suspend", Scene::running("savepoint").edit_job(|job| job.state = JobState::Suspended)),
        (
            "a resume",
            Scene::running("savepoint").gone().suspended(UpgradeMode::Savepoint).path(SAVEPOINT),
        ),
        (
            "an upgrade under way",
            edited("savepoint").upgrading(UpgradeMode::Savepoint).path(SAVEPOINT),
        ),
        ("a JobManager that is gone", Scene::running("last-state").gone()),
        (
            "a savepoint",
            Scene::running("savepoint").edit_job(|job| job.savepoint_trigger_nonce = Some(1)),
        ),
    ] {
        assert_ne!(step_names(&scene.plan()), [""; 0], "{what}: as it is");
        let plan = paused(scene).plan();
        assert!(plan.steps.iter().all(Step::is_record), "{what}: {}", described(&plan));
        assert_eq!(condition(&plan, PAUSED), Some(("True", PAUSED)), "{what}");
        assert!(plan.because.contains(PAUSED_ANNOTATION), "{what}: {}", plan.because);
    }
}

#[test]
fn a_paused_job_that_is_as_its_spec_says_is_ready_and_else_it_is_stalled() {
    let plan = paused(Scene::running("savepoint")).plan();
    assert_eq!(condition(&plan, READY), Some(("True", "Running")));
    let plan = paused(edited("savepoint")).plan();
    assert_eq!(condition(&plan, STALLED), Some(("True", PAUSED)));
}

#[test]
fn a_pause_is_reported_once() {
    let mut scene = paused(Scene::running("savepoint"));
    let plan = scene.plan();
    assert!(matches!(&plan.steps[..], [Step::Event(event)] if event.reason == PAUSED), "{plan:?}");
    scene.waits = plan.waits;
    let again = scene.after(&plan).plan();
    assert!(again.steps.is_empty() && again.status == plan.status, "{}", described(&again));
}

#[test]
fn what_was_paused_goes_on_where_it_was() {
    let scene = edited("savepoint");
    let expected = described(&scene.plan());
    let plan = paused(scene.clone()).plan();
    let after = described(&scene.after(&plan).plan());
    assert_eq!(after, expected);
}

/// Only its JobManager knows the savepoint, and may be gone when the resource is unpaused.
#[test]
fn the_savepoint_of_a_stop_that_ends_during_a_pause_is_recorded() {
    let mut scene = paused(stopping());
    scene.facts.jobs = Fact::Known(job(JobStatusState::Finished));
    scene.facts.stop = Fact::Known(Stop::Completed { path: SAVEPOINT.to_owned() });
    let plan = scene.plan();
    assert!(plan.steps.iter().all(Step::is_record), "{}", described(&plan));
    assert_eq!(plan.status.job_status.upgrade_savepoint_path.as_deref(), Some(SAVEPOINT));
}

#[test]
fn an_invalid_spec_of_a_paused_resource_is_reported_as_always() {
    let plan = paused(Scene::running("savepoint").edit_job(|job| job.parallelism = Some(0))).plan();
    assert!(error(&plan).contains("parallelism"), "{}", error(&plan));
    assert_eq!(condition(&plan, STALLED), Some(("True", "ValidationError")));
}

#[test]
fn the_deletion_of_a_paused_resource_waits_and_says_so() {
    let mut scene = Scene::running("savepoint").delete();
    let goes_on = step_names(&scene.plan());
    assert!(goes_on.contains(&"delete-job-manager"), "{goes_on:?}");
    let plan = paused(scene.clone()).plan();
    assert!(plan.steps.iter().all(Step::is_record), "{}", described(&plan));
    assert_eq!(plan.blocker.as_ref().map(|blocker| blocker.reason), Some(Reason::Paused));
    assert!(error(&plan).contains("kubectl flink unpause"), "{}", error(&plan));
    // One that has begun.
    scene.status.lifecycle_state = Some(api::status::LifecycleState::Deleting);
    let plan = paused(scene).plan();
    assert!(plan.steps.iter().all(Step::is_record), "{}", described(&plan));
}

#[test]
fn a_recovery_that_a_pause_interrupts_is_finished_after_it() {
    let mut scene = paused(Scene::running("last-state"));
    scene.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
    let plan = scene.plan();
    assert!(plan.status.cluster_info.contains_key(UNFINISHED_DEPLOYMENT.key), "{:?}", plan.status);
    scene.resource.metadata.annotations = None;
    let names = step_names(&scene.after(&plan).plan());
    assert!(names.contains(&"finish-cluster"), "{names:?}");
}

fn plan_of_child(scene: &Scene, parent: Option<Parent>) -> Plan {
    decide(&World { parent, ..scene.world(scene.answers()) }).unwrap()
}

#[test]
fn a_child_is_paused_with_its_blue_green_deployment_and_stays_so_when_that_is_gone() {
    let name = || "orders".to_owned();
    let scene = edited("savepoint");
    let plan = plan_of_child(&scene, Some(Parent::Paused(name())));
    assert!(plan.steps.iter().all(Step::is_record), "{}", described(&plan));
    assert!(plan.because.contains("unpause bluegreen/orders"), "{}", plan.because);

    let gone = Some(Parent::Gone(name()));
    let goes_on = plan_of_child(&scene, gone.clone());
    assert!(
        !goes_on.steps.iter().all(Step::is_record),
        "it was not paused: {}",
        described(&goes_on)
    );
    let mut orphan = scene.after(&plan).delete();
    let held = plan_of_child(&orphan, gone.clone());
    assert!(held.steps.iter().all(Step::is_record), "{}", described(&held));
    assert!(error(&held).contains("was deleted while it was paused"), "{}", error(&held));
    let annotations = orphan.resource.metadata.annotations.get_or_insert_default();
    annotations.insert(PAUSED_ANNOTATION.to_owned(), "false".to_owned());
    let unpaused = plan_of_child(&orphan, gone);
    assert!(!unpaused.steps.iter().all(Step::is_record), "{}", described(&unpaused));
}
