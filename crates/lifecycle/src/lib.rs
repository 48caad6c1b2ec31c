//! From observed facts to a plan, without touching the world.
//!
//! Each decision is a total, deterministic function: the same facts give the same plan, byte for
//! byte. The operator carries a plan out and `kubectl flink plan` prints it; neither branches on
//! state again. What a decision needs and nobody has looked up yet it asks for, see [`world`].

pub mod application;
pub mod attempts;
pub mod audit;
pub mod blocker;
pub mod blue_green;
pub mod conditions;
pub mod crash;
pub mod deletion;
pub mod deploy;
pub mod deployment;
pub mod diff;
pub mod error_document;
pub mod etcd_restore;
pub mod event;
pub mod exceptions;
mod failed_stop;
mod former_jobs;
pub mod health;
pub mod history;
mod ingress;
mod job;
mod job_world;
mod kind;
pub mod legacy;
pub mod lifecycle;
pub mod maintain;
pub mod memo;
pub mod node_notice;
pub mod notes;
pub mod objects;
mod observe;
mod pass;
mod pauses;
pub mod phase;
pub mod plan;
mod problem;
mod reconcile;
pub mod record;
mod redeploy;
pub mod rehearsal;
mod rerun;
pub mod restart;
pub mod restore;
pub mod restore_point;
pub mod rollback;
pub mod rules;
pub mod scale;
mod schedules;
pub mod session;
pub mod session_job;
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
pub mod verdict;
pub mod version;
pub mod world;
