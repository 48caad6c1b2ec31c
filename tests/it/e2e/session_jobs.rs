//! Session jobs on real Flink, with jars over HTTP and from S3, both on this machine, where the operator runs.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::get;
use serde_json::{Value, json};

use super::cluster::{Cluster, jar, project};
use super::is;
use crate::support::patience::PATIENCE;
use crate::support::program::other;

const KIND: &str = "FlinkSessionJob";
const CLUSTER: &str = "lab";

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn session_jobs_lose_and_double_nothing() {
    let mut cluster = Cluster::new("session-jobs");
    cluster.name = CLUSTER.to_owned();
    let jar = cluster.serve_jar();
    let store = Store::start(cluster.data());
    cluster.configure_operator(&[
        ("kubernetes.operator.user.artifacts.allowed-schemes", "http;s3"),
        ("kubernetes.operator.user.artifacts.disallow-restricted-hosts", "false"),
        ("s3.endpoint", &store.address),
        ("s3.access-key", "an-access-key"),
        ("s3.secret-key", "a-secret-key"),
    ]);
    cluster.start_operator();
    let mut lab = cluster.job();
    lab["metadata"]["name"] = json!(CLUSTER);
    lab["spec"].as_object_mut().unwrap().remove("job");
    let mut left = session_job("left", &jar, "savepoint");
    let mut right = session_job("right", "s3://jars/jobs/job.jar", "last-state");
    cluster.deploy(&lab);
    cluster.deploy(&left);
    cluster.deploy(&right);
    let first = [cluster.wait_until_runs(KIND, "left"), cluster.wait_until_runs(KIND, "right")];
    for job in ["left", "right"] {
        cluster.wait_until_writing_to(job);
    }
    let (incarnation, _) = cluster.job_manager_incarnation();

    // Upgrades in the same cluster, each in its mode.
    left["spec"]["restartNonce"] = json!(1);
    right["spec"]["restartNonce"] = json!(1);
    cluster.deploy(&left);
    cluster.deploy(&right);
    let then = [cluster.wait_until_runs(KIND, "left"), cluster.wait_until_runs(KIND, "right")];
    for (before, after) in first.iter().zip(&then) {
        assert_ne!(job_id(before), job_id(after), "a new job");
    }
    let savepoint = then[0]["status"]["jobStatus"]["upgradeSavepointPath"].as_str().unwrap();
    assert!(cluster.savepoint_exists(savepoint), "`{savepoint}` exists");
    let checkpoint = then[1]["status"]["jobStatus"]["upgradeSavepointPath"].as_str().unwrap();
    assert!(checkpoint.contains("/chk-"), "from a checkpoint: {checkpoint}");
    for job in ["left", "right"] {
        cluster.wait_until_writing_to(job);
    }
    assert_eq!(cluster.job_manager_incarnation().0, incarnation, "the cluster went on");

    // The cluster dies and comes back with its jobs.
    cluster.kill_job_manager();
    for job in ["left", "right"] {
        cluster.wait_until_writing_to(job);
        cluster.wait_until_runs(KIND, job);
    }

    // Suspend and resume; the other job continues.
    for job in ["left", "right"] {
        let name = format!("sessionjob/{job}");
        cluster.flink(&["suspend", &name]);
        cluster
            .wait_until_one(KIND, job, "SUSPENDED", |job| is(job, "lifecycleState", "SUSPENDED"));
        let suspended_at = cluster.records_in(job);
        cluster.wait_until_writing_to(if job == "left" { "right" } else { "left" });
        thread::sleep(Duration::from_secs(2));
        assert_eq!(cluster.records_in(job), suspended_at, "a suspended job writes nothing");
        cluster.flink(&["resume", &name]);
        cluster.wait_until_runs(KIND, job);
        cluster.wait_until_writing_to(job);
    }

    // Without high availability the jobs are stopped before the cluster is replaced, and restored from their state.
    let runs = ["left", "right"].map(|job| cluster.wait_until_runs(KIND, job));
    let (incarnation, _) = cluster.job_manager_incarnation();
    lab["spec"]["flinkConfiguration"]["high-availability.type"] = json!("NONE");
    cluster.deploy(&lab);
    cluster.wait_until_ready();
    assert_ne!(cluster.job_manager_incarnation().0, incarnation, "another JobManager");
    for (job, before) in ["left", "right"].iter().zip(&runs) {
        cluster.wait_until_writing_to(job);
        assert_ne!(job_id(&cluster.wait_until_runs(KIND, job)), job_id(before), "{job}");
    }

    // One job is deleted; the other keeps its cluster.
    cluster.save_and_delete("sessionjob/left");
    cluster.wait_until_one(KIND, "left", "deleted", Value::is_null);
    cluster.assert_nothing_lost_or_doubled_in("left");
    cluster.delete("FlinkDeployment", CLUSTER);
    let blocked = cluster.wait_until("blocked", |lab| lab["status"]["error"].is_string());
    let error = blocked["status"]["error"].as_str().unwrap_or_default();
    assert!(error.contains("right"), "names who blocks: {error}");
    cluster.wait_until_writing_to("right");
    cluster.save_and_delete("sessionjob/right");
    cluster.wait_until_one(KIND, "right", "deleted", Value::is_null);
    cluster.wait_until("deleted", Value::is_null);
    assert!(cluster.pods(&format!("app={CLUSTER}")).is_empty());
    cluster.assert_nothing_lost_or_doubled_in("right");
}

/// Returns the job of the tests in the session cluster, with the folder of its name as output.
fn session_job(name: &str, jar: &str, upgrade_mode: &str) -> Value {
    json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {
            "deploymentName": CLUSTER,
            "job": {
                "jarURI": jar,
                "args": ["--output", format!("file:///flink-data/{name}")],
                "parallelism": 1,
                "upgradeMode": upgrade_mode,
            },
        },
    })
}

fn job_id(job: &Value) -> &Value {
    &job["status"]["jobStatus"]["jobId"]
}

impl Cluster {
    /// Serves the jar of the tests while the runtime is in use. Returns its address.
    pub(super) fn serve_jar(&self) -> String {
        let bytes: bytes::Bytes = fs::read(jar()).unwrap().into();
        let router = Router::new().route("/job.jar", get(move || async { bytes }));
        self.wait_for(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
            format!("http://{address}/job.jar")
        })
    }
}

/// The jar of the tests in an S3 store.
struct Store {
    process: Child,
    address: String,
}

impl Store {
    fn start(data: &Path) -> Self {
        let address = data.join("s3-address");
        let script = project().join("tests/stores/s3.sh");
        let log = fs::File::create(data.join("s3.log")).unwrap();
        let mut command = other(script);
        command.arg(jar()).arg(&address).stdout(log.try_clone().unwrap()).stderr(log);
        let mut store = Self { process: command.spawn().unwrap(), address: String::new() };
        let start = Instant::now();
        while !address.is_file() {
            let log = || fs::read_to_string(data.join("s3.log")).unwrap_or_default();
            assert!(store.process.try_wait().unwrap().is_none(), "the store ended: {}", log());
            assert!(start.elapsed() < PATIENCE, "the store is not there: {}", log());
            thread::sleep(Duration::from_millis(100));
        }
        store.address = fs::read_to_string(address).unwrap();
        store
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
