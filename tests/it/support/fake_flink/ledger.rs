//! A cluster's record of its jobs for the checks of state: which job saved what, in which order, and what each
//! submission could have started from.
//!
//! Checkpoint numbers are not enough: a job started from older state counts on from there.

use super::{Cluster, Job};

/// Number of leading hex digits that all job ids of a session job resource share.
const OWNED: usize = 16;

/// An event in the history of state.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// `start` is the number of the start that saved it, counted from 1.
    Saved {
        job_id: String,
        start: usize,
        path: String,
        is_savepoint: bool,
    },
    Started {
        job_id: String,
        from: Option<String>,
    },
}

/// A submission to a session cluster, with what was known when it was made.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    pub(crate) job_id: String,
    pub(crate) from: Option<String>,
    /// Whether the state it starts from exists in the store.
    pub(crate) is_there: bool,
    /// What the resource's jobs last saved or were last started from.
    pub(crate) newest: Option<String>,
    /// Jobs of the resource that have not ended.
    pub(crate) live: Vec<String>,
}

fn owner(job_id: &str) -> &str {
    job_id.get(..OWNED).unwrap_or(job_id)
}

impl Cluster {
    /// Records what was saved since the last call.
    pub(super) fn take_stock(&mut self) {
        for job in self.jobs.values() {
            let new = job.checkpoints.iter().rev();
            let new = new.take_while(|one| !self.known.contains(&one.path));
            let mut new: Vec<_> =
                new.map(|one| (one.path.clone(), one.kind != "CHECKPOINT")).collect();
            new.reverse();
            let start = self.starts.iter().rposition(|start| start.job_id == job.id);
            for (path, is_savepoint) in new {
                self.known.insert(path.clone());
                let (job_id, start) = (job.id.clone(), start.map_or(0, |index| index + 1));
                self.ledger.push(Entry::Saved { job_id, start, path, is_savepoint });
            }
        }
    }

    /// Records that a job is about to start in a session cluster.
    pub(crate) fn submit(&mut self, job_id: &str, from: Option<&str>) {
        self.take_stock();
        let has_ended = |job: &Job| job.is_terminal() || job.is_suspended();
        let is_of_owner = |job: &&Job| owner(&job.id) == owner(job_id) && !has_ended(job);
        let live = self.jobs.values().filter(is_of_owner).map(|job| job.id.clone()).collect();
        self.submissions.push(Submission {
            job_id: job_id.to_owned(),
            from: from.map(str::to_owned),
            is_there: from.is_none_or(|path| self.state_at(path).is_some()),
            newest: self.newest_of(owner(job_id)),
            live,
        });
        let from = from.map(str::to_owned);
        self.ledger.push(Entry::Started { job_id: job_id.to_owned(), from });
    }

    /// Returns what the jobs with this id prefix last saved or were last started from.
    fn newest_of(&self, prefix: &str) -> Option<String> {
        for entry in self.ledger.iter().rev() {
            match entry {
                Entry::Saved { job_id, path, .. } | Entry::Started { job_id, from: Some(path) }
                    if job_id.starts_with(prefix) && self.state_at(path).is_some() =>
                {
                    return Some(path.clone());
                }
                Entry::Started { job_id, from: None } if job_id.starts_with(prefix) => return None,
                Entry::Saved { .. } | Entry::Started { .. } => {}
            }
        }
        None
    }

    /// Names everything that was saved in words that are the same in every run. The number of checkpoints before the
    /// newest depends on timing, so it is left out.
    pub(crate) fn names(&mut self) -> Vec<(String, String)> {
        self.take_stock();
        let saved = self.ledger.iter().enumerate().filter_map(|(index, entry)| match entry {
            Entry::Saved { start, path, is_savepoint, .. } => {
                let is_later = |entry: &&Entry| match entry {
                    Entry::Saved { start: of, is_savepoint: kind, .. } => {
                        (of, kind) == (start, is_savepoint)
                    }
                    Entry::Started { .. } => false,
                };
                let later = self.ledger[index + 1..].iter().filter(is_later).count();
                let which = match (is_savepoint, later) {
                    (true, 0) => "the newest savepoint".to_owned(),
                    (true, later) => format!("savepoint {later} before the newest"),
                    (false, 0) => "the newest checkpoint".to_owned(),
                    (false, _) => "an older checkpoint".to_owned(),
                };
                Some((path.clone(), format!("{which} of start {start}")))
            }
            Entry::Started { .. } => None,
        });
        saved.collect()
    }

    /// Returns the number of jars that were uploaded and not deleted.
    pub(crate) fn uploaded(&self) -> usize {
        self.jars.len()
    }
}
