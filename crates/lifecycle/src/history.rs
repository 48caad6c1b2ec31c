//! Decides which snapshots are too many or too old to keep.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::trigger::known::{KnownSnapshot, SnapshotKind};
use super::trigger::open_max;
use api::state_snapshot::SnapshotState;
use api::status::{Savepoint, SnapshotTriggerType};
use config::{FlinkConfig, OperatorConfig, options};

/// How many snapshots of a kind are kept, and for how long.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Limits {
    pub count: usize,
    /// Maximum age; `None` for no limit.
    pub age: Option<Duration>,
    /// The longest time a snapshot may be in progress.
    pub open: SignedDuration,
}

impl Limits {
    /// Reads the limits from the configuration. The operator's thresholds cap those of a job.
    pub fn of(kind: SnapshotKind, config: &FlinkConfig, operator: &OperatorConfig) -> Self {
        let (count, age) = match kind {
            SnapshotKind::Savepoint => {
                let cap = operator.base.find(&options::SAVEPOINT_HISTORY_MAX_COUNT_THRESHOLD);
                let count = config.get(&options::SAVEPOINT_HISTORY_MAX_COUNT).unwrap_or(10);
                let age = config.get(&options::SAVEPOINT_HISTORY_MAX_AGE);
                let age = age.unwrap_or(Duration::from_hours(24));
                let age_cap = operator.base.find(&options::SAVEPOINT_HISTORY_MAX_AGE_THRESHOLD);
                (
                    cap.ok().flatten().map_or(count, |cap| cap.min(count)),
                    Some(age_cap.ok().flatten().map_or(age, |cap| cap.min(age))),
                )
            }
            SnapshotKind::Checkpoint => {
                (config.get(&options::RETAINED_CHECKPOINTS).unwrap_or(1), None)
            }
        };
        Self { count: usize::try_from(count).unwrap_or(0), age, open: open_max(config) }
    }

    fn is_too_old(&self, created: Timestamp, now: Timestamp) -> bool {
        let Some(age) = self.age.and_then(|age| SignedDuration::try_from(age).ok()) else {
            return false;
        };
        now.duration_since(created) > age
    }
}

/// Returns the snapshots of a kind to remove, oldest first. Never among them are snapshots that a person requested, the
/// newest completed one, the last one, and the newest one taken for a node: without it, the notice of a node that stays
/// would be answered again. A snapshot in progress is neither too many nor too old. Its data would be left without a
/// record, and the newest one, which it will replace, would stay for ever if each successor were removed before it
/// completes. A snapshot is considered in progress only for as long as it may take.
pub fn expired(
    known: &[KnownSnapshot],
    kind: SnapshotKind,
    limits: Limits,
    now: Timestamp,
) -> Vec<&KnownSnapshot> {
    let is_ours = |snapshot: &&KnownSnapshot| {
        matches!(
            snapshot.trigger_type,
            SnapshotTriggerType::Periodic | SnapshotTriggerType::Upgrade
        )
    };
    let mut candidates: Vec<&KnownSnapshot> = known
        .iter()
        .filter(|snapshot| snapshot.kind == kind && !snapshot.is_deleting)
        .filter(is_ours)
        .collect();
    if candidates.len() < 2 {
        return Vec::new();
    }
    candidates.sort_by_key(|snapshot| (snapshot.created, snapshot.name.as_str()));
    let newest_complete =
        candidates.iter().rposition(|snapshot| snapshot.state == SnapshotState::Completed);
    let newest_notice = candidates.iter().rposition(|snapshot| !snapshot.notices.is_empty());
    let limit = limits.count.max(1);
    let mut left = candidates.len();
    let mut expired = Vec::new();
    for (index, snapshot) in candidates.into_iter().enumerate() {
        let is_being_taken =
            !snapshot.state.is_final() && now.duration_since(snapshot.created) <= limits.open;
        let is_needed = is_being_taken || [newest_complete, newest_notice].contains(&Some(index));
        let goes = left > limit || limits.is_too_old(snapshot.created, now);
        if goes && left > 1 && !is_needed {
            left -= 1;
            expired.push(snapshot);
        }
    }
    expired
}

