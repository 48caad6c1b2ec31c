//! The events of a cycle, with the Java operator's reasons, keys and report.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use jiff::Timestamp;

use config::options::autoscaler as options;

use super::capacity::NoRoom;
use super::cost::Cost;
use super::cycle::ConfigChanges;
use super::feedback::Ineffective;
use super::metric::Metric;
use super::plugin::Id;
use super::quota::Exceeded;
use super::rate::two_decimals;
use super::scaling_history::Scaling;
use super::settings::Settings;
use super::topology::VertexId;
use super::vertex_scaler::Limited;

/// Reason of the event that reports a decision, carried out or advised.
pub const ADVISED: &str = "ScalingReport";

/// Returns the changes of parallelism that a report advises: vertex, from, to. `None` if it is not a report, or reports
/// a decision that is carried out.
pub fn advised(message: &str) -> Option<Vec<(String, u32, u32)>> {
    let (head, _) = message.split_once('{')?;
    if !head.starts_with("Scaling execution disabled") {
        return None;
    }
    let change = |text: &str| {
        let mut parts = text.split(" | ");
        let id = parts.next()?.trim().strip_prefix("Vertex ID ")?;
        let (from, to) = parts.next()?.strip_prefix("Parallelism ")?.split_once(" -> ")?;
        Some((id.to_owned(), from.trim().parse().ok()?, to.trim().parse().ok()?))
    };
    Some(message.split('{').skip(1).filter_map(change).collect())
}

/// An event about a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
    /// Used instead of the message to fold repeated events into one.
    pub key: String,
    /// An event with this key is not repeated within this time; `None` to always send it.
    pub interval: Option<Duration>,
    /// If set, the interval applies only while this value stays the same.
    pub parallelism: Option<u32>,
}

/// Why decisions are not carried out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Disabled {
    /// `scaling.enabled` is false.
    Scaling,
    /// Now is within an excluded period.
    Period(String),
    /// The job is new to the autoscaler.
    Advice(Timestamp),
    /// The job cannot follow the decision, and nothing restarts it.
    Fixed(String),
}

impl Event {
    fn new(reason: &'static str, message: String, key: String, settings: &Settings) -> Self {
        let interval = Some(settings.event_interval);
        Self { is_warning: false, reason, message, key, interval, parallelism: None }
    }

    fn warning(self) -> Self {
        Self { is_warning: true, ..self }
    }

    /// Returns the report of the vertices that are scaled, or would be.
    pub fn report(
        scalings: &BTreeMap<VertexId, Scaling>,
        disabled: Option<&Disabled>,
        cost: Option<Cost>,
        settings: &Settings,
    ) -> Self {
        let mut message = match disabled {
            None => "Scaling execution enabled, begin scaling vertices:".to_owned(),
            Some(disabled) => {
                let by = match disabled {
                    Disabled::Scaling => {
                        format!("by config {}:false", options::SCALING_ENABLED.key())
                    }
                    Disabled::Period(_) => {
                        let all = settings.excluded_periods.iter().map(ToString::to_string);
                        let all: Vec<String> = all.collect();
                        let key = options::EXCLUDED_PERIODS.key();
                        format!("by config {key}:[{}]", all.join(", "))
                    }
                    Disabled::Advice(until) => {
                        let key = options::ADVICE_FIRST_WINDOW.key();
                        format!("by config {key}:true until {until}")
                    }
                    Disabled::Fixed(why) => format!("({why})"),
                };
                format!("Scaling execution disabled {by}, recommended parallelism change:")
            }
        };
        for (id, Scaling { current, new, figures }) in scalings {
            let rate = two_decimals(figures.average(Metric::TrueProcessingRate));
            let expected = two_decimals(figures.current(Metric::ExpectedProcessingRate));
            let target = two_decimals(figures.average(Metric::TargetDataRate));
            let _written = write!(
                message,
                "{{ Vertex ID {id} | Parallelism {current} -> {new} | \
                 Processing capacity {rate} -> {expected} | Target data rate {target}}}"
            );
        }
        if let Some(cost) = cost {
            // At the end, after the part that tools parse.
            let _written = write!(message, " Requested by the pods: {cost}");
        }
        let mut event = Self::new(ADVISED, message, "ScalingExecutor".to_owned(), settings);
        if disabled.is_some() {
            event.parallelism = Some(parallelism_hash(scalings));
        } else {
            event.interval = None;
        }
        event
    }

