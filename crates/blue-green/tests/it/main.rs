//! Tests of the decision about blue/green deployments: single situations, and random lives in a simulated world.

#![allow(
    clippy::disallowed_methods,
    clippy::large_stack_arrays,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests see the world, and fail loudly"
)]

extern crate kubectl_flink_blue_green as blue_green;

mod decisions;
mod exploration;
mod happenings;
mod java;
mod not_carried_out;
mod operated;
mod simulation;
mod upheaval;
mod waves;
mod world;
