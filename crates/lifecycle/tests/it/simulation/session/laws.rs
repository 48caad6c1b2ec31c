//! The laws of session clusters in random lives, and after a crash at any step.

use super::*;
use lifecycle::upgrade_budget::Progress;

#[test]
fn a_new_session_cluster_becomes_stable_and_is_then_left_alone() {
    for mode in ["native", "standalone"] {
        let mut sim = Session::new(mode);
        show_on_failure(0, &mut sim, |sim| {
            sim.settle();
            let condition = sim.status.conditions[0].clone();
            assert_eq!(condition.reason.as_deref(), Some("JobManagerReady"));
            assert_eq!(sim.status.job_status.state, None);
            for _ in 0..5 {
                sim.tick();
                let before = sim.status.clone();
                let plan = sim.pass(None);
                assert!(plan.steps.is_empty(), "{mode}: at rest: {:?}", names(&plan.steps));
                assert_eq!(before, sim.status, "{mode}");
            }
        });
    }
}

#[test]
fn users_faults_and_crashes_leave_one_good_session_cluster() {
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mut sim = Session::new(if seed % 2 == 0 { "native" } else { "standalone" });
        show_on_failure(seed, &mut sim, |sim| {
            for _ in 0..80 {
                sim.tick();
                if choices.below(9) == 0 {
                    sim.misfortune(&mut choices);
                }
                let crash_at = choices.crash(5, 7);
                sim.pass(crash_at);
            }
            sim.heal();
            sim.settle();
            sim.assert_comes_to_rest();
        });
    }
}

#[test]
fn a_change_of_the_spec_makes_exactly_one_new_cluster() {
    let mut sim = Session::new("standalone");
    sim.settle();
    sim.edit(|r| r.spec.restart_nonce = Some(1));
    crashes(12, |crash| {
        let mut steps = 0;
        show_on_failure(crash.seed(), &mut sim.clone(), |sim| {
            for pass in 0..=crash.pass {
                sim.tick();
                steps = sim.pass(crash.in_pass(pass)).steps.len();
            }
            sim.settle();
            assert_eq!(sim.made, 2);
        });
        steps
    });
}

#[test]
fn a_bad_edit_leaves_the_session_cluster_alone() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.edit(|r| r.spec.job = Some(api::job::JobSpec::default()));
    for _ in 0..5 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.message().contains("cannot become an application"), "{}", sim.message());
    assert_eq!(sim.made, 1);
    assert!(sim.is_up());
    let condition = sim.status.conditions[0].clone();
    assert_eq!(condition.reason.as_deref(), Some("JobManagerReady"));
}

/// The Java operator fails because there is no job.
#[test]
fn q04_an_invalid_edit_does_not_stop_the_upgrade_of_a_session_cluster() {
    for mode in ["native", "standalone"] {
        let mut sim = Session::new(mode);
        show_on_failure(0, &mut sim, |sim| {
            sim.settle();
            sim.edit(|r| r.spec.restart_nonce = Some(1));
            sim.tick();
            sim.pass(None);
            let state = sim.status.reconciliation_status.state;
            assert_eq!((state, sim.made), (ReconciliationState::Upgrading, 1), "{mode}");
            sim.edit(|r| r.spec.service_account = None);
            for _ in 0..30 {
                sim.tick();
                sim.pass(None);
            }
            assert!(sim.is_up(), "{mode}");
            assert!(sim.message().contains("serviceAccount"), "{mode}: {}", sim.message());
            sim.heal();
            sim.settle();
            assert_eq!(sim.made, 2, "{mode}: the one that was asked for");
        });
    }
}

/// The Java operator requires HA metadata of a job here too.
#[test]
fn q07_a_session_cluster_is_rolled_back_without_metadata_of_a_job() {
    let mut sim = Session::with_rollback();
    show_on_failure(0, &mut sim, |sim| {
        sim.settle();
        sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
        for _ in 0..60 {
            sim.tick();
            sim.pass(None);
        }
        assert_eq!(sim.status.lifecycle_state, Some(LifecycleState::RolledBack));
        assert!(sim.is_up() && !sim.is_image_broken);
        assert_eq!(sim.made, 3, "the stable one, the one that failed, the stable one");
    });
}

