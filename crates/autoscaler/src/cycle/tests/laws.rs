//! Laws that hold whatever was measured, however absurd.

use proptest::prelude::*;

use super::*;

/// A number as broken clocks, counters and proxies produce it; often a valid one.
fn figure() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => 0.0..2_000_000.0_f64,
        1 => Just(0.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(f64::NEG_INFINITY),
        1 => -1e6..0.0_f64,
        1 => Just(1e300),
        1 => Just(5e-324),
    ]
}

const NAMES: [&str; 3] = ["m", "z", "a"];

/// Three vertices in a row as read at one moment.
fn moment() -> impl Strategy<Value = Vec<Now>> {
    prop::collection::vec([figure(), figure(), figure(), figure(), figure(), figure()], 3).prop_map(
        |figures| {
            let now = |(at, [records_in, records_out, busy, backpressure, lag, rate]): (
                usize,
                [f64; 6],
            )| Now {
                id: NAMES[at],
                inputs: at.checked_sub(1).map(|before| NAMES[before]).into_iter().collect(),
                parallelism: 1,
                max_parallelism: 1,
                records_in,
                records_out,
                busy,
                backpressure,
                lag,
                in_per_second: rate,
            };
            figures.into_iter().enumerate().map(now).collect()
        },
    )
}

#[derive(Clone, Debug)]
struct World {
    moments: Vec<Vec<Now>>,
    parallelism: Vec<(u32, u32)>,
    min: u32,
    max: u32,
    options: Vec<(&'static str, &'static str)>,
}

fn options() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    prop::sample::subsequence(
        vec![
            ("metrics.busy-time.aggregator", "AVG"),
            ("observed-scalability.enabled", "true"),
            ("scaling.effectiveness.detection.enabled", "true"),
            ("scaling.parallelism-alignment.mode", "OFF"),
            ("scaling.key-group.partitions.adjust.mode", "EVENLY_SPREAD"),
            ("scale-down.max-factor", "1"),
            ("utilization.target", "0"),
            ("catch-up.duration", "0"),
            ("restart.time-tracking.enabled", "true"),
        ],
        0..4,
    )
}

fn worlds() -> impl Strategy<Value = World> {
    let parallelism = prop::collection::vec((1_u32..300, 0_u32..300), 3);
    let moments = prop::collection::vec(moment(), 2..6);
    (moments, parallelism, 1_u32..20, 0_u32..200, options()).prop_map(
        |(mut moments, of_each, min, more, options)| {
            for (now, (parallelism, room)) in
                moments.iter_mut().flat_map(|moment| moment.iter_mut().zip(&of_each))
            {
                (now.parallelism, now.max_parallelism) = (*parallelism, parallelism + room);
            }
            World { moments, parallelism: of_each, min, max: min + more, options }
        },
    )
}

proptest! {
    /// Whatever was measured, nothing exceeds its limits and no number of a decision is NaN.
    #[test]
    fn limits_hold_and_no_nan_decides(world in worlds()) {
        let World { moments, parallelism, min, max, options } = world;
        let (min_text, max_text) = (min.to_string(), max.to_string());
        let limits = [("vertex.min-parallelism", min_text.as_str()), ("vertex.max-parallelism", &max_text)];
        let mut job = Job::new(&[AT_ONCE, &limits, &options].concat());
        let mut second = 0;
        for moment in &moments {
            let cycle = job.cycle(at(second), moment);
            second += 60;
            for (index, id) in NAMES.iter().enumerate() {
                let (current, room) = parallelism[index];
                let lowest = current.min(min);
                let highest = current.max(max).min(current + room);
                let id = VertexId::from(*id);
                if let Some(decision) = cycle.decisions.get(&id) {
                    let new = decision.new;
                    prop_assert!((lowest..=highest).contains(&new), "{id}: {lowest} {new} {highest}");
                    prop_assert!(decision.steps.iter().all(|step| !step.number.is_nan()));
                    prop_assert!(decision.expected_rate.is_none_or(|rate| !rate.is_nan()));
                }
                if let Some(decided) = cycle.state.overrides.get(&id) {
                    prop_assert!((lowest..=highest).contains(decided), "{id}: {decided}");
                }
            }
        }
    }

    /// Two cycles over equal facts have equal results.
    #[test]
    fn a_cycle_is_a_function_of_its_facts(world in worlds()) {
        let limits = [("vertex.min-parallelism", "1")];
        let run = |world: &World| {
            let mut job = Job::new(&[AT_ONCE, &limits, &world.options].concat());
            let cycles = world.moments.iter().zip(0..).map(|(moment, minute)| {
                let cycle = job.cycle(at(60 * minute), moment);
                (cycle.outcome.to_string(), cycle.state.overrides)
            });
            cycles.collect::<Vec<_>>()
        };
        prop_assert_eq!(run(&world), run(&world));
    }
}
