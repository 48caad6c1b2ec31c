use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn facts() -> RestoreFacts {
    RestoreFacts {
        wanted: UpgradeMode::LastState,
        stopped_as: UpgradeMode::LastState,
        path: None,
        high_availability: HighAvailability::Known(HaMetadata {
            has_job: true,
            checkpoint: Some(1),
        }),
    }
}

#[track_caller]
fn check(facts: &RestoreFacts, expected: Expect) {
    let text = match restore_point(facts) {
        Ok(point) => point.describe(),
        Err(Refusal::NotYet(message)) => format!("not yet: {message}"),
        Err(Refusal::NeedsPerson(message)) => format!("refused: {message}"),
    };
    expected.assert_eq(&text);
}

#[test]
fn last_state_restores_the_checkpoint_in_ha_metadata() {
    check(&facts(), expect!["the latest checkpoint in HA metadata"]);
}

#[test]
fn last_state_without_a_checkpoint_restores_what_the_job_started_from() {
    let metadata = HaMetadata { has_job: true, checkpoint: None };
    let high_availability = HighAvailability::Known(metadata);
    let facts = RestoreFacts { high_availability, ..facts() };
    check(
        &RestoreFacts { path: Some("s3://sp/1".to_owned()), ..facts.clone() },
        expect!["s3://sp/1"],
    );
    check(&facts, expect!["empty state"]);
}

#[test]
fn last_state_is_refused_when_ha_metadata_is_gone() {
    let high_availability = HighAvailability::Known(HaMetadata::default());
    check(
        &RestoreFacts { high_availability, ..facts() },
        expect![
            "refused: HA metadata is not available to restore from last state. It is possible that the job has finished or terminally failed, or the configmaps have been deleted. Find its newest checkpoint or savepoint and set `spec.job.initialSavepointPath` to the state to start from and a new `spec.job.savepointRedeployNonce`. Manual restore required."
        ],
    );
}

#[test]
fn unreadable_ha_metadata_is_waited_for() {
    let high_availability = HighAvailability::Unknown("forbidden".to_owned());
    check(
        &RestoreFacts { high_availability, ..facts() },
        expect!["not yet: HA metadata cannot be read: forbidden"],
    );
}

#[test]
fn a_savepoint_that_is_not_on_record_is_refused() {
    let facts = RestoreFacts { stopped_as: UpgradeMode::Savepoint, ..facts() };
    check(
        &facts,
        expect![
            "refused: the job was stopped with its state kept, but the path of that state is not recorded; set `spec.job.initialSavepointPath` to the state to start from and a new `spec.job.savepointRedeployNonce`. Manual restore required."
        ],
    );
    check(&RestoreFacts { path: Some("s3://sp/1".to_owned()), ..facts }, expect!["s3://sp/1"]);
}

#[test]
fn the_marker_is_never_restored_as_a_path() {
    let facts = RestoreFacts {
        stopped_as: UpgradeMode::Savepoint,
        path: Some(LAST_STATE_PATH.to_owned()),
        ..facts()
    };
    assert!(matches!(restore_point(&facts), Err(Refusal::NeedsPerson(_))));
}

#[test]
fn a_user_who_asks_for_no_state_gets_none() {
    let facts = RestoreFacts {
        wanted: UpgradeMode::Stateless,
        stopped_as: UpgradeMode::Savepoint,
        path: Some("s3://sp/1".to_owned()),
        ..facts()
    };
    check(&facts, expect!["empty state"]);
}

fn modes() -> impl Strategy<Value = UpgradeMode> {
    prop_oneof![
        Just(UpgradeMode::Stateless),
        Just(UpgradeMode::Savepoint),
        Just(UpgradeMode::LastState)
    ]
}

fn any_facts() -> impl Strategy<Value = RestoreFacts> {
    let path = prop_oneof![
        Just(None),
        Just(Some(LAST_STATE_PATH.to_owned())),
        "[a-z0-9/:-]{1,20}".prop_map(Some)
    ];
    let high_availability = prop_oneof![
        Just(HighAvailability::Off),
        Just(HighAvailability::Unknown("x".to_owned())),
        (any::<bool>(), any::<bool>()).prop_map(|(has_job, has_checkpoint)| {
            HighAvailability::Known(HaMetadata { has_job, checkpoint: has_checkpoint.then_some(1) })
        })
    ];
    (modes(), modes(), path, high_availability).prop_map(
        |(wanted, stopped_as, path, high_availability)| RestoreFacts {
            wanted,
            stopped_as,
            path,
            high_availability,
        },
    )
}

proptest! {
    /// Empty only if the user requested it, or if there was never any state.
    #[test]
    fn a_stateful_job_never_starts_empty_while_there_may_be_state(facts in any_facts()) {
        if restore_point(&facts) == Ok(RestorePoint::Empty) {
            let was_asked_for = facts.wanted == UpgradeMode::Stateless
                || facts.stopped_as == UpgradeMode::Stateless;
            let never_had_state = facts.path.is_none()
                && facts.high_availability
                    == HighAvailability::Known(HaMetadata { has_job: true, checkpoint: None });
            prop_assert!(was_asked_for || never_had_state);
        }
    }

    /// A checkpoint in HA metadata is the newest state: no older path is preferred to it.
    #[test]
    fn nothing_older_than_ha_metadata_is_restored(facts in any_facts()) {
        let has_checkpoint = matches!(
            facts.high_availability,
            HighAvailability::Known(HaMetadata { has_job: true, checkpoint: Some(1) })
        );
        let reads_it =
            facts.stopped_as == UpgradeMode::LastState && facts.wanted != UpgradeMode::Stateless;
        if has_checkpoint && reads_it {
            prop_assert_eq!(restore_point(&facts), Ok(RestorePoint::HaMetadata));
        }
    }

    /// What is restored is on record, never made up.
    #[test]
    fn a_path_is_the_one_on_record(facts in any_facts()) {
        if let Ok(RestorePoint::Path(path)) = restore_point(&facts) {
            prop_assert_ne!(path.as_str(), LAST_STATE_PATH);
            prop_assert_eq!(Some(path), facts.path);
        }
    }
}
