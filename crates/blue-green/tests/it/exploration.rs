//! Explores the state machine of blue/green deployments exhaustively within a budget; see [`testing::exploration`].
//!
//! Operations that take time complete in one step of the world, and the expiry of a timeout is a fault. A rejected
//! status write ends a pass like a crash before it, so crashes stand for both.

use std::fmt::Write;
use std::time::Duration;

use api::blue_green::{
    BlueGreenStatus, Colour, FlinkBlueGreenDeployment, PROGRESSING, RETRY_ANNOTATION, SERVING,
};
use api::is_paused;
use api::job::{JobState, UpgradeMode};
use blue_green::change::is_suspended;
use blue_green::plan::Step;
use jiff::{SignedDuration, Timestamp};
use lifecycle::conditions::ReportedWait;
use serde_json::json;
use testing::exploration::{self, Budget, Explored, Rested};
use testing::laws::Law;
use testing::operated::{Event, Interruption, Operated, interrupted, undisturbed};
use testing::share::third;

use crate::happenings::{EDITS, Edit, FAULTS, Fault, JAVA, Role, UPHEAVALS};
use crate::upheaval::Untold;
use crate::world::{RESTS_FOR, Sim};

/// Seconds until a failed savepoint is retried.
const SAVEPOINT_AGAIN: i64 = 60;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Action {
    Pass,
    /// The operator dies before this step, or after the last one.
    CrashBefore(usize),
    /// The operator gets what was stored before the last change, but the current children.
    StalePass,
    Interrupted(Interruption<Event<Edit, Fault>>),
    World,
    Edit(Edit),
    Fault(Fault),
}

/// What the API server has stored.
type Stored = (FlinkBlueGreenDeployment, BlueGreenStatus);

#[derive(Clone)]
struct State {
    sim: Sim,
    /// The state before the last change.
    stale: Option<Box<Stored>>,
    edits: &'static [Edit],
    faults: &'static [Fault],
    /// Whether passes are interrupted by more than crashes, which counts as a fault.
    is_interrupted: bool,
    left: Budget,
}

impl State {
    fn stored(&self) -> Stored {
        (self.sim.resource.clone(), self.sim.status.clone())
    }

    fn is_deleted(&self) -> bool {
        self.sim.resource.metadata.deletion_timestamp.is_some()
    }

    /// Makes one decision and carries out a prefix of its plan, for each possible length.
    fn passes(&self) -> Vec<(Action, Self)> {
        let mut state = self.clone();
        let plan = state.sim.plan();
        let mut all = Vec::new();
        for (index, step) in plan.steps.iter().enumerate() {
            if index > 0 {
                all.extend(state.crashed(Action::CrashBefore(index)));
            }
            if !state.sim.take(step) {
                all.push((Action::Pass, state));
                return all;
            }
        }
        all.extend(state.crashed(Action::CrashBefore(plan.steps.len())));
        state.sim.conclude(&plan);
        all.push((Action::Pass, state));
        all.extend(self.stale_pass());
        all
    }

    fn crashed(&self, action: Action) -> Option<(Action, Self)> {
        let mut state = self.clone();
        state.left.crashes = state.left.crashes.checked_sub(1)?;
        state.sim.die();
        Some((action, state))
    }

    /// A status that is no longer the stored one cannot be replaced: the plan ends there.
    fn stale_pass(&self) -> Option<(Action, Self)> {
        let earlier = *self.stale.clone()?;
        let (_, mut state) = self.crashed(Action::StalePass)?;
        let newest = state.stored();
        (state.sim.resource, state.sim.status) = earlier;
        let known = state.sim.stored();
        let plan = state.sim.plan();
        (state.sim.resource, state.sim.status) = newest;
        state.sim.carry_out(&plan, known, undisturbed);
        Some((Action::StalePass, state))
    }

    fn edited(&self, edit: Edit) -> Self {
        let mut state = self.clone();
        state.left.edits -= 1;
        state.sim.make(edit);
        state
    }

    fn struck(&self, fault: Fault) -> Self {
        let mut state = self.clone();
        state.left.faults -= 1;
        state.sim.strike(fault);
        state
    }

    /// Passes that are interrupted by something else than a crash.
    fn interrupted_passes(&self) -> Vec<(Action, Self)> {
        if !self.is_interrupted {
            return vec![];
        }
        let what = (self.edits, self.faults);
        let all = interrupted(&self.sim, self.left, what, (Sim::make, Sim::strike));
        let state = |(interruption, sim, left)| {
            (Action::Interrupted(interruption), Self { sim, left, ..self.clone() })
        };
        all.into_iter().map(state).collect()
    }

