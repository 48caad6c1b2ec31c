//! Statuses that the Java operator leaves and this one does not: a path beside a start without state is from an earlier
//! start, or from what a failed job was restarted from.

use lifecycle::phase::Phase;

use super::rollback::{failing, taken_down};
use super::*;

const TAKEN_OVER: &str = "s3://lake/chk/00000000000000000000000000000001/chk-7";

/// The spec was stored at a first start without state and never edited; the job was started again.
fn started_again(mode: &str) -> Scene {
    let mut scene = Scene::running(mode).path(TAKEN_OVER);
    scene.store(JobState::Running, UpgradeMode::Stateless);
    scene.status.reconciliation_status.last_stable_spec =
        scene.status.reconciliation_status.last_reconciled_spec.clone();
    scene.facts.ha_metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: None });
    scene
}

fn edited(scene: Scene) -> Scene {
    scene.edit(|spec| spec.image = Some("flink:other".to_owned()))
}

fn never_started(scene: Scene) -> Scene {
    let mut scene = scene.starting().without_metadata().pod_problem("ImagePullBackOff", false);
    let unstarted =
        JobManager { available_replicas: 0, was_never_available: true, ..job_manager() };
    scene.facts.job_manager = Fact::Known(Some(unstarted));
    scene
}

fn waiting_for_slots(scene: Scene) -> Scene {
    let mut scene = scene
        .operator_option("job.upgrade.last-state.job-cancel.enabled", "true")
        .in_state(JobStatusState::Created);
    scene.facts.checkpoints = Fact::Known(Checkpoints { is_blank: true, ..Checkpoints::default() });
    scene
}

fn to_be_rolled_back(mode: &str) -> Scene {
    let mut scene = started_again(mode).operator_option("deployment.rollback.enabled", "true");
    scene = edited(scene);
    scene.store(JobState::Running, UpgradeMode::Stateless);
    scene.status.observed_generation = Some(2);
    scene.starting()
}

#[test]
fn a_path_alongside_a_start_without_state_is_not_dropped() {
    for mode in ["savepoint", "last-state"] {
        for (case, scene) in [
            ("lost", started_again(mode).gone()),
            ("lost and edited", edited(started_again(mode).gone())),
            ("starting", edited(started_again(mode).starting())),
            ("never started", edited(never_started(started_again(mode)))),
            ("waiting", edited(waiting_for_slots(started_again(mode)))),
            ("rolled back", to_be_rolled_back(mode)),
        ] {
            let plan = scene.plan();
            assert_eq!(step_names(&plan), [""; 0], "{mode}, {case}: {}", described(&plan));
            let path = plan.status.job_status.upgrade_savepoint_path.as_deref();
            assert_eq!(path, Some(TAKEN_OVER), "{mode}, {case}");
            let is_waiting = plan.because.starts_with("the change waits");
            assert!(
                is_waiting || error(&plan).contains(TAKEN_OVER),
                "{case}: {}",
                described(&plan)
            );
        }
    }
}

#[test]
fn a_checkpoint_of_its_own_is_newer_than_a_path_of_whatever_start() {
    let metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(1) });
    for scene in
        [started_again("last-state").gone(), edited(started_again("last-state").starting())]
    {
        let mut scene = scene;
        scene.facts.ha_metadata = metadata.clone();
        let plan = scene.plan();
        let is_lost = scene.facts.job_manager == Fact::Known(None);
        let deed = if is_lost { "create-cluster" } else { "stop-job-manager" };
        assert!(step_names(&plan).contains(&deed), "{}", described(&plan));
        let path = plan.status.job_status.upgrade_savepoint_path.as_deref();
        assert_eq!(path, Some("KUBERNETES_OPERATOR_LAST_STATE"));
    }
}

#[test]
fn a_job_that_keeps_no_state_is_not_asked_for_any() {
    let plan = started_again("stateless").gone().plan();
    assert_eq!(restored(&plan).as_deref(), Some(""), "{}", described(&plan));
}

#[test]
fn a_start_without_state_and_without_a_path_is_empty() {
    let mut scene = started_again("last-state").gone();
    scene.status.job_status.upgrade_savepoint_path = None;
    assert_eq!(restored(&scene.plan()).as_deref(), Some(""));
}

/// The Java operator cancels the job of a spec that it rolls back, and waits for its end.
#[test]
fn an_edit_of_what_is_rolled_back_does_not_wait_for_a_cancellation_that_nobody_sees_end() {
    for mode in ["stateless", "savepoint", "last-state"] {
        let mut scene = taken_down(&failing(mode).starting());
        scene.status.job_status.state = Some(JobStatusState::Cancelling);
        scene.facts.job_manager = Fact::Known(Some(job_manager()));
        let scene = edited(scene);
        let plan = scene.plan();
        assert_eq!(
            phases_of(&scene.status, &plan),
            [Phase::Starting],
            "{mode}: {}",
            described(&plan)
        );
        let mut scene = scene.after(&plan);
        scene.facts.job_manager = Fact::Known(None);
        let plan = scene.plan();
        assert_eq!(
            phases_of(&scene.status, &plan),
            [Phase::Running],
            "{mode}: {}",
            described(&plan)
        );
    }
}

/// Someone cancelled the job of a first start. The Java operator stores it as suspended without state, beside the path
/// of the state that it left.
#[test]
fn a_job_that_was_cancelled_goes_on_from_what_it_left() {
    for mode in ["savepoint", "last-state"] {
        for scene in [
            Scene::running(mode).suspended(UpgradeMode::Stateless),
            Scene::running(mode).upgrading(UpgradeMode::Stateless),
        ] {
            let mut scene = scene.without_metadata().path(TAKEN_OVER);
            scene.status.job_status.state = Some(JobStatusState::Canceled);
            let plan = scene.plan();
            assert!(step_names(&plan).contains(&"create-cluster"), "{mode}: {}", described(&plan));
            let path = plan.status.job_status.upgrade_savepoint_path.as_deref();
            assert_eq!(path, Some(TAKEN_OVER), "{mode}: {}", described(&plan));
            scene.resource.spec.job.as_mut().unwrap().upgrade_mode = UpgradeMode::Stateless;
            let path = scene.plan().status.job_status.upgrade_savepoint_path.clone();
            assert_eq!(path, None, "its user does not care for state");
        }
    }
}
