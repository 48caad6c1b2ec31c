//! Turns the samples of a window into the figures that decisions are based on.

use std::collections::BTreeMap;
use std::time::Duration;

use config::options::autoscaler::BusyTimeAggregator;

use super::metric::{Evaluated, Figures, Metric};
use super::rate::{Rate, round_half_up};
use super::settings::Settings;
use super::topology::{Topology, Vertex, VertexId};
use super::window::{Samples, average, rate, seconds};

/// The figures of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluation {
    pub vertices: BTreeMap<VertexId, Figures>,
    pub job: Figures,
    /// Whether the lag of a source exceeds the threshold, so that the job counts as catching up.
    pub is_backlog: bool,
    /// Figures of vertices that an evaluator set instead of the measured ones.
    pub set: BTreeMap<VertexId, Vec<(Metric, f64)>>,
}

/// Why there are no figures.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Unmeasured {
    #[error("there are no samples")]
    NoSamples,
    #[error("source `{0}` has no input rate")]
    NoIngestionRate(VertexId),
    #[error("source `{0}` has no lag in the last sample")]
    NoLag(VertexId),
}

/// Evaluates the samples.
///
/// # Errors
/// If a source has no rate: everything after it would look idle.
pub fn evaluate(
    samples: &Samples,
    topology: &Topology,
    settings: &Settings,
    restart_time: Duration,
) -> Result<Evaluation, Unmeasured> {
    evaluate_with(samples, topology, settings, restart_time, |_, _, _| Ok(Vec::new()))
}

/// Evaluates the samples, with figures of each vertex that `evaluator` may set. Vertices after it are evaluated with
/// them.
///
/// # Errors
/// If [`evaluate`] would return an error, or `evaluator` returns one.
pub(super) fn evaluate_with<E: From<Unmeasured>>(
    samples: &Samples,
    topology: &Topology,
    settings: &Settings,
    restart_time: Duration,
    mut evaluator: impl FnMut(
        (&VertexId, &Vertex),
        &Figures,
        &Evaluation,
    ) -> Result<Vec<(Metric, Evaluated)>, E>,
) -> Result<Evaluation, E> {
    let flows = topology.vertices().keys().map(|id| (id, Flow::of(samples, id))).collect();
    let window = View { samples, topology, settings, flows };
    let mut evaluation =
        Evaluation { job: window.job()?, is_backlog: window.is_backlog(), ..Evaluation::default() };
    for (id, vertex) in topology.in_order() {
        let mut figures = window.vertex(id, vertex, &evaluation)?;
        let thresholds = |figures: &mut Figures| {
            window.set_thresholds(figures, evaluation.is_backlog, restart_time);
        };
        thresholds(&mut figures);
        let set = evaluator((id, vertex), &figures, &evaluation)?;
        if !set.is_empty() {
            figures.merge(&set);
            // The thresholds follow from the rates, unless the evaluator sets them itself.
            thresholds(&mut figures);
            figures.merge(&set);
            let number = |of: &Evaluated| if of.average.is_nan() { of.current } else { of.average };
            let set = set.iter().map(|(metric, of)| (*metric, number(of))).collect();
            evaluation.set.insert(id.clone(), set);
        }
        evaluation.vertices.insert(id.clone(), figures);
    }
    Ok(evaluation)
}

/// Returns the rate that a vertex must reach at a utilization; `None` if a rate is unknown. With the time of a restart,
/// it includes the records that pile up in that time.
pub fn capacity(
    figures: &Figures,
    utilization: f64,
    settings: &Settings,
    restart: Option<Duration>,
) -> Option<Rate> {
    let catch_up = figures.current(Metric::CatchUpDataRate);
    let target = figures.average(Metric::TargetDataRate);
    if catch_up.is_nan() || target.is_nan() || utilization.is_nan() {
        return None;
    }
    let utilization = utilization.clamp(0.0, 1.0);
    if utilization == 0.0 {
        return Rate::new(f64::INFINITY);
    }
    let catch_up_time = seconds(settings.catch_up);
    let of_restart = match restart {
        Some(restart) if catch_up_time > 0.0 => target * seconds(restart) / catch_up_time,
        Some(_) | None => 0.0,
    };
    Rate::new(round_half_up(catch_up + of_restart + target / utilization))
}

struct View<'a> {
    samples: &'a Samples,
    topology: &'a Topology,
    settings: &'a Settings,
    flows: BTreeMap<&'a VertexId, Flow>,
}

/// The rates of the records of a vertex; NaN if they are unknown. Every edge needs those of both ends.
#[derive(Clone, Copy)]
struct Flow {
    coming_in: f64,
    going_out: f64,
}

