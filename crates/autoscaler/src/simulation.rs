//! A simulated job, and what the autoscaler would do with it.
//!
//! Subtasks of a vertex share its records evenly and process a fixed number per second each; sources read what arrives
//! and what is pending, as fast as the narrowest vertex after them allows. After a decision the job stops for the time
//! of a restart and then runs as decided. Time is virtual, so a day takes less than a second.

pub mod model;

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use config::FlinkConfig;

use super::cost::Pods;
use super::cycle::Facts;
use super::plugin::rules::Rules;
use super::plugin::{self, Asking};
use super::quota::TaskManager;
use super::record::{Entry, Measurement};
use super::sample::{Aggregate, ProcessReading, Reading, VertexReading};
use super::settings::Settings;
use super::topology::{Counters, Topology, Unusable, Vertex, VertexId};
use super::trace::{Trace, Tracer};
use super::window::later;
use model::{Model, VertexModel};

/// Busy time in milliseconds per second of a vertex that always has something to do.
const BUSY_MAX: f64 = 1000.0;

/// The result of a simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Simulated {
    pub trace: Trace,
    /// The entries that a recording of the job would have.
    pub entries: Vec<Entry>,
}

/// Simulates the job from `start` on.
///
/// # Errors
/// If the graph of the model is invalid.
pub fn simulate(
    model: &Model,
    settings: &Settings,
    config: &FlinkConfig,
    start: Timestamp,
    rules: &Rules,
) -> Result<Simulated, Unusable> {
    let mut job = Job::new(model, start)?;
    let (mut tracer, mut entries) = (Tracer::new(rules), Vec::new());
    let interval = model.interval.as_secs().max(1);
    for second in 0..=model.duration.as_secs() {
        let now = later(start, std::time::Duration::from_secs(second));
        if second % interval == 0 {
            entries.push(job.cycle(now, settings, config, &mut tracer)?);
        }
        job.pass_second(second, now);
    }
    Ok(Simulated { trace: tracer.finish(), entries })
}

/// The work of a vertex since its job started, and since the last measurement.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    records_in: f64,
    records_out: f64,
    busy_millis: f64,
    in_since_look: f64,
    busy_since_look: f64,
    backpressured_since_look: f64,
}

struct Job<'a> {
    model: &'a Model,
    /// As rules see it.
    told: plugin::Job,
    /// In the order in which records flow.
    order: Vec<VertexId>,
    /// For each source, the vertices that its records reach, and how many records for each one read.
    reach: BTreeMap<VertexId, BTreeMap<VertexId, f64>>,
    parallelism: BTreeMap<VertexId, u32>,
    running_since: Timestamp,
    progress: BTreeMap<VertexId, Progress>,
    lag: BTreeMap<VertexId, f64>,
    seconds_since_look: f64,
}

impl<'a> Job<'a> {
    fn new(model: &'a Model, start: Timestamp) -> Result<Self, Unusable> {
        let parallelism: BTreeMap<VertexId, u32> =
            model.vertices.iter().map(|(id, vertex)| (id.clone(), vertex.parallelism)).collect();
        let mut job = Self {
            model,
            told: plugin::Job { name: model.name.clone(), ..plugin::Job::default() },
            order: Vec::new(),
            reach: BTreeMap::new(),
            parallelism,
            running_since: start,
            progress: BTreeMap::new(),
            lag: BTreeMap::new(),
            seconds_since_look: 0.0,
        };
        let topology = job.topology()?;
        job.order = topology.in_order().map(|(id, _)| id.clone()).collect();
        let sources = model.vertices.iter().filter(|(_, vertex)| vertex.inputs.is_empty());
        for (id, vertex) in sources {
            job.lag.insert(id.clone(), vertex.backlog);
            let mut reached = BTreeMap::from([(id.clone(), 1.0)]);
            for to in &job.order {
                let Some(vertex) = model.vertices.get(to) else { continue };
                let records: f64 = vertex
                    .inputs
                    .iter()
                    .filter_map(|(from, edge)| Some(reached.get(from)? * edge.ratio))
                    .sum();
                if records > 0.0 {
                    reached.insert(to.clone(), records);
                }
            }
            job.reach.insert(id.clone(), reached);
        }
        Ok(job)
    }

    fn topology(&self) -> Result<Topology, Unusable> {
        let vertex = |(id, of): (&VertexId, &VertexModel)| {
            let progress = self.progress.get(id).copied().unwrap_or_default();
            let ships = of.inputs.iter().map(|(from, edge)| (from.clone(), edge.ship));
            let vertex = Vertex {
                parallelism: self.parallelism.get(id).copied().unwrap_or(of.parallelism),
                max_parallelism: of.max_parallelism,
                inputs: ships.collect(),
                partitions: of.partitions,
                slot_sharing_group: Some("default".to_owned()),
                is_finished: false,
                counters: Counters {
                    records_in: progress.records_in,
                    records_out: progress.records_out,
                    busy: progress.busy_millis,
                },
            };
            (id.clone(), vertex)
        };
        Topology::new(self.model.vertices.iter().map(vertex).collect())
    }

