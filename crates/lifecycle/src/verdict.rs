//! What validators outside say of a change, when they are asked, and what comes of it.
//!
//! They are asked once for each version of a resource that was not reconciled yet: what runs is
//! never asked about again, so that at rest nobody is called. One that gives no answer holds the
//! change back or is left out, as it is configured; it never touches what runs.

pub mod outcome;

use jiff::Timestamp;

use validation::Violation;
use validation::extension::FailurePolicy;

/// What was judged: a resource at a generation, and the session cluster of a session job at its.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Version {
    pub generation: i64,
    pub session: Option<i64>,
}

/// What one validator says.
#[derive(Clone, Debug, PartialEq)]
pub struct Opinion {
    pub validator: String,
    pub on_failure: FailurePolicy,
    /// What is wrong with the resource; or why the validator gave no answer.
    pub answer: Result<Vec<Violation>, String>,
}

/// What all validators say of one version.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Not all have answered yet; the resource is looked at when they have.
    Pending {
        /// What they said the last time, where this is another try.
        before: Vec<Opinion>,
    },
    /// In the order of their names.
    Given(Vec<Opinion>),
}

impl Verdict {
    /// What is known of what they say.
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

/// What a decision knows of validators before it asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Validators {
    /// Whether any is about the resource's kind.
    pub has_any: bool,
    /// Absent after a start of the operator.
    pub remembered: Option<Remembered>,
}
