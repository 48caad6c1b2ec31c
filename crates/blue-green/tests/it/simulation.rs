//! Random lives with user actions, faults and crashes before any step.

use api::PAUSED_ANNOTATION;
use api::blue_green::{ABORT_ANNOTATION, Colour, PROMOTE_ANNOTATION};
use api::job::{JobState, UpgradeMode};
use blue_green::child::Child;
use lifecycle::world::{Fact, Turn};
use testing::choices::{Choices, seeds};

use crate::world::{BROKEN_IMAGE, FAILING_PARALLELISM, Sim};

pub(crate) fn mode(seed: u64) -> UpgradeMode {
    [UpgradeMode::Savepoint, UpgradeMode::LastState, UpgradeMode::Stateless]
        [usize::try_from(seed % 3).unwrap()]
}

/// Runs `scenario`, and prints the log if it fails.
pub(crate) fn show_on_failure(seed: u64, sim: &mut Sim, scenario: impl FnOnce(&mut Sim)) {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scenario(sim)));
    if let Err(panic) = result {
        for line in sim.log.iter().rev().take(120).rev() {
            println!("{line}");
        }
        println!("seed {seed}");
        std::panic::resume_unwind(panic);
    }
}

impl Sim {
    fn any_colour(choices: &mut Choices) -> Colour {
        Colour::ALL[usize::try_from(choices.below(2)).unwrap()]
    }

    pub(crate) fn misfortune(&mut self, choices: &mut Choices) {
        match choices.below(22) {
            20 => self.turn = Fact::Unknown("the list is not complete".to_owned()),
            21 => self.crowd(),
            18 => self.annotate(PAUSED_ANNOTATION, "true".to_owned()),
            19 => self.annotate(PAUSED_ANNOTATION, "false".to_owned()),
            0 | 1 => {
                self.edit_job(|job| job.parallelism = Some(job.parallelism.unwrap_or(1) % 5 + 1));
            }
            2 => self.edit_job(|job| job.parallelism = Some(2)),
            3 => self.edit_job(|job| job.state = JobState::Suspended),
            4 | 5 => self.edit_job(|job| job.state = JobState::Running),
            6 => self.edit(|spec| spec.image = Some(BROKEN_IMAGE.to_owned())),
            7 => self.edit(|spec| spec.image = Some("flink:1.20".to_owned())),
            8 => self.edit_job(|job| job.parallelism = Some(FAILING_PARALLELISM)),
            9 => self.redeploy(),
            10 => self.savepoint_fails = true,
            11 => self.savepoint_takes = choices.below(40),
            12 => self.forget_triggers(),
            13 => {
                if let Some(child) = self.children.get_mut(&Self::any_colour(choices)) {
                    child.unready = 1 + choices.below(10);
                }
            }
            14 => {
                if let Some(child) = self.children.get_mut(&Self::any_colour(choices)) {
                    child.fail();
                }
            }
            // Someone deletes the child that does not serve, unless the other one is about to go.
            15 => {
                let colour = Self::any_colour(choices);
                let other = self.serving().filter(|serving| *serving != colour);
                let other = other.and_then(|serving| self.children.get(&serving));
                if other.is_some_and(|other| !Child(&other.object).is_deleting()) {
                    self.lose_child(colour);
                }
            }
            kind => {
                let key = if kind == 16 { PROMOTE_ANNOTATION } else { ABORT_ANNOTATION };
                let target = self.children.get(&Self::any_colour(choices));
                if let Some(uid) = target.map(|child| Child(&child.object).uid().to_owned()) {
                    self.annotate(key, uid);
                }
            }
        }
    }

    pub(crate) fn heal(&mut self) {
        self.end_upheaval();
        self.turn = Fact::Known(Turn::Taken);
        self.resource.metadata.annotations = None;
        self.savepoint_fails = false;
        self.ingress_refused = false;
        self.savepoint_takes = 2;
        self.edit(|spec| {
            spec.image = Some("flink:1.20".to_owned());
            spec.restart_nonce = Some(spec.restart_nonce.unwrap_or(0) + 1);
            let job = spec.job.as_mut().unwrap();
            job.parallelism = Some(4);
            job.state = JobState::Running;
        });
    }
}

#[test]
fn a_new_resource_serves_and_is_then_left_alone() {
    for seed in 0..3 {
        let mut sim = Sim::new(mode(seed));
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            sim.assert_rests();
            assert_eq!(sim.serving(), Some(Colour::Blue));
        });
    }
}

#[test]
fn users_faults_and_crashes_never_leave_nobody_who_serves() {
    let (mut switches, mut aborts) = (0, 0);
    for seed in seeds(64) {
        let mut choices = Choices::new(seed);
        let mut sim = Sim::new(mode(seed));
        sim.settings.deletion_delay = std::time::Duration::from_secs(seed % 4 * 3);
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..150 {
                sim.tick();
                if choices.below(8) == 0 {
                    sim.misfortune(&mut choices);
                }
                let crash_at = choices.crash(5, 5);
                sim.pass(crash_at);
            }
            sim.heal();
            sim.settle();
            sim.assert_rests();
        });
        (switches, aborts) = (switches + sim.switches, aborts + sim.aborts);
    }
    assert!(switches > 10 && aborts > 0, "{switches} switches, {aborts} aborts");
}
