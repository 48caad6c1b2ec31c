//! Bugs of the Java operator, each reproduced here under its id.
//!
//! If the design excludes one, the test shows that. `docs/upstream-bugs.md` describes each, and a test here checks that
//! table against these tests.

mod autoscaler;
mod hidden_errors;
mod leaks;
mod mutations;
mod spurious_change;
pub(crate) mod state_loss;
mod stuck;
mod table;
