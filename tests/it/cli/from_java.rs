//! `operator install --from-java` against a cluster in memory, in which Helm installed the Java operator.

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

use super::commands::run;
use crate::support::fake_cluster::FakeCluster;

const VALUES: &str = include_str!("../../golden/helm/java-chart.yaml");

/// Returns a revision of a release as Helm stores it: in base64 twice, once for the API server.
fn revision(name: &str, version: u32, chart: &str, config: &Value) -> Value {
    let values: Value = serde_yaml::from_str(VALUES).unwrap();
    let release = json!({
        "name": name, "namespace": "streams", "version": version, "config": config,
        "chart": {"metadata": {"name": chart, "version": "1.14.0"}, "values": values},
    });
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(release.to_string().as_bytes()).unwrap();
    let entry = STANDARD.encode(STANDARD.encode(packed.finish().unwrap()));
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": {
            "name": format!("sh.helm.release.v1.{name}.v{version}"), "namespace": "streams",
            "labels": {"owner": "helm", "name": name, "version": version.to_string()},
        },
        "data": {"release": entry},
    })
}

fn operator(release: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {
            "name": release, "namespace": "streams",
            "labels": {"app.kubernetes.io/managed-by": "Helm",
                "helm.sh/chart": "flink-kubernetes-operator-1.14.0"},
            "annotations": {"meta.helm.sh/release-name": release,
                "meta.helm.sh/release-namespace": "streams"},
        },
        "spec": {"selector": {}, "template": {}},
    })
}

const CHART: &str = "flink-kubernetes-operator";

#[tokio::test]
async fn the_values_of_the_newest_revision_are_printed_and_what_differs_is_reported() {
    let cluster = FakeCluster::new();
    cluster.insert(operator("flink"));
    cluster.insert(revision("flink", 9, CHART, &json!({"replicas": 3})));
    let given = json!({"replicas": 2, "jvmArgs": {"operator": "-Xmx1g"}, "notes": "mine"});
    cluster.insert(revision("flink", 10, CHART, &given));
    let ran = run(&cluster, None, "operator install --from-java").await.succeeded();
    let values: Value = serde_yaml::from_str(&ran.output).unwrap();
    assert_eq!(values["replicas"], 2);
    assert_eq!(values["webhook"], json!({"create": true, "failurePolicy": "Fail"}));
    assert!(values.get("image").is_none() && values.get("jvmArgs").is_none(), "{values}");
    for told in [
        "value `webhook.failurePolicy`: \"Fail\" is the default",
        "value `jvmArgs.operator` has no effect: there is no JVM",
        "value `notes` is left out",
        "not kept: the Deployment, its container and the label `app.kubernetes.io/name`",
        "not kept: leader election is on",
        "not kept: `operatorHealth.livenessProbe`",
        "helm uninstall flink -n streams",
    ] {
        assert!(ran.error.contains(told), "{told}: {}", ran.error);
    }
    assert!(ran.error.contains("  kubernetes.operator.ingress.manage: false"), "{}", ran.error);
    assert_eq!(cluster.writes(), []);
}

#[tokio::test]
async fn the_limits_that_the_fleets_ingresses_need_are_printed() {
    let cluster = FakeCluster::new();
    cluster.insert(operator("flink"));
    cluster.insert(revision("flink", 1, CHART, &json!({})));
    for (kind, host) in [
        ("FlinkDeployment", "{{name}}.flink.example.com"),
        ("FlinkBlueGreenDeployment", "{{name}}.shop.test"),
    ] {
        let ingress = json!({"template": host, "className": "public"});
        cluster.insert(json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": kind,
            "metadata": {"name": "orders", "namespace": "shop"},
            "spec": {"ingress": ingress, "template": {}},
        }));
    }
    let ran = run(&cluster, None, "operator install --from-java").await.succeeded();
    for told in ["allowed-hosts: flink.example.com;shop.test", "allowed-classes: public"] {
        assert!(
            ran.error.contains(&format!("kubernetes.operator.ingress.{told}")),
            "{}",
            ran.error
        );
    }
    assert!(!ran.error.contains("allowed-annotations"), "{}", ran.error);
}

#[tokio::test]
async fn a_keytab_that_the_new_operator_would_not_have_is_reported_before_the_move() {
    let cluster = FakeCluster::new();
    cluster.insert(operator("flink"));
    cluster.insert(json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "shop"},
        "spec": {"flinkConfiguration": {
            "security.kerberos.login.keytab": "/opt/keytabs/orders.keytab",
            "security.kerberos.login.principal": "orders",
        }},
    }));
    let ran = async |config: Value| {
        cluster.insert(revision("flink", 1, CHART, &config));
        run(&cluster, None, "operator install --from-java").await.succeeded().error
    };
    let told = ran(json!({})).await;
    for needed in [
        "`/opt/keytabs/orders.keytab`",
        "of shop/orders",
        "kubernetes.operator.kerberos.directories: /opt/keytabs",
        "rbac.keytabsRule.create: true",
        "`operatorVolumeMounts`",
    ] {
        assert!(told.contains(needed), "{needed}: {told}");
    }
    let mounted = json!({"operatorVolumeMounts": {"create": true,
        "data": [{"name": "keytabs", "mountPath": "/opt/keytabs"}]}});
    assert!(!ran(mounted).await.contains("`operatorVolumeMounts`"));
}

#[tokio::test]
async fn a_release_that_is_not_clear_is_asked_for() {
    let cluster = FakeCluster::new();
    let line = "operator install --from-java";
    let why = async |line: &str| {
        let ran = run(&cluster, None, line).await;
        [ran.failure.expect("it fails").1, ran.hints].concat().join("\n")
    };
    assert!(why(line).await.contains("no Deployment of a Helm release"));
    cluster.insert(operator("one"));
    assert!(why(line).await.contains("no Secret of a Helm release `one`"));
    cluster.insert(operator("two"));
    assert!(why(line).await.contains("--release one -n streams, or --release two -n streams"));
    cluster.insert(revision("two", 1, "kubectl-flink-operator", &Value::Null));
    let named = why(&format!("{line} --release two -n streams")).await;
    assert!(named.contains("is from chart `kubectl-flink-operator`"), "{named}");
    let mut broken = revision("one", 1, CHART, &Value::Null);
    broken["data"]["release"] = json!("AAAA");
    cluster.insert(broken);
    let named = why(&format!("{line} --release one -n streams")).await;
    assert!(named.contains("sh.helm.release.v1.one.v1"), "{named}");
}
