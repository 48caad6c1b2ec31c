//! Contents and access control of the console.
//!
//! This crate does no I/O: the shell passes rows, requests and the time, and gets pages and verdicts back. Only what a
//! row shows is kept of each object, so that a fleet of ten thousand takes a few megabytes.

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
