use expect_test::{Expect, expect};

use super::*;

const RULES: Rules = Rules {
    duration: Duration::from_secs(15),
    renew_deadline: Duration::from_secs(10),
    retry_period: Duration::from_secs(2),
};

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn lease(holder: &str, version: u64) -> Lease {
    Lease {
        holder: (!holder.is_empty()).then(|| holder.to_owned()),
        version,
        renewal: format!("{holder} {version}"),
        duration: Some(RULES.duration),
    }
}

fn candidate() -> Candidate {
    Candidate::new("me", RULES)
}

/// Returns a candidate that has led since 100.
fn leader() -> Candidate {
    let mut candidate = candidate();
    candidate.see(Some(lease("", 0)), at(100));
    candidate.written(lease("me", 1), at(100), at(100));
    candidate
}

#[track_caller]
fn check(candidate: &Candidate, now: Duration, expected: Expect) {
    expected.assert_eq(&format!("{:?}", candidate.next(now)));
}

#[test]
fn a_new_candidate_reads_first() {
    check(&candidate(), at(0), expect!["Read"]);
}

#[test]
fn a_lease_that_never_was_is_made() {
    let mut candidate = candidate();
    candidate.see(None, at(7));
    check(&candidate, at(7), expect!["Create"]);
}

#[test]
fn a_lease_that_was_given_back_is_taken_at_once() {
    let mut candidate = candidate();
    candidate.see(Some(lease("other", 3)), at(7));
    candidate.see(Some(lease("", 4)), at(8));
    check(&candidate, at(8), expect!["Replace { version: 4 }"]);
}

#[test]
fn a_lease_of_another_is_taken_when_it_was_not_seen_to_be_renewed() {
    let mut candidate = candidate();
    candidate.see(Some(lease("other", 3)), at(100));
    check(&candidate, at(100), expect!["Wait { until: 115s }"]);
    candidate.see(Some(lease("other", 4)), at(110));
    check(&candidate, at(115), expect!["Wait { until: 125s }"]);
    check(&candidate, at(125), expect!["Replace { version: 4 }"]);
}

#[test]
fn to_read_again_and_to_see_the_same_makes_no_wait_longer() {
    let mut candidate = candidate();
    candidate.see(Some(lease("other", 3)), at(100));
    let labelled = Lease { version: 9, ..lease("other", 3) };
    candidate.see(Some(labelled), at(114));
    check(&candidate, at(115), expect!["Replace { version: 9 }"]);
}

#[test]
fn a_holder_is_given_the_time_that_it_asked_for() {
    let mut candidate = candidate();
    let long = Lease { duration: Some(at(60)), ..lease("other", 3) };
    candidate.see(Some(long), at(100));
    check(&candidate, at(150), expect!["Wait { until: 160s }"]);
}

#[test]
fn a_lease_that_is_deleted_under_its_holder_is_not_free_yet() {
    let mut candidate = candidate();
    candidate.see(Some(lease("other", 3)), at(100));
    candidate.see(None, at(105));
    check(&candidate, at(119), expect!["Wait { until: 120s }"]);
    candidate.see(None, at(119));
    check(&candidate, at(120), expect!["Create"]);
}

#[test]
fn a_leader_renews_with_pauses() {
    let leader = leader();
    check(&leader, at(101), expect!["Wait { until: 102s }"]);
    check(&leader, at(102), expect!["Replace { version: 1 }"]);
}

#[test]
fn a_leader_that_cannot_renew_steps_down_before_its_lease_ends() {
    let mut leader = leader();
    leader.failed(at(105));
    check(&leader, at(105), expect!["Wait { until: 107s }"]);
    check(&leader, at(107), expect!["Read"]);
    leader.failed(at(109));
    check(&leader, at(109), expect!["Wait { until: 110s }"]);
    check(&leader, at(110), expect!["StepDown(NotRenewed(10s))"]);
}

#[test]
fn a_renewal_counts_from_when_it_was_asked_for() {
    let mut leader = leader();
    leader.written(lease("me", 2), at(102), at(104));
    assert_eq!(leader.leads_until(at(104)), Some(at(112)));
}

#[test]
fn a_leader_whose_lease_was_taken_steps_down_at_once() {
    let mut leader = leader();
    leader.see(Some(lease("other", 2)), at(101));
    check(&leader, at(101), expect![[r#"StepDown(Taken("other"))"#]]);
}

#[test]
fn what_a_slow_watch_shows_of_the_past_is_no_news() {
    let mut leader = leader();
    leader.written(lease("me", 5), at(102), at(102));
    leader.see(Some(lease("other", 4)), at(103));
    check(&leader, at(103), expect!["Wait { until: 104s }"]);
}

#[test]
fn a_leader_makes_a_lease_anew_that_was_deleted() {
    let mut leader = leader();
    leader.see(None, at(101));
    check(&leader, at(102), expect!["Create"]);
}

#[test]
fn who_was_beaten_reads_at_once() {
    let mut candidate = candidate();
    candidate.see(None, at(7));
    candidate.was_beaten();
    check(&candidate, at(7), expect!["Read"]);
    candidate.see(Some(lease("other", 3)), at(7));
    check(&candidate, at(7), expect!["Wait { until: 22s }"]);
}

#[test]
fn a_write_of_ones_own_that_was_not_heard_of_is_gone_on_with() {
    let mut candidate = candidate();
    candidate.see(None, at(7));
    candidate.failed(at(8));
    check(&candidate, at(10), expect!["Read"]);
    candidate.see(Some(lease("me", 3)), at(10));
    check(&candidate, at(10), expect!["Replace { version: 3 }"]);
    assert_eq!(candidate.leads_until(at(10)), None, "when it was asked for is not known");
}

#[test]
fn who_made_the_lease_waits_for_one_that_may_have_had_it() {
    let mut candidate = candidate();
    candidate.see(None, at(100));
    candidate.written(lease("me", 1), at(100), at(101));
    assert_eq!(candidate.leads_until(at(101)), None);
    check(&candidate, at(101), expect!["Wait { until: 102s }"]);
    candidate.written(lease("me", 9), at(110), at(110));
    check(&candidate, at(110), expect!["Wait { until: 111s }"]);
    assert_eq!(candidate.leads_until(at(111)), Some(at(120)));
}

#[track_caller]
fn refused(entries: &[(&str, &str)], expected: Expect) {
    let config: FlinkConfig = entries
        .iter()
        .map(|(key, value)| (format!("kubernetes.operator.leader-election.{key}"), *value))
        .collect();
    expected.assert_eq(&Rules::of(&config).unwrap_err().to_string());
}

#[test]
fn rules_that_would_let_two_lead_are_refused() {
    assert_eq!(Rules::of(&FlinkConfig::new()), Ok(RULES));
    refused(
        &[("renew-deadline", "15 s")],
        expect![
            "invalid value `15s` of `kubernetes.operator.leader-election.renew-deadline`: expected less than the lease's 15s"
        ],
    );
    refused(
        &[("lease-duration", "500 ms")],
        expect![
            "invalid value `500ms` of `kubernetes.operator.leader-election.lease-duration`: expected one second to one hour"
        ],
    );
    refused(
        &[("retry-period", "6 s")],
        expect![
            "invalid value `6s` of `kubernetes.operator.leader-election.retry-period`: expected at most half of the renew deadline, 10s"
        ],
    );
}
