//! Bugs of the Java operator that this crate's decisions exclude, each under its id; the others are in the program's
//! `tests/it/upstream`, with the test that checks their table against all of them.

mod double_action;
mod leaks;
mod state_loss;
mod stuck;
