//! Rehearsal of a change: the operator's own decision, pass after pass.
//!
//! The first pass uses facts that were read. The steps of each pass are assumed to succeed, and the next pass uses what
//! they leave behind: a stopped job with its savepoint, a JobManager that is gone. Nothing is decided here. A rehearsal
//! ends when the new job would start, or when the operator would wait or refuse.

mod step_text;
#[cfg(test)]
mod tests;

pub use self::step_text::StepText;

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::error_document::message_of;
use super::plan::{ClusterStep, Plan, PlanOf, SnapshotStep, Step};
use super::resource::{JobResource, StatusOfJob as _};
use super::session_job::SESSION_LABEL;
use super::session_job::plan::SessionJobStep;
use super::trigger::known::Cause;
use super::world::{
    Checkpoints, CompletedState, Fact, Facts, Fresh, HaMetadata, Job, Leader, PreflightPod,
    PreflightPods, PreflightState, Question, Stop, Trigger, World,
};
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use api::status::{JobStatusState, LAST_STATE_PATH};
use config::OperatorConfig;
use state::restore_point::RestorePoint;

/// Maximum number of passes; the longest change takes six.
pub const PASSES_MAX: usize = 16;
/// Simulated time between two passes.
const PAUSE: Duration = Duration::from_secs(1);
/// Placeholder for the name that Flink will give a savepoint.
pub const PLANNED_SAVEPOINT: &str = "savepoint-…";

/// A pass that would do something.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scene {
    /// The decision's reason.
    pub because: String,
    pub steps: Vec<StepText>,
}

/// Result of a rehearsal.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    pub scenes: Vec<Scene>,
    /// What the new job would be restored from; `None` if no job is started.
    pub restore: Option<RestorePoint>,
    /// The running job would be stopped.
    pub stops_job: bool,
    /// Why the operator would not continue.
    pub halt: Option<String>,
}

/// A kind of resource whose changes can be rehearsed.
pub trait Rehearsed: JobResource {
    /// Returns the description of a step, or `None` if the step only reports something.
    fn step_text(step: &Self::Step) -> Option<StepText>;

    /// Updates the world as if the step had succeeded.
    fn imagine(rehearsal: &mut Rehearsal<Self>, step: &Self::Step);
}

/// A rehearsal of one resource.
#[derive(Debug)]
pub struct Rehearsal<K: JobResource = FlinkDeployment> {
    resource: K,
    status: K::Status,
    cluster: Option<FlinkDeployment>,
    /// Known facts: read, or left behind by the previous steps.
    pub facts: Facts,
    now: Timestamp,
    outcome: Outcome,
    is_over: bool,
}

impl<K: Rehearsed> Rehearsal<K> {
    /// Creates a rehearsal of the desired resource, with the stored status, and of a session job in its cluster.
    /// Assumes that the jar can be fetched: only the operator knows what it can reach.
    pub fn new(resource: K, cluster: Option<FlinkDeployment>, now: Timestamp) -> Self {
        let status = resource.status().cloned().unwrap_or_default();
        let snapshots = Fact::Unknown("not looked at".to_owned());
        let facts = Facts { snapshots, jar: Fact::Known(()), ..Facts::default() };
        Self { resource, status, cluster, facts, now, outcome: Outcome::default(), is_over: false }
    }

    /// Runs the next pass. Returns false if there is none.
    ///
    /// # Errors
    /// The question to answer in [`Rehearsal::facts`] first.
    pub fn go_on(&mut self, operator: &OperatorConfig) -> Result<bool, Question> {
        if self.is_over {
            return Ok(false);
        }
        let resource = (&self.resource, &self.status);
        let world = World {
            fresh: fresh(),
            facts: self.facts.clone(),
            ..World::new(self.now, resource, self.cluster.as_ref(), operator)
        };
        let plan = K::decide(&world)?;
        drop(world);
        self.take(plan);
        Ok(!self.is_over)
    }

    /// Ends the rehearsal and returns its outcome.
    pub fn outcome(self) -> Outcome {
        self.outcome
    }

