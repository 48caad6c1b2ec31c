//! A `FlinkBlueGreenDeployment` on the fake cluster. What becomes of it in full is played by the scenarios of `faults`.

use operator::run::Watch;
use serde_json::{Value, json};
use testing::scene::Scene;

use crate::support::fake_cluster::{FakeCluster, Recorded};
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::Operating;

fn blue_green(namespace: &str, name: &str) -> Value {
    let template = serde_json::to_value(Scene::new("savepoint").resource.spec).unwrap();
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment",
        "metadata": {"name": name, "namespace": namespace, "uid": name, "generation": 1},
        "spec": {"template": {"spec": template}},
    })
}

fn stored(cluster: &FakeCluster, name: &str) -> Option<Value> {
    cluster.object("flinkbluegreendeployments", "shop", name)
}

/// Its status, once there is an error in it.
fn failed(cluster: &FakeCluster, name: &str) -> Option<Value> {
    let status = stored(cluster, name)?["status"].clone();
    status["error"].is_string().then_some(status)
}

fn writes_about(cluster: &FakeCluster, name: &str) -> Vec<Recorded> {
    let is_about =
        |write: &Recorded| write.uri.contains(name) || write.body.to_string().contains(name);
    cluster.writes().into_iter().filter(is_about).collect()
}

#[tokio::test]
async fn the_first_child_is_made_and_reconciled() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.cluster.insert(blue_green("shop", "trial"));
    let child = |cluster: &FakeCluster| cluster.object("flinkdeployments", "shop", "trial-blue");
    let made = operating.until("the child is made", child).await;
    assert_eq!(made["metadata"]["labels"]["flink/blue-green-deployment-type"], "BLUE");
    let owner = &made["metadata"]["ownerReferences"][0];
    assert_eq!((&owner["uid"], &owner["controller"]), (&json!("trial"), &json!(false)));
    let job_manager = |cluster: &FakeCluster| cluster.object("deployments", "shop", "trial-blue");
    operating.until("its controller makes its JobManager", job_manager).await;
    let told = |cluster: &FakeCluster| {
        let status = stored(cluster, "trial")?["status"].clone();
        (status["blueGreenState"] == "TRANSITIONING_TO_BLUE").then_some(status)
    };
    let status = operating.until("it is on record", told).await;
    assert_eq!(status["jobStatus"]["state"], "RECONCILING");
    assert!(status["lastReconciledSpec"].as_str().unwrap().contains("template"));
    operating.stop().await;
}

#[tokio::test]
async fn a_child_of_somebody_else_is_left_alone() {
    let operating = Operating::start(FakeFlink::start().await);
    let mut foreign = serde_json::to_value(Scene::new("savepoint").resource).unwrap();
    foreign["metadata"]["name"] = json!("trial-green");
    operating.cluster.insert(foreign);
    operating.cluster.insert(blue_green("shop", "trial"));
    let status = operating.until("it is told", |cluster| failed(cluster, "trial")).await;
    let error = status["error"].as_str().unwrap();
    assert!(error.contains("`trial-green` does not belong to this resource"), "{error}");
    assert!(operating.cluster.object("flinkdeployments", "shop", "trial-blue").is_none());
    operating.stop().await;
}

#[tokio::test]
async fn what_cannot_run_is_told_by_its_field() {
    let operating = Operating::start(FakeFlink::start().await);
    let mut wrong = blue_green("shop", "trial");
    wrong["spec"]["configuration"] =
        json!({"kubernetes.operator.bluegreen.abort.grace-period": "soon"});
    wrong["spec"]["template"]["spec"]["job"]["parallelism"] = json!(-1);
    operating.cluster.insert(wrong);
    let status = operating.until("it is told", |cluster| failed(cluster, "trial")).await;
    let error = status["error"].as_str().unwrap();
    for field in
        ["spec.template.spec.job.parallelism", "spec.configuration.kubernetes.operator.bluegreen"]
    {
        assert!(error.contains(field), "{error}");
    }
    assert!(operating.cluster.object("flinkdeployments", "shop", "trial-blue").is_none());
    operating.stop().await;
}

#[tokio::test]
async fn one_outside_of_the_watched_namespaces_is_left_alone() {
    let cluster = FakeCluster::new();
    cluster.insert(blue_green("elsewhere", "trial"));
    cluster.insert(blue_green("shop", "zz"));
    let watch = Watch::Namespaces(vec!["shop".to_owned()]);
    let operating = Operating::start_in(&watch, cluster, FakeFlink::start().await);
    let child = |cluster: &FakeCluster| cluster.object("flinkdeployments", "shop", "zz-blue");
    operating.until("the one here is operated", child).await;
    assert_eq!(writes_about(&operating.cluster, "trial"), []);
    operating.stop().await;
}
