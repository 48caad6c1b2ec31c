//! A fake Flink cluster: its REST API over stateful jobs, on a port of 127.0.0.1.
//!
//! It answers as Flink does, texts included; the scripts of `conformance` hold both to the same answers. One server
//! plays many clusters, distinguished by the `Host` header `<id>-rest.<namespace>`; a plain address is the cluster "",
//! unless it is that of one cluster.
//! Requests drive the clock: each one moves every job on by one step, so that tests neither sleep nor race.

mod gates;
mod job;
mod ledger;
pub(crate) mod load;
mod rest;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri},
    response::Response,
};
use clients::flink::{Client, Deadlines};
use gates::Gates;
pub(crate) use job::{Job, READ_RECORDS, Snapshot};
pub(crate) use ledger::Submission;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::patience::DEADLINES;

/// Pause before it is looked whether an answer still has to wait.
const AGAIN: Duration = Duration::from_millis(5);

/// What goes wrong with one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// 503 of a JobManager without a leader; does nothing.
    NoLeader,
    /// 502 of a gateway in front, in HTML; does nothing.
    BadGateway,
    /// 500 from Flink, without a reason; does nothing.
    InternalError,
    /// Does nothing and never answers.
    SilentBefore,
    /// Carries out the request but never answers.
    SilentAfter,
    /// Carries out the request, and the connection breaks in the middle of the answer.
    CutAnswer,
    /// Carries out the request and answers with something other than JSON.
    Garbage,
    /// Carries out the request and answers with more than a client should read.
    Endless,
    /// The list of jobs is empty, as while `main()` is still running.
    NoJobs,
}

struct Injected {
    path_part: String,
    fault: Fault,
    times: usize,
}

/// Metrics by name; one number is returned for every aggregate.
pub(crate) type Metrics = BTreeMap<String, f64>;

/// State of one cluster.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Cluster {
    pub(crate) jobs: BTreeMap<String, Job>,
    /// Uploaded jars by id.
    pub(crate) jars: BTreeMap<String, usize>,
    /// Paths of deleted savepoints.
    disposed: BTreeSet<String>,
    /// Job and trigger ids of operations whose job did not exist.
    orphans: BTreeSet<(String, String)>,
    /// Outcome of disposals by trigger id.
    disposals: BTreeMap<String, Option<String>>,
    pub(crate) default_savepoint_directory: Option<String>,
    /// Whether the cluster chooses the ids of triggers itself and knows one format only.
    pub(crate) is_before_1_15: bool,
    /// Where jobs wait or fail.
    pub(crate) gates: Gates,
    /// Slots of all TaskManagers; as many as are needed if there is no number.
    pub(crate) slots: Option<u64>,
    /// Whether its jobs can be rescaled.
    pub(crate) is_adaptive: bool,
    /// Whether it answers as Flink 2.3, and not as 1.20.
    pub(crate) is_2_3: bool,
    /// Whether no JobManager leads.
    pub(crate) is_down: bool,
    /// Whether that is because it has lost the lock.
    is_deposed: bool,
    /// Whether jobs that HA metadata brings back take checkpoints only when told to.
    pub(crate) only_told_checkpoints: bool,
    /// Newest checkpoints in HA metadata, by job. A job that is submitted again under its id continues from there.
    pub(crate) in_metadata: BTreeMap<String, (String, i64)>,
    /// Numbers of the snapshots that former JobManagers left in the store, by path.
    pub(crate) stored: BTreeMap<String, i64>,
    /// Every start of a job, in order.
    pub(crate) starts: Vec<Start>,
    /// Every submission to a session cluster, in order, failed ones included.
    pub(crate) submissions: Vec<Submission>,
    ledger: Vec<ledger::Entry>,
    /// Paths already in the ledger.
    known: BTreeSet<String>,
    /// Metrics of all TaskManagers.
    pub(crate) process_metrics: Metrics,
    /// JobManager configuration beyond the defaults.
    pub(crate) configuration: BTreeMap<String, String>,
    count: u64,
}

/// What a job was started from, and what it could have been started from.
#[derive(Clone, Debug)]
pub(crate) struct Start {
    pub(crate) job_id: String,
    pub(crate) restored: Option<(String, i64)>,
}

impl Cluster {
    /// Sets the memory metrics that an autoscaler reads, far from any limit.
    pub(crate) fn measure_memory(&mut self) {
        let metrics = [
            ("Status.JVM.Memory.Heap.Max", 1000.0),
            ("Status.JVM.Memory.Heap.Used", 400.0),
            ("Status.Flink.Memory.Managed.Used", 30.0),
            ("Status.JVM.Memory.Metaspace.Used", 20.0),
        ];
        self.process_metrics = metrics.map(|(name, value)| (name.to_owned(), value)).into();
    }

