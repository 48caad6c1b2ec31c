//! Output of a trial: tables of decisions, what prevented others, and the same as JSON.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;
use serde_with::skip_serializing_none;

use crate::cli::table::{self, NONE};
use autoscaler::cost::Cost;
use autoscaler::cycle::Outcome;
use autoscaler::topology::VertexId;
use autoscaler::trace::{Decision, Moment, Trace, reversals, subtask_hours};
use autoscaler::vertex_scaler::{Rule, Step, VertexDecision};

/// Display names of vertices, by id.
pub(super) type Names = BTreeMap<VertexId, String>;

/// Maximum length of a name shown; Flink chains operators into names of hundreds of characters.
const NAME_LENGTH_MAX: usize = 40;

/// A trial as JSON; a stable contract for programs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Trial<'a> {
    pub(super) job: &'a str,
    /// Options that were tried.
    pub(super) set: BTreeMap<&'a str, &'a str>,
    pub(super) from: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
    decisions: Vec<ShownDecision<'a>>,
    /// Changes of parallelism observed in the job itself.
    changes: Vec<ShownChange<'a>>,
    /// Number of cycles by outcome.
    outcomes: BTreeMap<&'static str, usize>,
    subtask_hours: Hours,
    /// Number of times a vertex was scaled in one direction and then the other.
    reversals: usize,
    moments: Vec<ShownMoment<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Hours {
    ran: f64,
    decided: f64,
}

#[skip_serializing_none]
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownDecision<'a> {
    at: Timestamp,
    /// Why the decision is not carried out, if so.
    prevented: Option<String>,
    vertices: Vec<ShownVertex<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    configuration: &'a BTreeMap<String, String>,
    cost: Option<Cost>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownVertex<'a> {
    id: &'a VertexId,
    name: &'a str,
    from: u32,
    to: u32,
    decided_by: Option<String>,
    steps: Vec<ShownStep>,
    expected_rate: Option<f64>,
}

#[derive(Serialize)]
struct ShownStep {
    rule: String,
    number: Option<f64>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownChange<'a> {
    at: Timestamp,
    id: &'a VertexId,
    name: &'a str,
    from: u32,
    to: u32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownMoment<'a> {
    at: Timestamp,
    outcome: String,
    lag: Option<f64>,
    coming_in: Option<f64>,
    processed: Option<f64>,
    parallelism: &'a BTreeMap<VertexId, u32>,
    decided: &'a BTreeMap<VertexId, u32>,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        job: &'a str,
        set: &'a [(String, String)],
        trace: &'a Trace,
        names: &'a Names,
    ) -> Self {
        let (ran, decided) = subtask_hours(trace);
        Self {
            job,
            set: set.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
            from: trace.moments.first().map(|moment| moment.at),
            until: trace.moments.last().map(|moment| moment.at),
            decisions: trace.decisions.iter().map(|one| shown_decision(one, names)).collect(),
            changes: trace
                .changes
                .iter()
                .map(|change| ShownChange {
                    at: change.at,
                    id: &change.vertex,
                    name: name(&change.vertex, names),
                    from: change.from,
                    to: change.to,
                })
                .collect(),
            outcomes: outcomes(trace),
            subtask_hours: Hours { ran, decided },
            reversals: reversals(trace),
            moments: trace.moments.iter().map(shown_moment).collect(),
        }
    }
}

fn shown_decision<'a>(decision: &'a Decision, names: &'a Names) -> ShownDecision<'a> {
    let vertices = decision.changes.iter().map(|(id, change)| ShownVertex {
        id,
        name: name(id, names),
        from: change.current,
        to: change.new,
        decided_by: change.decider().map(|step| step.rule.to_string()),
        steps: change
            .steps
            .iter()
            .map(|Step { rule, number }| ShownStep {
                rule: rule.to_string(),
                number: number.is_finite().then_some(*number),
            })
            .collect(),
        expected_rate: change.expected_rate.filter(|rate| rate.is_finite()),
    });
    ShownDecision {
        at: decision.at,
        prevented: prevented(decision),
        vertices: vertices.collect(),
        configuration: &decision.config,
        cost: decision.cost,
    }
}

fn shown_moment(moment: &Moment) -> ShownMoment<'_> {
    ShownMoment {
        at: moment.at,
        outcome: match &moment.outcome {
            Ok(outcome) => outcome.to_string(),
            Err(why) => why.clone(),
        },
        lag: moment.lag,
        coming_in: moment.coming_in,
        processed: moment.processed,
        parallelism: &moment.parallelism,
        decided: &moment.decided,
    }
}

fn prevented(decision: &Decision) -> Option<String> {
    (decision.outcome != Outcome::Scaled).then(|| decision.outcome.to_string())
}

/// Returns the display name of a vertex, or its id.
pub(super) fn name<'a>(id: &'a VertexId, names: &'a Names) -> &'a str {
    names.get(id).map_or(id.as_str(), String::as_str)
}

/// Returns the result of [`name`], shortened to fit into a table.
pub(super) fn short_name(id: &VertexId, names: &Names) -> String {
    let name = name(id, names);
    if name.chars().count() <= NAME_LENGTH_MAX {
        return name.to_owned();
    }
    let start: String = name.chars().take(NAME_LENGTH_MAX - 1).collect();
    format!("{start}…")
}

