//! Facts that a decision about a snapshot may look at; they are asked for as in [`crate::world`].

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::error_document::form::Form;
use crate::verdict::{Validators, Verdict, Version};
use crate::world::Trigger;
use crate::world::{Answer, Fact};
use api::state_snapshot::FlinkStateSnapshot;
use api::status::JobStatusState;
use api::version::FlinkVersion;

/// A fact that a decision needs and nobody has looked up yet.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Question {
    /// The job that is referred to.
    Target,
    /// How the triggered snapshot stands.
    Trigger,
    /// Who refers to the savepoint, read so that nobody is overlooked.
    References,
    /// The newest state by the statistics of the job that is referred to.
    NewestState,
    /// The verdict of outside validators on the snapshot.
    Verdict,
}

/// The job that is referred to.
#[derive(Clone, Debug, PartialEq)]
pub enum Target {
    /// The API server says so.
    Absent,
    /// It exists, and is none of this operator's.
    Foreign,
    /// It exists, and its session cluster does not: the text says so.
    Unserved(String),
    Present(Box<Job>),
}

/// The job as its status tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub state: Option<JobStatusState>,
    /// Since when it has this state.
    pub since: Option<Timestamp>,
    pub id: Option<String>,
    pub flink_version: Option<FlinkVersion>,
    /// `execution.checkpointing.savepoint-dir`.
    pub savepoint_directory: Option<String>,
    /// `execution.checkpointing.timeout`.
    pub timeout: SignedDuration,
    /// Its runs take over, or go on using, the files that they were restored from.
    pub claims: bool,
}

/// Everything that was looked up in this pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub target: Fact<Target>,
    pub trigger: Fact<Trigger>,
    /// Each named for a person.
    pub references: Fact<Vec<String>>,
    /// Its path; none where Flink knows of no such job, or of no state of it.
    pub newest_state: Fact<Option<String>>,
    pub verdict: Fact<Verdict>,
}

/// All that one decision may look at.
#[derive(Clone, Debug)]
pub struct World<'a> {
    /// The only clock.
    pub now: Timestamp,
    /// With the status that was written last.
    pub resource: &'a FlinkStateSnapshot,
    /// `kubernetes.operator.reconcile.interval`.
    pub interval: Duration,
    /// Of errors.
    pub form: Form,
    /// 32 hex digits that may be used up by this decision.
    pub trigger_id: String,
    /// Who else has a say in what is taken.
    pub validators: Validators,
    pub facts: Facts,
}

impl World<'_> {
    /// The job, or the question to answer first.
    pub fn target(&self) -> Result<Answer<'_, Target>, Question> {
        answer(&self.facts.target, Question::Target)
    }

    /// How the triggered snapshot stands, or the question to answer first.
    pub fn trigger(&self) -> Result<Answer<'_, Trigger>, Question> {
        answer(&self.facts.trigger, Question::Trigger)
    }

    /// Who refers to the savepoint, or the question to answer first.
    pub fn references(&self) -> Result<Answer<'_, Vec<String>>, Question> {
        answer(&self.facts.references, Question::References)
    }

    /// The newest state of the job, or the question to answer first.
    pub fn newest_state(&self) -> Result<Answer<'_, Option<String>>, Question> {
        answer(&self.facts.newest_state, Question::NewestState)
    }

    /// The version that validators judge.
    pub fn version(&self) -> Version {
        let generation = self.resource.metadata.generation.unwrap_or_default();
        Version { generation, session: None }
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.resource.metadata.name.as_deref().unwrap_or_default()
    }

    /// `metadata.creationTimestamp`.
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
