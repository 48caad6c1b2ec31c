//! A job that is being stopped, and a JobManager that no longer reports how that ends.

use api::status::LAST_STATE_PATH;
use api::version::FlinkVersion;

use super::*;

/// A stop-with-savepoint is in progress.
pub(super) fn stopping() -> Scene {
    let scene = Scene::running("savepoint").edit_job(|job| job.parallelism = Some(4));
    scene.clone().after(&scene.plan())
}

/// The job is being cancelled for a change.
pub(super) fn cancelling() -> Scene {
    let scene = Scene::running("last-state")
        .operator_option("job.upgrade.last-state.job-cancel.enabled", "true")
        .edit_job(|job| job.parallelism = Some(4));
    scene.clone().after(&scene.plan())
}

/// No pod of the JobManager has run for this many seconds.
fn down(scene: Scene, seconds: i64) -> Scene {
    let state = scene.status.job_status.state;
    let mut scene = scene.starting();
    if state == Some(JobStatusState::Cancelling) {
        scene.status.job_status.state = state;
    }
    scene.status.job_status.update_time = Some(ago(seconds).as_millisecond().to_string());
    scene
}

fn asked(mut scene: Scene, seconds: i64) -> Scene {
    let info = scene.status.job_status.savepoint_info.as_mut().unwrap();
    info.trigger_timestamp = Some(ago(seconds).as_millisecond());
    scene
}

fn with_metadata(mut scene: Scene, has_job: bool, has_checkpoint: bool) -> Scene {
    scene.facts.ha_metadata =
        Fact::Known(HaMetadata { has_job, checkpoint: has_checkpoint.then_some(1) });
    scene
}

fn trigger(plan: &Plan) -> Option<&str> {
    plan.status.job_status.savepoint_info.as_ref()?.trigger_id.as_deref()
}

pub(super) fn redeploy(scene: Scene) -> Scene {
    scene.edit_job(|job| {
        job.savepoint_redeploy_nonce = Some(1);
        job.initial_savepoint_path = Some("s3://lake/named".to_owned());
    })
}

#[test]
fn t14_a_stop_that_nobody_answers_for_is_decided_anew_by_ha_metadata() {
    let plan = down(stopping(), 299).plan();
    assert_eq!(plan.because, "waiting for the savepoint");
    assert!(trigger(&plan).is_some());

    let scene = down(stopping(), 300);
    let plan = scene.plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    assert!(described(&plan).contains("event UpgradeFailed: the JobManager was asked"));
    assert_eq!(trigger(&plan), None);
    let scene = scene.after(&plan);
    let plan = scene.plan();
    assert_eq!(step_names(&plan), ["record-revision", "write-status", "stop-job-manager"]);
    assert_eq!(plan.because, "removing the JobManager and keeping HA metadata");

    let mut removed = scene.after(&plan);
    removed.facts.job_manager = Fact::Known(None);
    removed.facts.pods = Fact::Known(vec![]);
    assert_eq!(restored(&removed.plan()).as_deref(), Some(LAST_STATE_PATH));
    // The job took its checkpoints with it after all: the state it was started from is older.
    for has_job in [true, false] {
        let plan = with_metadata(removed.clone(), has_job, false).plan();
        assert!(step_names(&plan).is_empty(), "{}", described(&plan));
        assert!(error(&plan).contains("Manual restore required."), "{}", error(&plan));
    }
}

#[test]
fn t14_a_stop_that_may_have_left_a_savepoint_is_not_given_up() {
    let scene = down(stopping(), 3000).path("s3://lake/sp/old");
    let mut unreadable = scene.clone();
    unreadable.facts.ha_metadata = Fact::Unknown("forbidden".to_owned());
    let mut without = scene.clone();
    without = without.option("high-availability.type", "NONE");
    let no_fallback =
        scene.clone().operator_option("job.upgrade.last-state-fallback.enabled", "false");
    let other_version = scene.clone().edit(|spec| spec.flink_version = Some(FlinkVersion::V2_0));
    for scene in [
        no_fallback,
        other_version,
        with_metadata(scene.clone(), true, false),
        with_metadata(scene, false, false),
        unreadable,
        without,
    ] {
        let plan = scene.plan();
        assert!(step_names(&plan).is_empty(), "{}", described(&plan));
        assert!(trigger(&plan).is_some());
        assert!(error(&plan).contains("savepointRedeployNonce"), "{}", error(&plan));
        // The JobManager is back and knows the outcome.
        let mut back = scene.after(&plan);
        back.facts.job_manager = Fact::Known(Some(job_manager()));
        back.facts.jobs = Fact::Known(job(JobStatusState::Finished));
        back.facts.checkpoints = Fact::Known(Checkpoints::default());
        back.facts.stop = Fact::Known(Stop::Completed { path: SAVEPOINT.to_owned() });
        let path = back.plan().status.job_status.upgrade_savepoint_path;
        assert_eq!(path.as_deref(), Some(SAVEPOINT));
    }
}

