//! The same for a `FlinkSessionJob`, in the session cluster that there is.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::{
    Outcome, PAUSE, Scene, StepText, end_job, fresh, planned_savepoint, restore_of, state_at,
    step_text,
};
use crate::error_document::message_of;
use crate::memo::Memo;
use crate::session_job::plan::{Plan, Step};
use crate::session_job::world::{Facts, Question, Tried, World};
use crate::session_job::{SESSION_LABEL, decide};
use crate::trigger::memory::Memory;
use crate::verdict::Validators;
use crate::world::{Fact, Stop};
use api::SESSION_JOB_FINALIZER;
use api::deployment::FlinkDeployment;
use api::session_job::{FlinkSessionJob, SessionJobStatus};
use api::status::JobStatusState;
use config::OperatorConfig;

/// A rehearsal of one `FlinkSessionJob`.
#[derive(Debug)]
pub struct SessionJobRehearsal {
    resource: FlinkSessionJob,
    status: SessionJobStatus,
    cluster: Option<FlinkDeployment>,
    /// What is known: read, or left behind by the steps so far.
    pub facts: Facts,
    now: Timestamp,
    outcome: Outcome,
    is_over: bool,
}

impl SessionJobRehearsal {
    /// Of the wanted resource, in its cluster. That its jar can be fetched is taken for granted: only
    /// the operator knows what it reaches.
    pub fn new(
        resource: FlinkSessionJob,
        cluster: Option<FlinkDeployment>,
        now: Timestamp,
    ) -> Self {
        let status = resource.status.clone().unwrap_or_default();
        let snapshots = Fact::Unknown("not looked at".to_owned());
        let facts = Facts { snapshots, jar: Fact::Known(()), ..Facts::default() };
        Self { resource, status, cluster, facts, now, outcome: Outcome::default(), is_over: false }
    }

    /// Makes the next pass. False when there is none.
    ///
    /// # Errors
    /// The question to answer in [`SessionJobRehearsal::facts`] first.
    pub fn go_on(&mut self, operator: &OperatorConfig) -> Result<bool, Question> {
        if self.is_over {
            return Ok(false);
        }
        let world = World {
            now: self.now,
            resource: &self.resource,
            status: &self.status,
            cluster: self.cluster.as_ref(),
            operator,
            has_snapshot_resources: true,
            fresh: fresh(),
            told_exceptions: None,
            periodic: Memory::default(),
            zone: TimeZone::UTC,
            failed_submission: None,
            tried: Tried::default(),
            validators: Validators::default(),
            went_back: None,
            facts: self.facts.clone(),
            memo: Memo::default(),
        };
        let plan = decide(&world)?;
        self.take(plan);
        Ok(!self.is_over)
    }

    /// What came of it.
    pub fn outcome(self) -> Outcome {
        self.outcome
    }

    fn take(&mut self, plan: Plan) {
        let Plan { steps, status, because, look_again: _, blocker: _ } = plan;
        let texts: Vec<StepText> = steps.iter().filter_map(step_text::of_session_job).collect();
        let is_new_error = status.error.is_some() && status.error != self.status.error;
        let is_at_rest = texts.is_empty() && (is_new_error || *status == self.status);
        if is_at_rest && is_new_error {
            self.outcome.halt = status.error.as_deref().map(message_of);
        } else if is_at_rest && status.observed_generation != self.resource.metadata.generation {
            self.outcome.halt = Some(because.clone());
        }
        self.is_over = is_at_rest;
        self.status = *status;
        for step in &steps {
            self.imagine(step);
        }
        if !texts.is_empty() {
            self.outcome.scenes.push(Scene { because, steps: texts });
        }
        self.now += PAUSE;
    }

    /// The world after a step that succeeded.
    fn imagine(&mut self, step: &Step) {
        match step {
            Step::AddFinalizer => {
                let finalizers = self.resource.metadata.finalizers.get_or_insert_default();
                finalizers.push(SESSION_JOB_FINALIZER.to_owned());
            }
            Step::SetSessionLabel { cluster } => {
                let labels = self.resource.metadata.labels.get_or_insert_default();
                labels.insert(SESSION_LABEL.to_owned(), cluster.clone());
            }
            Step::TriggerStop { job_id, directory, .. } => {
                self.outcome.stops_job = true;
                let path = planned_savepoint(directory.as_deref());
                self.facts.stop = Fact::Known(Stop::Completed { path: path.clone() });
                self.facts.checkpoints = Fact::Known(state_at(path, self.now));
                end_job(&mut self.facts.jobs, job_id, JobStatusState::Finished, self.now);
            }
            Step::CancelJob { job_id } => {
                self.outcome.stops_job = true;
                end_job(&mut self.facts.jobs, job_id, JobStatusState::Canceled, self.now);
            }
            Step::Submit(submission) => {
                self.outcome.restore = Some(restore_of(submission.savepoint_path.as_deref()));
                self.is_over = true;
            }
            // What follows is waiting.
            Step::ScaleJob { .. } | Step::RemoveFinalizer => self.is_over = true,
            Step::WriteStatus(_)
            | Step::Event(_)
            | Step::RecordRevision(_)
            | Step::Snapshot(_)
            | Step::Remember(_) => {}
        }
    }
}
