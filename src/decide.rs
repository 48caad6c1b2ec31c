//! decide.

pub mod revision;
