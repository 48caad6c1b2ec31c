//! The Ingress of a web UI, as the operator applies it.

use api::deployment::FlinkDeployment;
use http::Method;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use testing::scene::Scene;

use crate::autoscaler::events;
use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::{Operating, with_status};

const GATEWAY: &str = "kubernetes.operator.ingress.gateway";

fn host(cluster: &FakeCluster) -> Option<String> {
    let ingress = cluster.object("ingresses", "shop", "orders")?;
    ingress["spec"]["rules"][0]["host"].as_str().map(str::to_owned)
}

async fn edit(cluster: &FakeCluster, ingress: Value) {
    let deployments: Api<FlinkDeployment> = Api::namespaced(cluster.client(), "shop");
    let patch = Patch::Merge(json!({"spec": {"ingress": ingress}}));
    let _stored = deployments.patch("orders", &PatchParams::default(), &patch).await.unwrap();
}

/// Returns the event about an Ingress that differs from the desired one.
async fn described(operating: &Operating) -> String {
    let event = |cluster: &FakeCluster| events(cluster, "IngressManagement").into_iter().next();
    let event = operating.until("it is told", event).await;
    event["message"].as_str().or(event["note"].as_str()).unwrap().to_owned()
}

#[tokio::test]
async fn an_edit_is_put_in_place_while_the_job_runs() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.run(&Scene::running("savepoint"));
    operating.until_seen_running().await;
    let cluster = &operating.cluster;
    for wanted in ["one.example.com", "other.example.com"] {
        edit(cluster, json!({"template": wanted})).await;
        operating.until(wanted, |it| host(it).filter(|host| host == wanted)).await;
    }
    edit(cluster, Value::Null).await;
    let is_gone = |it: &FakeCluster| host(it).is_none().then_some(());
    operating.until("the Ingress goes", is_gone).await;
    let job_manager = cluster.object("deployments", "shop", "orders").unwrap();
    assert_eq!(job_manager["metadata"]["uid"], "d1", "it is the one that ran before");
    operating.stop().await;
}

fn behind_a_gateway() -> Value {
    let mut scene = Scene::new("stateless");
    let spec = &mut scene.resource.spec;
    spec.ingress = serde_json::from_value(json!({"template": "{{name}}.example.com"})).unwrap();
    spec.flink_configuration.0.insert(GATEWAY.to_owned(), json!("infra/web"));
    with_status(&scene.resource, &scene.status)
}

#[tokio::test]
async fn a_gateway_gets_a_route() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.cluster.insert(behind_a_gateway());
    let route = |cluster: &FakeCluster| cluster.object("httproutes", "shop", "orders");
    let made = operating.until("a route is made", route).await;
    assert_eq!(made["spec"]["hostnames"], json!(["orders.example.com"]));
    assert_eq!(host(&operating.cluster), None);
    operating.stop().await;
}

#[tokio::test]
async fn a_cluster_without_gateways_runs_the_job_and_says_so() {
    let cluster = FakeCluster::new();
    cluster.remove_kind("httproutes");
    cluster.insert(behind_a_gateway());
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    let text = described(&operating).await;
    assert!(text.contains("HTTPRoute") && text.contains("the job runs without"), "{text}");
    let is_deployed = |cluster: &FakeCluster| {
        let stored = cluster.object("flinkdeployments", "shop", "orders")?;
        let state = stored["status"]["reconciliationStatus"]["state"].as_str()?;
        (state == "DEPLOYED").then_some(())
    };
    operating.until("the job is deployed", is_deployed).await;
    operating.stop().await;
}

#[tokio::test]
async fn one_that_is_refused_is_reported_and_the_job_is_maintained() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.run(&Scene::running("savepoint"));
    operating.until_seen_running().await;
    let cluster = &operating.cluster;
    cluster.refuse(Method::PATCH, "/ingresses/", 403, "host and path are taken already");
    edit(cluster, json!({"template": "one.example.com"})).await;
    let text = described(&operating).await;
    assert!(text.contains("taken already") && text.contains("spec.ingress"), "{text}");
    let is_on_record = |cluster: &FakeCluster| {
        let stored = cluster.object("flinkdeployments", "shop", "orders")?;
        let status = &stored["status"];
        (status["observedGeneration"] == stored["metadata"]["generation"]
            && status["lifecycleState"] == "STABLE")
            .then_some(())
    };
    operating.until("the pass comes to its end", is_on_record).await;
    operating.stop().await;
}

#[tokio::test]
async fn one_of_somebody_else_stays_theirs() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.run(&Scene::running("savepoint"));
    operating.until_seen_running().await;
    let cluster = &operating.cluster;
    cluster.insert(json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "Ingress",
        "metadata": {"name": "orders", "namespace": "shop", "labels": {"app": "orders"}},
        "spec": {"rules": [{"host": "theirs.example.com"}]},
    }));
    edit(cluster, json!({"template": "one.example.com"})).await;
    let text = described(&operating).await;
    assert!(text.contains("belongs to someone else"), "{text}");
    edit(cluster, Value::Null).await;
    let is_on_record = |cluster: &FakeCluster| {
        let stored = cluster.object("flinkdeployments", "shop", "orders")?;
        (stored["status"]["observedGeneration"] == stored["metadata"]["generation"]).then_some(())
    };
    operating.until("nothing is wanted any more", is_on_record).await;
    assert_eq!(host(cluster).as_deref(), Some("theirs.example.com"));
    operating.stop().await;
}
