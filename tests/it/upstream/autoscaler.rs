//! The autoscaler decided from the wrong figures.

use std::io::Write as _;
use std::time::Duration;

use autoscaler::cycle::{Cycle, Facts, Outcome, State, run};
use autoscaler::feedback::scaling_coefficient;
use autoscaler::metric::{Evaluated, Figures, Metric};
use autoscaler::names::partitions;
use autoscaler::plugin::Asking;
use autoscaler::quota::TaskManager;
use autoscaler::sample::{Aggregate, Reading, VertexReading};
use autoscaler::scaling_history::{Scaling, restart_time};
use autoscaler::settings::{Settings, rest_timeout};
use autoscaler::topology::{Counters, ShipStrategy, Topology, Vertex};
use autoscaler::vertex_scaler::Rule;
use axum::http::Method;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use config::FlinkConfig;
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use testing::scene::JOB_ID;

use crate::autoscaler::{
    config_map, events, flink, last_reconciled, parallelism, run as run_job, scene, state, stored,
    with_load,
};
use crate::fuzz::processor_time;
use crate::support::fake_cluster::{FakeCluster, Fault};
use crate::support::fake_flink::load::WINDOW;
use crate::support::operating::Operating;

/// A source with one vertex behind it, which decides at once.
struct Job {
    state: State,
    config: FlinkConfig,
    source: Vertex,
    sink: Vertex,
    of_source: VertexReading,
    of_sink: VertexReading,
    running_since: Timestamp,
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

#[allow(clippy::unnecessary_wraps, reason = "as readings have it")]
fn all(value: f64) -> Option<Aggregate> {
    let value = Some(value);
    Some(Aggregate { min: value, max: value, average: value, sum: value })
}

impl Job {
    fn new(options: &[(&str, &str)]) -> Self {
        let defaults = [
            ("stabilization.interval", "0"),
            ("metrics.window", "1 min"),
            ("catch-up.duration", "0"),
            ("scale-down.interval", "0"),
            ("scale-down.max-factor", "1"),
        ];
        let source = Vertex {
            parallelism: 4,
            max_parallelism: 720,
            inputs: [].into(),
            partitions: None,
            slot_sharing_group: None,
            is_finished: false,
            counters: Counters::default(),
        };
        let reading = VertexReading { busy: all(500.0), ..VertexReading::default() };
        let of_source = VertexReading {
            pending: all(0.0),
            backpressure: all(0.0),
            source_in_per_second: all(100.0),
            source_in: all(0.0),
            ..reading
        };
        Self {
            state: State::default(),
            config: defaults
                .iter()
                .chain(options)
                .map(|(key, value)| (format!("job.autoscaler.{key}"), *value))
                .collect(),
            sink: Vertex {
                inputs: [("source".into(), ShipStrategy::Rebalance)].into(),
                ..source.clone()
            },
            source,
            of_source,
            of_sink: reading,
            running_since: at(0),
        }
    }

    fn settings(&self) -> Settings {
        Settings::read(&self.config).unwrap()
    }

