//! One pass over a resource that has a job: what deployments and session jobs have in common.
//!
//! [`Pass`] is the same for both. [`Kind`] holds the differences: the steps, the source of the configuration, and which
//! fields of a status derive from others.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use super::attempts::Attempts;
use super::blocker::Blocker;
use super::job;
use super::kind::{End, Kind};
use super::pauses::SOON;
use super::plan::{PlanOf, Step};
use super::problem::{Halt, Problem, VALIDATION_ERROR};
use super::resource::StatusOfJob;
use super::verdict::outcome::Hold;
use super::world::{Question, World};
use crate::wait::Awaited;
use api::CANARY_LABEL;
use api::deployment::FlinkDeployment;
use api::job::JobState;
use api::reconciled::{CorruptSpec, Reconciled, StoredSpec};
use api::status::ReconciliationState;
use validation::Violation;

/// Longest pause while something waits for a person.
pub(super) const PROBLEM_INTERVAL_MAX: Duration = Duration::from_secs(15);
/// The pause before something that cannot be read is asked for again is this fraction of the wait so far.
const FACT_CHECKS: u32 = 8;
/// Shortest pause that a rule may request.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The state of one pass.
pub(super) struct Pass<'w, K: Kind> {
    pub(super) world: &'w World<'w, K>,
    pub(super) status: K::Status,
    pub(super) steps: Vec<Step<K>>,
    /// The stored spec. It is shared because each question repeats the decision.
    pub(super) last: Option<Arc<Reconciled<K::Spec>>>,
    /// The spec to bring about: the user's, or the last good one while the user's is invalid.
    pub(super) spec: Cow<'w, K::Spec>,
    /// Generation of `spec`.
    pub(super) generation: i64,
    pub(super) problem: Option<Problem>,
    /// Why the JobManager's REST API does not answer.
    pub(super) unreachable: Option<String>,
    /// The job was asked to cancel, but its JobManager does not know of it.
    pub(super) is_cancel_lost: bool,
    /// Why the running job is not considered stable yet.
    pub(super) unproven: Option<String>,
    /// The longest pause before the next pass, in addition to the plan's own.
    pub(super) wake: Option<Duration>,
    /// Failed stops of the job, the last one in this pass.
    pub(super) failed_stop: Option<Attempts>,
    /// The blocker that the deletion waits for.
    pub(super) blocker: Option<Box<Blocker>>,
    /// Something could not be read, so that the pass ends before everything was done.
    pub(super) is_cut_short: bool,
    /// Why the resource is only observed.
    pub(super) paused: Option<String>,
    pub(super) own: K::Own,
}

/// One pass over a `FlinkDeployment`.
pub(super) type DeploymentPass<'w> = Pass<'w, FlinkDeployment>;

impl<'w, K: Kind> Pass<'w, K> {
    pub(super) fn new(world: &'w World<'w, K>) -> Self {
        Self {
            world,
            status: world.status.clone(),
            steps: Vec::new(),
            last: None,
            spec: Cow::Borrowed(world.spec()),
            generation: world.generation(),
            problem: None,
            unreachable: None,
            is_cancel_lost: false,
            unproven: None,
            wake: None,
            failed_stop: None,
            blocker: None,
            is_cut_short: false,
            paused: world.paused(),
            own: K::Own::default(),
        }
    }

    /// Returns the plan that results from how the pass ended, or the question to answer first.
    pub(super) fn conclude(mut self, end: End<K>) -> Result<PlanOf<K>, Question> {
        match end {
            Ok(plan) => Ok(plan),
            Err(Halt::Ask(question)) => Err(question),
            Err(Halt::Cannot(because)) => {
                self.is_cut_short = true;
                if self.problem.is_none() && K::is_held_up(&self) && self.has_room() {
                    self.problem = Some(Problem::not_carried_out(&because));
                }
                // Many may ask an API server that is overloaded.
                let pause =
                    (self.waited(Awaited::Fact) / FACT_CHECKS).clamp(SOON, PROBLEM_INTERVAL_MAX);
                Ok(self.wait_for(Awaited::Fact, because, pause))
            }
            Err(Halt::Wait(on, because)) => Ok(self.wait_for(on, because, SOON)),
            Err(Halt::Problem(problem)) => {
                let because = problem.message.clone();
                self.problem = Some(*problem);
                // A repair of the status triggers no pass, so the next one checks for it.
                let interval = self.interval().min(PROBLEM_INTERVAL_MAX);
                Ok(self.rest(because, Some(interval)))
            }
        }
    }

    pub(super) fn is_canary(&self) -> bool {
        let labels = self.world.metadata().labels.as_ref();
        let label = labels.and_then(|labels| labels.get(CANARY_LABEL));
        label.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Parses the last reconciled spec.
    pub(super) fn read_last(&mut self) -> Result<(), CorruptSpec> {
        if let Some(text) = &self.status.reconciliation().last_reconciled_spec {
            self.last = Some(self.world.memo.parse(text)?);
        }
        Ok(())
    }

    /// Accepts the spec, or returns why there is nothing to continue with. An edit that is invalid or not validated yet
    /// never touches a running job: the last good spec stays in force.
    pub(super) fn accept(
        &mut self,
        violations: &[Violation],
        hold: Option<Hold>,
        reason: &'static str,
    ) -> Option<String> {
        if violations.is_empty() && hold.is_none() {
            return None;
        }
        if let Some(Hold { look_again, .. }) = &hold {
            self.wake_within(*look_again);
        }
        let because = if violations.is_empty() {
            self.problem = hold.as_ref().and_then(Hold::problem);
            hold.map(|hold| hold.because).unwrap_or_default()
        } else {
            let message = violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            let detail = Some(VALIDATION_ERROR.to_owned());
            self.problem = Some(Problem { reason, detail, ..Problem::of_resource(message) });
            "the spec is invalid and nothing was deployed yet".to_owned()
        };
        let Some(last) = self.last.clone() else { return Some(because) };
        self.keep_in_force(&last.spec);
        None
    }

    /// Keeps the last good spec in force, until there is another one.
    pub(super) fn keep_in_force(&mut self, last: &K::Spec) {
        let mut spec = job::in_force(last, self.world.spec());
        if let Some(job) = spec.job_mut() {
            match self.status.reconciliation().state {
                // The stored job is stopped in any case. As for the upgrade mode, the user's spec decides what comes
                // next.
                ReconciliationState::Upgrading => {
                    let wanted = self.world.spec().job();
                    job.state = wanted.map_or(JobState::Running, |wanted| wanted.state);
                }
                ReconciliationState::RollingBack => job.state = JobState::Running,
                ReconciliationState::Deployed | ReconciliationState::RolledBack => {}
            }
        }
        self.spec = Cow::Owned(spec);
        self.generation = self.status.observed_generation().unwrap_or(self.generation);
    }

    /// Schedules the next pass after this long at most.
    pub(super) fn wake_within(&mut self, pause: Duration) {
        let pause = pause.max(PAUSE_MIN);
        self.wake = Some(self.wake.map_or(pause, |wake| wake.min(pause)));
    }
}
