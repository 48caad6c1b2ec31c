//! Specs that are not carried out, and how they are recorded.

use super::*;
use api::reconciled::ReconciledSpec;

#[test]
fn an_invalid_edit_does_not_touch_the_running_job() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.deployment_name = Some("another".to_owned()));
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["ValidationError"]);
    assert!(!names(&plan).contains(&"stop-with-savepoint"));
    assert_eq!(case.state(), Some(JobStatusState::Running));
}

#[test]
fn s15_a_resource_cannot_allow_itself_a_scheme() {
    let mut case = case("stateless");
    case.set("kubernetes.operator.user.artifacts.allowed-schemes", "http;https");
    case.job().jar_uri = Some("http://repo/j.jar".to_owned());
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["ValidationError"]);
}

#[test]
fn an_unsupported_version_of_the_cluster_is_reported_once() {
    let mut case = case("stateless");
    case.cluster.as_mut().unwrap().spec.flink_version = None;
    let plan = case.pass();
    assert_eq!(reasons(&plan), ["UnsupportedFlinkVersion"]);
    let told = case.status.clone();
    assert!(told.error.as_ref().unwrap().contains("Flink version null"), "{told:?}");
    let again = case.pass();
    assert_eq!((reasons(&again).len(), &case.status), (0, &told));
}

/// Its user wants another version, which the cluster does not have yet, or will never have.
#[test]
fn a_cluster_runs_the_version_that_is_deployed_and_not_the_one_that_is_wanted() {
    for (wanted, is_known) in [("v1_19", true), ("v1_13", false)] {
        let mut case = case("stateless");
        let cluster = case.cluster.as_mut().unwrap();
        let last = ReconciledSpec { spec: cluster.spec.clone(), first_deployment: None };
        let status = cluster.status.as_mut().unwrap();
        status.reconciliation_status.last_reconciled_spec = Some(last.to_text());
        cluster.spec.flink_version = serde_json::from_value(json!(wanted)).ok();
        assert_eq!(cluster.spec.flink_version.is_some_and(FlinkVersion::is_supported), is_known);
        let plan = case.pass();
        assert_eq!(submitted(&plan).flink_version.into_str(), "v1_20", "{}", plan.because);
    }
}

#[test]
fn a_stored_spec_that_cannot_be_read_stops_everything() {
    let mut case = Case::running("savepoint");
    case.status.reconciliation_status.last_reconciled_spec = Some("{".to_owned());
    let plan = case.pass();
    assert_eq!(names(&plan), [""; 0]);
    assert!(plan.because.contains("not readable"), "{}", plan.because);
}

#[test]
fn the_stored_spec_is_written_as_java_does() {
    let case = Case::running("savepoint");
    let text = case.status.reconciliation_status.last_reconciled_spec.unwrap();
    assert_eq!(
        text,
        concat!(
            r#"{"spec":{"job":{"jarURI":"https://repo/j.jar","parallelism":2,"entryClass":null,"#,
            r#""args":[],"state":"running","savepointTriggerNonce":null,"#,
            r#""initialSavepointPath":null,"checkpointTriggerNonce":null,"#,
            r#""upgradeMode":"stateless","allowNonRestoredState":null,"#,
            r#""savepointRedeployNonce":null,"autoscalerResetNonce":null},"restartNonce":null,"#,
            r#""flinkConfiguration":{},"deploymentName":"cluster"},"resource_metadata":"#,
            r#"{"apiVersion":"flink.apache.org/v1beta1","firstDeployment":true}}"#
        )
    );
}

#[test]
fn an_invalid_edit_does_not_make_a_job_stateless() {
    let mut case = Case::running("last-state");
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(-1));
    case.jobs = Some(vec![]);
    for _ in 0..3 {
        let plan = case.pass();
        assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    }
    assert_eq!(case.last().job_state(), JobState::Running);
}

/// A running job whose checkpoints are retained, and a `stateless` edit that is not accepted.
fn refused_stateless(arrange: fn(&mut Case)) -> Case {
    let mut case = Case::running("last-state");
    case.set("kubernetes.operator.job.restart.failed", "true");
    case.checkpoints = Some(at("s3://lake/chk/7"));
    case.edit(|spec| {
        spec.job.as_mut().unwrap().upgrade_mode = UpgradeMode::Stateless;
    });
    arrange(&mut case);
    case
}

#[test]
fn a_refused_edit_that_says_stateless_drops_no_state() {
    let by_rule: fn(&mut Case) = |case| case.job().parallelism = Some(-1);
    let by_validator: fn(&mut Case) = |case| {
        case.validators.has_any = true;
        let violation = validation::Violation::new("spec.job", "keeps its state");
        case.verdict = opinion(Ok(vec![violation]));
    };
    let by_silence: fn(&mut Case) = |case| {
        case.validators.has_any = true;
        case.verdict = opinion(Err("it answered 503".to_owned()));
    };
    for (at, arrange) in [by_rule, by_validator, by_silence].into_iter().enumerate() {
        let mut lost = refused_stateless(arrange);
        lost.jobs = Some(vec![]);
        lost.job_manager_start = Fact::Known(lost.now);
        for _ in 0..3 {
            let plan = lost.pass();
            assert!(!names(&plan).contains(&"submit-job"), "{at}: {}", plan.because);
        }
        assert_eq!(lost.last().job_state(), JobState::Running, "{at}");
        assert!(lost.status.error.as_ref().unwrap().contains(JOB_NOT_FOUND), "{at}");

        let mut failed = refused_stateless(arrange);
        failed.list(JobStatusState::Failed);
        let plan = failed.pass();
        let path = submitted(&plan).savepoint_path.as_deref();
        assert_eq!(path, Some("s3://lake/chk/7"), "{at}");
    }
}

