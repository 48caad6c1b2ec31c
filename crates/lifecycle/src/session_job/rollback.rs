//! Automatic rollback to the last stable spec of a session job.
//!
//! The failed job is cancelled, and the previous spec starts from the checkpoint that is left, by the same table and
//! the same choice of a restore point as in an upgrade. If these would wait or refuse, nothing is rolled back, and the
//! reason is reported. The failed spec remains the stored one.

use super::plan::Step;
use super::stop::STOPPING;
use super::{End, Maybe, Pass};
use crate::diff::{ChangeClass, SpecDiff, diff_session_job};
use crate::event::Component;
use crate::phase::Phase;
use crate::problem::Problem;
use crate::transitions::rollback::Due;
use crate::transitions::stop::StopDecision;
use api::job::{JobState, UpgradeMode};
use api::reconciled::ReconciledJob;
use api::status::JobStatusState;

impl Pass<'_> {
    /// Begins a rollback if it is due and the newest state can be carried over.
    pub(super) fn roll_back_if_due(&mut self, last: &ReconciledJob) -> Maybe {
        if self.own.is_lost() || self.rollback_due(last)? != Due::Now {
            return Ok(None);
        }
        match self.decide_stop(self.mode_of_rollback())? {
            StopDecision::Stateless => {
                self.status.job_status.upgrade_savepoint_path = None;
                self.begin_rollback(last, UpgradeMode::Stateless, true).map(Some)
            }
            StopDecision::Cancel => {
                self.note_state_before_cancel()?;
                self.begin_rollback(last, UpgradeMode::Savepoint, true).map(Some)
            }
            StopDecision::AlreadyStopped(mode) | StopDecision::NeverStarted(mode) => {
                self.begin_rollback(last, mode, false).map(Some)
            }
            StopDecision::Wait(_, reason) | StopDecision::Refuse(reason) => {
                self.refuse_rollback(&reason);
                Ok(None)
            }
            StopDecision::Savepoint | StopDecision::LastState => {
                self.refuse_rollback(
                    "its checkpoints are not retained when it is cancelled, or nothing could start \
                     from the newest one",
                );
                Ok(None)
            }
        }
    }

    fn refuse_rollback(&mut self, reason: &str) {
        let cause = self.instability();
        self.problem.get_or_insert(Problem::upgrade(
            "RollbackRefused",
            format!(
                "the spec did not become stable ({cause}), and it is not rolled back: {reason}"
            ),
        ));
    }

    /// Returns why the spec is not stable, as far as known.
    fn instability(&self) -> String {
        if let Some(problem) = &self.problem {
            return problem.message.clone();
        }
        if let Some(because) = &self.unproven {
            return format!("the job is running, but {because}");
        }
        let state = self.status.job_status.state.map_or("unknown", |it| it.into_str());
        format!("the job is {state}")
    }

    /// Records that the spec failed and how its job is stopped, then cancels it.
    fn begin_rollback(&mut self, last: &ReconciledJob, mode: UpgradeMode, cancels: bool) -> End {
        let job_id = self.job_id()?;
        let cause = self.instability();
        self.announce_rollback(Component::Job, "time", &cause);
        let mut failed = last.clone();
        failed.first_deployment = Some(false);
        if let Some(job) = &mut failed.spec.job {
            job.upgrade_mode = mode;
            if !cancels {
                job.state = JobState::Suspended;
            }
        }
        self.store_last(failed);
        self.enter(Phase::RollingBack);
        if cancels {
            self.set_job_state(JobStatusState::Cancelling);
        }
        self.write_intent();
        if cancels {
            self.steps.push(Step::CancelJob { job_id, is_best_effort: false });
        }
        Ok(self.go_on("rolling back: stopping the job of the failed spec", STOPPING))
    }

    /// Replaces the failed job by the last stable spec. An edit of the user meanwhile takes precedence.
    pub(super) fn continue_rollback(&mut self, last: &ReconciledJob, diff: &SpecDiff) -> End {
        if self.status.job_status.state == Some(JobStatusState::Cancelling) {
            return self.continue_cancel(last);
        }
        if diff.class() == ChangeClass::SavepointRedeploy {
            return self.redeploy_from_savepoint(last, diff);
        }
        let is_left = diff
            .changes
            .iter()
            .any(|change| change.class > ChangeClass::Ignore && change.field != "job.state");
        if is_left || self.desired_state() == JobState::Suspended {
            self.announce(diff);
            self.store_before_deploy(self.last_mode(), false);
            let stored = self.last.clone();
            return self.start_again(stored.as_deref().unwrap_or(last));
        }
        let stable = self.spec_to_roll_back_to()?;
        let restore = self.next_restore_point(last)?;
        self.start_stable(last, &stable.spec, &restore)
    }

    /// Returns true if, after a rollback, the user is back at the running spec.
    pub(super) fn is_back_at_stable(&self) -> bool {
        self.stable_spec().is_some_and(|stable| {
            diff_session_job(&stable.spec, &self.spec).class() == ChangeClass::Ignore
        })
    }
}
