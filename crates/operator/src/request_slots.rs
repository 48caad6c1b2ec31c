//! Slots for passes that wait for a request to their JobManager.
//!
//! Passes of a kind run at the same time up to a bound. A pass whose JobManager does not answer leaves
//! the slot of its controller and continues in a task of its own. A thousand JobManagers that accept
//! connections and never answer therefore hold up no other resource. Few of these passes resume at the
//! same time, because they then load the API server. The longer a pass waited, the longer is the pause
//! before the next one.

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

/// Maximum number of passes that wait for Flink outside of their controllers. Any more keep the slots they have.
const WAITING_MAX: usize = 2000;
/// Maximum number of those of one namespace. Its other passes begin later, so that whoever creates thousands of silent
/// JobManagers does not take the slots of the controllers from other namespaces.
const WAITING_OF_NAMESPACE_MAX: usize = WAITING_MAX / 2;
/// The pause until a pass looks again whether it may begin.
const LATER: Duration = Duration::from_secs(5);
/// Maximum number of passes that work at the same time after they waited outside of their controllers.
const RESUMED_MAX: usize = 16;
/// The pause after a pass that waited for Flink is at least the time it waited, times this.
const REST_FACTOR: u32 = 3;
/// Maximum pause for that reason.
const REST_MAX: Duration = Duration::from_secs(30);

/// The passes that have left the slots of their controllers, and the slots they use instead.
pub(super) struct RequestSlots {
    away: Mutex<HashMap<String, Absence>>,
    wait_slots: Arc<Semaphore>,
    resume_slots: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Ends all pauses.
    stop: CancellationToken,
    /// Drops the passes that are away, wherever they are.
    drop: CancellationToken,
}

/// Stops the passes of one namespace, or those of the whole cluster.
#[derive(Clone, Default)]
pub(super) struct Cancellation {
    /// Lets no further pass begin.
    pub(super) stop: CancellationToken,
    /// Drops the passes that are away, wherever they are.
    pub(super) drop: CancellationToken,
    /// Waits for the passes that are away.
    pub(super) away: TaskTracker,
}

/// The state of a resource whose pass has left its slot.
enum Absence {
    /// The pass continues. `is_wanted` says that another one was requested meanwhile.
    Away { namespace: String, is_wanted: bool },
    /// The pass has ended and its pause runs, which the next pass cancels.
    Resting(CancellationToken),
}

/// The next step after a pass that was away.
#[derive(Debug)]
enum End {
    /// Another pass, which was requested meanwhile.
    Wanted,
    Rest(CancellationToken),
    Nothing,
}

impl Default for RequestSlots {
    fn default() -> Self {
        Self {
            away: Mutex::default(),
            wait_slots: Arc::new(Semaphore::new(WAITING_MAX)),
            resume_slots: Arc::new(Semaphore::new(RESUMED_MAX)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            drop: CancellationToken::new(),
        }
    }
}

/// A pass that may leave its slot, and how its result becomes a pause.
pub(super) struct PassRun<K: Operated, P, E> {
    pub(super) resource: Arc<Guarded<K>>,
    pub(super) context: Arc<Context>,
    pub(super) pass: P,
    /// Takes the result of the pass and returns the time until the next one.
    pub(super) end: E,
    pub(super) cancellation: Cancellation,
}

impl RequestSlots {
    /// Runs a pass to its end, or until it waits for Flink. While it is away, no other pass over the
    /// same resource begins.
    pub(super) async fn run<K, P, E>(&self, run: PassRun<K, P, E>) -> Action
    where
        K: Operated,
        P: Future<Output = Result<Again, pass::Error>> + Send + 'static,
        E: FnOnce(Result<Again, pass::Error>) -> Again + Send + 'static,
    {
        let PassRun { resource, context, pass, end, cancellation } = run;
        let uid = resource.uid().unwrap_or_default();
        if self.is_away(&uid) {
            return Action::await_change();
        }
        let namespace = resource.namespace().unwrap_or_default();
        if self.is_at_its_share(&namespace) {
            tracing::debug!(namespace, name = resource.name_any(), "others of its namespace wait");
            return Action::requeue(LATER);
        }
        let slots =
            Arc::new(PassSlots::new(Arc::clone(&self.wait_slots), Arc::clone(&self.resume_slots)));
        let patience: Arc<dyn Patience> = Arc::<PassSlots>::clone(&slots);
        let mut task = AbortOnDropHandle::new(tokio::spawn(patience::with(patience, pass)));
        tokio::select! {
            biased;
            ended = &mut task => return action(end(joined(ended))),
            () = slots.left.notified() => {}
        }
        lock(&self.away).insert(uid.clone(), Absence::Away { namespace, is_wanted: false });
        let (dropped, shared) = (self.drop.clone(), Arc::clone(&context));
        let Cancellation { stop, drop, away } = cancellation;
        let pass = continue_detached(DetachedPass { resource, context, task, slots, end, stop });
        self.tasks.spawn(away.track_future(async move {
            let pass = drop.run_until_cancelled_owned(pass);
            if dropped.run_until_cancelled_owned(pass).await.flatten().is_none() {
                // If the namespace is operated again, its first pass must not wait for this one.
                lock(&shared.request_slots.away).remove(&uid);
            }
        }));
        Action::await_change()
    }

