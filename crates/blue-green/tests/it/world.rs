//! A simulated world: two children whose own lifecycle keeps their state, Flink, a user, and crashes, on virtual time.
//!
//! Every job counts records, and each savepoint holds some. The laws are asserted when a step is carried out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use api::blue_green::{
    BlueGreenState, BlueGreenStatus, Colour, FlinkBlueGreenDeployment, FlinkDeploymentTemplate,
};
use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use api::job::{JobSpec, JobState, UpgradeMode};
use api::status::{DeploymentStatus, JobStatusState, LifecycleState};
use blue_green::change::{Change, change, is_redeploy, is_stateless, is_suspended};
use blue_green::child::Child;
use blue_green::plan::Step;
use blue_green::settings::Settings;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use lifecycle::world::{Fact, Turn};
use serde_json::json;
use state::revision::{Revision, decide_repeated_revision};
use testing::laws::Law;
use testing::seat::Seat;

use crate::upheaval::Upheaval;

/// Shortest pause of an idle operator; a shorter one means that it expects a change.
pub(crate) const RESTS_FOR: Duration = Duration::from_mins(1);
pub(crate) const BROKEN_IMAGE: &str = "flink:no-such-tag";
/// A job with this parallelism fails for good soon after its start.
pub(crate) const FAILING_PARALLELISM: i32 = 7;
/// The state that its user names as a start.
pub(crate) const NAMED_STATE: &str = "s3://sp/named";
pub(crate) const SAVEPOINT_ON_DELETION: &str = "kubernetes.operator.job.savepoint-on-deletion";
/// What the lifecycle of a child writes.
pub(crate) const DELETION_WAITS: &str = "deletion waits for the job to run so that a savepoint can be taken: set \
     `kubernetes.operator.job.savepoint-on-deletion: false` to delete it without a savepoint";
pub(crate) const RESOURCE_UID: &str = "bg";

/// A child as its controller reconciles it.
#[derive(Clone)]
pub(crate) struct SimChild {
    pub(crate) object: FlinkDeployment,
    /// Records counted; kept while the job is stopped.
    pub(crate) records: u64,
    /// The generation that its controller has reconciled.
    pub(crate) carried_out: i64,
    redeploy_nonce: Option<i64>,
    starts_in: u64,
    fails_in: Option<u64>,
    /// Seconds for which it is not ready although nothing is wrong.
    pub(crate) unready: u64,
    pub(crate) gone_in: Option<u64>,
}

#[derive(Clone)]
pub(crate) struct Trigger {
    pub(crate) of: String,
    pub(crate) path: String,
    pub(crate) records: u64,
    pub(crate) done_in: u64,
    pub(crate) fails: bool,
}

#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "what a world is like, one by one")]
pub(crate) struct Sim {
    pub(crate) now: Timestamp,
    pub(crate) resource: FlinkBlueGreenDeployment,
    pub(crate) status: BlueGreenStatus,
    pub(crate) children: BTreeMap<Colour, SimChild>,
    pub(crate) settings: Settings,
    pub(crate) triggers: BTreeMap<String, Trigger>,
    pub(crate) states: BTreeMap<String, u64>,
    /// The colour that the web UI leads to.
    pub(crate) ingress: Option<Colour>,
    /// The API server refuses to point the web UI to another child.
    pub(crate) ingress_refused: bool,
    /// Records that the serving job had counted when its user last changed the spec.
    pub(crate) floor: u64,
    /// Seconds that a savepoint takes, and whether the next one fails.
    pub(crate) savepoint_takes: u64,
    pub(crate) savepoint_fails: bool,
    is_redeploy: i64,
    ids: u64,
    pub(crate) writes: usize,
    pub(crate) switches: usize,
    pub(crate) aborts: usize,
    pub(crate) log: Vec<String>,
    pub(crate) revisions: Vec<Revision>,
    /// Savepoints that have a snapshot resource.
    pub(crate) kept: BTreeSet<String>,
    /// Whether the target's autoscaler started over.
    pub(crate) is_reset: Option<bool>,
    pub(crate) inherits_labels: bool,
    pub(crate) upheaval: Upheaval,
    /// What it is told when it asks for a turn, without a seat.
    pub(crate) turn: Fact<Turn>,
    /// Its part in the budget of a fleet.
    pub(crate) seat: Option<Seat>,
    /// Jobs and children went on since the plan was made: what it does to them may be wrong by now.
    pub(crate) is_stale: bool,
}

