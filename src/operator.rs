//! The control loop: observe, decide, act, for every resource in scope.
//!
//! What is around a pass is the same for every kind: [`kind`] says what a controller is made of,
//! [`controller`] runs one, [`pass`] hands it the newest of its resource, and [`resource`] writes it.
//! The loop itself holds no opinion. For a `FlinkDeployment` [`reconcile`] asks `decide` for a plan,
//! [`observe`] answers the questions that the decision comes back with, and [`act`] takes the plan's
//! steps in their order; [`session_job`] does so for a `FlinkSessionJob`.

pub mod act;
pub mod context;
pub mod controller;
pub mod endpoint;
mod high_availability;
mod job;
pub mod kind;
pub mod listener;
pub mod observe;
pub mod pass;
mod pod_watch;
pub mod pods;
pub mod preview;
pub mod reconcile;
mod record;
pub mod resource;
mod retention;
pub mod run;
pub mod session_job;
pub mod snapshot;
pub mod validator;
