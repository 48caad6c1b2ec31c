//! Whether the operator is well, for probes: what is stuck, dead or late, by name.
//!
//! Liveness is about this process: what a restart would mend. So an API server that is away makes it
//! not ready, and leaves it alive.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};
use tokio_util::sync::CancellationToken;

use super::context::lock;
use super::http::{Routes, text};
use crate::api::GROUP;
use crate::cluster::pulse::{Pulse, Signs};
use crate::fence;

/// The API server ends a watch after five minutes, and it is asked for again at once: one of which
/// nothing stirred for so long is stuck.
const WATCH_SILENCE_MAX: Duration = Duration::from_mins(8);
/// Longer than the longest that one pass may take: a jar that is fetched and a job that is submitted
/// have ten minutes each, and a savepoint as many.
const PASS_MAX: Duration = Duration::from_mins(45);
/// Problems that one answer names.
const PROBLEMS_MAX: usize = 20;

/// What the process is at.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
enum Stage {
    #[default]
    Starting,
    /// It waits to be elected.
    Standby,
    /// It operates.
    Operating,
}

#[derive(Default)]
struct State {
    stage: Stage,
    /// Passes that run, with what they are about and since when.
    passes: HashMap<u64, (String, Duration)>,
    dead: BTreeSet<String>,
}

/// Shared by all tasks of the operator.
#[derive(Clone, Default)]
pub struct Health {
    state: Arc<Mutex<State>>,
    pulse: Pulse,
    next_pass: Arc<AtomicU64>,
}

/// A pass that runs until this is dropped.
pub(super) struct Running {
    health: Health,
    number: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.health.state).passes.remove(&self.number);
    }
}

/// A task that should run until it is asked to end.
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
    /// With the watches of a client, which has to be made with the same `pulse`.
    pub fn new(pulse: Pulse) -> Self {
        Self { pulse, ..Self::default() }
    }

    /// This process waits to be elected.
    pub fn stand_by(&self) {
        lock(&self.state).stage = Stage::Standby;
    }

    /// This process operates.
    pub fn operate(&self) {
        lock(&self.state).stage = Stage::Operating;
    }

    pub(super) fn pass(&self, about: String) -> Running {
        let number = self.next_pass.fetch_add(1, Ordering::Relaxed);
        lock(&self.state).passes.insert(number, (about, fence::now()));
        Running { health: self.clone(), number }
    }

    /// Keeps an eye on a task, which holds the answer: it is dead when that goes before `stop`.
    pub(super) fn worker(&self, name: String, stop: CancellationToken) -> Worker {
        Worker { health: self.clone(), name, stop }
    }

    /// What a restart may mend.
    fn ailments(&self, now: Duration) -> Vec<String> {
        let state = lock(&self.state);
        let mut all: Vec<String> =
            state.dead.iter().map(|name| format!("the worker for {name} has ended")).collect();
        for (about, since) in state.passes.values() {
            let running = now.saturating_sub(*since);
            if running > PASS_MAX {
                all.push(format!("a pass over {about} takes {} s", running.as_secs()));
            }
        }
        for (watch, Signs { stirred, heard: _ }) in self.pulse.all() {
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

    /// What keeps this process from doing its work now.
    fn hindrances(&self, now: Duration) -> Vec<String> {
        if lock(&self.state).stage == Stage::Starting {
            return vec![STARTING.to_owned()];
        }
        let mut all = self.ailments(now);
        for (watch, Signs { stirred: _, heard }) in self.pulse.all() {
            // Others, such as that of pods, only make it faster.
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

    /// `/` and `/livez`, `/readyz`, `/startupz`.
    pub fn routes(&self) -> Routes {
        let live = |health: Self| move |_: &Parts| told(&health.ailments(fence::now()));
        let ready = self.clone();
        let started = self.clone();
        Routes::default()
            .at("/", live(self.clone()))
            .at("/livez", live(self.clone()))
            .at("/readyz", move |_| told(&ready.hindrances(fence::now())))
            .at("/startupz", move |_| {
                let has_started = lock(&started.state).stage != Stage::Starting;
                told(&if has_started { vec![] } else { vec![STARTING.to_owned()] })
            })
    }
}

const STARTING: &str = "it starts";

/// As the Java operator answers, and with the reasons.
fn told(problems: &[String]) -> Response<Bytes> {
    if problems.is_empty() {
        return text(StatusCode::OK, "OK\n");
    }
    let mut body = "ERROR\n".to_owned();
    for problem in problems.iter().take(PROBLEMS_MAX) {
        // Writing to a text does not fail.
        let _written = writeln!(body, "{problem}");
    }
    text(StatusCode::INTERNAL_SERVER_ERROR, body)
}

#[cfg(test)]
mod tests;
