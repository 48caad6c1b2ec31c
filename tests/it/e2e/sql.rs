//! SQL in a session cluster on real Flink, through a gateway in a separate pod.

use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::{Value, json};

use super::cluster::{Cluster, said};
use crate::support::patience::{BEYOND_PATIENCE, PATIENCE};

const CLUSTER: &str = "lab";
const GATEWAYS: &str = "app.kubernetes.io/name=flink-sql-gateway";
const START: &str = "--start-timeout";

const SCRIPT: &str = "\
-- Bounded, so that its results are complete.
SET 'execution.runtime-mode' = 'batch';
CREATE TABLE numbers (x INT) WITH
  ('connector' = 'datagen', 'number-of-rows' = '1000', 'fields.x.kind' = 'sequence',
   'fields.x.start' = '1', 'fields.x.end' = '1000');
CREATE TABLE sink (x INT) WITH ('connector' = 'blackhole');
SELECT COUNT(*) AS n, SUM(x) AS total, 'a;b' AS note FROM numbers;
SET 'execution.runtime-mode' = 'streaming';
CREATE TABLE ticks (x INT) WITH ('connector' = 'datagen', 'rows-per-second' = '10');
INSERT INTO sink SELECT x FROM ticks;
";

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn statements_run_in_a_session_cluster_and_only_jobs_that_write_go_on() {
    let mut cluster = Cluster::new("sql");
    cluster.name = CLUSTER.to_owned();
    cluster.start_operator();
    let mut lab = cluster.job();
    lab["metadata"]["name"] = json!(CLUSTER);
    lab["spec"].as_object_mut().unwrap().remove("job");
    cluster.deploy(&lab);
    cluster.wait_until_ready();
    let script = cluster.data().join("orders.sql");
    fs::write(&script, SCRIPT).unwrap();
    let script = script.display().to_string();

    // Results of a query, and a job that keeps running.
    let told =
        cluster.flink(&["sql", CLUSTER, "-f", &script, "-o", "json", START, BEYOND_PATIENCE]);
    let told = told.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let told = told.collect::<Vec<_>>();
    let row = json!({"n": 1000, "total": 500_500, "note": "a;b"});
    assert_eq!(told[0], json!({"statement": 4, "op": "+I", "row": row}));
    assert_eq!(told.len(), 2, "{told:?}");
    let job = told[1]["jobId"].as_str().unwrap().to_owned();
    let state = || cluster.answer_of(CLUSTER, &format!("/jobs/{job}"))["state"].clone();
    wait("the job runs", || state() == "RUNNING");
    wait("no gateway is left", || cluster.pods(GATEWAYS).is_empty());
    assert_eq!(state(), "RUNNING", "it goes on without the gateway");

    // A streaming query returns changes and ends with its timeout, along with its job.
    let stream = "CREATE TABLE ticks (x INT) WITH ('connector' = 'datagen', 'rows-per-second' = '10'); \
                  SELECT COUNT(*) AS n FROM ticks";
    let sql = ["sql", CLUSTER, "-e", stream, "--keep-gateway", START, BEYOND_PATIENCE];
    // A slow machine needs longer for the first change.
    let has_changed = ["60s", "5m", "30m"].into_iter().any(|limit| {
        let ended = cluster.try_flink(&[&sql[..], &["--timeout", limit]].concat());
        println!("-- {limit}: {}", said(&ended));
        assert_eq!(ended.status.code(), Some(124));
        said(&ended).contains("+U")
    });
    assert!(has_changed, "changes come");
    wait("only the job that writes is left", || running(&cluster) == [job.clone()]);

    // The kept gateway is used again; an error has its line.
    let kept = cluster.pods(GATEWAYS);
    assert_eq!(kept.len(), 1);
    let wrong = cluster.data().join("wrong.sql");
    fs::write(&wrong, "SHOW TABLES;\n\nSELECT *\n  FROM nowhere;\n").unwrap();
    let wrong = wrong.display().to_string();
    let failed = cluster.try_flink(&["sql", CLUSTER, "-f", &wrong]);
    assert_eq!(failed.status.code(), Some(1));
    let told = format!("{wrong}:4: Object 'nowhere' not found");
    assert!(said(&failed).contains(&told), "{}", said(&failed));
    assert_eq!(cluster.pods(GATEWAYS).len(), 1);

    // The remaining job is stopped as the command says; the gateway is deleted with the cluster.
    cluster.flink(&["rest", CLUSTER, "PATCH", &format!("/jobs/{job}?mode=cancel"), "--yes"]);
    wait("the job is cancelled", || state() == "CANCELED");
    cluster.flink(&["delete", CLUSTER, "--yes"]);
    cluster.wait_until("deleted", Value::is_null);
    wait("the gateway goes with its cluster", || cluster.pods(GATEWAYS).is_empty());
}

/// Returns the running jobs of the session cluster.
fn running(cluster: &Cluster) -> Vec<String> {
    let jobs = cluster.answer_of(CLUSTER, "/jobs");
    let jobs = jobs["jobs"].as_array().unwrap().iter().filter(|job| job["status"] == "RUNNING");
    jobs.map(|job| job["id"].as_str().unwrap().to_owned()).collect()
}

fn wait(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "not so in time: {what}");
        thread::sleep(Duration::from_millis(500));
    }
}
