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
            "`10:00-9:00` is neither a daily range such as `9:30-10:50:20` nor a Quartz cron \
             expression (expected 6 or 7 fields, found 1)"
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

#[test]
fn a_time_is_within_all_parts_of_a_period() {
    let contains = |period: &str, time: &str, zone: &TimeZone| {
        ExcludedPeriod::parse(period).unwrap().contains(time.parse().unwrap(), zone)
    };
    // A Wednesday.
    let utc =
        |period: &str, time: &str| contains(period, &format!("2026-03-04T{time}Z"), &TimeZone::UTC);
    for (period, time, is_within) in [
        ("9:30-10:50:20", "09:29:59.999", false),
        ("9:30-10:50:20", "09:30:00", true),
        ("9:30-10:50:20", "10:50:20", true),
        ("9:30-10:50:20", "10:50:20.001", false),
        ("9:30:0:5-9:30:0:7", "09:30:00.006", true),
        ("* * 9-10 * * ?", "10:59:59.5", true),
        ("* * 9-10 * * ?", "11:00:00", false),
        ("0 0 12 * * ?", "12:00:00.999", true),
        ("0 0 12 * * ?", "12:00:01", false),
        ("* * * ? * 4", "00:00:00", true),
        ("* * * ? * 5", "00:00:00", false),
        ("9:00-10:00 && * * * ? * WED", "09:30:00", true),
        ("9:00-10:00 && * * * ? * WED", "10:30:00", false),
        ("9:00-10:00 && * * * ? * THU", "09:30:00", false),
    ] {
        assert_eq!(utc(period, time), is_within, "{period} {time}");
    }
    let east = TimeZone::fixed(jiff::tz::offset(2));
    assert!(contains("9:00-10:00", "2026-03-04T07:30:00Z", &east));
    assert!(!contains("9:00-10:00", "2026-03-04T09:30:00Z", &east));
}
