//! One cycle of a job: a sample, an evaluation, decisions, and what to store and report.

mod approval;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use config::FlinkConfig;
use config::memory::MemorySize;
use config::option::InvalidValue;
use config::options::TASK_MANAGER_PROCESS_MEMORY;

use super::capacity::{Capacity, NoRoom, TaskManagers};
use super::cost::{Cost, Pods, slots};
use super::delayed::Delayed;
use super::evaluate::{Evaluation, Unmeasured, evaluate_with};
use super::events::{Disabled, Event};
use super::memory::{Tuning, tune};
use super::metric::{Evaluated, Metric};
use super::plugin::{Answers, Asking, Halt, Id, Job, Question, Teller, Unanswered};
use super::quota::{self, Changes, Exceeded, TaskManager};
use super::rate::two_decimals;
use super::sample::{Reading, Unscaled, sample};
use super::scaling_history::{
    self, Reason, Reasons, Restarts, Scaling, ScalingHistory, VertexHistory,
};
use super::settings::Settings;
use super::topology::{Topology, VertexId};
use super::vertex_scaler::{self, Step, VertexDecision, VertexInput};
use super::window::{self, Discarded, Samples};

/// Maximum number of events about single vertices in a cycle; each is a write to the API server.
const VERTEX_EVENTS_MAX: usize = 20;

/// The state of a job that is kept between two cycles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    pub samples: Samples,
    pub scaling_history: ScalingHistory,
    pub reasons: Reasons,
    pub restarts: Restarts,
    /// Parallelism by vertex, as decided; in force until the next decision.
    pub overrides: BTreeMap<VertexId, u32>,
    pub config: ConfigChanges,
    pub delayed: Delayed,
}

/// Changes of a job's configuration that were decided.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ConfigChanges {
    pub overrides: BTreeMap<String, String>,
    pub removals: BTreeSet<String>,
}

impl ConfigChanges {
    /// Returns the memory of a TaskManager if it is tuned.
    fn task_manager_memory(&self) -> Option<MemorySize> {
        MemorySize::parse(self.overrides.get(TASK_MANAGER_PROCESS_MEMORY.key())?)
    }
}

/// The input of a cycle.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub now: Timestamp,
    /// Time zone of excluded periods.
    pub zone: &'a TimeZone,
    pub settings: &'a Settings,
    /// The user's configuration, without earlier decisions.
    pub config: &'a FlinkConfig,
    pub topology: &'a Topology,
    /// Since when the job has been running, according to Flink.
    pub running_since: Timestamp,
    pub reading: &'a Reading,
    pub task_manager: TaskManager,
    /// The requests of the job's pods, if they are known.
    pub pods: Option<Pods>,
    /// The free resources of the cluster's nodes, or why they are unknown; `None` if they are not checked.
    pub capacity: Option<&'a Result<Capacity, String>>,
    /// For the rules that the settings name.
    pub asking: Asking<'a>,
}

/// The input of a cycle that runs on another thread.
#[derive(Clone, Debug)]
pub struct OwnedFacts {
    pub now: Timestamp,
    pub zone: TimeZone,
    pub settings: Settings,
    pub config: FlinkConfig,
    pub topology: Topology,
    pub running_since: Timestamp,
    pub reading: Reading,
    pub task_manager: TaskManager,
    pub pods: Option<Pods>,
    pub job: Option<Job>,
}

impl OwnedFacts {
    /// Returns the facts, with the free resources and the answers of rules as they are known by now.
    pub fn with<'a>(
        &'a self,
        capacity: Option<&'a Result<Capacity, String>>,
        answers: &'a Answers,
    ) -> Facts<'a> {
        let Self {
            now,
            zone,
            settings,
            config,
            topology,
            running_since,
            reading,
            task_manager,
            pods,
            job,
        } = self;
        Facts {
            now: *now,
            zone,
            settings,
            config,
            topology,
            running_since: *running_since,
            reading,
            task_manager: *task_manager,
            pods: *pods,
            capacity,
            asking: Asking { job: job.as_ref(), answers: Some(answers) },
        }
    }
}

impl<'a> Facts<'a> {
    fn teller(&self, is_backlog: bool) -> Teller<'a> {
        Teller { asking: self.asking, now: self.now, is_backlog }
    }
}

