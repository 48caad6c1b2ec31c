//! The laws of deployments in random lives, and after a crash at any step.

use super::*;

#[test]
fn a_new_job_becomes_stable_and_is_then_left_alone() {
    for mode in ["stateless", "savepoint", "last-state"] {
        for mut sim in [Sim::new(mode), Sim::new(mode).standalone()] {
            sim.settle();
            for _ in 0..5 {
                sim.tick();
                let before = sim.status.clone();
                let plan = sim.pass(None);
                assert!(plan.steps.is_empty(), "{mode}: at rest: {:?}", names(&plan.steps));
                assert_eq!(before, sim.status, "{mode}");
            }
        }
    }
}

/// A job keeps running whatever its user requests, while a trial shows that it would not start.
#[test]
fn a_spec_that_does_not_pass_its_trial_stops_nothing() {
    let (mut refused, mut upgraded) = (0, 0);
    for seed in seeds(24) {
        let mut choices = Choices::new(seed);
        let mode = ["savepoint", "last-state", "stateless"][usize::try_from(seed % 3).unwrap()];
        let mut sim = Sim::new(mode);
        sim.sees_broken_images = true;
        if seed % 5 < 2 {
            sim = sim.standalone();
        }
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for round in 0..4 {
                let starts = sim.starts;
                sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
                for _ in 0..5 + choices.below(25) {
                    sim.tick();
                    sim.checkpoint();
                    let crash_at = choices.crash(5, 4);
                    sim.pass(crash_at);
                    let state = sim.job.as_ref().map(|job| job.state);
                    let runs = (Some(JobStatusState::Running), starts);
                    assert_eq!((state, sim.starts), runs, "{}", Law::DeploymentTrial);
                    let error = sim.status.error.as_deref().unwrap_or_default();
                    refused += usize::from(error.contains("would not start"));
                }
                sim.edit(|r| {
                    r.spec.image = Some("flink:1.20".to_owned());
                    if round % 2 == 0 {
                        let options = &mut r.spec.flink_configuration.0;
                        options.insert("a.b".to_owned(), json!(round.to_string()));
                    }
                });
                sim.settle();
                upgraded += sim.starts - starts;
            }
            sim.assert_comes_to_rest();
            assert!(sim.trial.pods.is_empty() && sim.status.error.is_none());
        });
    }
    assert!(refused > 100 && upgraded > 20, "{refused} {upgraded}");
}

