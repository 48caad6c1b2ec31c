//! Deletion of a snapshot, and what becomes of its savepoint.

use super::*;

#[test]
fn scenario_10_what_a_deletion_disposes_of() {
    for state in ["TRIGGER_PENDING", "FAILED", "ABANDONED"] {
        let mut case = savepoint(json!({})).in_state(json!({"state": state}));
        case.delete();
        assert_eq!(case.steps, ["remove"], "{state}");
    }
    let mut running = savepoint(json!({})).in_progress();
    running.delete();
    assert!(running.is_retained() && running.look_again.is_some());

    let mut no_job = savepoint(json!({})).completed();
    no_job.no_job();
    no_job.delete();
    assert!(no_job.is_retained() && no_job.look_again.is_some());
    assert_eq!(no_job.reasons(), ["CleanupFailed"]);
    assert!(no_job.status().error.unwrap().contains("was not found"));

    let mut unreachable = savepoint(json!({})).completed();
    unreachable.delete();
    assert_eq!(unreachable.steps, ["dispose", "remove"]);
    let mut refused = savepoint(json!({})).completed();
    refused.resource.metadata.deletion_timestamp = Some(Time(refused.now));
    let plan = not_disposed(&refused.world(), "Flink said no");
    refused.apply(plan);
    assert!(refused.is_retained() && refused.look_again.is_some());
    assert_eq!(refused.reasons(), ["CleanupFailed"]);

    for spec in [json!({"savepoint": {"disposeOnDelete": false}}), json!({"jobReference": null})] {
        let mut kept = savepoint(spec).completed();
        kept.delete();
        assert_eq!(kept.steps, ["remove"]);
    }
    let mut checkpoint = checkpoint().completed();
    checkpoint.delete();
    assert_eq!(checkpoint.steps, ["remove"]);
}

#[test]
fn a_savepoint_that_anything_refers_to_is_never_disposed_of() {
    let mut case = savepoint(json!({})).completed();
    case.facts.references = Fact::Known(vec!["revision 3 of `orders`".to_owned()]);
    case.delete();
    assert_eq!(case.steps, ["event", "remove"]);
    assert_eq!(case.reasons(), ["SavepointKept"]);
    assert!(case.events[0].message.contains("revision 3"));
    let mut unknown = savepoint(json!({})).completed();
    unknown.facts.references = Fact::Unknown("forbidden".to_owned());
    unknown.delete();
    assert!(unknown.is_retained());
    assert!(!unknown.steps.contains(&"dispose"));
}

#[test]
fn files_that_a_checkpoint_may_share_are_never_disposed_of() {
    let mut claimed = savepoint(json!({})).completed();
    claimed.edit_job(|job| job.claims = true);
    let checkpoint = json!({"state": "COMPLETED", "path": "s3://lake/chk/abc/chk-7"});
    for (mut case, why) in [
        (claimed, "does not restore with NO_CLAIM"),
        (savepoint(json!({})).in_state(checkpoint), "later checkpoints may share its files"),
    ] {
        case.delete();
        assert_eq!(case.steps, ["event", "remove"]);
        assert_eq!(case.reasons(), ["SavepointKept"]);
        assert!(case.events[0].message.contains(why), "{}", case.events[0].message);
    }
}

#[test]
fn the_newest_state_of_a_job_is_disposed_of_only_after_a_newer_one() {
    let mut case = savepoint(json!({})).completed();
    case.facts.newest_state = Fact::Known(Some("s3a://lake/sp/1/".to_owned()));
    case.delete();
    assert!(case.is_retained() && case.look_again.is_some());
    assert_eq!(case.reasons(), ["CleanupFailed"]);
    let told = message_of(&case.status().error.unwrap());
    assert!(told.contains("is the newest state of its job"), "{told}");
    let mut unknown = savepoint(json!({})).completed();
    unknown.facts.newest_state = Fact::Unknown("no answer".to_owned());
    unknown.delete();
    assert!(unknown.is_retained() && !unknown.steps.contains(&"dispose"));
    // A checkpoint is completed.
    case.facts.newest_state = Fact::Known(Some("s3://lake/chk/7".to_owned()));
    case.later(30).pass();
    assert_eq!(case.steps, ["dispose", "remove"]);
}

