//! `kubectl-flink`: a kubectl plugin and an operator for Apache Flink on Kubernetes.
//!
//! The commands. What they share with the operator is in the crates of `crates/`, whose order Cargo holds;
//! `tests/it/layers.rs` and `clippy.toml` see that the pure ones know no clock, no environment, no network and no
//! files.

#[allow(clippy::disallowed_methods, clippy::wildcard_enum_match_arm, reason = "shell")]
pub mod cli;
