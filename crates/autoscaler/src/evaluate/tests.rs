#![allow(clippy::float_cmp, reason = "the numbers are exact")]

use jiff::Timestamp;

use super::*;
use crate::metric::Values;
use crate::sample::Sample;
use crate::settings::tests::settings;
use crate::topology::{Counters, ShipStrategy};

/// Vertices and their inputs.
fn topology(vertices: &[(&str, &[&str])]) -> Topology {
    let vertex = |(id, inputs): &(&str, &[&str])| {
        let vertex = Vertex {
            parallelism: 2,
            max_parallelism: 128,
            inputs: inputs.iter().map(|id| ((*id).into(), ShipStrategy::Rebalance)).collect(),
            partitions: None,
            slot_sharing_group: None,
            is_finished: false,
            counters: Counters::default(),
        };
        (VertexId::from(*id), vertex)
    };
    Topology::new(vertices.iter().map(vertex).collect()).unwrap()
}

/// Two samples, a second apart: each vertex with its first and second figure.
fn samples(figures: &[(&str, Metric, f64, f64)]) -> Samples {
    let mut samples: Samples = [0, 1].map(|at| (second(at), Sample::default())).into();
    for (id, metric, first, last) in figures {
        for (at, value) in [(0, first), (1, last)] {
            let sample = samples.get_mut(&second(at)).unwrap();
            let values: &mut Values = sample.vertices.entry((*id).into()).or_default();
            values.set(*metric, *value);
        }
    }
    samples
}

fn second(at: i64) -> Timestamp {
    Timestamp::from_second(at).unwrap()
}

/// A source without lag that reads and sends these rates, half busy.
fn source(id: &str, records_in: f64, records_out: f64) -> Vec<(&str, Metric, f64, f64)> {
    let mut figures = vertex(id, records_in, records_out);
    figures.push((id, Metric::Lag, 0.0, 0.0));
    figures
}

fn vertex(id: &str, records_in: f64, records_out: f64) -> Vec<(&str, Metric, f64, f64)> {
    vec![
        (id, Metric::NumRecordsIn, 100.0, 100.0 + records_in),
        (id, Metric::NumRecordsOut, 50.0, 50.0 + records_out),
        (id, Metric::Load, 0.5, 0.5),
    ]
}

fn evaluated(
    graph: &[(&str, &[&str])],
    figures: &[Vec<(&str, Metric, f64, f64)>],
    options: &[(&str, &str)],
) -> Evaluation {
    let settings = settings(options);
    let restart = settings.restart_time;
    evaluate(&samples(&figures.concat()), &topology(graph), &settings, restart).unwrap()
}

fn target(evaluation: &Evaluation, id: &str) -> f64 {
    evaluation.vertices[&id.into()].average(Metric::TargetDataRate)
}

#[test]
fn section_4_what_comes_in_is_what_is_read_and_what_is_not() {
    let mut lagging = source("a", 100.0, 100.0);
    lagging.push(("a", Metric::Lag, 1000.0, 1900.0));
    let evaluation = evaluated(&[("a", &[])], &[lagging], &[("catch-up.duration", "10 s")]);
    let figures = &evaluation.vertices[&"a".into()];
    assert_eq!(figures.average(Metric::TargetDataRate), 1000.0);
    assert_eq!(figures.current(Metric::CatchUpDataRate), 190.0);
    assert_eq!(figures.current(Metric::Lag), 1900.0);
    assert_eq!(figures.average(Metric::Load), 0.5);
    assert_eq!(figures.average(Metric::TrueProcessingRate), 200.0);
    assert_eq!(figures.current(Metric::RecommendedParallelism), 2.0);
    assert!(figures.current(Metric::TrueProcessingRate).is_nan());
    // 19 seconds behind are not a backlog.
    assert!(!evaluation.is_backlog);
}

#[test]
fn a_lag_that_shrinks_faster_than_is_read_leaves_no_target() {
    let mut shrinking = source("a", 100.0, 100.0);
    shrinking.push(("a", Metric::Lag, 1000.0, 0.0));
    assert_eq!(target(&evaluated(&[("a", &[])], &[shrinking], &[]), "a"), 0.0);
}

