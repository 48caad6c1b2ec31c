//! Refusals to start a job, by the wording of both operators: the Java operator's documents have nothing else.

use super::JOB_NOT_FOUND;

/// Texts that say that a person has to choose the state to restore.
const ASKS_FOR_STATE: [&str; 3] = [
    "Manual restore required.",
    "It is possible that the job has finished or terminally failed, or the configmaps have been deleted.",
    METADATA_GONE,
];
const METADATA_GONE: &str = "HA metadata is not available";
const METADATA_EMPTY: &str = "names no checkpoint although the job had one";

/// Why a job is not started.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refusal {
    /// HA metadata that should lead to its state does not exist.
    MetadataMissing,
    /// Its state is in doubt.
    StateInDoubt,
}

/// Returns true if nothing is started until a person chooses the state to restore.
pub fn asks_for_state(error: &str) -> bool {
    ASKS_FOR_STATE.iter().any(|text| error.contains(text))
}

/// Returns the refusal that the error reports, if any.
pub fn refusal(error: &str) -> Option<Refusal> {
    if error.contains(METADATA_GONE) || error.contains(METADATA_EMPTY) {
        return Some(Refusal::MetadataMissing);
    }
    // A session job that its cluster does not know.
    if error == JOB_NOT_FOUND {
        return Some(Refusal::StateInDoubt);
    }
    let names_state = error.contains("initialSavepointPath") && error.contains("HA metadata");
    (error.contains("Manual restore required") || names_state).then_some(Refusal::StateInDoubt)
}
