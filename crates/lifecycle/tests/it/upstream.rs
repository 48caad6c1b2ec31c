//! Those of the Java operator's bugs that its decisions exclude, each under its id; the others are in
//! `tests/it/upstream` of the program, with the test that holds their table and all of them together.

mod double_action;
mod leaks;
mod state_loss;
mod stuck;