/// How a cycle ended, and why.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A vertex of the plan was not read.
    NotRead(VertexId),
    TooFewSamples {
        have: usize,
    },
    Unmeasured(Unmeasured),
    /// There are figures, but only for display.
    WindowNotFull {
        until: Timestamp,
    },
    GcPressure(f64),
    HeapUsage(f64),
    /// No vertex needs another parallelism.
    Balanced,
    /// Some vertices would be better with another parallelism, but none is outside of its bounds.
    WithinBounds,
    Disabled(Disabled),
    /// A Flink option that tuning depends on is invalid.
    Invalid(InvalidValue),
    Quota(Exceeded),
    NoRoom(NoRoom),
    /// A rule must answer first: this is not a complete cycle yet.
    Asks(Box<Question>),
    Unanswered(Unanswered),
    /// By an executor, with its reason if it gives one.
    Vetoed(Id, Option<String>),
    /// This decision was made before, but the job does not run with it yet.
    AlreadyDecided,
    Scaled,
}

impl Outcome {
    /// Returns whether a decision was due and nothing was changed.
    pub fn is_balanced(&self) -> bool {
        match self {
            Self::GcPressure(_)
            | Self::HeapUsage(_)
            | Self::Balanced
            | Self::WithinBounds
            | Self::Disabled(_)
            | Self::Quota(_)
            | Self::NoRoom(_)
            | Self::Vetoed(..)
            | Self::AlreadyDecided => true,
            Self::NotRead(_)
            | Self::TooFewSamples { .. }
            | Self::Unmeasured(_)
            | Self::WindowNotFull { .. }
            | Self::Invalid(_)
            | Self::Asks(_)
            | Self::Unanswered(_)
            | Self::Scaled => false,
        }
    }
}

impl From<Halt> for Outcome {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Asks(question) => Self::Asks(question),
            Halt::Unanswered(unanswered) => Self::Unanswered(unanswered),
        }
    }
}

impl From<Unmeasured> for Outcome {
    fn from(why: Unmeasured) -> Self {
        Self::Unmeasured(why)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRead(vertex) => write!(f, "no metrics were read for vertex `{vertex}`"),
            Self::TooFewSamples { have } => write!(f, "there are {have} of 2 samples"),
            Self::Unmeasured(why) => why.fmt(f),
            Self::WindowNotFull { until } => write!(f, "the window is not full until {until}"),
            Self::GcPressure(of) => write!(f, "garbage collection takes {}", two_decimals(*of)),
            Self::HeapUsage(of) => write!(f, "{} of the heap is in use", two_decimals(*of)),
            Self::Balanced => f.write_str("no vertex needs another parallelism"),
            Self::WithinBounds => f.write_str("all rates are within their bounds"),
            Self::Disabled(Disabled::Scaling) => f.write_str("scaling is disabled"),
            Self::Disabled(Disabled::Period(of)) => {
                write!(f, "the time is in excluded period `{of}`")
            }
            Self::Disabled(Disabled::Advice(until)) => {
                write!(f, "decisions are only reported until {until}, because the job is new")
            }
            Self::Disabled(Disabled::Fixed(why)) => write!(f, "decisions are only reported: {why}"),
            Self::Invalid(invalid) => invalid.fmt(f),
            Self::Quota(exceeded) => exceeded.fmt(f),
            Self::NoRoom(no_room) => no_room.fmt(f),
            Self::Asks(question) => write!(f, "{} was not asked", question.of),
            Self::Unanswered(unanswered) => unanswered.fmt(f),
            Self::Vetoed(by, None) => write!(f, "{by} refuses the decision"),
            Self::Vetoed(by, Some(why)) => write!(f, "{by} refuses the decision: {why}"),
            Self::AlreadyDecided => f.write_str("the previous decision is not in effect yet"),
            Self::Scaled => f.write_str("scaled"),
        }
    }
}

/// The result of a cycle.
#[derive(Clone, Debug, PartialEq)]
pub struct Cycle {
    pub state: State,
    pub outcome: Outcome,
    pub evaluation: Option<Evaluation>,
    pub decisions: BTreeMap<VertexId, VertexDecision>,
    /// The vertices that this cycle scales.
    pub scalings: BTreeMap<VertexId, Scaling>,
    /// Vertices that keep the parallelism of the user.
    pub excluded: BTreeSet<VertexId>,
    /// The cost of the change, even if it is not carried out.
    pub cost: Option<Cost>,
    /// The remaining free resources, if this cycle takes some.
    pub capacity: Option<Capacity>,
    pub events: Vec<Event>,
    pub discarded: Option<Discarded>,
}