    /// Runs a cycle in which both vertices have read this many records.
    fn cycle(&mut self, second: i64, records: f64) -> Cycle {
        for vertex in [&mut self.source, &mut self.sink] {
            vertex.counters = Counters { records_in: records, records_out: records, busy: 0.0 };
        }
        let vertices = [("source".into(), self.source.clone()), ("sink".into(), self.sink.clone())];
        let readings = [("source".into(), self.of_source), ("sink".into(), self.of_sink)];
        let reading = Reading { vertices: readings.into(), ..Reading::default() };
        let facts = Facts {
            now: at(second),
            zone: &TimeZone::UTC,
            settings: &self.settings(),
            config: &self.config,
            topology: &Topology::new(vertices.into()).unwrap(),
            running_since: self.running_since,
            reading: &reading,
            task_manager: TaskManager::default(),
            pods: None,
            capacity: None,
            asking: Asking::default(),
        };
        let cycle = run(self.state.clone(), &facts);
        self.state = cycle.state.clone();
        cycle
    }
}

fn new_parallelism(cycle: &Cycle) -> Vec<u32> {
    cycle.decisions.values().map(|decision| decision.new).collect()
}

#[track_caller]
fn average(cycle: &Cycle, vertex: &str, metric: Metric) -> f64 {
    cycle.evaluation.as_ref().unwrap().vertices[&vertex.into()].average(metric)
}

#[test]
fn flink_31318_a_job_that_works_off_a_backlog_is_not_scaled_down() {
    let decided = |lag: f64| {
        let mut job = Job::new(&[]);
        job.of_source.pending = all(lag);
        job.of_source.source_in_per_second = all(3000.0);
        // 100 records per second, for which a twentieth of the capacity is enough.
        job.of_source.busy = all(50.0);
        job.of_sink.busy = all(50.0);
        job.cycle(0, 0.0);
        job.cycle(60, 6000.0).outcome
    };
    assert_eq!(decided(0.0), Outcome::Scaled);
    assert_eq!(decided(40_000.0), Outcome::WithinBounds);
}

#[test]
fn flink_33306_a_source_that_seems_idle_while_it_catches_up_is_measured_by_what_it_reads() {
    let rate = |lag: f64| {
        let mut job = Job::new(&[]);
        // Waiting for its brokers is not busy time.
        job.of_source.busy = all(10.0);
        job.of_source.pending = all(lag);
        job.cycle(0, 0.0);
        average(&job.cycle(60, 6000.0), "source", Metric::TrueProcessingRate).to_bits()
    };
    assert_eq!(rate(3000.0), 100.0_f64.to_bits(), "what it reads while it has enough to read");
    assert_eq!(rate(2999.0), 10_000.0_f64.to_bits(), "not observed, the busy time counts");
}

#[test]
fn flink_34178_a_restart_ends_when_the_job_runs_not_when_it_is_stable() {
    let mut job = Job::new(&[("restart.time-tracking.enabled", "true")]);
    job.of_source.busy = all(1000.0);
    job.of_sink.busy = all(1000.0);
    job.cycle(0, 0.0);
    job.of_source.pending = all(6000.0);
    assert_eq!(job.cycle(60, 6000.0).outcome, Outcome::Scaled);
    let parallelism = job.state.overrides[&"source".into()];
    (job.source.parallelism, job.sink.parallelism) = (parallelism, parallelism);
    // It ran again after 20 seconds, which is observed ten minutes later.
    job.running_since = at(80);
    job.cycle(660, 0.0);
    assert_eq!(job.state.restarts[&at(60)], Some(SignedDuration::from_secs(20)));
    assert_eq!(restart_time(&job.state.restarts, &job.settings()), Duration::from_secs(20));
}

#[test]
fn flink_34266_rates_are_those_of_the_whole_window() {
    let mut job = Job::new(&[("metrics.window", "3 min")]);
    // The momentary rate is far off each time.
    for (second, records, moment) in
        [(0, 0.0, 5000.0), (60, 100.0, 1.0), (120, 17_000.0, 7000.0), (180, 18_000.0, 2.0)]
    {
        job.of_source.source_in_per_second = all(moment);
        let cycle = job.cycle(second, records);
        if second == 180 {
            let target = average(&cycle, "sink", Metric::TargetDataRate);
            assert_eq!(target.to_bits(), 100.0_f64.to_bits());
            let rate = average(&cycle, "sink", Metric::TrueProcessingRate);
            assert_eq!(rate.to_bits(), 200.0_f64.to_bits());
        }
    }
}

#[test]
fn flink_36535_down_goes_to_the_highest_of_the_interval_and_not_before_its_end() {
    let mut job = Job::new(&[("scale-down.interval", "10 min")]);
    let mut records = 0.0;
    let mut cycle = |second: i64, busy: f64| {
        job.of_source.busy = all(busy);
        job.of_sink.busy = all(busy);
        records += 6000.0;
        new_parallelism(&job.cycle(second, records))
    };
    cycle(0, 100.0);
    for minute in 1..=10 {
        // For one minute of ten, three of the four subtasks are needed.
        let busy = if minute == 5 { 900.0 } else { 100.0 };
        assert_eq!(cycle(minute * 60, busy), [4, 4], "minute {minute}");
    }
    assert_eq!(cycle(660, 100.0), [3, 3]);
}

#[test]
fn flink_39299_alignment_never_turns_the_direction_round() {
    // A source of 15 partitions with 16 subtasks: the next parallelism that fits is lower. One of them is idle and is
    // removed.
    let decided = |current: u32, rate: f64, options: &[(&str, &str)]| {
        let mut job = Job::new(options);
        job.source.parallelism = current;
        job.source.partitions = Some(15);
        job.of_source.busy = all(rate);
        job.cycle(0, 0.0);
        let cycle = job.cycle(60, 6000.0);
        cycle.decisions[&"source".into()].new
    };
    for mode in ["EVENLY_SPREAD", "MAXIMIZE_UTILISATION"] {
        let options = [("scaling.key-group.partitions.adjust.mode", mode)];
        assert_eq!(decided(16, 1000.0, &options), 15, "{mode}");
        assert!(decided(14, 500.0, &options) <= 14, "{mode}");
        assert!(decided(14, 1000.0, &options) >= 14, "{mode}");
    }
    for mode in ["BALANCED", "EVENLY_SPREAD", "OFF"] {
        let options = [("scaling.parallelism-alignment.mode", mode)];
        let up = decided(16, 1000.0, &options);
        assert!(if mode == "OFF" { up > 16 } else { up == 15 }, "{mode}: {up}");
        assert!(decided(14, 500.0, &options) <= 14, "{mode}");
        assert!(decided(14, 1000.0, &options) >= 14, "{mode}");
    }
}

#[test]
fn flink_40389_a_source_has_no_more_subtasks_than_partitions() {
    for mode in ["BALANCED", "EVENLY_SPREAD"] {
        let mode = ("scaling.parallelism-alignment.mode", mode);
        let mut job = Job::new(&[mode, ("scale-down.interval", "10 min")]);
        (job.source.parallelism, job.source.partitions) = (100, Some(15));
        job.of_source.busy = all(1000.0);
        // Twice as many records come in as it reads.
        let of_source = |job: &mut Job, minute: u32, since: u32| {
            let records = 6000.0 * f64::from(minute - since);
            job.of_source.pending = all(records);
            let cycle = job.cycle(i64::from(minute) * 60, records);
            cycle.decisions.get(&"source".into()).map(|decision| decision.new)
        };
        assert_eq!(of_source(&mut job, 0, 0), None);
        for minute in 1..=10 {
            assert_eq!(of_source(&mut job, minute, 0), Some(100), "minute {minute}");
        }
        assert_eq!(of_source(&mut job, 11, 0), Some(15));
        assert_eq!(job.state.overrides[&"source".into()], 15);
        // Although it is busy, it would need more partitions, not more subtasks.
        (job.source.parallelism, job.running_since) = (15, at(12 * 60));
        assert_eq!(of_source(&mut job, 12, 12), None);
        for minute in 13..=33 {
            assert_eq!(of_source(&mut job, minute, 12), Some(15), "minute {minute}");
        }
    }
}

#[test]
fn flink_39890_a_vertex_that_read_nothing_scales_as_any_other() {
    let scaling = |current: u32| Scaling { current, new: 2 * current, figures: figures(0.0) };
    let history = [1, 2, 4].map(|current| (at(current.into()), scaling(current))).into();
    assert_eq!(scaling_coefficient(&history, 0.5, 3).to_bits(), 1.0_f64.to_bits());
}

/// Returns figures with this true processing rate.
fn figures(rate: f64) -> Figures {
    let mut figures = Figures::default();
    figures.set(Metric::TrueProcessingRate, Evaluated::average(rate));
    figures
}

/// The time grows with the length of the names, not with its square.
#[test]
fn flink_40443_names_that_a_job_makes_up_are_read_in_no_time() {
    const TIMES: usize = 16;
    let (short, long) = (time_to_read(2500), time_to_read(2500 * TIMES));
    println!("{TIMES} times as long: {short:?} and {long:?}");
    assert!(long < short * 4 * u32::try_from(TIMES).unwrap(), "{short:?} and {long:?}");
}

/// Returns the processor time that names take of this many parts, each of which may be the start of a topic: a pattern
/// would be tried from all of them.
fn time_to_read(parts: usize) -> Duration {
    let kafka = ".KafkaSourceReader.topic.".repeat(parts);
    let clusters = ".kafkaCluster.".repeat(2 * parts);
    let pulsar = ".PulsarConsumer.a-partition-".repeat(parts);
    let names: Vec<String> = (0..10)
        .flat_map(|number| {
            [
                format!("{kafka}.partition.{number}.currentOffset"),
                format!("{clusters}{kafka}t.partition.{number}.currentOffset"),
                format!("{pulsar}{number}.x.numMsgsReceived"),
                format!("{kafka}.partition.x.currentOffset"),
                format!("{pulsar}x.numMsgsReceived"),
            ]
        })
        .collect();
    // A busy machine also costs processor time.
    let tries = (0..5).map(|_| {
        let begun = processor_time();
        assert_eq!(partitions(&names), Some(30));
        processor_time().saturating_sub(begun)
    });
    tries.min().unwrap()
}

#[test]
fn flink_39306_records_are_counted_as_the_busy_time_is() {
    // The busiest moments read the most: 900 records in 300 of 1000 ms, and so on.
    let rate = |aggregator| {
        let mut job = Job::new(&[("metrics.busy-time.aggregator", aggregator)]);
        let mut moment = |second, records, moment: f64| {
            job.of_sink.busy = all(moment / 3.0);
            job.of_sink.in_per_second = all(moment);
            job.cycle(second, records)
        };
        moment(0, 0.0, 900.0);
        average(&moment(60, 60_000.0, 300.0), "sink", Metric::TrueProcessingRate)
    };
    // 600 records in 200 ms. The counter, which says 1000 per second, covers other moments.
    assert_eq!(rate("MAX").to_bits(), 3000.0_f64.to_bits());
    assert_eq!(rate("MIN").to_bits(), 3000.0_f64.to_bits());
}

#[test]
fn flink_39743_the_expected_rate_is_that_of_the_parallelism_that_comes_out() {
    let mut job = Job::new(&[("vertex.max-parallelism", "5")]);
    job.of_source.busy = all(1000.0);
    job.of_sink.busy = all(1000.0);
    job.of_source.pending = all(0.0);
    job.cycle(0, 0.0);
    job.of_source.pending = all(60_000.0);
    let cycle = job.cycle(60, 6000.0);
    // Eleven times as much comes in, and five subtasks instead of four process a quarter more.
    assert_eq!(new_parallelism(&cycle), [5, 5]);
    let figures = &cycle.evaluation.as_ref().unwrap().vertices[&"source".into()];
    let expected = figures.current(Metric::ExpectedProcessingRate);
    assert_eq!(expected.to_bits(), 125.0_f64.to_bits());
    let decider = cycle.decisions[&"source".into()].decider().unwrap();
    assert_eq!(decider.rule, Rule::MaxParallelism);
}

#[test]
fn flink_39958_the_timeout_of_the_autoscaler_is_its_own_where_it_is_set() {
    let operators = Duration::from_secs(33);
    let timeout =
        |pairs: &[(&str, &str)]| rest_timeout(&pairs.iter().copied().collect(), operators).unwrap();
    assert_eq!(timeout(&[]), operators);
    let own = Duration::from_secs(4);
    assert_eq!(timeout(&[("job.autoscaler.flink.rest-client.timeout", "4 s")]), own);
    let older = ("kubernetes.operator.job.autoscaler.flink.rest-client.timeout", "4 s");
    assert_eq!(timeout(&[older]), own);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flink_33187_the_same_recommendation_is_reported_once_within_its_interval() {
    for (interval, is_told_again) in [("1 ms", true), ("30 min", false)] {
        let operating = Operating::start(flink().await);
        let options = [
            ("job.autoscaler.scaling.enabled", "false"),
            ("job.autoscaler.scaling.event.interval", interval),
        ];
        run_job(&operating, &scene(&options), 10.0);
        // Far more than it needs, and nothing changes.
        with_load(&operating, |load| load.parallelism.values_mut().for_each(|of| *of = 4));
        let counts = |cluster: &FakeCluster| -> Vec<u64> {
            let reports = events(cluster, "ScalingReport").into_iter();
            reports.map(|event| event["count"].as_u64().unwrap()).collect()
        };
        operating.until("it is told", |cluster| (!counts(cluster).is_empty()).then_some(())).await;
        if is_told_again {
            // Each cycle comes to the same result.
            let is_counted = |cluster: &FakeCluster| (counts(cluster)[0] > 3).then_some(());
            operating.until("it is told again", is_counted).await;
        } else {
            // At least as many cycles again.
            let measured = || operating.flink.requests("metrics").len();
            let enough = 2 * measured() + 10;
            operating.until("it is measured again", |_| (measured() > enough).then_some(())).await;
        }
        let described = counts(&operating.cluster);
        assert!(
            described.len() == 1 && (described[0] > 1) == is_told_again,
            "{interval}: {described:?}"
        );
        operating.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flink_40414_what_a_job_may_write_sets_no_option_of_it() {
    let operating = Operating::start(flink().await);
    run_job(&operating, &scene(&[("job.autoscaler.memory.tuning.enabled", "true")]), 28.0);
    let map = operating.until("samples are stored", stored).await;
    let changes =
        "overrides: {env.java.opts.all: -Devil=1}\nremovals: [high-availability.storageDir]\n";
    let mut written = map;
    written["data"]["configOverrides"] = json!(changes);
    operating.cluster.insert(written.clone());
    let described = |cluster: &FakeCluster| {
        let mut messages = events(cluster, "AutoscalerError").into_iter();
        messages.find(|event| event["message"].as_str().unwrap().contains("`env.java.opts.all`"))
    };
    // Whoever takes it for an option stops the job for it.
    let inspect = |cluster: &FakeCluster| {
        let is_stopped = !operating.flink.requests("/stop").is_empty();
        let described = described(cluster);
        (is_stopped || described.is_some()).then_some(described)
    };
    let event = operating.until("the key is told", inspect).await.expect("the key is told");
    let message = event["message"].as_str().unwrap();
    assert!(message.ends_with("or reset the autoscaler") && !message.contains("evil"), "{message}");
    // A starting operator reads it before anything else.
    let operating = operating.restart().await;
    with_load(&operating, |load| load.rate = 100.0);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(parallelism(&operating), (1, 1), "nothing is decided");
    assert_eq!(stored(&operating.cluster).unwrap()["data"]["configOverrides"], changes);
    let spec = last_reconciled(&operating.cluster).to_string();
    assert!(!spec.contains("evil") && spec.contains("high-availability.storageDir"), "{spec}");
    let manager = operating.cluster.object("deployments", "shop", "orders").unwrap();
    assert_eq!(manager["metadata"]["uid"], "d1", "the JobManager was not replaced");
    assert_eq!(operating.flink.requests("/stop"), [""; 0]);

    written["data"].as_object_mut().unwrap().remove("configOverrides");
    operating.cluster.insert(written);
    let decided = |cluster: &FakeCluster| {
        let state = state(cluster)?.state;
        (!state.overrides.is_empty() && !state.config.overrides.is_empty()).then_some(())
    };
    operating.until("the autoscaler goes on", decided).await;
    assert!(!last_reconciled(&operating.cluster).to_string().contains("evil"));
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flink_39925_a_vertex_whose_records_are_not_all_counted_is_not_scaled_down() {
    let operating = Operating::start(flink().await);
    run_job(&operating, &scene(&[]), 100.0);
    with_load(&operating, |load| load.parallelism.values_mut().for_each(|of| *of = 4));
    let report = |incomplete| {
        operating.flink.with("shop/orders", |cluster| {
            cluster.jobs.get_mut(JOB_ID).unwrap().incomplete = incomplete;
        });
    };
    operating.until("samples are stored", stored).await;
    // The TaskManagers do not answer the JobManager: nothing seems to reach the window.
    report(vec![(WINDOW, "read-records")]);
    let described = |cluster: &FakeCluster| {
        let mut messages = events(cluster, "AutoscalerError").into_iter();
        messages.find(|event| event["message"].as_str().unwrap().contains(WINDOW))
    };
    operating.until("the vertex is told", described).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(parallelism(&operating), (4, 4));
    assert_eq!(with_load(&operating, |load| load.changes), 0);
    report(vec![]);
    with_load(&operating, |load| load.rate = 10.0);
    let is_down = |_: &FakeCluster| (parallelism(&operating) == (1, 1)).then_some(());
    operating.until("it is scaled down for a reason", is_down).await;
    operating.stop().await;
}

/// Returns the leftover autoscaler state of an earlier `orders` of this kind.
fn left_by(kind: &str) -> Value {
    let mut map = config_map(json!({
        "parallelismOverrides": format!("{WINDOW}:7"), "scalingTracking": "cut sho", "ofTomorrow": "7",
    }));
    map["metadata"]["ownerReferences"][0]["kind"] = json!(kind);
    map["metadata"]["ownerReferences"][0]["uid"] = json!("u0");
    map
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flink_40587_a_resource_that_was_made_again_begins_anew_and_stores() {
    let operating = Operating::start(flink().await);
    operating.cluster.insert(left_by("FlinkDeployment"));
    // While the API server has no resource of this uid, the watch may show the deleted one.
    operating.cluster.fail(Method::GET, "flinkdeployments/orders", Fault::Absent, 2);
    run_job(&operating, &scene(&[("job.autoscaler.advice.first-window", "true")]), 28.0);
    let refused = |cluster: &FakeCluster| {
        let mut messages = events(cluster, "AutoscalerError").into_iter();
        messages.find(|event| event["message"].as_str().unwrap().contains("belongs to"))
    };
    operating.until("it is left alone", refused).await;
    let is_own = |cluster: &FakeCluster| {
        let map = stored(cluster)?;
        let is_own = map["metadata"]["ownerReferences"][0]["uid"] == "u1";
        (is_own && map["data"]["collectedMetrics"].is_string()).then_some(map)
    };
    let map = operating.until("it is stored as its own", is_own).await;
    let keys: Vec<&String> = map["data"].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["adviceUntil", "collectedMetrics"], "nothing of the former one");
    assert_eq!(parallelism(&operating), (1, 1));
    assert!(!last_reconciled(&operating.cluster).to_string().contains(WINDOW));

    // It is deleted while in use: the next write creates it again.
    let maps: Api<ConfigMap> = Api::namespaced(operating.cluster.client(), "shop");
    maps.delete("autoscaler-orders", &DeleteParams::default()).await.unwrap();
    with_load(&operating, |load| load.rate = 100.0);
    let is_up = |_: &FakeCluster| (parallelism(&operating) >= (4, 4)).then_some(());
    operating.until("it is scaled up", is_up).await;
    assert!(is_own(&operating.cluster).is_some());
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flink_40587_what_belongs_to_another_kind_is_left_alone() {
    let operating = Operating::start(flink().await);
    let left = operating.cluster.insert(left_by("FlinkSessionJob"));
    run_job(&operating, &scene(&[]), 100.0);
    let described = |cluster: &FakeCluster| events(cluster, "AutoscalerError").into_iter().next();
    let event = operating.until("it is told", described).await;
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("belongs to FlinkSessionJob `orders` of uid u0"), "{message}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(stored(&operating.cluster), Some(left));
    assert_eq!(parallelism(&operating), (1, 1));
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flink_40401_a_value_that_grows_beyond_measure_is_set_aside() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![b'a'; 64 << 20]).unwrap();
    let bomb = STANDARD.encode(encoder.finish().unwrap());
    assert!(bomb.len() < 100_000, "{}", bomb.len());
    let operating = Operating::start(flink().await);
    let data = json!({"collectedMetrics": bomb, "scalingHistory": bomb});
    operating.cluster.insert(config_map(data));
    run_job(&operating, &scene(&[]), 100.0);
    let is_up = |_: &FakeCluster| (parallelism(&operating) >= (4, 4)).then_some(());
    operating.until("it is scaled up", is_up).await;
    let data = stored(&operating.cluster).unwrap()["data"].clone();
    for key in ["collectedMetrics", "scalingHistory"] {
        assert_eq!(data[format!("{key}.unreadable")], json!(bomb), "{key}");
        assert_ne!(data[key], json!(bomb), "{key} is begun anew");
    }
    operating.stop().await;
}
