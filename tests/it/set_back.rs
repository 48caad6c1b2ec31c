//! An API server whose store was reset to an older state, detected only by its watches or by what runs.

use api::deployment::FlinkDeployment;
use api::job::{JobState, UpgradeMode};
use api::reconciled::ReconciledSpec;
use lifecycle::session_job::identity;
use serde_json::{Value, json};
use testing::scene::{SAVEPOINT, Scene};

use crate::support::fake_cluster::FakeCluster;
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::{Operating, error_of, insert_job_manager_of, with_status};

/// Returns a suspended job with a newer state than the one it had in the middle of an earlier upgrade.
fn known() -> Scene {
    let mut scene = Scene::running("savepoint")
        .suspended(UpgradeMode::Savepoint)
        .path("s3://lake/sp/newer")
        .edit_job(|job| job.state = JobState::Suspended)
        .edit(|_| {});
    scene.status.observed_generation = scene.resource.metadata.generation;
    scene
}

/// Others write to a store that was reset, until its revision is higher than ever before: then an edit of an old object
/// arrives by the watch as if it were current.
#[tokio::test]
async fn an_edit_of_what_was_set_back_is_not_of_the_present() {
    let cluster = FakeCluster::new();
    let known = known();
    cluster.insert(with_status(&known.resource, &known.status));
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    operating.until_listed().await;

    let mut before = Scene::running("savepoint").path(SAVEPOINT).upgrading(UpgradeMode::Savepoint);
    before = before.edit(|spec| spec.restart_nonce = Some(1));
    assert!(before.resource.metadata.generation < known.resource.metadata.generation);
    operating.cluster.insert(with_status(&before.resource, &before.status));
    let error = operating
        .until("the start is refused", |cluster| {
            error_of(cluster, "flinkdeployments", "orders").filter(|error| !error.is_empty())
        })
        .await;
    assert!(error.contains("was set back"), "{error}");
    assert_eq!(operating.cluster.object("deployments", "shop", "orders"), None);
    operating.stop().await;
}

/// Returns the session cluster `orders`, which is ready.
fn session_cluster() -> Value {
    let mut cluster = serde_json::to_value(Scene::running("savepoint").resource).unwrap();
    cluster["spec"].as_object_mut().unwrap().remove("job");
    let read: FlinkDeployment = serde_json::from_value(cluster.clone()).unwrap();
    let text = ReconciledSpec::new(read.spec, false).to_text();
    cluster["status"] = json!({
        "jobManagerDeploymentStatus": "READY",
        "observedGeneration": cluster["metadata"]["generation"],
        "clusterInfo": {"flink-version": "1.20.1"},
        "lifecycleState": "STABLE",
        "reconciliationStatus": {
            "state": "DEPLOYED", "lastReconciledSpec": text, "lastStableSpec": text,
            "reconciliationTimestamp": 1_750_000_000_000_i64,
        },
    });
    cluster
}

/// Returns the job `clicks` in it, as its user created it.
fn clicks() -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkSessionJob",
        "metadata": {"name": "clicks", "namespace": "shop", "uid": "u-clicks", "generation": 1},
        "spec": {
            "deploymentName": "orders",
            "job": {
                "entryClass": "example.Clicks", "parallelism": 1, "upgradeMode": "savepoint",
                "state": "running",
            },
        },
    })
}

/// Runs the cluster `orders`, to which `change` gives another Service, and creates the job `clicks` in it.
pub(crate) async fn session_job(change: impl FnOnce(&mut Value)) -> Operating {
    let operating = Operating::start(FakeFlink::start().await);
    let cluster = session_cluster();
    let read: FlinkDeployment = serde_json::from_value(cluster.clone()).unwrap();
    operating.flink.with("shop/orders", |_| {});
    insert_job_manager_of(&operating.cluster, &read);
    let mut service = operating.cluster.object("services", "shop", "orders-rest").unwrap();
    change(&mut service);
    operating.cluster.insert(service);
    operating.cluster.insert(cluster);
    operating.cluster.insert(clicks());
    operating
}

/// Runs the job `clicks` in the cluster `orders`; returns its id.
pub(crate) async fn session_job_runs() -> (Operating, String) {
    let operating = session_job(|_| {}).await;
    let running = |cluster: &FakeCluster| {
        let job = &cluster.object("flinksessionjobs", "shop", "clicks")?["status"];
        let is_stable = job["lifecycleState"] == "STABLE";
        is_stable.then(|| job["jobStatus"]["jobId"].as_str().unwrap().to_owned())
    };
    let id = operating.until("the job runs", running).await;
    (operating, id)
}

/// Returns a session job of which the store has only what its user created, and its id: an operator submitted it, the
/// store was reset, and another operator reconciles it.
async fn forgotten() -> (Operating, String) {
    let (operating, id) = session_job_runs().await;
    assert!(identity::is_of("u-clicks", &id), "{id}");
    let set_back = |cluster: &FakeCluster| drop(cluster.insert(clicks()));
    (operating.restart_after(set_back).await, id)
}

#[tokio::test]
async fn an_operator_that_did_not_see_it_starts_no_second_session_job() {
    let (operating, id) = forgotten().await;
    let submitted = operating.flink.requests("/run").len();
    let error = operating
        .until("the start is refused", |cluster| {
            error_of(cluster, "flinksessionjobs", "clicks").filter(|error| !error.is_empty())
        })
        .await;
    assert!(error.contains(&id) && error.contains("still runs"), "{error}");
    assert_eq!(operating.flink.requests("/run").len(), submitted, "a second one was submitted");
    operating.flink.with("shop/orders", |cluster| {
        assert_eq!(cluster.jobs.len(), 1);
        assert_eq!(cluster.jobs[&id].state, "RUNNING", "it is left alone");
    });
    operating.stop().await;
}

#[tokio::test]
async fn a_deletion_ends_the_session_job_that_nobody_knows() {
    let (operating, id) = forgotten().await;
    operating
        .until("the start is refused", |cluster| {
            error_of(cluster, "flinksessionjobs", "clicks").filter(|error| !error.is_empty())
        })
        .await;
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
