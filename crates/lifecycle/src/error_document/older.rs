//! Documents of versions that had no notes: their facts are known by their wording.
//!
//! Documents of today keep to that wording, so that an older version of the operator can take over.

use super::{ENDED_UNSEEN, ErrorNote, JOB_NOT_FOUND, LostJob};
use crate::error_document::WentBack;

/// The wording by which older versions know a fact.
pub(crate) mod wording {
    /// Stands between the time a spec had and why it is rolled back.
    pub(crate) const ROLLED_BACK: &str = " and is rolled back: ";
    /// Of a rollback by an operator that keeps no reason.
    pub(crate) const ROLLED_BACK_BEFORE: &str = "the spec did not become stable in time and is rolled back: why is not on record. The last \
         stable spec runs; change the spec to try again";
    /// How the reason of a rollback begins, and of one that is refused.
    pub(crate) const NOT_STABLE: &str = "the spec did not become stable in";
    /// Stands between the cause and the reason of a refusal.
    pub(crate) const NOT_BACK: &str = "), and it is not rolled back: ";
    pub(crate) const NOT_STOPPED: &str = "could not be stopped with a savepoint";
    /// How the refusal begins where a process saw the store go back.
    pub(crate) const SET_BACK: &str =
        "the API server's store was set back, and with it the record of this job: ";
    /// How it begins where the job that ran last tells it.
    pub(crate) const BESIDE: &str = "a job of this resource runs that is not on its record: ";
    /// Comes before the id of the job, as [`WITH_NONCE`] before the nonce.
    pub(crate) const WITH_ID: &str = "with job id ";
    pub(crate) const WITH_NONCE: &str = "with `spec.job.savepointRedeployNonce` ";
    /// In the place of an id or a nonce.
    pub(crate) const NONE: &str = "none";
    /// How it ends.
    pub(crate) const END: &str = " Manual restore required.";
}

use wording::{
    BESIDE, END, NONE, NOT_BACK, NOT_STABLE, NOT_STOPPED, ROLLED_BACK, SET_BACK, WITH_ID,
    WITH_NONCE,
};

/// The fact that a message tells.
pub(super) fn note_of(message: &str) -> Option<ErrorNote> {
    if message.starts_with(SET_BACK) || message.starts_with(BESIDE) {
        return Some(ErrorNote::WentBack(went_back(message)));
    }
    if message.contains(ROLLED_BACK) {
        return Some(ErrorNote::RolledBack);
    }
    if let Some(cause) = refused_rollback(message) {
        return Some(ErrorNote::RollbackRefused { cause });
    }
    if message.contains(NOT_STOPPED) {
        return Some(ErrorNote::NotStopped);
    }
    [(JOB_NOT_FOUND, LostJob::OfState), (ENDED_UNSEEN, LostJob::EndedUnseen)]
        .into_iter()
        .find_map(|(text, lost)| (message == text).then_some(ErrorNote::Lost(lost)))
}

fn refused_rollback(message: &str) -> Option<String> {
    let (_, cause) = message.strip_prefix(NOT_STABLE)?.split_once(" (")?;
    Some(cause.split_once(NOT_BACK)?.0.to_owned())
}

fn went_back(told: &str) -> WentBack {
    let message = format!("{}{END}", told.split_once(END).map_or(told, |(before, _)| before));
    let between = |from: &str, to: &str| {
        let (_, rest) = message.split_once(from)?;
        Some(rest.split_once(to)?.0.to_owned())
    };
    let job_id = between(WITH_ID, " ").filter(|id| id != NONE);
    let nonce = between(WITH_NONCE, ".").and_then(|nonce| nonce.parse().ok());
    WentBack { message, job_id, nonce }
}