fn spec(mode: UpgradeMode) -> FlinkDeploymentSpec {
    FlinkDeploymentSpec {
        image: Some("flink:1.20".to_owned()),
        job: Some(JobSpec { parallelism: Some(2), upgrade_mode: mode, ..JobSpec::default() }),
        ..FlinkDeploymentSpec::default()
    }
}

impl Sim {
    pub(crate) fn new(mode: UpgradeMode) -> Self {
        let template = FlinkDeploymentTemplate { metadata: None, spec: Some(spec(mode)) };
        let mut resource: FlinkBlueGreenDeployment = serde_json::from_value(json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": "FlinkBlueGreenDeployment",
            "metadata": {"name": "orders", "namespace": "shop", "uid": RESOURCE_UID, "generation": 1},
            "spec": {"ingress": {"template": "orders.example.com"}},
        }))
        .unwrap();
        resource.spec.template = Some(template);
        Self {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            resource,
            status: BlueGreenStatus::default(),
            children: BTreeMap::new(),
            settings: Settings {
                grace: Duration::from_secs(30),
                interval: Duration::from_secs(3),
                deletion_delay: Duration::ZERO,
            },
            triggers: BTreeMap::new(),
            states: BTreeMap::new(),
            ingress: None,
            ingress_refused: false,
            floor: 0,
            savepoint_takes: 2,
            savepoint_fails: false,
            is_redeploy: 0,
            ids: 0,
            writes: 0,
            switches: 0,
            aborts: 0,
            log: vec![],
            revisions: vec![],
            kept: BTreeSet::new(),
            is_reset: None,
            inherits_labels: false,
            upheaval: Upheaval::default(),
            turn: Fact::Known(Turn::Taken),
            seat: None,
            is_stale: false,
        }
    }

    pub(crate) fn id(&mut self) -> String {
        self.ids += 1;
        format!("{:032x}", self.ids)
    }

    pub(crate) fn template(&self) -> &FlinkDeploymentSpec {
        self.resource.spec.template.as_ref().unwrap().spec.as_ref().unwrap()
    }

    pub(crate) fn edit(&mut self, edit: impl FnOnce(&mut FlinkDeploymentSpec)) {
        let spec = self.resource.spec.template.as_mut().unwrap().spec.as_mut().unwrap();
        let before = spec.clone();
        edit(spec);
        if *spec != before {
            let job = spec.job.as_ref().unwrap();
            self.log.push(format!(
                "{}  user: {:?} {:?} {:?} {:?} {:?}",
                self.now,
                spec.image,
                job.parallelism,
                job.state,
                job.upgrade_mode,
                job.savepoint_redeploy_nonce
            ));
            *self.resource.metadata.generation.as_mut().unwrap() += 1;
            // A savepoint in progress also belongs to this change.
            if self.is_at_rest() {
                self.floor = self.serving().map_or(0, |colour| self.children[&colour].records);
            }
        }
    }

    pub(crate) fn edit_job(&mut self, edit: impl FnOnce(&mut JobSpec)) {
        self.edit(|spec| edit(spec.job.as_mut().unwrap()));
    }

    /// Its user wants a savepoint of each job that is deleted, or none.
    pub(crate) fn save_on_deletion(&mut self, is_wanted: bool) {
        self.edit(|spec| {
            let value = json!(is_wanted.to_string());
            spec.flink_configuration.0.insert(SAVEPOINT_ON_DELETION.to_owned(), value);
        });
    }

    /// Its user names an older state to start from.
    pub(crate) fn redeploy(&mut self) {
        self.states.insert(NAMED_STATE.to_owned(), 0);
        self.is_redeploy += 1;
        let nonce = self.is_redeploy;
        self.edit_job(|job| {
            job.initial_savepoint_path = Some(NAMED_STATE.to_owned());
            job.savepoint_redeploy_nonce = Some(nonce);
        });
    }

    pub(crate) fn annotate(&mut self, key: &str, value: String) {
        if self.upheaval.strips_annotations {
            return;
        }
        self.resource.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value);
    }

    /// Returns the serving colour according to the status.
    pub(crate) fn serving(&self) -> Option<Colour> {
        use BlueGreenState as State;
        let state = self.status.blue_green_state.filter(|it| *it != State::InitializingBlue)?;
        let former = state.serving();
        let is_transition =
            matches!(state, State::TransitioningToBlue | State::TransitioningToGreen);
        let colour = if is_transition && !self.runs(former) { former.other() } else { former };
        self.children.contains_key(&colour).then_some(colour)
    }

    pub(crate) fn runs(&self, colour: Colour) -> bool {
        self.children.get(&colour).is_some_and(|child| Child(&child.object).runs())
    }

    pub(crate) fn has_request(&self) -> bool {
        let Some(child) = self.serving().and_then(|colour| self.children.get(&colour)) else {
            return false;
        };
        let of = |spec: &FlinkDeploymentSpec| {
            (
                spec.image.clone(),
                spec.restart_nonce,
                spec.job.as_ref().map(|it| (it.parallelism, it.state)),
            )
        };
        let is_up = if is_suspended(self.template()) {
            Child(&child.object).is_stopped()
        } else {
            Child(&child.object).is_ready()
        };
        is_up && of(&child.object.spec) == of(self.template()) && self.children.len() == 1
    }

    // --- the operator ---

    pub(crate) fn store(&mut self, status: &BlueGreenStatus) {
        if self.status == *status {
            return;
        }
        self.writes += 1;
        let state = |status: &BlueGreenStatus| status.blue_green_state;
        if let (Some(before), Some(after)) = (state(&self.status), state(status)) {
            let is_active =
                |state| matches!(state, BlueGreenState::ActiveBlue | BlueGreenState::ActiveGreen);
            if is_active(before) && !is_active(after) {
                // No target starts from fewer records than there were when the transition began.
                let records = self.serving().map_or(0, |colour| self.children[&colour].records);
                self.floor = self.floor.max(records);
            }
            // The law: a transition begins only in its turn, unless nothing serves or its user names the state.
            let path = status.job_status.upgrade_savepoint_path.as_deref();
            assert!(
                self.is_stale
                    || self.turn == Fact::Known(Turn::Taken)
                    || !is_active(before)
                    || is_active(after)
                    || path == Some(NAMED_STATE)
                    || !Colour::ALL.into_iter().any(|colour| self.runs(colour)),
                "{}: {before:?} becomes {after:?}",
                Law::FleetWaves
            );
            let is_transition = !is_active(before) && is_active(after);
            let is_target = matches!(
                (before, after),
                (BlueGreenState::TransitioningToGreen, BlueGreenState::ActiveGreen)
                    | (BlueGreenState::TransitioningToBlue, BlueGreenState::ActiveBlue)
            );
            self.switches += usize::from(is_target);
            if is_target {
                // The state it started from was checked at its creation.
                let colour =
                    if after == BlueGreenState::ActiveBlue { Colour::Blue } else { Colour::Green };
                self.floor = self.children.get(&colour).map_or(0, |child| child.records);
            }
            self.aborts += usize::from(
                is_transition
                    && !is_target
                    && matches!(
                        before,
                        BlueGreenState::TransitioningToBlue | BlueGreenState::TransitioningToGreen
                    ),
            );
        }
        self.status = status.clone();
    }

    pub(crate) fn apply(&mut self, step: &Step) {
        match step {
            Step::WriteStatus(status) => self.store(status),
            Step::Event(_) => {}
            Step::KeepSavepoint { path, .. } => {
                assert!(self.states.contains_key(path), "{path} was taken");
                self.kept.insert(path.clone());
            }
            Step::CopyAutoscalerState { is_reset, .. } => self.is_reset = Some(*is_reset),
            Step::RecordRevision(content) => {
                let change = decide_repeated_revision(&self.revisions, (**content).clone());
                self.revisions.extend(change.create);
                self.revisions.retain(|it| !change.prune.contains(&it.number));
            }
            Step::PointIngress(colour) => {
                // The law: the web UI never leads away from the running job, unless it is to stop.
                assert!(
                    self.is_stale
                        || self.runs(*colour)
                        || !self.runs(colour.other())
                        || is_suspended(self.template()),
                    "{}: it leads to nobody",
                    Law::BlueGreenWebUi
                );
                self.writes += 1;
                self.ingress = Some(*colour);
            }
            Step::TriggerSavepoint { colour, trigger_id } => self.trigger(*colour, trigger_id),
            Step::CreateChild(object) => self.create(object),
            Step::ChangeChild(object) => self.change(object),
            Step::DeleteChild { name, uid } => self.delete(name, uid),
        }
    }

    pub(crate) fn trigger(&mut self, colour: Colour, id: &str) {
        let path = format!("s3://sp/{id}");
        let Some(child) = self.children.get(&colour).filter(|child| Child(&child.object).runs())
        else {
            return;
        };
        let of = Child(&child.object).uid().to_owned();
        if self.triggers.get(id).is_some_and(|trigger| trigger.of == of) {
            return;
        }
        let fails = std::mem::take(&mut self.savepoint_fails);
        let trigger = Trigger {
            of,
            path: path.clone(),
            records: child.records,
            done_in: self.savepoint_takes,
            fails,
        };
        self.states.insert(path, trigger.records);
        self.triggers.insert(id.to_owned(), trigger);
    }

    pub(crate) fn colour(name: &str) -> Colour {
        Colour::ALL.into_iter().find(|colour| name.ends_with(colour.name())).unwrap()
    }

    fn create(&mut self, object: &FlinkDeployment) {
        self.writes += 1;
        let colour = Self::colour(object.metadata.name.as_deref().unwrap());
        if self.children.contains_key(&colour) {
            return;
        }
        let job = object.spec.job.as_ref().unwrap();
        let path = job.initial_savepoint_path.as_deref();
        let records =
            path.map_or(0, |path| *self.states.get(path).expect("a path that was never written"));
        let is_named = path == Some(NAMED_STATE);
        let is_first = self.children.is_empty() && self.floor == 0;
        // The law: no colour starts without the state of the serving one.
        assert!(
            self.is_stale
                || is_stateless(&object.spec)
                || is_named
                || is_first
                || records >= self.floor,
            "{}: started from {records} records where {} were counted before the change",
            Law::BlueGreenState,
            self.floor
        );
        self.insert(colour, object.clone());
    }

    /// Adds a child that was just created.
    pub(crate) fn insert(&mut self, colour: Colour, mut object: FlinkDeployment) {
        let job = object.spec.job.clone().unwrap();
        let path = job.initial_savepoint_path.as_deref();
        let records =
            path.map_or(0, |path| *self.states.get(path).expect("a path that was never written"));
        object.metadata.uid = Some(self.id());
        object.metadata.generation = Some(1);
        object.status = Some(DeploymentStatus::default());
        self.upheaval.admit(&mut object);
        let redeploy_nonce = job.savepoint_redeploy_nonce;
        let child = SimChild {
            object,
            records,
            carried_out: 0,
            redeploy_nonce,
            starts_in: 3,
            fails_in: None,
            unready: 0,
            gone_in: None,
        };
        self.children.insert(colour, child);
    }

    fn change(&mut self, object: &FlinkDeployment) {
        self.writes += 1;
        let colour = Self::colour(object.metadata.name.as_deref().unwrap());
        let (is_stale, is_other_good) = (self.is_stale, self.is_good(colour.other()));
        let Some(child) = self.children.get_mut(&colour) else { return };
        if child.object.metadata.uid != object.metadata.uid || child.object.spec == object.spec {
            return;
        }
        let stops = is_suspended(&child.object.spec) || is_suspended(&object.spec);
        let takes_down = change(&child.object.spec, &object.spec) != Change::InPlace && !stops;
        // The law: the only running job is not taken down for a change.
        assert!(
            is_stale || !takes_down || is_other_good || !child.is_good(),
            "{}: the only job that runs is changed in place",
            Law::BlueGreenLastGood
        );
        // The law: a redeploy starts from the state its user named.
        let path = object.spec.job.as_ref().unwrap().initial_savepoint_path.as_deref();
        assert!(
            !is_redeploy(&child.object.spec, &object.spec) || path == Some(NAMED_STATE),
            "{}: redeployed from {path:?}",
            Law::BlueGreenState
        );
        if is_redeploy(&child.object.spec, &object.spec) {
            // What it counted before is given up.
            self.floor = self.floor.min(self.states[NAMED_STATE]);
        }
        child.object.spec = object.spec.clone();
        child.object.metadata.annotations.clone_from(&object.metadata.annotations);
        self.upheaval.admit(&mut child.object);
        *child.object.metadata.generation.as_mut().unwrap() += 1;
    }

    fn is_good(&self, colour: Colour) -> bool {
        self.children.get(&colour).is_some_and(SimChild::is_good)
    }

    fn delete(&mut self, name: &str, uid: &str) {
        self.writes += 1;
        let colour = Self::colour(name);
        let (is_stale, is_other_good) = (self.is_stale, self.is_good(colour.other()));
        let other = self.children.get(&colour.other());
        let is_other_stopped = other.is_some_and(|other| Child(&other.object).is_to_stop());
        let serving = self.ingress;
        let Some(child) =
            self.children.get_mut(&colour).filter(|child| Child(&child.object).uid() == uid)
        else {
            return;
        };
        // The laws: neither the last good job nor the serving one is deleted.
        let law = Law::BlueGreenLastGood;
        let is_wanted = is_other_good || is_other_stopped || is_stale || !child.is_good();
        assert!(is_wanted, "{law}: the last good job is deleted");
        let is_led_to = serving == Some(colour) && child.is_good();
        assert!(!is_led_to || is_stale, "{law}: what serves is deleted");
        Self::go(child, self.now);
    }

    fn go(child: &mut SimChild, now: Timestamp) {
        child.object.metadata.deletion_timestamp.get_or_insert(Time(now));
        child.gone_in.get_or_insert(3);
    }

    // --- the world ---

    /// Advances the clock by a second.
    pub(crate) fn tick(&mut self) {
        self.now += SignedDuration::from_secs(1);
        for trigger in self.triggers.values_mut() {
            trigger.done_in = trigger.done_in.saturating_sub(1);
        }
        self.upheaval.tick();
        for child in self.children.values_mut() {
            let is_held = child.waits_for_savepoint() || self.upheaval.keeps_children();
            child.gone_in =
                child.gone_in.map(|seconds| seconds.saturating_sub(u64::from(!is_held)));
            let named =
                child.object.spec.job.as_ref().and_then(|job| job.initial_savepoint_path.as_ref());
            let named = named.and_then(|path| self.states.get(path).copied());
            child.tick(named, self.upheaval.starts_no_pods());
            if child.gone_in.is_some() && child.waits_for_savepoint() {
                child.object.status.as_mut().unwrap().error = Some(DELETION_WAITS.to_owned());
            }
        }
        self.children.retain(|_, child| child.gone_in != Some(0));
    }

    pub(crate) fn lose_child(&mut self, colour: Colour) {
        let now = self.now;
        self.log.push(format!("{now}  {} is deleted", colour.name()));
        if let Some(child) = self.children.get_mut(&colour) {
            Self::go(child, now);
        }
    }

    pub(crate) fn forget_triggers(&mut self) {
        self.triggers.clear();
    }

    /// Runs as the operator does: a pass follows a change of a child or of the resource, or the time that the last pass
    /// set.
    pub(crate) fn settle(&mut self) {
        let (mut due, mut seen) = (self.now, String::new());
        for _ in 0..1200 {
            self.tick();
            let children = self.children.values().map(|child| &child.object);
            let now = json!([children.collect::<Vec<_>>(), self.resource]).to_string();
            if self.now >= due || now != seen {
                seen = now;
                let pause = self.pass(None).look_again.unwrap_or(Duration::from_secs(100_000));
                due = self.now + SignedDuration::try_from(pause).unwrap();
            }
            if self.has_request() && self.is_at_rest() {
                return;
            }
        }
        let BlueGreenStatus { blue_green_state, error, .. } = &self.status;
        panic!("{}: not settled: {blue_green_state:?} {error:?}", Law::BlueGreenRests);
    }

    /// Completes what takes time in one step; a job that is going to fail runs for one.
    pub(crate) fn hurry(&mut self) {
        for trigger in self.triggers.values_mut() {
            trigger.done_in = trigger.done_in.min(1);
        }
        for child in self.children.values_mut() {
            child.starts_in = child.starts_in.min(1);
            child.fails_in = child.fails_in.map(|seconds| seconds.min(2));
            child.gone_in = child.gone_in.map(|seconds| seconds.min(1));
        }
    }

    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(
            self.status.blue_green_state,
            Some(BlueGreenState::ActiveBlue | BlueGreenState::ActiveGreen)
        )
    }

    /// The law: left alone, the operator writes nothing more, and the web UI leads to the serving child.
    pub(crate) fn assert_rests(&mut self) {
        for second in 0..30 {
            self.tick();
            let before = self.writes;
            let plan = self.pass(None);
            let names: Vec<&str> = plan.steps.iter().map(Step::name).collect();
            assert!(
                second < 10 || self.writes == before && names.is_empty(),
                "{}: at rest: {names:?} {:?}",
                Law::BlueGreenRests,
                self.status
            );
        }
        assert_eq!(self.ingress, self.serving(), "{}", Law::BlueGreenWebUi);
    }
}

