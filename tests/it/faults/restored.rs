//! etcd is restored to an earlier state: what users and the operator did since then is no longer stored, but Flink did
//! it all the same.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kube::api::ListParams;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::ground::{Ground, file};
use super::parts::{self, Part};
use super::proxy::Fault;
use super::scenarios::{
    CLUSTER, JOB, deployment, highly_available, run_in_session, scale_in_session,
    until_checkpointed,
};
use super::stage::{DEPLOYMENT, SESSION_JOB, SNAPSHOT, Script, Stage, is_stable};
use crate::support::patience::PATIENCE;
use crate::support::program::other;

/// Parts in order of their start, from etcd to its clients.
const PARTS: [&str; 3] = ["etcd", "kube-apiserver", "kube-controller-manager"];
/// More writes than happen between the backup and the end of the control plane.
const WRITES_MAX: usize = 5000;
const POLL_EVERY: Duration = Duration::from_millis(100);

/// Copies etcd's current data.
fn back_up(ground: &Ground, to: &Path) {
    let (etcd, line) = parts::process(ground, "etcd");
    kill_process(etcd, Signal::STOP).unwrap();
    copy(&data_of(&line), to);
    kill_process(etcd, Signal::CONT).unwrap();
}

/// Stops the control plane and starts it again from the backup.
async fn restore(ground: &Ground, from: &Path) -> Vec<Part> {
    let ended = PARTS.map(|name| parts::process(ground, name).0);
    let lines = PARTS.map(|name| parts::end(ground, name));
    let is_gone = async || ended.iter().all(|part| !parts::runs(*part));
    until("the control plane has ended", is_gone).await;
    let data = data_of(&lines[0]);
    std::fs::remove_dir_all(&data).unwrap();
    copy(from, &data);
    let mut restored = Vec::new();
    for line in lines {
        restored.push(Part::start(&line));
        // The next one gives up if it has to wait long for this one.
        until(&format!("{} is up", line[0]), async || is_up(ground, &line).await).await;
    }
    restored
}

/// Whether this part of the control plane can be used; a part that nothing waits for always can.
async fn is_up(ground: &Ground, line: &[String]) -> bool {
    if let Some(address) = argument(line, "--listen-client-urls=http://") {
        return TcpStream::connect(address).await.is_ok();
    }
    if argument(line, "--etcd-servers=").is_some() {
        let ready = http::Request::get("/readyz").body(Vec::new()).unwrap();
        return ground.client.request_text(ready).await.is_ok();
    }
    true
}

/// Waits until something is so while there may be no control plane.
async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let start = Instant::now();
    while !is_so().await {
        assert!(start.elapsed() < PATIENCE, "not in time: {what}");
        sleep(POLL_EVERY).await;
    }
}

fn argument<'line>(line: &'line [String], name: &str) -> Option<&'line str> {
    line.iter().find_map(|argument| argument.strip_prefix(name))
}

fn data_of(line: &[String]) -> std::path::PathBuf {
    argument(line, "--data-dir=").unwrap().into()
}

fn copy(from: &Path, to: &Path) {
    let status = other("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(status.success());
}

/// Rejects new JobManagers while `is_held`, and notes in `was_asked` that one was requested. Rejects every request
/// while the API server `is_away`.
fn without_deployments(
    is_held: &Arc<AtomicBool>,
    was_asked: &Arc<AtomicBool>,
    is_away: &Arc<AtomicBool>,
) -> Script {
    let [is_held, was_asked, is_away] = [is_held, was_asked, is_away].map(Arc::clone);
    Box::new(move |asked| {
        if is_away.load(Ordering::Relaxed) {
            return Some(Fault::Status(503, None));
        }
        let is_it = is_held.load(Ordering::Relaxed)
            && asked.is("POST", "/deployments")
            && asked.path.starts_with("/apis/apps/");
        if is_it {
            was_asked.store(true, Ordering::Relaxed);
        }
        is_it.then_some(Fault::Status(503, None))
    })
}

/// Returns the store's revision.
async fn revision(stage: &Stage) -> u64 {
    let list = stage.api("ConfigMap").list_metadata(&ListParams::default().limit(1)).await;
    list.unwrap().metadata.resource_version.unwrap().parse().unwrap()
}

/// Writes until the store's revision exceeds `was`.
async fn overtake(stage: &Stage, was: u64) {
    for number in 0..WRITES_MAX {
        if revision(stage).await > was {
            return;
        }
        stage
            .create(json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("written-since-{number}")},
            }))
            .await;
    }
    panic!("{}", stage.described("the store does not come further than it was"));
}