    /// Returns the number of the savepoint or retained checkpoint at `path`, unless it was deleted.
    pub(crate) fn state_at(&self, path: &str) -> Option<i64> {
        if self.disposed.contains(path) {
            return None;
        }
        let mut taken = self.jobs.values().flat_map(|job| &job.checkpoints);
        let found = taken.find(|one| !one.is_discarded && one.path == path).map(|one| one.id);
        found.or_else(|| self.stored.get(path).copied())
    }

    /// Returns the number of the newest state in the store.
    pub(crate) fn newest_state(&self) -> Option<i64> {
        self.newest().map(|(number, _)| number)
    }

    /// Returns the path of the newest state in the store.
    pub(crate) fn newest_path(&self) -> Option<String> {
        self.newest().map(|(_, path)| path.to_owned())
    }

    fn newest(&self) -> Option<(i64, &str)> {
        let kept = self.jobs.values().flat_map(|job| &job.checkpoints);
        let kept = kept.filter(|one| !one.is_discarded && !self.disposed.contains(&one.path));
        let stored = self.stored.iter().map(|(path, number)| (*number, &**path));
        kept.map(|one| (one.id, &*one.path)).chain(stored).max()
    }

    /// Whether a savepoint at `path` was deleted through Flink.
    pub(crate) fn is_disposed(&self, path: &str) -> bool {
        self.disposed.contains(path)
    }

    /// Takes the JobManager down along with what it held in memory, and returns its jobs.
    pub(crate) fn go_down(&mut self) -> BTreeMap<String, Job> {
        self.take_stock();
        (self.is_down, self.is_deposed) = (true, false);
        self.jars.clear();
        self.orphans.clear();
        self.disposals.clear();
        std::mem::take(&mut self.jobs)
    }

    /// Lets the JobManager lose the lock, and returns its jobs, which are suspended.
    pub(crate) fn lose_leader(&mut self) -> BTreeMap<String, Job> {
        self.take_stock();
        (self.is_down, self.is_deposed) = (true, true);
        self.jobs.values_mut().for_each(Job::lose_leader);
        self.jobs.clone()
    }

    /// Lets another JobManager take over: what was only in memory is lost.
    pub(crate) fn change_leader(&mut self) {
        self.disposals.clear();
        self.jars.clear();
        for job in self.jobs.values_mut() {
            job.forget();
        }
    }

    /// Whether a savepoint at `path` was taken and not deleted since.
    fn has_savepoint(&self, path: &str) -> bool {
        let mut taken = self.jobs.values().flat_map(|job| &job.checkpoints);
        let is_taken = taken.any(|one| one.kind != "CHECKPOINT" && one.path == path);
        !self.disposed.contains(path) && (is_taken || self.stored.contains_key(path))
    }

    fn version(&self) -> &'static str {
        if self.is_2_3 { "2.3.0" } else { "1.20.5" }
    }

    /// Advances all jobs by one request.
    pub(crate) fn step(&mut self, now: i64) {
        for job in self.jobs.values_mut() {
            job.step(now, &self.gates);
        }
    }

    /// Returns a number that was not used before.
    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }
}

#[derive(Default)]
struct World {
    clusters: BTreeMap<String, Cluster>,
    faults: VecDeque<Injected>,
    /// `METHOD /path` of each request, in order.
    requests: Vec<String>,
    /// Headers of each request.
    heard: Vec<HeaderMap>,
    /// Milliseconds since the epoch; each request advances it by one second.
    now: i64,
    /// Whether the wall clock is used instead of `now`.
    is_in_real_time: bool,
}

/// The server; it ends when dropped.
pub(crate) struct FakeFlink {
    address: String,
    world: Arc<Mutex<World>>,
    servers: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for FakeFlink {
    fn drop(&mut self) {
        for server in self.servers.lock().unwrap().drain(..) {
            server.abort();
        }
    }
}

impl FakeFlink {
    pub(crate) async fn start() -> Self {
        let world = Arc::new(Mutex::new(World { now: 1_750_000_000_000, ..World::default() }));
        let (address, server) = serve(&world, None).await;
        Self { address, world, servers: Mutex::new(vec![server]) }
    }

    /// Switches to the wall clock, so that an operator outside can compare times with its own.
    pub(crate) fn use_real_time(&self) {
        let mut world = self.world();
        (world.is_in_real_time, world.now) = (true, jiff::Timestamp::now().as_millisecond());
    }

    /// Returns the current time in milliseconds since the epoch.
    pub(crate) fn now(&self) -> i64 {
        self.world().time()
    }