    fn take(&mut self, plan: PlanOf<K>) {
        let Plan { steps, status, because, look_again: _, blocker: _, waits: _ } = plan;
        let texts: Vec<StepText> = steps.iter().filter_map(step_text::of).collect();
        let is_new_error = status.error().is_some() && status.error() != self.status.error();
        let is_at_rest = texts.is_empty() && (is_new_error || *status == self.status);
        if is_at_rest && is_new_error {
            self.outcome.halt = status.error().map(message_of);
        } else if is_at_rest && status.observed_generation() != self.resource.meta().generation {
            self.outcome.halt = Some(because.clone());
        }
        // If it is the last step, only waiting follows.
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

    /// Updates the world as if the step had succeeded.
    fn imagine(&mut self, step: &Step<K>) {
        match step {
            Step::AddFinalizer => {
                let finalizers = self.resource.meta_mut().finalizers.get_or_insert_default();
                finalizers.push(K::FINALIZER.to_owned());
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
            // Only waiting follows.
            Step::ScaleJob { .. } | Step::RemoveFinalizer => self.is_over = true,
            Step::Own(step) => K::imagine(self, step),
            Step::Snapshot(SnapshotStep::Take(snapshot)) if snapshot.cause == Cause::Upgrade => {
                // Any checkpoint that HA metadata names is no older.
                let checkpoint = Some(0);
                self.facts.checkpoint = Fact::Known(Trigger::Completed { path: None, checkpoint });
            }
            Step::WriteStatus(_) | Step::Event(_) | Step::RecordRevision(_) | Step::Snapshot(_) => {
            }
        }
    }
}

impl Rehearsed for FlinkDeployment {
    fn step_text(step: &ClusterStep) -> Option<StepText> {
        Some(step_text::of_cluster(step))
    }

    fn imagine(rehearsal: &mut Rehearsal, step: &ClusterStep) {
        let facts = &mut rehearsal.facts;
        match step {
            ClusterStep::StopJobManager { unstarted, .. } => {
                if let Fact::Known(Some(job_manager)) = &mut facts.job_manager {
                    job_manager.is_stopped_unstarted = unstarted.is_some();
                    job_manager.is_stopped = true;
                    job_manager.is_deleting = true;
                }
                rehearsal.end_job_manager();
            }
            ClusterStep::DeleteJobManager { .. } => {
                facts.job_manager = Fact::Known(None);
                facts.task_manager_pods = Fact::Known(vec![]);
                rehearsal.end_job_manager();
            }
            ClusterStep::StopTaskManagers { .. } => {
                facts.task_manager_pods = Fact::Known(vec![]);
            }
            ClusterStep::DeleteTaskManagers { .. } => {
                facts.task_managers = Fact::Known(None);
                facts.task_manager_pods = Fact::Known(vec![]);
            }
            ClusterStep::DeleteHaMetadata { .. } => {
                facts.ha_metadata = Fact::Known(HaMetadata::default());
            }
            ClusterStep::CreateCluster(_) => {
                if rehearsal.resource.spec.job.is_some() {
                    let path = rehearsal.status.job_status.upgrade_savepoint_path.as_deref();
                    rehearsal.outcome.restore = Some(restore_of(path));
                }
                rehearsal.is_over = true;
            }
            ClusterStep::MakePreflight(preflight) => {
                let passed = |pod: &Value| PreflightPod {
                    name: pod["metadata"]["name"].to_string(),
                    digest: preflight.digest.clone(),
                    created: Some(rehearsal.now),
                    state: PreflightState::Passed,
                };
                let pods = preflight.pods.iter().map(passed).collect();
                facts.preflight = Fact::Known(PreflightPods { pods, refusal: None });
            }
            ClusterStep::RemovePreflight => {
                facts.preflight = Fact::Known(PreflightPods::default());
            }
            ClusterStep::RemoveStandby { .. } => facts.standby_pods = Fact::Known(vec![]),
            ClusterStep::ReleaseLeadership => facts.leader = Fact::Known(Leader::Standby),
            // Only waiting follows.
            ClusterStep::ScaleTaskManagers { .. } => rehearsal.is_over = true,
            ClusterStep::FinishCluster(_)
            | ClusterStep::HoldLeadership
            | ClusterStep::DisownStandby
            | ClusterStep::ForgetJobGraphs { .. }
            | ClusterStep::ApplyIngress(_) => {}
        }
    }
}

impl Rehearsal {
    fn end_job_manager(&mut self) {
        self.outcome.stops_job = true;
        self.facts.pods = Fact::Known(vec![]);
        self.facts.jobs = Fact::Unknown("there is no JobManager".to_owned());
    }
}

impl Rehearsed for FlinkSessionJob {
    fn step_text(step: &SessionJobStep) -> Option<StepText> {
        step_text::of_session_job(step)
    }

    fn imagine(rehearsal: &mut Rehearsal<Self>, step: &SessionJobStep) {
        match step {
            SessionJobStep::SetSessionLabel { cluster } => {
                let labels = rehearsal.resource.metadata.labels.get_or_insert_default();
                labels.insert(SESSION_LABEL.to_owned(), cluster.clone());
            }
            SessionJobStep::Submit(submission) => {
                let path = submission.savepoint_path.as_deref();
                rehearsal.outcome.restore = Some(restore_of(path));
                rehearsal.is_over = true;
            }
            SessionJobStep::Remember(_) => {}
        }
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

/// Lists the job as its JobManager does after its end.
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
