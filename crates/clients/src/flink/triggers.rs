//! Triggers of Flink before 1.15, which takes no id from the caller and makes one of its own.
//!
//! Callers go on with the id that they chose; what Flink calls it is remembered here. It is not
//! remembered over a restart of this process: then the trigger is as lost as after a restart of the
//! JobManager, and found out about in the same way.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Triggers remembered; the oldest is forgotten first. Each lives for minutes.
const TRIGGERS_MAX: usize = 1000;

/// Ids that were chosen, each with the one that Flink uses; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Triggers(Arc<Mutex<VecDeque<(String, String)>>>);

impl Triggers {
    pub(super) fn remember(&self, chosen: &str, flinks: &str) {
        if chosen == flinks {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= TRIGGERS_MAX {
            known.pop_front();
        }
        known.push_back((chosen.to_owned(), flinks.to_owned()));
    }

    /// The id that Flink has for the trigger.
    pub(super) fn id_of(&self, chosen: &str) -> String {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().rev().find(|(id, _)| id == chosen);
        found.map_or_else(|| chosen.to_owned(), |(_, flinks)| flinks.clone())
    }
}
