//! How an operator carries out its plans in a simulated world, and what interrupts it.

use crate::choices::Choices;
use crate::exploration::Budget;

/// What happens to the operator's process before a step of its plan, or before the status at the end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Next {
    /// Nothing.
    GoOn,
    /// It dies.
    Die,
    /// The step is carried out, but the answer does not arrive, which ends the plan.
    Unanswered,
    /// It dies, and the request for the step arrives after this many passes of the next process.
    Late(u64),
}

/// A pass that nothing interrupts.
pub fn undisturbed<S>(_: &mut S, _: usize, _: usize) -> Next {
    Next::GoOn
}

/// A world with an operator.
pub trait Operated: Sized {
    type Plan;
    type Step;
    /// What the API server has stored and the operator has read.
    type Stored;

    fn stored(&self) -> Self::Stored;

    /// Decides what to do.
    fn plan(&mut self) -> Self::Plan;

    fn steps(plan: &Self::Plan) -> &[Self::Step];

    /// Describes a plan: why, and its steps.
    fn described(&self, plan: &Self::Plan) -> String;

    /// Adds a line to the log.
    fn say(&mut self, line: String);

    /// Notes a decision before it is carried out.
    fn note_decision(&mut self, _plan: &Self::Plan) {}

    /// Whether the API server rejects a step because what the plan was made for is no longer stored.
    fn is_in_conflict(&self, step: &Self::Step, known: &Self::Stored) -> bool;

    /// Carries out a step; returns whether to continue with the next one.
    fn take(&mut self, step: &Self::Step) -> bool;

    /// Notes what the operator knows to be stored after a step of its own.
    fn note_stored(&self, step: &Self::Step, known: &mut Self::Stored);

    /// Whether the status at the end of the pass replaces the one that the operator knows.
    fn may_conclude(&self, known: &Self::Stored) -> bool;

    /// Writes the status at the end of a pass.
    fn conclude(&mut self, plan: &Self::Plan);

    /// The operator's process dies, and the next one does not know what it remembered.
    fn die(&mut self);

    /// Notes that the plan ended because an answer did not arrive.
    fn note_unanswered(&mut self);

    /// Advances the clock by a second.
    fn go_on(&mut self);

    /// A second in which anything may happen, apart from the operator.
    fn second(&mut self, choices: &mut Choices);

    /// Notes that the operator is paused: what happens meanwhile is not what its plan was made for.
    fn note_pause(&mut self) {}

    /// Notes that a request arrives late.
    fn note_late(&mut self) {}

    /// Notes that what follows was decided before the last passes.
    fn note_stale(&mut self) {}

    /// Makes one pass that dies before step `crash_at`, or after the last step without writing the status.
    fn crashing_pass(&mut self, crash_at: Option<usize>) -> Self::Plan {
        self.interrupted_pass(|_, at, last| match crash_at {
            Some(crash_at) if crash_at.min(last) == at => Next::Die,
            _ => Next::GoOn,
        })
    }

    /// Makes one pass. `next` is asked before each step, and before the status at the end, with its index and the last.
    fn interrupted_pass(
        &mut self,
        next: impl FnMut(&mut Self, usize, usize) -> Next,
    ) -> Self::Plan {
        let known = self.stored();
        let plan = self.plan();
        let line = self.described(&plan);
        self.say(line);
        self.note_decision(&plan);
        self.carry_out(&plan, known, next);
        plan
    }

