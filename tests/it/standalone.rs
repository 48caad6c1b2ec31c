//! The standalone autoscaler: Flink clusters without Kubernetes, and a store.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::state;
use clients::flink::Client;
use clients::store::{self, Memory, Place, Record, Store};
use config::FlinkConfig;
use futures::future::BoxFuture;
use jiff::Timestamp;
use operator::http::Listener;
use operator::scaling_rules::ScalingRules;
use operator::standalone::{self, Cluster, Settings, View, routes};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::support::fake_flink::load::{Load, SOURCE, WINDOW};
use crate::support::fake_flink::{FakeFlink, short_deadlines};
use crate::support::patience::PATIENCE;
use crate::support::program::program;

const JOB: &str = "aaaa0000000000000000000000000001";

/// Returns a cluster with the adaptive scheduler, whose job processes 40 records per second per subtask.
async fn flink(rate: f64) -> FakeFlink {
    let flink = FakeFlink::start().await;
    flink.use_real_time();
    flink.run_job(JOB);
    let now = flink.now();
    flink.with("", |cluster| {
        cluster.measure_memory();
        cluster.configuration.insert("jobmanager.scheduler".into(), "Adaptive".into());
        let job = cluster.jobs.get_mut(JOB).unwrap();
        (job.start, job.load) = (now, Some(Load::new(rate, 40.0, now)));
    });
    flink
}

fn with_load<T>(flink: &FakeFlink, inspect: impl FnOnce(&mut Load) -> T) -> T {
    flink.with_job(JOB, |job| inspect(job.load.as_mut().unwrap()))
}

fn parallelism(flink: &FakeFlink) -> (u32, u32) {
    with_load(flink, |load| (load.parallelism[SOURCE], load.parallelism[WINDOW]))
}

