//! The proxy between the operator and the world: two ports, one for the API server and one for Flink. It numbers and
//! records every request, and a script decides what goes wrong with it.

mod admission;
mod phases;
mod relay;
mod watch;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use http_body_util::combinators::UnsyncBoxBody;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch as flag;
use tokio::task::JoinHandle;

use super::operator::Operator;
pub(crate) use admission::Admission;
pub(crate) use watch::{Touched, WatchFault};

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The server that a request is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    Kubernetes,
    Flink,
}

/// Before a request reaches its server, or after it was carried out but before the answer.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Moment {
    Before,
    After,
}

/// What goes wrong with one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// Kills the operator.
    Kill(Moment),
    /// Answers with this status, and with seconds to wait in `Retry-After`, and does nothing.
    Status(u16, Option<u32>),
    /// Closes the connection without an answer.
    Cut(Moment),
    /// Never answers, and keeps the connection open.
    Silence(Moment),
    /// Delays the answer.
    Slow(Duration),
    /// Stops the operator's process for this long once the request was carried out, as a node does that is out of CPU.
    Pause(Duration),
    /// Sets the operator's clock to this many seconds before or after the true time, once the request was carried out.
    Clock(i64),
    /// Stores another object than the one that was sent, as a webhook of the API server does.
    Changed(Admission),
    /// Sends half of the answer.
    Truncated,
    /// Answers with success and an empty list, `{"jobs":[]}`, as while `main()` runs.
    NoJobs,
    /// Answers with a list of another cluster's running job, as from a JobManager that took over this address.
    ForeignJobs,
    /// Answers with the list of jobs from before the faults began, as from a JobManager that lags behind.
    OldJobs,
    /// Answers with the list as of this many writes ago, as from a replica of the API server that lags behind.
    OldList(usize),
    /// Affects this watch from its start.
    Watch(WatchFault),
    /// Affects all currently open watches with this in their path. The request itself succeeds.
    OpenWatches(WatchFault, &'static str),
    /// The script changed what the request is about; the request itself succeeds.
    Elsewhere,
}

/// A request as a script sees it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) side: Side,
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: String,
    pub(crate) body: String,
    /// Number among the requests other than GET, from 1.
    pub(crate) write: Option<usize>,
    pub(crate) is_watch: bool,
}

impl Asked {
    /// Whether it is this request and not a dry run; `path_part` may be anywhere in the path.
    pub(crate) fn is(&self, method: &str, path_part: &str) -> bool {
        let is_asked = self.method.as_str() == method && self.path.contains(path_part);
        is_asked && !self.is_dry_run()
    }

    /// Whether the API server only validates it and stores nothing.
    fn is_dry_run(&self) -> bool {
        self.path.contains("dryRun=")
    }

    /// Whether it writes an event, on which nothing depends.
    pub(super) fn is_event(&self) -> bool {
        self.side == Side::Kubernetes && self.path.contains("/events")
    }
}

/// A request that was made, and its outcome.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) asked: Asked,
    pub(crate) fault: Option<Fault>,
    /// Status of the server's answer, if the server was asked.
    pub(crate) status: Option<u16>,
    /// How old a list was, if it should be an old one.
    pub(crate) age: Option<Age>,
    /// Number of watch events that its fault has affected.
    pub(crate) touched: Touched,
    pub(crate) at: Instant,
}

impl Recorded {
    /// Whether the fault had an effect; one of a watch has none until an event arrives.
    pub(crate) fn has_struck(&self) -> bool {
        match self.fault {
            Some(Fault::Watch(_) | Fault::OpenWatches(..)) => self.touched() > 0,
            fault => fault.is_some(),
        }
    }