    /// Makes one step of the world. The children of a deleted resource are deleted with it.
    fn tick(&mut self) {
        if self.is_deleted() {
            for colour in Colour::ALL {
                self.sim.lose_child(colour);
            }
        }
        self.sim.tick();
    }

    /// Completes what takes time in one step; a job that fails after its start runs for one.
    fn hurry(&mut self) {
        self.sim.hurry();
        self.sim.log.clear();
    }
}

impl Explored for State {
    type Action = Action;
    const START: Action = Action::World;
    const RESTS: Law = Law::BlueGreenRests;

    fn text(&self) -> String {
        let mut text = self.sim.text();
        if let (Some(stale), true) = (&self.stale, self.left.crashes > 0) {
            let (resource, status) = &**stale;
            write!(text, "{}", json!([resource.metadata, resource.spec, status])).unwrap();
        }
        text
    }

    fn left(&self) -> Budget {
        self.left
    }

    fn phase(&self) -> String {
        let state = self.sim.status.blue_green_state.map_or("new", Into::into);
        let job = self.sim.status.job_status.state;
        let children: Vec<&str> = self.sim.children.keys().map(|colour| colour.name()).collect();
        format!("{state} {job:?}, children {children:?}")
    }

    fn successors(&self) -> Vec<(Action, Self)> {
        let mut all = self.passes();
        all.extend(self.interrupted_passes());
        let mut world = self.clone();
        world.tick();
        all.push((Action::World, world));
        if self.left.edits > 0 {
            all.extend(self.edits.iter().map(|edit| (Action::Edit(*edit), self.edited(*edit))));
        }
        if self.left.faults > 0 {
            all.extend(
                self.faults.iter().map(|fault| (Action::Fault(*fault), self.struck(*fault))),
            );
        }
        for (_, state) in &mut all {
            state.hurry();
            if state.stored() != self.stored() {
                state.stale = Some(Box::new(self.stored()));
            }
        }
        all
    }

    fn leave_alone(&mut self) {
        self.left = Budget { edits: 0, faults: 0, crashes: 0 };
        self.stale = None;
        // Savepoints are tried again without end.
        self.sim.savepoint_fails = false;
        self.sim.upheaval.show(Untold::Savepoints);
    }

    fn rest(&mut self) -> Rested {
        let before = self.sim.status.clone();
        self.tick();
        let plan = self.sim.pass(None);
        self.hurry();
        let is_idle = plan.steps.is_empty() && self.sim.status == before;
        let is_held_up = self.sim.is_held_up() && self.sim.status == before;
        // What the status reports may be waited for without end.
        let waits = plan.look_again.is_some_and(|pause| pause < RESTS_FOR)
            && self.sim.status.error.is_none();
        if let (true, Some(pause)) = (is_idle, plan.look_again) {
            self.sim.now += SignedDuration::try_from(pause).unwrap();
        }
        let steps: Vec<&str> = plan.steps.iter().map(Step::name).collect();
        Rested {
            is_quiet: is_held_up || is_idle && !waits,
            is_gone: self.is_deleted() && self.sim.children.is_empty(),
            told: format!("{}: {steps:?}", plan.because),
        }
    }

    /// When idle, the request is fulfilled or the status says why not; once mended, it is fulfilled.
    fn assert_done(&self) {
        if self.is_deleted() {
            // A child that does not end says so itself.
            let stays = self.sim.upheaval.keeps_children();
            return assert!(stays || self.sim.children.is_empty(), "left behind");
        }
        if !self.sim.is_held_up() && !is_paused(&self.sim.resource.metadata) {
            self.sim.assert_reported();
        }
        let mut sim = self.sim.clone();
        sim.heal();
        if sim.status.error.as_ref().is_some_and(|error| error.contains("savepointRedeployNonce")) {
            sim.redeploy();
        }
        sim.settle();
        sim.assert_rests();
    }
}

impl Sim {
    /// Returns when the spec was given up, from its condition.
    pub(crate) fn given_up_since(&self) -> Option<String> {
        let mut conditions = self.status.conditions.iter();
        let progressing = conditions.find(|it| it.type_.as_deref() == Some(PROGRESSING))?;
        progressing.last_transition_time.clone()
    }

