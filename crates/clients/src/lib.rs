//! Clients of everything outside of the process: one module per system, and no policy.
//!
//! Modules do not use each other, except for [`fence`]. `tests/it/layers.rs` enforces this and reads their names from
//! here.

#![allow(clippy::disallowed_methods, clippy::wildcard_enum_match_arm, reason = "shell")]

pub mod artifact;
pub mod cluster;
pub mod fence;
pub mod flink;
pub mod store;
pub mod zookeeper;
