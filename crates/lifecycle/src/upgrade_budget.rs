//! Budget for the upgrades of a fleet: how many are under way at once, who is next, and when the others are held back
//! because too many failed.
//!
//! An edit of a running job asks for a turn before anything is tried or stopped for it. Anything else that takes a job
//! down, such as a recovery, is under way without asking. What is under way derives from the statuses, so that a new
//! process knows it from its first list.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};

use crate::wait::Awaited;
use crate::world::Turn;
use config::option::InvalidValue;
use config::{OperatorConfig, options};

pub use record::{Of, Progress, Record, ResourceKind};

/// How long an upgrade that was woken for its turn has to ask for it, before the next one gets it.
const ANSWER_TIMEOUT: SignedDuration = SignedDuration::from_secs(30);

/// How long an upgrade may have its turn before those who wait are told its name. Most are over by then, and a message
/// that names each of them would be a write for each that waits.
const NAMED_AFTER: SignedDuration = SignedDuration::from_mins(2);

/// The limits of one operator.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Limits {
    pub at_once: Option<u32>,
    pub at_once_in_a_namespace: Option<u32>,
    /// Number of consecutive failures after which the others are held back.
    pub failures: Option<u32>,
    /// How long a stop with its start may take, and then a deployed spec to become stable.
    pub patience: SignedDuration,
}

impl Limits {
    /// # Errors
    /// When a value is not of its option's type.
    pub fn of(operator: &OperatorConfig) -> Result<Self, InvalidValue> {
        let config = &operator.base;
        let patience = config.get(&options::DEPLOYMENT_READINESS_TIMEOUT)?;
        Ok(Self {
            at_once: config.find(&options::UPGRADE_MAX_CONCURRENT)?,
            at_once_in_a_namespace: config.find(&options::UPGRADE_MAX_CONCURRENT_PER_NAMESPACE)?,
            failures: config.find(&options::UPGRADE_PAUSE_AFTER_FAILURES)?.filter(|it| *it > 0),
            patience: SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX),
        })
    }

    fn is_unlimited(&self) -> bool {
        let Self { at_once, at_once_in_a_namespace, failures, patience: _ } = self;
        at_once.is_none() && at_once_in_a_namespace.is_none() && failures.is_none()
    }
}

/// An upgrade under way.
#[derive(Clone, Debug)]
struct Upgrade {
    of: Of,
    /// According to the last status seen.
    standing: Progress,
    /// `None` if it did not ask for a turn.
    turn: Option<Taken>,
    begun: Timestamp,
    /// When it was first seen to stand like this.
    stands_since: Timestamp,
    /// It did not get any further in time, and nobody waits for it until it does.
    is_given_up: bool,
}

impl Upgrade {
    fn new(of: &Of, standing: Progress, turn: Option<Taken>, now: Timestamp) -> Self {
        let (begun, stands_since) = (now, now);
        Self { of: of.clone(), standing, turn, begun, stands_since, is_given_up: false }
    }

    fn stand(&mut self, standing: Progress, now: Timestamp) {
        if self.standing != standing {
            self.stands_since = now;
            self.is_given_up = false;
        }
        self.standing = standing;
    }
}

/// The turn of an upgrade.
#[derive(Clone, Copy, Debug)]
struct Taken {
    generation: i64,
    /// A status was seen in which it is under way. Older ones say nothing about its end.
    has_begun: bool,
    /// It was let through although the others are held back.
    is_probe: bool,
}

/// An upgrade that waits.
#[derive(Clone, Debug)]
struct Waiting {
    of: Of,
    generation: i64,
    /// The generation that was waiting when upgrades were held back.
    held_back: Option<i64>,
    /// When it was woken for its turn, unless it has asked since.
    woken: Option<Timestamp>,
}

