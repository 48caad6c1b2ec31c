use anyhow::Context;
use expect_test::{Expect, expect};

use super::*;

#[track_caller]
fn check(error: anyhow::Error, expected: Expect) {
    let (printer, transcript) = Printer::in_memory();
    let code = report(&error, FAILED, &printer);
    expected.assert_eq(&format!("{}exit {code:?}\n", transcript.error()));
}

#[test]
fn causes_and_hints_follow_the_error() {
    let error =
        Err::<(), _>(io::Error::other("disk is full")).context("while writing `x`").unwrap_err();
    check(
        Failure::new("`x` is not deployed").caused_by(error).hint("make room").into(),
        expect![[r#"
            error: `x` is not deployed
              caused by: while writing `x`
              caused by: disk is full
            hint: make room
            exit ExitCode(unix_exit_status(1))
        "#]],
    );
}

#[test]
fn kind_is_found_below_context() {
    let error = anyhow::Error::new(Failure::timed_out("`x` is not STABLE after 5m"))
        .context("while waiting");
    check(
        error,
        expect![[r#"
            error: while waiting
              caused by: `x` is not STABLE after 5m
            exit ExitCode(unix_exit_status(124))
        "#]],
    );
    check(
        Failure::usage("`--all` and a name exclude each other").into(),
        expect![[r#"
            error: `--all` and a name exclude each other
            exit ExitCode(unix_exit_status(2))
        "#]],
    );
}

#[test]
fn closed_pipe_is_silent() {
    check(
        io::Error::from(io::ErrorKind::BrokenPipe).into(),
        expect![[r#"
            exit ExitCode(unix_exit_status(1))
        "#]],
    );
}

#[test]
fn a_difference_is_distinguished_from_a_failure_of_who_compares() {
    check(
        Failure::differs().into(),
        expect![[r#"
            exit ExitCode(unix_exit_status(1))
        "#]],
    );
    let (printer, _transcript) = Printer::in_memory();
    let failed = report(&Failure::new("no").into(), NOT_COMPARED, &printer);
    assert_eq!(format!("{failed:?}"), "ExitCode(unix_exit_status(2))");
}
