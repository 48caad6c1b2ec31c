use super::*;

#[test]
fn each_attempt_waits_twice_as_long_as_the_one_before() {
    let mut attempts = Attempts { generation: 1, ..Attempts::default() };
    let mut waits = Vec::new();
    let mut now = 1_000;
    for _ in 0..8 {
        let wait = attempts.recent(now).wait(now);
        waits.push(wait.as_secs());
        now += millis(wait);
        attempts = attempts.recent(now).next(now);
    }
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
}

#[test]
fn a_job_that_ran_for_long_starts_over() {
    let attempts = Attempts { count: 7, last: 0, generation: 1, deployed: 0 };
    assert_eq!(attempts.recent(599_999).wait(599_999), Duration::ZERO);
    assert_eq!(attempts.recent(599_999).count, 7);
    assert_eq!(attempts.recent(600_000).count, 0);
}

#[test]
fn another_spec_or_an_unreadable_count_starts_over() {
    let text = serde_json::json!(Attempts { count: 3, last: 5, generation: 2, deployed: 1 });
    let text = text.to_string();
    let stored: Attempts = serde_json::from_str(&text).unwrap();
    assert_eq!(stored.of_generation(2).unwrap().count, 3);
    assert_eq!(stored.of_generation(3), None);
}
