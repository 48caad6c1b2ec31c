//! Who operates what if several operators share the work: which shard a namespace is in, and which shards a process
//! takes or gives up, from what it has seen of the others.
//!
//! This is not what keeps two from writing: each shard has a Lease, elected and fenced like that of a single leader
//! ([`super::lease`]), and so has the number of shards. This module only decides which free Lease to request and which
//! held one to give back, so that each process has its part. A wrong or late view of the others only costs time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sha2::{Digest, Sha256};

/// Maximum number of shards; each is a Lease that every replica watches.
pub const SHARDS_MAX: u16 = 64;
/// Number of lease durations for which nothing is given up after this process has helped: a process that did not take
/// its share then may be stuck, and would not take it now.
const HELP_RESTS: u32 = 8;
/// Maximum number of members that the Lease of the number lists.
const MEMBERS_MAX: usize = 2 * SHARDS_MAX as usize;

/// Returns the shard of everything in a namespace. Neither ever changes, and nothing that belongs to a cluster is in
/// another namespace, so no two shards have a part in the same cluster. `shards` is at least one.
pub fn shard_of(namespace: &str, shards: u16) -> u16 {
    let digest = Sha256::digest(namespace.as_bytes());
    let first = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    u16::try_from(first % u64::from(shards.max(1))).unwrap_or_default()
}

/// Returns the name of the Lease of a shard. That of the number of shards is `lease` itself, which an operator without
/// shards holds.
pub fn lease_name(lease: &str, shard: u16, shards: u16) -> String {
    format!("{lease}-{shard}-of-{shards}")
}

/// Returns the holder of the Lease of the number: all processes that use it, and operate the same (`operates`, in
/// words). Two installations that were given the same Lease do not take each other for replicas.
pub fn number_holder(shards: u16, operates: &str) -> String {
    let digest = Sha256::digest(operates.as_bytes());
    let short = digest.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    format!("shards:{shards}:{short:08x}")
}

/// The processes that share the work, according to their renewals of the number's Lease: each increments its own count.
#[derive(Clone, Debug)]
pub struct Roster {
    me: String,
    count: u64,
    /// For how long a process is a member after its last sign.
    patience: Duration,
    /// The last count of each other process, and when it was first seen.
    seen: BTreeMap<String, (u64, Duration)>,
    /// When others last joined or left.
    changed: Duration,
}

impl Roster {
    pub fn new(me: impl Into<String>, patience: Duration, now: Duration) -> Self {
        Self { me: me.into(), count: 0, patience, seen: BTreeMap::new(), changed: now }
    }

    /// Notes that the Lease was read, or written by this process.
    pub fn see(&mut self, told: &BTreeMap<String, u64>, now: Duration) {
        let before = self.members(now);
        self.seen.retain(|name, _| told.contains_key(name));
        for (name, count) in told.iter().filter(|(name, _)| **name != self.me).take(MEMBERS_MAX) {
            let is_same = self.seen.get(name).is_some_and(|(before, _)| before == count);
            if !is_same {
                self.seen.insert(name.clone(), (*count, now));
            }
        }
        if self.members(now) != before {
            self.changed = now;
        }
    }

    /// Returns the roster for the next renewal, without those that are no longer members.
    pub fn next(&mut self, now: Duration) -> BTreeMap<String, u64> {
        self.count += 1;
        let mut told = self.others(now);
        told.insert(self.me.clone(), self.count);
        told
    }

    /// Returns the others that are still members: the roster that a leaving process writes.
    pub fn others(&self, now: Duration) -> BTreeMap<String, u64> {
        let live = self.seen.iter().filter(|(_, (_, since))| now < *since + self.patience);
        live.map(|(name, (count, _))| (name.clone(), *count)).collect()
    }

    /// Returns the current members, including this process.
    pub fn members(&self, now: Duration) -> BTreeSet<String> {
        self.others(now).into_keys().chain([self.me.clone()]).collect()
    }

    /// Returns since when they are the same. One that ended without notice left when it was no longer a member.
    pub fn same_since(&self, now: Duration) -> Duration {
        let ends = self.seen.values().map(|(_, since)| *since + self.patience);
        ends.filter(|end| *end <= now).fold(self.changed, Duration::max)
    }
}

/// Returns the text of a roster in an annotation: `NAME=COUNT`, separated by commas.
pub fn roster_text(told: &BTreeMap<String, u64>) -> String {
    let entries: Vec<String> = told.iter().map(|(name, count)| format!("{name}={count}")).collect();
    entries.join(",")
}

