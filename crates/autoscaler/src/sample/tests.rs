#![allow(clippy::float_cmp, reason = "the numbers are exact")]
#![allow(clippy::large_types_passed_by_value, reason = "tests build them in place")]

use jiff::Timestamp;

use super::*;
use crate::settings::tests::settings;
use crate::topology::ShipStrategy;

#[allow(clippy::unnecessary_wraps, reason = "as readings have it")]
fn sum(sum: f64) -> Option<Aggregate> {
    Some(Aggregate { sum: Some(sum), ..Aggregate::default() })
}

#[allow(clippy::unnecessary_wraps, reason = "as readings have it")]
fn busy(min: f64, max: f64, average: f64) -> Option<Aggregate> {
    let [min, max, average] = [min, max, average].map(Some);
    Some(Aggregate { min, max, average, sum: None })
}

#[allow(clippy::unnecessary_wraps, reason = "as readings have it")]
fn average_of(average: f64) -> Option<Aggregate> {
    Some(Aggregate { average: Some(average), ..Aggregate::default() })
}

/// A source `a` that `b` reads from, with these counters.
fn topology(counters: Counters) -> Topology {
    let source = Vertex {
        parallelism: 1,
        max_parallelism: 128,
        inputs: BTreeMap::new(),
        partitions: None,
        slot_sharing_group: None,
        is_finished: false,
        counters,
    };
    let inputs = [("a".into(), ShipStrategy::Hash)].into();
    let sink = Vertex { inputs, ..source.clone() };
    Topology::new([("a".into(), source), ("b".into(), sink)].into()).unwrap()
}

fn counters(records_in: f64) -> Counters {
    Counters { records_in, records_out: 7.0, busy: 1234.0 }
}

/// The values measured of the source.
fn of_source(counters: Counters, reading: VertexReading, earlier: &Samples) -> Values {
    of(counters, reading, earlier, &[]).0
}

fn of(
    counters: Counters,
    reading: VertexReading,
    earlier: &Samples,
    options: &[(&str, &str)],
) -> (Values, Values, BTreeMap<VertexId, Unscaled>) {
    let vertices = [("a".into(), reading), ("b".into(), reading)].into();
    let reading = Reading { vertices, ..Reading::default() };
    let settings = settings(options);
    let (mut taken, unscaled) = sample(&reading, &topology(counters), &settings, earlier).unwrap();
    let a = taken.vertices.remove(&"a".into()).unwrap();
    (a, taken.vertices.remove(&"b".into()).unwrap(), unscaled)
}

