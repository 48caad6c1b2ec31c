#![allow(clippy::float_cmp, reason = "the numbers are exact")]

use std::collections::BTreeMap;

use super::*;
use crate::metric::Evaluated;
use crate::plugin::Asking;
use crate::scaling_history::Scaling;
use crate::settings::tests::settings;
use crate::topology::{Counters, ShipStrategy};

/// A vertex with these rates, as in the examples of the specification.
#[derive(Clone)]
struct Example {
    current: u32,
    target: f64,
    rate: f64,
    ship: ShipStrategy,
    partitions: Option<u32>,
    max_parallelism: u32,
    history: VertexHistory,
    options: Vec<(&'static str, &'static str)>,
    is_backlog: bool,
}

fn example(current: u32, target: f64, rate: f64, utilization: &'static str) -> Example {
    Example {
        current,
        target,
        rate,
        ship: ShipStrategy::Rebalance,
        partitions: None,
        max_parallelism: 720,
        history: VertexHistory::new(),
        options: vec![
            ("utilization.target", utilization),
            ("catch-up.duration", "0"),
            ("scale-down.max-factor", "1"),
            ("scale-up.max-factor", "2147483647"),
            ("scale-down.interval", "0"),
        ],
        is_backlog: false,
    }
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + minute * 60).unwrap()
}

impl Example {
    fn hash(self) -> Self {
        Self { ship: ShipStrategy::Hash, ..self }
    }

    fn with(mut self, key: &'static str, value: &'static str) -> Self {
        self.options.retain(|(of, _)| *of != key);
        self.options.push((key, value));
        self
    }

    fn decide_at(&self, minute: i64, delayed: &mut Delayed) -> VertexDecision {
        let settings = settings(&self.options);
        let inputs = match self.partitions {
            Some(_) => BTreeMap::new(),
            None => [("input".into(), self.ship)].into(),
        };
        let vertex = Vertex {
            parallelism: self.current,
            max_parallelism: self.max_parallelism,
            inputs,
            partitions: self.partitions,
            slot_sharing_group: None,
            is_finished: false,
            counters: Counters::default(),
        };
        let mut figures = Figures::default();
        figures.set(Metric::TrueProcessingRate, Evaluated::average(self.rate));
        figures.set(Metric::TargetDataRate, Evaluated::average(self.target));
        figures.set(Metric::CatchUpDataRate, Evaluated::of(0.0));
        let (up, down) = if self.is_backlog {
            (1.0, 0.0)
        } else {
            (settings.utilization_max, settings.utilization_min)
        };
        let restart_time = settings.restart_time;
        let threshold = |utilization, restart| {
            let capacity = capacity(&figures, utilization, &settings, restart);
            Evaluated::of(capacity.map_or(f64::NAN, Rate::get))
        };
        let (up, down) = (threshold(up, None), threshold(down, Some(restart_time)));
        figures.set(Metric::ScaleUpRateThreshold, up);
        figures.set(Metric::ScaleDownRateThreshold, down);
        let input = VertexInput {
            id: &"a".into(),
            vertex: &vertex,
            figures: &figures,
            history: &self.history,
            unscaled: None,
            restart_time,
            settings: &settings,
            set: &[],
            teller: Teller {
                asking: Asking::default(),
                now: at(minute),
                is_backlog: self.is_backlog,
            },
        };
        decide(&input, delayed).unwrap()
    }

    fn decide(&self) -> VertexDecision {
        self.decide_at(0, &mut Delayed::default())
    }

    /// The new parallelism and whether the rate is out of bounds.
    #[track_caller]
    fn gives(self, new: u32, is_outside: bool) -> VertexDecision {
        let decision = self.decide();
        assert_eq!((decision.new, decision.is_outside), (new, is_outside), "{decision:?}");
        decision
    }

    /// Checks the new parallelism in all modes of alignment.
    #[track_caller]
    fn gives_in_modes(&self, balanced: u32, evenly: u32, off: u32, legacy: u32) {
        let mode = "scaling.parallelism-alignment.mode";
        let adjust = "scaling.key-group.partitions.adjust.mode";
        for (key, value, new) in [
            (mode, "BALANCED", balanced),
            (mode, "EVENLY_SPREAD", evenly),
            (mode, "OFF", off),
            (adjust, "EVENLY_SPREAD", legacy),
        ] {
            assert_eq!(self.clone().with(key, value).decide().new, new, "{value}");
        }
    }
}

