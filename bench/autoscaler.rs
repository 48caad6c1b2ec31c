//! CPU time and memory of the autoscaler's cycles for a whole fleet, from Flink's REST responses to the decision,
//! without the network in between.

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use autoscaler::cost::Pods;
use autoscaler::cycle::{Facts, Outcome, State, run as cycle};
use autoscaler::names::{Wanted, reading, wanted};
use autoscaler::plugin::Asking;
use autoscaler::quota::TaskManager;
use autoscaler::sample::{ProcessReading, Reading, VertexReading};
use autoscaler::settings::Settings;
use autoscaler::topology::Topology;
use clients::flink::jobs::JobDetails;
use clients::flink::metrics::AggregatedMetric;
use clients::flink::scaling::{aggregate, running_since, vertices};
use config::FlinkConfig;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

/// Goals: CPU seconds per minute of the fleet's life, and MB resident.
const CPU_MAX: f64 = 2.0;
const RSS_MAX: f64 = 150.0;

/// Start of every job: 2026-01-01, in seconds.
const START: i64 = 1_767_225_600;

/// Runs the cycles of this many jobs over this many minutes, and returns what that takes.
pub(crate) fn run(jobs: usize, vertices: usize, minutes: usize) -> Result<Value> {
    let config = FlinkConfig::from_iter([
        ("job.autoscaler.stabilization.interval", "1 min"),
        ("job.autoscaler.metrics.window", "15 min"),
    ]);
    let settings = Settings::read(&config)?;
    let mut fleet: Vec<State> = (0..jobs).map(|_| State::default()).collect();
    let idle = usage()?;
    let (mut cpu, mut decided) = (Vec::new(), 0_usize);
    for minute in 0..minutes {
        // The stand-in for Flink prepares its responses before the clock starts.
        let answers = Answers::new(vertices, minute)?;
        let before = usage()?;
        for (number, state) in fleet.iter_mut().enumerate() {
            let outcome = answers.cycle(state, number, minute, &settings, &config)?;
            decided += usize::from(outcome.is_balanced() || outcome == Outcome::Scaled);
        }
        cpu.push(usage()?.0 - before.0);
    }
    // Use only minutes with a full metrics window: the first ones have little to evaluate.
    let full = cpu.get(minutes.min(17)..).filter(|rest| !rest.is_empty()).unwrap_or(&cpu);
    let cpu_a_minute = full.iter().sum::<f64>() / full.len() as f64;
    let (_, rss, peak) = usage()?;
    Ok(json!({
        "jobs": jobs,
        "vertices": vertices,
        "minutes": minutes,
        "decided": decided,
        "cpu_s_a_minute": cpu_a_minute,
        "rss_mb": rss,
        "peak_mb": peak,
        "rss_mb_without_jobs": idle.1,
        "is_aim_met": cpu_a_minute <= CPU_MAX && rss <= RSS_MAX,
    }))
}

/// The REST responses about one job at one minute; all jobs of the fleet get the same ones.
struct Answers {
    job: String,
    /// One per vertex, in the order of the graph.
    names: Vec<String>,
    metrics: Vec<String>,
    task_managers: String,
}

fn id(vertex: usize) -> String {
    format!("{:032x}", 0xcbc3_57cc_b763_u128 + vertex as u128)
}

