//! The console: who has access to its server, over plain HTTP, and what a person sees in a browser.

mod act;
mod autoscaler;
mod browser;
mod config;
mod flink_ui;
mod job;
mod logs;
mod pod;
mod resource;
mod secrets;
mod showcase;

use std::process::Stdio;
use std::time::{Duration, Instant};

use http::Method;
use reqwest::header::{CONTENT_SECURITY_POLICY, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use reqwest::{Client, RequestBuilder, Response, StatusCode, redirect};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::NamedTempFile;
use testing::terminal::terminal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::commands::JOB_ID;
use super::transcripts::{kubeconfig, stage};
use crate::support::fake_cluster::http::Behind;
use crate::support::fake_cluster::{FakeCluster, Fault};
use crate::support::fake_flink::load::{SOURCE, WINDOW};
use crate::support::fake_flink::{FakeFlink, Job, Metrics, READ_RECORDS, Snapshot};
use crate::support::patience::PATIENCE;
use crate::support::program::program;

/// A cluster, and a console that shows it.
struct Shown {
    cluster: FakeCluster,
    child: Child,
    /// Includes the token.
    address: String,
    _kubeconfig: NamedTempFile,
}

impl Shown {
    async fn new(cluster: FakeCluster) -> Self {
        Self::behind(cluster, Behind::default()).await
    }

    async fn behind(cluster: FakeCluster, behind: Behind) -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let kubeconfig = kubeconfig(cluster.listen(behind).await);
        let mut child = command(&kubeconfig).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let address =
            timeout(PATIENCE, lines.next_line()).await.expect("an address comes").unwrap();
        let address = address.expect("it is printed");
        Self { cluster, child, address, _kubeconfig: kubeconfig }
    }

    /// Returns the address without path and query.
    fn base(&self) -> &str {
        self.address.split_once("/?token=").expect("the address has a token").0
    }

    fn get(&self, path: &str) -> RequestBuilder {
        client().get(format!("{}{path}", self.base()))
    }

    /// Shows the token and returns the cookie.
    async fn cookie(&self) -> String {
        let entered = client().get(&self.address).send().await.unwrap();
        assert_eq!(entered.status(), StatusCode::SEE_OTHER);
        assert_eq!(entered.headers()[LOCATION], "/");
        let cookie = entered.headers()[SET_COOKIE].to_str().unwrap().to_owned();
        cookie.split(';').next().unwrap().to_owned()
    }

    /// Stops the console as Ctrl-C does, and returns its exit code and stderr.
    async fn end(&mut self) -> (Option<i32>, String) {
        let pid = i32::try_from(self.child.id().expect("it runs")).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::INT).unwrap();
        ended(&mut self.child).await
    }
}

async fn reach(cluster: &FakeCluster) -> NamedTempFile {
    drop(rustls::crypto::ring::default_provider().install_default());
    kubeconfig(cluster.listen(Behind::default()).await)
}