#[test]
fn t14_a_job_manager_that_runs_in_silence_may_be_taking_the_savepoint() {
    let mut silent = stopping().silent();
    silent.status.job_status.update_time = Some(ago(400).as_millisecond().to_string());
    // Ten minutes of `execution.checkpointing.timeout`, and one more.
    for (seconds, is_waited_for) in [(659, true), (660, false)] {
        let plan = asked(silent.clone(), seconds).plan();
        assert_eq!(trigger(&plan).is_some(), is_waited_for, "{seconds}: {}", described(&plan));
    }
}

#[test]
fn t14_a_stop_is_not_taken_for_the_state_that_the_job_started_from() {
    // Someone deleted the JobManager, at the job's end or before.
    let scene = with_metadata(stopping().gone().path("s3://lake/sp/old"), true, false);
    let mut scene = scene.clone().after(&scene.plan());
    for _ in 0..2 {
        scene = scene.clone().after(&scene.plan());
    }
    let plan = scene.plan();
    assert!(restored(&plan).is_none(), "{}", described(&plan));
    assert!(error(&plan).contains("Manual restore required."), "{}", error(&plan));

    // It is a different JobManager, which read from its HA store that the job has finished.
    let mut finished = stopping().path("s3://lake/sp/old");
    finished.facts.jobs = Fact::Known(job(JobStatusState::Finished));
    finished.facts.checkpoints = Fact::Known(Checkpoints::default());
    finished.facts.stop = Fact::Known(Stop::NotFound);
    let finished = finished.clone().after(&finished.plan());
    let plan = finished.plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    assert!(error(&plan).contains("Manual restore required."), "{}", error(&plan));
}

#[test]
fn t14_a_state_that_its_user_names_does_not_wait_for_a_silent_job_manager() {
    for scene in [down(stopping(), 1), down(cancelling(), 1)] {
        let plan = redeploy(scene).plan();
        assert_eq!(step_names(&plan), ["record-revision", "write-status", "delete-job-manager"]);
        assert_eq!(trigger(&plan), None);
        let path = plan.status.job_status.upgrade_savepoint_path.as_deref();
        assert_eq!(path, Some("s3://lake/named"));
    }
}

#[test]
fn t14_a_savepoint_that_takes_too_long_is_reported_and_gives_way_to_a_named_state() {
    for (stop, seconds) in [(Fact::Known(Stop::Pending), 660), (Fact::Unknown(String::new()), 660)]
    {
        let mut scene = asked(stopping(), seconds - 1);
        scene.facts.stop = stop;
        assert_eq!(scene.plan().because, "waiting for the savepoint");
        assert_eq!(redeploy(scene.clone()).plan().because, "waiting for the savepoint");
        let late = asked(scene, seconds);
        let plan = late.plan();
        assert!(step_names(&plan).is_empty(), "{}", described(&plan));
        assert!(trigger(&plan).is_some());
        assert!(error(&plan).contains("has not stopped, so the change waits"), "{}", error(&plan));
        let plan = redeploy(late).plan();
        assert!(step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));
    }
}