/// Formats a number for people.
pub(super) fn number(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() { NONE.to_owned() } else { "unlimited".to_owned() };
    }
    if number.abs() >= 1000.0 { format!("{number:.0}") } else { format!("{number:.2}") }
}

/// Formats decisions, one line for each vertex that changes.
pub(super) fn decisions(trace: &Trace, names: &Names) -> String {
    let mut rows = Vec::new();
    for decision in &trace.decisions {
        for (id, change) in &decision.changes {
            let of = |rule| step(change, &rule).map_or_else(|| NONE.to_owned(), number);
            let by = change.decider().map_or_else(
                || NONE.to_owned(),
                |Step { rule, number: of }| format!("{rule}: {of}"),
            );
            rows.push(vec![
                time(decision.at),
                short_name(id, names),
                format!("{} -> {}", change.current, change.new),
                of(Rule::Capacity),
                of(Rule::ProcessingRate),
                of(Rule::Factor),
                by,
                prevented(decision).unwrap_or_else(|| NONE.to_owned()),
            ]);
        }
    }
    let headers =
        ["TIME", "VERTEX", "CHANGE", "NEEDED", "TRUE RATE", "FACTOR", "DECIDED BY", "PREVENTED BY"];
    table::render(&headers, rows)
}

fn step(change: &VertexDecision, rule: &Rule) -> Option<f64> {
    change.steps.iter().find(|step| step.rule == *rule).map(|step| step.number)
}

/// Formats every rule that was applied, and its number.
pub(super) fn steps(trace: &Trace, names: &Names) -> String {
    let mut rows = Vec::new();
    for decision in &trace.decisions {
        for (id, change) in &decision.changes {
            for Step { rule, number: of } in &change.steps {
                let vertex = short_name(id, names);
                rows.push(vec![time(decision.at), vertex, rule.to_string(), number(*of)]);
            }
        }
    }
    table::render(&["TIME", "VERTEX", "RULE", "NUMBER"], rows)
}

/// Tabulates the cost of each decision; `None` if no cost is known.
pub(super) fn costs(trace: &Trace) -> Option<String> {
    let rows: Vec<Vec<String>> = trace
        .decisions
        .iter()
        .filter_map(|decision| {
            let columns = decision.cost?.columns();
            let shown = |text: String| if text.is_empty() { NONE.to_owned() } else { text };
            Some(std::iter::once(time(decision.at)).chain(columns.map(shown)).collect())
        })
        .collect();
    let headers = ["TIME", "TASKMANAGERS", "CPU", "GIB", "PER HOUR"];
    (!rows.is_empty()).then(|| table::render(&headers, rows))
}

/// Formats a time with a precision of seconds.
pub(super) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Counts cycles by outcome.
pub(super) fn outcomes(trace: &Trace) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for moment in &trace.moments {
        let kind = match &moment.outcome {
            Err(_) => "not measured",
            Ok(outcome) => kind(outcome),
        };
        *counts.entry(kind).or_default() += 1;
    }
    counts
}

fn kind(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::NotRead(_) | Outcome::Unmeasured(_) => "figures are missing",
        Outcome::TooFewSamples { .. } => "too few samples",
        Outcome::WindowNotFull { .. } => "window not full",
        Outcome::GcPressure(_) | Outcome::HeapUsage(_) => "memory pressure",
        Outcome::Balanced => "balanced",
        Outcome::WithinBounds => "within bounds",
        Outcome::Disabled(_) => "scaling disabled",
        Outcome::Invalid(_) => "invalid option",
        Outcome::Quota(_) => "quota reached",
        Outcome::NoRoom(_) => "no room on the nodes",
        Outcome::Asks(_) | Outcome::Unanswered(_) => "no answer of a rule",
        Outcome::Vetoed(..) => "refused by an executor",
        Outcome::AlreadyDecided => "decided before",
        Outcome::Scaled => "scaled",
    }
}

/// Formats [`outcomes`] in one line.
pub(super) fn outcomes_line(trace: &Trace) -> String {
    let parts: Vec<String> =
        outcomes(trace).iter().map(|(kind, count)| format!("{kind} {count}")).collect();
    format!("cycles: {}", parts.join(", "))
}

/// Compares the parallelism the job ran with to the decided one, vertex by vertex.
pub(super) fn comparison(trace: &Trace, names: &Names) -> String {
    let (Some(first), Some(last)) = (trace.moments.first(), trace.moments.last()) else {
        return String::new();
    };
    let began = trace.moments.iter().find(|moment| !moment.parallelism.is_empty()).unwrap_or(first);
    let rows = last.parallelism.iter().map(|(id, ran)| {
        let start = began.parallelism.get(id).copied().unwrap_or(*ran);
        let changes = trace.changes.iter().filter(|change| change.vertex == *id).count();
        let scaled = trace.decisions.iter().filter(|one| one.outcome == Outcome::Scaled);
        let decisions = scaled.filter(|one| one.changes.contains_key(id)).count();
        let decided = last.decided.get(id).unwrap_or(ran);
        vec![
            short_name(id, names),
            format!("{start} -> {ran}"),
            changes.to_string(),
            format!("{start} -> {decided}"),
            decisions.to_string(),
        ]
    });
    let headers = ["VERTEX", "RECORDED", "CHANGES", "DECIDED", "DECISIONS"];
    table::render(&headers, rows.collect())
}
