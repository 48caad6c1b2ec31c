//! SQL scripts, as people write them and programs generate them.

use kubectl_flink::cli::sql::statements::{Split, Statement, split};

use super::{Target, fuzz_text};

#[test]
fn a_script_falls_into_statements_that_stay_what_they_are() {
    let words = &[
        ";",
        "--",
        "/*",
        "*/",
        "/*+",
        "'",
        "''",
        "\"",
        "`",
        "\n",
        "\r\n",
        "STATEMENT",
        " SET ",
        "BEGIN ",
        "END",
        "CASE ",
        "EXECUTE ",
        "SELECT 1",
        "-",
        "/",
        "$",
        "ä",
        "\u{2028}",
    ];
    let target = Target { name: "sql", words, bytes_max: 16 << 10, outcomes_min: 24 };
    fuzz_text(&target, |script| {
        let found = split(script);
        let Split { statements, rest, open } = &found;
        let all = || statements.iter().chain(rest);
        let lines = script.split('\n').collect::<Vec<_>>();
        let (mut at, mut line_before) = (0, 1);
        for Statement { text, line } in all() {
            // In order and complete: what is between two statements has no effect.
            let start = script[at..].find(text.as_str()).expect("it is of the script");
            at += start + text.len();
            // An unterminated text includes everything after it.
            assert!(!text.is_empty() && (open.is_some() || text.trim() == text), "`{text}`");
            assert!(*line >= line_before, "line {line} after {line_before}");
            let first = text.split('\n').next().unwrap();
            assert!(lines[line - 1].contains(first), "`{first}` is not in line {line}");
            line_before = *line;
        }
        for statement in statements {
            let again = split(&format!("{};", statement.text));
            let texts = again.statements.iter().map(|it| &it.text).collect::<Vec<_>>();
            assert_eq!((texts, &again.rest), (vec![&statement.text], &None), "alone");
        }
        let is_open = open.is_some_and(|open| open.line <= lines.len());
        assert_eq!(is_open, open.is_some(), "{open:?} of {} lines", lines.len());
        // Written again without what is between the statements, it is the same script.
        let texts = |of: &Split| {
            let all = of.statements.iter().chain(&of.rest);
            all.map(|it| it.text.clone()).collect::<Vec<_>>()
        };
        let written = texts(&found).join("\n;");
        assert_eq!(texts(&split(&written)), texts(&found), "written again");
        let open = open.map_or("", |open| open.what);
        format!("{} {} {open}", statements.len().min(20), rest.is_some())
    });
}
