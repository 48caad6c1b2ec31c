//! Something waited forever, or went round in circles.

use std::time::{Duration, Instant};

use api::deployment::FlinkDeployment;
use api::status::JobStatusState;
use axum::http::Method;
use clients::flink::jobs::CancelAnswer;
use clients::flink::savepoints::{SavepointStatus, StopRequest};
use kube::api::{Api, Patch, PatchParams};
use lifecycle::world::{Fact, Stop};
use serde_json::json;
use testing::scene::{JOB_ID, Scene, described, error, step_names};

use crate::support::fake_cluster::Fault;
use crate::support::fake_flink::{FakeFlink, Fault as FlinkFault};
use crate::support::operating::{Operating, with_status};

#[tokio::test]
async fn flink_31860_a_resource_ends_in_a_namespace_that_takes_no_events() {
    let scene = Scene::running("stateless").gone().delete();
    let operating = Operating::start(FakeFlink::start().await);
    let why = "events is forbidden: unable to create new content in namespace shop because it is \
               being terminated";
    let fault = Fault::Refused(403, why.to_owned());
    operating.cluster.fail(Method::POST, "/events", fault, usize::MAX);
    operating.cluster.insert(with_status(&scene.resource, &scene.status));
    operating
        .until("the resource is gone", |cluster| {
            cluster.object("flinkdeployments", "shop", "orders").is_none().then_some(())
        })
        .await;
    let tried = operating
        .cluster
        .requests()
        .iter()
        .any(|request| request.method == Method::POST && request.uri.contains("/events"));
    assert!(tried, "no event was refused");
    operating.stop().await;
}

#[tokio::test]
async fn flink_33067_a_storm_of_status_writes_is_no_storm_of_passes() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.run(&Scene::running("savepoint"));
    operating.until_seen_running().await;
    let looks = || operating.flink.requests("GET /jobs/overview").len();
    let (before, begun) = (looks(), Instant::now());
    for replicas in 0..200 {
        let status = json!({"taskManager": {"replicas": replicas, "labelSelector": "a=b"}});
        operating.cluster.set_status("flinkdeployments", "shop", "orders", &status);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // Passes that are due anyway, of which there is at most one in a second.
    let in_time = usize::try_from(begun.elapsed().as_secs()).unwrap();
    assert!(looks() - before <= 5 + in_time, "{} passes", looks() - before);
    operating.stop().await;
}

/// Changes do wake a resource, but only once, however many there are during a pass.
#[tokio::test]
async fn flink_33067_a_storm_of_changes_during_a_pass_is_one_pass_after_it() {
    let operating = Operating::start(FakeFlink::start().await);
    let scene = Scene::running("savepoint").operator_option("flink.client.timeout", "2 s");
    operating.run(&scene);
    operating.until_seen_running().await;
    let looks = || operating.flink.requests("GET /jobs/overview").len();
    // A pass takes a while.
    operating.flink.inject("GET /jobs/overview", FlinkFault::SilentBefore, 3);
    let (before, begun) = (looks(), Instant::now());
    // A silent pass ends after two seconds, and the next one begins.
    let most = |passes| passes + usize::try_from(begun.elapsed().as_secs() / 2).unwrap();
    let deployments: Api<FlinkDeployment> = Api::namespaced(operating.cluster.client(), "shop");
    let change = async |number: usize| {
        let nonce = number.to_string();
        let option = "kubernetes.operator.savepoint.history.max.count";
        let change = json!({
            "metadata": {"labels": {"nonce": nonce}},
            "spec": {"flinkConfiguration": {option: nonce}},
        });
        let replicas = json!({"updatedReplicas": number});
        operating.cluster.set_status("deployments", "shop", "orders", &replicas);
        let (patch, params) = (Patch::Merge(change), PatchParams::default());
        deployments.patch("orders", &params, &patch).await.unwrap().metadata.generation
    };
    let mut generation = change(0).await;
    operating.until("a pass begins", |_| (looks() > before).then_some(())).await;
    for number in 1..60 {
        generation = change(number).await;
        tokio::task::yield_now().await;
    }
    assert!(looks() - before <= most(3), "{} passes", looks() - before);
    // And the last of them was not missed.
    operating
        .until("the last change is seen", |cluster| {
            let resource = cluster.object("flinkdeployments", "shop", "orders")?;
            let observed = resource["status"]["observedGeneration"].as_i64();
            (observed == generation).then_some(())
        })
        .await;
    assert!(looks() - before <= most(8), "{} passes", looks() - before);
    operating.stop().await;
}

