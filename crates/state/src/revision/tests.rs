use proptest::prelude::*;
use serde_json::json;

use super::*;

fn content(image: &str) -> Content {
    Content {
        spec: json!({"image": image}),
        restore_point: RestorePoint {
            kind: RestoreKind::Savepoint,
            path: Some("s3://b/savepoint-1".to_owned()),
            job_id: None,
            upgrade_mode: UpgradeMode::Savepoint,
        },
        reconciled_at: "2026-01-01T00:00:00Z".parse().unwrap(),
    }
}

fn revision(number: i64) -> Revision {
    Revision { number, content: content(&format!("job:{number}")) }
}

#[test]
fn content_is_stored_in_the_agreed_form() {
    let stored = serde_json::to_value(content("a")).unwrap();
    assert_eq!(
        stored,
        json!({
            "spec": {"image": "a"},
            "restorePoint": {"kind": "savepoint", "path": "s3://b/savepoint-1", "upgradeMode": "savepoint"},
            "reconciledAt": "2026-01-01T00:00:00Z",
        })
    );
    assert_eq!(serde_json::from_value::<Content>(stored).unwrap(), content("a"));
}

#[test]
fn the_job_is_on_record_where_the_path_of_its_checkpoint_is_not() {
    let of = |point| RestorePoint::of(&point, Some("1a2b"));
    let last_state = serde_json::to_value(of(restore_point::RestorePoint::HaMetadata)).unwrap();
    let expected = json!({"kind": "last-state", "jobId": "1a2b", "upgradeMode": "last-state"});
    assert_eq!(last_state, expected);
    let path = restore_point::RestorePoint::Path("s3://b/savepoint-1".to_owned());
    assert_eq!([of(path).job_id, of(restore_point::RestorePoint::Empty).job_id], [None, None]);
}

#[test]
fn first_revision_is_number_one() {
    let change = decide_revision(&[], content("a"));
    assert_eq!(change.create.unwrap().number, 1);
    assert!(change.prune.is_empty());
}

#[test]
fn the_same_fact_reported_twice_is_one_revision() {
    let existing = [revision(4), revision(3)];
    let again =
        Content { reconciled_at: "2026-02-02T00:00:00Z".parse().unwrap(), ..content("job:4") };
    assert_eq!(decide_revision(&existing, again), Change::default());
    assert!(
        decide_revision(&existing, content("job:3")).create.is_some(),
        "an older spec came back"
    );
}

#[test]
fn rollback_keeps_requests_and_state() {
    let current = json!({"image": "broken", "restartNonce": 7,
        "job": {"state": "running", "upgradeMode": "last-state", "parallelism": 4, "savepointRedeployNonce": 2}});
    let old = json!({"image": "good", "restartNonce": 3,
        "job": {"state": "suspended", "upgradeMode": "stateless", "parallelism": 2, "savepointRedeployNonce": 1,
            "savepointTriggerNonce": 9}});
    assert_eq!(
        decide_rollback(&current, &old, Autoscaled::default()),
        json!({"image": "good", "restartNonce": 7,
            "job": {"state": "running", "upgradeMode": "last-state", "parallelism": 2, "savepointRedeployNonce": 2}})
    );
}

#[test]
fn rollback_never_makes_an_upgrade_stateless() {
    let mode = |current: Value, old: Value| {
        decide_rollback(
            &json!({"job": {"upgradeMode": current}}),
            &json!({"job": {"upgradeMode": old}}),
            Autoscaled::default(),
        )["job"]["upgradeMode"]
            .clone()
    };
    assert_eq!(mode(json!("savepoint"), json!("stateless")), "savepoint");
    assert_eq!(mode(json!("savepoint"), json!("last-state")), "savepoint");
    assert_eq!(mode(json!("stateless"), json!("savepoint")), "savepoint");
    assert_eq!(mode(json!("stateless"), json!("stateless")), "stateless");
    assert_eq!(mode(Value::Null, json!("last-state")), "last-state");
}

proptest! {
    /// In whatever order specs come, numbers grow, the history stays bounded, and the newest are kept.
    #[test]
    fn history_is_bounded_and_ordered(images in proptest::collection::vec(0..4_u8, 0..40)) {
        let mut existing: Vec<Revision> = Vec::new();
        for image in images {
            let before = existing.iter().map(|revision| revision.number).max().unwrap_or(0);
            let change = decide_revision(&existing, content(&image.to_string()));
            if let Some(created) = &change.create {
                prop_assert_eq!(created.number, before + 1);
                existing.push(created.clone());
            }
            let kept_from = change.prune.iter().max().copied().unwrap_or(0);
            existing.retain(|revision| !change.prune.contains(&revision.number));
            prop_assert!(existing.iter().all(|revision| revision.number > kept_from));
            prop_assert!(!existing.is_empty() && existing.len() <= LIMIT);
        }
    }
}

