//! The books on all resources: what each is, what it went through, and how its passes end.
//!
//! Counts are computed from what is known when a reporter asks, so that they cannot drift away from it. A resource
//! becomes known only by its watch.

mod count;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::family::Id;
use super::histogram::{Histogram, Room};
use super::lifecycle::{Timed, Tracker};
use super::scaling::{Ended, Figure, Scaling};
use super::{Facts, Kind, Now, Settings};

/// Maximum number of namespaces that once had a resource and have none now: their counts stay, at zero, until there are
/// more of them.
const EMPTY_GROUPS_MAX: usize = 1000;

/// Maximum number of deleted resources whose deletions are still reported; the earliest are forgotten.
const DELETED_MAX: usize = 1000;

/// Time after which a JobManager is asked again for the newest checkpoint of its job.
const ASK_AGAIN: Duration = Duration::from_mins(1);

/// A resource as a watch shows it.
#[derive(Clone, Debug)]
pub struct Sighting<'s> {
    pub uid: &'s str,
    pub namespace: &'s str,
    pub name: &'s str,
    /// Its resource version, which grows with each change.
    pub version: u64,
    pub created: Option<Timestamp>,
    pub facts: Facts,
}

struct Resource {
    id: Arc<Id>,
    version: u64,
    /// The last list that showed it.
    list: u64,
    facts: Facts,
    tracker: Option<Tracker>,
    counts: Counts,
    /// The running pass.
    pass: Option<Pass>,
    /// Whether the last pass failed.
    has_failed: bool,
    wait: Wait,
    /// Set for a job that has an autoscaler.
    scaling: Option<Box<Scaling>>,
    asked: Asked,
}

/// What a running job has saved, and when it was last asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    at: Option<Duration>,
    saved: Option<Saved>,
}

/// What a running job that takes checkpoints has saved.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Saved {
    /// When the newest completed checkpoint or savepoint was triggered.
    pub newest: Option<Timestamp>,
    pub started: Timestamp,
}

/// What a resource waits for, as far as it is counted.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Wait {
    /// Nothing, or something for no longer than is normal.
    #[default]
    Normal,
    /// Something, for longer than is normal.
    Late,
    /// To be unpaused.
    Paused,
}

/// Counts since the process first saw the resource.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    added: u32,
    updated: u32,
    /// Earlier resources of its name that were deleted.
    deleted: u32,
    passes: u32,
    retries: u32,
    finished: u32,
    failed: u32,
    cleanups: u32,
}

/// A pass, and what it has written so far.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "what it is, and three things that it may write")]
struct Pass {
    began: Duration,
    is_cleanup: bool,
    wrote_status: bool,
    wrote_metadata: bool,
    let_go: bool,
}

impl Pass {
    /// Returns the kind of the pass, and how it ended.
    fn name(self, has_failed: bool) -> (&'static str, &'static str) {
        match (self.is_cleanup, has_failed) {
            (true, true) => ("cleanup", "failed"),
            (true, false) if self.let_go => ("cleanup", "delete"),
            (true, false) => ("cleanup", "finalizerNotRemoved"),
            (false, true) => ("reconcile", "failed"),
            (false, false) => match (self.wrote_status, self.wrote_metadata) {
                (true, true) => ("reconcile", "both"),
                (true, false) => ("reconcile", "status"),
                (false, _) => ("reconcile", "resource"),
            },
        }
    }
}

/// Durations in seconds, by what took them.
type Timings = BTreeMap<(&'static str, &'static str), Histogram>;

/// The resources of a kind in a namespace.
#[derive(Default)]
struct Group {
    resources: usize,
    /// When it lost its last resource, as a growing number.
    emptied: u64,
    /// How often a job began to fail.
    failures: u64,
    timings: Timings,
    /// Durations of passes, by their kind and how they ended.
    passes: Timings,
}

/// Everything that is known.
pub(super) struct Fleet {
    settings: Settings,
    room: Room,
    resources: HashMap<Box<str>, Resource>,
    /// Deleted resources, and how often one of that name was deleted.
    deleted: VecDeque<(Arc<Id>, u32)>,
    groups: BTreeMap<(Kind, Arc<str>), Group>,
    systems: BTreeMap<Kind, Timings>,
    /// Grows with each list, and with each group that becomes empty.
    clock: u64,
    /// The running list of a kind, in one namespace or in all.
    lists: HashMap<(Kind, Option<Box<str>>), u64>,
}

impl Fleet {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            settings: settings.clone(),
            room: Room::new(usize::try_from(settings.sample_size).unwrap_or(usize::MAX)),
            resources: HashMap::new(),
            deleted: VecDeque::new(),
            groups: BTreeMap::new(),
            systems: BTreeMap::new(),
            clock: 0,
            lists: HashMap::new(),
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(super) fn list_begins(&mut self, kind: Kind, namespace: Option<&str>) {
        let list = self.tick();
        self.lists.insert((kind, namespace.map(Into::into)), list);
    }