impl Answers {
    /// A row of vertices, of which the first one reads from Kafka.
    fn new(vertices: usize, minute: usize) -> Result<Self> {
        let records = 60_000 * minute;
        let all: Vec<usize> = (0..vertices).collect();
        let details = all.iter().map(|vertex| {
            json!({
                "id": id(*vertex), "name": format!("vertex {vertex} -> map -> filter"),
                "slotSharingGroupId": "a0b1c2", "maxParallelism": 128, "parallelism": 4, "status": "RUNNING",
                "start-time": START * 1000, "end-time": -1, "duration": 60_000 * minute,
                "tasks": {"CREATED": 0, "SCHEDULED": 0, "DEPLOYING": 0, "RUNNING": 4, "FINISHED": 0,
                          "CANCELING": 0, "CANCELED": 0, "FAILED": 0, "RECONCILING": 0, "INITIALIZING": 0},
                "metrics": {
                    "read-bytes": records * 100, "read-bytes-complete": true,
                    "write-bytes": records * 90, "write-bytes-complete": true,
                    "read-records": if *vertex == 0 { 0 } else { records }, "read-records-complete": true,
                    "write-records": records, "write-records-complete": true,
                    "accumulated-backpressured-time": 0, "accumulated-idle-time": 9_000_000,
                    "accumulated-busy-time": 144_000.0 * minute as f64,
                },
            })
        });
        let nodes = all.iter().map(|vertex| {
            let inputs = vertex.checked_sub(1).map(|from| {
                json!([{"num": 0, "id": id(from), "ship_strategy": "HASH", "exchange": "pipelined_bounded"}])
            });
            json!({"id": id(*vertex), "parallelism": 4, "operator": "", "operator_strategy": "",
                   "description": "map<br/>+- filter<br/>", "inputs": inputs, "optimizer_properties": {}})
        });
        let job = json!({
            "jid": "a".repeat(32), "name": "orders", "isStoppable": false, "state": "RUNNING",
            "start-time": START * 1000, "end-time": -1, "duration": 60_000 * minute,
            "maxParallelism": -1, "now": START * 1000,
            "timestamps": {"CREATED": START * 1000, "RUNNING": START * 1000},
            "vertices": details.collect::<Vec<_>>(), "status-counts": {"RUNNING": vertices},
            "plan": {"jid": "a".repeat(32), "name": "orders", "type": "STREAMING", "nodes": nodes.collect::<Vec<_>>()},
        });
        let names = all.iter().map(|vertex| {
            let source =
                ["numRecordsInPerSecond", "numRecordsIn", "numRecordsOut", "pendingRecords"];
            let mut names: Vec<String> = [
                "busyTimeMsPerSecond",
                "backPressuredTimeMsPerSecond",
                "idleTimeMsPerSecond",
                "numRecordsInPerSecond",
            ]
            .map(str::to_owned)
            .into();
            if *vertex == 0 {
                names.extend(source.map(|name| format!("Source__orders.{name}")));
            }
            serde_json::to_string(&names.iter().map(|name| json!({"id": name})).collect::<Vec<_>>())
        });
        let metrics = all.iter().map(|vertex| {
            let one = |name: &str, each: f64| {
                json!({"id": name, "min": each * 0.9, "max": each * 1.1, "avg": each, "sum": each * 4.0})
            };
            let mut all = vec![one("busyTimeMsPerSecond", 612.5)];
            if *vertex == 0 {
                all.extend([
                    one("backPressuredTimeMsPerSecond", 11.0),
                    one("Source__orders.numRecordsInPerSecond", 250.25),
                    one("Source__orders.numRecordsIn", records as f64 / 4.0),
                    one("Source__orders.numRecordsOut", records as f64 / 4.0),
                    one("Source__orders.pendingRecords", 17.0),
                ]);
            } else {
                all.push(one("numRecordsInPerSecond", 250.25));
            }
            serde_json::to_string(&all)
        });
        Ok(Self {
            job: job.to_string(),
            names: names.collect::<Result<_, _>>()?,
            metrics: metrics.collect::<Result<_, _>>()?,
            task_managers: json!([
                {"id": "Status.JVM.Memory.Heap.Max", "min": 5.3e8, "max": 5.3e8, "avg": 5.3e8, "sum": 1.06e9},
                {"id": "Status.JVM.Memory.Heap.Used", "min": 1.1e8, "max": 2.2e8, "avg": 1.6e8, "sum": 3.2e8},
                {"id": "Status.Flink.Memory.Managed.Used", "min": 0.0, "max": 1e8, "avg": 5e7, "sum": 1e8},
                {"id": "Status.JVM.Memory.Metaspace.Used", "min": 8e7, "max": 9e7, "avg": 8.5e7, "sum": 1.7e8},
            ])
            .to_string(),
        })
    }

    /// Runs one cycle of one job, from reading its metrics to the decision.
    fn cycle(
        &self,
        state: &mut State,
        number: usize,
        minute: usize,
        settings: &Settings,
        config: &FlinkConfig,
    ) -> Result<Outcome> {
        #[derive(serde::Deserialize)]
        struct Name {
            id: String,
        }
        let job: JobDetails = serde_json::from_str(&self.job)?;
        let mut readings = std::collections::BTreeMap::new();
        let vertices = vertices(&job)?;
        for ((vertex, names), metrics) in (0..).zip(&self.names).zip(&self.metrics) {
            let names: Vec<Name> = serde_json::from_str(names)?;
            let names: Vec<String> = names.into_iter().map(|name| name.id).collect();
            let wanted: Wanted = wanted(&names, vertex == 0).map_err(anyhow::Error::from)?;
            let metrics: Vec<AggregatedMetric> = serde_json::from_str(metrics)?;
            let metrics = metrics.iter().map(|metric| (metric.id.clone(), aggregate(metric)));
            let read: VertexReading = reading(&wanted, metrics);
            readings.insert(id(vertex).as_str().into(), read);
        }
        let processes: Vec<AggregatedMetric> = serde_json::from_str(&self.task_managers)?;
        let find = |name: &str| processes.iter().find(|of| of.id.ends_with(name)).map(aggregate);
        let reading = Reading {
            vertices: readings,
            processes: ProcessReading {
                gc: None,
                heap_used: find("Heap.Used"),
                heap_max: find("Heap.Max"),
                managed_used: find("Managed.Used"),
                metaspace_used: find("Metaspace.Used"),
                slots_total: Some(8.0),
                slots_available: Some(4.0),
            },
        };
        let since_start = Duration::from_secs(60 * minute as u64 + number as u64 % 60);
        let facts = Facts {
            now: Timestamp::from_second(START)?.checked_add(since_start)?,
            zone: &TimeZone::UTC,
            settings,
            config,
            topology: &Topology::new(vertices)?,
            running_since: running_since(&job)?,
            reading: &reading,
            task_manager: TaskManager::default(),
            pods: Pods::of(config, false),
            capacity: None,
            asking: Asking::default(),
        };
        let made = cycle(std::mem::take(state), &facts);
        *state = made.state;
        Ok(made.outcome)
    }
}

/// Returns CPU seconds, MB resident and the peak of this process.
fn usage() -> Result<(f64, f64, f64)> {
    let schedule = fs::read_to_string("/proc/self/schedstat")?;
    let nanos: f64 = schedule.split_whitespace().next().context("no time")?.parse()?;
    let status = fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| -> Result<f64> {
        let line = status.lines().find(|line| line.starts_with(name)).context(name.to_owned())?;
        Ok(line.split_whitespace().nth(1).context("no value")?.parse::<f64>()? / 1024.0)
    };
    Ok((nanos / 1e9, field("VmRSS:")?, field("VmHWM:")?))
}
