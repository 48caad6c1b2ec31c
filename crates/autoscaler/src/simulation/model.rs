//! The model of a job to simulate: from a small YAML file, or from the figures of a running job.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::evaluate::Evaluation;
use crate::metric::Metric;
use crate::topology::{PARALLELISM_MAX, ShipStrategy, Topology, VertexId};
use api::deployment::FlinkConfiguration;
use config::{FlinkConfig, duration};

/// Maximum simulated time, which bounds the work.
pub const DURATION_MAX: Duration = Duration::from_hours(7 * 24);
/// Maximum number of simulated cycles.
pub const CYCLES_MAX: u64 = 20_000;
/// Maximum number of vertices.
pub const VERTICES_MAX: usize = 100;
/// Maximum size of a file in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// A job to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    pub name: String,
    /// Time between two cycles.
    pub interval: Duration,
    pub duration: Duration,
    /// How long the job stops when it is scaled.
    pub restart: Duration,
    pub options: FlinkConfig,
    /// Seconds since the start, and how many records arrive per second then; between two points the rate changes
    /// linearly.
    pub rate: Vec<(f64, f64)>,
    pub vertices: BTreeMap<VertexId, VertexModel>,
}

/// One vertex to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct VertexModel {
    pub parallelism: u32,
    pub max_parallelism: u32,
    pub partitions: Option<u32>,
    /// Records per second of a subtask that always has something to do.
    pub records_per_subtask: f64,
    /// This source's share of all arriving records.
    pub share: f64,
    /// Records pending at this source at the start.
    pub backlog: f64,
    pub inputs: BTreeMap<VertexId, Edge>,
}

/// How records get from one vertex to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    pub ship: ShipStrategy,
    /// Records sent for each one that arrives.
    pub ratio: f64,
}