    pub(super) fn list_ends(&mut self, kind: Kind, namespace: Option<&str>, now: Now) {
        let Some(list) = self.lists.remove(&(kind, namespace.map(Into::into))) else { return };
        for uid in self.last_listed_before(list, kind, namespace) {
            self.gone(&uid, now);
        }
    }

    /// Removes what is no longer watched, which is not a deletion.
    pub(super) fn scope_closes(&mut self, kind: Kind, namespace: Option<&str>, now: Now) {
        for uid in self.last_listed_before(u64::MAX, kind, namespace) {
            let _left = self.leave(&uid, now);
        }
        self.deleted.retain(|(id, _)| !is_in(id, kind, namespace));
    }

    fn last_listed_before(&self, list: u64, kind: Kind, namespace: Option<&str>) -> Vec<Box<str>> {
        let resources = self.resources.iter();
        let missing = resources.filter(|(_, it)| it.list < list && is_in(&it.id, kind, namespace));
        missing.map(|(uid, _)| uid.clone()).collect()
    }

    pub(super) fn see(&mut self, sighting: &Sighting<'_>, now: Now) {
        let list = self.tick();
        let Sighting { uid, namespace: _, name: _, version, created: _, facts } = sighting;
        let Some(known) = self.resources.get_mut(*uid) else {
            return self.meet(sighting, list, now);
        };
        known.list = list;
        if known.version < *version {
            known.counts.updated = known.counts.updated.saturating_add(1);
            known.version = *version;
        } else if known.version > *version {
            // Our own last write has not been shown yet.
            return;
        }
        self.note(uid, facts.clone(), now);
    }

    fn meet(&mut self, sighting: &Sighting<'_>, list: u64, now: Now) {
        let Sighting { uid, namespace, name, version, created, facts } = sighting;
        let kind = facts.kind();
        let key = (kind, Arc::from(*namespace));
        let group = self.groups.entry(key.clone()).or_default();
        group.resources += 1;
        let tracker = Tracker::new(facts, *created, now.time).filter(|_| self.settings.lifecycle);
        if let Some(tracker) = &tracker {
            let empty = || tracker.all().into_iter().map(|timed| (timed, Histogram::default()));
            self.systems.entry(kind).or_insert_with(|| empty().collect());
        }
        let id = Arc::new(Id { kind, namespace: key.1, name: (*name).into() });
        let earlier = self.deleted.iter().position(|(earlier, _)| *earlier == id);
        let deleted = earlier.and_then(|place| self.deleted.remove(place));
        let deleted = deleted.map_or(0, |(_, deleted)| deleted);
        let counts = Counts { added: 1, deleted, ..Counts::default() };
        let resource = Resource {
            id,
            version: *version,
            list,
            facts: facts.clone(),
            tracker,
            counts,
            pass: None,
            has_failed: false,
            wait: Wait::Normal,
            scaling: None,
            asked: Asked::default(),
        };
        self.resources.insert((*uid).into(), resource);
    }

    pub(super) fn status_written(&mut self, uid: &str, version: u64, facts: Facts, now: Now) {
        let Some(known) = self.resources.get_mut(uid) else { return };
        if let Some(pass) = &mut known.pass {
            pass.wrote_status = true;
        }
        known.version = known.version.max(version);
        self.note(uid, facts, now);
    }

    /// Notes the present facts about the resource.
    fn note(&mut self, uid: &str, facts: Facts, now: Now) {
        let Some(known) = self.resources.get_mut(uid) else { return };
        let tracker = known.tracker.as_mut();
        let timed = tracker.map(|tracker| tracker.see(&facts, now.time)).unwrap_or_default();
        let begins_to_fail = facts.is_failing() && !known.facts.is_failing();
        known.facts = facts;
        if timed.is_empty() && !begins_to_fail {
            return;
        }
        let key = (known.id.kind, Arc::clone(&known.id.namespace));
        record(self.systems.entry(key.0).or_default(), &timed, &mut self.room);
        let Some(group) = self.groups.get_mut(&key) else { return };
        group.failures = group.failures.saturating_add(begins_to_fail.into());
        if self.settings.namespace_histograms {
            record(&mut group.timings, &timed, &mut self.room);
        }
    }

    pub(super) fn gone(&mut self, uid: &str, now: Now) {
        let Some(resource) = self.leave(uid, now) else { return };
        self.deleted.push_back((resource.id, resource.counts.deleted.saturating_add(1)));
        if self.deleted.len() > DELETED_MAX {
            self.deleted.pop_front();
        }
    }

    fn leave(&mut self, uid: &str, now: Now) -> Option<Resource> {
        let resource = self.resources.remove(uid)?;
        if let Some(pass) = resource.pass.filter(|pass| pass.is_cleanup) {
            // The watch is faster than the end of the pass that removed the finalizer.
            self.note_pass(
                &resource.id,
                Pass { let_go: true, ..pass }.name(false),
                pass.began,
                now,
            );
        }
        let emptied = self.tick();
        let key = (resource.id.kind, Arc::clone(&resource.id.namespace));
        if let Some(group) = self.groups.get_mut(&key) {
            group.resources = group.resources.saturating_sub(1);
            if group.resources == 0 {
                group.emptied = emptied;
                self.forget_old_groups();
            }
        }
        Some(resource)
    }

