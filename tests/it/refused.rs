//! A rejection by the API server stays in the resource's status until the request is accepted.

use api::reconciled::ReconciledSpec;
use axum::http::Method;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lifecycle::error_document::reason_of;
use serde_json::{Value, json};
use testing::scene::{JOB_ID, Scene};

use crate::autoscaler::events;
use crate::support::fake_cluster::{FakeCluster, Fault};
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::{Operating, error_of, with_status};
use crate::upstream::state_loss::{checkpoint, ha_map};

const QUOTA: &str = "exceeded quota: compute, requested: limits.memory=2Gi";

/// Starts a job that exceeds a quota, with a status that reports it.
async fn refused() -> Operating {
    let cluster = FakeCluster::new();
    let fault = Fault::Refused(403, QUOTA.to_owned());
    cluster.fail(Method::POST, "/deployments", fault, usize::MAX);
    cluster.insert(serde_json::to_value(Scene::new("stateless").resource).unwrap());
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    operating
        .until("the refusal is told", |cluster| {
            let error = error_of(cluster, "flinkdeployments", "orders")?;
            error.contains(QUOTA).then_some(())
        })
        .await;
    operating
}

async fn until_deployed(operating: &Operating) {
    operating
        .until("it is deployed, and nothing is wrong", |cluster| {
            cluster.object("deployments", "shop", "orders")?;
            let resource = cluster.object("flinkdeployments", "shop", "orders")?;
            let status = &resource["status"];
            let is_deployed = status["reconciliationStatus"]["state"] == "DEPLOYED";
            (is_deployed && status["error"].is_null()).then_some(())
        })
        .await;
}

/// Suspends the job, and waits until its JobManager goes.
async fn suspend(operating: &Operating) {
    let mut edited = operating.cluster.object("flinkdeployments", "shop", "orders").unwrap();
    edited["spec"]["job"]["state"] = json!("suspended");
    edited["metadata"]["generation"] = json!(2);
    operating.cluster.insert(edited);
    operating
        .until("the JobManager goes", |cluster| {
            cluster.object("deployments", "shop", "orders").is_none().then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_deployment_that_is_refused_is_reported_in_the_status_until_it_is_accepted() {
    let operating = refused().await;
    let resource = operating.cluster.object("flinkdeployments", "shop", "orders").unwrap();
    assert_eq!(resource["status"]["lifecycleState"], "UPGRADING");
    let reason = reason_of(resource["status"]["error"].as_str().unwrap());
    assert_eq!(reason.as_deref(), Some("NotCarriedOut"));

    operating.cluster.heal();
    until_deployed(&operating).await;
    operating.stop().await;
}

#[tokio::test]
async fn a_refusal_of_an_earlier_operator_is_reported_until_the_next_one_is_accepted() {
    let operating = refused().await;
    let operating = operating.restart_after(FakeCluster::heal).await;
    until_deployed(&operating).await;
    operating.stop().await;
}

#[tokio::test]
async fn a_service_of_somebody_else_is_neither_changed_nor_taken_over() {
    let cluster = FakeCluster::new();
    let theirs = cluster.insert(json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "orders-rest", "namespace": "shop"},
        "spec": {"selector": {"app": "theirs"}},
    }));
    cluster.insert(serde_json::to_value(Scene::new("stateless").resource).unwrap());
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    operating
        .until("it is told", |cluster| {
            let error = error_of(cluster, "flinkdeployments", "orders")?;
            error.contains("Service `orders-rest` already exists").then_some(())
        })
        .await;
    assert_eq!(operating.cluster.object("services", "shop", "orders-rest"), Some(theirs));
    operating.stop().await;
}

