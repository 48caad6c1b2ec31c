use expect_test::{Expect, expect};

use super::*;

const HOUR: Duration = Duration::from_hours(1);

#[track_caller]
fn check(problems: &[String], expected: Expect) {
    let answer = told(problems);
    expected.assert_eq(&format!("{} {:?}", answer.status().as_u16(), answer.body()));
}

#[test]
fn a_process_that_starts_is_alive_and_not_ready() {
    let health = Health::default();
    check(&health.ailments(fence::now()), expect![[r#"200 b"OK\n""#]]);
    check(&health.hindrances(fence::now()), expect![[r#"500 b"ERROR\nit starts\n""#]]);
}

#[test]
fn one_that_waits_to_be_elected_is_ready() {
    let health = Health::default();
    health.stand_by();
    check(&health.hindrances(fence::now()), expect![[r#"200 b"OK\n""#]]);
}

#[test]
fn a_pass_that_does_not_end_is_named_as_long_as_it_runs() {
    let health = Health::default();
    let running = health.pass("FlinkDeployment shop/orders".to_owned());
    check(&health.ailments(fence::now()), expect![[r#"200 b"OK\n""#]]);
    check(
        &health.ailments(fence::now() + HOUR),
        expect![[r#"500 b"ERROR\na pass over FlinkDeployment shop/orders takes 3600 s\n""#]],
    );
    drop(running);
    check(&health.ailments(fence::now() + HOUR), expect![[r#"200 b"OK\n""#]]);
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
        expect![[r#"500 b"ERROR\nthe worker for FlinkSessionJob in shop has ended\n""#]],
    );
}

#[test]
fn a_watch_without_answers_is_alive_and_one_that_is_stuck_is_not() {
    let pulse = Pulse::default();
    let health = Health::new(pulse.clone());
    health.operate();
    pulse.note("/apis/flink.apache.org/v1beta1/flinkdeployments", false);
    let now = fence::now();
    check(&health.ailments(now), expect![[r#"200 b"OK\n""#]]);
    check(
        &health.hindrances(now),
        expect![[
            r#"500 b"ERROR\nthe watch of /apis/flink.apache.org/v1beta1/flinkdeployments gets no answer\n""#
        ]],
    );
    pulse.note("/apis/flink.apache.org/v1beta1/flinkdeployments", true);
    check(&health.hindrances(now), expect![[r#"200 b"OK\n""#]]);
    check(
        &health
            .ailments(now + HOUR)
            .iter()
            .map(|text| text.replace("3599", "3600"))
            .collect::<Vec<_>>(),
        expect![[
            r#"500 b"ERROR\nthe watch of /apis/flink.apache.org/v1beta1/flinkdeployments is stuck: 3600 s of silence\n""#
        ]],
    );
}
