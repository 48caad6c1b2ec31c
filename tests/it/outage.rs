//! An API server that is unavailable for a while, and a fleet that waits for it.

use std::time::{Duration, Instant};

use axum::http::Method;
use serde_json::json;
use testing::scene::Scene;

use crate::support::fake_cluster::{FakeCluster, Fault};
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::Operating;
use crate::support::patience::PATIENCE;

const FLEET: usize = 120;
const WATCHED: Duration = Duration::from_secs(4);
/// One check every half second with one list each, and watches that restart every few seconds.
const REQUESTS_MAX: usize = 40;

fn without_an_answer(cluster: &FakeCluster) {
    for method in [Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE] {
        cluster.fail(method, "/", Fault::Status(503), usize::MAX);
    }
}

#[tokio::test]
async fn a_fleet_waits_for_the_api_server_without_asking_for_each_of_its_jobs() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.run(&Scene::running("savepoint"));
    operating.until_seen_running().await;

    without_an_answer(&operating.cluster);
    for number in 0..FLEET {
        let mut job = serde_json::to_value(Scene::new("stateless").resource).unwrap();
        job["metadata"]["name"] = json!(format!("job-{number}"));
        job["metadata"]["uid"] = json!(format!("uid-{number}"));
        operating.cluster.insert(job);
    }
    // Until the operator knows for a whole period that the API server is unavailable.
    let (start, mut counts) = (Instant::now(), Vec::new());
    while counts.last().is_none_or(|count| *count > REQUESTS_MAX) {
        assert!(start.elapsed() < PATIENCE, "requests: {counts:?}");
        operating.cluster.forget_requests();
        tokio::time::sleep(WATCHED).await;
        counts.push(operating.cluster.requests().len());
    }
    assert_ne!(counts.last(), Some(&0), "it does look whether the API server is back");

    operating.cluster.heal();
    operating
        .until("all are deployed", |cluster| {
            (cluster.objects("deployments").len() == FLEET + 1).then_some(())
        })
        .await;
    assert!(operating.rest().await);
}
