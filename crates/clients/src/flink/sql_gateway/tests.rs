use expect_test::{Expect, expect};
use serde_json::json;

use super::*;

fn fetched(answer: Value) -> Fetched {
    serde_json::from_value::<wired::Answer>(answer).unwrap().into()
}

#[test]
fn a_page_of_a_query_has_changes_and_the_token_of_the_next() {
    let answer = json!({
        "resultType": "PAYLOAD", "isQueryResult": true, "jobID": "0123", "resultKind": "SUCCESS_WITH_CONTENT",
        "results": {
            "columns": [{"name": "id", "logicalType": {"type": "INTEGER", "nullable": false}, "comment": null},
                {"name": "n", "logicalType": {"type": "BIGINT", "nullable": true}, "comment": null}],
            "rowFormat": "JSON",
            "data": [{"kind": "INSERT", "fields": [1, null]}, {"kind": "UPDATE_AFTER", "fields": [1, 2]}],
        },
        "nextResultUri": "/v2/sessions/a/operations/b/result/7?rowFormat=JSON",
    });
    let Fetched::Page(page) = fetched(answer) else { panic!("a page") };
    assert!(page.is_query && !page.is_plain_success);
    assert_eq!((page.job_id.as_deref(), page.next), (Some("0123"), Some(7)));
    assert_eq!(page.columns[1], Column { name: "n".to_owned(), kind: "BIGINT".to_owned() });
    let changes = page.rows.iter().map(|row| row.change.as_str()).collect::<Vec<_>>();
    assert_eq!(changes, ["+I", "+U"]);
    assert_eq!(page.rows[0].fields, [json!(1), Value::Null]);
}

#[test]
fn the_last_page_and_one_that_is_not_ready_are_distinguished() {
    let uri = "/v2/sessions/a/operations/b/result/0?rowFormat=JSON";
    let waiting = fetched(json!({"resultType": "NOT_READY", "nextResultUri": uri}));
    assert_eq!(waiting, Fetched::NotReady);
    let end = json!({"resultType": "EOS", "isQueryResult": false, "resultKind": "SUCCESS", "results": {"columns": [], "data": []}});
    let Fetched::Page(page) = fetched(end) else { panic!("a page") };
    assert!(page.is_plain_success && page.next.is_none() && page.rows.is_empty());
}

#[track_caller]
fn check(text: &str, expected: Expect) {
    let cause::Cause { message, position, whole } = cause::of_text(text);
    assert!(text.contains(&whole));
    expected.assert_eq(&format!("{message}\n{position:?}"));
}

#[test]
fn the_innermost_cause_is_reported_with_its_place() {
    check(
        "Internal server error.\n<Exception on server side:\n\
         org.apache.flink.table.gateway.service.utils.SqlExecutionException: Failed to execute the operation 1.\n\
         \tat org.apache.flink.table.gateway.service.operation.X(X.java:1)\n\
         Caused by: org.apache.flink.table.api.ValidationException: SQL validation failed. From line 2, column 15 to line 2, column 17: Object 'foo' not found\n\
         \tat org.apache.flink.Y(Y.java:1)\n\t... 7 more\n\
         Caused by: org.apache.calcite.sql.validate.SqlValidatorException: Object 'foo' not found\n\
         \tat java.base/Z(Z.java:1)\n\t... 12 more\n\nEnd of exception on server side>",
        expect![[r#"
            Object 'foo' not found
            Some((2, 15))"#]],
    );
}

#[test]
fn lists_are_on_one_line_and_names_that_say_something_stay() {
    check(
        "org.apache.flink.table.api.ValidationException: Could not find any factory for identifier 'kafka' in the classpath.\n\nAvailable factory identifiers are:\n\nblackhole\ndatagen\nprint\n\tat a.B(C.java:1)",
        expect![[r#"
            Could not find any factory for identifier 'kafka' in the classpath.
            Available factory identifiers are: blackhole, datagen, print
            None"#]],
    );
    check(
        "x.Y: a\nCaused by: java.lang.ClassNotFoundException: com.example.Udf\n\tat a.B(C.java:1)",
        expect![[r#"
            ClassNotFoundException: com.example.Udf
            None"#]],
    );
    check(
        "org.apache.flink.table.api.TableException: org.apache.flink.util.FlinkException: no slots",
        expect![[r#"
            no slots
            None"#]],
    );
    check(
        "Caused by: java.lang.NullPointerException\n\tat a.B(C.java:1)",
        expect![[r#"
            NullPointerException
            None"#]],
    );
}

#[test]
fn texts_without_a_trace_are_reported_as_they_are() {
    check(
        "Session 'x' does not exist.",
        expect![[r#"
            Session 'x' does not exist.
            None"#]],
    );
    check(
        "",
        expect![[r#"
            without a reason
            None"#]],
    );
}
