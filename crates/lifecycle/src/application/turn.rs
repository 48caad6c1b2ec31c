//! An edit of what runs takes its turn in the budget of upgrades before anything is tried or stopped for it.

use crate::conditions::{ReportedWait, UPGRADE_ADMITTED, of_type};
use crate::kind::Maybe;
use crate::notes::{PREFLIGHT, generation_of_jobs};
use crate::pass::DeploymentPass;
use crate::wait::Awaited;
use api::reconciled::ReconciledSpec;
use api::status::Condition;

impl DeploymentPass<'_> {
    /// Returns the plan that waits before what runs is stopped for the desired spec; `None` once it may be stopped.
    pub(crate) fn admit_upgrade(&mut self, last: &ReconciledSpec, is_last_state: bool) -> Maybe {
        // A trial that has begun is checked without a turn: it may have failed.
        let trial = PREFLIGHT.get(&self.status.cluster_info);
        let is_tried = trial.is_some_and(|trial| trial.is_under_way());
        if !is_tried && let Some(plan) = self.await_turn(last)? {
            return Ok(Some(plan));
        }
        if let Some(plan) = self.preflight_of_wanted(last, is_last_state)? {
            return Ok(Some(plan));
        }
        self.await_turn(last)
    }

    fn await_turn(&mut self, last: &ReconciledSpec) -> Maybe {
        if generation_of_jobs(&self.status.cluster_info) == Some(self.generation) {
            return Ok(None);
        }
        let Some(wait) = self.wait_for_turn()? else { return Ok(None) };
        if ReportedWait::of(&self.world.status.conditions) != Some(wait.reported(self.generation)) {
            self.emit(wait.event());
        }
        let message = wait.message.clone();
        self.own.waits_for_turn = Some(wait);
        self.meanwhile(last, Awaited::Turn, message).map(Some)
    }

    /// Returns the condition of an upgrade that waits.
    pub(crate) fn upgrade_waits(&self, before: &[Condition]) -> Option<Condition> {
        if let Some(wait) = &self.own.waits_for_turn {
            return Some(wait.condition(before, self.generation, self.world.now));
        }
        // Whether it still waits is not known.
        of_type(before, UPGRADE_ADMITTED).filter(|_| self.is_cut_short).cloned()
    }
}
