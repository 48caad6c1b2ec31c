//! Upgrades that drop the state or restore another, and cancellations that never arrived.

use super::*;
use state::restore_point::RestorePoint;

#[test]
fn a_stateless_upgrade_cancels_and_starts_empty() {
    let mut case = Case::running("stateless");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.restart_nonce = Some(1));
    let plan = case.pass();
    assert!(names(&plan).contains(&"cancel-job"));
    assert_eq!(case.last().job_state(), JobState::Running);
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path, None);
}

#[test]
fn a_cancel_that_never_arrived_is_sent_again() {
    let mut case = Case::running("last-state");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.list(JobStatusState::Running);
    let plan = case.pass();
    assert!(names(&plan).contains(&"cancel-job"));
    case.list(JobStatusState::Cancelling);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"cancel-job"));
    assert_eq!(plan.because, "waiting for the job to be cancelled");
}

/// The recorded state of the job is as old as the request.
#[test]
fn a_cancel_that_never_arrived_is_decided_anew_after_a_while() {
    let mut case = Case::running("last-state");
    case.edit(|spec| spec.restart_nonce = Some(1));
    assert!(names(&case.pass()).contains(&"cancel-job"));
    assert_eq!(case.path(), None);
    case.now += jiff::SignedDuration::from_hours(3);
    case.list(JobStatusState::Initializing);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"cancel-job"), "{}", plan.because);
    case.list(JobStatusState::Running);
    case.checkpoints = Some(at("s3://lake/chk/9"));
    let plan = case.pass();
    assert!(names(&plan).contains(&"cancel-job"), "{}", plan.because);
    assert_eq!(case.path(), Some("s3://lake/chk/9"));
}

#[test]
fn a_user_takes_back_that_the_state_is_dropped_while_the_cancel_never_arrived() {
    let mut case = Case::running("last-state");
    case.edit(|spec| {
        let job = spec.job.as_mut().unwrap();
        job.upgrade_mode = UpgradeMode::Stateless;
        job.parallelism = Some(5);
    });
    assert!(names(&case.pass()).contains(&"cancel-job"));
    case.now += jiff::SignedDuration::from_hours(3);
    case.edit(|spec| spec.job.as_mut().unwrap().upgrade_mode = UpgradeMode::LastState);
    case.list(JobStatusState::Running);
    case.checkpoints = Some(at("s3://lake/chk/9"));
    case.pass();
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/chk/9"));
}

#[test]
fn a_jar_that_cannot_be_had_does_not_stop_the_running_job() {
    for mode in ["stateless", "savepoint", "last-state"] {
        let mut case = Case::running(mode);
        case.jar = Fact::Unknown("404 Not Found".to_owned());
        case.edit(|spec| {
            spec.job.as_mut().unwrap().jar_uri = Some("https://repo/no.jar".to_owned());
        });
        let plan = case.pass();
        assert!(names(&plan).iter().all(|name| ["add-finalizer", "set-label"].contains(name)));
        assert!(case.status.error.as_ref().unwrap().contains("404 Not Found"), "{mode}");
        assert_eq!(case.state(), Some(JobStatusState::Running));
    }
}

#[test]
fn a_restart_is_made_with_the_spec_that_failed_only_when_asked_for() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/3"));
    case.list(JobStatusState::Failed);
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["JobStatusChanged", "Error"]);
    assert_eq!(case.path(), Some("s3://lake/chk/3"));
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Failed));
    case.now += jiff::SignedDuration::from_mins(1);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"));
    case.set("kubernetes.operator.job.restart.failed", "true");
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/chk/3"));
    assert_eq!(case.status.error, None);
}

fn redeploy(case: &mut Case) {
    case.edit(|spec| {
        let job = spec.job.as_mut().unwrap();
        job.initial_savepoint_path = Some("s3://wanted".to_owned());
        job.savepoint_redeploy_nonce = Some(1);
    });
}

