//! A pass that waits for its JobManager makes way for others.
//!
//! Passes of a kind run at the same time up to a bound. One whose JobManager does not answer leaves
//! its place and goes on beside the others, so that a thousand JobManagers that accept connections
//! and never answer hold up no other resource. It comes back to the API server in turn with the
//! others of its like, and rests the longer the longer it waited.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, FutureExt};
use kube::ResourceExt;
use kube::runtime::controller::Action;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::context::{Context, lock};
use super::kind::{Guarded, Operated};
use super::pass::{self, Again};
use clients::flink::patience::{self, Patience};

/// Passes that wait for Flink beside those that have a place; beyond it they keep their places.
const AWAY_MAX: usize = 2000;
/// Passes that came back from waiting and work at the same time.
const BACK_MAX: usize = 16;
/// A pass that waited for Flink is followed by a rest so many times as long, or longer.
const REST_FACTOR: u32 = 3;
/// The longest rest for that reason.
const REST_MAX: Duration = Duration::from_secs(30);

/// The passes that have left their places.
pub(super) struct Ways {
    away: Mutex<HashMap<String, Absence>>,
    room: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Nobody rests any more.
    stop: CancellationToken,
    /// Whatever runs is dropped, where it is.
    drop: CancellationToken,
}

/// What the passes of one namespace are stopped with, or those of the whole cluster.
#[derive(Clone, Default)]
pub(super) struct Reins {
    /// No pass begins any more.
    pub(super) stop: CancellationToken,
    /// Those that are away are dropped, where they are.
    pub(super) drop: CancellationToken,
    /// Those that are away.
    pub(super) away: TaskTracker,
}

/// Where a resource is whose pass has left its place.
enum Absence {
    /// The pass goes on; whether another one was asked for meanwhile.
    Away { is_wanted: bool },
    /// It has ended; cancelled by the next pass.
    Resting(CancellationToken),
}

/// What comes after a pass that was away.
#[derive(Debug)]
enum End {
    /// Another one, which was asked for meanwhile.
    Wanted,
    Rest(CancellationToken),
    Nothing,
}

impl Default for Ways {
    fn default() -> Self {
        Self {
            away: Mutex::default(),
            room: Arc::new(Semaphore::new(AWAY_MAX)),
            turns: Arc::new(Semaphore::new(BACK_MAX)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            drop: CancellationToken::new(),
        }
    }
}

/// What a pass is made of that may leave its place: itself, and the pause after an error.
pub(super) struct Take<K: Operated, P, E> {
    pub(super) resource: Arc<Guarded<K>>,
    pub(super) context: Arc<Context>,
    pub(super) pass: P,
    /// Told how the pass ended; says when to look again.
    pub(super) end: E,
    pub(super) reins: Reins,
}

impl Ways {
    /// Makes a pass, to its end or until it waits for Flink. While it is away there is no other one
    /// for the same resource.
    pub(super) async fn take<K, P, E>(&self, take: Take<K, P, E>) -> Action
    where
        K: Operated,
        P: Future<Output = Result<Again, pass::Error>> + Send + 'static,
        E: FnOnce(Result<Again, pass::Error>) -> Again + Send + 'static,
    {
        let Take { resource, context, pass, end, reins } = take;
        let uid = resource.uid().unwrap_or_default();
        if self.is_away(&uid) {
            return Action::await_change();
        }
        let way = Arc::new(Way::new(Arc::clone(&self.room), Arc::clone(&self.turns)));
        let patience: Arc<dyn Patience> = Arc::<Way>::clone(&way);
        let mut task = AbortOnDropHandle::new(tokio::spawn(patience::with(patience, pass)));
        tokio::select! {
            biased;
            ended = &mut task => return action(end(joined(ended))),
            () = way.left.notified() => {}
        }
        lock(&self.away).insert(uid.clone(), Absence::Away { is_wanted: false });
        let (dropped, shared) = (self.drop.clone(), Arc::clone(&context));
        let Reins { stop, drop, away } = reins;
        let pass = go_on(Gone { resource, context, task, way, end, stop });
        self.tasks.spawn(away.track_future(async move {
            let pass = drop.run_until_cancelled_owned(pass);
            if dropped.run_until_cancelled_owned(pass).await.flatten().is_none() {
                // Whoever operates its namespace again is not to wait for it.
                lock(&shared.ways.away).remove(&uid);
            }
        }));
        Action::await_change()
    }

