//! Work on what somebody else controls, with the largest input that its limits admit: the time grows with the input, and
//! not with its square. What is larger is refused before anything is done for each part of it.
//!
//! Times are compared with those of a smaller input on the same machine, in seconds of the processor.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use autoscaler::align::{Target, align};
use autoscaler::cycle::{Cycle, OwnedFacts, State, run};
use autoscaler::names::{partitions, wanted};
use autoscaler::plugin::Answers;
use autoscaler::quota::TaskManager;
use autoscaler::sample::{Aggregate, ProcessReading, Reading, VertexReading};
use autoscaler::settings::{Alignment, Settings};
use autoscaler::state::{self, Stored};
use autoscaler::topology::{
    EDGES_MAX, PARALLELISM_MAX, Topology, Unusable, VERTICES_MAX, Vertex, VertexId,
};
use clients::flink::Client;
use clients::flink::jobs::JobDetails;
use clients::flink::scaling::{Names, Unmeasured, vertices};
use config::FlinkConfig;
use config::options::autoscaler::{AdjustMode, AlignmentMode};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use validation::extension::mutation::mutated;
use validation::extension::subject::Kind;

use crate::fuzz::processor_time;
use crate::support::patience::DEADLINES;

/// What a machine that is busy, caches and logarithms may add.
const SLACK: u32 = 4;
/// What is shorter says nothing about growth.
const SHORTEST: Duration = Duration::from_micros(200);

/// Returns the time of the fastest of a few runs.
fn fastest(mut work: impl FnMut()) -> Duration {
    let mut run = || {
        let started = processor_time();
        work();
        processor_time().saturating_sub(started)
    };
    (0..3).map(|_| run()).min().unwrap()
}

/// Checks that the work takes time in proportion to its size, for an eighth of the largest size and the largest.
#[track_caller]
fn check<T>(what: &str, largest: usize, input: impl Fn(usize) -> T, work: impl Fn(&T)) {
    let [small, large] = [largest / 8, largest].map(|size| {
        let input = input(size);
        fastest(|| work(&input))
    });
    println!("{what}: {small:?} for an eighth, {large:?} for all");
    assert!(large <= small.max(SHORTEST) * 8 * SLACK, "{what}: {small:?}, then {large:?}");
}

fn id(vertex: usize) -> String {
    format!("{vertex:032x}")
}

/// The inputs of a vertex, in a graph of this many.
type Shape = fn(usize, usize) -> Vec<usize>;

/// Graphs that an order, rates and limits of edges could take long for.
const SHAPES: [(&str, Shape); 4] = [
    // Each vertex reads from the one with the next id, so that the ids are no order.
    ("chain", |vertex, count| if vertex + 1 < count { vec![vertex + 1] } else { vec![] }),
    ("all into one", |vertex, count| if vertex == 0 { (1..count).collect() } else { vec![] }),
    ("one into all", |vertex, _| if vertex == 0 { vec![] } else { vec![0] }),
    ("each into ten", |vertex, count| (vertex + 1..count.min(vertex + 10)).collect()),
];

/// The answer to `/jobs/ID`.
fn job(count: usize, shape: Shape, max_parallelism: u32, records: u64) -> String {
    let mut text = String::from(
        "{\"jid\":\"a\",\"state\":\"RUNNING\",\"timestamps\":{\"RUNNING\":1700000000000},\"vertices\":[",
    );
    for vertex in 0..count {
        let comma = if vertex == 0 { "" } else { "," };
        let _written = write!(
            text,
            "{comma}{{\"id\":\"{}\",\"status\":\"RUNNING\",\"parallelism\":7,\"maxParallelism\":{max_parallelism},\
             \"metrics\":{{\"read-records\":{records},\"write-records\":{records},\"accumulated-busy-time\":{records}}}}}",
            id(vertex)
        );
    }
    text.push_str("],\"plan\":{\"nodes\":[");
    for vertex in 0..count {
        let comma = if vertex == 0 { "" } else { "," };
        let inputs = shape(vertex, count).into_iter();
        let inputs: Vec<Value> =
            inputs.map(|input| json!({"id": id(input), "ship_strategy": "HASH"})).collect();
        let _written =
            write!(text, "{comma}{{\"id\":\"{}\",\"inputs\":{}}}", id(vertex), Value::from(inputs));
    }
    text.push_str("]}}");
    text
}

fn graph(text: &str) -> BTreeMap<VertexId, Vertex> {
    vertices(&serde_json::from_str::<JobDetails>(text).unwrap()).unwrap()
}

#[test]
fn a_graph_is_ordered_in_time_that_grows_with_it() {
    for (name, shape) in SHAPES {
        let input = |count| graph(&job(count, shape, 128, 1));
        check(name, VERTICES_MAX, input, |graph| {
            let topology = Topology::new(graph.clone()).unwrap();
            assert_eq!(topology.in_order().count(), graph.len());
        });
    }
}

