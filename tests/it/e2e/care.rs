//! What the operator does by itself for real jobs: rollback, restart, scaling in place; and how long
//! a job stands still in an upgrade.

use std::time::Instant;

use super::*;

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn a_broken_image_is_rolled_back_and_nothing_is_lost() {
    let mut cluster = Cluster::new("rollback");
    cluster.start_operator();
    let mut job = cluster.job();
    let options = &mut job["spec"]["flinkConfiguration"];
    options["kubernetes.operator.deployment.rollback.enabled"] = json!("true");
    options["kubernetes.operator.deployment.readiness.timeout"] = json!("60s");
    cluster.deploy(&job);
    cluster.wait_until_stable();
    cluster.wait_until_writing();

    let mut broken = job.clone();
    broken["spec"]["image"] = json!("flink:does-not-exist");
    cluster.deploy(&broken);
    let back = cluster.wait_until("ROLLED_BACK and running", |deployment| {
        is(deployment, "lifecycleState", "ROLLED_BACK")
            && deployment["status"]["jobStatus"]["state"] == "RUNNING"
    });
    let error = back["status"]["error"].as_str().unwrap();
    assert!(
        error.contains("is rolled back") && error.contains("does-not-exist"),
        "tells why: {error}"
    );
    cluster.wait_until_writing();

    // What runs is what is asked for again: nothing is restarted.
    let incarnation = cluster.job_manager_incarnation();
    cluster.deploy(&job);
    cluster.wait_until_stable();
    assert_eq!(cluster.job_manager_incarnation(), incarnation);
    cluster.wait_until_writing();
    cluster.flink(&["delete", JOB, "--yes"]);
    cluster.wait_until("deleted", Value::is_null);
    cluster.assert_nothing_lost_or_doubled();
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn a_failed_job_is_started_again_from_its_last_checkpoint() {
    let mut cluster = Cluster::new("restart");
    cluster.start_operator();
    let mut job = cluster.job();
    let options = &mut job["spec"]["flinkConfiguration"];
    options["kubernetes.operator.job.restart.failed"] = json!("true");
    options["restart-strategy.type"] = json!("none");
    cluster.deploy(&job);
    cluster.wait_until_stable();
    cluster.wait_until_writing();
    let job_id = |deployment: &Value| deployment["status"]["jobStatus"]["jobId"].clone();
    let first = job_id(&cluster.observed());

    cluster.kill_task_manager();
    let again = cluster.wait_until("started again", |deployment| {
        job_id(deployment) != first && deployment["status"]["jobStatus"]["state"] == "RUNNING"
    });
    let path = again["status"]["jobStatus"]["upgradeSavepointPath"].as_str().unwrap();
    assert!(path.contains("/chk-"), "from a checkpoint: {path}");
    cluster.wait_until_writing();
    cluster.flink(&["delete", JOB, "--yes"]);
    cluster.wait_until("deleted", Value::is_null);
    cluster.assert_nothing_lost_or_doubled();
}

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn parallelism_is_changed_without_a_restart() {
    let mut cluster = Cluster::new("scaling");
    cluster.start_operator();
    let mut job = cluster.job();
    let options = &mut job["spec"]["flinkConfiguration"];
    options["jobmanager.scheduler"] = json!("adaptive");
    cluster.deploy(&job);
    cluster.wait_until_stable();
    cluster.wait_until_writing();
    let incarnation = cluster.job_manager_incarnation();

    let vertices = cluster.vertices();
    let last = vertices.last().unwrap()["id"].as_str().unwrap().to_owned();
    job["spec"]["flinkConfiguration"]["pipeline.jobvertex-parallelism-overrides"] =
        json!(format!("{last}:2"));
    cluster.deploy(&job);
    cluster.wait_until_stable();
    cluster.wait_until("scaled", |_| {
        cluster.vertices().iter().any(|vertex| vertex["id"] == *last && vertex["parallelism"] == 2)
    });
    assert_eq!(cluster.job_manager_incarnation(), incarnation, "no upgrade");
    cluster.wait_until_writing();
    cluster.flink(&["delete", JOB, "--yes"]);
    cluster.wait_until("deleted", Value::is_null);
    cluster.assert_nothing_lost_or_doubled();
}

/// How long a job stands still in an upgrade. It prints figures and asserts none: they are the
/// machine's as much as the operator's.
#[test]
#[ignore = "needs a sandbox with real Flink, and a machine with nothing else to do"]
fn the_gap_of_an_upgrade_in_each_mode() {
    let mut cluster = Cluster::new("gap");
    cluster.start_operator();
    let mut job = cluster.job();
    cluster.deploy(&job);
    cluster.wait_until_stable();
    cluster.wait_until_writing();
    for (nonce, mode) in ["last-state", "savepoint", "stateless"].into_iter().enumerate() {
        job["spec"]["job"]["upgradeMode"] = json!(mode);
        job["spec"]["restartNonce"] = json!(nonce + 1);
        let before = cluster.observed()["status"]["jobStatus"]["startTime"].clone();
        cluster.deploy(&job);
        let asked = Instant::now();
        let mut stopped = None;
        let running = loop {
            let deployment = cluster.observed();
            let status = &deployment["status"];
            if stopped.is_none() && is(&deployment, "lifecycleState", "UPGRADING") {
                stopped = Some(Instant::now());
            }
            let is_new = status["jobStatus"]["startTime"] != before;
            if stopped.is_some()
                && is_new
                && is(&deployment, "lifecycleState", "STABLE")
                && status["jobStatus"]["state"] == "RUNNING"
            {
                break Instant::now();
            }
            assert!(asked.elapsed() < cluster::PATIENCE, "{deployment:#}");
            thread::sleep(Duration::from_millis(50));
        };
        let tasks_running = cluster.tasks_running_for();
        let stopped = stopped.unwrap();
        let gap = running.duration_since(stopped).saturating_sub(tasks_running);
        println!(
            "== {mode}: the job was down for {:.1} s, and STABLE {:.1} s after its tasks ran",
            gap.as_secs_f64(),
            tasks_running.as_secs_f64(),
        );
        cluster.wait_until_writing();
    }
    cluster.flink(&["delete", JOB, "--yes"]);
    cluster.wait_until("deleted", Value::is_null);
}

impl Cluster {
    fn job_details(&self) -> Option<Value> {
        let id = self.observed()["status"]["jobStatus"]["jobId"].as_str()?.to_owned();
        self.rest(&format!("/jobs/{id}"))
    }

    fn vertices(&self) -> Vec<Value> {
        let details = self.job_details().unwrap_or_default();
        details["vertices"].as_array().cloned().unwrap_or_default()
    }

    /// How long the last of the job's tasks has been running.
    fn tasks_running_for(&self) -> Duration {
        let id = self.observed()["status"]["jobStatus"]["jobId"].as_str().unwrap().to_owned();
        let mut least = u64::MAX;
        for vertex in self.vertices() {
            let vertex = vertex["id"].as_str().unwrap();
            let subtasks = self.rest(&format!("/jobs/{id}/vertices/{vertex}")).unwrap();
            for subtask in subtasks["subtasks"].as_array().unwrap() {
                least = least.min(subtask["status-duration"]["RUNNING"].as_u64().unwrap_or(0));
            }
        }
        Duration::from_millis(least)
    }
}
