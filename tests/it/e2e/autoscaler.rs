//! A changing load: the job follows it, catches up with its backlog, stays unchanged while the load does, and loses or
//! doubles no record.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cluster::said;
use super::{Cluster, JOB, is};
use crate::support::patience::{BEYOND_PATIENCE, PATIENCE};

/// Number of keys of the job; for each of them the load is the number of records per second.
const KEYS: u32 = 64;
/// Time to process one record: one subtask can process 500 per second.
const WORK_MICROS: u32 = 2000;
const LOW: u32 = 2;
const HIGH: u32 = 12;
/// Number of subtasks that can process [`HIGH`].
const NEEDED: u64 = (HIGH * KEYS * WORK_MICROS).div_ceil(1_000_000) as u64;
/// Time in which nothing may change any more.
const STEADY: Duration = Duration::from_mins(10);
const POLL_EVERY: Duration = Duration::from_secs(5);

#[test]
#[ignore = "needs a sandbox with real Flink"]
fn a_load_that_grows_is_followed() {
    let mut cluster = Cluster::new("scaled");
    let mut job = job(&cluster);
    job["spec"]["flinkConfiguration"]["job.autoscaler.metrics.window"] = json!("30 s");
    cluster.start_at(HIGH, &job);
    cluster.until("scaled up", |cluster| cluster.parallelisms().iter().any(|at| *at >= NEEDED));
    cluster.delete_between_changes();
}

mod long {
    use super::*;

    #[test]
    #[ignore = "needs a sandbox with real Flink, and half an hour"]
    fn the_autoscaler_follows_the_load() {
        let mut cluster = Cluster::new("autoscaler");
        cluster.start_at(LOW, &job(&cluster));
        let begin = Instant::now();
        let emit = |what: &str, cluster: &Cluster| {
            println!(
                "== {:>5.0} s {what}: parallelism {:?}, {:.0} records wait",
                begin.elapsed().as_secs_f64(),
                cluster.parallelisms(),
                cluster.waiting()
            );
        };
        thread::sleep(Duration::from_mins(2));
        emit("low load", &cluster);
        assert_eq!(cluster.parallelisms(), [1, 1], "nothing to do");

        set_load(&cluster, HIGH);
        cluster.until("scaled up", |cluster| cluster.parallelisms().iter().any(|at| *at > 1));
        emit("scaled up", &cluster);
        cluster.until("caught up", |cluster| cluster.waiting() < 2.0 * f64::from(HIGH * KEYS));
        emit("caught up", &cluster);
        // What was needed to catch up may be removed once.
        let calm = Instant::now();
        let mut changes: Vec<(Duration, Vec<u64>)> = vec![];
        while calm.elapsed() < STEADY {
            let now = cluster.parallelisms();
            if !now.is_empty() && changes.last().is_none_or(|(_, last)| *last != now) {
                emit("steady load", &cluster);
                changes.push((calm.elapsed(), now));
            }
            thread::sleep(POLL_EVERY);
        }
        emit("steady load", &cluster);
        assert!(changes.len() <= 2, "it oscillates: {changes:?}");
        let at = changes.last().unwrap().1.iter().max().copied().unwrap();
        assert!(at >= NEEDED, "{at} subtasks do not manage what {NEEDED} have to");

        set_load(&cluster, LOW);
        cluster.until("scaled down", |cluster| cluster.parallelisms() == [1, 1]);
        emit("scaled down", &cluster);
        let history = cluster.flink(&["autoscaler", "history", JOB]);
        assert!(history.contains(": 1.00"), "with the rule and its number: {history}");
        // Flink has no numbers of subtasks that have just started.
        cluster.until("explained", |cluster| {
            cluster.try_flink(&["autoscaler", "explain", JOB]).status.success()
        });
        assert!(is(&cluster.observed(), "lifecycleState", "STABLE"));
        cluster.delete_between_changes();
    }
}

fn set_load(cluster: &Cluster, rate: u32) {
    // It can be read at any time, so it must never be half written.
    let (new, file) = (cluster.data().join("rate.new"), cluster.data().join("rate"));
    fs::write(&new, rate.to_string()).unwrap();
    fs::rename(&new, &file).unwrap();
    println!("-- {} records a second", rate * KEYS);
}

fn job(cluster: &Cluster) -> Value {
    let mut job = cluster.job();
    let spec = &mut job["spec"];
    let (keys, work) = (KEYS.to_string(), WORK_MICROS.to_string());
    spec["job"]["args"] = json!([
        "--output",
        "file:///flink-data/output",
        "--keys",
        keys,
        "--rate-file",
        "/flink-data/rate",
        "--work-micros",
        work
    ]);
    let options = [
        ("job.autoscaler.enabled", "true"),
        ("job.autoscaler.stabilization.interval", "10 s"),
        ("job.autoscaler.metrics.window", "1 min"),
        ("job.autoscaler.scale-down.interval", "1 min"),
        ("job.autoscaler.restart.time", "30 s"),
        ("job.autoscaler.catch-up.duration", "2 min"),
        ("job.autoscaler.vertex.max-parallelism", "4"),
        ("jobmanager.scheduler", "adaptive"),
        // Half a minute would be half of the window.
        ("jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout", "5 s"),
    ];
    for (key, value) in options {
        spec["flinkConfiguration"][key] = json!(value);
    }
    job
}

impl Cluster {
    fn start_at(&mut self, load: u32, job: &Value) {
        self.configure_operator(&[("kubernetes.operator.reconcile.interval", "10 s")]);
        set_load(self, load);
        self.start(job);
    }

    #[track_caller]
    fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(begin.elapsed() < PATIENCE, "not {what}: {:?}", self.parallelisms());
            thread::sleep(POLL_EVERY);
        }
    }

    /// Deletes the job once it runs: only a running job can be saved, and this one may be scaled at any moment.
    fn delete_between_changes(&self) {
        let is_deleted = |cluster: &Self| {
            let output = cluster.try_flink(&["delete", JOB, "--yes", "--timeout", BEYOND_PATIENCE]);
            let said = said(&output);
            // A change may also begin while the savepoint is taken.
            assert!(output.status.success() || said.contains("was not deleted"), "{said}");
            output.status.success()
        };
        self.until("deleted", is_deleted);
        self.wait_until("deleted", Value::is_null);
        self.assert_nothing_lost_or_doubled();
    }

    /// Returns the parallelism of each vertex in the order of the job; empty while the job does not run.
    fn parallelisms(&self) -> Vec<u64> {
        let Some(job) = self.running_job() else { return vec![] };
        let vertices = job["vertices"].as_array().into_iter().flatten();
        vertices.filter_map(|vertex| vertex["parallelism"].as_u64()).collect()
    }

    fn running_job(&self) -> Option<Value> {
        self.job_details().filter(|job| job["state"] == "RUNNING")
    }

    /// Returns the number of records that are due and not emitted; infinity while it is unknown.
    fn waiting(&self) -> f64 {
        let described = || {
            let job = self.running_job()?;
            let (id, source) = (job["jid"].as_str()?, job["vertices"][0]["id"].as_str()?);
            let path = format!("/jobs/{id}/vertices/{source}/subtasks/metrics");
            let names = self.rest(&path)?;
            let names = names.as_array()?.iter().filter_map(|metric| metric["id"].as_str());
            let name = names.into_iter().find(|name| name.ends_with(".pendingRecords"))?;
            let sum = self.rest(&format!("{path}?get={name}&agg=sum"))?;
            sum[0]["sum"].as_f64()
        };
        described().unwrap_or(f64::INFINITY)
    }
}
