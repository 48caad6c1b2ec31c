//! Tests of the whole decision from outside: tables, simulations, and bugs of the Java operator.
#![allow(
    clippy::disallowed_methods,
    clippy::large_stack_arrays,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests see the world, and fail loudly"
)]

extern crate kubectl_flink_lifecycle as lifecycle;

mod decisions;
mod session_job_simulation;
mod simulation;
mod support;
mod takeover;
mod upstream;
