//! `kubectl-flink`: a kubectl plugin and an operator for Apache Flink on Kubernetes.
//!
//! This package holds the commands; the code they share with the operator is in `crates/`, whose layering Cargo
//! enforces. `tests/it/layers.rs` and `clippy.toml` keep the pure crates free of clocks, the environment, network and
//! files.

#[allow(clippy::disallowed_methods, clippy::wildcard_enum_match_arm, reason = "shell")]
pub mod cli;
