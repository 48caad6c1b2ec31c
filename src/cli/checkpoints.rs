//! `checkpoints`: the checkpoints that the JobManager remembers of a running job, and how they are configured.

use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::args::{FlinkAccess, Global, Output, OutputFormat};
use super::connection::Connection;
use super::deployment::Deployment;
use super::failure::Failure;
use super::printer::Printer;
use super::table::{self, NONE, bytes};
use super::{complete, job_manager, lookup};
use clients::flink::Deadlines;
use clients::flink::access::Access;
use clients::flink::checkpoints::{Checkpoint, CheckpointStatistics, Checkpoints};

/// Arguments of `checkpoints`.
#[derive(Args)]
#[command(after_help = "\
The JobManager remembers the last ten (web.checkpoints.history) since it started. The newest comes first.

Examples:
  kubectl flink checkpoints orders
  kubectl flink checkpoints orders -o wide      # with paths, and why one failed")]
pub struct CheckpointsArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    output: Output,
}

/// One checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    pub(super) id: Option<i64>,
    /// `checkpoint` or `savepoint`.
    pub(super) kind: &'static str,
    /// `IN_PROGRESS`, `COMPLETED` or `FAILED`.
    pub(super) status: String,
    pub(super) triggered: Option<Timestamp>,
    pub(super) duration_milliseconds: Option<i64>,
    pub(super) state_bytes: Option<i64>,
    pub(super) path: Option<String>,
    /// True if its files are gone.
    pub(super) is_discarded: bool,
    /// Why it failed; `None` unless it did.
    pub(super) error: Option<String>,
}

/// Queries the JobManager and prints the answer.
pub async fn run(args: CheckpointsArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let CheckpointsArgs { name, access, output: Output { output } } = args;
    let connection = global.connect().await?;
    let present = lookup::fetch(&connection, &name).await?;
    let name = present.shown_name();
    let statistics = remembered(&connection, &present, access.flink_access, None).await?;
    let lines = statistics.history.iter().map(line).collect::<Vec<_>>();
    match output {
        Some(OutputFormat::Value(format)) => {
            let counts = statistics.counts;
            let counts = json!({"completed": counts.completed, "failed": counts.failed,
                "inProgress": counts.in_progress, "restored": counts.restored, "total": counts.total});
            printer.value(&json!({"counts": counts, "checkpoints": lines}), format)?;
        }
        Some(OutputFormat::Name) => {
            for id in lines.iter().filter_map(|line| line.id) {
                printer.line(id)?;
            }
        }
        None | Some(OutputFormat::Wide) => {
            if lines.is_empty() {
                printer.note(format_args!("`{name}` has taken no checkpoint yet"));
            } else {
                let is_wide = output == Some(OutputFormat::Wide);
                printer.line(render(&lines, is_wide, Timestamp::now()))?;
            }
            printer.note(summary(&statistics));
        }
    }
    Ok(())
}

/// Returns what the JobManager remembers. With `patience`, sends a single request with that deadline.
pub(super) async fn remembered(
    connection: &Connection,
    present: &Deployment,
    access: Access,
    patience: Option<Duration>,
) -> anyhow::Result<CheckpointStatistics> {
    let name = present.shown_name();
    let job_id = present.job_id().filter(|_| !present.is_session()).ok_or_else(|| {
        Failure::new(format!("`{name}` has no job of its own to take checkpoints"))
            .hint(format!("see: kubectl flink status {name}"))
    })?;
    let cluster = lookup::cluster_of(connection, present).await?;
    let usual = Deadlines::default();
    let deadlines = Deadlines { request: patience.unwrap_or(usual.request), ..usual };
    let mut client = job_manager::client(connection, &cluster, access, deadlines)?;
    if patience.is_some() {
        client = client.without_retries();
    }
    let Checkpoints::Statistics(statistics) = client.checkpoints(job_id).await? else {
        return Err(Failure::new(format!("checkpoints of `{name}` are disabled"))
            .hint(format!(
                "enable them: kubectl flink set config {name} execution.checkpointing.interval=1min"
            ))
            .into());
    };
    Ok(*statistics)
}

pub(super) fn line(checkpoint: &Checkpoint) -> Line {
    Line {
        id: checkpoint.id,
        kind: if checkpoint.is_savepoint { "savepoint" } else { "checkpoint" },
        status: checkpoint.status.clone(),
        triggered: checkpoint.trigger_timestamp.and_then(|at| Timestamp::from_millisecond(at).ok()),
        duration_milliseconds: checkpoint.end_to_end_duration,
        state_bytes: checkpoint.state_size,
        path: checkpoint.external_path.clone(),
        is_discarded: checkpoint.discarded,
        error: checkpoint.failure_message.clone(),
    }
}

fn render(lines: &[Line], is_wide: bool, now: Timestamp) -> String {
    let row = |line: &Line| {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| NONE.to_owned());
        let age = |at: Timestamp| table::age(now.as_second() - at.as_second());
        let mut cells = vec![
            or_none(line.id.map(|id| id.to_string())),
            line.kind.to_owned(),
            line.status.clone(),
            or_none(line.triggered.map(age)),
            or_none(line.duration_milliseconds.map(|duration| format!("{duration} ms"))),
            or_none(line.state_bytes.map(bytes)),
        ];
        if is_wide {
            let path = line.path.as_ref().map(|path| {
                if line.is_discarded { format!("{path} (discarded)") } else { path.clone() }
            });
            cells.extend([or_none(path), line.error.clone().unwrap_or_default()]);
        }
        cells
    };
    let mut headers = vec!["ID", "KIND", "STATUS", "AGE", "DURATION", "SIZE"];
    if is_wide {
        headers.extend(["PATH", "ERROR"]);
    }
    table::render(&headers, lines.iter().map(row).collect())
}

pub(super) fn summary(statistics: &CheckpointStatistics) -> String {
    let counts = &statistics.counts;
    format!(
        "{} completed, {} failed and {} in progress since the JobManager started",
        counts.completed, counts.failed, counts.in_progress
    )
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn checkpoints_are_a_table() {
        let of = |value| line(&serde_json::from_value(value).unwrap());
        let lines = [
            of(json!({"id": 8, "status": "FAILED", "trigger_timestamp": 1_767_225_660_000_i64,
                "failure_message": "expired"})),
            of(
                json!({"id": 7, "status": "COMPLETED", "is_savepoint": true, "discarded": true, "state_size": 2048,
                "trigger_timestamp": 1_767_225_600_000_i64, "end_to_end_duration": 15, "external_path": "s3://b/sp"}),
            ),
        ];
        let now: Timestamp = "2026-01-01T00:02:00Z".parse().unwrap();
        expect![[r#"
            ID   KIND         STATUS      AGE   DURATION   SIZE
            8    checkpoint   FAILED      60s   <none>     <none>
            7    savepoint    COMPLETED   2m    15 ms      2.0 KiB"#]]
        .assert_eq(&render(&lines, false, now));
        let wide = render(&lines, true, now);
        assert!(wide.contains("s3://b/sp (discarded)") && wide.contains("expired"), "{wide}");
    }
}
