//! `logs`: of all pods of a deployment, each line marked with its pod.

mod level;

use std::collections::HashSet;
use std::time::Duration;

use clap::{Args, ValueEnum};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::args::{Global, duration};
use super::complete;
use super::deployment::{self, Deployment};
use super::failure::Failure;
use super::printer::{MARKS, Printer, styled};
use clients::cluster::logs::{self, LogRequest};
use clients::cluster::{self, pods};
use level::{Filter, Level};

/// Pods that are read at the same time; the others are named and left out.
const PODS_MAX: usize = 50;
/// Lines waiting to be printed; a slow terminal slows the readers down.
const LINES_WAITING: usize = 1024;
/// While following, new pods are looked for this often.
const LOOK_AGAIN: Duration = Duration::from_secs(3);
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

/// A line, or the end of a pod's log, on its way to the printer.
enum Message {
    Line(String),
    Trouble { pod: String, error: cluster::Error },
}

/// Prints the logs.
pub async fn run(args: LogsArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    show(args, global, printer, LOOK_AGAIN).await
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
        let named = deployment::fetch(&connection, &args.name).await?;
        let deployment = deployment::cluster_of(&connection, &named).await?;
        deployment.name().clone_into(&mut cluster_id);
        found = pods::list(client, namespace, &cluster_id, role).await?;
        if named.is_session_job() {
            printer.note(format_args!(
                "`{}` runs in the session cluster `{cluster_id}`, whose pods write its log",
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
    let mut readers = Readers {
        client: client.clone(),
        namespace: namespace.clone(),
        args: &args,
        is_prefixed,
        seen: HashSet::new(),
        tasks: JoinSet::new(),
    };
    let (sender, mut lines) = mpsc::channel(LINES_WAITING);
    readers.start(&found, &sender);
    // Without `follow` the channel closes with the last reader.
    let keep_open = args.follow.then(|| sender.clone());
    drop(sender);
    let mut failed = None;
    // Not a pause between two lines: a pod that always has something to say would put it off.
    let mut looks = tokio::time::interval(look_again);
    loop {
        tokio::select! {
            message = lines.recv() => match message {
                None => break,
                Some(Message::Line(line)) => printer.line(line)?,
                Some(Message::Trouble { pod, error }) => {
                    if args.follow || is_prefixed {
                        printer.warning(format_args!("{pod}: {error}"));
                    }
                    failed = Some((pod, error));
                }
            },
            _ = looks.tick(), if args.follow => {
                // A missed look is made up for by the next one.
                if let Ok(present) = pods::list(client, namespace, &cluster_id, role).await
                    && let Some(sender) = &keep_open
                {
                    readers.start(&present, sender);
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

/// There are no pods: a failure, unless they are waited for.
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

/// One task per pod.
struct Readers<'a> {
    client: Client,
    namespace: String,
    args: &'a LogsArgs,
    is_prefixed: bool,
    /// Incarnations of the present pods that are, or were, read: see [`incarnation`].
    seen: HashSet<String>,
    tasks: JoinSet<()>,
}

impl Readers<'_> {
    /// Reads those that are not read already and have something to read.
    fn start(&mut self, present: &[Pod], sender: &mpsc::Sender<Message>) {
        let container = &self.args.container;
        let present: Vec<(&Pod, String)> =
            present.iter().filter_map(|pod| Some((pod, incarnation(pod, container)?))).collect();
        // Those that are gone make room for others.
        self.seen.retain(|seen| present.iter().any(|(_, incarnation)| incarnation == seen));
        for (pod, incarnation) in present {
            let is_waiting = self.args.follow
                && pod.status.as_ref().and_then(|status| status.phase.as_deref())
                    == Some("Pending");
            if !is_waiting && self.seen.len() < PODS_MAX && self.seen.insert(incarnation) {
                self.read(pod, sender);
            }
        }
    }

    fn read(&mut self, pod: &Pod, sender: &mpsc::Sender<Message>) {
        let name = pod.metadata.name.clone().unwrap_or_default();
        let request = LogRequest {
            namespace: self.namespace.clone(),
            pod: name.clone(),
            container: Some(self.args.container.clone()),
            is_following: self.args.follow,
            is_previous: self.args.previous,
            tail_lines: (self.args.tail >= 0).then_some(self.args.tail),
            since_seconds: self.args.since.map(whole_seconds),
        };
        let prefix = if self.is_prefixed {
            let colour = MARKS[self.tasks.len() % MARKS.len()];
            format!("{} ", styled(colour, format_args!("[{name}]")))
        } else {
            String::new()
        };
        let filter = Filter::new(self.args.level);
        let (client, sender) = (self.client.clone(), sender.clone());
        self.tasks.spawn(async move {
            if let Err(error) = read(&client, &request, &prefix, filter, &sender).await {
                // The printer is gone only when the command is over.
                drop(sender.send(Message::Trouble { pod: name, error }).await);
            }
        });
    }
}

/// The API server takes whole seconds, and no less than one.
fn whole_seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX).max(1)
}

/// One run of the container: another one has a log of its own, in the same pod or the next.
fn incarnation(pod: &Pod, container: &str) -> Option<String> {
    let uid = pod.metadata.uid.as_deref()?;
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref());
    let id = statuses
        .and_then(|statuses| statuses.iter().find(|status| status.name == container))
        .and_then(|status| status.container_id.as_deref());
    Some(format!("{uid} {}", id.unwrap_or_default()))
}

async fn read(
    client: &Client,
    request: &LogRequest,
    prefix: &str,
    mut filter: Filter,
    sender: &mpsc::Sender<Message>,
) -> cluster::Result<()> {
    let mut lines = Box::pin(logs::lines(client, request).await?);
    while let Some(line) = lines.next().await {
        let line = line?;
        if !filter.lets(&line) {
            continue;
        }
        if sender.send(Message::Line(format!("{prefix}{line}"))).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
