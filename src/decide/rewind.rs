//! When the API server's store went back to an earlier state, and the record of a job with it.
//!
//! The restore point on record is then older than what the job has done since, and nobody but the
//! process that saw it knows. A start from there would replace the newest state by an older one in
//! silence, so it is refused until a person names the state; [`WENT_BACK`] in `status.error` keeps
//! the refusal for the next process.

use crate::api::job::{JobSpec, UpgradeMode};
use crate::api::status::{JobStatus, ReconciliationStatus};

use super::application::{Halt, Pass, Problem};
use super::error_document::{message_of, reason_of};
use super::job;

/// Machine-readable reason of the refusal.
pub const WENT_BACK: &str = "RecordWentBack";

/// What a process knows of a job whose record went back.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WentBack {
    /// What happened, and what to do.
    pub message: String,
    /// `spec.job.savepointRedeployNonce` at that time: another one is a person's answer.
    pub nonce: Option<i64>,
}

/// The record of a job.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    pub generation: Option<i64>,
    pub job: &'a JobStatus,
    pub reconciliation: &'a ReconciliationStatus,
}

/// What is known of a job whose record went back from `known` to `listed`; nothing where both tell
/// of the same start of the same job.
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
    let since = since.map_or_else(String::new, |path| format!(", last started from `{path}`"));
    let (was, is) = (told(known.generation), told(listed.generation));
    let id = known.job.job_id.as_deref().unwrap_or("none");
    Some(WentBack {
        message: format!(
            "the API server's store was set back, and with it the record of this job: it was at \
             {was} with job id {id}{since}, and is at {is} now. What the job saved since then is \
             not on record. Find its newest checkpoint or savepoint and set \
             `spec.job.initialSavepointPath` to it with a new `spec.job.savepointRedeployNonce`. \
             Manual restore required."
        ),
        nonce: job.and_then(|job| job.savepoint_redeploy_nonce),
    })
}

fn told(generation: Option<i64>) -> String {
    generation.map_or("no generation".to_owned(), |generation| format!("generation {generation}"))
}

impl Pass<'_> {
    /// Refuses a start while the newest state of the job is not the one on record.
    pub(super) fn refuse_set_back_record(&self) -> Result<(), Halt> {
        let wanted = self.job();
        if self.is_session() || wanted.upgrade_mode == UpgradeMode::Stateless {
            return Ok(());
        }
        let error = self.world.status.error.as_deref().unwrap_or_default();
        let (message, is_answered) = match &self.world.went_back {
            Some(WentBack { message, nonce }) => {
                let answer = wanted.savepoint_redeploy_nonce;
                (message.clone(), answer.is_some() && answer != *nonce)
            }
            None if reason_of(error).as_deref() == Some(WENT_BACK) => {
                let path = self.status.job_status.upgrade_savepoint_path.as_deref();
                let last = self.last.as_ref().and_then(|last| last.spec.job.as_ref());
                let is_answered = last.is_some_and(|job| job::is_savepoint_redeploy(job, path));
                (message_of(error), is_answered)
            }
            None => return Ok(()),
        };
        if is_answered {
            return Ok(());
        }
        let detail = Some(WENT_BACK.to_owned());
        Err(Halt::problem(Problem { detail, ..Problem::upgrade("RestoreFailed", message) }))
    }
}
