//! Computes the parallelism of one vertex, as `JobVertexScaler` of the Java operator does, and records each rule that
//! was applied with its result.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::align::{self, align};
use super::delayed::{Answer, Delayed, Recommended};
use super::evaluate::capacity;
use super::feedback::{Ineffective, ineffective, scaling_coefficient};
use super::metric::{Figures, Metric};
use super::plugin::{Halt, Teller};
use super::rate::Rate;
use super::sample::Unscaled;
use super::scaling_history::VertexHistory;
use super::settings::Settings;
use super::topology::{Vertex, VertexId};

/// The rules of a decision about a vertex, in the order in which they are applied.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Rule {
    /// An evaluator of the installation sets a figure.
    Evaluator(Arc<str>, Metric),
    /// `vertex.exclude.ids` names it.
    Excluded,
    Unscaled(Unscaled),
    /// Its true processing rate is unknown.
    NoProcessingRate,
    /// The rate that it must reach is unknown.
    NoTargetRate,
    /// Both rates are known, but they have no ratio.
    NoFactor,
    /// The rate that it must be able to process.
    Capacity,
    /// The rate that it can process now.
    ProcessingRate,
    /// How well it scales.
    ScalingCoefficient,
    /// The factor by which its parallelism changes.
    Factor,
    ScaleDownMaxFactor,
    ScaleUpMaxFactor,
    /// The resulting parallelism.
    Computed,
    MinParallelism,
    MaxParallelism,
    /// The job was started with this many key groups.
    JobMaxParallelism,
    Alignment,
    /// The last scale-up gained too little for another one.
    Ineffective,
    /// The lower parallelism must be enough for longer.
    ScaleDownInterval,
    /// The highest parallelism recommended in that time.
    ScaleDownMaximum,
    /// An alignment mode of the installation.
    AlignmentMode(Arc<str>),
    /// An executor of the installation decided otherwise.
    Executor(Arc<str>),
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Evaluator(name, metric) => return write!(f, "{metric} by evaluator `{name}`"),
            Self::AlignmentMode(name) => return write!(f, "aligned by alignment mode `{name}`"),
            Self::Executor(name) => return write!(f, "decided by executor `{name}`"),
            Self::Excluded => "excluded by job.autoscaler.vertex.exclude.ids",
            Self::Unscaled(Unscaled::Finished) => "it has finished",
            Self::Unscaled(Unscaled::NoBusyTime) => "its busy time is unknown",
            Self::NoProcessingRate => "its true processing rate is unknown",
            Self::NoTargetRate => "its target rate is unknown",
            Self::NoFactor => "its rates have no ratio",
            Self::Capacity => "required capacity",
            Self::ProcessingRate => "true processing rate",
            Self::ScalingCoefficient => "observed scaling coefficient",
            Self::Factor => "scale factor",
            Self::ScaleDownMaxFactor => "limited by job.autoscaler.scale-down.max-factor",
            Self::ScaleUpMaxFactor => "limited by job.autoscaler.scale-up.max-factor",
            Self::Computed => "computed parallelism",
            Self::MinParallelism => "limited by job.autoscaler.vertex.min-parallelism",
            Self::MaxParallelism => "limited by job.autoscaler.vertex.max-parallelism",
            Self::JobMaxParallelism => "limited by the vertex's max parallelism",
            Self::Alignment => "aligned to key groups or partitions",
            Self::Ineffective => "the last scale-up was not effective",
            Self::ScaleDownInterval => "waits for job.autoscaler.scale-down.interval",
            Self::ScaleDownMaximum => "highest recommendation of the scale-down interval",
        })
    }
}

/// A rule that was applied, with its result: a rate, a factor or a parallelism.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub rule: Rule,
    pub number: f64,
}

/// A deprecated alignment that decided otherwise than was computed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limited {
    pub expected: u32,
    pub actual: u32,
    pub parts: u32,
    pub upper: u32,
    pub lower: u32,
}

/// The decision about one vertex.
#[derive(Clone, Debug, PartialEq)]
pub struct VertexDecision {
    pub current: u32,
    /// The current one if nothing changes.
    pub new: u32,
    /// Whether its rate is far enough off to scale the job.
    pub is_outside: bool,
    /// The expected processing rate after the change.
    pub expected_rate: Option<f64>,
    /// In the order of the rules; the last one decided.
    pub steps: Vec<Step>,
    pub ineffective: Option<Ineffective>,
    pub limited: Option<Limited>,
    /// When a lower parallelism can take effect.
    pub waits_until: Option<Timestamp>,
}

