//! Deletion of a job, and what delays it.

use super::*;

#[test]
fn s10_deletion_cancels_the_job_and_waits_for_its_end() {
    let mut case = Case::running("savepoint");
    case.delete();
    let plan = case.pass();
    assert_eq!(names(&plan), ["write-status", "write-status", "cancel-job"]);
    assert_eq!(reasons(&plan)[0], "Cleanup");
    assert_eq!(case.state(), Some(JobStatusState::Cancelling));
    case.list(JobStatusState::Cancelling);
    let plan = case.pass();
    assert_eq!(names(&plan), [""; 0]);
    case.jobs = None;
    let plan = case.pass();
    assert_eq!(names(&plan), ["remember"], "silence is not the end of a job");
    case.jobs = Some(vec![]);
    assert_eq!(names(&case.pass()), ["remember", "remove-finalizer"]);
}

#[test]
fn s11_a_deleted_cluster_takes_its_jobs_along_only_when_asked_to() {
    for (blocks, expected) in [("false", "remove-finalizer"), ("true", "cancel-job")] {
        let mut case = Case::running("savepoint");
        case.set_in_cluster("kubernetes.operator.session.deletion.block-on-session-jobs", blocks);
        let status = case.cluster.as_mut().unwrap().status.as_mut().unwrap();
        status.lifecycle_state = Some(LifecycleState::Deleting);
        case.delete();
        let plan = case.pass();
        assert_eq!(names(&plan).last(), Some(&expected));
    }
}

#[test]
fn s12_deletion_without_a_cluster_that_answers() {
    let mut case = Case::running("savepoint");
    case.delete();
    case.cluster_is(JobManagerDeploymentStatus::Missing);
    assert_eq!(
        names(&case.plan()),
        ["write-status", "remember"],
        "its upgrade says so before its removal"
    );
    case.cluster_stands(ReconciliationState::Deployed);
    for status in [JobManagerDeploymentStatus::Deploying, JobManagerDeploymentStatus::Error] {
        case.cluster_is(status);
        assert_eq!(names(&case.plan()), ["write-status", "remember"], "it may run all the same");
    }
    case.cluster_is(JobManagerDeploymentStatus::Missing);
    assert_eq!(names(&case.plan()).last(), Some(&"remove-finalizer"));
    case.set_in_cluster("high-availability.type", "kubernetes");
    let plan = case.plan();
    assert_eq!(names(&plan), ["write-status"]);
    assert_eq!(plan.look_again, Some(Duration::from_secs(10)));
    assert!(plan.because.contains("block-on-session-jobs"), "{}", plan.because);
    case.status.job_status.state = Some(JobStatusState::Cancelling);
    assert_eq!(names(&case.plan()), ["write-status"]);
    case.cluster = None;
    assert_eq!(names(&case.plan()).last(), Some(&"remove-finalizer"));
}

#[test]
fn s13_an_ended_job_needs_no_cluster_to_be_deleted() {
    let mut case = Case::running("savepoint");
    case.list(JobStatusState::Finished);
    case.pass();
    case.cluster = None;
    case.delete();
    assert_eq!(names(&case.pass()).last(), Some(&"remove-finalizer"));
}

#[test]
fn a_job_that_was_never_deployed_is_deleted_at_once() {
    let mut case = case("savepoint");
    case.delete();
    assert_eq!(names(&case.pass()).last(), Some(&"remove-finalizer"));
}

#[test]
fn a_submission_that_may_still_arrive_is_awaited_before_deletion() {
    let mut case = case("savepoint");
    case.fail_to_submit("the answer was lost");
    case.list(JobStatusState::Created);
    case.delete();
    assert!(names(&case.pass()).contains(&"cancel-job"));
}

#[test]
fn a_job_that_runs_is_ended_whatever_is_wrong_with_its_record() {
    let check = |what: &str, arrange: &dyn Fn(&mut Case)| {
        let mut case = Case::running("savepoint");
        arrange(&mut case);
        case.delete();
        for _ in 0..4 {
            let plan = case.pass();
            assert!(!names(&plan).contains(&"remove-finalizer"), "{what}: {}", plan.because);
            if names(&plan).contains(&"cancel-job") {
                case.list(JobStatusState::Canceled);
                assert_eq!(names(&case.pass()).last(), Some(&"remove-finalizer"), "{what}");
                return;
            }
        }
        panic!("{what}: it is never cancelled");
    };
    check("the stored spec cannot be read", &|case| {
        case.status.reconciliation_status.last_reconciled_spec = Some("{".to_owned());
    });
    check("it was lost once", &|case| case.status.error = Some(JOB_NOT_FOUND.to_owned()));
    check("it had failed once", &|case| {
        case.status.job_status.state = Some(JobStatusState::Failed);
    });
}

