//! Takes a snapshot through a `FlinkStateSnapshot`: the operator takes it, retries it, and keeps a record of it.
//! Whether an operator is running shows only in its actions: a resource that none picks up is deleted again.

use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::failure::Failure;
use crate::cli::printer::Printer;
use api::state_snapshot::{
    CheckpointSpec, FlinkStateSnapshot, FlinkStateSnapshotSpec, JobReference, SavepointSpec,
};
use api::status::SavepointFormatType;
use clients::cluster::apply::{self, Deletion, ObjectId, Propagation, Writer};
use clients::cluster::{self, read};
use lifecycle::error_document::message_of;

/// Time within which an operator marks a new snapshot.
const TAKEN_UP_WITHIN: Duration = Duration::from_secs(5);

/// The snapshot to take.
pub(super) struct Wanted {
    /// `None` for a checkpoint.
    pub(super) savepoint: Option<SavepointFormatType>,
    /// Target directory; `None` for the job's own.
    pub(super) path: Option<String>,
    pub(super) is_disposed_on_delete: bool,
    pub(super) timeout: Duration,
}

/// Outcome of the request for a snapshot.
pub(super) enum Outcome {
    /// Taken through the resource of this name.
    Taken { name: String, path: String },
    /// No operator takes snapshots here, for this reason; the resource was deleted again.
    NobodyThere(String),
}

/// State of the resource.
#[derive(Debug, Eq, PartialEq)]
enum Stand {
    Untouched,
    UnderWay(String),
    Completed(String),
    Failed(String),
}

