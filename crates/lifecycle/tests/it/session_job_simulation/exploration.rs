//! Explores the state machine of session jobs and their snapshots exhaustively within a budget; see
//! [`testing::exploration`].

use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

use api::version::FlinkVersion;
use testing::exploration::{self, Budget, Explored, Rested};
use testing::share::third;

use super::*;
use crate::simulation::upheaval::Change;
use crate::support::worlds::{assert_job_is_reported, left_to_report};

/// Shortest pause of an idle operator; a shorter one means that it expects a change.
const RESTS_FOR: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Edit {
    Parallelism,
    Suspend,
    Resume,
    Savepoint,
    LastState,
    Stateless,
    Invalid,
    /// Parallelism of a vertex, which can be changed while the job runs.
    Overrides,
    /// A manual savepoint, as a snapshot resource.
    TakeSnapshot,
    /// Start from an older state.
    Redeploy,
    Delete,
    Pause,
    Unpause,
    /// An option that contradicts the cluster's.
    Contradict,
    /// Give the session cluster another image, or another Flink version.
    ClusterImage,
    ClusterVersion,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Fault {
    /// The job fails for good.
    Job,
    /// Someone cancels the job.
    Cancel,
    /// The cluster's JobManager dies and comes back.
    Cluster,
    /// The next submission is rejected.
    Submission,
    /// A checkpoint completes, which is no fault but can make others worse.
    Checkpoint,
    /// The API server's store is reset to the state before the last change.
    OneStepBack,
    /// The store is reset to the initial state.
    BackToTheStart,
    /// The savepoint of the stop in progress fails.
    Savepoint,
    /// The JobManager's REST API does not answer for a moment.
    Silence,
    /// It does not report its checkpoints for a moment.
    Unread,
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
    Edit::Suspend,
    Edit::Resume,
    Edit::Savepoint,
    Edit::LastState,
    Edit::Stateless,
    Edit::Invalid,
    Edit::Overrides,
    Edit::TakeSnapshot,
    Edit::Redeploy,
    Edit::Delete,
];
const FAULTS: &[Fault] = &[
    Fault::Job,
    Fault::Cancel,
    Fault::Cluster,
    Fault::Submission,
    Fault::Checkpoint,
    Fault::OneStepBack,
    Fault::BackToTheStart,
];

/// The resource and its status, as stored in the API server.
type Stored = (FlinkSessionJob, SessionJobStatus);

impl Sim {
    fn make(&mut self, edit: Edit) {
        let is_pause = matches!(edit, Edit::Pause | Edit::Unpause);
        if self.resource.metadata.deletion_timestamp.is_some() && !is_pause {
            return;
        }
        match edit {
            Edit::Parallelism => self.edit(|job| job.parallelism = Some(3)),
            Edit::Suspend => self.edit(|job| job.state = JobState::Suspended),
            Edit::Resume => self.edit(|job| job.state = JobState::Running),
            Edit::Savepoint => self.edit(|job| job.upgrade_mode = UpgradeMode::Savepoint),
            Edit::LastState => self.edit(|job| job.upgrade_mode = UpgradeMode::LastState),
            Edit::Stateless => self.edit(|job| job.upgrade_mode = UpgradeMode::Stateless),
            Edit::Invalid => self.edit(|job| job.parallelism = Some(-1)),
            Edit::Overrides => self.configure(OVERRIDES, &format!("{VERTEX}:2")),
            Edit::TakeSnapshot => self.edit(|job| job.savepoint_trigger_nonce = Some(1)),
            Edit::Pause | Edit::Unpause => pause(&mut self.resource.metadata, edit == Edit::Pause),
            Edit::Redeploy => self.redeploy(),
            Edit::Delete => {
                let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now);
                self.resource.metadata.deletion_timestamp = Some(now);
            }
            Edit::Contradict => self.configure("execution.checkpointing.dir", "s3://elsewhere/chk"),
            Edit::ClusterImage => self.cluster.spec.image = Some("flink:another".to_owned()),
            Edit::ClusterVersion => self.cluster.spec.flink_version = Some(FlinkVersion::V2_1),
        }
    }

    fn strike(&mut self, fault: Fault) {
        let running = self.jobs.iter_mut().find(|job| job.state == JobStatusState::Running);
        match (fault, running) {
            (Fault::Job, Some(job)) => job.state = JobStatusState::Failed,
            (Fault::Cancel, Some(job)) => job.state = JobStatusState::Cancelling,
            (Fault::Job | Fault::Cancel, None) => {}
            (Fault::Cluster, _) => self.lose_cluster(),
            (Fault::Submission, _) => self.refuses = true,
            (Fault::Checkpoint, _) => self.checkpoint(),
            (Fault::Savepoint, _) => self.fail_savepoint(),
            (Fault::Silence, _) => self.cloud(|haze| haze.silent = 1),
            (Fault::Unread, _) => self.cloud(|haze| haze.unread = 1),
            (Fault::Change(change), _) => self.change(change),
            (Fault::Java(passes), _) => {
                for _ in 0..passes {
                    self.tick();
                    self.java_pass();
                }
                self.die();
            }
            (Fault::OneStepBack | Fault::BackToTheStart, _) => {
                unreachable!("only the search knows what was stored")
            }
        }
    }
}

