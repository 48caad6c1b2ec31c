//! Facts that a plan is based on, read concurrently; nothing is written.
//!
//! History, events and statistics show what to expect. None of them is required: what cannot be read is left out of the
//! plan and reported.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Event;
use serde_json::Value;

use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::job_manager;
use crate::cli::lookup;
use clients::cluster::{self, events};
use clients::flink::access::Access;
use clients::flink::checkpoints::Checkpoints;
use clients::flink::jobs::JobDetails;
use clients::flink::{self, Deadlines};
use state::revision;

/// How long to wait for the JobManager, as a user is waiting; what it does not answer in time is left out.
const PATIENCE: Duration = Duration::from_secs(5);

/// Facts about the existing resource.
#[derive(Default)]
pub(super) struct Facts {
    /// Events about the resource.
    pub(super) events: Vec<Event>,
    /// When each revision was written, and the path it starts from; oldest first.
    pub(super) revisions: Vec<Superseded>,
    pub(super) details: Option<JobDetails>,
    pub(super) checkpoints: Option<Checkpoints>,
    /// Facts that could not be read, and why.
    pub(super) unread: Vec<String>,
}

/// A revision, which marks the end of a spec.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Superseded {
    pub(super) at: Timestamp,
    pub(super) path: Option<String>,
}

/// Reads the facts about `present`.
pub(super) async fn observe(
    connection: &Connection,
    present: &Deployment,
    access: Access,
) -> Facts {
    let (client, namespace) = (&connection.client, present.namespace());
    let selector = revision::label_selector(&present.history_name());
    let scope = cluster::read::Scope::Namespace(namespace);
    let kind = present.id().kind;
    let (events, revisions, flink) = tokio::join!(
        events::about(client, namespace, &kind, present.name()),
        cluster::read::list::<ControllerRevision>(client, scope, Some(&selector)),
        observe_flink(connection, present, access),
    );
    let mut facts = Facts::default();
    match events {
        // Events of a deleted resource with the same name are still listed.
        Ok(events) => {
            facts.events = events.into_iter().filter(|it| is_about(it, present)).collect();
        }
        Err(error) => facts.unread.push(format!("events: {error}")),
    }
    match revisions {
        Ok(revisions) => {
            facts.revisions = revisions.into_iter().filter_map(superseded).collect();
            facts.revisions.sort_by_key(|revision| revision.at);
        }
        Err(error) => facts.unread.push(format!("revisions: {error}")),
    }
    match flink {
        Ok(Some((details, checkpoints))) => {
            match details {
                Ok(details) => facts.details = Some(details),
                Err(error) => facts.unread.push(format!("the job: {error}")),
            }
            match checkpoints {
                Ok(checkpoints) => facts.checkpoints = Some(checkpoints),
                Err(error) => facts.unread.push(format!("checkpoint statistics: {error}")),
            }
        }
        Ok(None) => {}
        Err(error) => facts.unread.push(format!("the JobManager: {error:#}")),
    }
    facts
}

fn superseded(revision: ControllerRevision) -> Option<Superseded> {
    let at = revision.metadata.creation_timestamp?.0;
    let path = revision.data.0.pointer("/restorePoint/path");
    Some(Superseded { at, path: path.and_then(Value::as_str).map(str::to_owned) })
}

type OfJob = (Result<JobDetails, flink::Error>, Result<Checkpoints, flink::Error>);

/// Returns `None` if there is no job to ask about.
async fn observe_flink(
    connection: &Connection,
    present: &Deployment,
    access: Access,
) -> anyhow::Result<Option<OfJob>> {
    let Some(job_id) = present.job_id() else { return Ok(None) };
    let cluster = lookup::cluster_of(connection, present).await?;
    if cluster.job_manager_status() != Some("READY") {
        return Ok(None);
    }
    let deadlines = Deadlines { request: PATIENCE, ..Deadlines::default() };
    let client = job_manager::client(connection, &cluster, access, deadlines)?.without_retries();
    let (details, checkpoints) =
        tokio::join!(client.job(job_id), client.current_checkpoints(job_id));
    Ok(Some((details, checkpoints)))
}

/// Returns whether the event is about this resource; an event without a uid may be.
fn is_about(event: &Event, present: &Deployment) -> bool {
    let of = event.involved_object.uid.as_deref();
    of.is_none_or(|of| present.uid().is_none_or(|uid| uid == of))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_a_namesake_that_was_deleted_count_for_nothing() {
        let present = Deployment(json!({"metadata": {"name": "orders", "uid": "2"}}));
        let event = |of| {
            let event = json!({"metadata": {}, "involvedObject": {"name": "orders", "uid": of}});
            serde_json::from_value::<Event>(event).unwrap()
        };
        let about = [json!("1"), json!("2"), json!(null)].map(|of| is_about(&event(of), &present));
        assert_eq!(about, [false, true, true]);
    }
}
