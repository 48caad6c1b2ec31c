//! When the operator may ask a person for the state to go on from: only in doubt.
//!
//! A refusal that is healed by naming the newest state passes every law about that state, also where
//! the operator could see for itself which it is. So each fault that takes something out of sight is
//! noted, until a pass has seen all that there is; who asks in between without one has no reason to.

use super::*;

/// In what the operator says where it wants to be told the state to go on from; the last is all that
/// a status says of a job that is lost.
const ASKS: [&str; 3] =
    ["spec.job.savepointRedeployNonce", "Manual restore required", "Job Not Found"];

/// Whether this error asks a person for the state to go on from.
pub(crate) fn asks(error: Option<&str>) -> bool {
    error.is_some_and(|error| ASKS.iter().any(|ask| error.contains(ask)))
}

/// What has become invisible since the operator last saw all that there is.
#[derive(Clone, Default)]
pub(crate) struct Doubt {
    hidden: bool,
    /// It ends when a person has named the state, whatever is seen meanwhile.
    is_lasting: bool,
}

impl Doubt {
    pub(crate) fn hide(&mut self) {
        self.hidden = true;
    }

    pub(crate) fn last(&mut self) {
        self.is_lasting = true;
    }

    /// A person has named the state to go on from.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn is_any(&self) -> bool {
        self.hidden || self.is_lasting
    }

    /// The law: who asks has not seen all, and `self` is what there was to see before the pass.
    pub(crate) fn assert_asks_only_in_doubt(&self, error: Option<&str>) {
        assert!(self.is_any() || !asks(error), "asked although nothing is hidden: {error:?}");
    }

    /// A pass came to its end: with it the doubt, where what it wrote down is all that there is.
    pub(crate) fn end_if(&mut self, has_seen_all: bool) {
        self.hidden &= !has_seen_all;
    }
}

/// Whether what is on record of a job is all that its JobManager could tell: what it does, that it is
/// not being stopped, and which state it left if it has ended.
pub(crate) fn tells_all(
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
    /// Whether the status has all that is to be seen now.
    pub(super) fn has_seen_all(&self) -> bool {
        let record = &self.status.job_status;
        self.is_up()
            && !self.haze.is_any()
            && self.job.as_ref().is_some_and(|job| {
                // Without high availability a run may follow that has the id of the one before.
                let started = job.started.as_millisecond().to_string();
                record.job_id.as_ref() == Some(&job.id)
                    && record.start_time == Some(started)
                    && tells_all(record, job.state, job.newest())
            })
    }
}
