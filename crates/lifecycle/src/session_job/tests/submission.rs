//! A submission with an unknown outcome, and a change meanwhile.

use super::etcd_restore::saved;
use super::*;

const WAIT: jiff::SignedDuration = jiff::SignedDuration::from_mins(10);

fn suspend(case: &mut Case) {
    case.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Suspended);
}

fn resume(case: &mut Case) {
    case.edit(|spec| spec.job.as_mut().unwrap().state = JobState::Running);
}

fn change(case: &mut Case) {
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(5));
}

fn redeploy(case: &mut Case) {
    case.edit(|spec| {
        let job = spec.job.as_mut().unwrap();
        job.initial_savepoint_path = Some("s3://lake/sp/named".to_owned());
        job.savepoint_redeploy_nonce = Some(1);
    });
}

/// The operator ends while Flink processes it.
fn end(case: &mut Case) {
    case.failed_submission = None;
}

/// A first submission without an answer.
fn first() -> Case {
    let mut case = case("savepoint");
    case.lose_answer();
    case
}

/// A submission of an upgrade.
fn upgrade() -> Case {
    let mut case = saved();
    case.jobs = Some(vec![]);
    case.lose_answer();
    case
}

#[test]
fn nothing_else_is_done_while_a_submission_may_still_arrive() {
    for (begin, begun) in [("first", first as fn() -> Case), ("upgrade", upgrade)] {
        for (at, edit) in [suspend, change, redeploy].into_iter().enumerate() {
            for ends in [false, true] {
                let mut case = begun();
                if ends {
                    end(&mut case);
                }
                let id = case.id().to_owned();
                let recorded = case.last();
                edit(&mut case);
                case.now += WAIT - jiff::SignedDuration::from_secs(10);
                let plan = case.pass();
                let told = format!("{begin} {at} {ends}: {}", plan.because);
                assert!(names(&plan).iter().all(|n| ["add-finalizer", "set-label"].contains(n)));
                assert!(plan.because.contains("it is unknown whether"), "{told}");
                assert_eq!(plan.look_again, Some(Duration::from_secs(2)), "{told}");
                assert_eq!((case.id(), case.last()), (&*id, recorded), "{told}");
            }
        }
    }
}

#[test]
fn a_job_that_arrives_is_on_record_as_it_was_submitted_and_then_changed() {
    for begun in [first, upgrade] {
        let mut case = begun();
        let id = case.id().to_owned();
        change(&mut case);
        case.pass();
        case.list(JobStatusState::Running);
        let plan = case.pass();
        assert_eq!(case.id(), id);
        assert_eq!(case.last().spec.job.unwrap().parallelism, Some(2));
        assert!(names(&plan).contains(&"stop-with-savepoint"), "{}", plan.because);
    }
}

/// After the wait there is another submission: if the first one arrives then, it is recognised as an additional job.
#[test]
fn a_submission_of_which_nothing_came_in_time_leaves_its_id_to_no_other() {
    for begun in [first, upgrade] {
        let mut case = begun();
        let id = case.id().to_owned();
        change(&mut case);
        case.now += WAIT;
        let plan = case.pass();
        assert_ne!(submitted(&plan).job_id, id, "{}", plan.because);
        assert_eq!(submitted(&plan).may_arrive, None);
    }
}

#[test]
fn a_job_that_arrives_after_all_hinders_a_resume() {
    for begun in [first, upgrade] {
        let mut case = begun();
        let id = case.id().to_owned();
        suspend(&mut case);
        case.now += WAIT;
        let plan = case.pass();
        assert!(plan.because.contains("suspended"), "{}", plan.because);
        case.lists(&id, JobStatusState::Running);
        resume(&mut case);
        case.assert_refused();
        assert!(case.error().contains(&id), "{}", case.error());
    }
}

#[test]
fn as_it_was_a_submission_is_made_again_at_once() {
    for begun in [first, upgrade] {
        let mut case = begun();
        let (id, path) = (case.id().to_owned(), case.path().map(str::to_owned));
        let sent = case.now;
        end(&mut case);
        let plan = case.plan();
        assert_eq!(submitted(&plan).job_id, id);
        assert_eq!(submitted(&plan).savepoint_path, path);
        assert_eq!(submitted(&plan).may_arrive, Some(Arrival { began: sent, ended: sent }));
    }
}

