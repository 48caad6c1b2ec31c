//! The record of a job went back with the API server's store, and its cluster continued.

use super::*;
use crate::transitions::etcd_restore::{self, Record, WENT_BACK};

/// The job that last ran, which is no longer on record.
const NEWER_ID: &str = "0000000000000000000000000000000f";
pub(super) const NAMED: &str = "s3://lake/sp/named";

fn record(status: &SessionJobStatus) -> Record<'_> {
    let reconciliation = &status.reconciliation_status;
    Record { generation: Some(1), job: &status.job_status, reconciliation }
}

impl Case {
    /// The store went back to this; a newer job is known.
    fn set_back(mut self) -> Self {
        let mut known = self.status.clone();
        known.job_status.job_id = Some(NEWER_ID.to_owned());
        let job = self.resource.spec.job.as_ref();
        self.went_back = etcd_restore::went_back(record(&known), record(&self.status), job);
        assert!(self.went_back.is_some());
        self
    }

    /// Another process takes over.
    pub(super) fn restart(&mut self) {
        self.went_back = None;
        self.failed_submission = None;
        self.tried = Tried::default();
    }

    pub(super) fn error(&self) -> &str {
        self.status.error.as_deref().unwrap_or_default()
    }

    fn lists_newer(&mut self, state: JobStatusState) {
        self.lists(NEWER_ID, state);
    }

    pub(super) fn lists(&mut self, id: &str, state: JobStatusState) {
        let (id, name) = (id.to_owned(), "orders".to_owned());
        let newer = Job { id, name, state, start_time: 2, modified: None };
        self.jobs.get_or_insert_default().push(newer);
    }

    #[track_caller]
    pub(super) fn assert_refused(&mut self) {
        let plan = self.pass();
        let deeds: Vec<_> = names(&plan)
            .into_iter()
            .filter(|name| !["add-finalizer", "set-label"].contains(name))
            .collect();
        assert!(deeds.is_empty(), "{}: {deeds:?}", plan.because);
        assert!(self.error().contains(WENT_BACK), "{}: {}", plan.because, self.error());
    }

    #[track_caller]
    pub(super) fn assert_refused_for_good(&mut self) {
        self.assert_refused();
        let told = self.status.clone();
        self.assert_refused();
        assert_eq!(self.status, told, "nothing is written twice");
        assert!(reasons(&self.plan()).is_empty());
        self.restart();
        self.assert_refused();
        assert_eq!(self.status, told, "the next process finds it in the status");
    }

    pub(super) fn name_state(&mut self) {
        self.edit(|spec| {
            let job = spec.job.as_mut().unwrap();
            job.initial_savepoint_path = Some(NAMED.to_owned());
            job.savepoint_redeploy_nonce = Some(9);
        });
    }
}

/// Its job was stopped with a savepoint, and its successor is about to start.
fn between() -> Case {
    saved().set_back()
}

pub(super) fn saved() -> Case {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.stop = Stop::Completed { path: "s3://lake/sp/1".to_owned() };
    case.list(JobStatusState::Finished);
    case.pass();
    assert_eq!(case.reconciliation(), ReconciliationState::Upgrading);
    case
}

/// Its job ended, according to its cluster.
fn ended(mode: &str) -> Case {
    let mut case = Case::running(mode).set_back();
    case.checkpoints = Some(at("s3://lake/chk/1"));
    case.list(JobStatusState::Finished);
    case
}

#[test]
fn a_job_is_not_started_from_a_record_that_went_back() {
    between().assert_refused_for_good();
    let new = case("savepoint");
    new.set_back().assert_refused_for_good();
    let mut edited = ended("savepoint");
    edited.edit(|spec| spec.restart_nonce = Some(1));
    edited.assert_refused_for_good();
    let mut cancelled = Case::running("last-state").set_back();
    cancelled.list(JobStatusState::Canceled);
    cancelled.assert_refused_for_good();
}

/// Before its user changes anything: the next process would not know what this one knows.
#[test]
fn a_record_that_went_back_is_reported_at_once() {
    ended("savepoint").assert_refused_for_good();
    let mut absent = Case::running("last-state").set_back();
    absent.jobs = Some(vec![]);
    absent.assert_refused_for_good();
}

#[test]
fn what_is_wrong_alongside_it_does_not_hide_it() {
    let mut case = between();
    case.pass();
    let cluster = case.cluster.take();
    case.pass();
    assert!(case.error().contains(MISSING_CLUSTER), "{}", case.error());
    case.restart();
    case.cluster = cluster;
    case.assert_refused_for_good();
}

#[test]
fn a_person_may_say_what_to_start_from() {
    for restarts in [false, true] {
        for mut case in [between(), ended("savepoint"), case("savepoint").set_back()] {
            case.assert_refused();
            if restarts {
                case.restart();
            }
            case.edit(|spec| spec.restart_nonce = Some(5));
            case.assert_refused();
            case.name_state();
            let plan = case.pass();
            assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some(NAMED), "{restarts}");
            assert_eq!(case.error(), "");
        }
    }
}

