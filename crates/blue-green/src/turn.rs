//! A transition takes its turn in the budget of upgrades before a savepoint is taken or a second cluster is started for
//! it. Until then, what serves is maintained.

use lifecycle::conditions::{ReportedWait, WAITS_FOR_TURN};
use lifecycle::turn::Wait;
use lifecycle::wait::{Awaited, Waiting};

use crate::child::Child;
use crate::decide::{Halt, Pass, SOON};
use crate::plan::{Plan, Step};

impl Pass<'_> {
    /// Waits until the transition may begin in addition to the upgrades in progress.
    pub(crate) fn await_turn(&mut self, serving: Child<'_>) -> Result<Option<Plan>, Halt> {
        let (before, generation, now) =
            (&self.world.status.conditions, self.world.generation(), self.world.now);
        let wait = match self.world.turn()? {
            Ok(turn) => turn.wait(),
            // One that waits keeps its place.
            Err(unknown) => match Wait::on_record(before) {
                Some(wait) => Some(wait),
                None => return Ok(Some(self.await_answer(unknown))),
            },
        };
        let Some(wait) = wait else { return Ok(None) };
        if ReportedWait::of(before) != Some(wait.reported(generation)) {
            self.steps.push(Step::Event(wait.event()));
        }
        self.report(wait.reason, wait.message.clone());
        self.admission = Some(wait.condition(before, generation, now));
        let plan = self.maintain(serving, None, false);
        let waits = Some(Waiting::new(Awaited::Turn, now, None));
        Ok(Some(Plan { because: wait.message, waits, ..plan }))
    }

    fn await_answer(&mut self, unknown: &str) -> Plan {
        let message = format!("whether the transition may begin is not known: {unknown}");
        self.report(WAITS_FOR_TURN, message.clone());
        let since = self.reported_since(Some(WAITS_FOR_TURN));
        self.wait_for(Awaited::Fact, since, message, SOON)
    }
}
