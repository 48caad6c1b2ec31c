//! Tries a changed spec in separate pods before a running job is stopped for it.
//!
//! The pods are the record of the trial: a pass looks at their state, and the kubelet retries what failed. Their
//! existence is recorded before they are created, and they are removed before anything is stopped.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::diff::{Change, ChangeClass, SpecDiff, diff};
use crate::event::{Component, Event};
use crate::job;
use crate::kind::Maybe;
use crate::notes::{COLD_UPGRADE, PREFLIGHT, Trial};
use crate::pass::{DeploymentPass, PROBLEM_INTERVAL_MAX};
use crate::pauses::{GOING, SOON};
use crate::plan::{ClusterStep, Plan, Step};
use crate::problem::{Halt, Problem};
use crate::wait::Awaited;
use crate::world::{
    PodProblem, PreflightPod, PreflightPods, PreflightState, UNSCHEDULABLE, UNTRIABLE,
};
use api::NO_PREFLIGHT_ANNOTATION;
use api::deployment::FlinkDeploymentSpec;
use api::job::JobState;
use api::reconciled::ReconciledSpec;
use api::status::ReconciliationState;
use config::option::Preflight as Level;
use config::options;
use render::Submission;
use render::preflight::Preflight;

/// Reason of the event for a spec that did not pass.
pub const PREFLIGHT_FAILED: &str = "PreflightFailed";

/// How long a pod may wait for room next to the running pods. There is more room once those end.
const ROOM_PATIENCE: SignedDuration = SignedDuration::from_secs(15);
/// How a scheduler reports a lack of room, for all its nodes together.
const LACK_OF_ROOM: [&str; 5] =
    ["Insufficient ", "Too many pods", "max volume count", "free ports", "Multi-Attach"];

/// What follows from the state of the pods.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// There are none yet.
    Make,
    /// They are of another spec, or have used up their time.
    Remove,
    Wait(String),
    /// The spec would not start, for this reason.
    Refuse(String),
    Passed,
    /// Not all pods could be tried next to the running ones, for this reason.
    Untried(String),
}

/// Evaluates the pods that try a spec.
pub fn judge(
    known: &PreflightPods,
    wanted: &Preflight,
    now: Timestamp,
    timeout: Duration,
) -> Verdict {
    let PreflightPods { pods, refusal } = known;
    let is_other =
        |pod: &PreflightPod| pod.digest != wanted.digest || pod.state == PreflightState::Over;
    if pods.iter().any(is_other) {
        return Verdict::Remove;
    }
    if let Some(problem) = refusal {
        let PodProblem { reason, message } = problem;
        return if is_unrelated_to_spec(problem) {
            Verdict::Untried(message.clone())
        } else {
            Verdict::Refuse(format!("{reason}: {message}"))
        };
    }
    if pods.len() < wanted.pods.len() {
        return Verdict::Make;
    }
    let mut untried = None;
    let mut waiting = None;
    for PreflightPod { name, digest: _, created, state } in pods {
        let age = created.map_or(SignedDuration::ZERO, |created| now.duration_since(created));
        match state {
            PreflightState::Passed | PreflightState::Over => {}
            // If pods could stand by but the running ones are in the way, the spec is tried without them.
            PreflightState::Troubled(problem)
                if is_unrelated_to_spec(problem)
                    || wanted.is_standby() && problem.reason == UNSCHEDULABLE =>
            {
                if age >= ROOM_PATIENCE {
                    untried = Some(format!("pod `{name}`: {}", problem.message));
                } else {
                    waiting = Some(format!("there is no capacity for pod `{name}` yet"));
                }
            }
            PreflightState::Troubled(PodProblem { reason, message }) => {
                return Verdict::Refuse(format!("pod `{name}`: {reason}: {message}"));
            }
            PreflightState::Pending if age >= SignedDuration::try_from(timeout).unwrap_or(age) => {
                return Verdict::Refuse(format!("pod `{name}` did not finish within {timeout:?}"));
            }
            PreflightState::Pending => waiting = Some(format!("pod `{name}` is starting")),
        }
    }
    match (waiting, untried) {
        (Some(waiting), _) => Verdict::Wait(waiting),
        (None, Some(reason)) => Verdict::Untried(reason),
        (None, None) => Verdict::Passed,
    }
}

/// Returns true if the trial is held up by something other than the spec.
fn is_unrelated_to_spec(PodProblem { reason, message }: &PodProblem) -> bool {
    let is_of_place = reason == UNSCHEDULABLE || reason == "FailedMount";
    reason == UNTRIABLE || is_of_place && LACK_OF_ROOM.iter().any(|it| message.contains(it))
}

