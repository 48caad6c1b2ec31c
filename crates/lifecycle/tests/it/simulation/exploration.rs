//! Explores the upgrade state machine exhaustively within a budget; see [`testing::exploration`].
//!
//! Operations that take time complete in one step of the world here, so timeouts do not occur, except that of a
//! rollback; the others are covered by the random walks.

use std::fmt::Write;
use std::time::Duration;

use api::status::ReconciliationState;
use testing::exploration::{self, Budget, Explored, Rested};
use testing::share::third;

use super::upheaval::{Change, HIGHLY_AVAILABLE, Untold};
use super::*;
use crate::support::worlds::{assert_job_is_reported, left_to_report};

/// Shortest pause of an idle operator; a shorter one means that it expects a change.
const RESTS_FOR: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Edit {
    Parallelism,
    BreakImage,
    MendImage,
    Suspend,
    Resume,
    Savepoint,
    LastState,
    Stateless,
    Invalid,
    RestartNonce,
    /// Start from an older state.
    Redeploy,
    Delete,
    Pause,
    Unpause,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    /// The job fails for good.
    Job,
    /// Someone cancels the job.
    Cancel,
    /// The JobManager's process dies and comes back.
    Process,
    /// Someone deletes its Deployment.
    Deployment,
    /// The savepoint of the stop in progress fails.
    Savepoint,
    /// A checkpoint completes, which is no fault but can make others worse.
    Checkpoint,
    /// The JobManager's REST API does not answer for a moment, while its pod is ready.
    Silence,
    /// Its pod is not ready for a moment, while its REST API answers.
    Unready,
    /// It does not report its checkpoints for a moment.
    Unread,
    /// The pods that stand by end.
    Standby,
    /// Something around it changes.
    Change(Change),
    /// The Java operator makes this many passes.
    Java(u8),
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Action {
    Pass,
    /// The operator dies before this step, or after the last one.
    CrashBefore(usize),
    /// A new process gets what was stored before the last change.
    StalePass,
    Interrupted(Interruption<Event<Edit, Fault>>),
    World,
    Edit(Edit),
    Fault(Fault),
}

const EDITS: &[Edit] = &[
    Edit::Parallelism,
    Edit::BreakImage,
    Edit::MendImage,
    Edit::Suspend,
    Edit::Resume,
    Edit::Savepoint,
    Edit::LastState,
    Edit::Stateless,
    Edit::Invalid,
    Edit::RestartNonce,
    Edit::Redeploy,
    Edit::Delete,
];
const FAULTS: &[Fault] =
    &[Fault::Job, Fault::Cancel, Fault::Process, Fault::Deployment, Fault::Checkpoint];

impl Sim {
    fn make(&mut self, edit: Edit) {
        if matches!(edit, Edit::Pause | Edit::Unpause) {
            return pause(&mut self.resource.metadata, edit == Edit::Pause);
        }
        if self.resource.metadata.deletion_timestamp.is_some() {
            return;
        }
        self.edit(|r| match edit {
            Edit::Parallelism => Self::job_mut(r).parallelism = Some(3),
            Edit::BreakImage => r.spec.image = Some(BROKEN_IMAGE.to_owned()),
            Edit::MendImage => r.spec.image = Some("flink:1.20".to_owned()),
            Edit::Suspend => Self::job_mut(r).state = JobState::Suspended,
            Edit::Resume => Self::job_mut(r).state = JobState::Running,
            Edit::Savepoint => Self::job_mut(r).upgrade_mode = UpgradeMode::Savepoint,
            Edit::LastState => Self::job_mut(r).upgrade_mode = UpgradeMode::LastState,
            Edit::Stateless => Self::job_mut(r).upgrade_mode = UpgradeMode::Stateless,
            Edit::Invalid => Self::job_mut(r).parallelism = Some(-1),
            Edit::RestartNonce => r.spec.restart_nonce = Some(1),
            Edit::Redeploy | Edit::Delete | Edit::Pause | Edit::Unpause => {}
        });
        match edit {
            Edit::Redeploy => self.redeploy(),
            Edit::Delete => {
                let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now);
                self.resource.metadata.deletion_timestamp = Some(now);
            }
            _ => {}
        }
    }

    fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Job => self.fail_job(),
            Fault::Cancel => {
                let running = self.job.as_ref().filter(|job| job.state == JobStatusState::Running);
                if let Some(id) = running.map(|job| job.id.clone()) {
                    self.flink_cancel(&id);
                }
            }
            Fault::Process if self.is_high_availability_on => self.crash_job_manager(),
            Fault::Deployment if self.is_high_availability_on && self.job_manager.is_some() => {
                self.lose_deployment();
            }
            Fault::Process | Fault::Deployment => {}
            Fault::Savepoint => self.fail_savepoint(),
            Fault::Standby => self.lose_standby(),
            Fault::Checkpoint => drop(self.checkpoint()),
            Fault::Silence => self.cloud(|haze| haze.silent = 1),
            Fault::Unready => self.cloud(|haze| haze.unready = 1),
            Fault::Unread => self.cloud(|haze| haze.unread = 1),
            Fault::Change(change) => self.change(change),
            Fault::Java(passes) => {
                for _ in 0..passes {
                    self.tick();
                    self.java_pass();
                }
                self.upheaval.forget();
            }
        }
    }
}