/// A running autoscaler.
struct Running {
    address: String,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

/// Starts with intervals that are short enough for a test.
async fn start(urls: &[String], store: Arc<dyn Store>, options: &[(&str, &str)]) -> Running {
    let quick = [
        ("job.autoscaler.stabilization.interval", "0 s"),
        ("job.autoscaler.metrics.window", "1 s"),
        ("job.autoscaler.scale-down.interval", "0 s"),
        ("job.autoscaler.catch-up.duration", "10 s"),
        ("job.autoscaler.restart.time", "0 s"),
    ];
    let base: FlinkConfig = quick.iter().chain(options).copied().collect();
    let rules = ScalingRules::configured(&base).unwrap();
    let interval = Duration::from_millis(100);
    let settings = Settings { base, set: FlinkConfig::new(), interval, parallelism: 4, rules };
    let clusters = urls.iter().map(|url| {
        // A measurement that takes longer is made in the next cycle.
        let client = Client::at(url, short_deadlines()).unwrap().without_retries();
        Cluster { url: url.clone(), client }
    });
    let clusters = clusters.collect();
    let view = Arc::new(View::new(Duration::from_mins(1)));
    let listener = Listener::at("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.address().unwrap().to_string();
    tokio::spawn(listener.serve(routes(&view)));
    let stop = CancellationToken::new();
    let task = tokio::spawn(standalone::run(clusters, settings, store, view, stop.clone()));
    Running { address, stop, task }
}

impl Running {
    async fn page(&self, path: &str) -> String {
        page(&self.address, path).await
    }

    /// Returns the job of the cluster at this URL, as the page shows it.
    async fn job(&self, flink: &FakeFlink) -> Value {
        let page: Value = serde_json::from_str(&self.page("/jobs").await).unwrap();
        let clusters = page["clusters"].as_array().unwrap();
        let cluster = clusters.iter().find(|of| of["url"] == flink.base_url()).unwrap();
        cluster["jobs"][JOB].clone()
    }

    async fn until_job(
        &self,
        flink: &FakeFlink,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let start = tokio::time::Instant::now();
        loop {
            let job = self.job(flink).await;
            if is_so(&job) {
                return job;
            }
            assert!(start.elapsed() < PATIENCE, "not seen: {what}; but {job:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn until_scaled(&self, flink: &FakeFlink, to: u32) {
        self.until_job(flink, "it is scaled", |_| parallelism(flink) >= (to, to)).await;
    }

    async fn stop(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap();
    }
}

async fn page(address: &str, path: &str) -> String {
    let url = format!("http://{address}{path}");
    reqwest::get(url).await.unwrap().text().await.unwrap()
}

fn key(flink: &FakeFlink) -> String {
    format!("{}#{JOB}", flink.base_url())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_scaled_in_place_and_history_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let place = format!("sqlite:{}", folder.path().join("state.db").display());
    let place = Place::parse(&place).unwrap();
    let flink = flink(100.0).await;
    let urls = [flink.base_url()];
    let running = start(&urls, store::open(&place).await.unwrap(), &[]).await;
    running.until_scaled(&flink, 4).await;
    // A job that is being scaled is CREATED for a moment.
    let is_reported = |job: &Value| {
        job["vertices"][SOURCE]["decided"].is_u64() && text(&job["state"]) == "RUNNING"
    };
    let job = running.until_job(&flink, "it is told", is_reported).await;
    assert_eq!(text(&job["effect"]), "in place", "{job:#}");
    assert_eq!(text(&job["name"]), "CarTopSpeedWindowingExample");
    running.stop().await;

    // Stored like the operator's: a new process already knows the job.
    let store = store::open(&place).await.unwrap();
    let kept = store.read(&key(&flink)).await.unwrap();
    assert!(kept.is_stored() && kept.damaged.is_empty(), "{kept:?}");
    let stored = state::read(&kept.data).unwrap();
    assert!(stored.state.overrides[&SOURCE.into()] >= 4);
    assert!(!stored.state.scaling_history.is_empty() && !stored.state.restarts.is_empty());
    let changes = with_load(&flink, |load| load.changes);
    // Someone requests something else from Flink: the decision is requested again.
    with_load(&flink, |load| load.parallelism.values_mut().for_each(|of| *of = 1));
    let advised = [("job.autoscaler.advice.first-window", "true")];
    let running = start(&urls, store, &advised).await;
    running.until_scaled(&flink, 4).await;
    assert_eq!(text(&running.job(&flink).await["effect"]), "in place");
    assert_eq!(with_load(&flink, |load| load.changes), changes + 1);
    assert!(running.page("/healthz").await.starts_with("ok"));
    running.stop().await;
}

/// A database in which the Java program stored the parallelism of the job.
#[derive(Default)]
struct Java(Memory);

impl Store for Java {
    fn name(&self) -> &'static str {
        "java"
    }

    fn read<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<Record, store::Error>> {
        self.0.read(job)
    }

    fn read_java<'a>(
        &'a self,
        job_id: &'a str,
    ) -> BoxFuture<'a, Result<store::Data, store::Error>> {
        assert_eq!(job_id, JOB);
        let data = [("parallelismOverrides".to_owned(), format!("{SOURCE}:3,{WINDOW}:3"))];
        Box::pin(std::future::ready(Ok(data.into())))
    }

    fn write<'a>(
        &'a self,
        job: &'a str,
        kept: &'a Record,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<i64, store::Error>> {
        self.0.write(job, kept, now)
    }

    fn remove<'a>(&'a self, job: &'a str) -> BoxFuture<'a, Result<(), store::Error>> {
        self.0.remove(job)
    }

