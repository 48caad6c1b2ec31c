//! A fleet whose transitions share a budget, with one operator for all.

use api::blue_green::Colour;
use api::job::JobState;
use blue_green::child::Child;
use jiff::SignedDuration;
use lifecycle::upgrade_budget::{Limits, Record, ResourceKind, UpgradeBudget};
use lifecycle::world::{Fact, Turn};
use testing::choices::{Choices, seeds};
use testing::laws::Law;
use testing::seat::{Budget, Seat};

use crate::simulation::{mode, show_on_failure};
use crate::world::{BROKEN_IMAGE, Sim};

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

    fn record(&self) -> Record {
        Record::of_blue_green(&self.resource.metadata, &self.status)
    }

    pub(crate) fn turn_in_budget(&self) -> Fact<Turn> {
        let Some(seat) = &self.seat else { return self.turn.clone() };
        Fact::Known(seat.ask(self.generation(), self.now))
    }

    /// Other upgrades take all turns, or end.
    pub(crate) fn crowd(&mut self) {
        let is_free = self.turn == Fact::Known(Turn::Taken);
        self.turn = Fact::Known(if is_free { Turn::Waits } else { Turn::Taken });
    }

    /// Makes a pass, and shows what it stored through the watch.
    fn pass_in_fleet(&mut self, crash_at: Option<usize>) {
        let plan = self.pass(crash_at);
        let Some(seat) = &self.seat else { return };
        let decided = Record::of_blue_green(&self.resource.metadata, &plan.status);
        seat.decide(decided, plan.waits, self.now);
        seat.show(self.record(), self.generation(), self.now);
    }

    /// Whether both colours have pods, and neither is about to go.
    fn has_two_clusters(&self) -> bool {
        let stays = |colour| {
            let child = self.children.get(colour);
            child.is_some_and(|child| !Child(&child.object).is_deleting())
        };
        Colour::ALL.iter().all(stays)
    }

    fn waits(&self) -> bool {
        self.record().told.is_some()
    }
}

struct Fleet {
    sims: Vec<Sim>,
    budget: Budget,
    /// The process is replaced once in this many seconds.
    restarts: u64,
}

impl Fleet {
    fn new(size: u64, limits: Limits) -> Self {
        let budget = Budget::default();
        let sims = (0..size).map(|number| {
            let mut sim = Sim::new(mode(number));
            sim.settings.deletion_delay = std::time::Duration::from_secs(number % 3 * 3);
            sim.settle();
            let kind = ResourceKind::FlinkBlueGreenDeployment;
            let number = usize::try_from(number).unwrap();
            sim.seat = Some(Seat::new(kind, number, limits, &budget));
            sim
        });
        Self { sims: sims.collect(), budget, restarts: 20 }
    }

    fn set_image(&mut self, image: &str) {
        for sim in &mut self.sims {
            sim.edit(|spec| spec.image = Some(image.to_owned()));
        }
    }

    /// Advances all of them by a second, with occasional crashes.
    fn tick(&mut self, choices: &mut Choices) {
        for sim in &mut self.sims {
            sim.tick();
            let crash_at = choices.crash(9, 5);
            sim.pass_in_fleet(crash_at);
        }
        if choices.below(self.restarts) == 0 {
            *self.budget.borrow_mut() = UpgradeBudget::default();
            for sim in &self.sims {
                let seat = sim.seat.as_ref().unwrap();
                seat.list(sim.record(), sim.generation(), sim.now);
            }
        }
        let twice = self.sims.iter().filter(|sim| sim.has_two_clusters()).count();
        assert!(twice <= 2, "{}: {twice} have two clusters", Law::FleetWaves);
    }

    fn waiting(&self) -> usize {
        self.sims.iter().filter(|sim| sim.waits()).count()
    }

    fn settle(&mut self, choices: &mut Choices) {
        for second in 0.. {
            assert!(second < 1_000, "{} wait", self.waiting());
            self.tick(choices);
            if self.sims.iter().all(|sim| sim.has_request() && sim.is_at_rest()) {
                return assert_eq!(self.waiting(), 0);
            }
        }
    }
}

/// The law: never more resources have a second cluster than allowed, whenever the operator dies.
#[test]
fn transitions_begin_in_waves() {
    for seed in seeds(8) {
        let mut choices = Choices::new(seed);
        let mut fleet = Fleet::new(6, LIMITS);
        fleet.set_image("flink:1.20.1");
        fleet.sims.iter_mut().for_each(|sim| sim.pass_in_fleet(None));
        assert_eq!(fleet.waiting(), 4, "{}: seed {seed}", Law::FleetWaves);
        fleet.settle(&mut choices);
    }
}

/// The law: targets that do not start stop the wave, and the remaining jobs keep their only cluster until someone edits
/// them.
#[test]
fn targets_that_do_not_start_go_no_further_than_they_may() {
    let limits = Limits { failures: Some(2), ..LIMITS };
    for seed in seeds(2) {
        let mut choices = Choices::new(seed);
        let mut fleet = Fleet::new(6, limits);
        // It counts failures for its lifetime only.
        fleet.restarts = 200;
        fleet.set_image(BROKEN_IMAGE);
        for _ in 0..150 {
            fleet.tick(&mut choices);
        }
        let aborts: usize = fleet.sims.iter().map(|sim| sim.aborts).sum();
        let paused =
            fleet.sims.iter().filter(|sim| sim.record().told.is_some_and(|it| it.is_paused));
        let (paused, law) = (paused.count(), Law::FleetWaves);
        assert!(aborts <= 4 && paused >= 2, "{law}: seed {seed}: {aborts} aborts, {paused} wait");
        fleet.set_image("flink:1.20.1");
        fleet.settle(&mut choices);
    }
}

/// Nothing that has a turn of its own waits for another one.
#[test]
fn a_transition_in_progress_does_not_wait() {
    let mut sim = Sim::new(mode(0));
    show_on_failure(0, &mut sim, |sim| {
        sim.settle();
        sim.edit_job(|job| job.parallelism = Some(3));
        sim.pass(None);
        assert!(!sim.is_at_rest());
        sim.turn = Fact::Known(Turn::Waits);
        sim.settle();
        sim.assert_rests();
        sim.edit_job(|job| job.state = JobState::Suspended);
        sim.settle();
        sim.edit_job(|job| job.state = JobState::Running);
        sim.settle();
    });
}