/// What the API server has stored: the resource and its status.
type Stored = (FlinkDeployment, DeploymentStatus);

#[derive(Clone)]
struct State {
    sim: Sim,
    /// The state before the last change.
    stale: Option<Box<Stored>>,
    edits: &'static [Edit],
    faults: &'static [Fault],
    /// Whether passes are interrupted by more than crashes, which counts as a fault.
    is_interrupted: bool,
    /// Seconds after which elapsed time makes no more difference; zero if it never does.
    counts_to: i64,
    left: Budget,
    /// Passes left alone in which it only waited.
    quiet: u8,
}

impl State {
    fn of(sim: Sim, (edits, faults): (&'static [Edit], &'static [Fault]), left: Budget) -> Self {
        let mut state = Self {
            sim,
            stale: None,
            edits,
            faults,
            is_interrupted: false,
            counts_to: 0,
            left,
            quiet: 0,
        };
        state.hurry();
        state
    }

    fn stored(&self) -> Stored {
        (self.sim.resource.clone(), self.sim.status.clone())
    }

    /// Makes one decision and carries out a prefix of its plan, for each possible length.
    fn passes(&self) -> Vec<(Action, Self)> {
        let mut decided = self.clone();
        let plan = decided.sim.plan();
        let mut all = Vec::new();
        let mut state = decided;
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
        state.sim.upheaval.forget();
        Some((action, state))
    }

