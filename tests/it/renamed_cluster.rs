//! A session job whose `deploymentName` is edited after it was deployed, which is rejected: everything about it still
//! happens in the cluster that it runs in.

use serde_json::json;

use crate::set_back::session_job_runs;
use crate::support::fake_cluster::FakeCluster;
use crate::support::operating::{Operating, error_of};

/// The job `clicks` runs in the cluster `orders`, and its user names another one.
async fn renamed(to: &str) -> (Operating, String) {
    let (operating, id) = session_job_runs().await;
    let mut job = operating.cluster.object("flinksessionjobs", "shop", "clicks").unwrap();
    job["spec"]["deploymentName"] = json!(to);
    job["metadata"]["generation"] = json!(2);
    operating.cluster.insert(job);
    let described = |cluster: &FakeCluster| {
        let job = cluster.object("flinksessionjobs", "shop", "clicks")?;
        let error = job["status"]["error"].as_str()?;
        error.contains("cannot change from `orders`").then_some(())
    };
    operating.until("the edit is refused", described).await;
    (operating, id)
}

#[tokio::test]
async fn a_deletion_ends_the_job_in_the_cluster_that_it_runs_in() {
    let (operating, id) = renamed("elsewhere").await;
    let mut job = operating.cluster.object("flinksessionjobs", "shop", "clicks").unwrap();
    job["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    operating.cluster.insert(job);
    operating
        .until("the resource goes", |cluster| {
            cluster.object("flinksessionjobs", "shop", "clicks").is_none().then_some(())
        })
        .await;
    operating.flink.with("shop/orders", |cluster| {
        assert!(cluster.jobs[&id].is_terminal(), "left behind: {}", cluster.jobs[&id].state);
    });
    operating.stop().await;
}

/// The cluster that the job runs in waits for it, whatever the edit says.
#[tokio::test]
async fn the_cluster_is_not_deleted_under_a_job_that_names_another_one() {
    let (operating, id) = renamed("elsewhere").await;
    let mut cluster = operating.cluster.object("flinkdeployments", "shop", "orders").unwrap();
    cluster["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    operating.cluster.insert(cluster);
    let blocked = |cluster: &FakeCluster| {
        let error = error_of(cluster, "flinkdeployments", "orders")?;
        error.contains("[clicks] should be deleted first").then_some(())
    };
    operating.until("the deletion is blocked", blocked).await;
    operating.flink.with("shop/orders", |cluster| {
        assert_eq!(cluster.jobs[&id].state, "RUNNING");
    });
    operating.stop().await;
}
