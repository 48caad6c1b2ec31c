//! The plan for a session job: the steps that a decision wants taken, in order.

use std::collections::BTreeMap;

use super::world::{Arrival, Tried};
use crate::event::Event;
use crate::plan::{self, SnapshotStep};
use crate::world::Bounds;
use api::session_job::{FlinkSessionJobSpec, SessionJobStatus};
use api::status::SavepointFormatType;
use api::version::FlinkVersion;

/// A spec that is superseded, with the state it left.
pub type Superseded = plan::Superseded<FlinkSessionJobSpec>;

/// A job to run in the session cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// In the status already; 32 hex digits.
    pub job_id: String,
    /// Where it was made before, and a job may come of that.
    pub may_arrive: Option<Arrival>,
    /// Absent: the class is on the cluster's class path.
    pub jar_uri: Option<String>,
    pub entry_class: Option<String>,
    pub args: Vec<String>,
    pub parallelism: Option<u32>,
    pub allow_non_restored_state: bool,
    /// What to start from; absent: empty.
    pub savepoint_path: Option<String>,
    /// What the job is to run with, without the operator's own options.
    pub configuration: BTreeMap<String, String>,
    pub flink_version: FlinkVersion,
}

/// One idempotent effect. Steps run in order and stop at the first error; the next pass starts from
/// what the world then is.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    AddFinalizer,
    RemoveFinalizer,
    /// Labels the resource with its cluster.
    SetSessionLabel {
        cluster: String,
    },
    /// Writes the status now: an intent, before what follows it.
    WriteStatus(Box<SessionJobStatus>),
    Event(Event),
    /// Keeps the superseded spec for `history` and `rollback`.
    RecordRevision(Box<Superseded>),
    Snapshot(SnapshotStep),
    /// Gives the running job's vertices new bounds of parallelism.
    ScaleJob {
        job_id: String,
        bounds: BTreeMap<String, Bounds>,
    },
    /// Keeps in this process what was tried, as the status has no place for it.
    Remember(Tried),
    /// Stop-with-savepoint; the trigger id is in the status already.
    TriggerStop {
        job_id: String,
        trigger_id: String,
        directory: Option<String>,
        format: SavepointFormatType,
        drain: bool,
    },
    /// Cancels the job. One that is not there, or has ended, needs no cancelling.
    CancelJob {
        job_id: String,
    },
    /// Fetches and uploads the jar, runs it and deletes it; the job id is in the status already.
    Submit(Box<Submission>),
}

impl Step {
    /// The step's name in logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AddFinalizer => "add-finalizer",
            Self::RemoveFinalizer => "remove-finalizer",
            Self::SetSessionLabel { .. } => "set-label",
            Self::WriteStatus(_) => "write-status",
            Self::Event(_) => "event",
            Self::RecordRevision(_) => "record-revision",
            Self::Snapshot(step) => step.name(),
            Self::ScaleJob { .. } => "scale-job",
            Self::Remember(_) => "remember",
            Self::TriggerStop { .. } => "stop-with-savepoint",
            Self::CancelJob { .. } => "cancel-job",
            Self::Submit(_) => "submit-job",
        }
    }
}

/// What to do now, why, and when to look again.
pub type Plan = plan::Plan<Step, SessionJobStatus>;
