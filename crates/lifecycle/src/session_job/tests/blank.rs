//! Statistics that are empty because the JobManager has no execution graph of the job: while the adaptive scheduler
//! waits for resources, and for a job that ended in that state.

use super::*;

fn blank() -> Checkpoints {
    Checkpoints { is_blank: true, ..Checkpoints::default() }
}

/// Makes the cluster list the job in `state`, after it `lived` for this long.
fn list_for(case: &mut Case, state: JobStatusState, lived: jiff::SignedDuration) {
    case.list(state);
    for job in case.jobs.iter_mut().flatten() {
        job.start_time = (case.now - lived).as_millisecond();
        job.modified = Some(case.now.as_millisecond());
    }
}

/// For a job that lost its resources no checkpoint is reported, under the same JobManager.
#[test]
fn a_job_that_ended_without_resources_does_not_start_empty() {
    for high_availability in ["NONE", "kubernetes"] {
        for was_seen in [true, false] {
            let mut case = case("last-state");
            case.set_in_cluster("high-availability.type", high_availability);
            case.set("kubernetes.operator.job.restart.failed", "true");
            case.pass();
            if was_seen {
                case.list(JobStatusState::Running);
                case.pass();
            }
            case.now += jiff::SignedDuration::from_hours(72);
            let lived = jiff::SignedDuration::from_mins(if was_seen { 1 } else { 4_000 });
            list_for(&mut case, JobStatusState::Failed, lived);
            case.checkpoints = Some(blank());
            for _ in 0..2 {
                let plan = case.pass();
                assert!(!names(&plan).contains(&"submit-job"), "{was_seen}: {}", plan.because);
            }
            assert_eq!(case.path(), Some(LAST_STATE_PATH));
        }
    }
}

#[test]
fn a_job_that_never_got_resources_starts_from_where_it_was_to_start() {
    for (path, wait) in [(None, 5), (Some("s3://lake/sp/1"), 5), (None, 20)] {
        let mut case = case("last-state");
        case.job().initial_savepoint_path = path.map(str::to_owned);
        let wait_for = format!("{wait} min");
        case.set_in_cluster("jobmanager.adaptive-scheduler.resource-wait-timeout", &wait_for);
        case.pass();
        case.now += jiff::SignedDuration::from_mins(wait);
        list_for(&mut case, JobStatusState::Failed, jiff::SignedDuration::from_mins(wait));
        case.checkpoints = Some(blank());
        case.pass();
        case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(1));
        let plan = case.pass();
        assert_eq!(submitted(&plan).savepoint_path.as_deref(), path, "{}", plan.because);
    }
}

/// If it were cancelled now, it would end without reporting its last state.
#[test]
fn a_job_that_waits_for_resources_is_not_cancelled_for_a_change() {
    for mode in ["last-state", "savepoint"] {
        let mut case = Case::running(mode);
        case.now += jiff::SignedDuration::from_hours(1);
        case.checkpoints = Some(blank());
        case.list(JobStatusState::Created);
        case.pass();
        case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(1));
        let plan = case.pass();
        assert!(!names(&plan).contains(&"cancel-job"), "{mode}: {}", plan.because);
        assert!(plan.because.contains("the job is not running"), "{}", plan.because);
        // It has resources again.
        case.checkpoints = Some(at("s3://lake/chk/7"));
        let plan = case.pass();
        assert!(names(&plan).contains(&"cancel-job"), "{mode}: {}", plan.because);
        assert_eq!(case.path(), Some("s3://lake/chk/7"));
    }
    let mut case = Case::running("last-state");
    case.checkpoints = Some(blank());
    case.list(JobStatusState::Created);
    case.pass();
    case.edit(|spec| spec.job.as_mut().unwrap().upgrade_mode = UpgradeMode::Stateless);
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(1));
    assert!(names(&case.pass()).contains(&"cancel-job"), "its user drops the state");
}
