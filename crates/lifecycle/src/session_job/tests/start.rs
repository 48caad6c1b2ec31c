//! A first submission, and one that may have arrived.

use super::*;

#[test]
fn s01_nothing_is_submitted_while_the_cluster_is_not_ready() {
    for state in [
        JobManagerDeploymentStatus::Missing,
        JobManagerDeploymentStatus::Deploying,
        JobManagerDeploymentStatus::DeployedNotReady,
        JobManagerDeploymentStatus::Error,
    ] {
        let mut case = Case::running("savepoint");
        case.cluster_is(state);
        case.edit(|spec| spec.restart_nonce = Some(1));
        let before = case.status.clone();
        let plan = case.pass();
        assert!(names(&plan).iter().all(|name| ["add-finalizer", "set-label"].contains(name)));
        assert_eq!(case.status, before);
        assert_eq!(case.asked, []);
    }
}

#[test]
fn s01_a_missing_cluster_is_reported_and_waited_for() {
    let mut case = case("savepoint");
    let cluster = case.cluster.take();
    let before = case.status.clone();
    let plan = case.pass();
    // The Java operator reports it only by an event.
    let error = case.status.error.clone().unwrap();
    assert!(error.contains("session cluster `cluster` does not exist"), "{error}");
    let lifecycle_state = Some(LifecycleState::Failed);
    let told = SessionJobStatus { error: Some(error), lifecycle_state, ..before };
    assert_eq!(case.status, told);
    assert_eq!(reasons(&plan), ["Missing"]);
    assert!(plan.because.contains("session cluster `cluster` does not exist"), "{}", plan.because);
    assert_eq!(plan.look_again, None);
    let again = case.pass();
    assert_eq!(case.status, told, "nothing is written twice");
    assert_eq!(reasons(&again), [""; 0]);
    case.cluster = cluster;
    case.pass();
    assert_eq!(case.status.error, None, "it goes with its cause");
}

#[test]
fn s02_a_ready_cluster_gets_the_job_and_running_is_stable() {
    let mut case = case("last-state");
    let plan = case.pass();
    assert_eq!(names(&plan), ["add-finalizer", "set-label", "write-status", "submit-job"]);
    assert_eq!(reasons(&plan), ["Submit"]);
    assert_eq!(case.state(), Some(JobStatusState::Reconciling));
    assert_eq!(case.id(), FIRST_ID);
    assert_eq!(case.reconciliation(), ReconciliationState::Deployed);
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Deployed));
    let submission = submitted(&plan);
    assert_eq!(submission.savepoint_path, None);
    assert_eq!(submission.configuration["execution.checkpointing.interval"], "5 min");
    case.list(JobStatusState::Running);
    let plan = case.pass();
    assert_eq!(events(&plan)[0].1, "Job status changed from RECONCILING to RUNNING");
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Stable));
    assert_eq!(case.last().spec.job.unwrap().upgrade_mode.into_str(), "stateless");
}

#[test]
fn a_stable_job_costs_one_question_and_no_write() {
    let mut case = Case::running("savepoint");
    case.resource.metadata.finalizers = Some(vec![SESSION_JOB_FINALIZER.to_owned()]);
    case.resource.metadata.labels = Some([(SESSION_LABEL.to_owned(), "cluster".to_owned())].into());
    let _exceptions_told = case.pass();
    let before = case.status.clone();
    let plan = case.pass();
    assert!(plan.steps.is_empty());
    assert_eq!(case.status, before);
    assert_eq!(plan.look_again, Some(Duration::from_mins(1)));
}

#[test]
fn the_job_id_is_stored_before_anything_is_uploaded() {
    let mut case = case("stateless");
    let plan = case.plan();
    let at = |name| names(&plan).iter().position(|step| *step == name).unwrap();
    assert!(at("write-status") < at("submit-job"));
    let Some(Step::WriteStatus(intent)) =
        plan.steps.iter().find(|step| matches!(step, Step::WriteStatus(_)))
    else {
        panic!("no intent")
    };
    assert_eq!(intent.job_status.job_id.as_deref(), Some(FIRST_ID));
    assert_eq!(intent.job_status.state, Some(JobStatusState::Reconciling));
    assert_eq!(intent.reconciliation_status.state, ReconciliationState::Upgrading);
}

