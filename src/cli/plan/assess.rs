//! Derives from the facts what a user wants to know about a change: which state, how old, how long it takes. Pure: the
//! clock is an argument.

use std::collections::HashSet;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::facts::{Facts, Superseded};
use clients::cluster::events::last_seen;
use clients::flink::checkpoints::{Checkpoints, LastState};
use clients::flink::jobs::JobDetails;
use lifecycle::rehearsal::{Outcome, PLANNED_SAVEPOINT};
use state::restore_point::RestorePoint;

/// Maximum plausible downtime of an upgrade, in seconds; a longer one has another cause.
const DOWNTIME_MAX_SECONDS: i64 = 3600;

/// The state that the new job would start from.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Restore {
    /// `savepoint`, `checkpoint`, `last-state` or `none`.
    pub(super) kind: &'static str,
    pub(super) path: Option<String>,
    /// Whether it is a savepoint to be taken when the job is stopped.
    pub(super) is_planned: bool,
    /// `None` if unknown.
    pub(super) age_seconds: Option<i64>,
}

/// Input that would be read again.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Replay {
    pub(super) seconds: i64,
    /// Estimated from the average rate of the sources since the job started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) records: Option<i64>,
}

/// How long the job would not run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Downtime {
    pub(super) seconds: i64,
    /// When that duration was measured.
    pub(super) measured_at: Timestamp,
}

/// Returns the restore point of the rehearsed change.
pub(super) fn restore(outcome: &Outcome, facts: &Facts, now: Timestamp) -> Option<Restore> {
    let age = |at: Timestamp| (now.as_second() - at.as_second()).max(0);
    Some(match outcome.restore.as_ref()? {
        RestorePoint::Empty => {
            Restore { kind: "none", path: None, is_planned: false, age_seconds: None }
        }
        RestorePoint::Path(path) if path.ends_with(PLANNED_SAVEPOINT) => Restore {
            kind: "savepoint",
            path: Some(path.clone()),
            is_planned: true,
            age_seconds: Some(0),
        },
        RestorePoint::Path(path) => Restore {
            kind: if path.contains("/chk-") { "checkpoint" } else { "savepoint" },
            path: Some(path.clone()),
            is_planned: false,
            age_seconds: taken_at(path, facts).map(age),
        },
        RestorePoint::HaMetadata => {
            let (path, at) = latest(facts).unzip();
            Restore {
                kind: "last-state",
                path,
                is_planned: false,
                age_seconds: at.flatten().map(age),
            }
        }
    })
}

/// Returns path and time of the newest state that the running job knows.
fn latest(facts: &Facts) -> Option<(String, Option<Timestamp>)> {
    let Checkpoints::Statistics(statistics) = facts.checkpoints.as_ref()? else { return None };
    let LastState::At(point) = statistics.last_state() else { return None };
    Some((point.path, point.timestamp.and_then(|at| Timestamp::from_millisecond(at).ok())))
}

fn taken_at(path: &str, facts: &Facts) -> Option<Timestamp> {
    let of_job = latest(facts).filter(|(latest, _)| latest == path).and_then(|(_, at)| at);
    let of_revision = || {
        let mut revisions = facts.revisions.iter().rev();
        revisions.find(|revision| revision.path.as_deref() == Some(path)).map(|it| it.at)
    };
    of_job.or_else(of_revision)
}

/// Returns the work of a running job after its restore point. `None` if the job takes a savepoint when it stops, or if
/// there is no state to restore.
pub(super) fn replay(
    outcome: &Outcome,
    restore: Option<&Restore>,
    details: Option<&JobDetails>,
    now: Timestamp,
) -> Option<Replay> {
    let restore = restore.filter(|restore| !restore.is_planned && outcome.stops_job)?;
    let seconds = restore.age_seconds?;
    let rate = details.and_then(|details| source_rate(details, now));
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "an estimate needs no single record"
    )]
    let records = rate.map(|rate| (rate * seconds as f64).round() as i64);
    Some(Replay { seconds, records })
}

/// Returns the average number of records per second that the sources emitted since the job started.
#[allow(clippy::cast_precision_loss, reason = "an average needs no single record")]
fn source_rate(details: &JobDetails, now: Timestamp) -> Option<f64> {
    let started = details.start_time?;
    let seconds = (now.as_millisecond().saturating_sub(started)) as f64 / 1000.0;
    let sources = details.plan.nodes.iter().filter(|node| node.inputs.is_empty());
    let sources: HashSet<&str> = sources.map(|node| node.id.as_str()).collect();
    let records: i64 = details
        .vertices
        .iter()
        .filter(|vertex| sources.contains(vertex.id.as_str()))
        .filter_map(|vertex| vertex.metrics.get("write-records").and_then(Value::as_i64))
        .sum();
    (seconds >= 1.0 && records > 0).then(|| records as f64 / seconds)
}

