//! Upgrades, suspending and resuming: where the state comes from.

use super::*;

#[test]
fn s06_last_state_cancels_and_goes_on_from_the_newest_checkpoint() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.restart_nonce = Some(1));
    let plan = case.pass();
    assert_eq!(names(&plan)[2..], ["write-status", "cancel-job"]);
    assert_eq!(reasons(&plan), ["SpecChanged", "Suspended", "JobStatusChanged"]);
    assert_eq!(case.state(), Some(JobStatusState::Cancelling));
    assert_eq!(case.reconciliation(), ReconciliationState::Upgrading);
    let last = case.last();
    assert_eq!(last.job_state(), JobState::Running, "the old spec stays until the job has ended");
    assert_eq!(last.spec.job.unwrap().upgrade_mode.into_str(), "savepoint");
    assert_eq!(last.spec.restart_nonce, None);
    // Another one completes before the end.
    case.checkpoints = Some(at("s3://lake/chk/2"));
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/chk/2"));
    assert_ne!(submitted(&plan).job_id, FIRST_ID);
    assert_eq!(case.last().spec.job.unwrap().upgrade_mode.into_str(), "savepoint");
    assert!(names(&plan).contains(&"record-revision"));
}

#[test]
fn s06_a_suspend_always_ends_suspended_with_its_state() {
    for (mode, expected) in [
        ("last-state", Some("s3://lake/chk/1")),
        ("stateless", None),
        ("savepoint", Some("s3://sp")),
    ] {
        let mut case = Case::running(mode);
        case.checkpoints = Some(at("s3://lake/chk/1"));
        case.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Suspended);
        case.pass();
        case.stop = Stop::Completed { path: "s3://sp".to_owned() };
        let end =
            if mode == "savepoint" { JobStatusState::Finished } else { JobStatusState::Canceled };
        case.list(end);
        case.pass();
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Suspended), "{mode}");
        assert_eq!(case.path(), expected, "{mode}");
        let before = case.status.clone();
        case.pass();
        assert_eq!(case.status, before, "{mode}: at rest");
        case.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Running);
        let plan = case.pass();
        assert_eq!(submitted(&plan).savepoint_path.as_deref(), expected, "{mode}");
    }
}

#[test]
fn q01_resuming_stateless_starts_empty() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Suspended);
    case.pass();
    case.list(JobStatusState::Canceled);
    case.pass();
    case.edit(|spec| {
        let job = spec.job.as_mut().unwrap();
        job.state = JobState::Running;
        job.upgrade_mode = UpgradeMode::Stateless;
    });
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path, None);
}

/// A JobManager does not list a job in the moment in which it ends.
#[test]
fn s07_a_job_that_is_missing_from_one_list_is_not_lost() {
    let cases =
        ["suspended", "restarted", "running"].map(|change| [(change, false), (change, true)]);
    for (change, is_lost) in cases.into_iter().flatten() {
        let mut case = Case::running("last-state");
        case.checkpoints = Some(at("s3://lake/chk/1"));
        match change {
            "suspended" => case.job().state = JobState::Suspended,
            "restarted" => case.edit(|spec| spec.restart_nonce = Some(1)),
            _ => {}
        }
        case.pass();
        case.waits = None;
        case.jobs = Some(vec![]);
        let before = case.status.clone();
        for _ in 0..3 {
            let plan = case.pass();
            assert_eq!(names(&plan)[2..], [""; 0]);
            let because = "the session cluster `cluster` does not list job";
            assert!(plan.because.starts_with(because), "{}", plan.because);
            assert_eq!(case.status, before);
            case.waits = plan.waits;
            case.now += jiff::SignedDuration::from_secs(3);
        }
        if is_lost {
            case.now += jiff::SignedDuration::from_secs(3);
            assert_eq!(reasons(&case.pass()), ["Missing"]);
            continue;
        }
        case.list(JobStatusState::Canceled);
        case.pass();
        assert_eq!(case.status.error, None, "{change}");
        assert_eq!(case.path(), Some("s3://lake/chk/1"), "{change}");
    }
}

#[test]
fn s07_a_job_that_vanishes_while_it_is_cancelled_is_not_guessed_at() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.jobs = Some(vec![]);
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["Missing"]);
    assert_eq!(case.status.error.as_deref(), Some(JOB_NOT_FOUND));
    assert_eq!(case.reconciliation(), ReconciliationState::Deployed);
    let plan = case.pass();
    assert_eq!(reasons(&plan), [""; 0]);
    assert!(!names(&plan).contains(&"submit-job"));
    case.delete();
    let plan = case.pass();
    assert!(names(&plan).contains(&"remove-finalizer"));
}

