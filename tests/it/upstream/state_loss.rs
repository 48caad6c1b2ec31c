//! State was lost, or silently replaced by an older one.

use api::job::UpgradeMode;
use serde_json::{Value, json};
use testing::scene::{JOB_ID, Scene};

use crate::set_back::session_job_runs;
use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::{Operating, error_of, with_status};

/// Returns a ConfigMap as Flink leaves it.
pub(crate) fn ha_map(name: &str, data: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": name, "namespace": "shop",
            "labels": {"app": "orders", "type": "flink-native-kubernetes", "configmap-type": "high-availability"},
        },
        "data": data,
    })
}

pub(crate) fn checkpoint() -> Value {
    json!({"checkpointID-0000000000000000007": "handle", "counter": "8"})
}

/// Starts a job that was stopped for its last state beside these ConfigMaps; returns the error, or `None` if its
/// cluster was created.
async fn start_alongside(maps: &[Value]) -> Option<String> {
    let scene = Scene::running("last-state").upgrading(UpgradeMode::LastState);
    let operating = Operating::start(FakeFlink::start().await);
    for map in maps {
        operating.cluster.insert(map.clone());
    }
    operating.cluster.insert(with_status(&scene.resource, &scene.status));
    let outcome = operating
        .until("it starts or is refused", |cluster| {
            let is_created = cluster.object("deployments", "shop", "orders").is_some();
            let refusal = error_of(cluster, "flinkdeployments", "orders");
            (is_created || refusal.is_some()).then_some(refusal)
        })
        .await;
    operating.stop().await;
    outcome
}

#[tokio::test]
async fn flink_30437_metadata_of_the_cluster_is_none_of_the_job() {
    let of_cluster = ha_map("orders-cluster-config-map", json!({"leader": "http://orders:8081"}));
    let refusal =
        start_alongside(std::slice::from_ref(&of_cluster)).await.expect("a start is refused");
    assert!(
        refusal.contains("HA metadata is not available to restore from last state"),
        "{refusal}"
    );
    let of_job = ha_map(&format!("orders-{JOB_ID}-config-map"), checkpoint());
    assert_eq!(start_alongside(&[of_cluster, of_job]).await, None);
}

#[tokio::test]
async fn flink_30408_only_a_config_map_of_this_job_counts() {
    let deleted = {
        let mut map = ha_map(&format!("orders-{JOB_ID}-config-map"), checkpoint());
        map["metadata"]["deletionTimestamp"] = json!("2026-01-01T12:00:00Z");
        map["metadata"]["finalizers"] = json!(["example.com/kept"]);
        map
    };
    let another = format!("orders-{}-config-map", "f".repeat(32));
    for (map, counts) in [
        (ha_map(&format!("orders-{JOB_ID}-config-map"), checkpoint()), true),
        // The name in Flink up to 1.14.
        (ha_map(&format!("orders-{JOB_ID}-jobmanager-leader"), checkpoint()), true),
        (deleted, false),
        (ha_map(&another, checkpoint()), false),
        (ha_map("orders-dispatcher-leader", checkpoint()), false),
        (ha_map("orders-cluster-config-map", checkpoint()), false),
        (ha_map("autoscaler-orders", checkpoint()), false),
    ] {
        let refusal = start_alongside(std::slice::from_ref(&map)).await;
        assert_eq!(refusal.is_none(), counts, "{}: {refusal:?}", map["metadata"]);
    }
}

#[tokio::test]
async fn flink_37571_a_stored_graph_of_flink_2_does_not_outlive_an_upgrade() {
    let graphs = json!({
        format!("executionPlan-{JOB_ID}"): "the old plan", format!("jobGraph-{JOB_ID}"): "the old graph",
        // Of a session cluster that had this name, since Flink 2.3.
        "application-0123456789abcdef0123456789abcdef": "its application",
        "leader": "http://orders:8081",
    });
    let scene = Scene::running("last-state").upgrading(UpgradeMode::LastState);
    let operating = Operating::start(FakeFlink::start().await);
    let of_job = format!("orders-{JOB_ID}-config-map");
    operating.cluster.insert(ha_map("orders-cluster-config-map", graphs));
    operating.cluster.insert(ha_map(&of_job, checkpoint()));
    operating.cluster.insert(with_status(&scene.resource, &scene.status));
    let data = operating
        .until("its cluster is created", |cluster| {
            cluster.object("deployments", "shop", "orders")?;
            Some(cluster.object("configmaps", "shop", "orders-cluster-config-map")?["data"].clone())
        })
        .await;
    assert_eq!(data, json!({"leader": "http://orders:8081"}));
    let kept = operating.cluster.object("configmaps", "shop", &of_job).expect("state is kept");
    assert_eq!(kept["data"], checkpoint());
    operating.stop().await;
}

/// The cluster's configuration names another directory.
#[tokio::test]
async fn flink_39814_a_savepoint_of_a_session_job_lies_where_the_job_says() {
    let (operating, _id) = session_job_runs().await;
    let clicks = operating.cluster.object("flinksessionjobs", "shop", "clicks").unwrap();
    let mut spec = clicks["spec"].clone();
    let directory = "execution.checkpointing.savepoint-dir";
    spec["flinkConfiguration"] = json!({directory: "s3://of-views"});
    let made = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": kind,
            "metadata": {"name": name, "namespace": "shop", "uid": name, "generation": 1},
            "spec": spec,
        })
    };
    operating.cluster.insert(made("FlinkSessionJob", "views", spec));
    let runs = |cluster: &FakeCluster| {
        let job = cluster.object("flinksessionjobs", "shop", "views")?;
        (job["status"]["lifecycleState"] == "STABLE").then_some(())
    };
    operating.until("the job runs", runs).await;
    let job = json!({"kind": "FlinkSessionJob", "name": "views"});
    let snapshot = json!({"jobReference": job, "savepoint": {}});
    operating.cluster.insert(made("FlinkStateSnapshot", "one", snapshot));
    let taken = |cluster: &FakeCluster| {
        let snapshot = cluster.object("flinkstatesnapshots", "shop", "one")?;
        snapshot["status"]["path"].as_str().map(str::to_owned)
    };
    let path = operating.until("the savepoint is taken", taken).await;
    assert!(path.starts_with("s3://of-views/"), "{path}");
    operating.stop().await;
}