#[test]
fn a_redeploy_leaves_the_newest_state_in_the_history_and_not_what_the_job_started_from() {
    let left = |checkpoints: Option<Checkpoints>, is_retained| {
        let mut case = Case::running("savepoint");
        case.status.job_status.upgrade_savepoint_path = Some("s3://lake/sp/began".to_owned());
        case.checkpoints = checkpoints;
        case.retention = Fact::Known(is_retained);
        redeploy(&mut case);
        let plan = case.pass();
        assert!(names(&plan).contains(&"cancel-job"), "{}", plan.because);
        plan.steps.into_iter().find_map(|step| {
            let Step::RecordRevision(superseded) = step else { return None };
            Some(superseded.restore_point)
        })
    };
    let path = |path: &str| Some(RestorePoint::Path(path.to_owned()));
    assert_eq!(left(Some(at("s3://lake/1/chk-9")), true), path("s3://lake/1/chk-9"));
    assert_eq!(left(Some(at("s3://lake/1/chk-9")), false), path("s3://lake/sp/began"));
    assert_eq!(left(None, true), Some(RestorePoint::HaMetadata), "its id leads to it");
}

#[test]
fn a_redeploy_that_comes_during_an_upgrade_is_not_forgotten() {
    for (mode, is_late) in
        [("savepoint", false), ("savepoint", true), ("last-state", false), ("stateless", false)]
    {
        let mut case = Case::running(mode);
        case.checkpoints = Some(at("s3://lake/chk/1"));
        case.edit(|spec| spec.restart_nonce = Some(1));
        case.pass();
        if !is_late {
            redeploy(&mut case);
        }
        case.stop = Stop::Completed { path: "s3://lake/sp/1".to_owned() };
        case.list(JobStatusState::Finished);
        let mut plan = case.plan();
        if !names(&plan).contains(&"submit-job") {
            case.pass();
            if is_late {
                assert_eq!(case.reconciliation(), ReconciliationState::Upgrading);
                redeploy(&mut case);
            }
            plan = case.pass();
        }
        let path = submitted(&plan).savepoint_path.as_deref();
        assert_eq!(path, Some("s3://wanted"), "{mode} {is_late}");
    }
}

#[test]
fn a_redeploy_drops_the_state_and_takes_the_named_savepoint() {
    let mut case = Case::running("stateless");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| {
        let job = spec.job.as_mut().unwrap();
        job.initial_savepoint_path = Some("s3://wanted".to_owned());
        job.savepoint_redeploy_nonce = Some(1);
    });
    let plan = case.pass();
    assert!(names(&plan).contains(&"cancel-job"));
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://wanted"));
}

#[test]
fn a_redeploy_without_a_path_leaves_the_job_and_its_state() {
    for path in [None, Some(" ".to_owned())] {
        let mut case = Case::running("last-state");
        case.checkpoints = Some(at("s3://lake/chk/7"));
        case.edit(|spec| {
            let job = spec.job.as_mut().unwrap();
            (job.savepoint_redeploy_nonce, job.initial_savepoint_path) = (Some(1), path);
        });
        let plan = case.pass();
        assert_eq!(reasons(&plan), ["ValidationError"]);
        assert!(!names(&plan).contains(&"cancel-job"), "{}", plan.because);
        assert_eq!(case.state(), Some(JobStatusState::Running));
    }
}

#[test]
fn a_redeploy_without_a_path_keeps_the_savepoint_that_was_just_taken() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.restart_nonce = Some(1));
    assert!(names(&case.pass()).contains(&"stop-with-savepoint"));
    case.edit(|spec| spec.job.as_mut().unwrap().savepoint_redeploy_nonce = Some(1));
    case.stop = Stop::Completed { path: "s3://lake/sp/1".to_owned() };
    case.list(JobStatusState::Finished);
    case.pass();
    assert_eq!(case.path(), Some("s3://lake/sp/1"));
    case.jobs = Some(vec![]);
    assert_eq!(submitted(&case.pass()).savepoint_path.as_deref(), Some("s3://lake/sp/1"));
}