#[test]
fn s03_a_submission_that_fails_is_reported_and_made_again_with_the_same_id() {
    let mut case = case("stateless");
    case.fail_to_submit("no such jar");
    let plan = case.pass();
    assert_eq!(names(&plan), ["add-finalizer", "set-label"]);
    assert_eq!(events(&plan), [("Error", "no such jar".to_owned())]);
    assert_eq!(case.id(), FIRST_ID);
    assert_eq!(case.state(), Some(JobStatusState::Reconciling));
    assert_eq!(case.reconciliation(), ReconciliationState::Upgrading);
    assert!(case.status.error.as_ref().unwrap().contains("no such jar"));
    case.now += jiff::SignedDuration::from_secs(10);
    let plan = case.pass();
    assert_eq!(submitted(&plan).job_id, FIRST_ID);
    assert_eq!(case.status.error, None);
}

#[test]
fn the_status_with_which_flink_refuses_a_job_is_reported() {
    let mut case = case("stateless");
    case.fail_to_submit("refused");
    let error = case.plan().status.error.unwrap();
    assert!(error.contains(r#""httpResponseCode":400"#), "{error}");
}

#[test]
fn submissions_that_keep_failing_are_made_less_and_less_often() {
    let mut case = case("stateless");
    case.fail_to_submit("refused");
    let mut pauses = vec![];
    for _ in 0..14 {
        let pause = case.plan().look_again.unwrap();
        pauses.push(pause.as_secs());
        case.now += jiff::SignedDuration::try_from(pause).unwrap();
        case.fail_to_submit("refused");
    }
    assert_eq!(pauses[..3], [5, 7, 11]);
    assert_eq!(pauses.last(), Some(&300));
}

#[test]
fn a_changed_spec_is_submitted_at_once_after_a_failure() {
    let mut case = case("stateless");
    case.fail_to_submit("no such jar");
    case.edit(|spec| spec.job.as_mut().unwrap().jar_uri = Some("https://repo/k.jar".to_owned()));
    let plan = case.pass();
    assert_eq!(submitted(&plan).jar_uri.as_deref(), Some("https://repo/k.jar"));
}

#[test]
fn nothing_is_submitted_again_before_it_is_known_whether_the_job_runs() {
    let mut case = case("stateless");
    case.fail_to_submit("the answer was lost");
    case.failed_submission = None;
    case.jobs = None;
    let plan = case.pass();
    assert_eq!(names(&plan), ["add-finalizer", "set-label"]);
    assert!(plan.because.contains("cannot be listed"), "{}", plan.because);
}

#[test]
fn s04_two_jobs_of_a_cluster_stay_separate() {
    let mut case = Case::running("savepoint");
    let mine = case.jobs.clone().unwrap().remove(0);
    let other = Job { id: "other".to_owned(), state: JobStatusState::Failed, ..mine.clone() };
    case.jobs = Some(vec![other, mine]);
    case.pass();
    assert_eq!(case.state(), Some(JobStatusState::Running));
}

#[test]
fn s05_a_stateless_job_that_the_cluster_lost_is_submitted_again() {
    let mut case = Case::running("stateless");
    case.jobs = Some(vec![]);
    case.job_manager_start = Fact::Known(case.now);
    let plan = case.pass();
    assert_eq!(reasons(&plan)[0], "Missing");
    assert!(events(&plan)[0].1.starts_with(JOB_NOT_FOUND));
    let plan = if names(&plan).contains(&"submit-job") { plan } else { case.pass() };
    assert_ne!(submitted(&plan).job_id, FIRST_ID, "what ran before has used up its id");
    assert_eq!(submitted(&plan).savepoint_path, None);
}

/// Its JobManager, or any with high availability, would list it if it had not ended.
#[test]
fn s05_a_stateless_job_that_ended_unobserved_is_not_run_again_by_itself() {
    for high_availability in ["NONE", "kubernetes"] {
        let mut case = Case::running("stateless");
        case.set_in_cluster("high-availability.type", high_availability);
        case.resource.metadata.finalizers = Some(vec![SESSION_JOB_FINALIZER.to_owned()]);
        case.resource.metadata.labels =
            Some([(SESSION_LABEL.to_owned(), "cluster".to_owned())].into());
        case.now += jiff::SignedDuration::from_hours(3);
        case.jobs = Some(vec![]);
        let plan = case.pass();
        let told = events(&plan);
        assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
        assert!(told[0].0 == "Missing" && told[0].1.contains("restartNonce"), "{told:?}");
        let error = case.status.error.clone().unwrap();
        assert!(error.contains("ended while nobody looked") && error.contains("restartNonce"));
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Failed));
        let before = case.status.clone();
        // Nor if the JobManager that reported it is gone, nor after another problem.
        case.job_manager_start = Fact::Known(case.now);
        case.cluster_is(JobManagerDeploymentStatus::Missing);
        case.pass();
        case.cluster_is(JobManagerDeploymentStatus::Ready);
        let cluster = case.cluster.take();
        case.pass();
        case.cluster = cluster;
        case.jobs = None;
        case.pass();
        case.jobs = Some(vec![]);
        case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(-1));
        case.pass();
        case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(2));
        case.pass();
        for _ in 0..2 {
            let plan = case.pass();
            assert_eq!(names(&plan), [""; 0], "{}", plan.because);
        }
        assert_eq!(case.status.error, before.error);
        case.edit(|spec| spec.restart_nonce = Some(1));
        case.pass();
        submitted(&case.pass());
        assert_eq!(case.status.error, None);
    }
}

