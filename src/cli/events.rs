//! `events`: what Kubernetes and the operator reported about a deployment and its objects.

use std::collections::BTreeSet;

use clap::Args;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde::Serialize;
use serde_json::json;

use super::args::{Global, ObjectFormat, Output};
use super::complete;
use super::connection::Connection;
use super::deployment::Deployment;
use super::lookup;
use super::printer::{Printer, YELLOW, styled};
use super::table;
use api::state_snapshot::FlinkStateSnapshot;
use clients::cluster::pods;
use clients::cluster::read::{self, Scope};
use config::secret;

/// Terminal width in columns below which some table columns are left out.
const NARROW: usize = 80;

/// Arguments of `events`.
#[derive(Args)]
#[command(after_help = "\
Shows the events of the deployment and its pods, Deployments and snapshots, latest last. By default Kubernetes keeps
events for an hour.

Examples:
  kubectl flink events orders
  kubectl flink events orders --warnings -o json")]
pub struct EventsArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    /// Only warnings
    #[arg(long)]
    warnings: bool,
    #[command(flatten)]
    output: Output<ObjectFormat>,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    pub(super) last_seen: Option<Timestamp>,
    #[serde(rename = "type")]
    pub(super) event_type: String,
    pub(super) reason: String,
    /// `Kind/name`.
    pub(super) object: String,
    pub(super) count: i32,
    pub(super) message: String,
}

/// Prints the events, the latest last.
pub async fn run(args: EventsArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let EventsArgs { name, warnings, output: Output { output } } = args;
    let connection = global.connect().await?;
    let present = lookup::fetch_itself(&connection, &name).await?;
    let mut lines = lines(&connection, &present).await?;
    lines.retain(|line| !warnings || line.event_type == "Warning");
    match output {
        Some(ObjectFormat::Value(format)) => printer.value(&json!({"events": lines}), format)?,
        Some(ObjectFormat::Name) => {
            let objects = lines.iter().map(|line| line.object.as_str()).collect::<BTreeSet<_>>();
            for object in objects {
                printer.line(object)?;
            }
        }
        None | Some(ObjectFormat::Wide) if lines.is_empty() => {
            printer.note(format_args!("no events found for `{}`", present.shown_name()));
        }
        None | Some(ObjectFormat::Wide) => {
            printer.line(render(&lines, printer.width(), Timestamp::now()))?;
        }
    }
    Ok(())
}

/// Returns all events of the deployment and its objects, the latest last.
pub(super) async fn lines(
    connection: &Connection,
    present: &Deployment,
) -> anyhow::Result<Vec<Line>> {
    let about = lookup::with_colours(connection, present).await?;
    let (events, names) = tokio::join!(
        read::list::<Event>(&connection.client, Scope::Namespace(present.namespace()), None),
        join_all(about.iter().map(|it| names_of(connection, it))),
    );
    let names: BTreeSet<_> = names.into_iter().flatten().collect();
    let mut lines = events?
        .into_iter()
        .filter(|event| about.iter().any(|it| is_about(event, it, &names)))
        .map(line)
        .collect::<Vec<_>>();
    lines.sort_by_key(|line| line.last_seen);
    Ok(lines)
}

/// Returns kind and name of the deployment's objects that `is_about` cannot recognize by name.
async fn names_of(connection: &Connection, present: &Deployment) -> BTreeSet<(String, String)> {
    let (client, namespace) = (&connection.client, present.namespace());
    let snapshots =
        read::list_values::<FlinkStateSnapshot>(client, Scope::Namespace(namespace), None);
    let pods = async {
        if present.is_session_job() {
            return Ok(Vec::new());
        }
        pods::list(client, namespace, present.name(), None).await
    };
    let (pods, snapshots) = tokio::join!(pods, snapshots);
    let pods = pods.unwrap_or_default().into_iter().filter_map(|pod| pod.metadata.name);
    let pods = pods.map(|name| ("Pod".to_owned(), name));
    let is_mine = |snapshot: &serde_json::Value| {
        snapshot["spec"]["jobReference"]["name"] == present.name()
            && snapshot["spec"]["jobReference"]["kind"] == present.job_kind().into_str()
    };
    let snapshots = snapshots.unwrap_or_default().into_iter().filter(is_mine);
    let snapshots = snapshots.filter_map(|it| it["metadata"]["name"].as_str().map(str::to_owned));
    pods.chain(snapshots.map(|name| ("FlinkStateSnapshot".to_owned(), name))).collect()
}

