//! From the facts about a `FlinkBlueGreenDeployment` to a plan.
//!
//! Its two children are `FlinkDeployment`s, which the operator reconciles like any other. This crate decides which of
//! them exist, with which spec, and which one serves. A change of the job starts the other colour from a savepoint of
//! the serving one. Once the new one has proven itself, it serves, and the old one is deleted.
//!
//! States and status are those of the Java operator, so that each operator can continue from what the other one left. A
//! transition whose end is decided has no `abortTimestamp` any more: from there it only goes forward, also for the Java
//! operator, which does not abort without one.

pub mod change;
pub mod child;
mod decide;
pub mod not_carried_out;
pub mod plan;
pub mod rehearsal;
mod report;
pub mod settings;
mod transition;
mod turn;
pub mod world;

pub use decide::decide;
