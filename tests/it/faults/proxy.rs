//! What stands between the operator and the world: two ports, one for the API server and one for
//! Flink. Every request is numbered and kept, and a script says what goes wrong with it.

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
pub(crate) use watch::{Touched, WatchFault};

pub(super) type BoxError = Box<dyn std::error::Error + Send + Sync>;
pub(super) type Body = UnsyncBoxBody<Bytes, BoxError>;

/// Who is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Side {
    Kubernetes,
    Flink,
}

/// Before a request reaches its server, or when it has been carried out and nobody knows yet.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Moment {
    Before,
    After,
}

/// What goes wrong with one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// The operator is killed.
    Kill(Moment),
    /// This answer, and nothing is done; with seconds to wait in `Retry-After`.
    Status(u16, Option<u32>),
    /// The connection ends without an answer.
    Cut(Moment),
    /// No answer comes, and the connection stays.
    Silence(Moment),
    /// The answer comes later.
    Slow(Duration),
    /// Half of the answer comes.
    Truncated,
    /// An answer of success with nothing in it: `{"jobs":[]}`, as while `main()` runs.
    NoJobs,
    /// A list of another cluster's job, which runs, as from a JobManager that has this one's address.
    ForeignJobs,
    /// The list of jobs as it was before things went wrong, as from a JobManager that is behind.
    OldJobs,
    /// The list as it was so many writes ago, as from a replica of the API server that is behind.
    OldList(usize),
    /// With this watch, from its beginning.
    Watch(WatchFault),
    /// With all watches that are open now and have this in their path. The request itself goes well.
    OpenWatches(WatchFault, &'static str),
    /// The script changed what is asked about; the request itself goes well.
    Elsewhere,
}

/// A request as a script sees it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) side: Side,
    pub(crate) method: Method,
    /// With the query.
    pub(crate) path: String,
    pub(crate) body: String,
    /// Counts from 1 what is no GET.
    pub(crate) write: Option<usize>,
    pub(crate) is_watch: bool,
}

impl Asked {
    /// Whether it is this write, and not a dry run of it; the path is looked for in part.
    pub(crate) fn is(&self, method: &str, path_part: &str) -> bool {
        let is_asked = self.method.as_str() == method && self.path.contains(path_part);
        is_asked && !self.is_dry_run()
    }

    /// The API server checks it, and stores nothing.
    fn is_dry_run(&self) -> bool {
        self.path.contains("dryRun=")
    }

    /// An event tells what happens, and nothing depends on it.
    pub(super) fn is_event(&self) -> bool {
        self.side == Side::Kubernetes && self.path.contains("/events")
    }
}

/// A request that was made, and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) asked: Asked,
    pub(crate) fault: Option<Fault>,
    /// Status of the server's answer, where it was asked.
    pub(crate) status: Option<u16>,
    /// Of a list that was to be old.
    pub(crate) age: Option<Age>,
    /// How many events of watches its fault has come to.
    pub(crate) touched: Touched,
    pub(crate) at: Instant,
}

impl Recorded {
    /// The fault has done something: one of watches is none before an event comes by.
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

/// How old a list was that was given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Age {
    /// By how much its version was below that of the store.
    pub(crate) behind: u64,
    /// There were other objects in it than there are.
    pub(crate) is_other: bool,
}

/// The longest pause before a list that failed is asked for again: that of watches.
const READS_AGAIN: Duration = Duration::from_secs(3);
/// How many versions of the store are kept: those of a whole case.
pub(crate) const VERSIONS: usize = 512;

type Script = Box<dyn FnMut(&Asked) -> Option<Fault> + Send>;

#[derive(Default)]
struct State {
    script: Option<Script>,
    writes: usize,
    recorded: Vec<Recorded>,
    last_write: Option<Instant>,
    /// When the operator was last kept from reading something of Kubernetes.
    last_unread: Option<Instant>,
    /// Requests that are left without an answer at this moment, and watches that withhold something.
    silences: usize,
    /// The operator was killed, and the one that comes next has not looked yet what there is.
    is_unseen: bool,
    /// Versions of the store that writes and lists were answered with, those of before the beginning
    /// as well.
    versions: std::collections::BTreeSet<u64>,
    /// The list of jobs as Flink gave it last before the beginning.
    jobs: Option<Bytes>,
    phases: phases::Stored,
}

