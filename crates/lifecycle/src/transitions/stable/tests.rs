use expect_test::{Expect, expect};

use super::*;

fn rules() -> StableRules {
    StableRules { running_for: Duration::from_mins(1), checkpoints: 2, restarts_max: Some(0) }
}

#[track_caller]
fn check(rules: StableRules, ran: i64, restarts: Option<i64>, checkpoints: i64, expected: Expect) {
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let since = now - jiff::SignedDuration::from_secs(ran);
    let metrics = JobMetrics { restarts, completed_checkpoints: Some(checkpoints) };
    let text = match judge(&rules, now, since, &metrics) {
        Stability::Stable => "stable".to_owned(),
        Stability::Unproven { because, look_again } => format!("{because}: {look_again:?}"),
    };
    expected.assert_eq(&text);
}

#[test]
fn without_rules_a_running_job_is_stable() {
    check(StableRules::default(), 0, None, 0, expect!["stable"]);
}

#[test]
fn each_rule_is_reported_by_name() {
    check(rules(), 20, Some(0), 5, expect!["it must run for 60s first: 40s"]);
    check(rules(), 60, Some(0), 1, expect!["only 1 of 2 checkpoints have completed: 10s"]);
    check(rules(), 60, Some(1), 2, expect!["it restarted 1 times, more than 0: 10s"]);
    check(rules(), 60, Some(0), 2, expect!["stable"]);
}

#[test]
fn what_is_not_known_proves_nothing() {
    check(rules(), 60, None, 2, expect!["its number of restarts is unknown: 10s"]);
}