fn decider(decision: &VertexDecision) -> (Rule, f64) {
    let step = decision.decider().unwrap();
    (step.rule, step.number)
}

#[test]
fn section_16_example_2_half_of_it_is_enough() {
    let decision = example(10, 50.0, 100.0, "1.0").gives(5, true);
    assert_eq!(decider(&decision), (Rule::Computed, 5.0));
    assert_eq!(decision.expected_rate, Some(50.0));
    example(10, 50.0, 100.0, "1.0").hash().gives_in_modes(5, 5, 5, 5);
}

#[test]
fn section_16_example_2_aligned_to_key_groups() {
    let decision = example(10, 50.0, 100.0, "0.8").hash().gives(8, false);
    assert_eq!(decider(&decision), (Rule::Alignment, 8.0));
    example(10, 50.0, 100.0, "0.8").hash().gives_in_modes(8, 8, 7, 8);
    example(10, 50.0, 100.0, "0.8").gives(7, false);
    example(10, 50.0, 100.0, "0.8").gives_in_modes(7, 7, 7, 7);
}

#[test]
fn section_16_example_2_enough_as_it_is() {
    let decision = example(10, 80.0, 100.0, "0.8").gives(10, false);
    assert!(!decision.is_change());
    assert_eq!(decider(&decision), (Rule::Computed, 10.0));
}

#[test]
fn section_16_example_2_up() {
    example(2, 100.0, 40.0, "0.5").gives(10, true);
    example(2, 100.0, 40.0, "0.5").hash().gives_in_modes(10, 10, 10, 10);
    example(2, 70.0, 20.0, "1.0").hash().gives(8, true);
    example(2, 70.0, 20.0, "1.0").hash().gives_in_modes(8, 8, 7, 8);
}

#[test]
fn section_16_example_2_factors_are_limited() {
    let down = |factor| example(10, 10.0, 100.0, "1.0").with("scale-down.max-factor", factor);
    down("0.5").gives(5, true);
    let decision = down("0.6").gives(4, true);
    let rules: Vec<_> = decision.steps.iter().map(|step| step.rule.clone()).collect();
    assert_eq!(
        rules,
        [
            Rule::Capacity,
            Rule::ProcessingRate,
            Rule::Factor,
            Rule::ScaleDownMaxFactor,
            Rule::Computed
        ]
    );
    // 1 - 0.7 is a little more than 0.3.
    down("0.7").gives(4, true);
    let up = |factor| example(10, 200.0, 10.0, "1.0").with("scale-up.max-factor", factor);
    up("0.5").gives(15, true);
    up("0.6").gives(16, true);
}

#[test]
fn section_16_example_2_a_source_with_partitions() {
    let source = Example { partitions: Some(15), ..example(10, 200.0, 100.0, "1.0") };
    source.gives_in_modes(15, 15, 20, 15);
    let legacy = source.with("scaling.key-group.partitions.adjust.mode", "EVENLY_SPREAD").decide();
    let limited = Limited { expected: 20, actual: 15, parts: 15, upper: 200, lower: 1 };
    assert_eq!(legacy.limited, Some(limited));
}

#[test]
fn limits_of_the_options() {
    let decision =
        example(10, 1000.0, 100.0, "1.0").with("vertex.max-parallelism", "32").gives(32, true);
    assert_eq!(decider(&decision), (Rule::MaxParallelism, 32.0));
    let decision =
        example(10, 10.0, 100.0, "1.0").with("vertex.min-parallelism", "3").gives(3, true);
    assert_eq!(decider(&decision), (Rule::MinParallelism, 3.0));
    let of_job = Example { max_parallelism: 24, ..example(10, 1000.0, 100.0, "1.0") };
    assert_eq!(decider(&of_job.gives(24, true)), (Rule::JobMaxParallelism, 24.0));
}

