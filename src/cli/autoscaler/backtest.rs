//! `autoscaler backtest`: records measurements of a job and replays them with other options.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::chart;
use super::recording::{self, RecordFlags};
use super::trial::{self, Trial};
use super::tried::{TrialFlags, read_file, settings};
use crate::cli::args::{DetailFormat, FlinkAccess, Global, Output};
use crate::cli::failure::Failure;
use crate::cli::printer::Printer;
use autoscaler::record::{self, FILE_BYTES_MAX, Record};
use autoscaler::replay::replay;
use autoscaler::trace::{Trace, reversals, subtask_hours};

const EXAMPLES: &str = "\
Examples:
  Record an hour of the job `orders`, with or without an autoscaler
    kubectl flink autoscaler backtest --record orders.jsonl --for 1h orders

  What would the autoscaler have done with the job's options?
    kubectl flink autoscaler backtest orders.jsonl

  And with other options?
    kubectl flink autoscaler backtest orders.jsonl --set utilization.target=0.6 --set metrics.window='5 min'";

/// Arguments of `autoscaler backtest`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct BacktestArgs {
    /// The file to replay; with --record, the FlinkDeployment, or sessionjob/NAME, to measure
    #[arg(value_name = "FILE|NAME")]
    target: String,
    /// Write the job's metrics to this file, which must not exist
    #[arg(long, value_name = "FILE", conflicts_with_all = ["set", "svg", "operator_config", "output"])]
    record: Option<PathBuf>,
    #[command(flatten)]
    recording: RecordFlags,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    access: FlinkAccess,
}

/// Records measurements or replays a recording.
pub(super) async fn run(
    args: BacktestArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let BacktestArgs { target, record, recording, trial, access } = args;
    match record {
        Some(file) => {
            recording::run(&file, &target, &recording, access.flink_access, global, printer).await
        }
        None => replay_file(Path::new(&target), &trial, printer),
    }
}

fn replay_file(file: &Path, trial: &TrialFlags, printer: &Printer) -> anyhow::Result<()> {
    let shown = file.display();
    let text = read_file(file, FILE_BYTES_MAX)?;
    let record = record::read(&text).map_err(|unreadable| {
        Failure::new(format!("`{shown}` cannot be replayed: {unreadable}"))
            .hint("record one: kubectl flink autoscaler backtest --record FILE NAME")
    })?;
    if record.is_cut {
        printer.warning(format_args!("the last line of `{shown}` is incomplete and was skipped"));
    }
    let config = trial.config(record.header.config());
    let settings = settings(&config, interval(&record))?;
    let rules = trial.rules(&settings, printer)?;
    let trace = replay(&record, &settings, &config, &rules);
    let names = &record.header.vertex_names;
    let job = &record.header.job_name;
    write_svg(trial, &trace, &format!("{job}, replayed"))?;
    let told = Trial::new(job, &trial.set, &trace, names);
    let Output { output } = trial.output;
    if let Some(DetailFormat::Value(format)) = output {
        return printer.value(&told, format);
    }
    if !trace.decisions.is_empty() {
        printer.note("the decisions have no effect on the replayed job, which runs as recorded");
    }
    let missed = record.entries.iter().filter(|entry| entry.measured.is_err()).count();
    let count = record.entries.len();
    printer.line(format_args!("{job}: {count} measurements, {missed} of them failed"))?;
    report_set(trial, printer)?;
    printer.line("")?;
    report_decisions(trial, &trace, names, printer)?;
    printer.line("")?;
    printer.line(trial::comparison(&trace, names))?;
    printer.line("")?;
    report_sums(&trace, "ran", printer)?;
    printer.line("")?;
    printer.line(chart::terminal(&trace))?;
    Ok(())
}

/// Returns the median time between two measurements, which the metric window must exceed.
fn interval(record: &Record) -> Duration {
    let times = || record.entries.iter().map(|entry| entry.at);
    let mut spans: Vec<Duration> = times()
        .zip(times().skip(1))
        .filter_map(|(one, next)| Duration::try_from(next.duration_since(one)).ok())
        .collect();
    spans.sort_unstable();
    spans.get(spans.len() / 2).copied().unwrap_or(Duration::from_secs(1))
}

/// Prints the options that were tried.
pub(super) fn report_set(trial: &TrialFlags, printer: &Printer) -> anyhow::Result<()> {
    for (key, value) in &trial.set {
        printer.line(format_args!("with {key}: {value}"))?;
    }
    Ok(())
}

/// Prints the decisions, and with `-o wide` all rules that led to them.
pub(super) fn report_decisions(
    trial: &TrialFlags,
    trace: &Trace,
    names: &trial::Names,
    printer: &Printer,
) -> anyhow::Result<()> {
    if trace.decisions.is_empty() {
        printer.line("no decisions: every cycle left the job unchanged")?;
        return Ok(());
    }
    match trial.output.output {
        Some(DetailFormat::Wide) => printer.line(trial::steps(trace, names))?,
        None | Some(DetailFormat::Value(_) | DetailFormat::Name) => {
            printer.line(trial::decisions(trace, names))?;
        }
    }
    if let Some(costs) = trial::costs(trace) {
        printer.line("\nRequested by the pods:")?;
        printer.line(costs)?;
    }
    Ok(())
}

/// Prints the sums: subtask hours, reversals and outcomes.
pub(super) fn report_sums(trace: &Trace, ran: &str, printer: &Printer) -> anyhow::Result<()> {
    let (hours, decided) = subtask_hours(trace);
    printer.line(format_args!("subtask hours: {ran} {hours:.2}, decided {decided:.2}"))?;
    printer.line(format_args!("vertices scaled back and forth: {}", reversals(trace)))?;
    printer.line(trial::outcomes_line(trace))?;
    Ok(())
}

/// Writes the chart if `--svg` requests one.
pub(super) fn write_svg(trial: &TrialFlags, trace: &Trace, title: &str) -> anyhow::Result<()> {
    let Some(file) = &trial.svg else { return Ok(()) };
    std::fs::write(file, chart::svg(trace, title))
        .with_context(|| format!("while writing `{}`", file.display()))
}
