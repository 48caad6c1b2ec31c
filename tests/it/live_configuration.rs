//! An operator whose configuration and namespaces change while it runs.

use api::job::JobState;
use axum::http::Method;
use operator::run::Watch;
use serde_json::{Value, json};
use testing::scene::Scene;
use testing::scene::started_without;

use crate::support::fake_cluster::{FakeCluster, Fault};
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::Operating;

fn named(names: &[&str]) -> Watch {
    Watch::Namespaces(names.iter().map(|name| (*name).to_owned()).collect())
}

/// Returns a job that was never reconciled.
fn job(namespace: &str, name: &str) -> Value {
    let mut job = serde_json::to_value(Scene::new("stateless").resource).unwrap();
    job["metadata"]["namespace"] = json!(namespace);
    job["metadata"]["name"] = json!(name);
    job["metadata"]["uid"] = json!(format!("{namespace}-{name}"));
    job
}

/// Returns the Flink configuration of the job's cluster, once it is deployed.
async fn deployed(operating: &Operating, namespace: &str, name: &str) -> String {
    operating
        .until(&format!("{namespace}/{name} is deployed"), |cluster| {
            cluster.object("deployments", namespace, name)?;
            let maps = cluster.objects("configmaps");
            let is_its = |map: &&Value| {
                map["metadata"]["namespace"] == namespace
                    && map["metadata"]["name"] == format!("flink-config-{name}")
            };
            let config = maps.iter().find(is_its)?["data"]["flink-conf.yaml"].as_str()?;
            Some(config.to_owned())
        })
        .await
}

fn writes_in(cluster: &FakeCluster, namespace: &str) -> Vec<String> {
    let part = format!("/namespaces/{namespace}/");
    let writes = cluster.writes();
    let uris = writes.into_iter().map(|write| format!("{} {}", write.method, write.uri));
    uris.filter(|uri| uri.contains(&part)).collect()
}

#[tokio::test]
async fn namespaces_come_and_go_and_what_is_given_up_stays_as_it_is() {
    let flink = FakeFlink::start().await;
    let operating = Operating::start_in(&named(&["shop"]), FakeCluster::new(), flink);
    operating.cluster.insert(job("shop", "orders"));
    operating.cluster.insert(job("fraud", "scores"));
    deployed(&operating, "shop", "orders").await;
    assert_eq!(writes_in(&operating.cluster, "fraud"), [""; 0]);

    let moved = operating.watch(&named(&["fraud"])).await;
    assert_eq!((moved.opened, moved.closed), (vec!["fraud".to_owned()], vec!["shop".to_owned()]));
    operating.cluster.forget_requests();
    operating.cluster.insert(job("shop", "returns"));
    deployed(&operating, "fraud", "scores").await;
    assert_eq!(writes_in(&operating.cluster, "shop"), [""; 0]);
    assert!(operating.cluster.object("deployments", "shop", "orders").is_some());

    // A job that waited for its namespace is operated when that is watched again.
    operating.watch(&named(&["fraud", "shop"])).await;
    deployed(&operating, "shop", "returns").await;
    operating.stop().await;
}

#[tokio::test]
async fn from_the_whole_cluster_to_a_namespace() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.cluster.insert(job("shop", "orders"));
    deployed(&operating, "shop", "orders").await;
    operating.watch(&named(&["fraud"])).await;
    operating.cluster.forget_requests();
    operating.cluster.insert(job("shop", "returns"));
    operating.cluster.insert(job("fraud", "scores"));
    deployed(&operating, "fraud", "scores").await;
    assert_eq!(writes_in(&operating.cluster, "shop"), [""; 0]);
    operating.watch(&Watch::AllNamespaces).await;
    deployed(&operating, "shop", "returns").await;
    operating.stop().await;
}

