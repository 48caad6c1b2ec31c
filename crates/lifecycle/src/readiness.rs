//! How far a resource is with its spec, as conditions for tools that know nothing of Flink: kstatus (and with it Flux),
//! Argo CD and `kubectl wait`.
//!
//! [`READY`] is always there. [`RECONCILING`] and [`STALLED`] are only there while they are true, as kstatus expects. All
//! three follow from the rest of the status, so that nobody is told something else than `status.error` says.

use jiff::Timestamp;

use crate::conditions::{self, UPGRADE_ADMITTED, UPGRADES_PAUSED, of_type};
use crate::error_document::{message_of, reason_of};
use crate::kind::Kind;
use crate::pass::Pass;
use crate::paused::PAUSED;
use crate::resource::StatusOfJob;
use api::reconciled::StoredSpec;
use api::status::{Condition, JobStatusState, LifecycleState};

/// The resource is as its spec says.
pub const READY: &str = "Ready";
/// The operator is bringing the spec about.
pub const RECONCILING: &str = "Reconciling";
/// The spec is not brought about until someone acts.
pub const STALLED: &str = "Stalled";

/// Reason of an error that has none of its own.
pub const ERROR: &str = "Error";
/// Longest message of a condition, in characters; `status.error` has the whole one.
const MESSAGE_MAX: usize = 1_000;

/// How far a resource is with its spec, with the reason and the message of its conditions.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Readiness {
    Ready(String, String),
    Reconciling(String, String),
    Stalled(String, String),
}

impl Readiness {
    /// Returns the standing of a resource with this `status.error`.
    pub fn of_error(error: &str) -> Self {
        let reason = reason_of(error).filter(|reason| is_reason(reason));
        Self::Stalled(reason.unwrap_or_else(|| ERROR.to_owned()), message_of(error))
    }

    /// Returns the standing of a resource whose change waits for its turn, according to these conditions.
    pub fn of_wait(conditions: &[Condition]) -> Option<Self> {
        let waits = of_type(conditions, UPGRADE_ADMITTED)?;
        let reason = waits.reason.clone().unwrap_or_default();
        let message = waits.message.clone().unwrap_or_default();
        Some(match &*reason {
            UPGRADES_PAUSED => Self::Stalled(reason, message),
            _ => Self::Reconciling(reason, message),
        })
    }

    /// Returns the conditions of a resource of this generation. A transition time is kept while its condition stays.
    pub fn conditions(
        &self,
        generation: i64,
        before: &[Condition],
        now: Timestamp,
    ) -> Vec<Condition> {
        let (Self::Ready(reason, message)
        | Self::Reconciling(reason, message)
        | Self::Stalled(reason, message)) = self;
        let message: String = message.chars().take(MESSAGE_MAX).collect();
        let condition = |type_: &str, is_true: bool| {
            let status = if is_true { "True" } else { "False" };
            let told = (reason.as_str(), message.as_str());
            conditions::condition(before, Some(generation), (type_, status), told, now)
        };
        let ready = condition(READY, matches!(self, Self::Ready(..)));
        let other = match self {
            Self::Ready(..) => None,
            Self::Reconciling(..) => Some(condition(RECONCILING, true)),
            Self::Stalled(..) => Some(condition(STALLED, true)),
        };
        std::iter::once(ready).chain(other).collect()
    }
}

/// Whether Kubernetes accepts this as the reason of a condition.
fn is_reason(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}

