#![allow(clippy::float_cmp, reason = "the numbers are exact")]

mod examples;
mod laws;
mod linear;
mod plugins;

use super::*;
use crate::capacity;
use crate::cost::Pod;
use crate::plugin::rules::Rules;
use crate::sample::{Aggregate, ProcessReading, VertexReading};
use crate::settings::tests::settings;
use crate::topology::{Counters, ShipStrategy, Vertex};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

#[allow(clippy::unnecessary_wraps, reason = "as readings have it")]
fn aggregate(value: f64) -> Option<Aggregate> {
    let value = Some(value);
    Some(Aggregate { min: value, max: value, average: value, sum: value })
}

/// A vertex at one moment.
#[derive(Clone, Debug)]
struct Now {
    id: &'static str,
    inputs: Vec<&'static str>,
    parallelism: u32,
    max_parallelism: u32,
    records_in: f64,
    records_out: f64,
    busy: f64,
    /// Milliseconds per second.
    backpressure: f64,
    lag: f64,
    in_per_second: f64,
}

impl Now {
    fn vertex(&self) -> (VertexId, Vertex) {
        let inputs = self.inputs.iter().map(|id| ((*id).into(), ShipStrategy::Rebalance));
        let vertex = Vertex {
            parallelism: self.parallelism,
            max_parallelism: self.max_parallelism,
            inputs: inputs.collect(),
            partitions: None,
            slot_sharing_group: Some("default".to_owned()),
            is_finished: false,
            counters: Counters {
                records_in: self.records_in,
                records_out: self.records_out,
                busy: 0.0,
            },
        };
        (self.id.into(), vertex)
    }

    fn reading(&self) -> (VertexId, VertexReading) {
        let mut reading = VertexReading { busy: aggregate(self.busy), ..VertexReading::default() };
        if self.inputs.is_empty() {
            reading.pending = aggregate(self.lag);
            reading.backpressure = aggregate(self.backpressure);
            reading.source_in_per_second = aggregate(self.in_per_second);
            reading.source_in = aggregate(self.records_in);
        }
        (self.id.into(), reading)
    }
}

/// A job whose cycles run one after the other.
struct Job {
    state: State,
    settings: Settings,
    config: FlinkConfig,
    running_since: Timestamp,
    task_manager: TaskManager,
    pods: Option<Pods>,
    capacity: Option<Result<Capacity, String>>,
    processes: ProcessReading,
    rules: Rules,
}

impl Job {
    fn new(options: &[(&str, &str)]) -> Self {
        Self {
            state: State::default(),
            settings: settings(options),
            config: FlinkConfig::from_iter([("taskmanager.memory.process.size", "4 gb")]),
            running_since: at(0),
            task_manager: TaskManager::default(),
            pods: None,
            capacity: None,
            processes: ProcessReading::default(),
            rules: Rules::default(),
        }
    }

    fn cycle(&mut self, now: Timestamp, vertices: &[Now]) -> Cycle {
        let topology = Topology::new(vertices.iter().map(Now::vertex).collect()).unwrap();
        let reading = Reading {
            vertices: vertices.iter().map(Now::reading).collect(),
            processes: self.processes,
        };
        let facts = Facts {
            now,
            zone: &TimeZone::UTC,
            settings: &self.settings,
            config: &self.config,
            topology: &topology,
            running_since: self.running_since,
            reading: &reading,
            task_manager: self.task_manager,
            pods: self.pods,
            capacity: self.capacity.as_ref(),
            asking: Asking::default(),
        };
        let cycle = self.rules.cycle(self.state.clone(), &facts);
        self.state = cycle.state.clone();
        cycle
    }
}

/// A source at its limit that falls behind by 100 more records each second.
fn overloaded(second: i64) -> Vec<Now> {
    #[allow(clippy::cast_precision_loss, reason = "small")]
    let second = second as f64;
    vec![Now {
        id: "source",
        inputs: vec![],
        parallelism: 1,
        max_parallelism: 128,
        records_in: 100.0 * second,
        records_out: 100.0 * second,
        busy: 1000.0,
        backpressure: 0.0,
        lag: 100.0 * second,
        in_per_second: 100.0,
    }]
}

