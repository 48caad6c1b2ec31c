use proptest::prelude::*;
use serde_json::json;

use super::*;

#[track_caller]
fn check(arrays: ArrayMerge, base: Value, over: Value, expected: Value) {
    assert_eq!(merge(&base, &over, arrays), expected);
}

#[test]
fn objects_merge_and_nulls_delete_nothing() {
    check(
        ArrayMerge::ByPosition,
        json!({"a": 1, "b": {"c": 1, "d": 2}, "e": 5}),
        json!({"a": 2, "b": {"c": null, "x": {"unknown": true}}, "e": null, "f": 6}),
        json!({"a": 2, "b": {"c": 1, "d": 2, "x": {"unknown": true}}, "e": 5, "f": 6}),
    );
}

#[test]
fn by_position_elements_merge_and_scalars_of_the_base_stay() {
    check(
        ArrayMerge::ByPosition,
        json!([{"name": "a", "image": "x"}]),
        json!([{"name": "b"}, {"name": "c"}]),
        json!([{"name": "b", "image": "x"}, {"name": "c"}]),
    );
    check(ArrayMerge::ByPosition, json!(["a", "b"]), json!(["c"]), json!(["a", "b"]));
    check(ArrayMerge::ByPosition, json!(["a"]), json!(["b", "c"]), json!(["a", "c"]));
}

#[test]
fn by_name_elements_meet_wherever_they_stand() {
    check(
        ArrayMerge::ByName,
        json!([{"name": "a", "env": [{"name": "X", "value": "1"}]}, {"name": "b"}]),
        json!([{"name": "c"}, {"name": "a", "env": [{"name": "Y", "value": "2"}, {"name": "X", "value": "3"}]}]),
        json!([
            {"name": "a", "env": [{"name": "X", "value": "3"}, {"name": "Y", "value": "2"}]},
            {"name": "b"},
            {"name": "c"},
        ]),
    );
}

#[test]
fn by_name_the_last_of_a_repeated_name_wins() {
    check(
        ArrayMerge::ByName,
        json!([{"name": "a", "v": 1}, {"name": "b"}, {"name": "a", "v": 2}]),
        json!([]),
        json!([{"name": "a", "v": 2}, {"name": "b"}]),
    );
}

#[test]
fn without_names_position_decides_although_names_are_asked_for() {
    check(ArrayMerge::ByName, json!([{"key": "a"}]), json!([{"key": "b"}]), json!([{"key": "b"}]));
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![Just(json!(1)), Just(json!("x")), Just(json!(true))];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map("[a-c]|name", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn merging_a_value_with_itself_by_position_changes_nothing(value in json_value()) {
        prop_assert_eq!(merge(&value, &value, ArrayMerge::ByPosition), value);
    }

    #[test]
    fn merging_over_nothing_changes_nothing(value in json_value(), by_name in any::<bool>()) {
        let arrays = if by_name { ArrayMerge::ByName } else { ArrayMerge::ByPosition };
        prop_assert_eq!(merge(&value, &Value::Null, arrays), value.clone());
        prop_assert_eq!(merge(&Value::Null, &value, arrays), value);
    }
}
