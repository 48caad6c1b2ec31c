//! `autoscaler simulate`: what would be decided for a modelled job, in virtual time.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::backtest::{report_decisions, report_set, report_sums, write_svg};
use super::chart;
use super::recording::{Job, measurement};
use super::trial::{Names, Trial, short_name, time};
use super::tried::{TrialFlags, read_file, settings};
use crate::cli::args::{DetailFormat, FlinkAccess, Global, duration};
use crate::cli::failure::Failure;
use crate::cli::printer::Printer;
use autoscaler::cycle::{Facts, Outcome, State, run as cycle};
use autoscaler::evaluate::evaluate;
use autoscaler::plugin::Asking;
use autoscaler::record::{Header, Measurement, entry_line, header_line};
use autoscaler::settings::Settings;
use autoscaler::simulation::model::{FILE_BYTES_MAX, Model};
use autoscaler::simulation::{Simulated, simulate};
use autoscaler::trace::Trace;
use clients::flink::scaling;
use config::FlinkConfig;

/// Start time of every simulation, so that any two can be compared.
const START_SECOND: i64 = 1_767_225_600;

const EXAMPLES: &str = "\
Examples:
  A described job: its vertices, the capacity of their subtasks, and the incoming records
    kubectl flink autoscaler simulate -f job.yaml

  The job `orders` as measured now, with three times the load
    kubectl flink autoscaler simulate orders --load 3 --set utilization.target=0.8

A file looks like this; `at` is the time since the start:
  rate:
  - {at: 0 s, records: 1000}
  - {at: 1 h, records: 5000}
  vertices:
  - {name: source, recordsPerSubtask: 900, partitions: 12}
  - name: window
    recordsPerSubtask: 400
    inputs:
    - {from: source, ship: HASH, ratio: 1}
Optional are also name, interval, duration, restart and options (job.autoscaler.*), and for a vertex
parallelism, maxParallelism, share (of a source in all records) and backlog.";

/// Arguments of `autoscaler simulate`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct SimulateArgs {
    /// The FlinkDeployment, or sessionjob/NAME, whose metrics to use
    #[arg(required_unless_present = "file", conflicts_with = "file")]
    name: Option<String>,
    /// YAML file that describes a job
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Multiply the load by this factor
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, hide_default_value = true)]
    load: f64,
    /// How long to simulate
    #[arg(long = "for", value_name = "DURATION", value_parser = duration)]
    length: Option<Duration>,
    /// How long to measure a running job first
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "30s", hide_default_value = true, conflicts_with = "file")]
    measure: Duration,
    /// Write the simulated metrics to this file, for `backtest`
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    trial: TrialFlags,
    #[command(flatten)]
    access: FlinkAccess,
}

/// Runs the simulation and prints the result.
pub(super) async fn run(
    args: SimulateArgs,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    let SimulateArgs { name, file, load, length, measure, record, trial, access } = args;
    if !(load.is_finite() && load > 0.0) {
        return Err(Failure::usage("--load must be greater than 0").into());
    }
    let (mut model, names) = match (name, file) {
        (_, Some(file)) => (read(&file, load)?, Names::new()),
        (Some(name), None) => {
            let job = Job::find(&name, access.flink_access, global).await?;
            measured(job, measure, load, &trial, printer).await?
        }
        (None, None) => return Err(Failure::usage("name a job, or a file with -f").into()),
    };
    if let Some(length) = length {
        model.duration = length;
    }
    model.check()?;
    let config = trial.config(model.options.clone());
    let settings = settings(&config, model.interval)?;
    let start = Timestamp::from_second(START_SECOND)?;
    let rules = trial.rules(&settings, printer)?;
    let Simulated { trace, entries } = simulate(&model, &settings, &config, start, &rules)?;
    if let Some(file) = &record {
        let header = Header::new(&model.name, "simulated", start, &config);
        let lines = std::iter::once(header_line(&header)).chain(entries.iter().map(entry_line));
        let text: String = lines.map(|line| line + "\n").collect();
        std::fs::write(file, text)
            .with_context(|| format!("while writing `{}`", file.display()))?;
    }
    write_svg(&trial, &trace, &format!("{}, simulated", model.name))?;
    let told = Trial::new(&model.name, &trial.set, &trace, &names);
    if let Some(DetailFormat::Value(format)) = trial.output.output {
        return printer.value(&told, format);
    }
    printer.line(format_args!("{}: {} cycles simulated", model.name, trace.moments.len()))?;
    report_set(&trial, printer)?;
    printer.line("")?;
    report_decisions(&trial, &trace, &names, printer)?;
    printer.line("")?;
    printer.line(convergence(&trace, &names))?;
    report_sums(&trace, "ran", printer)?;
    printer.line("")?;
    printer.line(chart::terminal(&trace))?;
    Ok(())
}

fn read(file: &std::path::Path, load: f64) -> anyhow::Result<Model> {
    let text = read_file(file, FILE_BYTES_MAX)?;
    let mut model = Model::read(&text)
        .map_err(|unfit| Failure::new(format!("`{}`: {unfit}", file.display())))?;
    for (_, records) in &mut model.rate {
        *records *= load;
    }
    Ok(model)
}

/// Measures a job twice and builds a model of it.
async fn measured(
    job: Job,
    measure: Duration,
    load: f64,
    trial: &TrialFlags,
    printer: &Printer,
) -> anyhow::Result<(Model, Names)> {
    let Job { client, id, header } = job;
    let config = trial.config(header.config());
    let settings = settings(&config, Duration::from_secs(1))?;
    let mut names = scaling::Names::default();
    let mut state = State::default();
    let first = measurement(client.measure(&id, &mut names).await?);
    state = sampled(state, &first, &settings, &config);
    let progress = printer.progress();
    progress.set(format_args!("measuring `{}` for {measure:?}", header.job_name));
    tokio::time::sleep(measure.max(Duration::from_secs(1))).await;
    let second = measurement(client.measure(&id, &mut names).await?);
    drop(progress);
    state = sampled(state, &second, &settings, &config);
    let evaluation = evaluate(&state.samples, &second.topology, &settings, settings.restart_time)
        .with_context(|| format!("while measuring `{}`", header.job_name))?;
    let mut model = Model::measured(&header.job_name, &second.topology, &evaluation, load)?;
    model.options = header.config();
    Ok((model, header.vertex_names))
}

fn sampled(
    state: State,
    measurement: &Measurement,
    settings: &Settings,
    config: &FlinkConfig,
) -> State {
    let Measurement { running_since, topology, reading } = measurement;
    let facts = Facts {
        now: Timestamp::now(),
        zone: &TimeZone::UTC,
        settings,
        config,
        topology,
        running_since: *running_since,
        reading,
        task_manager: autoscaler::quota::TaskManager::default(),
        pods: None,
        capacity: None,
        asking: Asking::default(),
    };
    cycle(state, &facts).state
}

/// Describes whether the job settles, and with what parallelism.
fn convergence(trace: &Trace, names: &Names) -> String {
    let mut scaled = trace.decisions.iter().filter(|one| one.outcome == Outcome::Scaled);
    let (count, last) = (scaled.clone().count(), scaled.next_back());
    let Some(end) = trace.moments.last() else { return String::new() };
    let parallelism: Vec<String> = end
        .parallelism
        .iter()
        .map(|(id, parallelism)| format!("{}: {parallelism}", short_name(id, names)))
        .collect();
    let parallelism = parallelism.join(", ");
    match last {
        None => format!("stable from the start, with {parallelism}"),
        Some(last) => {
            format!("{count} decisions, the last at {}, with {parallelism}", time(last.at))
        }
    }
}
