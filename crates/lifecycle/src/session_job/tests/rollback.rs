//! Rollback of a spec that does not become stable.

use super::*;

/// A job whose new spec does not come up in time.
fn failing_upgrade(mode: &str) -> Case {
    let mut case = case(mode);
    case.set("kubernetes.operator.deployment.rollback.enabled", "true");
    case.pass();
    case.list(JobStatusState::Running);
    case.pass();
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(9));
    case.pass();
    case.stop = Stop::Completed { path: "s3://lake/chk/1".to_owned() };
    let end = if mode == "savepoint" { JobStatusState::Finished } else { JobStatusState::Canceled };
    case.list(end);
    case.pass();
    if mode == "savepoint" {
        case.pass();
    }
    case.list(JobStatusState::Restarting);
    case.pass();
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Deployed));
    case.now += jiff::SignedDuration::from_mins(5);
    case
}

#[test]
fn a_spec_that_does_not_become_stable_gives_way_to_the_one_before() {
    for (mode, expected) in [
        ("savepoint", Some("s3://lake/chk/2")),
        ("last-state", Some("s3://lake/chk/2")),
        ("stateless", None),
    ] {
        let mut case = failing_upgrade(mode);
        case.checkpoints = Some(at("s3://lake/chk/2"));
        let plan = case.pass();
        assert!(names(&plan).contains(&"cancel-job"), "{mode}: {}", plan.because);
        assert_eq!(reasons(&plan)[0], "Rollback", "{mode}");
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::RollingBack));
        case.list(JobStatusState::Canceled);
        let plan = case.pass();
        assert_eq!(submitted(&plan).savepoint_path.as_deref(), expected, "{mode}");
        assert_eq!(submitted(&plan).parallelism, Some(2), "{mode}");
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::RolledBack), "{mode}");
        case.list(JobStatusState::Running);
        case.pass();
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::RolledBack), "{mode}");
        assert_eq!(case.last().spec.job.unwrap().parallelism, Some(9), "the failed spec stays");
        let before = case.status.clone();
        let plan = case.pass();
        assert_eq!(case.status, before, "{mode}: at rest: {}", plan.because);
        // Back at the running spec: nothing is restarted.
        case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(2));
        let plan = case.pass();
        assert!(!names(&plan).contains(&"cancel-job"), "{mode}");
        assert_eq!(case.reconciliation(), ReconciliationState::Deployed);
        case.pass();
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Stable), "{mode}");
    }
}

#[test]
fn a_rollback_goes_on_after_a_crash_and_runs_one_job() {
    let mut case = failing_upgrade("last-state");
    case.pass();
    case.list(JobStatusState::Canceled);
    case.fail_to_submit("crash");
    let id = case.id().to_owned();
    case.failed_submission = None;
    let unsubmitted = case.plan();
    assert_eq!(submitted(&unsubmitted).job_id, id);
    assert_eq!(submitted(&unsubmitted).parallelism, Some(2));
    case.list(JobStatusState::Running);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::RolledBack));
}

#[test]
fn a_new_spec_wins_over_a_rollback() {
    let mut case = failing_upgrade("last-state");
    case.pass();
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(5));
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    assert_eq!(submitted(&plan).parallelism, Some(5));
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/chk/1"));
    assert_eq!(case.reconciliation(), ReconciliationState::Deployed);
}

#[test]
fn a_job_that_cannot_be_saved_is_not_rolled_back() {
    let mut case = failing_upgrade("last-state");
    case.list(JobStatusState::Initializing);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"cancel-job"), "{}", plan.because);
    assert_eq!(reasons(&plan).last(), Some(&"RollbackRefused"));
    case.jobs = Some(vec![]);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    assert_eq!(case.status.error.as_deref(), Some(JOB_NOT_FOUND));
}

#[test]
fn a_job_whose_newest_checkpoint_is_of_no_use_is_not_cancelled_for_a_rollback() {
    let mut case = failing_upgrade("last-state");
    let unusable = Some("the last checkpoint was discarded".to_owned());
    case.checkpoints = Some(Checkpoints { unusable, ..Checkpoints::default() });
    let plan = case.pass();
    assert!(!names(&plan).contains(&"cancel-job"), "{}", plan.because);
    assert_eq!(reasons(&plan).last(), Some(&"RollbackRefused"));
}