/// Returns true if the changes affect what a pod starts from. Parallelism, arguments and a mere restart are nothing
/// that a pod could try.
fn concerns_pods(diff: &SpecDiff) -> bool {
    const UNSEEN: [&str; 8] = [
        "job.parallelism",
        "job.args",
        "job.entryClass",
        "job.state",
        "restartNonce",
        "taskManager.replicas",
        "flinkConfiguration.parallelism.default",
        "flinkConfiguration.pipeline.jobvertex-parallelism-overrides",
    ];
    let is_seen = |change: &Change| {
        change.class == ChangeClass::Upgrade && !UNSEEN.contains(&change.field.as_str())
    };
    diff.changes.iter().any(is_seen)
}

fn skipped(reason: &str) -> Event {
    let message = format!(
        "The new spec could not be tried before the upgrade, which continues anyway: {reason}"
    );
    Event::normal("PreflightSkipped", Component::Operator, message)
}

impl DeploymentPass<'_> {
    /// Tries a spec that will replace the running one, if it has something that a pod can try. Returns `None` once it
    /// has passed, the plan that waits for it, or why it would not start.
    pub(crate) fn preflight(
        &mut self,
        last: &ReconciledSpec,
        (from, to): (&FlinkDeploymentSpec, &FlinkDeploymentSpec),
        is_last_state: bool,
    ) -> Result<Result<Option<Plan>, String>, Halt> {
        let wanted = self.wanted_preflight(from, to, is_last_state)?;
        let Some((level, wanted)) = wanted else { return Ok(Ok(None)) };
        self.own.is_in_preflight = level == Level::Pods;
        let passed = Trial::Passed(wanted.digest.clone());
        let note = PREFLIGHT.get(&self.status.cluster_info);
        if note.as_ref() == Some(&passed) && !wanted.is_standby() {
            return Ok(Ok(None));
        }
        let known = self.world.preflight(&wanted)?.map_err(|reason| {
            Halt::cannot(format!("could not determine whether the new spec would start: {reason}"))
        })?;
        let has_pods = note.is_some() || !known.pods.is_empty();
        // Those of an earlier trial may be there until there are some of this one.
        let may_contend = wanted.is_standby() || note.is_some_and(|note| note.may_contend());
        let under_way = if may_contend { Trial::WarmingUp } else { Trial::UnderWay };
        let timeout = self.observe_config()?.get(&options::JOB_UPGRADE_PREFLIGHT_TIMEOUT)?;
        let verdict = judge(known, &wanted, self.world.now, timeout);
        if let (Verdict::Untried(reason), false) = (&verdict, wanted.is_standby()) {
            self.emit(skipped(reason));
        }
        let (because, pause) = match verdict {
            Verdict::Passed if wanted.is_standby() => {
                self.note_standby(wanted.digest);
                return Ok(Ok(None));
            }
            Verdict::Untried(_) if wanted.is_standby() => {
                let because = "there is no capacity for the new pods next to the old ones";
                self.is_not_hot(because);
                self.steps.push(Step::Own(ClusterStep::RemovePreflight));
                (because.to_owned(), GOING)
            }
            Verdict::Passed | Verdict::Untried(_) => {
                if has_pods {
                    self.steps.push(Step::Own(ClusterStep::RemovePreflight));
                }
                PREFLIGHT.clear(&mut self.status.cluster_info);
                if level == Level::Pods {
                    PREFLIGHT.set(&mut self.status.cluster_info, &passed);
                }
                return Ok(Ok(None));
            }
            Verdict::Refuse(reason) => {
                if has_pods {
                    PREFLIGHT.set(&mut self.status.cluster_info, &under_way);
                }
                return Ok(Err(reason));
            }
            Verdict::Remove => {
                self.forget_fresh_checkpoint();
                self.steps.push(Step::Own(ClusterStep::RemovePreflight));
                ("trying the new spec again".to_owned(), GOING)
            }
            Verdict::Make => {
                PREFLIGHT.set(&mut self.status.cluster_info, &under_way);
                self.write_intent();
                self.steps.push(Step::Own(ClusterStep::MakePreflight(Box::new(wanted))));
                ("trying the new spec before anything is stopped".to_owned(), SOON)
            }
            Verdict::Wait(reason) => (format!("the new spec is being tried: {reason}"), SOON),
        };
        PREFLIGHT.set(&mut self.status.cluster_info, &under_way);
        self.wake_within(pause);
        Ok(Ok(Some(self.meanwhile(last, Awaited::Trial, because)?)))
    }

    /// Tries the desired spec; `None` once it has passed. If it does not pass, reports that and maintains what runs.
    pub(crate) fn preflight_of_wanted(
        &mut self,
        last: &ReconciledSpec,
        is_last_state: bool,
    ) -> Maybe {
        if self.desired_state() != JobState::Running {
            return Ok(None);
        }
        let (from, to) = (self.deployed_spec(last), self.spec.clone().into_owned());
        match self.preflight(last, (&from, &to), is_last_state)? {
            Ok(plan) => Ok(plan),
            Err(reason) => {
                // No watch reports that it passes.
                self.wake_within(PROBLEM_INTERVAL_MAX);
                self.refuse_and_maintain(last, Halt::problem(not_passed(&reason))).map(Some)
            }
        }
    }

    /// Returns what to try and how far; `None` if a trial could not say anything about the change.
    fn wanted_preflight(
        &mut self,
        from: &FlinkDeploymentSpec,
        to: &FlinkDeploymentSpec,
        is_last_state: bool,
    ) -> Result<Option<(Level, Preflight)>, Halt> {
        let is_cold = COLD_UPGRADE.get(&self.status.cluster_info) == Some(self.generation);
        if is_last_state && !is_cold {
            match self.standby(from, to, &self.next_run())? {
                // Nothing of it would be warm, and a standby JobManager might become leader.
                Some(Ok(_)) if !self.is_job_running() => self.is_not_hot("the job is not running"),
                Some(Ok(standby)) => return Ok(Some((Level::Pods, standby))),
                Some(Err(reason)) => self.own.cold_because = Some(reason),
                None => {}
            }
        }
        if !concerns_pods(&diff(from, to)) {
            return Ok(None);
        }
        let level = self.preflight_level()?;
        let preflight = self.render_preflight(to)?;
        Ok(match level {
            Level::None => None,
            Level::Objects => {
                let pods = Vec::new();
                Some((level, Preflight { pods, ..preflight }))
            }
            Level::Pods => Some((level, preflight)),
        })
    }

    /// Returns how far a spec is tried before anything is stopped for it.
    pub(crate) fn preflight_level(&self) -> Result<Level, Halt> {
        if self.is_untried() {
            return Ok(Level::None);
        }
        let config = self.deploy_config(&self.spec, self.generation)?;
        Ok(config.get(&options::JOB_UPGRADE_PREFLIGHT)?)
    }

    /// Returns true if the user wants this generation without a trial.
    pub(crate) fn is_untried(&self) -> bool {
        let annotations = self.world.metadata().annotations.as_ref();
        let untried = annotations.and_then(|all| all.get(NO_PREFLIGHT_ANNOTATION));
        untried.and_then(|generation| generation.parse().ok()) == Some(self.generation)
    }

    fn render_preflight(&self, spec: &FlinkDeploymentSpec) -> Result<Preflight, Halt> {
        let config = self.deploy_config(spec, self.generation)?;
        self.render_with(spec, &config, &Submission::default(), Preflight::of)
    }

    /// Forgets that a spec has passed once something is stopped for it.
    pub(crate) fn forget_passed_preflight(&mut self) {
        let is_stopping = self.status.reconciliation_status.state == ReconciliationState::Upgrading
            || job::pending_stop(&self.status.job_status).is_some();
        let info = &mut self.status.cluster_info;
        if is_stopping && matches!(PREFLIGHT.get(info), Some(Trial::Passed(_))) {
            PREFLIGHT.clear(info);
        }
    }

    /// Ends a trial that the plan does not need.
    pub(crate) fn end_preflight(&mut self) {
        if self.is_taking_over() {
            return;
        }
        let note = PREFLIGHT.get(&self.status.cluster_info);
        PREFLIGHT.clear(&mut self.status.cluster_info);
        match note {
            None | Some(Trial::Passed(_)) => return,
            Some(Trial::UnderWay) => {}
            Some(Trial::WarmingUp | Trial::LeftOver | Trial::StandingBy(_)) => {
                if self.own.standby_is_left != Some(false) {
                    PREFLIGHT.set(&mut self.status.cluster_info, &Trial::LeftOver);
                }
            }
        }
        self.forget_fresh_checkpoint();
        let is_removal = |step: &Step| matches!(step, Step::Own(ClusterStep::RemoveStandby { .. }));
        if !self.steps.iter().any(is_removal) {
            self.steps.push(Step::Own(ClusterStep::RemovePreflight));
        }
    }
}

fn not_passed(reason: &str) -> Problem {
    let message = format!(
        "the new spec would not start: {reason}. What is running is not touched, and the check \
         continues until the spec changes. To skip the check, use `kubectl flink deploy \
         --no-preflight`, or set `{}: none` in its `flinkConfiguration`",
        options::JOB_UPGRADE_PREFLIGHT.key()
    );
    let detail = Some(PREFLIGHT_FAILED.to_owned());
    Problem { detail, ..Problem::upgrade(PREFLIGHT_FAILED, message) }
}

#[cfg(test)]
mod tests;
