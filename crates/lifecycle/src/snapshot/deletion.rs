//! Deletion of a `FlinkStateSnapshot`, and whether its savepoint is deleted with it.
//!
//! A savepoint that anything refers to is kept, and so is one that cannot be deleted. The resource is deleted anyway: a
//! superfluous savepoint costs storage, a missing one costs state.

use std::time::Duration;

use jiff::SignedDuration;

use super::world::{Question, Target};
use super::{OVERDUE, Pass, Plan, Step};
use crate::blocker::{Blocker, Reason, give_up_at};
use crate::error_document::message_of;
use crate::event::{Component, Event};
use crate::wait::{Awaited, Waiting};
use api::state_snapshot::SnapshotState;
use state::references::{CLAIMED, is_checkpoint, is_same_location};

/// How long a deletion tries to dispose of the savepoint.
const DISPOSAL_MAX: SignedDuration = SignedDuration::from_mins(10);
/// How long a deletion waits for a job that does not exist.
const ABSENT_MAX: SignedDuration = SignedDuration::from_mins(1);
/// Shortest and longest pause between two attempts.
const PAUSE_MIN: Duration = Duration::from_secs(2);
const PAUSE_MAX: Duration = Duration::from_mins(1);

impl Pass<'_> {
    pub(super) fn delete(&mut self) -> Result<Plan, Question> {
        if !self.has_finalizer() {
            return Ok(self.untouched("being deleted without this operator's finalizer"));
        }
        let Some(savepoint) = &self.spec().savepoint else {
            return Ok(self.leave("a checkpoint is Flink's to delete"));
        };
        if savepoint.dispose_on_delete == Some(false) {
            return Ok(self.leave("`disposeOnDelete: false` keeps the savepoint"));
        }
        let reference = self.spec().job_reference.as_ref();
        if reference.and_then(|reference| reference.name.as_ref()).is_none() {
            return Ok(self.leave("the resource names no job that could dispose of the savepoint"));
        }
        match self.status.state {
            SnapshotState::TriggerPending | SnapshotState::Failed | SnapshotState::Abandoned => {
                Ok(self.leave("there is no savepoint"))
            }
            SnapshotState::InProgress => self.end_before_deletion(),
            SnapshotState::Completed => self.dispose(),
        }
    }

    /// Follows the snapshot to its end: only then it is known what to dispose of.
    fn end_before_deletion(&mut self) -> Result<Plan, Question> {
        if self.status.trigger_id.as_ref().is_none_or(String::is_empty) {
            return Ok(self.leave("there is no savepoint"));
        }
        let (why, patience) = match self.world.target()? {
            Ok(Target::Present(job)) => {
                let patience = job.timeout.saturating_add(OVERDUE).max(DISPOSAL_MAX);
                ("its job has not reported the end of the savepoint".to_owned(), patience)
            }
            // There is no end of its job to wait for.
            Ok(Target::Absent) => ("its job was not found".to_owned(), DISPOSAL_MAX),
            Ok(Target::Foreign) => ("its job belongs to another operator".to_owned(), DISPOSAL_MAX),
            Ok(Target::Unserved(why)) => (why.clone(), DISPOSAL_MAX),
            Err(reason) => (format!("its job cannot be read: {reason}"), DISPOSAL_MAX),
        };
        if self.waited() > patience {
            return Ok(self.keep(format!(
                "could not determine whether the savepoint was completed; if it was, it is kept: \
                 {why}"
            )));
        }
        let blocker = if matches!(self.world.target()?, Ok(Target::Present(_))) {
            let blocker = Blocker::new(Reason::SnapshotInProgress, "the savepoint is being taken");
            blocker.remedy(
                "the wait ends with the savepoint, or after `execution.checkpointing.timeout` of \
                 the job",
            )
        } else {
            self.blocked_disposal(why)
        };
        let plan = self.follow()?;
        let blocker = Some(Box::new(blocker));
        let has_ended = plan.status.state != SnapshotState::InProgress;
        let next = plan.look_again.unwrap_or(PAUSE_MAX);
        let look_again = Some(if has_ended { Duration::ZERO } else { next });
        let blocker = blocker.filter(|_| !has_ended);
        Ok(Plan { look_again, blocker, ..plan })
    }

    fn blocked_disposal(&self, message: String) -> Blocker {
        let metadata = &self.world.resource.metadata;
        let patience = DISPOSAL_MAX.unsigned_abs();
        let at = give_up_at(metadata, None, patience, self.world.now);
        let blocker = Blocker::new(Reason::Disposal, message);
        blocker.until(at, "the resource is deleted and the savepoint is kept").remedy(
            "set `spec.savepoint.disposeOnDelete: false` to delete the resource at once and keep \
             the savepoint",
        )
    }

    fn dispose(&mut self) -> Result<Plan, Question> {
        let Some(path) = self.status.path.clone().filter(|path| !path.is_empty()) else {
            return Ok(self.leave("there is no savepoint"));
        };
        if is_checkpoint(&path) {
            let message = format!(
                "`{path}` is kept because it is a checkpoint: later checkpoints may share its files"
            );
            return Ok(self.keep(message));
        }
        let waited = self.waited();
        if waited > DISPOSAL_MAX {
            let mut message = format!(
                "savepoint `{path}` is kept: it could not be disposed of for {} minutes",
                DISPOSAL_MAX.as_mins()
            );
            if let Some(error) = &self.status.error {
                message.push_str(": ");
                message.push_str(&message_of(error));
            }
            return Ok(self.keep(message));
        }
        match self.world.references()? {
            Ok(references) if references.is_empty() => {}
            Ok(references) => {
                let message = format!(
                    "savepoint `{path}` is kept because something could start from it: {}",
                    references.join(", ")
                );
                return Ok(self.keep(message));
            }
            Err(reason) => {
                let message =
                    format!("could not determine what refers to savepoint `{path}`: {reason}");
                return Ok(self.dispose_later(&message));
            }
        }
        match self.world.target()? {
            Ok(Target::Foreign) => {
                let because = "its job belongs to another operator";
                let blocker = Blocker::new(Reason::ForeignOperator, because);
                let blocker = Some(Box::new(blocker));
                let (look_again, waits) = (Some(PAUSE_MAX), Some(self.waits_for_deletion()));
                Ok(Plan { look_again, blocker, waits, ..self.untouched(because) })
            }
            Ok(Target::Absent) if waited > ABSENT_MAX => Ok(self.keep(format!(
                "savepoint `{path}` is kept: only its job could have disposed of it, and the job \
                 is gone"
            ))),
            Ok(Target::Absent) => {
                Ok(self.dispose_later("the job that could dispose of the savepoint was not found"))
            }
            Ok(Target::Present(job)) if job.claims => {
                Ok(self.keep(format!("savepoint `{path}` is kept: {CLAIMED}")))
            }
            Ok(Target::Present(_)) => self.dispose_unless_newest(path),
            Ok(Target::Unserved(why)) => Ok(self.dispose_later(why)),
            Err(reason) => {
                let message = format!("its job cannot be read: {reason}");
                Ok(self.dispose_later(&message))
            }
        }
    }

    /// Disposes of the savepoint unless it is the job's newest state. Flink's statistics keep naming a deleted
    /// savepoint, and a last-state upgrade would start from it.
    fn dispose_unless_newest(&mut self, path: String) -> Result<Plan, Question> {
        match self.world.newest_state()? {
            Ok(Some(newest)) if is_same_location(newest, &path) => {
                let message = format!(
                    "savepoint `{path}` is the newest state of its job, which may have to \
                     restore it. It is disposed of after the job's next checkpoint"
                );
                Ok(self.dispose_later(&message))
            }
            Ok(Some(_) | None) => {
                self.steps.push(Step::Dispose { path });
                Ok(self.leave("disposing of the savepoint"))
            }
            Err(reason) => {
                let message = format!(
                    "could not determine whether savepoint `{path}` is the newest state of its \
                     job: {reason}"
                );
                Ok(self.dispose_later(&message))
            }
        }
    }

    /// Returns the wait of a deletion, which is told from the beginning and ends without the savepoint's.
    fn waits_for_deletion(&self) -> Waiting {
        Waiting::new(Awaited::Deletion, self.world.now, None)
    }

    /// Returns the time since the deletion was requested.
    fn waited(&self) -> SignedDuration {
        let asked = self.world.resource.metadata.deletion_timestamp.as_ref();
        asked.map_or(SignedDuration::ZERO, |at| self.world.now.duration_since(at.0))
    }

    pub(super) fn dispose_later(&mut self, message: &str) -> Plan {
        let mut event = Event::warning("CleanupFailed", Component::Snapshot, message);
        event.key = Some(message.to_owned());
        self.steps.push(Step::Event(event));
        let reason = Some("CleanupFailed");
        self.status.error = Some(self.document(message, reason));
        let pause = (self.waited().unsigned_abs() / 2).clamp(PAUSE_MIN, PAUSE_MAX);
        Plan {
            steps: std::mem::take(&mut self.steps),
            status: Box::new(self.status.clone()),
            because: message.to_owned(),
            look_again: Some(pause),
            blocker: Some(Box::new(self.blocked_disposal(message.to_owned()))),
            waits: Some(self.waits_for_deletion()),
        }
    }

    /// Releases the resource and reports what is left behind.
    fn keep(&mut self, message: String) -> Plan {
        self.steps.push(Step::Event(Event::warning(
            "SavepointKept",
            Component::Snapshot,
            message.clone(),
        )));
        self.leave(&message)
    }

    fn leave(&mut self, because: &str) -> Plan {
        self.steps.push(Step::RemoveFinalizer);
        Plan {
            steps: std::mem::take(&mut self.steps),
            status: Box::new(self.status.clone()),
            because: because.to_owned(),
            look_again: None,
            blocker: None,
            waits: None,
        }
    }
}