/// A record in the middle of a start from a path that was named earlier is not an answer either.
#[test]
fn an_answer_to_another_question_does_not_count() {
    let mut case = Case::running("savepoint");
    case.name_state();
    case.pass();
    case.list(JobStatusState::Canceled);
    let before = case.status.clone();
    case.pass();
    assert_ne!(case.status, before);
    let mut case = Case { status: before, ..case }.set_back();
    case.assert_refused_for_good();
    case.edit(|spec| spec.job.as_mut().unwrap().savepoint_redeploy_nonce = Some(10));
    assert_eq!(submitted(&case.pass()).savepoint_path.as_deref(), Some(NAMED));
}

#[test]
fn nothing_is_started_alongside_the_job_that_ran_last() {
    for mode in ["savepoint", "last-state", "stateless"] {
        let mut case = ended(mode);
        case.lists_newer(JobStatusState::Running);
        case.edit(|spec| spec.restart_nonce = Some(1));
        case.assert_refused_for_good();
        assert!(case.error().contains(NEWER_ID) && case.error().contains("still runs"));
        case.name_state();
        case.assert_refused();
        case.jobs.as_mut().unwrap().pop();
        case.lists_newer(JobStatusState::Finished);
        let plan = case.pass();
        assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some(NAMED), "{mode}");
    }
}

#[test]
fn a_job_that_runs_and_one_without_state_go_on() {
    let mut running = Case::running("savepoint").set_back();
    running.pass();
    assert_eq!(running.error(), "");
    running.edit(|spec| spec.restart_nonce = Some(1));
    assert!(names(&running.pass()).contains(&"stop-with-savepoint"));
    let mut stateless = ended("stateless");
    stateless.edit(|spec| spec.restart_nonce = Some(1));
    assert_eq!(submitted(&stateless.pass()).savepoint_path, None);
    // The submission on record arrived, and is the latest.
    let mut open = Case::running("savepoint");
    open.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Suspended);
    open.pass();
    open.stop = Stop::Completed { path: "s3://lake/sp/1".to_owned() };
    open.list(JobStatusState::Finished);
    open.pass();
    open.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Running);
    open.fail_to_submit("no answer");
    open.restart();
    let mut open = open.set_back();
    open.list(JobStatusState::Running);
    open.pass();
    assert_eq!(open.reconciliation(), ReconciliationState::Deployed);
    assert_eq!(open.error(), "");
}

pub(super) fn cancelled(plan: &Plan) -> Option<&str> {
    plan.steps.iter().find_map(|step| {
        let Step::CancelJob { job_id, .. } = step else { return None };
        Some(job_id.as_str())
    })
}

pub(super) fn suspended() -> Case {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Suspended);
    case.pass();
    case.stop = Stop::Completed { path: "s3://lake/sp/1".to_owned() };
    case.list(JobStatusState::Finished);
    case.pass();
    case
}

/// By the record, the resource would be deleted at once, or wait for the end of a job that is long gone.
#[test]
fn a_deletion_ends_the_job_that_ran_last() {
    let suspended = || suspended().set_back();
    let never_started = || {
        let mut case = case("savepoint").set_back();
        case.jobs = Some(vec![]);
        case
    };
    let cases = vec![
        between(),
        suspended(),
        never_started(),
        ended("savepoint"),
        ended("last-state"),
        ended("stateless"),
    ];
    for (index, mut case) in cases.into_iter().enumerate() {
        case.lists_newer(JobStatusState::Running);
        case.delete();
        let plan = case.pass();
        assert!(plan.because.contains(NEWER_ID), "{index}: {}", plan.because);
        assert!(reasons(&plan).contains(&"Cleanup"));
        // From here on it is on record, whichever process continues.
        case.restart();
        let plan = case.pass();
        assert_eq!(cancelled(&plan), Some(NEWER_ID), "{index}: {}", plan.because);
        case.list(JobStatusState::Canceled);
        assert_eq!(names(&case.pass()).last(), Some(&"remove-finalizer"), "{index}");
    }
}

#[test]
fn a_deletion_saves_the_state_of_the_job_that_ran_last() {
    let mut case = between();
    case.set("kubernetes.operator.job.savepoint-on-deletion", "true");
    case.lists_newer(JobStatusState::Running);
    case.delete();
    case.pass();
    let plan = case.pass();
    let stopped = plan.steps.iter().find_map(|step| {
        let Step::TriggerStop { job_id, .. } = step else { return None };
        Some(job_id.as_str())
    });
    assert_eq!(stopped, Some(NEWER_ID), "{}", plan.because);
}

#[test]
fn a_deletion_that_cannot_ask_for_the_job_that_ran_last_waits() {
    let mut case = between();
    case.set_in_cluster("high-availability.type", "kubernetes");
    case.cluster_is(JobManagerDeploymentStatus::Missing);
    case.delete();
    assert!(!names(&case.pass()).contains(&"remove-finalizer"));
    assert!(case.error().contains(WENT_BACK), "{}", case.error());
    case.restart();
    assert!(!names(&case.pass()).contains(&"remove-finalizer"), "the next process knows it too");
    case.cluster_is(JobManagerDeploymentStatus::Ready);
    case.lists_newer(JobStatusState::Running);
    case.pass();
    assert_eq!(cancelled(&case.pass()), Some(NEWER_ID));
}

#[test]
fn a_deletion_after_the_end_of_the_job_that_ran_last_ends() {
    let mut case = between();
    case.lists_newer(JobStatusState::Finished);
    case.delete();
    assert_eq!(names(&case.pass()).last(), Some(&"remove-finalizer"));
}