    /// `127.0.0.1:port`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns a client of the cluster "".
    pub(crate) fn client(&self) -> Client {
        Client::at(&self.base_url(), DEADLINES).unwrap()
    }

    /// Returns a client of one cluster, at an address of its own.
    pub(crate) async fn client_of(&self, namespace: &str, id: &str) -> Client {
        let (address, server) = serve(&self.world, Some(format!("{id}-rest.{namespace}"))).await;
        self.servers.lock().unwrap().push(server);
        Client::at(&format!("http://{address}"), DEADLINES).unwrap()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// Reads or changes the cluster `namespace/name`, or "".
    pub(crate) fn with<T>(&self, cluster: &str, change: impl FnOnce(&mut Cluster) -> T) -> T {
        change(self.world().clusters.entry(cluster.to_owned()).or_default())
    }

    /// Adds a running job with checkpoints to the cluster "".
    pub(crate) fn run_job(&self, job_id: &str) {
        let now = self.world().now;
        self.with("", |cluster| cluster.jobs.insert(job_id.into(), Job::running(job_id, now)));
    }

    /// Reads or changes a job of the cluster "".
    pub(crate) fn with_job<T>(&self, job_id: &str, change: impl FnOnce(&mut Job) -> T) -> T {
        self.with("", |cluster| change(cluster.jobs.get_mut(job_id).unwrap()))
    }

    /// Lets another JobManager take over the cluster "": what was only in memory is lost.
    pub(crate) fn change_leader(&self) {
        self.with("", Cluster::change_leader);
    }

    /// Applies `fault` to the next `times` requests whose `METHOD /path` contains `path_part`.
    pub(crate) fn inject(&self, path_part: &str, fault: Fault, times: usize) {
        self.world().faults.push_back(Injected { path_part: path_part.into(), fault, times });
    }

    /// Returns the headers of all requests so far, one per line.
    pub(crate) fn heard(&self) -> String {
        let world = self.world();
        let headers = world.heard.iter().flatten();
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            format!("{name}: {}\n", value.to_str().unwrap())
        };
        headers.map(line).collect::<Vec<_>>().concat()
    }

    /// Returns the requests so far that contain `path_part`, as `METHOD /path`.
    pub(crate) fn requests(&self, path_part: &str) -> Vec<String> {
        self.world().requests.iter().filter(|line| line.contains(path_part)).cloned().collect()
    }
}

/// Short deadlines, so that a test of a timeout is quick. Calls that must succeed have [`DEADLINES`].
pub(crate) fn short_deadlines() -> Deadlines {
    Deadlines {
        request: Duration::from_millis(1500),
        cancel: Duration::from_millis(1500),
        submission: Duration::from_secs(5),
        savepoint: Duration::from_secs(5),
    }
}

impl World {
    fn time(&mut self) -> i64 {
        if self.is_in_real_time {
            self.now = jiff::Timestamp::now().as_millisecond();
        }
        self.now
    }

    /// Takes the fault to apply to this request.
    fn fault_for(&mut self, request: &str) -> Option<Fault> {
        let position = self
            .faults
            .iter()
            .position(|injected| injected.times > 0 && request.contains(&injected.path_part))?;
        let injected = &mut self.faults[position];
        injected.times -= 1;
        Some(injected.fault)
    }

    /// Whether the answer to a request waits: to a submission, until `main()` has run and there is an execution graph, and
    /// to a cancellation until there is one.
    fn waits(&self, host: &str, place: &str, method: &Method, uri: &Uri, body: &[u8]) -> bool {
        let Some(cluster) = self.clusters.get(&key_of(host)) else { return false };
        if !cluster.gates.hold(place) {
            return false;
        }
        let is_submission = uri.path().ends_with("/run");
        let job = if is_submission {
            let posted: Value = serde_json::from_slice(body).unwrap_or_default();
            posted["jobId"].as_str().unwrap_or_default().to_owned()
        } else {
            uri.path().rsplit('/').next().unwrap_or_default().to_owned()
        };
        if place == "main" {
            return is_submission && !cluster.jobs.contains_key(&job);
        }
        let asks = is_submission || *method == Method::PATCH;
        asks && cluster.jobs.get(&job).is_some_and(Job::is_initializing)
    }

