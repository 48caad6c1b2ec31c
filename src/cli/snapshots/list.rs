//! `snapshots list`, the default of `snapshots`.

use clap::Args;
use jiff::Timestamp;
use serde_json::json;

use super::inventory::{Snapshot, Source, collect, inventories};
use crate::cli::args::{FlinkAccess, Global, Output, OutputFormat};
use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::lookup;
use crate::cli::printer::Printer;
use crate::cli::table::{self, NONE};
use crate::cli::{complete, job_manager};
use api::state_snapshot::SnapshotState;
use clients::cluster::read::Scope;
use clients::flink::Deadlines;
use clients::flink::access::Access;
use clients::flink::checkpoints::{Checkpoints, LastState};

/// Arguments of `snapshots list`.
#[derive(Args)]
pub(super) struct ListArgs {
    /// Only those of this FlinkDeployment, or sessionjob/NAME
    #[arg(add = complete::deployments())]
    name: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    all_namespaces: bool,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    output: Output,
}

impl ListArgs {
    /// Returns whether any argument was given.
    pub(super) fn is_given(&self) -> bool {
        let Self { name, all_namespaces, access, output } = self;
        name.is_some()
            || *all_namespaces
            || access.flink_access != Access::default()
            || output.output.is_some()
    }
}

/// Collects the snapshots and prints them.
pub(super) async fn run(args: ListArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let ListArgs { name, all_namespaces, access, output: Output { output } } = args;
    let connection = global.connect().await?;
    let job = match &name {
        Some(name) => Some(lookup::fetch(&connection, name).await?),
        None => None,
    };
    let scope = connection.scope(all_namespaces);
    let mut snapshots = Vec::new();
    for inventory in inventories(&connection.client, scope).await? {
        if let Err(reason) = &inventory.revisions {
            let namespace = &inventory.namespace;
            printer.warning(format_args!(
                "references to snapshots in namespace `{namespace}` are unknown: {reason}"
            ));
        }
        let of = job.as_ref().map(Deployment::shown_name);
        snapshots.extend(collect(&inventory, of.as_deref()));
    }
    if let Some(job) = &job {
        match last_checkpoint(&connection, job, access.flink_access).await {
            Ok(found) => snapshots.extend(found),
            Err(error) => printer.note(format_args!("its last checkpoint is not shown: {error:#}")),
        }
    }
    print(&snapshots, output, printer, name.as_deref(), scope)
}

fn print(
    snapshots: &[Snapshot],
    output: Option<OutputFormat>,
    printer: &Printer,
    name: Option<&str>,
    scope: Scope<'_>,
) -> anyhow::Result<()> {
    match output {
        Some(OutputFormat::Value(format)) => {
            printer.value(&json!({"snapshots": snapshots}), format)?;
        }
        Some(OutputFormat::Name) => {
            for name in snapshots.iter().filter_map(|snapshot| snapshot.name.as_ref()) {
                printer.line(format_args!("flinkstatesnapshot.flink.apache.org/{name}"))?;
            }
        }
        None | Some(OutputFormat::Wide) if snapshots.is_empty() => match (name, scope) {
            (Some(name), _) => printer.note(format_args!("`{name}` has no snapshots")),
            (None, Scope::AllNamespaces) => printer.note("no snapshots"),
            (None, Scope::Namespace(namespace)) => {
                printer.note(format_args!("no snapshots in namespace `{namespace}`"));
            }
        },
        None | Some(OutputFormat::Wide) => {
            let is_wide = output == Some(OutputFormat::Wide);
            let has_namespaces = scope == Scope::AllNamespaces;
            printer.line(render(snapshots, has_namespaces, is_wide, Timestamp::now()))?;
        }
    }
    Ok(())
}

/// Returns the last checkpoint of a running job, which Flink manages and deletes.
async fn last_checkpoint(
    connection: &Connection,
    job: &Deployment,
    access: Access,
) -> anyhow::Result<Option<Snapshot>> {
    let (Some("RUNNING"), Some(job_id)) = (job.job_state(), job.job_id()) else { return Ok(None) };
    let cluster = lookup::cluster_of(connection, job).await?;
    let client = job_manager::client(connection, &cluster, access, Deadlines::default())?;
    let checkpoints = client.without_retries().current_checkpoints(job_id).await?;
    let Checkpoints::Statistics(statistics) = checkpoints else {
        return Ok(None);
    };
    let LastState::At(point) = statistics.last_state() else { return Ok(None) };
    if point.is_savepoint {
        return Ok(None);
    }
    Ok(Some(Snapshot {
        source: Source::JobManager,
        namespace: connection.namespace.clone(),
        name: None,
        job: Some(job.shown_name()),
        kind: "CHECKPOINT",
        trigger: "PERIODIC",
        state: SnapshotState::Completed.into_str(),
        created: point.timestamp.and_then(|at| Timestamp::from_millisecond(at).ok()),
        path: Some(point.path),
        is_disposed_on_delete: None,
        referred_to_by: Some(vec![format!("the running job of `{}`", job.shown_name())]),
        error: None,
    }))
}

fn render(snapshots: &[Snapshot], has_namespaces: bool, is_wide: bool, now: Timestamp) -> String {
    let none = || NONE.to_owned();
    let row = |snapshot: &Snapshot| {
        let mut cells = Vec::new();
        if has_namespaces {
            cells.push(snapshot.namespace.clone());
        }
        cells.extend([
            snapshot.name.clone().unwrap_or_else(none),
            snapshot.job.clone().unwrap_or_else(none),
            snapshot.kind.to_owned(),
            snapshot.trigger.to_owned(),
            snapshot.state.to_owned(),
            snapshot.created.map_or_else(none, |at| table::age(now.duration_since(at).as_secs())),
            snapshot
                .referred_to_by
                .as_ref()
                .map_or_else(|| "unknown".to_owned(), |all| all.len().to_string()),
            snapshot.path.clone().unwrap_or_else(none),
        ]);
        if is_wide {
            let fate = match snapshot.is_disposed_on_delete {
                Some(true) => "dispose".to_owned(),
                Some(false) => "keep".to_owned(),
                None => none(),
            };
            let all = snapshot.referred_to_by.as_ref().filter(|all| !all.is_empty());
            cells.extend([fate, all.map_or_else(none, |all| all.join(", "))]);
        }
        cells
    };
    let mut headers = if has_namespaces { vec!["NAMESPACE"] } else { Vec::new() };
    headers.extend(["NAME", "JOB", "KIND", "TRIGGER", "STATE", "AGE", "REFERENCES", "PATH"]);
    if is_wide {
        headers.extend(["ON DELETE", "REFERRED TO BY"]);
    }
    table::render(&headers, snapshots.iter().map(row).collect())
}

#[cfg(test)]
mod tests;
