//! What our client reads from answers, as text.

use std::fmt::Write;

use clients::flink::Error;
use clients::flink::checkpoints::{Checkpoint, CheckpointStatus, Checkpoints, LastState};
use clients::flink::failures::FailureCause;
use clients::flink::jobs::{JobDetails, TaskCounts};
use clients::flink::rescale::ResourceRequirements;
use clients::flink::savepoints::SavepointStatus;

pub(super) fn error(error: &Error) -> String {
    let facts = [(error.is_transient(), "transient"), (error.is_job_not_found(), "no such job")];
    let facts = facts.iter().filter(|(is_so, _)| *is_so).map(|(_, fact)| format!(", {fact}"));
    format!(
        "{}{}, effect: {:?}\n{error}",
        error.reason(),
        facts.collect::<String>(),
        error.effect()
    )
}

/// Returns the innermost cause on a line of its own, with what the client concludes.
pub(super) fn cause(cause: &FailureCause) -> String {
    let not_found = if cause.is_job_not_found() { ", no such job" } else { "" };
    format!("{not_found}\n{}", cause.root())
}

pub(super) fn tasks(tasks: TaskCounts) -> String {
    let TaskCounts {
        total,
        created,
        scheduled,
        deploying,
        running,
        finished,
        canceling,
        canceled,
        failed,
        reconciling,
        initializing,
    } = tasks;
    let counts = [
        (created, "created"),
        (scheduled, "scheduled"),
        (deploying, "deploying"),
        (running, "running"),
        (finished, "finished"),
        (canceling, "canceling"),
        (canceled, "canceled"),
        (failed, "failed"),
        (reconciling, "reconciling"),
        (initializing, "initializing"),
    ];
    let counts = counts.iter().filter(|(count, _)| *count > 0);
    let counts: Vec<_> = counts.map(|(count, state)| format!("{count} {state}")).collect();
    format!("{total}: {}", counts.join(", "))
}

pub(super) fn statistics(answer: &Checkpoints) -> String {
    let Checkpoints::Statistics(statistics) = answer else { return "disabled".to_owned() };
    let counts = statistics.counts;
    let mut text = format!(
        "{} restored, {} in progress, {} completed",
        counts.restored, counts.in_progress, counts.completed
    );
    let latest = &statistics.latest;
    for (name, it) in [
        ("completed", &latest.completed),
        ("savepoint", &latest.savepoint),
        ("failed", &latest.failed),
    ] {
        if let Some(it) = it {
            write!(text, "\n{name}: {}", checkpoint(it)).unwrap();
        }
    }
    if let Some(restored) = &latest.restored {
        let path = restored.external_path.as_deref().unwrap_or("nowhere");
        let kind = if restored.is_savepoint { "savepoint" } else { "checkpoint" };
        write!(text, "\nrestored: {kind} {:?} at {path}", restored.id.unwrap()).unwrap();
    }
    let last = match statistics.last_state() {
        LastState::At(point) => format!("{} at {}", point.checkpoint_id, point.path),
        other => format!("{other:?}"),
    };
    let stopped_with = statistics.stopped_with().map_or("", |_| ", with which it was stopped");
    write!(text, "\nlast state: {last}{stopped_with}").unwrap();
    text
}

pub(super) fn checkpoint(checkpoint: &Checkpoint) -> String {
    let Checkpoint { id, status, is_savepoint, checkpoint_type, external_path, discarded, .. } =
        checkpoint;
    let mut text = format!("{} {status} {checkpoint_type}", id.unwrap());
    if let Some(path) = external_path {
        write!(text, " at {path}").unwrap();
    }
    for (is_so, fact) in [(*is_savepoint, "is a savepoint"), (*discarded, "discarded")] {
        if is_so {
            write!(text, ", {fact}").unwrap();
        }
    }
    text
}

pub(super) fn checkpoint_status(status: &CheckpointStatus) -> String {
    match status {
        CheckpointStatus::Failed(why) => format!("failed{}", cause(why)),
        other => format!("{other:?}"),
    }
}

pub(super) fn savepoint(status: &SavepointStatus) -> String {
    match status {
        SavepointStatus::Failed(why) => format!("failed{}", cause(why)),
        SavepointStatus::CompletedButStopFailed { location, cause: why } => {
            format!("completed at {location}, but the stop failed{}", cause(why))
        }
        SavepointStatus::Completed { location } => format!("completed at {location}"),
        SavepointStatus::InProgress => "in progress".to_owned(),
        SavepointStatus::TriggerLost => "lost".to_owned(),
    }
}

pub(super) fn has_lost_its_newest(answer: &Checkpoints) -> bool {
    let Checkpoints::Statistics(statistics) = answer else { return false };
    matches!(statistics.last_state(), LastState::Discarded { .. })
}

/// Returns the bounds of each vertex.
pub(super) fn requirements(all: &ResourceRequirements) -> String {
    let bounds = all.values().map(|one| one.parallelism);
    let bounds = bounds.map(|it| format!("{}..{}", it.lower_bound, it.upper_bound));
    bounds.collect::<Vec<_>>().join(", ")
}

/// Returns what a job did before and after it was last restored.
pub(super) fn times(details: &JobDetails, statistics: &Checkpoints) -> String {
    let Checkpoints::Statistics(statistics) = statistics else { panic!("{statistics:?}") };
    let restored = statistics.latest.restored.as_ref().and_then(|it| it.restore_timestamp);
    let Some(restored) = restored else { return "not restored".to_owned() };
    let when = |at: Option<i64>| if at < Some(restored) { "before" } else { "after" };
    let runs = details.timestamps.get("RUNNING").copied();
    format!("started {} it was restored, runs since {}", when(details.start_time), when(runs))
}