/// Returns a stage without faults.
async fn calm(ground: &Arc<Ground>, name: &str) -> Stage {
    Stage::new(ground, &format!("restored-{name}"), Box::new(|_| None)).await
}

async fn until_asked(flag: &AtomicBool, stage: &Stage) {
    let start = Instant::now();
    while !flag.load(Ordering::Relaxed) {
        let is_over = start.elapsed() > PATIENCE;
        assert!(!is_over, "{}", stage.described("no JobManager was to be created"));
        sleep(POLL_EVERY).await;
    }
}

fn error_of(found: &Value) -> String {
    found["status"]["error"].as_str().unwrap_or_default().to_owned()
}

fn is_refused(found: &Value) -> bool {
    error_of(found).contains("RecordWentBack")
}

/// Changes the parallelism and waits until Flink runs with it.
async fn scale(stage: &Stage, parallelism: i32) {
    stage.edit(DEPLOYMENT, JOB, json!({"job": {"parallelism": parallelism}})).await;
    let reached = |found: &Value| {
        is_stable(found) && found["spec"]["job"]["parallelism"] == json!(parallelism)
    };
    stage.until(DEPLOYMENT, JOB, "STABLE with another parallelism", reached).await;
}

async fn take_snapshot(stage: &Stage) {
    stage
        .create(json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": SNAPSHOT,
            "metadata": {"name": "lost"},
            "spec": {"savepoint": {}, "jobReference": {"kind": DEPLOYMENT, "name": JOB}},
        }))
        .await;
    let completed = |found: &Value| found["status"]["state"] == "COMPLETED";
    stage.until(SNAPSHOT, "lost", "COMPLETED", completed).await;
}

/// Returns the id of the only job in a session cluster that has not ended.
fn live_job(stage: &Stage) -> String {
    let key = format!("{}/{CLUSTER}", stage.namespace);
    stage.ground.world.flink().with(&key, |cluster| {
        let live: Vec<_> = cluster.jobs.values().filter(|job| !job.is_terminal()).collect();
        assert_eq!(live.len(), 1, "{}", stage.described("not one job"));
        live[0].id.clone()
    })
}

/// The cluster of a session job kept running a job that is no longer recorded: no second job is started beside it, and
/// the next one starts from the state that a person names.
async fn a_session_job_is_not_started_twice(stage: &Stage, newest: &str) {
    let is_reported = |found: &Value| is_refused(found) && error_of(found).contains("still runs");
    let found = stage.until(SESSION_JOB, JOB, "refused", is_reported).await;
    assert!(error_of(&found).contains(newest), "{}", stage.described(&error_of(&found)));
    stage.until_at_rest().await;
    assert_eq!(live_job(stage), newest, "{}", stage.described("another job runs"));
    // A person cancels it and names the state that it leaves.
    let key = format!("{}/{CLUSTER}", stage.namespace);
    let path = stage.ground.world.flink().with(&key, |cluster| {
        let job = cluster.jobs.get_mut(newest).unwrap();
        job.cancel();
        job.checkpoints.last().unwrap().path.clone()
    });
    let answer = json!({"initialSavepointPath": path, "savepointRedeployNonce": 7});
    stage.edit(SESSION_JOB, JOB, json!({ "job": answer })).await;
    stage.until(SESSION_JOB, JOB, "STABLE", is_stable).await;
    let restored = stage.ground.world.flink().with(&key, |cluster| cluster.starts.last().cloned());
    let restored = restored.and_then(|start| start.restored).map(|(path, _)| path);
    assert_eq!(restored, Some(path), "{}", stage.described("started from something else"));
    assert_ne!(live_job(stage), newest);
    stage.until_at_rest().await;
    stage.check_laws();
}