#[test]
fn t14_a_stop_that_no_job_manager_knows_of_is_lost_when_the_job_does_not_run() {
    let mut scene = stopping();
    scene.facts.jobs = Fact::Known(job(JobStatusState::Restarting));
    scene.facts.stop = Fact::Known(Stop::NotFound);
    let plan = asked(scene.clone(), 299).plan();
    assert_eq!(plan.because, "waiting for the savepoint");
    let late = asked(scene, 300);
    let plan = late.plan();
    assert_eq!((plan.because.as_str(), trigger(&plan)), ("the stop-with-savepoint was lost", None));
    let plan = late.after(&plan).plan();
    assert!(step_names(&plan).contains(&"stop-job-manager"), "{}", described(&plan));
}

#[test]
fn t16_a_cancellation_that_nobody_answers_for_is_decided_anew_by_ha_metadata() {
    let plan = down(cancelling(), 299).plan();
    assert_eq!(plan.because, "waiting for the job to be cancelled");
    let scene = down(cancelling(), 300);
    let plan = scene.plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    let plan = scene.after(&plan).plan();
    assert_eq!(step_names(&plan), ["record-revision", "write-status", "stop-job-manager"]);
    assert_eq!(plan.because, "removing the JobManager and keeping HA metadata");

    let doubtful = with_metadata(down(cancelling(), 300), true, false);
    let plan = doubtful.plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    assert_eq!(plan.status.job_status.state, Some(JobStatusState::Cancelling));
    assert!(error(&plan).contains("savepointRedeployNonce"), "{}", error(&plan));
}

#[test]
fn t16_a_cancellation_that_nobody_saw_end_is_not_taken_for_the_state_that_the_job_started_from() {
    let empty = || {
        let mut scene = Scene::running("last-state");
        scene.store(JobState::Running, UpgradeMode::Stateless);
        scene
    };
    for scene in [empty(), Scene::running("last-state").path("s3://lake/sp/old")] {
        let scene = scene
            .operator_option("job.upgrade.last-state.job-cancel.enabled", "true")
            .edit_job(|job| job.parallelism = Some(4));
        let scene = scene.clone().after(&scene.plan());
        assert_eq!(scene.status.job_status.state, Some(JobStatusState::Cancelling));
        // Its Deployment is lost while the job removes its metadata.
        let mut lost = with_metadata(scene.clone().gone(), true, false);
        lost.status.job_status.state = Some(JobStatusState::Cancelling);
        // It is a different JobManager, which read from its HA store how the job ended.
        let mut told_so = scene.clone();
        told_so.facts.jobs = Fact::Known(job(JobStatusState::Canceled));
        told_so.facts.checkpoints = Fact::Known(Checkpoints::default());
        // Its first checkpoint came after the request, and its JobManager is gone.
        let mut late = lost.clone();
        late.status.job_status.upgrade_savepoint_path = None;
        for mut scene in [lost, told_so, late] {
            for _ in 0..4 {
                let plan = scene.plan();
                assert_eq!(restored(&plan), None, "{}", described(&plan));
                scene = scene.after(&plan);
                if scene.status.reconciliation_status.state == ReconciliationState::Upgrading
                    && scene.status.job_manager_deployment_status
                        == JobManagerDeploymentStatus::Missing
                {
                    scene.facts.job_manager = Fact::Known(None);
                    scene.facts.pods = Fact::Known(vec![]);
                }
            }
            let plan = scene.plan();
            assert!(error(&plan).contains("Manual restore required."), "{}", error(&plan));
        }
    }
}

#[test]
fn an_end_that_is_known_by_its_result_only_leaves_no_known_state() {
    let ended = |name: &str, start: i64, seen: Option<i64>| {
        let mut scene = Scene::running("savepoint").operator_option("job.restart.failed", "true");
        scene.store(JobState::Running, UpgradeMode::Stateless);
        scene.status.job_status.start_time =
            seen.map(|seconds| ago(seconds).as_millisecond().to_string());
        let [job] = <[Job; 1]>::try_from(job(JobStatusState::Failed)).unwrap();
        let start_time = ago(start).as_millisecond();
        scene.facts.jobs = Fact::Known(vec![Job { start_time, name: name.to_owned(), ..job }]);
        scene.facts.checkpoints = Fact::Known(Checkpoints::default());
        with_metadata(scene, false, false)
    };
    for (name, start, seen, is_known) in [
        ("orders", 3600, Some(3600), true),
        // It was seen under another JobManager or not at all: it belongs to the previous job, or to none.
        ("orders", 10, Some(3600), false),
        ("orders", 10, Some(7200), true),
        ("orders", 10, None, true),
        ("unknown", 10, None, false),
    ] {
        let plan = ended(name, start, seen).plan();
        let path = plan.status.job_status.upgrade_savepoint_path.as_deref();
        assert_eq!(path, (!is_known).then_some(LAST_STATE_PATH), "{name} {start} {seen:?}");
        let is_restarted = step_names(&plan).contains(&"delete-job-manager");
        assert_eq!(is_restarted, is_known, "{}", described(&plan));
        assert_eq!(error(&plan).contains("savepointRedeployNonce"), !is_known, "{}", error(&plan));
    }
}

