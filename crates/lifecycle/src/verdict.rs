//! Validators outside: what they say of a change, when they are asked, and what comes of it.
//!
//! They are asked once for each version of a resource that was not reconciled yet: what runs is
//! never asked about again, so that at rest nobody is called. One that gives no answer holds the
//! change back or is left out, as it is configured; it never touches what runs.

pub mod outcome;

use jiff::Timestamp;

use validation::Violation;
use validation::extension::FailurePolicy;

/// Subject of a verdict: a resource at a generation, and the session cluster of a session job at its.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Version {
    pub generation: i64,
    pub session: Option<i64>,
}

/// Opinion of one validator.
#[derive(Clone, Debug, PartialEq)]
pub struct Opinion {
    pub validator: String,
    pub on_failure: FailurePolicy,
    /// The violations of the resource, or why the validator gave no answer.
    pub answer: Result<Vec<Violation>, String>,
}

/// Opinions of all validators on one version.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Not all have answered yet; the resource is looked at when they have.
    Pending {
        /// Opinions of the last time, where this is another try.
        before: Vec<Opinion>,
    },
    /// In the order of their names.
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

/// A verdict of this process.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    pub version: Version,
    pub verdict: Verdict,
    pub at: Timestamp,
    /// Verdicts on this version, with this one.
    pub attempts: u32,
}

/// Facts that a decision knows of validators before it asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validators {
    /// At least one is about the resource's kind.
    pub has_any: bool,
    /// Absent after a start of the operator.
    pub remembered: Option<Remembered>,
}
