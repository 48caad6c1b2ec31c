//! The worked examples of section 16.

use super::*;

/// Source and sink of example 1 with their common counter.
fn example_1(records: f64, lag: f64, rate: f64, busy: f64, parallelism: u32, max: u32) -> Vec<Now> {
    let source = Now {
        id: "source",
        inputs: vec![],
        parallelism,
        max_parallelism: max,
        records_in: records,
        records_out: records,
        busy,
        backpressure: 0.0,
        lag,
        in_per_second: rate,
    };
    let sink = Now { id: "sink", inputs: vec!["source"], max_parallelism: 720, ..source.clone() };
    vec![source, sink]
}

/// True rate, target, catch-up and thresholds, the same for both vertices.
#[track_caller]
fn figures(cycle: &Cycle) -> [f64; 5] {
    let of = |id: &str| {
        let figures = &cycle.evaluation.as_ref().unwrap().vertices[&id.into()];
        [
            figures.average(Metric::TrueProcessingRate),
            figures.average(Metric::TargetDataRate),
            figures.current(Metric::CatchUpDataRate),
            figures.current(Metric::ScaleUpRateThreshold),
            figures.current(Metric::ScaleDownRateThreshold),
        ]
    };
    assert_eq!(of("source"), of("sink"));
    of("source")
}

#[track_caller]
fn expected_rate(cycle: &Cycle) -> f64 {
    let figures = &cycle.evaluation.as_ref().unwrap().vertices[&"source".into()];
    figures.current(Metric::ExpectedProcessingRate)
}

fn computed(cycle: &Cycle) -> Vec<u32> {
    cycle.decisions.values().map(|decision| decision.new).collect()
}

fn overrides(cycle: &Cycle) -> Vec<u32> {
    cycle.state.overrides.values().copied().collect()
}

fn job_1() -> Job {
    Job::new(&[
        ("stabilization.interval", "0"),
        ("restart.time", "1 s"),
        ("catch-up.duration", "2 s"),
        ("utilization.target", "0.8"),
        ("utilization.max", "0.9"),
        ("utilization.min", "0.7"),
        ("scale-down.max-factor", "1"),
        ("scale-up.max-factor", "2147483647"),
        ("scale-down.interval", "0"),
        ("backlog-processing.lag-threshold", "1 s"),
        ("metrics.window", "1 s"),
    ])
}

