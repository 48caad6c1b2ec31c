//! Snapshots that nothing needs any more, and which of them may be removed.
//!
//! A resource's savepoint is removed with it if the resource says so. Nothing is removed that anything still refers to,
//! and the newest of each job stay, because they may be the only way back to its state. The operator checks for
//! references once more before it disposes of a savepoint.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use crate::references::Referrers;
use api::STATE_SNAPSHOT_FINALIZER;
use api::state_snapshot::{FlinkStateSnapshot, JobKind, SnapshotState};

/// Limits on what may be removed.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub now: Timestamp,
    /// Younger snapshots are left alone.
    pub age_min: Duration,
    /// Number of newest completed snapshots of each job and kind that stay.
    pub keep: usize,
    /// Also remove those whose savepoint would stay when they are deleted, together with it.
    pub includes_kept: bool,
}

/// Facts that are known besides the snapshots of a namespace.
pub struct Facts<'a> {
    pub referrers: Referrers<'a>,
    /// Jobs, as [`job_of`] names them, that do not restore with `NO_CLAIM`: they may use the files of
    /// a savepoint although nothing names it any more.
    pub claimers: BTreeSet<String>,
}

/// What is lost when a resource is removed.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Loss {
    /// The savepoint.
    Savepoint,
    /// Only its record.
    Record,
}

/// A snapshot that is old and not among the newest.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub namespace: String,
    pub name: String,
    #[serde(skip)]
    pub uid: String,
    /// Such as `orders` or `sessionjob/orders`.
    pub job: Option<String>,
    pub path: Option<String>,
    pub taken: Timestamp,
    pub loss: Loss,
    /// Whether it may be removed; otherwise it is only reported.
    pub is_removable: bool,
    pub why: String,
}

/// Returns the job of a snapshot, such as `orders` or `sessionjob/orders`.
pub fn job_of(snapshot: &FlinkStateSnapshot) -> Option<String> {
    let reference = snapshot.spec.job_reference.as_ref()?;
    let name = reference.name.as_deref()?;
    let is_session_job = reference.kind == Some(JobKind::FlinkSessionJob);
    Some(if is_session_job { format!("sessionjob/{name}") } else { name.to_owned() })
}

/// Returns what may be removed, and what is only reported, oldest first.
pub fn garbage(snapshots: &[FlinkStateSnapshot], facts: &Facts<'_>, rules: &Rules) -> Vec<Finding> {
    let newest = newest(snapshots, rules.keep);
    let mut findings: Vec<Finding> =
        snapshots.iter().filter_map(|it| judge(it, &newest, facts, rules)).collect();
    findings.sort_by(|one, other| (one.taken, &one.name).cmp(&(other.taken, &other.name)));
    findings
}

/// Returns the uids of the newest completed snapshots of each job: this many savepoints, and this many checkpoints.
fn newest(snapshots: &[FlinkStateSnapshot], keep: usize) -> BTreeSet<String> {
    let mut of_jobs = BTreeMap::<_, Vec<(Timestamp, String)>>::new();
    for snapshot in snapshots {
        let state = snapshot.status.as_ref().map(|status| status.state);
        let is_going = snapshot.metadata.deletion_timestamp.is_some();
        if state == Some(SnapshotState::Completed)
            && !is_going
            && let (Some(taken), Some(uid)) = (taken(snapshot), snapshot.metadata.uid.clone())
        {
            let key = (job_of(snapshot), snapshot.spec.savepoint.is_some());
            of_jobs.entry(key).or_default().push((taken, uid));
        }
    }
    let each = of_jobs.into_values().flat_map(|mut all| {
        all.sort_by(|one, other| other.cmp(one));
        all.into_iter().take(keep).map(|(_, uid)| uid)
    });
    each.collect()
}

fn taken(snapshot: &FlinkStateSnapshot) -> Option<Timestamp> {
    snapshot.metadata.creation_timestamp.as_ref().map(|at| at.0)
}

