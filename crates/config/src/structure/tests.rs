use proptest::prelude::*;

use super::*;

fn list(text: &str) -> Option<Vec<String>> {
    split_list(text)
}

#[test]
fn lists_are_separated_by_semicolons_only() {
    assert_eq!(list("a;b ; c"), Some(vec!["a".into(), "b".into(), "c".into()]));
    assert_eq!(list("https,s3"), Some(vec!["https,s3".into()]));
    assert_eq!(list("[a, 2, \"c;d\"]"), Some(vec!["a".into(), "2".into(), "c;d".into()]));
    assert_eq!(list("a;'b;c''d';\"e\""), Some(vec!["a".into(), "b;c'd".into(), "e".into()]));
    assert_eq!(list("a;;b"), Some(vec!["a".into(), String::new(), "b".into()]));
    assert_eq!(list(""), Some(vec![]));
    assert_eq!(list("'a"), None);
    assert_eq!(list("'a'b"), None);
}

#[test]
fn maps_are_pairs() {
    let map = |text| split_map(text).map(|map| join_map(&map));
    assert_eq!(map("b:2,a:1").as_deref(), Some("a:1,b:2"));
    assert_eq!(map("a:'x:y'").as_deref(), Some("'a:''x:y'''"));
    assert_eq!(map("{a: 1, b: x}").as_deref(), Some("a:1,b:x"));
    assert_eq!(map("").as_deref(), Some(""));
    assert_eq!(map("a"), None);
    assert_eq!(map("a:b:c"), None);
}

#[test]
fn only_what_needs_it_is_quoted() {
    assert_eq!(
        join_list(&["--a", "b c", "$HOME", "local:///a.jar"]),
        "--a;b c;$HOME;local:///a.jar"
    );
    assert_eq!(join_list(&["{\"x\": [1,2]}", "it's"]), "'{\"x\": [1,2]}';'it''s'");
    assert_eq!(join_list(&["- a", "-"]), "'- a';'-'");
    assert_eq!(
        join_map([("flinkdeployment.flink.apache.org/generation", "1")]),
        "flinkdeployment.flink.apache.org/generation:1"
    );
    assert_eq!(join_map([("k", "a:b")]), "'k:''a:b'''");
    assert_eq!(join_map([("k", "a,b")]), "'k:a,b'");
}

#[test]
fn a_list_of_yaml_is_written_as_flink_writes_it() {
    let items = serde_json::json!(["a", 2, true, "b;c", {"key": "k", "value": "x,y"}, ["d", "e"]]);
    let text = list_text(items.as_array().unwrap());
    expect_test::expect![[r#"a;2;true;'b;c';'key:k,''value:x,y''';'["d","e"]'"#]].assert_eq(&text);
    assert_eq!(list_text(&[]), "");
    let map = split_map(&split_list(&text).unwrap()[4]).unwrap();
    assert_eq!(map["value"], "x,y");
}

proptest! {
    #[test]
    fn lists_read_back(items in prop::collection::vec("[a-c;:,'\" \\[{]{0,6}|\\PC{0,8}", 0..5)) {
        prop_assert_eq!(split_list(&join_list(&items)), Some(items));
    }

    #[test]
    fn maps_read_back(entries in prop::collection::btree_map("[a-c;:,'\" \\[{]{0,6}", "[a-c;:,'\" ]{0,6}|\\PC{0,8}", 0..5)) {
        prop_assert_eq!(split_map(&join_map(&entries)), Some(entries));
    }
}