#[test]
fn section_16_example_1_a_backlog_is_worked_off() {
    let never = f64::INFINITY;
    let mut job = job_1();
    let cycle = job.cycle(at(0), &example_1(0.0, 2000.0, 500.0, 850.0, 1, 720));
    assert_eq!(cycle.outcome, Outcome::TooFewSamples { have: 1 });

    let cycle = job.cycle(at(1), &example_1(500.0, 2000.0, 500.0, 850.0, 1, 720));
    assert_eq!(figures(&cycle), [588.235, 500.0, 1000.0, 1500.0, never]);
    assert_eq!(cycle.outcome, Outcome::Scaled);
    assert_eq!(overrides(&cycle), [4, 4]);
    assert_eq!(expected_rate(&cycle), 2352.94);
    let steps = &cycle.decisions[&"sink".into()].steps;
    assert_eq!((steps[0].number, steps[2].number), (1875.0, 1875.0 / 588.235));

    job.settings.metrics_window = std::time::Duration::from_secs(2);
    job.running_since = at(2);
    let cycle = job.cycle(at(2), &example_1(0.0, 6000.0, 1800.0, 1000.0, 4, 24));
    assert_eq!(cycle.outcome, Outcome::TooFewSamples { have: 1 });

    let cycle = job.cycle(at(3), &example_1(1800.0, 3600.0, 1800.0, 1000.0, 4, 24));
    assert_eq!(figures(&cycle), [1800.0, 0.0, 1800.0, 1800.0, never]);
    assert_eq!(cycle.outcome, Outcome::WindowNotFull { until: at(4) });

    let cycle = job.cycle(at(4), &example_1(3600.0, 2000.0, 1800.0, 1000.0, 4, 24));
    assert_eq!(figures(&cycle), [1800.0, 0.0, 1000.0, 1000.0, never]);
    assert_eq!(cycle.outcome, Outcome::WithinBounds);
    assert_eq!(computed(&cycle), [3, 3]);

    let cycle = job.cycle(at(5), &example_1(5400.0, 400.0, 1800.0, 1000.0, 4, 24));
    assert_eq!(figures(&cycle), [1800.0, 200.0, 200.0, 422.0, 586.0]);
    assert_eq!(cycle.outcome, Outcome::Scaled);
    assert_eq!(overrides(&cycle), [2, 2]);
    assert_eq!(expected_rate(&cycle), 900.0);
    assert_eq!(cycle.decisions[&"sink".into()].steps[0].number, 550.0);

    job.running_since = at(5);
    let cycle = job.cycle(at(6), &example_1(0.0, 2000.0, 900.0, 1000.0, 2, 24));
    assert_eq!(cycle.outcome, Outcome::TooFewSamples { have: 1 });

    let cycle = job.cycle(at(7), &example_1(900.0, 1400.0, 900.0, 1000.0, 2, 24));
    assert_eq!(figures(&cycle), [900.0, 300.0, 700.0, 1000.0, never]);
    assert_eq!(cycle.outcome, Outcome::WindowNotFull { until: at(8) });

    let cycle = job.cycle(at(8), &example_1(1800.0, 800.0, 900.0, 1000.0, 2, 24));
    assert_eq!(figures(&cycle), [900.0, 300.0, 400.0, 733.0, 979.0]);
    assert_eq!(cycle.outcome, Outcome::WithinBounds);
    assert_eq!(computed(&cycle), [3, 3]);

    let cycle = job.cycle(at(9), &example_1(2700.0, 300.0, 900.0, 1000.0, 2, 24));
    assert_eq!(figures(&cycle), [900.0, 350.0, 150.0, 539.0, 825.0]);
    assert_eq!(cycle.outcome, Outcome::Balanced);
    assert_eq!(cycle.state.restarts.len(), 2);
}

fn example_3(max_factor: &str) -> Cycle {
    let source = |records_in| {
        vec![Now {
            id: "source",
            inputs: vec![],
            parallelism: 5,
            max_parallelism: 720,
            records_in,
            records_out: records_in,
            busy: 100.0,
            backpressure: 0.0,
            lag: 0.0,
            in_per_second: 0.0,
        }]
    };
    let mut job = Job::new(&[
        ("metrics.window", "2 s"),
        ("stabilization.interval", "0"),
        ("restart.time", "0"),
        ("scale-down.interval", "0"),
        ("scale-down.max-factor", max_factor),
    ]);
    job.cycle(at(0), &source(0.0));
    job.cycle(at(2), &source(1000.0))
}

#[test]
fn section_16_example_3_a_source_that_does_not_report_its_rate() {
    let cycle = example_3("1");
    let figures = &cycle.evaluation.as_ref().unwrap().vertices[&"source".into()];
    assert_eq!(figures.average(Metric::TargetDataRate), 500.0);
    assert_eq!(figures.average(Metric::TrueProcessingRate), 5000.0);
    assert_eq!(figures.current(Metric::ScaleUpRateThreshold), 500.0);
    assert_eq!(figures.current(Metric::ScaleDownRateThreshold), 1250.0);
    assert_eq!(expected_rate(&cycle), 1000.0);
    assert_eq!(overrides(&cycle), [1]);
    assert_eq!(cycle.decisions[&"source".into()].steps[2].number, 714.0 / 5000.0);

    let limited = example_3("0.6");
    assert_eq!(overrides(&limited), [2]);
    assert_eq!(expected_rate(&limited), 2000.0);
}
