//! Tests that take long or need an otherwise idle machine; `tests/cluster.sh all` or their name runs them.

use std::time::Instant;

use super::cluster::silence::Silence;
use super::*;
use crate::support::patience::PATIENCE;

/// The image of the tests under another name, so that it changes without a download.
const SAME_IMAGE: &str = "docker.io/library/flink:1.20";

#[test]
#[ignore = "needs a sandbox with real Flink, and some minutes"]
fn ten_upgrades_in_a_row_lose_and_double_nothing() {
    let mut cluster = Cluster::new("ten");
    let mut job = cluster.job();
    let mut incarnations = vec![];
    cluster.start(&job);
    let mut upgraded = |cluster: &Cluster, how: &str| {
        let (incarnation, _) = cluster.job_manager_incarnation();
        assert!(!incarnations.contains(&incarnation), "{how}: a new JobManager");
        incarnations.push(incarnation);
        println!("== {}. {how}: {} records", incarnations.len(), cluster.records());
    };

    job["spec"]["job"]["parallelism"] = json!(2);
    cluster.upgrade(&job);
    upgraded(&cluster, "savepoint, to two subtasks");

    job["spec"]["job"]["upgradeMode"] = json!("last-state");
    job["spec"]["flinkConfiguration"]["env.log.level"] = json!("WARN");
    cluster.kill_task_manager();
    cluster.upgrade(&job);
    upgraded(&cluster, "last-state, an option, with a dead TaskManager");

    job["spec"]["restartNonce"] = json!(1);
    cluster.upgrade_the_dead(&job);
    upgraded(&cluster, "last-state, a nonce, with a dead JobManager");

    job["spec"]["job"]["upgradeMode"] = json!("savepoint");
    job["spec"]["image"] = json!(SAME_IMAGE);
    cluster.upgrade(&job);
    upgraded(&cluster, "savepoint, to another image");

    cluster.suspend();
    cluster.resume();
    upgraded(&cluster, "suspended with a savepoint, and resumed");

    // It does not run, so no savepoint can be taken, but the last state is enough.
    job["spec"]["job"]["parallelism"] = json!(1);
    cluster.upgrade_the_dead(&job);
    upgraded(&cluster, "savepoint with a dead JobManager, to one subtask");

    // The job's known last state, given as the initial savepoint path.
    let suspended = cluster.suspend();
    let savepoint = &suspended["status"]["jobStatus"]["upgradeSavepointPath"];
    assert!(savepoint.is_string(), "{suspended:#}");
    job["spec"]["job"]["initialSavepointPath"] = savepoint.clone();
    job["spec"]["job"]["savepointRedeployNonce"] = json!(1);
    let mut resumed = job["spec"]["job"].clone();
    resumed["state"] = json!("running");
    cluster.edit(json!({"spec": {"job": resumed}}));
    cluster.wait_until_stable();
    cluster.wait_until_writing();
    upgraded(&cluster, "redeployed from a savepoint by nonce");

    job["spec"]["job"]["upgradeMode"] = json!("last-state");
    cluster.kill_task_manager();
    cluster.deploy(&job);
    cluster.wait_until_writing();
    cluster.suspend();
    cluster.resume();
    upgraded(&cluster, "suspended with its last state, and resumed");

    // The new JobManager dies while starting.
    job["spec"]["restartNonce"] = json!(2);
    cluster.deploy(&job);
    cluster.wait_until("UPGRADING", |job| is(job, "lifecycleState", "UPGRADING"));
    cluster.wait_until("deployed", |job| !is(job, "lifecycleState", "UPGRADING"));
    cluster.kill_a_job_manager_that_starts();
    cluster.wait_until_stable();
    cluster.wait_until_writing();
    upgraded(&cluster, "last-state, with a JobManager that dies as it starts");

    job["spec"]["flinkConfiguration"]["kubernetes.operator.job.upgrade.last-state.job-cancel.enabled"] =
        json!("true");
    job["spec"]["job"]["parallelism"] = json!(2);
    cluster.upgrade(&job);
    upgraded(&cluster, "last-state by cancel, to two subtasks");

    assert_eq!(incarnations.len(), 10);
    cluster.delete_and_count();
}

