//! Edits of all kinds at the same moment, with a budget of one upgrade.

use std::collections::BTreeSet;

use futures::future::join_all;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::ground::Ground;
use super::proxy::Recorded;
use super::scenarios::blue_green::{self, BLUE};
use super::scenarios::{JOB, deployment, job_in_session, run_in_session};
use super::stage::{
    BLUE_GREEN, DEPLOYMENT, OPERATOR_CONFIG, SESSION_JOB, Stage, is_stable, lay_out,
};

const APPLICATION: &str = "payments";
const SECOND: &str = "clicks";
const BUDGET: &str = "kubernetes.operator.upgrade.max-concurrent: 1\n";

/// Returns what a stored status is of, and whether its upgrade is in progress; `None` for other requests.
fn upgrade(Recorded { asked, status, .. }: &Recorded) -> Option<((String, String), bool)> {
    if *status != Some(200) || !asked.path.contains("/status?") {
        return None;
    }
    let object: Value = serde_json::from_str(&asked.body).ok()?;
    let text = |path| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_in_progress = match &*text("/kind") {
        // A colour is part of its transition.
        DEPLOYMENT if text("/metadata/name").starts_with(JOB) => return None,
        BLUE_GREEN => !text("/status/blueGreenState").starts_with("ACTIVE_"),
        DEPLOYMENT | SESSION_JOB => {
            text("/status/lifecycleState") != "STABLE"
                || text("/status/jobStatus/savepointInfo/triggerType") == "UPGRADE"
        }
        // A snapshot.
        _ => return None,
    };
    Some(((text("/kind"), text("/metadata/name")), is_in_progress))
}

pub(super) async fn upgrades_of_all_kinds_take_turns() {
    let (ground, namespace) = (Ground::shared().await, "turns");
    lay_out(&ground, namespace).await;
    let (client, config) = (ground.client.clone(), format!("{OPERATOR_CONFIG}{BUDGET}"));
    let script = Box::new(|_: &_| None);
    let stage = Stage::in_namespace(&ground, namespace, (client, &config), script).await;
    let mut application = deployment("savepoint");
    application["metadata"]["name"] = json!(APPLICATION);
    stage.create(application).await;
    run_in_session(&stage, "savepoint").await;
    let mut second = job_in_session("savepoint");
    second["metadata"]["name"] = json!(SECOND);
    stage.create(second).await;
    stage.until(SESSION_JOB, SECOND, "STABLE", is_stable).await;
    stage.until_stable(APPLICATION).await;
    blue_green::run(&stage, "savepoint").await;
    stage.begin();

    let edited = [(DEPLOYMENT, APPLICATION), (SESSION_JOB, JOB), (SESSION_JOB, SECOND)];
    let edits =
        edited.map(|(kind, name)| stage.edit(kind, name, json!({"job": {"parallelism": 2}})));
    let transition = blue_green::edit(&stage, json!({"job": {"parallelism": 2}}));
    futures::join!(join_all(edits), transition);
    for (kind, name) in edited {
        stage.until(kind, name, "STABLE with another parallelism", is_stable).await;
    }
    blue_green::until_serving(&stage, "ACTIVE_GREEN", "RUNNING", BLUE).await;
    stage.until_at_rest().await;
    stage.check_laws();

    let (mut in_progress, mut begun) = (BTreeSet::new(), BTreeSet::new());
    for (resource, is_in_progress) in stage.proxy.recorded().iter().filter_map(upgrade) {
        if is_in_progress {
            begun.insert(resource.clone());
            in_progress.insert(resource);
        } else {
            in_progress.remove(&resource);
        }
        assert!(in_progress.len() <= 1, "{}", stage.described(&format!("{in_progress:?} at once")));
    }
    assert_eq!(begun.len(), 4, "{begun:?}");
    let events = stage.api("Event").list(&ListParams::default()).await.unwrap();
    let waiting = events.items.iter().filter(|event| event.data["reason"] == "WaitsForTurn");
    let waiting: BTreeSet<String> =
        waiting.map(|event| event.data["involvedObject"]["uid"].to_string()).collect();
    assert!(waiting.len() >= 3, "who waits is told: {waiting:?}");
}