#[derive(Clone)]
struct State {
    sim: Sim,
    /// The state before the last change, and the initial one.
    earlier: Rc<Stored>,
    first: Rc<Stored>,
    edits: &'static [Edit],
    faults: &'static [Fault],
    /// Whether passes may see what was stored before the last change.
    may_be_stale: bool,
    /// Whether passes are interrupted by more than crashes, which counts as a fault.
    is_interrupted: bool,
    left: Budget,
    /// Passes left alone in which it only waited.
    quiet: u8,
}

impl State {
    /// Makes one decision and carries out a prefix of its plan, for each possible length.
    fn passes(&self) -> Vec<(Action, Self)> {
        let mut whole = self.clone();
        let plan = whole.sim.pass(None);
        let mut all = vec![(Action::Pass, whole)];
        // The store's reset is known only to a process that saw it and has not reported it yet, and from an unrecorded
        // running job.
        let is_secret =
            self.sim.went_back.is_some() && !self.is_refused() && !self.sim.is_shown_by_what_runs();
        if let Some(crashes) = self.left.crashes.checked_sub(1).filter(|_| !is_secret) {
            // Before the first step nothing has happened.
            for at in 1..=plan.steps.len().max(1) {
                let mut state = self.clone();
                state.left.crashes = crashes;
                state.sim.pass(Some(at));
                all.push((Action::CrashBefore(at), state));
            }
            if self.may_be_stale {
                all.push((Action::StalePass, self.stale_pass(crashes)));
            }
        }
        all
    }

