//! `status`: one deployment with all its parts, or a table of many.
//!
//! The table asks the API server for the two kinds and nothing else, so that it is as quick as
//! `kubectl get`. The tree asks everything that it needs at the same time.

mod facts;
mod follow;
mod tree;

use clap::Args;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::args::{FlinkAccess, Global, Output, OutputFormat};
use super::connection::Connection;
use super::deployment::Deployment;
use super::failure::Failure;
use super::printer::Printer;
use super::table;
use super::{change, complete, deployment};
use crate::api::deployment::FlinkDeployment;
use crate::api::session_job::FlinkSessionJob;
use crate::cluster::read::{self, Scope};

/// Characters of an error in the table.
const ERROR_WIDTH: usize = 60;

/// Arguments of `status`.
#[derive(Args)]
pub struct StatusArgs {
    /// The FlinkDeployment, or sessionjob/NAME; without it all are listed
    #[arg(add = complete::deployments())]
    name: Option<String>,
    /// List those of all namespaces
    #[arg(short = 'A', long, conflicts_with = "name")]
    all_namespaces: bool,
    /// List those with these labels, such as `team=a,stage!=test`
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "name")]
    selector: Option<String>,
    /// Stay and show changes: redrawn on a terminal, else one line per change
    #[arg(short, long)]
    watch: bool,
    #[command(flatten)]
    access: FlinkAccess,
    #[command(flatten)]
    output: Output,
}

/// What a list covers.
#[derive(Clone, Copy)]
struct Listing<'a> {
    scope: Scope<'a>,
    selector: Option<&'a str>,
    is_wide: bool,
}

/// Prints the status, once or over time.
pub async fn run(args: StatusArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let StatusArgs { name, all_namespaces, selector, watch, access, output: Output { output } } =
        args;
    if watch && !matches!(output, None | Some(OutputFormat::Wide)) {
        return Err(Failure::usage(
            "--watch shows a view; leave out -o, or use: kubectl get -w -o …",
        )
        .into());
    }
    let connection = global.connect().await?;
    let is_wide = output == Some(OutputFormat::Wide);
    match name {
        Some(name) if watch => {
            follow::one(&connection, &name, access.flink_access, is_wide, printer).await
        }
        Some(name) => show_one(&connection, &name, access, output, printer).await,
        None => {
            let scope = if all_namespaces {
                Scope::AllNamespaces
            } else {
                Scope::Namespace(&connection.namespace)
            };
            let listing = Listing { scope, selector: selector.as_deref(), is_wide };
            if watch {
                follow::many(&connection, listing, printer).await
            } else {
                show_many(&connection, listing, output, printer).await
            }
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
        Some(OutputFormat::Json | OutputFormat::Yaml | OutputFormat::Name) => {
            let deployment = deployment::fetch(connection, name).await?;
            match output.and_then(OutputFormat::for_value) {
                Some(format) => {
                    printer.value(&change::without_managed_fields(deployment.0), format)?;
                }
                None => printer.line(change::qualified_name(&deployment.0))?,
            }
        }
        None | Some(OutputFormat::Wide) => {
            let facts = facts::observe(connection, name, access.flink_access).await?;
            printer.line(
                tree::render(&facts, output == Some(OutputFormat::Wide), Timestamp::now())
                    .trim_end(),
            )?;
        }
    }
    Ok(())
}

async fn show_many(
    connection: &Connection,
    listing: Listing<'_>,
    output: Option<OutputFormat>,
    printer: &Printer,
) -> anyhow::Result<()> {
    let (client, scope, selector) = (&connection.client, listing.scope, listing.selector);
    let (objects, session_jobs) = tokio::join!(
        read::list_values::<FlinkDeployment>(client, scope, selector),
        read::list_values::<FlinkSessionJob>(client, scope, selector),
    );
    let mut objects = objects?;
    // The kind need not be installed.
    objects.extend(session_jobs.unwrap_or_default());
    match output {
        Some(OutputFormat::Json | OutputFormat::Yaml) => {
            if let Some(format) = output.and_then(OutputFormat::for_value) {
                let items =
                    objects.into_iter().map(change::without_managed_fields).collect::<Vec<Value>>();
                printer
                    .value(&json!({"apiVersion": "v1", "kind": "List", "items": items}), format)?;
            }
        }
        Some(OutputFormat::Name) => {
            for object in &objects {
                printer.line(change::qualified_name(object))?;
            }
        }
        None | Some(OutputFormat::Wide) if objects.is_empty() => match listing.scope {
            Scope::AllNamespaces => printer.note("no FlinkDeployments found"),
            Scope::Namespace(namespace) => {
                printer.note(format_args!("no FlinkDeployments found in namespace `{namespace}`"));
            }
        },
        None | Some(OutputFormat::Wide) => {
            let deployments = objects.into_iter().map(Deployment).collect::<Vec<_>>();
            printer.line(render_table(&deployments, listing, Timestamp::now()))?;
        }
    }
    Ok(())
}

fn render_table(deployments: &[Deployment], listing: Listing<'_>, now: Timestamp) -> String {
    let has_namespaces = listing.scope == Scope::AllNamespaces;
    let mut headers = Vec::new();
    if has_namespaces {
        headers.push("NAMESPACE");
    }
    headers.extend(["NAME", "JOB STATUS", "LIFECYCLE STATE", "VERSION", "UPGRADE MODE", "AGE"]);
    if listing.is_wide {
        headers.extend(["JOBMANAGER", "TASKMANAGERS", "PARALLELISM", "JOB ID", "IMAGE"]);
    }
    headers.push("ERROR");
    let rows = deployments
        .iter()
        .map(|deployment| row(deployment, has_namespaces, listing.is_wide, now))
        .collect();
    table::render(&headers, rows)
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
    let age =
        deployment.created_at().map(|created| table::age(now.as_second() - created.as_second()));
    let mode = if deployment.is_session() { "session" } else { deployment.upgrade_mode() };
    cells.extend([
        deployment.shown_name(),
        text(deployment.job_state()),
        text(deployment.lifecycle()),
        text(deployment.flink_version()),
        mode.to_owned(),
        age.unwrap_or_default(),
    ]);
    if is_wide {
        cells.extend([
            text(deployment.job_manager_status()),
            number(deployment.task_managers()),
            number(deployment.parallelism()),
            text(deployment.job_id()),
            text(deployment.image()),
        ]);
    }
    let error = deployment.error().unwrap_or_default();
    cells.push(if is_wide { error } else { shorten(&error, ERROR_WIDTH) });
    cells
}

/// The first characters, with a mark where more follow.
fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
