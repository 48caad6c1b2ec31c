//! Number of attempts, and the backoff before the next one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Pause before the second attempt; it doubles with each further attempt.
const PAUSE_MIN: Duration = Duration::from_secs(10);
/// Longest pause. The count starts over for a job that ran for twice this time since its last restart.
const PAUSE_MAX: Duration = Duration::from_mins(5);

/// Number of restarts of a job, and the time of the last one.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default)]
pub struct Attempts {
    pub count: u32,
    /// Milliseconds since the epoch.
    pub last: i64,
    /// Generation of the spec. The count starts over with another one.
    pub generation: i64,
    /// When this generation was deployed, in milliseconds since the epoch. Attempts do not extend the time to become
    /// stable.
    pub deployed: i64,
}

impl Attempts {
    /// Returns the attempts that are still relevant at `now`.
    pub(super) fn recent(self, now: i64) -> Self {
        let is_recent = now.saturating_sub(self.last) < millis(PAUSE_MAX * 2);
        if is_recent { self } else { Self { count: 0, ..self } }
    }

    /// Returns the pause between the last attempt and the next one.
    pub fn pause(&self) -> Duration {
        match self.count.checked_sub(1) {
            None => Duration::ZERO,
            Some(doublings) => PAUSE_MIN.saturating_mul(1 << doublings.min(10)).min(PAUSE_MAX),
        }
    }

    /// Returns how long the next attempt has to wait at `now`.
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