const AT_ONCE: &[(&str, &str)] = &[
    ("stabilization.interval", "0"),
    ("metrics.window", "1 min"),
    ("catch-up.duration", "0"),
    ("scale-down.interval", "0"),
];

/// The cycle that would scale the overloaded source from 1 to 3.
fn decided(options: &[(&str, &str)], prepare: impl Fn(&mut Job)) -> (Job, Cycle) {
    let mut job = Job::new(&[AT_ONCE, options].concat());
    prepare(&mut job);
    job.cycle(at(0), &overloaded(0));
    let cycle = job.cycle(at(60), &overloaded(60));
    (job, cycle)
}

#[test]
fn a_decision_is_recorded_and_reported() {
    let (_, cycle) = decided(&[], |_| ());
    assert_eq!(cycle.outcome, Outcome::Scaled);
    assert_eq!(cycle.state.overrides, [("source".into(), 3)].into());
    assert_eq!(cycle.state.restarts, [(at(60), None)].into());
    let scaling = &cycle.state.scaling_history[&"source".into()][&at(60)];
    assert_eq!((scaling.current, scaling.new), (1, 3));
    assert_eq!(scaling.figures.current(Metric::ExpectedProcessingRate), 300.0);
    assert_eq!(scaling.figures.current(Metric::RecommendedParallelism), 3.0);
    let reason = Reason { rule: "computed parallelism".to_owned(), number: 3.0 };
    assert_eq!(cycle.state.reasons, [("source".into(), [(at(60), reason)].into())].into());
    let events: Vec<_> = cycle.events.iter().map(|event| event.reason).collect();
    assert_eq!(events, ["ScalingReport"]);
}

fn pod(cpu_millis: u64, gib: u64) -> Pod {
    Pod { cpu_millis, memory: MemorySize(gib << 30) }
}

/// The pods of a job whose TaskManagers have one slot each.
fn pods() -> Pods {
    Pods {
        task_manager: pod(2000, 4),
        slots_per_task_manager: 1,
        job_manager: pod(500, 1),
        job_managers: 1,
    }
}

#[test]
fn a_decision_shows_what_it_costs_carried_out_or_not() {
    let pods = pods();
    let prices = [("cost.cpu-hour", "0.04"), ("cost.gib-hour", "0.01")];
    for scaling in ["true", "false"] {
        let options = [prices[0], prices[1], ("scaling.enabled", scaling)];
        let (_, cycle) = decided(&options, |job| job.pods = Some(pods));
        let expected = "1 -> 3 TaskManagers, 2.5 -> 6.5 CPU, 5 -> 13 GiB, 0.15 -> 0.39 per hour";
        assert_eq!(cycle.cost.unwrap().to_string(), expected, "{scaling}");
        let report = &cycle.events[0];
        let end = format!("}} Requested by the pods: {expected}");
        assert!(report.message.ends_with(&end), "{}", report.message);
        let advised = crate::events::advised(&report.message);
        let change = (scaling == "false").then(|| vec![("source".to_owned(), 1, 3)]);
        assert_eq!(advised, change, "tools read it as before");
    }
    let (mut job, _) = decided(&[], |job| job.pods = Some(pods));
    assert_eq!(job.cycle(at(120), &overloaded(120)).events, []);
    assert_eq!(decided(&[], |_| ()).1.cost, None, "nobody knows what pods request");
}

#[test]
fn a_decision_that_is_not_in_force_yet_is_not_made_again() {
    let (mut job, _) = decided(&[], |_| ());
    let again = job.cycle(at(120), &overloaded(120));
    assert_eq!(again.outcome, Outcome::AlreadyDecided);
    assert_eq!((again.state.restarts.len(), again.events.len()), (1, 0));
    assert_eq!(again.state.scaling_history[&"source".into()].len(), 1);
}