#[test]
fn a_graph_that_is_too_large_is_refused_before_its_vertices_are_checked() {
    let too_large = |vertices, edges| Unusable::TooLarge { vertices, edges };
    let read = |text: &str| serde_json::from_str::<JobDetails>(text).unwrap();
    let chain = read(&job(140_000, SHAPES[0].1, 128, 1));
    let refused = fastest(|| {
        let why = vertices(&chain).unwrap_err();
        assert!(
            matches!(&why, Unmeasured::Topology(of) if *of == too_large(140_000, 139_999)),
            "{why}"
        );
    });
    let small = read(&job(2_000, SHAPES[0].1, 128, 1));
    let looked_at = fastest(|| drop(vertices(&small).unwrap()));
    println!("140,000 vertices: refused in {refused:?}; 2,000 are looked at in {looked_at:?}");
    assert!(refused <= looked_at.max(SHORTEST) * SLACK, "{refused:?}, {looked_at:?}");
    let dense: Shape = |vertex, count| (vertex + 1..count).collect();
    let why = vertices(&read(&job(300, dense, 128, 1))).unwrap_err();
    const { assert!(300 * 299 / 2 > EDGES_MAX) };
    assert_eq!(
        why.to_string(),
        "the job has 300 vertices and 44850 edges: to keep each cycle short, only jobs with at \
         most 2000 and 20000 are scaled"
    );
    let wide = graph(&job(1, SHAPES[0].1, PARALLELISM_MAX + 1, 1));
    let why = Topology::new(wide).unwrap_err();
    assert!(matches!(why, Unusable::MaxParallelism { .. }), "{why}");
    let vertex = graph(&job(1, SHAPES[0].1, 1 << 15, 1)).pop_first().unwrap().1;
    let long = VertexId::from("a".repeat(65));
    let why = Topology::new([(long, vertex)].into()).unwrap_err();
    assert_eq!(why, Unusable::Id { length: 65 });
}

/// Returns what a cycle receives of a job in this minute.
fn facts(count: usize, shape: Shape, minute: i64, options: &FlinkConfig) -> OwnedFacts {
    // A prime is divided by nothing.
    let text = job(count, shape, 32_749, 1000 * u64::try_from(minute).unwrap());
    let topology = Topology::new(graph(&text)).unwrap();
    let each = |of: f64| {
        Some(Aggregate { min: Some(of), max: Some(of), average: Some(of), sum: Some(of) })
    };
    let reading = VertexReading {
        busy: each(990.0),
        backpressure: each(1.0),
        source_in_per_second: each(17.0),
        source_in: each(1000.0 * f64::from(i32::try_from(minute).unwrap())),
        pending: each(5.0),
        in_per_second: each(17.0),
        ..VertexReading::default()
    };
    let vertices = topology.vertices().keys().map(|id| (id.clone(), reading)).collect();
    let start = Timestamp::from_second(1_700_000_000).unwrap();
    OwnedFacts {
        now: start + SignedDuration::from_mins(minute),
        zone: TimeZone::UTC,
        settings: Settings::read(options).unwrap(),
        config: options.clone(),
        topology,
        running_since: start,
        reading: Reading { vertices, processes: ProcessReading::default() },
        task_manager: TaskManager::default(),
        pods: None,
        job: None,
    }
}

fn cycle(state: State, facts: &OwnedFacts) -> Cycle {
    run(state, &facts.with(None, &Answers::new()))
}

/// The whole decision, with a few samples, and storing them.
#[test]
fn a_cycle_takes_time_that_grows_with_the_graph() {
    let options: FlinkConfig = [
        ("job.autoscaler.stabilization.interval", "0 s"),
        ("job.autoscaler.metrics.window", "3 min"),
        ("job.autoscaler.scaling.key-group.partitions.adjust.mode", "EVENLY_SPREAD"),
        ("job.autoscaler.vertex.max-parallelism", "2147483647"),
    ]
    .into_iter()
    .collect();
    for (name, shape) in SHAPES {
        let input = |count| {
            let early = (1..5).map(|minute| facts(count, shape, minute, &options));
            let state = early.fold(State::default(), |state, of| cycle(state, &of).state);
            let last = facts(count, shape, 5, &options);
            assert_eq!(cycle(state.clone(), &last).decisions.len(), count);
            (state, last)
        };
        check(name, VERTICES_MAX, input, |(state, last)| drop(cycle(state.clone(), last)));
    }
    let stored = |count| {
        let minutes = (1..5).map(|minute| facts(count, SHAPES[0].1, minute, &options));
        let state = minutes.fold(State::default(), |state, of| cycle(state, &of).state);
        Stored { state, ..Stored::default() }
    };
    check("stored", VERTICES_MAX, stored, |stored| {
        let data = state::write(stored).unwrap().data;
        assert!(state::read(&data).is_ok());
    });
}