/// Returns how long the last stop and start took: from the event of the stop to that of the running job, else from the
/// revision created by the stop to the start of the job.
pub(super) fn downtime(
    events: &[Event],
    revisions: &[Superseded],
    job_started: Option<Timestamp>,
) -> Option<Downtime> {
    let of = |is_it: &dyn Fn(&Event) -> bool| {
        events.iter().filter(|event| is_it(event)).filter_map(last_seen).max()
    };
    let stopped = of(&|event| event.reason.as_deref() == Some("Suspended"));
    let runs = of(&|event| {
        event.reason.as_deref() == Some("JobStatusChanged")
            && event.message.as_deref().is_some_and(|message| message.ends_with("to RUNNING"))
    });
    let between = |from: Option<Timestamp>, to: Option<Timestamp>| {
        let (from, to) = (from?, to?);
        let seconds = to.as_second() - from.as_second();
        (0..=DOWNTIME_MAX_SECONDS)
            .contains(&seconds)
            .then_some(Downtime { seconds, measured_at: to })
    };
    between(stopped, runs)
        .or_else(|| between(revisions.last().map(|revision| revision.at), job_started))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn event(reason: &str, message: &str, time: &str) -> Event {
        serde_json::from_value(json!({
            "metadata": {}, "involvedObject": {}, "reason": reason, "message": message,
            "lastTimestamp": time,
        }))
        .unwrap()
    }

    fn stopping(restore: RestorePoint) -> Outcome {
        Outcome { restore: Some(restore), stops_job: true, ..Outcome::default() }
    }

    fn statistics(path: &str, at: Timestamp) -> Checkpoints {
        let body = json!({"latest": {"completed": {"id": 7, "status": "COMPLETED",
            "external_path": path, "trigger_timestamp": at.as_millisecond()}}});
        Checkpoints::Statistics(Box::new(serde_json::from_value(body).unwrap()))
    }

    /// A job that has read 1,000 records in the ten minutes since it started.
    fn job() -> JobDetails {
        serde_json::from_value(json!({
            "jid": "j", "state": "RUNNING", "start-time": at("2026-01-01T00:00:00Z").as_millisecond(),
            "vertices": [
                {"id": "a", "metrics": {"write-records": 60_000}},
                {"id": "b", "metrics": {"write-records": 5}},
            ],
            "plan": {"nodes": [{"id": "a"}, {"id": "b", "inputs": [{"id": "a"}]}]},
        }))
        .unwrap()
    }

    #[test]
    fn what_came_after_the_checkpoint_is_read_again() {
        let now = at("2026-01-01T00:10:00Z");
        let path = "s3://b/j/chk-7";
        let facts = Facts {
            checkpoints: Some(statistics(path, at("2026-01-01T00:09:30Z"))),
            ..Facts::default()
        };
        let outcome = stopping(RestorePoint::HaMetadata);
        let found = restore(&outcome, &facts, now).unwrap();
        assert_eq!(
            (found.kind, found.path.as_deref(), found.age_seconds),
            ("last-state", Some(path), Some(30))
        );
        let replay = replay(&outcome, Some(&found), Some(&job()), now).unwrap();
        assert_eq!(replay, Replay { seconds: 30, records: Some(3000) });
    }

    #[test]
    fn a_savepoint_of_the_stop_leaves_nothing_to_read_again() {
        let now = at("2026-01-01T00:10:00Z");
        let outcome = stopping(RestorePoint::Path(format!("s3://b/{PLANNED_SAVEPOINT}")));
        let found = restore(&outcome, &Facts::default(), now);
        assert!(found.as_ref().unwrap().is_planned);
        assert_eq!(replay(&outcome, found.as_ref(), Some(&job()), now), None);
    }

    #[test]
    fn an_old_savepoint_is_as_old_as_the_revision_that_names_it() {
        let revision =
            Superseded { at: at("2026-01-01T00:00:00Z"), path: Some("s3://b/sp".into()) };
        let facts = Facts { revisions: vec![revision], ..Facts::default() };
        let outcome = Outcome {
            restore: Some(RestorePoint::Path("s3://b/sp".to_owned())),
            ..Outcome::default()
        };
        let found = restore(&outcome, &facts, at("2026-01-02T00:00:00Z")).unwrap();
        assert_eq!(found.age_seconds, Some(86_400));
    }

    #[test]
    fn the_last_stop_says_how_long_the_next_takes() {
        let events = [
            event("Suspended", "Suspending existing deployment.", "2026-01-01T00:00:00Z"),
            event(
                "JobStatusChanged",
                "Job status changed from CREATED to RUNNING",
                "2026-01-01T00:00:42Z",
            ),
            event(
                "JobStatusChanged",
                "Job status changed from RUNNING to FINISHED",
                "2026-01-01T00:00:03Z",
            ),
        ];
        let seconds = |events: &[Event], revisions: &[Superseded], started| {
            downtime(events, revisions, started).map(|downtime| downtime.seconds)
        };
        assert_eq!(seconds(&events, &[], None), Some(42));
        // The event of a start before the stop must not be used.
        let revisions = [Superseded { at: at("2026-01-01T00:00:00Z"), path: None }];
        assert_eq!(seconds(&events[..1], &revisions, Some(at("2026-01-01T00:00:50Z"))), Some(50));
        assert_eq!(seconds(&[], &revisions, Some(at("2026-01-03T00:00:00Z"))), None);
        assert_eq!(seconds(&[], &[], None), None);
    }
}
