//! The health of the operator, for probes: it names whatever is stuck, dead or late.
//!
//! Liveness covers this process alone: problems that a restart may solve. An API server that does not answer therefore
//! makes it not ready, but leaves it alive.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio_util::sync::CancellationToken;

use super::context::lock;
use super::http;
use api::GROUP;
use clients::cluster::pulse::{Pulse, Signs};
use clients::fence;

/// The API server ends a watch after five minutes, and it is requested again at once: a watch without any activity for
/// this long is stuck.
const WATCH_SILENCE_MAX: Duration = Duration::from_mins(8);
/// Longer than the longest possible pass: fetching a jar, submitting a job and taking a savepoint have ten minutes
/// each.
const PASS_MAX: Duration = Duration::from_mins(45);
/// Maximum number of problems that one answer names.
const PROBLEMS_MAX: usize = 20;

/// The stage that the process is in.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
enum Stage {
    #[default]
    Starting,
    /// Waits to be elected.
    Standby,
    /// Operates resources.
    Operating,
}

#[derive(Default)]
struct State {
    stage: Stage,
    /// Running passes: what they are about, and since when.
    passes: HashMap<u64, (String, Duration)>,
    dead: BTreeSet<String>,
    /// By uid.
    canaries: HashMap<String, Canary>,
    /// Which shards are held, in words; `None` if there is a single leader.
    shards: Option<String>,
}

/// A resource that was changed to check that a pass notices the change.
struct Canary {
    namespace: String,
    about: String,
    /// The generation that the change created, and when.
    made: (i64, Duration),
    is_seen: bool,
    timeout: Duration,
}

/// When to change a canary.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Due {
    Now,
    In(Duration),
}

/// The health of the operator, shared by all of its tasks.
#[derive(Clone, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
    pulse: Pulse,
    next_pass: Arc<AtomicU64>,
}

/// A pass that counts as running until this is dropped.
pub(super) struct Running {
    health: Health,
    number: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.health.state).passes.remove(&self.number);
    }
}

/// A task that should run until it is stopped.
pub(super) struct Worker {
    health: Health,
    name: String,
    stop: CancellationToken,
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.stop.is_cancelled() {
            let _new = lock(&self.health.state).dead.insert(std::mem::take(&mut self.name));
        }
    }
}

impl Health {
    /// Creates the health with the watches of a client, which must be created with the same `pulse`.
    pub fn new(pulse: Pulse) -> Self {
        Self { pulse, ..Self::default() }
    }

    /// Notes that this process waits to be elected.
    pub fn stand_by(&self) {
        lock(&self.state).stage = Stage::Standby;
    }

    /// Notes that this process operates resources.
    pub fn operate(&self) {
        lock(&self.state).stage = Stage::Operating;
    }

    /// Sets the text about the shards that this process operates, which readiness shows.
    pub(super) fn report_shards(&self, shards: u16, held: &BTreeSet<u16>) {
        let numbers: Vec<String> = held.iter().map(ToString::to_string).collect();
        let numbers = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
        lock(&self.state).shards = Some(format!("shards held: {numbers} of {shards}"));
    }

    pub(super) fn pass(&self, about: String) -> Running {
        let number = self.next_pass.fetch_add(1, Ordering::Relaxed);
        lock(&self.state).passes.insert(number, (about, fence::now()));
        Running { health: self.clone(), number }
    }

    /// Forgets a scope that is no longer watched, because its watches are silent; `None` for the whole cluster.
    pub(super) fn forget_scope(&self, namespace: Option<&str>) {
        self.pulse.forget(namespace);
        let is_of = |canary: &Canary| namespace.is_none_or(|name| canary.namespace == name);
        lock(&self.state).canaries.retain(|_, canary| !is_of(canary));
    }

    /// Notes that a pass sees a canary at this generation, and returns when to change it next. If its last change was
    /// seen, it is changed again later; otherwise it stays as it is.
    pub(super) fn see_canary(&self, uid: &str, generation: i64, timeout: Duration) -> Due {
        let mut state = lock(&self.state);
        let Some(canary) = state.canaries.get_mut(uid) else { return Due::Now };
        let (made, at) = canary.made;
        canary.is_seen |= generation >= made;
        match timeout.saturating_sub(fence::now().saturating_sub(at)) {
            Duration::ZERO if canary.is_seen => Due::Now,
            Duration::ZERO => Due::In(timeout),
            left => Due::In(left),
        }
    }

