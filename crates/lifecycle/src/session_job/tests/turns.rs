//! An edit of a running session job waits for its turn among the upgrades of a fleet.

use super::*;
use crate::conditions::{UPGRADES_PAUSED, WAITS_FOR_TURN};
use crate::error_document::reason_of;

fn edited(turn: Turn) -> Case {
    let mut case = Case::running("savepoint");
    case.edit(|spec| spec.restart_nonce = Some(1));
    case.turn = Fact::Known(turn);
    case
}

impl Case {
    fn error_reason(&self) -> Option<String> {
        self.status.error.as_deref().and_then(reason_of)
    }
}

/// Returns whether the plan stops the job.
fn stops(plan: &Plan) -> bool {
    names(plan).contains(&"stop-with-savepoint")
}

#[test]
fn an_edit_that_waits_for_its_turn_stops_nothing_and_says_so_once() {
    let mut case = edited(Turn::Waits);
    let before = case.status.clone();
    let plan = case.pass();
    assert_eq!((reasons(&plan), &names(&plan)[2..]), (vec![WAITS_FOR_TURN], &["remember"][..]));
    assert_eq!(plan.waits.map(|waits| waits.on), Some(Awaited::Turn));
    let again = case.pass();
    assert_eq!((reasons(&again), names(&again).len()), (vec![], 2));
    assert_eq!(case.status, before, "it is not an error");
    // Another process says it again.
    case.tried = Tried::default();
    assert_eq!(reasons(&case.pass()), [WAITS_FOR_TURN]);
    case.turn = Fact::Known(Turn::Taken);
    assert!(stops(&case.pass()));
}

#[test]
fn that_upgrades_are_paused_is_an_error_until_they_continue() {
    let mut case = edited(Turn::Paused);
    let plan = case.pass();
    assert_eq!(reasons(&plan), [UPGRADES_PAUSED]);
    assert_eq!(case.error_reason().as_deref(), Some(UPGRADES_PAUSED));
    let before = case.status.clone();
    for turn in [Fact::Known(Turn::Paused), Fact::Unknown("not all are listed".to_owned())] {
        case.turn = turn;
        let plan = case.pass();
        assert_eq!((reasons(&plan), &case.status), (vec![], &before));
    }
    case.turn = Fact::Known(Turn::Waits);
    case.pass();
    assert_eq!(case.status.error, None);
    case.turn = Fact::Known(Turn::Taken);
    assert!(stops(&case.pass()));
}

#[test]
fn an_edit_that_is_taken_back_waits_for_nothing() {
    let mut case = edited(Turn::Paused);
    case.pass();
    case.edit(|spec| spec.restart_nonce = None);
    let plan = case.pass();
    assert_eq!((plan.waits, case.status.error.as_deref()), (None, None));
}

/// Neither a suspend nor a restart, nor a job that leaves its cluster.
#[test]
fn what_is_no_edit_of_a_running_job_waits_for_nobody() {
    let mut suspended = edited(Turn::Paused);
    suspended.job().state = JobState::Suspended;
    assert!(stops(&suspended.pass()));
    let mut leaves = edited(Turn::Paused);
    leaves.replace_cluster(1);
    assert!(stops(&leaves.pass()), "its cluster goes, and waits for it");
    let mut redeployed = edited(Turn::Paused);
    redeployed.job().savepoint_redeploy_nonce = Some(1);
    redeployed.job().initial_savepoint_path = Some("s3://lake/sp/0".to_owned());
    assert!(names(&redeployed.pass()).contains(&"cancel-job"));
    let mut scaled = edited(Turn::Paused);
    scaled.status.observed_generation = scaled.resource.metadata.generation;
    assert!(stops(&scaled.pass()), "the autoscaler's change has no generation of its own");
    let mut failed = edited(Turn::Paused);
    failed.list(JobStatusState::Failed);
    failed.checkpoints = Some(at("s3://lake/chk/1"));
    failed.pass();
    assert!(!failed.asked.contains(&Question::Turn), "its job is down");
}
