//! `status`: one deployment with all its parts, or a table of many.
//!
//! The table only reads the resources themselves, so it is as quick as `kubectl get`. The tree makes all its requests
//! concurrently.

mod advice;
mod draw;
pub(super) mod facts;
mod follow;
mod tree;

use clap::Args;
use futures::future::try_join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;

use super::args::{FlinkAccess, Global, Output, OutputFormat};
use super::connection::Connection;
use super::deployment::Deployment;
use super::failure::Failure;
use super::list::{self, ListArgs};
use super::printer::Printer;
use super::table;
use super::{change, complete, lookup, wait};
use api::blue_green::SERVING;
use clients::cluster::read::Scope;
use clients::flink::access::Access;

pub(super) use draw::Node;

/// Maximum length of an error in the table, in characters.
const ERROR_WIDTH: usize = 60;
/// Columns that a narrow terminal leaves out, in this order.
const DISPENSABLE: [&str; 6] =
    ["UPGRADE MODE", "VERSION", "AGE", "ERROR", "JOB STATUS", "NAMESPACE"];

/// Arguments of `status`.
#[derive(Args)]
#[command(after_help = "\
For one deployment it shows JobManager, TaskManagers, pods, job and vertices, the last checkpoint and the next restore
point, session jobs, snapshots, autoscaler advice, the last error and events. What you are not allowed to read is
left out or named.

Examples:
  kubectl flink status
  kubectl flink status orders
  kubectl flink status sessionjob/clicks --watch
  kubectl flink status orders -o json | jq .status.lifecycleState")]
pub struct StatusArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME; default: list all
    #[arg(add = complete::deployments())]
    name: Option<String>,
    /// All namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    all_namespaces: bool,
    /// Only those with these labels, such as `team=a,stage!=test`
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "name")]
    selector: Option<String>,
    /// Keep showing changes: redrawn on a terminal, otherwise one line per change
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    output: Output,
}

/// Scope of a list.
#[derive(Clone, Copy)]
struct Listing<'a> {
    scope: Scope<'a>,
    selector: Option<&'a str>,
    is_wide: bool,
}

/// Prints the status once, or follows it.
pub async fn run(args: StatusArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let StatusArgs { name, all_namespaces, selector, watch, access, output: Output { output } } =
        args;
    if watch && !matches!(output, None | Some(OutputFormat::Wide)) {
        return Err(watch_is_a_view().into());
    }
    let connection = global.connect().await?;
    let is_wide = output == Some(OutputFormat::Wide);
    match name {
        Some(name) if watch => {
            follow::one(&connection, &name, access.flink_access, is_wide, printer).await
        }
        Some(name) => show_one(&connection, &name, access, output, printer).await,
        None => {
            let list = ListArgs {
                all_namespaces,
                selector,
                watch,
                output: Output { output },
                access,
                ..ListArgs::default()
            };
            list::run(list, global, printer).await
        }
    }
}

async fn show_one(
    connection: &Connection,
    name: &str,
    access: FlinkAccess,
    output: Option<OutputFormat>,
    printer: &Printer,
) -> anyhow::Result<()> {
    match output {
        Some(OutputFormat::Value(format)) => {
            let object = lookup::fetch_itself(connection, name).await?.0;
            printer.value(&change::without_managed_fields(object), format)?;
        }
        Some(OutputFormat::Name) => {
            let object = lookup::fetch_itself(connection, name).await?.0;
            printer.line(change::qualified_name(&object))?;
        }
        None | Some(OutputFormat::Wide) => {
            let layout = Layout {
                is_wide: output == Some(OutputFormat::Wide),
                width: printer.width(),
                now: Timestamp::now(),
            };
            let text = view(connection, name, access.flink_access, layout).await?;
            printer.line(text.trim_end())?;
        }
    }
    Ok(())
}

/// How to draw trees.
#[derive(Clone, Copy)]
struct Layout {
    is_wide: bool,
    width: Option<usize>,
    now: Timestamp,
}

/// Returns the tree of a deployment, or those of both colours of a blue/green deployment, the serving one first.
async fn view(
    connection: &Connection,
    name: &str,
    access: Access,
    layout: Layout,
) -> anyhow::Result<String> {
    let Layout { is_wide, width, now } = layout;
    let Some(parent) = lookup::find_blue_green(connection, name).await? else {
        let facts = facts::observe(connection, name, access).await?;
        return Ok(tree::render(&facts, is_wide, width, now));
    };
    let mut text = blue_green(&parent).drawn(width);
    let colours = lookup::colours(connection, &parent).await?;
    let facts = colours.into_iter().map(|it| facts::observe_present(connection, it, access));
    for facts in try_join_all(facts).await? {
        text.push_str(&tree::render(&facts, is_wide, width, now));
    }
    Ok(text)
}

