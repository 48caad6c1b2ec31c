//! Rollback and restart by the operator itself, in the simulated world.

use super::*;

impl Sim {
    /// Sets options of the operator in the spec.
    pub(super) fn with(mut self, options: &[(&str, &str)]) -> Self {
        for (key, value) in options {
            let key = format!("kubernetes.operator.{key}");
            self.resource.spec.flink_configuration.0.insert(key, json!(value));
        }
        self
    }

    fn rolling_back(mode: &str) -> Self {
        Self::new(mode).with(&[
            ("deployment.rollback.enabled", "true"),
            ("deployment.readiness.timeout", "30 s"),
            // Longer than a job runs that is about to fail.
            ("deployment.stable.running-for", "8 s"),
        ])
    }

    fn run(&mut self, seconds: usize) {
        for _ in 0..seconds {
            self.tick();
            self.pass(None);
        }
    }

    /// Lets time pass in which the operator sees nothing.
    fn skip(&mut self, seconds: usize) {
        for _ in 0..seconds {
            self.tick();
        }
    }

    fn is_running(&self) -> bool {
        self.is_up() && self.job.as_ref().is_some_and(|job| job.state == JobStatusState::Running)
    }

    #[track_caller]
    fn assert_rolled_back(&self) {
        assert_eq!(
            self.status.lifecycle_state,
            Some(LifecycleState::RolledBack),
            "{:?}",
            self.status.error
        );
        assert!(self.is_running());
        assert!(!self.is_image_broken);
        let error = self.status.error.as_deref().unwrap_or_default();
        assert!(error.contains("is rolled back"), "the status keeps the cause: {error}");
    }
}

