use expect_test::{Expect, expect};

use super::*;

const HOUR: Duration = Duration::from_hours(1);

#[track_caller]
fn check(problems: &[String], expected: Expect) {
    let (status, body) = described(problems);
    expected.assert_eq(&format!("{} {body:?}", status.as_u16()));
}

#[test]
fn a_process_that_starts_is_alive_and_not_ready() {
    let health = Health::default();
    check(&health.ailments(fence::now()), expect![[r#"200 "OK\n""#]]);
    check(&health.hindrances(fence::now()), expect![[r#"500 "ERROR\nstarting\n""#]]);
}

#[test]
fn one_that_waits_to_be_elected_is_ready() {
    let health = Health::default();
    health.stand_by();
    check(&health.hindrances(fence::now()), expect![[r#"200 "OK\n""#]]);
}

#[test]
fn one_that_shares_the_work_reports_its_part_once_it_is_ready() {
    let health = Health::default();
    let described = || health.readiness(fence::now()).1;
    health.report_shards(8, &BTreeSet::new());
    assert_eq!(described(), "ERROR\nstarting\n");
    health.operate();
    assert_eq!(described(), "OK\nshards held: none of 8\n");
    health.report_shards(8, &[1, 4].into());
    assert_eq!(described(), "OK\nshards held: 1, 4 of 8\n");
}

#[test]
fn a_pass_that_does_not_end_is_named_as_long_as_it_runs() {
    let health = Health::default();
    let running = health.pass("FlinkDeployment shop/orders".to_owned());
    check(&health.ailments(fence::now()), expect![[r#"200 "OK\n""#]]);
    check(
        &health.ailments(fence::now() + HOUR),
        expect![[r#"500 "ERROR\na pass over FlinkDeployment shop/orders has taken 3600 s\n""#]],
    );
    drop(running);
    check(&health.ailments(fence::now() + HOUR), expect![[r#"200 "OK\n""#]]);
}

#[test]
fn a_worker_that_ends_by_itself_is_dead_and_one_that_is_stopped_is_not() {
    let health = Health::default();
    let stop = CancellationToken::new();
    drop(health.worker("FlinkSessionJob in shop".to_owned(), stop.clone()));
    stop.cancel();
    drop(health.worker("FlinkDeployment in shop".to_owned(), stop));
    check(
        &health.ailments(fence::now()),
        expect![[r#"500 "ERROR\nthe worker for FlinkSessionJob in shop has ended\n""#]],
    );
}

#[test]
fn a_watch_without_answers_is_alive_and_one_that_is_stuck_is_not() {
    let pulse = Pulse::default();
    let health = Health::new(pulse.clone());
    health.operate();
    pulse.note("/apis/flink.apache.org/v1beta1/flinkdeployments", false);
    let now = fence::now();
    check(&health.ailments(now), expect![[r#"200 "OK\n""#]]);
    check(
        &health.hindrances(now),
        expect![[
            r#"500 "ERROR\nthe watch of /apis/flink.apache.org/v1beta1/flinkdeployments gets no answer\n""#
        ]],
    );
    pulse.note("/apis/flink.apache.org/v1beta1/flinkdeployments", true);
    check(&health.hindrances(now), expect![[r#"200 "OK\n""#]]);
    check(
        &health
            .ailments(now + HOUR)
            .iter()
            .map(|text| text.replace("3599", "3600"))
            .collect::<Vec<_>>(),
        expect![[
            r#"500 "ERROR\nthe watch of /apis/flink.apache.org/v1beta1/flinkdeployments is stuck: 3600 s of silence\n""#
        ]],
    );
}

const MINUTE: Duration = Duration::from_mins(1);

fn change_canary(health: &Health, generation: i64) {
    let about = "FlinkDeployment shop/canary".to_owned();
    health.await_canary("u1", "shop", about, generation, MINUTE);
}

#[test]
fn a_canary_whose_change_is_not_seen_is_named() {
    let health = Health::default();
    assert_eq!(health.see_canary("u1", 1, MINUTE), Due::Now);
    change_canary(&health, 2);
    check(&health.ailments(fence::now()), expect![[r#"200 "OK\n""#]]);
    let described = health.ailments(fence::now() + HOUR);
    let [described] = described.as_slice() else { panic!("{described:?}") };
    assert!(
        described
            .starts_with("the change of canary FlinkDeployment shop/canary was not seen for 3"),
        "{described}"
    );
    // A look at the generation before does not see the change.
    let _later = health.see_canary("u1", 1, Duration::ZERO);
    assert_eq!(health.see_canary("u1", 1, Duration::ZERO), Due::In(Duration::ZERO));
    assert_eq!(health.ailments(fence::now() + HOUR).len(), 1);
}

#[test]
fn one_whose_change_was_seen_is_changed_again_after_a_while() {
    let health = Health::default();
    change_canary(&health, 2);
    let Due::In(left) = health.see_canary("u1", 2, MINUTE) else { panic!("it is due") };
    assert!(left > Duration::ZERO && left <= MINUTE, "{left:?}");
    check(&health.ailments(fence::now() + HOUR), expect![[r#"200 "OK\n""#]]);
    assert_eq!(health.see_canary("u1", 2, Duration::ZERO), Due::Now);
}

#[test]
fn a_canary_says_nothing_while_the_api_server_is_away_or_when_it_is_gone() {
    let pulse = Pulse::default();
    let health = Health::new(pulse.clone());
    let watch = "/apis/flink.apache.org/v1beta1/namespaces/shop/flinkdeployments";
    pulse.note(watch, true);
    change_canary(&health, 2);
    let described = |health: &Health| {
        let all = health.ailments(fence::now() + 2 * MINUTE);
        all.iter().filter(|text| text.contains("canary")).count()
    };
    // The watch is requested, and does not answer.
    pulse.note(watch, false);
    assert_eq!(described(&health), 0);
    while fence::now() <= health.state.lock().unwrap().canaries["u1"].made.1 {}
    pulse.note(watch, true);
    assert_eq!(described(&health), 1);
    health.forget_canary("u1");
    assert_eq!(described(&health), 0);
    change_canary(&health, 3);
    health.forget_scope(Some("fraud"));
    assert_eq!(health.state.lock().unwrap().canaries.len(), 1);
    health.forget_scope(Some("shop"));
    assert_eq!(health.state.lock().unwrap().canaries.len(), 0);
    assert_eq!(health.ailments(fence::now() + HOUR), [""; 0]);
}