#[tokio::test]
async fn an_edit_is_followed_while_a_service_alongside_the_job_manager_is_refused() {
    let cluster = FakeCluster::new();
    let fault = Fault::Refused(403, QUOTA.to_owned());
    cluster.fail(Method::POST, "/services", fault, usize::MAX);
    cluster.insert(serde_json::to_value(Scene::new("stateless").resource).unwrap());
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    operating
        .until("it is told, and the start is on record", |cluster| {
            let error = error_of(cluster, "flinkdeployments", "orders")?;
            let resource = cluster.object("flinkdeployments", "shop", "orders")?;
            let is_deployed = resource["status"]["reconciliationStatus"]["state"] == "DEPLOYED";
            (is_deployed && error.contains("orders") && error.contains(QUOTA)).then_some(())
        })
        .await;
    suspend(&operating).await;
    operating.stop().await;
}

#[tokio::test]
async fn a_service_that_is_refused_is_made_plain_so_that_its_job_can_be_saved() {
    let cluster = FakeCluster::new();
    // Rejected only with its annotation, as by an API server that validates them.
    cluster.fail(Method::POST, "/services", Fault::Refused(422, "no annotation".to_owned()), 1);
    let scene = Scene::new("stateless").option("kubernetes.rest-service.annotations", "a:b");
    cluster.insert(serde_json::to_value(scene.resource).unwrap());
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    let made = |cluster: &FakeCluster| cluster.object("services", "shop", "orders-rest");
    let service = operating.until("a Service is made", made).await;
    assert_eq!(service["spec"]["type"], "ClusterIP");
    operating
        .until("it is as it should be, as nothing refuses that any more", |cluster| {
            (made(cluster)?["metadata"]["annotations"]["a"] == "b").then_some(())
        })
        .await;
    until_deployed(&operating).await;
    operating.stop().await;
}

/// Starts a running job with an edit for which a dry run of a Service is rejected with this message.
async fn edited_alongside(refusal: &str) -> Operating {
    let cluster = FakeCluster::new();
    let fault = Fault::Refused(403, refusal.to_owned());
    cluster.fail(Method::POST, "/services?&dryRun=All", fault, usize::MAX);
    let flink = FakeFlink::start().await;
    flink.use_real_time();
    let operating = Operating::start_on(cluster, flink);
    operating.run(&Scene::running("savepoint").edit(|spec| spec.restart_nonce = Some(1)));
    operating
}

async fn until_replaced(operating: &Operating) {
    operating
        .until("another JobManager", |cluster| {
            let deployment = cluster.object("deployments", "shop", "orders")?;
            (deployment["metadata"]["uid"] != "d1").then_some(())
        })
        .await;
}

#[tokio::test]
async fn a_job_runs_on_while_an_object_of_its_next_cluster_would_be_refused() {
    let operating = edited_alongside("no Services in this namespace").await;
    operating
        .until("it is told", |cluster| {
            let error = error_of(cluster, "flinkdeployments", "orders")?;
            let is_named = error.starts_with("Service `orders-rest` cannot be created");
            (is_named && error.contains("no Services in this namespace")).then_some(())
        })
        .await;
    let is_object = |uri: &str| {
        ["/configmaps", "/deployments", "/services"].iter().any(|kind| uri.contains(kind))
    };
    let uris = operating.cluster.writes().into_iter().map(|write| write.uri);
    let tried: Vec<String> = uris.filter(|uri| is_object(uri)).collect();
    assert!(!tried.is_empty() && tried.iter().all(|uri| uri.contains("dryRun=All")), "{tried:?}");

    operating.cluster.heal();
    // It would be retried automatically a little later.
    operating.run(&Scene::running("savepoint").edit(|spec| spec.restart_nonce = Some(2)));
    until_replaced(&operating).await;
    operating.stop().await;
}

/// The running objects use up the quota, but are gone before the new ones are created.
#[tokio::test]
async fn a_quota_that_the_objects_of_the_running_cluster_use_up_holds_up_no_edit() {
    let operating = edited_alongside(QUOTA).await;
    until_replaced(&operating).await;
    operating.stop().await;
}

