//! One sample: Flink's measurements, turned into the figures that are kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

use config::options::autoscaler::BusyTimeAggregator;

use super::metric::{Metric, Values};
use super::rate::round3;
use super::settings::Settings;
use super::topology::{Counters, Topology, Vertex, VertexId};
use super::window::{Samples, average, seconds};

/// A metric over the subtasks of a vertex, or over all TaskManagers; fields are `None` if Flink has no number.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Aggregate {
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub average: Option<f64>,
    pub sum: Option<f64>,
}

impl Aggregate {
    /// Merges two metrics that stand for one. The average is unknown, because that would need their weights.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        let both = |one: Option<f64>, other: Option<f64>, merge: fn(f64, f64) -> f64| {
            Some(merge(one?, other?))
        };
        Self {
            min: both(self.min, other.min, f64::min),
            max: both(self.max, other.max, f64::max),
            average: None,
            sum: both(self.sum, other.sum, |one, other| one + other),
        }
    }
}

/// The metrics of one vertex, as far as it has them.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VertexReading {
    /// Milliseconds per second.
    pub busy: Option<Aggregate>,
    /// Milliseconds per second.
    pub backpressure: Option<Aggregate>,
    pub source_in_per_second: Option<Aggregate>,
    pub source_in: Option<Aggregate>,
    pub source_out: Option<Aggregate>,
    pub pending: Option<Aggregate>,
    pub in_per_second: Option<Aggregate>,
}

/// Metrics of the processes.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessReading {
    /// Milliseconds per second.
    pub gc: Option<Aggregate>,
    pub heap_used: Option<Aggregate>,
    pub heap_max: Option<Aggregate>,
    pub managed_used: Option<Aggregate>,
    pub metaspace_used: Option<Aggregate>,
    pub slots_total: Option<f64>,
    pub slots_available: Option<f64>,
}

/// The readings for one sample.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Reading {
    /// All vertices that have not finished.
    pub vertices: BTreeMap<VertexId, VertexReading>,
    pub processes: ProcessReading,
}

/// The figures of a job at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    pub vertices: BTreeMap<VertexId, Values>,
    pub job: Values,
}

/// Why a vertex is not scaled in this cycle.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Unscaled {
    Finished,
    /// Flink reports no busy time for it, as for sources of the old API.
    NoBusyTime,
}

/// Turns readings into a sample; also returns which vertices cannot be scaled now.
///
/// # Errors
/// The vertex that has no reading.
pub fn sample(
    reading: &Reading,
    topology: &Topology,
    settings: &Settings,
    earlier: &Samples,
) -> Result<(Sample, BTreeMap<VertexId, Unscaled>), VertexId> {
    let (mut vertices, mut unscaled) = (Vec::new(), BTreeMap::new());
    let zero = Aggregate { min: Some(0.0), max: Some(0.0), average: Some(0.0), sum: Some(0.0) };
    let finished = VertexReading {
        busy: Some(zero),
        pending: Some(zero),
        source_in_per_second: Some(zero),
        source_in: Some(zero),
        source_out: Some(zero),
        ..VertexReading::default()
    };
    for (id, vertex) in topology.vertices() {
        let reading = if vertex.is_finished {
            unscaled.insert(id.clone(), Unscaled::Finished);
            &finished
        } else {
            reading.vertices.get(id).ok_or_else(|| id.clone())?
        };
        let values = of_vertex(id, vertex, reading, settings, earlier);
        if values.get(Metric::Load).is_none() {
            unscaled.insert(id.clone(), Unscaled::NoBusyTime);
        }
        // Thousands of samples are kept, so they share their ids.
        let last = earlier.last_key_value();
        let kept = last.and_then(|(_, sample)| sample.vertices.get_key_value(id));
        let id = kept.map_or(id, |(id, _)| id);
        vertices.push((id.clone(), values));
    }
    // A map built at once has no spare capacity.
    let vertices = vertices.into_iter().collect();
    Ok((Sample { vertices, job: of_processes(&reading.processes) }, unscaled))
}

