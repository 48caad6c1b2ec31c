//! The health of the API server: whether it answers.
//!
//! While it does not, no decision can be carried out or recorded, so no pass begins. Otherwise each resource of a fleet
//! would send requests, fail and report it, again and again.

use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

/// Consecutive requests without an answer until the API server counts as away.
const MISSES: u32 = 3;

/// The known health. [`super::etcd_restore::follow_store`], which polls all the time, keeps it up to date.
pub(super) struct ApiServerHealth {
    state: watch::Sender<State>,
    /// A pass got no answer.
    is_suspect: Notify,
}

#[derive(Clone, Copy)]
enum State {
    /// Consecutive requests without an answer, fewer than [`MISSES`].
    There {
        misses: u32,
    },
    Away {
        since: Instant,
    },
}

impl Default for ApiServerHealth {
    fn default() -> Self {
        let state = watch::Sender::new(State::There { misses: 0 });
        Self { state, is_suspect: Notify::new() }
    }
}

impl ApiServerHealth {
    /// Notes that a request was answered, if only by a rejection.
    pub(super) fn answered(&self) {
        self.state.send_if_modified(|state| {
            if let State::Away { since } = *state {
                tracing::info!(after = ?since.elapsed(), "the API server answers again");
            }
            let was_away = matches!(state, State::Away { .. });
            *state = State::There { misses: 0 };
            was_away
        });
    }

    /// Notes that a request was not answered, or not served.
    pub(super) fn missed(&self, error: &str) {
        self.state.send_if_modified(|state| {
            let State::There { misses } = state else { return false };
            *misses += 1;
            let is_away = *misses >= MISSES;
            if is_away {
                tracing::error!(
                    error,
                    "the API server does not answer: nothing is decided until it does"
                );
                *state = State::Away { since: Instant::now() };
            }
            is_away
        });
    }

    /// Requests a check, because another request got no answer.
    pub(super) fn suspect(&self) {
        self.is_suspect.notify_one();
    }

    /// Completes when a check is requested.
    pub(super) async fn suspected(&self) {
        self.is_suspect.notified().await;
    }

    /// Waits until the API server answers, at most for `patience`. Returns whether it does.
    pub(super) async fn until_there(&self, patience: Duration) -> bool {
        let mut states = self.state.subscribe();
        let there = states.wait_for(|state| matches!(state, State::There { .. }));
        matches!(timeout(patience, there).await, Ok(Ok(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn some_misses_in_a_row_are_an_absence_and_one_answer_ends_it() {
        let health = ApiServerHealth::default();
        for _ in 1..MISSES {
            health.missed("timed out");
        }
        assert!(health.until_there(PATIENCE).await, "that happens");
        health.answered();
        for _ in 1..MISSES {
            health.missed("timed out");
        }
        assert!(health.until_there(PATIENCE).await, "not in a row");
        health.missed("timed out");
        assert!(!health.until_there(PATIENCE).await);
        let (is_there, ()) = tokio::join!(health.until_there(PATIENCE * 50), async {
            tokio::task::yield_now().await;
            health.answered();
        });
        assert!(is_there, "who waits goes on at once");
    }
}
