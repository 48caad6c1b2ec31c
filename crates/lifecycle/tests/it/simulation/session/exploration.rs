//! Explores the state machine of session clusters exhaustively within a budget; see [`testing::exploration`]. A session
//! job refers to the cluster and runs in it.

use std::fmt::Write;
use std::time::Duration;

use testing::exploration::{self, Budget, Explored, Rested};
use testing::share::third;

use super::*;
use crate::simulation::upheaval::{Change, Untold};
use crate::support::operated::{Event, Interruption, interrupted, undisturbed};
use crate::support::worlds::{left_to_report, phase};

/// Shortest pause of an idle operator; a shorter one means that it expects a change.
const IDLE_FOR: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Edit {
    Restart,
    BreakImage,
    MendImage,
    Version,
    WithoutHighAvailability,
    Invalid,
    Delete,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    /// Someone deletes the Deployment of the JobManager.
    Deployment,
    /// Someone deletes that of the TaskManagers.
    TaskManagers,
    /// The JobManager's REST API does not answer.
    Silence,
    /// Someone submits a job that belongs to no resource.
    Submission,
    /// All jobs end.
    End,
    /// The session job is stopped.
    Stop,
    /// The session job is deleted.
    Leave,
    /// Something around it changes.
    Change(Change),
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
    Edit::Restart,
    Edit::BreakImage,
    Edit::MendImage,
    Edit::Version,
    Edit::WithoutHighAvailability,
    Edit::Invalid,
    Edit::Delete,
];
const FAULTS: &[Fault] = &[
    Fault::Deployment,
    Fault::TaskManagers,
    Fault::Silence,
    Fault::Submission,
    Fault::End,
    Fault::Stop,
    Fault::Leave,
];
const UPHEAVALS: &[Fault] = &[
    Fault::Change(Change::Refused(Refused::JobManager)),
    Fault::Change(Change::Refused(Refused::Status)),
    Fault::Change(Change::Refused(Refused::Removals)),
    Fault::Change(Change::RefusedForGood(Refused::JobManager)),
    Fault::Change(Change::RefusedForGood(Refused::Beside)),
    Fault::Change(Change::RefusedForGood(Refused::Removals)),
    Fault::Change(Change::HighAvailability(true)),
    Fault::Change(Change::Clock(120)),
    Fault::Change(Change::Clock(-120)),
    Fault::Change(Change::Untold(Untold::Deployments)),
    Fault::Change(Change::Untold(Untold::Pods)),
    Fault::Change(Change::Untold(Untold::ConfigMaps)),
    Fault::Change(Change::Untold(Untold::SessionJobs)),
    Fault::Change(Change::Untold(Untold::Refusal)),
    Fault::Change(Change::PodsStay),
    Fault::Change(Change::Admission),
];

impl Session {
    fn make(&mut self, edit: Edit) {
        if self.resource.metadata.deletion_timestamp.is_some() {
            return;
        }
        self.edit(|r| match edit {
            Edit::Restart => r.spec.restart_nonce = Some(1),
            Edit::BreakImage => r.spec.image = Some(BROKEN_IMAGE.to_owned()),
            Edit::MendImage => r.spec.image = Some("flink:mended".to_owned()),
            Edit::Version => r.spec.flink_version = Some(FlinkVersion::V2_1),
            Edit::WithoutHighAvailability => {
                r.spec.flink_configuration.0.shift_remove("high-availability.type");
            }
            Edit::Invalid => r.spec.service_account = None,
            Edit::Delete => {}
        });
        if edit == Edit::Delete {
            self.mark_for_deletion();
        }
    }

    fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Deployment if self.job_manager.is_some() => self.lose_job_manager(),
            Fault::TaskManagers => self.workers = None,
            Fault::Silence => self.is_silent = true,
            // Nobody submits jobs by hand to a cluster whose end is on record.
            Fault::Submission if self.is_up() && !self.is_replaced() => {
                self.jobs.push(JobStatusState::Running);
            }
            Fault::Deployment | Fault::Submission => {}
            Fault::End => self.end_jobs(),
            Fault::Stop => self.begin_stop(0),
            Fault::Leave => {
                self.referring.clear();
                self.stopping.clear();
                self.end_jobs();
            }
            Fault::Change(change) => self.change(change),
        }
    }

    /// Completes what takes time in one step.
    fn hurry(&mut self) {
        self.pods_linger = self.pods_linger.min(1);
        self.starts_in = self.starts_in.min(1);
        if let Some(workers) = &mut self.workers {
            workers.lingers = workers.lingers.min(1);
        }
        self.saved_at = self.saved_at.map(|at| at.min(self.now + SignedDuration::from_secs(1)));
        self.log.clear();
    }

    /// Serializes the state without times.
    fn text(&self) -> String {
        let mut text = json!([self.resource.metadata, self.resource.spec, self.status]).to_string();
        let workers = self.workers.as_ref().map(|w| (&w.fact, &w.image, w.lingers));
        write!(
            text,
            "{:?}{workers:?}{}{}{}{:?}{:?}{:?}{}{}{}{:?}{:?}{}{:?}",
            self.job_manager,
            self.is_image_broken,
            self.pods_linger,
            self.starts_in,
            self.jobs,
            self.referring,
            self.stopping,
            self.saved_at.is_some(),
            self.has_ha_metadata,
            self.is_silent,
            self.made_with,
            self.made_version,
            self.upheaval.text(),
            self.operator.base,
        )
        .unwrap();
        text
    }

    fn has_gone(&self) -> bool {
        self.resource.metadata.deletion_timestamp.is_some() && self.is_gone()
    }

    /// When idle, the request is fulfilled or the status says why not.
    fn assert_done(&self) {
        if self.has_gone() {
            // A Deployment that is being deleted goes when its pods do; nothing waits for them for ever.
            let is_going = |of: &JobManager| of.deleting_since.is_some();
            let is_left = self.job_manager.as_ref().is_some_and(|of| !is_going(of));
            return assert!(
                !is_left && self.workers.is_none(),
                "{}: left behind",
                Law::SessionClusterDeletion
            );
        }
        let is_deleting = self.resource.metadata.deletion_timestamp.is_some();
        let is_done = self.is_stable() && self.is_up() && !is_deleting;
        let is_reported = self.status.error.is_some() || self.is_image_broken && !is_deleting;
        assert!(
            is_done || is_reported,
            "{}: at rest without a word: {:?}",
            Law::DeploymentTold,
            self.status
        );
    }
}

/// What the API server has stored: the resource and its status.
type Known = (FlinkDeployment, DeploymentStatus);

#[derive(Clone)]
struct State {
    sim: Session,
    /// The state before the last change.
    stale: Option<Box<Known>>,
    faults: &'static [Fault],
    /// Whether passes are interrupted by more than crashes, which counts as a fault.
    is_interrupted: bool,
    left: Budget,
    /// Passes left alone in which it only waited.
    quiet: u8,
}

