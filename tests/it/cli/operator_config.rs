//! `operator config` against an installation in memory; with files, see `tests/cli/operator-config.trycmd`.

use serde_json::{Value, json};

use super::commands::run;
use crate::support::fake_cluster::FakeCluster;

/// Returns an installation whose environment selects what it operates.
fn installation() -> FakeCluster {
    let cluster = FakeCluster::new();
    cluster.insert(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "flink-operator-config", "namespace": "flink-operator"},
        "data": {"config.yaml": "
kubernetes.operator.reconcile.interval: 15 s
kubernetes.operator.watched.namespaces: elsewhere
kubernetes.operator.default-configuration.namespace.shop.state.backend.type: rocksdb
kubernetes.operator.default-configuration.flink-version.v1_20.env.log.max: 7
s3.secret-key: hunter2
", "log4j-console.properties": "a = b\n"},
    }));
    cluster.insert(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": "kubectl-flink-operator", "namespace": "flink-operator",
            "labels": {"app.kubernetes.io/name": "kubectl-flink-operator"},
        },
        "spec": {"selector": {}, "template": {"spec": {"containers": [{
            "name": "kubectl-flink-operator",
            "args": ["operate"],
            "env": [{"name": "WATCH_NAMESPACES", "value": "shop"}],
        }]}}},
    }));
    cluster.insert(json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "shop"},
        "spec": {
            "flinkVersion": "v1_20",
            "flinkConfiguration": {"kubernetes.operator.job.restart.failed": "true", "env.log.max": 9},
        },
    }));
    cluster.insert(json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkSessionJob",
        "metadata": {"name": "returns", "namespace": "shop"},
        "spec": {"deploymentName": "orders", "flinkConfiguration": {"env.log.max": 11}},
    }));
    cluster
}

/// Returns value and layer of an option.
fn of<'v>(told: &'v Value, option: &str) -> (&'v str, &'v str) {
    let all = told["options"].as_array().unwrap();
    let found = all.iter().find(|line| line["option"] == option).unwrap();
    (found["value"].as_str().unwrap_or("-"), found["from"].as_str().unwrap())
}

async fn described(cluster: &FakeCluster, line: &str) -> Value {
    let ran = run(cluster, None, &format!("operator config -o json {line}")).await.succeeded();
    assert!(!ran.output.contains("hunter2"), "{}", ran.output);
    serde_json::from_str(&ran.output).unwrap()
}

#[tokio::test]
async fn an_installation_is_read_from_the_cluster() {
    let cluster = installation();
    let told = described(&cluster, "").await;
    let file = "configmap/flink-operator-config, config.yaml";
    assert_eq!(of(&told, "kubernetes.operator.reconcile.interval"), ("15 s", file));
    assert_eq!(
        of(&told, "kubernetes.operator.watched.namespaces"),
        ("shop", "environment, WATCH_NAMESPACES")
    );
    assert_eq!(of(&told, "kubernetes.operator.job.restart.failed"), ("false", "default"));
    assert_eq!(of(&told, "kubernetes.operator.leader-election.lease-name"), ("-", "default"));
    assert_eq!(of(&told, "s3.secret-key"), ("******", file));
    assert_eq!(
        of(&told, "kubernetes.operator.log-configuration.log4j-console.properties"),
        ("a = b\n", "configmap/flink-operator-config, log4j-console.properties")
    );
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn what_applies_to_a_resource_has_its_version_and_namespace() {
    let cluster = installation();
    let deployment = described(&cluster, "orders -n shop").await;
    assert_eq!(of(&deployment, "env.log.max"), ("9", "orders"));
    assert_eq!(of(&deployment, "state.backend.type"), ("rocksdb", "defaults of namespace shop"));
    assert_eq!(of(&deployment, "kubernetes.operator.job.restart.failed"), ("true", "orders"));
    let job = described(&cluster, "sessionjob/returns -n shop").await;
    assert_eq!(of(&job, "env.log.max"), ("11", "sessionjob/returns"));
    assert_eq!(of(&job, "kubernetes.operator.job.restart.failed"), ("true", "orders"));
}

#[tokio::test]
async fn without_an_installation_the_way_to_one_is_shown() {
    let cluster = FakeCluster::new();
    let ran = run(&cluster, None, "operator config --operator-namespace ops").await;
    let failure = ran.failure.expect("it fails");
    assert!(failure.1[0].contains("no configuration in ConfigMap"), "{:?}", failure.1);
}