    fn handle(
        &mut self,
        host: &str,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) -> (StatusCode, String) {
        self.now += 1000;
        let (key, now) = (key_of(host), self.time());
        let cluster = if key.is_empty() {
            self.clusters.entry(key).or_default()
        } else if let Some(cluster) = self.clusters.get_mut(&key) {
            cluster
        } else {
            return rest::no_leader();
        };
        if cluster.is_down {
            return if cluster.is_deposed { rest::deposed() } else { rest::no_leader() };
        }
        cluster.step(now);
        cluster.take_stock();
        rest::handle(cluster, now, method, uri, headers, body)
    }
}

/// Returns the cluster that a request is for.
fn key_of(host: &str) -> String {
    let host = host.split(':').next().unwrap_or_default();
    match host.split_once("-rest.") {
        Some((id, namespace)) => format!("{namespace}/{id}"),
        None => String::new(),
    }
}

/// Serves all clusters, or the one that `host` stands for.
async fn serve(world: &Arc<Mutex<World>>, host: Option<String>) -> (String, JoinHandle<()>) {
    let world = Arc::clone(world);
    let router = axum::Router::new()
        .fallback(move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let named = headers.get("host").and_then(|host| host.to_str().ok());
            let host = host.clone().unwrap_or_else(|| named.unwrap_or_default().to_owned());
            answer(Arc::clone(&world), host, method, uri, headers, body)
        })
        .layer(axum::extract::DefaultBodyLimit::disable());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, server)
}

async fn answer(
    world: Arc<Mutex<World>>,
    host: String,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request = format!("{method} {uri}");
    let fault = {
        let mut world = world.lock().unwrap();
        world.requests.push(request.clone());
        world.heard.push(headers.clone());
        world.fault_for(&request)
    };
    match fault {
        Some(Fault::NoLeader) => return respond(rest::no_leader()),
        Some(Fault::BadGateway) => {
            let page = "<html><h1>502 Bad Gateway</h1></html>".to_owned();
            return respond((StatusCode::BAD_GATEWAY, page));
        }
        Some(Fault::InternalError) => {
            return respond(rest::refuse(
                StatusCode::INTERNAL_SERVER_ERROR,
                "Internal server error.",
            ));
        }
        Some(Fault::NoJobs) => return respond((StatusCode::OK, json!({"jobs": []}).to_string())),
        Some(Fault::SilentBefore) => std::future::pending::<()>().await,
        Some(Fault::SilentAfter | Fault::CutAnswer | Fault::Garbage | Fault::Endless) | None => {}
    }
    if let Some((kind, text)) = web(&method, uri.path()) {
        let response = Response::builder().header("content-type", kind);
        // Flink itself sets no cookie, but a JobManager also runs other people's code.
        return response.header("set-cookie", "of=flink").body(Body::from(text)).unwrap();
    }
    let waits = |at| world.lock().unwrap().waits(&host, at, &method, &uri, &body);
    while waits("main") {
        tokio::time::sleep(AGAIN).await;
    }
    let (status, text) = world.lock().unwrap().handle(&host, &method, &uri, &headers, &body);
    // Another submission of the same job is refused at once.
    while status.is_success() && waits("graph") {
        tokio::time::sleep(AGAIN).await;
    }
    match fault {
        Some(Fault::SilentAfter) => std::future::pending::<Response>().await,
        Some(Fault::Garbage) => respond((status, "{\"jobs\":[{".into())),
        Some(Fault::CutAnswer) => {
            let half = Bytes::from(text[..text.len() / 2].to_owned());
            let cut = [Ok(half), Err(std::io::Error::other("cut"))];
            Response::builder()
                .status(status)
                .header("content-length", text.len())
                .body(Body::from_stream(futures::stream::iter(cut)))
                .unwrap()
        }
        Some(Fault::Endless) => {
            let blank = Bytes::from(vec![b' '; 1 << 20]);
            let body = std::iter::repeat_n(blank, 64).map(Ok::<_, std::io::Error>);
            Response::new(Body::from_stream(futures::stream::iter(body)))
        }
        _ => respond((status, text)),
    }
}

/// The web interface: a page, and a script that reads the REST API.
fn web(method: &Method, path: &str) -> Option<(&'static str, &'static str)> {
    const PAGE: &str = "<!doctype html><title>Fake Flink Web Dashboard</title><base href=\"./\">\
                        <h1>Jobs</h1><p></p><script src=\"main.js\" type=\"module\"></script>";
    const SCRIPT: &str = "const jobs = await (await fetch('jobs/overview')).json(); \
                          document.querySelector('p').textContent = jobs.jobs.length + ' at ' + location.hash; \
                          const cancel = await fetch('jobs/' + jobs.jobs[0].jid, {method: 'PATCH'}); \
                          document.querySelector('h1').textContent = cancel.status;";
    match (method.as_str(), path) {
        ("GET", "/") => Some(("text/html", PAGE)),
        ("GET", "/main.js") => Some(("text/javascript", SCRIPT)),
        _ => None,
    }
}

fn respond((status, text): (StatusCode, String)) -> Response {
    Response::builder()
        .status(status)
        .header("content-type", "application/json; charset=UTF-8")
        .body(Body::from(text))
        .unwrap()
}
