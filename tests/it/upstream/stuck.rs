//! Something waited for ever, or went round in a circle.

use std::time::Duration;

use axum::http::Method;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kubectl_flink::api::status::{
    JobManagerDeploymentStatus, JobStatusState, LifecycleState, ReconciliationState,
};
use kubectl_flink::decide::world::{Fact, Stop};
use kubectl_flink::flink::jobs::CancelAnswer;
use kubectl_flink::flink::savepoints::{SavepointStatus, StopRequest};
use serde_json::json;

use crate::decisions::care::unhealthy;
use crate::decisions::{CHECKPOINT, JOB_ID, Scene, deeds, error, told};
use crate::session_job_simulation::Sim as SessionJob;
use crate::simulation::session::Session;
use crate::support::fake_cluster::Fault;
use crate::support::fake_flink::FakeFlink;
use crate::support::operating::{Operating, with_status};

/// Half a minute of a session cluster.
fn wait(cluster: &mut Session) {
    for _ in 0..30 {
        cluster.tick();
        cluster.pass(None);
    }
}

#[test]
fn flink_27337_a_session_cluster_is_not_deleted_under_its_jobs() {
    let mut cluster = Session::new("native");
    cluster.settle();
    cluster.referring = vec!["orders".to_owned()];
    cluster.jobs = vec![JobStatusState::Running];
    cluster.mark_for_deletion();
    wait(&mut cluster);
    assert!(cluster.is_up() && !cluster.is_gone());
    assert_eq!(cluster.message(), "The session jobs [orders] should be deleted first");
    cluster.referring.clear();
    wait(&mut cluster);
    assert!(cluster.is_up() && !cluster.is_gone());
    assert!(cluster.message().contains("non terminated jobs"), "{}", cluster.message());
    cluster.jobs = vec![JobStatusState::Canceled];
    wait(&mut cluster);
    assert!(cluster.is_gone());
}

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
    let before = looks();
    for replicas in 0..200 {
        let status = json!({"taskManager": {"replicas": replicas, "labelSelector": "a=b"}});
        operating.cluster.set_status("flinkdeployments", "shop", "orders", &status);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(looks() - before <= 5, "{} passes", looks() - before);
    operating.stop().await;
}

