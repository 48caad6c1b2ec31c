//! The effect of a verdict on the change that it is about.

use std::time::Duration;

use jiff::Timestamp;

use super::{Opinion, Remembered, Validators, Verdict, Version};
use crate::pauses::pause_after;
use crate::problem::Problem;
use crate::world::Fact;
use validation::Violation;
use validation::extension::FailurePolicy;

/// Reason of an error that ends when the validator answers.
pub const VALIDATOR_UNAVAILABLE: &str = "ValidatorUnavailable";
/// A pending verdict triggers a pass when it arrives; this interval is for one that got lost.
const PENDING_CHECK: Duration = Duration::from_mins(2);

/// Effect of a verdict: the violations, and why the change waits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) violations: Vec<Violation>,
    pub(crate) hold: Option<Hold>,
}

/// Why a change waits although it is not known to be wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hold {
    pub(crate) because: String,
    /// It is reported as an error, not just waited for.
    pub(crate) is_problem: bool,
    pub(crate) look_again: Duration,
}

impl Validators {
    /// Returns whether `version` may come into force, as far as known; `None` if a validator has not answered yet.
    pub fn admit(&self, version: Version) -> Option<bool> {
        if !self.has_any {
            return Some(true);
        }
        let remembered = self.remembered.as_ref().filter(|verdict| verdict.version == version)?;
        let Outcome { violations, hold } = outcome(&remembered.verdict, Duration::ZERO);
        if violations.is_empty() { hold.is_none().then_some(true) } else { Some(false) }
    }

    /// Returns true if any validator was asked about `version`.
    pub fn were_asked(&self, version: Version) -> bool {
        self.remembered.as_ref().is_some_and(|verdict| verdict.version == version)
    }

    /// Returns the outcome for `version`, or the question to answer first.
    pub(crate) fn judge<Q>(
        &self,
        version: Version,
        now: Timestamp,
        fact: &Fact<Verdict>,
        question: Q,
    ) -> Result<Outcome, Q> {
        if !self.has_any {
            return Ok(Outcome::default());
        }
        let remembered = self.remembered.as_ref().filter(|verdict| verdict.version == version);
        match fact {
            Fact::Known(verdict) => {
                let attempts = remembered.map_or(0, |verdict| verdict.attempts) + 1;
                Ok(outcome(verdict, pause_after(attempts)))
            }
            Fact::Unknown(reason) => {
                let hold = Hold {
                    because: format!("the validators cannot be called: {reason}"),
                    is_problem: true,
                    look_again: pause_after(1),
                };
                Ok(Outcome { violations: vec![], hold: Some(hold) })
            }
            Fact::NotAsked => match remembered {
                Some(Remembered { version: _, verdict, at, attempts }) => {
                    let waited = Duration::try_from(now.duration_since(*at)).unwrap_or_default();
                    let outcome = outcome(verdict, pause_after(*attempts).saturating_sub(waited));
                    let is_over = outcome
                        .hold
                        .as_ref()
                        .is_some_and(|hold| hold.is_problem && hold.look_again.is_zero());
                    if is_over { Err(question) } else { Ok(outcome) }
                }
                None => Err(question),
            },
        }
    }
}

fn outcome(verdict: &Verdict, look_again: Duration) -> Outcome {
    let (opinions, look_again) = match verdict {
        Verdict::Given(opinions) => (opinions, look_again),
        Verdict::Pending { before } if before.is_empty() => {
            let because = "waiting for the validators to check the change".to_owned();
            let hold = Hold { because, is_problem: false, look_again: PENDING_CHECK };
            return Outcome { violations: vec![], hold: Some(hold) };
        }
        // Earlier opinions stay until there is something else to report.
        Verdict::Pending { before } => (before, PENDING_CHECK),
    };
    let violations =
        opinions.iter().filter_map(|opinion| opinion.answer.as_ref().ok()).flatten().cloned();
    let missing: Vec<String> = opinions
        .iter()
        .filter(|opinion| opinion.on_failure == FailurePolicy::Fail)
        .filter_map(|Opinion { validator, on_failure: _, answer }| {
            let why = answer.as_ref().err()?;
            Some(format!("validator `{validator}` did not answer: {why}"))
        })
        .collect();
    let hold = (!missing.is_empty()).then(|| Hold {
        because: format!(
            "{}. The change waits, and what is running is not touched. To go on without a \
             validator, set its `failure-policy: Ignore`",
            missing.join("; ")
        ),
        is_problem: true,
        look_again,
    });
    Outcome { violations: violations.collect(), hold }
}

impl Hold {
    /// Returns the problem to report to the user, if the hold is one.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.is_problem.then(|| Problem {
            reason: VALIDATOR_UNAVAILABLE,
            detail: Some(VALIDATOR_UNAVAILABLE.to_owned()),
            ..Problem::of_resource(self.because.clone())
        })
    }
}

#[cfg(test)]
mod tests;
