#![allow(clippy::float_cmp, reason = "the numbers are exact")]

use jiff::Timestamp;

use super::*;
use crate::metric::{Evaluated, Figures};
use crate::scaling_history::Scaling;
use crate::settings::tests::settings;

/// Scalings, oldest first: parallelism before and after, and the true rate before.
fn history(scalings: &[(u32, u32, f64)]) -> VertexHistory {
    let scaling = |(at, (current, new, rate)): (i64, &(u32, u32, f64))| {
        let mut figures = Figures::default();
        figures.set(Metric::TrueProcessingRate, Evaluated::average(*rate));
        let expected = rate / f64::from(*current) * f64::from(*new);
        figures.set(Metric::ExpectedProcessingRate, Evaluated::of(expected));
        let scaling = Scaling { current: *current, new: *new, figures };
        (Timestamp::from_second(at).unwrap(), scaling)
    };
    (0..).zip(scalings).map(scaling).collect()
}

#[test]
fn section_5_2_a_scale_up_that_brought_too_little() {
    let settings = settings(&[]);
    let from_1_to_2 = history(&[(1, 2, 100.0)]);
    // A tenth of the expected 100 is enough.
    assert_eq!(ineffective(&from_1_to_2, 2, 110.0, &settings), None);
    let found = ineffective(&from_1_to_2, 2, 109.0, &settings).unwrap();
    assert_eq!((found.expected, found.actual), (100.0, 9.0));
    assert!(ineffective(&from_1_to_2, 2, 90.0, &settings).is_some());
}

#[test]
fn only_the_last_scaling_up_to_what_runs_counts() {
    let settings = settings(&[]);
    assert_eq!(ineffective(&history(&[]), 2, 1.0, &settings), None);
    assert_eq!(ineffective(&history(&[(1, 2, 100.0)]), 3, 1.0, &settings), None);
    assert_eq!(ineffective(&history(&[(1, 2, 100.0), (2, 1, 200.0)]), 1, 1.0, &settings), None);
    assert!(ineffective(&history(&[(9, 1, 1.0), (1, 2, 100.0)]), 2, 1.0, &settings).is_some());
}

#[test]
fn what_cannot_be_compared_is_not_effective() {
    let settings = settings(&[]);
    assert!(ineffective(&history(&[(1, 2, f64::NAN)]), 2, 100.0, &settings).is_some());
    assert!(ineffective(&history(&[(1, 2, f64::INFINITY)]), 2, 100.0, &settings).is_some());
}

fn coefficient(scalings: &[(u32, u32, f64)]) -> f64 {
    scaling_coefficient(&history(scalings), 0.5, 3)
}

#[test]
fn section_5_3_a_vertex_that_scales_linearly() {
    assert_eq!(coefficient(&[(1, 2, 100.0), (2, 4, 200.0), (4, 8, 400.0)]), 1.0);
    assert_eq!(coefficient(&[(4, 8, 400.0), (8, 16, 800.0), (16, 8, 1600.0)]), 1.0);
}

#[test]
fn a_vertex_that_scales_worse() {
    // (1*100 + 2*160 + 4*200) / ((1 + 4 + 16) * 100) = 0.5809…, rounded up.
    assert_eq!(coefficient(&[(1, 2, 100.0), (2, 4, 160.0), (4, 8, 200.0)]), 0.59);
    // Below the configured minimum.
    assert_eq!(coefficient(&[(1, 2, 100.0), (2, 4, 20.0), (4, 8, 20.0)]), 0.5);
    // Better than linear is treated as linear.
    assert_eq!(coefficient(&[(1, 2, 100.0), (2, 4, 300.0), (4, 8, 900.0)]), 1.0);
}

#[test]
fn the_baseline_is_the_newest_of_the_smallest() {
    // 80 per subtask: (2*100 + 2*160 + 4*240) / ((4 + 4 + 16) * 80) = 0.7708…
    assert_eq!(coefficient(&[(2, 4, 100.0), (2, 4, 160.0), (4, 2, 240.0)]), 0.78);
}

#[test]
fn too_little_was_seen() {
    assert_eq!(coefficient(&[]), 1.0);
    assert_eq!(coefficient(&[(1, 2, 100.0), (2, 4, 100.0)]), 1.0);
    assert_eq!(coefficient(&[(1, 2, 100.0), (2, 4, f64::NAN), (4, 8, 100.0)]), 1.0);
    assert_eq!(coefficient(&[(1, 2, f64::INFINITY), (2, 4, 1.0), (4, 8, 100.0)]), 1.0);
    assert_eq!(coefficient(&[(1, 2, 0.0), (2, 4, 0.0), (4, 8, 0.0)]), 1.0);
}

#[test]
fn up_at_the_second_decimal() {
    for (number, up) in [(0.571, 0.58), (0.57, 0.57), (0.990_1, 1.0), (1.0, 1.0), (0.5, 0.5)] {
        assert_eq!(ceil2(number), up, "{number}");
    }
}