    /// A pass for what was stored before the last change.
    fn stale_pass(&self) -> Option<(Action, Self)> {
        let (resource, status) = *self.stale.clone()?;
        let (action, mut state) = self.crashed(Action::StalePass)?;
        let (newer, current) = state.stored();
        (state.sim.resource, state.sim.status) = (resource, status);
        let known = Operated::stored(&state.sim);
        let plan = state.sim.plan();
        (state.sim.resource, state.sim.status) = (newer, current);
        state.sim.carry_out(&plan, known, undisturbed);
        Some((action, state))
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

    /// Returns the seconds since the spec was deployed and since the job got its state, as far as they matter.
    fn waited(&self) -> [i64; 2] {
        let status = &self.sim.status;
        let updated = status.job_status.update_time.as_deref();
        let updated = updated.map_or(0, |text| text.parse().unwrap());
        let deployed = status.reconciliation_status.reconciliation_timestamp;
        let now = self.sim.now.as_millisecond();
        [deployed, updated].map(|since| ((now - since) / 1000).clamp(0, self.counts_to))
    }

    /// Completes what takes time in one step.
    fn hurry(&mut self) {
        let sim = &mut self.sim;
        sim.pods_linger = sim.pods_linger.min(1);
        sim.starts_in = sim.starts_in.min(1);
        sim.standby.hurry();
        sim.haze.lift(|seconds| seconds.min(1));
        if let Some(workers) = &mut sim.workers {
            workers.lingers = workers.lingers.min(1);
        }
        sim.log.clear();
    }
}

impl State {
    /// Lets the time pass after which a wait is told, once only that makes a difference. Returns whether the plan waits
    /// for something that it does not report yet.
    fn wait_out(&mut self, plan: &Plan) -> bool {
        let Some(left) =
            left_to_report(Law::DeploymentTold, plan.waits, self.sim.now + self.sim.upheaval.skew)
        else {
            return false;
        };
        self.quiet += 1;
        if self.quiet > 5 {
            self.quiet = 0;
            self.sim.now += left;
        }
        true
    }
}

impl Explored for State {
    type Action = Action;
    const START: Action = Action::World;
    const RESTS: Law = Law::DeploymentRests;

    fn text(&self) -> String {
        let mut text = self.sim.text();
        write!(text, "{:?}", self.waited()).unwrap();
        if self.left.crashes > 0
            && let Some(stale) = &self.stale
        {
            write!(text, "{}", json!([stale.0.metadata, stale.0.spec, stale.1])).unwrap();
        }
        text
    }

    fn left(&self) -> Budget {
        self.left
    }

    fn phase(&self) -> String {
        let DeploymentStatus { job_status, reconciliation_status, .. } = &self.sim.status;
        let job_manager = self.sim.status.job_manager_deployment_status;
        phase(reconciliation_status, job_status) + &format!(", JobManager {job_manager:?}")
    }

    fn successors(&self) -> Vec<(Action, Self)> {
        let mut all = self.passes();
        all.extend(self.interrupted_passes());
        let mut world = self.clone();
        world.sim.tick();
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
            let now = state.stored();
            if now != self.stored() {
                state.stale = Some(Box::new(self.stored()));
            }
        }
        all
    }

    fn leave_alone(&mut self) {
        self.left = Budget { edits: 0, faults: 0, crashes: 0 };
        // If no status can be written, nothing can be reported.
        if self.sim.upheaval.is_refused(Refused::Status) {
            self.sim.end_upheaval();
        }
    }

    fn rest(&mut self) -> Rested {
        let before = self.sim.status.clone();
        self.sim.tick();
        let plan = self.sim.pass(None);
        // An operator that looks again this soon and reports no error expects a change.
        let waits = plan.look_again.is_some_and(|pause| pause < RESTS_FOR)
            && plan.status.error.is_none()
            && !self.sim.is_image_broken;
        // A rejected write is retried forever, and the status says so.
        let is_reported = before.error.is_some() && self.sim.status.error == before.error;
        let is_refused = self.sim.upheaval.stopped_at.is_some() && is_reported;
        let is_quiet = plan.steps.is_empty() && self.sim.status == before;
        self.hurry();
        let is_pending = is_quiet && self.wait_out(&plan);
        Rested {
            is_quiet: is_refused || !waits && is_quiet && !is_pending,
            is_gone: self.sim.is_gone(),
            told: format!("{}: {:?}", plan.because, names(&plan.steps)),
        }
    }

    fn assert_done(&self) {
        self.sim.assert_done();
    }
}