fn of_vertex(
    id: &VertexId,
    vertex: &Vertex,
    reading: &VertexReading,
    settings: &Settings,
    earlier: &Samples,
) -> Values {
    let sum = |aggregate: Option<Aggregate>| aggregate.map(|of| of.sum.unwrap_or(f64::NAN));
    let mut values = Values::default();
    let mut set = |metric, value: f64| values.set(metric, round3(value));
    let busy = reading.busy.and_then(|busy| match settings.busy_time {
        BusyTimeAggregator::Max => busy.max,
        BusyTimeAggregator::Min => busy.min,
        BusyTimeAggregator::Avg => busy.average,
    });
    if let Some(busy) = busy.filter(|busy| busy.is_finite()) {
        set(Metric::Load, busy.max(0.0) / 1000.0);
    }
    // The earlier work of a finished vertex is ignored.
    let counters = if vertex.is_finished { Counters::default() } else { vertex.counters };
    set(Metric::AccumulatedBusyTime, counters.busy);
    set(Metric::NumRecordsOut, counters.records_out);
    if !vertex.is_source() {
        set(Metric::NumRecordsIn, counters.records_in.max(0.0));
        if let Some(rate) = sum(reading.in_per_second) {
            set(Metric::NumRecordsInPerSecond, rate);
        }
        return values;
    }
    let lag = sum(reading.pending).unwrap_or(0.0);
    set(Metric::Lag, lag);
    // Counters of the task stay at zero if a source has counters of its own.
    let mut records_in = counters.records_in;
    for of_source in [reading.source_in, reading.source_out] {
        if records_in == 0.0 {
            records_in = sum(of_source).unwrap_or(records_in);
        }
    }
    set(Metric::NumRecordsIn, if records_in.is_nan() { f64::NAN } else { records_in.max(0.0) });
    if let Some(rate) = sum(reading.source_in_per_second) {
        set(Metric::ObservedTpr, observed(id, rate, lag, reading, settings, earlier));
    }
    values
}

/// Returns the rate that a source reached while it caught up; infinite if nothing arrived.
fn observed(
    id: &VertexId,
    rate: f64,
    lag: f64,
    reading: &VertexReading,
    settings: &Settings,
    earlier: &Samples,
) -> f64 {
    let rate = if rate.is_nan() { rate } else { rate.max(0.0) };
    if rate == 0.0 {
        return f64::INFINITY;
    }
    let average_before = || average(earlier, Some(id), Metric::ObservedTpr, settings.observed_min);
    let is_catching_up = lag >= seconds(settings.observed_lag) * rate;
    let backpressure = reading.backpressure.and_then(|of| of.average).filter(|of| *of < 1000.0);
    match backpressure {
        Some(backpressure) if is_catching_up => rate / (1.0 - backpressure / 1000.0),
        Some(_) | None => average_before(),
    }
}

fn of_processes(reading: &ProcessReading) -> Values {
    let mut values = Values::default();
    let max = |aggregate: Option<Aggregate>| aggregate.and_then(|of| of.max);
    let mut set = |metric, value: Option<f64>| {
        if let Some(value) = value {
            values.set(metric, value);
        }
    };
    let slots = reading.slots_total.zip(reading.slots_available);
    set(Metric::NumTaskSlotsUsed, slots.map(|(total, available)| total - available));
    set(Metric::GcPressure, max(reading.gc).map(|gc| gc / 1000.0));
    if let Some((used, limit)) = max(reading.heap_used).zip(max(reading.heap_max)) {
        set(Metric::HeapMemoryUsed, Some(used));
        set(Metric::HeapMaxUsageRatio, Some(used / limit));
    }
    set(Metric::ManagedMemoryUsed, max(reading.managed_used));
    set(Metric::MetaspaceMemoryUsed, max(reading.metaspace_used));
    values
}

#[cfg(test)]
mod tests;
