//! `logs`: the logs of all pods of a deployment, each line prefixed with its pod.

pub(super) mod level;
pub(super) mod reading;

use std::time::Duration;

use clap::{Args, ValueEnum};
use tokio::sync::mpsc;

use super::args::{Global, duration};
use super::complete;
use super::deployment::Deployment;
use super::failure::Failure;
use super::lookup;
use super::printer::{MARKS, Printer, styled};
use clients::cluster::pods;
use level::{Filter, Level};
use reading::{Line, Message, Readers, Wanted};

/// Maximum number of pods read at the same time; the others are named and left out.
const PODS_MAX: usize = 50;
/// Maximum number of lines waiting to be printed. A slow terminal slows the readers down.
const LINES_WAITING: usize = 1024;
/// Interval at which new pods are looked for while following.
const POLL_AGAIN: Duration = Duration::from_secs(3);
/// The container that runs Flink.
pub(super) const MAIN_CONTAINER: &str = "flink-main-container";

/// Arguments of `logs`.
#[derive(Args)]
#[command(after_help = "\
Lines of several pods are prefixed with the pod's name, on a terminal in its own colour.

Examples:
  kubectl flink logs orders -f
  kubectl flink logs orders --role tm --level warn --since 1h --tail -1
  kubectl flink logs orders --role jm --previous      # why did the JobManager restart?")]
pub struct LogsArgs {
    /// The FlinkDeployment; for sessionjob/NAME, the cluster it runs in
    #[arg(add = complete::deployments())]
    name: String,
    /// Only these pods
    #[arg(long, value_enum)]
    role: Option<RoleArg>,
    /// Follow the logs, also of new pods
    #[arg(short, long, conflicts_with = "previous")]
    follow: bool,
    /// Logs of the previous run of the containers
    #[arg(short, long)]
    previous: bool,
    /// Last lines of each pod; -1 for all
    #[arg(long, value_name = "LINES", default_value_t = 200, allow_negative_numbers = true)]
    tail: i64,
    /// Only lines of at least this level, with their stack traces
    #[arg(long, value_enum)]
    level: Option<Level>,
    /// Only lines newer than this, such as `10m`
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    since: Option<Duration>,
    /// Container to read
    #[arg(short, long, default_value = MAIN_CONTAINER)]
    container: String,
}

/// Parts of a cluster, with kubectl-short names.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub enum RoleArg {
    /// JobManager
    #[value(alias = "jobmanager")]
    Jm,
    /// TaskManager
    #[value(alias = "taskmanager")]
    Tm,
}

/// Prints the logs.
pub async fn run(args: LogsArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    show(args, global, printer, POLL_AGAIN).await
}

async fn show(
    args: LogsArgs,
    global: &Global,
    printer: &Printer,
    look_again: Duration,
) -> anyhow::Result<()> {
    let connection = global.connect().await?;
    let role = args.role.map(|role| match role {
        RoleArg::Jm => pods::Role::JobManager,
        RoleArg::Tm => pods::Role::TaskManager,
    });
    let (client, namespace) = (&connection.client, &connection.namespace);
    let mut cluster_id = args.name.clone();
    let mut found = pods::list(client, namespace, &cluster_id, role).await.unwrap_or_default();
    if found.is_empty() {
        let named = lookup::fetch(&connection, &args.name).await?;
        let deployment = lookup::cluster_of(&connection, &named).await?;
        deployment.name().clone_into(&mut cluster_id);
        found = pods::list(client, namespace, &cluster_id, role).await?;
        if named.is_session_job() {
            printer.note(format_args!(
                "`{}` runs in session cluster `{cluster_id}`: showing the logs of its pods",
                named.name()
            ));
        }
        if found.is_empty() {
            say_empty(&args, &deployment, role, printer)?;
        }
    }
    if found.len() > PODS_MAX {
        printer.warning(format_args!(
            "{} pods: only the first {PODS_MAX} are read; narrow down with --role",
            found.len()
        ));
        found.truncate(PODS_MAX);
    }
    let is_prefixed = args.follow || found.len() > 1;
    let (sender, mut messages) = mpsc::channel(LINES_WAITING);
    let wanted = Wanted {
        namespace: namespace.clone(),
        container: args.container.clone(),
        is_following: args.follow,
        is_previous: args.previous,
        tail: (args.tail >= 0).then_some(args.tail),
        kept: None,
        since: args.since,
        filter: Filter::new(args.level),
        pods_max: PODS_MAX,
    };
    let mut readers = Readers::new(client.clone(), wanted, sender);
    readers.start(&found);
    if !args.follow {
        readers.finish();
    }
    let mut failed = None;
    // An interval rather than a timeout between lines, which a pod that logs all the time would postpone forever.
    let mut looks = tokio::time::interval(look_again);
    loop {
        tokio::select! {
            message = messages.recv() => match message {
                None => break,
                Some(Message::Line(line)) => printer.line(marked(&line, is_prefixed))?,
                Some(Message::End { error: None, .. }) => {}
                Some(Message::End { pod, error: Some(error) }) => {
                    if args.follow || is_prefixed {
                        printer.warning(format_args!("{pod}: {error}"));
                    }
                    failed = Some((pod, error));
                }
            },
            _ = looks.tick(), if args.follow => {
                // If a listing fails, the next one catches up.
                if let Ok(present) = pods::list(client, namespace, &cluster_id, role).await {
                    readers.start(&present);
                }
            }
        }
    }
    match failed {
        Some((pod, error)) => {
            Err(anyhow::Error::new(error).context(format!("the log of `{pod}` cannot be read")))
        }
        None => Ok(()),
    }
}

/// Reports that there are no pods. It is an error unless following, which waits for them.
fn say_empty(
    args: &LogsArgs,
    deployment: &Deployment,
    role: Option<pods::Role>,
    printer: &Printer,
) -> Result<(), Failure> {
    let which = role.map_or("", |role| match role {
        pods::Role::JobManager => "JobManager ",
        pods::Role::TaskManager => "TaskManager ",
    });
    if !args.follow {
        return Err(Failure::new(format!("`{}` has no {which}pods", deployment.name()))
            .hint(format!("it is {}", super::wait::phase(deployment))));
    }
    printer.note(format_args!("`{}` has no {which}pods yet; waiting for them", deployment.name()));
    Ok(())
}

/// Returns the line, prefixed with its pod's name if there are several pods.
fn marked(line: &Line, is_prefixed: bool) -> String {
    if !is_prefixed {
        return line.text.clone();
    }
    let mark = format_args!("[{}]", line.pod);
    let mark = styled(MARKS[line.reader % MARKS.len()], mark);
    format!("{mark} {}", line.text)
}

#[cfg(test)]
mod tests;
