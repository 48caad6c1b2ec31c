//! A record that went back with the API server's store; see [`crate::decide::rewind`].
//!
//! The cluster of a session job goes on with what it has: the job on record may have ended there
//! long ago, and another one of this resource run in its place. Nothing is concluded from the record
//! then, and nothing started beside what runs.

use std::time::Duration;

use super::plan::Plan;
use super::{Halt, Pass};
use crate::api::job::{JobState, UpgradeMode};
use crate::api::status::ReconciliationState;
use crate::decide::diff::{ChangeClass, diff_session_job};
use crate::decide::job;
use crate::decide::plan::{Component, Event};
use crate::decide::rewind::{WentBack, is_alive, refusal};

impl Pass<'_> {
    /// Refuses to go on where the record does not tell what there is, until a person says what to
    /// start from: then that is done.
    pub(super) fn heed_set_back_record(&mut self) -> Result<Option<Plan>, Halt> {
        let Some(set_back) = self.set_back() else { return Ok(None) };
        let jobs = self.world.jobs()?.map_err(|reason| {
            Halt::cannot(format!("the cluster's jobs cannot be listed: {reason}"))
        })?;
        let id = self.status.job_status.job_id.as_deref();
        if set_back.job_id.as_deref() != id && set_back.lives_among(jobs) {
            return Err(Halt::problem(refusal(self.beside(&set_back))));
        }
        if is_alive(id, jobs)
            || self.job().upgrade_mode == UpgradeMode::Stateless
            || self.is_answered(&set_back)
        {
            return Ok(None);
        }
        if self.is_told_anew(&set_back)
            && let Some(last) = self.last.clone()
        {
            let diff = diff_session_job(&last.spec, &self.spec);
            if diff.class() == ChangeClass::SavepointRedeploy {
                return self.redeploy_from_savepoint(&last, &diff).map(Some);
            }
        }
        Err(Halt::problem(refusal(set_back.message)))
    }

    fn beside(&self, WentBack { message, job_id, nonce: _ }: &WentBack) -> String {
        format!(
            "{message} Job {} still runs in the session cluster `{}`, and a second one is not \
             started beside it: stop it with a savepoint first.",
            job_id.as_deref().unwrap_or_default(),
            self.cluster_name()
        )
    }

    /// What is known of a job that ran last and is not the one on record.
    pub(super) fn unrecorded_job(&self) -> Option<WentBack> {
        let on_record = job::id(&self.status.job_status);
        self.set_back().filter(|known| known.job_id.is_some() && known.job_id != on_record)
    }

    /// Should the deletion have to wait for the cluster, and this process end meanwhile, then the next
    /// one finds in the status that the job on record is not the one to be ended.
    pub(super) fn keep_in_mind_set_back_record(&mut self) {
        self.problem = self.unrecorded_job().map(|known| refusal(known.message));
    }

    /// A deletion ends what there is. Where the job that ran last is still alive, it is put on record
    /// as the one that runs, so that all that follows is about that one.
    pub(super) fn put_unrecorded_job_on_record(&mut self) -> Result<Option<Plan>, Halt> {
        self.problem = None;
        let Some(known) = self.unrecorded_job() else { return Ok(None) };
        let cannot =
            |reason| Halt::cannot(format!("the cluster's jobs cannot be listed: {reason}"));
        let jobs = self.world.jobs()?.map_err(cannot)?;
        let is_it = |job: &&crate::decide::world::Job| Some(&job.id) == known.job_id.as_ref();
        let Some(found) = jobs.iter().find(is_it).filter(|job| !job.state.is_globally_terminal())
        else {
            return Ok(None);
        };
        let (id, state) = (found.id.clone(), found.state);
        job::forget_stop(&mut self.status.job_status);
        self.status.job_status.job_id = Some(id.clone());
        self.set_job_state(state);
        let mode = self.last_mode();
        self.store_last(self.stored(JobState::Running, mode, false));
        self.status.reconciliation_status.state = ReconciliationState::Deployed;
        self.status.error = None;
        let because = format!(
            "the record went back with the API server's store: job {id}, which ran last, is the one \
             that the deletion ends"
        );
        self.tell(Event::warning("Cleanup", Component::Job, because.clone()));
        Ok(Some(self.finish(because, Some(Duration::ZERO))))
    }
}