#[test]
fn users_faults_and_crashes_lose_no_record() {
    let (started, mut decisions, mut asked) = (std::time::Instant::now(), 0, 0);
    let mut scaled = 0;
    for seed in seeds(32) {
        let mut choices = Choices::new(seed);
        let mode = if seed % 2 == 0 { "savepoint" } else { "last-state" };
        let mut sim =
            if seed % 3 == 0 { Sim::without_high_availability(mode) } else { Sim::new(mode) };
        sim.validators.has_any = seed % 4 == 1;
        sim.is_slow = seed % 7 < 3;
        if seed % 4 < 2 {
            sim.set("kubernetes.operator.deployment.readiness.timeout", "20 s");
        }
        if seed % 5 < 2 {
            sim = sim.standalone();
        }
        if seed % 8 < 5 {
            sim.set("jobmanager.scheduler", "adaptive");
        }
        if seed % 3 < 2 {
            sim.set("kubernetes.operator.job.upgrade.hot.enabled", "true");
        }
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..120 {
                sim.tick();
                if choices.below(4) == 0 {
                    sim.checkpoint();
                }
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
        decisions += sim.decisions;
        asked += sim.asked;
        scaled += sim.scaled;
    }
    assert!(scaled > 0, "nothing is ever scaled in place");
    let seconds = started.elapsed().as_secs().max(1);
    println!("{decisions} passes, {} a minute", decisions * 60 / seconds);
    println!("{asked} times only a person knew which state is the newest");
}

#[test]
fn a_crash_before_any_step_of_an_upgrade_changes_nothing_in_the_end() {
    for mode in ["savepoint", "last-state", "stateless"] {
        let mut hot = Sim::new(mode).standalone();
        hot.set("kubernetes.operator.job.upgrade.hot.enabled", "true");
        for mut sim in [Sim::new(mode), Sim::new(mode).standalone(), hot] {
            sim.settle();
            sim.checkpoint();
            sim.edit(|r| Sim::job_mut(r).parallelism = Some(5));
            let mut undisturbed = sim.clone();
            undisturbed.settle();
            let end = undisturbed.end();
            crashes(12, |crash| {
                let mut steps = 0;
                show_on_failure(crash.seed(), &mut sim.clone(), |sim| {
                    for pass in 0..=crash.pass {
                        sim.tick();
                        steps = sim.pass(crash.in_pass(pass)).steps.len();
                    }
                    sim.settle();
                    assert_eq!(sim.end(), end, "{}", Law::DeploymentCrash);
                });
                steps
            });
        }
    }
}

#[test]
fn a_savepoint_is_stored_in_the_status_where_snapshots_are_no_resources() {
    let mut sim = Sim::new("savepoint");
    sim.has_snapshot_resources = false;
    sim.settle();
    sim.edit(|r| Sim::job_mut(r).parallelism = Some(5));
    sim.settle();
    let info = sim.status.job_status.savepoint_info.unwrap();
    assert_eq!(info.savepoint_history.len(), 1);
    let location = info.last_savepoint.unwrap().location;
    assert_eq!(location, info.savepoint_history[0].location);
    assert!(sim.states.contains_key(&location.unwrap()));
}

#[test]
fn savepoints_come_and_go_and_none_that_is_needed_is_disposed_of() {
    let mut disposed = [0, 0];
    for seed in seeds(32) {
        let mut choices = Choices::new(seed);
        let mut sim = Sim::new(if seed % 3 == 0 { "last-state" } else { "savepoint" });
        sim.has_snapshot_resources = seed % 2 == 0;
        sim.resource.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(sim.now));
        for (key, value) in [
            ("kubernetes.operator.periodic.savepoint.interval", "7 s"),
            ("kubernetes.operator.savepoint.history.max.count", "2"),
            ("kubernetes.operator.savepoint.history.max.age", "40 s"),
            ("kubernetes.operator.savepoint.dispose-on-delete", "true"),
        ] {
            sim.set(key, value);
        }
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..200 {
                sim.tick();
                if choices.below(12) == 0 {
                    sim.misfortune(&mut choices);
                }
                if choices.below(20) == 0 {
                    sim.edit(|r| {
                        let job = Sim::job_mut(r);
                        job.savepoint_trigger_nonce =
                            Some(asked_again(job.savepoint_trigger_nonce));
                    });
                }
                if choices.below(10) == 0 {
                    sim.foreign = oldest(&sim.status.job_status);
                }
                if choices.below(30) == 0 {
                    // Another process, which remembers nothing.
                    sim.periodic = Memory::default();
                }
                let crash_at = choices.crash(6, 7);
                sim.pass(crash_at);
            }
            sim.heal();
            // Periodic savepoints never end.
            sim.edit(|r| {
                let options = &mut r.spec.flink_configuration.0;
                options.shift_remove("kubernetes.operator.periodic.savepoint.interval");
            });
            sim.settle();
            sim.checkpoint();
            // Longer than their maximum age.
            (0..45).for_each(|_| sim.tick());
            sim.assert_comes_to_rest();
        });
        disposed[usize::from(sim.has_snapshot_resources)] += sim.disposed;
    }
    assert!(disposed.iter().all(|count| *count > 0), "something is disposed of: {disposed:?}");
}

#[test]
fn a_deleted_resource_ends_whatever_its_state() {
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mut sim = Sim::new("last-state");
        if seed % 2 == 0 {
            sim = sim.standalone();
        }
        show_on_failure(seed, &mut sim, |sim| {
            for _ in 0..choices.below(30) {
                sim.tick();
                if choices.below(6) == 0 {
                    sim.misfortune(&mut choices);
                }
                sim.pass(None);
            }
            sim.resource.metadata.deletion_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(sim.now));
            for _ in 0..60 {
                sim.tick();
                let crash_at = choices.crash(4, 4);
                sim.pass(crash_at);
            }
            let law = Law::DeploymentDeletion;
            assert!(sim.job_manager.is_none() && sim.workers.is_none(), "{law}: left behind");
            let finalizers = &sim.resource.metadata.finalizers;
            assert!(finalizers.as_ref().is_none_or(Vec::is_empty), "{law}: {finalizers:?}");
        });
    }
}

#[test]
#[ignore = "measures; see docs/testing.md"]
fn passes_of_deployments_in_a_minute() {
    let mut sim = Sim::new("savepoint");
    sim.settle();
    print_pace("deployments", &sim, |sim, choices| {
        sim.tick();
        let is_struck = choices.below(9) == 0;
        if is_struck {
            sim.misfortune(choices);
        }
        let steps = sim.pass(None).steps.len() as u64;
        Deeds { users: u64::from(is_struck), world: 1, passes: 1, steps }
    });
}

#[test]
#[ignore = "measures; see docs/performance.md"]
fn allocations_of_a_pass_at_rest() {
    let mut sim = Sim::new("savepoint");
    sim.settle();
    sim.assert_comes_to_rest();
    sim.tick();
    print_allocations("a deployment", || drop(sim.plan()));
}
