use expect_test::{Expect, expect};

use super::*;
use clients::flink::sql_gateway::Change;

fn column(name: &str, kind: &str) -> Column {
    Column { name: name.to_owned(), kind: kind.to_owned() }
}

fn page(rows: Vec<(Change, Vec<Value>)>, next: Option<u64>) -> Page {
    Page {
        is_query: true,
        columns: vec![column("id", "INTEGER"), column("name", "VARCHAR")],
        rows: rows.into_iter().map(|(change, fields)| Row { change, fields }).collect(),
        next,
        ..Page::default()
    }
}

#[track_caller]
fn check(format: ResultFormat, is_stream: bool, pages: &[Page], expected: Expect) {
    let (printer, transcript) = Printer::in_memory();
    let mut writer = Writer::new(format, 2);
    for page in pages {
        writer.page(page, is_stream, &printer).unwrap();
    }
    expected.assert_eq(&transcript.output());
}

fn result() -> [Page; 3] {
    [
        page(vec![], Some(0)),
        page(
            vec![
                (Change::Insert, vec![json!(1), json!("a,\"b\"")]),
                (Change::Insert, vec![json!(22), Value::Null]),
            ],
            Some(1),
        ),
        page(
            vec![
                (Change::UpdateBefore, vec![json!(1), json!("a")]),
                (Change::UpdateAfter, vec![json!(1), json!("two\nlines \u{1b}[2J")]),
            ],
            None,
        ),
    ]
}

#[test]
fn a_stream_says_what_each_row_does() {
    check(
        ResultFormat::Table,
        true,
        &result(),
        expect![[r#"
            op         id   name
            +I          1   a,"b"
            +I         22   <NULL>
            -U          1   a
            +U          1   two\nlines \u{1b}[2J
        "#]],
    );
    check(
        ResultFormat::Csv,
        true,
        &result(),
        expect![[r#"
            op,id,name
            +I,1,"a,""b"""
            +I,22,
            -U,1,a
            +U,1,"two
            lines "
        "#]],
    );
}

#[test]
fn a_complete_result_has_rows_only() {
    let complete = page(vec![(Change::Insert, vec![json!(1), json!("größer")])], None);
    check(
        ResultFormat::Table,
        false,
        std::slice::from_ref(&complete),
        expect![[r#"
            id   name
             1   größer
        "#]],
    );
    check(
        ResultFormat::Csv,
        false,
        &[complete],
        expect![[r#"
            id,name
            1,größer
        "#]],
    );
}

/// Programs parse this: fields may be added, but none may be removed or change its meaning.
#[test]
fn json_is_one_object_a_line() {
    check(
        ResultFormat::Json,
        true,
        &result(),
        expect![[r#"
            {"statement":2,"op":"+I","row":{"id":1,"name":"a,\"b\""}}
            {"statement":2,"op":"+I","row":{"id":22,"name":null}}
            {"statement":2,"op":"-U","row":{"id":1,"name":"a"}}
            {"statement":2,"op":"+U","row":{"id":1,"name":"two\nlines \u001b[2J"}}
        "#]],
    );
    let job = Page {
        job_id: Some("0123".to_owned()),
        columns: vec![column("job id", "VARCHAR")],
        rows: vec![Row { change: Change::Insert, fields: vec![json!("0123")] }],
        ..Page::default()
    };
    check(
        ResultFormat::Json,
        true,
        std::slice::from_ref(&job),
        expect![[r#"
        {"statement":2,"jobId":"0123"}
    "#]],
    );
    check(
        ResultFormat::Table,
        true,
        &[job],
        expect![[r#"
        job id
        0123
    "#]],
    );
}

#[test]
fn no_rows_have_their_columns_all_the_same() {
    check(
        ResultFormat::Table,
        false,
        &[page(vec![], None)],
        expect![[r#"
        id   name
    "#]],
    );
    check(ResultFormat::Json, false, &[page(vec![], None)], expect![""]);
}
