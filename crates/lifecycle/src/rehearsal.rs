//! What a change would lead to: the operator's own decision, pass after pass.
//!
//! The first pass is made on facts that were read. What a pass would do is taken to succeed, and the
//! next one is made on what it leaves behind: a stopped job with its savepoint, a JobManager that is
//! gone. Nothing is decided here; a rehearsal ends where the new job would start, or where the
//! operator would wait or refuse.

mod session_job;
mod step_text;
#[cfg(test)]
mod tests;

pub use self::session_job::SessionJobRehearsal;
pub use self::step_text::StepText;

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::application::decide;
use super::error_document::message_of;
use super::memo::Memo;
use super::plan::{Plan, Step};
use super::trigger::memory::Memory;
use super::world::{
    Checkpoints, CompletedState, Fact, Facts, Fresh, HaMetadata, Job, Question, Stop, World,
};
use crate::verdict::Validators;
use api::DEPLOYMENT_FINALIZER;
use api::deployment::FlinkDeployment;
use api::status::{DeploymentStatus, JobStatusState, LAST_STATE_PATH};
use config::OperatorConfig;
use state::restore_point::RestorePoint;

/// Passes that are made at most; the longest change takes six.
pub const PASSES_MAX: usize = 16;
/// Between two passes.
const PAUSE: Duration = Duration::from_secs(1);
/// Stands for the name that Flink will give a savepoint.
pub const PLANNED_SAVEPOINT: &str = "savepoint-…";

/// One pass that would do something.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scene {
    /// The decision's reason.
    pub because: String,
    pub steps: Vec<StepText>,
}

/// What a rehearsal comes to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub scenes: Vec<Scene>,
    /// Where the new job would start from; absent where none is started.
    pub restore: Option<RestorePoint>,
    /// The job that runs would be stopped.
    pub stops_job: bool,
    /// Why the operator would go no further.
    pub halt: Option<String>,
}

/// A rehearsal of one `FlinkDeployment`.
#[derive(Debug)]
pub struct Rehearsal {
    resource: FlinkDeployment,
    status: DeploymentStatus,
    /// What is known: read, or left behind by the steps so far.
    pub facts: Facts,
    now: Timestamp,
    outcome: Outcome,
    is_over: bool,
}

impl Rehearsal {
    /// Of the wanted resource, whose status is the one that is stored.
    pub fn new(resource: FlinkDeployment, now: Timestamp) -> Self {
        let status = resource.status.clone().unwrap_or_default();
        let unknown = || "not looked at".to_owned();
        let facts = Facts { snapshots: Fact::Unknown(unknown()), ..Facts::default() };
        Self { resource, status, facts, now, outcome: Outcome::default(), is_over: false }
    }

