use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn object() -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "metadata": {"name": "job", "namespace": "ns", "uid": "u1"},
        "spec": {"flinkVersion": "v1_20", "job": {"parallelism": 2}},
        "status": {"observedGeneration": 3}
    })
}

#[track_caller]
fn check_refusal(answer: Value, expected: Expect) {
    let refusal = mutated(Kind::FlinkDeployment, &object(), &answer).unwrap_err();
    expected.assert_eq(&refusal);
}

#[test]
fn a_list_is_a_patch_and_an_object_is_merged() {
    let patch = json!([
        {"op": "test", "path": "/spec/job/parallelism", "value": 2},
        {"op": "replace", "path": "/spec/job/parallelism", "value": 4},
        {"op": "add", "path": "/metadata/labels", "value": {"team": "a"}}
    ]);
    let merge = json!({"metadata": {"labels": {"team": "a"}}, "spec": {"job": {"parallelism": 4}}});
    let mut expected = object();
    expected["spec"]["job"]["parallelism"] = json!(4);
    expected["metadata"]["labels"] = json!({"team": "a"});
    for answer in [patch, merge] {
        assert_eq!(mutated(Kind::FlinkDeployment, &object(), &answer).unwrap(), expected);
    }
    for nothing in [json!(null), json!([]), json!({})] {
        assert_eq!(mutated(Kind::FlinkDeployment, &object(), &nothing).unwrap(), object());
    }
}

#[test]
fn which_object_it_is_cannot_be_changed() {
    for (field, value) in [
        ("name", json!("other")),
        ("namespace", json!("other")),
        ("uid", json!(null)),
        ("finalizers", json!([])),
        ("ownerReferences", json!([])),
    ] {
        let refusal =
            mutated(Kind::FlinkDeployment, &object(), &json!({"metadata": {field: value}}));
        let told = refusal.unwrap_err();
        assert!(told.contains(&format!("`metadata.{field}`")), "{told}");
    }
    check_refusal(
        json!({"status": null}),
        expect!["it changes `status`: a mutator can only change the spec, labels and annotations"],
    );
    check_refusal(
        json!({"kind": "FlinkSessionJob"}),
        expect!["it changes `kind`: a mutator can only change the spec, labels and annotations"],
    );
    check_refusal(
        json!([{"op": "remove", "path": "/metadata"}]),
        expect![
            "it changes `metadata.name`: a mutator can only change the spec, labels and annotations"
        ],
    );
}

#[test]
fn what_comes_out_is_still_an_object_of_its_kind() {
    check_refusal(
        json!({"spec": {"job": {"parallelism": "many"}}}),
        expect![
            "the object it produces is not a valid FlinkDeployment: spec.job.parallelism: expected \
             a whole number, found the text `many`"
        ],
    );
    check_refusal(
        json!({"spec": {"job": {"paralelism": 3}}}),
        expect![
            "the object it produces is not a valid FlinkDeployment: spec.job.paralelism: unknown \
             field; did you mean `parallelism`? allowed here: `allowNonRestoredState`, `args`, \
             `autoscalerResetNonce`, `checkpointTriggerNonce`, `entryClass`, \
             `initialSavepointPath`, `jarURI`, `parallelism`, `savepointRedeployNonce`, \
             `savepointTriggerNonce`, `state`, `upgradeMode`"
        ],
    );
    check_refusal(
        json!([{"op": "replace", "path": "/spec/x", "value": 1}]),
        expect![
            "its patch cannot be applied: operation '/0' failed at path '/spec/x': path is invalid"
        ],
    );
    check_refusal(
        json!([{"op": "shout"}]),
        expect![
            "its answer is not a JSON Patch: unknown variant `shout`, expected one of `add`, \
             `remove`, `replace`, `move`, `copy`, `test`"
        ],
    );
    check_refusal(
        json!("parallelism"),
        expect!["its answer is neither a JSON Patch nor an object to merge"],
    );
}

/// What a patch of forty operations would make of an object, no computer could hold.
#[test]
fn a_patch_that_grows_the_object_is_stopped_while_it_is_applied() {
    let copy = |to| json!({"op": "copy", "from": "/spec", "path": format!("/spec/a{to}")});
    check_refusal(
        (0..40).map(copy).collect(),
        expect!["operation 14 of its patch makes more than 1500000 bytes"],
    );
    // Each pair of operations wraps all that was there in a hundred levels.
    let levels = "/a".repeat(100);
    let deep = (0..100).fold(json!({}), |value, _| json!({"a": value}));
    let wrap = [
        json!({"op": "add", "path": "/spec/y", "value": deep}),
        json!({"op": "move", "from": "/spec/x", "path": format!("/spec/y{levels}/b")}),
        json!({"op": "move", "from": "/spec/y", "path": "/spec/x"}),
    ];
    let start = json!({"op": "add", "path": "/spec/x", "value": {}});
    check_refusal(
        [start].into_iter().chain(wrap.into_iter().cycle().take(900)).collect(),
        expect!["operation 5 of its patch makes more than 128 levels"],
    );
    // Large is not too large.
    let text = "x".repeat(100_000);
    let add = json!({"op": "add", "path": "/metadata/annotations", "value": {"a": text}});
    let copy =
        json!({"op": "copy", "from": "/metadata/annotations/a", "path": "/metadata/annotations/b"});
    assert!(mutated(Kind::FlinkDeployment, &object(), &json!([add, copy])).is_ok());
}

#[test]
fn the_difference_is_what_makes_one_object_of_the_other() {
    let (before, after) = (
        json!({"a": 1, "b": {"c": 1, "d": [1]}, "e": null}),
        json!({"b": {"c": 2, "d": [1]}, "f": {"g": 1}}),
    );
    let patch = difference(&before, &after);
    assert_eq!(patch, json!({"a": null, "e": null, "b": {"c": 2}, "f": {"g": 1}}));
    let mut merged = before;
    json_patch::merge(&mut merged, &patch);
    assert_eq!(merged, after);
    assert_eq!(difference(&after, &after), json!({}));
}