fn command(kubeconfig: &NamedTempFile) -> Command {
    let mut command = Command::from(program());
    command.args(["dashboard", "-A", "--port", "0"]).env("KUBECONFIG", kubeconfig.path());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

async fn ended(child: &mut Child) -> (Option<i32>, String) {
    let mut error = String::new();
    let told = child.stderr.as_mut().unwrap().read_to_string(&mut error);
    timeout(PATIENCE, told).await.expect("it ends").unwrap();
    let status = timeout(PATIENCE, child.wait()).await.expect("it ends").unwrap();
    (status.code(), error)
}

/// Returns a client that does not follow redirects, so that tests can check them.
fn client() -> Client {
    Client::builder().redirect(redirect::Policy::none()).build().unwrap()
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

/// Reads events until all these texts have come.
async fn described(mut events: Response, wanted: &[&str]) -> String {
    let mut text = String::new();
    let end = tokio::time::Instant::now() + PATIENCE;
    while !wanted.iter().all(|it| text.contains(it)) {
        // The stream is kept alive and never ends by itself.
        let chunk = tokio::time::timeout_at(end, events.chunk()).await;
        let chunk = chunk.unwrap_or_else(|_| panic!("{wanted:?} does not come: {text}")).unwrap();
        text.push_str(&String::from_utf8_lossy(&chunk.expect("it goes on")));
    }
    text
}

#[tokio::test]
async fn who_has_the_token_is_let_in_and_nobody_else() {
    let mut shown = Shown::new(stage()).await;
    let cookie = shown.cookie().await;
    let page = shown.get("/").header(COOKIE, &cookie).send().await.unwrap();
    assert_eq!(page.status(), StatusCode::OK);
    let policy = page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'"), "{policy}");
    assert_eq!(page.headers()["cache-control"], "no-store");
    assert_eq!(page.headers()["x-content-type-options"], "nosniff");
    assert_eq!(page.headers()["referrer-policy"], "same-origin");
    let page = page.text().await.unwrap();

    let stranger = shown.get("/").send().await.unwrap();
    assert_eq!(stranger.status(), StatusCode::UNAUTHORIZED);
    assert!(stranger.headers().contains_key(CONTENT_SECURITY_POLICY));
    let text = stranger.text().await.unwrap();
    assert!(text.contains("Open the address that `kubectl flink dashboard` printed"), "{text}");
    assert_eq!(status(shown.get("/?token=0123456789abcdef0123456789abcdef")).await, 401);
    assert_eq!(status(shown.get("/fleet/events")).await, 401);

    let with = |path: &str| shown.get(path).header(COOKIE, &cookie);
    assert_eq!(status(with("/").header(ORIGIN, "http://evil.example")).await, 403);
    assert_eq!(status(with("/").header("sec-fetch-site", "cross-site")).await, 403);
    assert_eq!(status(with("/").header(HOST, "evil.example")).await, 403);
    assert_eq!(status(with("/nothing")).await, 404);
    let port = shown.base().rsplit_once(':').unwrap().1;
    assert_eq!(status(with("/").header(HOST, format!("localhost:{port}"))).await, 200);
    let posted = client().post(format!("{}/", shown.base())).header(COOKIE, &cookie);
    let posted = posted.header(ORIGIN, shown.base());
    assert_eq!(status(posted).await, 405);

    let style = page.split('"').find(|it| it.ends_with("console.css")).unwrap();
    let style = shown.get(style).send().await.unwrap();
    assert_eq!(style.headers()["content-type"], "text/css; charset=utf-8");
    assert_eq!(style.headers()["cache-control"], "private, max-age=31536000, immutable");

    let token = shown.address.split_once("token=").unwrap().1.to_owned();
    assert_eq!(shown.cluster.writes(), [] as [crate::support::fake_cluster::Recorded; 0]);
    let (code, error) = shown.end().await;
    assert_eq!((code, error.as_str()), (Some(0), "open until Ctrl-C\n"));
    assert!(!error.contains(&token) && !page.contains(&token));
}

#[tokio::test]
async fn changes_are_reported_as_they_come() {
    let shown = Shown::new(stage()).await;
    let cookie = shown.cookie().await;
    let follow = async |query: &str| {
        let path = format!("/fleet/events?{query}");
        shown.get(&path).header(COOKIE, &cookie).send().await.unwrap()
    };
    described(follow("q=bills").await, &["bills", "DEPLOYED", "1–1 of 1"]).await;
    let events = follow("state=FAILED").await;
    let failed = json!({"lifecycleState": "FAILED", "error": "no room"});
    shown.cluster.set_status("flinkdeployments", "default", "bills", &failed);
    described(events, &["deployment/default/bills", "no room"]).await;
    let page = shown.get("/?q=no+room").header(COOKIE, &cookie).send().await.unwrap();
    let page = page.text().await.unwrap();
    assert!(page.contains("deployment/default/bills") && !page.contains("default/wordcount"));
    for other in ["sessionjob/default/clicks", "bluegreen/default/shop"] {
        described(follow("").await, &[other]).await;
    }
}

#[tokio::test]
async fn jobs_are_measured_where_it_is_asked_for() {
    let flink = job_manager().await;
    let behind = Behind { flink: flink.address().to_owned(), ..Behind::default() };
    let shown = Shown::behind(fleet(), behind).await;
    let cookie = shown.cookie().await;
    let follow = async |query: &str| {
        let path = format!("/fleet/events?q=job-01{query}");
        shown.get(&path).header(COOKIE, &cookie).send().await.unwrap()
    };
    let without = described(follow("").await, &["job-01"]).await;
    assert!(!without.contains("Checkpoint</th>"), "{without}");
    let measured = described(follow("&figures=on").await, &["Checkpoint", " ms</td>"]).await;
    assert!(measured.contains("data-title=\\\"Lag\\\""), "{measured}");
}

#[tokio::test]
async fn a_lost_api_server_is_reported_and_got_over() {
    let cluster = stage();
    cluster.fail(Method::GET, "watch=", Fault::Status(503), usize::MAX);
    let shown = Shown::new(cluster).await;
    let cookie = shown.cookie().await;
    let notes = async || {
        let page = shown.get("/").header(COOKIE, &cookie).send().await.unwrap();
        let page = page.text().await.unwrap();
        let notes = page.split_once("id=\"notes\" role=\"status\">").unwrap().1;
        notes.split_once("</div>").unwrap().0.to_owned()
    };
    let started = Instant::now();
    while !notes().await.contains("Showing data from ") {
        assert!(started.elapsed() < PATIENCE, "{}", notes().await);
    }
    described(
        shown.get("/fleet/events").header(COOKIE, &cookie).send().await.unwrap(),
        &["default/wordcount", "retrying the API server: "],
    )
    .await;
    shown.cluster.heal();
    while !notes().await.is_empty() {
        assert!(started.elapsed() < PATIENCE, "{}", notes().await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn live_pages_are_bounded() {
    let shown = Shown::new(stage()).await;
    let cookie = shown.cookie().await;
    let follow = async || shown.get("/fleet/events").header(COOKIE, &cookie).send().await.unwrap();
    let mut live = Vec::new();
    for _ in 0..32 {
        live.push(follow().await);
    }
    assert!(live.iter().all(|it| it.status() == StatusCode::OK));
    let refused = follow().await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(status(shown.get("/").header(COOKIE, &cookie)).await, 200, "pages are shown");
    drop(live);
    let started = Instant::now();
    while follow().await.status() != StatusCode::OK {
        assert!(started.elapsed() < PATIENCE, "who leaves makes room");
    }
}

#[tokio::test]
async fn kinds_that_are_not_there_are_named_and_the_others_shown() {
    let cluster = stage();
    cluster.remove_kind("flinksessionjobs");
    let shown = Shown::new(cluster).await;
    let events = shown.get("/fleet/events").header(COOKIE, shown.cookie().await);
    let wanted =
        ["FlinkSessionJobs are not shown: ", "bluegreen/default/shop", "default/wordcount"];
    described(events.send().await.unwrap(), &wanted).await;
}

#[tokio::test]
async fn who_may_not_list_deployments_is_refused_before_anything_is_opened() {
    let cluster = stage();
    let message = "flinkdeployments.flink.apache.org is forbidden: User \"jane\" cannot list resource \
                   \"flinkdeployments\" in API group \"flink.apache.org\" at the cluster scope";
    cluster.refuse(Method::GET, "/flinkdeployments", 403, message);
    let kubeconfig = reach(&cluster).await;
    let mut child = command(&kubeconfig).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (code, error) = ended(&mut child).await;
    assert_eq!(code, Some(1), "{error}");
    assert!(error.starts_with("error: ") && error.contains("flinkdeployments"), "{error}");
    assert_eq!(lines.next_line().await.unwrap(), None, "no address is printed");
}

/// Anyone who reads the arguments of the browser comes too late.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_browser_is_started_at_a_desktop_with_an_address_that_counts_once() {
    use std::os::unix::fs::PermissionsExt;

    let (folder, kubeconfig) = (tempfile::tempdir().unwrap(), reach(&stage()).await);
    let (opened, browser) = (folder.path().join("opened"), folder.path().join("xdg-open"));
    let script = format!("#!/bin/sh\necho \"$1\" >>{}\n", opened.display());
    std::fs::write(&browser, script).unwrap();
    std::fs::set_permissions(&browser, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let at_a_desktop = |words: &[&str]| {
        let (person, program) = terminal();
        let mut command = command(&kubeconfig);
        command.args(words).env("PATH", &path).env("DISPLAY", ":0").stdout(Stdio::from(program));
        (BufReader::new(tokio::fs::File::from_std(person.into())).lines(), command.spawn().unwrap())
    };
    let (mut lines, _child) = at_a_desktop(&["--no-browser"]);
    timeout(PATIENCE, lines.next_line()).await.expect("an address comes").unwrap();

    let (mut lines, _child) = at_a_desktop(&[]);
    let printed = timeout(PATIENCE, lines.next_line()).await.expect("an address comes").unwrap();
    let printed = printed.unwrap().trim_end().to_owned();
    let started = Instant::now();
    let once = loop {
        let opened = std::fs::read_to_string(&opened).unwrap_or_default();
        if let Some(address) = opened.strip_suffix('\n') {
            break address.to_owned();
        }
        assert!(started.elapsed() < PATIENCE, "a browser is started");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(once.starts_with(printed.split_once("token=").unwrap().0), "{once} {printed}");
    for (address, wanted) in [(&once, 303), (&once, 401), (&printed, 303), (&printed, 303)] {
        assert_eq!(status(client().get(address)).await, wanted, "{address}");
    }
    assert_eq!(std::fs::read_to_string(&opened).unwrap(), once + "\n", "the first one opened none");
}

/// A fleet in two namespaces, with names that can be sorted.
fn fleet() -> FakeCluster {
    let cluster = FakeCluster::new();
    let created = jiff::Timestamp::now() - jiff::SignedDuration::from_hours(24 * 10);
    let states = ["STABLE", "FAILED", "UPGRADING", "SUSPENDED"];
    for (number, state) in states.iter().cycle().take(80).enumerate() {
        let namespace = if number % 2 == 0 { "lab" } else { "shop" };
        let error = (*state == "FAILED").then_some("no room for its pods: ".repeat(20));
        let labels = json!({"team": if number < 40 { "a" } else { "b" }});
        cluster.insert(json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkDeployment",
            "metadata": {"name": format!("job-{number:02}"), "namespace": namespace, "generation": 1,
                "creationTimestamp": created, "labels": labels},
            "spec": {"image": "registry/flink:1.20", "flinkVersion": "v1_20", "job": {"parallelism": number}},
            "status": {"lifecycleState": state, "jobStatus": {"state": "RUNNING"}, "error": error},
        }));
    }
    report_of(&cluster, "job-01");
    autoscaler::remember(&cluster, "job-01");
    cluster
}

/// The JobManager of the job that has more details.
async fn job_manager() -> FakeFlink {
    let flink = FakeFlink::start().await;
    flink.use_real_time();
    let now = jiff::Timestamp::now().as_millisecond();
    flink.with("shop/job-01", |cluster| {
        let mut job = Job::running(JOB_ID, now - 2_220_000);
        job.checkpoints = (1..=9)
            .map(|id| Snapshot {
                id,
                path: format!("s3://flink/job-01/chk-{id}"),
                time: now - (10 - id) * 60_000,
                kind: "CHECKPOINT",
                is_discarded: id < 9,
            })
            .collect();
        let metrics = |of: &[(&str, f64)]| -> Metrics {
            of.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        let source = metrics(&[
            ("busyTimeMsPerSecond", 120.0),
            ("backPressuredTimeMsPerSecond", 640.0),
            ("Source__Car_data.numRecordsInPerSecond", 12_500.0),
            ("Source__Car_data.pendingRecords", 48_000.0),
            ("Source__Car_data.numRecordsIn", 27_000_000.0),
            ("numRecordsOutPerSecond", 12_500.0),
        ]);
        let window = metrics(&[
            ("busyTimeMsPerSecond", 970.0),
            ("backPressuredTimeMsPerSecond", 0.0),
            ("numRecordsInPerSecond", 12_500.0),
            (READ_RECORDS, 27_000_000.0),
        ]);
        let process = ["Memory.Heap.Max", "Memory.Heap.Used", "Memory.Metaspace.Used"];
        let process = process.map(|name| (format!("Status.JVM.{name}"), 1.0));
        let managed = ("Status.Flink.Memory.Managed.Used".to_owned(), 1.0);
        cluster.process_metrics = process.into_iter().chain([managed]).collect();
        job.metrics = [(SOURCE.to_owned(), source), (WINDOW.to_owned(), window)].into();
        cluster.jobs.insert(JOB_ID.to_owned(), job);
    });
    flink
}

/// Adds what belongs to one of them, and what has happened to it.
fn report_of(cluster: &FakeCluster, name: &str) {
    let at = |minutes| jiff::Timestamp::now() - jiff::SignedDuration::from_mins(minutes);
    let job = json!({"state": "RUNNING", "jobId": JOB_ID});
    let status =
        json!({"observedGeneration": 1, "jobManagerDeploymentStatus": "READY", "jobStatus": job});
    cluster.set_status("flinkdeployments", "shop", name, &status);
    let metadata = |name: &str, minutes| json!({"name": name, "namespace": "shop", "creationTimestamp": at(minutes)});
    let reference = json!({"kind": "FlinkDeployment", "name": name});
    for (number, state, minutes) in [(1, "COMPLETED", 300), (2, "FAILED", 40)] {
        cluster.insert(json!({"apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkStateSnapshot",
            "metadata": metadata(&format!("{name}-before-upgrade-{number}"), minutes),
            "spec": {"jobReference": reference, "savepoint": {}},
            "status": {"state": state, "path": format!("s3://flink/{name}/savepoint-{number}"), "error": null}}));
    }
    let told = [
        (
            "Normal",
            "SpecChanged",
            39,
            "UPGRADE change(s) detected (image : registry/flink:1.19 -> registry/flink:1.20)",
        ),
        ("Normal", "Suspended", 38, "Suspending existing deployment."),
        ("Normal", "Submit", 37, "Starting deployment"),
        (
            "Warning",
            "ClusterDeploymentException",
            3,
            "0/3 nodes are available: 3 Insufficient memory.",
        ),
    ];
    for (number, (kind, reason, minutes, message)) in told.into_iter().enumerate() {
        cluster.insert(json!({"apiVersion": "v1", "kind": "Event",
            "metadata": {"name": format!("{name}.{number}"), "namespace": "shop"},
            "involvedObject": reference, "type": kind, "reason": reason, "message": message,
            "lastTimestamp": at(minutes), "count": 1}));
    }
    for (pod, component, restarts) in
        [("6d4c7b9f8-k2p4q", "jobmanager", 2), ("taskmanager-1-1", "taskmanager", 0)]
    {
        let pod = format!("{name}-{pod}");
        cluster.insert(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": pod, "namespace": "shop", "creationTimestamp": at(37),
            "labels": {"app": name, "component": component}}, "spec": {"containers": []},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "flink-main-container", "image": "", "imageID": "",
                    "ready": true, "restartCount": restarts}]}}));
        cluster.set_log(&pod, &log());
    }
}

/// The log of a container, which is longer than the box of a page.
fn log() -> String {
    let line = |number: usize| {
        let (level, text) = match number % 20 {
            7 => ("WARN ", "Checkpoint 12 takes longer than its interval\n\tas 3 others before it"),
            13 => (
                "ERROR",
                "no s3.secret-key: hush\njava.io.IOException: closed\n\tat a.A.b(A.java:1)",
            ),
            _ => (
                "INFO ",
                "Completed checkpoint for job 5a3e (1024 bytes, checkpointDuration=15 ms)",
            ),
        };
        format!(
            "2026-01-01 00:00:{:02},000 {level} org.apache.flink.runtime.Thing [] - {number}: {text}\n",
            number % 60
        )
    };
    (0..60).map(line).collect()
}
