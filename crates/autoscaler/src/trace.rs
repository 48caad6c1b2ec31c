//! The decisions about a job over time, cycle by cycle, beside the parallelism it ran with.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::cost::Cost;
use super::cycle::{Cycle, Facts, Outcome, State};
use super::metric::Metric;
use super::plugin::rules::Rules;
use super::topology::{Topology, VertexId};
use super::vertex_scaler::VertexDecision;

/// One moment of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    pub at: Timestamp,
    /// How its cycle ended; an error says why there was none.
    pub outcome: Result<Outcome, String>,
    /// The parallelism that the job runs with, as far as it is known.
    pub parallelism: BTreeMap<VertexId, u32>,
    /// The decisions so far, if there are any.
    pub decided: BTreeMap<VertexId, u32>,
    /// Records pending at all sources.
    pub lag: Option<f64>,
    /// Records that arrived per second since the previous moment.
    pub coming_in: Option<f64>,
    /// Records that the sources read per second since the previous moment.
    pub processed: Option<f64>,
}

/// A change of parallelism, with the reasons for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    pub at: Timestamp,
    /// Whether the decision is carried out, or why not.
    pub outcome: Outcome,
    /// The vertices that change.
    pub changes: BTreeMap<VertexId, VertexDecision>,
    /// Memory that was tuned with it.
    pub config: BTreeMap<String, String>,
    /// The cost of the change, if the requests of the pods are known.
    pub cost: Option<Cost>,
}

/// An observed change of the job's parallelism.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Change {
    pub at: Timestamp,
    pub vertex: VertexId,
    pub from: u32,
    pub to: u32,
}

/// Everything that happened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    pub moments: Vec<Moment>,
    pub decisions: Vec<Decision>,
    /// The changes of the parallelism that the job ran with.
    pub changes: Vec<Change>,
}

/// The records that sources had read, and those pending, at one time.
#[derive(Clone, Copy, Debug)]
struct Counted {
    at: Timestamp,
    running_since: Timestamp,
    read: f64,
    lag: f64,
}

/// Runs one cycle after the other, and records the results.
#[derive(Debug)]
pub struct Tracer<'a> {
    /// The rules that the settings name.
    rules: &'a Rules,
    state: State,
    before: Option<Counted>,
    parallelism: BTreeMap<VertexId, u32>,
    trace: Trace,
}

impl<'a> Tracer<'a> {
    pub fn new(rules: &'a Rules) -> Self {
        Self {
            rules,
            state: State::default(),
            before: None,
            parallelism: BTreeMap::new(),
            trace: Trace::default(),
        }
    }

    /// Records a moment at which the job could not be measured.
    pub fn skip(&mut self, at: Timestamp, why: &str) {
        let moment = Moment {
            at,
            outcome: Err(why.to_owned()),
            parallelism: self.parallelism.clone(),
            decided: self.state.overrides.clone(),
            lag: None,
            coming_in: None,
            processed: None,
        };
        self.trace.moments.push(moment);
    }

    /// Runs a cycle, and returns what has been decided by now.
    pub fn step(&mut self, facts: &Facts<'_>) -> &BTreeMap<VertexId, u32> {
        let cycle = self.rules.cycle(std::mem::take(&mut self.state), facts);
        self.note_changes(facts);
        let counted = counted(&cycle, facts);
        let rates = match (self.before, counted) {
            (Some(before), Some(now)) if before.running_since == now.running_since => {
                rates(before, now)
            }
            (Some(_) | None, _) => None,
        };
        self.note_decision(facts.now, &cycle);
        let Cycle { state, outcome, .. } = cycle;
        self.trace.moments.push(Moment {
            at: facts.now,
            outcome: Ok(outcome),
            parallelism: self.parallelism.clone(),
            decided: state.overrides.clone(),
            lag: counted.map(|counted| counted.lag),
            coming_in: rates.map(|(coming_in, _)| coming_in),
            processed: rates.map(|(_, processed)| processed),
        });
        self.before = counted;
        self.state = state;
        &self.state.overrides
    }

    pub fn finish(self) -> Trace {
        self.trace
    }

    fn note_changes(&mut self, facts: &Facts<'_>) {
        let now = parallelism(facts.topology);
        for (vertex, to) in &now {
            let Some(from) = self.parallelism.get(vertex).filter(|from| *from != to) else {
                continue;
            };
            let (vertex, from, to) = (vertex.clone(), *from, *to);
            self.trace.changes.push(Change { at: facts.now, vertex, from, to });
        }
        self.parallelism = now;
    }