#[test]
fn what_waits_for_an_ended_job_without_a_job_manager_is_refused() {
    let mut scene = Scene::running("last-state").path(LAST_STATE_PATH).gone();
    scene.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
    scene.status.job_status.state = Some(JobStatusState::Failed);
    let plan = scene.edit(|spec| spec.flink_version = Some(FlinkVersion::V2_0)).plan();
    assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
    assert!(error(&plan).contains("Revert the change of `spec.flinkVersion`"), "{}", error(&plan));
}

#[test]
fn what_an_ended_job_left_is_not_dropped_for_metadata_that_are_left() {
    let checkpoint = "s3://lake/chk/abc/chk-7";
    let ended = |path: &str, has_checkpoint| {
        let mut scene = Scene::running("savepoint").path(path);
        scene.store(JobState::Running, UpgradeMode::Stateless);
        let mut scene = scene.edit_job(|job| job.parallelism = Some(4)).silent();
        scene.status.job_status.state = Some(JobStatusState::Failed);
        with_metadata(scene, true, has_checkpoint)
    };
    for path in [checkpoint, SAVEPOINT] {
        let scene = ended(path, false);
        let plan = scene.plan();
        assert_eq!(plan.status.job_status.upgrade_savepoint_path.as_deref(), Some(path));
        assert!(step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));
        let mut removed = scene.after(&plan);
        removed.facts.job_manager = Fact::Known(None);
        removed.facts.pods = Fact::Known(vec![]);
        assert_eq!(restored(&removed.plan()).as_deref(), Some(path));
    }
    // A checkpoint in metadata is no older than another one, but may be older than a savepoint.
    let plan = ended(checkpoint, true).plan();
    assert!(step_names(&plan).contains(&"stop-job-manager"), "{}", described(&plan));
    let version = |scene: Scene| scene.edit(|spec| spec.flink_version = Some(FlinkVersion::V2_0));
    let mut finished = ended(SAVEPOINT, true);
    finished.status.job_status.state = Some(JobStatusState::Finished);
    for scene in [finished, version(ended(checkpoint, true))] {
        let plan = scene.plan();
        assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
        assert!(error(&plan).contains("savepointRedeployNonce"), "{}", error(&plan));
        assert!(plan.status.job_status.upgrade_savepoint_path.is_some());
    }
}

#[test]
fn t14_a_job_that_nobody_knows_any_more_is_not_waited_for_in_silence() {
    let mut scene = stopping().silent();
    scene.status.job_status.update_time = Some(ago(600).as_millisecond().to_string());
    scene.facts.jobs = Fact::Known(vec![]);
    scene.facts.stop = Fact::Known(Stop::NotFound);
    let scene = asked(with_metadata(scene, false, false), 600);
    let plan = scene.plan();
    assert_eq!((plan.because.as_str(), trigger(&plan)), ("the stop-with-savepoint was lost", None));
    let lost = scene.after(&plan);
    let plan = lost.plan();
    assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
    assert!(error(&plan).contains("savepointRedeployNonce"), "{}", error(&plan));
    let again = lost.clone().after(&plan);
    assert_eq!(again.plan().status, plan.status, "nothing is written at rest");
    // A JobManager that has just started has yet to report.
    let mut young = lost;
    young.status.job_status.update_time = Some(ago(60).as_millisecond().to_string());
    young.status.reconciliation_status.reconciliation_timestamp = ago(3600).as_millisecond();
    assert!(!error(&young.plan()).contains("savepointRedeployNonce"));
}