impl Sim {
    /// Serializes the state without times, and without paths that nothing refers to.
    fn text(&self) -> String {
        let mut text = json!([self.resource.metadata, self.resource.spec, self.status]).to_string();
        let Self { job_manager, workers, job, submission, snapshots, revisions, .. } = self;
        let jobs = job.as_ref().map(|job| (&job.id, job.state, job.newest().map(|state| &state.1)));
        let out_of_reach = self.out_of_reach.as_ref().map(|job| &job.id);
        let workers = workers.as_ref().map(|w| (&w.fact, &w.image, w.lingers));
        write!(
            text,
            "{job_manager:?}{workers:?}{jobs:?}{submission:?}{snapshots:?}{revisions:?}{:?}{:?}{:?}{}{}{}",
            out_of_reach,
            self.stopping,
            self.ha.keys(),
            self.is_image_broken,
            self.pods_linger,
            self.starts_in
        )
        .unwrap();
        let known = self.states.iter().filter(|(path, _)| text.contains(path.as_str()));
        let known: Vec<_> = known.collect();
        let unsaved = self.unsaved.iter().filter(|id| text.contains(id.as_str()));
        let unsaved: Vec<_> = unsaved.cloned().collect();
        write!(text, "{unsaved:?}").unwrap();
        let triggers = self.triggers.iter().filter(|(id, _)| text.contains(id.as_str()));
        let triggers: Vec<_> = triggers.collect();
        // Only the order of record counts matters.
        let counts =
            known.iter().map(|(_, records)| **records).chain(self.ha.values().flatten().copied());
        let mut counts: Vec<u64> = counts
            .chain([self.durable, self.saved])
            .chain(job.iter().map(|job| job.records))
            .collect();
        counts.sort_unstable();
        counts.dedup();
        let rank = |records: u64| counts.iter().position(|count| *count == records);
        let ranks: Vec<_> = known.iter().map(|(_, records)| rank(**records)).collect();
        let in_ha: Vec<_> = self.ha.values().map(|records| records.map(rank)).collect();
        let paths: Vec<_> = known.iter().map(|(path, _)| path).collect();
        let job = job.as_ref().map(|job| rank(job.records));
        write!(text, "{:?}{}{:?}", self.named, self.doubt.is_any(), self.haze).unwrap();
        write!(text, "{}", self.is_unlisted).unwrap();
        write!(text, "{paths:?}{ranks:?}{in_ha:?}{triggers:?}{job:?}").unwrap();
        write!(text, "{:?}{:?}", rank(self.durable), rank(self.saved)).unwrap();
        write!(text, "{}{:?}", self.upheaval.text(), self.operator.base).unwrap();
        text += &self.standby.text(self.now);
        text
    }
}

impl Sim {
    /// Disables trials. They are covered by the simulation: each of their seconds would multiply the states here.
    pub(super) fn without_trial(self) -> Self {
        self.with(&[("job.upgrade.preflight", "objects")])
    }

    /// Gives it high availability by the operator's defaults.
    fn with_defaults(mut self) -> Self {
        self.operator = OperatorConfig::new(HIGHLY_AVAILABLE.into_iter().collect());
        self
    }

    fn is_gone(&self) -> bool {
        self.resource.metadata.deletion_timestamp.is_some()
            && self.resource.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
    }

    /// When idle, the request is fulfilled or the status says why not.
    fn assert_done(&self) {
        if self.is_gone() {
            // A Deployment that is being deleted goes when its pods do; nothing waits for them for ever.
            let is_going = |of: &JobManager| of.deleting_since.is_some();
            let is_left = self.job_manager.as_ref().is_some_and(|of| !is_going(of));
            let law = Law::DeploymentDeletion;
            assert!(!is_left && self.workers.is_none(), "{law}: left behind");
            return;
        }
        let law = Law::DeploymentTold;
        let DeploymentStatus { lifecycle_state, observed_generation, error, .. } = &self.status;
        if self.resource.metadata.deletion_timestamp.is_some() {
            assert!(error.is_some(), "{law}: its deletion waits without a word: {:?}", self.status);
            return;
        }
        if is_paused(&self.resource.metadata) {
            return;
        }
        let is_wanted = match self.resource.spec.job.as_ref().unwrap().state {
            JobState::Running => LifecycleState::Stable,
            JobState::Suspended => LifecycleState::Suspended,
        };
        let is_done = *lifecycle_state == Some(is_wanted)
            && *observed_generation == self.resource.metadata.generation;
        let is_to_run = is_wanted == LifecycleState::Stable;
        assert!(
            self.named.is_none() || !is_done || !is_to_run,
            "{}: what its user named is forgotten",
            Law::DeploymentRests
        );
        // In the middle of a change an end is what the operator itself recorded.
        let is_over =
            matches!(
                self.status.reconciliation_status.state,
                ReconciliationState::Deployed | ReconciliationState::RolledBack
            ) && self.status.job_status.state.is_some_and(JobStatusState::is_globally_terminal);
        let is_created = *lifecycle_state == Some(LifecycleState::Created);
        assert!(
            is_done || is_over || is_created || error.is_some() || self.is_image_broken,
            "{law}: at rest in {lifecycle_state:?} without a word: {:?}",
            self.status
        );
        let runs = self.job_manager.is_some()
            && self.job.as_ref().is_some_and(|job| job.state == JobStatusState::Running);
        assert_job_is_reported(law, &self.status, runs);
    }
}

