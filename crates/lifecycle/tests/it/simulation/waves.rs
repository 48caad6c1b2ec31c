//! A fleet whose upgrades share a budget: each resource in its own world, with one operator for all.

use super::*;
use lifecycle::conditions::ReportedWait;
use lifecycle::upgrade_budget::{Limits, Progress, Record, ResourceKind, UpgradeBudget};
use lifecycle::world::Turn;
use testing::seat::Budget;

const LIMITS: Limits = Limits {
    at_once: Some(3),
    at_once_in_a_namespace: Some(2),
    failures: None,
    patience: SignedDuration::from_secs(20),
};

/// Returns the seat of a blue/green deployment, where nothing may be in progress alongside.
pub(super) fn seat_of_transition() -> Seat {
    let limits = Limits { at_once: Some(1), ..LIMITS };
    Seat::new(ResourceKind::FlinkBlueGreenDeployment, 0, limits, &Budget::default())
}

impl Sim {
    pub(super) fn turn(&self) -> Turn {
        let Some(seat) = &self.seat else { return Turn::Taken };
        seat.ask(self.resource.metadata.generation.unwrap(), self.now)
    }

    pub(super) fn decided(&self, plan: &Plan) {
        if let Some(seat) = &self.seat {
            seat.decide(Record::of(&plan.status), plan.waits, self.now);
        }
    }

    /// Shows the stored state through the watch.
    pub(super) fn show(&self) {
        if let Some(seat) = &self.seat {
            let generation = self.resource.metadata.generation.unwrap();
            seat.show(Record::of(&self.status), generation, self.now);
        }
    }
}

struct Fleet {
    sims: Vec<Sim>,
    budget: Budget,
    /// The process is replaced once in this many seconds.
    restarts: u64,
}

impl Fleet {
    fn new(size: usize, limits: Limits, prepare: impl Fn(usize) -> Sim) -> Self {
        let budget = Budget::default();
        let sims = (0..size).map(|number| {
            let mut sim = prepare(number);
            sim.settle();
            let kind = ResourceKind::FlinkDeployment;
            sim.seat = Some(Seat::new(kind, number, limits, &budget));
            sim
        });
        Self { sims: sims.collect(), budget, restarts: 20 }
    }

    fn edit(&mut self, edit: impl Fn(&mut FlinkDeployment)) {
        for sim in &mut self.sims {
            sim.edit(&edit);
        }
    }

    /// Advances all of them by a second, with occasional crashes.
    fn tick(&mut self, choices: &mut Choices) {
        for sim in &mut self.sims {
            sim.tick();
            let crash_at = choices.crash(9, 7);
            sim.pass(crash_at);
            sim.show();
        }
        if choices.below(self.restarts) == 0 {
            self.restart();
        }
    }

    /// Starts another process, which knows what is stored.
    fn restart(&self) {
        *self.budget.borrow_mut() = UpgradeBudget::default();
        for sim in &self.sims {
            let seat = sim.seat.as_ref().unwrap();
            let generation = sim.resource.metadata.generation.unwrap();
            seat.list(Record::of(&sim.status), generation, sim.now);
        }
    }

    fn under_way(&self) -> usize {
        self.sims.iter().filter(|sim| Progress::of(&sim.status).is_in_progress()).count()
    }

    fn waiting(&self) -> usize {
        self.sims.iter().filter(|sim| ReportedWait::of(&sim.status.conditions).is_some()).count()
    }

    fn are_stable(&self) -> bool {
        self.sims.iter().all(|sim| {
            sim.status.lifecycle_state == Some(LifecycleState::Stable)
                && sim.status.observed_generation == sim.resource.metadata.generation
        })
    }
}

/// The law: if a whole fleet is edited at once, never more resources are down than allowed, whenever the operator dies.
#[test]
fn a_fleet_is_upgraded_in_waves() {
    let mut waited = 0;
    for seed in seeds(12) {
        let mut choices = Choices::new(seed);
        let mut fleet = Fleet::new(9, LIMITS, |number| {
            let mode = ["savepoint", "last-state", "stateless"][number % 3];
            let mut sim = Sim::new(mode);
            sim.is_slow = number % 2 == 0;
            if number % 4 == 3 { sim.standalone() } else { sim }
        });
        fleet.edit(|r| r.spec.image = Some("flink:1.20.1".to_owned()));
        for second in 0.. {
            assert!(second < 3_000, "seed {seed}: {} wait", fleet.waiting());
            fleet.tick(&mut choices);
            let under_way = fleet.under_way();
            let law = Law::FleetWaves;
            assert!(under_way <= 3, "{law}: seed {seed}, second {second}: {under_way}");
            waited += fleet.waiting();
            if fleet.are_stable() {
                break;
            }
        }
        assert_eq!(fleet.waiting(), 0, "seed {seed}");
    }
    assert!(waited > 1000, "{waited}");
}

/// The law: a failing start stops the wave, and the remaining jobs keep running.
#[test]
fn an_image_that_does_not_start_goes_no_further_than_it_may() {
    let limits = Limits { failures: Some(2), ..LIMITS };
    for seed in seeds(2) {
        let mut choices = Choices::new(seed);
        let mut fleet = Fleet::new(7, limits, |_| {
            let mut sim = Sim::new("savepoint").with_rollback();
            sim.sees_broken_images = seed % 2 == 0;
            sim
        });
        // It counts failures for its lifetime only.
        fleet.restarts = 250;
        fleet.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
        let first: Vec<usize> = fleet.sims.iter().map(|sim| sim.starts).collect();
        for _ in 0..250 {
            fleet.tick(&mut choices);
        }
        let touched =
            fleet.sims.iter().zip(&first).filter(|(sim, first)| sim.starts > **first).count();
        let reported = |sim: &Sim| {
            ReportedWait::of(&sim.status.conditions).is_some_and(|reported| reported.is_paused)
        };
        let paused = fleet.sims.iter().filter(|sim| reported(sim)).count();
        // Those beside the second failure were already in progress.
        let law = Law::FleetWaves;
        assert!(
            touched <= 4 && paused >= 2,
            "{law}: seed {seed}: {touched} touched, {paused} wait"
        );
        fleet.edit(|r| r.spec.image = Some("flink:1.20.1".to_owned()));
        for second in 0.. {
            assert!(second < 3_000, "seed {seed}: {} wait", fleet.waiting());
            fleet.tick(&mut choices);
            if fleet.are_stable() {
                break;
            }
        }
    }
}

/// The law: a fleet that waits for its turns loses no record, and suspends do not wait.
#[test]
fn random_lives_in_waves_lose_no_record() {
    for seed in seeds(8) {
        let mut choices = Choices::new(seed);
        let limits = Limits { at_once: Some(1), ..LIMITS };
        let mut fleet = Fleet::new(4, limits, |number| {
            let mut sim = Sim::new(if number % 2 == 0 { "savepoint" } else { "last-state" });
            sim.is_slow = seed % 3 == 0;
            sim
        });
        for _ in 0..150 {
            for sim in &mut fleet.sims {
                if choices.below(4) == 0 {
                    sim.checkpoint();
                }
                if choices.below(20) == 0 {
                    sim.misfortune(&mut choices);
                }
                sim.answer_refusal();
            }
            fleet.tick(&mut choices);
        }
        for sim in &mut fleet.sims {
            sim.heal();
        }
        for second in 0.. {
            assert!(second < 3_000, "seed {seed}: {} wait", fleet.waiting());
            for sim in &mut fleet.sims {
                sim.answer_refusal();
            }
            fleet.tick(&mut choices);
            if fleet.are_stable() {
                break;
            }
        }
    }
}