#[test]
fn flink_37320_a_job_that_finished_stays_so_without_its_job_manager() {
    for mode in ["stateless", "savepoint", "last-state"] {
        let mut scene = Scene::running(mode).in_state(JobStatusState::Finished).without_metadata();
        scene.facts.job_manager = Fact::Known(None);
        scene.facts.pods = Fact::Known(vec![]);
        for _ in 0..3 {
            let plan = scene.plan();
            assert!(deeds(&plan).is_empty(), "{mode}: {}", told(&plan));
            assert_eq!(plan.status.job_status.state, Some(JobStatusState::Finished), "{mode}");
            scene = scene.after(&plan);
        }
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
async fn flink_37372_a_failure_that_nobody_can_deserialise_is_told_and_over() {
    let fake = FakeFlink::start().await;
    fake.run_job(JOB_ID);
    // The fake's `serialized-throwable` is cut off after its magic number.
    fake.with_job(JOB_ID, |job| job.savepoint_failure = Some("disk is full".to_owned()));
    let (client, trigger) = (fake.client(), "0".repeat(31) + "9");
    let request = StopRequest {
        target_directory: Some("file:///savepoints".to_owned()),
        drain: false,
        format: kubectl_flink::api::status::SavepointFormatType::Canonical,
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
    assert!(deeds(&plan).is_empty(), "{}", told(&plan));
    assert!(error(&plan).contains("disk is full"), "{}", error(&plan));
    assert!(plan.look_again.is_some_and(|pause| pause >= Duration::from_secs(1)));
}

/// A session job whose deletion was asked for.
fn deleted(job: &mut SessionJob) {
    job.resource.metadata.deletion_timestamp = Some(Time(job.now));
}

fn is_gone(job: &SessionJob) -> bool {
    job.resource.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
}

#[tokio::test]
async fn flink_37766_a_session_job_that_ended_before_its_cancellation_is_let_go() {
    let fake = FakeFlink::start().await;
    fake.run_job(JOB_ID);
    fake.with_job(JOB_ID, |job| job.state = "FAILED".to_owned());
    let answer = fake.client().cancel(JOB_ID).await.unwrap();
    assert!(matches!(answer, CancelAnswer::AlreadyTerminal(Some(_))), "{answer:?}");

    for listed in [Some(JobStatusState::Failed), Some(JobStatusState::Finished), None] {
        let mut job = SessionJob::new("savepoint", false);
        job.settle();
        job.status.job_status.state = Some(JobStatusState::Cancelling);
        match listed {
            Some(state) => job.jobs[0].state = state,
            None => job.jobs.clear(),
        }
        deleted(&mut job);
        for _ in 0..5 {
            job.tick();
            job.pass(None);
        }
        assert!(is_gone(&job), "{listed:?}");
    }
}

#[test]
fn flink_38077_a_job_whose_job_manager_is_silent_is_not_cancelled_for_an_upgrade() {
    for state in [JobStatusState::Restarting, JobStatusState::Failing, JobStatusState::Created] {
        let mut scene = Scene::running("last-state")
            .operator_option("job.upgrade.last-state.job-cancel.enabled", "true")
            .in_state(state)
            .edit_job(|job| job.parallelism = Some(4));
        assert!(deeds(&scene.plan()).contains(&"cancel-job"), "{}", told(&scene.plan()));
        scene.facts.jobs = Fact::Unknown("timeout".to_owned());
        let plan = scene.plan();
        assert_eq!(deeds(&plan), ["record-revision", "write-status", "stop-job-manager"]);
        assert_eq!(plan.because, "removing the JobManager, HA metadata is kept");
        let plan = scene.without_metadata().plan();
        assert!(deeds(&plan).is_empty(), "{}", told(&plan));
    }
}

#[test]
fn flink_39271_a_session_job_ends_beside_a_cluster_that_does_not_answer() {
    let mark = |job: &mut SessionJob, state: JobManagerDeploymentStatus| {
        let status = job.cluster.status.as_mut().unwrap();
        status.job_manager_deployment_status = state;
        status.reconciliation_status.state = ReconciliationState::Deployed;
    };
    // Without high availability it went with its JobManager.
    let mut lost = SessionJob::new("savepoint", false);
    lost.settle();
    deleted(&mut lost);
    mark(&mut lost, JobManagerDeploymentStatus::Missing);
    lost.pass(None);
    assert!(is_gone(&lost));
    // With it the job comes back, and is cancelled then.
    let mut kept = SessionJob::new("savepoint", true);
    kept.settle();
    deleted(&mut kept);
    mark(&mut kept, JobManagerDeploymentStatus::Missing);
    kept.away = 3;
    let plan = kept.pass(None);
    assert!(!is_gone(&kept) && plan.look_again.is_some(), "{}", plan.because);
    assert!(plan.because.contains("deletion waits for the session cluster"), "{}", plan.because);
    for _ in 0..8 {
        kept.tick();
        kept.pass(None);
    }
    assert!(is_gone(&kept));
    assert!(kept.jobs.iter().all(|job| job.state.is_globally_terminal()));
}

#[test]
fn flink_39507_the_health_check_does_not_restart_a_job_that_has_ended() {
    for state in [JobStatusState::Failed, JobStatusState::Finished] {
        let running = unhealthy("last-state");
        assert!(deeds(&running.plan()).contains(&"stop-job-manager"));
        let mut ended = running.in_state(state).path(CHECKPOINT);
        let verdict =
            json!({"timeStamp": 0, "healthResult": {"healthy": false, "error": "restarts"}});
        ended.status.cluster_info.insert("ClusterHealthInfo".to_owned(), verdict.to_string());
        let plan = ended.plan();
        assert!(deeds(&plan).is_empty(), "{state:?}: {}", told(&plan));
        assert_eq!(plan.status.job_status.state, Some(state));
    }
}

#[test]
fn flink_39618_a_session_cluster_and_its_job_are_deleted_together() {
    let mut cluster = Session::new("native");
    cluster.settle();
    let mut job = SessionJob::new("savepoint", true);
    job.settle();
    cluster.referring = vec!["orders".to_owned()];
    cluster.jobs = vec![JobStatusState::Running];
    cluster.mark_for_deletion();
    wait(&mut cluster);
    assert!(!cluster.is_gone());
    // The job can still be cancelled, in a cluster that waits for it.
    let status = &cluster.status;
    assert_eq!(status.lifecycle_state, Some(LifecycleState::Deleting));
    assert_eq!(status.job_manager_deployment_status, JobManagerDeploymentStatus::Ready);
    job.cluster.status = Some(status.clone());
    job.cluster.metadata.deletion_timestamp = Some(Time(job.now));
    deleted(&mut job);
    for _ in 0..5 {
        job.tick();
        job.pass(None);
    }
    assert!(is_gone(&job));
    assert!(job.jobs.iter().all(|job| job.state == JobStatusState::Canceled), "it was cancelled");
    cluster.referring.clear();
    cluster.jobs = vec![JobStatusState::Canceled];
    wait(&mut cluster);
    assert!(cluster.is_gone());
}
