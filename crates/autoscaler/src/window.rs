//! The samples of a job, and the rates and averages computed from them.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::metric::Metric;
use super::sample::Sample;
use super::settings::Settings;
use super::topology::{Topology, VertexId};

/// Samples by the time when they were taken.
pub type Samples = BTreeMap<Timestamp, Sample>;

/// Maximum number of samples kept of a job, whatever the options: slightly more than a day of one per minute.
pub const SAMPLES_MAX: usize = 1500;
/// Maximum number of figures of vertices in them, of all samples together: about 15 MB.
pub const VERTEX_SAMPLES_MAX: usize = 100_000;

/// Why samples were discarded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Discarded {
    /// The job started again after the first of them.
    Restarted,
    /// They are of other vertices.
    OtherVertices,
    /// They are from the future.
    ClockWentBack,
}

/// Keeps the samples that the next one can be compared with.
pub fn comparable(
    samples: Samples,
    now: Timestamp,
    running_since: Timestamp,
    topology: &Topology,
) -> (Samples, Option<Discarded>) {
    let Some((first, _)) = samples.first_key_value() else { return (samples, None) };
    let is_same = |sample: &Sample| sample.vertices.keys().eq(topology.vertices().keys());
    let why = if running_since > *first {
        Discarded::Restarted
    } else if samples.last_key_value().is_some_and(|(last, _)| *last >= now) {
        Discarded::ClockWentBack
    } else if !samples.values().all(is_same) {
        Discarded::OtherVertices
    } else {
        return (samples, None);
    };
    (Samples::new(), Some(why))
}

/// Samples with a new one, and when there are enough.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    pub samples: Samples,
    /// When samples of a whole window are or will be complete; not later than now if they are.
    pub full_at: Timestamp,
    pub is_stabilizing: bool,
}

/// Adds the sample of `now`, and drops those older than a full window, except the sample before this one: rates need
/// two, and if a window is as long as the interval between samples, the previous one is always a moment too old. If
/// there are too many, every other one goes.
pub fn add(
    mut samples: Samples,
    sample: Sample,
    now: Timestamp,
    running_since: Timestamp,
    settings: &Settings,
) -> Window {
    let stable_at = later(running_since, settings.stabilization);
    let first_stable = samples.range(stable_at..).next().map_or(now, |(time, _)| *time);
    let full_at = later(first_stable, settings.metrics_window);
    let former = samples.last_key_value().map(|(time, _)| *time);
    samples.insert(now, sample);
    if now >= full_at {
        let from = earlier(now, settings.metrics_window);
        let long_ago = earlier(from, settings.metrics_window);
        let former = former.filter(|former| *former >= long_ago);
        samples = samples.split_off(&former.map_or(from, |former| former.min(from)));
    }
    let vertices = samples.last_key_value().map_or(0, |(_, sample)| sample.vertices.len());
    let max = SAMPLES_MAX.min(VERTEX_SAMPLES_MAX / vertices.max(1)).max(2);
    while samples.len() > max {
        // Every other one goes, and those that stay still cover the window.
        let mut is_retained = false;
        samples.retain(|at, _| {
            is_retained = !is_retained;
            is_retained || *at == now
        });
    }
    Window { samples, full_at, is_stabilizing: now < stable_at }
}

/// Returns the change per second between the first and the last existing value; NaN without two of them.
pub fn rate(samples: &Samples, vertex: &VertexId, metric: Metric) -> f64 {
    let mut values = samples
        .iter()
        .filter_map(|(time, sample)| Some((*time, sample.vertices.get(vertex)?.get(metric)?)));
    let Some((first_at, first)) = values.next() else { return f64::NAN };
    let Some((last_at, last)) = values.next_back() else { return f64::NAN };
    #[allow(clippy::cast_precision_loss, reason = "a span of samples is far below 2^53 ms")]
    let millis = last_at.duration_since(first_at).as_millis().max(1) as f64;
    1000.0 * (last - first) / millis
}

/// Returns the mean of the finite values of a vertex, or of the job. Without any, it is infinite if one value is,
/// otherwise NaN; NaN also for fewer than `min` values.
pub fn average(samples: &Samples, vertex: Option<&VertexId>, metric: Metric, min: u32) -> f64 {
    let (mut sum, mut count, mut is_any_infinite) = (0.0, 0_u32, false);
    for sample in samples.values() {
        let values = match vertex {
            Some(vertex) => sample.vertices.get(vertex),
            None => Some(&sample.job),
        };
        let Some(value) = values.and_then(|values| values.get(metric)) else { continue };
        if value.is_infinite() {
            is_any_infinite = true;
        } else {
            sum += value;
            count += 1;
        }
    }
    match count {
        0 if is_any_infinite => f64::INFINITY,
        0 => f64::NAN,
        _ if count < min => f64::NAN,
        _ => sum / f64::from(count),
    }
}

/// Returns whole seconds as a float.
#[allow(clippy::cast_precision_loss, reason = "no option is as long as 2^53 seconds")]
pub fn seconds(duration: Duration) -> f64 {
    duration.as_secs() as f64
}

/// Adds a duration, limited to the range of times.
pub fn later(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Subtracts a duration, limited to the range of times.
pub fn earlier(time: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    time.checked_sub(by).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests;
