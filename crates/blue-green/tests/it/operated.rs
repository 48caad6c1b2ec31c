//! What the operator decides in the simulated world, how it carries that out, and what interrupts it.

use std::collections::BTreeMap;
use std::time::Duration;

use api::blue_green::{BlueGreenStatus, Colour};
use api::deployment::FlinkDeployment;
use api::is_paused;
use api::job::UpgradeMode;
use blue_green::child::Child;
use blue_green::decide;
use blue_green::not_carried_out;
use blue_green::plan::{Plan, Step};
use blue_green::world::{Facts, Ingress, Question, Savepoint, World};
use jiff::SignedDuration;
use lifecycle::conditions::of_type;
use lifecycle::paused::PAUSED;
use testing::choices::{Choices, seeds};
use testing::laws::Law;
use testing::operated::{Next, Operated};

use crate::simulation::{mode, show_on_failure};
use crate::upheaval::Untold;
use crate::world::{RESTS_FOR, Sim};

/// What the API server has stored: the status and the children, as the operator read them.
pub(crate) struct Stored {
    pub(crate) status: BlueGreenStatus,
    children: BTreeMap<Colour, FlinkDeployment>,
}

impl Operated for Sim {
    type Plan = Plan;
    type Step = Step;
    type Stored = Stored;

    fn stored(&self) -> Stored {
        let children = self.children.iter();
        Stored {
            status: self.status.clone(),
            children: children.map(|(colour, child)| (*colour, child.object.clone())).collect(),
        }
    }

    fn plan(&mut self) -> Plan {
        let trigger_id = self.id();
        self.is_stale = false;
        if let Some(plan) = self.plan_without_children() {
            return plan;
        }
        let mut facts =
            Facts { stopped_at: self.upheaval.stopped_at(&self.resource), ..Facts::default() };
        for _ in 0..5 {
            let world = World {
                now: self.now + self.upheaval.skew,
                resource: &self.resource,
                status: &self.status,
                settings: self.settings,
                inherits_labels: self.inherits_labels,
                violation: None,
                blue: self.children.get(&Colour::Blue).map(|child| &child.object),
                green: self.children.get(&Colour::Green).map(|child| &child.object),
                trigger_id: trigger_id.clone(),
                facts: facts.clone(),
            };
            match decide(&world) {
                Ok(plan) => {
                    self.assert_names_its_wait(&plan);
                    self.assert_is_left_alone(&plan);
                    return plan;
                }
                Err(Question::Savepoint(colour, id)) => {
                    facts.savepoint = Some((id.clone(), self.savepoint(colour, &id)));
                }
                Err(Question::Ingress(colour)) => {
                    facts.ingress = Some((colour, self.ingress_of(colour)));
                }
                Err(Question::Turn) => facts.turn = self.turn_in_budget(),
            }
        }
        panic!("no decision after five questions: {facts:?}");
    }

    fn steps(plan: &Plan) -> &[Step] {
        &plan.steps
    }

    fn described(&self, plan: &Plan) -> String {
        let names: Vec<&str> = plan.steps.iter().map(Step::name).collect();
        format!("{:?} {}: {names:?}", self.status.blue_green_state, plan.because)
    }

    fn say(&mut self, line: String) {
        if self.log.last().is_none_or(|last| !last.ends_with(&line)) {
            self.log.push(format!("{} {line}", self.now));
        }
    }

    fn is_in_conflict(&self, step: &Step, known: &Stored) -> bool {
        match step {
            Step::WriteStatus(_) => self.status != known.status,
            // A whole child is replaced if it is still the one that was read.
            Step::ChangeChild(object) => {
                let colour = Self::colour(object.metadata.name.as_deref().unwrap());
                let stored = self.children.get(&colour).map(|child| &child.object);
                stored != known.children.get(&colour)
            }
            Step::DeleteChild { name, uid } => {
                let stored = self.children.get(&Self::colour(name));
                stored.is_some_and(|child| Child(&child.object).uid() != uid)
            }
            Step::Event(_)
            | Step::RecordRevision(_)
            | Step::TriggerSavepoint { .. }
            | Step::KeepSavepoint { .. }
            | Step::CopyAutoscalerState { .. }
            | Step::CreateChild(_)
            | Step::PointIngress(_) => false,
        }
    }