fn judge(
    snapshot: &FlinkStateSnapshot,
    newest: &BTreeSet<String>,
    facts: &Facts<'_>,
    rules: &Rules,
) -> Option<Finding> {
    let metadata = &snapshot.metadata;
    let (taken, uid) = (taken(snapshot)?, metadata.uid.clone()?);
    let age = rules.now.duration_since(taken);
    let is_old = SignedDuration::try_from(rules.age_min).is_ok_and(|min| age >= min);
    let status = snapshot.status.as_ref()?;
    let is_retained = newest.contains(&uid);
    if metadata.deletion_timestamp.is_some() || !is_old || !status.state.is_final() || is_retained {
        return None;
    }
    let job = job_of(snapshot);
    let path = status.path.clone().filter(|path| !path.is_empty());
    let (loss, verdict) = match &path {
        None => (Loss::Record, Ok(format!("it is {} and left no state", status.state.into_str()))),
        Some(path) => fate(snapshot, path, &uid, job.as_deref(), facts, rules),
    };
    let (is_removable, why) = match verdict {
        Ok(why) => (true, why),
        Err(why) => (false, why),
    };
    Some(Finding {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid,
        job,
        path,
        taken,
        loss,
        is_removable,
        why,
    })
}

/// Decides what is removed with a snapshot that has state, and why it may be removed or must stay.
fn fate(
    snapshot: &FlinkStateSnapshot,
    path: &str,
    uid: &str,
    job: Option<&str>,
    facts: &Facts<'_>,
    rules: &Rules,
) -> (Loss, Result<String, String>) {
    let loss = if snapshot.spec.savepoint.is_some() { Loss::Savepoint } else { Loss::Record };
    let referrers = facts.referrers.of(path, Some(uid));
    if !referrers.is_empty() {
        return (loss, Err(format!("it could be needed by {}", referrers.join(", "))));
    }
    let Some(savepoint) = &snapshot.spec.savepoint else {
        return (loss, Ok("nothing refers to it; the checkpoint is Flink's to delete".to_owned()));
    };
    if savepoint.already_exists == Some(true) {
        let why = "its savepoint existed before it, and may belong to somebody else";
        return (loss, Err(why.to_owned()));
    }
    if let Some(job) = job.filter(|job| facts.claimers.contains(*job)) {
        return (
            loss,
            Err(format!("`{job}` does not restore with NO_CLAIM, so it may use its files")),
        );
    }
    let finalizers = snapshot.metadata.finalizers.as_deref().unwrap_or_default();
    if !finalizers.iter().any(|finalizer| finalizer == STATE_SNAPSHOT_FINALIZER) {
        let why = "no operator manages it, so its savepoint would stay";
        return (loss, Err(why.to_owned()));
    }
    if savepoint.dispose_on_delete == Some(false) && !rules.includes_kept {
        let why = "nothing refers to it, but disposeOnDelete is false: use --include-kept";
        return (loss, Err(why.to_owned()));
    }
    (loss, Ok("nothing refers to it".to_owned()))
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use serde_json::{Value, json};

    use super::*;
    use api::deployment::FlinkDeployment;

    /// Returns a savepoint of `orders` that was taken on that day of January and may be removed.
    fn savepoint(day: u8) -> Value {
        json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot",
            "metadata": {"name": format!("orders-{day}"), "namespace": "shop", "uid": format!("u-{day}"),
                "creationTimestamp": format!("2026-01-{day:02}T00:00:00Z"),
                "finalizers": [STATE_SNAPSHOT_FINALIZER]},
            "spec": {"jobReference": {"kind": "FlinkDeployment", "name": "orders"},
                "savepoint": {"disposeOnDelete": true}},
            "status": {"state": "COMPLETED", "path": format!("s3://lake/sp/{day}")}})
    }

    fn with(day: u8, pointer: &str, value: Value) -> Value {
        let mut snapshot = savepoint(day);
        *snapshot.pointer_mut(pointer).unwrap() = value;
        snapshot
    }

    fn rules() -> Rules {
        Rules {
            now: "2026-01-31T00:00:00Z".parse().unwrap(),
            age_min: Duration::from_hours(168),
            keep: 0,
            includes_kept: false,
        }
    }

    fn judged(snapshots: Vec<Value>, rules: &Rules, claimers: &[&str]) -> Vec<Finding> {
        let snapshots: Vec<FlinkStateSnapshot> =
            snapshots.into_iter().map(|it| serde_json::from_value(it).unwrap()).collect();
        let user: FlinkDeployment = serde_json::from_value(json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
            "metadata": {"name": "orders", "namespace": "shop"},
            "spec": {"job": {"initialSavepointPath": "s3://lake/sp/3/"}}}))
        .unwrap();
        let facts = Facts {
            referrers: Referrers {
                namespace: "shop",
                deployments: vec![&user],
                session_jobs: vec![],
                revisions: &[],
                snapshots: snapshots.iter().collect(),
                unread: &[],
            },
            claimers: claimers.iter().map(|it| (*it).to_owned()).collect(),
        };
        garbage(&snapshots, &facts, rules)
    }

    #[track_caller]
    fn check(snapshots: Vec<Value>, rules: &Rules, expected: Expect) {
        let line = |it: &Finding| {
            let action = if it.is_removable { "remove" } else { "keep" };
            format!("{} {action} {:?}: {}", it.name, it.loss, it.why)
        };
        let lines: Vec<String> = judged(snapshots, rules, &[]).iter().map(line).collect();
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_savepoint_goes_when_it_is_old_and_nothing_refers_to_it() {
        check(
            vec![savepoint(30), savepoint(3), savepoint(2), savepoint(1)],
            &rules(),
            expect![[r#"
                orders-1 remove Savepoint: nothing refers to it
                orders-2 remove Savepoint: nothing refers to it
                orders-3 keep Savepoint: it could be needed by FlinkDeployment `orders` (spec.job.initialSavepointPath)"#]],
        );
    }

    #[test]
    fn the_newest_of_each_job_stay() {
        let mut clicks = with(5, "/spec/jobReference/name", json!("clicks"));
        clicks["metadata"]["name"] = json!("clicks-5");
        let rules = Rules { keep: 2, ..rules() };
        check(
            vec![savepoint(4), savepoint(2), savepoint(1), clicks],
            &rules,
            expect!["orders-1 remove Savepoint: nothing refers to it"],
        );
        // A failed one is no way back, so it takes no other's place.
        let failed = with(9, "/status", json!({"state": "FAILED", "error": "no space"}));
        check(
            vec![savepoint(4), savepoint(2), failed],
            &rules,
            expect!["orders-9 remove Record: it is FAILED and left no state"],
        );
    }

    #[test]
    fn what_may_be_of_use_to_somebody_stays_and_is_reported() {
        let mut existing = savepoint(1);
        existing["spec"]["savepoint"] = json!({"alreadyExists": true, "path": "s3://lake/sp/1"});
        let mut checkpoint = savepoint(4);
        checkpoint["spec"] = json!({"jobReference": {"kind": "FlinkDeployment", "name": "orders"}, "checkpoint": {}});
        check(
            vec![
                existing,
                with(2, "/metadata/finalizers", json!([])),
                checkpoint,
                with(5, "/spec/savepoint/disposeOnDelete", json!(false)),
                with(6, "/status", json!({"state": "IN_PROGRESS"})),
            ],
            &rules(),
            expect![[r#"
                orders-1 keep Savepoint: its savepoint existed before it, and may belong to somebody else
                orders-2 keep Savepoint: no operator manages it, so its savepoint would stay
                orders-4 remove Record: nothing refers to it; the checkpoint is Flink's to delete
                orders-5 keep Savepoint: nothing refers to it, but disposeOnDelete is false: use --include-kept"#]],
        );
        let kept = with(5, "/spec/savepoint/disposeOnDelete", json!(false));
        let all = Rules { includes_kept: true, ..rules() };
        check(vec![kept], &all, expect!["orders-5 remove Savepoint: nothing refers to it"]);
        let claimed = judged(vec![savepoint(1)], &rules(), &["orders"]);
        assert!(!claimed[0].is_removable && claimed[0].why.contains("NO_CLAIM"), "{claimed:?}");
    }

    #[test]
    fn two_records_of_one_savepoint_keep_each_other() {
        let other = with(2, "/status/path", json!("s3://lake/sp/1"));
        let found = judged(vec![savepoint(1), other], &rules(), &[]);
        assert!(found.iter().all(|it| !it.is_removable), "{found:?}");
        let going = json!("2026-01-30T00:00:00Z");
        let mut other = with(2, "/status/path", json!("s3://lake/sp/1"));
        other["metadata"]["deletionTimestamp"] = going;
        let found = judged(vec![savepoint(1), other], &rules(), &[]);
        assert_eq!(found.iter().map(|it| it.is_removable).collect::<Vec<_>>(), [true]);
    }
}