#[test]
fn reactive_task_managers_are_scaled_in_place() {
    let scale = |sim: &mut Session, replicas| {
        sim.edit(|r| r.spec.task_manager.as_mut().unwrap().replicas = Some(replicas));
        sim.settle();
        let info = sim.status.task_manager.clone().unwrap();
        assert_eq!((info.replicas, sim.replicas), (replicas, replicas));
        assert_eq!(info.label_selector, "component=taskmanager,app=lab");
        sim.made
    };
    let mut sim = Session::new("standalone");
    sim.edit(|r| {
        drop(r.spec.flink_configuration.0.insert("scheduler-mode".to_owned(), "REACTIVE".into()));
    });
    sim.settle();
    assert_eq!(scale(&mut sim, 3), 1, "the JobManager goes on");
    assert_eq!(scale(&mut sim, 1), 1);
    sim.edit(|r| {
        r.spec.ingress = serde_json::from_value(json!({"template": "lab.example.com"})).unwrap();
    });
    assert_eq!(scale(&mut sim, 2), 1);
    assert_eq!(sim.ingresses_moved, 1, "what is changed beside the scale is not forgotten");

    let mut sim = Session::new("standalone");
    sim.settle();
    assert_eq!(scale(&mut sim, 3), 2, "not reactive: the cluster is replaced");
}

#[test]
fn who_needs_the_cluster_keeps_it_from_being_deleted() {
    for mode in ["native", "standalone"] {
        let mut sim = Session::new(mode);
        show_on_failure(0, &mut sim, |sim| {
            sim.settle();
            sim.referring = vec!["a".to_owned(), "b".to_owned()];
            sim.jobs = vec![JobStatusState::Finished, JobStatusState::Running];
            sim.mark_for_deletion();
            let wait = |sim: &mut Session| {
                for _ in 0..30 {
                    sim.tick();
                    sim.pass(None);
                }
            };
            wait(sim);
            assert_eq!(sim.message(), "The session jobs [a, b] should be deleted first");
            assert_eq!(sim.status.lifecycle_state, Some(LifecycleState::Deleting));
            sim.referring.clear();
            wait(sim);
            assert_eq!(
                sim.message(),
                "The session cluster has non terminated jobs [00000000000000000000000000000001] \
                 that should be cancelled first"
            );
            assert!(sim.is_up() && !sim.is_gone());
            sim.jobs[1] = JobStatusState::Canceled;
            wait(sim);
            assert!(sim.is_gone() && sim.job_manager.is_none() && sim.workers.is_none());
            assert!(!sim.has_ha_metadata);
        });
    }
}

#[test]
fn jobs_of_a_job_manager_that_is_away_keep_the_cluster_for_a_while() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.job_manager.as_mut().unwrap().available_replicas = 0;
    sim.starts_in = 60;
    sim.mark_for_deletion();
    for _ in 0..50 {
        sim.tick();
        sim.pass(None);
    }
    assert!(!sim.is_gone() && sim.has_ha_metadata, "{}", sim.message());
    for _ in 0..20 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.message().contains("non terminated jobs"), "{}", sim.message());

    sim.job_manager.as_mut().unwrap().available_replicas = 0;
    sim.starts_in = 10_000;
    for _ in 0..400 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.is_gone(), "it never answers: {}", sim.message());
    assert!(sim.has_ha_metadata, "all that leads to its job's state is kept");
}

/// A JobManager that sees its TaskManagers go fails jobs without restarts left, along with their HA metadata.
#[test]
fn a_job_manager_that_never_answers_ends_before_its_task_managers() {
    for mode in ["native", "standalone"] {
        for crash_at in [None, Some(0), Some(1)] {
            let mut sim = Session::new(mode);
            sim.settle();
            sim.jobs = vec![JobStatusState::Running];
            sim.job_manager.as_mut().unwrap().available_replicas = 0;
            sim.starts_in = 10_000;
            sim.mark_for_deletion();
            let mut has_ended = false;
            for second in 0..400 {
                sim.tick();
                has_ended |= sim.pods().is_empty();
                let plan = sim.pass(crash_at.filter(|_| second % 3 == 0));
                let removes = names(&plan.steps).iter().any(|name| name.starts_with("delete-"));
                assert!(has_ended || !removes, "{mode}: {}", plan.because);
            }
            assert!(sim.is_gone() && sim.has_ha_metadata, "{mode}: {}", sim.message());
        }
    }
}

