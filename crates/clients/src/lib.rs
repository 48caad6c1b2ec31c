//! Clients of everything outside of the process: a module for each system, and no policy.
//!
//! Modules do not use each other, but for [`fence`]; `tests/it/layers.rs` holds them to it, and reads
//! their names from here.

#![allow(clippy::disallowed_methods, clippy::wildcard_enum_match_arm, reason = "shell")]

pub mod artifact;
pub mod cluster;
pub mod fence;
pub mod flink;
pub mod store;
pub mod zookeeper;
