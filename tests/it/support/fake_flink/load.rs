//! Incoming records and their processing, which drive a job's metrics and its adaptive scheduler.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Metrics;

pub(crate) const SOURCE: &str = "cbc357ccb763df2852fee8c4fc7d55f2";
pub(crate) const WINDOW: &str = "90bea66de1c231edf33913ecd54406c1";

/// Load on a job with two vertices of equal capacity per subtask.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    /// Incoming records per second.
    pub(crate) rate: f64,
    /// Records per second that one subtask can process.
    pub(crate) capacity: f64,
    pub(crate) parallelism: BTreeMap<String, u32>,
    /// What each vertex needs at least.
    least: u64,
    /// When the tasks were last started again with another parallelism.
    pub(super) rescaled: Option<i64>,
    pub(crate) lag: f64,
    /// Records processed since its tasks started.
    records: f64,
    moved: i64,
    /// How often the parallelism bounds were changed.
    pub(crate) changes: usize,
}

impl Load {
    pub(crate) fn new(rate: f64, capacity: f64, now: i64) -> Self {
        let parallelism = [SOURCE, WINDOW].map(|id| (id.to_owned(), 1)).into();
        let (least, rescaled, changes) = (1, None, 0);
        let (lag, records, moved) = (0.0, 0.0, now);
        Self { rate, capacity, parallelism, least, rescaled, lag, records, moved, changes }
    }

    /// Returns the records per second that the slower vertex can process.
    fn possible(&self) -> f64 {
        let least = self.parallelism.values().min().copied().unwrap_or(1);
        self.capacity * f64::from(least)
    }

    pub(super) fn step(&mut self, now: i64) {
        #[allow(clippy::cast_precision_loss, reason = "some milliseconds")]
        let seconds = (now - self.moved).max(0) as f64 / 1000.0;
        self.moved = now;
        let there = self.lag + self.rate * seconds;
        let done = there.min(self.possible() * seconds);
        self.lag = there - done;
        self.records += done;
    }

    pub(super) fn metrics(&self, vertex: &str) -> Metrics {
        let possible = self.possible();
        let now = if self.lag > 1.0 { possible } else { self.rate };
        let own = self.capacity * f64::from(self.parallelism.get(vertex).copied().unwrap_or(1));
        let busy = (now / own * 1000.0).min(1000.0);
        let of_vertex: &[(&str, f64)] = if vertex == SOURCE {
            &[
                ("backPressuredTimeMsPerSecond", 0.0),
                ("Source__Car_data.numRecordsInPerSecond", now),
                ("Source__Car_data.numRecordsIn", self.records),
                ("Source__Car_data.pendingRecords", self.lag),
            ]
        } else {
            &[("numRecordsInPerSecond", now)]
        };
        let all = of_vertex.iter().copied().chain([("busyTimeMsPerSecond", busy)]);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    pub(super) fn records_in(&self, vertex: &str) -> f64 {
        if vertex == SOURCE { 0.0 } else { self.records }
    }

    pub(super) fn requirements(&self) -> Value {
        let bounds =
            |upper: &u32| json!({"parallelism": {"lowerBound": self.least, "upperBound": upper}});
        self.parallelism.iter().map(|(id, upper)| (id.clone(), bounds(upper))).collect()
    }

    /// Takes the highest allowed parallelism. Returns whether it is another one, so that tasks have to be started again.
    pub(super) fn require(&mut self, requirements: &Value, now: i64) -> bool {
        let before = self.parallelism.clone();
        for (id, parallelism) in &mut self.parallelism {
            let bounds = &requirements[id]["parallelism"];
            *parallelism = u32::try_from(bounds["upperBound"].as_u64().unwrap()).unwrap();
            self.least = bounds["lowerBound"].as_u64().unwrap();
        }
        self.changes += 1;
        let is_rescaled = self.parallelism != before;
        if is_rescaled {
            (self.records, self.moved, self.rescaled) = (0.0, now, Some(now));
        }
        is_rescaled
    }

    /// Sets the parallelism of all vertices.
    pub(super) fn with_parallelism(mut self, all: u32) -> Self {
        self.parallelism.values_mut().for_each(|one| *one = all);
        self
    }
}