/// Nothing in Kubernetes ends the pods; the resource is deleted all the same.
#[test]
fn a_job_manager_that_never_ends_does_not_keep_the_resource_for_ever() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.job_manager.as_mut().unwrap().available_replicas = 0;
    sim.starts_in = 10_000;
    sim.mark_for_deletion();
    for _ in 0..1_500 {
        sim.pods_linger = 3;
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.is_gone() && sim.has_ha_metadata, "{}", sim.message());
}

#[test]
fn an_operator_that_was_away_waits_for_a_job_manager_from_when_it_is_back() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.job_manager.as_mut().unwrap().available_replicas = 0;
    sim.starts_in = 10_000;
    sim.mark_for_deletion();
    sim.now += SignedDuration::from_mins(10);
    for _ in 0..60 {
        sim.tick();
        sim.pass(None);
    }
    assert!(!sim.is_gone() && sim.job_manager.is_some(), "{}", sim.message());
    sim.starts_in = 0;
    for _ in 0..5 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.message().contains("non terminated jobs"), "{}", sim.message());
    assert!(!sim.status.cluster_info.contains_key("AwaySince"));
}

#[test]
fn jobs_of_a_cluster_without_a_process_keep_their_metadata_when_it_is_deleted() {
    for is_missing in [false, true] {
        let mut sim = Session::new("native");
        sim.settle();
        sim.jobs = vec![JobStatusState::Running];
        if is_missing {
            // Lost, and not observed before the deletion.
            sim.lose_job_manager();
        } else {
            let job_manager = sim.job_manager.as_mut().unwrap();
            job_manager.replicas = 0;
            job_manager.available_replicas = 0;
            sim.starts_in = 10_000;
        }
        sim.mark_for_deletion();
        let mut told = false;
        for _ in 0..60 {
            sim.tick();
            let plan = sim.pass(None);
            told |= plan.steps.iter().any(|step| {
                matches!(step, Step::Event(event) if event.message.contains("HA metadata is kept"))
            });
        }
        assert!(sim.is_gone() && told, "{is_missing}: {}", sim.message());
        assert!(sim.has_ha_metadata, "{is_missing}");
    }
}

#[test]
fn an_upgrade_under_way_does_not_move_the_metadata_of_jobs() {
    let edit = |sim: &mut Session, key: &str, value: &str| {
        let (key, value) = (key.to_owned(), value.to_owned());
        sim.edit(|r| drop(r.spec.flink_configuration.0.insert(key, value.into())));
    };
    let wait = |sim: &mut Session| {
        for _ in 0..30 {
            sim.tick();
            sim.pass(None);
        }
    };
    for is_seen_broken in [false, true] {
        let mut sim = Session::new("native");
        let options = &mut sim.resource.spec.flink_configuration.0;
        options.insert("kubernetes.operator.job.upgrade.preflight".to_owned(), "none".into());
        sim.settle();
        sim.jobs = vec![JobStatusState::Running];
        sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
        if is_seen_broken {
            wait(&mut sim);
        } else {
            sim.tick();
            sim.pass(None);
        }
        let made = sim.made;
        edit(&mut sim, "high-availability.type", "zookeeper");
        edit(&mut sim, "high-availability.zookeeper.quorum", "zookeeper:2181");
        wait(&mut sim);
        assert_eq!(sim.made, made, "{is_seen_broken}: {}", sim.message());
        assert!(
            sim.message().contains("could not determine whether jobs run"),
            "{}",
            sim.message()
        );
        // The change is reverted, and the cluster continues.
        edit(&mut sim, "high-availability.type", "kubernetes");
        sim.heal();
        sim.settle();
        assert!(sim.is_up(), "{is_seen_broken}");
    }
}

#[test]
fn a_cluster_with_jobs_does_not_move_their_metadata() {
    let move_to = |sim: &mut Session, servers: &str| {
        for (key, value) in
            [("type", "zookeeper"), ("zookeeper.quorum", servers), ("zookeeper.path.root", "/jobs")]
        {
            let key = format!("high-availability.{key}");
            sim.edit(|r| drop(r.spec.flink_configuration.0.insert(key, value.into())));
        }
        for _ in 0..30 {
            sim.tick();
            sim.pass(None);
        }
    };
    let mut sim = Session::new("native");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    move_to(&mut sim, "zookeeper:2181");
    assert_eq!(sim.made, 1, "{}", sim.message());
    assert!(sim.message().contains("have not ended"), "{}", sim.message());
    sim.jobs = vec![JobStatusState::Canceled];
    move_to(&mut sim, "zookeeper-2:2181");
    assert_eq!(sim.made, 2, "{}", sim.message());
}

