//! Listeners: programs outside that are told of every event and status change.
//!
//! Each is configured under `kubernetes.operator.plugins.listeners.<name>.` with `url` (an HTTP
//! endpoint) or `command` (a program), and gets `CloudEvents` 1.0 in JSON, in the order in which
//! things happened. A listener has a queue and a task of its own: one that hangs or fails delays
//! neither a resource nor another listener. What does not fit into its queue is dropped, counted
//! and told in the log.

mod cloud_event;
mod delivery;
mod settings;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;

pub use settings::{InvalidListener, Settings, Target};

use super::context::lock;
use super::observe::tell;
use crate::config::FlinkConfig;
use cloud_event::CloudEvent;
pub(super) use cloud_event::{Happening, Subject};

/// How long an operator that leaves waits for what is still queued.
const FAREWELL: Duration = Duration::from_secs(5);
/// Tries to deliver one event, and the pause before the second; each is twice the one before.
const TRIES_MAX: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// All listeners of an operator.
#[derive(Default)]
pub struct Listeners {
    listeners: Vec<Listener>,
}

struct Listener {
    name: String,
    dropped: AtomicU64,
    /// Absent once the operator leaves.
    work: Mutex<Option<Work>>,
}

struct Work {
    queue: Sender<Arc<CloudEvent>>,
    task: JoinHandle<()>,
}

impl Listeners {
    /// Starts a task for each listener that `config` names.
    ///
    /// # Errors
    /// Everything that is wrong with their settings, so that one edit can mend it.
    pub fn start(config: &FlinkConfig) -> Result<Self, Vec<InvalidListener>> {
        let listeners = Settings::all(config)?.into_iter().map(Listener::start).collect();
        Ok(Self { listeners })
    }

    /// Tells everyone, without waiting for anyone. What happened is put together only when somebody
    /// listens.
    pub(super) fn tell<S: Serialize>(
        &self,
        subject: impl FnOnce() -> Subject,
        happening: &Happening<'_, S>,
    ) {
        if self.listeners.is_empty() {
            return;
        }
        let event = Arc::new(CloudEvent::new(&subject(), happening, jiff::Timestamp::now()));
        for listener in &self.listeners {
            listener.enqueue(Arc::clone(&event));
        }
    }

    /// Lets the listeners work off their queues, for some seconds.
    pub(super) async fn finish(&self) {
        let deadline = tokio::time::Instant::now() + FAREWELL;
        for Listener { name, work, dropped: _ } in &self.listeners {
            let Some(Work { queue, task }) = lock(work).take() else { continue };
            drop(queue);
            let abort = task.abort_handle();
            if tokio::time::timeout_at(deadline, task).await.is_err() {
                abort.abort();
                tracing::warn!(listener = name, "left before the listener was told everything");
            }
        }
    }
}

impl Listener {
    fn start(settings: Settings) -> Self {
        let (queue, events) = mpsc::channel(settings.queue);
        let name = settings.name.clone();
        let task = tokio::spawn(deliver(settings, events));
        Self { name, dropped: AtomicU64::new(0), work: Mutex::new(Some(Work { queue, task })) }
    }

    fn enqueue(&self, event: Arc<CloudEvent>) {
        let is_queued =
            lock(&self.work).as_ref().is_none_or(|work| work.queue.try_send(event).is_ok());
        if is_queued {
            return;
        }
        let dropped = self.dropped.fetch_add(1, Ordering::Relaxed) + 1;
        // A listener that is away for long does not fill the log as well.
        if dropped.is_power_of_two() {
            tracing::warn!(
                listener = self.name,
                dropped,
                "the listener's queue is full: events are dropped"
            );
        }
    }
}

/// Works off the queue; ends with it.
async fn deliver(settings: Settings, mut events: Receiver<Arc<CloudEvent>>) {
    let delivery = match delivery::Delivery::of(&settings) {
        Ok(delivery) => delivery,
        Err(error) => {
            tracing::error!(listener = settings.name, error = tell(&error), "listener not started");
            return;
        }
    };
    while let Some(event) = events.recv().await {
        let mut pause = RETRY_PAUSE;
        for attempt in 1..=TRIES_MAX {
            let Err(error) = delivery.deliver(&event).await else { break };
            let is_last = attempt == TRIES_MAX || !error.is_transient();
            tracing::warn!(
                listener = settings.name,
                event = event.id(),
                error = tell(&error),
                is_last,
                "the listener was not told"
            );
            if is_last {
                break;
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }
}

#[cfg(test)]
mod tests;
