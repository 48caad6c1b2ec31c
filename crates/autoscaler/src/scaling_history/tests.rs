use super::*;
use crate::settings::tests::settings;
use crate::topology::{Counters, Vertex};

fn at(hour: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + hour * 3600).unwrap()
}

fn scaling(current: u32, new: u32) -> Scaling {
    Scaling { current, new, figures: Figures::default() }
}

fn hours(of_vertex: Option<&VertexHistory>) -> Vec<i64> {
    let times = of_vertex.into_iter().flat_map(BTreeMap::keys);
    times.map(|time| (time.as_second() - at(0).as_second()) / 3600).collect()
}

/// A job of one vertex `a`.
fn topology(parallelism: u32) -> Topology {
    let vertex = Vertex {
        parallelism,
        max_parallelism: 128,
        inputs: BTreeMap::new(),
        partitions: None,
        slot_sharing_group: None,
        is_finished: false,
        counters: Counters::default(),
    };
    Topology::new([("a".into(), vertex)].into()).unwrap()
}

#[test]
fn section_7_the_past_is_limited_by_age_and_count() {
    let of = |hours: &[i64]| hours.iter().map(|hour| (at(*hour), scaling(1, 2))).collect();
    let mut history: ScalingHistory = [
        ("many".into(), of(&[10, 11, 12, 13])),
        ("old".into(), of(&[0, 5, 6])),
        ("gone".into(), of(&[0, 1])),
    ]
    .into();
    let reason = Reason { rule: "computed parallelism".to_owned(), number: 2.0 };
    let of = |hours: &[i64]| hours.iter().map(|hour| (at(*hour), reason.clone())).collect();
    let mut reasons: Reasons = [("many".into(), of(&[10, 13])), ("gone".into(), of(&[0]))].into();
    trim(&mut history, at(29), &settings(&[]));
    trim_reasons(&mut reasons, &history);
    assert_eq!(reasons, [("many".into(), of(&[13]))].into());
    assert_eq!(hours(history.get(&"many".into())), [11, 12, 13]);
    // A day ago is not too old.
    assert_eq!(hours(history.get(&"old".into())), [5, 6]);
    assert_eq!(history.get(&"gone".into()), None);
}

#[test]
fn the_last_restart_always_stays() {
    let mut restarts: Restarts = [(at(0), None), (at(1), None)].into();
    trim_restarts(&mut restarts, at(100), &settings(&[]));
    assert_eq!(restarts.keys().copied().collect::<Vec<_>>(), [at(1)]);
    trim_restarts(&mut restarts, at(1), &settings(&[("history.max.count", "0")]));
    assert_eq!(restarts.len(), 1);
}

#[test]
fn a_restart_is_measured_once_the_job_runs_as_was_asked() {
    let history: ScalingHistory = [("a".into(), [(at(0), scaling(1, 2))].into())].into();
    let running_since = later(at(0), 65);
    let mut restarts: Restarts = [(at(0), None)].into();
    note_restart(&mut restarts, &history, &topology(1), running_since);
    assert_eq!(restarts[&at(0)], None);
    note_restart(&mut restarts, &history, &topology(2), at(-1));
    assert_eq!(restarts[&at(0)], None, "the job has not restarted yet");
    note_restart(&mut restarts, &history, &topology(2), running_since);
    assert_eq!(restarts[&at(0)], Some(SignedDuration::from_secs(65)));
    // It stays at the first measurement.
    note_restart(&mut restarts, &history, &topology(2), at(5));
    assert_eq!(restarts[&at(0)], Some(SignedDuration::from_secs(65)));
}

#[test]
fn without_its_scaling_a_restart_is_not_measured() {
    let mut restarts: Restarts = [(at(0), None)].into();
    note_restart(&mut restarts, &ScalingHistory::new(), &topology(2), at(1));
    let elsewhere: ScalingHistory = [("b".into(), [(at(0), scaling(1, 2))].into())].into();
    note_restart(&mut restarts, &elsewhere, &topology(2), at(1));
    assert_eq!(restarts[&at(0)], None);
}

fn later(time: Timestamp, seconds: i64) -> Timestamp {
    time + SignedDuration::from_secs(seconds)
}

#[test]
fn section_7_the_longest_restart_counts_up_to_a_limit() {
    let restarts: Restarts = [
        (at(0), Some(SignedDuration::from_millis(65_900))),
        (at(1), Some(SignedDuration::from_secs(30))),
        (at(2), None),
    ]
    .into();
    let on = ("restart.time-tracking.enabled", "true");
    let time = |options: &[_]| restart_time(&restarts, &settings(options));
    assert_eq!(time(&[]), Duration::from_mins(5));
    assert_eq!(time(&[on]), Duration::from_secs(65));
    assert_eq!(time(&[on, ("restart.time-tracking.limit", "1 min")]), Duration::from_mins(1));
    let none = restart_time(&Restarts::new(), &settings(&[on, ("restart.time", "2 h")]));
    assert_eq!(none, Duration::from_hours(2), "what is configured has no limit");
}