    fn trim(&self, before: Timestamp) -> BoxFuture<'_, Result<Vec<String>, store::Error>> {
        self.0.trim(before)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_of_the_java_program_goes_on_as_it_was_and_is_not_new() {
    let flink = flink(60.0).await;
    let store: Arc<dyn Store> = Arc::new(Java::default());
    let urls = [flink.base_url()];
    let options =
        [("job.autoscaler.advice.first-window", "true"), ("job.autoscaler.metrics.window", "1 h")];
    let running = start(&urls, Arc::clone(&store), &options).await;
    running.until_scaled(&flink, 3).await;
    running.stop().await;
    assert_eq!(parallelism(&flink), (3, 3));
    let kept = store.read(&key(&flink)).await.unwrap();
    let stored = state::read(&kept.data).unwrap();
    assert_eq!(stored.state.overrides[&SOURCE.into()], 3, "stored as its own");
    assert!(!kept.data.contains_key(autoscaler::advice::KEY), "{:?}", kept.data.keys());

    // State that is off is not taken over again when it is switched back on.
    let off = start(&urls, Arc::clone(&store), &[("job.autoscaler.enabled", "false")]).await;
    off.until_job(&flink, "it is off", |job| text(&job["effect"]) == "off").await;
    off.stop().await;
    let kept = store.read(&key(&flink)).await.unwrap();
    assert!(kept.is_stored() && kept.data.is_empty(), "{kept:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_comes_to_rest_and_is_scaled_down_again() {
    let flink = flink(100.0).await;
    let running = start(&[flink.base_url()], Arc::new(Memory::default()), &[]).await;
    running.until_scaled(&flink, 4).await;
    running.until_job(&flink, "it catches up", |_| with_load(&flink, |load| load.lag < 1.0)).await;
    let changes = || with_load(&flink, |load| load.changes);
    let start = tokio::time::Instant::now();
    loop {
        let before = changes();
        tokio::time::sleep(Duration::from_secs(3)).await;
        if changes() == before {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "it comes to rest");
    }
    // How often depends on the rates that were measured meanwhile, and so on the machine.
    println!("at rest after {} changes", changes());
    with_load(&flink, |load| load.rate = 10.0);
    running.until_job(&flink, "it is scaled down", |_| parallelism(&flink) == (1, 1)).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_new_is_advised_first() {
    // The advice ends after two windows, which on a slow machine may be before there is a decision, or before it is seen.
    for window in ["1 s", "4 s", "1 min"] {
        let flink = flink(100.0).await;
        let options = [
            ("job.autoscaler.advice.first-window", "true"),
            ("job.autoscaler.metrics.window", window),
        ];
        let running = start(&[flink.base_url()], Arc::new(Memory::default()), &options).await;
        let is_reported =
            |job: &Value| text(&job["outcome"]).starts_with("decisions are only reported until");
        let is_changed = || !flink.requests("PUT ").is_empty();
        let job = running
            .until_job(&flink, "it is advised, or scaled", |job| is_reported(job) || is_changed())
            .await;
        let is_advised = is_reported(&job) && !is_changed();
        running.until_scaled(&flink, 4).await;
        running.stop().await;
        if is_advised {
            assert!(text(&job["effect"]).starts_with("advice until 2"), "{job:#}");
            return;
        }
    }
    panic!("it was never advised");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_scheduler_cannot_follow_is_advised_for_ever() {
    let flink = flink(100.0).await;
    flink.with("", |cluster| cluster.configuration.clear());
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    let running = start(&[flink.base_url()], Arc::clone(&store), &[]).await;
    let job = running
        .until_job(&flink, "it is advised", |job| {
            text(&job["outcome"]).starts_with("decisions are only reported: ")
        })
        .await;
    let why = "advice: the job's `jobmanager.scheduler` is `default`";
    assert!(text(&job["effect"]).starts_with(why), "{job:#}");
    let metrics = &job["vertices"][SOURCE]["metrics"];
    assert!(metrics["RECOMMENDED_PARALLELISM"]["current"].as_f64().unwrap() >= 3.0, "{metrics:#}");
    assert_eq!(flink.requests("resource-requirements"), [""; 0]);
    let kept = store.read(&key(&flink)).await.unwrap();
    let stored = state::read(&kept.data).unwrap();
    assert!(stored.state.overrides.is_empty() && stored.state.scaling_history.is_empty());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_of_its_configuration_have_a_say() {
    let flink = flink(100.0).await;
    let refused = "kubernetes.operator.plugins.executors.cap.expression";
    let names = ("job.autoscaler.scaling.custom-executors", "cap");
    let options = [names, (refused, "'not before noon'")];
    let running = start(&[flink.base_url()], Arc::new(Memory::default()), &options).await;
    let why = "executor `cap` refuses the decision: not before noon";
    running.until_job(&flink, "it is refused", |job| text(&job["outcome"]) == why).await;
    running.stop().await;
    assert_eq!(with_load(&flink, |load| load.changes), 0);

    let running = start(&[flink.base_url()], Arc::new(Memory::default()), &[names]).await;
    running
        .until_job(&flink, "it is not defined", |job| {
            text(&job["error"]).contains("is not defined")
        })
        .await;
    running.stop().await;
    assert_eq!(with_load(&flink, |load| load.changes), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_does_not_answer_holds_up_no_other_one() {
    let (flink, hanging) = (flink(100.0).await, FakeFlink::start().await);
    hanging.inject("GET /jobs/overview", crate::support::fake_flink::Fault::SilentBefore, 1000);
    let dead = "http://127.0.0.1:1".to_owned();
    let urls = [dead.clone(), hanging.base_url(), flink.base_url()];
    let running = start(&urls, Arc::new(Memory::default()), &[]).await;
    running.until_scaled(&flink, 4).await;
    let metrics = running.page("/metrics").await;
    for line in [
        format!("kubectl_flink_autoscaler_cluster_reachable{{cluster=\"{dead}\"}} 0\n"),
        format!(
            "kubectl_flink_autoscaler_cluster_reachable{{cluster=\"{}\"}} 1\n",
            flink.base_url()
        ),
    ] {
        assert!(metrics.contains(&line), "{metrics}");
    }
    // A restart of the job has cleared its figures.
    let start = tokio::time::Instant::now();
    let figure = "metric=\"TARGET_DATA_RATE\",kind=\"average\"";
    while !running.page("/metrics").await.contains(figure) {
        assert!(start.elapsed() < PATIENCE, "{}", running.page("/metrics").await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let page: Value = serde_json::from_str(&running.page("/jobs").await).unwrap();
    assert!(text(&page["clusters"][0]["error"]).contains("did not answer"), "{page:#}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_stored_and_cut_short_decides_nothing_and_stays() {
    let flink = flink(100.0).await;
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    let cut = [("parallelismOverrides".to_owned(), format!("{SOURCE}:2,{WINDOW}"))];
    let cut = Record { data: cut.into(), ..Record::default() };
    store.write(&key(&flink), &cut, Timestamp::now()).await.unwrap();
    let running = start(&[flink.base_url()], Arc::clone(&store), &[]).await;
    let job = running.until_job(&flink, "it is told", |job| job["error"].is_string()).await;
    let reason = "`parallelismOverrides` cannot be read, and it says what is in effect";
    assert!(text(&job["error"]).contains(reason), "{job:#}");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(with_load(&flink, |load| load.changes), 0);
    let kept = store.read(&key(&flink)).await.unwrap();
    assert_eq!(kept.data, cut.data);
    // Repairing it needs no restart.
    let mended = [("parallelismOverrides".to_owned(), format!("{SOURCE}:2,{WINDOW}:2"))];
    let mended = Record { data: mended.into(), ..kept };
    store.write(&key(&flink), &mended, Timestamp::now()).await.unwrap();
    running.until_scaled(&flink, 3).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_that_cannot_be_read_is_set_aside() {
    let flink = flink(28.0).await;
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    let of_tomorrow = "vertices: {of: tomorrow}".to_owned();
    let data = [("scalingHistory".to_owned(), of_tomorrow.clone())].into();
    let kept = Record { data, ..Record::default() };
    store.write(&key(&flink), &kept, Timestamp::now()).await.unwrap();
    let running = start(&[flink.base_url()], Arc::clone(&store), &[]).await;
    running.until_job(&flink, "it is judged", |job| job["balanced"].as_u64() > Some(0)).await;
    let kept = store.read(&key(&flink)).await.unwrap();
    assert_eq!(kept.data.get("scalingHistory.unreadable"), Some(&of_tomorrow), "{kept:?}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_with_one_store_one_stores_and_what_it_decided_counts() {
    let flink = flink(28.0).await;
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    let running = start(&[flink.base_url()], Arc::clone(&store), &[]).await;
    running.until_job(&flink, "it is judged", |job| job["balanced"].as_u64() > Some(0)).await;
    // Another process decides; ours notices when it wants to store, and continues from that.
    let start = tokio::time::Instant::now();
    loop {
        let kept = store.read(&key(&flink)).await.unwrap();
        let mut stored = state::read(&kept.data).unwrap();
        stored.state.overrides = [(SOURCE.into(), 7), (WINDOW.into(), 7)].into();
        let data = state::write(&stored).unwrap().data;
        let others = Record { data, ..kept };
        if store.write(&key(&flink), &others, Timestamp::now()).await.is_ok() {
            break;
        }
        assert!(start.elapsed() < PATIENCE);
    }
    running.until_job(&flink, "the other's decision", |_| parallelism(&flink) == (7, 7)).await;
    running.stop().await;
}

/// Reproduces FLINK-34212.
pub(crate) async fn a_job_that_has_stopped_is_forgotten() {
    let flink = flink(28.0).await;
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    let running = start(&[flink.base_url()], Arc::clone(&store), &[]).await;
    running.until_job(&flink, "it is judged", |job| job["balanced"].as_u64() > Some(0)).await;
    assert!(store.read(&key(&flink)).await.unwrap().is_stored());
    flink.with_job(JOB, |job| job.state = "RESTARTING".into());
    running.until_job(&flink, "it restarts", |job| text(&job["state"]) == "RESTARTING").await;
    assert!(store.read(&key(&flink)).await.unwrap().is_stored(), "it comes back");
    // While `main()` runs there may be no job; the stored state is kept.
    flink.inject("GET /jobs/overview", crate::support::fake_flink::Fault::NoJobs, 3);
    running.until_job(&flink, "it is away", Value::is_null).await;
    assert!(store.read(&key(&flink)).await.unwrap().is_stored());
    running.until_job(&flink, "it is back", Value::is_object).await;
    flink.with_job(JOB, |job| job.state = "FINISHED".into());
    running.until_job(&flink, "it is gone", Value::is_null).await;
    assert_eq!(store.read(&key(&flink)).await.unwrap(), Record::default());
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_autoscaler_is_off_is_left_alone() {
    let flink = flink(100.0).await;
    let store: Arc<dyn Store> = Arc::new(Memory::default());
    flink.with("", |cluster| {
        let off = ("job.autoscaler.enabled".to_owned(), "false".to_owned());
        cluster.configuration.extend([off]);
    });
    let kept = Record { data: [("a".to_owned(), "b".to_owned())].into(), ..Record::default() };
    store.write(&key(&flink), &kept, Timestamp::now()).await.unwrap();
    let running = start(&[flink.base_url()], Arc::clone(&store), &[]).await;
    running.until_job(&flink, "it is off", |job| text(&job["effect"]) == "off").await;
    assert_eq!(store.read(&key(&flink)).await.unwrap(), Record::default());
    assert_eq!(flink.requests("metrics"), [""; 0]);
    running.stop().await;
}

/// The program itself, as a user runs it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_runs_until_it_is_interrupted() {
    let flink = flink(100.0).await;
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.yaml");
    std::fs::write(&config, "job.autoscaler.metrics.window: 1 s\n").unwrap();
    let mut child = program()
        .args(["autoscaler", "run", "--listen", "127.0.0.1:0", "--interval", "100ms"])
        .args(["--flink", &flink.base_url(), "--flink", "127.0.0.1:1", "--config"])
        .arg(&config)
        .args(["--set", "stabilization.interval=0 s"])
        .args(["--set", "catch-up.duration=10 s", "--set", "restart.time=0 s"])
        .args(["--store", "sqlite:state.db"])
        .current_dir(&folder)
        .env("KUBECTL_FLINK_STORE_PASSWORD", "s3cret")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = log.by_ref().map(Result::unwrap).find(|line| line.contains("listening on"));
    let address = line.unwrap().rsplit("http://").next().unwrap().trim().to_owned();
    let start = tokio::time::Instant::now();
    while parallelism(&flink) < (4, 4) {
        assert!(start.elapsed() < PATIENCE, "{}", page(&address, "/jobs").await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(page(&address, "/jobs").await.contains("\"effect\":\"in place\""));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let rest: Vec<String> = log.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest:#?}");
    assert!(folder.path().join("state.db").is_file());
    let rest = rest.join("\n");
    assert!(rest.contains("the autoscaler decided") && rest.contains("shutting down"), "{rest}");
    assert!(!rest.contains("s3cret"), "{rest}");
}

#[test]
fn what_cannot_be_run_is_refused_without_secrets() {
    let run = |args: &[&str]| {
        let output = program()
            .args(["autoscaler", "run", "--flink", "http://127.0.0.1:1"])
            .args(args)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (args, code, message) in [
        (
            &["--store", "postgres://u:s3cret@127.0.0.1:1/d"] as &[_],
            2,
            "must not contain a password",
        ),
        (&["--flink", "http://u:s3cret@127.0.0.1:1"], 2, "FLINK_REST_CLIENT_HEADERS"),
        (&["--flink", "127.0.0.1:1/"], 2, "twice"),
        (&["--store", "redis://127.0.0.1"], 2, "expected memory, sqlite:PATH"),
        (&["--store", "postgres://u@127.0.0.1:1/d"], 1, "postgres://127.0.0.1:1/d: "),
        (&["--set", "utilization.target=7"], 1, "out of range"),
        (&["--interval", "1ms"], 2, "at least 100ms"),
    ] {
        let (ended, told) = run(args);
        assert_eq!(ended, Some(code), "{args:?}: {told}");
        assert!(told.contains(message), "{args:?}: {told}");
        assert!(!told.contains("s3cret"), "{args:?}: {told}");
    }
}