/// A later refusal does not show what became of the previous attempt.
#[test]
fn a_refusal_settles_only_what_was_refused() {
    let mut case = first();
    end(&mut case);
    case.fail_to_submit("refused");
    change(&mut case);
    let plan = case.pass();
    assert!(plan.because.contains("it is unknown whether"), "{}", plan.because);
    case.now += WAIT;
    submitted(&case.pass());
}

/// It is in the status, so that the next process knows it, too.
#[test]
fn what_was_refused_is_not_waited_for() {
    for ends in [false, true] {
        let mut case = case("savepoint");
        case.fail_to_submit("no such class");
        case.pass();
        if ends {
            end(&mut case);
        }
        let id = case.id().to_owned();
        change(&mut case);
        assert_ne!(submitted(&case.pass()).job_id, id);
    }
    let mut case = case("savepoint");
    case.fail_to_submit("no such class");
    case.pass();
    case.now += WAIT;
    // This attempt is not the one that was refused.
    let failed = case.failed_submission.take();
    case.lose_answer();
    end(&mut case);
    change(&mut case);
    let plan = case.pass();
    assert!(failed.is_some() && plan.because.contains("it is unknown whether"), "{}", plan.because);
}

#[test]
fn another_path_is_another_submission() {
    let mut case = first();
    case.edit(|spec| {
        spec.job.as_mut().unwrap().initial_savepoint_path = Some("s3://lake/sp/0".to_owned());
    });
    assert!(case.pass().because.contains("it is unknown whether"));
    case.now += WAIT;
    let plan = case.pass();
    assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/sp/0"));
    assert_ne!(submitted(&plan).job_id, FIRST_ID);
    let mut case = upgrade();
    case.edit(|spec| {
        spec.job.as_mut().unwrap().upgrade_mode = UpgradeMode::Stateless;
    });
    assert!(case.pass().because.contains("it is unknown whether"));
    assert_eq!(case.path(), Some("s3://lake/sp/1"));
}

#[test]
fn an_invalid_edit_leaves_a_submission_as_it_is() {
    let mut case = first();
    let (id, recorded) = (case.id().to_owned(), case.last());
    end(&mut case);
    case.edit(|spec| spec.job.as_mut().unwrap().parallelism = Some(-1));
    let plan = case.pass();
    assert!(reasons(&plan).contains(&"ValidationError"), "{}", plan.because);
    assert_eq!(submitted(&plan).job_id, id);
    assert_eq!(submitted(&plan).parallelism, Some(2));
    assert_eq!(case.last().spec.job.unwrap().parallelism, recorded.spec.job.unwrap().parallelism);
}

#[test]
fn a_deletion_waits_for_a_job_that_may_still_arrive() {
    use crate::blocker::Reason;
    for begun in [first, upgrade] {
        let mut case = begun();
        let until = case.now + WAIT;
        end(&mut case);
        case.delete();
        let plan = case.pass();
        assert!(!names(&plan).contains(&"remove-finalizer"), "{}", plan.because);
        assert_eq!(plan.look_again, Some(Duration::from_secs(2)));
        let blocker = plan.blocker.unwrap();
        assert_eq!((blocker.reason, blocker.deadline.unwrap().at), (Reason::Submission, until));
        let mut late = case.status.clone();
        case.now = until;
        assert_eq!(names(&case.pass()).last(), Some(&"remove-finalizer"));
        std::mem::swap(&mut case.status, &mut late);
        case.list(JobStatusState::Running);
        assert!(names(&case.pass()).contains(&"cancel-job"));
    }
    let mut refused = case("savepoint");
    refused.fail_to_submit("refused");
    refused.delete();
    assert_eq!(names(&refused.pass()).last(), Some(&"remove-finalizer"));
}