    fn forget_old_groups(&mut self) {
        let empty = || self.groups.iter().filter(|(_, group)| group.resources == 0);
        if empty().count() <= EMPTY_GROUPS_MAX {
            return;
        }
        let oldest = empty().min_by_key(|(_, group)| group.emptied).map(|(key, _)| key.clone());
        let Some(group) = oldest.and_then(|key| self.groups.remove(&key)) else { return };
        for histogram in group.timings.into_values().chain(group.passes.into_values()) {
            histogram.discard(&mut self.room);
        }
    }

    pub(super) fn cycle_ended(&mut self, uid: &str, ended: Ended, figures: Option<Vec<Figure>>) {
        if let Some(known) = self.resources.get_mut(uid) {
            known.scaling.get_or_insert_default().note(ended, figures);
        }
    }

    pub(super) fn forget_scaling_figures(&mut self, uid: &str) {
        let known = self.resources.get_mut(uid);
        if let Some(scaling) = known.and_then(|known| known.scaling.as_mut()) {
            scaling.forget_figures();
        }
    }

    pub(super) fn asks_when_saved(&mut self, uid: &str, now: Now) -> bool {
        let Some(known) = self.resources.get_mut(uid).filter(|_| self.settings.resources) else {
            return false;
        };
        let asked = known.asked.at;
        if asked.is_some_and(|asked| now.clock.saturating_sub(asked) < ASK_AGAIN) {
            return false;
        }
        known.asked.at = Some(now.clock);
        true
    }

    pub(super) fn saved(&mut self, uid: &str, saved: Option<Saved>) {
        if let Some(known) = self.resources.get_mut(uid) {
            known.asked.saved = saved;
        }
    }

    pub(super) fn all_saved(&self) -> Vec<(Arc<Id>, Saved)> {
        let resources = self.resources.values();
        resources.filter_map(|of| Some((Arc::clone(&of.id), of.asked.saved?))).collect()
    }

    pub(super) fn metadata_written(&mut self, uid: &str, lets_go: bool) {
        if let Some(pass) = self.resources.get_mut(uid).and_then(|known| known.pass.as_mut()) {
            pass.wrote_metadata = true;
            pass.let_go |= lets_go;
        }
    }

    pub(super) fn note_wait(&mut self, uid: &str, wait: Wait) {
        if let Some(known) = self.resources.get_mut(uid) {
            known.wait = wait;
        }
    }

    pub(super) fn pass_begins(&mut self, uid: &str, is_cleanup: bool, now: Now) {
        let Some(known) = self.resources.get_mut(uid) else { return };
        known.pass = Some(Pass {
            began: now.clock,
            is_cleanup,
            wrote_status: false,
            wrote_metadata: false,
            let_go: false,
        });
        known.counts.passes = known.counts.passes.saturating_add(1);
        known.counts.retries = known.counts.retries.saturating_add(known.has_failed.into());
    }

    pub(super) fn pass_ends(&mut self, uid: &str, has_failed: bool, now: Now) {
        let Some(known) = self.resources.get_mut(uid) else { return };
        let Some(pass) = known.pass.take() else { return };
        if let Some(tracker) = &mut known.tracker {
            // The state is unchanged: no time comes to its end.
            let _none = tracker.see(&known.facts, now.time);
        }
        known.has_failed = has_failed;
        let counts = &mut known.counts;
        let ended = if has_failed { &mut counts.failed } else { &mut counts.finished };
        *ended = ended.saturating_add(1);
        if pass.let_go && !has_failed {
            counts.cleanups = counts.cleanups.saturating_add(1);
        }
        let id = Arc::clone(&known.id);
        self.note_pass(&id, pass.name(has_failed), pass.began, now);
    }

    fn note_pass(
        &mut self,
        of: &Id,
        name: (&'static str, &'static str),
        began: Duration,
        now: Now,
    ) {
        let key = (of.kind, Arc::clone(&of.namespace));
        if self.settings.passes
            && let Some(group) = self.groups.get_mut(&key)
        {
            // Whole seconds, as in Java.
            let seconds = super::number(now.clock.saturating_sub(began).as_secs());
            group.passes.entry(name).or_default().record(seconds, &mut self.room);
        }
    }

    pub(super) fn forget_versions(&mut self) {
        for resource in self.resources.values_mut() {
            resource.version = 0;
        }
    }
}

fn is_in(id: &Id, kind: Kind, namespace: Option<&str>) -> bool {
    id.kind == kind && namespace.is_none_or(|namespace| *id.namespace == *namespace)
}

fn record(timings: &mut Timings, timed: &[(Timed, u64)], room: &mut Room) {
    for (timed, seconds) in timed {
        timings.entry(*timed).or_default().record(super::number(*seconds), room);
    }
}

#[cfg(test)]
mod tests;