/// Flink 2 looks for job graphs elsewhere than Flink 1, and no version promises to read another's.
#[test]
fn a_cluster_with_jobs_keeps_its_flink_version() {
    for to in [FlinkVersion::V2_1, FlinkVersion::V1_19] {
        let mut sim = Session::new("native");
        sim.settle();
        sim.jobs = vec![JobStatusState::Running];
        version(&mut sim, to);
        assert_eq!(sim.made, 1, "{}", sim.message());
        assert!(sim.message().contains("query (00000000000000000000000000000000)"), "{to}");
        assert!(sim.message().contains("suspend sessionjob/NAME"), "{}", sim.message());
        version(&mut sim, FlinkVersion::V1_20);
        assert_eq!((sim.made, sim.message().as_str()), (1, ""), "{to}: it was taken back");
        assert!(sim.is_up() && sim.is_stable());
        version(&mut sim, to);
        assert_eq!(sim.made, 1, "{}", sim.message());
        sim.jobs = vec![JobStatusState::Finished];
        sim.settle();
        assert_eq!(sim.made, 2, "what is suspended is in no metadata");
    }
}

#[test]
fn a_cluster_without_high_availability_waits_until_its_jobs_have_left() {
    let mut sim = Session::new("native");
    sim.resource.spec.flink_configuration.0.remove("high-availability.type");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    version(&mut sim, FlinkVersion::V2_1);
    let unmanaged =
        "[query (00000000000000000000000000000000)] of the session cluster belong to no";
    assert!(sim.message().contains(unmanaged), "{}", sim.message());
    assert!(
        sim.made == 1 && !awaits_jobs(&sim),
        "nobody is asked to leave for what only its user can end"
    );

    sim.referring = vec!["a".to_owned()];
    version(&mut sim, FlinkVersion::V2_1);
    assert_eq!((sim.made, sim.message().as_str()), (1, ""));
    assert!(awaits_jobs(&sim) && sim.is_up());
    version(&mut sim, FlinkVersion::V1_20);
    assert!(sim.made == 1 && !awaits_jobs(&sim), "the edit was taken back");

    version(&mut sim, FlinkVersion::V2_1);
    sim.is_silent = true;
    sim.tick();
    sim.pass(None);
    assert!(sim.message().contains("could not determine which jobs run"), "{}", sim.message());
    assert!(awaits_jobs(&sim), "who has left stays away while the JobManager does not answer");
    sim.is_silent = false;
    version(&mut sim, FlinkVersion::V1_20);
    assert!(sim.made == 1 && !awaits_jobs(&sim), "the edit was taken back");

    version(&mut sim, FlinkVersion::V2_1);
    sim.jobs = vec![JobStatusState::Finished];
    sim.settle();
    assert!(sim.made == 2 && !awaits_jobs(&sim));
    sim.assert_comes_to_rest();
}

/// It would wait for what its own jobs have in progress, and they wait for the new cluster.
#[test]
fn a_session_cluster_whose_jobs_are_stopped_for_it_does_not_ask_again() {
    let mut sim = Session::new("native");
    sim.resource.spec.flink_configuration.0.remove("high-availability.type");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.referring = vec!["a".to_owned()];
    sim.turn = Turn::Waits;
    version(&mut sim, FlinkVersion::V2_1);
    assert!(!awaits_jobs(&sim), "nobody is asked to leave before its turn");
    sim.turn = Turn::Taken;
    // Its spec is tried in pods first.
    for _ in 0..30 {
        sim.tick();
        sim.pass(None);
    }
    assert!(awaits_jobs(&sim));
    assert_eq!(Progress::of(&sim.status), Progress::UnderWay);
    sim.turn = Turn::Waits;
    sim.jobs = vec![JobStatusState::Finished];
    sim.settle();
    assert_eq!(sim.made, 2);
}

#[test]
fn jobs_end_with_their_cluster_where_its_user_says_so() {
    let mut sim = Session::new("native");
    let options = &mut sim.resource.spec.flink_configuration.0;
    options.remove("high-availability.type");
    options.insert("kubernetes.operator.session.upgrade.wait-for-jobs".to_owned(), "false".into());
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    version(&mut sim, FlinkVersion::V2_1);
    assert_eq!(sim.made, 2, "{}", sim.message());
}