    pub(crate) fn touched(&self) -> usize {
        self.touched.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// How old a list was.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Age {
    /// How far its version was behind the store's.
    pub(crate) behind: u64,
    /// Whether it contained other objects than the current list.
    pub(crate) is_other: bool,
}

/// Maximum pause before a failed list is retried: that of watches.
const READS_AGAIN: Duration = Duration::from_secs(3);
/// Number of store versions that are kept, enough for a whole case.
pub(crate) const VERSIONS: usize = 512;

type Script = Box<dyn FnMut(&Asked) -> Option<Fault> + Send>;

#[derive(Default)]
struct State {
    script: Option<Script>,
    writes: usize,
    recorded: Vec<Recorded>,
    last_write: Option<Instant>,
    /// When the operator last failed to read something from Kubernetes.
    last_unread: Option<Instant>,
    /// Number of requests currently left without an answer, and of watches that withhold events.
    silences: usize,
    /// Whether the operator was killed and its successor has not read the current state yet.
    is_unseen: bool,
    /// Store versions in the answers to writes and lists, those from before `begin` included.
    versions: std::collections::BTreeSet<u64>,
    /// The last list of jobs from Flink before `begin`.
    jobs: Option<Bytes>,
    phases: phases::Stored,
}

struct Shared {
    api: kube::Client,
    flink: String,
    http: reqwest::Client,
    operator: Arc<Operator>,
    state: Mutex<State>,
    /// Number of times that faults were ended, which releases what they hold back.
    calm: flag::Sender<usize>,
    /// The last fault of open watches.
    strikes: flag::Sender<Option<watch::Strike>>,
}

/// The two ports; they close when dropped.
pub(crate) struct Proxy {
    shared: Arc<Shared>,
    pub(super) api_address: String,
    pub(super) flink_address: String,
    ports: [JoinHandle<()>; 2],
}

impl Drop for Proxy {
    fn drop(&mut self) {
        for port in &self.ports {
            port.abort();
        }
    }
}

impl Proxy {
    /// Starts in front of the API server of `api` and Flink at `flink`; it can kill `operator`.
    pub(crate) async fn start(api: kube::Client, flink: String, operator: Arc<Operator>) -> Self {
        let http = reqwest::Client::builder().no_proxy().retry(reqwest::retry::never());
        let shared = Arc::new(Shared {
            api,
            flink,
            http: http.build().unwrap(),
            operator,
            state: Mutex::default(),
            calm: flag::Sender::new(0),
            strikes: flag::Sender::new(None),
        });
        let (api_address, api_port) = open(Side::Kubernetes, &shared).await;
        let (flink_address, flink_port) = open(Side::Flink, &shared).await;
        Self { shared, api_address, flink_address, ports: [api_port, flink_port] }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }

    /// Returns a kubeconfig that reaches the API server through this proxy.
    pub(crate) fn kubeconfig(&self) -> serde_json::Value {
        let server = format!("http://{}", self.api_address);
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": server}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "users": [{"name": "proxy", "user": {}}],
        })
    }

    /// Numbers requests from 1 from now on, and consults `script` about each.
    pub(crate) fn begin(&self, script: impl FnMut(&Asked) -> Option<Fault> + Send + 'static) {
        let mut state = self.state();
        state.script = Some(Box::new(script));
        state.writes = 0;
        state.recorded.clear();
        state.phases.broken.clear();
    }

    /// Ends all faults; frozen watches end.
    pub(super) fn calm(&self) {
        self.state().script = Some(Box::new(|_| None));
        self.shared.calm.send_modify(|times| *times += 1);
    }

    /// Applies the fault to the open watches with this in their path; returns the running count of affected events.
    pub(crate) fn strike_open_watches(&self, fault: WatchFault, part: &'static str) -> Touched {
        let touched = Touched::default();
        let strike = watch::Strike { fault, part, touched: Arc::clone(&touched) };
        drop(self.shared.strikes.send_replace(Some(strike)));
        touched
    }

    /// Returns the statuses since `begin` whose phase may not follow the previous one.
    pub(super) fn broken_phases(&self) -> Vec<String> {
        self.state().phases.broken.clone()
    }

    /// Forgets the phases, because the store was reset to an older state.
    pub(super) fn forget_phases(&self) {
        self.state().phases = phases::Stored::default();
    }

    /// Returns the requests since `begin`.
    pub(crate) fn recorded(&self) -> Vec<Recorded> {
        self.state().recorded.clone()
    }

    /// Returns how long nothing was written; events do not count. The operator is not idle while it waits for an answer
    /// that does not come, because it will ask again, or while one of its open watches withholds events, because it
    /// will find out. Neither is it idle after a kill until its successor has read the current state, or after a failed
    /// read until it has retried.
    pub(super) fn at_rest_for(&self) -> Duration {
        let state = self.state();
        if state.silences > 0 || state.is_unseen {
            return Duration::ZERO;
        }
        let since = |at: Option<Instant>| at.map_or(Duration::MAX, |at| at.elapsed());
        since(state.last_write).min(since(state.last_unread).saturating_sub(READS_AGAIN))
    }

    /// Returns when the operator last wrote.
    pub(super) fn last_write(&self) -> Option<Instant> {
        self.state().last_write
    }
}

