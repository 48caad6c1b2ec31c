//! Limits how often an event is repeated: each cycle may find its cause again.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::window::earlier;

/// Maximum number of events remembered per job.
const EVENTS_MAX: usize = 64;

/// The times of the last events of a job, by their keys.
#[derive(Clone, Debug, Default)]
pub struct EventLimiter(BTreeMap<String, (Timestamp, Option<u32>)>);

impl EventLimiter {
    /// Returns `true` if the event was sent within the interval, with the same parallelism. Otherwise records it as
    /// sent now.
    pub fn is_suppressed(
        &mut self,
        key: &str,
        interval: Option<Duration>,
        parallelism: Option<u32>,
        now: Timestamp,
    ) -> bool {
        let Some(interval) = interval else { return false };
        let from = earlier(now, interval);
        if self.0.get(key).is_some_and(|(at, of)| *at > from && *at <= now && *of == parallelism) {
            return true;
        }
        self.0.retain(|_, (at, _)| *at > from);
        while self.0.len() >= EVENTS_MAX {
            self.0.pop_first();
        }
        self.0.insert(key.to_owned(), (now, parallelism));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recommendation_is_repeated_after_its_interval_or_with_another_parallelism() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let at = |minutes: i64| now + jiff::SignedDuration::from_mins(minutes);
        let (mut limiter, interval) = (EventLimiter::default(), Some(Duration::from_mins(30)));
        assert!(!limiter.is_suppressed("a", interval, Some(1), at(0)));
        assert!(limiter.is_suppressed("a", interval, Some(1), at(29)));
        assert!(!limiter.is_suppressed("a", interval, Some(2), at(29)), "another parallelism");
        assert!(!limiter.is_suppressed("b", interval, None, at(29)), "another key");
        assert!(!limiter.is_suppressed("a", interval, Some(2), at(60)), "later");
        assert!(!limiter.is_suppressed("a", None, Some(2), at(60)), "without an interval");
        assert!(!limiter.is_suppressed("a", interval, Some(2), at(10)), "the clock went back");
    }

    #[test]
    fn times_of_events_are_bounded() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut limiter = EventLimiter::default();
        for number in 0..1000 {
            limiter.is_suppressed(&number.to_string(), Some(Duration::from_hours(1)), None, now);
        }
        assert_eq!(limiter.0.len(), EVENTS_MAX);
    }
}