/// The upgrades that are under way, and those that wait.
#[derive(Clone, Debug, Default)]
pub struct UpgradeBudget {
    /// By uid.
    upgrades: HashMap<String, Upgrade>,
    /// By namespace, in the order in which they asked.
    waiting: BTreeMap<String, BTreeMap<u64, Waiting>>,
    /// Namespace and place in its queue, by uid.
    places: HashMap<String, (String, u64)>,
    /// The generation whose upgrade failed last, by uid.
    failed: HashMap<String, i64>,
    /// Number of consecutive failures.
    failures: u32,
    is_paused: bool,
    /// Total number of requests and of turns.
    asked: u64,
    taken: u64,
    /// Turn at which each namespace was last served.
    served: HashMap<String, u64>,
}

impl UpgradeBudget {
    /// Asks for a turn for this generation. An upgrade that has a turn keeps it.
    pub fn ask(&mut self, of: &Of, generation: i64, limits: &Limits, now: Timestamp) -> Turn {
        if limits.failures.is_none() {
            self.is_paused = false;
        }
        if limits.is_unlimited() {
            self.unqueue(&of.uid);
            return Turn::Taken;
        }
        self.expire(limits, now);
        let is_probe = self.is_paused;
        let is_child = of.kind == ResourceKind::FlinkDeployment;
        let parent = of.parent.as_ref().filter(|_| is_child);
        if parent.is_some_and(|parent| self.upgrades.contains_key(parent)) {
            // Its transition has a turn, which would end with this child.
            self.unqueue(&of.uid);
            return Turn::Taken;
        }
        if let Some(upgrade) = self.upgrades.get_mut(&of.uid) {
            // It is under way already.
            let turn = upgrade.turn.get_or_insert(Taken { generation, has_begun: false, is_probe });
            turn.generation = generation;
            if std::mem::take(&mut upgrade.is_given_up) {
                upgrade.stands_since = now;
            }
            self.unqueue(&of.uid);
            return Turn::Taken;
        }
        self.queue(of, generation, None).woken = None;
        let asks = (of.namespace.as_str(), of.uid.as_str());
        let is_next = self.next(asks, limits, now).contains(&of.uid);
        let is_held_back = self.is_paused && !self.is_edited(&of.uid);
        if !is_next {
            return if is_held_back { Turn::Paused } else { self.wait_of(of, limits, now) };
        }
        self.unqueue(&of.uid);
        let turn = Some(Taken { generation, has_begun: false, is_probe });
        self.upgrades.insert(of.uid.clone(), Upgrade::new(of, Progress::Idle, turn, now));
        self.taken += 1;
        self.served.insert(of.namespace.clone(), self.taken);
        Turn::Taken
    }

    /// Records the status at the end of a pass, and what its plan waits for. An upgrade that does not need its
    /// turn, or its place in the queue, gives it back. Returns the upgrades that should ask now.
    pub fn decided(
        &mut self,
        of: &Of,
        Record { standing, told }: Record,
        waits: Option<Awaited>,
        limits: &Limits,
        now: Timestamp,
    ) -> Vec<Of> {
        if waits == Some(Awaited::Turn) || told.is_some() {
            return Vec::new();
        }
        self.unqueue(&of.uid);
        let upgrade = self.upgrades.get(&of.uid);
        let turn = upgrade.and_then(|upgrade| upgrade.turn).filter(|turn| !turn.has_begun);
        match turn {
            None => Vec::new(),
            Some(_) if standing.is_in_progress() => Vec::new(),
            Some(turn) => {
                let was_paused = self.is_paused;
                self.upgrades.remove(&of.uid);
                if standing == Progress::Failed {
                    self.count_failure(&of.uid, turn, limits);
                }
                self.next_to_ask(was_paused, &of.namespace, limits, now)
            }
        }
    }

