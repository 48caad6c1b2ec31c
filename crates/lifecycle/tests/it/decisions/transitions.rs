//! The state-transition table, T1 to T35.

use expect_test::expect;

use super::*;

#[test]
fn t01_a_new_job_is_deployed() {
    check(
        &Scene::new("savepoint"),
        expect![[r#"
        (Deployed, R Stateless, Some(Reconciling), Deploying) Deployed
        deploying the job from empty state
          write-status
          event Submit: Starting deployment
          forget-job-graphs
          create-cluster "flink:1.20" from nothing, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
    let from = Scene::new("savepoint")
        .edit_job(|job| job.initial_savepoint_path = Some(SAVEPOINT.to_owned()));
    check(
        &from,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Deployed
        deploying the job from s3://lake/sp/1
          write-status
          event Submit: Starting deployment
          forget-job-graphs
          create-cluster "flink:1.20" from execution.savepoint.path: s3://lake/sp/1, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
}

#[test]
fn t02_a_job_created_suspended_waits() {
    let scene = Scene::new("savepoint").edit_job(|job| job.state = JobState::Suspended);
    check(
        &scene,
        expect![[r#"
        (Upgrading, -, None, Missing) Created
        created suspended: waiting to be resumed
    "#]],
    );
}

#[test]
fn t03_an_invalid_first_spec_is_refused_until_it_changes() {
    let scene = Scene::new("savepoint").edit_job(|job| job.parallelism = Some(-1));
    let plan = scene.plan();
    assert_eq!(plan.look_again, None);
    check(
        &scene,
        expect![[r#"
        (Upgrading, -, None, Missing) Failed
        the spec is invalid and nothing was deployed yet
          event ValidationError: spec.job.parallelism: is `-1`: it must be 1 or more
    "#]],
    );
}

/// The submission of a first deployment was intended, and nothing else is known.
fn first_submission() -> Scene {
    let scene = Scene::new("savepoint")
        .edit_job(|job| job.initial_savepoint_path = Some(SAVEPOINT.to_owned()));
    let plan = scene.plan();
    let Some(Step::WriteStatus(intent)) = plan.steps.first() else { panic!("{}", told(&plan)) };
    let mut scene = scene.clone();
    scene.status = (**intent).clone();
    scene
}

#[test]
fn t04_a_first_submission_that_made_nothing_starts_over_from_the_same_savepoint() {
    check(
        &first_submission(),
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Deployed
        deploying the job from s3://lake/sp/1
          write-status
          event Submit: Starting deployment
          forget-job-graphs
          create-cluster "flink:1.20" from execution.savepoint.path: s3://lake/sp/1, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
}

#[test]
fn t05_a_first_submission_that_was_made_is_adopted_not_made_again() {
    let mut scene = first_submission();
    let generation = scene.resource.metadata.generation;
    scene.facts.job_manager =
        Fact::Known(Some(JobManager { generation, available_replicas: 0, ..job_manager() }));
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Deployed
        the JobManager was created already
          finish-cluster
    "#]],
    );
}

#[test]
fn t06_t07_a_job_manager_that_answers_is_ready_at_once() {
    // Java needs two more loops, without asking anything in them.
    let mut scene = Scene::running("savepoint").starting();
    scene.facts.job_manager = Fact::Known(Some(job_manager()));
    check(
        &scene,
        expect![[r#"
            (Deployed, R Savepoint, Some(Reconciling), DeployedNotReady) Stable
            the JobManager does not answer: no answer
        "#]],
    );
    scene.facts.jobs = Fact::Known(job(JobStatusState::Created));
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Created), Ready) Stable
        the job is CREATED
          event JobStatusChanged: Job status changed from RECONCILING to CREATED
    "#]],
    );
}

#[test]
fn t08_a_job_seen_running_makes_its_spec_stable() {
    let mut scene = Scene::running("savepoint").in_state(JobStatusState::Created);
    scene.status.reconciliation_status.last_stable_spec = None;
    scene.facts.jobs = Fact::Known(job(JobStatusState::Running));
    let plan = scene.plan();
    let reconciliation = &plan.status.reconciliation_status;
    assert_eq!(reconciliation.last_stable_spec, reconciliation.last_reconciled_spec);
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Running), Ready) Stable
        the job is RUNNING
          event JobStatusChanged: Job status changed from CREATED to RUNNING
    "#]],
    );
}

#[test]
fn t09_a_job_manager_that_went_silent_is_no_lost_job() {
    let mut scene = Scene::running("savepoint");
    scene.facts.jobs = Fact::Unknown("timeout".to_owned());
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), DeployedNotReady) Stable
        the JobManager does not answer: timeout
    "#]],
    );
    scene.facts.job_manager =
        Fact::Known(Some(JobManager { available_replicas: 0, ..job_manager() }));
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Stable
        the JobManager is starting
    "#]],
    );
}

