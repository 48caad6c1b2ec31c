//! Scenarios of session clusters together with their jobs.

use serde_json::{Value, json};

use super::{
    CLUSTER, DEPLOYMENT, JOB, SESSION_JOB, SNAPSHOT, Stage, highly_available, is_completed,
    is_stable, job_in_session, run_in_session, session_cluster, snapshot, until_checkpointed_in,
};

/// A snapshot of a job in a session cluster is taken, and deleted along with its savepoint.
pub(super) async fn session_job_snapshot(stage: &Stage) {
    run_in_session(stage, "savepoint").await;
    stage.begin();
    let mut by_hand = snapshot("by-hand");
    by_hand["spec"]["jobReference"]["kind"] = json!(SESSION_JOB);
    stage.create(by_hand).await;
    stage.until(SNAPSHOT, "by-hand", "COMPLETED", is_completed).await;
    stage.delete(SNAPSHOT, "by-hand").await;
    stage.until_gone(SNAPSHOT, "by-hand").await;
}

pub(super) async fn session_job_delete_with_savepoint(stage: &Stage) {
    stage.create(session_cluster()).await;
    stage.until_stable(CLUSTER).await;
    let mut job = job_in_session("savepoint");
    job["spec"]["flinkConfiguration"] =
        json!({"kubernetes.operator.job.savepoint-on-deletion": "true"});
    stage.create(job).await;
    stage.until(SESSION_JOB, JOB, "STABLE", is_stable).await;
    stage.begin();
    stage.delete(SESSION_JOB, JOB).await;
    stage.until_gone(SESSION_JOB, JOB).await;
}

/// The new JobManager knows nothing of the previous one's job.
pub(super) async fn session_cluster_upgrade(stage: &Stage) {
    run_in_session(stage, "stateless").await;
    stage.begin();
    upgrade(stage).await;
}

/// The new JobManager continues the previous one's job.
pub(super) async fn session_cluster_upgrade_with_ha(stage: &Stage) {
    let mut cluster = highly_available("stateless");
    cluster["metadata"]["name"] = json!(CLUSTER);
    cluster["spec"].as_object_mut().unwrap().remove("job");
    stage.create(cluster).await;
    stage.until_stable(CLUSTER).await;
    stage.create(job_in_session("savepoint")).await;
    stage.until(SESSION_JOB, JOB, "STABLE", is_stable).await;
    until_checkpointed_in(stage, CLUSTER).await;
    stage.begin();
    upgrade(stage).await;
}

/// Replaces the cluster and waits until the job runs in the new one.
async fn upgrade(stage: &Stage) {
    let former = stage.inspect("Deployment", CLUSTER).await["metadata"]["uid"].clone();
    stage.edit(DEPLOYMENT, CLUSTER, json!({"taskManager": {"resource": {"memory": "2g"}}})).await;
    let replaced =
        |found: &Value| found["metadata"]["uid"].is_string() && found["metadata"]["uid"] != former;
    stage.until("Deployment", CLUSTER, "another", replaced).await;
    stage.until_stable(CLUSTER).await;
    let (flink, key) = (stage.ground.world.flink(), format!("{}/{CLUSTER}", stage.namespace));
    let is_back =
        |found: &Value| is_stable(found) && flink.with(&key, |cluster| cluster.starts.len() > 1);
    stage.until(SESSION_JOB, JOB, "STABLE again", is_back).await;
}

/// The cluster waits until its job is deleted.
pub(super) async fn session_cluster_delete_with_its_job(stage: &Stage) {
    run_in_session(stage, "savepoint").await;
    stage.begin();
    stage.delete(DEPLOYMENT, CLUSTER).await;
    stage.delete(SESSION_JOB, JOB).await;
    stage.until_gone(SESSION_JOB, JOB).await;
    stage.until_gone(DEPLOYMENT, CLUSTER).await;
}
