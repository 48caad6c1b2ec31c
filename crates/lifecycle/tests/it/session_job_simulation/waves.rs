//! Session jobs whose upgrades share a budget, each in its own world, with one operator for all.

use std::cell::RefCell;
use std::rc::Rc;

use super::*;
use lifecycle::upgrade_budget::{Limits, Record, ResourceKind, UpgradeBudget};
use lifecycle::wait::Awaited;
use lifecycle::world::Turn;

const LIMITS: Limits = Limits {
    at_once: Some(2),
    at_once_in_a_namespace: None,
    failures: None,
    patience: SignedDuration::from_secs(20),
};

impl Sim {
    fn generation(&self) -> i64 {
        self.resource.metadata.generation.unwrap()
    }

    fn record_of(&self, status: &SessionJobStatus) -> Record {
        Record::of_session_job(self.generation(), status)
    }

    pub(super) fn turn(&self) -> Turn {
        self.seat.as_ref().map_or(Turn::Taken, |seat| seat.ask(self.generation(), self.now))
    }

    pub(super) fn decided(&self, plan: &Plan) {
        if let Some(seat) = &self.seat {
            seat.decide(self.record_of(&plan.status), plan.waits, self.now);
        }
    }

    fn waits(&self) -> bool {
        self.upheaval.waits.is_some_and(|waits| waits.on == Awaited::Turn)
    }

    fn runs(&self) -> bool {
        self.jobs.iter().any(|job| job.state == JobStatusState::Running)
    }
}

struct Fleet {
    sims: Vec<Sim>,
    budget: Rc<RefCell<UpgradeBudget>>,
}

impl Fleet {
    fn new(size: usize, limits: Limits) -> Self {
        let budget = Rc::<RefCell<UpgradeBudget>>::default();
        let sims = (0..size).map(|number| {
            let mode = ["savepoint", "last-state", "stateless"][number % 3];
            let mut sim = Sim::new(mode, number % 2 == 0);
            sim.is_slow = number % 4 < 2;
            sim.settle();
            sim.seat = Some(Seat::new(ResourceKind::FlinkSessionJob, number, limits, &budget));
            sim
        });
        Self { sims: sims.collect(), budget }
    }

    /// Advances all of them by a second, with occasional crashes, and starts another process now and then.
    fn tick(&mut self, choices: &mut Choices) {
        for sim in &mut self.sims {
            sim.tick();
            let crash_at = choices.crash(9, 7);
            sim.pass(crash_at);
            let seat = sim.seat.as_ref().unwrap();
            seat.show(sim.record_of(&sim.status), sim.generation(), sim.now);
        }
        if choices.below(20) == 0 {
            *self.budget.borrow_mut() = UpgradeBudget::default();
            for sim in &mut self.sims {
                sim.die();
                let seat = sim.seat.as_ref().unwrap();
                seat.list(sim.record_of(&sim.status), sim.generation(), sim.now);
            }
        }
    }

    fn waiting(&self) -> usize {
        self.sims.iter().filter(|sim| sim.waits()).count()
    }

    fn settle(&mut self, choices: &mut Choices, mut each_second: impl FnMut(&Self)) {
        for second in 0.. {
            assert!(second < 1_500, "{} wait", self.waiting());
            self.tick(choices);
            each_second(self);
            if self.sims.iter().all(Sim::is_settled) {
                return;
            }
        }
    }
}

/// The law: if all session jobs are edited at once, never more of them are down than allowed, whenever the operator
/// dies.
#[test]
fn session_jobs_are_upgraded_in_waves() {
    let mut waited = 0;
    for seed in seeds(8) {
        let mut choices = Choices::new(seed);
        let mut fleet = Fleet::new(6, LIMITS);
        for sim in &mut fleet.sims {
            sim.edit(|job| job.parallelism = Some(3));
        }
        fleet.settle(&mut choices, |fleet| {
            let down = fleet.sims.iter().filter(|sim| !sim.runs()).count();
            assert!(down <= 2, "{}: seed {seed}: {down} are down", Law::FleetWaves);
            waited += fleet.waiting();
        });
    }
    assert!(waited > 100, "{waited}");
}

/// The law: session jobs that wait for their turns lose no record, whatever happens to them.
#[test]
fn random_lives_of_session_jobs_in_waves_lose_no_record() {
    for seed in seeds(6) {
        let mut choices = Choices::new(seed);
        let mut fleet = Fleet::new(3, Limits { at_once: Some(1), ..LIMITS });
        for _ in 0..120 {
            for sim in &mut fleet.sims {
                if choices.below(4) == 0 {
                    sim.checkpoint();
                }
                if choices.below(20) == 0 {
                    sim.misfortune(&mut choices);
                }
            }
            fleet.tick(&mut choices);
        }
        for round in 0.. {
            assert!(round < 8, "seed {seed}: {} wait", fleet.waiting());
            fleet.sims.iter_mut().filter(|sim| !sim.is_settled()).for_each(Sim::heal);
            for _ in 0..120 {
                fleet.tick(&mut choices);
            }
            if fleet.sims.iter().all(Sim::is_settled) {
                break;
            }
        }
    }
}
