//! From observed facts to a plan, without touching the world.
//!
//! Each decision is a total, deterministic function: the same facts give the same plan, byte for
//! byte. The operator carries a plan out and `kubectl flink plan` prints it; neither branches on
//! state again. What a decision needs and nobody has looked up yet it asks for, see [`world`].

pub mod application;
pub mod audit;
pub mod blocker;
pub mod blue_green;
pub mod care;
pub mod conditions;
pub mod crash;
pub mod deletion;
pub mod deploy;
pub mod deployment;
pub mod diff;
pub mod error_document;
pub mod exceptions;
pub mod extension;
mod failed_stop;
mod former_jobs;
pub mod garbage;
pub mod health;
pub mod history;
mod ingress;
mod job;
pub mod lease;
pub mod legacy;
pub mod lifecycle;
pub mod lint;
pub mod memo;
pub mod metadata;
pub mod node_notice;
pub mod objects;
mod observe;
mod pass;
pub mod phase;
pub mod plan;
pub mod reconciled;
pub mod record;
mod redeploy;
pub mod references;
pub mod rehearsal;
mod rerun;
pub mod restart;
pub mod restore;
pub mod revision;
pub mod rewind;
pub mod rollback;
pub mod scale;
pub mod schedule;
mod schedules;
pub mod session;
pub mod session_job;
pub mod shard;
pub mod snapshot;
pub mod snapshots;
pub mod stable;
pub mod started_with;
pub mod stop;
mod stopping;
mod takeover;
pub mod task_managers;
pub mod trigger;
pub mod upgrade;
pub mod validate;
pub mod version;
pub mod world;
