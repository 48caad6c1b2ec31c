//! Triggers of Flink before 1.15, which creates its own ids instead of accepting the caller's.
//!
//! Callers continue to use the id that they chose; this module remembers Flink's id for it. A restart of this process
//! forgets it: the trigger is then lost as after a restart of the JobManager, and the caller finds out what happened in
//! the same way.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of triggers; the oldest is forgotten first. Each lasts for minutes.
const TRIGGERS_MAX: usize = 1000;

/// Chosen ids, each with the one that Flink uses; clones share them.
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

    /// Returns Flink's id of the trigger.
    pub(super) fn id_of(&self, chosen: &str) -> String {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().rev().find(|(id, _)| id == chosen);
        found.map_or_else(|| chosen.to_owned(), |(_, flinks)| flinks.clone())
    }
}