#[test]
fn a_record_that_cannot_be_read_lets_a_resource_go_whose_job_is_not_there() {
    let mut case = Case::running("savepoint");
    case.status.reconciliation_status.last_reconciled_spec = Some("{".to_owned());
    case.jobs = Some(vec![]);
    case.delete();
    assert_eq!(names(&case.pass()).last(), Some(&"remove-finalizer"));
}

#[test]
fn q08_a_failing_savepoint_blocks_deletion_with_a_way_out() {
    let mut case = Case::running("savepoint");
    case.set("kubernetes.operator.job.savepoint-on-deletion", "true");
    case.delete();
    let plan = case.pass();
    assert_eq!(names(&plan).last(), Some(&"stop-with-savepoint"));
    case.stop = Stop::Failed { message: "disk full".to_owned() };
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["SavepointError"]);
    assert!(case.status.error.as_ref().unwrap().contains("savepoint-on-deletion: false"));
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Deleting));
    case.set("kubernetes.operator.job.savepoint-on-deletion", "false");
    assert_eq!(names(&case.pass()).last(), Some(&"cancel-job"));
}

#[test]
fn q08_a_session_job_that_went_on_is_saved_again_before_its_deletion() {
    let mut case = Case::running("savepoint");
    case.set("kubernetes.operator.job.savepoint-on-deletion", "true");
    case.delete();
    case.pass();
    let (path, message) = ("s3://lake/sp/0".to_owned(), "the sink is gone".to_owned());
    case.stop = Stop::SavedNotStopped { path, message };
    let plan = case.pass();
    assert_eq!(names(&plan), [""; 0]);
    assert!(case.status.error.as_ref().unwrap().contains("s3://lake/sp/0"));
    let plan = case.pass();
    assert_eq!((names(&plan).len(), reasons(&plan).len()), (0, 0));
    assert!(plan.blocker.is_some_and(|blocker| blocker.remedy.is_some()));
    case.now += jiff::SignedDuration::from_secs(9);
    assert_eq!(names(&case.pass()).last(), Some(&"stop-with-savepoint"));

    // A job that failed permanently is deleted, and its savepoint is on record.
    case.list(JobStatusState::Failed);
    case.checkpoints = Some(at("s3://lake/sp/0"));
    let plan = case.pass();
    assert_eq!(names(&plan), ["create-snapshot", "write-status", "remove-finalizer"]);
}

#[test]
fn a_savepoint_before_deletion_is_stored_on_record() {
    let mut case = Case::running("savepoint");
    case.set("kubernetes.operator.job.savepoint-on-deletion", "true");
    case.delete();
    case.pass();
    case.stop = Stop::Completed { path: "s3://lake/sp/last".to_owned() };
    case.list(JobStatusState::Finished);
    let plan = case.pass();
    assert_eq!(names(&plan), ["create-snapshot", "write-status", "remove-finalizer"]);
}

#[test]
fn q11_only_a_deletion_drains_the_job() {
    let drains = |plan: &Plan| {
        plan.steps.iter().find_map(|step| {
            let Step::TriggerStop { drain, .. } = step else { return None };
            Some(*drain)
        })
    };
    let mut case = Case::running("savepoint");
    case.set("kubernetes.operator.job.savepoint-on-deletion", "true");
    case.set("kubernetes.operator.job.drain-on-savepoint-deletion", "true");
    case.edit(|spec| spec.restart_nonce = Some(1));
    assert_eq!(drains(&case.plan()), Some(false));
    case.delete();
    assert_eq!(drains(&case.plan()), Some(true));
}

fn age(case: &mut Case, seconds: i64) {
    case.now += jiff::SignedDuration::from_secs(seconds);
}

fn blocker(plan: &Plan) -> Option<crate::blocker::Reason> {
    plan.blocker.as_ref().map(|blocker| blocker.reason)
}

#[test]
fn a_cancel_for_an_upgrade_that_never_arrived_spares_no_savepoint() {
    for (mode, is_saved) in [("last-state", true), ("stateless", false)] {
        let mut case = Case::running(mode);
        case.set("kubernetes.operator.job.savepoint-on-deletion", "true");
        case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(5));
        assert_eq!(names(&case.pass()).last(), Some(&"cancel-job"));
        case.list(JobStatusState::Running);
        case.delete();
        let plan = case.pass();
        assert_eq!(names(&plan).contains(&"stop-with-savepoint"), is_saved, "{mode}");
    }
}