impl State {
    fn known(&self) -> Known {
        (self.sim.resource.clone(), self.sim.status.clone())
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

    /// A pass for what was stored before the last change.
    fn stale_pass(&self) -> Option<(Action, Self)> {
        let (resource, status) = *self.stale.clone()?;
        let (action, mut state) = self.crashed(Action::StalePass)?;
        let (newer, current) = state.known();
        (state.sim.resource, state.sim.status) = (resource, status);
        let known = state.sim.stored();
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
        let what = (EDITS, self.faults);
        let all = interrupted(&self.sim, self.left, what, (Session::make, Session::strike));
        let state = |(interruption, sim, left)| {
            (Action::Interrupted(interruption), Self { sim, left, ..self.clone() })
        };
        all.into_iter().map(state).collect()
    }

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
    const RESTS: Law = Law::SessionClusterRests;

    type Action = Action;
    const START: Action = Action::World;

    fn text(&self) -> String {
        let mut text = self.sim.text();
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
        let is_deleting = self.sim.resource.metadata.deletion_timestamp.is_some();
        let end = if is_deleting { ", being deleted" } else { "" };
        phase(reconciliation_status, job_status) + &format!(", JobManager {job_manager:?}{end}")
    }

    fn successors(&self) -> Vec<(Action, Self)> {
        let mut all = self.passes();
        all.extend(self.interrupted_passes());
        let mut world = self.clone();
        world.sim.tick();
        all.push((Action::World, world));
        if let Some(edits) = self.left.edits.checked_sub(1) {
            all.extend(EDITS.iter().map(|edit| {
                let mut state = self.clone();
                state.left.edits = edits;
                state.sim.make(*edit);
                (Action::Edit(*edit), state)
            }));
        }
        if let Some(faults) = self.left.faults.checked_sub(1) {
            all.extend(self.faults.iter().map(|fault| {
                let mut state = self.clone();
                state.left.faults = faults;
                state.sim.strike(*fault);
                (Action::Fault(*fault), state)
            }));
        }
        for (_, state) in &mut all {
            state.sim.hurry();
            if state.known() != self.known() {
                state.stale = Some(Box::new(self.known()));
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
        let waits = plan.look_again.is_some_and(|pause| pause < IDLE_FOR)
            && plan.status.error.is_none()
            && !self.sim.is_image_broken;
        // A rejected write is retried forever, and the status says so.
        let is_reported = before.error.is_some() && self.sim.status.error == before.error;
        let is_refused = self.sim.upheaval.stopped_at.is_some() && is_reported;
        let is_quiet = plan.steps.is_empty() && self.sim.status == before;
        self.sim.hurry();
        let is_pending = is_quiet && self.wait_out(&plan);
        Rested {
            is_quiet: is_refused || !waits && is_quiet && !is_pending,
            is_gone: self.sim.has_gone(),
            told: format!("{}: {:?}", plan.because, names(&plan.steps)),
        }
    }

    fn assert_done(&self) {
        self.sim.assert_done();
    }
}

/// Returns a cluster in which its session job runs.
fn start(mode: &str, is_retained: bool, faults: &'static [Fault], budget: &str) -> State {
    let mut sim = Session::new(mode);
    let options = &mut sim.resource.spec.flink_configuration.0;
    options.insert("kubernetes.operator.job.upgrade.preflight".to_owned(), "objects".into());
    if !is_retained {
        options.shift_remove("high-availability.type");
    }
    sim.settle();
    sim.jobs = vec![JobStatusState::Running];
    sim.referring = vec!["job-0".to_owned()];
    sim.hurry();
    let left = Budget::read_or(budget);
    State { sim, stale: None, faults, is_interrupted: false, left, quiet: 0 }
}

/// A change of the cluster under its session job, with something that fails and a crash.
#[test]
fn every_way_through_a_change_of_a_session_cluster_keeps_the_laws() {
    for (name, mode, is_retained) in third([
        ("session cluster", "native", true),
        ("session cluster, standalone", "standalone", true),
        ("session cluster without HA", "native", false),
    ]) {
        exploration::explore(name, start(mode, is_retained, FAULTS, "1,1,1"));
    }
}

/// The API server rejects an object or does not tell, or something else changes around the cluster.
#[test]
fn every_way_through_an_upheaval_of_a_session_cluster_keeps_the_laws() {
    for (name, mode, is_retained) in third([
        ("session cluster, upheavals", "native", true),
        ("session cluster, standalone, upheavals", "standalone", true),
        ("session cluster without HA, upheavals", "native", false),
    ]) {
        exploration::explore(name, start(mode, is_retained, UPHEAVALS, "1,1,1"));
    }
}

/// The operator is paused in the middle of a pass, or an answer or a request takes its time.
#[test]
fn every_way_through_an_interrupted_pass_of_a_session_cluster_keeps_the_laws() {
    for (name, is_retained) in third([
        ("session cluster, interrupted", true),
        ("session cluster without HA, interrupted", false),
    ]) {
        let mut start = start("native", is_retained, FAULTS, "1,1,0");
        start.is_interrupted = true;
        exploration::explore(name, start);
    }
}
