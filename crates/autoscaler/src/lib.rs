//! The autoscaler: from the measurements of a job it computes parallelism, with the reason for each number.
//!
//! One [`cycle`] takes a sample, evaluates the samples of a window, decides about each vertex and returns what to
//! store. Rules and numbers are those of the Java operator's autoscaler, whose stored history is read and written
//! ([`state`]). If a figure is missing or absurd there is no decision, and the cycle says why: [`rate::Rate`] is never
//! NaN, and decisions are based on nothing else.

pub mod advice;
pub mod align;
pub mod bounds;
pub mod capacity;
pub mod cost;
pub mod cycle;
pub mod delayed;
pub mod effects;
pub mod eligibility;
pub mod evaluate;
pub mod event_limiter;
pub mod events;
pub mod feedback;
pub mod memory;
pub mod metric;
pub mod names;
pub mod plugin;
pub mod quota;
pub mod rate;
pub mod record;
pub mod replay;
pub mod sample;
pub mod scaling_history;
pub mod settings;
pub mod simulation;
pub mod state;
pub mod topology;
pub mod trace;
pub mod vertex_scaler;
pub mod window;
