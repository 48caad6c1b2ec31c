//! A session cluster that is replaced under its jobs.

use super::*;
use crate::notes::{AWAITS_JOBS, KEEPS_JOBS};
use crate::session_job::leaving::{lets_stop, seen};
use crate::world::SessionJob;

impl Case {
    /// Makes the cluster wait until the jobs have left it, for the spec of this generation.
    pub(super) fn replace_cluster(&mut self, generation: i64) {
        let cluster = self.cluster.as_mut().unwrap();
        AWAITS_JOBS.set(&mut cluster.status.as_mut().unwrap().cluster_info, &generation);
    }

    fn clear_cluster(&mut self) {
        let cluster = self.cluster.as_mut().unwrap();
        AWAITS_JOBS.clear(&mut cluster.status.as_mut().unwrap().cluster_info);
    }
}

#[test]
fn a_job_leaves_its_cluster_with_its_state_and_comes_back_with_it() {
    for (mode, end, path) in [
        ("savepoint", JobStatusState::Finished, Some("s3://sp")),
        ("last-state", JobStatusState::Canceled, Some("s3://lake/chk/1")),
        ("stateless", JobStatusState::Canceled, None),
    ] {
        let mut case = Case::running(mode);
        case.checkpoints = Some(at("s3://lake/chk/1"));
        case.replace_cluster(1);
        let plan = case.pass();
        assert_eq!(reasons(&plan)[..2], ["SessionClusterReplaced", "Suspended"], "{mode}");
        assert!(
            names(&plan).iter().any(|name| matches!(*name, "stop-with-savepoint" | "cancel-job"))
        );
        case.stop = Stop::Completed { path: "s3://sp".to_owned() };
        case.list(end);
        case.pass();
        let plan = case.pass();
        assert_eq!(
            plan.because, "waiting until the session cluster `cluster` is replaced",
            "{mode}"
        );
        let before = case.status.clone();
        case.pass();
        assert_eq!(case.status, before, "{mode}: at rest");
        case.clear_cluster();
        let plan = case.pass();
        assert_eq!(submitted(&plan).savepoint_path.as_deref(), path, "{mode}");
    }
}

#[test]
fn an_edit_of_the_job_meanwhile_is_carried_out_in_the_new_cluster() {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(4));
    case.replace_cluster(1);
    case.pass();
    case.stop = Stop::Completed { path: "s3://sp".to_owned() };
    case.list(JobStatusState::Finished);
    case.pass();
    assert!(!names(&case.pass()).contains(&"submit-job"));
    case.clear_cluster();
    assert_eq!(submitted(&case.pass()).parallelism, Some(4));
}

#[test]
fn a_new_job_waits_for_the_new_cluster() {
    let mut case = case("savepoint");
    case.replace_cluster(1);
    assert!(!names(&case.pass()).contains(&"submit-job"));
    case.clear_cluster();
    assert_eq!(submitted(&case.pass()).savepoint_path, None);
}

#[test]
fn nobody_leaves_who_has_ended_or_for_an_edit_that_is_no_more() {
    let mut case = Case::running("savepoint");
    case.replace_cluster(7);
    assert_eq!(names(&case.pass()), ["add-finalizer", "set-label"], "of another generation");
    let mut case = Case::running("savepoint");
    case.list(JobStatusState::Finished);
    case.pass();
    case.replace_cluster(1);
    let before = case.status.clone();
    case.pass();
    assert_eq!(case.status, before, "a job that has ended does not start again for it");
}

#[test]
fn a_job_whose_jar_cannot_be_had_stays() {
    let mut case = Case::running("savepoint");
    case.jar = Fact::Unknown("404".to_owned());
    case.replace_cluster(1);
    let plan = case.pass();
    assert!(!names(&plan).contains(&"stop-with-savepoint"), "{:?}", names(&plan));
    assert!(case.status.error.unwrap().contains("the jar cannot be fetched"));
}

#[test]
fn a_cluster_sees_what_its_jobs_are_at() {
    let of = |case: &Case| {
        let mut value = json!(case.resource);
        value["status"] = json!(case.status);
        seen(&value).unwrap()
    };
    let seen_as = |case: &Case| {
        let SessionJob { name, job_id, is_active, is_stopping } = of(case);
        assert_eq!(
            (name.as_str(), job_id.as_deref()),
            ("orders", case.status.job_status.job_id.as_deref())
        );
        (is_active, is_stopping)
    };
    let mut case = Case::running("savepoint");
    assert_eq!(seen_as(&case), (true, false));
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.pass();
    case.list(JobStatusState::Finished);
    assert_eq!(seen_as(&case), (true, true), "its savepoint is not on record");
    case.stop = Stop::Completed { path: "s3://sp".to_owned() };
    case.list(JobStatusState::Finished);
    case.pass();
    assert_eq!(seen_as(&case), (false, false), "nothing of it is in the cluster");
    let plan = case.pass();
    let intent = plan.steps.iter().find_map(|step| {
        let Step::WriteStatus(status) = step else { return None };
        Some((**status).clone())
    });
    case.status = intent.expect("the id is on record before the job is submitted");
    assert_eq!(seen_as(&case), (true, false));

    let broken =
        json!({"metadata": {"name": "a"}, "spec": 7, "status": {"jobStatus": {"jobId": "1a"}}});
    let SessionJob { name, job_id, .. } = seen(&broken).unwrap();
    assert_eq!((name.as_str(), job_id.as_deref()), ("a", Some("1a")));
}

#[test]
fn a_job_is_not_stopped_while_its_cluster_is_about_to_be_replaced() {
    let mut cluster = Case::running("savepoint").cluster.unwrap();
    assert!(lets_stop(&cluster));
    AWAITS_JOBS.set(&mut cluster.status.as_mut().unwrap().cluster_info, &1);
    assert!(lets_stop(&cluster), "it waits for the job to leave");
    KEEPS_JOBS.set(&mut cluster.status.as_mut().unwrap().cluster_info, &1);
    assert!(!lets_stop(&cluster));
    cluster.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH));
    assert!(lets_stop(&cluster), "its deletion waits for the job");
}