    /// Whether a pass over the resource is away, which then knows that another one is wanted.
    fn is_away(&self, uid: &str) -> bool {
        let mut away = lock(&self.away);
        match away.get_mut(uid) {
            Some(Absence::Away { is_wanted }) => {
                *is_wanted = true;
                return true;
            }
            Some(Absence::Resting(rest)) => rest.cancel(),
            None => return false,
        }
        away.remove(uid);
        false
    }

    /// Notes that the pass has ended, and says what comes then.
    fn come_to_rest(&self, uid: &str, rests: bool) -> End {
        let mut away = lock(&self.away);
        let is_wanted = matches!(away.get(uid), Some(Absence::Away { is_wanted: true }));
        if is_wanted || !rests {
            away.remove(uid);
            return if is_wanted { End::Wanted } else { End::Nothing };
        }
        let rest = self.stop.child_token();
        away.insert(uid.to_owned(), Absence::Resting(rest.clone()));
        End::Rest(rest)
    }

    /// Waits for the passes that are away; none rests any more.
    pub(super) async fn finish(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Drops the passes that are away, as a crash would.
    pub(super) fn abandon(&self) {
        self.stop.cancel();
        self.drop.cancel();
    }
}

/// A pass that has left its place.
struct Gone<K: Operated, E> {
    resource: Arc<Guarded<K>>,
    context: Arc<Context>,
    task: AbortOnDropHandle<Result<Again, pass::Error>>,
    way: Arc<Way>,
    end: E,
    /// Its namespace is given up.
    stop: CancellationToken,
}

async fn go_on<K, E>(gone: Gone<K, E>)
where
    K: Operated,
    E: FnOnce(Result<Again, pass::Error>) -> Again + Send + 'static,
{
    let Gone { resource, context, task, way, end, stop } = gone;
    let again = end(joined(task.await));
    let rest_min = way.end().saturating_mul(REST_FACTOR).min(REST_MAX);
    let (uid, name) = (resource.uid().unwrap_or_default(), resource.name_any());
    let namespace = resource.namespace().unwrap_or_default();
    drop(resource);
    match context.ways.come_to_rest(&uid, again.is_some()) {
        End::Wanted => {}
        End::Nothing => return,
        End::Rest(rest) => tokio::select! {
            () = rest.cancelled() => return,
            () = stop.cancelled() => return,
            () = tokio::time::sleep(again.unwrap_or_default().max(rest_min)) => {}
        },
    }
    K::kept(&context).wake(&namespace, &name);
}

fn action(again: Again) -> Action {
    again.map_or_else(Action::await_change, Action::requeue)
}

fn joined(ended: Result<Result<Again, pass::Error>, JoinError>) -> Result<Again, pass::Error> {
    match ended {
        Ok(ended) => ended,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime goes down.
            Err(_) => Ok(None),
        },
    }
}

/// The way of one pass: whether it waits for Flink, and what it holds.
struct Way {
    room: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    left: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Answers that are waited for, and since when.
    waiting: usize,
    since: Option<Instant>,
    waited: Duration,
    room: Option<OwnedSemaphorePermit>,
    turn: Option<OwnedSemaphorePermit>,
}

impl Way {
    fn new(room: Arc<Semaphore>, turns: Arc<Semaphore>) -> Self {
        Self { room, turns, left: Notify::new(), state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pass has ended: gives back what it held, and says how long it waited.
    fn end(&self) -> Duration {
        let mut state = self.state();
        state.room = None;
        state.turn = None;
        state.waited
    }
}

impl Patience for Way {
    fn step_aside(&self) {
        let mut state = self.state();
        state.waiting += 1;
        state.since.get_or_insert_with(Instant::now);
        state.turn = None;
        if state.room.is_none() {
            state.room = Arc::clone(&self.room).try_acquire_owned().ok();
            if state.room.is_some() {
                self.left.notify_one();
            }
        }
    }

    fn come_back(&self) -> BoxFuture<'_, ()> {
        let needs_turn = {
            let mut state = self.state();
            state.waiting = state.waiting.saturating_sub(1);
            if state.waiting == 0
                && let Some(since) = state.since.take()
            {
                state.waited += since.elapsed();
            }
            state.waiting == 0 && state.room.is_some() && state.turn.is_none()
        };
        async move {
            if needs_turn {
                // Never closed, so it is always had.
                let turn = Arc::clone(&self.turns).acquire_owned().await.ok();
                self.state().turn = turn;
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
