//! Quirks Q1 to Q14, in which this operator does better than the Java operator.

use expect_test::expect;

use super::*;

#[test]
fn q01_a_job_resumed_as_stateless_starts_empty() {
    // Java passes the dummy path and would find HA metadata.
    let scene = Scene::running("stateless").suspended(UpgradeMode::LastState);
    check(
        &scene,
        expect![[r#"
            (Deployed, R Stateless, Some(Reconciling), Deploying) Deployed
            deploying the job from empty state
              event SpecChanged: UPGRADE change(s) detected (Diff: FlinkDeploymentSpec[job.state : suspended -> running, job.upgradeMode : last-state -> stateless]), starting reconciliation.
              write-status
              event Submit: Starting deployment
              delete-ha-metadata
              create-cluster "flink:1.20" from nothing, $internal.pipeline.job-id: 00000000000000000000000000000002
        "#]],
    );
}

#[test]
fn q02_what_failed_stays_failed() {
    let scene = Scene::running("savepoint")
        .in_state(JobStatusState::Failed)
        .path(CHECKPOINT)
        .edit_job(|job| job.state = JobState::Suspended);
    assert_eq!(scene.plan().status.job_status.state, Some(JobStatusState::Failed));
}

/// Returns the generation annotation of the created Deployment.
fn annotation(plan: &Plan) -> Option<String> {
    plan.steps.iter().find_map(|step| match step {
        Step::Own(ClusterStep::CreateCluster(objects)) => {
            let annotations = &objects.deployment["metadata"]["annotations"];
            annotations[api::GENERATION_ANNOTATION].as_str().map(str::to_owned)
        }
        _ => None,
    })
}

#[test]
fn q06_a_recovered_deployment_carries_its_generation() {
    let scene = Scene::running("last-state").gone();
    assert_eq!(annotation(&scene.plan()).as_deref(), Some("1"));
}

#[test]
fn q08_a_failing_savepoint_names_the_way_to_delete_without_one() {
    let scene =
        Scene::running("savepoint").operator_option("job.savepoint-on-deletion", "true").delete();
    let mut stopping = scene.clone().after(&scene.plan());
    stopping.facts.stop = Fact::Known(Stop::Failed { message: "disk full".to_owned() });
    let plan = stopping.plan();
    assert!(error(&plan).contains("job.savepoint-on-deletion: false"), "{}", error(&plan));
    let plan = stopping.operator_option("job.savepoint-on-deletion", "false").plan();
    assert!(step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));
}

#[test]
fn q08_a_job_that_went_on_after_its_savepoint_is_saved_again_before_its_deletion() {
    let scene =
        Scene::running("savepoint").operator_option("job.savepoint-on-deletion", "true").delete();
    let mut stopping = scene.clone().after(&scene.plan());
    let (path, message) = (SAVEPOINT.to_owned(), "the sink is gone".to_owned());
    stopping.facts.stop = Fact::Known(Stop::SavedNotStopped { path, message });
    let plan = stopping.plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    assert!(error(&plan).contains(SAVEPOINT), "{}", error(&plan));
    let waiting = stopping.clone().after(&plan);
    assert!(step_names(&waiting.plan()).is_empty(), "{}", described(&waiting.plan()));
    assert_eq!(error(&waiting.plan()), error(&plan), "the error stays");
    let again = transitions::stopping::failed_before(waiting, 10).plan();
    assert!(step_names(&again).contains(&"stop-with-savepoint"), "{}", described(&again));

    // A job that has failed for good is removed, and its savepoint is recorded.
    stopping.facts.jobs = Fact::Known(job(JobStatusState::Failed));
    let latest = CompletedState { path: SAVEPOINT.to_owned(), at: None };
    stopping.facts.checkpoints =
        Fact::Known(Checkpoints { latest: Some(latest), ..Checkpoints::default() });
    let plan = stopping.plan();
    assert!(step_names(&plan).starts_with(&["create-snapshot"]), "{}", described(&plan));
    assert!(step_names(&plan).contains(&"delete-job-manager"), "{}", described(&plan));
}

#[test]
fn q11_only_deletion_drains() {
    let drain = |scene: Scene| {
        scene.plan().steps.iter().find_map(|step| match step {
            Step::TriggerStop { drain, .. } => Some(*drain),
            _ => None,
        })
    };
    let scene = || {
        Scene::running("savepoint")
            .operator_option("job.savepoint-on-deletion", "true")
            .operator_option("job.drain-on-savepoint-deletion", "true")
    };
    assert_eq!(drain(scene().edit_job(|job| job.parallelism = Some(4))), Some(false));
    assert_eq!(drain(scene().delete()), Some(true));
}

#[test]
fn q12_a_deployment_that_is_there_is_never_replaced() {
    let mut scene = Scene::new("last-state");
    scene.facts.job_manager = Fact::Known(Some(job_manager()));
    assert!(step_names(&scene.plan()).is_empty(), "without a status nobody knows what runs in it");
    scene.facts.job_manager =
        Fact::Known(Some(JobManager { owner_uid: Some("u2".to_owned()), ..job_manager() }));
    let plan = scene.plan();
    assert!(step_names(&plan).is_empty());
    assert!(error(&plan).contains("does not belong to this FlinkDeployment"), "{}", error(&plan));
}

#[test]
fn q13_a_recovered_job_keeps_its_checkpoint_interval() {
    let mut scene = Scene::running("last-state").gone();
    // As stored by a first deployment.
    scene.store(JobState::Running, UpgradeMode::Stateless);
    let plan = scene.plan();
    let text = plan.steps.iter().find_map(|step| match step {
        Step::Own(ClusterStep::CreateCluster(objects)) => {
            objects.config_maps[0]["data"]["flink-conf.yaml"].as_str().map(str::to_owned)
        }
        _ => None,
    });
    assert!(text.unwrap().contains("execution.checkpointing.interval: 5 min"));
}

#[test]
fn q14_what_was_never_deployed_is_just_deleted() {
    let invalid = Scene::new("savepoint").edit_job(|job| job.parallelism = Some(-1)).delete();
    check(
        &invalid,
        expect![[r#"
        (Upgrading, -, None, Missing) Deleting
        deleted
          event Cleanup: Cleaning up FlinkDeployment
          write-status
          remove-finalizer
    "#]],
    );
}

#[test]
fn no_interval_keeps_others_waiting() {
    let scene = Scene::running("savepoint").operator_option("reconcile.interval", "0 ms");
    assert_eq!(scene.plan().look_again, Some(std::time::Duration::from_secs(1)));
}
