//! An edit of a running session job takes its turn in the budget of upgrades before the job is stopped for it.

use super::plan::{SessionJobStep, Step};
use super::world::Tried;
use super::{Maybe, Pass};
use crate::conditions::UPGRADES_PAUSED;
use crate::problem::Problem;
use crate::wait::Awaited;
use api::reconciled::ReconciledJob;

impl Pass<'_> {
    /// Waits until the edit may be carried out in addition to the upgrades in progress. The status has no place for a
    /// wait: this process remembers that it has told it. That upgrades are paused stays until a person acts, and is an
    /// error.
    pub(super) fn await_turn(&mut self, last: &ReconciledJob) -> Maybe {
        let Some(wait) = self.wait_for_turn()? else { return Ok(None) };
        let (told, tried) = (wait.reported(self.generation), self.world.remembered.tried);
        if wait.is_paused() {
            self.problem = Some(Problem {
                reason: UPGRADES_PAUSED,
                detail: Some(UPGRADES_PAUSED.to_owned()),
                ..Problem::of_resource(wait.message.clone())
            });
        } else if tried.told != Some(told) {
            self.emit(wait.event());
            let tried = Tried { told: Some(told), ..tried };
            self.steps.push(Step::Own(SessionJobStep::Remember(tried)));
        }
        self.meanwhile(last, Awaited::Turn, wait.message).map(Some)
    }
}