/// Creates the resource, and waits until an operator picks it up and completes it.
pub(super) async fn take(
    connection: &Connection,
    job: &Deployment,
    wanted: &Wanted,
    printer: &Printer,
) -> anyhow::Result<Outcome> {
    let client = &connection.client;
    let resource = resource(job, wanted, Timestamp::now());
    let name = resource.metadata.name.clone().unwrap_or_default();
    let id = ObjectId::of::<FlinkStateSnapshot>(&connection.namespace, &name);
    let mut stored = serde_json::to_value(&resource)?;
    stored["metadata"] = match apply::create(client, &stored, Writer::CLI).await {
        Ok(metadata) => serde_json::to_value(metadata)?,
        Err(error @ (cluster::Error::KindMissing { .. } | cluster::Error::Forbidden { .. })) => {
            return Ok(Outcome::NobodyThere(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    let progress = printer.progress();
    progress.set(format_args!("{name}: waiting for an operator"));
    let started = Instant::now();
    let end = started + wanted.timeout;
    let patience = started + TAKEN_UP_WITHIN.min(wanted.timeout);
    let mut is_taken_up = false;
    let mut last = stored;
    let mut seen = Box::pin(read::watch_value(client, &id));
    loop {
        tokio::select! {
            next = seen.next() => match next {
                Some(Ok(Some(value))) => last = value,
                Some(Ok(None)) => {
                    let message = format!("FlinkStateSnapshot `{name}` was deleted in the meantime");
                    return Err(Failure::new(message).into());
                }
                Some(Err(error)) if error.is_transient() => {}
                Some(Err(error)) => return Err(error.into()),
                None => tokio::time::sleep(Duration::from_millis(100)).await,
            },
            () = sleep_until(patience), if !is_taken_up => {
                if take_back(connection, &id, &last).await? {
                    return Ok(Outcome::NobodyThere(format!(
                        "no operator picked up the snapshot within {}s",
                        TAKEN_UP_WITHIN.as_secs()
                    )));
                }
                is_taken_up = true;
            }
            () = sleep_until(end) => return Err(timed_out(&name, wanted.timeout).into()),
        }
        match stand(&last) {
            Stand::Untouched => {}
            Stand::UnderWay(phase) => {
                is_taken_up = true;
                progress.set(format_args!("{name}: {phase}, {}s", started.elapsed().as_secs()));
            }
            Stand::Completed(path) => return Ok(Outcome::Taken { name, path }),
            Stand::Failed(why) => {
                return Err(Failure::new(format!("FlinkStateSnapshot `{name}` failed: {why}"))
                    .hint(format!("see the job: kubectl flink status {}", job.shown_name()))
                    .into());
            }
        }
    }
}

fn timed_out(name: &str, timeout: Duration) -> Failure {
    Failure::timed_out(format!(
        "FlinkStateSnapshot `{name}` is not complete after {}s",
        timeout.as_secs()
    ))
    .hint("the operator continues with it; see: kubectl flink snapshots")
}

/// Deletes the resource if no operator has changed it since it was read.
async fn take_back(connection: &Connection, id: &ObjectId, seen: &Value) -> anyhow::Result<bool> {
    let text = |path: &str| seen.pointer(path).and_then(Value::as_str);
    let deletion = Deletion {
        uid: text("/metadata/uid"),
        resource_version: text("/metadata/resourceVersion"),
        ..Deletion::with(Propagation::Background)
    };
    match apply::delete(&connection.client, id, deletion).await {
        Ok(_) => Ok(true),
        Err(cluster::Error::Conflict { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn stand(resource: &Value) -> Stand {
    let text =
        |path: &str| resource.pointer(path).and_then(Value::as_str).filter(|text| !text.is_empty());
    let failure = || message_of(text("/status/error").unwrap_or("the operator gives no reason"));
    let is_marked = resource
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .is_some_and(|finalizers| !finalizers.is_empty());
    match text("/status/state") {
        Some("COMPLETED") => match text("/status/path") {
            Some(path) => Stand::Completed(path.to_owned()),
            None => Stand::Failed("it was taken, but Flink does not report its path".to_owned()),
        },
        Some("FAILED" | "ABANDONED") => Stand::Failed(failure()),
        Some("IN_PROGRESS") => Stand::UnderWay("in progress".to_owned()),
        Some(_) | None if text("/status/error").is_some() => Stand::UnderWay(failure()),
        Some(_) | None if is_marked => Stand::UnderWay("picked up".to_owned()),
        Some(_) | None => Stand::Untouched,
    }
}

fn resource(job: &Deployment, wanted: &Wanted, now: Timestamp) -> FlinkStateSnapshot {
    let kind = if wanted.savepoint.is_some() { "savepoint" } else { "checkpoint" };
    let spec = FlinkStateSnapshotSpec {
        job_reference: Some(JobReference {
            kind: Some(job.job_kind()),
            name: Some(job.name().to_owned()),
        }),
        savepoint: wanted.savepoint.map(|format| SavepointSpec {
            path: wanted.path.clone(),
            format_type: Some(format),
            dispose_on_delete: Some(wanted.is_disposed_on_delete),
            already_exists: None,
        }),
        checkpoint: wanted.savepoint.is_none().then_some(CheckpointSpec {}),
        // The user is waiting and decides whether to try again.
        backoff_limit: Some(0),
    };
    let name = format!("{}-{kind}-manual-{}", job.name(), now.as_millisecond());
    let mut resource = FlinkStateSnapshot::new(&name, spec);
    resource.metadata.namespace = Some(job.namespace().to_owned());
    resource
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_operator_shows_by_what_it_does() {
        let finalizers = json!(["flinkstatesnapshots.flink.apache.org/finalizer"]);
        for (resource, expected) in [
            (json!({}), Stand::Untouched),
            (json!({"metadata": {"finalizers": finalizers}}), Stand::UnderWay("picked up".into())),
            (json!({"status": {"state": "IN_PROGRESS"}}), Stand::UnderWay("in progress".into())),
            (
                json!({"status": {"state": "COMPLETED", "path": "s3://b/1"}}),
                Stand::Completed("s3://b/1".into()),
            ),
            (
                json!({"status": {"state": "ABANDONED", "error": "its job is gone"}}),
                Stand::Failed("its job is gone".into()),
            ),
        ] {
            assert_eq!(stand(&resource), expected, "{resource}");
        }
    }
}
