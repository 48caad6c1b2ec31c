//! Nodes that are about to be removed, and a running operator that takes snapshots of the jobs on them.

use std::time::Duration;

use api::NODE_NOTICES_ANNOTATION;
use api::job::{JobState, UpgradeMode};
use axum::http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use testing::scene::Scene;

use crate::autoscaler::events;
use crate::support::fake_cluster::{FakeCluster, Fault};
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::Operating;

/// Returns a running job that requests `snapshot` before one of its nodes is removed.
fn scene(snapshot: Option<&str>) -> Scene {
    let mut scene = Scene::running("savepoint");
    let configuration = &mut scene.resource.spec.flink_configuration.0;
    if let Some(snapshot) = snapshot {
        configuration
            .insert("kubernetes.operator.node-notice.snapshot".to_owned(), json!(snapshot));
    }
    scene.store(JobState::Running, UpgradeMode::Savepoint);
    let reconciliation = &mut scene.status.reconciliation_status;
    reconciliation.last_stable_spec.clone_from(&reconciliation.last_reconciled_spec);
    scene
}

fn node(name: &str, spec: &Value) -> Value {
    let metadata = json!({"name": name, "uid": format!("uid-{name}")});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": spec})
}

/// Returns a node as `kubectl cordon` leaves it.
fn cordoned(name: &str) -> Value {
    let key = "node.kubernetes.io/unschedulable";
    let taint =
        json!({"key": key, "effect": "NoSchedule", "timeAdded": Timestamp::now().to_string()});
    node(name, &json!({"unschedulable": true, "taints": [taint]}))
}

fn task_manager(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop",
            "labels": {"app": "orders", "component": "taskmanager"},
        },
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": "Running"},
    })
}

/// Returns a cluster with nodes `n1` and `n2`; the job has a pod on the first, and had one on the second.
fn with_nodes() -> FakeCluster {
    let cluster = FakeCluster::new();
    for name in ["n1", "n2"] {
        cluster.insert(node(name, &json!({})));
    }
    cluster.insert(task_manager("orders-taskmanager-1-1", "n1"));
    let mut ended = task_manager("orders-taskmanager-1-2", "n2");
    ended["status"]["phase"] = json!("Failed");
    cluster.insert(ended);
    cluster
}

async fn start(cluster: FakeCluster, snapshot: Option<&str>) -> Operating {
    let flink = FakeFlink::start().await;
    flink.use_real_time();
    let operating = Operating::start_on(cluster, flink);
    operating.run(&scene(snapshot));
    operating.until_seen_running().await;
    operating
}

fn asked_for_nodes(cluster: &FakeCluster) -> usize {
    let uris = cluster.requests().into_iter().map(|request| request.uri);
    uris.filter(|uri| uri.contains("/api/v1/nodes")).count()
}

async fn until_nodes_are_watched(operating: &Operating) {
    let is_watched = |cluster: &FakeCluster| {
        let is_watch = |uri: &str| uri.contains("/api/v1/nodes") && uri.contains("watch=true");
        cluster.requests().iter().any(|request| is_watch(&request.uri)).then_some(())
    };
    operating.until("nodes are watched", is_watched).await;
}

fn snapshots(cluster: &FakeCluster) -> Vec<Value> {
    cluster.objects("flinkstatesnapshots")
}

async fn until_completed(operating: &Operating) -> Value {
    let find = |cluster: &FakeCluster| {
        let all = snapshots(cluster);
        all.into_iter().find(|snapshot| snapshot["status"]["state"] == "COMPLETED")
    };
    operating.until("a snapshot is completed", find).await
}