#[test]
fn section_3_4_a_source() {
    let reading = VertexReading {
        busy: busy(100.0, 850.0, 300.0),
        pending: sum(2000.4567),
        source_in_per_second: sum(0.0),
        in_per_second: sum(9.0),
        ..VertexReading::default()
    };
    let values = of_source(counters(500.0), reading, &Samples::new());
    let expected = [
        (Metric::Load, 0.85),
        (Metric::ObservedTpr, f64::INFINITY),
        (Metric::Lag, 2000.457),
        (Metric::NumRecordsIn, 500.0),
        (Metric::NumRecordsOut, 7.0),
        (Metric::AccumulatedBusyTime, 1234.0),
    ];
    assert_eq!(values.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn section_3_4_what_reads_from_others() {
    let reading = VertexReading {
        busy: busy(100.0, 850.0, 300.0),
        pending: sum(2000.0),
        in_per_second: sum(9.0),
        ..VertexReading::default()
    };
    let (_, values, unscaled) = of(counters(-1.0), reading, &Samples::new(), &[]);
    let expected = [
        (Metric::Load, 0.85),
        (Metric::NumRecordsIn, 0.0),
        (Metric::NumRecordsInPerSecond, 9.0),
        (Metric::NumRecordsOut, 7.0),
        (Metric::AccumulatedBusyTime, 1234.0),
    ];
    assert_eq!(values.iter().collect::<Vec<_>>(), expected);
    assert_eq!(unscaled, BTreeMap::new());
}

#[test]
fn the_busy_time_is_aggregated_as_was_asked() {
    let reading = VertexReading { busy: busy(100.0, 850.0, 300.0), ..VertexReading::default() };
    for (mode, load) in [("MAX", 0.85), ("min", 0.1), ("AVG", 0.3)] {
        let options = [("metrics.busy-time.aggregator", mode)];
        let (values, ..) = of(counters(1.0), reading, &Samples::new(), &options);
        assert_eq!(values.get(Metric::Load), Some(load), "{mode}");
    }
}

#[test]
fn without_busy_time_a_vertex_is_not_scaled_and_still_feeds_others() {
    for busy in [None, busy(f64::NAN, f64::NAN, f64::NAN), busy(1.0, f64::INFINITY, 1.0)] {
        let reading = VertexReading { busy, ..VertexReading::default() };
        let (values, _, unscaled) = of(counters(5.0), reading, &Samples::new(), &[]);
        assert_eq!(values.get(Metric::Load), None);
        assert_eq!(values.get(Metric::NumRecordsIn), Some(5.0));
        assert_eq!(unscaled[&"a".into()], Unscaled::NoBusyTime);
    }
    let negative = VertexReading { busy: busy(-5.0, -5.0, -5.0), ..VertexReading::default() };
    assert_eq!(of_source(counters(5.0), negative, &Samples::new()).get(Metric::Load), Some(0.0));
}

#[test]
fn a_source_that_counts_for_itself() {
    let mut reading = VertexReading { source_out: sum(30.0), ..VertexReading::default() };
    let records = |reading| of_source(counters(0.0), reading, &Samples::new());
    assert_eq!(records(reading).get(Metric::NumRecordsIn), Some(30.0));
    reading.source_in = sum(20.0);
    assert_eq!(records(reading).get(Metric::NumRecordsIn), Some(20.0));
    reading.source_in = sum(0.0);
    assert_eq!(records(reading).get(Metric::NumRecordsIn), Some(30.0));
    reading.source_out = None;
    assert_eq!(records(reading).get(Metric::NumRecordsIn), Some(0.0));
    assert_eq!(
        of_source(counters(4.0), reading, &Samples::new()).get(Metric::NumRecordsIn),
        Some(4.0)
    );
}

/// Earlier samples with this observed rate each.
fn earlier(rates: &[f64]) -> Samples {
    let sample = |(second, rate): (i64, &f64)| {
        let mut values = Values::default();
        values.set(Metric::ObservedTpr, *rate);
        let vertices = [("a".into(), values)].into();
        (Timestamp::from_second(second).unwrap(), Sample { vertices, ..Sample::default() })
    };
    (0..).zip(rates).map(sample).collect()
}

#[test]
fn a_source_is_observed_while_it_catches_up() {
    let catching_up = VertexReading {
        pending: sum(3000.0),
        source_in_per_second: sum(100.0),
        backpressure: average_of(600.0),
        ..VertexReading::default()
    };
    let observed = |reading, before: &[f64]| {
        of_source(counters(1.0), reading, &earlier(before)).get(Metric::ObservedTpr)
    };
    // 30 seconds behind, and processing 40 percent of the time.
    assert_eq!(observed(catching_up, &[]), Some(250.0));
    let has_caught_up = VertexReading { pending: sum(2999.0), ..catching_up };
    assert_eq!(observed(has_caught_up, &[]), None);
    assert_eq!(observed(has_caught_up, &[100.0]), None, "two observations are needed");
    assert_eq!(observed(has_caught_up, &[100.0, 200.0]), Some(150.0));
    for backpressure in [None, average_of(1000.0), average_of(f64::NAN)] {
        let blocked = VertexReading { backpressure, ..catching_up };
        assert_eq!(observed(blocked, &[100.0, 200.0]), Some(150.0));
    }
    let idle = VertexReading { source_in_per_second: sum(0.0), ..catching_up };
    assert_eq!(observed(idle, &[100.0, 200.0]), Some(f64::INFINITY));
    let unknown = VertexReading { source_in_per_second: None, ..catching_up };
    assert_eq!(observed(unknown, &[100.0, 200.0]), None);
}

#[test]
fn what_has_finished_has_no_load_and_is_not_scaled() {
    let graph = topology(counters(500.0));
    let mut vertices = graph.vertices().clone();
    vertices.get_mut(&"a".into()).unwrap().is_finished = true;
    let graph = Topology::new(vertices).unwrap();
    let reading = VertexReading { busy: busy(1.0, 1.0, 1.0), ..VertexReading::default() };
    let reading = Reading { vertices: [("b".into(), reading)].into(), ..Reading::default() };
    let (sample, unscaled) = sample(&reading, &graph, &settings(&[]), &Samples::new()).unwrap();
    assert_eq!(unscaled, [("a".into(), Unscaled::Finished)].into());
    let values = &sample.vertices[&"a".into()];
    for (metric, value) in [
        (Metric::Load, 0.0),
        (Metric::Lag, 0.0),
        (Metric::NumRecordsIn, 0.0),
        (Metric::NumRecordsOut, 0.0),
        (Metric::AccumulatedBusyTime, 0.0),
        (Metric::ObservedTpr, f64::INFINITY),
    ] {
        assert_eq!(values.get(metric), Some(value), "{metric}");
    }
}

#[test]
fn a_vertex_that_was_not_read_makes_no_sample() {
    let missing =
        sample(&Reading::default(), &topology(counters(1.0)), &settings(&[]), &earlier(&[]));
    assert_eq!(missing, Err("a".into()));
}

#[test]
fn section_3_4_the_processes() {
    let max = |max: f64| Some(Aggregate { max: Some(max), ..Aggregate::default() });
    let all = ProcessReading {
        gc: max(250.0),
        heap_used: max(30.0),
        heap_max: max(120.0),
        managed_used: max(5.0),
        metaspace_used: max(6.0),
        slots_total: Some(8.0),
        slots_available: Some(3.0),
    };
    let expected = [
        (Metric::GcPressure, 0.25),
        (Metric::HeapMemoryUsed, 30.0),
        (Metric::ManagedMemoryUsed, 5.0),
        (Metric::MetaspaceMemoryUsed, 6.0),
        (Metric::HeapMaxUsageRatio, 0.25),
        (Metric::NumTaskSlotsUsed, 5.0),
    ];
    assert_eq!(of_processes(&all).iter().collect::<Vec<_>>(), expected);
    let without = ProcessReading { heap_max: None, slots_total: None, ..all };
    let values = of_processes(&without);
    assert_eq!(values.get(Metric::HeapMemoryUsed), None);
    assert_eq!(values.get(Metric::NumTaskSlotsUsed), None);
    assert_eq!(of_processes(&ProcessReading::default()), Values::default());
}

#[test]
fn several_metrics_that_mean_one() {
    let one = Aggregate { min: Some(1.0), max: Some(5.0), average: Some(3.0), sum: Some(6.0) };
    let other = Aggregate { min: Some(0.0), max: Some(9.0), average: Some(4.0), sum: Some(9.0) };
    let merged = Aggregate { min: Some(0.0), max: Some(9.0), average: None, sum: Some(15.0) };
    assert_eq!(one.merged(other), merged);
    assert_eq!(one.merged(Aggregate::default()), Aggregate::default());
}