/// The ways in which a spec can fail.
type Failing = (&'static str, fn(&mut FlinkDeployment));
const FAILING: [Failing; 2] = [
    ("image", |r| r.spec.image = Some(BROKEN_IMAGE.to_owned())),
    ("job", |r| Sim::job_mut(r).parallelism = Some(FAILING_PARALLELISM)),
];

#[test]
fn a_spec_that_fails_gives_way_to_the_stable_one_with_the_newest_state() {
    for mode in ["savepoint", "last-state", "stateless"] {
        for (name, fail) in FAILING {
            let mut sim = Sim::rolling_back(mode);
            show_on_failure(0, &mut sim, |sim| {
                sim.settle();
                sim.checkpoint();
                let stable = sim.status.reconciliation_status.last_stable_spec.clone();
                sim.edit(fail);
                sim.run(25);
                let state = sim.status.reconciliation_status.state;
                println!("{mode} {name} after 25 s: {state:?}");
                sim.run(45);
                sim.assert_rolled_back();
                assert_eq!(sim.status.reconciliation_status.last_stable_spec, stable);
                let resting = sim.pass(None);
                assert!(resting.steps.is_empty(), "{mode} {name}: {:?}", names(&resting.steps));
            });
        }
    }
}

#[test]
fn going_back_by_hand_to_what_runs_restarts_nothing() {
    for mode in ["savepoint", "last-state"] {
        let mut sim = Sim::rolling_back(mode);
        show_on_failure(0, &mut sim, |sim| {
            sim.settle();
            sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
            sim.run(70);
            sim.assert_rolled_back();
            let starts = sim.starts;
            sim.edit(|r| r.spec.image = Some("flink:1.20".to_owned()));
            sim.settle();
            assert_eq!(sim.starts, starts, "{mode}: what runs is what is wanted");
        });
    }
}

#[test]
fn a_new_spec_during_and_after_a_rollback_wins() {
    for after in (32..70).step_by(3) {
        for mode in ["savepoint", "last-state"] {
            let mut sim = Sim::rolling_back(mode);
            show_on_failure(after, &mut sim, |sim| {
                sim.settle();
                sim.checkpoint();
                sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
                sim.run(12);
                sim.skip(20);
                sim.run(usize::try_from(after - 32).unwrap());
                sim.edit(|r| {
                    r.spec.image = Some("flink:1.20".to_owned());
                    Sim::job_mut(r).parallelism = Some(5);
                });
                sim.settle();
                let last = sim.status.reconciliation_status.last_reconciled_spec.clone().unwrap();
                assert!(last.contains("\"parallelism\":5"), "{last}");
                assert!(sim.is_running());
            });
        }
    }
}

#[test]
fn an_invalid_spec_does_not_stop_a_rollback() {
    let mut sim = Sim::rolling_back("savepoint");
    show_on_failure(0, &mut sim, |sim| {
        sim.settle();
        sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
        sim.run(35);
        sim.edit(|r| Sim::job_mut(r).parallelism = Some(-1));
        sim.run(40);
        assert_eq!(sim.status.lifecycle_state, Some(LifecycleState::RolledBack));
        assert!(sim.status.error.as_deref().unwrap().contains("parallelism"));
        assert!(sim.is_running());
    });
}

#[test]
fn a_job_that_was_rolled_back_can_be_suspended_and_resumed() {
    let mut sim = Sim::rolling_back("last-state");
    show_on_failure(0, &mut sim, |sim| {
        sim.settle();
        sim.checkpoint();
        sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
        sim.run(70);
        sim.assert_rolled_back();
        sim.edit(|r| Sim::job_mut(r).state = JobState::Suspended);
        sim.run(30);
        assert_eq!(sim.status.lifecycle_state, Some(LifecycleState::Suspended));
        // A suspended spec was never seen to work, so nothing is rolled back to it.
        sim.edit(|r| Sim::job_mut(r).state = JobState::Running);
        sim.run(90);
        assert_ne!(sim.status.lifecycle_state, Some(LifecycleState::RolledBack));
        sim.edit(|r| r.spec.image = Some("flink:1.20".to_owned()));
        sim.settle();
    });
}

#[test]
fn a_job_manager_lost_after_a_rollback_comes_back_with_the_stable_spec() {
    let mut sim = Sim::rolling_back("last-state");
    show_on_failure(0, &mut sim, |sim| {
        sim.settle();
        sim.checkpoint();
        sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
        sim.run(70);
        sim.assert_rolled_back();
        sim.lose_deployment();
        sim.run(30);
        assert_eq!(sim.status.lifecycle_state, Some(LifecycleState::RolledBack));
        assert!(sim.is_running() && !sim.is_image_broken);
    });
}

#[test]
fn a_crash_before_any_step_of_a_rollback_changes_nothing_in_the_end() {
    for (mode, (name, fail)) in [("savepoint", FAILING[0]), ("last-state", FAILING[1])] {
        let mut sim = Sim::rolling_back(mode);
        sim.settle();
        sim.checkpoint();
        sim.edit(fail);
        sim.run(20);
        sim.skip(30);
        let mut undisturbed = sim.clone();
        undisturbed.run(25);
        let end = undisturbed.end();
        crashes(8, |crash| {
            let mut steps = 0;
            show_on_failure(crash.seed(), &mut sim.clone(), |sim| {
                for pass in 0..25 {
                    let plan = sim.pass(crash.in_pass(pass));
                    if pass == crash.pass {
                        steps = plan.steps.len();
                    }
                    sim.tick();
                }
                println!("{mode} {name}");
                sim.assert_rolled_back();
                assert_eq!(sim.end(), end);
            });
            steps
        });
    }
}

#[test]
fn a_failed_job_is_started_again_from_its_last_checkpoint() {
    for mode in ["savepoint", "last-state", "stateless"] {
        let mut sim = Sim::new(mode).with(&[("job.restart.failed", "true")]);
        show_on_failure(0, &mut sim, |sim| {
            sim.settle();
            sim.run(5);
            sim.checkpoint();
            sim.fail_job();
            sim.run(15);
            assert!(sim.is_running(), "{mode}");
            assert_eq!(sim.starts, 2, "{mode}");
        });
    }
}

#[test]
fn without_the_option_a_failed_job_stays_as_it_is() {
    let mut sim = Sim::new("last-state");
    sim.settle();
    sim.fail_job();
    sim.run(30);
    assert_eq!(sim.status.lifecycle_state, Some(LifecycleState::Failed));
    assert_eq!(sim.starts, 1);
}

#[test]
fn a_job_that_fails_again_and_again_is_not_restarted_in_a_tight_loop() {
    let mut sim = Sim::new("last-state").with(&[("job.restart.failed", "true")]);
    show_on_failure(0, &mut sim, |sim| {
        sim.settle();
        sim.edit(|r| Sim::job_mut(r).parallelism = Some(FAILING_PARALLELISM));
        for _ in 0..720 {
            sim.skip(4);
            sim.run(1);
        }
        assert!((10..=20).contains(&sim.starts), "{} starts in an hour", sim.starts);
    });
}

#[test]
fn restarts_do_not_put_off_a_rollback() {
    let mut sim = Sim::rolling_back("last-state").with(&[("job.restart.failed", "true")]);
    show_on_failure(0, &mut sim, |sim| {
        sim.settle();
        sim.edit(|r| Sim::job_mut(r).parallelism = Some(FAILING_PARALLELISM));
        sim.run(100);
        sim.assert_rolled_back();
    });
}

#[test]
fn users_faults_and_crashes_lose_no_record_with_rollback_and_restarts() {
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mode = if seed % 2 == 0 { "savepoint" } else { "last-state" };
        let mut sim = Sim::rolling_back(mode).with(&[
            ("job.restart.failed", if seed % 3 == 0 { "true" } else { "false" }),
            ("deployment.stable.running-for", if seed % 5 == 0 { "8 s" } else { "0 s" }),
        ]);
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..200 {
                sim.tick();
                if choices.below(4) == 0 {
                    sim.checkpoint();
                }
                if choices.below(20) == 0 {
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
