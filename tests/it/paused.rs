//! A resource that is paused is observed at once, and one that is unpaused goes on at once.

use serde_json::{Value, json};
use testing::scene::Scene;

use crate::blue_green::blue_green;
use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::Operating;

const PAUSED: &str = "flink.apache.org/paused";

fn pause(cluster: &FakeCluster, plural: &str, name: &str, value: Value) {
    let mut object = cluster.object(plural, "shop", name).unwrap();
    object["metadata"]["annotations"] = json!({});
    if !value.is_null() {
        object["metadata"]["annotations"][PAUSED] = value;
    }
    cluster.insert(object);
}

fn is_reported(cluster: &FakeCluster, plural: &str, name: &str) -> Option<bool> {
    let object = cluster.object(plural, "shop", name)?;
    let conditions = object["status"]["conditions"].as_array()?;
    Some(conditions.iter().any(|condition| condition["type"] == "Paused"))
}

#[tokio::test]
async fn a_paused_deployment_is_made_once_it_is_unpaused() {
    let operating = Operating::start(FakeFlink::start().await);
    let mut resource = serde_json::to_value(Scene::new("savepoint").resource).unwrap();
    resource["metadata"]["annotations"] = json!({PAUSED: "true"});
    operating.cluster.insert(resource);
    let (plural, name) = ("flinkdeployments", "orders");
    let described =
        |cluster: &FakeCluster| is_reported(cluster, plural, name).filter(|described| *described);
    operating.until("its status says that it is paused", described).await;
    let event = |cluster: &FakeCluster| {
        cluster.objects("events").into_iter().find(|event| event["reason"] == "Paused")
    };
    operating.until("an event says so", event).await;
    let job_manager = |cluster: &FakeCluster| cluster.object("deployments", "shop", name);
    assert_eq!(job_manager(&operating.cluster), None);
    pause(&operating.cluster, plural, name, Value::Null);
    operating.until("its JobManager is made", job_manager).await;
    operating.stop().await;
}

#[tokio::test]
async fn a_child_is_paused_and_unpaused_with_its_blue_green_deployment() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.cluster.insert(blue_green("shop", "trial"));
    let job_manager = |cluster: &FakeCluster| cluster.object("deployments", "shop", "trial-blue");
    operating.until("the child's JobManager is made", job_manager).await;
    let of_both = |cluster: &FakeCluster| {
        let parent = is_reported(cluster, "flinkbluegreendeployments", "trial")?;
        Some((parent, is_reported(cluster, "flinkdeployments", "trial-blue")?))
    };
    for (value, expected) in [(json!("true"), true), (Value::Null, false)] {
        pause(&operating.cluster, "flinkbluegreendeployments", "trial", value);
        let both =
            |cluster: &FakeCluster| of_both(cluster).filter(|both| *both == (expected, expected));
        operating.until(&format!("both say paused: {expected}"), both).await;
    }
    operating.stop().await;
}
