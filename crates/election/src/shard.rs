//! Who operates what where several operators share the work: which shard a namespace is in, and which
//! shards a process takes or gives up, from what it has seen of the others.
//!
//! Nothing here is what keeps two from writing: each shard has a Lease, elected and fenced as the one
//! of a single leader is ([`super::lease`]), and so has the number of shards. This only says which
//! free Lease to ask for and which held one to give back, so that each process has its part; a view of
//! the others that is wrong or late costs time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sha2::{Digest, Sha256};

/// Most shards; each is a Lease that every replica watches.
pub const SHARDS_MAX: u16 = 64;
/// For so many leases' lengths nothing is given up after one has helped: who did not take its share then
/// may be stuck, and would not take it now.
const HELP_RESTS: u32 = 8;
/// Most members that are told of in the Lease of the number.
const MEMBERS_MAX: usize = 2 * SHARDS_MAX as usize;

/// The shard of all that is in a namespace. Neither ever changes, and nothing that belongs to a cluster
/// is in another namespace: so no two shards have a part in the same one. `shards` is one at least.
pub fn shard_of(namespace: &str, shards: u16) -> u16 {
    let digest = Sha256::digest(namespace.as_bytes());
    let first = digest.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    u16::try_from(first % u64::from(shards.max(1))).unwrap_or_default()
}

/// Name of the Lease of a shard; that of the number of shards is `lease` itself, which an operator
/// without shards holds.
pub fn lease_name(lease: &str, shard: u16, shards: u16) -> String {
    format!("{lease}-{shard}-of-{shards}")
}

/// Who holds the Lease of the number: all who go by it, and operate the same (`operates`, in words).
/// Two installations that were given the same Lease do not take each other for replicas.
pub fn number_holder(shards: u16, operates: &str) -> String {
    let digest = Sha256::digest(operates.as_bytes());
    let short = digest.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    format!("shards:{shards}:{short:08x}")
}

/// Who shares the work, as their renewals of the number's Lease tell: each counts its own up.
#[derive(Clone, Debug)]
pub struct Roster {
    me: String,
    count: u64,
    /// For how long one counts that does not tell of itself any more.
    patience: Duration,
    /// The count that each told last, and when that was seen first.
    seen: BTreeMap<String, (u64, Duration)>,
    /// When others came or went last.
    changed: Duration,
}

impl Roster {
    pub fn new(me: impl Into<String>, patience: Duration, now: Duration) -> Self {
        Self { me: me.into(), count: 0, patience, seen: BTreeMap::new(), changed: now }
    }

    /// The Lease was read, or written by this one.
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

    /// Returns what the next renewal tells: those who do not count any more are left out.
    pub fn next(&mut self, now: Duration) -> BTreeMap<String, u64> {
        self.count += 1;
        let mut told = self.others(now);
        told.insert(self.me.clone(), self.count);
        told
    }

    /// Returns the others that still count, which one that leaves tells.
    pub fn others(&self, now: Duration) -> BTreeMap<String, u64> {
        let live = self.seen.iter().filter(|(_, (_, since))| now < *since + self.patience);
        live.map(|(name, (count, _))| (name.clone(), *count)).collect()
    }

    /// Who counts now, this one included.
    pub fn members(&self, now: Duration) -> BTreeSet<String> {
        self.others(now).into_keys().chain([self.me.clone()]).collect()
    }

    /// Since when they are the same. One that ended without a word went when it did not count any more.
    pub fn same_since(&self, now: Duration) -> Duration {
        let ends = self.seen.values().map(|(_, since)| *since + self.patience);
        ends.filter(|end| *end <= now).fold(self.changed, Duration::max)
    }
}

/// The text of a roster in an annotation: `NAME=COUNT` with commas between.
pub fn roster_text(told: &BTreeMap<String, u64>) -> String {
    let entries: Vec<String> = told.iter().map(|(name, count)| format!("{name}={count}")).collect();
    entries.join(",")
}

/// Reads such a text; whatever is no entry is left out.
pub fn parse_roster(text: &str) -> BTreeMap<String, u64> {
    let entry = |entry: &str| {
        let (name, count) = entry.rsplit_once('=')?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    text.split(',').filter_map(entry).take(MEMBERS_MAX).collect()
}

/// How a shard's Lease stands, as far as one process has seen.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Tenure {
    /// It has not been looked at yet.
    #[default]
    Unknown,
    /// Nobody's, since it was seen to be so.
    Free { since: Duration },
    /// Another one's.
    Theirs(String),
    /// This process has it.
    Mine,
}

/// Facts by which a process decides which shards it should have.
#[derive(Clone, Debug)]
pub struct View<'a> {
    pub me: &'a str,
    /// Who shares the work, this one included.
    pub members: &'a BTreeSet<String>,
    /// Since when they are the same.
    pub same_since: Duration,
    /// Each shard, by its number.
    pub shards: &'a [Tenure],
    /// When this one took last what was another's part.
    pub helped: Option<Duration>,
    pub now: Duration,
    /// A lease's length: so long a free shard is left to who should have it.
    pub patience: Duration,
}

/// Step to take about a shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Move {
    /// Asks for its Lease: it is a part of this one's share.
    Take(u16),
    /// Asks for its Lease, as nobody else has for long.
    Help(u16),
    /// Ends what is done about it, and gives its Lease back: another one has less than its share.
    GiveUp(u16),
}

/// Decides the next moves. Shares differ by one at most; of two who have the same the one whose name
/// comes first has the larger. Who holds more keeps the larger share: so nothing moves that need not.
pub fn moves(view: &View<'_>) -> Vec<Move> {
    let View { me, members, same_since, shards, helped, now, patience } = view;
    let mut held: BTreeMap<&str, usize> = members.iter().map(|name| (name.as_str(), 0)).collect();
    for tenure in *shards {
        let holder = match tenure {
            Tenure::Mine => *me,
            Tenure::Theirs(name) => name.as_str(),
            Tenure::Unknown | Tenure::Free { .. } => continue,
        };
        // Who does not share the work any more has a share in it until its Leases end.
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
        // Each begins at a place of its own, or all would ask for the same.
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
