//! Documents of versions without notes: their facts are recognised by their wording.
//!
//! Current documents keep to that wording, so that an older version of the operator can take over.

use super::{ENDED_UNSEEN, ErrorNote, JOB_NOT_FOUND, LostJob};
use crate::error_document::WentBack;

/// The wording by which older versions recognise a fact.
pub(crate) mod wording {
    /// Between the time a spec had and why it is rolled back.
    pub(crate) const ROLLED_BACK: &str = " and is rolled back: ";
    /// Message of a rollback by an operator that keeps no reason.
    pub(crate) const ROLLED_BACK_BEFORE: &str = "the spec did not become stable in time and is rolled back: why is not on record. The last \
         stable spec runs; change the spec to try again";
    /// Beginning of the reason for a rollback, and for a refused one.
    pub(crate) const NOT_STABLE: &str = "the spec did not become stable in";
    /// Between the cause and the reason of a refusal.
    pub(crate) const NOT_BACK: &str = "), and it is not rolled back: ";
    pub(crate) const NOT_STOPPED: &str = "could not be stopped with a savepoint";
    /// Beginning of the refusal if a process saw the store go back.
    pub(crate) const SET_BACK: &str =
        "the API server's store was set back, and with it the record of this job: ";
    /// Beginning of the refusal if it was found by the job that last ran.
    pub(crate) const SECOND_JOB: &str = "a job of this resource runs that is not on its record: ";
    /// Precedes the id of the job, as [`WITH_NONCE`] precedes the nonce.
    pub(crate) const WITH_ID: &str = "with job id ";
    pub(crate) const WITH_NONCE: &str = "with `spec.job.savepointRedeployNonce` ";
    /// Replaces an id or a nonce.
    pub(crate) const NONE: &str = "none";
    /// End of the refusal.
    pub(crate) const END: &str = " Manual restore required.";
}

use wording::{
    END, NONE, NOT_BACK, NOT_STABLE, NOT_STOPPED, ROLLED_BACK, SECOND_JOB, SET_BACK, WITH_ID,
    WITH_NONCE,
};

/// Returns the fact that a message reports.
pub(super) fn note_of(message: &str) -> Option<ErrorNote> {
    if message.starts_with(SET_BACK) || message.starts_with(SECOND_JOB) {
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