#[test]
fn nothing_is_decided_while_the_job_is_not_stable() {
    let (mut job, first) = decided(&[("stabilization.interval", "2 min")], |_| ());
    assert_eq!(first.outcome, Outcome::WindowNotFull { until: at(120) });
    let figures = &first.evaluation.unwrap().vertices[&"source".into()];
    assert!(figures.current(Metric::RecommendedParallelism).is_nan());
    let stable = job.cycle(at(120), &overloaded(120));
    assert_eq!(stable.outcome, Outcome::WindowNotFull { until: at(180) });
    assert_eq!(job.cycle(at(180), &overloaded(180)).outcome, Outcome::Scaled);
}

#[test]
fn switched_off_scaling_reports_and_does_nothing() {
    let (_, cycle) = decided(&[("scaling.enabled", "false")], |_| ());
    assert_eq!(cycle.outcome, Outcome::Disabled(Disabled::Scaling));
    assert_eq!(cycle.state.overrides, BTreeMap::new());
    assert_eq!((cycle.state.scaling_history.len(), cycle.state.restarts.len()), (0, 0));
    assert!(cycle.events[0].message.contains("Parallelism 1 -> 3"));
    let figures = &cycle.evaluation.unwrap().vertices[&"source".into()];
    assert_eq!(figures.current(Metric::RecommendedParallelism), 3.0);
}

#[test]
fn a_job_that_cannot_follow_is_advised() {
    let why = "its scheduler is not adaptive";
    let (_, cycle) = decided(&[], |job| job.settings.fixed_by = Some(why.to_owned()));
    assert_eq!(cycle.outcome, Outcome::Disabled(Disabled::Fixed(why.to_owned())));
    assert_eq!((cycle.state.overrides.len(), cycle.state.scaling_history.len()), (0, 0));
    let start = format!("Scaling execution disabled ({why}), recommended parallelism change:");
    assert!(cycle.events[0].message.starts_with(&start), "{}", cycle.events[0].message);
}

#[test]
fn nothing_is_done_in_an_excluded_period() {
    // 22:14:20 on 14 November 2023, a Tuesday.
    let outcome = |periods| decided(&[("excluded.periods", periods)], |_| ()).1.outcome;
    let excluded = |period: &str| Outcome::Disabled(Disabled::Period(period.to_owned()));
    assert_eq!(outcome("22:14:20-22:15"), excluded("22:14:20-22:15"));
    assert_eq!(outcome("8:00-9:00;22:00-22:14:20"), excluded("22:00-22:14:20"));
    assert_eq!(outcome("22:14:21-23:00"), Outcome::Scaled);
    assert_eq!(outcome("* * 22 ? * TUE"), excluded("* * 22 ? * TUE"));
    assert_eq!(outcome("* * 22 ? * WED"), Outcome::Scaled);
    let both = "22:00-23:00 && * * * ? * 3";
    assert_eq!(outcome(both), excluded(both));
    assert_eq!(outcome("21:00-22:00 && * * * ? * 3"), Outcome::Scaled);
}

#[test]
fn memory_pressure_keeps_from_scaling() {
    let gc = |job: &mut Job| job.processes.gc = aggregate(600.0);
    let threshold = [("memory.gc-pressure.threshold", "0.5")];
    let (_, cycle) = decided(&threshold, gc);
    assert_eq!(cycle.outcome, Outcome::GcPressure(0.6));
    assert_eq!(cycle.events[0].key, "gcPressure");
    assert_eq!(cycle.decisions, BTreeMap::new());
    assert_eq!(decided(&[], gc).1.outcome, Outcome::Scaled, "the default admits all");
    let heap = |job: &mut Job| {
        job.processes.heap_used = aggregate(90.0);
        job.processes.heap_max = aggregate(100.0);
    };
    let (_, cycle) = decided(&[("memory.heap-usage.threshold", "0.8")], heap);
    assert_eq!(cycle.outcome, Outcome::HeapUsage(0.9));
    assert_eq!(decided(&threshold, |_| ()).1.outcome, Outcome::Scaled, "not measured");
}