/// The savepoint was for an upgrade, and the job does not come back to take it.
#[test]
fn a_savepoint_that_nobody_wants_any_more_does_not_keep_a_session_job() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(5));
    assert!(names(&case.pass()).contains(&"stop-with-savepoint"));
    case.stop = Stop::NotFound;
    case.list(JobStatusState::Created);
    case.delete();
    for _ in 0..3 {
        assert!(!names(&case.pass()).contains(&"cancel-job"), "it may be taken yet");
    }
    case.now += jiff::SignedDuration::from_hours(1);
    let plan = case.pass();
    assert!(names(&plan).contains(&"cancel-job"), "{}", plan.because);
}

#[test]
fn a_cluster_that_goes_and_does_not_answer_takes_its_jobs_along() {
    use crate::blocker::Reason;
    for (savepoint, silent, goes) in [
        ("false", true, true),
        ("false", false, true),
        ("true", true, false),
        ("true", false, false),
    ] {
        let mut case = Case::running("savepoint");
        case.set("kubernetes.operator.job.savepoint-on-deletion", savepoint);
        case.set_in_cluster("high-availability.type", "kubernetes");
        case.delete();
        case.cluster.as_mut().unwrap().metadata.deletion_timestamp =
            case.resource.metadata.deletion_timestamp.clone();
        if silent {
            case.jobs = None;
        } else {
            case.cluster_is(JobManagerDeploymentStatus::Missing);
        }
        let plan = case.pass();
        assert_eq!(blocker(&plan), Some(Reason::SessionCluster));
        assert_eq!(plan.blocker.unwrap().deadline.is_some(), goes);
        age(&mut case, 301);
        let plan = case.pass();
        assert_eq!(names(&plan).contains(&"remove-finalizer"), goes, "{}", plan.because);
        let is_reported = case.status.error.as_deref().is_some_and(|e| e.contains("CleanupFailed"));
        assert_eq!(is_reported, !goes, "{:?}", case.status.error);
    }
}

#[test]
fn a_cluster_that_stays_away_is_reported_and_waited_for() {
    let mut case = Case::running("savepoint");
    case.set_in_cluster("high-availability.type", "kubernetes");
    case.delete();
    case.jobs = None;
    case.pass();
    assert_eq!(case.status.error, None);
    age(&mut case, 301);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"remove-finalizer"), "its high availability brings it back");
    assert!(case.status.error.as_ref().unwrap().contains("block-on-session-jobs"));
}

#[test]
fn a_silent_job_manager_without_high_availability_is_asked_for_a_while() {
    let mut case = Case::running("savepoint");
    case.cluster_is(JobManagerDeploymentStatus::DeployedNotReady);
    case.delete();
    assert!(!names(&case.pass()).contains(&"remove-finalizer"), "the job may run");
    age(&mut case, 301);
    assert!(names(&case.pass()).contains(&"remove-finalizer"));
}

/// It was up all the time, but not at the moment when it is asked.
#[test]
fn a_cluster_is_asked_for_a_while_also_long_after_the_deletion() {
    let mut case = Case::running("savepoint");
    case.cluster_is(JobManagerDeploymentStatus::DeployedNotReady);
    case.delete();
    age(&mut case, 3600);
    assert!(!names(&case.pass()).contains(&"remove-finalizer"), "nobody asked it before");
    age(&mut case, 200);
    case.tried = Tried::default();
    assert!(!names(&case.pass()).contains(&"remove-finalizer"), "nor did the new process");
    age(&mut case, 200);
    case.cluster_is(JobManagerDeploymentStatus::Ready);
    assert_eq!(names(&case.pass()).last(), Some(&"cancel-job"));
}

#[test]
fn a_job_that_does_not_end_is_reported() {
    let mut case = Case::running("savepoint");
    case.delete();
    case.pass();
    case.list(JobStatusState::Cancelling);
    age(&mut case, 301);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"remove-finalizer"));
    assert!(case.status.error.as_ref().unwrap().contains("TaskManager"));
}

#[test]
fn deleting_waits_for_no_validator() {
    let mut case = Case::running("savepoint");
    case.validators.has_any = true;
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(9));
    case.delete();
    case.pass();
    assert!(!case.asked.contains(&Question::Verdict), "{:?}", case.asked);
}

/// The cluster's JobManager is gone, and this is on record of its start.
fn lost_with(record: Option<&str>) -> Case {
    let mut case = Case::running("savepoint");
    case.delete();
    case.cluster_is(JobManagerDeploymentStatus::Missing);
    case.cluster_stands(ReconciliationState::Deployed);
    let info = &mut case.cluster.as_mut().unwrap().status.as_mut().unwrap().cluster_info;
    info.remove(STARTED_WITH.key);
    info.extend(record.map(|record| (STARTED_WITH.key.to_owned(), record.to_owned())));
    case
}

