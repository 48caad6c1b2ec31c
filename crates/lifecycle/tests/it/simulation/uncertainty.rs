//! Checks that the operator asks a person for the state to continue from only if it is in doubt.
//!
//! A refusal that is resolved by naming the newest state satisfies every law about state, even if the operator could
//! have found out the newest state itself. So each fault that hides something is noted until a pass has seen
//! everything; asking before that is justified, asking otherwise is not.

use super::*;

/// Parts of messages that ask for the state to continue from; the last one is all that a status says of a lost job.
const ASKS: [&str; 3] =
    ["spec.job.savepointRedeployNonce", "Manual restore required", "Job Not Found"];

/// Whether this error asks a person for the state to continue from.
pub(crate) fn asks(error: Option<&str>) -> bool {
    error.is_some_and(|error| ASKS.iter().any(|ask| error.contains(ask)))
}

/// What has become invisible since the operator last saw everything.
#[derive(Clone, Default)]
pub(crate) struct Uncertainty {
    hidden: bool,
    /// Whether it ends only when a person has named the state, whatever is seen meanwhile.
    is_lasting: bool,
}

impl Uncertainty {
    pub(crate) fn hide(&mut self) {
        self.hidden = true;
    }

    pub(crate) fn last(&mut self) {
        self.is_lasting = true;
    }

    /// A person has named the state to continue from.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn is_any(&self) -> bool {
        self.hidden || self.is_lasting
    }

    /// The law: the operator asks only if it has not seen everything; `self` is the doubt before the pass.
    pub(crate) fn assert_asks_only_if_uncertain(&self, law: Law, error: Option<&str>) {
        assert!(self.is_any() || !asks(error), "{law}: asked, and nothing is hidden: {error:?}");
    }

    /// Ends the doubt after a completed pass, if everything that exists is recorded.
    pub(crate) fn end_if(&mut self, has_seen_all: bool) {
        self.hidden &= !has_seen_all;
    }
}

/// Whether the record of a job has everything that its JobManager could report: its state, that it is not being
/// stopped, and the state that it left if it has ended.
pub(crate) fn shows_all(
    record: &JobStatus,
    state: JobStatusState,
    newest: Option<&(u64, String)>,
) -> bool {
    let info = record.savepoint_info.as_ref();
    let is_stopping = info.is_some_and(|info| {
        info.trigger_id.is_some() && info.trigger_type == Some(SnapshotTriggerType::Upgrade)
    });
    let is_state_known = record.upgrade_savepoint_path.as_ref() == newest.map(|(_, path)| path);
    record.state == Some(state)
        && !is_stopping
        && match state {
            JobStatusState::Running => true,
            state => state.is_globally_terminal() && is_state_known,
        }
}

impl Sim {
    /// Whether the status has everything that can be observed now.
    pub(super) fn has_seen_all(&self) -> bool {
        let record = &self.status.job_status;
        self.is_up()
            && !self.haze.is_any()
            && !self.is_unlisted
            && self.job.as_ref().is_some_and(|job| {
                // Without high availability a later run may have the same id.
                let started = job.started.as_millisecond().to_string();
                record.job_id.as_ref() == Some(&job.id)
                    && record.start_time == Some(started)
                    && shows_all(record, job.state, job.newest())
            })
    }
}
