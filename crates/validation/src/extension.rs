//! Validators and mutators: rules that an installation adds to the built-in ones.
//!
//! A rule is either a CEL expression in the operator's configuration, evaluated here, or an external service that is
//! asked over HTTP. That is the shell's part, and the answer is a fact like any other. Validators can only refuse a
//! change, and never affect what runs. Mutators apply when objects are submitted, and not in the control loop, so that
//! a changed mutator restarts nothing.

pub mod cel;
pub mod judge;
pub mod mutation;
pub mod settings;
pub mod subject;

use std::str::FromStr;

/// What a missing answer of a validator or mutator means.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum FailurePolicy {
    /// The change waits for the answer.
    #[default]
    Fail,
    /// The validator or mutator is ignored.
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