/// Returns the entries of the deprecated history to remove, oldest first, when `completed` resources hold savepoints
/// too. Excess entries are removed in order: if one cannot be disposed of, the rest stay (`true`). Entries that are too
/// old are removed independently of each other.
pub fn expired_savepoints(
    history: &[Savepoint],
    completed: usize,
    limits: Limits,
    now: Timestamp,
) -> Vec<(&Savepoint, bool)> {
    if history.is_empty() || (history.len() == 1 && completed == 0) {
        return Vec::new();
    }
    let excess = history.len().saturating_sub(limits.count.saturating_sub(completed));
    // Only the history may hold the newest savepoint.
    let excess = if completed == 0 { excess.min(history.len() - 1) } else { excess };
    let too_many = history.iter().take(excess).map(|savepoint| (savepoint, true));
    let last = history.len() - 1;
    let too_old = history.iter().enumerate().skip(excess).filter(|(index, savepoint)| {
        let taken = Timestamp::from_millisecond(savepoint.time_stamp);
        (*index != last || completed > 0) && taken.is_ok_and(|taken| limits.is_too_old(taken, now))
    });
    too_many.chain(too_old.map(|(_, savepoint)| (savepoint, false))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_000_000;

    fn known(trigger_type: SnapshotTriggerType, states: &[SnapshotState]) -> Vec<KnownSnapshot> {
        let one = |(index, state): (usize, &SnapshotState)| KnownSnapshot {
            name: index.to_string(),
            uid: String::new(),
            version: String::new(),
            kind: SnapshotKind::Savepoint,
            trigger_type,
            state: *state,
            created: Timestamp::from_second(NOW - 100 + i64::try_from(index).unwrap()).unwrap(),
            path: None,
            nonce: None,
            asked_by: None,
            notices: Vec::new(),
            is_disposed_of: false,
            is_deleting: false,
        };
        states.iter().enumerate().map(one).collect()
    }

    /// Allows snapshots to be in progress for 100 seconds.
    fn limits(count: usize, age: Option<u64>) -> Limits {
        let open = SignedDuration::from_secs(100);
        Limits { count, age: age.map(Duration::from_secs), open }
    }

    fn names(known: &[KnownSnapshot], count: usize, age: Option<u64>) -> String {
        names_within(known, limits(count, age))
    }

    fn names_within(known: &[KnownSnapshot], limits: Limits) -> String {
        let now = Timestamp::from_second(NOW).unwrap();
        let gone = expired(known, SnapshotKind::Savepoint, limits, now);
        gone.iter().map(|snapshot| snapshot.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn scenario_12_history_cleanup() {
        use SnapshotState::{Abandoned, Completed, Failed, InProgress, TriggerPending};
        use SnapshotTriggerType::{Manual, Periodic, Unknown, Upgrade};
        let mixed = [Completed, Failed, Completed, Abandoned, Completed, InProgress];
        assert_eq!(names(&known(Periodic, &mixed), 2, None), "0 1 2 3");
        assert_eq!(names(&known(Upgrade, &mixed), 2, None), "0 1 2 3");
        assert_eq!(names(&known(Manual, &mixed), 2, None), "");
        assert_eq!(names(&known(Unknown, &mixed), 2, None), "");
        // By age, all are removed except the newest completed one and those in progress.
        assert_eq!(names(&known(Periodic, &mixed), 10, Some(5)), "0 1 2 3");
        assert_eq!(names(&known(Periodic, &[InProgress; 4]), 10, Some(5)), "");
        let brief = Limits { open: SignedDuration::from_secs(2), ..limits(10, Some(5)) };
        assert_eq!(names_within(&known(Periodic, &mixed), brief), "0 1 2 3 5");
        assert_eq!(names_within(&known(Periodic, &[InProgress; 4]), brief), "0 1 2");
        let early = [InProgress, Completed, Completed];
        assert_eq!(names(&known(Periodic, &early), 1, None), "1", "one that began before");
        assert_eq!(names(&known(Periodic, &[Completed, Failed, Failed, Failed]), 1, None), "1 2 3");
        assert_eq!(names(&known(Periodic, &[Completed, InProgress]), 1, None), "", "it is awaited");
        assert_eq!(names(&known(Periodic, &[Completed, Completed, InProgress]), 1, None), "0");
        let stuck = [Completed, TriggerPending, InProgress, TriggerPending, InProgress, InProgress];
        let limits = Limits { open: SignedDuration::from_secs(96), ..limits(1, None) };
        let gone = names_within(&known(Periodic, &stuck), limits);
        assert_eq!(gone, "1 2 3", "those that do not end are awaited no longer");
        assert_eq!(names(&known(Periodic, &[Completed; 4]), 10, None), "");
        assert_eq!(names(&known(Periodic, &[Completed; 3]), 0, None), "0 1", "one stays");
        let mut noticed = known(Periodic, &[Completed; 4]);
        noticed[1].notices.push("node".to_owned());
        assert_eq!(names(&noticed, 1, None), "0 2", "a node may still bear its notice");
        noticed[2].notices.push("other".to_owned());
        assert_eq!(names(&noticed, 1, None), "0 1");
        let limits = Limits::of(
            SnapshotKind::Checkpoint,
            &FlinkConfig::default(),
            &OperatorConfig::default(),
        );
        assert_eq!((limits.count, limits.age), (1, None), "checkpoints have no age");
        // Four attempts of eleven minutes, and pauses of 10, 20 and 40 seconds.
        assert_eq!(limits.open, SignedDuration::from_secs(4 * 11 * 60 + 70));
    }

    #[test]
    fn scenario_14_the_history_shrinks_by_what_resources_hold() {
        let entry = |second| Savepoint { time_stamp: second * 1000, ..Savepoint::default() };
        let history: Vec<Savepoint> = (NOW - 5..NOW).map(entry).collect();
        let now = Timestamp::from_second(NOW).unwrap();
        let left = |completed, count, age: Option<u64>| {
            let limits = limits(count, age);
            5 - expired_savepoints(&history, completed, limits, now).len()
        };
        assert_eq!([0, 1, 2, 3, 4].map(|completed| left(completed, 3, None)), [3, 2, 1, 0, 0]);
        assert_eq!(left(0, 0, None), 1, "nothing else holds the newest");
        assert_eq!(left(0, 10, Some(2)), 2);
        assert_eq!(left(0, 10, Some(0)), 1);
        assert_eq!(left(1, 10, Some(0)), 0);
    }

    #[test]
    fn the_operators_thresholds_cap_what_a_job_asks_for() {
        let config: FlinkConfig = [
            ("kubernetes.operator.savepoint.history.max.count", "50".to_owned()),
            ("kubernetes.operator.savepoint.history.max.age", "72 h".to_owned()),
        ]
        .into_iter()
        .collect();
        let caps: FlinkConfig = [
            ("kubernetes.operator.savepoint.history.max.count.threshold", "5".to_owned()),
            ("kubernetes.operator.savepoint.history.max.age.threshold", "1 h".to_owned()),
        ]
        .into_iter()
        .collect();
        let limits = Limits::of(SnapshotKind::Savepoint, &config, &OperatorConfig::new(caps));
        assert_eq!((limits.count, limits.age), (5, Some(Duration::from_hours(1))));
    }
}
