//! The scenarios: deployments, session jobs and snapshots that are disturbed at every point.
//!
//! Each is prepared undisturbed; requests are numbered from `begin` on.

pub(super) mod blue_green;
mod sessions;

use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use kube::api::{DeleteParams, DynamicObject, ListParams};
use serde_json::{Value, json};
use tokio::time::sleep;

use blue_green::{
    blue_green_abort, blue_green_delete, blue_green_deploy, blue_green_stateless_transition,
    blue_green_suspend_and_resume, blue_green_transition,
};
use sessions::{
    session_cluster_delete_with_its_job, session_cluster_upgrade, session_cluster_upgrade_with_ha,
    session_job_delete_with_savepoint, session_job_snapshot,
};

use super::proxy::Asked;
use super::stage::{DEPLOYMENT, SESSION_JOB, SNAPSHOT, Stage, is_stable, is_suspended};
use crate::support::fake_flink::load::{Load, SOURCE, WINDOW};
use crate::support::patience::PATIENCE;

pub(super) const JOB: &str = "orders";
pub(super) const CLUSTER: &str = "lab";

const PREFLIGHT: &str = "kubernetes.operator.job.upgrade.preflight";

pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) play: for<'a> fn(&'a Stage) -> BoxFuture<'a, ()>,
    /// Clusters whose jobs are part of the end state.
    pub(super) clusters: &'static [&'static str],
}

impl Scenario {
    /// Returns the request that Flink may reject, in which case the scenario ends differently. The same end is allowed
    /// if the operator died after recording that it would ask, because it does not ask twice.
    pub(super) fn refusable(&self) -> Option<fn(&Asked) -> bool> {
        let is_scaling: fn(&Asked) -> bool = |asked| asked.is("PUT", "/resource-requirements");
        (self.name == "scaling_in_place").then_some(is_scaling)
    }
}

macro_rules! scenarios {
    ($($name:ident in $($cluster:expr),+;)*) => {
        pub(super) const ALL: &[Scenario] = &[$(Scenario {
            name: stringify!($name),
            play: |stage| $name(stage).boxed(),
            clusters: &[$($cluster),+],
        }),*];
    };
}

scenarios! {
    deploy in JOB;
    stateless_upgrade in JOB;
    savepoint_upgrade in JOB;
    upgrade_after_a_trial in JOB;
    last_state_upgrade in JOB;
    last_state_upgrade_of_flink_2 in JOB;
    scaling_in_place in JOB;
    upgrade_by_cancelling in JOB;
    standalone_upgrade in JOB;
    standalone_last_state_upgrade in JOB;
    hot_upgrade in JOB;
    redeploy_from_a_savepoint in JOB;
    restart_of_a_failed_job in JOB;
    suspend_and_resume in JOB;
    suspend_and_resume_with_last_state in JOB;
    mend_of_a_job_that_never_started in JOB;
    rollback in JOB;
    delete in JOB;
    delete_with_savepoint in JOB;
    delete_in_mid_upgrade in JOB;
    delete_while_a_savepoint_is_taken in JOB;
    lost_job_manager in JOB;
    adoption in JOB;
    snapshot_by_hand in JOB;
    checkpoint_by_hand in JOB;
    snapshot_by_nonce in JOB;
    periodic_snapshots in JOB;
    snapshots_in_the_status in JOB;
    session_job in CLUSTER;
    session_job_upgrade in CLUSTER;
    session_job_last_state_upgrade in CLUSTER;
    session_job_suspend_and_resume in CLUSTER;
    session_job_snapshot in CLUSTER;
    session_job_delete in CLUSTER;
    session_job_delete_with_savepoint in CLUSTER;
    session_cluster_upgrade in CLUSTER;
    session_cluster_upgrade_with_ha in CLUSTER;
    session_cluster_delete_with_its_job in CLUSTER;
    blue_green_deploy in "orders-blue", "orders-green";
    blue_green_transition in "orders-blue", "orders-green";
    blue_green_stateless_transition in "orders-blue", "orders-green";
    blue_green_abort in "orders-blue", "orders-green";
    blue_green_suspend_and_resume in "orders-blue", "orders-green";
    blue_green_delete in "orders-blue", "orders-green";
}