/// The resource is paused and unpaused at any moment of an upgrade.
#[test]
fn every_way_through_a_pause_keeps_the_laws() {
    let edits = &[Edit::Delete, Edit::Pause, Edit::Unpause];
    for (name, sim) in third([
        ("savepoint", Sim::new("savepoint")),
        ("last-state", Sim::new("last-state")),
        ("standalone last-state", Sim::new("last-state").standalone()),
    ]) {
        let mut start = start(sim, (edits, FAULTS), Budget::read_or("2,1,0"));
        start.sim.make(Edit::Parallelism);
        exploration::explore(&format!("{name}, paused"), start);
    }
}

/// The operator is paused in the middle of a pass, or an answer or a request takes its time.
#[test]
fn every_way_through_an_interrupted_pass_keeps_the_laws() {
    let edits: &[Edit] = &[Edit::Parallelism, Edit::Suspend, Edit::Redeploy, Edit::Delete];
    for (name, sim, possible) in third([
        ("savepoint", Sim::new("savepoint"), (edits, FAULTS)),
        ("hot", Sim::hot_for_moments(), HOT),
        ("last-state", Sim::new("last-state"), (edits, FAULTS)),
        ("standalone last-state", Sim::new("last-state").standalone(), (edits, FAULTS)),
        ("savepoint without HA", Sim::without_high_availability("savepoint"), (edits, FAULTS)),
    ]) {
        let mut start = start(sim, possible, Budget::read_or("1,1,0"));
        start.is_interrupted = true;
        exploration::explore(&format!("{name}, interrupted"), start);
    }
}

/// Pods of the new spec stand by and take over. The lock expires within two moments without the operator.
#[test]
fn every_way_through_a_hot_upgrade_keeps_the_laws() {
    explore_within("hot", Sim::hot_for_moments(), HOT, Budget::read());
}

/// What may happen in a hot upgrade.
const HOT: (&[Edit], &[Fault]) = (
    &[
        Edit::Parallelism,
        Edit::BreakImage,
        Edit::MendImage,
        Edit::Suspend,
        Edit::Redeploy,
        Edit::Delete,
    ],
    &[Fault::Job, Fault::Process, Fault::Deployment, Fault::Checkpoint, Fault::Standby],
);

impl Sim {
    fn hot_for_moments() -> Self {
        let mut sim = Self::hot();
        sim.standby.lease = 2;
        sim
    }
}

fn explore(name: &str, sim: Sim) {
    explore_within(name, sim, (EDITS, FAULTS), Budget::read_or("1,1,1"));
}

fn explore_within(
    name: &str,
    sim: Sim,
    (edits, faults): (&'static [Edit], &'static [Fault]),
    left: Budget,
) {
    exploration::explore(name, start(sim, (edits, faults), left));
}