#[test]
fn s08_a_savepoint_upgrade_goes_on_from_its_savepoint() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.restart_nonce = Some(1));
    let plan = case.pass();
    assert_eq!(names(&plan)[2..], ["write-status", "stop-with-savepoint"]);
    case.stop = Stop::Pending;
    let plan = case.pass();
    assert_eq!(plan.because, "waiting for the savepoint");
    case.stop = Stop::Completed { path: "s3://lake/sp/0".to_owned() };
    case.list(JobStatusState::Finished);
    let plan = case.pass();
    assert_eq!(names(&plan)[2..], ["create-snapshot", "record-revision"]);
    assert_eq!(case.state(), Some(JobStatusState::Finished));
    assert_eq!(case.status.job_status.job_id, None);
    assert_eq!(case.path(), Some("s3://lake/sp/0"));
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/sp/0"));
    assert_eq!(case.last().spec.restart_nonce, Some(1));
}

/// A JobManager that is asked for its jobs while one of them ends may leave it out.
#[test]
fn s08_a_job_that_is_not_listed_while_it_is_stopped_is_not_lost() {
    let completed = Stop::Completed { path: "s3://lake/sp/0".to_owned() };
    for stop in [Stop::Pending, completed.clone()] {
        let mut case = Case::running("savepoint");
        case.edit(|spec| spec.restart_nonce = Some(1));
        case.pass();
        (case.jobs, case.stop) = (Some(vec![]), stop);
        let plan = case.pass();
        assert!(!reasons(&plan).contains(&"Missing"), "{:?}", reasons(&plan));
        assert_eq!(case.status.error, None);
        case.stop = completed.clone();
        let plans = [case.pass(), case.pass()];
        let start = plans.iter().find(|plan| names(plan).contains(&"submit-job"));
        let start = submitted(start.expect("it starts again"));
        assert_eq!(start.savepoint_path.as_deref(), Some("s3://lake/sp/0"));
    }
}

#[test]
fn s08_a_savepoint_that_fails_leaves_the_job_running() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.stop = Stop::Failed { message: "disk full".to_owned() };
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["SavepointError"]);
    assert_eq!(case.state(), Some(JobStatusState::Running));
    assert!(case.status.error.as_ref().unwrap().contains("disk full"));
    assert!(!names(&plan).contains(&"cancel-job"));
}

#[test]
fn s08_a_savepoint_that_fails_is_tried_again_after_growing_pauses() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.stop = Stop::Failed { message: "disk full".to_owned() };
    let (begin, mut stops, mut told) = (case.now, vec![], 0);
    while stops.len() < 8 {
        let (now, plan) = (case.now, case.pass());
        told += reasons(&plan).iter().filter(|reason| **reason == "SavepointError").count();
        if names(&plan).contains(&"stop-with-savepoint") {
            stops.push(now.duration_since(begin).as_secs());
        }
        let is_reported =
            case.status.error.as_ref().is_some_and(|error| error.contains("disk full"));
        assert_eq!(is_reported, told > 0, "the error comes with the first failure, and stays");
        assert!(stops.last().is_none_or(|last| now.duration_since(begin).as_secs() < last + 400));
    }
    assert_eq!(told, 7, "once for each failure");
    // A failure is seen after a second.
    let pauses: Vec<i64> = stops.windows(2).map(|two| two[1] - two[0] - 1).collect();
    assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300]);
    case.pass();
    case.edit(|spec| spec.restart_nonce = Some(2));
    assert!(names(&case.pass()).contains(&"stop-with-savepoint"), "another spec is tried at once");
    case.stop = Stop::Completed { path: "s3://lake/sp/0".to_owned() };
    case.list(JobStatusState::Finished);
    case.pass();
    assert_eq!(case.status.error, None);
}

#[test]
fn s08_a_job_that_went_on_after_its_savepoint_does_not_go_back_to_it() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    let (path, message) = ("s3://lake/sp/0".to_owned(), "the sink is gone".to_owned());
    case.stop = Stop::SavedNotStopped { path, message };
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["SavepointError"]);
    assert_eq!((case.state(), case.path()), (Some(JobStatusState::Running), None));
    assert!(case.status.error.as_ref().unwrap().contains("s3://lake/sp/0"));
    case.now += jiff::SignedDuration::from_secs(10);
    let plan = case.pass();
    assert!(names(&plan).contains(&"stop-with-savepoint"), "{:?}", names(&plan));

    // A job that failed permanently starts from its newest state, which is not that savepoint.
    case.list(JobStatusState::Failed);
    case.checkpoints = Some(at("s3://lake/chk/9"));
    while !names(&case.plan()).contains(&"submit-job") {
        case.pass();
        assert!(case.ids < 9, "{:?}", case.status);
    }
    assert_eq!(submitted(&case.plan()).savepoint_path.as_deref(), Some("s3://lake/chk/9"));
}

