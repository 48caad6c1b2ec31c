//! Decisions: from observed facts to a plan, without I/O.
//!
//! Each decision is a total, deterministic function: the same facts give the same plan, byte for byte. The operator
//! carries a plan out and `kubectl flink plan` prints it; neither branches on state again. If a decision needs a fact
//! that was not looked up yet, it returns a question, see [`world`].

pub mod application;
pub mod attempts;
pub mod audit;
pub mod blocker;
pub mod conditions;
pub mod crash;
pub mod diff;
pub mod error_document;
pub mod event;
pub mod exceptions;
pub mod health;
pub mod history;
mod job;
mod kind;
pub mod legacy;
pub mod lifecycle;
pub mod memo;
pub mod node_notice;
pub mod notes;
mod pass;
pub mod paused;
mod pauses;
pub mod phase;
pub mod plan;
mod problem;
pub mod readiness;
pub mod reads;
pub mod reconcile;
pub mod rehearsal;
pub mod resource;
pub mod rules;
mod schedules;
pub mod session_job;
pub mod snapshot;
pub mod snapshots;
pub mod status_texts;
pub mod transitions;
pub mod trigger;
pub mod turn;
pub mod upgrade_budget;
pub mod verdict;
pub mod wait;
pub mod world;
