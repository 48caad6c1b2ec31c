use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::flink::wire;

fn statistics(latest: &str) -> CheckpointStatistics {
    wire::read(format!(r#"{{"latest":{latest},"history":[]}}"#).as_bytes()).unwrap()
}

#[track_caller]
fn check(latest: &str, expected: Expect) {
    expected.assert_eq(&format!("{:?}", statistics(latest).last_state()));
}

#[test]
fn no_checkpoint_yet() {
    check(r#"{"completed":null,"savepoint":null,"failed":null,"restored":null}"#, expect!["None"]);
}

#[test]
fn highest_id_wins_whatever_its_kind() {
    check(
        r#"{"completed":{"id":7,"status":"COMPLETED","external_path":"a","trigger_timestamp":5},
            "savepoint":{"id":8,"status":"COMPLETED","is_savepoint":true,"external_path":"b","trigger_timestamp":6},
            "restored":{"id":3,"restore_timestamp":1,"external_path":"c"}}"#,
        expect![[
            r#"At(StatePoint { checkpoint_id: 8, path: "b", timestamp: Some(6), is_savepoint: true })"#
        ]],
    );
    check(
        r#"{"restored":{"id":3,"restore_timestamp":1,"is_savepoint":true,"external_path":"c"}}"#,
        expect![[
            r#"At(StatePoint { checkpoint_id: 3, path: "c", timestamp: Some(1), is_savepoint: true })"#
        ]],
    );
}

#[test]
fn without_id_or_path_it_does_not_count() {
    check(
        r#"{"completed":{"id":9,"external_path":null},"savepoint":{"external_path":"b"},
            "restored":{"id":3,"external_path":"c"}}"#,
        expect![[
            r#"At(StatePoint { checkpoint_id: 3, path: "c", timestamp: None, is_savepoint: false })"#
        ]],
    );
}

#[test]
fn state_in_memory_is_not_addressable() {
    check(
        r#"{"completed":{"id":9,"external_path":"<checkpoint-not-externally-addressable>"}}"#,
        expect!["NotAddressable { checkpoint_id: 9 }"],
    );
}

#[test]
fn deleted_state_is_not_replaced_by_an_older_one() {
    check(
        r#"{"completed":{"id":9,"external_path":"a","discarded":true},"restored":{"id":3,"external_path":"c"}}"#,
        expect![[r#"Discarded { checkpoint_id: 9, path: "a" }"#]],
    );
    check(
        r#"{"completed":{"id":3,"external_path":"a","discarded":true},"restored":{"id":3,"external_path":"a"}}"#,
        expect![[r#"Discarded { checkpoint_id: 3, path: "a" }"#]],
    );
}

#[test]
fn only_a_synchronous_savepoint_stopped_the_job() {
    let stopped = r#"{"completed":{"id":7,"external_path":"a","discarded":true},
        "savepoint":{"id":8,"is_savepoint":true,"checkpoint_type":"SYNC_SAVEPOINT","external_path":"b"}}"#;
    assert_eq!(statistics(stopped).stopped_with().map(|point| point.path), Some("b".into()));
    let earlier = stopped.replace("SYNC_SAVEPOINT", "SAVEPOINT");
    assert_eq!(statistics(&earlier).stopped_with(), None);
    let older = stopped.replace(r#""id":7"#, r#""id":9"#);
    assert_eq!(statistics(&older).stopped_with(), None);
}

#[test]
fn statistics_are_as_old_as_the_job_manager_caches_them() {
    let age = |options: &[(&str, &str)]| {
        let config = options.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        statistics_age_max(&config).map_err(|error| error.to_string())
    };
    let own = "rest.cache.checkpoint-statistics.timeout";
    assert_eq!(age(&[]), Ok(Duration::from_secs(3)));
    assert_eq!(age(&[("web.refresh-interval", "5000")]), Ok(Duration::from_secs(5)));
    assert_eq!(age(&[(own, "10 s")]), Ok(Duration::from_secs(10)));
    assert_eq!(age(&[(own, "1 s")]), Ok(Duration::from_secs(3)));
    assert!(age(&[(own, "10 min")]).unwrap_err().contains("to a minute or less"));
    assert!(age(&[(own, "soon")]).unwrap_err().contains("`soon`"));
}

#[test]
fn statistics_without_latest_are_no_answer() {
    assert!(wire::read::<CheckpointStatistics>(br#"{"counts":{}}"#).is_err());
}

proptest! {
    #[test]
    fn a_restore_never_goes_behind_the_newest(
        ids in proptest::array::uniform3(proptest::option::of(0_i64..5)),
        discarded in any::<[bool; 2]>(),
    ) {
        let taken = |id: Option<i64>, discarded| id.map(|id| Checkpoint {
            id: Some(id), external_path: Some(format!("p{id}")), discarded, ..Checkpoint::default()
        });
        let [completed, savepoint, restored] = ids;
        let statistics = CheckpointStatistics {
            latest: LatestCheckpoints {
                completed: taken(completed, discarded[0]),
                savepoint: taken(savepoint, discarded[1]),
                failed: None,
                restored: restored.map(|id| RestoredCheckpoint {
                    id: Some(id), external_path: Some(format!("p{id}")), ..RestoredCheckpoint::default()
                }),
            },
            ..CheckpointStatistics::default()
        };
        let newest = ids.into_iter().flatten().max();
        match statistics.last_state() {
            LastState::None => prop_assert_eq!(newest, None),
            LastState::At(point) => prop_assert_eq!(newest, Some(point.checkpoint_id)),
            LastState::Discarded { checkpoint_id, .. } => prop_assert_eq!(newest, Some(checkpoint_id)),
            LastState::NotAddressable { .. } => prop_assert!(false),
        }
    }
}
