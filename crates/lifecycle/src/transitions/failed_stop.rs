//! Failed stops with a savepoint: how many there were, and when to try again.
//!
//! Both are recorded in `status.error`, where the failure stays until the job is stopped or the desired spec changes. A
//! new operator therefore does not start over, and session jobs have a place for it, too.

use std::time::Duration;

use jiff::Timestamp;

use crate::attempts::Attempts;
use crate::blocker::WITHOUT_SAVEPOINT;
use crate::blocker::{Blocker, Reason};
use crate::error_document::wording::NOT_STOPPED;
use crate::error_document::{ErrorNote, Part, StoredError};
use crate::job;
use crate::kind::{Kind, Maybe};
use crate::pass::Pass;
use crate::plan::PlanOf;
use crate::problem::{Halt, Problem};
use crate::resource::StatusOfJob;
use crate::wait::Awaited;
use api::reconciled::Reconciled;

impl<K: Kind> Pass<'_, K> {
    /// Counts a failed stop, which the problem at the end of this pass reports.
    pub(crate) fn note_failed_stop(&mut self) {
        let now = self.world.now.as_millisecond();
        let first = || Attempts { generation: self.generation, ..Attempts::default() };
        let before = self.failed_stops().unwrap_or_else(first);
        self.failed_stop = Some(before.recent(now).next(now));
    }

    /// Returns the failed stops for the desired spec. A different spec is tried at once.
    pub(crate) fn failed_stops(&self) -> Option<Attempts> {
        let stored = || StoredError::read(self.status.error()).stop_attempts;
        self.failed_stop.or_else(stored)?.of_generation(self.generation)
    }

    fn pause_after_failed_stop(&self) -> Option<Duration> {
        let wait = self.failed_stops()?.wait(self.world.now.as_millisecond());
        (!wait.is_zero()).then_some(wait)
    }

    /// Returns the plan for a change whose stop has just failed; `None` if it may be tried again.
    pub(crate) fn pause_before_stop(&mut self, last: &Reconciled<K::Spec>) -> Maybe<K> {
        let Some(wait) = self.pause_after_failed_stop() else { return Ok(None) };
        self.wake_within(wait);
        let because = "the change waits: the stop-with-savepoint failed and will be retried";
        self.meanwhile(last, Awaited::Retry, because).map(Some)
    }

    /// Like [`Self::pause_before_stop`], for a deletion.
    pub(crate) fn pause_before_saving(&mut self) -> Option<PlanOf<K>> {
        let wait = self.pause_after_failed_stop()?;
        let until = self.world.now.checked_add(wait).unwrap_or(Timestamp::MAX);
        let because = "the deletion waits: its savepoint failed and will be retried";
        let blocker = Blocker::new(Reason::Savepoint, because).remedy(WITHOUT_SAVEPOINT);
        Some(self.await_blocker(blocker, until, because, wait))
    }

    /// Returns the halt of a deletion that cannot continue because its savepoint failed.
    pub(crate) fn refuse_deletion(&mut self, message: &str) -> Halt {
        job::forget_stop(self.status.job_mut());
        self.note_failed_stop();
        let message = format!(
            "the job is not deleted, because it {NOT_STOPPED}: {message}. Set \
             `kubernetes.operator.job.savepoint-on-deletion: false` to delete it without a \
             savepoint"
        );
        let blocker = Blocker::new(Reason::Savepoint, message.clone());
        self.blocker = Some(Box::new(blocker.remedy(WITHOUT_SAVEPOINT)));
        Halt::problem(not_stopped(message))
    }

    /// Forgets failed stops, because nothing has to be stopped any more.
    pub(crate) fn forget_failed_stop(&mut self) {
        let stored = StoredError::read(self.status.error());
        if self.failed_stops().is_some() && stored.note() == Some(&ErrorNote::NotStopped) {
            self.status.set_error(None);
        }
    }

    /// Returns the failure of the stop from the stored error, where it is the error itself or one of its causes.
    pub(crate) fn failed_stop_on_record(&self) -> Option<Part> {
        self.failed_stops()?;
        StoredError::read(self.status.error()).part(&ErrorNote::NotStopped)
    }
}

/// Returns the problem of a job that keeps running because its stop with a savepoint failed.
pub(crate) fn not_stopped(message: String) -> Problem {
    Problem { note: Some(ErrorNote::NotStopped), ..Problem::upgrade("SavepointError", message) }
}
