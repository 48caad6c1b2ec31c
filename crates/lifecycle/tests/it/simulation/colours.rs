//! Blue/green deployments whose children are whole: each has the JobManager, the job, the HA metadata and the operator of
//! [`Sim`], in random lives.
//!
//! The simulation in `crates/blue-green` knows a child by what its status says. Here the statuses are those that the
//! lifecycle of a deployment writes, whatever happens to it. The laws of deployments apply to each child. The others: a
//! colour starts from no fewer records than were durable before its transition, and neither is the last job that is
//! good taken away.

use std::time::Duration;

use super::waves::seat_of_transition;
use super::*;
use api::blue_green::{
    ABORT_ANNOTATION, BlueGreenState, BlueGreenStatus, Colour, FlinkBlueGreenDeployment,
    FlinkDeploymentTemplate, PROMOTE_ANNOTATION,
};
use api::deployment::FlinkDeploymentSpec;
use blue_green::change::{Change, change, is_redeploy, is_suspended};
use blue_green::child::Child;
use blue_green::decide;
use blue_green::plan::{Plan, Step};
use blue_green::settings::Settings;
use blue_green::world::{Facts, Ingress, Question, Savepoint, World};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lifecycle::upgrade_budget::Record;
use lifecycle::world::Turn;

const GOOD_IMAGE: &str = "flink:1.20";
/// Names in different children, and those of this world, begin at different numbers.
const IDS_OF_A_CHILD: u64 = 1_000_000;
/// Seconds after which everything has settled, and those after which its user tries again.
const SETTLES_IN: usize = 1500;
const RETRIED_AFTER: usize = 400;

/// A child, and the uid by which the other operator knows it.
struct Whole {
    uid: String,
    sim: Sim,
    /// When its own operator, which has others to look after, gets to it.
    looked_at_from: Timestamp,
}

struct Colours {
    now: Timestamp,
    resource: FlinkBlueGreenDeployment,
    status: BlueGreenStatus,
    children: BTreeMap<Colour, Whole>,
    /// Records in each savepoint and retained checkpoint of any child.
    states: BTreeMap<String, u64>,
    /// Seconds until savepoints that were asked for can be found.
    pending: BTreeMap<String, u64>,
    /// The colour that the web UI leads to.
    ingress: Option<Colour>,
    /// Records that were durable in the serving child when the transition began.
    floor: u64,
    /// How long a target must stay ready.
    deletion_delay: Duration,
    ids: u64,
    writes: usize,
    transitions: usize,
    /// Its part in a budget that has room for a single upgrade, and that of its children.
    seat: Option<Seat>,
    log: Vec<String>,
}

impl Logged for Colours {
    fn log(&self) -> &[String] {
        &self.log
    }
}