/// It had no high availability when the job was submitted, and lost it with its JobManager.
#[test]
fn s05_a_stateless_job_of_a_cluster_that_was_changed_since_is_submitted_again() {
    let mut case = Case::running("stateless");
    case.set_in_cluster("high-availability.type", "kubernetes");
    case.now += jiff::SignedDuration::from_hours(3);
    let changed = case.now.as_millisecond();
    let cluster = case.cluster.as_mut().unwrap().status.as_mut().unwrap();
    cluster.reconciliation_status.reconciliation_timestamp = changed;
    case.job_manager_start = Fact::Known(case.now);
    case.jobs = Some(vec![]);
    let plan = case.pass();
    let plan = if names(&plan).contains(&"submit-job") { plan } else { case.pass() };
    assert_ne!(submitted(&plan).job_id, FIRST_ID);
}

/// What it should keep from now on says nothing about what it had.
#[test]
fn s05_a_stateless_job_that_ended_unseen_is_run_again_by_an_edit_to_any_mode() {
    let mut case = Case::running("stateless");
    case.now += jiff::SignedDuration::from_hours(3);
    case.jobs = Some(vec![]);
    case.pass();
    assert!(case.status.error.as_ref().unwrap().contains("ended while nobody looked"));
    case.edit(|spec| {
        spec.restart_nonce = Some(1);
        spec.job.as_mut().unwrap().upgrade_mode = UpgradeMode::LastState;
    });
    let plan = case.pass();
    let plan = if names(&plan).contains(&"submit-job") { plan } else { case.pass() };
    assert_eq!(submitted(&plan).savepoint_path, None);
    assert_ne!(submitted(&plan).job_id, FIRST_ID, "the JobManager would know it");
    assert_eq!(case.status.error, None);
}

/// Kubernetes reports the start in whole seconds.
#[test]
fn s05_a_job_manager_that_starts_in_the_second_of_the_submission_is_another_one() {
    let mut case = Case::running("stateless");
    let submitted_at = case.status.reconciliation_status.reconciliation_timestamp;
    let submitted_at = jiff::Timestamp::from_millisecond(submitted_at).unwrap();
    case.status.job_status.start_time = Some(submitted_at.as_millisecond().to_string());
    case.job_manager_start = Fact::Known(submitted_at);
    case.now += jiff::SignedDuration::from_mins(1);
    case.jobs = Some(vec![]);
    let plan = case.pass();
    let plan = if names(&plan).contains(&"submit-job") { plan } else { case.pass() };
    assert_ne!(submitted(&plan).job_id, FIRST_ID);
}

