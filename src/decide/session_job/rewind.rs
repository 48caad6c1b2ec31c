//! A record that went back with the API server's store; see [`crate::decide::rewind`].
//!
//! The cluster of a session job goes on with what it has: the job on record may have ended there
//! long ago, and another one of this resource run in its place. Nothing is concluded from the record
//! then, and nothing started beside what runs.

use super::plan::Plan;
use super::{Halt, Pass};
use crate::api::job::UpgradeMode;
use crate::decide::diff::{ChangeClass, diff_session_job};
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
}