/// Returns the nonce that the status records as used.
fn used_nonce(resource: &Value) -> Option<i64> {
    let text = resource["status"]["reconciliationStatus"]["lastReconciledSpec"].as_str()?;
    ReconciledSpec::parse(text).unwrap().spec.job?.savepoint_trigger_nonce
}

#[tokio::test]
async fn a_nonce_whose_snapshot_is_refused_goes_on_asking_and_holds_up_nothing_else() {
    let cluster = FakeCluster::new();
    let fault = Fault::Refused(403, QUOTA.to_owned());
    cluster.fail(Method::POST, "/flinkstatesnapshots", fault, usize::MAX);
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    let edit = |scene: Scene| scene.edit_job(|job| job.savepoint_trigger_nonce = Some(5));
    operating.run(&edit(Scene::running("savepoint")));
    operating
        .until("the refusal is told", |cluster| {
            let error = error_of(cluster, "flinkdeployments", "orders")?;
            error.contains(QUOTA).then_some(())
        })
        .await;
    operating.until_seen_running().await;
    let resource = operating.cluster.object("flinkdeployments", "shop", "orders").unwrap();
    assert_eq!(used_nonce(&resource), None);
    let message = events(&operating.cluster, "SnapshotError")[0]["message"].clone();
    assert!(message.as_str().unwrap().contains(QUOTA), "{message}");

    operating.cluster.heal();
    operating
        .until("the nonce had its effect, and nothing is wrong", |cluster| {
            let resource = cluster.object("flinkdeployments", "shop", "orders")?;
            let is_used = used_nonce(&resource) == Some(5);
            (is_used && resource["status"]["error"].is_null()).then_some(())
        })
        .await;
    assert_eq!(operating.cluster.objects("flinkstatesnapshots").len(), 1);
    operating.stop().await;
}

#[tokio::test]
async fn the_savepoint_of_an_upgrade_whose_resource_is_refused_is_named() {
    let cluster = FakeCluster::new();
    let fault = Fault::Refused(403, QUOTA.to_owned());
    cluster.fail(Method::POST, "/flinkstatesnapshots", fault, usize::MAX);
    let flink = FakeFlink::start().await;
    flink.use_real_time();
    let operating = Operating::start_on(cluster, flink);
    operating.run(&Scene::running("savepoint").edit(|spec| spec.restart_nonce = Some(1)));
    let described = |cluster: &FakeCluster| events(cluster, "SnapshotError").pop();
    let event = operating.until("the refusal is told", described).await;
    let message = event["message"].as_str().unwrap();
    assert!(message.contains("savepoint `s3://lake/sp/"), "{message}");
    operating.stop().await;
}

/// An API server that is busy for a moment delays a snapshot for a moment, and does not skip it.
#[tokio::test]
async fn a_periodic_snapshot_that_could_not_be_asked_for_is_still_due() {
    let cluster = FakeCluster::new();
    cluster.fail(Method::POST, "/flinkstatesnapshots", Fault::Status(503), 1);
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    let mut scene = Scene::running("savepoint");
    let created = Timestamp::now() - SignedDuration::from_hours(2);
    scene.resource.metadata.creation_timestamp = Some(Time(created));
    operating.run(&scene.operator_option("periodic.savepoint.interval", "1 h"));
    operating
        .until("it is asked for again", |cluster| cluster.objects("flinkstatesnapshots").pop())
        .await;
    let posts = operating.cluster.writes().into_iter().filter(|request| {
        request.method == Method::POST && request.uri.contains("/flinkstatesnapshots")
    });
    assert_eq!(posts.count(), 2);
    operating.stop().await;
}

