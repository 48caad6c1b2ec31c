//! A savepoint redeploy records what it drops: once HA metadata is gone nothing else refers to it.

use super::*;

const RETAINED: &str = "s3://lake/chk/00000000000000000000000000000001/chk-7";

fn redeployed(scene: Scene) -> Scene {
    scene.edit_job(|job| {
        job.savepoint_redeploy_nonce = Some(1);
        job.initial_savepoint_path = Some(SAVEPOINT.to_owned());
    })
}

fn with_checkpoint(mut scene: Scene) -> Scene {
    let latest = Some(CompletedState { path: RETAINED.to_owned(), at: None });
    scene.facts.checkpoints = Fact::Known(Checkpoints { latest, ..Checkpoints::default() });
    scene
}

#[track_caller]
fn left(plan: &Plan) -> RestorePoint {
    let superseded = plan.steps.iter().find_map(|step| match step {
        Step::RecordRevision(superseded) => Some(superseded.restore_point.clone()),
        _ => None,
    });
    superseded.unwrap_or_else(|| panic!("nothing is recorded: {}", described(plan)))
}

#[test]
fn a_redeploy_of_a_running_job_leaves_its_newest_checkpoint_in_the_history() {
    for mode in ["savepoint", "last-state", "stateless"] {
        let plan = redeployed(with_checkpoint(Scene::running(mode).path(SAVEPOINT))).plan();
        assert_eq!(left(&plan), RestorePoint::Path(RETAINED.to_owned()), "{mode}");
        assert!(step_names(&plan).contains(&"cancel-job"), "{}", described(&plan));
    }
}

#[test]
fn a_redeploy_of_a_job_that_has_ended_leaves_what_the_job_left() {
    for state in [JobStatusState::Failed, JobStatusState::Finished] {
        let plan = redeployed(Scene::running("savepoint").path(RETAINED).in_state(state)).plan();
        assert_eq!(left(&plan), RestorePoint::Path(RETAINED.to_owned()), "{state:?}");
    }
}

#[test]
fn a_checkpoint_that_a_redeploy_deletes_is_not_in_the_history() {
    let mut scene = redeployed(with_checkpoint(Scene::running("last-state")));
    scene.facts.retention = Fact::Known(false);
    assert_eq!(left(&scene.plan()), RestorePoint::HaMetadata);
}

#[test]
fn a_redeploy_waits_a_minute_for_statistics_that_cannot_be_read() {
    let mut scene = redeployed(Scene::running("last-state"));
    scene.facts.checkpoints = Fact::Unknown("no answer".to_owned());
    let plan = scene.plan();
    assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
    let waits = scene.after(&plan);
    let again = waits.plan();
    assert_eq!(again.status, plan.status, "nothing is written at each look");
    assert_eq!(left(&with_checkpoint(waits.clone()).plan()), RestorePoint::Path(RETAINED.into()));

    let since = |seconds| format!("2 {}", ago(seconds));
    let mut late = waits.clone();
    late.status.cluster_info.insert("RedeployWaits".to_owned(), since(60));
    let plan = late.plan();
    assert_eq!(left(&plan), RestorePoint::HaMetadata);
    assert!(!plan.status.cluster_info.contains_key("RedeployWaits"));
    // Another redeploy gets its own minute.
    let another = late.edit_job(|job| job.savepoint_redeploy_nonce = Some(2));
    assert_eq!(step_names(&another.plan()), [""; 0]);
}

/// The redeploy may be what resolves it.
#[test]
fn a_redeploy_waits_for_no_job_manager_that_does_not_answer() {
    for scene in [Scene::running("last-state").silent(), Scene::running("last-state").gone()] {
        let plan = redeployed(scene).plan();
        assert_eq!(left(&plan), RestorePoint::HaMetadata, "{}", described(&plan));
    }
}
