//! State was lost, or silently replaced by an older one.

use api::job::UpgradeMode;
use serde_json::{Value, json};
use testing::scene::{JOB_ID, Scene};

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
async fn start_beside(maps: &[Value]) -> Option<String> {
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
        start_beside(std::slice::from_ref(&of_cluster)).await.expect("a start is refused");
    assert!(
        refusal.contains("HA metadata is not available to restore from last state"),
        "{refusal}"
    );
    let of_job = ha_map(&format!("orders-{JOB_ID}-config-map"), checkpoint());
    assert_eq!(start_beside(&[of_cluster, of_job]).await, None);
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
        let refusal = start_beside(std::slice::from_ref(&map)).await;
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