    fn cycle(
        &mut self,
        now: Timestamp,
        settings: &Settings,
        config: &FlinkConfig,
        tracer: &mut Tracer<'_>,
    ) -> Result<Entry, Unusable> {
        if now < self.running_since {
            const WHY: &str = "the job restarts";
            tracer.skip(now, WHY);
            return Ok(Entry { at: now, measured: Err(WHY.to_owned()) });
        }
        let topology = self.topology()?;
        let reading = self.reading();
        let running_since = self.running_since;
        let decided = tracer.step(&Facts {
            now,
            zone: &TimeZone::UTC,
            settings,
            config,
            topology: &topology,
            running_since,
            reading: &reading,
            task_manager: TaskManager::default(),
            pods: Pods::of(config, false),
            capacity: None,
            asking: Asking { job: Some(&self.told), answers: None },
        });
        let is_changed = decided.iter().any(|(id, to)| self.parallelism.get(id) != Some(to));
        if is_changed {
            self.parallelism.extend(decided.iter().map(|(id, to)| (id.clone(), *to)));
            self.running_since = later(now, self.model.restart);
            self.progress.clear();
        }
        for progress in self.progress.values_mut() {
            progress.in_since_look = 0.0;
            progress.busy_since_look = 0.0;
            progress.backpressured_since_look = 0.0;
        }
        self.seconds_since_look = 0.0;
        Ok(Entry { at: now, measured: Ok(Measurement { running_since, topology, reading }) })
    }

    /// Returns the readings that Flink would return now.
    fn reading(&self) -> Reading {
        let seconds = self.seconds_since_look.max(1.0);
        let vertex = |(id, of): (&VertexId, &VertexModel)| {
            let progress = self.progress.get(id).copied().unwrap_or_default();
            let busy = Some(of_each(progress.busy_since_look / seconds));
            let rate = progress.in_since_look / seconds;
            let mut reading = VertexReading { busy, ..VertexReading::default() };
            if of.inputs.is_empty() {
                let backpressure = progress.backpressured_since_look / seconds;
                reading.backpressure = Some(of_each(backpressure));
                reading.source_in_per_second = Some(of_all(rate));
                reading.source_in = Some(of_all(progress.records_in));
                reading.source_out = Some(of_all(progress.records_out));
                reading.pending = Some(of_all(self.lag.get(id).copied().unwrap_or_default()));
            } else {
                reading.in_per_second = Some(of_all(rate));
            }
            (id.clone(), reading)
        };
        Reading {
            vertices: self.model.vertices.iter().map(vertex).collect(),
            processes: ProcessReading::default(),
        }
    }

    /// Simulates one second: records arrive, and are processed if the job runs.
    fn pass_second(&mut self, second: u64, now: Timestamp) {
        let rate = self.model.rate_at(second);
        for (id, lag) in &mut self.lag {
            let share = self.model.vertices.get(id).map_or(0.0, |vertex| vertex.share);
            *lag += rate * share;
        }
        if now < self.running_since {
            return;
        }
        self.seconds_since_look += 1.0;
        let (model, parallelism) = (self.model, self.parallelism.clone());
        let capacity = |id: &VertexId| {
            let each = model.vertices.get(id).map_or(0.0, |of| of.records_per_subtask);
            each * f64::from(parallelism.get(id).copied().unwrap_or(1))
        };
        // The records that each vertex would get if its sources read everything that is pending.
        let mut wanted: BTreeMap<&VertexId, f64> = BTreeMap::new();
        for (source, reached) in &self.reach {
            let waiting = self.lag.get(source).copied().unwrap_or_default();
            for (id, records) in reached {
                *wanted.entry(id).or_default() += waiting * records;
            }
        }
        let passes = |id: &VertexId| {
            let wanted = wanted.get(id).copied().unwrap_or_default();
            if wanted > 0.0 { (capacity(id) / wanted).min(1.0) } else { 1.0 }
        };
        let mut received: BTreeMap<VertexId, f64> = BTreeMap::new();
        for (source, reached) in &self.reach {
            let let_through = reached.keys().map(passes).fold(1.0, f64::min);
            let Some(lag) = self.lag.get_mut(source) else { continue };
            let read = *lag * let_through;
            *lag -= read;
            for (id, records) in reached {
                *received.entry(id.clone()).or_default() += read * records;
            }
            // It is backpressured if it could process more than other vertices allow.
            let busy = BUSY_MAX * (read / capacity(source)).min(1.0);
            if let_through < 1.0 {
                let progress = self.progress.entry(source.clone()).or_default();
                progress.backpressured_since_look += BUSY_MAX - busy;
            }
        }
        for id in &self.order {
            let records = received.get(id).copied().unwrap_or_default();
            let progress = self.progress.entry(id.clone()).or_default();
            progress.records_in += records;
            progress.in_since_look += records;
            let busy = BUSY_MAX * (records / capacity(id)).min(1.0);
            progress.busy_since_look += busy;
            progress.busy_millis += busy * f64::from(parallelism.get(id).copied().unwrap_or(1));
        }
        for (from, edge) in self.model.vertices.values().flat_map(|vertex| &vertex.inputs) {
            let sent = received.get(from).copied().unwrap_or_default() * edge.ratio;
            self.progress.entry(from.clone()).or_default().records_out += sent;
        }
    }
}

/// Returns a figure that each subtask has.
fn of_each(value: f64) -> Aggregate {
    let value = Some(value);
    Aggregate { min: value, max: value, average: value, sum: value }
}

/// Returns a figure of all subtasks together.
fn of_all(sum: f64) -> Aggregate {
    Aggregate { sum: Some(sum), ..Aggregate::default() }
}

#[cfg(test)]
mod tests;