/// Runs a cycle of a running job whose autoscaler is on. If it ends with a question, run it again with the answer.
pub fn run(state: State, facts: &Facts<'_>) -> Cycle {
    let mut cycle = Cycle {
        state,
        outcome: Outcome::Balanced,
        evaluation: None,
        decisions: BTreeMap::new(),
        scalings: BTreeMap::new(),
        excluded: facts.settings.excluded_vertices.clone(),
        cost: None,
        capacity: None,
        events: Vec::new(),
        discarded: None,
    };
    cycle.outcome = match cycle.collect(facts) {
        Ok(unscaled) => cycle.execute(facts, &unscaled),
        Err(outcome) => outcome,
    };
    cycle
}

/// Returns the user's overrides combined with the decided ones. For an excluded vertex, the user's own override wins if
/// there is one.
pub fn overrides_in_force(
    users: &BTreeMap<String, String>,
    decided: &BTreeMap<VertexId, u32>,
    excluded: &BTreeSet<VertexId>,
) -> BTreeMap<String, String> {
    let mut overrides = users.clone();
    for (id, parallelism) in decided {
        if !(excluded.contains(id) && users.contains_key(id.as_str())) {
            overrides.insert(id.as_str().to_owned(), parallelism.to_string());
        }
    }
    overrides
}

impl Cycle {
    /// Adds a sample and evaluates; the error says why there is no decision yet.
    fn collect(&mut self, facts: &Facts<'_>) -> Result<BTreeMap<VertexId, Unscaled>, Outcome> {
        let Facts { now, settings, topology, running_since, .. } = *facts;
        let samples = std::mem::take(&mut self.state.samples);
        let (samples, discarded) = window::comparable(samples, now, running_since, topology);
        self.discarded = discarded;
        let (sample, unscaled) = match sample(facts.reading, topology, settings, &samples) {
            Ok(sample) => sample,
            Err(vertex) => {
                self.state.samples = samples;
                return Err(Outcome::NotRead(vertex));
            }
        };
        self.excluded.extend(unscaled.keys().cloned());
        let window = window::add(samples, sample, now, running_since, settings);
        self.state.samples = window.samples;
        let State { samples, scaling_history, reasons, restarts, .. } = &mut self.state;
        scaling_history::trim(scaling_history, now, settings);
        scaling_history::trim_reasons(reasons, scaling_history);
        scaling_history::trim_restarts(restarts, now, settings);
        scaling_history::note_restart(restarts, scaling_history, topology, running_since);
        if samples.len() < 2 {
            return Err(Outcome::TooFewSamples { have: samples.len() });
        }
        let restart_time = scaling_history::restart_time(restarts, settings);
        let mut evaluation =
            evaluate_with(samples, topology, settings, restart_time, |vertex, figures, before| {
                let Some(evaluator) = &settings.plugins.evaluator else { return Ok(Vec::new()) };
                let teller = facts.teller(before.is_backlog);
                teller.figures(evaluator, vertex, figures, &before.vertices).map_err(Outcome::from)
            })?;
        let is_full = now >= window.full_at;
        if !is_full {
            for figures in evaluation.vertices.values_mut() {
                figures.set(Metric::RecommendedParallelism, Evaluated::of(f64::NAN));
            }
        }
        self.evaluation = Some(evaluation);
        if is_full { Ok(unscaled) } else { Err(Outcome::WindowNotFull { until: window.full_at }) }
    }

    fn execute(&mut self, facts: &Facts<'_>, unscaled: &BTreeMap<VertexId, Unscaled>) -> Outcome {
        let Facts { now, settings, .. } = *facts;
        let Some(mut evaluation) = self.evaluation.take() else { return Outcome::Balanced };
        let outcome = match self.memory_pressure(&evaluation, settings) {
            Some(outcome) => outcome,
            None => self.decide(facts, unscaled, &mut evaluation),
        };
        self.evaluation = Some(evaluation);
        if outcome == Outcome::Scaled {
            self.commit(now, facts.topology);
        }
        outcome
    }

    fn memory_pressure(&mut self, evaluation: &Evaluation, settings: &Settings) -> Option<Outcome> {
        let gc = evaluation.job.current(Metric::GcPressure);
        if gc > settings.gc_pressure_max {
            self.events.push(Event::gc_pressure(gc, settings));
            return Some(Outcome::GcPressure(gc));
        }
        let heap = evaluation.job.average(Metric::HeapMaxUsageRatio);
        if heap > settings.heap_usage_max {
            self.events.push(Event::heap_usage(heap, settings));
            return Some(Outcome::HeapUsage(heap));
        }
        None
    }

