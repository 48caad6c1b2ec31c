//! `savepoint`: takes a savepoint and prints its path.
//!
//! If an operator handles snapshots, it takes the savepoint, by a resource that remains as the record; otherwise the
//! request goes to Flink itself.

mod inspect;
mod resource;

use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::json;
use tokio::time::Instant;

use super::args::{FlinkAccess, Global, Output, Yes, duration};
use super::connection::Connection;
use super::deployment::Deployment;
use super::failure::Failure;
use super::lookup;
use super::printer::{Printer, Progress, ValueFormat};
use super::{complete, job_manager};
use api::status::SavepointFormatType;
use clients::flink::access::Access;
use clients::flink::savepoints::{SavepointRequest, SavepointStatus, StopRequest};
use clients::flink::{self, Client, Deadlines, new_trigger_id};
use resource::{Outcome, Wanted};

/// First pause between status requests; doubled up to [`POLL_MAX`].
const POLL_MIN: Duration = Duration::from_millis(100);
const POLL_MAX: Duration = Duration::from_secs(2);

/// Arguments of `savepoint`.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Write a deployment that is named like a command as flinkdeployment/NAME.

Examples:
  kubectl flink savepoint orders
  kubectl flink savepoint sessionjob/clicks --path s3://lake/before-upgrade
  kubectl flink savepoint inspect s3://lake/before-upgrade/savepoint-012345-6789ab"
)]
pub struct SavepointCommand {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    take: SavepointArgs,
}

/// What else is done with savepoints; without it one is taken.
#[derive(Subcommand)]
enum Action {
    /// Show the contents of a savepoint or checkpoint: operators, state, required files
    Inspect(inspect::InspectArgs),
}

/// Takes a savepoint, or runs the subcommand.
pub async fn dispatch(
    args: SavepointCommand,
    global: &Global,
    printer: &Printer,
) -> anyhow::Result<()> {
    match args {
        SavepointCommand { action: Some(Action::Inspect(args)), .. } => {
            Box::pin(inspect::run(args, global, printer)).await
        }
        SavepointCommand { action: None, take } => run(take, global, printer).await,
    }
}

/// What `savepoint` and `snapshots trigger` take.
#[derive(Args)]
pub struct SavepointArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    // `None` only if a subcommand is given.
    #[arg(required = true, add = complete::deployments())]
    name: Option<String>,
    /// Directory for the savepoint; default: execution.checkpointing.savepoint-dir of the job
    #[arg(long, value_name = "DIRECTORY")]
    path: Option<String>,
    /// Format of the savepoint
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Take a checkpoint, which Flink manages and deletes itself; needs an operator
    #[arg(long, conflicts_with_all = ["path", "format", "dispose_on_delete", "direct"])]
    checkpoint: bool,
    /// Delete the savepoint together with its FlinkStateSnapshot; needs an operator
    #[arg(long, conflicts_with = "direct")]
    dispose_on_delete: bool,
    /// Ask Flink directly, without an operator or a FlinkStateSnapshot
    #[arg(long)]
    direct: bool,
    /// How long to wait; the savepoint itself continues
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "10m")]
    timeout: Duration,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    yes: Yes,
    #[command(flatten)]
    output: Output<ValueFormat>,
}

/// Savepoint layouts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, ValueEnum)]
pub enum Format {
    /// The same for every state backend, so another one can restore it
    #[default]
    Canonical,
    /// The state backend's own, which is faster
    Native,
}

impl Format {
    fn of_flink(self) -> SavepointFormatType {
        match self {
            Self::Canonical => SavepointFormatType::Canonical,
            Self::Native => SavepointFormatType::Native,
        }
    }
}

