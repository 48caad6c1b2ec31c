//! Facts for decisions about a session job; see [`crate::world`].

use jiff::Timestamp;

use crate::attempts::Attempts;
use crate::conditions::ReportedWait;
use crate::verdict::Version;
use crate::world;
use api::session_job::FlinkSessionJob;

/// What this process has tried; empty after a start of the operator.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tried {
    /// Attempts to start the failed job again.
    pub restarts: Option<Attempts>,
    /// Generation of the spec that the running job was asked to scale to.
    pub scaled_to: Option<i64>,
    /// When a deletion began to wait for a session cluster that does not answer.
    pub waits_since: Option<Timestamp>,
    /// The wait for a turn that was reported last.
    pub told: Option<ReportedWait>,
}

/// Attempts to submit a job that Flink may still be processing, or may have carried out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// Before the first attempt: the job may have run from then on.
    pub began: Timestamp,
    /// When the last attempt was given up: Flink may still be processing it.
    pub ended: Timestamp,
}

impl Arrival {
    /// Adds another attempt, made from `began` to `ended`.
    pub fn again(before: Option<Self>, began: Timestamp, ended: Timestamp) -> Self {
        Self { began: before.map_or(began, |before| before.began), ended }
    }
}

/// A submission by this process that did not succeed.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedSubmission {
    pub job_id: String,
    /// Generation of the spec that was submitted.
    pub generation: i64,
    /// The error as it was reported, and what to do.
    pub message: String,
    /// The status with which Flink answered, if it did.
    pub http_response_code: Option<u16>,
    /// Set if it, or an earlier attempt with this id, may still result in a job.
    pub may_arrive: Option<Arrival>,
    pub at: Timestamp,
    /// Number of consecutive failures, including this one.
    pub attempts: u32,
}

/// Facts about a session job that this process keeps in memory.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// `None` after a start of the operator, and after a success.
    pub failed_submission: Option<FailedSubmission>,
    pub tried: Tried,
}

/// Everything that a decision about a session job may use.
pub type World<'a> = world::World<'a, FlinkSessionJob>;

impl World<'_> {
    /// Returns the version for the validators.
    pub fn version(&self) -> Version {
        let session = self.session_cluster.and_then(|cluster| cluster.metadata.generation);
        Version { generation: self.generation(), session }
    }
}
