//! `autoscaler history --rescales`: the rescales of a job that Flink itself reports.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use crate::cli::args::{FlinkAccess, ObjectFormat};
use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::failure::Failure;
use crate::cli::job_manager;
use crate::cli::lookup;
use crate::cli::printer::Printer;
use crate::cli::table::{self, NONE};
use clients::flink::Deadlines;
use clients::flink::rescale::{RESCALE_HISTORY_SIZE, Rescale};

/// One rescale.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    id: String,
    started: Option<Timestamp>,
    cause: Option<String>,
    /// `COMPLETED`, `FAILED` or `IGNORED`; `None` while it is in progress.
    state: Option<String>,
    reason: Option<String>,
    duration_milliseconds: Option<i64>,
}

impl From<Rescale> for Line {
    fn from(rescale: Rescale) -> Self {
        let took = rescale.ended.zip(rescale.started);
        Self {
            id: rescale.rescale_uuid,
            started: rescale.started.and_then(|at| Timestamp::from_millisecond(at).ok()),
            cause: rescale.trigger_cause,
            state: rescale.terminal_state,
            reason: rescale.terminated_reason,
            duration_milliseconds: took.map(|(end, start)| end.saturating_sub(start)),
        }
    }
}

/// Asks the JobManager for the rescales and prints them, newest first.
pub(super) async fn print(
    connection: &Connection,
    resource: &Deployment,
    access: FlinkAccess,
    output: Option<ObjectFormat>,
    printer: &Printer,
) -> anyhow::Result<()> {
    let name = resource.shown_name();
    let job_id = resource.job_id().ok_or_else(|| {
        Failure::new(format!("`{name}` has no job yet"))
            .hint(format!("see: kubectl flink status {name}"))
    })?;
    let cluster = lookup::cluster_of(connection, resource).await?;
    let way = access.flink_access;
    let client = job_manager::client(connection, &cluster, way, Deadlines::default())?;
    let rescales = client.rescales(job_id).await.map_err(|error| {
        if error.is_no_endpoint() {
            let text =
                format!("the Flink version of `{name}` does not report rescales: 2.3 and later do");
            return anyhow::Error::from(Failure::new(text).hint(format!(
                "see what the autoscaler did: kubectl flink autoscaler history {name}"
            )));
        }
        error.into()
    })?;
    let Some(rescales) = rescales else {
        return Err(Failure::new(format!("the JobManager of `{name}` does not remember rescales"))
            .hint(format!(
                "only the adaptive scheduler rescales; to remember its last 20, which restarts the job: \
                 kubectl flink set config {name} {RESCALE_HISTORY_SIZE}=20"
            ))
            .into());
    };
    let lines: Vec<Line> = rescales.into_iter().map(Line::from).collect();
    match output {
        Some(ObjectFormat::Value(format)) => {
            printer.value(&json!({"name": name, "rescales": lines}), format)?;
        }
        Some(ObjectFormat::Name) => {
            for line in lines {
                printer.line(line.id)?;
            }
        }
        None | Some(ObjectFormat::Wide) => printer.line(render(&lines))?,
    }
    Ok(())
}

fn render(lines: &[Line]) -> String {
    let text = |text: Option<&str>| text.unwrap_or(NONE).to_owned();
    let rows = lines
        .iter()
        .map(|line| {
            vec![
                line.started.map_or_else(|| NONE.to_owned(), |at| at.to_string()),
                text(line.cause.as_deref()),
                line.state.clone().unwrap_or_else(|| "IN_PROGRESS".to_owned()),
                text(line.reason.as_deref()),
                line.duration_milliseconds
                    .map_or_else(|| NONE.to_owned(), |took| format!("{took}ms")),
            ]
        })
        .collect();
    table::render(&["TIME", "CAUSE", "STATE", "REASON", "TOOK"], rows)
}
