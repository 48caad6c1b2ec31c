//! The plan for a session job: the steps to take, in order.

use std::collections::BTreeMap;

use super::world::{Arrival, Tried};
use crate::plan::{self, PlanOf};
use crate::resource::OwnStep;
use api::session_job::{FlinkSessionJob, FlinkSessionJobSpec};
use api::version::FlinkVersion;

/// A superseded spec, with the state it left.
pub type Superseded = plan::Superseded<FlinkSessionJobSpec>;

/// A job to run in the session cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// In the status already; 32 hex digits.
    pub job_id: String,
    /// Set for a repeated submission that may already have resulted in a job.
    pub may_arrive: Option<Arrival>,
    /// `None` if the class is on the cluster's class path.
    pub jar_uri: Option<String>,
    pub entry_class: Option<String>,
    pub args: Vec<String>,
    pub parallelism: Option<u32>,
    pub allow_non_restored_state: bool,
    /// Path of the state to start from; `None` to start empty.
    pub savepoint_path: Option<String>,
    /// Options for the job, without the operator's own.
    pub configuration: BTreeMap<String, String>,
    pub flink_version: FlinkVersion,
}

/// A step that exists only for session jobs.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionJobStep {
    /// Labels the resource with its cluster.
    SetSessionLabel { cluster: String },
    /// Remembers in this process what was tried, because the status has no place for it.
    Remember(Tried),
    /// Fetches and uploads the jar, runs it and deletes it; the job id is in the status already.
    Submit(Box<Submission>),
}

impl OwnStep for SessionJobStep {
    fn name(&self) -> &'static str {
        match self {
            Self::SetSessionLabel { .. } => "set-label",
            Self::Remember(_) => "remember",
            Self::Submit(_) => "submit-job",
        }
    }
}

impl From<SessionJobStep> for Step {
    fn from(step: SessionJobStep) -> Self {
        Self::Own(step)
    }
}

/// An idempotent effect on a session job.
pub type Step = plan::Step<FlinkSessionJob>;

/// Steps to take now for a session job, why, and when to look again.
pub type Plan = PlanOf<FlinkSessionJob>;