#[test]
fn section_4_rates_flow_along_the_edges() {
    let graph: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"]), ("c", &["b"])];
    let figures = [source("a", 100.0, 300.0), vertex("b", 300.0, 30.0), vertex("c", 30.0, 0.0)];
    let evaluation = evaluated(graph, &figures, &[]);
    assert_eq!(target(&evaluation, "b"), 300.0);
    assert_eq!(target(&evaluation, "c"), 30.0);
}

#[test]
fn a_bottleneck_does_not_hide_what_comes_in() {
    // 100 per second are pending at the source, so that twice as much must go everywhere.
    let mut lagging = source("a", 100.0, 200.0);
    lagging.push(("a", Metric::Lag, 0.0, 100.0));
    let graph: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"])];
    let evaluation = evaluated(graph, &[lagging, vertex("b", 200.0, 0.0)], &[]);
    assert_eq!(target(&evaluation, "b"), 400.0);
}

#[test]
fn an_edge_of_two_inputs_is_what_the_other_one_does_not_send() {
    let graph: &[(&str, &[&str])] = &[("a", &[]), ("b", &[]), ("c", &["a", "b"])];
    let figures = [source("a", 10.0, 20.0), source("b", 10.0, 30.0), vertex("c", 50.0, 0.0)];
    assert_eq!(target(&evaluated(graph, &figures, &[]), "c"), 50.0);
}

#[test]
fn an_edge_alongside_others_is_what_is_sent() {
    // `a` and `b` both feed `c` and `d`, so that nothing distinguishes their edges.
    let graph: &[(&str, &[&str])] =
        &[("a", &[]), ("b", &[]), ("c", &["a", "b"]), ("d", &["a", "b"])];
    let figures = [
        source("a", 10.0, 20.0),
        source("b", 10.0, 30.0),
        vertex("c", 25.0, 0.0),
        vertex("d", 25.0, 0.0),
    ];
    let evaluation = evaluated(graph, &figures, &[]);
    assert_eq!([target(&evaluation, "c"), target(&evaluation, "d")], [50.0, 50.0]);
}

#[test]
fn nothing_flows_from_what_reads_nothing() {
    let graph: &[(&str, &[&str])] = &[("a", &[]), ("b", &["a"])];
    let figures = [source("a", 0.0, 0.0), vertex("b", 5.0, 0.0)];
    let evaluation = evaluated(graph, &figures, &[]);
    assert_eq!(target(&evaluation, "b"), 0.0);
    let idle = evaluation.vertices[&"a".into()].average(Metric::TrueProcessingRate);
    assert!(idle.is_infinite());
}

#[test]
fn a_source_without_a_rate_stops_the_cycle() {
    let graph = topology(&[("a", &[])]);
    let settings = settings(&[]);
    let evaluate = |samples: &Samples| evaluate(samples, &graph, &settings, Duration::ZERO);
    assert_eq!(evaluate(&Samples::new()), Err(Unmeasured::NoSamples));
    let no_rate = Err(Unmeasured::NoIngestionRate("a".into()));
    assert_eq!(evaluate(&samples(&[("a", Metric::Lag, 0.0, 0.0)])), no_rate);
    assert_eq!(evaluate(&samples(&vertex("a", 1.0, 1.0))), no_rate);
    let lost: Vec<_> = [(0, 1.0), (1, 2.0), (2, f64::NAN)].into();
    let mut samples = samples(&vertex("a", 1.0, 1.0));
    samples.insert(second(2), samples[&second(1)].clone());
    for (at, lag) in lost {
        let values = samples.get_mut(&second(at)).unwrap().vertices.get_mut(&"a".into()).unwrap();
        values.set(Metric::Lag, lag);
    }
    assert_eq!(evaluate(&samples), Err(Unmeasured::NoLag("a".into())));
}

#[test]
fn section_4_backlog_rules_while_it_lasts() {
    let lagging = |lag: f64| {
        let mut figures = source("a", 100.0, 100.0);
        figures.push(("a", Metric::Lag, lag, lag));
        evaluated(&[("a", &[])], &[figures], &[("catch-up.duration", "0")])
    };
    let thresholds = |evaluation: &Evaluation| {
        let figures = &evaluation.vertices[&"a".into()];
        (
            figures.current(Metric::ScaleUpRateThreshold),
            figures.current(Metric::ScaleDownRateThreshold),
        )
    };
    let within = lagging(30_000.0);
    assert!(!within.is_backlog);
    assert_eq!(thresholds(&within), (100.0, 250.0));
    let behind = lagging(30_001.0);
    assert!(behind.is_backlog);
    assert_eq!(thresholds(&behind), (100.0, f64::INFINITY));
}