/// With `CLAIM`, the checkpoints of a job may need the files of the savepoint that it was started from.
#[test]
fn the_savepoint_that_a_job_goes_on_from_stays_in_the_history() {
    let from = |kind: RestoreKind, upgrade_mode: UpgradeMode, index: usize| {
        let mut content = content(&index.to_string());
        content.restore_point.kind = kind;
        content.restore_point.upgrade_mode = upgrade_mode;
        content
    };
    let numbers = |later: &[Content]| {
        let first = from(RestoreKind::Savepoint, UpgradeMode::Savepoint, 0);
        let mut existing = Vec::new();
        for content in std::iter::once(&first).chain(later) {
            let change = decide_revision(&existing, content.clone());
            existing.extend(change.create);
            existing.retain(|revision: &Revision| !change.prune.contains(&revision.number));
        }
        existing.iter().map(|revision| revision.number).collect::<Vec<_>>()
    };
    let checkpoints: Vec<Content> =
        (1..14).map(|index| from(RestoreKind::LastState, UpgradeMode::LastState, index)).collect();
    let newest: Vec<i64> = (5..=14).collect();
    assert_eq!(numbers(&checkpoints), [&[1], &*newest].concat());
    let mut another = checkpoints.clone();
    another[11] = from(RestoreKind::Savepoint, UpgradeMode::Savepoint, 12);
    assert_eq!(numbers(&another), newest, "it started from another savepoint since");
    another[11] = from(RestoreKind::None, UpgradeMode::Stateless, 12);
    assert_eq!(numbers(&another), newest, "it started empty since");
    let mut named = checkpoints;
    named[0].spec = json!({"job": {"initialSavepointPath": "s3://lake/other"}});
    assert_eq!(numbers(&named), [&[2], &*newest].concat(), "the spec names one");
}

#[test]
fn rollback_does_not_make_the_autoscalers_decisions_the_users() {
    const OVERRIDES: &str = "pipeline.jobvertex-parallelism-overrides";
    let old = json!({"flinkConfiguration": {"a": "1", OVERRIDES: "v:4"}});
    let rolled_back = |current: Value| {
        let current = json!({ "flinkConfiguration": current });
        decide_rollback(&current, &old, Autoscaled::default())["flinkConfiguration"].clone()
    };
    assert_eq!(
        rolled_back(json!({"a": "2"})),
        json!({"a": "1", OVERRIDES: "v:4"}),
        "the user's own"
    );
    let scaled = json!({"a": "2", "job.autoscaler.enabled": "true"});
    assert_eq!(rolled_back(scaled), json!({"a": "1"}));
    let both = json!({"job.autoscaler.enabled": "true", OVERRIDES: "v:2"});
    assert_eq!(rolled_back(both), json!({"a": "1", OVERRIDES: "v:2"}));
}

#[test]
fn decisions_of_an_autoscaler_that_defaults_switch_on_are_none_of_the_users_either() {
    const OVERRIDES: &str = "pipeline.jobvertex-parallelism-overrides";
    let old = json!({"image": "good", "flinkConfiguration": {"a": "1", OVERRIDES: "v:4"}});
    let autoscaled = Autoscaled { parallelism: true, memory: false };
    assert_eq!(
        decide_rollback(&json!({"image": "bad"}), &old, autoscaled),
        json!({"image": "good", "flinkConfiguration": {"a": "1"}})
    );
    let nested =
        json!({"flinkConfiguration": {"pipeline": {"jobvertex-parallelism-overrides": "v:2"}}});
    let spec = decide_rollback(&nested, &old, autoscaled);
    assert_eq!(spec["flinkConfiguration"], json!({"a": "1", OVERRIDES: "v:2"}));
    // It was turned off since; its decisions then were not the user's.
    let old = json!({"flinkConfiguration": {"job.autoscaler.enabled": "true", OVERRIDES: "v:4"}});
    let spec = decide_rollback(&json!({}), &old, Autoscaled::default());
    assert_eq!(spec["flinkConfiguration"], json!({"job.autoscaler.enabled": "true"}));
}

#[test]
fn rollback_does_not_make_tuned_memory_the_users() {
    let old = json!({
        "image": "good",
        "flinkConfiguration": {
            "a": "1", "taskmanager.memory.process.size": "1234 bytes",
            "taskmanager.memory.framework.heap.size": "0 bytes",
            "taskmanager": {"memory": {"managed": {"fraction": "0.1"}}, "numberOfTaskSlots": 2},
        },
        "taskManager": {"resource": {"cpu": 2, "memory": "1234"},
            "resources": {"requests": {"cpu": "1", "memory": "1234"}, "limits": {"memory": "2468"}}},
    });
    let current = json!({
        "image": "bad",
        "flinkConfiguration": {"taskmanager.memory.managed.fraction": 0.4,
            "taskmanager": {"memory": {"flink": {"size": "2g"}}}},
        "taskManager": {"resource": {"cpu": 1, "memory": "4g"},
            "resources": {"requests": {"memory": "4Gi"}}},
    });
    let tuned = Autoscaled { parallelism: true, memory: true };
    let rolled_back = json!({
        "image": "good",
        "flinkConfiguration": {
            "a": "1", "taskmanager": {"numberOfTaskSlots": 2},
            "taskmanager.memory.flink.size": "2g", "taskmanager.memory.managed.fraction": 0.4,
        },
        "taskManager": {"resource": {"cpu": 2, "memory": "4g"},
            "resources": {"requests": {"cpu": "1", "memory": "4Gi"}, "limits": {}}},
    });
    assert_eq!(decide_rollback(&current, &old, tuned), rolled_back);
    // The user's own memory settings go back like everything else.
    assert_eq!(decide_rollback(&current, &old, Autoscaled::default()), old);
    let mut stated = current.clone();
    for key in ["job.autoscaler.enabled", "job.autoscaler.memory.tuning.enabled"] {
        stated["flinkConfiguration"][key] = json!("true");
    }
    assert_eq!(decide_rollback(&stated, &old, Autoscaled::default()), rolled_back);
}
