//! What is told of an upgrade that waits for its turn, in the same words for every kind of resource.

use jiff::Timestamp;

use crate::conditions::{
    ReportedWait, UPGRADE_ADMITTED, UPGRADES_PAUSED, WAITS_FOR_TURN, condition, of_type,
};
use crate::event::{Component, Event};
use crate::kind::Kind;
use crate::pass::Pass;
use crate::problem::Halt;
use crate::resource::StatusOfJob;
use crate::world::Turn;
use api::job::JobState;
use api::status::Condition;
use config::options;

/// Why an upgrade waits. The message does not change with the place in the queue, so that no status is written for that.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Wait {
    /// [`WAITS_FOR_TURN`] or [`UPGRADES_PAUSED`].
    pub reason: &'static str,
    pub message: String,
}

impl Turn {
    /// Returns why the upgrade waits, if it does.
    pub fn wait(&self) -> Option<Wait> {
        let waits = |holder: &str| {
            let message = format!(
                "the change waits for its turn: as many upgrades are in progress as `{}` \
                 allows{holder}. What is running is not touched",
                options::UPGRADE_MAX_CONCURRENT.key()
            );
            Some(Wait { reason: WAITS_FOR_TURN, message })
        };
        match self {
            Self::Taken => None,
            Self::Waits => waits(""),
            Self::WaitsFor { name, since } => {
                waits(&format!(", the one of `{name}` since {since:.0}"))
            }
            Self::Paused => {
                let message = format!(
                    "the change waits: upgrades are paused because earlier ones failed (`{}`). \
                     What is running is not touched. Correct the spec, or let the other upgrades \
                     continue with `kubectl flink operator continue`",
                    options::UPGRADE_PAUSE_AFTER_FAILURES.key()
                );
                Some(Wait { reason: UPGRADES_PAUSED, message })
            }
        }
    }
}

impl<K: Kind> Pass<'_, K> {
    /// Returns why the edit has to wait before it is carried out in addition to those in progress. A suspend and the
    /// autoscaler never wait.
    pub(crate) fn wait_for_turn(&self) -> Result<Option<Wait>, Halt> {
        let is_edit = self.status.observed_generation() != Some(self.generation);
        if !is_edit || self.desired_state() != JobState::Running {
            return Ok(None);
        }
        let turn = self.world.turn()?.map_err(|reason| Halt::cannot(reason.to_owned()))?;
        Ok(turn.wait())
    }
}

impl Wait {
    pub(crate) fn is_paused(&self) -> bool {
        self.reason == UPGRADES_PAUSED
    }

    /// Returns the wait that these conditions report.
    pub fn on_record(conditions: &[Condition]) -> Option<Self> {
        let Condition { reason, message, .. } = of_type(conditions, UPGRADE_ADMITTED)?;
        let reasons = [UPGRADES_PAUSED, WAITS_FOR_TURN];
        let reason = reasons.into_iter().find(|it| reason.as_deref() == Some(it))?;
        Some(Self { reason, message: message.clone()? })
    }

    pub fn reported(&self, generation: i64) -> ReportedWait {
        ReportedWait { generation, is_paused: self.is_paused() }
    }

    pub fn event(&self) -> Event {
        let event = if self.is_paused() { Event::warning } else { Event::normal };
        event(self.reason, Component::Operator, self.message.clone())
    }

    /// Returns the condition of a spec of this generation that waits.
    pub fn condition(&self, before: &[Condition], generation: i64, now: Timestamp) -> Condition {
        let (type_, told) = ((UPGRADE_ADMITTED, "False"), (self.reason, self.message.as_str()));
        condition(before, Some(generation), type_, told, now)
    }
}