pub(super) fn deployment(mode: &str) -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": DEPLOYMENT,
        "metadata": {"name": JOB},
        "spec": {
            "image": "flink:1.20",
            "flinkVersion": "v1_20",
            "serviceAccount": "flink",
            "flinkConfiguration": {
                "taskmanager.numberOfTaskSlots": "1",
                // A preflight with pods would add steps to each upgrade; one scenario covers it.
                PREFLIGHT: "objects",
                "execution.checkpointing.dir": "file:/lake/checkpoints",
                "execution.checkpointing.savepoint-dir": "file:/lake/savepoints",
            },
            "jobManager": {"resource": {"memory": "1g", "cpu": 1}},
            "taskManager": {"resource": {"memory": "1g", "cpu": 1}},
            "job": {"jarURI": "local:///job.jar", "parallelism": 1, "upgradeMode": mode},
        },
    })
}

pub(super) fn highly_available(mode: &str) -> Value {
    let mut deployment = deployment(mode);
    let config = &mut deployment["spec"]["flinkConfiguration"];
    config["high-availability.type"] = json!("kubernetes");
    config["high-availability.storageDir"] = json!("file:/lake/ha");
    deployment
}

/// Returns a deployment whose upgrades are hot.
pub(super) fn hot() -> Value {
    let mut deployment = highly_available("last-state");
    deployment["spec"]["mode"] = json!("standalone");
    deployment["spec"]["flinkConfiguration"]["kubernetes.operator.job.upgrade.hot.enabled"] =
        json!("true");
    deployment
}

pub(super) async fn run(stage: &Stage, deployment: Value) {
    stage.create(deployment).await;
    stage.until_stable(JOB).await;
}

/// Waits until the job has a checkpoint in HA metadata.
pub(super) async fn until_checkpointed(stage: &Stage) {
    until_checkpointed_in(stage, JOB).await;
}

