//! A record that went back with the API server's store; see [`crate::transitions::etcd_restore`].
//!
//! The cluster of a session job keeps what it has: the job on record may have ended there long ago, and another one of
//! this resource may run in its place. Then nothing is concluded from the record, and nothing is started in addition to
//! what runs. If no process saw the store go back, the id of a running job shows that it belongs to this resource.

use std::time::Duration;

use jiff::SignedDuration;

use super::identity;
use super::plan::Plan;
use super::{Maybe, Pass};
use crate::diff::{ChangeClass, diff_session_job};
use crate::error_document::WentBack;
use crate::event::{Component, Event};
use crate::job;
use crate::phase::Phase;
use crate::problem::{Halt, Problem};
use crate::transitions::etcd_restore::{is_alive, refusal};
use crate::world::{Fact, Job};
use api::job::{JobState, UpgradeMode};
use api::status::JobStatusState;

/// A job whose savepoint is complete has ended within this time, or continues.
const ENDING_MAX: SignedDuration = SignedDuration::from_mins(1);

impl Pass<'_> {
    /// Refuses to continue while the record does not match what exists, until a person says what to start from; that is
    /// then done.
    pub(super) fn settle_set_back_record(&mut self) -> Maybe {
        let Some(set_back) = self.set_back() else {
            // A list without the job may be older than its submission.
            if !self.is_just_submitted() || self.is_listed() {
                self.refuse_second_to_listed()?;
            }
            return Ok(None);
        };
        let jobs = self.list()?;
        let id = self.status.job_status.job_id.as_deref();
        if set_back.job_id.as_deref() != id && set_back.lives_among(jobs) {
            return Err(Halt::problem(self.refusal_of_second_job(set_back)));
        }
        if is_alive(id, jobs)
            || self.job().upgrade_mode == UpgradeMode::Stateless
            || self.is_answered(&set_back)
        {
            return Ok(None);
        }
        if self.is_reported_anew(&set_back)
            && let Some(last) = self.last.clone()
        {
            let diff = diff_session_job(&last.spec, &self.spec);
            if diff.class() == ChangeClass::SavepointRedeploy {
                if let Some(plan) = self.settle_submission()? {
                    return Ok(Some(plan));
                }
                return self.redeploy_from_savepoint(&last, &diff).map(Some);
            }
        }
        Err(Halt::problem(refusal(set_back)))
    }

    /// Refuses a start if another job of this resource runs. It needs the list of jobs, whatever the record says.
    pub(super) fn refuse_a_second_start(&self) -> Result<(), Halt> {
        if self.world.uid().is_empty() {
            // The resource is not stored yet, so it has no jobs.
            return Ok(());
        }
        self.list()?;
        self.refuse_second_to_listed()
    }

    /// Refuses to continue if a job of this resource is listed that is not on record. Uses only what was read already.
    pub(super) fn refuse_second_to_listed(&self) -> Result<(), Halt> {
        let Some(beside) = self.second_job() else { return Ok(()) };
        if self.is_ending() {
            let because = "waiting for the end of the job that was stopped with a savepoint";
            return Err(Halt::cannot(because));
        }
        let beside = WentBack::alongside(&beside.id, &self.job());
        Err(Halt::problem(self.refusal_of_second_job(beside)))
    }

    /// Returns a listed job of this resource that has not ended, and is not the one on record.
    fn second_job(&self) -> Option<&Job> {
        let Fact::Known(jobs) = &self.world.facts.jobs else { return None };
        let on_record = job::id(&self.status.job_status);
        jobs.iter().find(|job| {
            !job.state.is_globally_terminal()
                && Some(&job.id) != on_record.as_ref()
                && identity::is_of(self.world.uid(), &job.id)
        })
    }

    /// Returns true if the job on record is known to be in the list.
    fn is_listed(&self) -> bool {
        let Fact::Known(jobs) = &self.world.facts.jobs else { return false };
        let on_record = job::id(&self.status.job_status);
        jobs.iter().any(|job| Some(&job.id) == on_record.as_ref())
    }

    /// Returns true if the job was stopped with a savepoint a moment ago. Its id is then forgotten, and it may still be
    /// listed for a moment.
    fn is_ending(&self) -> bool {
        let job = &self.status.job_status;
        job::id(job).is_none()
            && job.state.is_some_and(JobStatusState::is_globally_terminal)
            && self.world.now.duration_since(self.state_since()) < ENDING_MAX
    }

    /// Returns the jobs of the cluster, or a halt if they cannot be listed.
    pub(super) fn list(&self) -> Result<&[Job], Halt> {
        let cannot =
            |reason| Halt::cannot(format!("the cluster's jobs cannot be listed: {reason}"));
        self.world.jobs()?.map(Vec::as_slice).map_err(cannot)
    }

    fn refusal_of_second_job(&self, set_back: WentBack) -> Problem {
        let message = format!(
            "{} Job {} still runs in the session cluster `{}`, so no second one is started: stop \
             it with a savepoint first.",
            set_back.message,
            set_back.job_id.as_deref().unwrap_or_default(),
            self.cluster_name()
        );
        Problem { message, ..refusal(set_back) }
    }

    /// Returns what is known about a job that last ran and is not the one on record.
    pub(super) fn unrecorded_job(&self) -> Option<WentBack> {
        let on_record = job::id(&self.status.job_status);
        self.set_back().filter(|known| known.job_id.is_some() && known.job_id != on_record)
    }

    /// Keeps in the status that the job on record is not the one to end. If the deletion has to wait for the cluster
    /// and this process ends meanwhile, the next one finds it there.
    pub(super) fn keep_in_mind_set_back_record(&mut self) {
        self.problem = self.unrecorded_job().map(refusal);
    }

    /// Records the job that last ran as the running one if it is still alive. A deletion ends whatever exists, and all
    /// that follows is then about that job.
    pub(super) fn put_unrecorded_job_on_record(&mut self) -> Maybe {
        self.problem = None;
        let Some(known) = self.unrecorded_job() else { return Ok(None) };
        let is_it = |job: &&Job| Some(&job.id) == known.job_id.as_ref();
        let found = self.list()?.iter().find(is_it).cloned();
        let found = found.filter(|job| !job.state.is_globally_terminal());
        Ok(found.map(|job| self.put_on_record(&job)))
    }

    /// Like [`Self::put_unrecorded_job_on_record`], for a job that is known only by its id, and for the one on record,
    /// which may be listed although the record says that it ended or is lost. Without a list, there is none.
    pub(super) fn put_second_job_on_record(&mut self) -> Maybe {
        let on_record = job::id(&self.status.job_status);
        if self.is_cluster_ready() && (on_record.is_some() || !self.world.uid().is_empty()) {
            let _asked = self.world.jobs()?;
        }
        let Fact::Known(jobs) = &self.world.facts.jobs else { return Ok(None) };
        let is_recorded =
            |job: &&Job| Some(&job.id) == on_record.as_ref() && !job.state.is_globally_terminal();
        let found = jobs.iter().find(is_recorded).or_else(|| self.second_job()).cloned();
        Ok(found.map(|job| self.put_on_record(&job)))
    }

    fn put_on_record(&mut self, Job { id, state, .. }: &Job) -> Plan {
        job::forget_stop(&mut self.status.job_status);
        self.status.job_status.job_id = Some(id.clone());
        self.set_job_state(*state);
        let mode = self.last_mode();
        self.store_last(self.stored(JobState::Running, mode, false));
        self.enter(Phase::Running);
        self.status.error = None;
        let because = format!(
            "job {id} runs in the session cluster but is not on record: the deletion ends this one"
        );
        self.emit(Event::warning("Cleanup", Component::Job, because.clone()));
        self.go_on(because, Duration::ZERO)
    }
}
