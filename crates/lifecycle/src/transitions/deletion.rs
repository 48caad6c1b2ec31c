//! Deletion of any resource that has a job.

use std::time::Duration;

use jiff::Timestamp;

use crate::blocker::{Blocker, Reason, give_up_at, noted, savepoint_patience};
use crate::event::{Component, Event};
use crate::job::{self, StopOutcome};
use crate::kind::{End, Lifecycle, Maybe};
use crate::pass::Pass;
use crate::pauses::GOING;
use crate::problem::Halt;
use crate::resource::StatusOfJob;
use api::status::{JobStatusState, LifecycleState};
use config::FlinkConfig;

impl<K: Lifecycle> Pass<'_, K> {
    /// Begins or continues a deletion.
    pub(crate) fn delete_resource(&mut self) -> End<K> {
        self.continue_deletion().map_err(|halt| noted(&mut self.blocker, halt))
    }

    fn continue_deletion(&mut self) -> End<K> {
        if !self.has_finalizer() {
            return Ok(self.untouched("being deleted without this operator's finalizer"));
        }
        // A record that cannot be read does not delay the deletion.
        let _unreadable = self.read_last();
        let begins = self.status.lifecycle_state() != Some(LifecycleState::Deleting);
        K::enter_deletion(self, begins)?;
        if begins {
            self.status.set_lifecycle_state(LifecycleState::Deleting);
            let message = format!("Cleaning up {}", K::JOB.into_str());
            self.emit(Event::normal("Cleanup", Component::Operator, message));
            self.write_intent();
        }
        K::delete(self)
    }

    /// Waits as long as it takes, and reports that in the status from `told_at` on.
    pub(crate) fn wait(&mut self, blocker: Blocker, told_at: Timestamp, pause: Duration) -> End<K> {
        let problem = blocker.problem();
        if self.world.now >= told_at {
            self.blocker = Some(Box::new(blocker));
            return Err(Halt::problem(problem));
        }
        Ok(self.await_blocker(blocker, told_at, problem.message, pause))
    }

    /// Continues the stop whose savepoint the deletion waits for: with `wait` while it is being taken, which is
    /// reported once its time is over. `None` if the job is saved.
    pub(crate) fn finish_saving(
        &mut self,
        trigger_id: &str,
        config: &FlinkConfig,
        wait: impl FnOnce(&mut Self, Blocker, Timestamp) -> Maybe<K>,
    ) -> Maybe<K> {
        match self.stop_outcome(trigger_id)? {
            StopOutcome::Pending | StopOutcome::Resend | StopOutcome::Unheard => {
                let because = "waiting for the savepoint before deletion";
                let since = job::stop_since(self.status.job());
                let patience = savepoint_patience(config);
                let at = give_up_at(self.world.metadata(), since, patience, self.world.now);
                wait(self, Blocker::new(Reason::Savepoint, because), at)
            }
            StopOutcome::Saved(path) => {
                // Its id stays: the list that shows the job may be older than its end.
                self.record_savepoint(&path);
                self.set_job_state(JobStatusState::Finished);
                self.write_intent();
                Ok(None)
            }
            StopOutcome::Failed(message) => Err(self.refuse_deletion(&message)),
            StopOutcome::Lost => {
                job::forget_stop(self.status.job_mut());
                Ok(Some(self.go_on("the stop-with-savepoint was lost", GOING)))
            }
        }
    }
}