/// `-1` is documented as no limit, and `0` is what others mean by that.
#[tokio::test]
async fn flink_40550_an_operator_without_a_limit_of_passes_starts() {
    for number in ["-1", "0", "1"] {
        let options = format!("kubernetes.operator.reconcile.parallelism: {number}\n");
        let operating = Operating::start_configured(FakeFlink::start().await, &options);
        operating.run(&Scene::running("savepoint"));
        operating.until_seen_running().await;
        operating.stop().await;
    }
}

#[tokio::test]
async fn flink_37370_a_job_without_checkpoints_is_seen_to_finish() {
    let operating = Operating::start(FakeFlink::start().await);
    operating.run(&Scene::running("stateless"));
    operating.flink.with("shop/orders", |cluster| {
        let job = cluster.jobs.get_mut(JOB_ID).unwrap();
        job.is_checkpointing = false;
        job.state = "FINISHED".to_owned();
    });
    let status = operating
        .until("the job is seen to have finished", |cluster| {
            let status = &cluster.object("flinkdeployments", "shop", "orders")?["status"];
            (status["jobStatus"]["state"] == "FINISHED").then(|| status.clone())
        })
        .await;
    assert_eq!(status["error"], json!(null), "{status}");
    operating.stop().await;
}

#[tokio::test]
async fn flink_37372_a_failure_that_nobody_can_deserialise_is_reported_and_over() {
    let fake = FakeFlink::start().await;
    fake.run_job(JOB_ID);
    // The fake's `serialized-throwable` is truncated after its magic number.
    fake.with_job(JOB_ID, |job| job.savepoint_failure = Some("disk is full".to_owned()));
    let (client, trigger) = (fake.client(), "0".repeat(31) + "9");
    let request = StopRequest {
        target_directory: Some("file:///savepoints".to_owned()),
        drain: false,
        format: api::status::SavepointFormatType::Canonical,
        trigger_id: trigger.clone(),
    };
    client.stop_with_savepoint(JOB_ID, &request).await.unwrap();
    let status = client.await_savepoint(JOB_ID, &trigger).await.unwrap();
    let SavepointStatus::Failed(cause) = status else { panic!("{status:?}") };
    let message = cause.chain().join(" -> ");
    assert!(message.contains("disk is full"), "{message}");

    let changed = Scene::running("savepoint").edit_job(|job| job.parallelism = Some(4));
    let mut stopping = changed.clone().after(&changed.plan());
    stopping.facts.stop = Fact::Known(Stop::Failed { message });
    let plan = stopping.plan();
    assert!(step_names(&plan).is_empty(), "{}", described(&plan));
    assert!(error(&plan).contains("disk is full"), "{}", error(&plan));
    assert!(plan.look_again.is_some_and(|pause| pause >= Duration::from_secs(1)));
    // It is over: it is not requested again, the job continues, and the error stays in the status.
    let mut later = stopping.after(&plan);
    assert_eq!(
        later.status.job_status.savepoint_info.as_ref().and_then(|it| it.trigger_id.as_ref()),
        None
    );
    later.facts.stop = Fact::NotAsked;
    for _ in 0..3 {
        let plan = later.plan();
        assert!(step_names(&plan).is_empty(), "{}", described(&plan));
        assert!(plan.because.contains("will be retried"), "{}", plan.because);
        assert!(error(&plan).contains("disk is full"), "{}", error(&plan));
        assert_eq!(plan.status.job_status.state, Some(JobStatusState::Running));
        later = later.after(&plan);
    }
}

#[tokio::test]
async fn flink_37766_a_job_that_has_ended_is_no_failure_of_its_cancellation() {
    let fake = FakeFlink::start().await;
    fake.run_job(JOB_ID);
    fake.with_job(JOB_ID, |job| job.state = "FAILED".to_owned());
    let answer = fake.client().cancel(JOB_ID).await.unwrap();
    assert!(matches!(answer, CancelAnswer::AlreadyTerminal(Some(_))), "{answer:?}");
}