/// Parses such a text; anything that is not an entry is left out.
pub fn parse_roster(text: &str) -> BTreeMap<String, u64> {
    let entry = |entry: &str| {
        let (name, count) = entry.rsplit_once('=')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    text.split(',').filter_map(entry).take(MEMBERS_MAX).collect()
}

/// The state of a shard's Lease, as far as one process has seen it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Tenure {
    /// It has not been read yet.
    #[default]
    Unknown,
    /// It has no holder, and was first seen so at `since`.
    Free { since: Duration },
    /// Another process has it.
    Theirs(String),
    /// This process has it.
    Mine,
}

/// The facts by which a process decides which shards it should have.
#[derive(Clone, Debug)]
pub struct View<'a> {
    pub me: &'a str,
    /// The processes that share the work, including this one.
    pub members: &'a BTreeSet<String>,
    /// Since when these are the same.
    pub same_since: Duration,
    /// The shards, by number.
    pub shards: &'a [Tenure],
    /// When this process last took another's part.
    pub helped: Option<Duration>,
    pub now: Duration,
    /// A lease's duration: for this long, a free shard is left to the process that should have it.
    pub patience: Duration,
}

/// A step to take for a shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Move {
    /// Request its Lease: it is part of this process's share.
    Take(u16),
    /// Request its Lease, because no one else has for long.
    Help(u16),
    /// Stop working on it, and give its Lease back: another process has less than its share.
    GiveUp(u16),
}

/// Decides the next moves. Shares differ by at most one. Of two processes that hold equally many, the one whose name
/// comes first has the larger share. One that holds more keeps the larger share, so nothing moves without need.
pub fn moves(view: &View<'_>) -> Vec<Move> {
    let View { me, members, same_since, shards, helped, now, patience } = view;
    let mut held: BTreeMap<&str, usize> = members.iter().map(|name| (name.as_str(), 0)).collect();
    for tenure in *shards {
        let holder = match tenure {
            Tenure::Mine => *me,
            Tenure::Theirs(name) => name.as_str(),
            Tenure::Unknown | Tenure::Free { .. } => continue,
        };
        // A process that has left still has a share until its Leases expire.
        if let Some(count) = held.get_mut(holder) {
            *count += 1;
        }
    }
    let mut ranks: Vec<(&str, usize)> = held.into_iter().collect();
    ranks.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let share =
        |rank: usize| shards.len() / ranks.len() + usize::from(rank < shards.len() % ranks.len());
    let Some(rank) = ranks.iter().position(|(name, _)| name == me) else { return Vec::new() };
    let mine = ranks.get(rank).map_or(0, |(_, count)| *count);
    let number = |index: usize| u16::try_from(index).unwrap_or(u16::MAX);
    let free = || {
        shards.iter().enumerate().filter_map(|(index, tenure)| match tenure {
            Tenure::Free { since } => Some((number(index), *since)),
            Tenure::Unknown | Tenure::Theirs(_) | Tenure::Mine => None,
        })
    };
    if mine < share(rank) {
        // Each process starts at a different place, or all would request the same.
        let place = members.iter().position(|name| name == me).unwrap_or_default();
        let mut all: Vec<u16> = free().map(|(index, _)| index).collect();
        let turn = (place * shards.len() / ranks.len()).min(shards.len());
        let first = all.partition_point(|index| usize::from(*index) < turn);
        all.rotate_left(first);
        return all.into_iter().take(share(rank) - mine).map(Move::Take).collect();
    }
    if let Some((index, _)) = free().find(|(_, since)| *now >= *since + *patience) {
        return vec![Move::Help(index)];
    }
    let is_settled = *now >= *same_since + *patience
        && helped.is_none_or(|at| at < *same_since || *now >= at + *patience * HELP_RESTS)
        && shards.iter().all(|tenure| matches!(tenure, Tenure::Mine | Tenure::Theirs(_)));
    let wanted: usize =
        ranks.iter().enumerate().map(|(rank, (_, count))| share(rank).saturating_sub(*count)).sum();
    if !is_settled || mine <= share(rank) || wanted == 0 {
        return Vec::new();
    }
    let own = shards.iter().enumerate().rev().filter(|(_, tenure)| **tenure == Tenure::Mine);
    let count = (mine - share(rank)).min(wanted);
    own.take(count).map(|(index, _)| Move::GiveUp(number(index))).collect()
}

#[cfg(test)]
mod tests;
