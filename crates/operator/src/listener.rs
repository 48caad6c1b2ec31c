//! Listeners: external programs that receive every event and status change.
//!
//! Each is configured under `kubernetes.operator.plugins.listeners.<name>.` with `url` (an HTTP endpoint) or `command`
//! (a program), and gets `CloudEvents` 1.0 in JSON, in the order in which things happened. A listener has its own queue
//! and task: one that hangs or fails delays neither a resource nor another listener. Events that do not fit into its
//! queue are dropped, counted and logged.

mod cloud_event;
mod delivery;
mod settings;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use serde::Serialize;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;

pub use cloud_event::CloudEvent;
pub use settings::{Settings, Target};

use super::context::lock;
pub(super) use cloud_event::{Happening, Subject};
use config::FlinkConfig;
use config::plugin::{self, InvalidPlugin};

/// How long a stopping operator waits for what is still queued.
const FAREWELL: Duration = Duration::from_secs(5);
/// Maximum number of attempts to deliver one event, and the pause before the second; each is twice the one before.
const TRIES_MAX: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A receiver of every event and status change.
pub trait Listener: Send + Sync + 'static {
    /// Returns the unique name for the log.
    fn name(&self) -> &str;

    /// Returns how long one attempt may take.
    fn timeout(&self) -> Duration {
        plugin::TIMEOUT
    }

    /// Returns how many events may wait.
    fn queue(&self) -> usize {
        settings::QUEUE
    }

    /// Handles one event. The next one comes when this has ended; a failed attempt is repeated if that may help.
    fn hear<'a>(&'a self, event: &'a CloudEvent) -> BoxFuture<'a, Result<(), Undelivered>>;
}

/// Why a listener did not accept an event.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Undelivered {
    /// Without secrets, because it is logged.
    pub message: String,
    /// Whether a retry may help.
    pub is_transient: bool,
}

/// All listeners of an operator.
#[derive(Default)]
pub struct Listeners {
    queues: Vec<Queue>,
}

/// The queue of one listener.
struct Queue {
    name: String,
    dropped: AtomicU64,
    /// `None` once the operator stops.
    work: Mutex<Option<Work>>,
}

struct Work {
    queue: Sender<Arc<CloudEvent>>,
    task: JoinHandle<()>,
}

/// Returns the listeners that `config` names, in the order of their names.
///
/// # Errors
/// Everything that is wrong with their settings, so that one edit can fix it.
pub fn configured(config: &FlinkConfig) -> Result<Vec<Arc<dyn Listener>>, Vec<InvalidPlugin>> {
    let mut listeners: Vec<Arc<dyn Listener>> = Vec::new();
    for settings in Settings::all(config)? {
        let listener = delivery::Configured::new(settings).map_err(|problem| vec![problem])?;
        listeners.push(Arc::new(listener));
    }
    Ok(listeners)
}

impl Listeners {
    /// Starts a task for each listener.
    pub fn start(listeners: Vec<Arc<dyn Listener>>) -> Self {
        Self { queues: listeners.into_iter().map(Queue::start).collect() }
    }

    /// Sends to all listeners, without waiting for any. The event is put together only if there is a listener.
    pub(super) fn emit<S: Serialize>(
        &self,
        subject: impl FnOnce() -> Subject,
        happening: &Happening<'_, S>,
    ) {
        if self.queues.is_empty() {
            return;
        }
        let event = Arc::new(CloudEvent::new(&subject(), happening, jiff::Timestamp::now()));
        for queue in &self.queues {
            queue.enqueue(Arc::clone(&event));
        }
    }

    /// Lets the listeners work through their queues, for a few seconds.
    pub(super) async fn finish(&self) {
        let deadline = tokio::time::Instant::now() + FAREWELL;
        for Queue { name, work, dropped: _ } in &self.queues {
            let Some(Work { queue, task }) = lock(work).take() else { continue };
            drop(queue);
            let abort = task.abort_handle();
            if tokio::time::timeout_at(deadline, task).await.is_err() {
                abort.abort();
                tracing::warn!(listener = name, "stopped before the listener received all events");
            }
        }
    }
}

impl Queue {
    fn start(listener: Arc<dyn Listener>) -> Self {
        let (queue, events) = mpsc::channel(listener.queue().max(1));
        let name = listener.name().to_owned();
        let task = tokio::spawn(deliver(listener, events));
        Self { name, dropped: AtomicU64::new(0), work: Mutex::new(Some(Work { queue, task })) }
    }

    fn enqueue(&self, event: Arc<CloudEvent>) {
        let is_queued =
            lock(&self.work).as_ref().is_none_or(|work| work.queue.try_send(event).is_ok());
        if is_queued {
            return;
        }
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        // A listener that is away for long must not fill the log as well.
        if dropped.is_power_of_two() {
            tracing::warn!(
                listener = self.name,
                dropped,
                "the listener's queue is full: events are dropped"
            );
        }
    }
}

/// Works through the queue; ends with it.
async fn deliver(listener: Arc<dyn Listener>, mut events: Receiver<Arc<CloudEvent>>) {
    while let Some(event) = events.recv().await {
        let mut pause = RETRY_PAUSE;
        for attempt in 1..=TRIES_MAX {
            let Err(error) = try_once(&*listener, &event).await else { break };
            let is_last = attempt == TRIES_MAX || !error.is_transient;
            tracing::warn!(
                listener = listener.name(),
                event = event.id(),
                error = error.message,
                is_last,
                "the listener did not receive an event"
            );
            if is_last {
                break;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
}

async fn try_once(listener: &dyn Listener, event: &CloudEvent) -> Result<(), Undelivered> {
    let limit = listener.timeout();
    tokio::time::timeout(limit, listener.hear(event)).await.unwrap_or_else(|_| {
        let message = format!("it took longer than {limit:?}");
        Err(Undelivered { message, is_transient: true })
    })
}

#[cfg(test)]
mod tests;
