//! Handles an API server store that went back to an earlier state, and the record of a job with it.
//!
//! The restore point on record is then older than the job's progress since, and only the process that saw it knows. A
//! start from there would silently replace the newest state by an older one, so it is refused until a person names the
//! state; [`WENT_BACK`] in `status.error` keeps the refusal for the next process. If no process saw it, a running
//! session job that is not on record reveals it by its id.

use api::job::{JobSpec, UpgradeMode};
use api::status::{JobStatus, ReconciliationStatus};

use crate::error_document::WentBack;
use crate::error_document::wording::{END, NONE, SECOND_JOB, SET_BACK, WITH_ID, WITH_NONCE};
use crate::error_document::{ErrorNote, StoredError};
use crate::job;
use crate::kind::Kind;
use crate::pass::{DeploymentPass, Pass};
use crate::problem::{Halt, Problem};
use crate::resource::StatusOfJob;
use crate::world::Job;
use api::reconciled::StoredSpec;

/// Machine-readable reason of the refusal.
pub const WENT_BACK: &str = "RecordWentBack";

impl WentBack {
    /// Reads the refusal from `status.error`, where it is the error itself or one of its causes.
    pub fn read(error: &str) -> Option<Self> {
        StoredError::read(Some(error)).went_back()
    }

    /// Describes a job of this resource that runs and is not on record, for unknown reasons. `job` is the current spec.
    pub fn alongside(job_id: &str, job: &JobSpec) -> Self {
        let nonce = job.savepoint_redeploy_nonce;
        Self {
            message: format!(
                "{SECOND_JOB}this operator started one {WITH_ID}{job_id} and the record names another or \
                 none, {WITH_NONCE}{}. This happens after an unnoticed restore of the API server's \
                 store, when a job kept running although it was stopped with a savepoint, or when one \
                 started long after its submission. What it saved is not on record. {ANSWER}{END}",
                shown_nonce(nonce)
            ),
            job_id: Some(job_id.to_owned()),
            nonce,
        }
    }

    /// Returns true if the job that last ran is among these and has not ended.
    pub fn lives_among(&self, jobs: &[Job]) -> bool {
        is_alive(self.job_id.as_deref(), jobs)
    }
}

const ANSWER: &str = "Find its newest checkpoint or savepoint and set `spec.job.initialSavepointPath` to it \
                      with a new `spec.job.savepointRedeployNonce`.";

/// Returns true if the job of this id is listed and has not ended.
pub fn is_alive(id: Option<&str>, jobs: &[Job]) -> bool {
    id.is_some_and(|id| jobs.iter().any(|job| job.id == id && !job.state.is_globally_terminal()))
}

/// The record of a job.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub generation: Option<i64>,
    pub job: &'a JobStatus,
    pub reconciliation: &'a ReconciliationStatus,
}

/// Describes a job whose record went back from `known` to `listed`; `None` if both describe the same start of the same
/// job.
pub fn went_back(known: Record<'_>, listed: Record<'_>, job: Option<&JobSpec>) -> Option<WentBack> {
    let start = |record: Record<'_>| {
        let Record { generation: _, job, reconciliation } = record;
        let path = job.upgrade_savepoint_path.clone();
        (job.job_id.clone(), path, reconciliation.state, reconciliation.reconciliation_timestamp)
    };
    if start(known) == start(listed) {
        return None;
    }
    let since = known.job.upgrade_savepoint_path.as_deref();
    let since =
        since.map_or_else(String::new, |path| format!(", but that it started from `{path}`"));
    let (was, is) = (described(known.generation), described(listed.generation));
    let id = known.job.job_id.as_deref().unwrap_or(NONE);
    let nonce = job.and_then(|job| job.savepoint_redeploy_nonce);
    let has = shown_nonce(nonce);
    Some(WentBack {
        message: format!(
            "{SET_BACK}it was at {was} {WITH_ID}{id} and is at {is} now, {WITH_NONCE}{has}. What the \
             job saved since then is not on record{since}. {ANSWER}{END}"
        ),
        job_id: known.job.job_id.clone(),
        nonce,
    })
}

fn shown_nonce(nonce: Option<i64>) -> String {
    nonce.map_or(NONE.to_owned(), |nonce| nonce.to_string())
}

fn described(generation: Option<i64>) -> String {
    generation.map_or("no generation".to_owned(), |generation| format!("generation {generation}"))
}

impl<K: Kind> Pass<'_, K> {
    /// Returns what is known about a record that went back, from this process or from the refusal that another one left
    /// in the status.
    pub(crate) fn set_back(&self) -> Option<WentBack> {
        let left = || StoredError::read(self.world.status.error()).went_back();
        self.world.went_back.clone().or_else(left)
    }

    /// Returns true if a person named the state to start from since then, and that is what the next start restores.
    pub(crate) fn is_answered(&self, set_back: &WentBack) -> bool {
        let path = self.savepoint_path();
        let last = self.last.as_ref().map(|last| last.spec.job());
        self.is_reported_anew(set_back)
            && last.is_none_or(|job| {
                job.is_some_and(|job| job::is_savepoint_redeploy(job, path.as_deref()))
            })
    }

    /// Returns true if the spec names a state to start from since then.
    pub(crate) fn is_reported_anew(&self, set_back: &WentBack) -> bool {
        let nonce = self.job().savepoint_redeploy_nonce;
        nonce.is_some() && nonce != set_back.nonce
    }
}

/// Returns the refusal as a problem.
pub(crate) fn refusal(set_back: WentBack) -> Problem {
    let problem = Problem::upgrade("RestoreFailed", set_back.message.clone());
    let note = Some(ErrorNote::WentBack(set_back));
    Problem { detail: Some(WENT_BACK.to_owned()), note, ..problem }
}

impl DeploymentPass<'_> {
    /// Refuses a start while the job's newest state is not the one on record.
    pub(crate) fn refuse_set_back_record(&self) -> Result<(), Halt> {
        if self.is_session() || self.job().upgrade_mode == UpgradeMode::Stateless {
            return Ok(());
        }
        match self.set_back() {
            Some(set_back) if !self.is_answered(&set_back) => Err(Halt::problem(refusal(set_back))),
            Some(_) | None => Ok(()),
        }
    }
}
