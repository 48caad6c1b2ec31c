//! State that jobs leave behind, without I/O.
//!
//! The metadata of savepoints, the specs that a resource had with the state that each left, the references to a
//! snapshot, and what nothing needs any more.

pub mod garbage;
pub mod metadata;
pub mod references;
pub mod restore_point;
pub mod revision;