async fn until_checkpointed_in(stage: &Stage, cluster: &str) {
    let key = format!("{}/{cluster}", stage.namespace);
    let is_checkpointed = || {
        stage.ground.world.flink().with(&key, |cluster| {
            cluster
                .jobs
                .values()
                .any(|job| job.checkpoints.iter().any(|one| one.kind == "CHECKPOINT"))
        })
    };
    while !is_checkpointed() {
        sleep(Duration::from_millis(100)).await;
    }
    loop {
        let maps = stage.api("ConfigMap").list(&ListParams::default()).await.unwrap();
        let has_checkpoint = |data: &Value| {
            data.as_object()
                .is_some_and(|data| data.keys().any(|key| key.starts_with("checkpointID-")))
        };
        if maps.items.iter().any(|map| has_checkpoint(&map.data["data"])) {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

async fn scale(stage: &Stage, parallelism: i32) {
    stage.edit(DEPLOYMENT, JOB, json!({"job": {"parallelism": parallelism}})).await;
    let reached = |found: &Value| {
        is_stable(found) && found["spec"]["job"]["parallelism"] == json!(parallelism)
    };
    stage.until(DEPLOYMENT, JOB, "STABLE with another parallelism", reached).await;
}

/// Returns a deployment with all objects that an application can have.
fn exposed() -> Value {
    let mut deployment = highly_available("last-state");
    deployment["spec"]["ingress"] = json!({"template": "{{name}}.{{namespace}}.example.com"});
    deployment
}

async fn deploy(stage: &Stage) {
    stage.begin();
    run(stage, exposed()).await;
}

async fn stateless_upgrade(stage: &Stage) {
    run(stage, deployment("stateless")).await;
    stage.begin();
    scale(stage, 2).await;
}

async fn savepoint_upgrade(stage: &Stage) {
    run(stage, deployment("savepoint")).await;
    stage.begin();
    scale(stage, 2).await;
}

async fn last_state_upgrade(stage: &Stage) {
    run(stage, highly_available("last-state")).await;
    until_checkpointed(stage).await;
    stage.begin();
    scale(stage, 2).await;
}

/// Flink 2 stores the job graph under another key.
async fn last_state_upgrade_of_flink_2(stage: &Stage) {
    let mut deployment = highly_available("last-state");
    deployment["spec"]["image"] = json!("flink:2.1");
    deployment["spec"]["flinkVersion"] = json!("v2_1");
    run(stage, deployment).await;
    until_checkpointed(stage).await;
    stage.begin();
    scale(stage, 2).await;
    let maps = stage.api("ConfigMap").list(&ListParams::default()).await.unwrap();
    let is_plan = |key: &String| key.starts_with("executionPlan-");
    let plans = maps.items.iter().filter_map(|map| map.data["data"].as_object());
    let plans = plans.flat_map(|data| data.keys()).filter(|key| is_plan(key)).count();
    assert_eq!(plans, 1, "{}", stage.described("stored plans"));
}

/// The running job changes its parallelism through the adaptive scheduler; if that is rejected, an upgrade does it.
async fn scaling_in_place(stage: &Stage) {
    const OVERRIDES: &str = "pipeline.jobvertex-parallelism-overrides";
    let vertices =
        |parallelism: u32| json!(format!("{SOURCE}:{parallelism},{WINDOW}:{parallelism}"));
    let mut deployment = highly_available("last-state");
    let config = &mut deployment["spec"]["flinkConfiguration"];
    config["jobmanager.scheduler"] = json!("adaptive");
    config[OVERRIDES] = vertices(1);
    run(stage, deployment).await;
    until_checkpointed(stage).await;
    let (flink, key) = (stage.ground.world.flink(), format!("{}/{JOB}", stage.namespace));
    let now = flink.now();
    flink.with(&key, |cluster| {
        cluster.jobs.values_mut().for_each(|job| job.load = Some(Load::new(1.0, 10.0, now)));
    });
    stage.begin();
    stage.edit(DEPLOYMENT, JOB, json!({"flinkConfiguration": {OVERRIDES: vertices(2)}})).await;
    stage.until_stable(JOB).await;
    let (starts, scaled) = flink.with(&key, |cluster| {
        let loads = cluster.jobs.values().filter_map(|job| job.load.as_ref());
        (cluster.starts.len(), loads.filter(|load| load.parallelism[SOURCE] == 2).count())
    });
    let is_done = (starts, scaled) == (1, 1) || (starts, scaled) == (2, 0);
    assert!(is_done, "{}", stage.described(&format!("{starts} starts, {scaled} scaled")));
}

/// Without high availability, the upgrade uses the checkpoint that the cancelled job leaves.
async fn upgrade_by_cancelling(stage: &Stage) {
    let mut deployment = deployment("last-state");
    let config = &mut deployment["spec"]["flinkConfiguration"];
    config["kubernetes.operator.job.upgrade.last-state.job-cancel.enabled"] = json!("true");
    run(stage, deployment).await;
    stage.begin();
    scale(stage, 2).await;
}

async fn standalone_upgrade(stage: &Stage) {
    let mut deployment = highly_available("savepoint");
    deployment["spec"]["mode"] = json!("standalone");
    run(stage, deployment).await;
    stage.begin();
    scale(stage, 2).await;
}

async fn standalone_last_state_upgrade(stage: &Stage) {
    let mut deployment = highly_available("last-state");
    deployment["spec"]["mode"] = json!("standalone");
    run(stage, deployment).await;
    until_checkpointed(stage).await;
    stage.begin();
    scale(stage, 2).await;
}

/// The new pods stand by and take over.
async fn hot_upgrade(stage: &Stage) {
    run(stage, hot()).await;
    until_checkpointed(stage).await;
    stage.begin();
    scale(stage, 2).await;
}

/// Starts from the state that the job was suspended with, which its user names.
async fn redeploy_from_a_savepoint(stage: &Stage) {
    run(stage, deployment("savepoint")).await;
    suspend(stage).await;
    let found = stage.inspect(DEPLOYMENT, JOB).await;
    let path = found["status"]["jobStatus"]["upgradeSavepointPath"].clone();
    assert!(path.is_string(), "{found:#}");
    stage.begin();
    let job = json!({
        "state": "running", "parallelism": 2, "savepointRedeployNonce": 1, "initialSavepointPath": path,
    });
    stage.edit(DEPLOYMENT, JOB, json!({ "job": job })).await;
    stage.until_stable(JOB).await;
}

async fn restart_of_a_failed_job(stage: &Stage) {
    let mut deployment = highly_available("last-state");
    deployment["spec"]["flinkConfiguration"]["kubernetes.operator.job.restart.failed"] =
        json!("true");
    run(stage, deployment).await;
    until_checkpointed(stage).await;
    stage.begin();
    let (flink, key) = (stage.ground.world.flink(), format!("{}/{JOB}", stage.namespace));
    let now = flink.now();
    flink.with(&key, |cluster| {
        for job in cluster.jobs.values_mut() {
            job.fail("java.lang.RuntimeException", "its restarts are used up", now);
        }
    });
    let is_started_again =
        |found: &Value| is_stable(found) && flink.with(&key, |cluster| cluster.starts.len() > 1);
    stage.until(DEPLOYMENT, JOB, "started again", is_started_again).await;
}

async fn suspend_and_resume(stage: &Stage) {
    run(stage, deployment("savepoint")).await;
    stage.begin();
    suspend(stage).await;
    resume(stage).await;
}

async fn suspend_and_resume_with_last_state(stage: &Stage) {
    run(stage, highly_available("last-state")).await;
    until_checkpointed(stage).await;
    stage.begin();
    suspend(stage).await;
    resume(stage).await;
}

async fn suspend(stage: &Stage) {
    stage.edit(DEPLOYMENT, JOB, json!({"job": {"state": "suspended"}})).await;
    stage.until(DEPLOYMENT, JOB, "SUSPENDED", is_suspended).await;
}

async fn resume(stage: &Stage) {
    stage.edit(DEPLOYMENT, JOB, json!({"job": {"state": "running"}})).await;
    stage.until_stable(JOB).await;
}

/// A spec whose trial fails changes nothing; one whose trial succeeds is upgraded to.
async fn upgrade_after_a_trial(stage: &Stage) {
    let mut deployment = deployment("savepoint");
    deployment["spec"]["flinkConfiguration"][PREFLIGHT] = json!("pods");
    run(stage, deployment).await;
    let former = stage.inspect("Deployment", JOB).await["metadata"]["uid"].clone();
    stage.begin();
    stage.edit(DEPLOYMENT, JOB, json!({"image": super::world::BROKEN_IMAGE})).await;
    let is_refused = |found: &Value| {
        let error = found["status"]["error"].as_str().unwrap_or_default();
        error.contains("would not start") && error.contains("no such image")
    };
    stage.until(DEPLOYMENT, JOB, "refused", is_refused).await;
    assert_eq!(stage.inspect("Deployment", JOB).await["metadata"]["uid"], former);
    stage.edit(DEPLOYMENT, JOB, json!({"image": "flink:1.20-java17"})).await;
    stage.until_stable(JOB).await;
    let trials = ListParams::default().labels("app.kubernetes.io/name=flink-preflight");
    let left = stage.api("Pod").list(&trials).await.unwrap().items;
    assert!(left.is_empty(), "pods of a trial are left: {left:?}");
}

/// Without high availability the upgrade's savepoint is the only state.
async fn mend_of_a_job_that_never_started(stage: &Stage) {
    run(stage, deployment("savepoint")).await;
    let former = stage.inspect("Deployment", JOB).await["metadata"]["uid"].clone();
    stage.begin();
    stage.edit(DEPLOYMENT, JOB, json!({"image": super::world::BROKEN_IMAGE})).await;
    let replaced =
        |found: &Value| found["metadata"]["uid"].is_string() && found["metadata"]["uid"] != former;
    stage.until("Deployment", JOB, "another", replaced).await;
    stage.edit(DEPLOYMENT, JOB, json!({"image": "flink:1.20"})).await;
    stage.until_stable(JOB).await;
}

async fn rollback(stage: &Stage) {
    let mut deployment = highly_available("savepoint");
    let config = &mut deployment["spec"]["flinkConfiguration"];
    config["kubernetes.operator.deployment.rollback.enabled"] = json!("true");
    config["kubernetes.operator.deployment.readiness.timeout"] = json!("4 s");
    run(stage, deployment).await;
    until_checkpointed(stage).await;
    stage.begin();
    stage.edit(DEPLOYMENT, JOB, json!({"image": super::world::BROKEN_IMAGE})).await;
    let rolled_back = |found: &Value| {
        found["status"]["lifecycleState"] == "ROLLED_BACK"
            && found["status"]["jobStatus"]["state"] == "RUNNING"
    };
    stage.until(DEPLOYMENT, JOB, "ROLLED_BACK", rolled_back).await;
}

async fn delete(stage: &Stage) {
    run(stage, exposed()).await;
    until_checkpointed(stage).await;
    stage.begin();
    stage.delete(DEPLOYMENT, JOB).await;
    stage.until_gone(DEPLOYMENT, JOB).await;
}

async fn delete_with_savepoint(stage: &Stage) {
    let mut deployment = deployment("savepoint");
    deployment["spec"]["flinkConfiguration"]["kubernetes.operator.job.savepoint-on-deletion"] =
        json!("true");
    run(stage, deployment).await;
    stage.begin();
    stage.delete(DEPLOYMENT, JOB).await;
    stage.until_gone(DEPLOYMENT, JOB).await;
}

/// The new JobManager does not come up, and the deployment is deleted meanwhile.
async fn delete_in_mid_upgrade(stage: &Stage) {
    run(stage, highly_available("last-state")).await;
    until_checkpointed(stage).await;
    let former = stage.inspect("Deployment", JOB).await["metadata"]["uid"].clone();
    stage.begin();
    stage.edit(DEPLOYMENT, JOB, json!({"image": super::world::BROKEN_IMAGE})).await;
    let replaced =
        |found: &Value| found["metadata"]["uid"].is_string() && found["metadata"]["uid"] != former;
    stage.until("Deployment", JOB, "another", replaced).await;
    stage.delete(DEPLOYMENT, JOB).await;
    stage.until_gone(DEPLOYMENT, JOB).await;
}

/// The savepoint does not complete.
async fn delete_while_a_savepoint_is_taken(stage: &Stage) {
    run(stage, deployment("savepoint")).await;
    let (flink, key) = (stage.ground.world.flink(), format!("{}/{JOB}", stage.namespace));
    flink.with(&key, |cluster| {
        cluster.jobs.values_mut().for_each(|job| job.savepoint_steps = usize::MAX);
    });
    stage.begin();
    stage.edit(DEPLOYMENT, JOB, json!({"job": {"parallelism": 2}})).await;
    let is_taken = |_: &Value| {
        flink.with(&key, |cluster| cluster.jobs.values().any(|job| !job.operations.is_empty()))
    };
    stage.until(DEPLOYMENT, JOB, "being saved", is_taken).await;
    stage.delete(DEPLOYMENT, JOB).await;
    stage.until_gone(DEPLOYMENT, JOB).await;
}

async fn lost_job_manager(stage: &Stage) {
    run(stage, highly_available("last-state")).await;
    until_checkpointed(stage).await;
    let lost = stage.inspect("Deployment", JOB).await["metadata"]["uid"].clone();
    stage.begin();
    drop(stage.api("Deployment").delete(JOB, &DeleteParams::foreground()).await.unwrap());
    let back =
        |found: &Value| found["metadata"]["uid"].is_string() && found["metadata"]["uid"] != lost;
    stage.until("Deployment", JOB, "back", back).await;
    stage.until_stable(JOB).await;
}

/// Adopts a deployment whose status another operator wrote, and whose cluster runs.
async fn adoption(stage: &Stage) {
    run(stage, highly_available("last-state")).await;
    until_checkpointed(stage).await;
    stage.until_at_rest().await;
    stage.operator.kill();
    // The Java operator's status has no other fields.
    let found = stage.inspect(DEPLOYMENT, JOB).await;
    let mut status = found["status"].clone();
    for field in ["conditions", "blockedBy"] {
        status.as_object_mut().unwrap().remove(field);
    }
    let patch =
        json!({"metadata": {"finalizers": ["flinkdeployments.flink.apache.org/finalizer"]}});
    let patch = kube::api::Patch::Merge(patch);
    stage.api(DEPLOYMENT).patch(JOB, &kube::api::PatchParams::default(), &patch).await.unwrap();
    let mut foreign = stage.inspect(DEPLOYMENT, JOB).await;
    foreign["status"] = status;
    let foreign: DynamicObject = serde_json::from_value(foreign).unwrap();
    let params = kube::api::PostParams::default();
    stage.api(DEPLOYMENT).replace_status(JOB, &params, &foreign).await.unwrap();
    stage.begin();
    scale(stage, 2).await;
}

fn snapshot(name: &str) -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": SNAPSHOT,
        "metadata": {"name": name},
        "spec": {
            "savepoint": {"disposeOnDelete": true},
            "jobReference": {"kind": DEPLOYMENT, "name": JOB},
        },
    })
}

