//! Facts for decisions about a snapshot; they are requested as in [`crate::world`].

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::error_document::form::Form;
use crate::verdict::{Validators, Verdict, Version};
use crate::world::Trigger;
use crate::world::{Answer, Fact};
use api::state_snapshot::FlinkStateSnapshot;
use api::status::JobStatusState;
use api::version::FlinkVersion;

/// A fact that a decision needs and that was not looked up yet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Question {
    /// The referenced job.
    Target,
    /// The state of the triggered snapshot.
    Trigger,
    /// Everything that refers to the savepoint, read completely.
    References,
    /// The newest state according to the statistics of the referenced job.
    NewestState,
    /// The external validators' verdict on the snapshot.
    Verdict,
}

/// The referenced job.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// It does not exist, according to the API server.
    Absent,
    /// It exists, but does not belong to this operator.
    Foreign,
    /// It exists, but its session cluster does not; the text says so.
    Unserved(String),
    Present(Box<Job>),
}

/// The job according to its status.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub state: Option<JobStatusState>,
    /// When it entered this state.
    pub since: Option<Timestamp>,
    pub id: Option<String>,
    pub flink_version: Option<FlinkVersion>,
    /// `execution.checkpointing.savepoint-dir`.
    pub savepoint_directory: Option<String>,
    /// `execution.checkpointing.timeout`.
    pub timeout: SignedDuration,
    /// Its runs take over, or keep using, the files that they were restored from.
    pub claims: bool,
}

/// Everything that was looked up in this pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub target: Fact<Target>,
    pub trigger: Fact<Trigger>,
    /// Each named for a person.
    pub references: Fact<Vec<String>>,
    /// Its path; `None` if Flink does not know the job, or any state of it.
    pub newest_state: Fact<Option<String>>,
    pub verdict: Fact<Verdict>,
}

/// Everything that one decision may use.
#[derive(Clone, Debug)]
pub struct World<'a> {
    /// The only clock.
    pub now: Timestamp,
    /// With the status that was written last.
    pub resource: &'a FlinkStateSnapshot,
    /// `kubernetes.operator.reconcile.interval`.
    pub interval: Duration,
    /// Format of errors.
    pub form: Form,
    /// 32 hex digits for use by this decision.
    pub trigger_id: String,
    /// External validators of what is taken.
    pub validators: Validators,
    pub facts: Facts,
}

impl World<'_> {
    /// Returns the job, or the question to answer first.
    pub fn target(&self) -> Result<Answer<'_, Target>, Question> {
        answer(&self.facts.target, Question::Target)
    }

    /// Returns the state of the triggered snapshot, or the question to answer first.
    pub fn trigger(&self) -> Result<Answer<'_, Trigger>, Question> {
        answer(&self.facts.trigger, Question::Trigger)
    }

    /// Returns what refers to the savepoint, or the question to answer first.
    pub fn references(&self) -> Result<Answer<'_, Vec<String>>, Question> {
        answer(&self.facts.references, Question::References)
    }

    /// Returns the newest state of the job, or the question to answer first.
    pub fn newest_state(&self) -> Result<Answer<'_, Option<String>>, Question> {
        answer(&self.facts.newest_state, Question::NewestState)
    }

    /// Returns the version for the validators.
    pub fn version(&self) -> Version {
        let generation = self.resource.metadata.generation.unwrap_or_default();
        Version { generation, session: None }
    }

    /// Returns `metadata.name`.
    pub fn name(&self) -> &str {
        self.resource.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns `metadata.creationTimestamp`.
    pub fn created(&self) -> Timestamp {
        self.resource.metadata.creation_timestamp.as_ref().map_or(self.now, |at| at.0)
    }
}

fn answer<T>(fact: &Fact<T>, question: Question) -> Result<Answer<'_, T>, Question> {
    match fact {
        Fact::NotAsked => Err(question),
        Fact::Unknown(reason) => Ok(Err(reason)),
        Fact::Known(value) => Ok(Ok(value)),
    }
}
