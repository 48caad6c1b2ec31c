//! What follows a stop, an end or a loss, T20 to T35.

use expect_test::expect;

use super::*;

#[test]
fn t20_a_suspended_job_is_stable() {
    let scene = Scene::running("last-state").edit_job(|job| job.state = JobState::Suspended);
    check(
        &scene,
        expect![[r#"
            (Upgrading, S LastState, Some(Finished), Missing) Upgrading
            removing the JobManager and keeping HA metadata
              event SpecChanged: UPGRADE change(s) detected (Diff: FlinkDeploymentSpec[job.state : running -> suspended]), starting reconciliation.
              event Suspended: Suspending existing deployment.
              record-revision
              event JobStatusChanged: Job status changed from RUNNING to FINISHED
              write-status
              stop-job-manager
        "#]],
    );
    let mut scene = scene.clone().after(&scene.plan());
    scene.facts.job_manager = Fact::Known(None);
    scene.facts.pods = Fact::Known(vec![]);
    check(
        &scene,
        expect![[r#"
        (Deployed, S LastState, Some(Finished), Missing) Suspended
        suspended
    "#]],
    );
    let resting = scene.clone().after(&scene.plan());
    check(
        &resting,
        expect![[r#"
        (Deployed, S LastState, Some(Finished), Missing) Suspended
        there is no JobManager, the job is FINISHED
    "#]],
    );
}

#[test]
fn t21_a_resumed_job_starts_as_it_was_stopped() {
    let savepoint = Scene::running("last-state").path(SAVEPOINT);
    // The current mode does not apply, except stateless.
    check(
        &savepoint.suspended(UpgradeMode::Savepoint),
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Deployed
        deploying the job from s3://lake/sp/1
          event SpecChanged: UPGRADE change(s) detected (Diff: FlinkDeploymentSpec[job.state : suspended -> running, job.upgradeMode : savepoint -> last-state]), starting reconciliation.
          write-status
          event Submit: Starting deployment
          delete-ha-metadata
          create-cluster "flink:1.20" from execution.savepoint.path: s3://lake/sp/1, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
    check(
        &Scene::running("savepoint").suspended(UpgradeMode::LastState),
        expect![[r#"
        (Deployed, R LastState, Some(Reconciling), Deploying) Deployed
        deploying the job from the latest checkpoint in HA metadata
          event SpecChanged: UPGRADE change(s) detected (Diff: FlinkDeploymentSpec[job.state : suspended -> running, job.upgradeMode : last-state -> savepoint]), starting reconciliation.
          write-status
          event Submit: Starting deployment
          forget-job-graphs
          create-cluster "flink:1.20" from execution.savepoint.path: KUBERNETES_OPERATOR_LAST_STATE, $internal.pipeline.job-id: 00000000000000000000000000000001
    "#]],
    );
}

#[test]
fn t22_a_job_that_does_not_run_is_upgraded_through_ha_metadata() {
    for mode in ["savepoint", "last-state"] {
        let scene = Scene::running(mode).starting().edit_job(|job| job.parallelism = Some(4));
        let plan = scene.plan();
        assert_eq!(step_names(&plan), ["record-revision", "write-status", "stop-job-manager"]);
        assert_eq!(plan.because, "removing the JobManager and keeping HA metadata");
    }
}

#[test]
fn t23_without_ha_metadata_a_change_waits_for_the_job() {
    let scene = Scene::running("last-state")
        .starting()
        .without_metadata()
        .edit_job(|job| job.parallelism = Some(4));
    check(
        &scene,
        expect![[r#"
            (Deployed, R LastState, Some(Reconciling), Deploying) Stable
            the change waits: the job is not running, so its state cannot be saved yet
        "#]],
    );
}

#[test]
fn t24_a_change_of_a_lost_job_asks_for_a_person() {
    let scene = Scene::running("last-state")
        .gone()
        .without_metadata()
        .edit_job(|job| job.parallelism = Some(4));
    let plan = scene.plan();
    assert!(error(&plan).contains("Manual restore required."), "{}", error(&plan));
    assert!(step_names(&plan).is_empty());
    check(
        &scene,
        expect![[r#"
        (Deployed, R LastState, Some(Reconciling), Missing) Failed
        JobManager deployment is missing and HA metadata is not available to make stateful upgrades. It is possible that the job has finished or terminally failed, or the configmaps have been deleted. Manual restore required. Find the job's newest checkpoint or savepoint, set `spec.job.initialSavepointPath` to it and `spec.job.savepointRedeployNonce` to a new number.
          event Missing: Missing JobManager deployment
          event UpgradeFailed: JobManager deployment is missing and HA metadata is not available to make stateful upgrades. It is possible that the job has finished or terminally failed, or the configmaps have been deleted. Manual restore required. Find the job's newest checkpoint or savepoint, set `spec.job.initialSavepointPath` to it and `spec.job.savepointRedeployNonce` to a new number.
    "#]],
    );
}

#[test]
fn t25_a_lost_job_manager_is_recovered_under_the_same_job_id() {
    check(
        &Scene::running("last-state").gone(),
        expect![[r#"
        (Deployed, R LastState, Some(Reconciling), Deploying) Stable
        recovering the lost JobManager from the latest checkpoint in HA metadata
          event Missing: Missing JobManager deployment
          event RecoverDeployment: Recovering lost deployment
          write-status
          event Submit: Starting deployment
          forget-job-graphs
          create-cluster "flink:1.20" from execution.savepoint.path: KUBERNETES_OPERATOR_LAST_STATE, $internal.pipeline.job-id: 00000000000000000000000000000001
    "#]],
    );
    let mut lingering = Scene::running("last-state").gone();
    lingering.facts.pods = Fact::Known(vec![pod()]);
    check(
        &lingering,
        expect![[r#"
        (Deployed, R LastState, Some(Reconciling), Missing) Stable
        waiting for the lost JobManager's pods to end
          event Missing: Missing JobManager deployment
    "#]],
    );
    let off = Scene::running("last-state")
        .gone()
        .operator_option("jm-deployment-recovery.enabled", "false");
    assert!(step_names(&off.plan()).is_empty());
}

#[test]
fn t25_without_ha_metadata_only_a_stateless_job_without_ha_starts_over() {
    let lost = Scene::running("savepoint").gone().without_metadata();
    let plan = lost.plan();
    assert!(step_names(&plan).is_empty());
    assert!(error(&plan).contains("HA metadata is not available"), "{}", error(&plan));
    let stateless = Scene::running("stateless").gone().option("high-availability.type", "NONE");
    check(
        &stateless,
        expect![[r#"
        (Deployed, R Stateless, Some(Reconciling), Deploying) Stable
        recovering the lost JobManager from empty state
          event Missing: Missing JobManager deployment
          event RecoverDeployment: Recovering lost deployment
          write-status
          event Submit: Starting deployment
          create-cluster "flink:1.20" from nothing, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
}

#[test]
fn t26_an_ended_job_is_replaced_from_what_it_left() {
    for state in [JobStatusState::Finished, JobStatusState::Failed] {
        let scene = Scene::running("savepoint")
            .in_state(state)
            .path(CHECKPOINT)
            .edit_job(|job| job.parallelism = Some(4));
        let plan = scene.plan();
        assert_eq!(step_names(&plan), ["record-revision", "write-status", "delete-job-manager"]);
        // Q2: a failed job is not reported as finished.
        assert_eq!(plan.status.job_status.state, Some(state));
        let path = plan.status.job_status.upgrade_savepoint_path.as_deref();
        assert_eq!(path, Some(CHECKPOINT));
    }
}

#[test]
fn t26_an_ended_job_whose_state_is_not_on_record_yet_is_asked_for_it() {
    let scene = Scene::running("savepoint")
        .in_state(JobStatusState::Finished)
        .edit_job(|job| job.parallelism = Some(4));
    let plan = scene.plan();
    assert_eq!(plan.status.job_status.upgrade_savepoint_path.as_deref(), Some(CHECKPOINT));
}

#[test]
fn t27_the_job_manager_of_an_ended_job_goes_after_its_time() {
    let ended = |seconds: i64| {
        let mut scene = Scene::running("savepoint").in_state(JobStatusState::Finished);
        scene.status.job_status.update_time = Some(ago(seconds).as_millisecond().to_string());
        scene.operator_option("jm-deployment.shutdown-ttl", "5 min")
    };
    check(
        &ended(180),
        expect![[r#"
        (Deployed, R Savepoint, Some(Finished), Ready) Stable
        the job is FINISHED
    "#]],
    );
    check(
        &ended(360),
        expect![[r#"
        (Deployed, R Savepoint, Some(Finished), Missing) Stable
        the job ended long ago: removing its JobManager
          write-status
          delete-job-manager
    "#]],
    );
    let mut gone = ended(360);
    gone.status.job_manager_deployment_status = JobManagerDeploymentStatus::Missing;
    gone.facts.job_manager = Fact::Known(None);
    assert!(step_names(&gone.plan()).is_empty(), "it is not started again");
}

#[test]
fn t28_a_failed_job_is_started_again_where_that_is_asked() {
    let scene = Scene::running("savepoint")
        .in_state(JobStatusState::Failed)
        .path(CHECKPOINT)
        .operator_option("job.restart.failed", "true");
    check(
        &scene,
        expect![[r#"
        (Upgrading, S Savepoint, Some(Failed), Missing) Upgrading
        the job failed: restarting it from its last state
          event RestartFailedJob: Restarting failed job, attempt 1
          write-status
          delete-job-manager
    "#]],
    );
    let mut scene = scene.clone().after(&scene.plan());
    scene.facts.job_manager = Fact::Known(None);
    scene.facts.pods = Fact::Known(vec![]);
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Stable
        deploying the job from s3://lake/chk/7
          write-status
          event Submit: Starting deployment
          delete-ha-metadata
          create-cluster "flink:1.20" from execution.savepoint.path: s3://lake/chk/7, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
}

#[test]
fn t32_savepoint_redeploy_drops_the_job_for_the_path() {
    let scene = Scene::running("last-state").edit_job(|job| {
        job.savepoint_redeploy_nonce = Some(1);
        job.initial_savepoint_path = Some(SAVEPOINT.to_owned());
    });
    check(
        &scene,
        expect![[r#"
        (Upgrading, S Savepoint, Some(Finished), Missing) Upgrading
        removing the JobManager, with the job's state on record
          event SpecChanged: SAVEPOINT_REDEPLOY change(s) detected (Diff: FlinkDeploymentSpec[job.initialSavepointPath : null -> s3://lake/sp/1, job.savepointRedeployNonce : null -> 1]), starting reconciliation.
          event Suspended: Suspending existing deployment.
          record-revision
          event JobStatusChanged: Job status changed from RUNNING to FINISHED
          write-status
          cancel-job
          delete-job-manager
    "#]],
    );
    let mut scene = scene.clone().after(&scene.plan());
    scene.facts.job_manager = Fact::Known(None);
    scene.facts.pods = Fact::Known(vec![]);
    // Java does both in one loop; here the old pods must be gone first.
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Deployed
        deploying the job from s3://lake/sp/1
          write-status
          event Submit: Starting deployment
          delete-ha-metadata
          create-cluster "flink:1.20" from execution.savepoint.path: s3://lake/sp/1, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
}

fn redeploy(scene: Scene) -> Scene {
    scene.edit_job(|job| {
        job.savepoint_redeploy_nonce = Some(1);
        job.initial_savepoint_path = Some(SAVEPOINT.to_owned());
    })
}

/// As in Java. A stored nonce is taken as followed: it must not be stored with a start from something else.
#[test]
fn a_redeploy_that_comes_during_an_upgrade_is_not_forgotten() {
    let saved = Scene::running("savepoint").path("s3://lake/sp/new");
    let kept = Scene::running("last-state");
    let empty = Scene::running("stateless");
    for scene in [
        saved.upgrading(UpgradeMode::Savepoint),
        kept.upgrading(UpgradeMode::LastState),
        empty.upgrading(UpgradeMode::Stateless),
    ] {
        let scene = redeploy(scene);
        assert_eq!(scene.status.error, None);
        let next = scene.clone().after(&scene.plan());
        let plan = next.plan();
        assert_eq!(plan.because, format!("deploying the job from {SAVEPOINT}"));
    }
}

#[test]
fn a_redeploy_that_comes_during_a_stop_with_savepoint_is_not_forgotten() {
    for state in [JobState::Running, JobState::Suspended] {
        let scene = Scene::running("savepoint").edit_job(|job| job.parallelism = Some(4));
        let mut scene = redeploy(scene.clone().after(&scene.plan()))
            .edit_job(|job| job.state = state)
            .in_state(JobStatusState::Finished);
        let path = "s3://lake/sp/new".to_owned();
        scene.facts.stop = Fact::Known(Stop::Completed { path: path.clone() });
        let plan = scene.plan();
        let superseded = plan.steps.iter().find_map(|step| match step {
            Step::RecordRevision(superseded) => Some(&superseded.restore_point),
            _ => None,
        });
        assert_eq!(superseded, Some(&RestorePoint::Path(path)), "what was saved stays known");
        let mut next = scene.clone().after(&plan);
        next.facts.job_manager = Fact::Known(None);
        next.facts.pods = Fact::Known(vec![]);
        let mut plan = next.plan();
        if state == JobState::Suspended {
            let resumed = next.after(&plan).edit_job(|job| job.state = JobState::Running);
            plan = resumed.plan();
        }
        assert_eq!(plan.because, format!("deploying the job from {SAVEPOINT}"), "{state:?}");
    }
}

#[test]
fn a_redeploy_of_a_suspended_job_leaves_its_savepoint_in_the_history() {
    let left = "s3://lake/sp/left";
    let mut scene = Scene::running("savepoint").suspended(UpgradeMode::Savepoint).path(left);
    scene.store(JobState::Suspended, UpgradeMode::Savepoint);
    let scene = scene.edit_job(|job| {
        job.savepoint_redeploy_nonce = Some(1);
        job.initial_savepoint_path = Some(SAVEPOINT.to_owned());
    });
    let plan = scene.plan();
    let superseded = plan.steps.iter().find_map(|step| match step {
        Step::RecordRevision(superseded) => Some(&superseded.restore_point),
        _ => None,
    });
    assert_eq!(superseded, Some(&RestorePoint::Path(left.to_owned())));
    let path = plan.status.job_status.upgrade_savepoint_path.as_deref();
    assert_eq!(path, Some(SAVEPOINT), "what the job starts from");
}

/// Otherwise the event would be sent to the API server in each pass, which rejects it as a duplicate.
#[test]
fn a_resume_that_is_refused_is_reported_once() {
    let suspended = Scene::running("last-state").suspended(UpgradeMode::LastState);
    let scene = suspended.without_metadata().edit(|spec| spec.restart_nonce = Some(1));
    let refused = scene.plan();
    let error = refused.status.error.clone().unwrap_or_default();
    assert!(error.contains("HA metadata is not available"), "{error}");
    let plan = scene.clone().after(&refused).plan();
    assert!(plan.steps.is_empty(), "{:?}", plan.steps);
}

#[test]
fn t33_what_asks_for_nothing_is_noted_as_seen() {
    let scene = Scene::running("savepoint").edit_job(|job| {
        job.upgrade_mode = UpgradeMode::LastState;
        job.allow_non_restored_state = Some(true);
    });
    let plan = scene.plan();
    assert_eq!(plan.status.observed_generation, Some(2));
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Running), Ready) Stable
        the job is RUNNING
    "#]],
    );
}

#[test]
fn t33_a_nonce_that_is_taken_away_asks_for_nothing() {
    let mut scene = Scene::running("savepoint").edit(|spec| spec.restart_nonce = Some(3));
    scene.store(JobState::Running, UpgradeMode::Savepoint);
    scene.status.observed_generation = Some(2);
    let scene = scene.edit(|spec| spec.restart_nonce = None);
    assert!(step_names(&scene.plan()).is_empty());
}

const OVERRIDES: &str = "pipeline.jobvertex-parallelism-overrides";

/// Returns a job that can be scaled, with another override.
fn scaled() -> Scene {
    let mut scene = Scene::running("last-state")
        .option("jobmanager.scheduler", "adaptive")
        .option(OVERRIDES, "v1:1,v2:1")
        .edit(|spec| {
            drop(spec.flink_configuration.0.insert(OVERRIDES.to_owned(), json!("v1:2,v2:1")));
        });
    let one = Bounds { lower: 1, upper: 1 };
    scene.facts.resource_requirements =
        Fact::Known(BTreeMap::from([("v1".to_owned(), one), ("v2".to_owned(), one)]));
    scene
}

#[test]
fn t34_a_change_of_overrides_is_made_in_place() {
    let scene = scaled();
    check(
        &scene,
        expect![[r#"
            (Deployed, R LastState, Some(Running), Ready) Deployed
            scaled in place
              write-status
              event SpecChanged: SCALE change(s) detected (Diff: FlinkDeploymentSpec[flinkConfiguration.pipeline.jobvertex-parallelism-overrides : v1:1,v2:1 -> v1:2,v2:1]), starting reconciliation.
              event Scaling: In-place scaling triggered
              scale-job
        "#]],
    );
    let plan = scene.plan();
    let bounds = plan.steps.iter().find_map(|step| match step {
        Step::ScaleJob { bounds, .. } => Some(bounds["v1"]),
        _ => None,
    });
    assert_eq!(bounds, Some(Bounds { lower: 1, upper: 2 }));
    // It is stable once the job is seen running with it.
    let mut next = scene.clone().after(&plan);
    let wide = Bounds { lower: 1, upper: 2 };
    let one = Bounds { lower: 1, upper: 1 };
    next.facts.resource_requirements =
        Fact::Known(BTreeMap::from([("v1".to_owned(), wide), ("v2".to_owned(), one)]));
    check(
        &next,
        expect![[r#"
        (Deployed, R LastState, Some(Running), Ready) Stable
        the job is RUNNING
    "#]],
    );
}

#[test]
fn t34_a_scaling_that_flink_did_already_needs_no_call() {
    let mut scene = scaled();
    let wide = Bounds { lower: 1, upper: 2 };
    let one = Bounds { lower: 1, upper: 1 };
    scene.facts.resource_requirements =
        Fact::Known(BTreeMap::from([("v1".to_owned(), wide), ("v2".to_owned(), one)]));
    assert!(step_names(&scene.plan()).is_empty());
}

#[test]
fn t34_a_scaling_that_flink_refused_becomes_an_upgrade() {
    let scene = scaled();
    let plan = scene.plan();
    let Some(Step::WriteStatus(intent)) = plan.steps.first() else {
        panic!("{}", described(&plan))
    };
    let mut refused = scene;
    refused.status = (**intent).clone();
    check(
        &refused,
        expect![[r#"
            (Upgrading, S LastState, Some(Finished), Missing) Upgrading
            removing the JobManager and keeping HA metadata
              event SpecChanged: SCALE change(s) detected (Diff: FlinkDeploymentSpec[flinkConfiguration.pipeline.jobvertex-parallelism-overrides : v1:1,v2:1 -> v1:2,v2:1]), starting reconciliation.
              event Suspended: Suspending existing deployment.
              record-revision
              event JobStatusChanged: Job status changed from RUNNING to FINISHED
              write-status
              stop-job-manager
        "#]],
    );
}

#[test]
fn t34_where_flink_cannot_scale_a_change_of_overrides_is_an_upgrade() {
    let cases: [(&str, Scene); 5] = [
        ("switched off", scaled().operator_option("job.upgrade.inplace-scaling.enabled", "false")),
        ("another scheduler", scaled().option("jobmanager.scheduler", "default")),
        ("starting", {
            let mut scene = scaled().starting();
            scene.facts.ha_metadata =
                Fact::Known(HaMetadata { has_job: true, checkpoint: Some(1) });
            scene
        }),
        (
            "an override taken away",
            scaled().edit(|spec| {
                drop(spec.flink_configuration.0.insert(OVERRIDES.to_owned(), json!("v1:2")));
            }),
        ),
        ("no answer", {
            let mut scene = scaled();
            scene.facts.resource_requirements = Fact::Unknown("404".to_owned());
            scene
        }),
    ];
    for (name, scene) in cases {
        let plan = scene.plan();
        assert!(step_names(&plan).contains(&"stop-job-manager"), "{name}: {}", described(&plan));
    }
}

#[test]
fn t35_deletion_takes_job_pods_metadata_and_finalizer_in_this_order() {
    let scene = Scene::running("last-state").delete();
    check(
        &scene,
        expect![[r#"
        (Deployed, R LastState, Some(Running), Ready) Deleting
        deleting the JobManager
          event Cleanup: Cleaning up FlinkDeployment
          write-status
          cancel-job
          delete-job-manager
    "#]],
    );
    let mut scene = scene.clone().after(&scene.plan());
    scene.facts.job_manager = Fact::Known(Some(JobManager { is_deleting: true, ..job_manager() }));
    check(
        &scene,
        expect![[r#"
        (Deployed, R LastState, Some(Running), Ready) Deleting
        waiting for the JobManager to end
    "#]],
    );
    scene.facts.job_manager = Fact::Known(None);
    check(
        &scene,
        expect![[r#"
        (Deployed, R LastState, Some(Running), Ready) Deleting
        waiting for the JobManager's pods to end
    "#]],
    );
    scene.facts.pods = Fact::Known(vec![]);
    check(
        &scene,
        expect![[r#"
        (Deployed, R LastState, Some(Running), Ready) Deleting
        deleted
          delete-ha-metadata
          remove-finalizer
    "#]],
    );
}

#[test]
fn a_first_start_under_a_fixed_id_never_takes_what_was_left_for_its_own() {
    let metadata = Fact::Known(HaMetadata { has_job: true, checkpoint: Some(1) });
    for mode in ["savepoint", "last-state", "stateless"] {
        let mut scene = Scene::new(mode)
            .option("$internal.pipeline.job-id", JOB_ID)
            .edit_job(|job| job.initial_savepoint_path = Some(SAVEPOINT.to_owned()));
        assert_eq!(restored(&scene.plan()).as_deref(), Some(SAVEPOINT));
        scene.facts.ha_metadata = metadata.clone();
        let plan = scene.plan();
        assert_eq!(step_names(&plan), [""; 0], "{mode}");
        assert!(error(&plan).contains("with `$internal.pipeline.job-id`"), "{}", error(&plan));
    }
    // A new id does not lead to it.
    let mut scene = Scene::new("savepoint")
        .edit_job(|job| job.initial_savepoint_path = Some(SAVEPOINT.to_owned()));
    scene.facts.ha_metadata = metadata;
    assert_eq!(restored(&scene.plan()).as_deref(), Some(SAVEPOINT));
}

#[test]
fn a_job_whose_code_deletes_its_checkpoints_is_not_cancelled_for_an_upgrade() {
    let upgraded = |retention: Fact<bool>, has_metadata: bool| {
        let mut scene = Scene::running("last-state")
            .operator_option("job.upgrade.last-state.job-cancel.enabled", "true");
        if !has_metadata {
            scene = scene.without_metadata();
        }
        scene.facts.retention = retention;
        scene.edit_job(|job| job.parallelism = Some(4)).plan()
    };
    let step_names = |plan: Plan| step_names(&plan).join(" ");
    assert!(step_names(upgraded(Fact::Known(true), true)).contains("cancel-job"));
    let by_metadata = step_names(upgraded(Fact::Known(false), true));
    assert!(by_metadata.contains("stop-job-manager") && !by_metadata.contains("cancel-job"));
    assert!(step_names(upgraded(Fact::Known(false), false)).contains("stop-with-savepoint"));
    let unknown = upgraded(Fact::Unknown("no answer".to_owned()), true);
    assert!(unknown.because.contains("when it is cancelled: no answer"), "{}", unknown.because);
    assert_eq!(step_names(unknown), "");
}