async fn open(side: Side, shared: &Arc<Shared>) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let shared = Arc::clone(shared);
    let port = tokio::spawn(async move {
        let mut connections = tokio::task::JoinSet::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            drop(stream.set_nodelay(true));
            let shared = Arc::clone(&shared);
            let service = hyper::service::service_fn(move |request| {
                relay::serve(side, Arc::clone(&shared), request)
            });
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service);
            let _handle = connections.spawn(async move { drop(connection.await) });
            while connections.try_join_next().is_some() {}
        }
    });
    (address, port)
}

impl Shared {
    /// Numbers and records a request.
    fn note(&self, mut asked: Asked) -> Noted {
        let mut state = self.state.lock().unwrap();
        if asked.method != Method::GET && !asked.is_dry_run() {
            state.writes += 1;
            asked.write = Some(state.writes);
            if !asked.is_event() {
                state.last_write = Some(Instant::now());
            }
        }
        let fault = state.script.as_mut().and_then(|script| script(&asked));
        let at = Instant::now();
        let is_read = asked.side == Side::Kubernetes && asked.method == Method::GET;
        if is_read && !asked.is_watch && fault.is_some() {
            state.last_unread = Some(at);
        }
        if matches!(fault, Some(Fault::Kill(_))) {
            state.is_unseen = true;
        } else if state.is_unseen && asked.is("GET", "/flinkdeployments?") && !asked.is_watch {
            state.is_unseen = false;
            state.last_write = Some(at);
        }
        let touched = Touched::default();
        if let Some(Fault::OpenWatches(fault, part)) = fault {
            let touched = Arc::clone(&touched);
            drop(self.strikes.send_replace(Some(watch::Strike { fault, part, touched })));
        }
        let place = state.recorded.len();
        let recorded =
            Recorded { asked, fault, status: None, age: None, touched: touched.clone(), at };
        state.recorded.push(recorded);
        Noted { place, fault, touched }
    }

    fn note_phase(&self, stored: &[u8]) {
        self.state.lock().unwrap().phases.note(stored);
    }

    fn note_version(&self, answer: &[u8]) {
        let Some(version) = version_of(answer) else { return };
        let mut state = self.state.lock().unwrap();
        let _is_new = state.versions.insert(version);
        if state.versions.len() > VERSIONS {
            let _oldest = state.versions.pop_first();
        }
    }

    /// Returns the version this many writes ago, or the oldest known one; never the newest.
    fn version(&self, writes_ago: usize) -> Option<u64> {
        let state = self.state.lock().unwrap();
        let older = state.versions.len().checked_sub(1)?;
        state.versions.iter().rev().nth(writes_ago.clamp(1, older.max(1))).copied()
    }

    fn note_age(&self, place: usize, age: Option<Age>) {
        if let Some(recorded) = self.state.lock().unwrap().recorded.get_mut(place) {
            recorded.age = age;
        }
    }

    fn note_jobs(&self, list: &Bytes) {
        let mut state = self.state.lock().unwrap();
        if state.script.is_none() {
            state.jobs = Some(list.clone());
        }
    }

    fn old_jobs(&self) -> Option<Bytes> {
        self.state.lock().unwrap().jobs.clone()
    }

    /// Marks a request as unanswered until the result is dropped.
    fn hush(self: &Arc<Self>) -> Hush {
        self.state.lock().unwrap().silences += 1;
        Hush(Arc::clone(self))
    }

    fn note_status(&self, place: usize, status: u16) {
        // The record may have been restarted meanwhile.
        if let Some(recorded) = self.state.lock().unwrap().recorded.get_mut(place) {
            recorded.status = Some(status);
        }
    }
}

/// A recorded request: its place in the record, and what goes wrong with it.
struct Noted {
    place: usize,
    fault: Option<Fault>,
    touched: Touched,
}

/// Returns the store's version from an object or a list.
fn version_of(answer: &[u8]) -> Option<u64> {
    let answer: serde_json::Value = serde_json::from_slice(answer).ok()?;
    answer["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// A request left without an answer, or a watch whose events are withheld.
struct Hush(Arc<Shared>);

impl Drop for Hush {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap();
        state.silences -= 1;
        state.last_write = Some(Instant::now());
    }
}
