//! State that jobs leave behind, without touching the world.
//!
//! The metadata of savepoints, the specs that a resource had with the state that each left, who refers to a
//! snapshot, and what nobody needs any more.

pub mod garbage;
pub mod metadata;
pub mod references;
pub mod restore_point;
pub mod revision;