impl Colours {
    fn new(mode: &str) -> Self {
        let spec = Sim::new(mode).resource.spec;
        let mut resource: FlinkBlueGreenDeployment = serde_json::from_value(json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment",
            "metadata": {"name": "orders", "namespace": "shop", "uid": "bg", "generation": 1},
            "spec": {"ingress": {"template": "orders.example.com"}},
        }))
        .unwrap();
        resource.spec.template = Some(FlinkDeploymentTemplate { metadata: None, spec: Some(spec) });
        Self {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            resource,
            status: BlueGreenStatus::default(),
            children: BTreeMap::new(),
            states: BTreeMap::new(),
            pending: BTreeMap::new(),
            ingress: None,
            floor: 0,
            deletion_delay: Duration::ZERO,
            ids: 0,
            writes: 0,
            transitions: 0,
            seat: None,
            log: vec![],
        }
    }

    fn emit(&mut self, line: impl std::fmt::Display) {
        self.log.push(format!("{} {line}", self.now));
    }

    fn template(&self) -> &FlinkDeploymentSpec {
        self.resource.spec.template.as_ref().unwrap().spec.as_ref().unwrap()
    }

    fn edit(&mut self, edit: impl FnOnce(&mut FlinkDeploymentSpec)) {
        let spec = self.resource.spec.template.as_mut().unwrap().spec.as_mut().unwrap();
        let before = spec.clone();
        edit(spec);
        if *spec != before {
            let job = spec.job.as_ref().unwrap();
            let line = format!("user: {:?} {:?} {:?}", spec.image, job.parallelism, job.state);
            *self.resource.metadata.generation.as_mut().unwrap() += 1;
            self.emit(line);
        }
    }

    /// Returns a child as the API server shows it.
    fn object(&self, colour: Colour) -> Option<FlinkDeployment> {
        let Whole { uid, sim, .. } = self.children.get(&colour)?;
        let mut object = sim.resource.clone();
        object.metadata.uid = Some(uid.clone());
        object.status = Some(sim.status.clone());
        Some(object)
    }

    /// Whether a child is ready and not going to stop, by what its status says of its current spec. The laws must not ask
    /// the code under test.
    fn is_good(&self, colour: Colour) -> bool {
        let Some(Whole { sim, .. }) = self.children.get(&colour) else { return false };
        let (metadata, status) = (&sim.resource.metadata, &sim.status);
        let is_current = status.observed_generation == metadata.generation;
        let is_up = match (status.lifecycle_state, status.job_status.state) {
            (Some(LifecycleState::Stable), Some(JobStatusState::Running)) => true,
            (Some(LifecycleState::Stable | LifecycleState::Deployed), state) => {
                state == Some(JobStatusState::Finished)
            }
            _ => false,
        };
        let is_to_end = metadata.deletion_timestamp.is_some() || is_suspended(&sim.resource.spec);
        is_current && is_up && !is_to_end
    }

    /// Returns the serving colour according to the status.
    fn serving(&self) -> Option<Colour> {
        use BlueGreenState as State;
        let state = self.status.blue_green_state.filter(|it| *it != State::InitializingBlue)?;
        let colour = state.serving();
        let is_transition =
            matches!(state, State::TransitioningToBlue | State::TransitioningToGreen);
        let is_alone = is_transition && !self.children.contains_key(&colour);
        Some(if is_alone { colour.other() } else { colour })
    }

    fn is_at_rest(&self) -> bool {
        let state = self.status.blue_green_state;
        matches!(state, Some(BlueGreenState::ActiveBlue | BlueGreenState::ActiveGreen))
    }

    // --- the operator of the blue/green deployment ---

    fn plan(&mut self) -> Plan {
        self.ids += 1;
        let trigger_id = format!("{:032x}", self.ids);
        let [blue, green] = [Colour::Blue, Colour::Green].map(|colour| self.object(colour));
        let mut facts = Facts::default();
        for _ in 0..5 {
            let world = World {
                now: self.now,
                resource: &self.resource,
                status: &self.status,
                settings: Settings {
                    grace: Duration::from_mins(1),
                    interval: Duration::from_secs(3),
                    deletion_delay: self.deletion_delay,
                },
                inherits_labels: false,
                violation: None,
                blue: blue.as_ref(),
                green: green.as_ref(),
                trigger_id: trigger_id.clone(),
                facts: facts.clone(),
            };
            match decide(&world) {
                Ok(plan) => return plan,
                Err(Question::Savepoint(colour, id)) => {
                    facts.savepoint = Some((id.clone(), self.savepoint(colour, &id)));
                }
                Err(Question::Ingress(colour)) => {
                    let is_there = self.ingress == Some(colour);
                    let answer = if is_there { Ingress::InPlace } else { Ingress::Differs };
                    facts.ingress = Some((colour, answer));
                }
                Err(Question::Turn) => facts.turn = Fact::Known(self.turn()),
            }
        }
        panic!("no decision after five questions: {facts:?}");
    }

    fn savepoint(&self, colour: Colour, id: &str) -> Savepoint {
        let answers = |whole: &&Whole| whole.sim.answers();
        match self.children.get(&colour).filter(answers) {
            None => Savepoint::Unknown { reason: "no answer".to_owned() },
            Some(Whole { sim, .. }) => match sim.triggers.get(id) {
                None => Savepoint::NotFound,
                Some(_) if self.pending.contains_key(id) => Savepoint::Pending,
                Some(path) => Savepoint::Completed { path: path.clone() },
            },
        }
    }

    /// Makes one pass that dies before step `crash_at`, or after the last step without writing its status.
    fn pass(&mut self, crash_at: Option<usize>) -> Plan {
        let plan = self.plan();
        let names: Vec<&str> = plan.steps.iter().map(Step::name).collect();
        let line = format!("{:?} {}: {names:?}", self.status.blue_green_state, plan.because);
        if self.log.last().is_none_or(|last| !last.ends_with(&line)) {
            self.emit(line);
        }
        for (index, step) in plan.steps.iter().enumerate() {
            if crash_at == Some(index) {
                return plan;
            }
            self.take(step);
        }
        if crash_at.is_none_or(|at| at < plan.steps.len()) {
            self.store(&plan.status);
        }
        if let Some(seat) = &self.seat {
            let record = |status| Record::of_blue_green(&self.resource.metadata, status);
            let generation = self.resource.metadata.generation.unwrap();
            seat.decide(record(&plan.status), plan.waits, self.now);
            seat.show(record(&self.status), generation, self.now);
        }
        plan
    }

    fn turn(&self) -> Turn {
        let generation = self.resource.metadata.generation.unwrap();
        self.seat.as_ref().map_or(Turn::Taken, |seat| seat.ask(generation, self.now))
    }

    fn store(&mut self, status: &BlueGreenStatus) {
        if self.status == *status {
            return;
        }
        self.writes += 1;
        let was_at_rest = self.is_at_rest();
        let before = self.status.blue_green_state;
        self.status = status.clone();
        if was_at_rest && !self.is_at_rest() {
            let serving = self.serving().and_then(|colour| self.children.get(&colour));
            self.floor = serving.map_or(0, |whole| whole.sim.durable);
        }
        let after = self.status.blue_green_state;
        self.transitions += usize::from(matches!(
            (before, after),
            (Some(BlueGreenState::TransitioningToGreen), Some(BlueGreenState::ActiveGreen))
                | (Some(BlueGreenState::TransitioningToBlue), Some(BlueGreenState::ActiveBlue))
        ));
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::WriteStatus(status) => self.store(status),
            Step::Event(_) | Step::CopyAutoscalerState { .. } | Step::RecordRevision(_) => {}
            Step::KeepSavepoint { path, .. } => {
                assert!(self.states.contains_key(path), "{path} was taken");
            }
            Step::PointIngress(colour) => self.ingress = Some(*colour),
            Step::TriggerSavepoint { colour, trigger_id } => self.trigger(*colour, trigger_id),
            Step::CreateChild(object) => self.create(object),
            Step::ChangeChild(object) => self.change(object),
            Step::DeleteChild { name, uid } => self.delete(name, uid),
        }
    }

    fn trigger(&mut self, colour: Colour, id: &str) {
        let Some(Whole { sim, .. }) = self.children.get_mut(&colour) else { return };
        if sim.triggers.contains_key(id) {
            return;
        }
        if let Some(path) = sim.flink_savepoint(id) {
            self.states.insert(path.clone(), sim.states[&path]);
            sim.triggers.insert(id.to_owned(), path);
            self.pending.insert(id.to_owned(), 2);
        }
    }

    fn colour_of(name: &str) -> Colour {
        if name.ends_with("-blue") { Colour::Blue } else { Colour::Green }
    }

    fn create(&mut self, object: &FlinkDeployment) {
        let colour = Self::colour_of(object.metadata.name.as_deref().unwrap());
        if self.children.contains_key(&colour) {
            return;
        }
        self.writes += 1;
        self.ids += 1;
        let path = object.spec.job.as_ref().unwrap().initial_savepoint_path.as_ref();
        let records = path.map_or(0, |path| self.states[path]);
        // The law: no colour starts behind what was durable before it, unless its user has named another state.
        let is_named =
            path == self.template().job.as_ref().unwrap().initial_savepoint_path.as_ref();
        assert!(
            path.is_some() && is_named || records >= self.floor,
            "{}: {records} records, and {} were durable",
            Law::ColoursState,
            self.floor
        );
        let mut sim = Sim::new("savepoint");
        sim.now = self.now;
        sim.ids = self.ids * IDS_OF_A_CHILD;
        sim.states = self.states.clone();
        (sim.durable, sim.saved) = (records, records);
        sim.resource = object.clone();
        sim.resource.metadata.uid = Some("u1".to_owned());
        sim.resource.metadata.generation = Some(1);
        let (uid, looked_at_from) = (format!("{}-{}", colour.name(), self.ids), self.now);
        let of_child = |seat: &Seat| seat.of_child(&uid);
        sim.seat = self.seat.as_ref().map(of_child);
        self.children.insert(colour, Whole { uid, sim, looked_at_from });
    }

    fn change(&mut self, object: &FlinkDeployment) {
        self.writes += 1;
        let colour = Self::colour_of(object.metadata.name.as_deref().unwrap());
        let (is_good, is_other_good) = (self.is_good(colour), self.is_good(colour.other()));
        let busy = SignedDuration::from_secs(i64::try_from(self.ids % 3 * 8).unwrap());
        let Some(Whole { uid, sim, looked_at_from }) = self.children.get_mut(&colour) else {
            return;
        };
        if Some(&*uid) != object.metadata.uid.as_ref() || sim.resource.spec == object.spec {
            return;
        }
        let stops = is_suspended(&sim.resource.spec) || is_suspended(&object.spec);
        let takes_down = change(&sim.resource.spec, &object.spec) != Change::InPlace && !stops;
        // The law: the only job that is good is not taken down for a change.
        let law = Law::ColoursLastGood;
        assert!(!takes_down || is_other_good || !is_good, "{law}: it is changed in place");
        if is_redeploy(&sim.resource.spec, &object.spec) {
            sim.named.clone_from(&object.spec.job.as_ref().unwrap().initial_savepoint_path);
        }
        let spec = object.spec.clone();
        sim.edit(|resource| resource.spec = spec);
        *looked_at_from = self.now + busy;
    }

    fn delete(&mut self, name: &str, uid: &str) {
        let colour = Self::colour_of(name);
        let other = self.object(colour.other());
        let is_other_stopped = other.is_some_and(|other| is_suspended(&other.spec));
        let is_wanted = self.is_good(colour.other()) || is_other_stopped;
        // The laws: neither the last good job nor the serving one is deleted.
        let (law, is_good) = (Law::ColoursLastGood, self.is_good(colour));
        assert!(is_wanted || !is_good, "{law}: the last good job is deleted");
        assert!(self.ingress != Some(colour) || !is_good, "{law}: what serves is deleted");
        if self.children.get(&colour).is_some_and(|whole| whole.uid == uid) {
            self.writes += 1;
            self.lose_child(colour);
        }
    }

    fn lose_child(&mut self, colour: Colour) {
        let now = self.now;
        self.emit(format!("{} is deleted", colour.name()));
        if let Some(Whole { sim, .. }) = self.children.get_mut(&colour) {
            sim.resource.metadata.deletion_timestamp.get_or_insert(Time(now));
        }
    }

    // --- the world ---

    /// Advances everything by a second, and lets the operator of the children make a pass of each.
    fn tick(&mut self, mut pass: impl FnMut(&mut Sim)) {
        self.now += SignedDuration::from_secs(1);
        self.pending.retain(|_, seconds| {
            *seconds -= 1;
            *seconds > 0
        });
        for colour in Colour::ALL {
            let Some(Whole { sim, looked_at_from, .. }) = self.children.get_mut(&colour) else {
                continue;
            };
            sim.states.clone_from(&self.states);
            sim.tick();
            if *looked_at_from <= self.now {
                pass(sim);
                sim.show();
            }
            self.states.clone_from(&sim.states);
            let told = std::mem::take(&mut sim.log);
            let told = told.into_iter().map(|line| format!("      {}: {line}", colour.name()));
            self.log.extend(told);
            let metadata = &sim.resource.metadata;
            let is_released = metadata.finalizers.as_ref().is_none_or(Vec::is_empty);
            if metadata.deletion_timestamp.is_some() && is_released {
                assert!(sim.job_manager.is_none(), "{}", Law::DeploymentDeletion);
                if let Some(seat) = &sim.seat {
                    seat.leave(self.now);
                }
                self.children.remove(&colour);
            }
        }
    }

    /// Its user edits the template, promotes or aborts a transition, or deletes a child.
    fn act(&mut self, choices: &mut Choices) {
        let colour = Colour::ALL[usize::try_from(choices.below(2)).unwrap()];
        let parallelism = |spec: &mut FlinkDeploymentSpec, parallelism| {
            spec.job.as_mut().unwrap().parallelism = Some(parallelism);
        };
        let state = |spec: &mut FlinkDeploymentSpec, state| {
            spec.job.as_mut().unwrap().state = state;
        };
        match choices.below(12) {
            0..=2 => {
                let wanted = i32::try_from(1 + choices.below(5)).unwrap();
                self.edit(|spec| parallelism(spec, wanted));
            }
            3 => self.edit(|spec| parallelism(spec, FAILING_PARALLELISM)),
            4 => self.edit(|spec| spec.image = Some(BROKEN_IMAGE.to_owned())),
            5 | 6 => self.edit(|spec| spec.image = Some(GOOD_IMAGE.to_owned())),
            7 => self.edit(|spec| state(spec, JobState::Suspended)),
            8 | 9 => self.edit(|spec| state(spec, JobState::Running)),
            // Not the only one that is left.
            10 if self.is_good(colour.other()) => self.lose_child(colour),
            kind => {
                let key = if kind == 10 { PROMOTE_ANNOTATION } else { ABORT_ANNOTATION };
                let uid = self.children.get(&colour).map(|whole| whole.uid.clone());
                let annotations = self.resource.metadata.annotations.get_or_insert_default();
                annotations.extend(uid.map(|uid| (key.to_owned(), uid)));
            }
        }
    }

    fn heal(&mut self) {
        self.resource.metadata.annotations = None;
        self.edit(|spec| {
            spec.image = Some(GOOD_IMAGE.to_owned());
            spec.restart_nonce = Some(asked_again(spec.restart_nonce));
            let job = spec.job.as_mut().unwrap();
            (job.parallelism, job.state) = (Some(4), JobState::Running);
        });
        for Whole { sim, .. } in self.children.values_mut() {
            sim.haze = Haze::default();
            sim.end_upheaval();
        }
    }

    /// Its user names the newest state if the serving child asks for it.
    fn answer(&mut self) {
        let Some(Whole { sim, .. }) = self.serving().and_then(|it| self.children.get(&it)) else {
            return;
        };
        let is_pending = sim.status.observed_generation != sim.resource.metadata.generation;
        if is_pending || !self.is_at_rest() || !asks(sim.status.error.as_deref()) {
            return;
        }
        let (path, records) = newest_of(&self.states, sim.durable);
        self.states.insert(path.clone(), records);
        self.edit(|spec| {
            let job = spec.job.as_mut().unwrap();
            job.savepoint_redeploy_nonce = Some(asked_again(job.savepoint_redeploy_nonce));
            job.initial_savepoint_path = Some(path);
        });
    }

    fn has_request(&self) -> bool {
        let of = |spec: &FlinkDeploymentSpec| {
            let job = spec.job.as_ref().map(|job| (job.parallelism, job.state));
            (spec.image.clone(), spec.restart_nonce, job)
        };
        let Some(object) = self.serving().and_then(|colour| self.object(colour)) else {
            return false;
        };
        self.is_at_rest()
            && self.children.len() == 1
            && of(&object.spec) == of(self.template())
            && Child(&object).is_ready()
    }

    fn settle(&mut self) {
        for second in 1..=SETTLES_IN {
            self.tick(|sim| drop(sim.pass(None)));
            self.pass(None);
            self.answer();
            if self.has_request() {
                return;
            }
            if second % RETRIED_AFTER == 0 {
                // A transition that was aborted needs another edit.
                self.heal();
            }
        }
        let children = self.children.values().map(|whole| (&whole.uid, &whole.sim.status.error));
        let children: Vec<_> = children.collect();
        panic!("{}: not settled: {:?} {children:?}", Law::ColoursRests, self.status);
    }

    /// The law: left alone, the operator writes nothing more, and the web UI leads to the child that serves.
    fn assert_rests(&mut self) {
        for second in 0..30 {
            self.tick(|sim| drop(sim.pass(None)));
            let before = self.writes;
            let plan = self.pass(None);
            let names: Vec<&str> = plan.steps.iter().map(Step::name).collect();
            let rests = self.writes == before && names.is_empty();
            let law = Law::ColoursRests;
            assert!(second < 10 || rests, "{law}: at rest: {names:?} {:?}", self.status);
        }
        assert_eq!(self.ingress, self.serving(), "{}", Law::ColoursRests);
    }
}

