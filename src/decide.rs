//! From facts to decisions: pure, total, and the only place that branches on state.

pub mod revision;
pub mod validate;
