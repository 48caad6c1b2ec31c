//! The laws of session jobs in random lives, and after a crash at any step.

use super::*;

#[test]
#[ignore = "measures; see docs/testing.md"]
fn passes_of_session_jobs_in_a_minute() {
    let mut sim = Sim::new("savepoint", false);
    sim.settle();
    print_pace("session jobs", &sim, |sim, choices| {
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
    let mut sim = Sim::new("savepoint", false);
    sim.settle();
    sim.assert_comes_to_rest();
    sim.tick();
    print_allocations("a session job", || drop(sim.plan()));
}

#[test]
fn a_new_session_job_becomes_stable_and_is_then_left_alone() {
    for mode in ["stateless", "savepoint", "last-state"] {
        let mut sim = Sim::new(mode, false);
        sim.settle();
        for _ in 0..5 {
            sim.tick();
            let before = sim.status.clone();
            let plan = sim.pass(None);
            assert!(plan.steps.is_empty(), "{mode}: at rest: {}", plan.because);
            assert_eq!(before, sim.status, "{mode}");
        }
    }
}

#[test]
fn users_faults_and_crashes_lose_no_record_of_a_session_job() {
    let (mut disposed, mut scaled) = ([0, 0], 0);
    for seed in seeds(64) {
        let mut choices = Choices::new(seed);
        let mode = if seed % 2 == 0 { "savepoint" } else { "last-state" };
        let mut sim = Sim::new(mode, seed % 3 == 0);
        sim.has_snapshot_resources = seed % 4 < 2;
        // Undisturbed for long enough that a history becomes long.
        let has_peace = seed % 4 == 3;
        if seed % 3 == 1 || has_peace {
            sim.snapshot_often();
        }
        sim.validators.has_any = seed % 4 == 1;
        sim.is_slow = seed % 7 < 3;
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
                if choices.below(10) == 0 {
                    sim.foreign = oldest(&sim.status.job_status);
                }
                let crash_at = choices.crash(5, 7);
                sim.pass(crash_at);
                if crash_at.is_some() && !has_peace && choices.below(4) == 0 {
                    sim.leave_alone(&mut choices);
                }
            }
            sim.heal();
            sim.settle();
            sim.assert_comes_to_rest();
        });
        disposed[usize::from(sim.has_snapshot_resources)] += sim.disposed;
        scaled += sim.scaled;
    }
    assert!(disposed.iter().all(|count| *count > 0), "nothing is ever disposed of: {disposed:?}");
    assert!(scaled > 0, "nothing is ever scaled in place");
}

/// The operator was away while the store was reset, so only the cluster knows what ran last: whenever the record ends,
/// nothing runs beside it, and its state is not replaced.
#[test]
fn a_store_that_goes_back_unseen_starts_nothing_alongside_what_runs() {
    let (mut refused, mut asked) = (0, 0);
    for seed in seeds(48) {
        let mut choices = Choices::new(seed);
        let mode = ["savepoint", "last-state"][usize::from(seed % 2 == 1)];
        let mut sim = Sim::new(mode, seed % 3 == 0);
        show_on_failure(seed, &mut sim, |sim| {
            let mut records = vec![(sim.resource.clone(), sim.status.clone())];
            for upgrade in 0..3 {
                sim.settle_keeping(&mut records);
                sim.checkpoint();
                sim.edit(|job| job.parallelism = Some(5 + upgrade));
            }
            sim.settle_keeping(&mut records);
            sim.checkpoint();
            let (newest, known) = (sim.mine().unwrap().id.clone(), sim.used.len());
            let back = usize::try_from(choices.below(records.len() as u64)).unwrap();
            (sim.resource, sim.status) = records.swap_remove(back);
            sim.doubt.last();
            (sim.failed_submission, sim.tried) = (None, Tried::default());
            if sim.status.job_status.job_id.as_ref() == Some(&newest) {
                return;
            }
            refused += 1;
            for _ in 0..90 {
                sim.tick();
                let crash_at = choices.crash(5, 4);
                sim.pass(crash_at);
            }
            let law = Law::SessionJobWentBack;
            assert_eq!(sim.used.len(), known, "{law}: something was started");
            let told = sim.status.error.clone().unwrap_or_default();
            assert!(told.contains(&newest), "{law}: not told: {told}");
            if choices.below(2) == 0 {
                sim.end_and_delete(&newest);
                return;
            }
            // Someone stops it, which alone does not restore the record.
            sim.flink_job(&newest).unwrap().state = JobStatusState::Cancelling;
            for _ in 0..90 {
                sim.tick();
                sim.pass(None);
            }
            assert_eq!(sim.used.len(), known, "{law}: its end was taken for an answer");
            asked += 1;
            sim.heal();
            sim.settle();
            sim.assert_comes_to_rest();
        });
    }
    assert!(refused > 9 && asked > 3, "{refused} refused, {asked} answered");
}

#[test]
fn a_crash_before_any_step_changes_nothing_for_a_session_job_in_the_end() {
    for mode in ["savepoint", "last-state", "stateless"] {
        let mut sim = Sim::new(mode, false);
        sim.settle();
        sim.checkpoint();
        sim.edit(|job| job.parallelism = Some(5));
        let mut undisturbed = sim.clone();
        for _ in 0..30 {
            undisturbed.tick();
            undisturbed.pass(None);
        }
        let end = undisturbed.end();
        crashes(8, |crash| {
            let mut steps = 0;
            show_on_failure(crash.seed(), &mut sim.clone(), |sim| {
                for pass in 0..30 {
                    sim.tick();
                    let plan = sim.pass(crash.in_pass(pass));
                    if pass == crash.pass {
                        steps = plan.steps.len();
                    }
                }
                let law = Law::SessionJobCrash;
                assert!(sim.is_settled(), "{law}: {mode}: {:?}", sim.status);
                assert_eq!(sim.end(), end, "{law}");
            });
            steps
        });
    }
}

#[test]
fn a_deleted_session_job_ends_whatever_its_state() {
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mut sim = Sim::new("last-state", seed % 2 == 0);
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
            let law = Law::SessionJobDeletion;
            let finalizers = &sim.resource.metadata.finalizers;
            assert!(finalizers.as_ref().is_none_or(Vec::is_empty), "{law}: {finalizers:?}");
            let runs = sim.jobs.iter().any(|job| !job.state.is_globally_terminal());
            assert!(!runs && sim.late.is_empty(), "{law}: its job still runs, or comes later");
        });
    }
}