impl Sim {
    /// Something of a child fails.
    fn fail_somewhere(&mut self, choices: &mut Choices) {
        match choices.below(9) {
            0 | 1 => self.crash_job_manager(),
            2 => self.fail_job(),
            3 if self.stopping.is_some() => self.fail_savepoint(),
            3 => self.fails_while_stopping = true,
            4 => self.cloud(|haze| haze.silent = 1 + choices.below(60)),
            5 => self.cloud(|haze| haze.unready = 1 + choices.below(30)),
            6 => self.cloud(|haze| haze.unread = 1 + choices.below(60)),
            7 => self.lose_part(choices.below(2) == 0),
            _ => self.upheave(choices),
        }
    }
}

#[test]
fn users_faults_and_crashes_leave_no_colour_behind_another() {
    let mut transitions = 0;
    for seed in seeds(48) {
        let mut choices = Choices::new(seed);
        let mode = ["savepoint", "last-state"][usize::try_from(seed % 2).unwrap()];
        let mut world = Colours::new(mode);
        world.deletion_delay = Duration::from_secs(seed % 4 * 3);
        if seed % 3 == 0 {
            world.edit(|spec| spec.mode = Some(DeploymentMode::Standalone));
        }
        // Neither the transition nor its children may wait for the other.
        world.seat = (seed % 4 > 1).then(seat_of_transition);
        show_on_failure(seed, &mut world, |world| {
            world.settle();
            // Where little fails, more transitions end.
            let faults = [15, 60][usize::try_from(seed / 4 % 2).unwrap()];
            let mut away = 0;
            for _ in 0..150 {
                world.tick(|sim| {
                    if choices.below(4) == 0 {
                        sim.checkpoint();
                    }
                    if choices.below(faults) == 0 {
                        sim.fail_somewhere(&mut choices);
                    }
                    let crash_at = choices.crash(5, 7);
                    if away == 0 {
                        sim.pass(crash_at);
                    }
                });
                // The operator of the children is slower, and away for a while.
                away = match choices.below(12) {
                    0 => 1 + choices.below(25),
                    _ => away.saturating_sub(1),
                };
                if choices.below(15) == 0 {
                    world.act(&mut choices);
                }
                let crash_at = choices.crash(5, 5);
                world.pass(crash_at);
                world.answer();
            }
            world.heal();
            world.settle();
            world.assert_rests();
        });
        transitions += world.transitions;
    }
    assert!(transitions > 10, "{transitions} transitions");
}
