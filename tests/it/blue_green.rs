//! A `FlinkBlueGreenDeployment` on the fake cluster: that it is not operated is told, and nothing else.

use operator::run::Watch;
use serde_json::{Value, json};

use crate::support::fake_cluster::{FakeCluster, Recorded};
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::Operating;

fn trial(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment",
        "metadata": {"name": name, "namespace": namespace, "uid": name, "generation": 1},
        "spec": {"template": {"spec": {"flinkVersion": "v1_20"}}},
    })
}

/// The resource, once this generation of it was told about.
fn told(cluster: &FakeCluster, name: &str, generation: i64) -> Option<Value> {
    let resource = cluster.object("flinkbluegreendeployments", "shop", name)?;
    let condition = &resource["status"]["conditions"][0];
    (condition["observedGeneration"] == generation).then_some(resource)
}

fn events(cluster: &FakeCluster) -> Vec<Value> {
    let mut events = cluster.objects("events");
    events.retain(|event| event["involvedObject"]["kind"] == "FlinkBlueGreenDeployment");
    events
}

fn writes_about(cluster: &FakeCluster, name: &str) -> Vec<Recorded> {
    let is_about =
        |write: &Recorded| write.uri.contains(name) || write.body.to_string().contains(name);
    cluster.writes().into_iter().filter(is_about).collect()
}

#[tokio::test]
async fn that_it_is_not_operated_is_told_once_for_each_generation() {
    let mut operating = Operating::start(FakeFlink::start().await);
    operating.cluster.insert(trial("shop", "trial"));
    let mut seen = operating.until("it is told", |cluster| told(cluster, "trial", 1)).await;
    let condition = &seen["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("Progressing"), &json!("False"), &json!("NotOperated"))
    );
    assert_eq!(seen["status"]["blueGreenState"], "INITIALIZING_BLUE");
    let told_first = events(&operating.cluster);
    assert_eq!(told_first.len(), 1);
    assert_eq!((&told_first[0]["type"], &told_first[0]["count"]), (&json!("Warning"), &json!(1)));
    assert!(told_first[0]["message"].as_str().unwrap().contains("does not operate"));

    seen["spec"]["template"]["spec"]["image"] = json!("flink:1.20");
    seen["metadata"]["generation"] = json!(2);
    operating.cluster.insert(seen);
    operating.until("the edit is told", |cluster| told(cluster, "trial", 2)).await;
    assert_eq!(events(&operating.cluster)[0]["count"], 2);

    // The next operator finds that it was told. One is looked at after the other.
    operating = operating.restart_after(FakeCluster::forget_requests).await;
    operating.cluster.insert(trial("shop", "zz"));
    operating.until("the other is told", |cluster| told(cluster, "zz", 1)).await;
    assert_eq!(writes_about(&operating.cluster, "trial"), []);
    operating.stop().await;
}

#[tokio::test]
async fn one_outside_of_the_watched_namespaces_is_left_alone() {
    let cluster = FakeCluster::new();
    cluster.insert(trial("elsewhere", "trial"));
    cluster.insert(trial("shop", "zz"));
    let watch = Watch::Namespaces(vec!["shop".to_owned()]);
    let operating = Operating::start_in(&watch, cluster, FakeFlink::start().await);
    operating.until("the one here is told", |cluster| told(cluster, "zz", 1)).await;
    assert_eq!(writes_about(&operating.cluster, "trial"), []);
    operating.stop().await;
}
