//! A JobManager that takes long to be deleted is followed through its watch, and its end is an observed fact.

use std::time::{Duration, Instant};

use axum::http::Method;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use testing::scene::Scene;

use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::Operating;
use crate::support::patience::PATIENCE;

/// Time in which a polling operator would look at least six times.
const GOING: Duration = Duration::from_secs(4);

fn job_manager(cluster: &FakeCluster) -> Option<Value> {
    cluster.object("deployments", "shop", "orders")
}

fn reads(cluster: &FakeCluster) -> usize {
    let requests = cluster.requests();
    let is_of_it = |uri: &str| {
        uri.split('?')
            .next()
            .is_some_and(|path| path.ends_with("/apps/v1/namespaces/shop/deployments/orders"))
    };
    requests.iter().filter(|one| one.method == Method::GET && is_of_it(&one.uri)).count()
}

#[tokio::test]
async fn what_goes_is_not_read_at_each_check() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.run(&Scene::running("stateless"));
    operating.until_seen_running().await;
    let mut held = job_manager(&operating.cluster).unwrap();
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    operating.cluster.insert(held);

    let mut edited = operating.cluster.object("flinkdeployments", "shop", "orders").unwrap();
    edited["spec"]["job"]["parallelism"] = json!(3);
    edited["metadata"]["generation"] = json!(2);
    operating.cluster.insert(edited);
    operating
        .until("its JobManager is being deleted", |cluster| {
            job_manager(cluster)?["metadata"]["deletionTimestamp"].is_string().then_some(())
        })
        .await;
    // Until a period is free of what came before.
    let (start, mut counts) = (Instant::now(), Vec::new());
    while counts.last().is_none_or(|count| *count > 1) {
        assert!(start.elapsed() < PATIENCE, "read so many times: {counts:?}");
        operating.cluster.forget_requests();
        tokio::time::sleep(GOING).await;
        counts.push(reads(&operating.cluster));
    }

    let uid = job_manager(&operating.cluster).unwrap()["metadata"]["uid"].clone();
    let api = Api::<Deployment>::namespaced(operating.cluster.client(), "shop");
    let free = Patch::Merge(json!({"metadata": {"finalizers": []}}));
    api.patch("orders", &PatchParams::default(), &free).await.unwrap();
    operating
        .until("the next JobManager is made", |cluster| {
            (job_manager(cluster)?["metadata"]["uid"] != uid).then_some(())
        })
        .await;
    assert!(reads(&operating.cluster) > 0, "its absence was read");
    operating.stop().await;
}
