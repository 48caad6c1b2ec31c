#![allow(clippy::float_cmp, reason = "the numbers are exact")]

use super::*;
use crate::metric::Values;
use crate::settings::tests::settings;
use crate::topology::{Counters, Vertex};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

/// Samples of vertex `a`: a second, and its records.
fn samples(values: &[(i64, f64)]) -> Samples {
    let sample = |(second, value): &(i64, f64)| {
        let mut of_vertex = Values::default();
        of_vertex.set(Metric::NumRecordsIn, *value);
        let mut job = Values::default();
        job.set(Metric::HeapMemoryUsed, *value);
        (at(*second), Sample { vertices: [("a".into(), of_vertex)].into(), job })
    };
    values.iter().map(sample).collect()
}

fn seconds_of(samples: &Samples) -> Vec<i64> {
    samples.keys().map(|time| time.as_second() - at(0).as_second()).collect()
}

fn topology(id: &str) -> Topology {
    let vertex = Vertex {
        parallelism: 1,
        max_parallelism: 1,
        inputs: BTreeMap::new(),
        partitions: None,
        slot_sharing_group: None,
        is_finished: false,
        counters: Counters::default(),
    };
    Topology::new([(id.into(), vertex)].into()).unwrap()
}

fn rate_of(values: &[(i64, f64)]) -> f64 {
    rate(&samples(values), &"a".into(), Metric::NumRecordsIn)
}

#[test]
fn section_4_a_rate_is_between_the_first_and_the_last_value() {
    assert_eq!(rate_of(&[(0, 100.0), (60, 400.0), (120, 340.0)]), 2.0);
    assert_eq!(rate_of(&[(0, 100.0), (10, 50.0)]), -5.0);
    assert!(rate_of(&[(0, 100.0)]).is_nan());
    assert!(rate_of(&[]).is_nan());
}

#[test]
fn a_rate_leaves_out_what_was_not_measured() {
    assert_eq!(rate_of(&[(0, f64::NAN), (10, 100.0), (20, 200.0), (30, f64::NAN)]), 10.0);
    assert!(rate_of(&[(0, f64::NAN), (10, 100.0), (20, f64::NAN)]).is_nan());
    let other = rate(&samples(&[(0, 1.0), (1, 2.0)]), &"b".into(), Metric::NumRecordsIn);
    assert!(other.is_nan());
}

#[test]
fn section_4_averages() {
    let of = |values: &[f64], min| {
        let values: Vec<_> = (0..).zip(values.iter().copied()).collect();
        average(&samples(&values), Some(&"a".into()), Metric::NumRecordsIn, min)
    };
    let infinite = f64::INFINITY;
    assert_eq!(of(&[1.0, f64::NAN, 4.0], 1), 2.5);
    assert_eq!(of(&[1.0, infinite], 1), 1.0);
    assert!(of(&[1.0, infinite], 2).is_nan());
    assert_eq!(of(&[infinite, f64::NAN], 5), infinite);
    assert!(of(&[f64::NAN], 1).is_nan());
    let job = average(&samples(&[(0, 2.0), (1, 4.0)]), None, Metric::HeapMemoryUsed, 1);
    assert_eq!(job, 3.0);
}

/// Ten minutes of stabilization, a window of 15.
fn add_at(second: i64, earlier: &[i64]) -> Window {
    let settings = settings(&[("stabilization.interval", "10 min")]);
    let values: Vec<_> = earlier.iter().map(|second| (*second, 1.0)).collect();
    add(samples(&values), Sample::default(), at(second), at(0), &settings)
}