#[test]
fn an_alignment_takes_no_single_steps() {
    let modes = [
        Alignment::Mode(AlignmentMode::Balanced),
        Alignment::Mode(AlignmentMode::EvenlySpread),
        Alignment::Legacy(AdjustMode::EvenlySpread),
        Alignment::Legacy(AdjustMode::MaximizeUtilisation),
    ];
    // Primes, whose square roots are 1 to 16; the larger one is far beyond what Flink allows.
    let input = |max: u32| Target {
        current: 2,
        target: max / 2 + 1,
        parts: max,
        max_parallelism: max,
        lower: 1,
        upper: max,
    };
    let align_all = |target: &Target| {
        for mode in modes.iter().cycle().take(40) {
            assert!(align(target, *mode).parallelism > 0);
        }
    };
    let [small, large] = [65_521, 16_777_213].map(|max| fastest(|| align_all(&input(max))));
    println!("alignment: {small:?}, {large:?}");
    assert!(large <= small.max(SHORTEST) * 16 * SLACK, "{small:?}, {large:?}");
}

#[test]
fn names_of_metrics_are_chosen_in_time_that_grows_with_them() {
    let one = |number: usize| match number % 3 {
        0 => format!("Source__o.KafkaSourceReader.topic.t.partition.{number}.currentOffset"),
        1 => format!("Source__{number}.pendingRecords"),
        _ => format!("Source__o{}.numRecordsIn", "x".repeat(number % 2000)),
    };
    let input = |count: usize| {
        let needed = [
            "busyTimeMsPerSecond",
            "backPressuredTimeMsPerSecond",
            "Source__o.numRecordsInPerSecond",
        ];
        (0..count).map(one).chain(needed.map(str::to_owned)).collect::<Vec<_>>()
    };
    check("names", 16_000, input, |names| {
        let wanted = wanted(names, true).unwrap();
        let length: usize = wanted.keys().map(String::len).sum();
        assert!(wanted.len() <= 100 && length <= 40_000, "{} of {length}", wanted.len());
        assert!(partitions(names).is_some());
    });
    let long = ["Source__a".repeat(1000) + ".numRecordsIn", "busyTimeMsPerSecond".to_owned()];
    assert!(wanted(&long, true).is_err(), "it would not fit into a request");
}

#[test]
fn a_patch_is_applied_in_time_that_grows_with_it() {
    let input = |count: usize| {
        let list: Vec<usize> = (0..100_000).collect();
        let object = json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
            "metadata": {"name": "job", "namespace": "ns", "annotations": {}},
            "spec": {"flinkConfiguration": {"a": list}},
        });
        let patch: Vec<Value> = (0..count)
            .map(|at| json!({"op": "add", "path": format!("/metadata/annotations/{at}"), "value": "x".repeat(900)}))
            .collect();
        (object, Value::from(patch))
    };
    check("patch", 1000, input, |(object, patch)| {
        drop(mutated(Kind::FlinkDeployment, object, patch));
    });
}

/// Without its limits this patch is an object of 2^40 times the first one.
#[test]
fn a_patch_that_grows_the_object_is_refused_early() {
    let object = json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "job", "namespace": "ns"}, "spec": {"image": "x".repeat(1000)},
    });
    let copy = |to| json!({"op": "copy", "from": "/spec", "path": format!("/spec/{to}")});
    // Few enough for the memory of this machine if nothing stops them.
    let patch: Value = (0..18).map(copy).collect();
    let mut error = String::new();
    let held = allocation_counter::measure(|| {
        error = mutated(Kind::FlinkDeployment, &object, &patch).unwrap_err();
    });
    assert!(error.starts_with("operation 10 of its patch makes more than"), "{error}");
    assert!(held.bytes_max < 20 << 20, "{} bytes", held.bytes_max);
}

/// An answer with more values than are read, and one with more vertices: neither is asked about any further, and other
/// tasks of the same thread go on.
#[tokio::test]
async fn a_hostile_answer_is_one_request_and_holds_up_nothing() {
    let calls = Arc::new(AtomicUsize::new(0));
    // As many vertices as fit into an answer: those that have finished need no more.
    let finished =
        |it: usize| format!("{{\"id\":\"{it:x}\",\"status\":\"FINISHED\",\"parallelism\":1}}");
    let reading =
        |it: usize| format!("{{\"id\":\"{it:x}\",\"inputs\":[{{\"id\":\"{:x}\"}}]}}", it + 1);
    let all = |of: &dyn Fn(usize) -> String| (0..140_000).map(of).collect::<Vec<_>>().join(",");
    let chain = format!(
        "{{\"jid\":\"a\",\"vertices\":[{}],\"plan\":{{\"nodes\":[{}]}}}}",
        all(&finished),
        all(&reading)
    );
    let answers = [chain, job(2_001, SHAPES[0].1, 128, 1)];
    let expected = [
        "it has 2100008 values, and at most 1000000 are read",
        "the job has 2001 vertices and 2000 edges",
    ];
    for (answer, expected) in answers.into_iter().zip(expected) {
        assert!(answer.len() < 16 << 20);
        let (body, counted) = (axum::body::Bytes::from(answer), Arc::clone(&calls));
        let router = axum::Router::new().fallback(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            let body = body.clone();
            async move { body }
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router).await });
        let client = Client::at(&format!("http://{address}"), DEADLINES).unwrap();
        calls.store(0, Ordering::Relaxed);
        let why = client.measure("aaaa", &mut Names::default()).await.unwrap_err().to_string();
        assert!(why.contains(expected), "{why}");
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        server.abort();
    }
}
