//! Bugs that the Java operator has had, each replayed here under its id.
//!
//! Where the design excludes one, the test shows that. `docs/upstream-bugs.md` says what each was,
//! and a test here holds that table and these tests together.

mod autoscaler;
mod hidden_errors;
mod leaks;
mod mutations;
mod spurious_change;
mod state_loss;
mod stuck;
mod table;