/// Returns the state of a job that runs and has completed a checkpoint.
fn start(sim: Sim, (edits, faults): (&'static [Edit], &'static [Fault]), left: Budget) -> State {
    let mut sim = sim.without_trial();
    sim.settle();
    sim.checkpoint();
    State::of(sim, (edits, faults), left)
}

/// A failing spec is rolled back to the stable one, whatever happens in between.
#[test]
fn every_way_through_a_rollback_keeps_the_laws() {
    let edits = &[Edit::MendImage, Edit::Suspend];
    let faults = &[Fault::Process, Fault::Deployment];
    for (mode, budget) in [("savepoint", "1,1,0"), ("last-state", "0,1,1")] {
        let mut sim = Sim::new(mode).with(&[
            ("deployment.rollback.enabled", "true"),
            ("deployment.readiness.timeout", "2 s"),
            ("job.upgrade.preflight", "objects"),
        ]);
        sim.settle();
        sim.checkpoint();
        sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
        let left = Budget::read_or(budget);
        let mut start = State::of(sim, (edits, faults), left);
        start.counts_to = 4;
        exploration::explore(&format!("rollback, {mode}"), start);
    }
}

/// One of the two operators begins it, and the other one continues.
#[test]
fn every_way_through_a_rollback_alongside_the_java_operator_keeps_the_laws() {
    let edits = &[Edit::MendImage, Edit::Suspend, Edit::Delete];
    let faults = &[Fault::Java(1), Fault::Java(3)];
    for sim in [Sim::new("last-state"), Sim::new("savepoint").standalone()] {
        let mut sim = sim.with_rollback().without_trial();
        sim.set("kubernetes.operator.deployment.readiness.timeout", "2 s");
        let name = if sim.is_standalone() { "standalone savepoint" } else { "last-state" };
        sim.settle();
        sim.checkpoint();
        sim.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned()));
        let left = Budget::read_or("1,1,0");
        let mut start = State::of(sim, (edits, faults), left);
        start.counts_to = 4;
        exploration::explore(&format!("rollback beside Java, {name}"), start);
    }
}

/// The change is never taken for done, whenever it comes.
#[test]
fn every_way_to_another_state_during_an_upgrade_is_followed() {
    for mode in ["savepoint", "last-state"] {
        let Budget { edits, faults, crashes } = Budget::read();
        let left = Budget { edits: edits.max(2), faults, crashes };
        let edits = &[Edit::Parallelism, Edit::Suspend, Edit::Redeploy];
        explore_within(&format!("{mode}, another state"), Sim::new(mode), (edits, FAULTS), left);
    }
}

const FAULTS_OF_STOPS: &[Fault] =
    &[Fault::Job, Fault::Cancel, Fault::Process, Fault::Deployment, Fault::Savepoint];

/// A savepoint in progress may fail, and a job being cancelled may be lost.
#[test]
fn every_way_through_an_upgrade_that_takes_its_time_keeps_the_laws() {
    let edits = &[Edit::Parallelism, Edit::Suspend, Edit::Redeploy, Edit::Delete];
    let (savepoint, cancel) = (Sim::new("savepoint"), Sim::without_high_availability("last-state"));
    for (name, mut sim) in [("savepoint", savepoint), ("cancel", cancel)] {
        sim.is_slow = true;
        let left = Budget::read_or("1,1,1");
        explore_within(&format!("a slow {name}"), sim, (edits, FAULTS_OF_STOPS), left);
    }
}

/// Two faults, because one must change something and another one must hide it.
#[test]
fn every_way_through_an_upgrade_that_is_hard_to_see_keeps_the_laws() {
    let faults = &[Fault::Silence, Fault::Unready, Fault::Unread, Fault::Job, Fault::Cancel];
    let (savepoint, cancel) = (Sim::new("savepoint"), Sim::without_high_availability("last-state"));
    for (name, mut sim) in [("savepoint", savepoint), ("cancel", cancel)] {
        sim.is_slow = true;
        let left = Budget::read_or("1,2,0");
        let edits = &[Edit::Parallelism];
        explore_within(&format!("hard to see, {name}"), sim, (edits, faults), left);
    }
}