/// The snapshot is taken, and deleted along with its savepoint.
async fn snapshot_by_hand(stage: &Stage) {
    run(stage, deployment("savepoint")).await;
    stage.begin();
    stage.create(snapshot("by-hand")).await;
    stage.until(SNAPSHOT, "by-hand", "COMPLETED", is_completed).await;
    stage.delete(SNAPSHOT, "by-hand").await;
    stage.until_gone(SNAPSHOT, "by-hand").await;
}

/// Flink keeps the checkpoint, which belongs to the job.
async fn checkpoint_by_hand(stage: &Stage) {
    run(stage, deployment("savepoint")).await;
    stage.begin();
    let mut checkpoint = snapshot("by-hand");
    checkpoint["spec"].as_object_mut().unwrap().remove("savepoint");
    checkpoint["spec"]["checkpoint"] = json!({});
    stage.create(checkpoint).await;
    stage.until(SNAPSHOT, "by-hand", "COMPLETED", is_completed).await;
}

fn is_completed(snapshot: &Value) -> bool {
    snapshot["status"]["state"] == "COMPLETED"
}

async fn snapshot_by_nonce(stage: &Stage) {
    run(stage, deployment("savepoint")).await;
    stage.begin();
    stage.edit(DEPLOYMENT, JOB, json!({"job": {"savepointTriggerNonce": 1}})).await;
    let is_completed = |one: &DynamicObject| one.data["status"]["state"] == "COMPLETED";
    until_snapshots(stage, "completed", |all| all.iter().any(is_completed)).await;
    stage.until_stable(JOB).await;
}