/// Takes a savepoint, waits for it and prints its path.
pub async fn run(args: SavepointArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let SavepointArgs {
        name,
        path,
        format,
        checkpoint,
        dispose_on_delete,
        direct,
        timeout,
        access,
        yes: _,
        output: Output { output },
    } = args;
    let Some(name) = name else {
        return Err(Failure::usage("no job to take a savepoint of")
            .hint("such as: kubectl flink savepoint orders")
            .into());
    };
    let connection = global.connect().await?;
    let deployment = lookup::fetch(&connection, &name).await?;
    let job_id = running_job(&deployment)?.to_owned();
    let wanted = Wanted {
        savepoint: (!checkpoint).then(|| format.of_flink()),
        path: path.clone(),
        is_disposed_on_delete: dispose_on_delete,
        timeout,
    };
    let asked = if direct {
        Outcome::NobodyThere(String::new())
    } else {
        resource::take(&connection, &deployment, &wanted, printer).await?
    };
    let (resource, location) = match asked {
        Outcome::Taken { name, path } => (Some(name), path),
        Outcome::NobodyThere(why) if checkpoint || dispose_on_delete => {
            return Err(Failure::new(format!("no snapshot of `{name}` was taken: {why}"))
                .hint("start an operator: kubectl flink operate")
                .hint("or take a savepoint without one: --direct")
                .into());
        }
        Outcome::NobodyThere(why) => {
            if !direct {
                printer.note(format_args!(
                    "asking Flink directly, without a FlinkStateSnapshot: {why}"
                ));
            }
            let order = Order {
                name: deployment.shown_name(),
                job_id,
                path,
                format: format.of_flink(),
                stops_job: false,
                timeout,
            };
            let cluster = lookup::cluster_of(&connection, &deployment).await?;
            let way = access.flink_access;
            (None, take(&connection, &cluster, way, &order, printer).await?)
        }
    };
    if let Some(resource) = &resource {
        printer.note(format_args!("recorded as flinkstatesnapshot.flink.apache.org/{resource}"));
    }
    match output {
        Some(format) => {
            let taken = json!({"name": deployment.name(), "namespace": connection.namespace, "path": location,
                "snapshot": resource});
            printer.value(&taken, format)?;
        }
        None => printer.line(location)?,
    }
    Ok(())
}

/// Returns the job's id if a savepoint of it can be taken.
pub fn running_job(deployment: &Deployment) -> Result<&str, Failure> {
    let name = deployment.name();
    if deployment.is_session() {
        return Err(Failure::new(format!(
            "`{name}` is a session cluster: it has no job of its own"
        ))
        .hint("take savepoints of its jobs instead: kubectl flink savepoint sessionjob/NAME"));
    }
    match (deployment.job_state(), deployment.job_id()) {
        (Some("RUNNING"), Some(job_id)) => Ok(job_id),
        (state, _) => Err(Failure::new(format!(
            "job of `{name}` is {}: only a RUNNING job can take a savepoint",
            state.unwrap_or("not started")
        ))
        .hint(format!("see why: kubectl flink status {name}"))),
    }
}

/// The savepoint to take.
pub struct Order {
    /// Name of the job's resource, for messages.
    pub name: String,
    pub job_id: String,
    /// Target directory; `None` for the job's configured one.
    pub path: Option<String>,
    pub format: SavepointFormatType,
    /// Stops the job with the savepoint, so that nothing is processed after it.
    pub stops_job: bool,
    pub timeout: Duration,
}

/// Takes the savepoint and returns its location. `deployment` is the one whose JobManager runs the job.
pub async fn take(
    connection: &Connection,
    deployment: &Deployment,
    access: Access,
    order: &Order,
    printer: &Printer,
) -> anyhow::Result<String> {
    let name = order.name.as_str();
    let deadlines = Deadlines { savepoint: order.timeout, ..Deadlines::default() };
    let client = job_manager::client(connection, deployment, access, deadlines)?;
    let trigger_id = new_trigger_id();
    let progress = printer.progress();
    progress.set(format_args!("{name}: triggering a savepoint"));
    trigger(&client, order, &trigger_id).await.map_err(|error| explain(name, error))?;
    follow(&client, name, order, &trigger_id, &progress).await
}

