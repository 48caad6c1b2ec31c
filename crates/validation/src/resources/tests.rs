use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::*;
use crate::lines;

#[track_caller]
fn check(resources: Value, expected: Expect) {
    let resources: ResourceRequirements = serde_json::from_value(resources).unwrap();
    expected.assert_eq(&lines(&check_requirements("r", &resources)));
}

#[test]
fn sound_requirements() {
    check(
        json!({
            "requests": { "cpu": "500m", "memory": "2048m", "ephemeral-storage": "1Gi" },
            "limits": { "cpu": 1, "memory": "4Gi", "example.com/gpu": 1 }
        }),
        expect![""],
    );
    check(json!({}), expect![""]);
}

#[test]
fn r1_r2_r3_r4_unreadable_and_impossible_amounts() {
    check(
        json!({
            "requests": { "cpu": "0", "memory": "1.5Gi", "ephemeral-storage": "-1Gi" },
            "limits": { "cpu": "many", "memory": "0" }
        }),
        expect![[r#"
            r.requests.cpu: `0` must be positive
            r.requests.ephemeral-storage: `-1Gi` must not be negative
            r.requests.memory: invalid value `1.5Gi`: expected a whole number and one of b, kb, mb, gb or tb, such as `2048 mb`, or a quantity such as `2Gi`
            r.limits.cpu: invalid value `many`: expected a quantity such as `1`, `500m` or `2Gi`
            r.limits.memory: `0` must be positive
        "#]],
    );
}

/// Both sides are parsed in the same way: `2048m` is 2 GiB, not two bytes.
#[test]
fn r5_requests_above_limits() {
    check(
        json!({
            "requests": { "cpu": "1500m", "memory": "2049m" },
            "limits": { "cpu": 1, "memory": "2Gi" }
        }),
        expect![[r#"
            r.requests.cpu: `1500m` must not exceed the limit, which is `1`
            r.requests.memory: `2049m` must not exceed the limit, which is `2Gi`
        "#]],
    );
}

#[test]
fn deprecated_block() {
    let resource: Resource = serde_json::from_value(
        json!({ "cpu": -1, "memory": "2 pounds", "ephemeralStorage": "2048 mb" }),
    )
    .unwrap();
    expect![[r#"
        r.cpu: `-1` must not be negative
        r.memory: invalid value `2 pounds`: expected a whole number and one of b, kb, mb, gb or tb, such as `2048 mb`, or a quantity such as `2Gi`
        r.ephemeralStorage: invalid value `2048 mb`: expected a quantity such as `1`, `500m` or `2Gi`
    "#]]
    .assert_eq(&lines(&check_resource("r", &resource)));
}

#[test]
fn memory_that_counts() {
    let stated = |resource: Value, resources: Value| {
        stated_memory(
            Some(&serde_json::from_value(resource).unwrap()),
            Some(&serde_json::from_value(resources).unwrap()),
        )
        .map(|(field, text)| format!("{field}={text}"))
    };
    let limits = json!({ "limits": { "memory": "2Gi" } });
    let both = json!({ "limits": { "memory": "2Gi" }, "requests": { "memory": "1Gi" } });
    assert_eq!(stated(json!({}), both).as_deref(), Some("resources.requests.memory=1Gi"));
    assert_eq!(
        stated(json!({ "memory": "1g" }), limits).as_deref(),
        Some("resources.limits.memory=2Gi")
    );
    assert_eq!(stated(json!({ "memory": "1g" }), json!({})).as_deref(), Some("resource.memory=1g"));
    assert_eq!(stated(json!({ "memory": " " }), json!({})), None);
}