#[test]
fn a_quota_keeps_from_scaling() {
    let (_, cycle) = decided(&[("quota.cpu", "2")], |job| job.task_manager.cpu = Some(1.0));
    assert_eq!(cycle.outcome, Outcome::Quota(Exceeded::Cpu { needed: 3.0, quota: 2.0 }));
    assert_eq!(cycle.events[0].reason, "ResourceQuotaReached");
    assert_eq!(cycle.state.overrides, BTreeMap::new());
}

#[test]
fn a_scale_up_begins_only_where_the_nodes_have_room_for_it() {
    let pods = pods();
    // The job's own TaskManager is on the one node.
    let node = |cpu_millis| capacity::Node {
        group: None,
        allocatable: pod(cpu_millis, 64),
        used: pod(2500, 5),
    };
    let of = |capacity: Option<Result<Capacity, String>>| {
        let prepare = |job: &mut Job| (job.pods, job.capacity) = (Some(pods), capacity.clone());
        decided(&[], prepare).1
    };
    let fits = of(Some(Ok(Capacity(vec![node(6500)]))));
    assert_eq!(fits.outcome, Outcome::Scaled);
    assert_eq!(fits.capacity.unwrap().0[0].used, pod(6500, 13), "others find it taken");

    let full = of(Some(Ok(Capacity(vec![node(6400)]))));
    let (placed, wanted, memory) = (2, 3, MemorySize(4 << 30));
    let no_room = NoRoom::Full { placed, wanted, cpu_millis: 2000, memory };
    assert_eq!(full.outcome, Outcome::NoRoom(no_room));
    assert_eq!((&full.state.overrides, full.capacity), (&BTreeMap::new(), None));
    let [event] = full.events.as_slice() else { panic!("{:?}", full.events) };
    assert_eq!(event.reason, "ClusterCapacityReached");
    assert!(event.message.contains("room for 2 of its 3 TaskManagers"), "{}", event.message);

    let unknown = of(Some(Err("no answer".to_owned())));
    assert_eq!(unknown.outcome, Outcome::NoRoom(NoRoom::Unknown("no answer".to_owned())));
    assert_eq!(of(None).outcome, Outcome::Scaled, "nobody asks");
}

#[test]
fn scaling_down_needs_no_room() {
    let (mut job, _) = decided(&[], |_| ());
    let pods = Pods { slots_per_task_manager: 1, ..Pods::default() };
    (job.pods, job.capacity) = (Some(pods), Some(Err("no answer".to_owned())));
    job.state.overrides.clear();
    let idle = |second| {
        let mut idle = overloaded(second);
        (idle[0].parallelism, idle[0].busy, idle[0].lag) = (8, 10.0, 0.0);
        idle
    };
    job.running_since = at(100);
    for second in [120, 180, 240] {
        job.cycle(at(second), &idle(second));
    }
    assert!(job.state.overrides[&"source".into()] < 8, "{:?}", job.state.overrides);
}

fn with_memory(job: &mut Job) {
    job.task_manager.memory = MemorySize::parse("4 gb");
    job.processes.heap_used = aggregate(500_000_000.0);
    job.processes.heap_max = aggregate(1_000_000_000.0);
    job.processes.managed_used = aggregate(100_000_000.0);
    job.processes.metaspace_used = aggregate(100_000_000.0);
}

#[test]
fn tuned_memory_comes_with_a_decision_where_it_is_switched_on() {
    let (_, told) = decided(&[], with_memory);
    assert_eq!(told.state.config, ConfigChanges::default());
    let reasons: Vec<_> = told.events.iter().map(|event| event.reason).collect();
    assert_eq!(reasons, ["Configuration recommendation", "ScalingReport"]);
    assert!(told.events[0].message.contains("(automatic tuning is disabled)"));
    let on = ("memory.tuning.enabled", "true");
    let (_, tuned) = decided(&[on], with_memory);
    let total = &tuned.state.config.overrides["taskmanager.memory.process.size"];
    assert!(MemorySize::parse(total).unwrap() < MemorySize::parse("4 gb").unwrap());
    // Three of them fit into a quota that three of the present ones would exceed.
    let quota = ("quota.memory", "10 gb");
    assert_eq!(decided(&[on, quota], with_memory).1.outcome, Outcome::Scaled);
    let (_, refused) = decided(&[quota], with_memory);
    assert!(matches!(refused.outcome, Outcome::Quota(Exceeded::Memory { .. })));
}

