//! `top`: what jobs are doing right now.
//!
//! On a terminal it fills the screen again after each sample; elsewhere it prints one table, or JSON. Sampling runs in
//! a task of its own, so that a JobManager that does not answer never delays a key.

mod sample;
mod screen;
pub(super) mod vertices;
mod view;

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::args::{FlinkAccess, Global, Output, duration};
use super::complete;
use super::connection::Connection;
use super::contact::Contact;
use super::failure::Failure;
use super::printer::{Printer, ValueFormat};
use clients::cluster;
pub(super) use sample::{Figures, ask};
use sample::{Sample, Sampler};
use screen::{Key, Screen};
use view::{Histories, View};
pub(super) use view::{milliseconds, part, short};

/// Minimum interval. Flink gathers metrics every 10 s, so a shorter one would read the same values again.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Arguments of `top`.
#[derive(Args)]
#[command(after_help = "\
IN/S and OUT/S are records per second of the job's sources and sinks; LAG is the records waiting in the sources; BUSY and
BACKPRESSURE are those of the worst vertex; CHECKPOINTS are the last durations, the newest on the right. Without a
terminal it prints one table.

Keys:
  q, Esc, Ctrl-C     quit
  s                  sort by the next column
  Up, Down, j, k     select a job

Examples:
  kubectl flink top
  kubectl flink top orders sessionjob/clicks --interval 10s
  kubectl flink top -A -l team=payments
  kubectl flink top -A -o json | jq '.jobs[] | select(.backpressure > 0.5) | .name'")]
pub struct TopArgs {
    /// Only these FlinkDeployments, sessionjob/NAME or bluegreen/NAME; default: all jobs
    #[arg(add = complete::deployments(), conflicts_with_all = ["all_namespaces", "selector"])]
    names: Vec<String>,
    /// Jobs of all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
    /// Jobs with these labels, such as `team=a,stage!=test`
    #[arg(short = 'l', long, value_name = "LABELS")]
    selector: Option<String>,
    /// Pause between two samples, at least 1s
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "5s")]
    interval: Duration,
    /// Print one table, even on a terminal
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

/// The jobs to sample.
#[derive(Clone, Debug)]
struct Wanted {
    /// Empty for all.
    names: Vec<String>,
    is_everywhere: bool,
    selector: Option<String>,
}

/// Shows the jobs, once or until a key ends it.
pub async fn run(args: TopArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let TopArgs { names, all_namespaces, selector, interval, once, access, output } = args;
    if interval < INTERVAL_MIN {
        return Err(
            Failure::usage("--interval must be at least 1s: Flink measures every 10 s").into()
        );
    }
    let connection = global.connect().await?;
    let wanted = Wanted { names, is_everywhere: all_namespaces, selector };
    let mut sampler = Sampler::new(connection.clone(), wanted.clone(), access.flink_access);
    let terminals = printer.terminals();
    let is_view = terminals.output && terminals.input && !once && output.output.is_none();
    if is_view {
        return watch(&connection, sampler, interval, printer).await;
    }
    let sample = sampler.take().await?;
    match output.output {
        Some(format) => printer.value(&json!({ "jobs": sample.jobs }), format)?,
        None => print_once(&sample, wanted.is_everywhere, printer)?,
    }
    Ok(())
}

fn print_once(sample: &Sample, has_namespaces: bool, printer: &Printer) -> anyhow::Result<()> {
    if sample.jobs.is_empty() {
        printer.note("no jobs found");
        return Ok(());
    }
    let histories = Histories::default();
    let view = View { sample, histories: &histories, has_namespaces, order: view::Order::Name };
    printer.line(view.table(printer.width()))?;
    if sample.unmeasured > 0 {
        let limit = sample::MEASURED_MAX;
        printer.note(format_args!(
            "{} more running jobs were not measured: the limit is {limit}; select jobs with names, -n or -l",
            sample.unmeasured
        ));
    }
    // Group the jobs by reason, which is mostly the same one.
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for job in &sample.jobs {
        if let Some(error) = &job.error {
            reasons.entry(error).or_default().push(&job.name);
        }
    }
    for (reason, names) in reasons {
        let (first, others) = (names.first().copied().unwrap_or_default(), names.len() - 1);
        let others = if others > 0 { format!(" and {others} more") } else { String::new() };
        printer.warning(format_args!("`{first}`{others} could not be measured: {reason}"));
    }
    Ok(())
}

/// Shows the screen until a key or a signal ends it. The terminal is always restored.
async fn watch(
    connection: &Connection,
    mut sampler: Sampler,
    interval: Duration,
    printer: &Printer,
) -> anyhow::Result<()> {
    // The first errors are reported before the screen opens.
    let mut sample = sampler.take().await?;
    let has_namespaces = sampler.is_everywhere();
    let mut histories = Histories::default();
    histories.add(&sample);
    let (to_screen, mut taken) = mpsc::channel(1);
    let sampling = tokio::spawn(async move {
        let mut pauses = tokio::time::interval(interval);
        pauses.set_missed_tick_behavior(MissedTickBehavior::Delay);
        pauses.tick().await;
        loop {
            pauses.tick().await;
            if to_screen.send(sampler.take().await).await.is_err() {
                return;
            }
        }
    });
    let mut screen = Screen::open()?;
    let mut contact = Contact::default();
    let (mut order, mut first) = (view::Order::Name, 0_usize);
    let end = ended();
    tokio::pin!(end);
    let result = loop {
        let view = View { sample: &sample, histories: &histories, has_namespaces, order };
        let (columns, rows) = Screen::size();
        let notice = contact.notice();
        let lines = view.screen(columns, rows, &mut first, notice.as_deref(), Timestamp::now());
        if let Err(error) = printer.screen(&lines) {
            break Err(error.into());
        }
        tokio::select! {
            key = screen.key() => match key {
                Some(Key::Quit) | None => break Ok(()),
                Some(Key::Up) => first = first.saturating_sub(1),
                Some(Key::Down) => first = first.saturating_add(1),
                Some(Key::Order) => order = order.next(),
                Some(Key::Resized) => {}
            },
            result = taken.recv() => match result {
                Some(Ok(next)) => {
                    contact.regain();
                    histories.add(&next);
                    sample = next;
                }
                Some(Err(error)) => match passing(&error) {
                    Some(error) => {
                        contact.lose(error);
                    }
                    None => break Err(error),
                },
                None => break Err(Failure::new("sampling ended").into()),
            },
            () = contact.regained(&connection.client) => {
                contact.regain();
            }
            () = &mut end => break Ok(()),
        }
    };
    sampling.abort();
    screen.close();
    result
}

/// Returns the error if it is transient.
fn passing(error: &anyhow::Error) -> Option<&cluster::Error> {
    error.downcast_ref().filter(|error: &&cluster::Error| error.is_transient())
}

/// Waits for a signal to end. In the view, Ctrl-C on the keyboard is a key.
async fn ended() {
    #[cfg(unix)]
    let asked = async {
        use tokio::signal::unix::{SignalKind, signal};
        match (signal(SignalKind::terminate()), signal(SignalKind::hangup())) {
            (Ok(mut terminate), Ok(mut hangup)) => {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = hangup.recv() => {}
                }
            }
            _ => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let asked = std::future::pending::<()>();
    tokio::select! {
        () = asked => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