async fn trigger(client: &Client, order: &Order, trigger_id: &str) -> Result<(), flink::Error> {
    let (target_directory, format, trigger_id) =
        (order.path.clone(), order.format, trigger_id.to_owned());
    if order.stops_job {
        let request = StopRequest { target_directory, drain: false, format, trigger_id };
        client.stop_with_savepoint(&order.job_id, &request).await.map(drop)
    } else {
        let request = SavepointRequest { target_directory, format, trigger_id };
        client.trigger_savepoint(&order.job_id, &request).await.map(drop)
    }
}

/// Polls until the savepoint is complete, has failed, or the timeout expires.
async fn follow(
    client: &Client,
    name: &str,
    order: &Order,
    trigger_id: &str,
    progress: &Progress<'_>,
) -> anyhow::Result<String> {
    let started = Instant::now();
    let mut pause = POLL_MIN;
    loop {
        let elapsed = started.elapsed();
        if elapsed >= order.timeout {
            return Err(Failure::timed_out(format!(
                "the savepoint of `{name}` is not complete after {}s",
                order.timeout.as_secs()
            ))
            .hint(if order.stops_job {
                format!(
                    "Flink continues with it (trigger {trigger_id}) and then stops the job, whose status \
                     has the savepoint's path: kubectl flink status {name}"
                )
            } else {
                format!(
                    "Flink continues with it (trigger {trigger_id}); to wait longer, use --timeout"
                )
            })
            .into());
        }
        match client.savepoint_status(&order.job_id, trigger_id).await {
            Ok(SavepointStatus::Completed { location }) => return Ok(location),
            Ok(SavepointStatus::CompletedButStopFailed { location, cause }) => {
                return Err(Failure::new(format!(
                    "the job of `{name}` failed while stopping, and may continue from before its savepoint \
                     `{location}`, which is complete: {}",
                    summary(&cause.stack_trace, &cause.class)
                ))
                .hint(format!("check whether it is running, then try again: kubectl flink status {name}"))
                .into());
            }
            Ok(SavepointStatus::Failed(cause)) => {
                return Err(Failure::new(format!(
                    "the savepoint of `{name}` failed: {}",
                    summary(&cause.stack_trace, &cause.class)
                ))
                .hint(format!("the job was not stopped; see: kubectl flink status {name}"))
                .into());
            }
            Ok(SavepointStatus::TriggerLost) => {
                return Err(Failure::new(format!("the JobManager of `{name}` was restarted and has forgotten the savepoint"))
                    .hint("the savepoint may or may not be complete; take another when the job is RUNNING again")
                    .into());
            }
            Ok(SavepointStatus::InProgress) => {
                progress.set(format_args!("{name}: savepoint in progress, {}s", elapsed.as_secs()));
            }
            Err(error) if error.is_transient() => progress.set(format_args!("{name}: {error}")),
            Err(error) => return Err(explain(name, error)),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(POLL_MAX);
    }
}

/// Returns the first line of a Java stack trace, which says what happened.
fn summary<'a>(stack_trace: &'a str, class: &'a str) -> &'a str {
    stack_trace.lines().next().map(str::trim).filter(|line| !line.is_empty()).unwrap_or(class)
}

/// Adds a hint to Flink's error.
fn explain(name: &str, error: flink::Error) -> anyhow::Error {
    let text = error.to_string();
    let failure = Failure::new(format!("the savepoint of `{name}` was not taken")).caused_by(error);
    if text.contains("target-directory")
        || text.contains("targetDirectory")
        || text.contains("savepoint-dir")
    {
        failure
            .hint("the job has no savepoint directory; name one with --path, or set execution.checkpointing.savepoint-dir")
            .into()
    } else {
        failure.into()
    }
}
