//! What is written or removed carries the form in which it was read.

use axum::http::Method;
use kubectl_flink::api::job::UpgradeMode;
use serde_json::json;

use crate::decisions::Scene;
use crate::set_back::session_job_runs;
use crate::support::fake_cluster::{FakeCluster, Recorded};
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::{Operating, with_status};

/// Its status would pass for the newest with the version that a blind write brings back.
#[tokio::test]
async fn a_label_is_put_on_the_newest_form_of_a_session_job_only() {
    let (operating, _id) = session_job_runs().await;
    operating.cluster.forget_requests();
    let mut job = operating.cluster.object("flinksessionjobs", "shop", "clicks").unwrap();
    job["metadata"]["labels"] = json!({});
    let stored = operating.cluster.insert(job);
    let version = stored["metadata"]["resourceVersion"].clone();
    let labelled = |cluster: &FakeCluster| {
        let patches = cluster.requests().into_iter();
        let mut bodies = patches.filter(|one| one.method == Method::PATCH).map(|one| one.body);
        bodies.find(|body| body["metadata"]["labels"]["target.session"] == "orders")
    };
    let patch = operating.until("the label is back", labelled).await;
    assert_eq!(patch["metadata"]["resourceVersion"], version);
    operating.stop().await;
}

/// A request that arrives late would take those of the next start.
#[tokio::test]
async fn ha_metadata_are_removed_as_they_were_read() {
    let cluster = FakeCluster::new();
    let map = cluster.insert(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "orders-cluster-config-map", "namespace": "shop",
            "labels": {"app": "orders", "type": "flink-native-kubernetes"},
        },
    }));
    let scene = Scene::running("stateless").upgrading(UpgradeMode::Stateless);
    cluster.insert(with_status(&scene.resource, &scene.status));
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    let removed = |cluster: &FakeCluster| {
        let mut requests = cluster.requests().into_iter();
        let of_map = |one: &Recorded| one.uri.contains("orders-cluster-config-map");
        requests.find(|one| one.method == Method::DELETE && of_map(one))
    };
    let request = operating.until("what was left is removed", removed).await;
    let expected = &request.body["preconditions"];
    assert_eq!(expected["uid"], map["metadata"]["uid"]);
    assert_eq!(expected["resourceVersion"], map["metadata"]["resourceVersion"]);
    operating.stop().await;
}