    fn take(&mut self, step: &Step) -> bool {
        if self.upheaval.stops(step, &self.resource) {
            return false;
        }
        if !self.upheaval.drops(step) {
            self.apply(step);
        }
        true
    }

    fn note_stored(&self, step: &Step, known: &mut Stored) {
        match step {
            Step::WriteStatus(_) => known.status = self.status.clone(),
            // The next step on it deletes it, whatever its version.
            Step::ChangeChild(_)
            | Step::DeleteChild { .. }
            | Step::Event(_)
            | Step::RecordRevision(_)
            | Step::TriggerSavepoint { .. }
            | Step::KeepSavepoint { .. }
            | Step::CopyAutoscalerState { .. }
            | Step::CreateChild(_)
            | Step::PointIngress(_) => {}
        }
    }

    fn may_conclude(&self, known: &Stored) -> bool {
        self.status == known.status
    }

    fn conclude(&mut self, plan: &Plan) {
        let last = Step::WriteStatus(plan.status.clone());
        if *plan.status == self.status || !self.upheaval.stops(&last, &self.resource) {
            self.upheaval.go_on();
            self.store(&plan.status);
        }
    }

    fn die(&mut self) {
        self.upheaval.forget();
    }

    fn note_unanswered(&mut self) {
        self.upheaval.stop_at("no answer", &self.resource);
    }

    fn go_on(&mut self) {
        self.tick();
        self.is_stale = true;
    }

    fn note_pause(&mut self) {
        self.is_stale = true;
    }

    fn note_stale(&mut self) {
        self.is_stale = true;
    }

    fn second(&mut self, choices: &mut Choices) {
        self.tick();
        if choices.below(10) == 0 {
            self.misfortune(choices);
        }
        if choices.below(12) == 0 {
            self.upheave(choices);
        }
    }
}

impl Sim {
    /// Makes one pass that dies before step `crash_at`, or after the last step without writing its status.
    pub(crate) fn pass(&mut self, crash_at: Option<usize>) -> Plan {
        self.crashing_pass(crash_at)
    }

    /// A pass that cannot read the children does nothing, and tells that once it has lasted.
    fn plan_without_children(&mut self) -> Option<Plan> {
        let why = "the children cannot be read (500)";
        if !self.upheaval.hides(Untold::Children) {
            self.upheaval.unread_since = None;
            return None;
        }
        let since = *self.upheaval.unread_since.get_or_insert(self.now);
        let has_lasted = self.now.duration_since(since) >= SignedDuration::from_mins(1);
        let is_reported = has_lasted && self.resource.metadata.deletion_timestamp.is_none();
        let status = if is_reported {
            not_carried_out::described(&self.status, why)
        } else {
            self.status.clone()
        };
        Some(Plan {
            because: why.to_owned(),
            steps: vec![],
            status: Box::new(status),
            look_again: Some(Duration::from_secs(if is_reported { 100 } else { 1 })),
            waits: None,
        })
    }

    /// The law: a plan that does nothing and looks again before an idle one would says what it waits for, or why nothing
    /// happens.
    fn assert_names_its_wait(&self, plan: &Plan) {
        let is_idle = plan.steps.is_empty() && *plan.status == self.status;
        let looks_soon = plan.look_again.is_some_and(|pause| pause < RESTS_FOR);
        let says = plan.waits.is_some() || self.status.error.is_some();
        let law = Law::BlueGreenTold;
        assert!(!is_idle || !looks_soon || says, "{law}: waits without a name: {}", plan.because);
        let now = self.now + self.upheaval.skew;
        if let Some(waits) = plan.waits.filter(|waits| waits.is_late(now)) {
            assert!(plan.status.error.is_some(), "{law}: waits without a word: {waits:?}");
        }
    }