/// Waits until the snapshots satisfy the condition.
async fn until_snapshots(
    stage: &Stage,
    what: &str,
    mut are_so: impl FnMut(Vec<DynamicObject>) -> bool,
) {
    let start = Instant::now();
    loop {
        stage.operator.tend();
        let all = stage.api(SNAPSHOT).list(&ListParams::default()).await.unwrap();
        if are_so(all.items) {
            return;
        }
        assert!(
            start.elapsed() < PATIENCE,
            "{}",
            stage.described(&format!("snapshots: not {what}"))
        );
        sleep(Duration::from_millis(150)).await;
    }
}

/// Takes snapshots at an interval and removes old ones; at the end the interval is removed.
async fn periodic_snapshots(stage: &Stage) {
    const INTERVAL: &str = "kubernetes.operator.periodic.savepoint.interval";
    let mut deployment = deployment("savepoint");
    let config = &mut deployment["spec"]["flinkConfiguration"];
    config["kubernetes.operator.savepoint.history.max.count"] = json!("1");
    config["kubernetes.operator.savepoint.dispose-on-delete"] = json!("true");
    run(stage, deployment).await;
    stage.begin();
    stage.edit(DEPLOYMENT, JOB, json!({"flinkConfiguration": {INTERVAL: "2 s"}})).await;
    let mut seen = std::collections::BTreeSet::new();
    let two = |all: Vec<DynamicObject>| {
        seen.extend(all.into_iter().filter_map(|one| one.metadata.name));
        seen.len() >= 2
    };
    until_snapshots(stage, "two", two).await;
    stage.edit(DEPLOYMENT, JOB, json!({"flinkConfiguration": {INTERVAL: null}})).await;
    stage.until_stable(JOB).await;
    let one =
        |all: Vec<DynamicObject>| all.len() == 1 && all[0].metadata.deletion_timestamp.is_none();
    until_snapshots(stage, "the newest alone", one).await;
}

