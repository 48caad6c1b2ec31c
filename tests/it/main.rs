//! Tests that see the crate from outside.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "tests see the world, and fail loudly"
)]

mod e2e;
mod examples;
mod flink_access;
mod golden;
mod layers;