impl VertexDecision {
    pub fn is_change(&self) -> bool {
        self.new != self.current
    }

    /// Returns the rule that decided, and its result.
    pub fn decider(&self) -> Option<Step> {
        self.steps.last().cloned()
    }

    /// Sets the parallelism that an executor gives the vertex.
    pub fn change(&mut self, by: &Arc<str>, new: u32) {
        if let Some(rate) = &mut self.expected_rate {
            *rate = *rate / f64::from(self.new) * f64::from(new);
        }
        self.new = new;
        self.note(Rule::Executor(Arc::clone(by)), f64::from(new));
    }

    fn unchanged(current: u32) -> Self {
        Self {
            current,
            new: current,
            is_outside: false,
            expected_rate: None,
            steps: Vec::new(),
            ineffective: None,
            limited: None,
            waits_until: None,
        }
    }

    fn note(&mut self, rule: Rule, number: f64) {
        self.steps.push(Step { rule, number });
    }

    /// Records a rule that keeps the vertex as it is.
    fn keep(mut self, rule: Rule) -> Self {
        self.note(rule, f64::from(self.current));
        self
    }
}

/// The input of a decision about one vertex.
#[derive(Clone, Copy, Debug)]
pub struct VertexInput<'a> {
    pub id: &'a VertexId,
    pub vertex: &'a Vertex,
    pub figures: &'a Figures,
    pub history: &'a VertexHistory,
    /// Why it is not scaled now.
    pub unscaled: Option<Unscaled>,
    pub restart_time: Duration,
    pub settings: &'a Settings,
    /// Figures that an evaluator set.
    pub set: &'a [(Metric, f64)],
    pub teller: Teller<'a>,
}

/// Decides the parallelism of a vertex.
///
/// # Errors
/// If an alignment mode must be asked first, or gives no answer.
pub fn decide(input: &VertexInput<'_>, delayed: &mut Delayed) -> Result<VertexDecision, Halt> {
    let VertexInput { id, vertex, figures, settings, .. } = *input;
    let current = vertex.parallelism;
    let mut decision = VertexDecision::unchanged(current);
    if let Some(evaluator) = &settings.plugins.evaluator {
        for (metric, number) in input.set {
            decision.note(Rule::Evaluator(Arc::clone(&evaluator.id.name), *metric), *number);
        }
    }
    if settings.excluded_vertices.contains(id) {
        return Ok(decision.keep(Rule::Excluded));
    }
    if let Some(unscaled) = input.unscaled {
        return Ok(decision.keep(Rule::Unscaled(unscaled)));
    }
    let Some(rate) = Rate::new(figures.average(Metric::TrueProcessingRate)) else {
        return Ok(decision.keep(Rule::NoProcessingRate));
    };
    let needed = capacity(figures, settings.utilization_target, settings, Some(input.restart_time));
    let Some(needed) = needed else { return Ok(decision.keep(Rule::NoTargetRate)) };
    decision.note(Rule::Capacity, needed.get());
    decision.note(Rule::ProcessingRate, rate.get());
    let Some(factor) = input.factor(needed, rate, &mut decision) else {
        return Ok(decision.keep(Rule::NoFactor));
    };
    let target = input.within_limits(factor, &mut decision);
    let new = if target == current { current } else { input.aligned(target, &mut decision)? };
    if new == current {
        delayed.cancel(id);
        return Ok(decision);
    }
    decision.expected_rate = Some(rate.get() / f64::from(current) * f64::from(new));
    let up = figures.current(Metric::ScaleUpRateThreshold);
    let down = figures.current(Metric::ScaleDownRateThreshold);
    let is_outside = rate.get() < up || rate.get() > down;
    if new > current {
        delayed.cancel(id);
        decision.ineffective = ineffective(input.history, current, rate.get(), settings);
        if decision.ineffective.is_some() && settings.is_ineffective_blocked {
            return Ok(decision.keep(Rule::Ineffective));
        }
        decision.new = new;
        decision.is_outside = is_outside;
        return Ok(decision);
    }
    let recommended = Recommended { at: input.teller.now, parallelism: new, is_outside };
    Ok(input.scale_down(recommended, delayed, decision))
}

