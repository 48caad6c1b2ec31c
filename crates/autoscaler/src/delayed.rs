//! Scaling down waits until a lower parallelism has been enough for some time, and then uses the highest one
//! recommended in that time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;

use super::topology::VertexId;
use super::window::{earlier, later};

/// A recommendation, with the time at which it was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Recommended {
    pub at: Timestamp,
    pub parallelism: u32,
    /// Whether the rate was then outside of its bounds.
    pub is_outside: bool,
}

/// A vertex that waits to be scaled down.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Waiting {
    pub since: Timestamp,
    /// By time, each lower than the one before it: the first is the highest.
    pub recommended: VecDeque<Recommended>,
}

/// Vertices that wait to be scaled down.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Delayed(pub BTreeMap<VertexId, Waiting>);

/// Whether a vertex is scaled down now, or when.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Answer {
    Until(Timestamp),
    Now(Recommended),
}

impl Delayed {
    /// Adds a recommendation and returns whether it is time to scale down.
    pub fn recommend(
        &mut self,
        vertex: &VertexId,
        recommended: Recommended,
        interval: Duration,
    ) -> Answer {
        let now = recommended.at;
        let waiting = self
            .0
            .entry(vertex.clone())
            .or_insert_with(|| Waiting { since: now, recommended: VecDeque::new() });
        let queue = &mut waiting.recommended;
        while queue.back().is_some_and(|last| last.parallelism <= recommended.parallelism) {
            queue.pop_back();
        }
        queue.push_back(recommended);
        let window_start = earlier(now, interval);
        if window_start < waiting.since {
            return Answer::Until(later(waiting.since, interval));
        }
        while queue.front().is_some_and(|first| first.at < window_start) {
            queue.pop_front();
        }
        // The queue contains at least the present recommendation.
        Answer::Now(queue.front().copied().unwrap_or(recommended))
    }

    /// Ends the wait of a vertex that needs its present parallelism or more.
    pub fn cancel(&mut self, vertex: &VertexId) {
        self.0.remove(vertex);
    }

    pub fn cancel_all(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests;
