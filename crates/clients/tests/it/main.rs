//! Tests of the clients from outside, against servers that lie.
#![allow(
    clippy::disallowed_methods,
    clippy::panic,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "tests see the world, and fail loudly"
)]

extern crate kubectl_flink_clients as clients;

mod jars;
mod stores;
mod support;
mod transfers;
mod zookeeper;
