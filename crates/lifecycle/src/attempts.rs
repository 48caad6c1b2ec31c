//! How often something was tried, and when it may be tried again.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Pause before the second attempt; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(10);
/// Longest pause. A job that ran for twice this time since its last restart starts over.
const PAUSE_MAX: Duration = Duration::from_mins(5);

/// How often a job was started again, and when last.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Attempts {
    pub count: u32,
    /// Milliseconds since the epoch.
    pub last: i64,
    /// Another generation of the spec starts over.
    pub generation: i64,
    /// When this generation was deployed, in milliseconds since the epoch: the time to become stable
    /// does not begin anew with each attempt.
    pub deployed: i64,
}

impl Attempts {
    /// Those that still count at `now`.
    pub(super) fn recent(self, now: i64) -> Self {
        let is_recent = now.saturating_sub(self.last) < millis(PAUSE_MAX * 2);
        if is_recent { self } else { Self { count: 0, ..self } }
    }

    /// The pause between the last attempt and the next one.
    pub fn pause(&self) -> Duration {
        match self.count.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => PAUSE_MIN.saturating_mul(1 << doublings.min(10)).min(PAUSE_MAX),
        }
    }

    /// How long the next attempt has to wait at `now`.
    pub fn wait(&self, now: i64) -> Duration {
        let since = u64::try_from(now.saturating_sub(self.last)).unwrap_or(0);
        self.pause().saturating_sub(Duration::from_millis(since))
    }

    pub(super) fn of_generation(self, generation: i64) -> Option<Self> {
        (self.generation == generation).then_some(self)
    }

    pub(super) fn next(self, now: i64) -> Self {
        Self { count: self.count.saturating_add(1), last: now, ..self }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