/// It never becomes stable, whatever it does.
#[test]
fn what_was_rolled_back_to_does_not_go_back_to_what_it_started_from() {
    let mut case = rolled_back("last-state");
    case.set_in_cluster("high-availability.type", "kubernetes");
    case.set("kubernetes.operator.job.restart.failed", "true");
    case.now += jiff::SignedDuration::from_hours(72);
    case.job_manager_start = Fact::Known(case.now);
    case.list(JobStatusState::Failed);
    case.checkpoints = Some(Checkpoints::default());
    for _ in 0..2 {
        let plan = case.pass();
        assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    }
    assert_eq!(case.path(), Some(LAST_STATE_PATH));
}

#[test]
fn a_redeploy_that_comes_during_a_rollback_is_not_forgotten() {
    let mut case = failing_upgrade("last-state");
    case.pass();
    assert_eq!(case.reconciliation(), ReconciliationState::RollingBack);
    case.edit(|spec| {
        let job = spec.job.as_mut().unwrap();
        job.initial_savepoint_path = Some("s3://wanted".to_owned());
        job.savepoint_redeploy_nonce = Some(1);
    });
    case.list(JobStatusState::Canceled);
    assert_eq!(submitted(&case.pass()).savepoint_path.as_deref(), Some("s3://wanted"));
}

/// The spec of the rollback runs.
fn rolled_back(mode: &str) -> Case {
    let mut case = failing_upgrade(mode);
    case.pass();
    case.list(JobStatusState::Canceled);
    case.pass();
    case.list(JobStatusState::Running);
    case.pass();
    assert_eq!(case.reconciliation(), ReconciliationState::RolledBack);
    case
}

fn parallelism(last: &ReconciledJob) -> Option<i32> {
    last.spec.job.as_ref()?.parallelism
}

#[test]
fn a_job_that_is_not_listed_any_more_stays_rolled_back() {
    for mode in ["savepoint", "last-state"] {
        let mut case = rolled_back(mode);
        let stable = case.status.reconciliation_status.last_stable_spec.clone();
        case.jobs = Some(vec![]);
        for _ in 0..2 {
            case.now += jiff::SignedDuration::from_mins(1);
            let plan = case.pass();
            assert!(!names(&plan).contains(&"submit-job"), "{mode}: {}", plan.because);
            assert!(case.status.error.as_ref().unwrap().contains(JOB_NOT_FOUND), "{mode}");
            assert_eq!(case.reconciliation(), ReconciliationState::RolledBack, "{mode}");
        }
        // It is listed at last: the spec that failed must not become the stable one.
        case.list(JobStatusState::Running);
        case.pass();
        assert_eq!(case.reconciliation(), ReconciliationState::RolledBack, "{mode}");
        assert_eq!(case.status.reconciliation_status.last_stable_spec, stable, "{mode}");
    }
}

#[test]
fn a_stateless_job_that_was_rolled_back_to_is_submitted_again_when_it_is_lost() {
    let mut case = rolled_back("stateless");
    let lost = case.id().to_owned();
    case.jobs = Some(vec![]);
    case.job_manager_start = Fact::Known(case.now);
    let plan = case.pass();
    assert_eq!(submitted(&plan).parallelism, Some(2), "what ran, not what failed");
    assert_eq!(submitted(&plan).savepoint_path, None);
    assert_ne!(submitted(&plan).job_id, lost);
    assert_eq!(case.reconciliation(), ReconciliationState::RolledBack);
    assert_eq!(parallelism(&case.last()), Some(9), "the failed spec stays");
}

#[test]
fn a_cancel_of_what_was_rolled_back_to_that_vanishes_leaves_it_on_record() {
    let mut case = rolled_back("last-state");
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(4));
    let plan = case.pass();
    assert!(names(&plan).contains(&"cancel-job"), "{}", plan.because);
    assert_eq!(parallelism(&case.last()), Some(2), "what runs, not what failed");
    // The cancellation was lost with the JobManager, and the job keeps running.
    case.jobs = Some(vec![]);
    case.pass();
    case.list(JobStatusState::Running);
    case.pass();
    let stable = case.status.reconciliation_status.last_stable_spec.as_ref().unwrap();
    assert_eq!(parallelism(&ReconciledJob::parse(stable).unwrap()), Some(2));
}
