//! Scenarios with two colours, of which one serves.

use serde_json::{Value, json};

use super::{DEPLOYMENT, JOB, Stage, deployment};
use crate::faults::stage::BLUE_GREEN;
use crate::faults::world::BROKEN_IMAGE;
use crate::support::patience::BEYOND_PATIENCE;

pub(in crate::faults) const BLUE: &str = "orders-blue";
const GREEN: &str = "orders-green";

fn blue_green(mode: &str) -> Value {
    const OPTIONS: &str = "kubernetes.operator.bluegreen";
    let mut child = deployment(mode);
    json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": BLUE_GREEN,
        "metadata": {"name": JOB},
        "spec": {
            "configuration": {
                // Only a scenario that says otherwise gives up.
                format!("{OPTIONS}.abort.grace-period"): BEYOND_PATIENCE,
                format!("{OPTIONS}.reconciliation.reschedule-interval"): "500 ms",
            },
            "ingress": {"template": "{{name}}.{{namespace}}.example.com"},
            "template": {"spec": child["spec"].take()},
        },
    })
}

/// Waits until this colour serves the current spec and the other one is gone.
pub(in crate::faults) async fn until_serving(stage: &Stage, wanted: &str, job: &str, other: &str) {
    let serves = |found: &Value| {
        let status = &found["status"];
        let is_reported =
            status["conditions"][0]["observedGeneration"] == found["metadata"]["generation"];
        let runs = if job == "SUSPENDED" { "False" } else { "True" };
        is_reported
            && status["conditions"][0]["status"] == runs
            && status["blueGreenState"] == wanted
            && status["jobStatus"]["state"] == job
    };
    stage.until(BLUE_GREEN, JOB, &format!("{wanted}, {job}"), serves).await;
    stage.until_gone(DEPLOYMENT, other).await;
}

pub(in crate::faults) async fn run(stage: &Stage, mode: &str) {
    stage.create(blue_green(mode)).await;
    until_serving(stage, "ACTIVE_BLUE", "RUNNING", GREEN).await;
}

pub(in crate::faults) async fn edit(stage: &Stage, child: Value) {
    stage.edit(BLUE_GREEN, JOB, json!({"template": {"spec": child}})).await;
}

pub(super) async fn blue_green_deploy(stage: &Stage) {
    stage.begin();
    run(stage, "savepoint").await;
}

pub(super) async fn blue_green_transition(stage: &Stage) {
    run(stage, "last-state").await;
    stage.begin();
    edit(stage, json!({"job": {"parallelism": 2}})).await;
    until_serving(stage, "ACTIVE_GREEN", "RUNNING", BLUE).await;
}

pub(super) async fn blue_green_stateless_transition(stage: &Stage) {
    run(stage, "stateless").await;
    stage.begin();
    edit(stage, json!({"job": {"parallelism": 2}})).await;
    until_serving(stage, "ACTIVE_GREEN", "RUNNING", BLUE).await;
}

/// The other colour does not come up. Its time includes that for the savepoint, which takes several seconds where writes
/// are refused; a savepoint that is late is taken again.
pub(super) async fn blue_green_abort(stage: &Stage) {
    run(stage, "savepoint").await;
    stage.begin();
    let grace = "kubernetes.operator.bluegreen.abort.grace-period";
    stage
        .edit(
            BLUE_GREEN,
            JOB,
            json!({
                "configuration": {grace: "20 s"}, "template": {"spec": {"image": BROKEN_IMAGE}},
            }),
        )
        .await;
    let is_given_up = |found: &Value| {
        found["status"]["conditions"].as_array().is_some_and(|all| {
            all.iter().any(|it| it["type"] == "Progressing" && it["reason"] == "Aborted")
        })
    };
    stage.until(BLUE_GREEN, JOB, "given up", is_given_up).await;
    until_serving(stage, "ACTIVE_BLUE", "FAILING", GREEN).await;
}

pub(super) async fn blue_green_suspend_and_resume(stage: &Stage) {
    run(stage, "savepoint").await;
    stage.begin();
    edit(stage, json!({"job": {"state": "suspended"}})).await;
    until_serving(stage, "ACTIVE_BLUE", "SUSPENDED", GREEN).await;
    edit(stage, json!({"job": {"state": "running"}})).await;
    until_serving(stage, "ACTIVE_BLUE", "RUNNING", GREEN).await;
}

/// Deletes the resource while the other colour does not come up.
pub(super) async fn blue_green_delete(stage: &Stage) {
    run(stage, "savepoint").await;
    stage.begin();
    edit(stage, json!({"image": BROKEN_IMAGE})).await;
    stage.until("Deployment", GREEN, "made", Value::is_object).await;
    stage.delete(BLUE_GREEN, JOB).await;
    for (kind, name) in [(BLUE_GREEN, JOB), (DEPLOYMENT, BLUE), (DEPLOYMENT, GREEN)] {
        stage.until_gone(kind, name).await;
    }
}