    /// Makes the next pass. False when there is none.
    ///
    /// # Errors
    /// The question to answer in [`Rehearsal::facts`] first.
    pub fn go_on(&mut self, operator: &OperatorConfig) -> Result<bool, Question> {
        if self.is_over {
            return Ok(false);
        }
        let world = World {
            now: self.now,
            resource: &self.resource,
            status: &self.status,
            operator,
            has_snapshot_resources: true,
            fresh: fresh(),
            told_exceptions: None,
            validators: Validators::default(),
            periodic: Memory::default(),
            went_back: None,
            zone: TimeZone::UTC,
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
        let texts: Vec<StepText> = steps.iter().filter_map(step_text::of_deployment).collect();
        let is_new_error = status.error.is_some() && status.error != self.status.error;
        let is_at_rest = texts.is_empty() && (is_new_error || *status == self.status);
        if is_at_rest && is_new_error {
            self.outcome.halt = status.error.as_deref().map(message_of);
        } else if is_at_rest && status.observed_generation != self.resource.metadata.generation {
            self.outcome.halt = Some(because.clone());
        }
        // What follows where it is the last step is waiting.
        let finishes = texts.last().is_some_and(|text| text.step == "finish-cluster");
        self.is_over = is_at_rest || finishes;
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
                finalizers.push(DEPLOYMENT_FINALIZER.to_owned());
            }
            Step::TriggerStop { job_id, directory, .. } => {
                self.outcome.stops_job = true;
                let path = planned_savepoint(directory.as_deref());
                self.facts.stop = Fact::Known(Stop::Completed { path: path.clone() });
                self.facts.checkpoints = Fact::Known(state_at(path, self.now));
                end_job(&mut self.facts.jobs, job_id, JobStatusState::Finished, self.now);
            }
            Step::CancelJob { job_id, .. } => {
                self.outcome.stops_job = true;
                end_job(&mut self.facts.jobs, job_id, JobStatusState::Canceled, self.now);
            }
            Step::StopJobManager { unstarted, .. } => {
                if let Fact::Known(Some(job_manager)) = &mut self.facts.job_manager {
                    job_manager.is_stopped_unstarted = unstarted.is_some();
                    job_manager.is_stopped = true;
                    job_manager.is_deleting = true;
                }
                self.end_job_manager();
            }
            Step::DeleteJobManager { .. } => {
                self.facts.job_manager = Fact::Known(None);
                self.facts.task_manager_pods = Fact::Known(vec![]);
                self.end_job_manager();
            }
            Step::DeleteTaskManagers { .. } => {
                self.facts.task_managers = Fact::Known(None);
                self.facts.task_manager_pods = Fact::Known(vec![]);
            }
            Step::DeleteHaMetadata { .. } => {
                self.facts.ha_metadata = Fact::Known(HaMetadata::default());
            }
            Step::CreateCluster(_) => {
                if self.resource.spec.job.is_some() {
                    let path = self.status.job_status.upgrade_savepoint_path.as_deref();
                    self.outcome.restore = Some(restore_of(path));
                }
                self.is_over = true;
            }
            // What follows is waiting.
            Step::ScaleJob { .. } | Step::ScaleTaskManagers { .. } | Step::RemoveFinalizer => {
                self.is_over = true;
            }
            Step::FinishCluster(_)
            | Step::WriteStatus(_)
            | Step::Event(_)
            | Step::RecordRevision(_)
            | Step::Snapshot(_)
            | Step::ForgetJobGraphs { .. }
            | Step::ApplyIngress(_) => {}
        }
    }

    fn end_job_manager(&mut self) {
        self.outcome.stops_job = true;
        self.facts.pods = Fact::Known(vec![]);
        self.facts.jobs = Fact::Unknown("there is no JobManager".to_owned());
    }
}

/// Names that no real start would have.
fn fresh() -> Fresh {
    Fresh {
        job_id: "0".repeat(32),
        trigger_id: "0".repeat(32),
        uuid: "00000000-0000-0000-0000-000000000000".to_owned(),
    }
}

fn planned_savepoint(directory: Option<&str>) -> String {
    match directory {
        Some(directory) => format!("{}/{PLANNED_SAVEPOINT}", directory.trim_end_matches('/')),
        None => PLANNED_SAVEPOINT.to_owned(),
    }
}

fn state_at(path: String, at: Timestamp) -> Checkpoints {
    let latest = CompletedState { path, at: Some(at) };
    Checkpoints { latest: Some(latest), ..Checkpoints::default() }
}

/// The job as its JobManager lists it after its end.
fn end_job(jobs: &mut Fact<Vec<Job>>, id: &str, state: JobStatusState, now: Timestamp) {
    let mut known = match jobs {
        Fact::Known(jobs) => std::mem::take(jobs),
        Fact::NotAsked | Fact::Unknown(_) => vec![],
    };
    match known.iter_mut().find(|job| job.id == id) {
        Some(job) => job.state = state,
        None => known.push(Job {
            id: id.to_owned(),
            name: String::new(),
            state,
            start_time: now.as_millisecond(),
            modified: None,
        }),
    }
    *jobs = Fact::Known(known);
}

fn restore_of(path: Option<&str>) -> RestorePoint {
    match path {
        None => RestorePoint::Empty,
        Some(LAST_STATE_PATH) => RestorePoint::HaMetadata,
        Some(path) => RestorePoint::Path(path.to_owned()),
    }
}