/// A savepoint by nonce and one of an upgrade, without snapshot resources.
async fn snapshots_in_the_status(stage: &Stage) {
    let mut deployment = deployment("savepoint");
    deployment["spec"]["flinkConfiguration"]["kubernetes.operator.snapshot.resource.enabled"] =
        json!("false");
    run(stage, deployment).await;
    stage.begin();
    stage.edit(DEPLOYMENT, JOB, json!({"job": {"savepointTriggerNonce": 1}})).await;
    let is_taken = |found: &Value| {
        found["status"]["jobStatus"]["savepointInfo"]["lastSavepoint"]["location"].is_string()
    };
    stage.until(DEPLOYMENT, JOB, "saved", is_taken).await;
    scale(stage, 2).await;
}

pub(super) fn session_cluster() -> Value {
    let mut cluster = deployment("stateless");
    cluster["metadata"]["name"] = json!(CLUSTER);
    cluster["spec"].as_object_mut().unwrap().remove("job");
    cluster
}

pub(super) fn job_in_session(mode: &str) -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": SESSION_JOB,
        "metadata": {"name": JOB},
        "spec": {
            "deploymentName": CLUSTER,
            "job": {"entryClass": "org.example.Job", "parallelism": 1, "upgradeMode": mode},
        },
    })
}