impl<K: Kind> Pass<'_, K> {
    /// Adds the conditions that say how far the resource is with its spec.
    pub(crate) fn report_readiness(&mut self, before: &[Condition]) {
        let standing = self.readiness();
        let (generation, now) = (self.world.generation(), self.world.now);
        if let Some(conditions) = self.status.conditions_mut() {
            conditions.extend(standing.conditions(generation, before, now));
        }
    }

    /// Returns how far the resource is, from its status; the first rule that applies decides.
    fn readiness(&self) -> Readiness {
        match (self.readiness_of_status(), &self.paused) {
            (Readiness::Reconciling(..), Some(message)) => {
                Readiness::Stalled(PAUSED.to_owned(), message.clone())
            }
            (standing, _) => standing,
        }
    }

    fn readiness_of_status(&self) -> Readiness {
        if let Some(error) = self.status.error() {
            return Readiness::of_error(error);
        }
        let state = self.status.lifecycle_state();
        if let Some(standing) = self.status.conditions().and_then(|all| Readiness::of_wait(all)) {
            return standing;
        }
        match state {
            Some(LifecycleState::Failed) => {
                return Readiness::Stalled("Failed".to_owned(), self.state_text());
            }
            Some(LifecycleState::Deleting | LifecycleState::Deleted) => {
                let message = "the resource is being deleted".to_owned();
                return Readiness::Reconciling("Deleting".to_owned(), message);
            }
            _ => {}
        }
        let generation = self.world.generation();
        if self.status.observed_generation() != Some(generation) {
            let message = format!("generation {generation} of the spec is not carried out yet");
            return Readiness::Reconciling("NewSpec".to_owned(), message);
        }
        if let Some(reason) = self.outcome() {
            return Readiness::Ready(reason.to_owned(), self.state_text());
        }
        let reason = match state {
            Some(LifecycleState::Stable) => "NotRunning".to_owned(),
            // `RollingBack`, as reasons are written.
            other => format!("{:?}", other.unwrap_or(LifecycleState::Created)),
        };
        Readiness::Reconciling(reason, self.state_text())
    }

    /// Returns what the spec asks for, if it is so.
    fn outcome(&self) -> Option<&'static str> {
        match (self.status.lifecycle_state()?, self.status.job().state) {
            (LifecycleState::Suspended, _) => Some("Suspended"),
            (LifecycleState::Stable, _) if self.spec.job().is_none() => {
                K::is_answering(self).then_some("Running")
            }
            (LifecycleState::Stable, Some(JobStatusState::Running)) => Some("Running"),
            (LifecycleState::Stable, Some(JobStatusState::Finished)) => Some("Finished"),
            _ => None,
        }
    }

    /// Says how the job or the session cluster is.
    fn state_text(&self) -> String {
        match self.status.job().state {
            _ if self.spec.job().is_none() => {
                let answers = if K::is_answering(self) { "answers" } else { "does not answer" };
                format!("the session cluster {answers}")
            }
            Some(state) => format!("the job is {}", state.into_str()),
            None => "the job has not been started".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(conditions: &[Condition]) -> Vec<(&str, &str, &str)> {
        conditions
            .iter()
            .map(|it| {
                (
                    it.type_.as_deref().unwrap(),
                    it.status.as_deref().unwrap(),
                    it.reason.as_deref().unwrap(),
                )
            })
            .collect()
    }

    #[test]
    fn a_condition_keeps_the_time_at_which_it_began() {
        let first: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let later: Timestamp = "2026-01-01T12:01:00Z".parse().unwrap();
        let texts = |reason: &str| (reason.to_owned(), String::new());
        let (reason, message) = texts("Upgrading");
        let before = Readiness::Reconciling(reason, message).conditions(1, &[], first);
        assert_eq!(
            shown(&before),
            [("Ready", "False", "Upgrading"), ("Reconciling", "True", "Upgrading")]
        );
        let error =
            r#"{"message": "no such image", "additionalMetadata": {"reason": "ErrImagePull"}}"#;
        let after = Readiness::of_error(error).conditions(2, &before, later);
        assert_eq!(
            shown(&after),
            [("Ready", "False", "ErrImagePull"), ("Stalled", "True", "ErrImagePull")]
        );
        assert_eq!(
            after[0].last_transition_time,
            Some(first.to_string()),
            "it was not ready before"
        );
        assert_eq!(after[1].last_transition_time, Some(later.to_string()));
        assert_eq!(
            (after[0].observed_generation, &*after[0].message.clone().unwrap()),
            (Some(2), "no such image")
        );
    }

    #[test]
    fn an_error_without_a_word_for_a_reason_has_a_general_one() {
        for error in
            ["Job Not Found", r#"{"message": "m", "additionalMetadata": {"reason": "two words"}}"#]
        {
            assert!(
                matches!(Readiness::of_error(error), Readiness::Stalled(reason, _) if reason == "Error")
            );
        }
    }
}
