//! Snapshots of a real job: manual, scheduled, by nonce; and how old ones are deleted.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cluster::{Cluster, JOB};
use crate::support::patience::PATIENCE;

const KIND: &str = "FlinkStateSnapshot";
const INTERVAL: &str = "kubernetes.operator.periodic.savepoint.interval";

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn snapshots_are_taken_and_let_go() {
    let mut cluster = Cluster::new("snapshots");
    let mut job = cluster.job();
    let options = &mut job["spec"]["flinkConfiguration"];
    options["kubernetes.operator.savepoint.history.max.count"] = json!("2");
    options["kubernetes.operator.savepoint.dispose-on-delete"] = json!("true");
    cluster.start(&job);
    let incarnation = cluster.job_manager_incarnation();

    // Manual: the savepoint is deleted with its resource.
    let gone = cluster.snapshot("gone");
    assert!(cluster.savepoint_exists(&gone), "`{gone}` exists");
    cluster.delete(KIND, "gone");
    cluster.wait_until_one(KIND, "gone", "deleted", Value::is_null);
    assert!(!cluster.savepoint_exists(&gone), "`{gone}` went with its resource");

    // One that the job could start from is kept.
    let kept = cluster.snapshot("kept");
    job["spec"]["job"]["initialSavepointPath"] = json!(kept);
    cluster.deploy(&job);
    cluster.wait_until_stable();
    cluster.delete(KIND, "kept");
    cluster.wait_until_one(KIND, "kept", "deleted", Value::is_null);
    assert!(cluster.savepoint_exists(&kept), "`{kept}` is referred to");

    // By interval, then by cron: old ones are deleted, with their savepoints.
    for schedule in ["3 s", "0/3 * * * * ?"] {
        job["spec"]["flinkConfiguration"][INTERVAL] = json!(schedule);
        cluster.deploy(&job);
        cluster.wait_for_periodic(schedule, 4);
    }
    job["spec"]["flinkConfiguration"][INTERVAL] = json!("");
    cluster.deploy(&job);
    cluster.wait_until_stable();

    // Without snapshot resources the status records them.
    job["spec"]["flinkConfiguration"]["kubernetes.operator.snapshot.resource.enabled"] =
        json!("false");
    job["spec"]["job"]["savepointTriggerNonce"] = json!(1);
    job["spec"]["job"]["checkpointTriggerNonce"] = json!(1);
    cluster.deploy(&job);
    let noted = cluster.wait_until("noted", |job| {
        job["status"]["jobStatus"]["savepointInfo"]["lastSavepoint"].is_object()
            && job["status"]["jobStatus"]["checkpointInfo"]["lastCheckpoint"].is_object()
    });
    let last = &noted["status"]["jobStatus"]["savepointInfo"]["lastSavepoint"];
    assert_eq!(last["triggerType"], "MANUAL");
    assert_eq!(last["triggerNonce"], 1);
    assert!(cluster.savepoint_exists(last["location"].as_str().unwrap()));
    assert!(cluster.names("MANUAL").is_empty(), "no resource was made");
    assert_eq!(cluster.job_manager_incarnation(), incarnation, "the job was left alone");

    // Of a job that does not run, and of one that does not exist.
    cluster.suspend();
    cluster.ask_for_snapshot("late");
    cluster
        .wait_until_one(KIND, "late", "ABANDONED", |late| late["status"]["state"] == "ABANDONED");
    cluster.resume();
    cluster.delete_and_count();
    cluster.ask_for_snapshot("stray");
    thread::sleep(Duration::from_secs(3));
    let stray = cluster.inspect(KIND, "stray");
    assert!(stray["status"]["triggerId"].is_null(), "nothing to ask for: {stray:#}");
    cluster.delete(KIND, "stray");
    cluster.wait_until_one(KIND, "stray", "deleted", Value::is_null);
    assert!(cluster.savepoint_exists(&kept), "`{kept}` outlives its job");
}

impl Cluster {
    /// Requests a savepoint of the job, which is deleted with its resource.
    fn ask_for_snapshot(&self, name: &str) {
        self.create(&json!({
            "apiVersion": "flink.apache.org/v1beta1",
            "kind": KIND,
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "jobReference": {"kind": "FlinkDeployment", "name": JOB},
                "savepoint": {"disposeOnDelete": true},
            },
        }));
    }

    /// Takes a savepoint through its own resource. Returns its path.
    fn snapshot(&self, name: &str) -> String {
        self.ask_for_snapshot(name);
        let done = self.wait_until_one(KIND, name, "COMPLETED", |snapshot| {
            snapshot["status"]["state"] == "COMPLETED"
        });
        done["status"]["path"].as_str().unwrap().to_owned()
    }

    /// Returns the snapshots with this trigger type, oldest first.
    fn names(&self, trigger_type: &str) -> Vec<String> {
        let mut all = self.all(KIND);
        all.retain(|snapshot| {
            snapshot["metadata"]["labels"]["snapshot.trigger-type"] == trigger_type
                && snapshot["metadata"]["deletionTimestamp"].is_null()
        });
        let name = |snapshot: &Value| snapshot["metadata"]["name"].as_str().unwrap().to_owned();
        all.iter().map(name).collect()
    }

    /// Waits until this many new ones were taken. Two may exist; the newest may still be in progress, and the oldest
    /// may still be being deleted.
    fn wait_for_periodic(&self, schedule: &str, count: usize) {
        let start = Instant::now();
        let (mut seen, mut paths) = (self.names("PERIODIC"), Vec::new());
        let before = seen.len();
        while seen.len() < before + count {
            assert!(start.elapsed() < PATIENCE, "`{schedule}`: only {seen:?}");
            let names = self.names("PERIODIC");
            assert!(names.len() <= 4, "`{schedule}`: {names:?} at a time");
            for name in names {
                let path = self.inspect(KIND, &name)["status"]["path"].as_str().map(str::to_owned);
                paths.extend(path.filter(|path| !paths.contains(path)));
                if !seen.contains(&name) {
                    seen.push(name);
                }
            }
            thread::sleep(Duration::from_millis(500));
        }
        // The oldest is deleted once the newest is requested and nothing is known to need it.
        let left = loop {
            let left = paths.iter().filter(|path| self.savepoint_exists(path)).count();
            if left < paths.len() {
                break left;
            }
            assert!(start.elapsed() < PATIENCE, "savepoints go with their resources: {paths:?}");
            thread::sleep(Duration::from_millis(500));
        };
        println!(
            "-- `{schedule}`: {} taken, {left} of {} savepoints left: after {:.1} s",
            seen.len() - before,
            paths.len(),
            start.elapsed().as_secs_f64(),
        );
    }
}