#[test]
fn to_turn_high_availability_off_waits_for_the_jobs() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.edit(|r| drop(r.spec.flink_configuration.0.remove("high-availability.type")));
    for _ in 0..30 {
        sim.tick();
        sim.pass(None);
    }
    assert!(
        sim.made == 1 && sim.message().contains("belong to no FlinkSessionJob"),
        "{}",
        sim.message()
    );
}

#[test]
fn an_upgrade_under_way_does_not_change_the_flink_version_under_jobs() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.edit(|r| r.spec.image = Some("flink:mended".to_owned()));
    sim.tick();
    sim.pass(None);
    version(&mut sim, FlinkVersion::V2_1);
    assert_eq!(sim.made, 1, "{}", sim.message());
    assert!(sim.message().contains("back to v1_20"), "{}", sim.message());
    version(&mut sim, FlinkVersion::V1_20);
    sim.settle();
    assert_eq!(sim.made, 2, "it is taken back, and goes on");

    // While the rolled back JobManager is removed.
    let mut sim = Session::with_rollback();
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
    while sim.status.reconciliation_status.state != ReconciliationState::RollingBack {
        sim.tick();
        sim.pass(None);
    }
    let made = sim.made;
    version(&mut sim, FlinkVersion::V2_1);
    assert_eq!(sim.made, made, "{}", sim.message());
    assert!(sim.message().contains("back to v1_20"), "{}", sim.message());
}

#[test]
fn jobs_that_nobody_saw_keep_their_metadata_when_the_cluster_is_deleted() {
    let mut sim = lost_with_jobs_that_nobody_saw();
    sim.mark_for_deletion();
    for _ in 0..60 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.is_gone() && sim.has_ha_metadata, "{}", sim.message());
}

#[test]
fn jobs_that_nobody_saw_keep_the_flink_version() {
    let mut sim = lost_with_jobs_that_nobody_saw();
    version(&mut sim, FlinkVersion::V2_1);
    assert_eq!(sim.made, 2, "it is made again as it was: {}", sim.message());
    assert!(sim.is_up() && sim.message().contains("back to v1_20"), "{}", sim.message());
    sim.jobs = vec![JobStatusState::Finished];
    sim.settle();
    assert_eq!(sim.made, 3);
}

#[test]
fn a_flink_version_that_does_not_come_up_can_be_taken_back() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
    version(&mut sim, FlinkVersion::V2_1);
    let made = sim.made;
    assert!(!sim.is_up() && made > 1, "{}", sim.message());
    sim.edit(|r| r.spec.image = Some("flink:1.20".to_owned()));
    version(&mut sim, FlinkVersion::V1_20);
    assert_eq!(sim.made, made + 1, "no job is in its metadata: {}", sim.message());
    sim.settle();
}

/// With a default that has changed since, they would be looked for in another place than the cluster's own.
#[test]
fn metadata_that_are_not_found_where_the_cluster_never_stored_any_say_nothing_of_its_jobs() {
    let mut sim = Session::new("native");
    sim.settle();
    sim.made_with = parse_flink_conf(
        "high-availability.type: zookeeper\nhigh-availability.zookeeper.quorum: zookeeper:2181\n",
    );
    sim.is_image_broken = true;
    sim.job_manager.as_mut().unwrap().available_replicas = 0;
    sim.edit(|r| r.spec.image = Some("flink:mended".to_owned()));
    for _ in 0..30 {
        sim.tick();
        sim.pass(None);
    }
    assert_eq!(sim.made, 1, "{}", sim.message());
    assert!(sim.message().contains("could not determine whether jobs run"), "{}", sim.message());
}

#[test]
fn after_a_rollback_the_metadata_of_jobs_are_where_the_cluster_that_runs_keeps_them() {
    let mut sim = Session::with_rollback();
    let wait = |sim: &mut Session| {
        for _ in 0..60 {
            sim.tick();
            sim.pass(None);
        }
    };
    sim.settle();
    let place = sim.resource.spec.flink_configuration.clone();
    sim.edit(|r| {
        r.spec.image = Some(BROKEN_IMAGE.to_owned());
        for (key, value) in [("type", "zookeeper"), ("zookeeper.quorum", "zookeeper:2181")] {
            let key = format!("high-availability.{key}");
            drop(r.spec.flink_configuration.0.insert(key, value.into()));
        }
    });
    wait(&mut sim);
    assert_eq!(sim.status.lifecycle_state, Some(LifecycleState::RolledBack));
    sim.jobs = vec![JobStatusState::Running];
    let made = sim.made;
    sim.edit(|r| r.spec.image = Some("flink:mended".to_owned()));
    wait(&mut sim);
    assert_eq!(sim.made, made, "its jobs would not be found: {}", sim.message());
    assert!(sim.message().contains("have not ended"), "{}", sim.message());
    sim.edit(|r| r.spec.flink_configuration = place);
    wait(&mut sim);
    assert_eq!(sim.made, made + 1, "nothing moves: {}", sim.message());
}