    /// A pass for what was stored before the last change.
    fn stale_pass(&self, crashes: u8) -> Self {
        let mut state = self.clone();
        state.left.crashes = crashes;
        let sim = &mut state.sim;
        sim.die();
        let (newer, current) = (sim.resource.clone(), sim.status.clone());
        (sim.resource, sim.status) = (*self.earlier).clone();
        let known = Operated::stored(sim);
        let plan = sim.plan();
        (sim.resource, sim.status) = (newer, current);
        sim.carry_out(&plan, known, undisturbed);
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

    fn is_refused(&self) -> bool {
        self.sim.status.error.as_deref().is_some_and(|error| error.contains("RecordWentBack"))
    }

    fn stored(&self) -> Stored {
        (self.sim.resource.clone(), self.sim.status.clone())
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
        match fault {
            Fault::OneStepBack => {
                let (resource, status) = (*self.earlier).clone();
                state.sim.set_back(resource, status);
            }
            Fault::BackToTheStart => {
                let (resource, status) = (*self.first).clone();
                state.sim.set_back(resource, status);
            }
            fault => state.sim.strike(fault),
        }
        state
    }

    /// Returns the seconds since the submission with an unknown outcome, capped where they make no more difference.
    fn waited(&self) -> i64 {
        let since = self.sim.status.reconciliation_status.reconciliation_timestamp;
        let waited = (self.sim.now.as_millisecond() - since) / 1000;
        if self.sim.is_open() { waited.min(SUBMISSION_TIMEOUT) } else { 0 }
    }

    /// Whether the JobManager was started after the submission with an unknown outcome.
    fn is_job_manager_new(&self) -> bool {
        let since = self.sim.status.reconciliation_status.reconciliation_timestamp;
        self.sim.is_open() && self.sim.job_manager_start.as_millisecond() > since
    }

    /// Completes what takes time in one step, except pauses after a failure.
    fn hurry(&mut self) {
        self.sim.away = self.sim.away.min(1);
        self.sim.log.clear();
        // Which of two unavailable clusters is reported, and which scaling is rejected, depend on these.
        self.sim.ids = self.sim.ids.next_multiple_of(2);
        if self.sim.now.as_second() % 2 == 1 {
            self.sim.now += SignedDuration::from_secs(1);
        }
    }
}

impl State {
    /// Lets the time pass after which a wait is told, once only that makes a difference. Returns whether the plan waits
    /// for something that it does not report yet.
    fn wait_out(&mut self, plan: &Plan) -> bool {
        let Some(left) = left_to_report(Law::SessionJobTold, plan.waits, self.sim.operator_now())
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
    const RESTS: Law = Law::SessionJobRests;

    fn text(&self) -> String {
        let Sim { resource, status, failed_submission, tried, snapshots, revisions, .. } =
            &self.sim;
        let Sim { jobs, triggers, states, periodic, away, refuses, durable, named, .. } = &self.sim;
        let Sim { delays, late, .. } = &self.sim;
        let mut text = json!([resource.metadata, resource.spec, status]).to_string();
        write!(
            text,
            "{failed_submission:?}{tried:?}{snapshots:?}{revisions:?}{periodic:?}{away}{refuses}{delays}{named:?}"
        )
        .unwrap();
        let is_known = |text: &str, name: &str| text.contains(name);
        let mine = |job: &&Running| !job.state.is_globally_terminal() || is_known(&text, &job.id);
        let jobs: Vec<&Running> = jobs.iter().filter(mine).collect();
        let known: Vec<(&String, &u64)> =
            states.iter().filter(|(path, _)| is_known(&text, path)).collect();
        let triggers: Vec<_> = triggers.iter().filter(|(id, _)| is_known(&text, id)).collect();
        // Only the order of record counts matters.
        let of_job = |job: &Running| [Some(job.records), job.newest().map(|it| it.0)];
        let mut counts: Vec<u64> = known.iter().map(|(_, records)| **records).collect();
        counts.extend(jobs.iter().flat_map(|job| of_job(job)).flatten());
        counts.extend([*durable, self.sim.saved]);
        counts.sort_unstable();
        counts.dedup();
        let rank = |records: u64| counts.iter().position(|count| *count == records);
        let jobs: Vec<_> = jobs
            .iter()
            .map(|job| {
                let checkpoint = job.newest().map(|(records, path)| (rank(*records), path));
                (&job.id, job.asked, job.state, rank(job.records), checkpoint, job.parallelism)
            })
            .collect();
        let known: Vec<_> = known.iter().map(|(path, records)| (path, rank(**records))).collect();
        write!(text, "{jobs:?}{known:?}{triggers:?}{:?}", rank(*durable)).unwrap();
        write!(text, "{:?}", rank(self.sim.saved)).unwrap();
        write!(text, "{:?}{}", self.sim.went_back, self.waited()).unwrap();
        write!(text, "{}{:?}", self.sim.doubt.is_any(), self.sim.haze).unwrap();
        write!(text, "{:?}", self.sim.unlisted).unwrap();
        let unsaved = self.sim.unsaved.iter().filter(|id| is_known(&text, id));
        let unsaved: Vec<_> = unsaved.collect();
        write!(text, "{:?}{unsaved:?}", self.sim.stopping).unwrap();
        let taken = self.sim.taken.iter().filter(|id| is_known(&text, id));
        let taken: Vec<_> = taken.collect();
        write!(text, "{}{taken:?}", self.is_job_manager_new()).unwrap();
        let (operator, cluster) = (&self.sim.operator.base, &self.sim.cluster);
        write!(text, "{}{operator:?}", self.sim.upheaval.text()).unwrap();
        write!(text, "{}", json!([cluster.spec.image, cluster.spec.flink_version])).unwrap();
        for (at, Running { id, asked, checkpoint, .. }) in late {
            let restored = checkpoint.as_ref().map(|(_, path)| path);
            let left = at.duration_since(self.sim.now).as_secs();
            write!(text, "late {id}{asked:?}{restored:?} in {left}").unwrap();
        }
        let may_go_back = self.left.faults > 0 && self.faults.contains(&Fault::OneStepBack);
        if may_go_back || self.may_be_stale && self.left.crashes > 0 {
            let (resource, status) = &*self.earlier;
            write!(text, "{}", json!([resource.metadata, resource.spec, status])).unwrap();
        }
        text
    }

    fn left(&self) -> Budget {
        self.left
    }

    fn phase(&self) -> String {
        let SessionJobStatus { job_status, reconciliation_status, .. } = &self.sim.status;
        phase(reconciliation_status, job_status)
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
            let struck = |fault: &Fault| (Action::Fault(*fault), self.struck(*fault));
            all.extend(self.faults.iter().map(struck));
        }
        for (_, state) in &mut all {
            state.hurry();
            if state.stored() != self.stored() {
                state.earlier = Rc::new(self.stored());
            }
        }
        all
    }