    /// Records the standing of a resource as the watch shows it, in the order in which its status was written. Returns
    /// the upgrades that should ask now.
    pub fn seen(
        &mut self,
        of: &Of,
        generation: i64,
        standing: Progress,
        limits: &Limits,
        now: Timestamp,
    ) -> Vec<Of> {
        let (before, was_paused) = (self.held().count(), self.is_paused);
        let upgrade = self.upgrades.get_mut(&of.uid);
        let turn = upgrade.as_ref().and_then(|upgrade| upgrade.turn);
        match (standing, upgrade) {
            (Progress::Preparing | Progress::UnderWay | Progress::Starting, Some(upgrade)) => {
                upgrade.of.parent.clone_from(&of.parent);
                upgrade.stand(standing, now);
                if let Some(turn) = &mut upgrade.turn {
                    turn.has_begun = true;
                }
            }
            (Progress::Deployed { .. }, Some(upgrade)) => {
                if turn.is_none_or(|turn| turn.has_begun) {
                    upgrade.stand(standing, now);
                }
            }
            (_, None) if standing.takes_a_place() => {
                self.upgrades.insert(of.uid.clone(), Upgrade::new(of, standing, None, now));
            }
            (
                Progress::Preparing
                | Progress::UnderWay
                | Progress::Starting
                | Progress::Deployed { .. },
                None,
            ) => {}
            (Progress::Stable | Progress::Failed | Progress::Idle, _) => {
                if turn.is_none_or(|turn| turn.has_begun) {
                    self.upgrades.remove(&of.uid);
                    self.count(&of.uid, turn, standing, limits);
                }
            }
        }
        if standing == Progress::Failed {
            let generation = turn.map_or(generation, |turn| turn.generation);
            self.failed.entry(of.uid.clone()).or_insert(generation);
        } else if standing == Progress::Stable {
            self.failed.remove(&of.uid);
        }
        self.expire(limits, now);
        if self.held().count() < before {
            return self.next_to_ask(was_paused, &of.namespace, limits, now);
        }
        Vec::new()
    }

    /// Returns the upgrades that should ask after one has ended: those whose turn it is, and all that must learn that
    /// they are held back.
    fn next_to_ask(
        &mut self,
        was_paused: bool,
        namespace: &str,
        limits: &Limits,
        now: Timestamp,
    ) -> Vec<Of> {
        if self.is_paused && !was_paused {
            let waiting = self.waiting.values().flat_map(BTreeMap::values);
            return waiting.map(|waiting| waiting.of.clone()).collect();
        }
        self.wake_next(namespace, limits, now)
    }

    /// Restores what a previous operator wrote into this status, from a first list.
    pub fn restore(&mut self, of: &Of, generation: i64, record: Record, now: Timestamp) {
        let Record { standing, told } = record;
        if let Some(told) = told {
            let held_back = told.is_paused.then_some(told.generation);
            self.is_paused |= told.is_paused;
            self.queue(of, told.generation, held_back);
        }
        if standing.takes_a_place() {
            let turn = Some(Taken { generation, has_begun: true, is_probe: false });
            self.upgrades.insert(of.uid.clone(), Upgrade::new(of, standing, turn, now));
        }
    }

    /// Forgets a resource that is gone, or that belongs to another operator. Returns the upgrades that should ask now.
    pub fn gone(&mut self, uid: &str, limits: &Limits, now: Timestamp) -> Vec<Of> {
        self.unqueue(uid);
        self.failed.remove(uid);
        let upgrade = self.upgrades.remove(uid);
        upgrade.map_or_else(Vec::new, |it| self.wake_next(&it.of.namespace, limits, now))
    }

    /// Resumes the upgrades on request of a person. Returns the upgrades that should ask now.
    pub fn resume(&mut self, limits: &Limits, now: Timestamp) -> Vec<Of> {
        self.is_paused = false;
        self.failures = 0;
        let namespaces: Vec<String> = self.waiting.keys().cloned().collect();
        namespaces.iter().flat_map(|it| self.wake_next(it, limits, now)).collect()
    }

    fn count(&mut self, uid: &str, turn: Option<Taken>, standing: Progress, limits: &Limits) {
        match (turn, standing) {
            (Some(turn), Progress::Failed) => self.count_failure(uid, turn, limits),
            (Some(turn), Progress::Stable) => {
                self.failures = 0;
                self.is_paused &= !turn.is_probe;
            }
            _ => {}
        }
    }