#[test]
fn s08_a_stop_that_the_cluster_forgot_is_lost_when_the_job_does_not_run() {
    let mut case = Case::running("savepoint");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.list(JobStatusState::Restarting);
    case.now += jiff::SignedDuration::from_secs(298);
    assert_eq!(case.pass().because, "waiting for the savepoint");
    assert_eq!(case.pass().because, "the stop-with-savepoint was lost");
    assert_eq!(names(&case.pass()).last(), Some(&"cancel-job"));
}

#[test]
fn s08_what_a_job_was_stopped_with_is_not_taken_for_what_it_started_from() {
    let mut case = Case::running("savepoint");
    case.status.job_status.upgrade_savepoint_path = Some("s3://lake/sp/old".to_owned());
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    // Another JobManager, which learned from its HA store that the job has finished.
    case.list(JobStatusState::Finished);
    case.checkpoints = Some(Checkpoints::default());
    for _ in 0..4 {
        assert!(!names(&case.pass()).contains(&"submit-job"));
    }
    assert!(case.status.error.as_ref().unwrap().contains("Manual restore required."));
}

#[test]
fn s08_a_savepoint_that_takes_too_long_gives_way_to_a_named_state() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.stop = Stop::Pending;
    case.now += jiff::SignedDuration::from_mins(11);
    let plan = case.pass();
    assert_eq!((reasons(&plan), names(&plan).len()), (vec!["SavepointError"], 2));
    case.job().savepoint_redeploy_nonce = Some(1);
    case.job().initial_savepoint_path = Some("s3://lake/named".to_owned());
    assert_eq!(names(&case.pass()).last(), Some(&"cancel-job"));
    assert_eq!(case.path(), Some("s3://lake/named"));
}

#[test]
fn s09_a_savepoint_is_only_taken_of_a_running_job() {
    let mut case = Case::running("savepoint");
    case.set("kubernetes.operator.job.upgrade.last-state-fallback.enabled", "false");
    case.list(JobStatusState::Restarting);
    case.edit(|spec| spec.restart_nonce = Some(1));
    let plan = case.pass();
    assert!(names(&plan).iter().all(|name| ["add-finalizer", "set-label"].contains(name)));
    assert!(plan.because.contains("its state cannot be saved yet"), "{}", plan.because);
}

#[test]
fn a_job_that_is_being_made_is_not_cancelled_for_its_state() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.list(JobStatusState::Initializing);
    case.edit(|spec| spec.restart_nonce = Some(1));
    let plan = case.pass();
    assert!(!names(&plan).contains(&"cancel-job"), "{}", plan.because);
}

#[test]
fn statistics_that_lost_what_was_known_are_no_licence_to_start_empty() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    // Its JobManager went away during the cancellation, and the recovered job ended before it was created.
    case.checkpoints = Some(Checkpoints::default());
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    assert_eq!(case.path(), Some(LAST_STATE_PATH));
    assert!(case.status.error.as_ref().unwrap().contains("Manual restore required."));
}

/// The operator ended after the submission, or the spec was never stable. Days passed, and another JobManager lists the
/// job without statistics.
#[test]
fn a_job_that_ran_under_another_job_manager_does_not_go_back_to_what_it_started_from() {
    for is_another in [true, false] {
        for edits in [true, false] {
            let mut case = etcd_restore::saved();
            case.set_in_cluster("high-availability.type", "kubernetes");
            case.set("kubernetes.operator.job.restart.failed", "true");
            case.jobs = Some(vec![]);
            assert_eq!(submitted(&case.pass()).savepoint_path.as_deref(), Some("s3://lake/sp/1"));
            case.now += jiff::SignedDuration::from_hours(72);
            case.list(JobStatusState::Failed);
            case.checkpoints = Some(Checkpoints::default());
            if is_another {
                let start = case.now - jiff::SignedDuration::from_mins(1);
                case.job_manager_start = Fact::Known(start);
            }
            if edits {
                case.edit(|spec| spec.restart_nonce = Some(2));
            }
            let plan = case.pass();
            let is_started = names(&plan).contains(&"submit-job");
            assert_ne!(is_started, is_another, "{edits}: {}", plan.because);
            let path = if is_another { LAST_STATE_PATH } else { "s3://lake/sp/1" };
            assert_eq!(case.path(), Some(path));
            if is_another {
                let error = case.status.error.as_ref().unwrap();
                assert!(error.contains("Manual restore required."), "{error}");
            }
        }
    }
}