struct Shared {
    api: kube::Client,
    flink: String,
    http: reqwest::Client,
    operator: Arc<Operator>,
    state: Mutex<State>,
    /// Counts how often faults were ended: what they hold back goes on then.
    calm: flag::Sender<usize>,
    /// What befell open watches last.
    strikes: flag::Sender<Option<watch::Strike>>,
}

/// The two ports; they close when this is dropped.
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
    /// In front of the API server that `api` reaches and of Flink at `flink`; it can kill `operator`.
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

    /// By which the API server is reached through this.
    pub(crate) fn kubeconfig(&self) -> serde_json::Value {
        let server = format!("http://{}", self.api_address);
        serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": server}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
            "users": [{"name": "proxy", "user": {}}],
        })
    }

    /// From now on requests are numbered from 1, and `script` is asked about each.
    pub(crate) fn begin(&self, script: impl FnMut(&Asked) -> Option<Fault> + Send + 'static) {
        let mut state = self.state();
        state.script = Some(Box::new(script));
        state.writes = 0;
        state.recorded.clear();
        state.phases.broken.clear();
    }

    /// Nothing goes wrong any more; watches that were frozen end.
    pub(super) fn calm(&self) {
        self.state().script = Some(Box::new(|_| None));
        self.shared.calm.send_modify(|times| *times += 1);
    }

    /// This goes wrong with the watches that are open and have this in their path; answers with how many
    /// of their events it does, up to now.
    pub(crate) fn strike_open_watches(&self, fault: WatchFault, part: &'static str) -> Touched {
        let touched = Touched::default();
        let strike = watch::Strike { fault, part, touched: Arc::clone(&touched) };
        drop(self.shared.strikes.send_replace(Some(strike)));
        touched
    }

    /// The statuses since the beginning whose phase does not follow from the one before.
    pub(super) fn broken_phases(&self) -> Vec<String> {
        self.state().phases.broken.clone()
    }

    /// The store went back, and with it the statuses.
    pub(super) fn forget_phases(&self) {
        self.state().phases = phases::Stored::default();
    }

    /// The requests since the beginning.
    pub(crate) fn recorded(&self) -> Vec<Recorded> {
        self.state().recorded.clone()
    }

    /// How long nothing was written; events do not count. The operator is not at rest while it waits
    /// for an answer that does not come: it will ask again. Nor is it while a watch that it had open keeps
    /// news from it: it will find out. Nor is one that was killed, until the next
    /// has looked: it may have something to do. One that could not read something reads it again, after
    /// a pause.
    pub(super) fn at_rest_for(&self) -> Duration {
        let state = self.state();
        if state.silences > 0 || state.is_unseen {
            return Duration::ZERO;
        }
        let since = |at: Option<Instant>| at.map_or(Duration::MAX, |at| at.elapsed());
        since(state.last_write).min(since(state.last_unread).saturating_sub(READS_AGAIN))
    }

    /// When the operator wrote last, if it did.
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
    /// Numbers and keeps a request.
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

    /// The version so many writes ago, or the oldest that there is; never the newest.
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

    /// Until it is dropped a request is without an answer.
    fn hush(self: &Arc<Self>) -> Hush {
        self.state.lock().unwrap().silences += 1;
        Hush(Arc::clone(self))
    }

    fn note_status(&self, place: usize, status: u16) {
        // The record may have begun anew meanwhile.
        if let Some(recorded) = self.state.lock().unwrap().recorded.get_mut(place) {
            recorded.status = Some(status);
        }
    }
}

/// A request that was kept: its place in the record, and what goes wrong with it.
struct Noted {
    place: usize,
    fault: Option<Fault>,
    touched: Touched,
}

/// The version of the store in an object or a list.
fn version_of(answer: &[u8]) -> Option<u64> {
    let answer: serde_json::Value = serde_json::from_slice(answer).ok()?;
    answer["metadata"]["resourceVersion"].as_str()?.parse().ok()
}

/// A request that is left without an answer, or a watch whose news are withheld.
struct Hush(Arc<Shared>);

impl Drop for Hush {
    fn drop(&mut self) {
        let mut state = self.0.state.lock().unwrap();
        state.silences -= 1;
        state.last_write = Some(Instant::now());
    }
}