    fn leave_alone(&mut self) {
        self.left = Budget { edits: 0, faults: 0, crashes: 0 };
        self.sim.refuses = false;
        // If no status can be written, nothing can be reported.
        if self.sim.upheaval.is_refused(Refused::Status) {
            self.sim.end_upheaval();
        }
    }

    fn rest(&mut self) -> Rested {
        let before = self.sim.status.clone();
        self.sim.tick();
        let plan = self.sim.pass(None);
        // An operator that looks again this soon expects a change.
        let waits = plan.look_again.is_some_and(|pause| pause < RESTS_FOR)
            || self.sim.has_failed_submission() && !is_paused(&self.sim.resource.metadata);
        // A rejected write is retried forever, and the status says so.
        let is_reported = before.error.is_some() && self.sim.status.error == before.error;
        let is_refused = self.sim.upheaval.stopped_at.is_some() && is_reported;
        self.hurry();
        let steps: Vec<&str> = plan.steps.iter().map(Step::name).collect();
        let is_quiet = steps.is_empty() && self.sim.status == before;
        let is_pending = is_quiet && self.wait_out(&plan);
        Rested {
            is_quiet: is_refused || !waits && is_quiet && !is_pending,
            is_gone: self.sim.is_gone(),
            told: format!("{}: {steps:?}", plan.because),
        }
    }

    fn assert_done(&self) {
        let Sim { status, resource, jobs, .. } = &self.sim;
        let live = jobs.iter().filter(|job| !job.state.is_globally_terminal()).count();
        assert!(live <= 1, "{}: {live} jobs run", Law::SessionJobOneJob);
        if self.sim.is_gone() {
            let left = live + self.sim.late.len();
            assert_eq!(left, 0, "{}: left behind", Law::SessionJobDeletion);
            return;
        }
        let law = Law::SessionJobTold;
        if resource.metadata.deletion_timestamp.is_some() {
            assert!(status.error.is_some(), "{law}: its deletion waits without a word: {status:?}");
            return;
        }
        if is_paused(&resource.metadata) {
            return;
        }
        let is_wanted = match resource.spec.job.as_ref().unwrap().state {
            JobState::Running => LifecycleState::Stable,
            JobState::Suspended => LifecycleState::Suspended,
        };
        let is_done = status.lifecycle_state == Some(is_wanted)
            && status.observed_generation == resource.metadata.generation;
        let is_to_run = is_wanted == LifecycleState::Stable;
        assert!(
            self.sim.named.is_none() || !is_done || !is_to_run,
            "{}: what its user named is forgotten",
            Law::SessionJobRests
        );
        // In the middle of a change an end is what the operator itself recorded.
        let is_over =
            matches!(
                status.reconciliation_status.state,
                ReconciliationState::Deployed | ReconciliationState::RolledBack
            ) && status.job_status.state.is_some_and(JobStatusState::is_globally_terminal);
        let is_created = status.lifecycle_state == Some(LifecycleState::Created);
        assert!(
            is_done || is_over || is_created || status.error.is_some(),
            "{law}: at rest in {:?} without a word: {status:?}",
            status.lifecycle_state
        );
        let runs = jobs.iter().any(|job| job.state == JobStatusState::Running);
        assert_job_is_reported(law, status, runs);
    }
}

impl Sim {
    /// Whether the recorded submission failed.
    fn has_failed_submission(&self) -> bool {
        let id = self.status.job_status.job_id.as_ref();
        let is_it = |failed: &FailedSubmission| Some(&failed.job_id) == id;
        self.is_open() && self.failed_submission.as_ref().is_some_and(is_it)
    }