#[test]
fn without_a_newer_state_the_savepoint_outlives_its_resource() {
    let mut case = savepoint(json!({})).completed();
    case.facts.newest_state = Fact::Known(Some("s3://lake/sp/1".to_owned()));
    case.delete();
    for _ in 0..11 {
        assert!(case.is_retained());
        case.later(60).pass();
        assert!(!case.steps.contains(&"dispose"));
    }
    assert!(!case.is_retained());
    let kept = case.events.last().unwrap();
    assert!(kept.reason == "SavepointKept" && kept.message.contains("newest state of its job"));
}

#[test]
fn a_deletion_ends_whatever_happens() {
    for target in [Fact::Known(Target::Absent), Fact::Unknown("no answer".to_owned())] {
        for references in [Fact::Known(vec![]), Fact::Unknown("forbidden".to_owned())] {
            let mut case = savepoint(json!({})).completed();
            case.facts.target = target.clone();
            case.facts.references = references;
            case.delete();
            for _ in 0..30 {
                case.later(60);
                if case.is_retained() {
                    case.pass();
                }
            }
            assert!(!case.is_retained(), "{target:?}");
            assert!(!case.steps.contains(&"dispose"));
        }
    }
}

#[test]
fn a_snapshot_deleted_while_it_is_taken_is_disposed_of_at_its_end() {
    let mut case = savepoint(json!({})).in_progress();
    case.delete();
    case.trigger(Trigger::Completed { path: Some("s3://lake/sp/1".to_owned()), checkpoint: None });
    case.later(1).pass();
    assert_eq!(case.state(), SnapshotState::Completed);
    case.pass();
    assert_eq!(case.steps, ["dispose", "remove"]);
}

#[test]
fn flink_39356_a_snapshot_that_was_never_checked_can_be_deleted() {
    let mut case = savepoint(json!({}));
    case.resource.metadata.finalizers = Some(vec![STATE_SNAPSHOT_FINALIZER.to_owned()]);
    case.delete();
    assert_eq!(case.steps, ["remove"]);
}

#[test]
fn a_snapshot_whose_job_cannot_be_read_any_more_does_not_hold_its_deletion() {
    let mut case = savepoint(json!({})).in_progress();
    case.facts.target = Fact::Unknown("its spec cannot be read".to_owned());
    case.delete();
    assert!(case.is_retained());
    let plan = decide(&case.world()).unwrap();
    assert!(plan.blocker.unwrap().deadline.is_some());
    case.later(601).pass();
    assert!(!case.is_retained());
    assert_eq!(case.reasons(), ["SavepointKept"]);
}

#[test]
fn a_snapshot_that_is_being_taken_does_not_hold_its_deletion_whatever_its_job_does() {
    let flips = |case: &mut Case, minute: i64| {
        let states = [JobStatusState::Restarting, JobStatusState::Created];
        case.job(Some(states[usize::try_from(minute).unwrap() % 2]));
        case.trigger(Trigger::NotFound);
    };
    let foreign = |case: &mut Case, _| case.facts.target = Fact::Known(Target::Foreign);
    let endless = |case: &mut Case, _| {
        case.edit_job(|job| job.timeout = SignedDuration::from_mins(20));
        case.facts.trigger = Fact::Unknown("no answer".to_owned());
    };
    let all: [fn(&mut Case, i64); 3] = [flips, foreign, endless];
    for (index, (change, minutes)) in all.into_iter().zip([12, 11, 22]).enumerate() {
        let mut case = savepoint(json!({})).in_progress();
        change(&mut case, 0);
        case.delete();
        for minute in 1..minutes {
            assert!(case.is_retained(), "{index}: {minute}");
            change(&mut case, minute);
            case.later(60).pass();
        }
        // The cause of its end is reported before it is deleted.
        change(&mut case, minutes);
        if case.is_retained() {
            case.later(1).pass();
        }
        assert!(!case.is_retained(), "{index}");
        assert_eq!(case.events.len(), 1, "{index}");
    }
}
