//! What the watches know of the fleet, for all consoles that show it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use console::fleet::Fleet;

/// The fleet, with notifications of its changes.
pub(super) struct Known {
    fleet: Mutex<Fleet>,
    changed: watch::Sender<()>,
}

impl Default for Known {
    fn default() -> Self {
        Self { fleet: Mutex::default(), changed: watch::Sender::new(()) }
    }
}

impl Known {
    /// Changes the fleet and refreshes the live pages.
    pub(super) fn change(&self, change: impl FnOnce(&mut Fleet)) {
        change(&mut self.fleet());
        self.changed.send_replace(());
    }

    pub(super) fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Subscribes to changes from now on.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Returns whether a live page shows the fleet.
    pub(super) fn is_followed(&self) -> bool {
        self.changed.receiver_count() > 0
    }

    /// Waits until everything has been listed once, but at most this long.
    pub(super) async fn listed(&self, at_most: Duration) {
        let mut changes = self.changes();
        let listed = async {
            while !self.fleet().is_listed() {
                // Cannot fail: the sender is in `self`.
                drop(changes.changed().await);
            }
        };
        drop(timeout(at_most, listed).await);
    }
}