#[test]
fn a_source_that_stands_still_with_lag_is_behind() {
    let mut stuck = source("a", 0.0, 0.0);
    stuck.push(("a", Metric::Lag, 1.0, 1.0));
    assert!(evaluated(&[("a", &[])], &[stuck], &[]).is_backlog);
    assert!(!evaluated(&[("a", &[])], &[source("a", 0.0, 0.0)], &[]).is_backlog);
}

fn true_rate(extra: &[(&'static str, Metric, f64, f64)], options: &[(&str, &str)]) -> f64 {
    let mut figures = source("a", 100.0, 100.0);
    figures.extend(extra);
    let evaluation = evaluated(&[("a", &[])], &[figures], options);
    evaluation.vertices[&"a".into()].average(Metric::TrueProcessingRate)
}

#[test]
fn section_4_what_was_observed_corrects_the_busy_time() {
    let observed = |rate: f64| true_rate(&[("a", Metric::ObservedTpr, rate, rate)], &[]);
    // The busy time says 200.
    assert_eq!(observed(170.0), 170.0);
    assert_eq!(observed(175.0), 200.0, "within the switch threshold");
    assert_eq!(observed(500.0), 200.0);
    assert_eq!(observed(f64::INFINITY), 200.0);
    let once = [("a", Metric::ObservedTpr, f64::NAN, 10.0)];
    assert_eq!(true_rate(&once, &[]), 200.0, "once is not enough");
    let enough = ("observed-true-processing-rate.min-observations", "1");
    assert_eq!(true_rate(&once, &[enough]), 10.0);
}

#[test]
fn without_busy_time_what_was_observed_counts() {
    let figures = [("a", Metric::Load, f64::NAN, f64::NAN)];
    assert!(true_rate(&figures, &[]).is_nan());
    let observed = [figures[0], ("a", Metric::ObservedTpr, 50.0, 70.0)];
    assert_eq!(true_rate(&observed, &[]), 60.0);
    let never_busy = [("a", Metric::Load, 0.0, 0.0), ("a", Metric::ObservedTpr, 50.0, 70.0)];
    assert_eq!(true_rate(&never_busy, &[]), 60.0);
}

#[test]
fn the_average_busy_time_is_counted_over_all_subtasks() {
    let busy = [("a", Metric::AccumulatedBusyTime, 500.0, 1300.0)];
    // 800 ms of two subtasks in a second: 400 ms each.
    let average = [("metrics.busy-time.aggregator", "AVG")];
    assert_eq!(true_rate(&busy, &average), 250.0);
}

#[test]
fn figures_of_the_job() {
    let mut samples = samples(&source("a", 1.0, 1.0));
    for (at, used) in [(0, 10.0), (1, 20.0)] {
        let job = &mut samples.get_mut(&second(at)).unwrap().job;
        job.set(Metric::HeapMemoryUsed, used);
        job.set(Metric::GcPressure, used / 100.0);
    }
    let settings = settings(&[]);
    let topology = topology(&[("a", &[])]);
    let job = evaluate(&samples, &topology, &settings, Duration::ZERO).unwrap().job;
    assert_eq!(job.0[&Metric::HeapMemoryUsed], Evaluated::new(20.0, 15.0));
    assert_eq!(job.0[&Metric::GcPressure], Evaluated::of(0.2));
    assert_eq!(job.0[&Metric::NumTaskSlotsUsed], Evaluated::of(f64::NAN));
}

#[test]
fn section_5_capacity() {
    let mut figures = Figures::default();
    figures.set(Metric::CatchUpDataRate, Evaluated::of(200.0));
    figures.set(Metric::TargetDataRate, Evaluated::average(200.0));
    let settings = settings(&[("catch-up.duration", "2 s")]);
    let restart = Some(Duration::from_millis(1900));
    let of = |utilization, restart| capacity(&figures, utilization, &settings, restart).unwrap();
    assert_eq!(of(0.9, None).get(), 422.0);
    assert_eq!(of(0.7, restart).get(), 586.0, "whole seconds");
    assert_eq!(of(1.5, None).get(), 400.0);
    assert!(of(-0.5, None).get().is_infinite());
    assert_eq!(capacity(&Figures::default(), 0.7, &settings, None), None);
}