impl SimChild {
    fn tick(&mut self, named: Option<u64>, is_held_up: bool) {
        let is_broken = self.object.spec.image.as_deref() == Some(BROKEN_IMAGE);
        let job = self.object.spec.job.clone().unwrap();
        let generation = self.object.metadata.generation.unwrap();
        let status = self.object.status.as_mut().unwrap();
        if self.carried_out != generation {
            let was_redeployed = job.savepoint_redeploy_nonce != self.redeploy_nonce;
            if self.carried_out > 0 && was_redeployed && job.savepoint_redeploy_nonce.is_some() {
                self.records = named.unwrap_or_default();
            }
            self.redeploy_nonce = job.savepoint_redeploy_nonce;
            self.carried_out = generation;
            self.starts_in = 3;
            self.fails_in = (job.parallelism == Some(FAILING_PARALLELISM)).then_some(6);
            status.error = None;
            // A job that was or will be stopped is `FINISHED` at first.
            let is_stopped = status.job_status.state == Some(JobStatusState::Finished);
            status.job_status.state = Some(if is_stopped || job.state == JobState::Suspended {
                JobStatusState::Finished
            } else {
                JobStatusState::Reconciling
            });
            status.lifecycle_state = Some(LifecycleState::Upgrading);
            status.observed_generation = Some(generation);
            if self.object.spec.job.as_ref().unwrap().upgrade_mode == UpgradeMode::Stateless {
                self.records = 0;
            }
            return;
        }
        if job.state == JobState::Suspended {
            status.job_status.state = Some(JobStatusState::Finished);
            status.lifecycle_state = Some(LifecycleState::Suspended);
            return;
        }
        self.starts_in = self.starts_in.saturating_sub(u64::from(!is_held_up));
        self.unready = self.unready.saturating_sub(1);
        if self.starts_in > 0 {
            status.job_status.state = Some(JobStatusState::Reconciling);
            return;
        }
        if is_broken {
            status.error = Some("no such image".to_owned());
            status.lifecycle_state = Some(LifecycleState::Deployed);
            return;
        }
        self.fails_in = self.fails_in.map(|seconds| seconds.saturating_sub(1));
        if self.fails_in == Some(0) {
            status.job_status.state = Some(JobStatusState::Failed);
            status.lifecycle_state = Some(LifecycleState::Failed);
            status.error = Some("the sink is gone".to_owned());
            return;
        }
        let state =
            if self.unready > 0 { JobStatusState::Restarting } else { JobStatusState::Running };
        status.job_status.state = Some(state);
        status.lifecycle_state =
            Some(if self.unready > 0 { LifecycleState::Deployed } else { LifecycleState::Stable });
        if self.unready == 0 {
            self.records += 7;
        }
    }

    /// Whether its deletion needs a savepoint that nobody can take.
    fn waits_for_savepoint(&self) -> bool {
        let option = self.object.spec.flink_configuration.0.get(SAVEPOINT_ON_DELETION);
        let state = self.object.status.as_ref().and_then(|status| status.job_status.state);
        let is_saved = state == Some(JobStatusState::Running)
            || state.is_some_and(JobStatusState::is_globally_terminal);
        option == Some(&json!("true")) && !is_saved
    }

    /// Whether it is ready and not going to stop; a stopped job has ended.
    fn is_good(&self) -> bool {
        let child = Child(&self.object);
        child.is_ready() && !child.is_to_stop()
    }

    pub(crate) fn fail(&mut self) {
        self.fails_in = Some(1);
    }

    /// Its controller recovers the job.
    pub(crate) fn recover(&mut self) {
        if self.fails_in.take().is_some() {
            self.object.status.as_mut().unwrap().error = None;
        }
    }

    /// Describes its pending events.
    pub(crate) fn waits(&self) -> impl std::fmt::Debug + use<> {
        (self.redeploy_nonce, self.starts_in, self.fails_in, self.unready, self.gone_in)
    }
}
