//! `history`: the specs that a deployment was reconciled to, and the state that each left behind.

use clap::Args;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

use super::args::{Global, Output, OutputFormat};
use super::connection::Connection;
use super::deployment::Deployment;
use super::printer::Printer;
use super::table::{self, NONE};
use super::{complete, lookup};
use api::deployment::FlinkDeploymentSpec;
use clients::cluster::revisions;
use lifecycle::diff::diff;
use state::revision::{self, RestoreKind, RestorePoint, Revision};

/// Arguments of `history`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  kubectl flink history orders
  kubectl flink history orders -o json")]
pub struct HistoryArgs {
    /// The FlinkDeployment, sessionjob/NAME or bluegreen/NAME
    #[arg(add = complete::deployments())]
    name: String,
    #[command(flatten)]
    output: Output,
}

/// One entry of the history.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Entry {
    /// `None` for the present spec, which has no revision yet.
    pub(super) revision: Option<i64>,
    pub(super) reconciled_at: Option<Timestamp>,
    pub(super) restore_point: Option<RestorePoint>,
    pub(super) spec: Value,
}

/// Prints the history, the present spec last.
pub async fn run(args: HistoryArgs, global: &Global, printer: &Printer) -> anyhow::Result<()> {
    let HistoryArgs { name, output: Output { output } } = args;
    let connection = global.connect().await?;
    let present = lookup::fetch(&connection, &name).await?;
    let entries = entries(&connection, &present).await?;
    match output {
        Some(OutputFormat::Value(format)) => {
            printer.value(&json!({"name": name, "revisions": entries}), format)?;
        }
        Some(OutputFormat::Name) => {
            for number in entries.iter().filter_map(|entry| entry.revision) {
                let object = revision::object_name(&present.history_name(), number);
                printer.line(format_args!("controllerrevision.apps/{object}"))?;
            }
        }
        None | Some(OutputFormat::Wide) => {
            if entries.is_empty() {
                printer.note(format_args!("`{name}` was never reconciled"));
            } else {
                printer.line(render(
                    &entries,
                    output == Some(OutputFormat::Wide),
                    Timestamp::now(),
                ))?;
            }
        }
    }
    Ok(())
}

/// Returns the revisions of a deployment, the present spec last.
pub(super) async fn entries(
    connection: &Connection,
    present: &Deployment,
) -> anyhow::Result<Vec<Entry>> {
    let revisions =
        revisions::list(&connection.client, &connection.namespace, &present.history_name()).await?;
    let mut entries = revisions.into_iter().map(from_revision).collect::<Vec<_>>();
    if let Some(mut spec) = present.last_reconciled_spec() {
        // A suspended deployment's last revision is its present spec.
        let is_recorded = entries.last().is_some_and(|last| same_job(&last.spec, &spec));
        if !is_recorded {
            // The stored spec says how the job was started, not how it will be upgraded.
            if let Some(mode) = present.0.pointer("/spec/job/upgradeMode")
                && let Some(stored) = spec.pointer_mut("/job/upgradeMode")
            {
                *stored = mode.clone();
            }
            entries.push(Entry {
                revision: None,
                reconciled_at: present.reconciled_at(),
                restore_point: None,
                spec,
            });
        }
    }
    Ok(entries)
}

fn from_revision(revision: Revision) -> Entry {
    Entry {
        revision: Some(revision.number),
        reconciled_at: Some(revision.content.reconciled_at),
        restore_point: Some(revision.content.restore_point),
        spec: revision.content.spec,
    }
}

/// Returns true if two specs differ only in what the operator itself changes in a stored one.
fn same_job(one: &Value, other: &Value) -> bool {
    let stripped = |spec: &Value| {
        let mut spec = without_nulls(spec);
        if let Some(job) = spec.get_mut("job").and_then(Value::as_object_mut) {
            job.remove("state");
            job.remove("upgradeMode");
        }
        spec
    };
    is_same_spec(&stripped(one), &stripped(other))
}