/// Returns the nodes below a deployment; for a blue/green deployment, the trees of its colours. Errors and events are
/// left out.
pub(super) async fn parts(
    connection: &Connection,
    object: &Deployment,
    access: Access,
    now: Timestamp,
) -> anyhow::Result<Vec<Node>> {
    if !object.is_blue_green() {
        let facts = facts::observe_present(connection, object.clone(), access).await?;
        return Ok(tree::parts(&facts, false, now).nodes);
    }
    let serving = object.condition(SERVING).and_then(|it| it["message"].as_str());
    let mut nodes: Vec<_> = serving.map(Node::leaf).into_iter().collect();
    let colours = lookup::colours(connection, object).await?;
    let facts = colours.into_iter().map(|it| facts::observe_present(connection, it, access));
    nodes.extend(try_join_all(facts).await?.iter().map(|facts| {
        Node::with(tree::headline(&facts.deployment, now), tree::parts(facts, false, now).nodes)
    }));
    Ok(nodes)
}

/// Formats a pod for a tree: name, state and age.
pub(super) fn pod(pod: &Pod, now: Timestamp) -> String {
    tree::pod_node(pod, false, now).label
}

/// Returns the node above the colours: which one serves, and what the deployment waits for.
fn blue_green(parent: &Deployment) -> Node {
    let serving = parent.condition(SERVING).and_then(|it| it["message"].as_str());
    let error = parent.error().map(|error| format!("Error: {error}"));
    let lines = serving.map(str::to_owned).into_iter().chain(error);
    let label = format!("{} · {}", parent.shown_name(), wait::phase(parent));
    Node::with(label, lines.map(Node::leaf).collect())
}

/// Follows all deployments of a list.
pub(super) async fn watch_many(
    connection: &Connection,
    scope: Scope<'_>,
    selector: Option<&str>,
    output: Option<OutputFormat>,
    printer: &Printer,
) -> anyhow::Result<()> {
    if !matches!(output, None | Some(OutputFormat::Wide)) {
        return Err(watch_is_a_view().into());
    }
    let listing = Listing { scope, selector, is_wide: output == Some(OutputFormat::Wide) };
    follow::many(connection, listing, printer).await
}

fn watch_is_a_view() -> Failure {
    Failure::usage("--watch does not support -o; leave it out, or use: kubectl get -w -o …")
}

/// Optional columns of a list.
#[derive(Clone, Copy, Default)]
pub(super) struct Columns {
    pub(super) is_wide: bool,
    /// Adds the phase of each upgrade.
    pub(super) has_upgrades: bool,
}

/// Formats one line per deployment. Columns that do not fit into `width` are left out, the least important first.
pub(super) fn list_table(
    deployments: &[&Deployment],
    scope: Scope<'_>,
    Columns { is_wide, has_upgrades }: Columns,
    width: Option<usize>,
    now: Timestamp,
) -> String {
    let has_namespaces = scope == Scope::AllNamespaces;
    let mut headers = Vec::new();
    if has_namespaces {
        headers.push("NAMESPACE");
    }
    headers.extend(["NAME", "JOB STATUS", "LIFECYCLE STATE", "VERSION", "UPGRADE MODE", "AGE"]);
    if is_wide {
        headers.extend(["JOBMANAGER", "TASKMANAGERS", "PARALLELISM", "SAVED", "JOB ID", "IMAGE"]);
    }
    headers.extend(has_upgrades.then_some("UPGRADE"));
    headers.push("ERROR");
    let rows = deployments
        .iter()
        .map(|deployment| {
            let mut cells = row(deployment, has_namespaces, is_wide, now);
            let upgrade = deployment.upgrade().unwrap_or_default().to_owned();
            let place = cells.len() - 1;
            cells.splice(place..place, has_upgrades.then_some(upgrade));
            cells
        })
        .collect::<Vec<_>>();
    match width {
        Some(width) if !is_wide => table::render_within(&headers, rows, &DISPENSABLE, width),
        Some(_) | None => table::render(&headers, rows),
    }
}

fn row(
    deployment: &Deployment,
    has_namespaces: bool,
    is_wide: bool,
    now: Timestamp,
) -> Vec<String> {
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let number = |number: Option<i64>| number.map_or_else(String::new, |number| number.to_string());
    let mut cells = Vec::new();
    if has_namespaces {
        cells.push(deployment.namespace().to_owned());
    }
    let ago = |at: Timestamp| table::age(now.as_second() - at.as_second());
    let (age, saved) = (deployment.created_at().map(ago), deployment.snapshot_at().map(ago));
    let paused = if deployment.paused().is_some() { ", paused" } else { "" };
    let lifecycle = format!("{}{paused}", deployment.lifecycle().unwrap_or_default());
    let mode = if deployment.is_session() { "session" } else { deployment.upgrade_mode() };
    cells.extend([
        deployment.shown_name(),
        text(deployment.job_state()),
        lifecycle,
        text(deployment.flink_version()),
        mode.to_owned(),
        age.unwrap_or_default(),
    ]);
    if is_wide {
        cells.extend([
            text(deployment.job_manager_status()),
            number(deployment.task_managers()),
            number(deployment.parallelism()),
            saved.unwrap_or_default(),
            text(deployment.job_id()),
            text(deployment.image()),
        ]);
    }
    let error = deployment.error().unwrap_or_default();
    cells.push(if is_wide { error } else { shorten(&error, ERROR_WIDTH) });
    cells
}

/// Truncates a text and marks that it continues.
fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
