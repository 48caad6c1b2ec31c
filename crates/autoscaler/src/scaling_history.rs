//! The scaling history of a job: earlier scalings, and how long the restarts took.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::metric::Figures;
use super::settings::Settings;
use super::topology::{Topology, VertexId};
use super::window::earlier;

/// One scaling of a vertex, with its figures at that time.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    pub current: u32,
    pub new: u32,
    pub figures: Figures,
}

impl Scaling {
    pub fn is_up(&self) -> bool {
        self.new > self.current
    }
}

/// Scalings of one vertex by their time.
pub type VertexHistory = BTreeMap<Timestamp, Scaling>;

/// Scalings by vertex.
pub type ScalingHistory = BTreeMap<VertexId, VertexHistory>;

/// The rule that decided a scaling, and its result: a rate, a factor or a parallelism.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    pub rule: String,
    pub number: f64,
}

/// Reasons of scalings by vertex and time. Scalings by the Java operator have none.
pub type Reasons = BTreeMap<VertexId, BTreeMap<Timestamp, Reason>>;

/// When the job was scaled, and how long it took to run again, if that is known.
pub type Restarts = BTreeMap<Timestamp, Option<SignedDuration>>;

/// Drops entries that are too old or too many. Vertices that the job no longer has keep their history until it is too
/// old: the graph may come back.
pub fn trim(history: &mut ScalingHistory, now: Timestamp, settings: &Settings) {
    let from = earlier(now, settings.history_max_age);
    history.retain(|_, of_vertex| {
        *of_vertex = of_vertex.split_off(&from);
        keep_newest(of_vertex, settings.history_max_count);
        !of_vertex.is_empty()
    });
}

/// Drops the reasons of scalings that the history no longer has.
pub fn trim_reasons(reasons: &mut Reasons, history: &ScalingHistory) {
    reasons.retain(|id, of_vertex| {
        of_vertex.retain(|at, _| history.get(id).is_some_and(|it| it.contains_key(at)));
        !of_vertex.is_empty()
    });
}

/// Drops restarts that are too old or too many. The last one always stays.
pub fn trim_restarts(restarts: &mut Restarts, now: Timestamp, settings: &Settings) {
    let last = restarts.last_key_value().map(|(time, took)| (*time, *took));
    *restarts = restarts.split_off(&earlier(now, settings.history_max_age));
    keep_newest(restarts, settings.history_max_count);
    restarts.extend(last);
}

fn keep_newest<T>(entries: &mut BTreeMap<Timestamp, T>, max: u32) {
    while u32::try_from(entries.len()).unwrap_or(u32::MAX) > max {
        entries.pop_first();
    }
}

/// Records how long the last scaling took, once the job runs as decided: until the job ran, not until that was noticed.
pub fn note_restart(
    restarts: &mut Restarts,
    history: &ScalingHistory,
    topology: &Topology,
    running_since: Timestamp,
) {
    let Some(mut last) = restarts.last_entry() else { return };
    let started = *last.key();
    if last.get().is_some() || running_since < started {
        return;
    }
    let mut scaled = history
        .iter()
        .filter_map(|(id, of_vertex)| Some((topology.get(id)?, of_vertex.get(&started)?)))
        .peekable();
    if scaled.peek().is_some() && scaled.all(|(vertex, to)| vertex.parallelism == to.new) {
        last.insert(Some(running_since.duration_since(started)));
    }
}

/// Returns the expected duration of a restart: the longest measured one, if measurements are used.
pub fn restart_time(restarts: &Restarts, settings: &Settings) -> Duration {
    let longest = restarts.values().flatten().max().and_then(|took| took.as_secs().try_into().ok());
    match (settings.tracked_restart_max, longest) {
        (Some(max), Some(seconds)) => Duration::from_secs(seconds).min(max),
        (Some(_) | None, _) => settings.restart_time,
    }
}

#[cfg(test)]
mod tests;