#[test]
fn metadata_that_nobody_will_ever_read_do_not_hold_the_deletion_up() {
    let mut sim = Session::new("native");
    for (key, value) in [
        ("high-availability.type", "zookeeper"),
        ("high-availability.zookeeper.quorum", "zookeeper:2181"),
        ("env.java.opts.all", "-Dzookeeper.client.secure=true"),
    ] {
        drop(sim.resource.spec.flink_configuration.0.insert(key.to_owned(), value.into()));
    }
    sim.metadata_unreadable = true;
    sim.settle();
    sim.mark_for_deletion();
    for _ in 0..20 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.is_gone(), "{}", sim.message());
}

#[test]
fn options_let_a_needed_cluster_go() {
    for (option, has_session_jobs) in [
        ("kubernetes.operator.session.deletion.block-on-session-jobs", true),
        ("kubernetes.operator.session.deletion.block-on-unmanaged-jobs", false),
    ] {
        let mut sim = Session::new("native");
        sim.edit(|r| drop(r.spec.flink_configuration.0.insert(option.to_owned(), "false".into())));
        sim.settle();
        sim.jobs = vec![JobStatusState::Running];
        sim.referring = if has_session_jobs { vec!["a".to_owned()] } else { vec![] };
        sim.mark_for_deletion();
        for _ in 0..30 {
            sim.tick();
            sim.pass(None);
        }
        assert!(sim.is_gone(), "{option}: {}", sim.message());
    }
}

#[test]
fn a_cluster_that_was_never_deployed_just_goes() {
    let mut sim = Session::new("native");
    sim.edit(|r| r.spec.service_account = None);
    sim.referring = vec!["a".to_owned()];
    sim.tick();
    sim.pass(None);
    assert_eq!(sim.status.lifecycle_state, Some(LifecycleState::Failed));
    sim.mark_for_deletion();
    for _ in 0..5 {
        sim.tick();
        sim.pass(None);
    }
    assert!(sim.is_gone());
    assert_eq!(sim.made, 0);
}

#[test]
fn deletion_of_a_session_cluster_ends_whatever_its_state() {
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mut sim = Session::new(if seed % 2 == 0 { "native" } else { "standalone" });
        show_on_failure(seed, &mut sim, |sim| {
            for _ in 0..choices.below(40) {
                sim.tick();
                if choices.below(6) == 0 {
                    sim.misfortune(&mut choices);
                }
                sim.pass(None);
            }
            sim.mark_for_deletion();
            // An unavailable JobManager is waited for, for five minutes.
            for _ in 0..400 {
                sim.tick();
                let crash_at = choices.crash(4, 4);
                sim.pass(crash_at);
            }
            let is_left = sim.job_manager.is_some() || sim.workers.is_some();
            assert!(sim.is_gone() && !is_left, "{}: left behind", Law::SessionClusterDeletion);
        });
    }
}

/// It looks at its cluster before it asks the JobManager, and the cluster looks at its jobs before it ends that.
#[test]
fn a_stop_that_has_just_begun_goes_before_the_replacement_of_its_cluster() {
    let mut started = Session::new("native");
    started.settle();
    started.jobs = vec![JobStatusState::Running];
    started.referring = vec!["orders".to_owned()];
    started.edit(|r| r.spec.image = Some("flink:mended".to_owned()));
    for (pass, step) in (0..4).flat_map(|pass| (0..8).map(move |step| (pass, step))) {
        show_on_failure(pass * 10 + step, &mut started.clone(), |sim| {
            for now in 0..30 {
                sim.tick();
                sim.interrupted_pass(|sim, at, _| {
                    if (now, at as u64) == (pass, step) {
                        sim.begin_stop(0);
                        sim.go_on_stopping();
                    }
                    Next::GoOn
                });
            }
            assert_eq!((sim.made, sim.message().as_str()), (2, ""));
            assert!(sim.stopping.is_empty(), "it was stopped, before or after");
        });
    }
}
