//! State was lost, or silently replaced by an older one.

use api::job::UpgradeMode;
use api::status::{JobStatusState, LAST_STATE_PATH};
use api::version::FlinkVersion;
use lifecycle::world::Fact;
use serde_json::json;
use testing::scene::{
    CHECKPOINT, JOB_ID, SAVEPOINT, Scene, created, described, error, job_manager, restored,
    step_names,
};

use crate::simulation::Sim;
use crate::simulation::session::Session;

/// The JobManager's Deployment exists, but the JobManager does not answer.
fn slow(mut scene: Scene) -> Scene {
    scene.facts.job_manager = Fact::Known(Some(job_manager()));
    scene.facts.jobs = Fact::Unknown("timeout".to_owned());
    scene.facts.checkpoints = Fact::Unknown("timeout".to_owned());
    scene
}

/// Returns the scene of the next pass, once the deleted JobManager is gone.
fn once_down(scene: &Scene) -> Scene {
    let mut down = scene.clone().after(&scene.plan());
    down.facts.job_manager = Fact::Known(None);
    down.facts.pods = Fact::Known(vec![]);
    down
}

#[test]
fn flink_27572_a_job_stopped_for_its_last_state_never_starts_without_ha_metadata() {
    let stopped = Scene::running("last-state").upgrading(UpgradeMode::LastState);
    let path = restored(&stopped.plan());
    assert_eq!(path.as_deref(), Some(LAST_STATE_PATH), "{}", described(&stopped.plan()));
    let gone = stopped.clone().without_metadata();
    let mut unread = stopped.clone();
    unread.facts.ha_metadata = Fact::Unknown("timeout".to_owned());
    let off = stopped.edit(|spec| {
        drop(spec.flink_configuration.0.insert("high-availability.type".into(), json!("NONE")));
    });
    for (scene, why) in [
        (&gone, "HA metadata is not available to restore from last state"),
        (&unread, "HA metadata cannot be read: timeout"),
        (&off, "`high-availability.type` is off now"),
    ] {
        let plan = scene.plan();
        assert!(step_names(&plan).is_empty(), "{}", described(&plan));
        assert!(plan.because.contains(why), "{}", plan.because);
    }
}

#[test]
fn flink_27594_a_lost_job_manager_is_not_recovered_without_ha_metadata() {
    for mode in ["savepoint", "last-state"] {
        let lost = Scene::running(mode).gone();
        assert_eq!(restored(&lost.plan()).as_deref(), Some(LAST_STATE_PATH), "{mode}");
        let plan = lost.without_metadata().plan();
        assert!(step_names(&plan).is_empty(), "{mode}: {}", described(&plan));
        assert!(error(&plan).contains("Manual restore required."), "{}", error(&plan));
    }
}

#[test]
fn flink_33011_ha_metadata_of_an_ended_job_stays_where_the_next_start_reads_it() {
    // Its JobManager came back, and could not report that the job has ended.
    let mut stopped = Scene::running("last-state")
        .edit_job(|job| job.parallelism = Some(4))
        .upgrading(UpgradeMode::LastState)
        .in_state(JobStatusState::Failed);
    stopped.status.observed_generation = Some(2);
    let before = slow(stopped);
    let removed = before.plan();
    assert!(step_names(&removed).contains(&"stop-job-manager"), "{}", described(&removed));
    let started = once_down(&before).plan();
    assert_eq!(restored(&started).as_deref(), Some(LAST_STATE_PATH), "{}", described(&started));
    for plan in [&removed, &started] {
        assert!(!step_names(plan).contains(&"delete-ha-metadata"), "{}", described(plan));
    }
}

#[test]
fn flink_35857_a_failed_job_without_a_checkpoint_is_restarted_from_its_savepoint() {
    let failed = |path: Option<&str>| {
        let mut scene = Scene::running("savepoint")
            .in_state(JobStatusState::Failed)
            .without_metadata()
            .operator_option("job.restart.failed", "true");
        scene.status.job_status.upgrade_savepoint_path = path.map(str::to_owned);
        scene.facts.checkpoints = Fact::Known(lifecycle::world::Checkpoints::default());
        scene
    };
    for seen in [JobStatusState::Failed, JobStatusState::Running] {
        let mut scene = failed(Some(SAVEPOINT));
        scene.status.job_status.state = Some(seen);
        let down = once_down(&scene);
        assert_eq!(
            restored(&down.plan()).as_deref(),
            Some(SAVEPOINT),
            "{}",
            described(&down.plan())
        );
    }
    // If no savepoint is recorded either, it does not start over empty.
    let plan = failed(None).plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    assert!(error(&plan).contains("Manual restore required."), "{}", error(&plan));
}

#[test]
fn flink_37571_a_session_cluster_with_jobs_in_its_metadata_keeps_its_version() {
    let mut cluster = Session::new("native");
    cluster.settle();
    cluster.jobs = vec![JobStatusState::Running];
    let generation = cluster.resource.metadata.generation.as_mut().unwrap();
    *generation += 1;
    cluster.resource.spec.flink_version = Some(FlinkVersion::V2_1);
    for _ in 0..30 {
        cluster.tick();
        cluster.pass(None);
    }
    assert!(cluster.is_up() && cluster.message().contains("have not ended"));
}

#[test]
fn flink_38033_the_savepoint_of_an_upgrade_is_on_record_once_and_not_disposed_of() {
    let mut sim = Sim::new("savepoint");
    sim.edit(|resource| {
        let config = &mut resource.spec.flink_configuration.0;
        for (key, value) in [("history.max.count", "1"), ("dispose-on-delete", "true")] {
            drop(config.insert(format!("kubernetes.operator.savepoint.{key}"), json!(value)));
        }
    });
    sim.settle();
    for parallelism in 3..6 {
        sim.edit(|resource| resource.spec.job.as_mut().unwrap().parallelism = Some(parallelism));
        sim.settle();
        for _ in 0..5 {
            sim.tick();
            sim.pass(None);
        }
        let job = &sim.status.job_status;
        let path = job.upgrade_savepoint_path.clone().expect("it was restored from a savepoint");
        assert!(sim.states.contains_key(&path), "{path} was disposed of");
        let shown = sim.snapshots.iter().filter(|known| known.path.as_ref() == Some(&path));
        assert_eq!(shown.count(), 1);
        let history = job.savepoint_info.iter().flat_map(|info| &info.savepoint_history);
        assert_eq!(history.count(), 0, "it is recorded a second time");
    }
}

#[test]
fn flink_39270_a_savepoint_on_record_is_not_taken_for_the_newest_state_of_a_silent_job_manager() {
    for mode in ["savepoint", "last-state"] {
        let failed = Scene::running(mode)
            .in_state(JobStatusState::Failed)
            .path(SAVEPOINT)
            .edit_job(|job| job.parallelism = Some(4));
        // It may have been restarted since, and have completed checkpoints.
        let silent = slow(failed.clone());
        let down = once_down(&silent).plan();
        assert_eq!(
            restored(&down).as_deref(),
            Some(LAST_STATE_PATH),
            "{mode}: {}",
            described(&down)
        );
        assert_eq!(created(&down, "$internal.pipeline.job-id").as_deref(), Some(JOB_ID));
        // Without metadata, or with a JobManager that answers, the record is the newest state.
        for known in [silent.without_metadata(), failed.clone().path(CHECKPOINT)] {
            let path = known.status.job_status.upgrade_savepoint_path.clone();
            assert_eq!(restored(&once_down(&known).plan()), path, "{mode}");
        }
    }
}