    /// Carries out a plan that was made for what is known to be stored.
    fn carry_out(
        &mut self,
        plan: &Self::Plan,
        mut known: Self::Stored,
        mut next: impl FnMut(&mut Self, usize, usize) -> Next,
    ) {
        let steps = Self::steps(plan);
        let last = steps.len();
        for (index, step) in steps.iter().enumerate() {
            let next = next(self, index, last);
            if next != Next::GoOn {
                self.say(format!("  {next:?} before step {index}"));
            }
            match next {
                Next::Die => return self.die(),
                Next::Late(passes) => {
                    self.die();
                    self.note_late();
                    for _ in 0..passes {
                        self.go_on();
                        self.interrupted_pass(undisturbed);
                    }
                    self.note_stale();
                }
                Next::GoOn | Next::Unanswered => {}
            }
            let goes_on = !self.is_in_conflict(step, &known) && self.take(step);
            if next == Next::Unanswered {
                self.note_unanswered();
            }
            if !goes_on || next != Next::GoOn {
                return;
            }
            self.note_stored(step, &mut known);
        }
        if matches!(next(self, last, last), Next::Die | Next::Late(_)) {
            self.say("  dies before the last status".to_owned());
            self.die();
        } else if self.may_conclude(&known) {
            self.conclude(plan);
        }
    }

    /// Makes a pass that is often interrupted: by a crash, a lost answer, a request that arrives late, or a pause in
    /// which everything else goes on.
    fn unsteady_pass(&mut self, choices: &mut Choices) -> Self::Plan {
        let Some(at) = choices.crash(5, 7) else { return self.crashing_pass(None) };
        let kind = choices.below(5);
        self.interrupted_pass(|sim, index, last| {
            if index != at.min(last) {
                return Next::GoOn;
            }
            match kind {
                0 | 1 => Next::Die,
                2 => Next::Unanswered,
                3 => Next::Late(1 + choices.below(3)),
                _ => {
                    sim.say("  paused".to_owned());
                    sim.note_pause();
                    for _ in 0..=choices.below(25) {
                        sim.second(choices);
                    }
                    Next::GoOn
                }
            }
        })
    }
}

/// What happens to the world of an operator that is paused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event<E, F> {
    World,
    Edit(E),
    Fault(F),
}

/// How a pass is interrupted, at one of its steps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Interruption<E> {
    /// The operator is paused before it, and something else happens.
    Paused(usize, E),
    /// Its answer is lost.
    Unanswered(usize),
    /// The operator dies before it, and it is carried out after some passes of the next process.
    Late(usize, u64),
}

/// An interrupted pass of a search, what comes of it, and what may still happen.
pub type Interrupted<S, E, F> = (Interruption<Event<E, F>>, S, Budget);

/// Returns what comes of each interruption of the next pass. One counts as a fault, with all that happens in a pause.
pub fn interrupted<S: Operated + Clone, E: Copy, F: Copy>(
    sim: &S,
    left: Budget,
    (edits, faults): (&[E], &[F]),
    (make, strike): (impl Fn(&mut S, E), impl Fn(&mut S, F)),
) -> Vec<Interrupted<S, E, F>> {
    let Some(left) = left.faults.checked_sub(1).map(|faults| Budget { faults, ..left }) else {
        return vec![];
    };
    let edits = edits.iter().filter(|_| left.edits > 0).map(|edit| Event::Edit(*edit));
    let faults = faults.iter().map(|fault| Event::Fault(*fault));
    let events: Vec<Event<E, F>> = [Event::World].into_iter().chain(edits).chain(faults).collect();
    let mut all = Vec::new();
    for at in 0..=S::steps(&sim.clone().plan()).len() {
        let paused = events.iter().map(|event| Interruption::Paused(at, *event));
        let late = [1, 3].map(|passes| Interruption::Late(at, passes));
        for interruption in paused.chain([Interruption::Unanswered(at)]).chain(late) {
            let (mut sim, mut left) = (sim.clone(), left);
            sim.interrupted_pass(|sim, index, _| match interruption {
                _ if index != at => Next::GoOn,
                Interruption::Paused(_, event) => {
                    match event {
                        Event::World => sim.go_on(),
                        Event::Edit(edit) => {
                            make(sim, edit);
                            left.edits -= 1;
                        }
                        Event::Fault(fault) => {
                            sim.note_pause();
                            strike(sim, fault);
                        }
                    }
                    Next::GoOn
                }
                Interruption::Unanswered(_) => Next::Unanswered,
                Interruption::Late(_, passes) => Next::Late(passes),
            });
            all.push((interruption, sim, left));
        }
    }
    all
}
