//! Helpers that the tests of several crates share.
#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::print_stdout,
    clippy::return_self_not_must_use,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests see the world, and fail loudly"
)]

pub mod acceptance;
pub mod choices;
pub mod exploration;
pub mod generated;
pub mod laws;
pub mod operated;
pub mod scene;
pub mod seat;
pub mod share;
pub mod sources;
pub mod terminal;
pub mod tools;