#[test]
fn s12_a_job_is_retained_by_the_high_availability_that_its_cluster_was_started_with() {
    const WITH: &str = r#"{"high-availability.type":"kubernetes"}"#;
    let described = |mut case: Case| {
        let plan = case.plan();
        assert_eq!(names(&plan), ["write-status"], "{}", plan.because);
        plan.because
    };
    assert_eq!(names(&lost_with(Some("{}")).plan()).last(), Some(&"remove-finalizer"));
    // By the operator's current defaults it has none.
    assert!(described(lost_with(Some(WITH))).contains("its high availability brings back"));
    assert!(
        described(lost_with(None))
            .contains("could not determine whether the cluster has high availability")
    );
    // The job's own options say nothing about its cluster.
    let mut case = lost_with(Some(WITH));
    case.set("high-availability.type", "NONE");
    described(case);
    let mut case = lost_with(Some("{}"));
    case.set("high-availability.type", "kubernetes");
    let text = serde_json::json!({"spec": case.resource.spec}).to_string();
    case.status.reconciliation_status.last_reconciled_spec = Some(text);
    assert_eq!(names(&case.plan()).last(), Some(&"remove-finalizer"));
    // Nor does a record that cannot be parsed.
    let mut case = lost_with(Some(WITH));
    case.status.reconciliation_status.last_reconciled_spec = Some("{".to_owned());
    described(case);
    let mut case = lost_with(Some(WITH));
    let status = case.cluster.as_mut().unwrap().status.as_mut().unwrap();
    status.reconciliation_status.last_reconciled_spec = Some("{".to_owned());
    described(case);
    // For a silent one, the configuration of its pods is used.
    let mut case = lost_with(Some(WITH));
    case.cluster_is(JobManagerDeploymentStatus::DeployedNotReady);
    case.deployed_config = Fact::Known(FlinkConfig::new());
    assert_eq!(names(&case.plan()), ["write-status", "remember"], "it is waited for a while");
}

#[test]
fn a_deletion_that_cannot_end_the_job_says_what_it_leaves_behind() {
    let left = |arrange: &dyn Fn(&mut Case)| {
        let mut case = Case::running("savepoint");
        case.delete();
        case.status.job_status.upgrade_savepoint_path = Some("s3://lake/sp/1".to_owned());
        arrange(&mut case);
        let mut plan = case.pass();
        if !names(&plan).contains(&"remove-finalizer") {
            age(&mut case, 301);
            plan = case.pass();
        }
        assert_eq!(names(&plan).last(), Some(&"remove-finalizer"), "{}", plan.because);
        events(&plan).into_iter().find(|(reason, _)| *reason == "CleanupFailed").unwrap().1
    };
    let goes = |case: &mut Case| {
        case.set_in_cluster("high-availability.type", "kubernetes");
        case.cluster.as_mut().unwrap().metadata.deletion_timestamp =
            case.resource.metadata.deletion_timestamp.clone();
    };
    let silent = |case: &mut Case| {
        goes(case);
        case.jobs = None;
    };
    let unneeded = |case: &mut Case| {
        goes(case);
        case.set_in_cluster("kubernetes.operator.session.deletion.block-on-session-jobs", "false");
    };
    let gone = |case: &mut Case| case.cluster = None;
    for (arrange, state) in [
        (&gone as &dyn Fn(&mut Case), "does not exist"),
        (&silent, "did not answer in time"),
        (&unneeded, "is being deleted"),
    ] {
        let message = left(arrange);
        assert!(message.contains(&format!("`cluster` {state}")), "{message}");
        assert!(message.contains("ConfigMaps `cluster-*-config-map`"), "{message}");
        assert!(message.contains(FIRST_ID) && message.contains("s3://lake/sp/1"), "{message}");
    }
    let message = left(&|case| {
        case.cluster_stands(ReconciliationState::Deployed);
        case.cluster_is(JobManagerDeploymentStatus::Missing);
    });
    assert!(message.contains("`cluster` does not run and keeps no jobs"), "{message}");
    assert!(!message.contains("HA metadata"), "{message}");
}

#[test]
fn a_deletion_that_leaves_no_job_behind_says_nothing_of_one() {
    for arrange in [
        |case: &mut Case| case.list(JobStatusState::Finished),
        |case: &mut Case| case.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Suspended),
    ] {
        let mut case = Case::running("stateless");
        arrange(&mut case);
        case.pass();
        if case.state() != Some(JobStatusState::Finished) {
            case.list(JobStatusState::Canceled);
            case.pass();
        }
        case.cluster = None;
        case.delete();
        let plan = case.pass();
        assert_eq!(names(&plan).last(), Some(&"remove-finalizer"), "{}", plan.because);
        assert!(!reasons(&plan).contains(&"CleanupFailed"), "{:?}", events(&plan));
    }
}