#[test]
fn limits_move_nothing_by_themselves() {
    // More than the limit, and still too little.
    example(300, 6000.0, 100.0, "1.0").with("vertex.max-parallelism", "200").gives(300, false);
    // Less than the limit, and still too much.
    let decision =
        example(2, 1.0, 100.0, "1.0").with("vertex.min-parallelism", "5").gives(2, false);
    assert_eq!(decider(&decision), (Rule::MinParallelism, 2.0));
    example(2, 1.0, 100.0, "1.0").with("vertex.min-parallelism", "0").gives(1, true);
}

#[test]
fn nothing_to_do_shrinks_step_by_step() {
    let idle = example(100, 0.0, f64::INFINITY, "0.7");
    idle.clone().with("scale-down.max-factor", "0.6").gives(40, true);
    idle.clone().gives(1, true);
    // Without a lower bound on the utilization it is never too idle.
    idle.clone().with("utilization.min", "0").gives(1, false);
    Example { is_backlog: true, ..idle }.gives(1, false);
}

#[test]
fn without_rates_there_is_no_decision() {
    let rule = |example: Example| {
        let decision = example.decide();
        assert!(!decision.is_change());
        decision.decider().unwrap().rule
    };
    for rate in [f64::NAN, -5.0, f64::NEG_INFINITY] {
        assert_eq!(rule(example(4, 100.0, rate, "0.7")), Rule::NoProcessingRate, "{rate}");
    }
    assert_eq!(rule(example(4, f64::NAN, 100.0, "0.7")), Rule::NoTargetRate);
    assert_eq!(rule(example(4, 0.0, 0.0, "0.7")), Rule::NoFactor);
    // Everything, for a vertex with infinite capacity.
    assert_eq!(rule(example(4, 100.0, f64::INFINITY, "0")), Rule::NoFactor);
}

#[test]
fn a_target_utilization_of_zero_scales_to_the_maximum() {
    example(4, 100.0, 100.0, "0").gives(200, true);
}

#[test]
fn excluded_vertices_stay() {
    let decision = example(4, 1000.0, 100.0, "0.7").with("vertex.exclude.ids", "b; a ").decide();
    assert_eq!(decider(&decision), (Rule::Excluded, 4.0));
}

#[test]
fn a_restart_has_to_be_caught_up_with() {
    // 100 / 0.5 + 100 * 300 / 600 = 250
    let decision = example(10, 100.0, 100.0, "0.5")
        .with("catch-up.duration", "10 min")
        .with("restart.time", "5 min")
        .gives(25, true);
    assert_eq!(decision.steps[0], Step { rule: Rule::Capacity, number: 250.0 });
}

fn scaled_from(current: u32, new: u32, rate: f64, expected: f64) -> VertexHistory {
    let mut figures = Figures::default();
    figures.set(Metric::TrueProcessingRate, Evaluated::average(rate));
    figures.set(Metric::ExpectedProcessingRate, Evaluated::of(expected));
    [(at(-60), Scaling { current, new, figures })].into()
}

#[test]
fn an_ineffective_scale_up_is_reported_and_blocks_where_asked() {
    let history = scaled_from(5, 10, 100.0, 200.0);
    let example = Example { history, ..example(10, 200.0, 105.0, "1.0") };
    let told = example.clone().gives(20, true);
    assert_eq!(told.ineffective, Some(Ineffective { expected: 100.0, actual: 5.0 }));
    let blocked = example.clone().with("scaling.effectiveness.detection.enabled", "true");
    let decision = blocked.clone().gives(10, false);
    assert_eq!(decider(&decision), (Rule::Ineffective, 10.0));
    blocked.with("scaling.effectiveness.threshold", "0.05").gives(20, true);
    // Down is not up.
    let down = Example { target: 50.0, ..example };
    assert_eq!(down.gives(5, true).ineffective, None);
}

#[test]
fn what_scales_badly_gets_more() {
    let history = |scalings: &[(u32, f64)]| -> VertexHistory {
        (0..)
            .zip(scalings)
            .flat_map(|(minute, (current, rate))| {
                let of = scaled_from(*current, current + 1, *rate, f64::NAN);
                of.into_values().map(move |scaling| (at(minute), scaling))
            })
            .collect()
    };
    let history = history(&[(1, 100.0), (2, 160.0), (4, 200.0)]);
    let example = Example { history, ..example(4, 400.0, 200.0, "1.0") };
    example.clone().gives(8, true);
    let decision = example.with("observed-scalability.enabled", "true").gives(14, true);
    let coefficient = Step { rule: Rule::ScalingCoefficient, number: 0.59 };
    assert_eq!(decision.steps[2], coefficient);
}

