//! The history of a resource: revisions, snapshots, events and conditions, as the commands read them.

use jiff::Timestamp;
use serde_json::Value;

use crate::cli::connection::Connection;
use crate::cli::deployment::Deployment;
use crate::cli::events::{self, Line};
use crate::cli::history::{self, Entry};
use crate::cli::lookup;
use crate::cli::status;
use api::state_snapshot::FlinkStateSnapshot;
use clients::cluster::read::{self, Scope};
use config::secret;
use console::action::Action;
use console::resource::{Life, Moment, Next, Part};
use console::row::Tone;

use super::resource::Subject;

/// Reads the history, each source independently.
pub(super) async fn of(subject: &Subject) -> Life {
    let Subject { object, connection, .. } = subject;
    let (revisions, snapshots, events) = tokio::join!(
        subject.within(revisions(connection, object)),
        subject.within(snapshots(connection, object)),
        subject.within(async {
            let lines = events::lines(connection, object).await?;
            anyhow::Ok(lines.into_iter().filter_map(event).collect())
        }),
    );
    let mut unread = Vec::new();
    let mut moments = own(object);
    let parts: [(&str, Part<Vec<Moment>>); 3] =
        [("revisions", revisions), ("snapshots", snapshots), ("events", events)];
    for (what, part) in parts {
        match part {
            Ok(part) => moments.extend(part),
            Err(why) => unread.push(format!("{what}: {why}")),
        }
    }
    Life::new(moments, unread)
}

/// Returns what the object itself records: its creation, its conditions, and the savepoints in its status.
fn own(object: &Deployment) -> Vec<Moment> {
    let status =
        |path: &str| object.0.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let created = object.created_at().map(|at| Moment {
        at: at.as_second(),
        tone: Tone::Quiet,
        source: "resource",
        title: "Created".to_owned(),
        text: String::new(),
        next: None,
        is_routine: false,
    });
    let conditions = status("/status/conditions").filter_map(|it| {
        let at: Timestamp = it["lastTransitionTime"].as_str()?.parse().ok()?;
        let (kind, value) = (it["type"].as_str()?, it["status"].as_str()?);
        let text = |name: &str| it[name].as_str().unwrap_or_default();
        Some(Moment {
            at: at.as_second(),
            tone: Tone::Quiet,
            source: "condition",
            title: format!("{kind} {value}"),
            text: secret::hide_in(&format!("{} {}", text("reason"), text("message"))),
            next: None,
            is_routine: false,
        })
    });
    let savepoints = status("/status/jobStatus/savepointInfo/savepointHistory").filter_map(|it| {
        Some(Moment {
            at: it["timeStamp"].as_i64()? / 1000,
            tone: Tone::Good,
            source: "savepoint",
            title: "Savepoint".to_owned(),
            text: it["location"].as_str()?.to_owned(),
            next: Some(restore_from(it["location"].as_str()?)),
            is_routine: false,
        })
    });
    created.into_iter().chain(conditions).chain(savepoints).collect()
}

async fn revisions(connection: &Connection, object: &Deployment) -> anyhow::Result<Vec<Moment>> {
    // Both colours share one history.
    let Some(present) = lookup::serving(connection, object).await? else {
        return Ok(Vec::new());
    };
    let entries = history::entries(connection, &present).await?;
    Ok(entries.into_iter().filter_map(revision).collect())
}

fn revision(entry: Entry) -> Option<Moment> {
    let Entry { revision, reconciled_at, restore_point, spec } = entry;
    let text = |path: &str, name: &str| match spec.pointer(path)? {
        Value::Null => None,
        Value::String(text) => Some(format!("{name} {text}")),
        other => Some(format!("{name} {other}")),
    };
    let left = restore_point.map(|point| format!("left: {}", history::restore_point(&point)));
    let facts = [
        text("/image", "image"),
        text("/job/parallelism", "parallelism"),
        text("/job/upgradeMode", "upgrade mode"),
        left,
    ];
    Some(Moment {
        at: reconciled_at?.as_second(),
        tone: Tone::Good,
        source: "revision",
        title: revision.map_or_else(|| "Current spec".to_owned(), |it| format!("Revision {it}")),
        text: facts.into_iter().flatten().collect::<Vec<_>>().join(", "),
        next: revision.map(|it| Next { action: Action::Rollback, value: it.to_string() }),
        is_routine: false,
    })
}

async fn snapshots(connection: &Connection, object: &Deployment) -> anyhow::Result<Vec<Moment>> {
    let scope = Scope::Namespace(&connection.namespace);
    let listed = read::list_values::<FlinkStateSnapshot>(&connection.client, scope, None).await;
    let all = read::or_none::<FlinkStateSnapshot, _>(&connection.client, listed).await?;
    let mut jobs = lookup::with_colours(connection, object).await?;
    jobs.retain(|it| !it.is_blue_green());
    let own = jobs.iter().flat_map(|job| status::facts::of_job(all.clone(), job));
    Ok(own.filter_map(|it| snapshot(&it)).collect())
}

fn snapshot(snapshot: &Value) -> Option<Moment> {
    let text = |path: &str| snapshot.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let at: Timestamp = text("/metadata/creationTimestamp").parse().ok()?;
    let is_savepoint = snapshot.pointer("/spec/savepoint").is_some_and(|it| !it.is_null());
    let state = text("/status/state");
    Some(Moment {
        at: at.as_second(),
        tone: match state {
            "COMPLETED" => Tone::Good,
            "FAILED" | "ABANDONED" => Tone::Bad,
            _ => Tone::Moving,
        },
        source: if is_savepoint { "savepoint" } else { "checkpoint" },
        title: format!("{} {state}", text("/metadata/name")),
        text: secret::hide_in(&format!("{} {}", text("/status/path"), text("/status/error"))),
        next: (state == "COMPLETED").then(|| restore_from(text("/metadata/name"))),
        is_routine: false,
    })
}

fn restore_from(state: &str) -> Next {
    Next { action: Action::Restore, value: state.to_owned() }
}

fn event(line: Line) -> Option<Moment> {
    let Line { last_seen, event_type, reason, object, count, message } = line;
    let times = if count > 1 { format!(" ({count} times)") } else { String::new() };
    Some(Moment {
        at: last_seen?.as_second(),
        tone: if event_type == "Warning" { Tone::Bad } else { Tone::Quiet },
        source: "event",
        title: reason,
        is_routine: event_type != "Warning" && !object.starts_with("Flink"),
        text: format!("{object}: {message}{times}"),
        next: None,
    })
}