/// The start time on record is that of the previous job.
#[test]
fn s05_a_stateless_job_that_nobody_ever_saw_is_judged_by_its_own_submission() {
    let mut case = Case::running("stateless");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.list(JobStatusState::Canceled);
    let between = case.now;
    case.now += jiff::SignedDuration::from_secs(2);
    submitted(&case.pass());
    case.job_manager_start = Fact::Known(between);
    case.now += jiff::SignedDuration::from_hours(3);
    case.jobs = Some(vec![]);
    assert!(!names(&case.pass()).contains(&"submit-job"));
}

/// A refused submission that is repeated under its id dates from the first attempt.
#[test]
fn s05_a_stateless_job_that_was_submitted_twice_and_ended_unseen_is_not_run_again_by_itself() {
    let mut case = case("stateless");
    case.set_in_cluster("high-availability.type", "kubernetes");
    case.fail_to_submit("refused");
    case.now += jiff::SignedDuration::from_mins(10);
    let changed = case.now.as_millisecond();
    let cluster = case.cluster.as_mut().unwrap().status.as_mut().unwrap();
    cluster.reconciliation_status.reconciliation_timestamp = changed;
    case.job_manager_start = Fact::Known(case.now);
    case.now += jiff::SignedDuration::from_mins(10);
    assert_eq!(submitted(&case.pass()).job_id, FIRST_ID);
    case.now += jiff::SignedDuration::from_hours(3);
    for _ in 0..2 {
        let plan = case.pass();
        assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    }
    assert!(case.status.error.as_ref().unwrap().contains("ended while nobody looked"));
}

#[test]
fn s05_nothing_follows_where_nobody_knows_which_job_manager_answers() {
    let mut case = Case::running("stateless");
    case.jobs = Some(vec![]);
    case.job_manager_start = Fact::Unknown("forbidden".to_owned());
    let before = case.status.clone();
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    assert_eq!(case.status.job_status, before.job_status);
    assert_eq!(case.status.reconciliation_status, before.reconciliation_status);
    assert!(case.status.error.as_ref().unwrap().contains("forbidden"));
}

#[test]
fn s05_a_stateful_job_that_the_cluster_lost_is_never_started_empty() {
    for mode in ["savepoint", "last-state"] {
        let mut case = Case::running(mode);
        case.jobs = Some(vec![]);
        let plan = case.pass();
        assert_eq!(reasons(&plan), ["Missing"]);
        assert_eq!(case.status.error.as_deref(), Some(JOB_NOT_FOUND));
        assert_eq!(case.state(), Some(JobStatusState::Reconciling));
        assert_eq!(case.reconciliation(), ReconciliationState::Deployed);
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Failed));
        for _ in 0..3 {
            case.edit(|spec| spec.restart_nonce = Some(spec.restart_nonce.unwrap_or(0) + 1));
            let plan = case.pass();
            assert!(!names(&plan).contains(&"submit-job"), "{mode}: {}", plan.because);
            assert_eq!(case.status.error.as_deref(), Some(JOB_NOT_FOUND));
        }
        // The solution that the message names.
        case.edit(|spec| {
            let job = spec.job.as_mut().unwrap();
            job.initial_savepoint_path = Some("s3://lake/chk/7".to_owned());
            job.savepoint_redeploy_nonce = Some(1);
        });
        let plan = case.pass();
        assert!(names(&plan).contains(&"cancel-job"), "{:?}", names(&plan));
        let plan = case.pass();
        assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/chk/7"));
        assert_eq!(case.status.error, None);
    }
}

#[test]
fn a_job_that_was_just_submitted_may_not_be_listed_yet() {
    let mut case = case("savepoint");
    case.pass();
    let plan = case.pass();
    assert_eq!(reasons(&plan), [""; 0]);
    case.now += jiff::SignedDuration::from_secs(20);
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["Missing"]);
}

#[test]
fn the_first_start_takes_the_initial_savepoint() {
    let mut case = case("savepoint");
    case.job().initial_savepoint_path = Some("s3://old".to_owned());
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://old"));
    assert_eq!(case.path(), Some("s3://old"));
    assert_eq!(case.last().spec.job.unwrap().upgrade_mode.into_str(), "savepoint");
}

