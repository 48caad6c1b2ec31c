//! When events were told, so that the same is not told each minute.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use super::window::earlier;

/// Events of a job whose times are remembered.
const TOLD_MAX: usize = 64;

/// When events were told, by their keys.
#[derive(Clone, Debug, Default)]
pub struct Told(BTreeMap<String, (Timestamp, Option<u32>)>);

impl Told {
    /// Whether the event was told within the interval, with the same parallelism; else notes it.
    pub fn is_told(
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
        while self.0.len() >= TOLD_MAX {
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
    fn a_recommendation_is_told_again_after_its_interval_or_with_another_parallelism() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let at = |minutes: i64| now + jiff::SignedDuration::from_mins(minutes);
        let (mut told, interval) = (Told::default(), Some(Duration::from_mins(30)));
        assert!(!told.is_told("a", interval, Some(1), at(0)));
        assert!(told.is_told("a", interval, Some(1), at(29)));
        assert!(!told.is_told("a", interval, Some(2), at(29)), "another parallelism");
        assert!(!told.is_told("b", interval, None, at(29)), "another key");
        assert!(!told.is_told("a", interval, Some(2), at(60)), "later");
        assert!(!told.is_told("a", None, Some(2), at(60)), "one that is always told");
        assert!(!told.is_told("a", interval, Some(2), at(10)), "the clock went back");
    }

    #[test]
    fn times_of_events_are_bounded() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let mut told = Told::default();
        for number in 0..1000 {
            told.is_told(&number.to_string(), Some(Duration::from_hours(1)), None, now);
        }
        assert_eq!(told.0.len(), TOLD_MAX);
    }
}
