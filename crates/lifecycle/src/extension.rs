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
pub mod verdict;
