//! How a running job is stopped for a change, T13 to T19.

use expect_test::expect;

use super::*;

#[test]
fn t13_stateless_is_taken_down_with_its_state() {
    let scene = Scene::running("stateless").edit_job(|job| job.parallelism = Some(4));
    check(
        &scene,
        expect![[r#"
        (Upgrading, S Stateless, Some(Finished), Missing) Upgrading
        stopping the job without keeping its state
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
    // Java asks and waits in one call. Here the trigger is recorded first, and its outcome later.
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
        removing the JobManager, with the job's state on record
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
        the job could not be stopped with a savepoint and keeps running: disk full
          event SavepointError: the job could not be stopped with a savepoint and keeps running: disk full
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
        the change waits: the stop-with-savepoint failed and will be retried
    "#]],
    );
    let waiting = failed_before(failed.clone(), 4).plan();
    assert_eq!(error(&waiting), error(&stopping.plan()), "the error stays");
    assert_eq!(waiting.look_again, Some(std::time::Duration::from_secs(6)));
    // It stays beside another one, and beside the next stop.
    let again = failed_before(failed.clone(), 10);
    let plan = again.plan();
    assert!(step_names(&plan).contains(&"stop-with-savepoint"), "{}", described(&plan));
    assert_eq!(error(&plan), error(&waiting));
    let second = again.clone().after(&plan);
    let second = second.clone().after(&second.plan());
    let plan = failed_before(second.clone(), 19).plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    let invalid = second.clone().edit_job(|job| job.parallelism = Some(-1));
    assert!(!error(&invalid.plan()).contains("disk full"), "of another spec");

    // Another spec is tried at once; the running one needs no stop.
    let edited = failed.clone().edit_job(|job| job.parallelism = Some(3));
    assert!(step_names(&edited.plan()).contains(&"stop-with-savepoint"));
    let back = failed.edit_job(|job| job.parallelism = Some(2));
    assert_eq!(back.plan().status.error, None);
}

/// The last stop failed this many seconds ago.
pub(crate) fn failed_before(mut scene: Scene, seconds: i64) -> Scene {
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
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    assert_eq!(plan.status.job_status.upgrade_savepoint_path, None);
    for part in [SAVEPOINT, "the sink is gone"] {
        assert!(error(&plan).contains(part), "{}", error(&plan));
    }
    // It is stopped again, or its outcome decides.
    let after = failed_before(stopping.after(&plan), 10);
    assert!(
        step_names(&after.plan()).contains(&"stop-with-savepoint"),
        "{}",
        described(&after.plan())
    );
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
            removing the JobManager and keeping HA metadata
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
    let start = described(&gone.plan());
    assert!(start.contains("RecoverDeployment"), "what ran is looked after: {start}");
    for (mode, scene) in [
        ("stateless", cannot(Scene::running("stateless"))),
        ("savepoint", cannot(Scene::running("savepoint"))),
        ("last-state", cannot(Scene::running("last-state"))),
        ("redeploy", cannot(redeployed(Scene::running("savepoint")))),
    ] {
        let plan = scene.plan();
        assert_eq!(step_names(&plan), [""; 0], "{mode}: {}", described(&plan));
        assert!(plan.status.error.as_deref().unwrap().contains("8081-8090"), "{mode}");
        let last = &plan.status.reconciliation_status.last_reconciled_spec;
        assert_eq!(*last, scene.status.reconciliation_status.last_reconciled_spec, "{mode}");
    }
}

#[test]
fn a_running_job_is_not_stopped_without_the_pod_template_of_the_defaults() {
    let mut scene = Scene::running("stateless").edit_job(|job| job.parallelism = Some(3));
    let named = ("kubernetes.pod-template-file.taskmanager", "/workers.yaml");
    scene.operator = OperatorConfig::new([named].into_iter().collect());
    let plan = scene.plan();
    assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
    let error = plan.status.error.unwrap();
    assert!(error.contains("/workers.yaml") && error.contains("mount it there"), "{error}");
    scene.operator.base.set(config::template_file::entry("/workers.yaml"), "spec: {}");
    assert!(!step_names(&scene.plan()).is_empty(), "{}", described(&scene.plan()));
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
    assert!(described(&suspended.plan()).contains("Suspended"), "{}", described(&suspended.plan()));
    let resumed = suspended.clone().edit_job(|job| job.state = JobState::Running);
    for scene in [moved_to_zookeeper(suspended), moved_to_zookeeper(resumed)] {
        let plan = scene.plan();
        assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
        assert!(plan.because.contains("HA metadata to another place"), "{}", plan.because);
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
        assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
        assert!(plan.because.contains("or another job id"), "{}", plan.because);
        let last = &plan.status.reconciliation_status.last_reconciled_spec;
        assert_eq!(*last, scene.status.reconciliation_status.last_reconciled_spec);
        // It is found under its own id.
        let plan = fixed(scene, JOB_ID).plan();
        assert_eq!(restored(&plan).as_deref(), Some("KUBERNETES_OPERATOR_LAST_STATE"));
    }
    // So is what is already recorded.
    let plan = upgrading().option("$internal.pipeline.job-id", &other).plan();
    assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
    assert!(error(&plan).contains("or another job id"), "{}", error(&plan));
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
        assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
        assert!(error(&plan).contains("requires TLS"), "{}", error(&plan));
        assert!(error(&plan).contains("Nothing is stopped or started"), "{}", error(&plan));
    }
    for (servers, is_refused) in [("other:2181", true), ("other:2181;zk:2181", false)] {
        let mut scene = moved_to_zookeeper(Scene::running("savepoint"));
        let option = ("kubernetes.operator.zookeeper.allowed-servers", servers);
        scene.operator = OperatorConfig::new([option].into_iter().collect());
        let plan = scene.plan();
        assert_eq!(step_names(&plan).is_empty(), is_refused, "{}", described(&plan));
        let error = plan.status.error.unwrap_or_default();
        assert_eq!(error.contains("allowed-servers"), is_refused, "{error}");
    }
}

#[test]
fn nodes_that_only_kerberos_opens_are_not_left_to_a_password() {
    let (acl, root) =
        ("high-availability.zookeeper.client.acl", "high-availability.zookeeper.path.root");
    let mut scene = moved_to_zookeeper(Scene::running("savepoint")).edit(|spec| {
        let authorization = "high-availability.zookeeper.client.authorization".to_owned();
        spec.flink_configuration.0.insert(authorization, json!("digest:'flink:secret'"));
        spec.flink_configuration.0.insert(acl.to_owned(), json!("creator"));
    });
    let started = [
        ("high-availability.type", "zookeeper"),
        ("high-availability.zookeeper.quorum", "zk:2181"),
        (acl, "creator"),
    ];
    scene.facts.deployed_config = Fact::Known(started.into_iter().collect());
    let plan = scene.plan();
    assert_eq!(step_names(&plan), [""; 0], "{}", described(&plan));
    for part in ["Kerberos (SASL)", "Nothing is stopped", root] {
        assert!(error(&plan).contains(part), "{}", error(&plan));
    }
    let elsewhere = scene.edit(|spec| {
        spec.flink_configuration.0.insert(root.to_owned(), json!("/flink-2"));
    });
    let plan = elsewhere.plan();
    assert!(step_names(&plan).contains(&"stop-with-savepoint"), "{}", described(&plan));
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
    assert_eq!(removed(&plan).unwrap(), [JOB_ID, &next], "{}", described(&plan));
    assert_eq!(former(&plan.status), None, "they are gone by then");
    // ZooKeeper did not answer: only the intent is recorded.
    let Some(Step::WriteStatus(intent)) = plan.steps.first() else {
        panic!("{}", described(&plan))
    };
    assert_eq!(former(intent).as_deref(), Some(JOB_ID));
    scene.status = (**intent).clone();
    scene.facts.ha_metadata = Fact::Known(HaMetadata::default());
    assert_eq!(removed(&scene.plan()).unwrap(), [JOB_ID, &next]);
    // Others may write the status, and its content becomes paths.
    scene.status.cluster_info.insert("FormerJobs".to_owned(), ",../x,,a/b".to_owned());
    assert_eq!(removed(&scene.plan()).unwrap(), [next]);
    let resumed = Scene::running("last-state").upgrading(UpgradeMode::LastState);
    assert_eq!(removed(&resumed.plan()).unwrap(), [JOB_ID], "{}", described(&resumed.plan()));
    let first = Scene::new("savepoint").plan();
    let id = first.status.job_status.job_id.clone().unwrap();
    assert_eq!(removed(&first).unwrap(), [id], "none of what an earlier resource has left");
    // If they are in ConfigMaps, the namespace determines the owner.
    let plan = Scene::running("savepoint").upgrading(UpgradeMode::Savepoint).path(SAVEPOINT).plan();
    assert!(plan.steps.iter().all(|step| match step {
        Step::WriteStatus(status) => former(status).is_none(),
        _ => true,
    }));
}

/// A JobManager scaled to zero, so that its TaskManagers outlive it.
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
    assert_eq!(step_names(&waiting), [""; 0], "{}", described(&waiting));
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
        assert!(step_names(&plan).contains(&"delete-job-manager"), "{wish}: {}", described(&plan));
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
        cancelling the job and keeping its checkpoint
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

/// What is recorded of the job's state is as old as the request.
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
    assert!(step_names(&plan).contains(&"cancel-job"), "{}", described(&plan));
    let waiting = scene.in_state(JobStatusState::Initializing);
    let mut waiting = waiting.without_metadata();
    waiting.status.job_status.state = Some(JobStatusState::Cancelling);
    waiting.facts.checkpoints =
        Fact::Known(Checkpoints { is_blank: true, ..Checkpoints::default() });
    let plan = waiting.plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
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
fn t18_a_job_that_is_missing_from_one_list_may_just_have_ended() {
    let mut scene = cancelling();
    scene.facts.jobs = Fact::Known(vec![]);
    let plan = scene.plan();
    let because = format!("the JobManager does not list job {JOB_ID} at present");
    assert_eq!(plan.because, because);
    assert!(plan.steps.is_empty() && *plan.status == scene.status, "{}", described(&plan));
    let mut scene = scene.after(&plan);
    scene.facts.jobs = Fact::Known(job(JobStatusState::Canceled));
    assert_eq!(scene.plan().status.job_status.state, Some(JobStatusState::Canceled));
}

#[test]
fn t18_a_job_that_vanished_while_it_was_cancelled_is_decided_again() {
    check(
        &cancelling().unlisted(),
        expect![[r#"
            (Upgrading, S LastState, Some(Finished), Missing) Upgrading
            removing the JobManager and keeping HA metadata
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
