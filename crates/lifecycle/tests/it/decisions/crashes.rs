//! Passes after a crash: regression tests for defects found by killing the real operator.

use api::status::{SavepointInfo, SnapshotTriggerType};
use lifecycle::plan::SnapshotStep;

use super::*;

/// Flink was asked to stop the job with a savepoint, and the outcome is not known.
fn stopped(mut scene: Scene) -> Scene {
    scene.status.job_status.savepoint_info = Some(SavepointInfo {
        trigger_id: Some("000000000000000000000000000000ee".to_owned()),
        trigger_type: Some(SnapshotTriggerType::Upgrade),
        trigger_timestamp: Some(ago(7).as_millisecond()),
        ..SavepointInfo::default()
    });
    scene.facts.jobs = Fact::Known(job(JobStatusState::Finished));
    scene.facts.stop = Fact::Known(Stop::Completed { path: SAVEPOINT.to_owned() });
    scene
}

fn snapshot_name(plan: &Plan) -> Option<String> {
    plan.steps.iter().find_map(|step| match step {
        Step::Snapshot(SnapshotStep::Create(snapshot)) => snapshot.metadata.name.clone(),
        _ => None,
    })
}

#[test]
fn the_savepoint_of_an_upgrade_is_one_resource_however_often_it_is_recorded() {
    let scene = stopped(Scene::running("savepoint").edit_job(|job| job.parallelism = Some(4)));
    let name = format!("orders-savepoint-upgrade-{}", ago(7).as_millisecond());
    assert_eq!(snapshot_name(&scene.plan()), Some(name), "named by the stop, not by the pass");
}

#[test]
fn the_savepoint_of_a_deletion_is_recorded_when_the_job_has_ended_meanwhile() {
    let scene = Scene::running("savepoint").operator_option("job.savepoint-on-deletion", "true");
    let plan = stopped(scene).delete().plan();
    assert!(snapshot_name(&plan).is_some(), "{}", described(&plan));
    assert_eq!(plan.status.job_status.upgrade_savepoint_path.as_deref(), Some(SAVEPOINT));
    assert!(step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));
}

#[test]
fn a_recovery_that_was_cut_short_is_finished() {
    let mut scene = Scene::running("last-state").starting();
    scene.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
    let plan = scene.plan();
    assert_eq!(step_names(&plan), ["finish-cluster"], "{}", described(&plan));
    assert_eq!(step_names(&scene.after(&plan).plan()), [""; 0], "once");
}

#[test]
fn a_scaling_that_ended_before_the_deletion_is_finished_not_taken_for_done() {
    for (mode, removal) in [("stateless", "delete-job-manager"), ("last-state", "stop-job-manager")]
    {
        let mut scene = Scene::running(mode).edit(|spec| {
            let overrides = json!("v1:4,v2:2");
            spec.flink_configuration
                .0
                .insert("pipeline.jobvertex-parallelism-overrides".to_owned(), overrides);
        });
        // An autoscaler's override, which is not in the resource.
        scene.resource.metadata.generation = Some(1);
        let plan = scene.plan();
        assert!(step_names(&plan).contains(&removal), "{mode}: {}", described(&plan));
        let crashed = scene.after(&plan);
        assert!(matches!(crashed.facts.job_manager, Fact::Known(Some(_))), "it was not deleted");
        let plan = crashed.plan();
        assert_eq!(
            plan.status.reconciliation_status.state,
            ReconciliationState::Upgrading,
            "{mode}"
        );
        assert!(step_names(&plan).contains(&removal), "{mode}: {}", described(&plan));
        // The next one created is a different one.
        let mut made = crashed.after(&plan);
        made.facts.job_manager = Fact::Known(Some(JobManager {
            uid: "d2".to_owned(),
            available_replicas: 0,
            ..job_manager()
        }));
        let plan = made.plan();
        assert_eq!(
            plan.status.reconciliation_status.state,
            ReconciliationState::Deployed,
            "{mode}"
        );
        assert!(!plan.status.cluster_info.contains_key("ReplacedDeployment"));
    }
}

/// The JobManager's container restarted and runs `main()` again, because it has no record of the end.
fn run_anew(mut scene: Scene) -> Scene {
    let [job] = <[Job; 1]>::try_from(job(JobStatusState::Running)).unwrap();
    let start_time = ago(10).as_millisecond();
    scene.facts.jobs = Fact::Known(vec![Job { start_time, ..job }]);
    scene.facts.pods = Fact::Known(vec![Pod { last_started: Some(ago(20)), ..pod() }]);
    scene.facts.checkpoints = Fact::Known(Checkpoints::default());
    scene
}

#[test]
fn the_job_manager_of_a_job_that_was_cancelled_is_not_taken_for_the_new_one() {
    let running =
        || Scene::running("last-state").option("high-availability.type", "NONE").without_metadata();
    let changed = running().edit_job(|job| job.parallelism = Some(4));
    let cancelling = changed.clone().after(&changed.plan());
    // Its counterpart: someone cancelled it, and no one has edited the spec.
    for mut scene in [cancelling, running()] {
        scene.facts.jobs = Fact::Known(job(JobStatusState::Canceled));
        let plan = scene.plan();
        assert_eq!(
            step_names(&plan),
            ["write-status", "delete-job-manager"],
            "{}",
            described(&plan)
        );
        let mut crashed = run_anew(scene.after(&plan));
        for _ in 0..3 {
            let plan = crashed.plan();
            assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
            let status = &plan.status;
            assert_eq!(status.reconciliation_status.state, ReconciliationState::Upgrading);
            assert_eq!(status.job_status.upgrade_savepoint_path.as_deref(), Some(CHECKPOINT));
            assert!(error(&plan).contains("savepointRedeployNonce"), "{}", error(&plan));
            crashed = crashed.after(&plan);
        }
    }
}

#[test]
fn statistics_that_cannot_be_read_do_not_hide_the_savepoint_that_stopped_the_job() {
    let scene = Scene::running("savepoint").edit_job(|job| job.parallelism = Some(4));
    let mut stopped = stopped(scene.clone());
    stopped.facts.checkpoints = Fact::Unknown("they may be 5 min old".to_owned());
    let plan = stopped.plan();
    assert_eq!(plan.status.job_status.upgrade_savepoint_path.as_deref(), Some(SAVEPOINT));
    assert!(step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));

    let mut ended = scene.path(SAVEPOINT);
    ended.facts.jobs = Fact::Known(job(JobStatusState::Failed));
    ended.facts.checkpoints = Fact::Unknown("they may be 5 min old".to_owned());
    let plan = ended.plan();
    assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
    assert_eq!(plan.status.job_status.state, Some(JobStatusState::Running), "not on record yet");
    assert!(error(&plan).contains("they may be 5 min old"), "{}", error(&plan));
    assert!(error(&plan).contains("savepointRedeployNonce"), "{}", error(&plan));
    // A job that has just ended has time to report its end.
    let [mut now] = <[Job; 1]>::try_from(job(JobStatusState::Failed)).unwrap();
    now.modified = Some(ago(5).as_millisecond());
    ended.facts.jobs = Fact::Known(vec![now]);
    assert_eq!(ended.plan().status.error, None);
}