/// Nothing shows any more that it was stateless, and it has no state to keep.
#[test]
fn a_stateless_job_without_a_checkpoint_is_started_again_alongside_a_refused_edit() {
    let mut case = Case::running("stateless");
    case.set("kubernetes.operator.job.restart.failed", "true");
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(-1));
    case.list(JobStatusState::Failed);
    assert_eq!(submitted(&case.pass()).savepoint_path, None);
}

/// A job lost while an edit is not validated yet is submitted again once it is.
#[test]
fn a_stateless_job_that_was_lost_alongside_a_refused_edit_is_submitted_again_after_it() {
    for fixed in [Some(2), Some(3)] {
        let mut case = Case::running("stateless");
        case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(-1));
        case.jobs = Some(vec![]);
        case.job_manager_start = Fact::Known(case.now);
        for _ in 0..3 {
            assert!(!names(&case.pass()).contains(&"submit-job"));
        }
        case.edit(|spec| spec.job.as_mut().unwrap().parallelism = fixed);
        let mut submissions = 0;
        for _ in 0..3 {
            let plan = case.pass();
            submissions += names(&plan).iter().filter(|name| **name == "submit-job").count();
            if submissions > 0 {
                break;
            }
        }
        assert_eq!((submissions, case.status.error.as_deref()), (1, None), "{fixed:?}");
    }
}

#[test]
fn a_canary_is_let_go() {
    let mut case = Case::running("stateless");
    case.resource.metadata.labels =
        Some([(api::CANARY_LABEL.to_owned(), "true".to_owned())].into_iter().collect());
    case.delete();
    assert_eq!(names(&case.pass()), ["remove-finalizer"]);
}

fn opinion(answer: Result<Vec<validation::Violation>, String>) -> Fact<Verdict> {
    let on_failure = validation::extension::FailurePolicy::Fail;
    let validator = "policy".to_owned();
    Fact::Known(Verdict::Given(vec![Opinion { validator, on_failure, answer }]))
}

#[test]
fn a_validator_outside_is_asked_about_changes_and_never_about_what_runs() {
    let mut case = Case::running("savepoint");
    case.validators.has_any = true;
    case.plan();
    assert!(!case.asked.contains(&Question::Verdict), "{:?}", case.asked);

    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(9));
    let job_id = case.status.job_status.job_id.clone();
    let violation = validation::Violation::new("spec.job.parallelism", "is too much");
    case.verdict = opinion(Ok(vec![violation]));
    let plan = case.pass();
    assert!(case.asked.contains(&Question::Verdict));
    assert!(plan.status.error.as_deref().unwrap().contains("spec.job.parallelism: is too much"));
    assert!(!plan.steps.iter().any(|step| matches!(step, Step::TriggerStop { .. })));
    assert_eq!(case.status.job_status.job_id, job_id);
    assert_eq!(case.status.observed_generation, Some(1));

    case.verdict = opinion(Err("it answered 503".to_owned()));
    let plan = case.pass();
    assert!(plan.status.error.as_deref().unwrap().contains("ValidatorUnavailable"));
    assert_eq!(plan.look_again, Some(Duration::from_secs(5)));
    assert_eq!(case.status.job_status.state, Some(JobStatusState::Running));

    case.verdict = opinion(Ok(vec![]));
    let plan = case.pass();
    assert_eq!(plan.status.error, None);
    assert!(plan.steps.iter().any(|step| matches!(step, Step::TriggerStop { .. })));
}

/// The shell finds the cluster by the stored spec, so the world is that of the previous one.
#[test]
fn an_edited_cluster_name_is_reported_and_the_job_stays_where_it_is() {
    for mode in ["stateless", "last-state"] {
        let mut case = Case::running(mode);
        case.edit(|spec| spec.deployment_name = Some("another".to_owned()));
        let plan = case.pass();
        let label = Step::Own(SessionJobStep::SetSessionLabel { cluster: "cluster".to_owned() });
        assert!(plan.steps.contains(&label), "{:?}", plan.steps);
        let error = case.status.error.clone().unwrap();
        assert!(error.contains("cannot change from `cluster`"), "{error}");
        assert!(!error.contains("does not name"), "{error}");
        case.cluster_is(JobManagerDeploymentStatus::Missing);
        let plan = case.pass();
        assert!(plan.because.contains("`cluster`"), "{}", plan.because);
        case.cluster_is(JobManagerDeploymentStatus::Ready);
        case.delete();
        assert!(names(&case.pass()).contains(&"cancel-job"), "{mode}");
    }
}

/// If nothing ever ran, the user may still choose another cluster.
#[test]
fn a_submission_that_was_refused_may_go_to_another_cluster() {
    let mut case = case("stateless");
    case.fail_to_submit("no such class");
    case.edit(|spec| spec.deployment_name = Some("another".to_owned()));
    let plan = case.pass();
    assert_eq!(plan.look_again, Some(Duration::ZERO), "{}", plan.because);
    assert_eq!(case.status.reconciliation_status.last_reconciled_spec, None);
    case.cluster.as_mut().unwrap().metadata.name = Some("another".to_owned());
    submitted(&case.pass());
}