/// An observation of a starting JobManager soon becomes outdated.
#[test]
fn every_way_to_change_a_job_that_starts_keeps_the_laws() {
    for sim in [Sim::new("last-state"), Sim::without_high_availability("savepoint")] {
        let Budget { edits, faults, crashes } = Budget::read_or("2,1,1");
        let left = Budget { edits: edits.max(2), faults, crashes };
        let wishes = &[Edit::Parallelism, Edit::RestartNonce, Edit::BreakImage, Edit::MendImage];
        let name = format!("HA {}, a job that starts", sim.is_high_availability_on);
        explore_within(&name, sim, (wishes, &[Fault::Checkpoint]), left);
    }
}

/// The API server rejects an object, the operator has other defaults or a wrong clock, or the Java operator takes over
/// for a while.
#[test]
fn every_way_through_an_upheaval_keeps_the_laws() {
    let edits = &[Edit::Parallelism, Edit::Suspend, Edit::Redeploy, Edit::Delete];
    let worlds = ["savepoint", "last-state"].map(|mode| {
        [
            (mode, "", Sim::new(mode)),
            (mode, ", HA by default", Sim::without_high_availability(mode).with_defaults()),
            (mode, ", standalone", Sim::new(mode).standalone()),
        ]
    });
    for (mode, name, sim) in third(worlds.into_iter().flatten()) {
        let left = Budget::read_or("1,1,1");
        explore_within(&format!("{mode}{name}, upheavals"), sim, (edits, UPHEAVALS), left);
    }
}

const UPHEAVALS: &[Fault] = &[
    Fault::Change(Change::Refused(Refused::JobManager)),
    Fault::Change(Change::Refused(Refused::Beside)),
    Fault::Change(Change::Refused(Refused::Status)),
    Fault::Change(Change::RefusedForGood(Refused::JobManager)),
    Fault::Change(Change::RefusedForGood(Refused::Beside)),
    Fault::Change(Change::RefusedForGood(Refused::Records)),
    Fault::Change(Change::Refused(Refused::Removals)),
    Fault::Change(Change::RefusedForGood(Refused::Removals)),
    Fault::Change(Change::Refused(Refused::All)),
    Fault::Change(Change::HighAvailability(true)),
    Fault::Change(Change::HighAvailability(false)),
    Fault::Change(Change::Boldness(true)),
    Fault::Change(Change::Boldness(false)),
    Fault::Change(Change::Clock(120)),
    Fault::Change(Change::Clock(-120)),
    Fault::Change(Change::Untold(Untold::Deployments)),
    Fault::Change(Change::Untold(Untold::Pods)),
    Fault::Change(Change::Untold(Untold::ConfigMaps)),
    Fault::Change(Change::Untold(Untold::Snapshots)),
    Fault::Change(Change::Untold(Untold::Revisions)),
    Fault::Change(Change::Untold(Untold::SessionJobs)),
    Fault::Change(Change::Untold(Untold::Refusal)),
    Fault::Change(Change::PodsStay),
    Fault::Change(Change::Admission),
    Fault::Java(1),
    Fault::Java(3),
];

#[test]
fn every_way_through_a_last_state_upgrade_keeps_the_laws() {
    explore("last-state", Sim::new("last-state"));
}

#[test]
fn every_way_through_a_savepoint_upgrade_keeps_the_laws() {
    explore("savepoint", Sim::new("savepoint"));
}

#[test]
fn every_way_through_a_savepoint_upgrade_without_high_availability_keeps_the_laws() {
    explore("savepoint without HA", Sim::without_high_availability("savepoint"));
}

#[test]
fn every_way_through_a_standalone_upgrade_keeps_the_laws() {
    explore("standalone last-state", Sim::new("last-state").standalone());
}
