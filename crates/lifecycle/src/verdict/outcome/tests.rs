use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const V3: Version = Version { generation: 3, session: None };

fn opinion(on_failure: FailurePolicy, answer: Result<&[&str], &str>) -> Opinion {
    let violation = |message: &&str| Violation::new("spec.job", *message);
    Opinion {
        validator: "policy".to_owned(),
        on_failure,
        answer: answer.map(|all| all.iter().map(violation).collect()).map_err(str::to_owned),
    }
}

fn validators(version: Version, opinions: Vec<Opinion>) -> Validators {
    let verdict = Verdict::Given(opinions);
    let remembered = Some(Remembered { version, verdict, at: NOW, attempts: 1 });
    Validators { has_any: true, remembered }
}

#[test]
fn without_validators_nobody_is_asked() {
    let outcome = Validators::default().judge(V3, NOW, &Fact::NotAsked, "ask");
    assert_eq!(outcome, Ok(Outcome::default()));
}

#[test]
fn a_version_is_asked_about_once() {
    let accepted = validators(V3, vec![opinion(FailurePolicy::Fail, Ok(&[]))]);
    assert_eq!(accepted.judge(V3, NOW, &Fact::NotAsked, "ask"), Ok(Outcome::default()));
    let newer = Version { generation: 4, ..V3 };
    assert_eq!(accepted.judge(newer, NOW, &Fact::NotAsked, "ask"), Err("ask"));
    let elsewhere = Version { session: Some(1), ..V3 };
    assert_eq!(accepted.judge(elsewhere, NOW, &Fact::NotAsked, "ask"), Err("ask"));
}

#[test]
fn all_violations_come_together() {
    let both = validators(
        V3,
        vec![
            opinion(FailurePolicy::Fail, Ok(&["one", "two"])),
            opinion(FailurePolicy::Ignore, Ok(&["three"])),
        ],
    );
    let outcome = both.judge(V3, NOW, &Fact::NotAsked, "ask").unwrap();
    let messages: Vec<&str> = outcome.violations.iter().map(|v| v.message.as_str()).collect();
    assert_eq!(messages, ["one", "two", "three"]);
    assert_eq!(outcome.hold, None);
}

#[test]
fn one_that_gives_no_answer_holds_the_change_back_and_is_asked_again_after_a_pause() {
    let away = validators(V3, vec![opinion(FailurePolicy::Fail, Err("it answered 503"))]);
    let hold = away.judge(V3, NOW, &Fact::NotAsked, "ask").unwrap().hold.unwrap();
    assert_eq!(hold.look_again, Duration::from_secs(5));
    assert!(hold.because.contains("validator `policy` did not answer: it answered 503"));
    assert_eq!(hold.problem().unwrap().reason, "ValidatorUnavailable");
    let later = NOW + jiff::SignedDuration::from_secs(5);
    assert_eq!(away.judge(V3, later, &Fact::NotAsked, "ask"), Err("ask"));
    let known = away.remembered.clone().unwrap().verdict;
    let hold = away.judge(V3, later, &Fact::Known(known), "ask").unwrap().hold.unwrap();
    assert!(hold.look_again > Duration::from_secs(5), "the next pause is longer");
}

#[test]
fn one_that_is_ignored_holds_nothing_back() {
    let away = validators(V3, vec![opinion(FailurePolicy::Ignore, Err("it answered 503"))]);
    assert_eq!(away.judge(V3, NOW, &Fact::NotAsked, "ask"), Ok(Outcome::default()));
}

#[test]
fn a_verdict_that_is_awaited_is_no_problem() {
    let fact = Fact::Known(Verdict::Pending { before: vec![] });
    let none = Validators { has_any: true, remembered: None };
    let hold = none.judge(V3, NOW, &fact, "ask").unwrap().hold.unwrap();
    assert_eq!(hold.problem(), None);
}

/// Otherwise the status would change twice with each attempt.
#[test]
fn what_is_reported_stays_while_a_validator_is_asked_again() {
    let away = vec![opinion(FailurePolicy::Fail, Err("it answered 503"))];
    let given = validators(V3, away.clone()).judge(V3, NOW, &Fact::NotAsked, "ask").unwrap();
    let mut again = validators(V3, vec![]);
    again.remembered.as_mut().unwrap().verdict = Verdict::Pending { before: away };
    let pending = again.judge(V3, NOW, &Fact::NotAsked, "ask").unwrap();
    let problem = |outcome: Outcome| outcome.hold.unwrap().problem();
    assert_eq!(problem(given), problem(pending));
}