/// Why there is nothing to simulate.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unfit {
    #[error("it cannot be read: {0}")]
    Syntax(String),
    #[error("`{field}`: {problem}")]
    Field { field: String, problem: String },
    #[error("vertex `{0}` was idle while it was measured, so its capacity is unknown")]
    Idle(VertexId),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ModelText {
    name: Option<String>,
    interval: Option<String>,
    duration: Option<String>,
    restart: Option<String>,
    #[serde(default)]
    options: Map<String, Value>,
    rate: Vec<PointText>,
    vertices: Vec<VertexText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PointText {
    at: String,
    records: f64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct VertexText {
    name: String,
    records_per_subtask: f64,
    #[serde(default = "one")]
    parallelism: u32,
    #[serde(default = "key_groups")]
    max_parallelism: u32,
    partitions: Option<u32>,
    share: Option<f64>,
    #[serde(default)]
    backlog: f64,
    #[serde(default)]
    inputs: Vec<EdgeText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EdgeText {
    from: String,
    ship: Option<ShipStrategy>,
    ratio: Option<f64>,
}

fn one() -> u32 {
    1
}

/// Flink's default for up to 85 subtasks.
fn key_groups() -> u32 {
    128
}

fn field(field: impl Into<String>, problem: impl Into<String>) -> Unfit {
    Unfit::Field { field: field.into(), problem: problem.into() }
}

impl Model {
    /// Parses a YAML file.
    ///
    /// # Errors
    /// If it does not describe a job; names the invalid field.
    pub fn read(text: &str) -> Result<Self, Unfit> {
        let ModelText { name, interval, duration, restart, options, rate, vertices } =
            serde_yaml::from_str(text).map_err(|error| Unfit::Syntax(error.to_string()))?;
        let time = |key: &str, text: Option<String>, default: Duration| match text {
            None => Ok(default),
            Some(text) => duration::parse(&text)
                .ok_or_else(|| field(key, format!("`{text}`: expected {}", duration::EXPECTED))),
        };
        let interval = time("interval", interval, Duration::from_mins(1))?;
        let length = time("duration", duration, Duration::from_hours(3))?;
        let restart = time("restart", restart, Duration::from_secs(30))?;
        let points = rate
            .into_iter()
            .enumerate()
            .map(|(index, PointText { at, records })| {
                let key = format!("rate[{index}]");
                let at = time(&format!("{key}.at"), Some(at), Duration::ZERO)?;
                is_amount(&format!("{key}.records"), records)?;
                Ok((at.as_secs_f64(), records))
            })
            .collect::<Result<Vec<_>, Unfit>>()?;
        let sources = vertices.iter().filter(|vertex| vertex.inputs.is_empty()).count();
        let mut all = BTreeMap::new();
        for (index, text) in vertices.into_iter().enumerate() {
            let (id, vertex) = vertex(text, &format!("vertices[{index}]"), sources)?;
            if all.contains_key(&id) {
                return Err(field(
                    format!("vertices[{index}].name"),
                    format!("`{id}` is given twice"),
                ));
            }
            all.insert(id, vertex);
        }
        let model = Self {
            name: name.unwrap_or_else(|| "simulated".to_owned()),
            interval,
            duration: length,
            restart,
            options: FlinkConfig::flatten(&FlinkConfiguration(options)),
            rate: points,
            vertices: all,
        };
        model.check()?;
        Ok(model)
    }

    /// Returns a model of the measured job, with `factor` times as many records.
    ///
    /// # Errors
    /// If the figures do not say how much a vertex can process.
    pub fn measured(
        name: &str,
        topology: &Topology,
        evaluation: &Evaluation,
        factor: f64,
    ) -> Result<Self, Unfit> {
        let figure = |id: &VertexId, metric| {
            let value = evaluation.vertices.get(id).map(|figures| figures.average(metric));
            value.filter(|value| value.is_finite() && *value > 0.0)
        };
        let target = |id: &VertexId| {
            figure(id, Metric::TargetDataRate).ok_or_else(|| Unfit::Idle(id.clone()))
        };
        let sources = topology.vertices().iter().filter(|(_, vertex)| vertex.is_source());
        let rate: f64 = sources.map(|(id, _)| target(id)).sum::<Result<f64, Unfit>>()?;
        let mut vertices = BTreeMap::new();
        for (id, vertex) in topology.vertices() {
            let true_rate = figure(id, Metric::TrueProcessingRate);
            let true_rate = true_rate.ok_or_else(|| Unfit::Idle(id.clone()))?;
            // Flink does not report which input a record came from: assume the same ratio for all.
            let inputs = vertex.inputs.keys().map(target).sum::<Result<f64, Unfit>>()?;
            let ratio = if vertex.is_source() { 0.0 } else { target(id)? / inputs };
            let lag = evaluation.vertices.get(id).map(|figures| figures.current(Metric::Lag));
            let model = VertexModel {
                parallelism: vertex.parallelism,
                max_parallelism: vertex.max_parallelism,
                partitions: vertex.partitions,
                records_per_subtask: true_rate / f64::from(vertex.parallelism),
                share: if vertex.is_source() { target(id)? / rate } else { 0.0 },
                backlog: lag.filter(|lag| lag.is_finite()).unwrap_or_default(),
                inputs: vertex
                    .inputs
                    .iter()
                    .map(|(from, ship)| (from.clone(), Edge { ship: *ship, ratio }))
                    .collect(),
            };
            vertices.insert(id.clone(), model);
        }
        Ok(Self {
            name: name.to_owned(),
            interval: Duration::from_mins(1),
            duration: Duration::from_hours(3),
            restart: Duration::from_secs(30),
            options: FlinkConfig::new(),
            rate: vec![(0.0, rate * factor)],
            vertices,
        })
    }

    /// Returns the records per second that arrive.
    pub fn rate_at(&self, second: u64) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "at most a week")]
        let second = second as f64;
        let after = self.rate.partition_point(|(at, _)| *at <= second);
        let before = after.checked_sub(1).and_then(|index| self.rate.get(index));
        match (before, self.rate.get(after)) {
            (Some((from, low)), Some((to, high))) => {
                low + (high - low) * (second - from) / (to - from)
            }
            (Some((_, rate)), None) | (None, Some((_, rate))) => *rate,
            (None, None) => 0.0,
        }
    }

    /// Checks the limits of a file, and of flags that override it.
    ///
    /// # Errors
    /// For the first field that is out of range.
    pub fn check(&self) -> Result<(), Unfit> {
        if self.vertices.is_empty() || self.vertices.len() > VERTICES_MAX {
            return Err(field("vertices", format!("expected 1 to {VERTICES_MAX} vertices")));
        }
        if self.rate.is_empty() {
            return Err(field("rate", "expected one point or more"));
        }
        if self.rate.windows(2).any(|pair| matches!(pair, [one, next] if one.0 >= next.0)) {
            return Err(field("rate", "points must be in chronological order"));
        }
        if self.interval.as_secs() == 0 {
            return Err(field("interval", "expected a second or more"));
        }
        if self.duration > DURATION_MAX || self.duration < self.interval {
            let max = duration::render(DURATION_MAX);
            return Err(field("duration", format!("expected at least one interval, up to {max}")));
        }
        if self.duration.as_secs() / self.interval.as_secs() > CYCLES_MAX {
            let problem =
                format!("with this duration there would be more than {CYCLES_MAX} cycles");
            return Err(field("interval", problem));
        }
        let shares: f64 = self.vertices.values().map(|vertex| vertex.share).sum();
        if (shares - 1.0).abs() > 0.01 {
            return Err(field(
                "vertices",
                format!("the shares of the sources add up to {shares}, not 1"),
            ));
        }
        Ok(())
    }
}

