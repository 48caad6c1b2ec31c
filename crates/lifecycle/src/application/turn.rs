//! An edit of what runs takes its turn in the budget of upgrades before anything is tried or stopped for it.

use crate::conditions::{
    UPGRADE_ADMITTED, UPGRADES_PAUSED, WAITS_FOR_TURN, of_type, upgrade_waits,
};
use crate::event::{Component, Event};
use crate::kind::Maybe;
use crate::notes::PREFLIGHT;
use crate::pass::DeploymentPass;
use crate::problem::Halt;
use crate::upgrade_budget::{Told, Turn};
use crate::wait::Awaited;
use api::job::JobState;
use api::reconciled::ReconciledSpec;
use api::status::Condition;
use config::options;

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

    /// Waits until the edit may be carried out in addition to those under way. A suspend and the autoscaler never wait.
    fn await_turn(&mut self, last: &ReconciledSpec) -> Maybe {
        let is_edit = self.status.observed_generation != Some(self.generation);
        if !is_edit || self.desired_state() != JobState::Running {
            return Ok(None);
        }
        let turn = self.world.turn()?.map_err(|reason| Halt::cannot(reason.to_owned()))?;
        let Some((reason, message)) = in_words(turn) else { return Ok(None) };
        let told = Told { generation: self.generation, is_paused: reason == UPGRADES_PAUSED };
        if Told::of(self.world.status) != Some(told) {
            let event = if reason == UPGRADES_PAUSED { Event::warning } else { Event::normal };
            self.tell(event(reason, Component::Operator, message.clone()));
        }
        self.own.waits_for_turn = Some((reason, message.clone()));
        self.meanwhile(last, Awaited::Turn, message).map(Some)
    }

    /// Returns the condition of an upgrade that waits.
    pub(crate) fn upgrade_waits(&self, before: &[Condition]) -> Option<Condition> {
        if let Some((reason, message)) = &self.own.waits_for_turn {
            let told = (*reason, message.as_str());
            return Some(upgrade_waits(before, self.generation, told, self.world.now));
        }
        // Whether it still waits is not known.
        of_type(before, UPGRADE_ADMITTED).filter(|_| self.is_cut_short).cloned()
    }
}

/// Returns why an upgrade waits, in words that do not change with the place in the queue, so that no status is written
/// for that.
fn in_words(turn: &Turn) -> Option<(&'static str, String)> {
    let waits = |holder: &str| {
        let message = format!(
            "the change waits for its turn: as many upgrades are in progress as `{}` allows{holder}. \
             What is running is not touched",
            options::UPGRADE_MAX_CONCURRENT.key()
        );
        Some((WAITS_FOR_TURN, message))
    };
    match turn {
        Turn::Taken => None,
        Turn::Waits => waits(""),
        Turn::WaitsFor { name, since } => waits(&format!(", the one of `{name}` since {since:.0}")),
        Turn::Paused => {
            let message = format!(
                "the change waits: upgrades are paused because earlier ones failed (`{}`). What \
                 is running is not touched. Correct the spec, or let the other upgrades continue \
                 with `kubectl flink operator continue`",
                options::UPGRADE_PAUSE_AFTER_FAILURES.key()
            );
            Some((UPGRADES_PAUSED, message))
        }
    }
}