    /// Asserts that the status says so if the spec is not fulfilled, and that it names the right running child.
    pub(crate) fn assert_reported(&self) {
        let conditions = &self.status.conditions;
        let serving = conditions.iter().find(|it| it.type_.as_deref() == Some(SERVING)).unwrap();
        let running: Vec<Colour> =
            Colour::ALL.into_iter().filter(|colour| self.runs(*colour)).collect();
        if (self.ingress_refused || self.upheaval.hides(Untold::WebUi))
            && self.status.error.as_ref().is_some_and(|it| it.contains("web UI"))
        {
            // What serves stays.
            return;
        }
        let law = Law::BlueGreenTold;
        assert!(running.len() <= 1, "{}: both run: {:?}", Law::BlueGreenRests, self.status);
        let named = match serving.reason.as_deref() {
            Some("Blue") => vec![Colour::Blue],
            Some("Green") => vec![Colour::Green],
            _ => vec![],
        };
        assert_eq!(named, running, "{law}: another one serves: {:?}", self.status);
        // A child that was given up and could not be deleted may run beside a serving one that is down.
        if let Some(colour) = self.serving().filter(|colour| self.runs(*colour)) {
            let law = Law::BlueGreenWebUi;
            assert_eq!(self.ingress, Some(colour), "{law}: it leads to somebody else");
        }
        // An error about something else does not explain why a job runs that should be stopped.
        // A transition ends first, and says which child it waits for.
        let is_told_first = self.upheaval.keeps_children() && self.status.error.is_some();
        assert!(
            is_told_first || !is_suspended(self.template()) || running.is_empty(),
            "{law}: a suspend is forgotten: {:?}",
            self.status
        );
        let waits = ReportedWait::of(conditions).is_some();
        let is_reported = self.status.error.is_some() || running.is_empty() || waits;
        assert!(
            is_reported || self.has_request(),
            "{law}: at rest without a word: {:?}",
            self.status
        );
    }

    /// Returns the seconds since `time`, as far as they make a difference.
    fn since(&self, time: Option<Timestamp>, counts_to: i64) -> Option<i64> {
        Some((self.now + self.upheaval.skew).duration_since(time?).as_secs().clamp(0, counts_to))
    }

    /// Serializes the state without times and counts.
    fn text(&self) -> String {
        let Self { resource, status, children, triggers, states, ingress, .. } = self;
        let generation = resource.metadata.generation.unwrap();
        let (mut metadata, mut known) = (resource.metadata.clone(), status.clone());
        metadata.generation = None;
        for condition in &mut known.conditions {
            condition.observed_generation =
                Some(i64::from(condition.observed_generation == Some(generation)));
        }
        let mut text = json!([metadata, resource.spec, known]).to_string();
        for (colour, child) in children {
            let mut object = child.object.clone();
            let generation = object.metadata.generation.take();
            let observed = object.status.as_mut().map(|status| status.observed_generation.take());
            write!(
                text,
                "{colour:?}{}{}{}{}",
                json!(object),
                observed.flatten() == generation,
                Some(child.carried_out) == generation,
                child.carried_out > 0,
            )
            .unwrap();
            write!(text, "{:?}", child.waits()).unwrap();
        }
        let triggers: Vec<_> =
            triggers.iter().filter(|(id, _)| text.contains(id.as_str())).collect();
        let paths: Vec<_> =
            states.iter().filter(|(path, _)| text.contains(path.as_str())).collect();
        // Only the order of record counts matters.
        let mut counts: Vec<u64> = children.values().map(|child| child.records).collect();
        counts.extend(triggers.iter().map(|(_, trigger)| trigger.records));
        counts.extend(paths.iter().map(|(_, records)| **records));
        counts.push(self.floor);
        counts.sort_unstable();
        counts.dedup();
        let rank = |records: u64| counts.iter().position(|count| *count == records);
        for (id, trigger) in &triggers {
            let (of, records) = (&trigger.of, rank(trigger.records));
            write!(text, "{id}{of}{records:?}{}{}", trigger.done_in, trigger.fails).unwrap();
        }
        for (path, records) in paths {
            write!(text, "{path}{:?}", rank(*records)).unwrap();
        }
        let ranks: Vec<_> = children.values().map(|child| rank(child.records)).collect();
        write!(text, "{ranks:?}{:?}{ingress:?}", rank(self.floor)).unwrap();
        write!(text, "{}{}{:?}", self.savepoint_fails, self.ingress_refused, self.turn).unwrap();
        let delay = i64::try_from(self.settings.deletion_delay.as_secs()).unwrap();
        let written =
            status.last_reconciled_timestamp.as_deref().and_then(|text| text.parse().ok());
        let annotations = resource.metadata.annotations.as_ref();
        let retried = annotations.and_then(|annotations| annotations.get(RETRY_ANNOTATION));
        write!(
            text,
            "{:?}{:?}{:?}{}",
            status.aborts_at().map(|at| at <= self.now + self.upheaval.skew),
            self.since(status.ready_since(), delay),
            self.since(written, SAVEPOINT_AGAIN) == Some(SAVEPOINT_AGAIN),
            retried == self.given_up_since().as_ref(),
        )
        .unwrap();
        text + &self.upheaval.text()
    }
}