    fn decide(
        &mut self,
        facts: &Facts<'_>,
        unscaled: &BTreeMap<VertexId, Unscaled>,
        evaluation: &mut Evaluation,
    ) -> Outcome {
        let Facts { now, zone, settings, topology, .. } = *facts;
        if let Err(halt) = self.decide_vertices(facts, unscaled, evaluation) {
            return halt.into();
        }
        let changes = || self.decisions.iter().filter(|(_, decision)| decision.is_change());
        if changes().next().is_none() {
            return Outcome::Balanced;
        }
        if !changes().any(|(_, decision)| decision.is_outside) {
            return Outcome::WithinBounds;
        }
        let mut scalings = BTreeMap::new();
        for (id, decision) in changes() {
            let Some(figures) = evaluation.vertices.get_mut(id) else { continue };
            let recommended = Evaluated::of(f64::from(decision.new));
            figures.set(Metric::RecommendedParallelism, recommended);
            let VertexDecision { current, new, .. } = *decision;
            scalings.insert(id.clone(), Scaling { current, new, figures: figures.clone() });
        }
        self.cost = self.cost(facts, &scalings, &self.state.config);
        if let Some(disabled) = disabled(settings, now, zone) {
            self.events.push(Event::report(&scalings, Some(&disabled), self.cost, settings));
            return Outcome::Disabled(disabled);
        }
        let scalings = match self.approved(facts, unscaled, evaluation, scalings) {
            Ok(scalings) => scalings,
            Err(outcome) => return outcome,
        };
        let (config, task_manager) = match self.tune(facts, evaluation, &scalings) {
            Ok(tuned) => tuned,
            Err(invalid) => return Outcome::Invalid(invalid),
        };
        self.cost = self.cost(facts, &scalings, &config);
        let changes: Changes = scalings
            .iter()
            .map(|(id, scaling)| (id.clone(), (scaling.current, scaling.new)))
            .collect();
        if let Some(exceeded) = quota::exceeded(&changes, topology, task_manager, settings) {
            self.events.push(Event::quota(exceeded, settings));
            return Outcome::Quota(exceeded);
        }
        let is_decided =
            |(id, to): (&VertexId, &Scaling)| self.state.overrides.get(id) == Some(&to.new);
        if scalings.iter().all(is_decided) {
            // Recording it again would push out what was learnt before.
            return Outcome::AlreadyDecided;
        }
        match self.place(facts, &config) {
            Ok(left) => self.capacity = left,
            Err(no_room) => {
                self.events.push(Event::no_room(&no_room, settings));
                return Outcome::NoRoom(no_room);
            }
        }
        self.events.push(Event::report(&scalings, None, self.cost, settings));
        self.scalings = scalings;
        self.state.config = config;
        Outcome::Scaled
    }

    /// Compares the requests of the pods before and after a change. `tuned` is the configuration that takes effect with
    /// it.
    fn cost(
        &self,
        facts: &Facts<'_>,
        scalings: &BTreeMap<VertexId, Scaling>,
        tuned: &ConfigChanges,
    ) -> Option<Cost> {
        let Facts { settings, topology, pods, .. } = *facts;
        let request = |slots: u64, tuned: &ConfigChanges| {
            let pods = pods?.with_memory(tuned.task_manager_memory());
            Some(pods.request(slots, settings.prices))
        };
        let new = |id: &VertexId, now: u32| scalings.get(id).map_or(now, |scaling| scaling.new);
        Some(Cost {
            before: request(slots(topology, |_, now| now), &self.state.config)?,
            after: request(slots(topology, new), tuned)?,
        })
    }

    /// Places the TaskManagers of a change on the cluster's nodes. Returns the remaining free resources if some are
    /// taken. `tuned` is the configuration that takes effect with it.
    fn place(&self, facts: &Facts<'_>, tuned: &ConfigChanges) -> Result<Option<Capacity>, NoRoom> {
        let (Some(capacity), Some(pods), Some(cost)) = (facts.capacity, facts.pods, self.cost)
        else {
            return Ok(None);
        };
        let task_managers = |count: u64, changes: &ConfigChanges| TaskManagers {
            count,
            each: pods.with_memory(changes.task_manager_memory()).task_manager,
        };
        let before = task_managers(cost.before.task_managers, &self.state.config);
        let after = task_managers(cost.after.task_managers, tuned);
        if !after.exceed(&before) {
            return Ok(None);
        }
        let capacity = capacity.as_ref().map_err(|reason| NoRoom::Unknown(reason.clone()))?;
        capacity.place(&before, &after).map(Some)
    }