#[test]
fn an_option_that_tuning_cannot_read_stops_the_decision() {
    let (_, cycle) = decided(&[], |job| {
        with_memory(job);
        job.config.set("taskmanager.network.memory.buffers-per-channel", "many");
    });
    assert!(matches!(cycle.outcome, Outcome::Invalid(_)), "{:?}", cycle.outcome);
    assert_eq!(cycle.state.overrides, BTreeMap::new());
}

#[test]
fn an_excluded_vertex_keeps_the_users_parallelism() {
    let (_, cycle) = decided(&[("vertex.exclude.ids", "source")], |_| ());
    assert_eq!(cycle.outcome, Outcome::Balanced);
    let users = [("source".to_owned(), "7".to_owned()), ("x".to_owned(), "1".to_owned())].into();
    let stored = [("source".into(), 3), ("sink".into(), 2)].into();
    let merged = overrides_in_force(&users, &stored, &cycle.excluded);
    let text = |map: &BTreeMap<String, String>| config::structure::join_map(map);
    assert_eq!(text(&merged), "sink:2,source:7,x:1");
    assert_eq!(text(&overrides_in_force(&users, &stored, &BTreeSet::new())), "sink:2,source:3,x:1");
    let without = overrides_in_force(&BTreeMap::new(), &stored, &cycle.excluded);
    assert_eq!(text(&without), "sink:2,source:3");
}

#[test]
fn samples_from_before_a_restart_are_set_aside_with_a_reason() {
    let (mut job, _) = decided(&[], |_| ());
    job.running_since = at(90);
    let cycle = job.cycle(at(120), &overloaded(120));
    assert_eq!(cycle.discarded, Some(Discarded::Restarted));
    assert_eq!(cycle.outcome, Outcome::TooFewSamples { have: 1 });
}

#[test]
fn a_clock_that_goes_back_makes_no_decision() {
    let (mut job, _) = decided(&[], |_| ());
    let cycle = job.cycle(at(30), &overloaded(30));
    assert_eq!(cycle.discarded, Some(Discarded::ClockWentBack));
    assert_eq!(cycle.outcome, Outcome::TooFewSamples { have: 1 });
    assert_eq!(cycle.state.overrides, [("source".into(), 3)].into(), "what is in force stays");
}

#[test]
fn a_clock_that_leaps_ahead_makes_no_decision_at_once() {
    let (mut job, _) = decided(&[], |_| ());
    let cycle = job.cycle(at(1_000_000), &overloaded(120));
    assert_eq!(cycle.outcome, Outcome::TooFewSamples { have: 1 });
}

#[test]
fn another_graph_begins_anew_and_keeps_the_past() {
    let (mut job, _) = decided(&[], |_| ());
    let mut renamed = overloaded(120);
    renamed[0].id = "other";
    let cycle = job.cycle(at(120), &renamed);
    assert_eq!(cycle.discarded, Some(Discarded::OtherVertices));
    assert_eq!(cycle.outcome, Outcome::TooFewSamples { have: 1 });
    assert_eq!(cycle.state.scaling_history.len(), 1);
}

#[test]
fn a_vertex_that_was_not_read_leaves_everything_as_it_is() {
    let (job, _) = decided(&[], |_| ());
    let graph = Topology::new(overloaded(0).iter().map(Now::vertex).collect()).unwrap();
    let facts = Facts {
        now: at(120),
        zone: &TimeZone::UTC,
        settings: &job.settings,
        config: &job.config,
        topology: &graph,
        running_since: job.running_since,
        reading: &Reading::default(),
        task_manager: TaskManager::default(),
        pods: None,
        capacity: None,
        asking: Asking::default(),
    };
    let cycle = run(job.state.clone(), &facts);
    assert_eq!(cycle.outcome, Outcome::NotRead("source".into()));
    assert_eq!(cycle.state, job.state);
}