fn vertex(text: VertexText, key: &str, sources: usize) -> Result<(VertexId, VertexModel), Unfit> {
    let VertexText {
        name,
        records_per_subtask,
        parallelism,
        max_parallelism,
        partitions,
        share,
        backlog,
        inputs,
    } = text;
    is_amount(&format!("{key}.recordsPerSubtask"), records_per_subtask)?;
    is_amount(&format!("{key}.backlog"), backlog)?;
    if records_per_subtask <= 0.0 {
        return Err(field(format!("{key}.recordsPerSubtask"), "expected more than zero"));
    }
    if !(1..=PARALLELISM_MAX).contains(&max_parallelism) {
        let problem = format!("expected 1 to {PARALLELISM_MAX}");
        return Err(field(format!("{key}.maxParallelism"), problem));
    }
    let is_source = inputs.is_empty();
    if !is_source && share.is_some() {
        return Err(field(format!("{key}.share"), "only sources have one"));
    }
    let mut edges = BTreeMap::new();
    for (index, EdgeText { from, ship, ratio }) in inputs.into_iter().enumerate() {
        let ratio = ratio.unwrap_or(1.0);
        is_amount(&format!("{key}.inputs[{index}].ratio"), ratio)?;
        let ship = ship.unwrap_or(ShipStrategy::Rebalance);
        edges.insert(VertexId::from(from), Edge { ship, ratio });
    }
    #[allow(clippy::cast_precision_loss, reason = "as many as vertices")]
    let even = 1.0 / sources.max(1) as f64;
    let share = if is_source { share.unwrap_or(even) } else { 0.0 };
    is_amount(&format!("{key}.share"), share)?;
    let model = VertexModel {
        parallelism,
        max_parallelism,
        partitions,
        records_per_subtask,
        share,
        backlog,
        inputs: edges,
    };
    Ok((VertexId::from(name), model))
}

/// Checks a count of records: neither negative nor beyond the precision of a float.
fn is_amount(key: &str, number: f64) -> Result<(), Unfit> {
    if (0.0..=1e15).contains(&number) {
        return Ok(());
    }
    Err(field(key, format!("`{number}`: expected a number from 0 to 1e15")))
}