    /// Tunes the configuration for this decision, and returns it with the resulting memory of a TaskManager.
    /// Recommendations are reported even if they are not carried out.
    fn tune(
        &mut self,
        facts: &Facts<'_>,
        evaluation: &Evaluation,
        scalings: &BTreeMap<VertexId, Scaling>,
    ) -> Result<(ConfigChanges, TaskManager), InvalidValue> {
        let Facts { settings, config, topology, mut task_manager, .. } = *facts;
        let untuned = ConfigChanges::default();
        let Some(total) = task_manager.memory else { return Ok((untuned, task_manager)) };
        let tuning = Tuning { config, settings, topology, evaluation, scalings, total };
        let Some(changes) = tune(&tuning)? else { return Ok((untuned, task_manager)) };
        self.events.push(Event::tuning(&changes, settings));
        if !settings.memory_tuning.is_enabled {
            return Ok((untuned, task_manager));
        }
        task_manager.memory = changes.task_manager_memory().or(Some(total));
        Ok((changes, task_manager))
    }

    fn decide_vertices(
        &mut self,
        facts: &Facts<'_>,
        unscaled: &BTreeMap<VertexId, Unscaled>,
        evaluation: &mut Evaluation,
    ) -> Result<(), Halt> {
        let Facts { settings, topology, .. } = *facts;
        let State { scaling_history, restarts, delayed: noted, .. } = &mut self.state;
        // If the cycle ends at a vertex without a decision, the delays noted for those before it are not kept.
        let mut delayed = noted.clone();
        let teller = facts.teller(evaluation.is_backlog);
        let restart_time = scaling_history::restart_time(restarts, settings);
        let nothing = VertexHistory::new();
        for (id, vertex) in topology.vertices() {
            let Some(figures) = evaluation.vertices.get_mut(id) else { continue };
            let input = VertexInput {
                id,
                vertex,
                figures,
                history: scaling_history.get(id).unwrap_or(&nothing),
                unscaled: unscaled.get(id).copied(),
                restart_time,
                settings,
                set: evaluation.set.get(id).map_or(&[], Vec::as_slice),
                teller,
            };
            let decision = vertex_scaler::decide(&input, &mut delayed)?;
            if let Some(expected) = decision.expected_rate {
                figures.set(Metric::ExpectedProcessingRate, Evaluated::of(expected));
            }
            let limited = decision.limited.map(|of| Event::limited(id, of, settings));
            let ineffective = decision.ineffective.map(|of| Event::ineffective(id, of, settings));
            let room = VERTEX_EVENTS_MAX.saturating_sub(self.events.len());
            self.events.extend(limited.into_iter().chain(ineffective).take(room));
            self.decisions.insert(id.clone(), decision);
        }
        *noted = delayed;
        Ok(())
    }

    fn commit(&mut self, now: Timestamp, topology: &Topology) {
        let state = &mut self.state;
        for (id, scaling) in &self.scalings {
            state.scaling_history.entry(id.clone()).or_default().insert(now, scaling.clone());
            let decider = self.decisions.get(id).and_then(VertexDecision::decider);
            if let Some(Step { rule, number }) = decider {
                let reason = Reason { rule: rule.to_string(), number };
                state.reasons.entry(id.clone()).or_default().insert(now, reason);
            }
        }
        state.restarts.insert(now, None);
        let parallelism = |id: &VertexId, current| self.scalings.get(id).map_or(current, |s| s.new);
        state.overrides = topology
            .vertices()
            .iter()
            .map(|(id, vertex)| (id.clone(), parallelism(id, vertex.parallelism)))
            .collect();
        state.delayed.cancel_all();
    }
}

/// Returns why nothing is scaled at this time, whatever is decided.
fn disabled(settings: &Settings, now: Timestamp, zone: &TimeZone) -> Option<Disabled> {
    if !settings.is_scaling_enabled {
        return Some(Disabled::Scaling);
    }
    if let Some(why) = &settings.fixed_by {
        return Some(Disabled::Fixed(why.clone()));
    }
    if let Some(until) = settings.advised_until.filter(|until| now < *until) {
        return Some(Disabled::Advice(until));
    }
    let excluding = settings.excluded_periods.iter().find(|of| of.contains(now, zone));
    excluding.map(|period| Disabled::Period(period.to_string()))
}

#[cfg(test)]
mod tests;
