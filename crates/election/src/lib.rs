//! Which replica of the operator leads, and which shards of the namespaces each one takes.
//!
//! Decisions about Leases, without I/O: the same Lease at the same moment gives the same action.

pub mod lease;
pub mod shard;
