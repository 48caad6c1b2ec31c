//! What watches told, for all consoles that show it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

use console::fleet::Fleet;

/// The fleet, and who is told of its changes.
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
    /// Changes what is known, and has live pages shown anew.
    pub(super) fn change(&self, change: impl FnOnce(&mut Fleet)) {
        change(&mut self.fleet());
        self.changed.send_replace(());
    }

    pub(super) fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.fleet.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Is told of each change from now on.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// True while a live page shows it.
    pub(super) fn is_followed(&self) -> bool {
        self.changed.receiver_count() > 0
    }

    /// Waits until all was listed once, but no longer than this.
    pub(super) async fn listed(&self, at_most: Duration) {
        let mut changes = self.changes();
        let listed = async {
            while !self.fleet().is_listed() {
                // Its sender is in `self`.
                drop(changes.changed().await);
            }
        };
        drop(timeout(at_most, listed).await);
    }
}