/// Returns true if two specs are equivalent. A default that only one of them spells out is no difference.
pub(super) fn is_same_spec(one: &Value, other: &Value) -> bool {
    let typed = |spec: &Value| serde_json::from_value::<FlinkDeploymentSpec>(spec.clone());
    match (typed(one), typed(other)) {
        (Ok(one), Ok(other)) => diff(&one, &other).changes.is_empty(),
        // A spec that our types reject is compared literally.
        _ => without_nulls(one) == without_nulls(other),
    }
}

/// Removes nulls, because stored specs spell absent fields as null.
pub(super) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

fn render(entries: &[Entry], is_wide: bool, now: Timestamp) -> String {
    let mut headers =
        vec!["REVISION", "RECONCILED", "IMAGE", "PARALLELISM", "UPGRADE MODE", "RESTORE POINT"];
    if is_wide {
        headers.extend(["VERSION", "JAR"]);
    }
    let rows = entries.iter().map(|entry| row(entry, is_wide, now)).collect();
    table::render(&headers, rows)
}

fn row(entry: &Entry, is_wide: bool, now: Timestamp) -> Vec<String> {
    let text = |path| match entry.spec.pointer(path) {
        Some(Value::String(text)) => text.clone(),
        None | Some(Value::Null) => NONE.to_owned(),
        Some(other) => other.to_string(),
    };
    let mut cells = vec![
        entry.revision.map_or_else(|| "current".to_owned(), |number| number.to_string()),
        entry.reconciled_at.map_or_else(
            || NONE.to_owned(),
            |at| format!("{} ago", table::age(now.as_second() - at.as_second())),
        ),
        text("/image"),
        text("/job/parallelism"),
        match entry.spec.get("job") {
            None | Some(Value::Null) => "session".to_owned(),
            Some(_) => text("/job/upgradeMode"),
        },
        entry.restore_point.as_ref().map_or_else(|| NONE.to_owned(), restore_point),
    ];
    if is_wide {
        cells.extend([text("/flinkVersion"), text("/job/jarURI")]);
    }
    cells
}

/// Formats a restore point, as in `savepoint s3://…`.
pub(super) fn restore_point(point: &RestorePoint) -> String {
    match (&point.kind, &point.path) {
        (RestoreKind::None, _) => NONE.to_owned(),
        (kind, Some(path)) => format!("{} {path}", kind.into_str()),
        (kind, None) => match &point.job_id {
            Some(id) => format!("{} of job {id}", kind.into_str()),
            None => kind.into_str().to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::job::UpgradeMode;
    use expect_test::expect;

    #[test]
    fn history_is_a_table_with_the_present_spec_last() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let entries = [
            Entry {
                revision: Some(3),
                reconciled_at: Some("2026-01-01T00:00:00Z".parse().unwrap()),
                restore_point: Some(RestorePoint {
                    kind: RestoreKind::Savepoint,
                    path: Some("s3://b/sp-1".to_owned()),
                    job_id: None,
                    upgrade_mode: UpgradeMode::Savepoint,
                }),
                spec: json!({"image": "job:1", "job": {"parallelism": 2, "upgradeMode": "savepoint"}}),
            },
            Entry {
                revision: None,
                reconciled_at: Some("2026-01-01T00:59:50Z".parse().unwrap()),
                restore_point: None,
                spec: json!({"image": "job:2", "job": {"parallelism": 4, "upgradeMode": "savepoint"}}),
            },
        ];
        expect![[r#"
            REVISION   RECONCILED   IMAGE   PARALLELISM   UPGRADE MODE   RESTORE POINT
            3          60m ago      job:1   2             savepoint      savepoint s3://b/sp-1
            current    10s ago      job:2   4             savepoint      <none>"#]]
        .assert_eq(&render(&entries, false, now));
    }

    #[test]
    fn stored_spec_is_recognised_in_its_revision() {
        let revision = json!({"image": "a", "jobManager": {"replicas": 1}, "job": {"state": "running", "parallelism": 1}});
        let stored = json!({"image": "a", "mode": null, "jobManager": {}, "job": {"state": "suspended", "upgradeMode": "savepoint", "parallelism": 1}});
        assert!(same_job(&revision, &stored));
        assert!(!same_job(&revision, &json!({"image": "b", "job": {"parallelism": 1}})));
    }
}
