//! From the facts about a `FlinkBlueGreenDeployment` to a plan.
//!
//! Its two children are `FlinkDeployment`s, which the operator reconciles as any other. This crate decides which of
//! them there are, with which spec, and which one serves. A change of the job starts the other colour from a savepoint
//! of the one that serves; when that has proven itself, it serves, and the former one goes.
//!
//! States and status are those of the Java operator, so that either can go on from what the other one left. A
//! transition whose end is decided has no `abortTimestamp` any more: from there it only goes forwards, also for the
//! Java operator, which does not abort without one.

pub mod change;
pub mod child;
mod decide;
pub mod plan;
pub mod rehearsal;
pub mod settings;
mod transition;
pub mod world;

pub use decide::decide;
