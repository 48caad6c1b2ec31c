use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

fn check(config: &FlinkConfig, expected: Expect) {
    let lines: Vec<_> = config.iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    expected.assert_eq(&lines.concat());
}

#[test]
fn old_format_is_lines_with_comments_anywhere() {
    let text = "# comment\n\na: 1\nb : two words # rest\nurl: s3://b/x: y\nno pair\nempty: \nc:d\n: v\n'q': \"v\"\na: 2\n";
    check(
        &parse_flink_conf(text),
        expect![[r#"
            'q'="v"
            a=2
            b=two words
            url=s3://b/x: y
        "#]],
    );
    assert_eq!(skipped_lines(text), [6, 7, 8, 9]);
}

#[test]
fn standard_yaml_is_flattened() {
    let text = "a:\n  b.c: 1\n  d: [x, 2]\n  e: yes\n  f: true\n  g:\n\"h\": \"007\"\ni: 1.0\nj: on # comment\n";
    check(
        &parse_config_yaml(text).unwrap(),
        expect![[r#"
            a.b.c=1
            a.d=x;2
            a.e=yes
            a.f=true
            h=007
            i=1.0
            j=on
        "#]],
    );
    assert!(parse_config_yaml("").unwrap().is_empty());
    assert!(parse_config_yaml("# nothing\n").unwrap().is_empty());
}

#[test]
fn broken_yaml_is_an_error_with_its_line() {
    let error = parse_config_yaml("a: 1\na: 2\n").unwrap_err();
    assert!(error.message.contains('2'), "{error}");
    assert!(parse_config_yaml("just text").is_err());
    assert!(parse_config_yaml("- a\n").is_err());
}

#[test]
fn a_key_cannot_be_a_value_and_a_group() {
    let config: FlinkConfig = [("a.b", "1"), ("a.b-c", "2"), ("a.b.c", "3")].into_iter().collect();
    let error = nest(&config).unwrap_err();
    assert_eq!((error.key.as_str(), error.longer.as_str()), ("a.b", "a.b.c"));
}

#[test]
fn aliases_of_aliases_are_refused() {
    let line = |to: char, from: char| {
        format!("{to}: &{to} [{}]\n", vec![format!("*{from}"); 8].join(", "))
    };
    let text: String = ('b'..='h').zip('a'..).map(|(to, from)| line(to, from)).collect();
    let error = parse_config_yaml(&format!("a: &a [1, 1]\n{text}")).unwrap_err();
    assert!(error.message.contains("alias"), "{error}");
    assert!(parse_config_yaml("a: &a [1, 1]\nb: *a\n").is_ok());
}

proptest! {
    #[test]
    fn nested_options_flatten_back(
        entries in prop::collection::btree_map("[a-c$-]{0,3}(\\.[a-c]{0,2}){0,3}", "\\PC{0,12}", 0..12),
    ) {
        let config: FlinkConfig = entries.into_iter().collect();
        if let Ok(nested) = nest(&config) {
            let mut flat = FlinkConfig::new();
            flatten(&mut flat, None, &nested);
            prop_assert_eq!(&flat, &config);
            let yaml = serde_yaml::to_string(&nested).unwrap();
            prop_assert_eq!(parse_config_yaml(&yaml).unwrap(), config);
        }
    }

    #[test]
    fn what_survives_the_old_format_reads_back(value in "[a#:' \n\r]{1,8}|\\PC{1,12}") {
        let read = parse_flink_conf(&format!("k: {value}\n"));
        let is_trimmed = value.trim() == value && !value.is_empty();
        if survives_flink_conf(&value) && is_trimmed {
            prop_assert_eq!(read.get_text("k"), Some(value.as_str()));
        } else {
            prop_assert_ne!(read.get_text("k"), Some(value.as_str()));
        }
    }
}