    pub(super) fn ineffective(id: &VertexId, of: Ineffective, settings: &Settings) -> Self {
        let Ineffective { expected, actual } = of;
        let then = if settings.is_ineffective_blocked {
            "it is not scaled up further"
        } else {
            "it is still scaled up further"
        };
        let message = format!(
            "the last scale-up of vertex {id} should have added {} records per second, but added \
             {}: {then}",
            two_decimals(expected),
            two_decimals(actual)
        );
        let key = format!("ineffective{id}{expected}");
        Self::new("IneffectiveScaling", message, key, settings)
    }

    pub(super) fn limited(id: &VertexId, of: Limited, settings: &Settings) -> Self {
        let Limited { expected, actual, parts, upper, lower } = of;
        let message = format!(
            "vertex {id} gets parallelism {actual} instead of {expected}, to fit {parts} key \
             groups or partitions from {lower} to {upper}"
        );
        Self::new("ScalingLimited", message, format!("ScalingLimited{id}"), settings).warning()
    }

    pub(super) fn gc_pressure(pressure: f64, settings: &Settings) -> Self {
        let message = format!(
            "garbage collection takes {} of the time, more than `{}`: the job is not scaled; \
             give it more memory",
            two_decimals(pressure),
            options::GC_PRESSURE_THRESHOLD.key()
        );
        Self::new("MemoryPressure", message, "gcPressure".to_owned(), settings)
    }

    pub(super) fn heap_usage(usage: f64, settings: &Settings) -> Self {
        let message = format!(
            "{} of the heap is in use, more than `{}`: the job is not scaled; give it more memory",
            two_decimals(usage),
            options::HEAP_USAGE_THRESHOLD.key()
        );
        Self::new("MemoryPressure", message, "heapUsage".to_owned(), settings)
    }

    pub(super) fn tuning(changes: &ConfigChanges, settings: &Settings) -> Self {
        let ConfigChanges { overrides, removals } = changes;
        let state = if settings.memory_tuning.is_enabled { "enabled" } else { "disabled" };
        let mut message = format!(
            "Memory tuning recommends the following configuration (automatic tuning is {state}):\n"
        );
        for (key, value) in overrides {
            let _written = writeln!(message, "{key}: {value}");
        }
        let removals: Vec<&str> = removals.iter().map(String::as_str).collect();
        let _written = write!(message, "without {}", removals.join(", "));
        let reason = "Configuration recommendation";
        Self::new(reason, message, "MemoryTuning".to_owned(), settings)
    }

    pub(super) fn quota(exceeded: Exceeded, settings: &Settings) -> Self {
        let message = format!("the job is not scaled up: {exceeded}");
        let key = "ResourceQuotaReached".to_owned();
        Self::new("ResourceQuotaReached", message, key, settings).warning()
    }

    pub(super) fn vetoed(by: &Id, why: Option<&str>, settings: &Settings) -> Self {
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let message = format!(
            "the job is not scaled: {by} refuses the decision{why}; it will be asked again"
        );
        let key = format!("ScalingVetoed:{}", by.name);
        Self::new("ScalingVetoed", message, key, settings).warning()
    }

    pub(super) fn no_room(no_room: &NoRoom, settings: &Settings) -> Self {
        let message = format!(
            "the job is not scaled up: {no_room}; the next decision tries again. Add nodes to the \
             cluster, or limit the job's TaskManagers with `{}`",
            options::VERTEX_MAX_PARALLELISM.key()
        );
        let key = "ClusterCapacityReached".to_owned();
        Self::new("ClusterCapacityReached", message, key, settings).warning()
    }
}

/// Distinguishes sets of changes, as the label `parallelismMap` of an event does.
pub fn parallelism_hash(scalings: &BTreeMap<VertexId, Scaling>) -> u32 {
    let entries = scalings.iter().map(|(id, scaling)| {
        let change = format!("Parallelism {} -> {}", scaling.current, scaling.new);
        java_hash(id.as_str()) ^ java_hash(&change)
    });
    entries.fold(0_u32, u32::wrapping_add) & 0x7fff_ffff
}

/// Computes Java's `String.hashCode`.
fn java_hash(text: &str) -> u32 {
    text.encode_utf16()
        .fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
}

#[cfg(test)]
mod tests;