/// For two jobs in the middle of a start the record ends before that start: only the operator that saw it knows what
/// they saved later. Three others were running, and two of them, one in a session cluster, were upgraded since.
pub(super) async fn the_store_may_go_back() {
    let ground = Arc::new(Ground::new("restored").await);
    let is_held = Arc::new(AtomicBool::new(true));
    let was_asked = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let upgraded = calm(&ground, "upgraded").await;
    upgraded.create(highly_available("last-state")).await;
    let snapshots = calm(&ground, "snapshots").await;
    snapshots.create(deployment("savepoint")).await;
    let in_session = calm(&ground, "in-session").await;
    run_in_session(&in_session, "savepoint").await;
    let [is_away, never] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let script = without_deployments(&is_held, &was_asked[0], &is_away);
    let between = Stage::new(&ground, "restored-between", script).await;
    between.create(deployment("savepoint")).await;
    let script = without_deployments(&is_held, &was_asked[1], &never);
    let first = Stage::new(&ground, "restored-first", script).await;
    for stage in [&upgraded, &snapshots, &between] {
        stage.until_stable(JOB).await;
    }
    until_checkpointed(&upgraded).await;
    for stage in [&upgraded, &snapshots, &between, &first, &in_session] {
        stage.begin();
    }
    between.edit(DEPLOYMENT, JOB, json!({"job": {"parallelism": 2}})).await;
    first.create(deployment("savepoint")).await;
    until_asked(&was_asked[0], &between).await;
    until_asked(&was_asked[1], &first).await;

    let backup = file(&ground, "backup");
    back_up(&ground, &backup);
    is_held.store(false, Ordering::Relaxed);
    scale(&upgraded, 2).await;
    take_snapshot(&snapshots).await;
    scale_in_session(&in_session).await;
    let newest = live_job(&in_session);
    between.until_stable(JOB).await;
    first.until_stable(JOB).await;

    // One of the operators recovers only once the store's revision is higher than ever before.
    is_away.store(true, Ordering::Relaxed);
    let was = revision(&between).await;
    // They are idle.
    for stage in [&upgraded, &snapshots, &between, &first, &in_session] {
        stage.proxy.forget_phases();
    }
    let _parts = restore(&ground, &backup).await;
    ground.world.see_anew().await;
    overtake(&between, was).await;
    is_away.store(false, Ordering::Relaxed);
    for stage in [&between, &first] {
        let found = stage.until(DEPLOYMENT, JOB, "refused", is_refused).await;
        let error = error_of(&found);
        assert!(error.contains("savepointRedeployNonce"), "{}", stage.described(&error));
        stage.until_at_rest().await;
        let running = ground.world.job_managers(&stage.namespace);
        assert_eq!(running, 0, "{}", stage.described("a JobManager was started"));
        stage.check_laws();
    }
    a_session_job_is_not_started_twice(&in_session, &newest).await;
    upgraded.until_stable(JOB).await;
    scale(&upgraded, 3).await;
    snapshots.until(SNAPSHOT, "lost", "gone", Value::is_null).await;
    take_snapshot(&snapshots).await;
    snapshots.until_stable(JOB).await;

    // A person says what to start from for one; the other is deleted.
    let key = format!("{}/{JOB}", between.namespace);
    let path = ground.world.flink().with(&key, |cluster| cluster.newest_path().unwrap());
    let answer = json!({"initialSavepointPath": path, "savepointRedeployNonce": 7});
    between.edit(DEPLOYMENT, JOB, json!({ "job": answer })).await;
    between.until_stable(JOB).await;
    first.delete(DEPLOYMENT, JOB).await;
    first.until_gone(DEPLOYMENT, JOB).await;
    for stage in [&upgraded, &snapshots, &between, &first] {
        stage.until_at_rest().await;
        stage.check_laws();
        let expected = usize::from(stage.namespace != first.namespace);
        let running = ground.world.job_managers(&stage.namespace);
        assert_eq!(running, expected, "{}", stage.described("JobManagers"));
    }
}
