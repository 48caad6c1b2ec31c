//! Hot upgrades whose old pods take long to end, that are changed in the middle, whose Deployments are rejected, or whose
//! operator is paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Method;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::disturbance::{Disturbance, same_end};
use super::ground::Ground;
use super::points::REFUSED;
use super::proxy::{Asked, Fault};
use super::scenarios::{JOB, hot, run, until_checkpointed};
use super::stage::{DEPLOYMENT, Stage, is_stable, is_suspended};
use testing::share::third;

/// Longer than a JobManager waits for a lock that is not renewed.
const SLOW: Duration = Duration::from_secs(18);
/// How long the operator is paused.
const PAUSE: Duration = Duration::from_secs(20);

pub(super) async fn standby_pods_lead_only_when_they_should() {
    let ground = Ground::shared().await;
    tokio::join!(
        one_waits_for_pods_that_end_slowly(&ground),
        that_of_a_discarded_spec_never_leads(&ground),
        none_runs_on_without_a_deployment(&ground),
    );
}

async fn stage(ground: &Arc<Ground>, name: &str) -> Stage {
    let stage = Stage::new(ground, name, Box::new(|_| None)).await;
    run(&stage, hot()).await;
    until_checkpointed(&stage).await;
    stage
}

async fn scale(stage: &Stage, parallelism: i32) {
    stage.edit(DEPLOYMENT, JOB, json!({"job": {"parallelism": parallelism}})).await;
}

async fn until_scaled(stage: &Stage, parallelism: i32) {
    let is_it = |found: &Value| {
        is_stable(found) && found["spec"]["job"]["parallelism"] == json!(parallelism)
    };
    stage.until(DEPLOYMENT, JOB, "STABLE with another parallelism", is_it).await;
}

async fn until_taken_down(stage: &Stage) {
    let is_it = |found: &Value| found["status"]["reconciliationStatus"]["state"] == "UPGRADING";
    stage.until(DEPLOYMENT, JOB, "UPGRADING", is_it).await;
}

/// Returns how often the job was started, and whether it was a JobManager that did not wait for another one.
fn starts(stage: &Stage) -> (usize, bool) {
    let world = &stage.ground.world;
    let key = format!("{}/{JOB}", stage.namespace);
    let starts = world.flink().with(&key, |cluster| cluster.starts.len());
    (starts, world.has_overlapped(&stage.namespace, JOB))
}

async fn one_waits_for_pods_that_end_slowly(ground: &Arc<Ground>) {
    let stage = stage(ground, "hot-slow").await;
    ground.world.end_slowly(&stage.namespace, SLOW);
    scale(&stage, 2).await;
    until_scaled(&stage, 2).await;
    assert_eq!(starts(&stage), (2, false), "{}", stage.described("it led too early"));
    stage.check_laws();
}

async fn that_of_a_discarded_spec_never_leads(ground: &Arc<Ground>) {
    let stage = stage(ground, "hot-discarded").await;
    ground.world.end_slowly(&stage.namespace, SLOW);
    scale(&stage, 2).await;
    until_taken_down(&stage).await;
    scale(&stage, 3).await;
    until_scaled(&stage, 3).await;
    let (count, has_overlapped) = starts(&stage);
    // Nobody renews the lock once the standby pods are gone. The old JobManager may take it back until it ends.
    let is_it = (2..=3).contains(&count) && !has_overlapped;
    assert!(is_it, "{}", stage.described("what was discarded has run"));
    stage.check_laws();
}

/// The pods were handed over to Deployments that the API server rejects. Neither a suspended job nor a deleted one has
/// pods that run.
async fn none_runs_on_without_a_deployment(ground: &Arc<Ground>) {
    let is_rejecting = Arc::new(AtomicBool::new(false));
    let rejects = Arc::clone(&is_rejecting);
    let is_deployment = |asked: &Asked| {
        let body: Value = serde_json::from_str(&asked.body).unwrap_or_default();
        asked.is("POST", "/deployments") && body["metadata"]["name"] == JOB
    };
    let script = move |asked: &Asked| {
        (rejects.load(Ordering::Relaxed) && is_deployment(asked)).then_some(REFUSED)
    };
    let stage = Stage::new(ground, "hot-rejected", Box::new(script)).await;
    run(&stage, hot()).await;
    until_checkpointed(&stage).await;
    stage.begin();
    let pods = async || {
        let pods = stage.api("Pod").list(&ListParams::default()).await.unwrap();
        pods.items.into_iter().filter_map(|pod| pod.metadata.name).collect::<Vec<_>>()
    };
    for (round, ends) in ["suspended", "gone"].into_iter().enumerate() {
        is_rejecting.store(true, Ordering::Relaxed);
        scale(&stage, 2 + i32::try_from(round).unwrap()).await;
        let count = stage.proxy.recorded().len();
        let is_rejected = |recorded: &[super::proxy::Recorded]| {
            recorded[count..]
                .iter()
                .any(|one| one.fault.is_some() && one.asked.method == Method::POST)
        };
        while !is_rejected(&stage.proxy.recorded()) {
            stage.operator.tend();
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(ground.world.job_managers(&stage.namespace), 1, "it runs on such a pod");
        if ends == "suspended" {
            stage.edit(DEPLOYMENT, JOB, json!({"job": {"state": "suspended"}})).await;
            stage.until(DEPLOYMENT, JOB, "SUSPENDED", is_suspended).await;
            assert_eq!(pods().await, [""; 0], "{}", stage.described("pods run on"));
            assert_eq!(ground.world.job_managers(&stage.namespace), 0);
            is_rejecting.store(false, Ordering::Relaxed);
            stage.edit(DEPLOYMENT, JOB, json!({"job": {"state": "running"}})).await;
            until_scaled(&stage, 2).await;
        } else {
            stage.delete(DEPLOYMENT, JOB).await;
            stage.until_gone(DEPLOYMENT, JOB).await;
            assert_eq!(pods().await, [""; 0], "{}", stage.described("pods run on"));
        }
    }
    stage.check_laws();
}

/// The lock expires while the operator is paused, after any of its writes.
pub(super) async fn a_paused_operator_loses_nothing() {
    let ground = Ground::shared().await;
    same_end(&ground, "hot_upgrade", |base| {
        let paused = base.points.iter().enumerate().map(|(index, point)| {
            let trouble =
                Disturbance::at(format!("paused-{}", index + 1), point, Fault::Pause(PAUSE));
            // Before the old JobManager is stopped, it may take the lock back and start its job once more.
            let trouble = trouble.starting_again();
            if base.sure.contains(point) { trouble } else { trouble.perhaps() }
        });
        third(paused)
    })
    .await;
}