    /// Whether the outcome of a submission is not recorded.
    fn is_open(&self) -> bool {
        let SessionJobStatus { reconciliation_status, job_status, .. } = &self.status;
        reconciliation_status.state == ReconciliationState::Upgrading
            && job_status.state == Some(JobStatusState::Reconciling)
    }

    fn is_gone(&self) -> bool {
        self.resource.metadata.deletion_timestamp.is_some()
            && self.resource.metadata.finalizers.as_ref().is_none_or(Vec::is_empty)
    }
}

/// Explores a world that is small enough for a fault in each run.
fn explore(name: &str, sim: Sim) {
    explore_within(name, sim, (EDITS, FAULTS), Budget::read_or("1,1,1"));
}

fn explore_within(
    name: &str,
    mut sim: Sim,
    (edits, faults): (&'static [Edit], &'static [Fault]),
    left: Budget,
) {
    sim.settle();
    sim.checkpoint();
    explore_from(name, sim, (edits, faults), left);
}

fn explore_from(
    name: &str,
    sim: Sim,
    (edits, faults): (&'static [Edit], &'static [Fault]),
    left: Budget,
) {
    exploration::explore(name, start(sim, (edits, faults), left));
}

fn start(sim: Sim, (edits, faults): (&'static [Edit], &'static [Fault]), left: Budget) -> State {
    let first = Rc::new((sim.resource.clone(), sim.status.clone()));
    let mut start = State {
        sim,
        earlier: Rc::clone(&first),
        first,
        edits,
        faults,
        may_be_stale: false,
        is_interrupted: false,
        left,
        quiet: 0,
    };
    start.hurry();
    start
}

/// The resource is paused and unpaused at any moment of an upgrade.
#[test]
fn every_way_through_a_pause_of_a_session_job_keeps_the_laws() {
    let edits = &[Edit::Delete, Edit::Pause, Edit::Unpause];
    let faults = &[Fault::Job, Fault::Cancel, Fault::Cluster, Fault::Submission];
    for mode in third(["savepoint", "last-state"]) {
        let mut sim = Sim::new(mode, mode == "last-state");
        sim.settle();
        sim.checkpoint();
        let mut start = start(sim, (edits, faults), Budget::read_or("2,1,0"));
        start.sim.make(Edit::Parallelism);
        exploration::explore(&format!("session job, {mode}, paused"), start);
    }
}

/// The operator is paused in the middle of a pass, or an answer or a request takes its time.
#[test]
fn every_way_through_an_interrupted_pass_of_a_session_job_keeps_the_laws() {
    let edits = &[Edit::Parallelism, Edit::Suspend, Edit::Redeploy, Edit::Delete];
    let faults = &[Fault::Job, Fault::Cancel, Fault::Cluster, Fault::Submission, Fault::Checkpoint];
    for mode in ["savepoint", "last-state"] {
        let mut sim = Sim::new(mode, mode == "last-state");
        sim.settle();
        sim.checkpoint();
        let mut start = start(sim, (edits, faults), Budget::read_or("1,1,0"));
        start.is_interrupted = true;
        exploration::explore(&format!("session job, {mode}, interrupted"), start);
    }
}

/// A pass on what was stored before the last change, and a slow stop that may fail.
#[test]
fn every_stale_pass_alongside_a_stop_that_takes_its_time_keeps_the_laws() {
    let edits = &[Edit::Parallelism, Edit::Suspend, Edit::Redeploy, Edit::Delete];
    let faults = &[Fault::Savepoint, Fault::Job, Fault::Cluster, Fault::Silence, Fault::Unread];
    for mode in ["savepoint", "last-state"] {
        let mut sim = Sim::new(mode, mode == "last-state");
        sim.is_slow = true;
        sim.settle();
        sim.checkpoint();
        let mut start = start(sim, (edits, faults), Budget::read_or("1,1,1"));
        start.may_be_stale = true;
        exploration::explore(&format!("session job, {mode}, stale passes"), start);
    }
}

/// The cluster keeps what it has: nothing runs twice, and nothing starts from older state.
#[test]
fn every_way_of_a_record_that_goes_back_keeps_the_laws() {
    for mode in ["savepoint", "last-state"] {
        let Budget { edits, faults, crashes } = Budget::read();
        let left = Budget { edits: edits.max(1), faults: faults.max(1), crashes };
        let name = format!("session job, {mode}, a store that goes back");
        let faults = &[Fault::OneStepBack, Fault::BackToTheStart];
        explore_within(&name, Sim::new(mode, false), (EDITS, faults), left);
    }
}

/// The job that is missing from the record is deleted with the resource.
#[test]
fn every_deletion_after_a_record_went_back_leaves_no_job() {
    for mode in ["savepoint", "last-state"] {
        let Budget { edits, faults, crashes } = Budget::read();
        let left = Budget { edits: edits.max(2), faults: faults.max(1), crashes };
        let name = format!("session job, {mode}, deleted after the store went back");
        let faults = &[Fault::OneStepBack, Fault::BackToTheStart];
        let edits = &[Edit::Parallelism, Edit::Delete];
        explore_within(&name, Sim::new(mode, false), (edits, faults), left);
    }
}

/// It is unknown whether the job was submitted, and its user changes the spec.
#[test]
fn every_way_of_a_submission_that_arrives_late_keeps_the_laws() {
    let edits = &[Edit::Parallelism, Edit::Suspend, Edit::Resume, Edit::Delete];
    for is_first in [true, false] {
        let mut sim = Sim::new("savepoint", false);
        if !is_first {
            sim.settle();
            sim.checkpoint();
            sim.edit(|job| job.parallelism = Some(5));
        }
        sim.delays = true;
        let budget = Budget::read();
        let left = Budget { edits: budget.edits.max(2), ..budget };
        let name = format!("session job, a submission that arrives late, first: {is_first}");
        explore_from(&name, sim, (edits, FAULTS), left);
    }
}

/// The change is never taken for done, whenever it comes.
#[test]
fn every_way_to_another_state_during_an_upgrade_of_a_session_job_is_followed() {
    for mode in ["savepoint", "last-state"] {
        let Budget { edits, faults, crashes } = Budget::read();
        let left = Budget { edits: edits.max(2), faults, crashes };
        let edits = &[Edit::Parallelism, Edit::Suspend, Edit::Redeploy];
        let name = format!("session job, {mode}, another state");
        explore_within(&name, Sim::new(mode, true), (edits, FAULTS), left);
    }
}

/// The API server rejects an object, the operator has other defaults, its cluster is replaced, or the Java operator
/// takes over for a while. A wrong clock makes waits longer, and is covered by the random walks.
#[test]
fn every_way_through_an_upheaval_of_a_session_job_keeps_the_laws() {
    let edits = &[
        Edit::Parallelism,
        Edit::Suspend,
        Edit::Redeploy,
        Edit::Delete,
        Edit::Contradict,
        Edit::ClusterImage,
        Edit::ClusterVersion,
    ];
    let worlds = [("savepoint", false), ("last-state", false), ("last-state", true)];
    for (mode, is_default) in third(worlds) {
        let name = if is_default { ", HA by default" } else { "" };
        let mut sim = Sim::new(mode, mode == "last-state").with_recorded_cluster(is_default);
        if is_default {
            sim.change(Change::HighAvailability(true));
        }
        let left = Budget::read_or("1,1,1");
        let name = format!("session job, {mode}{name}, upheavals");
        explore_within(&name, sim, (edits, UPHEAVALS), left);
    }
}

const UPHEAVALS: &[Fault] = &[
    Fault::Change(Change::Refused(Refused::Status)),
    Fault::Change(Change::RefusedForGood(Refused::Records)),
    Fault::Change(Change::HighAvailability(true)),
    Fault::Change(Change::HighAvailability(false)),
    Fault::Change(Change::Boldness(true)),
    Fault::Change(Change::Boldness(false)),
    Fault::Java(1),
    Fault::Java(3),
];

#[test]
fn every_way_through_a_savepoint_upgrade_of_a_session_job_keeps_the_laws() {
    explore("session job, savepoint", Sim::new("savepoint", false));
}

#[test]
fn every_way_through_a_last_state_upgrade_of_a_session_job_keeps_the_laws() {
    explore("session job, last-state", Sim::new("last-state", true));
}

/// Without snapshot resources, the job's own history is used.
#[test]
fn every_way_through_snapshots_without_resources_keeps_the_laws() {
    let mut sim = Sim::new("savepoint", false);
    sim.has_snapshot_resources = false;
    explore("session job, snapshots in its status", sim);
}