    /// Notes that a canary was changed to this generation, which a pass should see within `timeout`.
    pub(super) fn await_canary(
        &self,
        uid: &str,
        namespace: &str,
        about: String,
        generation: i64,
        timeout: Duration,
    ) {
        let made = (generation, fence::now());
        let namespace = namespace.to_owned();
        let canary = Canary { namespace, about, made, is_seen: false, timeout };
        let _former = lock(&self.state).canaries.insert(uid.to_owned(), canary);
    }

    pub(super) fn forget_canary(&self, uid: &str) {
        let _former = lock(&self.state).canaries.remove(uid);
    }

    /// Monitors a task, which holds the returned value: the task is dead if that is dropped before `stop`.
    pub(super) fn worker(&self, name: String, stop: CancellationToken) -> Worker {
        Worker { health: self.clone(), name, stop }
    }

    /// Returns the problems that a restart may solve.
    fn ailments(&self, now: Duration) -> Vec<String> {
        let state = lock(&self.state);
        let mut all: Vec<String> =
            state.dead.iter().map(|name| format!("the worker for {name} has ended")).collect();
        for (about, since) in state.passes.values() {
            let running = now.saturating_sub(*since);
            if running > PASS_MAX {
                all.push(format!("a pass over {about} has taken {} s", running.as_secs()));
            }
        }
        let watches = self.pulse.all();
        for Canary { namespace: _, about, made: (_, at), is_seen, timeout } in
            state.canaries.values()
        {
            let waited = now.saturating_sub(*at);
            // While the API server does not answer, there is nothing to see.
            let is_served = watches.is_empty()
                || watches.values().any(|signs| signs.heard.is_some_and(|heard| heard > *at));
            if !is_seen && waited > *timeout && is_served {
                let waited = waited.as_secs();
                all.push(format!("the change of canary {about} was not seen for {waited} s"));
            }
        }
        for (watch, Signs { stirred, heard: _ }) in watches {
            let silent = now.saturating_sub(stirred);
            if silent > WATCH_SILENCE_MAX {
                all.push(format!(
                    "the watch of {watch} is stuck: {} s of silence",
                    silent.as_secs()
                ));
            }
        }
        all
    }

    /// Returns the problems that keep this process from its work now.
    fn hindrances(&self, now: Duration) -> Vec<String> {
        if lock(&self.state).stage == Stage::Starting {
            return vec![STARTING.to_owned()];
        }
        let mut all = self.ailments(now);
        for (watch, Signs { stirred: _, heard }) in self.pulse.all() {
            // Other watches, such as that of pods, only make it faster.
            if !watch.contains(GROUP) {
                continue;
            }
            let silent = heard.map(|heard| now.saturating_sub(heard));
            if silent.is_none_or(|silent| silent > WATCH_SILENCE_MAX) {
                all.push(format!("the watch of {watch} gets no answer"));
            }
        }
        all
    }

    fn liveness(&self, now: Duration) -> Reply {
        described(&self.ailments(now))
    }

    /// Answers whether this process does its work, and on which part of it if several processes share it.
    fn readiness(&self, now: Duration) -> Reply {
        let problems = self.hindrances(now);
        match lock(&self.state).shards.clone().filter(|_| problems.is_empty()) {
            Some(shards) => (StatusCode::OK, format!("OK\n{shards}\n")),
            None => described(&problems),
        }
    }

    fn startup(&self, _now: Duration) -> Reply {
        let has_started = lock(&self.state).stage != Stage::Starting;
        described(&if has_started { vec![] } else { vec![STARTING.to_owned()] })
    }

    /// Returns the routes `/` and `/livez`, `/readyz`, `/startupz`.
    pub fn routes(&self) -> Router {
        let by = |answer: fn(&Self, Duration) -> Reply| {
            let health = self.clone();
            get(move || async move { answer(&health, fence::now()) })
        };
        let (live, ready, started) = (Self::liveness, Self::readiness, Self::startup);
        let paths = [
            ("/", by(live)),
            ("/livez", by(live)),
            ("/readyz", by(ready)),
            ("/startupz", by(started)),
        ];
        http::routes("GET and HEAD", paths)
    }
}

const STARTING: &str = "starting";

type Reply = (StatusCode, String);

/// Answers as the Java operator does, and adds the reasons.
fn described(problems: &[String]) -> Reply {
    if problems.is_empty() {
        return (StatusCode::OK, "OK\n".to_owned());
    }
    let mut body = "ERROR\n".to_owned();
    for problem in problems.iter().take(PROBLEMS_MAX) {
        // Writing to a string does not fail.
        let _written = writeln!(body, "{problem}");
    }
    (StatusCode::INTERNAL_SERVER_ERROR, body)
}

#[cfg(test)]
mod tests;