    /// Returns `true` if a pass over the resource is away, and notes that another one is wanted.
    fn is_away(&self, uid: &str) -> bool {
        let mut away = lock(&self.away);
        match away.get_mut(uid) {
            Some(Absence::Away { is_wanted, .. }) => {
                *is_wanted = true;
                return true;
            }
            Some(Absence::Resting(rest)) => rest.cancel(),
            None => return false,
        }
        away.remove(uid);
        false
    }

    /// Returns whether as many passes of the namespace are away as may be.
    fn is_at_its_share(&self, namespace: &str) -> bool {
        let away = lock(&self.away);
        let is_of = |absence: &&Absence| matches!(absence, Absence::Away { namespace: of, .. } if of == namespace);
        away.len() >= WAITING_OF_NAMESPACE_MAX
            && away.values().filter(is_of).count() >= WAITING_OF_NAMESPACE_MAX
    }

    /// Notes that the pass has ended, and returns the next step.
    fn note_end(&self, uid: &str, rests: bool) -> End {
        let mut away = lock(&self.away);
        let is_wanted = matches!(away.get(uid), Some(Absence::Away { is_wanted: true, .. }));
        if is_wanted || !rests {
            away.remove(uid);
            return if is_wanted { End::Wanted } else { End::Nothing };
        }
        let rest = self.stop.child_token();
        away.insert(uid.to_owned(), Absence::Resting(rest.clone()));
        End::Rest(rest)
    }

    /// Waits for the passes that are away, and ends all pauses.
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

/// A pass that has left its slot.
struct DetachedPass<K: Operated, E> {
    resource: Arc<Guarded<K>>,
    context: Arc<Context>,
    task: AbortOnDropHandle<Result<Again, pass::Error>>,
    slots: Arc<PassSlots>,
    end: E,
    /// Cancelled when its namespace is no longer operated.
    stop: CancellationToken,
}

async fn continue_detached<K, E>(detached: DetachedPass<K, E>)
where
    K: Operated,
    E: FnOnce(Result<Again, pass::Error>) -> Again + Send + 'static,
{
    let DetachedPass { resource, context, task, slots, end, stop } = detached;
    let again = end(joined(task.await));
    let rest_min = slots.end().saturating_mul(REST_FACTOR).min(REST_MAX);
    let (uid, name) = (resource.uid().unwrap_or_default(), resource.name_any());
    let namespace = resource.namespace().unwrap_or_default();
    drop(resource);
    match context.request_slots.note_end(&uid, again.is_some()) {
        End::Wanted => {}
        End::Nothing => return,
        End::Rest(rest) => tokio::select! {
            () = rest.cancelled() => return,
            () = stop.cancelled() => return,
            () = tokio::time::sleep(again.unwrap_or_default().max(rest_min)) => {}
        },
    }
    K::cache(&context).wake(&namespace, &name);
}

fn action(again: Again) -> Action {
    again.map_or_else(Action::await_change, Action::requeue)
}

fn joined(ended: Result<Result<Again, pass::Error>, JoinError>) -> Result<Again, pass::Error> {
    match ended {
        Ok(ended) => ended,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The task was cancelled, because the runtime shuts down.
            Err(_) => Ok(None),
        },
    }
}

/// The slots that one pass holds, and how long it has waited for Flink.
struct PassSlots {
    wait_slots: Arc<Semaphore>,
    resume_slots: Arc<Semaphore>,
    left: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The number of answers that the pass waits for. `since` is when it began to wait.
    waiting: usize,
    since: Option<Instant>,
    waited: Duration,
    wait_slot: Option<OwnedSemaphorePermit>,
    resume_slot: Option<OwnedSemaphorePermit>,
}

impl PassSlots {
    fn new(wait_slots: Arc<Semaphore>, resume_slots: Arc<Semaphore>) -> Self {
        Self { wait_slots, resume_slots, left: Notify::new(), state: Mutex::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the slots back at the end of the pass, and returns how long it waited.
    fn end(&self) -> Duration {
        let mut state = self.state();
        state.wait_slot = None;
        state.resume_slot = None;
        state.waited
    }
}

impl Patience for PassSlots {
    fn step_aside(&self) {
        let mut state = self.state();
        state.waiting += 1;
        state.since.get_or_insert_with(Instant::now);
        state.resume_slot = None;
        if state.wait_slot.is_none() {
            state.wait_slot = Arc::clone(&self.wait_slots).try_acquire_owned().ok();
            if state.wait_slot.is_some() {
                self.left.notify_one();
            }
        }
    }

    fn come_back(&self) -> BoxFuture<'_, ()> {
        let needs_slot = {
            let mut state = self.state();
            state.waiting = state.waiting.saturating_sub(1);
            if state.waiting == 0
                && let Some(since) = state.since.take()
            {
                state.waited += since.elapsed();
            }
            state.waiting == 0 && state.wait_slot.is_some() && state.resume_slot.is_none()
        };
        async move {
            if needs_slot {
                // The semaphore is never closed, so this does not fail.
                let slot = Arc::clone(&self.resume_slots).acquire_owned().await.ok();
                self.state().resume_slot = slot;
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