fn explore(name: &str, sim: Sim, default: &str) {
    explore_with(name, sim, (EDITS, FAULTS), default);
}

fn explore_with(name: &str, sim: Sim, what: (&'static [Edit], &'static [Fault]), default: &str) {
    exploration::explore(name, start(sim, what, default));
}

fn start(sim: Sim, (edits, faults): (&'static [Edit], &'static [Fault]), default: &str) -> State {
    let left = Budget::read_or(default);
    let mut start = State { sim, stale: None, edits, faults, is_interrupted: false, left };
    start.hurry();
    start
}

fn serving(mode: UpgradeMode) -> Sim {
    let mut sim = Sim::new(mode);
    sim.settings.deletion_delay = Duration::from_secs(1);
    sim.settle();
    sim
}

#[test]
fn every_way_through_a_transition_with_a_savepoint_keeps_the_laws() {
    explore("blue/green, savepoint", serving(UpgradeMode::Savepoint), "1,1,1");
}

#[test]
fn every_way_through_a_transition_without_state_keeps_the_laws() {
    explore("blue/green, stateless", serving(UpgradeMode::Stateless), "1,1,1");
}

#[test]
fn every_way_through_a_first_deployment_keeps_the_laws() {
    explore("blue/green, a first deployment", Sim::new(UpgradeMode::LastState), "1,0,1");
}

#[test]
fn every_way_of_two_edits_keeps_the_laws() {
    explore("blue/green, two edits", serving(UpgradeMode::Savepoint), "2,0,0");
}

/// Each operator continues from what the other one left.
#[test]
fn every_way_alongside_the_java_operator_keeps_the_laws() {
    let sim = serving(UpgradeMode::Savepoint);
    explore_with("blue/green, beside Java", sim, (EDITS, JAVA), "1,2,0");
}

/// The resource is paused and unpaused at any moment of a transition.
#[test]
fn every_way_through_a_paused_transition_keeps_the_laws() {
    const REQUESTS: &[Edit] = &[Edit::Abort, Edit::Pause, Edit::Unpause];
    const FAULTS: &[Fault] =
        &[Fault::Job(Role::Serving), Fault::Unready(Role::Other), Fault::Child(Role::Other)];
    for (name, mode) in third(MODES) {
        let mut sim = serving(mode);
        sim.edit_job(|job| job.parallelism = Some(4));
        explore_with(&format!("blue/green, {name}, paused"), sim, (REQUESTS, FAULTS), "2,1,0");
    }
}

/// A suspended child is changed in place.
#[test]
fn every_way_through_what_is_suspended_keeps_the_laws() {
    let mut sim = serving(UpgradeMode::Savepoint);
    sim.edit_job(|job| job.state = JobState::Suspended);
    sim.settle();
    explore("blue/green, suspended", sim, "1,1,1");
}

/// The API server rejects a write or does not answer a read, children do not start or end, admission changes what is
/// sent, or the operator has a wrong clock.
#[test]
fn every_way_through_an_upheaval_of_a_transition_keeps_the_laws() {
    const REQUESTS: &[Edit] =
        &[Edit::Parallelism, Edit::Suspend, Edit::Redeploy, Edit::InPlace, Edit::Delete];
    for (name, mode) in third(MODES) {
        let name = format!("blue/green, {name}, upheavals");
        explore_with(&name, serving(mode), (REQUESTS, UPHEAVALS), "1,1,0");
    }
}

const MODES: [(&str, UpgradeMode); 2] =
    [("savepoint", UpgradeMode::Savepoint), ("stateless", UpgradeMode::Stateless)];

/// The operator is paused in the middle of a pass, or an answer or a request takes its time. One edit has been made
/// already.
#[test]
fn every_way_through_an_interrupted_pass_of_a_transition_keeps_the_laws() {
    const REQUESTS: &[Edit] =
        &[Edit::Back, Edit::Suspend, Edit::Redeploy, Edit::Abort, Edit::Delete];
    const FAULTS: &[Fault] =
        &[Fault::Job(Role::Serving), Fault::Unready(Role::Other), Fault::Child(Role::Other)];
    for (name, mode) in third(MODES) {
        let mut sim = serving(mode);
        sim.edit_job(|job| job.parallelism = Some(4));
        let mut start = start(sim, (REQUESTS, FAULTS), "1,1,0");
        start.is_interrupted = true;
        exploration::explore(&format!("blue/green, {name}, interrupted"), start);
    }
}