pub(super) async fn run_in_session(stage: &Stage, mode: &str) {
    stage.create(session_cluster()).await;
    stage.until_stable(CLUSTER).await;
    stage.create(job_in_session(mode)).await;
    stage.until(SESSION_JOB, JOB, "STABLE", is_stable).await;
}

async fn session_job(stage: &Stage) {
    stage.begin();
    run_in_session(stage, "savepoint").await;
}

pub(super) async fn scale_in_session(stage: &Stage) {
    stage.edit(SESSION_JOB, JOB, json!({"job": {"parallelism": 2}})).await;
    stage.until(SESSION_JOB, JOB, "STABLE with another parallelism", is_stable).await;
}

async fn session_job_upgrade(stage: &Stage) {
    run_in_session(stage, "savepoint").await;
    stage.begin();
    scale_in_session(stage).await;
}

async fn session_job_last_state_upgrade(stage: &Stage) {
    run_in_session(stage, "last-state").await;
    stage.begin();
    scale_in_session(stage).await;
}

async fn session_job_suspend_and_resume(stage: &Stage) {
    run_in_session(stage, "savepoint").await;
    stage.begin();
    stage.edit(SESSION_JOB, JOB, json!({"job": {"state": "suspended"}})).await;
    stage.until(SESSION_JOB, JOB, "SUSPENDED", is_suspended).await;
    stage.edit(SESSION_JOB, JOB, json!({"job": {"state": "running"}})).await;
    stage.until(SESSION_JOB, JOB, "STABLE", is_stable).await;
}

async fn session_job_delete(stage: &Stage) {
    run_in_session(stage, "savepoint").await;
    stage.begin();
    stage.delete(SESSION_JOB, JOB).await;
    stage.until_gone(SESSION_JOB, JOB).await;
    stage.delete(DEPLOYMENT, CLUSTER).await;
    stage.until_gone(DEPLOYMENT, CLUSTER).await;
}
