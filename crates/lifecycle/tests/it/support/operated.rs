//! How an operator carries out its plans in a simulated world, and what interrupts it.

use lifecycle::plan::{PlanOf, Step};
use lifecycle::resource::JobResource;
use testing::choices::Choices;
use testing::exploration::Budget;

use super::worlds::Logged;
use crate::simulation::upheaval::Upheaved;

/// What happens to the operator's process before a step of its plan, or before the status at the end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Next {
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
pub(crate) fn undisturbed<S>(_: &mut S, _: usize, _: usize) -> Next {
    Next::GoOn
}

/// What the API server has stored of a resource: the generation, and the status.
pub(crate) type Stored<S> = (Option<i64>, S);

/// A world with an operator.
pub(crate) trait Operated<K: JobResource>: Upheaved + Logged + Sized {
    fn stored(&self) -> Stored<K::Status>;

    /// Decides what to do.
    fn plan(&mut self) -> PlanOf<K>;

    /// Notes a decision before it is carried out.
    fn note_decision(&mut self, _plan: &PlanOf<K>) {}

    /// Carries out a step; returns whether to continue with the next one.
    fn take(&mut self, step: &Step<K>) -> bool;

    /// Writes the status at the end of a pass.
    fn conclude(&mut self, plan: &PlanOf<K>);

    /// The operator's process dies, and the next one does not know what it remembered.
    fn die(&mut self);

    /// Advances the clock by a second.
    fn go_on(&mut self);

    /// A second in which anything may happen, apart from the operator.
    fn second(&mut self, choices: &mut Choices);

    /// Notes that the operator is paused: what happens meanwhile to the job is not what its plan was made for.
    fn note_pause(&mut self) {}

    /// Notes that a request arrives late.
    fn note_late(&mut self) {}

    /// Whether the API server rejects a step because the resource is no longer what the plan was made for. A status is
    /// written although the spec was changed.
    fn is_in_conflict(&self, step: &Step<K>, known: &Stored<K::Status>) -> bool {
        match step {
            Step::WriteStatus(_) => self.stored().1 != known.1,
            Step::AddFinalizer | Step::RemoveFinalizer => self.stored() != *known,
            _ => false,
        }
    }

    /// Makes one pass that dies before step `crash_at`, or after the last step without writing the status.
    fn crashing_pass(&mut self, crash_at: Option<usize>) -> PlanOf<K> {
        self.interrupted_pass(|_, at, last| match crash_at {
            Some(crash_at) if crash_at.min(last) == at => Next::Die,
            _ => Next::GoOn,
        })
    }

    /// Makes one pass. `next` is asked before each step, and before the status at the end, with its index and the last.
    fn interrupted_pass(&mut self, next: impl FnMut(&mut Self, usize, usize) -> Next) -> PlanOf<K> {
        let known = self.stored();
        let plan = self.plan();
        let steps: Vec<&str> = plan.steps.iter().map(Step::name).collect();
        let line = format!("{}: {steps:?}", plan.because);
        if self.log().last().is_none_or(|last| !last.ends_with(&line)) {
            self.tell(line);
        }
        self.note_decision(&plan);
        self.carry_out(&plan, known, next);
        plan
    }

    /// Carries out a plan that was made for what is known to be stored.
    fn carry_out(
        &mut self,
        plan: &PlanOf<K>,
        mut known: Stored<K::Status>,
        mut next: impl FnMut(&mut Self, usize, usize) -> Next,
    ) {
        let last = plan.steps.len();
        for (index, step) in plan.steps.iter().enumerate() {
            let next = next(self, index, last);
            if next != Next::GoOn {
                self.tell(format!("  {next:?} before step {index}"));
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
                }
                Next::GoOn | Next::Unanswered => {}
            }
            let goes_on = !self.is_in_conflict(step, &known) && self.take(step);
            if next == Next::Unanswered {
                self.upheaval().stopped_at = Some("no answer".to_owned());
            }
            if !goes_on || next != Next::GoOn {
                return;
            }
            if matches!(step, Step::WriteStatus(_) | Step::AddFinalizer | Step::RemoveFinalizer) {
                known = self.stored();
            }
        }
        if matches!(next(self, last, last), Next::Die | Next::Late(_)) {
            self.tell("  dies before the last status".to_owned());
            self.die();
        } else if self.stored().1 == known.1 {
            self.conclude(plan);
        }
    }

    /// Makes a pass that is often interrupted: by a crash, a lost answer, a request that arrives late, or a pause in
    /// which everything else goes on.
    fn unsteady_pass(&mut self, choices: &mut Choices) -> PlanOf<K> {
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
                    sim.tell("  paused".to_owned());
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
pub(crate) enum Event<E, F> {
    World,
    Edit(E),
    Fault(F),
}

/// How a pass is interrupted, at one of its steps.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Interruption<E> {
    /// The operator is paused before it, and something else happens.
    Paused(usize, E),
    /// Its answer is lost.
    Unanswered(usize),
    /// The operator dies before it, and it is carried out after some passes of the next process.
    Late(usize, u64),
}

/// An interrupted pass of a search, what comes of it, and what may still happen.
pub(crate) type Interrupted<S, E, F> = (Interruption<Event<E, F>>, S, Budget);

/// Returns what comes of each interruption of the next pass. One counts as a fault, with all that happens in a pause.
pub(crate) fn interrupted<K: JobResource, S: Operated<K> + Clone, E: Copy, F: Copy>(
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
    for at in 0..=sim.clone().plan().steps.len() {
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