/// Waits long enough for something that should not happen.
async fn a_while() {
    tokio::time::sleep(Duration::from_millis(600)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_savepoint_is_taken_for_a_notice_also_by_the_next_operator() {
    let operating = start(with_nodes(), Some("SAVEPOINT")).await;
    until_nodes_are_watched(&operating).await;
    operating.cluster.insert(cordoned("n2"));
    a_while().await;
    assert_eq!(snapshots(&operating.cluster), [Value::Null; 0], "no pod of the job is there");

    operating.cluster.insert(cordoned("n1"));
    let snapshot = until_completed(&operating).await;
    assert_eq!(snapshot["metadata"]["annotations"][NODE_NOTICES_ANNOTATION], "uid-n1");
    assert_eq!(snapshot["spec"]["jobReference"]["name"], "orders");
    assert_eq!(snapshot["metadata"]["labels"]["snapshot.trigger-type"], "PERIODIC");
    let told = events(&operating.cluster, "NodeNotice");
    let [told] = told.as_slice() else { panic!("{told:#?}") };
    let message = told["message"].as_str().unwrap();
    let name = snapshot["metadata"]["name"].as_str().unwrap();
    assert_eq!(
        message,
        format!(
            "Node `n1` (taint `node.kubernetes.io/unschedulable`) is about to go: taking a \
             savepoint of the job as FlinkStateSnapshot `{name}`"
        )
    );

    // The same removal, with another notice.
    let mut more = cordoned("n1");
    let taint = json!({"key": "karpenter.sh/disrupted", "effect": "NoSchedule"});
    more["spec"]["taints"].as_array_mut().unwrap().push(taint);
    operating.cluster.insert(more);
    a_while().await;
    assert_eq!(snapshots(&operating.cluster).len(), 1);
    operating.cluster.forget_requests();
    let operating = operating.restart().await;
    until_nodes_are_watched(&operating).await;
    a_while().await;
    assert_eq!(snapshots(&operating.cluster).len(), 1, "the next operator knows");
    assert_eq!(events(&operating.cluster, "NodeNotice").len(), 1);
    let asked = operating.flink.requests("/savepoints");
    assert_eq!(asked.iter().filter(|request| request.starts_with("POST")).count(), 1, "{asked:?}");
    assert_eq!(operating.flink.requests("/stop"), [""; 0], "the job goes on");
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_notice_from_before_the_start_is_heeded_and_a_checkpoint_is_one_too() {
    let cluster = with_nodes();
    let taint = json!({"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"});
    cluster.insert(node("n1", &json!({"taints": [taint]})));
    let operating = start(cluster, Some("CHECKPOINT")).await;
    let snapshot = until_completed(&operating).await;
    assert!(snapshot["spec"]["checkpoint"].is_object(), "{snapshot}");
    let operating = operating.restart().await;
    a_while().await;
    assert_eq!(snapshots(&operating.cluster).len(), 1);
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_that_may_not_see_nodes_says_so_once() {
    let cluster = with_nodes();
    cluster.insert(cordoned("n1"));
    cluster.fail(Method::GET, "/api/v1/nodes", Fault::Status(403), usize::MAX);
    let operating = start(cluster, Some("SAVEPOINT")).await;
    let find = |cluster: &FakeCluster| events(cluster, "NodesUnreadable").into_iter().next();
    let told = operating.until("it is told", find).await;
    let message = told["message"].as_str().unwrap();
    let start = "`kubernetes.operator.node-notice.snapshot` has no effect, because the operator cannot \
                 read nodes: allow its service account to get, list and watch nodes";
    assert!(message.starts_with(start), "{message}");
    operating.cluster.forget_requests();
    let operating = operating.restart().await;
    let find = |cluster: &FakeCluster| (asked_for_nodes(cluster) >= 3).then_some(());
    operating.until("it is asked again", find).await;
    let told = events(&operating.cluster, "NodesUnreadable");
    assert_eq!((told.len(), told[0]["count"].as_i64()), (1, Some(1)), "{told:#?}");
    assert_eq!(snapshots(&operating.cluster), [Value::Null; 0]);
    let resource = operating.cluster.object("flinkdeployments", "shop", "orders").unwrap();
    assert_eq!(resource["status"]["jobStatus"]["state"], "RUNNING");
    assert_eq!(resource["status"]["error"], Value::Null);
    operating.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_asks_for_nodes_where_no_job_wants_it() {
    let cluster = with_nodes();
    cluster.insert(cordoned("n1"));
    let operating = start(cluster, None).await;
    a_while().await;
    assert_eq!(asked_for_nodes(&operating.cluster), 0);
    assert_eq!(snapshots(&operating.cluster), [Value::Null; 0]);
    operating.stop().await;
}