#[test]
fn section_3_3_the_window_is_full_some_time_after_the_job_is_stable() {
    let minute = 60;
    let first = add_at(0, &[]);
    assert!(first.is_stabilizing);
    assert_eq!(first.full_at, at(15 * minute), "nothing is stable yet");
    let unstable = add_at(9 * minute, &[0]);
    assert!(unstable.is_stabilizing && unstable.full_at == at(24 * minute));
    let stable = add_at(11 * minute, &[0, 600]);
    assert!(!stable.is_stabilizing);
    assert_eq!(stable.full_at, at(25 * minute));
    assert_eq!(seconds_of(&stable.samples), [0, 600, 660]);
}

#[test]
fn section_3_3_a_full_window_drops_what_is_older() {
    let full = add_at(1500, &[0, 599, 600, 900]);
    assert_eq!(full.full_at, at(1500));
    assert_eq!(seconds_of(&full.samples), [600, 900, 1500]);
}

/// Samples come a moment later than once per window: the Java operator is left with one of them forever.
#[test]
fn a_window_as_long_as_the_interval_between_samples_is_full_each_time() {
    let minute = settings(&[("metrics.window", "1 min"), ("stabilization.interval", "5 s")]);
    let mut kept = Samples::new();
    for turn in 0..5 {
        let now = at(10) + SignedDuration::from_millis(turn * 60_020);
        let window = add(kept, Sample::default(), now, at(0), &minute);
        assert_eq!(now >= window.full_at, turn > 0);
        kept = window.samples;
        assert_eq!(kept.len(), if turn > 0 { 2 } else { 1 });
    }
    let now = at(10_000);
    let late = add(kept, Sample::default(), now, at(0), &minute);
    assert_eq!(late.samples.len(), 1, "what was measured long ago tells nothing of now");
}

#[test]
fn samples_are_bounded() {
    let many: Vec<_> = (0..).zip(std::iter::repeat_n(1.0, SAMPLES_MAX + 10)).collect();
    let long = settings(&[("metrics.window", "30 d")]);
    let window = add(samples(&many), Sample::default(), at(100_000), at(0), &long);
    let (first, last) = (at(0), at(100_000));
    assert!((SAMPLES_MAX / 2..=SAMPLES_MAX).contains(&window.samples.len()));
    assert_eq!(
        (*window.samples.first_key_value().unwrap().0, window.full_at > last),
        (first, true)
    );
    assert!(window.samples.contains_key(&last));
    // Those of a large graph are fewer, and still cover the whole window.
    let wide = || Sample {
        vertices: (0..2_000)
            .map(|id| (id.to_string().as_str().into(), Values::default()))
            .collect(),
        ..Sample::default()
    };
    let mut kept = Samples::new();
    for minute in 0..=60 {
        let hour = settings(&[("metrics.window", "1 h"), ("stabilization.interval", "0 s")]);
        let window = add(kept, wide(), at(minute * 60), at(0), &hour);
        assert_eq!((window.full_at, at(minute * 60) >= window.full_at), (at(3600), minute == 60));
        kept = window.samples;
        assert!(kept.len() * 2_000 <= VERTEX_SAMPLES_MAX);
    }
}

#[test]
fn samples_of_before_a_restart_do_not_count() {
    let of = |running: i64, now: i64, id: &str| {
        let samples = samples(&[(10, 1.0), (20, 2.0)]);
        let (kept, why) = comparable(samples, at(now), at(running), &topology(id));
        assert_eq!(kept.is_empty(), why.is_some());
        why
    };
    assert_eq!(of(10, 30, "a"), None);
    assert_eq!(of(11, 30, "a"), Some(Discarded::Restarted));
    assert_eq!(of(0, 30, "b"), Some(Discarded::OtherVertices));
    assert_eq!(of(0, 20, "a"), Some(Discarded::ClockWentBack));
    let none = comparable(Samples::new(), at(0), at(9), &topology("a"));
    assert_eq!(none, (Samples::new(), None));
}

#[test]
fn time_ends_somewhere() {
    assert_eq!(later(at(0), Duration::MAX), Timestamp::MAX);
    assert_eq!(earlier(at(0), Duration::MAX), Timestamp::MIN);
}
