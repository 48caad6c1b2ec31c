//! What the console shows in a browser, and whom it lets in.
//!
//! Pure: the shell gives rows, requests and the time, and gets pages and verdicts back. Of each object
//! only what a row shows is kept, so that a fleet of ten thousand takes a few megabytes.

pub mod action;
pub mod assets;
pub mod fleet;
pub mod gate;
pub mod guard;
pub mod job;
pub mod layers;
pub mod logs;
pub mod options;
pub mod page;
pub mod query;
pub mod resource;
pub mod review;
pub mod rights;
pub mod row;
pub mod scaling;
pub mod visitors;
