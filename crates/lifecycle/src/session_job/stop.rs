//! Stopping a running job so that its changed spec can start: carries out the decision of the table.

use std::time::Duration;

use super::plan::{Plan, Step};
use super::{End, Pass};
use crate::diff::SpecDiff;
use crate::error_document::LostJob;
use crate::job;
use crate::kind::Kind;
use crate::problem::{Halt, Problem};
use crate::transitions::stop::{StopDecision, StopFacts};
use api::job::{JobState, UpgradeMode};
use api::reconciled::ReconciledJob;
use api::session_job::FlinkSessionJob;
use api::status::JobStatusState;
use state::restore_point::RestorePoint;

impl Pass<'_> {
    pub(super) fn stop(&mut self, last: &ReconciledJob, diff: &SpecDiff) -> End {
        let decision = self.decide_stop(self.job().upgrade_mode)?;
        if let StopDecision::Wait(on, reason) = &decision {
            return self.meanwhile(last, *on, format!("the change waits: {reason}"));
        }
        if decision.ends_what_runs()
            && let Some(plan) = self.await_turn(last)?
        {
            return Ok(plan);
        }
        self.stop_as(decision, last, diff)
    }

    /// Carries out the decision of the upgrade table.
    pub(super) fn stop_as(
        &mut self,
        decision: StopDecision,
        last: &ReconciledJob,
        diff: &SpecDiff,
    ) -> End {
        match decision {
            StopDecision::Wait(_, reason) => {
                Err(Halt::cannot(format!("the job is not stopped: {reason}")))
            }
            StopDecision::Refuse(message) => {
                Err(Halt::problem(Problem::upgrade("UpgradeFailed", message)))
            }
            StopDecision::Savepoint => {
                if let Some(plan) = self.pause_before_stop(last)? {
                    return Ok(plan);
                }
                self.check_jar()?;
                self.announce_stop(diff);
                self.begin_stop()
            }
            StopDecision::Cancel => {
                self.check_jar()?;
                self.note_state_before_cancel()?;
                self.announce_stop(diff);
                self.begin_cancel(last, UpgradeMode::Savepoint)
            }
            StopDecision::Stateless => {
                self.check_jar()?;
                self.announce_stop(diff);
                self.status.job_status.upgrade_savepoint_path = None;
                self.begin_cancel(last, UpgradeMode::Stateless)
            }
            StopDecision::AlreadyStopped(mode) | StopDecision::NeverStarted(mode) => {
                self.announce(diff);
                let path = job::savepoint_path(&self.status.job_status);
                let restore = match (mode, path) {
                    (UpgradeMode::Stateless, _) | (_, None) => RestorePoint::Empty,
                    (UpgradeMode::Savepoint | UpgradeMode::LastState, Some(path)) => {
                        RestorePoint::Path(path)
                    }
                };
                self.supersede(last, restore);
                if mode == UpgradeMode::Stateless {
                    self.status.job_status.upgrade_savepoint_path = None;
                }
                if self.loss_on_record().is_some() {
                    // Its loss was reported, and is over; its id is used up.
                    self.own.loss = None;
                    self.status.job_status.job_id = None;
                }
                self.succeed(mode)
            }
            // For the table, high availability is off.
            StopDecision::LastState => {
                Err(Halt::cannot("HA metadata belongs to the cluster, not to its jobs"))
            }
        }
    }

    /// Stores the successor of a job that has ended, and starts it or leaves it suspended.
    pub(super) fn succeed(&mut self, mode: UpgradeMode) -> End {
        if self.desired_state() == JobState::Suspended {
            self.store_suspended(Some(mode));
            return Ok(self.rest("suspended: the job had ended", Some(self.interval())));
        }
        self.store_before_deploy(mode, false);
        // If the id were kept, the Java operator would take the ended job for the new one.
        self.status.job_status.job_id = None;
        let Some(stored) = self.last.clone() else { return Err(Halt::cannot("nothing is stored")) };
        self.start_again(&stored)
    }

    pub(super) fn decide_stop(&self, mode: UpgradeMode) -> Result<StopDecision, Halt> {
        if mode != UpgradeMode::Stateless && self.loss_on_record() == Some(LostJob::EndedUnseen) {
            // It kept no state, whatever the next one will keep.
            return Ok(StopDecision::AlreadyStopped(UpgradeMode::Stateless));
        }
        let mut facts = StopFacts { may_cancel: true, ..self.stop_facts_of_job(mode)? };
        if mode != UpgradeMode::Stateless && facts.state == Some(JobStatusState::Initializing) {
            // A job that is being created or recovered has no statistics yet: if cancelled now, it would end without
            // reporting its last state.
            facts.state = Some(JobStatusState::Reconciling);
        }
        self.stop_decision(&mut facts, || Ok(false))
    }

    /// Like [`Self::succeed`], in a separate pass: what was just found out is stored first.
    pub(super) fn succeed_later(&mut self, mode: UpgradeMode) -> Plan {
        if self.desired_state() == JobState::Suspended {
            self.store_suspended(Some(mode));
            return self.rest("suspended with a savepoint", Some(self.interval()));
        }
        self.store_before_deploy(mode, false);
        self.go_on("the job's state is saved", Duration::ZERO)
    }

    /// Records what is known of the state before the job ends, so that statistics without state after its end are not
    /// mistaken for a job that never had any.
    pub(super) fn note_state_before_cancel(&mut self) -> Result<(), Halt> {
        let checkpoints = self.world.checkpoints()?.map_err(|reason| {
            Halt::cannot(format!(
                "the job is not cancelled while its checkpoints cannot be read: {reason}"
            ))
        })?;
        if let Some(latest) = &checkpoints.latest {
            self.status.job_status.upgrade_savepoint_path = Some(latest.path.clone());
        } else if self.last_mode() == UpgradeMode::Stateless {
            self.status.job_status.upgrade_savepoint_path = None;
        }
        Ok(())
    }

    fn begin_cancel(&mut self, last: &ReconciledJob, mode: UpgradeMode) -> End {
        let job_id = self.job_id()?;
        self.status.error = None;
        self.own.loss = None;
        self.store_cancelling(last, mode);
        self.steps.push(Step::CancelJob { job_id, is_best_effort: false });
        let because = match mode {
            UpgradeMode::Stateless => "cancelling the job without keeping its state",
            UpgradeMode::Savepoint | UpgradeMode::LastState => {
                "cancelling the job and keeping its checkpoint"
            }
        };
        Ok(self.go_on(because, STOPPING))
    }

    /// Drops the state, and starts the job from the path that the user named.
    pub(super) fn redeploy_from_savepoint(&mut self, last: &ReconciledJob, diff: &SpecDiff) -> End {
        let path = self.named_for_redeploy()?;
        let was_running = last.job_state() == JobState::Running;
        if was_running {
            self.check_jar()?;
        }
        let state = self.status.job_status.state;
        let runs = was_running && !state.is_some_and(JobStatusState::is_globally_terminal);
        let left = self.left_behind(runs)?;
        let cancelled = job::id(&self.status.job_status).filter(|_| runs);
        if cancelled.is_some() {
            self.announce_stop(diff);
        } else {
            self.announce(diff);
        }
        self.supersede(last, left);
        self.status.job_status.upgrade_savepoint_path = Some(path);
        job::forget_stop(&mut self.status.job_status);
        self.store_before_deploy(UpgradeMode::Savepoint, false);
        if let Some(job_id) = cancelled {
            self.set_job_state(JobStatusState::Cancelling);
            self.write_intent();
            self.steps.push(Step::CancelJob { job_id, is_best_effort: false });
            return Ok(self.go_on("cancelling the job without keeping its state", STOPPING));
        }
        self.status.job_status.job_id = None;
        let Some(stored) = self.last.clone() else { return Err(Halt::cannot("nothing is stored")) };
        self.start_again(&stored)
    }
}

impl Pass<'_> {
    /// Returns the state that a redeploy drops, for the history: the newest one of a running job, not the one it was
    /// started from.
    fn left_behind(&self, runs: bool) -> Result<RestorePoint, Halt> {
        let recorded = job::savepoint_path(&self.status.job_status);
        let recorded = recorded.map_or(RestorePoint::Empty, RestorePoint::Path);
        let runs = match job::id(&self.status.job_status) {
            Some(id) if runs => FlinkSessionJob::may_be_cancelled(self, &id)?,
            Some(_) | None => false,
        };
        if !runs {
            return Ok(recorded);
        }
        Ok(match self.state_to_drop()? {
            Ok(path) => path.map_or(recorded, RestorePoint::Path),
            // A checkpoint that its id leads to.
            Err(_) => RestorePoint::HaMetadata,
        })
    }
}

/// Pause before a cancelled job is looked for: most are gone in a moment.
pub(super) const STOPPING: Duration = Duration::from_millis(500);
