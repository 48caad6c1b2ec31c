//! A JobManager without an execution graph of its job has no statistics, whatever the job had before.

use api::status::LAST_STATE_PATH;

use super::*;

fn failed(lived: i64) -> Scene {
    let mut scene = Scene::running("last-state").without_metadata();
    scene.store(JobState::Running, UpgradeMode::Stateless);
    scene.status.job_status.state = Some(JobStatusState::Created);
    scene.status.job_status.start_time = Some(ago(lived).as_millisecond().to_string());
    let mut jobs = job(JobStatusState::Failed);
    jobs[0].start_time = ago(lived).as_millisecond();
    jobs[0].modified = Some(ago(0).as_millisecond());
    scene.facts.jobs = Fact::Known(jobs);
    scene.facts.checkpoints = Fact::Known(Checkpoints { is_blank: true, ..Checkpoints::default() });
    scene
}

#[test]
fn a_job_that_ended_without_resources_does_not_start_empty() {
    for (lived, was_seen) in [(3600, false), (3600, true), (60, true)] {
        let mut scene = failed(lived);
        if was_seen {
            scene.status.reconciliation_status.last_stable_spec =
                scene.status.reconciliation_status.last_reconciled_spec.clone();
        }
        let scene = scene.edit_job(|job| job.parallelism = Some(4));
        let plan = scene.plan();
        assert!(step_names(&plan).is_empty(), "{lived} {was_seen}: {}", described(&plan));
        assert!(error(&plan).contains("Manual restore required"), "{}", error(&plan));
        let path = plan.status.job_status.upgrade_savepoint_path.as_deref();
        assert_eq!(path, Some(LAST_STATE_PATH));
    }
}

#[test]
fn a_job_that_never_got_resources_starts_as_it_was_to_start() {
    let plan = failed(300).edit_job(|job| job.parallelism = Some(4)).plan();
    assert!(!step_names(&plan).is_empty(), "{}", described(&plan));
    assert_eq!(plan.status.job_status.upgrade_savepoint_path, None);
}

#[test]
fn a_job_that_waits_for_resources_is_not_cancelled_for_a_change() {
    let mut scene =
        Scene::running("last-state").without_metadata().in_state(JobStatusState::Created);
    scene.facts.checkpoints = Fact::Known(Checkpoints { is_blank: true, ..Checkpoints::default() });
    let plan = scene.edit_job(|job| job.parallelism = Some(4)).plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    assert!(plan.because.contains("is not running"), "{}", plan.because);
}
