//! Conditions in addition to `Running`: each says what keeps a job from running, and is present only while it does. Those
//! for tools that know nothing of Flink are in [`crate::readiness`].
//!
//! The Java operator knows a single condition and replaces the whole list, so these disappear with the next status it
//! writes.

use jiff::Timestamp;

use super::world::PodProblem;
use api::status::Condition;

/// A pod of the cluster cannot run.
pub const PODS_READY: &str = "PodsReady";
/// The deployed spec was not ready within `kubernetes.operator.deployment.readiness.timeout`.
pub const PROGRESSING: &str = "Progressing";
/// Reason of [`PROGRESSING`], and of the error.
pub const READINESS_TIMEOUT: &str = "ReadinessTimeout";
/// A changed spec waits because other upgrades are under way or have failed.
pub const UPGRADE_ADMITTED: &str = "UpgradeAdmitted";
/// Reason of [`UPGRADE_ADMITTED`]: the maximum number of upgrades is under way.
pub const WAITS_FOR_TURN: &str = "WaitsForTurn";
/// Reason of [`UPGRADE_ADMITTED`]: too many upgrades failed.
pub const UPGRADES_PAUSED: &str = "UpgradesPaused";

/// The wait of an upgrade, as reported by its resource.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReportedWait {
    pub generation: i64,
    pub is_paused: bool,
}

impl ReportedWait {
    /// Returns what these conditions report.
    pub fn of(conditions: &[Condition]) -> Option<Self> {
        let condition = of_type(conditions, UPGRADE_ADMITTED)?;
        Some(Self {
            generation: condition.observed_generation?,
            is_paused: condition.reason.as_deref() == Some(UPGRADES_PAUSED),
        })
    }
}

/// Returns the conditions that are currently false.
pub fn problems(
    before: &[Condition],
    pod: Option<&PodProblem>,
    is_late: Option<&str>,
    now: Timestamp,
) -> Vec<Condition> {
    let pods = pod.map(|pod| (PODS_READY, pod.reason.as_str(), pod.message.as_str()));
    let progress = is_late.map(|cause| (PROGRESSING, READINESS_TIMEOUT, cause));
    pods.into_iter()
        .chain(progress)
        .map(|(type_, reason, message)| {
            condition(before, None, (type_, "False"), (reason, message), now)
        })
        .collect()
}

/// Returns the condition of this type.
pub fn of_type<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_.as_deref() == Some(type_))
}

/// Returns a condition with this type and status, and with this reason and message. Its transition time is kept while
/// the status stays.
pub(crate) fn condition(
    before: &[Condition],
    observed_generation: Option<i64>,
    (type_, status): (&str, &str),
    (reason, message): (&str, &str),
    now: Timestamp,
) -> Condition {
    Condition {
        type_: Some(type_.to_owned()),
        status: Some(status.to_owned()),
        observed_generation,
        last_transition_time: Some(since(before, (type_, status), now)),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
    }
}

/// Returns since when a condition of this type has had this status; now if it did not have it before.
fn since(before: &[Condition], (type_, status): (&str, &str), now: Timestamp) -> String {
    of_type(before, type_)
        .filter(|condition| condition.status.as_deref() == Some(status))
        .and_then(|condition| condition.last_transition_time.clone())
        .unwrap_or_else(|| now.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_keeps_the_time_at_which_it_began() {
        let problem = |reason: &str| PodProblem {
            reason: reason.to_owned(),
            message: "[flink-main-container] no such image".to_owned(),
        };
        let first: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let later: Timestamp = "2026-01-01T12:01:00Z".parse().unwrap();
        let before = problems(&[], Some(&problem("ErrImagePull")), None, first);
        let after = problems(&before, Some(&problem("ImagePullBackOff")), Some("cause"), later);
        let told: Vec<_> = after
            .iter()
            .map(|c| (c.type_.as_deref().unwrap(), c.reason.as_deref().unwrap()))
            .collect();
        assert_eq!(told, [("PodsReady", "ImagePullBackOff"), ("Progressing", "ReadinessTimeout")]);
        assert_eq!(after[0].last_transition_time, Some(first.to_string()));
        assert_eq!(after[1].last_transition_time, Some(later.to_string()));
        assert!(problems(&after, None, None, later).is_empty());
    }
}