#[test]
fn a_job_that_started_empty_and_ran_under_another_job_manager_does_not_start_empty_again() {
    let mut case = case("last-state");
    case.set_in_cluster("high-availability.type", "kubernetes");
    case.set("kubernetes.operator.job.restart.failed", "true");
    case.pass();
    case.now += jiff::SignedDuration::from_hours(72);
    case.list(JobStatusState::Failed);
    case.job_manager_start = Fact::Unknown("forbidden".to_owned());
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"));
    assert!(case.status.error.as_ref().unwrap().contains("forbidden"), "{}", plan.because);
    assert_eq!(case.state(), Some(JobStatusState::Reconciling), "looked at again");
    case.job_manager_start = Fact::Known(case.now);
    for _ in 0..2 {
        let plan = case.pass();
        assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    }
    assert_eq!(case.path(), Some(LAST_STATE_PATH));
}

/// Statistics of the only JobManager that the job ever had are complete.
#[test]
fn a_job_that_never_had_a_checkpoint_starts_empty_again_under_the_same_job_manager() {
    let mut case = case("last-state");
    case.set_in_cluster("high-availability.type", "kubernetes");
    case.set("kubernetes.operator.job.restart.failed", "true");
    case.pass();
    case.list(JobStatusState::Running);
    case.pass();
    case.now += jiff::SignedDuration::from_hours(72);
    case.list(JobStatusState::Failed);
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path, None, "{}", plan.because);
}

/// If a job was scaled in place, the recorded time of its deployment is later than its submission.
#[test]
fn a_job_that_was_scaled_under_another_job_manager_does_not_go_back_to_what_it_started_from() {
    let mut case = Case::running("last-state");
    case.set_in_cluster("high-availability.type", "kubernetes");
    case.set("kubernetes.operator.job.restart.failed", "true");
    case.now += jiff::SignedDuration::from_hours(2);
    case.job_manager_start = Fact::Known(case.now - jiff::SignedDuration::from_hours(1));
    case.status.reconciliation_status.reconciliation_timestamp = case.now.as_millisecond();
    case.status.reconciliation_status.last_stable_spec = None;
    case.now += jiff::SignedDuration::from_hours(1);
    case.list(JobStatusState::Failed);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    assert_eq!(case.path(), Some(LAST_STATE_PATH));
}

#[test]
fn an_end_whose_last_state_cannot_be_read_is_reported() {
    let mut case = Case::running("last-state");
    case.list(JobStatusState::Finished);
    case.checkpoints = None;
    let plan = case.pass();
    assert!(names(&plan).iter().all(|name| ["add-finalizer", "set-label"].contains(name)));
    let error = case.status.error.clone().unwrap();
    assert!(error.contains("its last checkpoint cannot be read yet"), "{error}");
    assert_eq!(case.state(), Some(JobStatusState::Running), "noted with its state, or not at all");
    let before = case.status.clone();
    assert_eq!(reasons(&case.pass()), [""; 0], "once");
    assert_eq!(case.status, before);
    case.checkpoints = Some(at("s3://lake/chk/7"));
    case.pass();
    assert_eq!(
        (case.path(), case.state()),
        (Some("s3://lake/chk/7"), Some(JobStatusState::Finished))
    );
    assert_eq!(case.status.error, None);
}

#[test]
fn a_job_whose_newest_checkpoint_is_of_no_use_is_not_cancelled_for_it() {
    for (directory, step) in [("s3://lake/sp", "stop-with-savepoint"), ("", "")] {
        let mut case = Case::running("last-state");
        case.set_in_cluster("execution.checkpointing.savepoint-dir", directory);
        let unusable = Some("the last checkpoint lives in the JobManager's memory".to_owned());
        case.checkpoints = Some(Checkpoints { unusable, ..Checkpoints::default() });
        case.edit(|spec| spec.restart_nonce = Some(1));
        let plan = case.pass();
        let stops: Vec<&str> = names(&plan)
            .into_iter()
            .filter(|name| ["cancel-job", "stop-with-savepoint"].contains(name))
            .collect();
        assert_eq!(stops.concat(), step, "{}", plan.because);
        let error = case.status.error.clone().unwrap_or_default();
        assert_eq!(error.contains("JobManager's memory"), step.is_empty(), "{error}");
        assert_eq!(error.contains("execution.checkpointing.savepoint-dir"), step.is_empty());
        assert_eq!(case.state(), Some(JobStatusState::Running));
    }
}

