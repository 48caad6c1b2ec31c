//! Bugs that the Java operator had with session jobs; `docs/upstream-bugs.md` describes each.

use super::*;
use state::restore_point::RestorePoint;

#[test]
fn flink_38290_a_session_job_that_has_ended_stays_so_without_its_job_in_the_list() {
    for state in [JobStatusState::Finished, JobStatusState::Failed] {
        let mut case = Case::running("savepoint");
        case.checkpoints = Some(at("s3://lake/chk/1"));
        case.list(state);
        case.pass();
        let ended = case.status.clone();
        case.jobs = Some(vec![]);
        let plan = case.pass();
        assert_eq!((case.state(), reasons(&plan)), (Some(state), vec![]), "{}", plan.because);
        assert_eq!(case.status.error, ended.error);
    }
}

#[test]
fn flink_40055_a_list_reaches_a_session_job_of_flink_1_as_its_own() {
    const OPERATORS: &str = "pipeline.cached-files";
    const OWN: &str = "pipeline.classpaths";
    let mut case = case("stateless");
    let yaml = "pipeline:\n  cached-files: [org.a, org.b]\n";
    case.operator = OperatorConfig::new(config::file::parse_config_yaml(yaml).unwrap());
    let own = json!(["file:/a", "file:/b"]);
    case.resource.spec.flink_configuration.0.insert(OWN.to_owned(), own);
    let plan = case.pass();
    let configuration = &submitted(&plan).configuration;
    let of = |key: &str| configuration.get(key).map(String::as_str);
    assert_eq!((of(OPERATORS), of(OWN)), (Some("org.a;org.b"), Some("file:/a;file:/b")));
}

/// The job ended with a checkpoint in the memory of its JobManager, which cannot be restored.
#[test]
fn flink_40162_an_end_without_state_to_start_from_is_seen_and_nothing_is_made_up() {
    for state in [JobStatusState::Finished, JobStatusState::Failed] {
        let mut case = Case::running("last-state");
        let unusable = Some("the last checkpoint lives in the JobManager's memory".to_owned());
        case.checkpoints = Some(Checkpoints { unusable, ..Checkpoints::default() });
        case.list(state);
        case.pass();
        assert_eq!((case.state(), case.path()), (Some(state), Some(LAST_STATE_PATH)));
        case.edit(|spec| spec.restart_nonce = Some(1));
        let plan = case.pass();
        assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
        let error = case.status.error.clone().unwrap();
        assert!(error.contains("spec.job.savepointRedeployNonce"), "{error}");
    }
}

#[test]
fn flink_40164_a_job_that_vanishes_while_it_is_suspended_by_cancel_is_no_upgrade_for_ever() {
    let suspended = |mode: &str| {
        let mut case = Case::running(mode);
        case.checkpoints = Some(at("s3://lake/chk/1"));
        case.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Suspended);
        assert!(names(&case.pass()).contains(&"cancel-job"));
        case.jobs = Some(vec![]);
        case.pass();
        case
    };
    let mut case = suspended("stateless");
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Suspended));
    let before = case.status.clone();
    case.pass();
    assert_eq!(case.status, before, "at rest");

    // With state it is reported, and a checkpoint from before the cancellation is not taken for the newest.
    let mut case = suspended("last-state");
    let told = case.status.error.clone().unwrap();
    assert!(told.starts_with(JOB_NOT_FOUND), "{told}");
    assert_eq!(case.reconciliation(), ReconciliationState::Deployed);
    case.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Running);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    assert!(plan.because.contains("its newest state is not on record"), "{}", plan.because);
    case.edit(|spec| {
        let job = spec.job.as_mut().unwrap();
        job.initial_savepoint_path = Some("s3://wanted".to_owned());
        job.savepoint_redeploy_nonce = Some(1);
    });
    // If it comes back, it must not run in addition to the next one.
    assert!(names(&case.pass()).contains(&"cancel-job"));
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://wanted"));
}

#[test]
fn flink_40374_a_suspended_session_job_is_redeployed_from_a_named_savepoint() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Suspended);
    case.pass();
    case.stop = Stop::Completed { path: "s3://lake/sp/1".to_owned() };
    case.list(JobStatusState::Finished);
    case.pass();
    assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Suspended));
    case.jobs = Some(vec![]);
    case.edit(|spec| {
        let job = spec.job.as_mut().unwrap();
        job.state = JobState::Running;
        job.initial_savepoint_path = Some("s3://wanted".to_owned());
        job.savepoint_redeploy_nonce = Some(1);
    });
    let plan = case.pass();
    assert!(!names(&plan).contains(&"cancel-job"), "{}", plan.because);
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://wanted"));
    let left = plan.steps.iter().find_map(|step| {
        let Step::RecordRevision(superseded) = step else { return None };
        Some(superseded.restore_point.clone())
    });
    assert_eq!(left, Some(RestorePoint::Path("s3://lake/sp/1".to_owned())));
}