#[test]
fn down_waits_and_takes_the_highest() {
    let mut delayed = Delayed::default();
    let mut decide = |minute, target| {
        let example = example(10, target, 100.0, "1.0").with("scale-down.interval", "1 h");
        example.decide_at(minute, &mut delayed)
    };
    let first = decide(0, 30.0);
    assert_eq!(decider(&first), (Rule::ScaleDownInterval, 10.0));
    assert_eq!((first.new, first.waits_until), (10, Some(at(60))));
    assert_eq!(decide(30, 70.0).new, 10);
    let due = decide(60, 20.0);
    assert_eq!(decider(&due), (Rule::ScaleDownMaximum, 7.0));
    assert_eq!(due.new, 7);
    // 70 of 100 was within bounds at that time, which is what is used.
    assert!(!due.is_outside);
    assert_eq!(due.expected_rate, Some(20.0), "of the parallelism that was computed now");
}

#[test]
fn enough_or_up_ends_the_waiting() {
    for target in [100.0, 150.0] {
        let mut delayed = Delayed::default();
        let decide = |minute, target, delayed: &mut Delayed| {
            let example = example(10, target, 100.0, "1.0").with("scale-down.interval", "1 h");
            example.decide_at(minute, delayed)
        };
        decide(0, 30.0, &mut delayed);
        decide(30, target, &mut delayed);
        assert_eq!(delayed, Delayed::default());
        assert_eq!(decide(60, 30.0, &mut delayed).new, 10);
    }
}

/// If someone gave the vertex less than was recommended, waiting to scale down never scales up.
#[test]
fn a_recommendation_of_earlier_is_no_reason_to_scale_up() {
    let mut delayed = Delayed::default();
    let decide = |minute, current, delayed: &mut Delayed| {
        let rate = f64::from(current) * 10.0;
        let example = example(current, 30.0, rate, "1.0").with("scale-down.interval", "1 h");
        example.decide_at(minute, delayed)
    };
    let wide = |delayed: &mut Delayed| {
        example(10, 80.0, 100.0, "1.0").with("scale-down.interval", "1 h").decide_at(20, delayed)
    };
    decide(0, 10, &mut delayed);
    wide(&mut delayed);
    let less = decide(61, 5, &mut delayed);
    assert_eq!(decider(&less), (Rule::ScaleDownMaximum, 5.0));
    assert!(!less.is_change());
}

proptest::proptest! {
    /// Whatever is measured: the result is a parallelism within the limits, and every intermediate number is valid.
    #[test]
    fn never_outside_of_limits(
        current in 1_u32..500,
        target in proptest::num::f64::ANY,
        rate in proptest::num::f64::ANY,
        max_parallelism in 1_u32..2000,
        partitions in proptest::option::of(1_u32..300),
        is_hash in proptest::bool::ANY,
        min in 0_usize..4,
        max in 0_usize..4,
        factor in 0_usize..3,
    ) {
        let limits = ["1", "5", "40", "300"];
        let example = Example {
            partitions,
            max_parallelism: max_parallelism.max(current),
            ..example(current, target, rate, "0.7")
        };
        let example = if is_hash { example.hash() } else { example }
            .with("vertex.min-parallelism", limits[min])
            .with("vertex.max-parallelism", limits[max])
            .with("scale-down.max-factor", ["0", "0.6", "3"][factor]);
        let decision = example.decide();
        let number = |text: &str| text.parse::<u32>().unwrap();
        let lower = number(limits[min]).min(current);
        let upper = number(limits[max]).max(current).min(max_parallelism.max(current));
        proptest::prop_assert!((lower..=upper).contains(&decision.new), "{decision:?}");
        proptest::prop_assert!(decision.new > 0);
        proptest::prop_assert!(decision.steps.iter().all(|step| !step.number.is_nan()));
        proptest::prop_assert!(decision.decider().is_some());
        let has_rate = Rate::new(Evaluated::average(rate).average).is_some();
        proptest::prop_assert!(!decision.is_change() || (has_rate && !target.is_nan()));
    }
}
