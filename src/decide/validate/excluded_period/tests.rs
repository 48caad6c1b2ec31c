use expect_test::{Expect, expect};

use super::*;

#[track_caller]
fn accepted(entry: &str) {
    assert_eq!(check(entry), Ok(()), "{entry}");
}

#[track_caller]
fn refused(entry: &str, expected: Expect) {
    expected.assert_eq(&check(entry).unwrap_err());
}

#[test]
fn an_hour_beyond_counting_is_refused() {
    for entry in ["3647:0-4000:0", "0:0-4294967295:4294967295", "99999999999:0-1:0"] {
        assert!(check(entry).is_err(), "{entry}");
    }
}

#[test]
fn ranges_and_expressions() {
    for entry in [
        "9:30-10:50",
        "9:30:30-10:50:20",
        "* * 9-11,14-16 * * ?",
        "* * * ? * 2-6",
        "9:30:30-10:50:20 && * * * ? * 2,5",
        "* * * ? * mon-fri && 20:00-23:59",
        "0 0/5 14,18 * * ?",
        "0 15 10 L * ?",
        "0 15 10 L-2 * ?",
        "0 15 10 LW * ?",
        "0 15 10 15W * ?",
        "0 15 10 ? * 6L",
        "0 15 10 ? * FRIL",
        "0 15 10 ? * 6#3",
        "0 15 10 ? JAN-MAR * 2026-2030",
        "0 0 22-2 * * ?",
        "/10 * * * * ?",
    ] {
        accepted(entry);
    }
}

#[test]
fn what_is_neither() {
    refused(
        "10:00-9:00",
        expect![
            "`10:00-9:00` is neither a daily range such as `9:30-10:50:20` nor a Quartz cron expression (6 or 7 fields are needed, there are 1)"
        ],
    );
    refused(
        "0 60 * * * ?",
        expect![
            "`0 60 * * * ?` is neither a daily range such as `9:30-10:50:20` nor a Quartz cron expression (`60` is not a valid minutes)"
        ],
    );
    refused(
        "* * * * * *",
        expect![
            "`* * * * * *` is neither a daily range such as `9:30-10:50:20` nor a Quartz cron expression (one of day of month and day of week must be `?`)"
        ],
    );
    refused(
        "* * * ? * ?",
        expect![
            "`* * * ? * ?` is neither a daily range such as `9:30-10:50:20` nor a Quartz cron expression (only one of day of month and day of week can be `?`)"
        ],
    );
    refused(
        "0 0 0 ? * 8",
        expect![
            "`0 0 0 ? * 8` is neither a daily range such as `9:30-10:50:20` nor a Quartz cron expression (`8` is not a valid day of week)"
        ],
    );
}

#[test]
fn combinations() {
    refused(
        "9:00-10:00 && 11:00-12:00",
        expect!["the two parts must be a daily range and a cron expression"],
    );
    refused(
        "* * * ? * 2 && * * * ? * 3",
        expect!["the two parts must be a daily range and a cron expression"],
    );
    refused(
        "9:00-10:00 && * * * ? * 2 && * * * ? * 3",
        expect!["at most two parts can be joined by `&&`"],
    );
}