    fn assert_is_left_alone(&self, plan: &Plan) {
        let is_record = |step: &Step| matches!(step, Step::WriteStatus(_) | Step::Event(_));
        let is_going = self.resource.metadata.deletion_timestamp.is_some();
        if is_paused(&self.resource.metadata) && !is_going {
            let (law, told) = (Law::Paused, self.described(plan));
            assert!(plan.steps.iter().all(is_record), "{law}: {told}");
            let condition = of_type(&plan.status.conditions, PAUSED);
            assert!(condition.is_some(), "{law}: not told: {:?}", plan.status);
        }
    }

    fn ingress_of(&self, colour: Colour) -> Ingress {
        let refused = |reason: &str| Ingress::Refused { reason: reason.to_owned() };
        match self.ingress {
            _ if self.upheaval.hides(Untold::WebUi) => refused("it cannot be read (500)"),
            Some(led_to) if led_to == colour => Ingress::InPlace,
            _ if self.ingress_refused => refused("its host is taken"),
            Some(_) | None => Ingress::Differs,
        }
    }

    pub(crate) fn savepoint(&self, colour: Colour, id: &str) -> Savepoint {
        let unknown = || Savepoint::Unknown { reason: "no answer".to_owned() };
        let runs = |child: &&crate::world::SimChild| Child(&child.object).runs();
        let Some(child) = self.children.get(&colour).filter(runs) else { return unknown() };
        if self.upheaval.hides(Untold::Savepoints) {
            return unknown();
        }
        match self.triggers.get(id).filter(|trigger| trigger.of == Child(&child.object).uid()) {
            None => Savepoint::NotFound,
            Some(trigger) if trigger.done_in > 0 => Savepoint::Pending,
            Some(trigger) if trigger.fails => {
                Savepoint::Failed { message: "the disk is full".to_owned() }
            }
            Some(trigger) => Savepoint::Completed { path: trigger.path.clone() },
        }
    }
}

#[test]
fn upheavals_and_interrupted_passes_never_leave_nobody_who_serves() {
    let (mut switches, mut aborts) = (0, 0);
    for seed in seeds(48) {
        let mut choices = Choices::new(seed);
        let mut sim = Sim::new(mode(seed));
        sim.settings.deletion_delay = Duration::from_secs(seed % 4 * 3);
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..150 {
                sim.second(&mut choices);
                sim.unsteady_pass(&mut choices);
            }
            sim.heal();
            sim.settle();
            sim.assert_rests();
        });
        (switches, aborts) = (switches + sim.switches, aborts + sim.aborts);
    }
    assert!(switches > 10 && aborts > 0, "{switches} switches, {aborts} aborts");
}

/// A request of a process that died arrives when the next one has given up the transition.
#[test]
fn a_target_that_is_created_late_does_not_serve_alongside_the_next_one() {
    let mut sim = Sim::new(UpgradeMode::Savepoint);
    sim.settle();
    sim.edit_job(|job| job.parallelism = Some(3));
    let mut has_created = false;
    for _ in 0..20 {
        sim.tick();
        let steps = sim.clone().plan().steps;
        let at = steps.iter().position(|step| matches!(step, Step::CreateChild(_)));
        sim.interrupted_pass(|sim, index, _| {
            if has_created || Some(index) != at {
                return Next::GoOn;
            }
            has_created = true;
            sim.edit_job(|job| job.parallelism = Some(2));
            Next::Late(2)
        });
    }
    assert!(has_created);
    sim.settle();
    sim.assert_rests();
    assert_eq!((sim.children.len(), sim.serving()), (1, Some(Colour::Blue)));
}