#[test]
fn a_job_that_is_created_suspended_waits() {
    let mut case = case("savepoint");
    case.job().state = JobState::Suspended;
    let plan = case.pass();
    assert_eq!(names(&plan), ["add-finalizer", "set-label"]);
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Created));
}

#[test]
fn an_application_cluster_takes_no_session_job() {
    let mut case = case("stateless");
    case.cluster.as_mut().unwrap().spec.job = Some(api::job::JobSpec::default());
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["ValidationError"]);
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Failed));
}

#[test]
fn s14_a_job_that_was_submitted_before_a_crash_is_adopted() {
    let mut case = case("savepoint");
    case.fail_to_submit("crash");
    case.failed_submission = None;
    case.list(JobStatusState::Running);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"));
    assert_eq!(case.reconciliation(), ReconciliationState::Deployed);
    assert_eq!(case.state(), Some(JobStatusState::Running));
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Stable));
}

#[test]
fn s14_a_first_submission_that_never_arrived_starts_over() {
    let mut case = case("savepoint");
    case.job().initial_savepoint_path = Some("s3://old".to_owned());
    case.fail_to_submit("crash");
    case.failed_submission = None;
    let plan = case.pass();
    assert_eq!(submitted(&plan).job_id, FIRST_ID);
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://old"));
}

#[test]
fn q05_a_crash_with_the_cluster_gone_is_simply_waited_out() {
    let mut case = case("savepoint");
    case.fail_to_submit("crash");
    case.cluster_is(JobManagerDeploymentStatus::Missing);
    let plan = case.pass();
    assert_eq!(case.asked, []);
    assert!(!names(&plan).contains(&"submit-job"));
}

#[test]
fn a_start_that_was_refused_takes_a_state_that_a_person_names() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.stop = Stop::Completed { path: "s3://lake/sp/1".to_owned() };
    case.list(JobStatusState::Finished);
    case.pass();
    // As the Java operator may leave it.
    case.status.job_status.upgrade_savepoint_path = None;
    case.status.job_status.savepoint_info = None;
    case.jobs = Some(vec![]);
    let refused = case.pass();
    assert!(!names(&refused).contains(&"submit-job"), "{}", refused.because);
    assert!(case.status.error.as_ref().unwrap().contains("savepointRedeployNonce"));
    case.edit(|spec| {
        let job = spec.job.as_mut().unwrap();
        job.initial_savepoint_path = Some("s3://lake/sp/named".to_owned());
        job.savepoint_redeploy_nonce = Some(1);
    });
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/sp/named"));
}

#[test]
fn s05_a_default_that_came_later_does_not_keep_the_jobs_of_a_cluster() {
    let lost = |deployed_config: Fact<FlinkConfig>| {
        let mut case = Case::running("stateless");
        case.deployed_config = deployed_config;
        case.operator = OperatorConfig::new(config::file::parse_flink_conf(
            "high-availability.type: kubernetes\n",
        ));
        // Its own options do not, either.
        let key = "high-availability.type".to_owned();
        case.resource.spec.flink_configuration.0.insert(key, json!("kubernetes"));
        let last = ReconciledJob::new(case.resource.spec.clone(), false).to_text();
        case.status.reconciliation_status.last_reconciled_spec = Some(last);
        case.now += jiff::SignedDuration::from_hours(3);
        case.job_manager_start = Fact::Known(case.now);
        case.jobs = Some(vec![]);
        case
    };
    let mut case = lost(Fact::Known(FlinkConfig::new()));
    let plan = case.pass();
    submitted(&if names(&plan).contains(&"submit-job") { plan } else { case.pass() });
    let with = [("high-availability.type", "kubernetes")].into_iter().collect();
    let mut case = lost(Fact::Known(with));
    case.pass();
    assert!(case.status.error.as_ref().unwrap().contains("ended while nobody looked"));
    // If it is unknown, nothing is concluded.
    let mut case = lost(Fact::Unknown("there is no ConfigMap".to_owned()));
    case.cluster.as_mut().unwrap().status.as_mut().unwrap().cluster_info.clear();
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    let error = case.status.error.unwrap();
    assert!(error.contains("was started with high availability"), "{error}");
}
