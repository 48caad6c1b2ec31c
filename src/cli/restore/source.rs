//! Sources that `--from` can name: a path, a snapshot or a revision.

use jiff::Timestamp;

use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::failure::Failure;
use api::state_snapshot::{FlinkStateSnapshot, JobKind, SnapshotState};
use clients::artifact::storage;
use clients::cluster::{read, revisions};
use lifecycle::error_document::message_of;
use state::revision::{RestoreKind, Revision};

/// Prefixes that mark a snapshot, whatever its name looks like.
const SNAPSHOT: [&str; 4] =
    ["snapshot/", "flinksnp/", "flinkstatesnapshot/", "flinkstatesnapshot.flink.apache.org/"];

/// A state to start from.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Source {
    pub(super) path: String,
    /// Description for people.
    pub(super) what: String,
    pub(super) taken_at: Option<Timestamp>,
    /// The resource whose state it is, if known.
    pub(super) of: Option<String>,
}

/// The kind of source, derived from the form of its name.
#[derive(Debug, Eq, PartialEq)]
enum Meant<'a> {
    Path(&'a str),
    Revision(i64),
    Snapshot(&'a str),
}

fn meant(from: &str) -> Meant<'_> {
    if let Some(name) = SNAPSHOT.iter().find_map(|prefix| from.strip_prefix(prefix)) {
        return Meant::Snapshot(name);
    }
    if let Ok(number) = from.strip_prefix("revision/").unwrap_or(from).parse() {
        return Meant::Revision(number);
    }
    if from.contains('/') || from.contains(':') { Meant::Path(from) } else { Meant::Snapshot(from) }
}

/// Finds the state to start from.
pub(super) async fn find(
    connection: &Connection,
    present: &Deployment,
    from: &str,
) -> anyhow::Result<Source> {
    match meant(from) {
        Meant::Path(path) => Ok(Source {
            path: path.to_owned(),
            what: format!("`{}`", storage::shown(path)),
            taken_at: None,
            of: None,
        }),
        Meant::Revision(number) => {
            let (namespace, history) = (&connection.namespace, present.history_name());
            let all = revisions::list(&connection.client, namespace, &history).await?;
            Ok(of_revision(present, &all, number)?)
        }
        Meant::Snapshot(name) => snapshot(connection, name).await,
    }
}

/// Returns the state of a snapshot.
pub(super) async fn snapshot(connection: &Connection, name: &str) -> anyhow::Result<Source> {
    let namespace = &connection.namespace;
    let found = read::get::<FlinkStateSnapshot>(&connection.client, namespace, name).await?;
    let found = found.ok_or_else(|| {
        Failure::new(format!("no FlinkStateSnapshot `{name}` in namespace `{namespace}`"))
            .hint("list them: kubectl flink snapshots")
            .hint("a path contains a slash or a colon, a revision is a number")
    })?;
    Ok(of_snapshot(&found, name)?)
}

fn of_revision(present: &Deployment, all: &[Revision], number: i64) -> Result<Source, Failure> {
    let name = present.shown_name();
    let hint = format!("list them: kubectl flink history {name}");
    let Some(revision) = all.iter().find(|revision| revision.number == number) else {
        return Err(Failure::new(format!("`{name}` has no revision {number}")).hint(hint));
    };
    let point = &revision.content.restore_point;
    match (&point.kind, &point.path) {
        (RestoreKind::Savepoint | RestoreKind::Checkpoint, Some(path)) => Ok(Source {
            path: path.clone(),
            what: format!(
                "the {} that revision {number} left, `{}`",
                point.kind.into_str(),
                storage::shown(path)
            ),
            // The recorded time is when the spec took effect, not when its state was written.
            taken_at: None,
            of: Some(name),
        }),
        (RestoreKind::None, _) => {
            Err(Failure::new(format!("revision {number} of `{name}` left no state")).hint(hint))
        }
        (RestoreKind::LastState | RestoreKind::Savepoint | RestoreKind::Checkpoint, _) => {
            Err(Failure::new(format!(
                "the path of the state that revision {number} of `{name}` left is not on record: it was the \
                 last checkpoint, which only the HA metadata pointed to"
            ))
            .hint(hint))
        }
    }
}

