use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;

#[track_caller]
fn check(script: &str, expected: Expect) {
    let Split { statements, rest, open } = split(script);
    let described = |mark: char, line: usize, text: &str| format!("{line}{mark} {text}\n");
    let statements = statements.iter().map(|it| described(':', it.line, &it.text));
    let rest = rest.iter().map(|it| described('>', it.line, &it.text));
    let open = open.iter().map(|it| described('!', it.line, it.what));
    let lines = statements.chain(rest).chain(open).collect::<Vec<_>>().concat();
    expected.assert_eq(&lines);
}

#[test]
fn statements_end_at_semicolons() {
    check(
        "CREATE TABLE a (x INT);\n\nSELECT 1; ;;\n  SELECT 2\n",
        expect![[r#"
            1: CREATE TABLE a (x INT)
            3: SELECT 1
            4> SELECT 2
        "#]],
    );
    check(" \n;\n-- nothing\n", expect![""]);
}

#[test]
fn semicolons_in_texts_names_and_comments_end_nothing() {
    check(
        "SELECT 'it''s; fine', `a;b`, \"c;d\" -- no; end\n FROM t /* ; */;\nSELECT 2 -- the last",
        expect![[r#"
            1: SELECT 'it''s; fine', `a;b`, "c;d" -- no; end
             FROM t
            3> SELECT 2
        "#]],
    );
    check(
        "SELECT '--'; SELECT '/*';",
        expect![[r#"
        1: SELECT '--'
        1: SELECT '/*'
    "#]],
    );
}

#[test]
fn a_hint_belongs_to_its_statement() {
    check(
        "SELECT * FROM t /*+ OPTIONS('a'='b') */;\n/* not this */ SELECT 1;",
        expect![[r#"
            1: SELECT * FROM t /*+ OPTIONS('a'='b') */
            2: SELECT 1
        "#]],
    );
}

#[test]
fn a_set_of_statements_is_one() {
    check(
        "EXECUTE STATEMENT SET BEGIN\nINSERT INTO a SELECT CASE WHEN x THEN 1 END;\nINSERT INTO b SELECT 2;\nEND;\nSELECT 3;",
        expect![[r#"
            1: EXECUTE STATEMENT SET BEGIN
            INSERT INTO a SELECT CASE WHEN x THEN 1 END;
            INSERT INTO b SELECT 2;
            END
            5: SELECT 3
        "#]],
    );
    check(
        "begin statement set;\ninsert into a select 1;\nend;",
        expect![[r#"
            1: begin statement set
            2: insert into a select 1
            3: end
        "#]],
    );
    check(
        "SET 'a' = 'b'; BEGIN;",
        expect![[r#"
        1: SET 'a' = 'b'
        1: BEGIN
    "#]],
    );
}

#[test]
fn what_is_open_at_the_end_is_reported_with_its_line() {
    check(
        "SELECT 1;\nSELECT 'a;\nb",
        expect![[r#"
        1: SELECT 1
        2> SELECT 'a;
        b
        2! string '…'
    "#]],
    );
    check(
        "SELECT 1\n/* x;",
        expect![[r#"
        1> SELECT 1
        2! comment /* … */
    "#]],
    );
    check(
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;",
        expect![[r#"
        1> EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT 1;
    "#]],
    );
}

/// A part of a statement in which no semicolon ends a statement.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z_][a-zA-Z0-9_]{0,6}",
        "[0-9]{1,4}",
        "'([^']|'')*'",
        "`[^`]*`",
        "/\\*[^*]*\\*/".prop_filter("no hint", |text| !text.starts_with("/*+")),
        "--[^\n]*\n",
        Just("größer".to_owned()),
        Just("(".to_owned()),
        Just("\n".to_owned()),
    ]
}

proptest! {
    #[test]
    fn what_is_joined_by_semicolons_comes_apart_again(
        parts in prop::collection::vec(prop::collection::vec(piece(), 0..8), 0..6)
    ) {
        // Start with a word, so that each is a statement; none of them opens a set.
        let texts = parts
            .into_iter()
            .map(|pieces| format!("SELECT {} x", pieces.join(" ")))
            .filter(|text| !text.to_uppercase().contains("STATEMENT"))
            .collect::<Vec<_>>();
        let found = split(&texts.join(";"));
        prop_assert_eq!(found.open, None);
        let mut all = found.statements;
        all.extend(found.rest);
        let found = all.into_iter().map(|statement| statement.text).collect::<Vec<_>>();
        prop_assert_eq!(found, texts);
    }
}
