//! The control loop: observe, decide, act, for every `FlinkDeployment` in scope.
//!
//! The loop itself holds no opinion. [`reconcile`] asks `decide` for a plan, [`observe`] answers the
//! questions that the decision comes back with, and [`act`] takes the plan's steps in their order.

pub mod act;
pub mod context;
pub mod observe;
pub mod pods;
pub mod reconcile;
pub mod run;
