//! `autoscaler history`: what was scaled, when, by which rule, and based on which figures.

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

use super::number::{self, Number};
use super::{rescales, stored};
use crate::cli::args::{FlinkAccess, Global, ObjectFormat, Output};
use crate::cli::complete;
use crate::cli::printer::Printer;
use crate::cli::table::{self, NONE};
use autoscaler::metric::Metric;
use autoscaler::state::Stored;

/// Arguments of `autoscaler history`.
#[derive(Args)]
#[command(after_help = "\
job.autoscaler.history.max.count and .max.age limit how many scalings of a vertex are kept.
web.adaptive-scheduler.rescale-history.size limits how many rescales the JobManager remembers, newest first.

Examples:
  # Past scalings, with the rates behind them
  kubectl flink autoscaler history orders

  # Whether and when Flink followed
  kubectl flink autoscaler history orders --rescales")]
pub(super) struct HistoryArgs {
    /// The FlinkDeployment, or sessionjob/NAME
    #[arg(add = complete::deployments())]
    name: String,
    /// Show the JobManager's last rescales instead: Flink 2.3 and later, adaptive scheduler
    #[arg(long)]
    rescales: bool,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    output: Output<ObjectFormat>,
}

/// One scaling of a vertex; rates are records per second.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::cli) struct Entry {
    pub(in crate::cli) at: Timestamp,
    pub(in crate::cli) vertex: String,
    pub(in crate::cli) from: u32,
    pub(in crate::cli) to: u32,
    pub(in crate::cli) true_processing_rate: Number,
    pub(in crate::cli) target_data_rate: Number,
    pub(in crate::cli) expected_processing_rate: Number,
    /// The rule that decided, and its result; `None` for scalings by the Java operator.
    pub(in crate::cli) rule: Option<String>,
    pub(in crate::cli) number: Option<Number>,
    /// Time until the job ran again, in seconds; `None` if unknown.
    pub(in crate::cli) restart_seconds: Option<f64>,
}

impl Entry {
    /// Returns the rule that decided, with its result.
    pub(in crate::cli) fn decided_by(&self) -> Option<String> {
        let (rule, number) = self.rule.as_ref().zip(self.number.as_ref())?;
        Some(format!("{rule}: {}", number::shown(number.0)))
    }
}

/// Reads the history and prints it, oldest first.
pub(super) async fn run(
    args: HistoryArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let HistoryArgs { name, rescales, access, output: Output { output } } = args;
    let connection = global.connect().await?;
    let job = stored::fetch(&connection, &name).await?;
    if rescales {
        return rescales::print(&connection, &job.resource, access, output, printer).await;
    }
    let entries = job.readable()?.map(entries).unwrap_or_default();
    match output {
        Some(ObjectFormat::Value(format)) => {
            let name = job.resource.shown_name();
            printer.value(&json!({"name": name, "scalings": entries}), format)?;
        }
        Some(ObjectFormat::Name) => printer.line(format_args!("configmap/{}", job.config_map))?,
        None | Some(ObjectFormat::Wide) if entries.is_empty() => {
            printer.note(format_args!("no scalings of `{name}` are stored"));
        }
        None | Some(ObjectFormat::Wide) => printer.line(render(&entries))?,
    }
    Ok(())
}

pub(in crate::cli) fn entries(stored: &Stored) -> Vec<Entry> {
    let state = &stored.state;
    let mut entries: Vec<Entry> = state
        .scaling_history
        .iter()
        .flat_map(|(id, history)| {
            let reasons = state.reasons.get(id);
            let reason = move |at| reasons.and_then(|of| of.get(at));
            history.iter().map(move |(at, scaling)| (id, *at, scaling, reason(at)))
        })
        .map(|(id, at, scaling, reason)| Entry {
            at,
            vertex: id.to_string(),
            from: scaling.current,
            to: scaling.new,
            true_processing_rate: Number(scaling.figures.average(Metric::TrueProcessingRate)),
            target_data_rate: Number(scaling.figures.average(Metric::TargetDataRate)),
            expected_processing_rate: Number(
                scaling.figures.current(Metric::ExpectedProcessingRate),
            ),
            rule: reason.map(|it| it.rule.clone()),
            number: reason.map(|it| Number(it.number)),
            restart_seconds: state.restarts.get(&at).copied().flatten().map(|of| of.as_secs_f64()),
        })
        .collect();
    entries.sort_by(|one, other| (one.at, &one.vertex).cmp(&(other.at, &other.vertex)));
    entries
}

fn render(entries: &[Entry]) -> String {
    let rows = entries
        .iter()
        .map(|entry| {
            vec![
                entry.at.to_string(),
                entry.vertex.clone(),
                format!("{} -> {}", entry.from, entry.to),
                number::shown(entry.true_processing_rate.0),
                number::shown(entry.target_data_rate.0),
                number::shown(entry.expected_processing_rate.0),
                entry
                    .restart_seconds
                    .map_or_else(|| NONE.to_owned(), |seconds| format!("{seconds:.0}s")),
                entry.decided_by().unwrap_or_else(|| NONE.to_owned()),
            ]
        })
        .collect();
    let headers = [
        "TIME",
        "VERTEX",
        "PARALLELISM",
        "TRUE RATE",
        "TARGET RATE",
        "EXPECTED RATE",
        "RESTART",
        "DECIDED BY",
    ];
    table::render(&headers, rows)
}
