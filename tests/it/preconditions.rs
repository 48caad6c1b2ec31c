//! Writes and deletions carry the version that was read.

use api::STATE_SNAPSHOT_FINALIZER;
use api::job::UpgradeMode;
use axum::http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use testing::scene::Scene;

use crate::set_back::session_job_runs;
use crate::support::fake_cluster::{FakeCluster, Fault, Recorded};
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::{Operating, error_of, job_manager_of, with_status};

/// Otherwise its status would pass for the newest, with the version that a blind write returns.
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

/// Created by a previous operator, which did not get the answer.
#[tokio::test]
async fn a_deployment_that_came_in_between_gets_what_belongs_to_it() {
    let scene = Scene::new("stateless");
    let cluster = FakeCluster::new();
    let made = Fault::Overtaken(Box::new(job_manager_of(&scene.resource)));
    cluster.fail(Method::POST, "/deployments", made, 1);
    cluster.insert(serde_json::to_value(&scene.resource).unwrap());
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    let service = |cluster: &FakeCluster| cluster.object("services", "shop", "orders-rest");
    let service = operating.until("it has a Service", service).await;
    assert_eq!(service["metadata"]["ownerReferences"][0]["uid"], "d1");
    operating.stop().await;
}

#[tokio::test]
async fn a_deployment_of_somebody_else_that_came_in_between_is_reported() {
    let scene = Scene::new("stateless");
    let mut theirs = job_manager_of(&scene.resource);
    theirs["metadata"]["ownerReferences"] = json!([]);
    let cluster = FakeCluster::new();
    let made = Fault::Overtaken(Box::new(theirs));
    cluster.fail(Method::POST, "/deployments", made, 1);
    cluster.insert(serde_json::to_value(&scene.resource).unwrap());
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    operating
        .until("it is told", |cluster| {
            let error = error_of(cluster, "flinkdeployments", "orders")?;
            error.contains("does not belong to this FlinkDeployment").then_some(())
        })
        .await;
    assert_eq!(operating.cluster.object("services", "shop", "orders-rest"), None);
    operating.stop().await;
}

/// A late request would delete the metadata of the next start.
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

/// Returns a periodic savepoint that is reconciled already, so that it is not written to.
fn periodic(name: &str, minute: i64) -> Value {
    let created = Timestamp::now() - jiff::SignedDuration::from_mins(minute);
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot",
        "metadata": {
            "name": name, "namespace": "shop", "uid": name, "creationTimestamp": created,
            "finalizers": [STATE_SNAPSHOT_FINALIZER],
            "labels": {
                "snapshot.type": "SAVEPOINT", "snapshot.trigger-type": "PERIODIC",
                "snapshot.state": "COMPLETED",
            },
        },
        "spec": {
            "jobReference": {"kind": "FlinkDeployment", "name": "orders"},
            "savepoint": {"disposeOnDelete": false},
        },
        "status": {"state": "COMPLETED", "path": format!("s3://lake/sp/{name}")},
    })
}

/// Its user may just have labelled it as one to keep.
#[tokio::test]
async fn an_old_snapshot_is_removed_as_it_was_seen_and_checked_again_where_it_changed() {
    let cluster = FakeCluster::new();
    let old = cluster.insert(periodic("old", 9));
    cluster.insert(periodic("new", 1));
    let fault = Fault::Refused(409, "the object has been modified".to_owned());
    cluster.fail(Method::DELETE, "/flinkstatesnapshots/old", fault, 1);
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    operating.run(&Scene::running("savepoint").operator_option("savepoint.history.max.count", "1"));
    let removed = |cluster: &FakeCluster| {
        let mut requests = cluster.requests().into_iter();
        requests.find(|one| one.method == Method::DELETE && one.uri.contains("/old"))
    };
    let request = operating.until("the old one is to go", removed).await;
    assert_eq!(request.body["preconditions"]["uid"], "old");
    let version = &request.body["preconditions"]["resourceVersion"];
    assert_eq!(*version, old["metadata"]["resourceVersion"]);

    operating.until_seen_running().await;
    let mut job = operating.cluster.object("flinkdeployments", "shop", "orders").unwrap();
    assert!(job["status"]["error"].is_null(), "{}", job["status"]["error"]);
    let kept = operating.cluster.object("flinkstatesnapshots", "shop", "old").unwrap();
    assert!(kept["metadata"]["deletionTimestamp"].is_null());
    // Now the watch shows the current state.
    job["metadata"]["labels"] = json!({"team": "shop"});
    operating.cluster.insert(job);
    let is_gone = |cluster: &FakeCluster| {
        cluster.object("flinkstatesnapshots", "shop", "old").is_none().then_some(())
    };
    operating.until("the old one is gone", is_gone).await;
    assert!(operating.cluster.object("flinkstatesnapshots", "shop", "new").is_some());
    operating.stop().await;
}