#[test]
fn a_job_without_any_checkpoint_starts_empty_again() {
    let mut case = Case::running("last-state");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path, None);
}

#[test]
fn checkpoints_that_are_not_retained_are_not_relied_on() {
    let mut case = case("last-state");
    case.set("execution.checkpointing.externalized-checkpoint-retention", "DELETE_ON_CANCELLATION");
    case.pass();
    case.list(JobStatusState::Running);
    case.pass();
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.restart_nonce = Some(1));
    let plan = case.pass();
    assert!(names(&plan).contains(&"stop-with-savepoint"), "{}", plan.because);
}

#[test]
fn a_job_is_cancelled_only_where_it_says_itself_that_its_checkpoint_stays() {
    for (retention, step) in [
        (Fact::Known(true), "cancel-job"),
        (Fact::Known(false), "stop-with-savepoint"),
        (Fact::Unknown("no answer".to_owned()), ""),
    ] {
        let mut case = Case::running("last-state");
        case.checkpoints = Some(at("s3://lake/chk/1"));
        case.retention = retention.clone();
        case.pass();
        assert!(!case.asked.contains(&Question::Retention), "at rest");
        case.edit(|spec| spec.restart_nonce = Some(1));
        let plan = case.pass();
        let stops: Vec<&str> = names(&plan)
            .into_iter()
            .filter(|name| ["cancel-job", "stop-with-savepoint"].contains(name))
            .collect();
        assert_eq!(stops.concat(), step, "{retention:?}: {}", plan.because);
        let is_unknown = plan.because.contains("when it is cancelled: no answer");
        assert_eq!(is_unknown, step.is_empty(), "{}", plan.because);
    }
}

#[test]
fn a_redeploy_to_a_checkpoint_that_its_own_cancel_deletes_is_refused() {
    for (is_retained, is_cancelled) in [(false, false), (true, true)] {
        let mut case = Case::running("savepoint");
        case.retention = Fact::Known(is_retained);
        let id = case.status.job_status.job_id.clone().unwrap();
        case.edit(|spec| {
            let job = spec.job.as_mut().unwrap();
            job.initial_savepoint_path = Some(format!("s3://lake/chk/{id}/chk-7"));
            job.savepoint_redeploy_nonce = Some(1);
        });
        let plan = case.pass();
        assert_eq!(names(&plan).contains(&"cancel-job"), is_cancelled, "{}", plan.because);
        let is_reported = case
            .status
            .error
            .as_ref()
            .is_some_and(|it| it.contains("the checkpoint would be deleted"));
        assert_ne!(is_reported, is_cancelled);
    }
}

#[test]
fn a_job_that_somebody_cancelled_goes_on_from_its_checkpoint() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/9"));
    case.list(JobStatusState::Canceled);
    let plan = case.pass();
    let plan = if names(&plan).contains(&"submit-job") { plan } else { case.pass() };
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/chk/9"));
}

/// Someone cancelled a job of a first start, which the Java operator stores as suspended without state, together with
/// the path of the state that it left.
#[test]
fn a_job_whose_cancel_the_java_operator_saw_goes_on_from_what_it_left() {
    for state in [ReconciliationState::Deployed, ReconciliationState::Upgrading] {
        let mut case = Case::running("last-state");
        let record = &mut case.status.reconciliation_status;
        record.state = state;
        let mut last = ReconciledJob::parse(record.last_reconciled_spec.as_ref().unwrap()).unwrap();
        let job = last.spec.job.as_mut().unwrap();
        (job.state, job.upgrade_mode) = (JobState::Suspended, UpgradeMode::Stateless);
        last.first_deployment = Some(false);
        record.last_reconciled_spec = Some(last.to_text());
        case.status.job_status.state = Some(JobStatusState::Canceled);
        case.status.job_status.upgrade_savepoint_path = Some("s3://lake/chk/1".to_owned());
        case.list(JobStatusState::Canceled);
        let plan = case.pass();
        assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/chk/1"));
    }
}

/// With the id of the job that has ended, the Java operator would take that one for the new one.
#[test]
fn a_successor_that_cannot_be_submitted_yet_has_no_id_on_record() {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.list(JobStatusState::Failed);
    case.pass();
    case.jobs = None;
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    assert_eq!(case.reconciliation(), ReconciliationState::Upgrading);
    assert_eq!(case.status.job_status.job_id, None);
    assert_eq!(case.path(), Some("s3://lake/chk/1"));
}