#[tokio::test]
async fn a_namespace_that_cannot_be_read_holds_up_no_other() {
    let flink = FakeFlink::start().await;
    let operating = Operating::start_in(&named(&["shop"]), FakeCluster::new(), flink);
    operating.cluster.fail(Method::GET, "/namespaces/foreign/", Fault::Status(403), usize::MAX);
    let moved = operating.watch(&named(&["foreign", "shop", "fraud"])).await;
    assert_eq!(moved.opened, ["foreign", "fraud"]);
    operating.cluster.insert(job("shop", "orders"));
    operating.cluster.insert(job("fraud", "scores"));
    deployed(&operating, "shop", "orders").await;
    deployed(&operating, "fraud", "scores").await;
    assert!(operating.rest().await, "what cannot be read is not waited for");
}

#[tokio::test]
async fn a_new_default_is_in_what_is_deployed_next_and_nowhere_else() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.configure("kubernetes.operator.reconcile.interval: 100 ms\n");
    operating.run(&Scene::running("savepoint"));
    operating.until_seen_running().await;
    operating.cluster.forget_requests();
    operating.configure("env.log.max: 7\nkubernetes.operator.reconcile.interval: 100 ms\n");
    operating.cluster.insert(job("fraud", "scores"));
    let config = deployed(&operating, "fraud", "scores").await;
    assert!(config.contains("env.log.max: 7"), "{config}");
    let looks = || operating.flink.requests("GET /jobs/overview").len();
    let before = looks();
    operating
        .until("the running job is looked at again", |_| (looks() > before + 2).then_some(()))
        .await;
    let touched = writes_in(&operating.cluster, "shop");
    assert_eq!(touched, [""; 0]);
    operating.stop().await;
}

#[tokio::test]
async fn a_new_default_of_high_availability_is_none_of_the_cluster_that_runs() {
    let defaults = "high-availability.type: kubernetes\n\
                    high-availability.storageDir: s3://lake/ha\n\
                    kubernetes.operator.reconcile.interval: 100 ms\n";
    for (file, given, stays) in [
        ("flink-conf.yaml", "rest.port: 8081\n", false),
        ("flink-conf.yaml", "high-availability: kubernetes\n", true),
        ("config.yaml", "high-availability:\n  type: KUBERNETES\n", true),
        ("log4j-console.properties", "", false),
    ] {
        let operating = Operating::start(FakeFlink::start().await);
        operating.configure(defaults);
        operating.cluster.insert(json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "flink-config-orders", "namespace": "shop"},
            "data": {file: given},
        }));
        let mut scene = started_without("savepoint");
        scene = scene.edit_job(|job| job.state = JobState::Suspended);
        operating.run(&scene);
        operating
            .until("it is suspended", |cluster| {
                let resource = cluster.object("flinkdeployments", "shop", "orders")?;
                let is_up = resource["status"]["jobManagerDeploymentStatus"] == "READY";
                let is_suspended = resource["status"]["reconciliationStatus"]["state"]
                    == "DEPLOYED"
                    && resource["status"]["lifecycleState"] == "SUSPENDED";
                let is_there = cluster.object("deployments", "shop", "orders").is_some();
                (is_suspended && is_up == stays && is_there == stays).then_some(())
            })
            .await;
        operating.stop().await;
    }
}

#[tokio::test]
async fn canaries_are_changed_again_and_again_and_not_touched_otherwise() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.configure("kubernetes.operator.health.canary.resource.timeout: 1 s\n");
    for kind in ["FlinkDeployment", "FlinkSessionJob"] {
        let name = kind.to_lowercase();
        operating.cluster.insert(json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": kind,
            "metadata": {
                "name": name, "namespace": "shop", "uid": name, "generation": 1,
                "labels": {"flink.apache.org/canary": "true"},
            },
        }));
    }
    for plural in ["flinkdeployments", "flinksessionjobs"] {
        let name = plural.strip_suffix('s').unwrap();
        let canary = operating
            .until("the canary was changed twice", |cluster| {
                let canary = cluster.object(plural, "shop", name)?;
                (canary["spec"]["restartNonce"].as_i64()? >= 2).then_some(canary)
            })
            .await;
        assert!(canary["status"].is_null(), "{canary}");
        assert!(canary["metadata"]["finalizers"].is_null(), "{canary}");
    }
    let others = writes_in(&operating.cluster, "shop");
    assert!(others.iter().all(|write| write.starts_with("PATCH ")), "{others:?}");
    operating.stop().await;
}
