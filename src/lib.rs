//! `kubectl-flink`: a kubectl plugin and an operator for Apache Flink on Kubernetes.
//!
//! The layer rule: a module uses only modules that stand **above** it in this file. Pure modules see
//! no clock, no environment, no network and no files; `clippy.toml` and `tests/it/layers.rs` hold
//! them to it, and the latter reads the order from here. The lines between the modules keep
//! `rustfmt` from sorting them.
//!
//! Above all of them are the crates of `crates/`: Cargo holds their order.

// Pure: from facts to decisions and objects.
pub mod install;

// Programs.
#[allow(clippy::disallowed_methods, clippy::wildcard_enum_match_arm, reason = "shell")]
pub mod operator;

#[allow(clippy::disallowed_methods, clippy::wildcard_enum_match_arm, reason = "shell")]
pub mod webhook;

#[allow(clippy::disallowed_methods, clippy::wildcard_enum_match_arm, reason = "shell")]
pub mod standalone;

#[allow(clippy::disallowed_methods, clippy::wildcard_enum_match_arm, reason = "shell")]
pub mod cli;