    fn count_failure(&mut self, uid: &str, turn: Taken, limits: &Limits) {
        if self.failed.insert(uid.to_owned(), turn.generation) == Some(turn.generation) {
            // It was tried again, and tells nothing new.
            return;
        }
        self.failures += 1;
        if limits.failures.is_some_and(|most| self.failures >= most) {
            self.is_paused = true;
            self.failures = 0;
            for waiting in self.waiting.values_mut().flat_map(BTreeMap::values_mut) {
                waiting.held_back = Some(waiting.generation);
            }
        }
    }

    /// Returns those that keep others from beginning. A transition counts once, whatever its children do meanwhile, and
    /// so does a session cluster whose jobs go down with it.
    fn held(&self) -> impl Iterator<Item = &Upgrade> {
        let is_held = |upgrade: &Upgrade| !upgrade.is_given_up;
        self.upgrades.values().filter(move |upgrade| {
            let parent = upgrade.of.parent.as_ref().and_then(|parent| self.upgrades.get(parent));
            is_held(upgrade) && !parent.is_some_and(is_held)
        })
    }

    /// Returns the answer to one that waits for those that have a turn.
    fn wait_of(&self, of: &Of, limits: &Limits, now: Timestamp) -> Turn {
        let is_full =
            |most: u32| self.held().count() >= usize::try_from(most).unwrap_or(usize::MAX);
        // Otherwise it waits for its own namespace.
        let is_any = limits.at_once.is_some_and(is_full);
        let longest = self
            .held()
            .filter(|upgrade| is_any || upgrade.of.namespace == of.namespace)
            .min_by_key(|upgrade| (upgrade.begun, &upgrade.of.uid))
            .filter(|upgrade| now.duration_since(upgrade.begun) >= NAMED_AFTER);
        longest.map_or(Turn::Waits, |Upgrade { of, begun, .. }| Turn::WaitsFor {
            name: of.shown(),
            since: *begun,
        })
    }

    /// Treats upgrades that do not get any further in time as failed, and stops waiting for them.
    fn expire(&mut self, limits: &Limits, now: Timestamp) {
        if limits.is_unlimited() {
            // Nothing waits for it, and the whole fleet may be under way.
            return;
        }
        let had_patience = |since: Timestamp| now.duration_since(since) >= limits.patience;
        let is_late = |upgrade: &Upgrade| match upgrade.standing {
            Progress::Deployed { since, .. } => had_patience(since),
            // It has its turn, and its passes end before it begins.
            Progress::Idle => had_patience(upgrade.begun),
            Progress::Preparing
            | Progress::UnderWay
            | Progress::Starting
            | Progress::Stable
            | Progress::Failed => false,
        };
        let late: Vec<_> = self.upgrades.extract_if(|_, upgrade| is_late(upgrade)).collect();
        for (uid, upgrade) in late {
            if upgrade.standing != Progress::Idle {
                self.count(&uid, upgrade.turn, Progress::Failed, limits);
            }
        }
        // These stay known: what the watch shows of them next is not the beginning of another upgrade.
        let stuck = self.upgrades.iter_mut().filter(|(_, upgrade)| {
            matches!(upgrade.standing, Progress::UnderWay | Progress::Starting)
                && !upgrade.is_given_up
                && had_patience(upgrade.stands_since)
        });
        let stuck: Vec<(String, Option<Taken>)> = stuck
            .map(|(uid, upgrade)| {
                upgrade.is_given_up = true;
                (uid.clone(), upgrade.turn.take())
            })
            .collect();
        for (uid, turn) in stuck {
            self.count(&uid, turn, Progress::Failed, limits);
        }
    }