/// The job may have run while no one looked, and its state is not on record. With high availability it may have ended
/// in that time.
#[test]
fn a_submission_that_another_job_manager_does_not_know_is_not_made_again() {
    for (begun, high_availability, is_another, (key, value), minutes) in [
        (first as fn() -> Case, "NONE", true, ("jobstore.type", "File"), 0),
        (upgrade, "kubernetes", true, ("jobstore.type", "File"), 0),
        (upgrade, "NONE", false, ("jobstore.type", "File"), 61),
        (upgrade, "NONE", false, ("jobstore.expiration-time", "7200"), 61),
        (upgrade, "NONE", false, ("jobstore.expiration-time", "300"), 20),
        (upgrade, "NONE", false, ("jobstore.expiration-time", "5 min"), 20),
        (upgrade, "NONE", false, ("jobstore.max-capacity", "10"), 0),
    ] {
        let mut case = begun();
        case.set_in_cluster("high-availability.type", high_availability);
        case.set_in_cluster(key, value);
        let id = case.id().to_owned();
        end(&mut case);
        if is_another {
            case.now += jiff::SignedDuration::from_mins(1);
            case.job_manager_start = Fact::Known(case.now);
        } else {
            // The job may have been forgotten since its end.
            case.now += jiff::SignedDuration::from_mins(minutes);
        }
        case.now += WAIT;
        let plan = case.pass();
        assert_eq!(events(&plan)[0].0, "SubmissionInDoubt", "{}", plan.because);
        assert!(events(&plan)[0].1.contains(&id));
        assert_eq!(reasons(&plan)[1..], ["Missing"]);
        assert_eq!(case.status.lifecycle_state, Some(LifecycleState::Failed));
        for _ in 0..3 {
            let plan = case.pass();
            assert!(!names(&plan).contains(&"submit-job") && reasons(&plan).is_empty());
        }
        // A person says what to start from.
        redeploy(&mut case);
        case.pass();
        let plan = case.pass();
        assert_eq!(submitted(&plan).savepoint_path.as_deref(), Some("s3://lake/sp/named"));
        assert_ne!(submitted(&plan).job_id, id);
    }
}

#[test]
fn a_submission_is_made_again_where_nothing_can_have_run() {
    let check = |why: &str, arrange: &dyn Fn(&mut Case)| {
        for begun in [first, upgrade] {
            let mut case = begun();
            let id = case.id().to_owned();
            end(&mut case);
            case.now += jiff::SignedDuration::from_mins(1);
            arrange(&mut case);
            assert_eq!(submitted(&case.plan()).job_id, id, "{why}");
        }
    };
    let is_another = |case: &mut Case| case.job_manager_start = Fact::Known(case.now);
    check("the same JobManager", &|_| {});
    check("the same JobManager, a while ago", &|case| {
        case.now += jiff::SignedDuration::from_mins(50);
    });
    check("the same JobManager, which lists what ended for longer", &|case| {
        case.set_in_cluster("jobstore.expiration-time", "1500");
        case.now += jiff::SignedDuration::from_mins(20);
    });
    let mut refused = case("savepoint");
    refused.fail_to_submit("refused");
    refused.pass();
    let mut stateless = case("stateless");
    stateless.lose_answer();
    for mut case in [refused, stateless] {
        end(&mut case);
        case.now += jiff::SignedDuration::from_mins(1);
        is_another(&mut case);
        assert_eq!(names(&case.plan()).last(), Some(&"submit-job"));
    }
}

/// `main()` may continue for minutes after its job was started, and then get no answer.
#[test]
fn a_job_manager_that_went_while_it_was_asked_may_have_run_the_job() {
    let mut case = upgrade();
    let arrival = case.failed_submission.as_mut().unwrap().may_arrive.as_mut().unwrap();
    arrival.began = case.now - jiff::SignedDuration::from_mins(5);
    case.job_manager_start = Fact::Known(case.now - jiff::SignedDuration::from_mins(1));
    case.now += jiff::SignedDuration::from_mins(20);
    let plan = case.pass();
    assert!(reasons(&plan).contains(&"SubmissionInDoubt"), "{}", plan.because);
    assert!(!names(&plan).contains(&"submit-job"));
}

/// It may have run while no one looked, and would go back to what it was submitted from.
#[test]
fn a_refused_edit_that_says_stateless_settles_nothing_unknown() {
    let mut case = upgrade();
    end(&mut case);
    case.edit(|spec| {
        let job = spec.job.as_mut().unwrap();
        job.upgrade_mode = UpgradeMode::Stateless;
        job.parallelism = Some(-1);
    });
    case.now += jiff::SignedDuration::from_mins(1);
    case.job_manager_start = Fact::Known(case.now);
    let plan = case.pass();
    assert!(reasons(&plan).contains(&"SubmissionInDoubt"), "{}", plan.because);
    assert!(!names(&plan).contains(&"submit-job"));
}

#[test]
fn a_submission_waits_where_nobody_knows_which_job_manager_it_was() {
    let mut case = first();
    let before = case.status.clone();
    end(&mut case);
    case.job_manager_start = Fact::Unknown("forbidden".to_owned());
    let plan = case.pass();
    assert!(plan.because.contains("forbidden"), "{}", plan.because);
    assert!(!names(&plan).contains(&"submit-job"));
    assert_eq!(case.status.job_status, before.job_status);
}
