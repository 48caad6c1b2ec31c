//! A job whose spec is in place: restart it after a failure, or leave it alone.

use std::time::Duration;

use super::start::STARTING;
use super::{End, Maybe, Pass};
use crate::error_document::LostJob;
use crate::pauses::SOON;
use crate::problem::{Halt, Problem};
use crate::transitions::rollback::Due;
use crate::transitions::stop::StopDecision;
use crate::wait::Awaited;
use api::job::{JobState, UpgradeMode};
use api::reconciled::{ReconciledJob, deployed};
use api::status::{JobStatusState, ReconciliationState};
use config::options;

impl Pass<'_> {
    pub(super) fn maintain(&mut self, last: &ReconciledJob) -> End {
        if let Some(plan) = self.leave_cluster(last)? {
            return Ok(plan);
        }
        let state = self.status.job_status.state;
        let is_running = last.job_state() == JobState::Running;
        if is_running && state == Some(JobStatusState::Failed) {
            let config = self.observe_config()?;
            if config.get(&options::JOB_RESTART_FAILED)?
                && let Some(plan) = self.restart_failed(last)?
            {
                return Ok(plan);
            }
        }
        if let Some(plan) = self.roll_back_if_due(last)? {
            return Ok(plan);
        }
        let due = match self.rollback_due(last)? {
            Due::In(left) => left,
            Due::Never | Due::Now => Duration::MAX,
        };
        let config = self.observe_config()?;
        if let Some(next) = self.maintain_snapshots(&config)? {
            self.wake_within(next);
        }
        let because = self.resting_because(is_running);
        let look_again = match state {
            _ if self.unreachable.is_some() => SOON,
            Some(JobStatusState::Running) => self.interval(),
            Some(state) if state.is_globally_terminal() || !is_running => self.interval(),
            Some(_) | None if self.own.is_lost() => self.interval(),
            Some(_) | None => STARTING,
        };
        let look_again = look_again.min(due);
        Ok(match state {
            _ if self.unreachable.is_some() => {
                self.wait_for(Awaited::SessionCluster, because, look_again)
            }
            Some(state)
                if is_running
                    && !state.is_globally_terminal()
                    && state != JobStatusState::Running =>
            {
                self.wait_for(Awaited::JobRunning, because, look_again)
            }
            Some(_) | None => self.rest(because, Some(look_again)),
        })
    }

    fn resting_because(&self, is_running: bool) -> String {
        if let Some(reason) = &self.unreachable {
            return format!("the session cluster does not answer: {reason}");
        }
        if let Some(loss @ LostJob::EndedUnseen) = self.own.loss {
            return loss.message().to_owned();
        }
        if self.own.is_lost() {
            return "the session cluster does not know the job, and its newest state is not on \
                    record"
                .to_owned();
        }
        if !is_running {
            return "suspended".to_owned();
        }
        let state = self.status.job_status.state.map_or("not seen yet", |it| it.into_str());
        format!("the job is {state}")
    }

    fn restart_failed(&mut self, last: &ReconciledJob) -> Maybe {
        let mode = match self.decide_stop(self.job().upgrade_mode)? {
            StopDecision::AlreadyStopped(mode) => mode,
            StopDecision::Refuse(message) => {
                return Err(Halt::problem(Problem::upgrade("RestoreFailed", message)));
            }
            StopDecision::Wait(..)
            | StopDecision::Stateless
            | StopDecision::Savepoint
            | StopDecision::Cancel
            | StopDecision::LastState
            | StopDecision::NeverStarted(_) => {
                return Err(Halt::cannot(
                    "the job failed, but the upgrade table says that it has not ended",
                ));
            }
        };
        match self.take_attempt() {
            Ok(attempt) => self.announce_restart(attempt),
            Err(wait) => {
                self.wake_within(wait);
                return Ok(None);
            }
        }
        self.start_failed_again(last, mode).map(Some)
    }

    /// Restarts the failed job from the state it left, whatever the user's spec says since a rollback.
    fn start_failed_again(&mut self, last: &ReconciledJob, mode: UpgradeMode) -> End {
        if self.status.reconciliation_status.state != ReconciliationState::RolledBack {
            return self.succeed(mode);
        }
        let spec = deployed(&self.status.reconciliation_status, last).into_owned().spec;
        let mut last = last.clone();
        if let Some(job) = &mut last.spec.job {
            job.upgrade_mode = mode;
        }
        self.store_last(last.clone());
        let restore = self.next_restore_point(&last)?;
        self.start_stable(&last, &spec, &restore)
    }
}