    /// Records a decision; only once if it is repeated, as while scaling is disabled.
    fn note_decision(&mut self, at: Timestamp, cycle: &Cycle) {
        let is_decision = matches!(
            cycle.outcome,
            Outcome::Scaled | Outcome::Disabled(_) | Outcome::Quota(_) | Outcome::Vetoed(..)
        );
        if !is_decision {
            return;
        }
        let moved = cycle.decisions.iter().filter(|(_, change)| change.is_change());
        let changes: BTreeMap<VertexId, VertexDecision> =
            moved.map(|(id, change)| (id.clone(), change.clone())).collect();
        let is_same = |last: &Decision| {
            let numbers = |changes: &BTreeMap<VertexId, VertexDecision>| {
                let numbers = changes.iter().map(|(id, of)| (id.clone(), (of.current, of.new)));
                numbers.collect::<BTreeMap<_, _>>()
            };
            cycle.outcome != Outcome::Scaled
                && std::mem::discriminant(&last.outcome) == std::mem::discriminant(&cycle.outcome)
                && numbers(&last.changes) == numbers(&changes)
        };
        if self.trace.decisions.last().is_some_and(is_same) {
            return;
        }
        let config = if cycle.outcome == Outcome::Scaled {
            cycle.state.config.overrides.clone()
        } else {
            BTreeMap::new()
        };
        let (outcome, cost) = (cycle.outcome.clone(), cycle.cost);
        self.trace.decisions.push(Decision { at, outcome, changes, config, cost });
    }
}

fn parallelism(topology: &Topology) -> BTreeMap<VertexId, u32> {
    topology.vertices().iter().map(|(id, vertex)| (id.clone(), vertex.parallelism)).collect()
}

/// Adds up the newest sample of all sources.
fn counted(cycle: &Cycle, facts: &Facts<'_>) -> Option<Counted> {
    let sample = cycle.state.samples.get(&facts.now)?;
    let (mut read, mut lag) = (0.0, 0.0);
    for (id, _) in facts.topology.vertices().iter().filter(|(_, vertex)| vertex.is_source()) {
        let values = sample.vertices.get(id)?;
        read += values.get(Metric::NumRecordsIn)?;
        lag += values.get(Metric::Lag)?;
    }
    Some(Counted { at: facts.now, running_since: facts.running_since, read, lag })
}

/// Returns the records per second that arrived and that were read; `None` if counters went backwards.
fn rates(before: Counted, now: Counted) -> Option<(f64, f64)> {
    let seconds = now.at.duration_since(before.at).as_secs_f64();
    let processed = (now.read - before.read) / seconds;
    if seconds <= 0.0 || !processed.is_finite() || processed < 0.0 {
        return None;
    }
    let coming_in = processed + (now.lag - before.lag) / seconds;
    Some((coming_in.max(0.0), processed))
}

/// Returns the hours of subtasks between the first and the last moment: for the parallelism that the job ran with, and
/// for what it would have run with if each decision had been carried out at once.
pub fn subtask_hours(trace: &Trace) -> (f64, f64) {
    let (mut ran, mut decided) = (0.0, 0.0);
    for pair in trace.moments.windows(2) {
        let [moment, next] = pair else { continue };
        let hours = next.at.duration_since(moment.at).as_secs_f64().max(0.0) / 3600.0;
        for (id, parallelism) in &moment.parallelism {
            ran += f64::from(*parallelism) * hours;
            decided += f64::from(*moment.decided.get(id).unwrap_or(parallelism)) * hours;
        }
    }
    (ran, decided)
}

/// Returns how often vertices were scaled one way and then the other.
pub fn reversals(trace: &Trace) -> usize {
    let mut directions: BTreeMap<&VertexId, Vec<bool>> = BTreeMap::new();
    let scaled = trace.decisions.iter().filter(|decision| decision.outcome == Outcome::Scaled);
    for (id, change) in scaled.flat_map(|decision| &decision.changes) {
        directions.entry(id).or_default().push(change.new > change.current);
    }
    let turns = |ups: &Vec<bool>| ups.windows(2).filter(|pair| pair.first() != pair.last()).count();
    directions.values().map(turns).sum()
}

#[cfg(test)]
mod tests;
