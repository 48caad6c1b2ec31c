//! A snapshot to request from Flink.

use api::status::{CheckpointType, SavepointFormatType};

/// A request to Flink for a snapshot of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub job_id: String,
    pub trigger_id: String,
    pub what: Wanted,
}

/// The kind of snapshot.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    Savepoint { directory: String, format: SavepointFormatType },
    Checkpoint(CheckpointType),
}