#[test]
fn t10_a_lost_deployment_is_told_and_recovered_in_the_same_pass() {
    let mut scene = Scene::running("last-state");
    scene.facts.job_manager = Fact::Known(None);
    scene.facts.pods = Fact::Known(vec![]);
    check(
        &scene,
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
}

#[test]
fn t11_a_pod_that_cannot_start_is_an_error_told_once() {
    let scene = Scene::running("savepoint").starting().pod_problem("CrashLoopBackOff", true);
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Error) Stable
        [flink-main-container] CrashLoopBackOff
          event Error: [flink-main-container] CrashLoopBackOff
    "#]],
    );
    let again = scene.clone().after(&scene.plan());
    check(
        &again,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Error) Stable
        [flink-main-container] CrashLoopBackOff
    "#]],
    );
}

#[test]
fn t12_an_error_ends_when_the_pod_runs() {
    let scene = Scene::running("savepoint").starting().pod_problem("ErrImagePull", false);
    let failed = scene.clone().after(&scene.plan());
    let mut healed = failed;
    healed.facts.pods = Fact::Known(vec![pod()]);
    check(
        &healed,
        expect![[r#"
            (Deployed, R Savepoint, Some(Reconciling), Deploying) Stable
            the JobManager is starting
        "#]],
    );
    healed.facts.job_manager = Fact::Known(Some(job_manager()));
    healed.facts.jobs = Fact::Known(job(JobStatusState::Running));
    let plan = healed.plan();
    assert_eq!(plan.status.error, None);
    check(
        &healed,
        expect![[r#"
        (Deployed, R Savepoint, Some(Running), Ready) Stable
        the job is RUNNING
          event JobStatusChanged: Job status changed from RECONCILING to RUNNING
    "#]],
    );
}

#[test]
fn t13_stateless_is_taken_down_with_its_state() {
    let scene = Scene::running("stateless").edit_job(|job| job.parallelism = Some(4));
    check(
        &scene,
        expect![[r#"
        (Upgrading, S Stateless, Some(Finished), Missing) Upgrading
        stopping the job without its state
          event SpecChanged: UPGRADE change(s) detected (Diff: FlinkDeploymentSpec[job.parallelism : 2 -> 4]), starting reconciliation.
          event Suspended: Suspending existing deployment.
          record-revision
          event JobStatusChanged: Job status changed from RUNNING to FINISHED
          write-status
          cancel-job
          delete-job-manager
    "#]],
    );
}

#[test]
fn t14_savepoint_stops_the_job_with_one() {
    let scene = Scene::running("savepoint").edit_job(|job| job.parallelism = Some(4));
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Running), Ready) Stable
        stopping the job with a savepoint
          event SpecChanged: UPGRADE change(s) detected (Diff: FlinkDeploymentSpec[job.parallelism : 2 -> 4]), starting reconciliation.
          event Suspended: Suspending existing deployment.
          write-status
          stop-with-savepoint
    "#]],
    );
    // Java asks and waits in one call. Here the trigger is on record first, and its outcome later.
    let mut stopping = scene.clone().after(&scene.plan());
    stopping.facts.stop = Fact::Known(Stop::Pending);
    check(
        &stopping,
        expect![[r#"
        (Deployed, R Savepoint, Some(Running), Ready) Stable
        waiting for the savepoint
    "#]],
    );
    stopping.facts.jobs = Fact::Known(job(JobStatusState::Finished));
    stopping.facts.stop = Fact::Known(Stop::Completed { path: SAVEPOINT.to_owned() });
    check(
        &stopping,
        expect![[r#"
        (Upgrading, S Savepoint, Some(Finished), Missing) Upgrading
        removing the JobManager, the job's state is recorded
          event JobStatusChanged: Job status changed from RUNNING to FINISHED
          create-snapshot
          record-revision
          write-status
          delete-job-manager
    "#]],
    );
}

#[test]
fn t14_a_savepoint_that_fails_leaves_the_job_running() {
    let scene = Scene::running("savepoint").edit_job(|job| job.parallelism = Some(4));
    let mut stopping = scene.clone().after(&scene.plan());
    stopping.facts.stop = Fact::Known(Stop::Failed { message: "disk full".to_owned() });
    check(
        &stopping,
        expect![[r#"
        (Deployed, R Savepoint, Some(Running), Ready) Stable
        the job could not be stopped with a savepoint and goes on: disk full
          event SavepointError: the job could not be stopped with a savepoint and goes on: disk full
    "#]],
    );
}

#[test]
fn t14_a_savepoint_that_fails_is_tried_again_after_a_pause() {
    let scene = Scene::running("savepoint").edit_job(|job| job.parallelism = Some(4));
    let mut stopping = scene.clone().after(&scene.plan());
    stopping.facts.stop = Fact::Known(Stop::Failed { message: "disk full".to_owned() });
    let failed = stopping.clone().after(&stopping.plan());
    check(
        &failed_before(failed.clone(), 4),
        expect![[r#"
        (Deployed, R Savepoint, Some(Running), Ready) Stable
        the change waits: the stop-with-savepoint failed, and is tried again later
    "#]],
    );
    let waiting = failed_before(failed.clone(), 4).plan();
    assert_eq!(error(&waiting), error(&stopping.plan()), "the error stays");
    assert_eq!(waiting.look_again, Some(std::time::Duration::from_secs(6)));
    // It stays beside another one, and beside the next stop.
    let again = failed_before(failed.clone(), 10);
    let plan = again.plan();
    assert!(step_names(&plan).contains(&"stop-with-savepoint"), "{}", told(&plan));
    assert_eq!(error(&plan), error(&waiting));
    let second = again.clone().after(&plan);
    let second = second.clone().after(&second.plan());
    let plan = failed_before(second.clone(), 19).plan();
    assert!(step_names(&plan).is_empty(), "{}", told(&plan));
    let invalid = second.clone().edit_job(|job| job.parallelism = Some(-1));
    assert!(!error(&invalid.plan()).contains("disk full"), "of another spec");

    // Another spec is tried at once; the one that runs needs no stop.
    let edited = failed.clone().edit_job(|job| job.parallelism = Some(3));
    assert!(step_names(&edited.plan()).contains(&"stop-with-savepoint"));
    let back = failed.edit_job(|job| job.parallelism = Some(2));
    assert_eq!(back.plan().status.error, None);
}

/// The last stop failed so many seconds ago.
pub(super) fn failed_before(mut scene: Scene, seconds: i64) -> Scene {
    let now: Timestamp = NOW.parse().unwrap();
    let [now, then] = [now, ago(seconds)].map(|at| format!("\"last\":{}", at.as_millisecond()));
    let error = scene.status.error.take().unwrap();
    assert!(error.contains(&now), "{error}");
    scene.status.error = Some(error.replace(&now, &then));
    scene
}

#[test]
fn t14_a_job_that_went_on_after_its_savepoint_does_not_go_back_to_it() {
    let scene = Scene::running("savepoint").edit_job(|job| job.parallelism = Some(4));
    let mut stopping = scene.clone().after(&scene.plan());
    let (path, message) = (SAVEPOINT.to_owned(), "the sink is gone".to_owned());
    stopping.facts.stop = Fact::Known(Stop::SavedNotStopped { path, message });
    let plan = stopping.plan();
    assert!(step_names(&plan).is_empty(), "{}", told(&plan));
    assert_eq!(plan.status.job_status.upgrade_savepoint_path, None);
    for part in [SAVEPOINT, "the sink is gone"] {
        assert!(error(&plan).contains(part), "{}", error(&plan));
    }
    // It is stopped anew, or is decided about by what became of it.
    let after = failed_before(stopping.after(&plan), 10);
    assert!(step_names(&after.plan()).contains(&"stop-with-savepoint"), "{}", told(&after.plan()));
}

#[test]
fn t14_a_job_that_failed_while_it_was_stopped_starts_from_its_newest_state() {
    let scene = Scene::running("savepoint").edit_job(|job| job.parallelism = Some(4));
    let mut stopping = scene.clone().after(&scene.plan());
    let (path, message) = (SAVEPOINT.to_owned(), "the sink is gone".to_owned());
    stopping.facts.stop = Fact::Known(Stop::SavedNotStopped { path, message });
    stopping.facts.jobs = Fact::Known(job(JobStatusState::Failed));
    for newest in [CHECKPOINT, SAVEPOINT] {
        let latest = CompletedState { path: newest.to_owned(), at: None };
        stopping.facts.checkpoints =
            Fact::Known(Checkpoints { latest: Some(latest), ..Checkpoints::default() });
        let mut ended = stopping.clone();
        for _ in 0..2 {
            ended = ended.clone().after(&ended.plan());
        }
        let reconciliation = &ended.status.reconciliation_status;
        assert_eq!(reconciliation.state, ReconciliationState::Upgrading, "{newest}");
        let path = ended.status.job_status.upgrade_savepoint_path.as_deref();
        assert_eq!(path, Some(newest));
    }
}

#[test]
fn t15_last_state_takes_the_job_manager_down_and_keeps_ha_metadata() {
    let scene = Scene::running("last-state").edit_job(|job| job.parallelism = Some(4));
    check(
        &scene,
        expect![[r#"
            (Upgrading, S LastState, Some(Finished), Missing) Upgrading
            removing the JobManager, HA metadata is kept
              event SpecChanged: UPGRADE change(s) detected (Diff: FlinkDeploymentSpec[job.parallelism : 2 -> 4]), starting reconciliation.
              event Suspended: Suspending existing deployment.
              record-revision
              event JobStatusChanged: Job status changed from RUNNING to FINISHED
              write-status
              stop-job-manager
        "#]],
    );
}

#[test]
fn a_running_job_is_not_stopped_for_a_spec_that_cannot_be_made() {
    let cannot = |scene: Scene| {
        scene.edit(|spec| {
            let port = json!("8081-8090");
            spec.flink_configuration.0.insert("rest.port".to_owned(), port);
        })
    };
    let redeployed = |scene: Scene| {
        scene.edit_job(|job| {
            job.savepoint_redeploy_nonce = Some(1);
            job.initial_savepoint_path = Some(SAVEPOINT.to_owned());
        })
    };
    let gone = cannot(Scene::running("last-state").gone());
    let start = told(&gone.plan());
    assert!(start.contains("RecoverDeployment"), "what ran is looked after: {start}");
    for (mode, scene) in [
        ("stateless", cannot(Scene::running("stateless"))),
        ("savepoint", cannot(Scene::running("savepoint"))),
        ("last-state", cannot(Scene::running("last-state"))),
        ("redeploy", cannot(redeployed(Scene::running("savepoint")))),
    ] {
        let plan = scene.plan();
        assert_eq!(step_names(&plan), [""; 0], "{mode}: {}", told(&plan));
        assert!(plan.status.error.as_deref().unwrap().contains("8081-8090"), "{mode}");
        let last = &plan.status.reconciliation_status.last_reconciled_spec;
        assert_eq!(*last, scene.status.reconciliation_status.last_reconciled_spec, "{mode}");
    }
}

/// High availability in an ensemble that knows nothing of the job.
fn moved_to_zookeeper(scene: Scene) -> Scene {
    scene.edit(|spec| {
        for (key, value) in [
            ("high-availability.type", "zookeeper"),
            ("high-availability.zookeeper.quorum", "zk:2181"),
        ] {
            spec.flink_configuration.0.insert(key.to_owned(), json!(value));
        }
    })
}

#[test]
fn ha_metadata_that_would_not_be_found_again_are_not_gone_by() {
    let running = moved_to_zookeeper(Scene::running("last-state"));
    assert_eq!(
        step_names(&running.plan()),
        ["write-status", "cancel-job"],
        "its checkpoint is kept"
    );
    let mut suspended = Scene::running("last-state").edit_job(|job| {
        job.state = JobState::Suspended;
    });
    suspended = suspended.clone().after(&suspended.plan());
    suspended.facts.job_manager = Fact::Known(None);
    suspended.facts.pods = Fact::Known(vec![]);
    suspended = suspended.clone().after(&suspended.plan());
    assert!(told(&suspended.plan()).contains("Suspended"), "{}", told(&suspended.plan()));
    let resumed = suspended.clone().edit_job(|job| job.state = JobState::Running);
    for scene in [moved_to_zookeeper(suspended), moved_to_zookeeper(resumed)] {
        let plan = scene.plan();
        assert_eq!(step_names(&plan), [""; 0], "{}", told(&plan));
        assert!(plan.because.contains("HA metadata in another place"), "{}", plan.because);
        let last = &plan.status.reconciliation_status.last_reconciled_spec;
        assert_eq!(*last, scene.status.reconciliation_status.last_reconciled_spec);
    }
}

#[test]
fn ha_metadata_under_another_id_are_not_gone_by() {
    let fixed = |scene: Scene, id: &str| {
        scene.edit(|spec| {
            let options = &mut spec.flink_configuration.0;
            options.insert("$internal.pipeline.job-id".to_owned(), json!(id));
        })
    };
    let other = "a".repeat(32);
    let running = fixed(Scene::running("last-state"), &other);
    assert_eq!(
        step_names(&running.plan()),
        ["write-status", "cancel-job"],
        "its checkpoint is kept"
    );
    let suspended = || Scene::running("last-state").suspended(UpgradeMode::LastState);
    let upgrading = || Scene::running("last-state").upgrading(UpgradeMode::LastState);
    for scene in [suspended(), upgrading()] {
        let plan = fixed(scene.clone(), &other).plan();
        assert_eq!(step_names(&plan), [""; 0], "{}", told(&plan));
        assert!(plan.because.contains("under another job id"), "{}", plan.because);
        let last = &plan.status.reconciliation_status.last_reconciled_spec;
        assert_eq!(*last, scene.status.reconciliation_status.last_reconciled_spec);
        // Under its own it is found.
        let plan = fixed(scene, JOB_ID).plan();
        assert_eq!(restored(&plan).as_deref(), Some("KUBERNETES_OPERATOR_LAST_STATE"));
    }
    // What is on record already, too.
    let plan = upgrading().option("$internal.pipeline.job-id", &other).plan();
    assert_eq!(step_names(&plan), [""; 0], "{}", told(&plan));
    assert!(error(&plan).contains("under another job id"), "{}", error(&plan));
}

#[test]
fn a_zookeeper_that_the_operator_cannot_reach_stops_and_starts_nothing() {
    let over_tls = |scene: Scene| {
        moved_to_zookeeper(scene).edit(|spec| {
            let option = "env.java.opts.all".to_owned();
            spec.flink_configuration.0.insert(option, json!("-Dzookeeper.client.secure=true"));
        })
    };
    let resumed = Scene::running("savepoint").suspended(UpgradeMode::Savepoint).path(SAVEPOINT);
    for scene in [Scene::new("savepoint"), Scene::running("savepoint"), resumed] {
        let plan = over_tls(scene).plan();
        assert_eq!(step_names(&plan), [""; 0], "{}", told(&plan));
        assert!(error(&plan).contains("reached over TLS"), "{}", error(&plan));
        assert!(error(&plan).contains("nothing is stopped or started"), "{}", error(&plan));
    }
}

#[test]
fn only_the_metadata_of_jobs_on_record_are_removed_from_zookeeper() {
    let removed = |plan: &Plan| {
        plan.steps.iter().find_map(|step| match step {
            Step::Own(ClusterStep::DeleteHaMetadata { jobs }) => jobs.clone(),
            Step::Own(ClusterStep::ForgetJobGraphs { jobs }) => Some(jobs.clone()),
            _ => None,
        })
    };
    let former = |status: &DeploymentStatus| status.cluster_info.get("FormerJobs").cloned();
    let scene = Scene::running("savepoint").upgrading(UpgradeMode::Savepoint).path(SAVEPOINT);
    let mut scene = scene
        .option("high-availability.type", "zookeeper")
        .option("high-availability.zookeeper.quorum", "zk:2181");
    let plan = scene.plan();
    let next = plan.status.job_status.job_id.clone().unwrap();
    assert_eq!(removed(&plan).unwrap(), [JOB_ID, &next], "{}", told(&plan));
    assert_eq!(former(&plan.status), None, "they are gone by then");
    // ZooKeeper did not answer: what was intended is all that is on record.
    let Some(Step::WriteStatus(intent)) = plan.steps.first() else { panic!("{}", told(&plan)) };
    assert_eq!(former(intent).as_deref(), Some(JOB_ID));
    scene.status = (**intent).clone();
    scene.facts.ha_metadata = Fact::Known(HaMetadata::default());
    assert_eq!(removed(&scene.plan()).unwrap(), [JOB_ID, &next]);
    // Others may write the status, and what is there becomes paths.
    scene.status.cluster_info.insert("FormerJobs".to_owned(), ",../x,,a/b".to_owned());
    assert_eq!(removed(&scene.plan()).unwrap(), [next]);
    let resumed = Scene::running("last-state").upgrading(UpgradeMode::LastState);
    assert_eq!(removed(&resumed.plan()).unwrap(), [JOB_ID], "{}", told(&resumed.plan()));
    let first = Scene::new("savepoint").plan();
    let id = first.status.job_status.job_id.clone().unwrap();
    assert_eq!(removed(&first).unwrap(), [id], "none of what an earlier resource has left");
    // Where they are in ConfigMaps, the namespace tells whose they are.
    let plan = Scene::running("savepoint").upgrading(UpgradeMode::Savepoint).path(SAVEPOINT).plan();
    assert!(plan.steps.iter().all(|step| match step {
        Step::WriteStatus(status) => former(status).is_none(),
        _ => true,
    }));
}

/// A JobManager that was given no replicas, so that its TaskManagers outlive it.
fn stopped(scene: &Scene) -> Scene {
    let mut scene = scene.clone().after(&scene.plan());
    let stopped = JobManager { is_deleting: true, is_stopped: true, ..job_manager() };
    scene.facts.job_manager = Fact::Known(Some(stopped));
    scene
}

#[test]
fn t15_a_job_that_goes_on_by_metadata_loses_its_job_manager_first() {
    let scene = Scene::running("last-state").edit_job(|job| job.parallelism = Some(4));
    assert!(step_names(&scene.plan()).contains(&"stop-job-manager"));
    let ending = |seconds: i64| {
        let mut waiting = stopped(&scene);
        let pod = Pod { ending_since: Some(ago(seconds)), ..pod() };
        waiting.facts.pods = Fact::Known(vec![pod]);
        waiting
    };
    let waiting = ending(5).plan();
    assert_eq!(step_names(&waiting), [""; 0], "{}", told(&waiting));
    assert_eq!(waiting.because, "waiting for the old JobManager's pods to end");
    assert_eq!(step_names(&ending(31).plan()), ["delete-job-manager"], "its node may be lost");
    let mut ended = stopped(&scene);
    ended.facts.pods = Fact::Known(vec![]);
    assert_eq!(step_names(&ended.plan()), ["delete-job-manager"]);
    let mut left = stopped(&scene);
    left.status.reconciliation_status.reconciliation_timestamp = ago(31).as_millisecond();
    left.status.job_status.update_time = Some(ago(31).as_millisecond().to_string());
    left.facts.pods = Fact::Known(vec![pod()]);
    assert_eq!(step_names(&left.plan()), ["stop-job-manager"], "it was given replicas again");
    let orphaning = scene.operator_option("resource.deletion.propagation", "Orphan");
    assert!(step_names(&orphaning.plan()).contains(&"delete-job-manager"));
}

#[test]
fn t15_a_job_manager_that_was_stopped_goes_whatever_its_user_wants_meanwhile() {
    let scene = Scene::running("last-state").edit_job(|job| job.parallelism = Some(4));
    let mut ended = stopped(&scene);
    ended.facts.pods = Fact::Known(vec![]);
    let wishes = [
        ("another", ended.clone().edit_job(|job| job.parallelism = Some(5))),
        ("suspended", ended.clone().edit_job(|job| job.state = JobState::Suspended)),
        ("invalid", ended.clone().edit_job(|job| job.parallelism = Some(-1))),
        ("deleted", ended.delete()),
    ];
    for (wish, scene) in wishes {
        let plan = scene.plan();
        assert!(step_names(&plan).contains(&"delete-job-manager"), "{wish}: {}", told(&plan));
    }
}

/// A last-state upgrade that cancels the job.
fn cancelling() -> Scene {
    let scene = Scene::running("last-state")
        .operator_option("job.upgrade.last-state.job-cancel.enabled", "true")
        .edit_job(|job| job.parallelism = Some(4));
    scene.clone().after(&scene.plan())
}

#[test]
fn t16_cancel_keeps_the_old_spec_until_the_job_has_ended() {
    let scene = Scene::running("last-state")
        .operator_option("job.upgrade.last-state.job-cancel.enabled", "true")
        .edit_job(|job| job.parallelism = Some(4));
    check(
        &scene,
        expect![[r#"
        (Upgrading, R Savepoint, Some(Cancelling), Ready) Upgrading
        cancelling the job, its checkpoint is kept
          event SpecChanged: UPGRADE change(s) detected (Diff: FlinkDeploymentSpec[job.parallelism : 2 -> 4]), starting reconciliation.
          event Suspended: Suspending existing deployment.
          event JobStatusChanged: Job status changed from RUNNING to CANCELLING
          write-status
          cancel-job
    "#]],
    );
    let last = scene.plan().status.reconciliation_status.last_reconciled_spec.clone().unwrap();
    assert!(last.contains("\"parallelism\":2"), "{last}");
    let mut waiting = cancelling();
    waiting.facts.jobs = Fact::Known(job(JobStatusState::Cancelling));
    check(
        &waiting,
        expect![[r#"
        (Upgrading, R Savepoint, Some(Cancelling), Ready) Upgrading
        waiting for the job to be cancelled
    "#]],
    );
}

#[test]
fn t16_a_cancel_that_never_arrived_is_sent_again() {
    check(
        &cancelling(),
        expect![[r#"
        (Upgrading, R Savepoint, Some(Cancelling), Ready) Upgrading
        waiting for the job to be cancelled
          cancel-job
    "#]],
    );
}

/// What was noted of the job's state is as old as the request.
#[test]
fn t16_a_cancel_that_never_arrived_is_decided_anew_after_a_while() {
    let mut scene = cancelling();
    scene.status.job_status.update_time = Some(ago(60).as_millisecond().to_string());
    scene.status.reconciliation_status.reconciliation_timestamp = ago(60).as_millisecond();
    scene.facts.checkpoints = Fact::Known(Checkpoints {
        latest: Some(CompletedState { path: "s3://lake/chk/99".to_owned(), at: Some(ago(5)) }),
        ..Checkpoints::default()
    });
    let plan = scene.plan();
    assert!(step_names(&plan).contains(&"cancel-job"), "{}", told(&plan));
    let waiting = scene.in_state(JobStatusState::Initializing);
    let mut waiting = waiting.without_metadata();
    waiting.status.job_status.state = Some(JobStatusState::Cancelling);
    waiting.facts.checkpoints =
        Fact::Known(Checkpoints { is_blank: true, ..Checkpoints::default() });
    let plan = waiting.plan();
    assert!(step_names(&plan).is_empty(), "{}", told(&plan));
}

#[test]
fn t17_a_cancelled_job_starts_from_the_checkpoint_it_left() {
    let mut scene = cancelling();
    scene.facts.jobs = Fact::Known(job(JobStatusState::Canceled));
    check(
        &scene,
        expect![[r#"
        (Upgrading, S Savepoint, Some(Canceled), Ready) Upgrading
        waiting for the old JobManager to end
          event JobStatusChanged: Job status changed from CANCELLING to CANCELED
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
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Deployed
        deploying the job from s3://lake/chk/7
          write-status
          event Submit: Starting deployment
          delete-ha-metadata
          create-cluster "flink:1.20" from execution.savepoint.path: s3://lake/chk/7, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
}

#[test]
fn t18_a_job_that_vanished_while_it_was_cancelled_is_decided_again() {
    let mut scene = cancelling();
    scene.facts.jobs = Fact::Known(vec![]);
    check(
        &scene,
        expect![[r#"
            (Upgrading, S LastState, Some(Finished), Missing) Upgrading
            removing the JobManager, HA metadata is kept
              event SpecChanged: UPGRADE change(s) detected (Diff: FlinkDeploymentSpec[job.parallelism : 2 -> 4, job.upgradeMode : savepoint -> last-state]), starting reconciliation.
              event Suspended: Suspending existing deployment.
              record-revision
              event JobStatusChanged: Job status changed from RECONCILING to FINISHED
              write-status
              stop-job-manager
              event Missing: Job Not Found
        "#]],
    );
}

#[test]
fn t18b_q03_a_suspend_by_cancel_ends_suspended() {
    let scene = Scene::running("last-state")
        .operator_option("job.upgrade.last-state.job-cancel.enabled", "true")
        .edit_job(|job| job.state = JobState::Suspended);
    let mut scene = scene.clone().after(&scene.plan());
    scene.facts.jobs = Fact::Known(job(JobStatusState::Canceled));
    check(
        &scene,
        expect![[r#"
        (Deployed, S Savepoint, Some(Canceled), Ready) Suspended
        suspended
          event JobStatusChanged: Job status changed from CANCELLING to CANCELED
    "#]],
    );
    let mut scene = scene.clone().after(&scene.plan());
    scene.facts.job_manager = Fact::Known(None);
    scene.facts.pods = Fact::Known(vec![]);
    check(
        &scene,
        expect![[r#"
        (Deployed, S Savepoint, Some(Canceled), Missing) Suspended
        there is no JobManager, the job is CANCELED
    "#]],
    );
}

#[test]
fn t19_the_next_job_manager_comes_when_the_last_pod_is_gone() {
    let mut scene = Scene::running("savepoint").path(SAVEPOINT).upgrading(UpgradeMode::Savepoint);
    scene.facts.jobs = Fact::Known(job(JobStatusState::Finished));
    scene.facts.job_manager = Fact::Known(Some(job_manager()));
    scene.status.observed_generation = Some(2);
    check(
        &scene,
        expect![[r#"
        (Upgrading, S Savepoint, Some(Finished), Missing) Upgrading
        waiting for the old JobManager to end
          write-status
          delete-job-manager
    "#]],
    );
    scene.facts.job_manager = Fact::Known(Some(JobManager { is_deleting: true, ..job_manager() }));
    check(
        &scene,
        expect![[r#"
        (Upgrading, S Savepoint, Some(Finished), Missing) Upgrading
        waiting for the old JobManager to end
    "#]],
    );
    scene.facts.job_manager = Fact::Known(None);
    scene.facts.pods = Fact::Known(vec![Pod { ending_since: Some(ago(1)), ..pod() }]);
    check(
        &scene,
        expect![[r#"
        (Upgrading, S Savepoint, Some(Finished), Missing) Upgrading
        waiting for the old JobManager's pods to end
    "#]],
    );
    scene.facts.pods = Fact::Known(vec![]);
    check(
        &scene,
        expect![[r#"
        (Deployed, R Savepoint, Some(Reconciling), Deploying) Stable
        deploying the job from s3://lake/sp/1
          write-status
          event Submit: Starting deployment
          delete-ha-metadata
          create-cluster "flink:1.20" from execution.savepoint.path: s3://lake/sp/1, $internal.pipeline.job-id: 00000000000000000000000000000002
    "#]],
    );
}

#[test]
fn t20_a_suspended_job_is_stable() {
    let scene = Scene::running("last-state").edit_job(|job| job.state = JobState::Suspended);
    check(
        &scene,
        expect![[r#"
            (Upgrading, S LastState, Some(Finished), Missing) Upgrading
            removing the JobManager, HA metadata is kept
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
    // The mode of now does not count, but for stateless.
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
        assert_eq!(plan.because, "removing the JobManager, HA metadata is kept");
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
            the change waits: the job does not run, so its state cannot be saved yet
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
        // Q2: what has failed is not told as finished.
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
        the job ended long ago: its JobManager is removed
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
        the job failed: starting it again from its last state
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
        removing the JobManager, the job's state is recorded
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

/// As in Java. A nonce that is stored counts as followed: it must not be stored with a start from
/// something else.
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

/// The event would be sent to the API server in each pass, which refuses it as known.
#[test]
fn a_resume_that_is_refused_is_told_once() {
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

/// A job that can be scaled, with another override.
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
    // It is stable when the job is seen running with it.
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
    let Some(Step::WriteStatus(intent)) = plan.steps.first() else { panic!("{}", told(&plan)) };
    let mut refused = scene;
    refused.status = (**intent).clone();
    check(
        &refused,
        expect![[r#"
            (Upgrading, S LastState, Some(Finished), Missing) Upgrading
            removing the JobManager, HA metadata is kept
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
                Fact::Known(HaMetadata { has_job: true, has_checkpoint: true });
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
        assert!(step_names(&plan).contains(&"stop-job-manager"), "{name}: {}", told(&plan));
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
    let metadata = Fact::Known(HaMetadata { has_job: true, has_checkpoint: true });
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
    assert!(unknown.because.contains("is not known: no answer"), "{}", unknown.because);
    assert_eq!(step_names(unknown), "");
}