impl Flow {
    const UNKNOWN: Self = Self { coming_in: f64::NAN, going_out: f64::NAN };

    fn of(samples: &Samples, id: &VertexId) -> Self {
        let of = |metric| rate(samples, id, metric);
        Self { coming_in: of(Metric::NumRecordsIn), going_out: of(Metric::NumRecordsOut) }
    }
}

/// What all inputs of a vertex send together. Subtracting one input gives what all the others send.
#[derive(Default)]
struct Sent {
    /// Of those that are known.
    rate: f64,
    unknown: usize,
    /// Number of inputs that also send to other vertices.
    branching: usize,
}

impl View<'_> {
    fn rate(&self, vertex: &VertexId, metric: Metric) -> f64 {
        rate(self.samples, vertex, metric)
    }

    fn flow(&self, vertex: &VertexId) -> Flow {
        self.flows.get(vertex).copied().unwrap_or(Flow::UNKNOWN)
    }

    fn latest(&self, vertex: &VertexId, metric: Metric) -> Option<f64> {
        let (_, sample) = self.samples.last_key_value()?;
        sample.vertices.get(vertex)?.get(metric)
    }

    fn is_backlog(&self) -> bool {
        let max = seconds(self.settings.backlog_lag);
        self.topology.vertices().iter().filter(|(_, vertex)| vertex.is_source()).any(|(id, _)| {
            // NaN if a rate is unknown, or if nothing is pending and nothing arrives.
            let lag = self.latest(id, Metric::Lag).unwrap_or(0.0);
            lag / self.flow(id).coming_in > max
        })
    }

    fn job(&self) -> Result<Figures, Unmeasured> {
        let (_, latest) = self.samples.last_key_value().ok_or(Unmeasured::NoSamples)?;
        let now = |metric| latest.job.get(metric).unwrap_or(f64::NAN);
        let mut figures = Figures::default();
        for metric in [Metric::GcPressure, Metric::NumTaskSlotsUsed] {
            figures.set(metric, Evaluated::of(now(metric)));
        }
        for metric in [
            Metric::HeapMaxUsageRatio,
            Metric::HeapMemoryUsed,
            Metric::ManagedMemoryUsed,
            Metric::MetaspaceMemoryUsed,
        ] {
            let mean = average(self.samples, None, metric, 1);
            figures.set(metric, Evaluated::new(now(metric), mean));
        }
        Ok(figures)
    }

    fn vertex(
        &self,
        id: &VertexId,
        vertex: &Vertex,
        before: &Evaluation,
    ) -> Result<Figures, Unmeasured> {
        let mut figures = Figures::default();
        let (target, catch_up) = if vertex.is_source() {
            self.of_source(id)?
        } else {
            self.of_inputs(id, vertex, &before.vertices)
        };
        figures.set(Metric::TargetDataRate, Evaluated::average(target));
        figures.set(Metric::CatchUpDataRate, Evaluated::of(catch_up));
        let busy = self.busy(id, vertex);
        figures.set(Metric::Load, Evaluated::average(busy / 1000.0));
        figures.set(Metric::TrueProcessingRate, Evaluated::average(self.true_rate(id, busy)));
        if let Some(lag) = self.latest(id, Metric::Lag) {
            figures.set(Metric::Lag, Evaluated::of(lag));
        }
        for (metric, number) in [
            (Metric::Parallelism, vertex.parallelism),
            (Metric::MaxParallelism, vertex.max_parallelism),
            (Metric::NumSourcePartitions, vertex.partitions.unwrap_or(0)),
            (Metric::RecommendedParallelism, vertex.parallelism),
        ] {
            figures.set(metric, Evaluated::of(f64::from(number)));
        }
        Ok(figures)
    }

    /// Sets the rates below and above which a vertex is scaled.
    fn set_thresholds(&self, figures: &mut Figures, is_backlog: bool, restart_time: Duration) {
        let (up, down) = if is_backlog {
            // Use the full capacity, and scale nothing down, until the backlog is gone.
            (1.0, 0.0)
        } else {
            (self.settings.utilization_max, self.settings.utilization_min)
        };
        let threshold = |utilization, restart| {
            let capacity = capacity(figures, utilization, self.settings, restart);
            Evaluated::of(capacity.map_or(f64::NAN, Rate::get))
        };
        let (up, down) = (threshold(up, None), threshold(down, Some(restart_time)));
        figures.set(Metric::ScaleUpRateThreshold, up);
        figures.set(Metric::ScaleDownRateThreshold, down);
    }

    /// Returns the target and catch-up rate of a source.
    fn of_source(&self, id: &VertexId) -> Result<(f64, f64), Unmeasured> {
        let coming_in = self.flow(id).coming_in + self.rate(id, Metric::Lag);
        if !coming_in.is_finite() {
            return Err(Unmeasured::NoIngestionRate(id.clone()));
        }
        let lag = self.latest(id, Metric::Lag).filter(|lag| lag.is_finite());
        let lag = lag.ok_or_else(|| Unmeasured::NoLag(id.clone()))?;
        let time = seconds(self.settings.catch_up);
        let catch_up = if time == 0.0 { 0.0 } else { lag / time };
        Ok((coming_in.max(0.0), catch_up))
    }

    /// Returns the target and catch-up rate of a vertex that reads from other vertices.
    fn of_inputs(
        &self,
        id: &VertexId,
        vertex: &Vertex,
        before: &BTreeMap<VertexId, Figures>,
    ) -> (f64, f64) {
        let (mut target, mut catch_up) = (0.0, 0.0);
        let sent = self.sent_to(vertex);
        for input in vertex.inputs.keys() {
            let Some(of_input) = before.get(input) else { continue };
            let ratio = self.output_ratio(input, id, vertex, &sent);
            target += of_input.average(Metric::TargetDataRate) * ratio;
            catch_up += of_input.current(Metric::CatchUpDataRate) * ratio;
        }
        (target, catch_up)
    }

    fn sent_to(&self, vertex: &Vertex) -> Sent {
        let mut sent = Sent::default();
        for input in vertex.inputs.keys() {
            let rate = self.flow(input).going_out;
            if rate.is_nan() {
                sent.unknown += 1;
            } else {
                sent.rate += rate;
            }
            sent.branching += usize::from(self.is_branching(input));
        }
        sent
    }

    fn is_branching(&self, id: &VertexId) -> bool {
        self.topology.output_count(id) != 1
    }

    /// Returns the number of records that go from one vertex to another for each that arrives.
    fn output_ratio(&self, from: &VertexId, to: &VertexId, vertex: &Vertex, sent: &Sent) -> f64 {
        let coming_in = self.flow(from).coming_in;
        if coming_in > 0.0 {
            let going_out = self.edge_rate(from, to, vertex, sent);
            if going_out > 0.0 {
                return going_out / coming_in;
            }
        }
        0.0
    }

    /// Flink counts everything a vertex sends together, so the rate of one edge is what the other end receives, minus
    /// what it receives from elsewhere. `sent` is what all inputs of the other end send.
    fn edge_rate(&self, from: &VertexId, to: &VertexId, vertex: &Vertex, sent: &Sent) -> f64 {
        let coming_in = self.flow(to).coming_in;
        if vertex.inputs.len() == 1 {
            return coming_in;
        }
        let own = self.flow(from).going_out;
        let is_other_branching = sent.branching > usize::from(self.is_branching(from));
        if is_other_branching || sent.unknown > usize::from(own.is_nan()) {
            return own;
        }
        coming_in - (sent.rate - if own.is_nan() { 0.0 } else { own })
    }

    /// Returns the busy time in milliseconds per second.
    fn busy(&self, id: &VertexId, vertex: &Vertex) -> f64 {
        match self.settings.busy_time {
            BusyTimeAggregator::Avg => {
                self.rate(id, Metric::AccumulatedBusyTime) / f64::from(vertex.parallelism)
            }
            BusyTimeAggregator::Max | BusyTimeAggregator::Min => {
                average(self.samples, Some(id), Metric::Load, 1) * 1000.0
            }
        }
    }

    /// Returns the rate of arriving records, over the same time as the busy time.
    fn rate_for_busy(&self, id: &VertexId) -> f64 {
        let counted = || self.flow(id).coming_in;
        match self.settings.busy_time {
            BusyTimeAggregator::Avg => counted(),
            BusyTimeAggregator::Max | BusyTimeAggregator::Min => {
                let mean = average(self.samples, Some(id), Metric::NumRecordsInPerSecond, 1);
                if mean.is_finite() { mean } else { counted() }
            }
        }
    }

    /// Returns the rate that the vertex would reach if it were always busy.
    fn true_rate(&self, id: &VertexId, busy: f64) -> f64 {
        let coming_in = self.rate_for_busy(id);
        let by_busy_time =
            if coming_in == 0.0 { f64::INFINITY } else { coming_in / (busy / 1000.0) };
        let observed =
            average(self.samples, Some(id), Metric::ObservedTpr, self.settings.observed_min);
        if observed.is_nan() {
            return by_busy_time;
        }
        let is_too_large = by_busy_time > observed * (1.0 + self.settings.observed_switch);
        if !by_busy_time.is_finite() || is_too_large { observed } else { by_busy_time }
    }
}

#[cfg(test)]
mod tests;
