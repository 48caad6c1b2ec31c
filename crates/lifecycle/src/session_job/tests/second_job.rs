//! A job of the resource runs without being on record: the store went back, and no process saw it.

use super::etcd_restore::{NAMED, cancelled, saved, suspended};
use super::*;

/// Submitted for the resource with the uid `u1`, as its first half shows.
const OWN_ID: &str = "bb82030dbc2bcaba000000000000000f";
/// The same for another resource.
const OTHERS_ID: &str = "0000000000000000000000000000000f";
const LONG: jiff::SignedDuration = jiff::SignedDuration::from_mins(2);

/// Its job ended, according to its cluster.
fn ended(mode: &str) -> Case {
    let mut case = Case::running(mode);
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.list(JobStatusState::Finished);
    case
}

fn absent(mode: &str) -> Case {
    let mut case = Case::running(mode);
    case.jobs = Some(vec![]);
    case.now += LONG;
    case
}

/// The record says that the job is about to be started.
fn cancelled_before() -> Case {
    let mut case = Case::running("last-state");
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.jobs = Some(vec![]);
    case
}

fn saved_long_ago() -> Case {
    let mut case = saved();
    case.now += LONG;
    case
}

fn records() -> Vec<Case> {
    let mut resumed = suspended();
    resumed.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Running);
    resumed.now += LONG;
    vec![
        case("savepoint"),
        case("stateless"),
        saved_long_ago(),
        resumed,
        ended("savepoint"),
        ended("stateless"),
        absent("savepoint"),
        absent("stateless"),
        cancelled_before(),
    ]
}

#[test]
fn nothing_is_started_alongside_a_job_that_is_not_on_record() {
    for (index, mut case) in records().into_iter().enumerate() {
        case.lists(OWN_ID, JobStatusState::Running);
        case.assert_refused_for_good();
        let error = case.error();
        assert!(error.contains(OWN_ID) && error.contains("still runs"), "{index}: {error}");
        assert!(error.contains("stop it with a savepoint"), "{index}: {error}");
        case.edit(|spec| spec.restart_nonce = Some(5));
        case.assert_refused();
        case.name_state();
        case.assert_refused();
    }
}

/// What it did is not on record, so its end alone does not permit a start from an older state.
#[test]
fn after_the_end_of_a_job_that_is_not_on_record_a_person_names_its_state() {
    for (index, mut case) in records().into_iter().enumerate() {
        let is_stateless = case.job().upgrade_mode == UpgradeMode::Stateless;
        case.lists(OWN_ID, JobStatusState::Running);
        case.assert_refused();
        case.restart();
        case.jobs.as_mut().unwrap().pop();
        case.lists(OWN_ID, JobStatusState::Finished);
        if is_stateless {
            // A job that ended by itself is not started again without a reason.
            case.edit(|spec| spec.restart_nonce = Some(1));
            let plan = case.pass();
            let plan = if names(&plan).contains(&"submit-job") { plan } else { case.pass() };
            assert_eq!(submitted(&plan).savepoint_path, None, "{index}");
            continue;
        }
        case.assert_refused_for_good();
        case.name_state();
        let mut plan = case.pass();
        if names(&plan).contains(&"cancel-job") {
            plan = case.pass();
        }
        assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some(NAMED), "{index}");
        assert_eq!(case.error(), "", "{index}");
    }
}

/// Among them are jobs of others, of the Java operator and of a former resource of this name, and jobs that have ended.
#[test]
fn other_jobs_of_the_cluster_hinder_no_start() {
    for mut case in [case("savepoint"), saved_long_ago(), absent("stateless")] {
        case.lists(OTHERS_ID, JobStatusState::Running);
        case.lists(OWN_ID, JobStatusState::Canceled);
        case.job_manager_start = Fact::Known(case.now);
        let plan = case.pass();
        let plan = if names(&plan).contains(&"submit-job") { plan } else { case.pass() };
        assert!(submitted(&plan).job_id.starts_with("bb82030dbc2bcaba"), "{}", plan.because);
        assert_eq!(case.error(), "");
    }
}

/// The job is still listed for a moment after its savepoint is complete.
#[test]
fn the_end_of_a_job_that_was_stopped_with_a_savepoint_is_waited_for() {
    let mut case = saved();
    case.jobs = Some(vec![]);
    case.lists(FIRST_ID, JobStatusState::Running);
    let plan = case.pass();
    assert_eq!(case.error(), "", "{}", plan.because);
    assert!(!names(&plan).contains(&"submit-job"), "{}", plan.because);
    let mut goes_on = saved();
    goes_on.jobs = Some(vec![]);
    goes_on.lists(FIRST_ID, JobStatusState::Running);
    goes_on.now += LONG;
    goes_on.assert_refused_for_good();
    case.jobs = Some(vec![]);
    assert_eq!(submitted(&case.pass()).savepoint_path.as_deref(), Some("s3://lake/sp/1"));
}

#[test]
fn a_job_that_was_just_submitted_is_not_suspected() {
    let mut case = case("savepoint");
    case.pass();
    case.lists(OWN_ID, JobStatusState::Running);
    case.pass();
    assert_eq!(case.error(), "", "the list may be older than the submission");
    case.now += LONG;
    case.assert_refused_for_good();
}

/// Whether it arrived or not, this is another job.
#[test]
fn a_submission_that_is_made_again_is_not_made_alongside_another_job() {
    let mut case = case("savepoint");
    case.fail_to_submit("no answer");
    case.restart();
    case.lists(OWN_ID, JobStatusState::Running);
    case.assert_refused_for_good();
}

#[test]
fn nothing_is_started_where_the_jobs_cannot_be_listed() {
    let mut case = case("savepoint");
    case.jobs = None;
    let plan = case.pass();
    assert_eq!(names(&plan), ["add-finalizer", "set-label"]);
    assert!(plan.because.contains("cannot be listed"), "{}", plan.because);
}

#[test]
fn a_deletion_ends_each_job_of_the_resource() {
    let others = [suspended(), Case::running("savepoint"), case("savepoint")];
    for (index, mut case) in records().into_iter().chain(others).enumerate() {
        case.lists(OWN_ID, JobStatusState::Running);
        case.delete();
        let mut ended = vec![];
        for _ in 0..8 {
            let plan = case.pass();
            if let Some(id) = cancelled(&plan) {
                let id = id.to_owned();
                let jobs = case.jobs.as_mut().unwrap();
                jobs.iter_mut().find(|job| job.id == id).unwrap().state = JobStatusState::Canceled;
                ended.push(id);
            }
            if names(&plan).contains(&"remove-finalizer") {
                break;
            }
            case.restart();
        }
        assert_eq!(ended.last().map(String::as_str), Some(OWN_ID), "{index}: {ended:?}");
        let lives = |job: &Job| !job.state.is_globally_terminal();
        assert!(!case.jobs.as_ref().unwrap().iter().any(lives), "{index}");
    }
}

#[test]
fn a_deletion_with_nothing_on_record_waits_for_no_cluster() {
    let mut silent = case("savepoint");
    silent.jobs = None;
    let mut away = case("savepoint");
    away.cluster_is(JobManagerDeploymentStatus::Missing);
    for mut case in [silent, away] {
        case.delete();
        assert_eq!(names(&case.pass()).last(), Some(&"remove-finalizer"));
    }
}
