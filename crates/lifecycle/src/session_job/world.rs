//! Facts that the decision about a session job may look at; see [`crate::world`].

use jiff::Timestamp;

use crate::attempts::Attempts;
use crate::verdict::Version;
use crate::world;
use api::session_job::FlinkSessionJob;

/// Actions that this process has tried; none after a start of the operator.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tried {
    /// Attempts to start the failed job again.
    pub restarts: Option<Attempts>,
    /// Generation of the spec that the running job was asked to scale to.
    pub scaled_to: Option<i64>,
    /// Since when a deletion waits for a session cluster that does not answer.
    pub waits_since: Option<Timestamp>,
}

/// Attempts to submit one job that Flink may still be at, or may have carried out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// Before the first of them was made: the job may have run from then on.
    pub began: Timestamp,
    /// When the last one was given up: Flink may be at it from then on.
    pub ended: Timestamp,
}

impl Arrival {
    /// With another attempt, made from `began` to `ended`.
    pub fn again(before: Option<Self>, began: Timestamp, ended: Timestamp) -> Self {
        Self { began: before.map_or(began, |before| before.began), ended }
    }
}

/// A submission of this process that did not succeed.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedSubmission {
    pub job_id: String,
    /// Generation of the spec that was submitted.
    pub generation: i64,
    /// The error as it was told, and what to do.
    pub message: String,
    /// Where a job may come of it all the same, or of an attempt before under this id.
    pub may_arrive: Option<Arrival>,
    pub at: Timestamp,
    /// Failures in a row, this one included.
    pub attempts: u32,
}

/// Facts about a session job that this process keeps in memory.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// Absent after a start of the operator, and after a success.
    pub failed_submission: Option<FailedSubmission>,
    pub tried: Tried,
}

/// All that one decision about a session job may look at.
pub type World<'a> = world::World<'a, FlinkSessionJob>;

impl World<'_> {
    /// The version that validators judge.
    pub fn version(&self) -> Version {
        let session = self.session_cluster.and_then(|cluster| cluster.metadata.generation);
        Version { generation: self.generation(), session }
    }
}
