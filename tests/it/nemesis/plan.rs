//! What happens when, from a seed: faults, and edits of the resources. The same seed makes the same plan.

use std::time::Duration;

use testing::choices::Choices;

/// Faults that may be in progress at the same time.
const FAULTS_AT_ONCE: usize = 2;
/// Nothing begins in the last seconds, so that the plan ends in time.
const QUIET_END: u64 = 60;

/// A resource with a job, or the session cluster of one.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Target {
    Native,
    Standalone,
    Lab,
    Session,
    Colours,
}

impl Target {
    pub(super) const ALL: [Self; 5] =
        [Self::Native, Self::Standalone, Self::Lab, Self::Session, Self::Colours];
    /// Those that are edited more often come twice: only one can have hot upgrades, and a transition takes long.
    const EDITED: [Self; 7] = [
        Self::Native,
        Self::Standalone,
        Self::Standalone,
        Self::Lab,
        Self::Session,
        Self::Colours,
        Self::Colours,
    ];
    /// Those with JobManagers of their own.
    const CLUSTERS: [Self; 4] = [Self::Native, Self::Standalone, Self::Lab, Self::Colours];
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Role {
    JobManager,
    TaskManager,
}

/// Writes that a webhook rejects.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Rejected {
    Pods,
    Deployments,
    /// Flink's HA metadata among them.
    ConfigMaps,
    Statuses,
    Services,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Edit {
    Parallelism(u64),
    UpgradeMode(&'static str),
    /// Milliseconds between checkpoints.
    Option(u64),
    RestartNonce(u64),
    Hot(bool),
    SavepointNonce(u64),
    /// A `FlinkStateSnapshot`.
    Snapshot(u64),
    /// Resumed when it is over.
    Suspend,
    /// The former image is back when it is over.
    BadImage,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum What {
    /// The JVM is killed.
    Kill(Target, Role),
    /// The JVM is stopped, and continues when this is over.
    Pause(Target, Role),
    KillLeader,
    KillOperators,
    PauseLeader,
    PauseOperators,
    /// The API server is killed, and started again when this is over.
    ApiServer,
    Webhook(Rejected),
    /// The object store answers 503.
    StoreUnavailable,
    StoreSlow,
    Cordon,
    /// All Flink pods are evicted, and can start again when this is over.
    Drain,
    Edit(Target, Edit),
}

impl What {
    pub(super) fn is_edit(&self) -> bool {
        matches!(self, Self::Edit(..))
    }

    /// Whether the operator cannot write while it lasts, so that a status cannot tell anything.
    pub(super) fn mutes_operator(&self) -> bool {
        matches!(
            self,
            Self::KillOperators
                | Self::PauseOperators
                | Self::KillLeader
                | Self::PauseLeader
                | Self::ApiServer
                | Self::Webhook(Rejected::Statuses)
        )
    }

    /// Whether two of them cannot happen at once, because they use the same thing.
    fn excludes(&self, other: &Self) -> bool {
        let thing = |what: &Self| match what {
            Self::Kill(target, _) | Self::Pause(target, _) => (0, Some(*target)),
            Self::KillLeader | Self::KillOperators | Self::PauseLeader | Self::PauseOperators => {
                (1, None)
            }
            Self::ApiServer => (2, None),
            Self::Webhook(_) => (3, None),
            Self::StoreUnavailable | Self::StoreSlow => (4, None),
            Self::Cordon | Self::Drain => (5, None),
            Self::Edit(target, _) => (6, Some(*target)),
        };
        thing(self) == thing(other)
    }
}

/// Something that begins at a time and is over after another one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Event {
    pub(super) at: Duration,
    pub(super) lasts: Duration,
    pub(super) what: What,
}

impl Event {
    fn is_over_at(&self, now: u64) -> bool {
        (self.at + self.lasts).as_secs() <= now
    }
}

/// Returns the events of so many seconds, by their times.
pub(super) fn plan(seed: u64, seconds: u64) -> Vec<Event> {
    let mut choices = Choices::new(seed);
    let mut events: Vec<Event> = Vec::new();
    let (mut next_fault, mut next_edit) = (5, 10);
    let mut number = 0;
    for now in 0..seconds.saturating_sub(QUIET_END) {
        let begin = |events: &mut Vec<Event>, (what, lasts): (What, u64)| {
            // Everything is over when the plan ends.
            let lasts = Duration::from_secs(lasts.min(seconds - now));
            let is_free = |event: &Event| event.is_over_at(now) || !what.excludes(&event.what);
            if events.iter().all(is_free) {
                events.push(Event { at: Duration::from_secs(now), lasts, what });
            }
        };
        let is_fault = |event: &&Event| !event.what.is_edit() && !event.is_over_at(now);
        if now >= next_fault && events.iter().filter(is_fault).count() < FAULTS_AT_ONCE {
            begin(&mut events, fault(&mut choices));
            next_fault = now + 5 + choices.below(20);
        }
        if now >= next_edit {
            number += 1;
            begin(&mut events, edit(&mut choices, number));
            next_edit = now + 10 + choices.below(30);
        }
    }
    events
}

fn one<T: Copy>(choices: &mut Choices, all: &[T]) -> T {
    all[usize::try_from(choices.below(all.len() as u64)).unwrap()]
}

/// Returns a fault and how long it lasts.
fn fault(choices: &mut Choices) -> (What, u64) {
    let role = if choices.below(2) == 0 { Role::JobManager } else { Role::TaskManager };
    let target = one(choices, &Target::CLUSTERS);
    let rejected = [
        Rejected::Pods,
        Rejected::Deployments,
        Rejected::ConfigMaps,
        Rejected::Statuses,
        Rejected::Services,
    ];
    let rejected = one(choices, &rejected);
    let some = choices.below(30);
    match choices.below(20) {
        0..=3 => (What::Kill(target, role), 1),
        4 | 5 => (What::Pause(target, role), 5 + 2 * some),
        6 | 7 => (What::KillLeader, 1 + some),
        8 => (What::KillOperators, 1 + some),
        // Some are longer than the lease, others are not.
        9 | 10 => (What::PauseLeader, 3 + 2 * some),
        11 => (What::PauseOperators, 3 + some),
        12 => (What::ApiServer, 1 + some / 3),
        13..=15 => (What::Webhook(rejected), 5 + some),
        16 => (What::StoreUnavailable, 5 + some),
        17 => (What::StoreSlow, 10 + 2 * some),
        18 => (What::Cordon, 5 + some),
        _ => (What::Drain, 5 + some / 2),
    }
}

/// Returns an edit, and how long it lasts if it is taken back.
fn edit(choices: &mut Choices, number: u64) -> (What, u64) {
    let target = one(choices, &Target::EDITED);
    let mode = one(choices, &["savepoint", "last-state"]);
    let some = choices.below(30);
    let (edit, lasts) = match choices.below(16) {
        0..=2 => (Edit::Parallelism(1 + choices.below(2)), 0),
        3 | 4 => (Edit::UpgradeMode(mode), 0),
        5 | 6 => (Edit::Option(100 * (1 + choices.below(9))), 0),
        7 | 8 => (Edit::RestartNonce(number), 0),
        9 => (Edit::Hot(choices.below(4) > 0), 0),
        10 => (Edit::SavepointNonce(number), 0),
        11 | 12 => (Edit::Snapshot(number), 0),
        13 | 14 => (Edit::Suspend, 5 + 2 * some),
        _ => (Edit::BadImage, 5 + 2 * some),
    };
    (What::Edit(target, suited(target, edit, number)), lasts)
}

/// Returns the edit, or one that this target has instead.
fn suited(target: Target, edit: Edit, number: u64) -> Edit {
    match (target, &edit) {
        // A session cluster has no job, and a session job no image and no pods.
        (Target::Lab, Edit::Option(_) | Edit::BadImage) => edit,
        (Target::Lab, _) | (Target::Session, Edit::BadImage) => Edit::RestartNonce(number),
        (Target::Session | Target::Native | Target::Colours, Edit::Hot(_)) => {
            Edit::Parallelism(1 + number % 2)
        }
        // The children of a blue/green deployment have other names each time.
        (Target::Colours, Edit::Snapshot(_)) => Edit::SavepointNonce(number),
        _ => edit,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_seed_makes_one_plan() {
        assert_eq!(plan(7, 600), plan(7, 600));
        assert_ne!(plan(7, 600), plan(8, 600));
        assert!(plan(7, 30).is_empty());
    }

    #[test]
    fn everything_is_over_in_time_and_little_happens_at_once() {
        for seed in 0..50 {
            let events = plan(seed, 900);
            assert!(events.len() > 50, "{} events", events.len());
            assert!(events.iter().all(|event| (event.at + event.lasts).as_secs() <= 900));
            assert!(events.windows(2).all(|two| two[0].at <= two[1].at));
            for now in 0..900 {
                let goes_on = |event: &&Event| event.at.as_secs() <= now && !event.is_over_at(now);
                let now: Vec<&Event> = events.iter().filter(goes_on).collect();
                let faults = now.iter().filter(|event| !event.what.is_edit()).count();
                assert!(faults <= FAULTS_AT_ONCE);
                for (at, event) in now.iter().enumerate() {
                    assert!(now[..at].iter().all(|other| !event.what.excludes(&other.what)));
                }
            }
        }
    }

    #[test]
    fn an_hour_has_every_kind_of_event() {
        let kind =
            |event: &Event| format!("{:?}", event.what).split(['(', ',']).next().map(str::to_owned);
        let kinds: BTreeSet<_> = plan(1, 3600).iter().map(kind).collect();
        assert_eq!(kinds.len(), 13, "{kinds:?}");
    }
}
