use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::*;
use crate::flink::wire;

#[track_caller]
fn check(body: &str, expected: Expect) {
    let status = wire::read::<StatusBody>(body.as_bytes()).and_then(savepoint_status);
    expected.assert_eq(&format!("{status:?}"));
}

#[test]
fn pending() {
    check(r#"{"status":{"id":"IN_PROGRESS"},"operation":null}"#, expect!["Ok(InProgress)"]);
}

#[test]
fn done() {
    check(
        r#"{"status":{"id":"COMPLETED"},"operation":{"location":"s3://b/savepoint-1"}}"#,
        expect![[r#"Ok(Completed { location: "s3://b/savepoint-1" })"#]],
    );
}

#[test]
fn failure_is_a_success_of_http() {
    check(
        r#"{"status":{"id":"COMPLETED"},"operation":{"failure-cause":{"class":"java.io.IOException","stack-trace":"java.io.IOException: disk","serialized-throwable":"rO0"}}}"#,
        expect![[
            r#"Ok(Failed(FailureCause { class: "java.io.IOException", stack_trace: "java.io.IOException: disk" }))"#
        ]],
    );
}

#[test]
fn job_that_failed_while_stopping_leaves_a_good_savepoint() {
    check(
        r#"{"status":{"id":"COMPLETED"},"operation":{"failure-cause":{"class":"java.util.concurrent.CompletionException","stack-trace":"java.util.concurrent.CompletionException: org.apache.flink.runtime.scheduler.stopwithsavepoint.StopWithSavepointStoppingException: A savepoint has been created at: file:/sp/savepoint-1, but the corresponding job 0123 failed during stopping. The savepoint is consistent, but might have uncommitted transactions.\n\tat x"}}}"#,
        expect![[
            r#"Ok(CompletedButStopFailed { location: "file:/sp/savepoint-1", cause: FailureCause { class: "java.util.concurrent.CompletionException", stack_trace: "java.util.concurrent.CompletionException: org.apache.flink.runtime.scheduler.stopwithsavepoint.StopWithSavepointStoppingException: A savepoint has been created at: file:/sp/savepoint-1, but the corresponding job 0123 failed during stopping. The savepoint is consistent, but might have uncommitted transactions.\n\tat x" } })"#
        ]],
    );
}

#[test]
fn neither_path_nor_failure_is_no_answer() {
    check(
        r#"{"status":{"id":"COMPLETED"},"operation":{}}"#,
        expect![[r#"Err("a completed savepoint has neither location nor failure")"#]],
    );
    check(
        r#"{"status":{"id":"COMPLETED"},"operation":{"location":""}}"#,
        expect![[r#"Err("a completed savepoint has neither location nor failure")"#]],
    );
    check(
        r#"{"status":{"id":"PAUSED"}}"#,
        expect![[r#"Err("unknown status `PAUSED` of a savepoint")"#]],
    );
}

#[test]
fn bodies_are_spelled_as_flink_spells_them() {
    let stop = StopBody {
        target_directory: Some("s3://b"),
        drain: false,
        trigger: Trigger::new(SavepointFormatType::Native, "1"),
    };
    expect![[
        r#"{"targetDirectory":"s3://b","drain":false,"formatType":"NATIVE","triggerId":"1"}"#
    ]]
    .assert_eq(&serde_json::to_string(&stop).unwrap());
    let savepoint = SavepointBody {
        target_directory: None,
        cancel_job: false,
        trigger: Trigger::new(SavepointFormatType::Canonical, "1"),
    };
    expect![[r#"{"cancel-job":false,"formatType":"CANONICAL","triggerId":"1"}"#]]
        .assert_eq(&serde_json::to_string(&savepoint).unwrap());
}

proptest! {
    #[test]
    fn no_text_of_a_cause_panics(class in ".*", stack_trace in "(.|A savepoint has been created at: |, but the corresponding job|\nCaused by: )*") {
        let cause = FailureCause { class, stack_trace };
        savepoint_of_failed_stop(&cause);
        prop_assert!(!cause.chain().is_empty());
        let (lines, left_out) = cause.head(5);
        prop_assert!(lines.len() <= 5);
        prop_assert!(left_out == 0 || lines.len() == 5);
    }
}
