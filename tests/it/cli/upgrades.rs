//! Upgrades of a fleet: how a person sees them, and lets them continue.

use axum::http::Method;
use kubectl_flink::cli::failure::Kind;
use serde_json::{Value, json};

use super::commands::{run, wordcount};
use crate::support::fake_cluster::FakeCluster;

fn named(namespace: &str, name: &str, status: Value) -> Value {
    let mut object = wordcount();
    object["metadata"] = json!({"name": name, "namespace": namespace, "generation": 2});
    for (field, value) in status.as_object().unwrap() {
        object["status"][field] = value.clone();
    }
    object
}

fn waits(reason: &str) -> Value {
    json!({"conditions": [{"type": "UpgradeAdmitted", "status": "False", "reason": reason,
        "message": "the change waits", "observedGeneration": 2}]})
}

fn fleet() -> FakeCluster {
    let cluster = FakeCluster::new();
    let error = json!({"type": "x", "message": "the new spec would not start: ErrImagePull",
        "additionalMetadata": {"reason": "PreflightFailed"}});
    for object in [
        named("shop", "a-stable", json!({"lifecycleState": "STABLE"})),
        named("shop", "b-waits", waits("WaitsForTurn")),
        named("shop", "c-paused", waits("UpgradesPaused")),
        named("shop", "d-paused", waits("UpgradesPaused")),
        named("fraud", "e-paused", waits("UpgradesPaused")),
        named("fraud", "f-upgrading", json!({"lifecycleState": "UPGRADING"})),
        named("fraud", "g-tried", json!({"clusterInfo": {"Preflight": "under way"}})),
        named("fraud", "h-refused", json!({"error": error.to_string()})),
        named(
            "fraud",
            "i-first",
            json!({"lifecycleState": "DEPLOYED", "reconciliationStatus": {}}),
        ),
        named(
            "fraud",
            "j-becomes",
            json!({"lifecycleState": "DEPLOYED", "reconciliationStatus": {"lastStableSpec": "{}"}}),
        ),
    ] {
        cluster.insert(object);
    }
    let paused = json!({"type": "x", "message": "the change waits",
        "additionalMetadata": {"reason": "UpgradesPaused"}});
    for (name, status) in [
        ("m-waits", json!({"lifecycleState": "STABLE", "observedGeneration": 1})),
        ("n-paused", json!({"lifecycleState": "STABLE", "error": paused.to_string()})),
        ("o-stable", json!({"lifecycleState": "STABLE", "observedGeneration": 2})),
    ] {
        let mut object = named("jobs", name, status);
        object["kind"] = json!("FlinkSessionJob");
        cluster.insert(object);
    }
    for (name, state, status) in [
        (
            "k-switches",
            "TRANSITIONING_TO_GREEN",
            json!({"conditions": [{"type": "Serving", "status": "True"}]}),
        ),
        ("l-paused", "ACTIVE_BLUE", waits("UpgradesPaused")),
    ] {
        let mut object = named("green", name, status);
        object["kind"] = json!("FlinkBlueGreenDeployment");
        object["status"]["lifecycleState"] = Value::Null;
        object["status"]["blueGreenState"] = json!(state);
        object["spec"] = json!({"template": {"spec": object["spec"]}});
        cluster.insert(object);
    }
    cluster
}

#[tokio::test]
async fn a_wave_is_listed_with_how_far_each_upgrade_is() {
    let cluster = fleet();
    let ran = run(&cluster, None, "list -A --upgrading").await.succeeded();
    let lines: Vec<&str> = ran.output.lines().collect();
    assert!(lines[0].contains("  UPGRADE  "), "{}", ran.output);
    let shown = [
        ("e-paused", "paused"),
        ("f-upgrading", "restarting"),
        ("g-tried", "trying new spec"),
        ("h-refused", "new spec would not start"),
        ("j-becomes", "becoming stable"),
        ("k-switches", "in transition"),
        ("l-paused", "paused"),
        ("m-waits", "waiting"),
        ("n-paused", "paused"),
        ("b-waits", "waiting"),
        ("c-paused", "paused"),
        ("d-paused", "paused"),
    ];
    assert_eq!(lines.len(), shown.len() + 1, "{}", ran.output);
    for (line, (name, upgrade)) in lines[1..].iter().zip(shown) {
        assert!(line.contains(name) && line.contains(upgrade), "{line}");
    }
    assert!(ran.error.contains("kubectl flink operator continue"), "{}", ran.error);
    let ran = run(&cluster, None, "list -n shop --upgrading -o name").await.succeeded();
    assert_eq!(ran.output.lines().count(), 3, "{}", ran.output);
    run(&cluster, None, "list --upgrading -o json").await.failed(Kind::Usage, "--upgrading");
}

#[tokio::test]
async fn the_operator_of_each_namespace_is_asked_to_go_on() {
    let cluster = fleet();
    run(&cluster, None, "operator continue --dry-run=client").await.succeeded();
    assert!(cluster.writes().is_empty());
    let ran = run(&cluster, None, "operator continue --timeout 1s").await;
    ran.failed(Kind::TimedOut, "has not reacted after 1s");
    let told = "upgrades in namespace fraud continue, 1 of them paused\n\
                upgrades in namespace green continue, 1 of them paused\n\
                upgrades in namespace jobs continue, 1 of them paused\n\
                upgrades in namespace shop continue, 2 of them paused\n";
    assert_eq!(ran.output, told);
    let writes = cluster.writes();
    assert_eq!(writes.iter().filter(|it| it.method == Method::PATCH).count(), 4);
    for (kind, namespace, name) in [
        ("flinkdeployments", "fraud", "e-paused"),
        ("flinkbluegreendeployments", "green", "l-paused"),
        ("flinksessionjobs", "jobs", "n-paused"),
        ("flinkdeployments", "shop", "c-paused"),
    ] {
        let object = cluster.object(kind, namespace, name).unwrap();
        let told = &object["metadata"]["annotations"]["flink.apache.org/continue-upgrades"];
        assert!(told.is_string(), "{object}");
    }

    let cluster = FakeCluster::new();
    cluster.insert(named("shop", "b-waits", waits("WaitsForTurn")));
    let ran = run(&cluster, None, "operator continue").await.succeeded();
    assert!(ran.error.contains("no upgrades are paused"), "{}", ran.error);
}

#[tokio::test]
async fn a_change_that_waits_is_explained() {
    let cluster = FakeCluster::new();
    cluster.insert(named("default", "orders", waits("UpgradesPaused")));
    let ran = run(&cluster, None, "status orders").await.succeeded();
    assert!(ran.output.contains("the spec is at 2: the change waits"), "{}", ran.output);
}