/// Returns true if the event is about the deployment or one of its objects. Deleted pods are recognized by name.
fn is_about(event: &Event, present: &Deployment, names: &BTreeSet<(String, String)>) -> bool {
    let object = &event.involved_object;
    let kind = object.kind.clone().unwrap_or_default();
    let name = object.name.clone().unwrap_or_default();
    if kind == present.id().kind {
        return name == present.name();
    }
    if names.contains(&(kind.clone(), name.clone())) {
        return true;
    }
    if present.is_session_job() {
        return false;
    }
    let rest = name.strip_prefix(present.name());
    match kind.as_str() {
        "Deployment" | "Service" | "Ingress" | "ConfigMap" => {
            let own = ["", "-rest", "-taskmanager", "-config-map"];
            rest.is_some_and(|rest| own.contains(&rest))
        }
        "Pod" | "ReplicaSet" => rest.is_some_and(is_generated),
        _ => false,
    }
}

/// Returns true for a suffix that Flink or Kubernetes appends to the cluster's name: `-6d4c7b9f8-x2x7k` or
/// `-taskmanager-1-1`. The rest of another cluster's longer name does not match.
fn is_generated(rest: &str) -> bool {
    let Some(rest) = rest.strip_prefix('-') else { return false };
    let is_hash = |part: &str| {
        let is_safe = |c: char| c.is_ascii_digit() || "bcdfghjklmnpqrstvwxz".contains(c);
        (5..=10).contains(&part.len()) && part.chars().all(is_safe)
    };
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    let rest = match rest.strip_prefix("taskmanager-") {
        Some(numbers) if numbers.split('-').all(is_number) => return true,
        Some(hashes) => hashes,
        None => rest,
    };
    let parts = rest.split('-').collect::<Vec<_>>();
    parts.len() <= 2 && parts.into_iter().all(is_hash)
}

fn line(event: Event) -> Line {
    let times = [
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|at| at.0),
        event.last_timestamp.as_ref().map(|at| at.0),
        event.event_time.as_ref().map(|at| at.0),
        event.first_timestamp.as_ref().map(|at| at.0),
        event.metadata.creation_timestamp.as_ref().map(|at| at.0),
    ];
    let object = &event.involved_object;
    let series = event.series.as_ref().and_then(|series| series.count);
    Line {
        last_seen: times.into_iter().flatten().next(),
        event_type: event.type_.unwrap_or_default(),
        reason: event.reason.unwrap_or_default(),
        object: format!(
            "{}/{}",
            object.kind.as_deref().unwrap_or_default(),
            object.name.as_deref().unwrap_or_default()
        ),
        count: series.or(event.count).unwrap_or(1),
        message: secret::hide_in(event.message.unwrap_or_default().trim()),
    }
}

fn render(lines: &[Line], width: Option<usize>, now: Timestamp) -> String {
    let row = |line: &Line| {
        let age = |at: Timestamp| table::age(now.as_second() - at.as_second());
        let times = if line.count > 1 { format!(" (x{})", line.count) } else { String::new() };
        let event_type = if line.event_type == "Warning" {
            styled(YELLOW, &line.event_type)
        } else {
            line.event_type.clone()
        };
        vec![
            line.last_seen.map_or_else(|| table::NONE.to_owned(), age),
            event_type,
            line.reason.clone(),
            line.object.clone(),
            format!("{}{times}", line.message.replace('\n', " ")),
        ]
    };
    let headers = ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"];
    let rows = lines.iter().map(row).collect();
    match width {
        // The terminal may cut messages, but not the columns before them.
        Some(width) if width < NARROW => {
            table::render_within(&headers, rows, &["OBJECT", "TYPE"], NARROW)
        }
        Some(_) | None => table::render(&headers, rows),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: &str, name: &str) -> Event {
        serde_json::from_value(
            json!({"metadata": {"name": "e"}, "involvedObject": {"kind": kind, "name": name}}),
        )
        .unwrap()
    }

    #[test]
    fn events_of_another_cluster_with_a_longer_name_are_not_its_own() {
        let present =
            Deployment(json!({"kind": "FlinkDeployment", "metadata": {"name": "orders"}}));
        let pod = ("Pod".to_owned(), "custom".to_owned());
        let names = BTreeSet::from([pod]);
        for (kind, name, expected) in [
            ("FlinkDeployment", "orders", true),
            ("FlinkSessionJob", "orders", false),
            ("FlinkDeployment", "orders-eu", false),
            ("Deployment", "orders", true),
            ("Service", "orders-rest", true),
            ("Pod", "orders-6d4c7b9f8-x2x7k", true),
            ("ReplicaSet", "orders-6d4c7b9f8", true),
            ("Pod", "orders-taskmanager-1-12", true),
            ("Pod", "orders-eu-6d4c7b9f8-x2x7k", false),
            ("Pod", "orders-eu-taskmanager-1-1", false),
            ("Pod", "custom", true),
            ("Node", "orders", false),
        ] {
            assert_eq!(is_about(&event(kind, name), &present, &names), expected, "{kind} {name}");
        }
    }
}