/// Returns the limits of the options, widened so that they alone never change the vertex.
pub(super) fn limits(vertex: &Vertex, settings: &Settings) -> (u32, u32) {
    let Settings { min_parallelism, max_parallelism, .. } = *settings;
    let current = vertex.parallelism;
    (min_parallelism.min(current).max(1), max_parallelism.max(current))
}

impl VertexInput<'_> {
    /// Returns the factor by which the parallelism changes; `None` for two rates without a ratio.
    fn factor(&self, needed: Rate, rate: Rate, decision: &mut VertexDecision) -> Option<Rate> {
        let mut factor = needed.get() / rate.get();
        if let Some((min, observations)) = self.settings.observed_scalability {
            let coefficient = scaling_coefficient(self.history, min, observations);
            decision.note(Rule::ScalingCoefficient, coefficient);
            factor /= coefficient;
        }
        let factor = Rate::new(factor)?.get();
        decision.note(Rule::Factor, factor);
        let min = 1.0 - self.settings.scale_down_max_factor;
        let max = 1.0 + self.settings.scale_up_max_factor;
        if factor < min {
            decision.note(Rule::ScaleDownMaxFactor, min);
            return Rate::new(min);
        }
        if factor > max {
            decision.note(Rule::ScaleUpMaxFactor, max);
            return Rate::new(max);
        }
        Rate::new(factor)
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is not negative, and what is too large is at the limit"
    )]
    fn within_limits(&self, factor: Rate, decision: &mut VertexDecision) -> u32 {
        let current = self.vertex.parallelism;
        let computed = (factor.get() * f64::from(current)).ceil().min(f64::from(i32::MAX)) as u32;
        decision.note(Rule::Computed, f64::from(computed));
        let (lower, upper) = limits(self.vertex, self.settings);
        let max = self.vertex.max_parallelism;
        let (target, rule) = if computed > upper.min(max) {
            let rule = if max < upper { Rule::JobMaxParallelism } else { Rule::MaxParallelism };
            (upper.min(max), rule)
        } else if computed < lower {
            (lower, Rule::MinParallelism)
        } else {
            return computed;
        };
        decision.note(rule, f64::from(target));
        target
    }

    fn aligned(&self, target: u32, decision: &mut VertexDecision) -> Result<u32, Halt> {
        let (lower, upper) = limits(self.vertex, self.settings);
        let max_parallelism = self.vertex.max_parallelism;
        let parts = self.vertex.partitions.unwrap_or(max_parallelism);
        let current = self.vertex.parallelism;
        let to_align = align::Target { current, target, parts, max_parallelism, lower, upper };
        if let Some(mode) = &self.settings.plugins.alignment {
            let vertex = (self.id, self.vertex);
            let aligned = self.teller.alignment(mode, vertex, self.figures, &to_align)?;
            if let Some(aligned) = aligned.filter(|aligned| *aligned != target) {
                let rule = Rule::AlignmentMode(Arc::clone(&mode.id.name));
                decision.note(rule, f64::from(aligned));
            }
            return Ok(aligned.unwrap_or(target));
        }
        if !self.vertex.is_partitioned() {
            return Ok(target);
        }
        let aligned = align(&to_align, self.settings.alignment);
        if aligned.parallelism != target {
            decision.note(Rule::Alignment, f64::from(aligned.parallelism));
        }
        if aligned.is_limited {
            decision.limited = Some(Limited {
                expected: target,
                actual: aligned.parallelism,
                parts,
                upper: upper.min(max_parallelism),
                lower,
            });
        }
        Ok(aligned.parallelism)
    }

    fn scale_down(
        &self,
        recommended: Recommended,
        delayed: &mut Delayed,
        mut decision: VertexDecision,
    ) -> VertexDecision {
        let interval = self.settings.scale_down_interval;
        let chosen = if interval.is_zero() {
            recommended
        } else {
            match delayed.recommend(self.id, recommended, interval) {
                Answer::Until(time) => {
                    decision.waits_until = Some(time);
                    return decision.keep(Rule::ScaleDownInterval);
                }
                Answer::Now(chosen) => chosen,
            }
        };
        if chosen.parallelism >= decision.current {
            // It was recommended when the vertex had a higher parallelism, which is no reason to raise it now.
            return decision.keep(Rule::ScaleDownMaximum);
        }
        if chosen != recommended {
            decision.note(Rule::ScaleDownMaximum, f64::from(chosen.parallelism));
        }
        decision.new = chosen.parallelism;
        decision.is_outside = chosen.is_outside;
        decision
    }
}

#[cfg(test)]
mod tests;