/// How long a job stands still in an upgrade. It prints figures and asserts none: they depend on the machine as much as
/// on the operator.
#[test]
#[ignore = "needs a sandbox with real Flink, and a machine with nothing else to do"]
fn the_gap_of_an_upgrade_in_each_mode() {
    for deployed in ["native", "standalone"] {
        let mut cluster = Cluster::new(&format!("gap-{deployed}"));
        let mut job = cluster.job();
        job["spec"]["mode"] = json!(deployed);
        // The trial is over before the job stops.
        job["spec"]["flinkConfiguration"]["kubernetes.operator.job.upgrade.preflight"] =
            json!("objects");
        cluster.start(&job);
        for (nonce, mode) in ["last-state", "savepoint", "stateless"].repeat(3).iter().enumerate() {
            job["spec"]["job"]["upgradeMode"] = json!(mode);
            job["spec"]["restartNonce"] = json!(nonce + 1);
            let before = cluster.observed()["status"]["jobStatus"]["startTime"].clone();
            let silence = Silence::watch(&cluster);
            cluster.deploy(&job);
            cluster.wait_until("upgraded", |deployment| {
                let status = &deployment["status"];
                status["jobStatus"]["startTime"] != before
                    && is(deployment, "lifecycleState", "STABLE")
                    && status["jobStatus"]["state"] == "RUNNING"
            });
            cluster.wait_until_writing();
            println!(
                "== {deployed}, {mode}: no record was written for {:.1} s",
                silence.longest().as_secs_f64()
            );
        }
        cluster.save_and_delete(JOB);
        cluster.wait_until("deleted", Value::is_null);
    }
}

/// Flink removes the HA metadata of a job that it cannot restore, and its JobManager ends a second later. The path of
/// the checkpoint is on record: who sees the failure in that second rolls back to it, who does not names it.
#[test]
#[ignore = "needs a sandbox with real Flink, and some minutes"]
fn a_program_that_cannot_restore_the_last_state_loses_none() {
    let mut cluster = Cluster::new("unrestorable");
    let mut job = cluster.job();
    job["spec"]["job"]["upgradeMode"] = json!("last-state");
    let options = &mut job["spec"]["flinkConfiguration"];
    options["kubernetes.operator.deployment.rollback.enabled"] = json!("true");
    options["kubernetes.operator.deployment.readiness.timeout"] = json!(BEYOND_PATIENCE);
    cluster.start(&job);

    // Flink restores no state into another maximum parallelism.
    let mut broken = job.clone();
    let options = &mut broken["spec"]["flinkConfiguration"];
    options["pipeline.max-parallelism"] = json!("64");
    options["kubernetes.operator.deployment.readiness.timeout"] = json!("45s");
    cluster.deploy(&broken);
    let named = |deployment: &Value| {
        let error = deployment["status"]["error"].as_str()?;
        // The last one is the newest.
        let path = error
            .split_once("has noted checkpoint")?
            .1
            .split('`')
            .rfind(|it| it.contains("/chk-"))?;
        Some(path.to_owned())
    };
    let outcome = cluster.wait_until("ROLLED_BACK and running, or refused", |deployment| {
        let is_running = deployment["status"]["jobStatus"]["state"] == "RUNNING";
        (is(deployment, "lifecycleState", "ROLLED_BACK") && is_running)
            || named(deployment).is_some()
    });
    println!("-- {}", outcome["status"]["error"]);
    if let Some(path) = named(&outcome) {
        job["spec"]["job"]["initialSavepointPath"] = json!(path);
        job["spec"]["job"]["savepointRedeployNonce"] = json!(1);
        cluster.deploy(&job);
    }
    cluster.wait_until_writing();
    cluster.delete_and_count();
}

impl Cluster {
    /// Waits for the JVM of a new JobManager and kills it.
    fn kill_a_job_manager_that_starts(&self) {
        let start = Instant::now();
        while !self.try_kill_job_manager() {
            assert!(start.elapsed() < PATIENCE, "no JobManager");
            thread::sleep(Duration::from_millis(200));
        }
    }
}
