//! External validators: what they say about a change, when they are asked, and what follows.
//!
//! They are asked once for each version of a resource that was not reconciled yet. They are never asked again about
//! what runs, so that an idle resource causes no calls. A validator that does not answer holds the change back or is
//! ignored, as configured; it never affects what runs.

pub mod outcome;

use jiff::Timestamp;

use validation::Violation;
use validation::extension::FailurePolicy;

/// Subject of a verdict: a resource at a generation, and for a session job its session cluster at a generation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Version {
    pub generation: i64,
    pub session: Option<i64>,
}

/// The opinion of one validator.
#[derive(Clone, Debug, PartialEq)]
pub struct Opinion {
    pub validator: String,
    pub on_failure: FailurePolicy,
    /// The violations of the resource, or why the validator did not answer.
    pub answer: Result<Vec<Violation>, String>,
}

/// The opinions of all validators on one version.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Not all have answered yet; the next pass runs when they have.
    Pending {
        /// Opinions from the previous attempt, if this is another one.
        before: Vec<Opinion>,
    },
    /// In the order of the validators' names.
    Given(Vec<Opinion>),
}

impl Verdict {
    /// Returns the opinions that are known.
    pub fn opinions(&self) -> &[Opinion] {
        match self {
            Self::Pending { before: opinions } | Self::Given(opinions) => opinions,
        }
    }
}

/// A verdict that this process remembers.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    pub version: Version,
    pub verdict: Verdict,
    pub at: Timestamp,
    /// Number of verdicts on this version, including this one.
    pub attempts: u32,
}

/// What a decision knows about validators before it asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validators {
    /// At least one validator handles the resource's kind.
    pub has_any: bool,
    /// `None` after a start of the operator.
    pub remembered: Option<Remembered>,
}