    fn queue(&mut self, of: &Of, generation: i64, held_back: Option<i64>) -> &mut Waiting {
        let next = (of.namespace.clone(), self.asked);
        let is_paused = self.is_paused;
        let (namespace, number) = self.places.entry(of.uid.clone()).or_insert(next).clone();
        self.asked += 1;
        let line = self.waiting.entry(namespace).or_default();
        let waiting = line.entry(number).or_insert_with(|| Waiting {
            of: of.clone(),
            generation,
            held_back: held_back.or_else(|| is_paused.then_some(generation)),
            woken: None,
        });
        waiting.generation = generation;
        waiting
    }

    fn unqueue(&mut self, uid: &str) {
        let Some((namespace, number)) = self.places.remove(uid) else { return };
        if let Some(line) = self.waiting.get_mut(&namespace) {
            line.remove(&number);
            if line.is_empty() {
                self.waiting.remove(&namespace);
            }
        }
    }

    /// Returns true if the upgrade failed or was held back, and its spec was changed since.
    fn is_edited(&self, uid: &str) -> bool {
        let place = self.places.get(uid);
        let waiting = place.and_then(|(namespace, it)| self.waiting.get(namespace)?.get(it));
        waiting.is_some_and(|it| {
            let is_newer = |generation: Option<i64>| generation.is_some_and(|g| g < it.generation);
            is_newer(it.held_back) || is_newer(self.failed.get(uid).copied())
        })
    }

    /// Returns the uids of those whose turn it is. The namespace with the fewest upgrades under way comes first, and
    /// among those the one that has waited longest. Ends with the one that asks, if it is one of them.
    fn next(
        &self,
        (of_namespace, asks): (&str, &str),
        limits: &Limits,
        now: Timestamp,
    ) -> Vec<String> {
        let mut under_way: HashMap<&str, u32> = HashMap::new();
        for upgrade in self.held() {
            *under_way.entry(&upgrade.of.namespace).or_default() += 1;
        }
        let all = u32::try_from(self.held().count()).unwrap_or(u32::MAX);
        let mut free = limits.at_once.map(|most| most.saturating_sub(all));
        let may_ask = |waiting: &&Waiting| {
            let is_silent = |at| now.duration_since(at) >= ANSWER_TIMEOUT;
            !waiting.woken.is_some_and(is_silent)
                && (!self.is_paused || self.is_edited(&waiting.of.uid))
        };
        let lines = self.waiting.iter().filter(|(namespace, _)| {
            // Without a common budget, no namespace waits for another one.
            limits.at_once.is_some() || **namespace == *of_namespace
        });
        let mut lines: Vec<_> = lines
            .map(|(namespace, line)| (namespace, line.values().filter(may_ask).peekable()))
            .collect();
        let mut next = Vec::new();
        while free != Some(0) {
            let most = limits.at_once_in_a_namespace;
            let taken = |namespace: &str| under_way.get(namespace).copied().unwrap_or_default();
            let line = lines
                .iter_mut()
                .filter(|(namespace, _)| most.is_none_or(|most| taken(namespace) < most))
                .filter_map(|(namespace, line)| line.peek().is_some().then_some((namespace, line)))
                .min_by_key(|(namespace, _)| (taken(namespace), self.served.get(**namespace)));
            let Some((namespace, line)) = line else { break };
            *under_way.entry(namespace).or_default() += 1;
            free = free.map(|free| free - 1);
            let Some(waiting) = line.next() else { break };
            next.push(waiting.of.uid.clone());
            if waiting.of.uid == asks {
                break;
            }
        }
        next
    }

    fn wake_next(&mut self, namespace: &str, limits: &Limits, now: Timestamp) -> Vec<Of> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let next = self.next((namespace, ""), limits, now);
        let mut woken = Vec::new();
        for uid in next {
            let Some((namespace, number)) = self.places.get(&uid) else { continue };
            let line = self.waiting.get_mut(namespace);
            if let Some(waiting) = line.and_then(|line| line.get_mut(number))
                && waiting.woken.is_none()
            {
                waiting.woken = Some(now);
                woken.push(waiting.of.clone());
            }
        }
        woken
    }
}

mod blue_green;
mod record;
mod session_job;
#[cfg(test)]
mod tests;
