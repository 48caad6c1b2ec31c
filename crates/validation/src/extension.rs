//! Validators and mutators: rules that an installation adds to the built-in ones.
//!
//! A rule is a CEL expression in the operator's configuration, evaluated here, or somebody outside
//! who is asked over HTTP: that is the shell's part, and the answer is a fact like any other.
//! Validators can only refuse a change, never touch what runs; mutators work where objects are
//! handed in, and not in the control loop, so that a changed mutator restarts nothing.

pub mod cel;
pub mod judge;
pub mod mutation;
pub mod settings;
pub mod subject;

use std::str::FromStr;

/// Meaning of a missing answer of a validator or mutator.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum FailurePolicy {
    /// The change waits until it does.
    #[default]
    Fail,
    /// It has no say.
    Ignore,
}

impl FromStr for FailurePolicy {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.to_ascii_lowercase().as_str() {
            "fail" => Ok(Self::Fail),
            "ignore" => Ok(Self::Ignore),
            _ => Err(()),
        }
    }
}