fn of_snapshot(snapshot: &FlinkStateSnapshot, name: &str) -> Result<Source, Failure> {
    let refused = |why: String| {
        Failure::new(format!("FlinkStateSnapshot `{name}` cannot be restored: {why}"))
            .hint("list snapshots: kubectl flink snapshots")
    };
    let status = snapshot.status.clone().unwrap_or_default();
    if snapshot.metadata.deletion_timestamp.is_some() {
        return Err(refused("it is being deleted, and its savepoint may go with it".to_owned()));
    }
    if status.state != SnapshotState::Completed {
        let error = status.error.as_deref().map(message_of);
        let error = error.map_or_else(String::new, |error| format!(": {error}"));
        return Err(refused(format!("it is {}{error}", status.state.into_str())));
    }
    let Some(path) = status.path.filter(|path| !path.is_empty()) else {
        return Err(refused("its path is not known".to_owned()));
    };
    let of = snapshot.spec.job_reference.as_ref().and_then(|reference| {
        let name = reference.name.as_deref()?;
        let is_session_job = reference.kind == Some(JobKind::FlinkSessionJob);
        Some(if is_session_job { format!("sessionjob/{name}") } else { name.to_owned() })
    });
    let taken_at = status.result_timestamp.as_deref().and_then(|text| text.parse().ok());
    Ok(Source { path, what: format!("FlinkStateSnapshot `{name}`"), taken_at, of })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_form_says_what_is_meant() {
        for (from, expected) in [
            ("3", Meant::Revision(3)),
            ("revision/3", Meant::Revision(3)),
            ("snapshot/3", Meant::Snapshot("3")),
            ("orders-1", Meant::Snapshot("orders-1")),
            ("s3://b/savepoint-1", Meant::Path("s3://b/savepoint-1")),
            ("/flink/savepoint-1", Meant::Path("/flink/savepoint-1")),
            ("file:/flink/1", Meant::Path("file:/flink/1")),
        ] {
            assert_eq!(meant(from), expected, "{from}");
        }
    }

    fn snapshot(metadata: Value, status: Value) -> FlinkStateSnapshot {
        let kind = "FlinkStateSnapshot";
        serde_json::from_value(json!({"apiVersion": "flink.apache.org/v1beta1", "kind": kind, "metadata": metadata,
            "spec": {"jobReference": {"kind": "FlinkDeployment", "name": "orders"}, "savepoint": {}}, "status": status}))
        .unwrap()
    }

    #[test]
    fn only_a_snapshot_that_is_complete_and_stays_is_restored() {
        let done = json!({"state": "COMPLETED", "path": "s3://b/1", "resultTimestamp": "2026-01-01T00:00:00Z"});
        let source = of_snapshot(&snapshot(json!({}), done.clone()), "x").unwrap();
        assert_eq!((source.path.as_str(), source.of.as_deref()), ("s3://b/1", Some("orders")));
        assert_eq!(source.taken_at, "2026-01-01T00:00:00Z".parse().ok());
        let refused = |metadata, status| {
            of_snapshot(&snapshot(metadata, status), "x").unwrap_err().to_string()
        };
        let going = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        assert!(refused(going, done).contains("being deleted"));
        let failed = json!({"state": "FAILED", "error": "disk full"});
        assert!(refused(json!({}), failed).ends_with("it is FAILED: disk full"));
        assert!(refused(json!({}), json!({"state": "COMPLETED"})).contains("not known"));
    }

    #[test]
    fn only_a_revision_whose_state_is_on_record_is_restored() {
        let revision = |number, point: Value| Revision {
            number,
            content: serde_json::from_value(json!({"spec": {}, "restorePoint": point,
                "reconciledAt": "2026-01-01T00:00:00Z"}))
            .unwrap(),
        };
        let all = [
            revision(
                1,
                json!({"kind": "savepoint", "path": "s3://b/1", "upgradeMode": "savepoint"}),
            ),
            revision(2, json!({"kind": "none", "upgradeMode": "stateless"})),
            revision(3, json!({"kind": "last-state", "upgradeMode": "last-state"})),
        ];
        let present = Deployment(json!({"metadata": {"name": "orders"}, "spec": {"job": {}}}));
        let found = |number| of_revision(&present, &all, number).map_err(|it| it.to_string());
        assert_eq!(found(1).unwrap().path, "s3://b/1");
        assert_eq!(found(2).unwrap_err(), "revision 2 of `orders` left no state");
        assert!(found(3).unwrap_err().contains("not on record"));
        assert_eq!(found(4).unwrap_err(), "`orders` has no revision 4");
    }
}
