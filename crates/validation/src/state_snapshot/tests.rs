use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::lines;

#[track_caller]
fn check(spec: Value, state: Option<SnapshotState>, has_target: bool, expected: Expect) {
    let spec = serde_json::from_value(spec).unwrap();
    let violations = validate(&StateSnapshotInput { spec: &spec, state, has_target });
    expected.assert_eq(&lines(&violations));
}

#[test]
fn s1_exactly_one_kind() {
    let job = json!({ "kind": "FlinkDeployment", "name": "a" });
    check(json!({ "savepoint": {}, "jobReference": job }), None, true, expect![""]);
    check(json!({ "checkpoint": {}, "jobReference": job }), None, true, expect![""]);
    let message = expect![[r#"
        spec: exactly one of `savepoint` and `checkpoint` must be set
    "#]];
    check(json!({ "jobReference": job }), None, true, message);
    check(
        json!({ "savepoint": {}, "checkpoint": {}, "jobReference": job }),
        None,
        true,
        expect![[r#"
            spec: exactly one of `savepoint` and `checkpoint` must be set
        "#]],
    );
}

#[test]
fn a_record_needs_nothing_else() {
    check(json!({ "savepoint": { "alreadyExists": true } }), None, false, expect![""]);
}

#[test]
fn s2_s3_a_new_snapshot_needs_its_job() {
    let job = json!({ "kind": "FlinkDeployment", "name": "a" });
    let spec = json!({ "savepoint": {}, "jobReference": job });
    check(
        json!({ "savepoint": {} }),
        None,
        false,
        expect![[r#"
            spec.jobReference: must be set to the `kind` and `name` of a job in this namespace
        "#]],
    );
    check(
        spec.clone(),
        Some(SnapshotState::TriggerPending),
        false,
        expect![[r#"
            spec.jobReference: there is no FlinkDeployment `a` in this namespace: create it first, or correct the name
        "#]],
    );
    check(spec, Some(SnapshotState::Completed), false, expect![""]);
}
