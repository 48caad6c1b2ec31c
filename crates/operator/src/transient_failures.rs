//! Errors of plans that are usually transient. They are reported only if they last.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::context::lock;

/// How long one must last to be reported: an ensemble elects a new leader in seconds.
const REPORTED_AFTER: Duration = Duration::from_mins(1);

/// Since when plans have stopped at such an error, by the resource's uid.
#[derive(Default)]
pub(super) struct TransientFailures(Mutex<HashMap<String, Instant>>);

impl TransientFailures {
    /// Notes that a plan stopped at such an error now. Returns `true` if that has gone on for long.
    pub(super) fn note(&self, uid: &str, now: Instant) -> bool {
        let since = *lock(&self.0).entry(uid.to_owned()).or_insert(now);
        now.duration_since(since) >= REPORTED_AFTER
    }

    /// Forgets it, because a plan was carried out or the resource is gone.
    pub(super) fn forget(&self, uid: &str) {
        lock(&self.0).remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_once_it_has_lasted() {
        let (failures, start) = (TransientFailures::default(), Instant::now());
        assert!(!failures.note("u1", start));
        assert!(!failures.note("u1", start + Duration::from_secs(59)));
        assert!(failures.note("u1", start + REPORTED_AFTER));
        assert!(!failures.note("u2", start + REPORTED_AFTER), "each for itself");
        failures.forget("u1");
        assert!(!failures.note("u1", start + REPORTED_AFTER), "it was over meanwhile");
    }
}
