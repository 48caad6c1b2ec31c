//! Formats a plan for people, and returns its warnings. Pure.

use jiff::Timestamp;
use serde_json::Value;

use super::facts::Facts;
use super::{Plan, class_text, drops_state};
use crate::cli::deployment::Deployment;
use crate::cli::printer::{BOLD, DIM, GREEN, RED, YELLOW, styled};
use crate::cli::table;
use clients::flink::checkpoints::Checkpoints;
use lifecycle::rehearsal::Outcome;
use state::restore_point::RestorePoint;

/// Maximum number of characters of a value shown.
const VALUE_WIDTH: usize = 120;

/// Returns the warnings to show before the change is made.
pub(super) fn warnings(
    present: Option<&Deployment>,
    wanted: &Value,
    outcome: &Outcome,
    facts: &Facts,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let Some(present) = present else {
        let job = wanted.pointer("/spec/template/spec/job").or_else(|| wanted.pointer("/spec/job"));
        let named = job.and_then(|job| job.get("initialSavepointPath"));
        if named.is_none_or(Value::is_null) && job.is_some_and(Value::is_object) {
            warnings.push("the job starts without any state: it is new".to_owned());
        }
        return warnings;
    };
    if !present.is_taken_up() && present.was_deployed() {
        warnings.push(format!(
            "the operator has not reconciled generation {} yet: its changes are part of this plan",
            present.generation()
        ));
    }
    if outcome.stops_job && outcome.restore == Some(RestorePoint::Empty) {
        warnings.push(
            "the state of the job is lost: spec.job.upgradeMode is stateless, or it has none"
                .to_owned(),
        );
    }
    if present.is_blue_green() && outcome.restore == Some(RestorePoint::Empty) {
        warnings.push("the other colour starts without the state of the job".to_owned());
    }
    if let Some(Checkpoints::Statistics(statistics)) = &facts.checkpoints
        && outcome.stops_job
        && statistics.counts.failed > 0
        && statistics.counts.completed == 0
    {
        warnings.push(format!(
            "all {} checkpoints of the running job failed: a savepoint may fail too; see: kubectl \
             flink why {}",
            statistics.counts.failed,
            present.shown_name()
        ));
    }
    let state = present.job_state().unwrap_or_default();
    if outcome.stops_job && matches!(state, "RESTARTING" | "FAILING") {
        warnings.push(format!("the job is {state}: it may not be able to save its state"));
    }
    warnings
}

/// Formats the whole plan.
pub(super) fn plan(plan: &Plan, now: Timestamp) -> String {
    let mut lines = vec![format!(
        "{} {} {}",
        styled(BOLD, format_args!("{} {}", plan.kind, plan.name)),
        styled(DIM, format_args!("(namespace {})", plan.namespace)),
        if plan.is_empty() { "needs no changes".to_owned() } else { headline(plan) },
    )];
    if !plan.changes.is_empty() {
        lines.push(String::new());
        lines.push("Changes:".to_owned());
        for field in &plan.changes {
            lines.push(format!(
                "  {} {}: {} → {}",
                styled(DIM, format_args!("{:<8}", field.class.to_lowercase())),
                field.path,
                styled(RED, cut(&field.from)),
                styled(GREEN, cut(&field.to))
            ));
        }
    }
    if !plan.passes.is_empty() {
        lines.push(String::new());
        lines.push("The operator would:".to_owned());
        let mut number = 0;
        for pass in &plan.passes {
            lines.push(styled(DIM, format_args!("  {}", pass.because)));
            for step in &pass.steps {
                number += 1;
                lines.push(format!("    {number}. {}", step.text));
            }
        }
    }
    if let Some(halt) = &plan.halt {
        lines.push(format!("  {} {halt}", styled(YELLOW, "and then waits:")));
    }
    let expected = expectation(plan, now);
    if !expected.is_empty() {
        lines.push(String::new());
        lines.extend(expected);
    }
    let warnings = plan.warnings.iter();
    lines.extend(warnings.map(|warning| format!("{} {warning}", styled(YELLOW, "warning:"))));
    lines.join("\n")
}

fn headline(plan: &Plan) -> String {
    let style = if drops_state(plan.class) { RED } else { YELLOW };
    format!("{}: {}", styled(style, plan.class), class_text(plan))
}

/// Returns a line each for restore point, replay and downtime.
fn expectation(plan: &Plan, now: Timestamp) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(restore) = &plan.restore {
        let path = restore.path.as_deref().map_or(String::new(), |path| format!(" {path}"));
        let age = match restore.age_seconds {
            _ if restore.is_planned && plan.switches() => {
                ", taken while the job keeps running".to_owned()
            }
            _ if restore.is_planned => ", taken when the job stops".to_owned(),
            Some(seconds) => format!(", {} old", table::age(seconds)),
            None if restore.kind == "none" => ": the job starts empty".to_owned(),
            None => ", of unknown age".to_owned(),
        };
        lines.push(format!("Restore point: {}{path}{age}", restore.kind));
    }
    if plan.switches() && plan.restore.as_ref().is_some_and(|restore| restore.is_planned) {
        lines.push(
            "Read again:    everything after the savepoint, until the old colour stops".to_owned(),
        );
        lines.push("Downtime:      none".to_owned());
    } else if plan.stops_job && plan.restore.as_ref().is_some_and(|restore| restore.is_planned) {
        lines.push("Read again:    nothing, the savepoint covers everything".to_owned());
    } else if let Some(replay) = &plan.replay {
        let records = replay
            .records
            .map_or("an unknown number of records".to_owned(), |it| format!("about {it} records"));
        lines.push(format!(
            "Read again:    {records}, from the last {}",
            table::age(replay.seconds)
        ));
    }
    if plan.stops_job {
        lines.push(match &plan.downtime {
            Some(downtime) => format!(
                "Downtime:      about {}, as {} ago",
                table::age(downtime.seconds),
                table::age(now.as_second() - downtime.measured_at.as_second())
            ),
            None => "Downtime:      unknown, no earlier upgrade is on record".to_owned(),
        });
    }
    lines
}

fn cut(text: &str) -> String {
    let line = text.replace('\n', " ");
    if line.chars().count() <= VALUE_WIDTH {
        return line;
    }
    line.chars().take(VALUE_WIDTH - 1).chain(['…']).collect()
}