/// The watch may show the new snapshot only after the next try.
#[tokio::test]
async fn a_nonce_whose_snapshot_was_made_unheard_makes_no_second_one() {
    let cluster = FakeCluster::new();
    let scene = Scene::running("savepoint").edit_job(|job| job.savepoint_trigger_nonce = Some(5));
    let snapshot = |asker: &str| {
        json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot",
            "metadata": {
                "name": "orders-savepoint-manual-u1-2-5", "namespace": "shop",
                "labels": {"snapshot.type": "SAVEPOINT", "snapshot.trigger-type": "MANUAL"},
                "annotations": {
                    "flink.apache.org/trigger-nonce": "5", "flink.apache.org/triggered-by": asker,
                },
            },
            // Without an owner, so that only its name leads to it.
            "spec": {"savepoint": {"path": "s3://lake/sp", "alreadyExists": true}},
        })
    };
    cluster.insert(snapshot("u0/2"));
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    operating.run(&scene);
    operating
        .until("that it is of somebody else is told", |cluster| {
            let error = error_of(cluster, "flinkdeployments", "orders")?;
            error.contains("already exists").then_some(())
        })
        .await;
    let resource = operating.cluster.object("flinkdeployments", "shop", "orders").unwrap();
    assert_eq!(used_nonce(&resource), None);

    operating.cluster.insert(snapshot("u1/2"));
    operating
        .until("the nonce had its effect", |cluster| {
            let resource = cluster.object("flinkdeployments", "shop", "orders")?;
            (used_nonce(&resource) == Some(5)).then_some(())
        })
        .await;
    assert_eq!(operating.cluster.objects("flinkstatesnapshots").len(), 1);
    operating.stop().await;
}

/// A webhook that fails, as the API server reports it.
const FAILED_WEBHOOK: &str = "Internal error occurred: failed calling webhook \"a.example.com\"";

#[tokio::test]
async fn a_job_alongside_whose_job_manager_a_webhook_fails_is_on_record_and_follows_its_user() {
    let cluster = FakeCluster::new();
    let fault = Fault::Refused(500, FAILED_WEBHOOK.to_owned());
    cluster.fail(Method::POST, "/services", fault, usize::MAX);
    cluster.insert(serde_json::to_value(Scene::new("stateless").resource).unwrap());
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    operating
        .until("the start is on record", |cluster| {
            let resource = cluster.object("flinkdeployments", "shop", "orders")?;
            let is_deployed = resource["status"]["reconciliationStatus"]["state"] == "DEPLOYED";
            is_deployed.then_some(())
        })
        .await;
    suspend(&operating).await;
    operating.stop().await;
}

#[tokio::test]
async fn a_lost_job_manager_is_recovered_while_the_dry_run_of_an_edit_fails() {
    let cluster = FakeCluster::new();
    let fault = Fault::Refused(500, FAILED_WEBHOOK.to_owned());
    cluster.fail(Method::POST, "/services", fault, usize::MAX);
    cluster.insert(ha_map(&format!("orders-{JOB_ID}-config-map"), checkpoint()));
    let lost = Scene::running("last-state").edit(|spec| spec.image = Some("flink:2".to_owned()));
    cluster.insert(with_status(&lost.resource, &lost.status));
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    let deployment = operating
        .until("it is recovered", |cluster| cluster.object("deployments", "shop", "orders"))
        .await;
    let image = &deployment["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(*image, "flink:1.20", "with the spec that ran");
    operating.stop().await;
}

#[tokio::test]
async fn a_lost_job_manager_is_on_record_while_its_pods_cannot_be_listed() {
    let cluster = FakeCluster::new();
    let fault = Fault::Refused(500, "Internal error occurred".to_owned());
    cluster.fail(Method::GET, "/pods", fault, usize::MAX);
    let lost = Scene::running("last-state");
    cluster.insert(with_status(&lost.resource, &lost.status));
    let operating = Operating::start_on(cluster, FakeFlink::start().await);
    operating
        .until("its loss is on record", |cluster| {
            let resource = cluster.object("flinkdeployments", "shop", "orders")?;
            (resource["status"]["jobManagerDeploymentStatus"] == "MISSING").then_some(())
        })
        .await;
    assert!(operating.cluster.object("deployments", "shop", "orders").is_none());
    operating.stop().await;
}
