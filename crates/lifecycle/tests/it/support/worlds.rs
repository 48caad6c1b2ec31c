//! What the simulated worlds of all resources have in common.

use std::collections::{BTreeMap, BTreeSet};

use api::status::{JobStatus, JobStatusState, ReconciliationStatus};
use jiff::{SignedDuration, Timestamp};
use lifecycle::resource::StatusOfJob;
use lifecycle::trigger::known::KnownSnapshot;
use lifecycle::verdict::{Opinion, Verdict};
use lifecycle::wait::Waiting;
use lifecycle::world::{
    Fact, JobManager, PodProblem, PreflightPod, PreflightPods, PreflightState, Stop, TaskManagers,
};
use render::Objects;
use render::preflight::Preflight;
use testing::choices::Choices;
use testing::laws::Law;
use validation::extension::FailurePolicy;

/// Number of revisions kept, as in the real history.
pub(crate) const REVISIONS_MAX: usize = 10;
/// Seconds within which a settled resource becomes idle, and a third of those for which it must stay so.
pub(crate) const COMES_TO_REST: usize = 20;
pub(crate) const RESTS_FOR: usize = 7;
/// Longest wait before the status says so.
const WAITS_FOR: SignedDuration = SignedDuration::from_mins(12);
pub(crate) const OVERRIDES: &str = "pipeline.jobvertex-parallelism-overrides";
/// The one vertex of the job.
pub(crate) const VERTEX: &str = "0a448493b4782967b150582570326227";

/// The law: at rest, the status says whether the job runs, or what is wrong.
#[track_caller]
pub(crate) fn assert_job_is_reported<S: StatusOfJob>(law: Law, status: &S, runs: bool) {
    let is_told_to_run = status.job().state == Some(JobStatusState::Running);
    assert!(
        status.error().is_some() || is_told_to_run == runs,
        "{law}: the status of the job is out of date without a word: {status:?}"
    );
}

/// Returns how long it takes until the status tells what a plan waits for; `None` if it waits for nothing, or tells it.
pub(crate) fn left_to_report(
    law: Law,
    waits: Option<Waiting>,
    now: Timestamp,
) -> Option<SignedDuration> {
    let left = waits?.told_at?.duration_since(now);
    assert!(left <= WAITS_FOR, "{law}: a wait without a limit: {waits:?}");
    left.is_positive().then_some(left)
}

/// Begins to delete a JobManager's Deployment in the foreground: it goes after its pods. Returns whether it was stopped.
pub(crate) fn begin_deletion(job_manager: &mut JobManager, now: Timestamp) -> bool {
    job_manager.is_deleting = true;
    job_manager.available_replicas = 0;
    job_manager.deleting_since = Some(now);
    std::mem::take(&mut job_manager.is_stopped)
}

/// Returns the state that statistics name as the last one: the savepoint if both have the same records.
pub(crate) fn newest<'a>(
    checkpoint: Option<&'a (u64, String)>,
    savepoint: Option<&'a (u64, String)>,
) -> Option<&'a (u64, String)> {
    checkpoint.into_iter().chain(savepoint).max_by_key(|(records, _)| *records)
}

/// Returns a nonce that requests the same once more; a user may have set it to anything.
pub(crate) fn asked_again(nonce: Option<i64>) -> i64 {
    nonce.unwrap_or(0).wrapping_add(1)
}

/// Seconds for which parts of a running JobManager are invisible.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Haze {
    /// Its pod is ready, but REST does not answer.
    pub(crate) silent: u64,
    /// Its pod is not ready, but REST answers.
    pub(crate) unready: u64,
    /// It lists its jobs, but fails to report their checkpoints.
    pub(crate) unread: u64,
}

impl Haze {
    pub(crate) fn is_any(self) -> bool {
        self.silent + self.unready + self.unread > 0
    }

    pub(crate) fn tick(&mut self) {
        self.lift(|seconds| seconds.saturating_sub(1));
    }

    pub(crate) fn lift(&mut self, lift: impl Fn(u64) -> u64) {
        for seconds in [&mut self.silent, &mut self.unready, &mut self.unread] {
            *seconds = lift(*seconds);
        }
    }
}

/// The TaskManagers' Deployment of a standalone cluster.
#[derive(Clone)]
pub(crate) struct Workers {
    pub(crate) fact: TaskManagers,
    pub(crate) image: String,
    /// Seconds until it is gone, once it is being deleted.
    pub(crate) lingers: u64,
}

impl Workers {
    pub(crate) fn of(objects: &Objects, uid: String) -> Option<Self> {
        let deployment = objects.task_managers.as_ref()?;
        Some(Self::new(uid, image_in(deployment)))
    }

    pub(crate) fn new(uid: String, image: String) -> Self {
        let fact = TaskManagers {
            uid,
            owner_uid: Some("u1".to_owned()),
            is_deleting: false,
            deleting_since: None,
        };
        Self { fact, image, lingers: 3 }
    }

    /// Advances by a second; returns whether it still exists.
    pub(crate) fn tick(&mut self) -> bool {
        self.lingers -= u64::from(self.fact.is_deleting);
        self.lingers > 0
    }
}

/// Pods that try a changed spec.
#[derive(Clone, Default)]
pub(crate) struct Trial {
    pub(crate) pods: Vec<PreflightPod>,
    /// Seconds until they are done.
    done_in: u64,
    /// Whether they fail to start.
    is_broken: bool,
    /// Whether a status that arrived late may have dropped the note about them. They end by themselves.
    pub(crate) may_be_left: bool,
}

impl Trial {
    pub(crate) fn known(&self) -> PreflightPods {
        PreflightPods { pods: self.pods.clone(), refusal: None }
    }

    /// Creates the pods; some take longer than others, and some cannot be scheduled.
    pub(crate) fn make(&mut self, preflight: &Preflight, now: Timestamp, is_broken: bool) {
        let moods = if is_broken { 3 } else { 4 };
        let mood = now.as_second().unsigned_abs() % moods;
        let unscheduled = PodProblem {
            reason: "Unschedulable".to_owned(),
            message: "0/1 nodes are available: 1 Insufficient memory.".to_owned(),
        };
        let state = match mood {
            3 => PreflightState::Troubled(unscheduled),
            _ => PreflightState::Pending,
        };
        self.done_in = if mood == 3 { u64::MAX } else { 1 + mood };
        self.is_broken = is_broken;
        for pod in &preflight.pods {
            let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
            if self.pods.iter().all(|known| known.name != name) {
                self.pods.push(PreflightPod {
                    name,
                    digest: preflight.digest.clone(),
                    created: Some(now),
                    state: state.clone(),
                });
            }
        }
    }

    pub(crate) fn remove(&mut self) {
        self.pods.clear();
    }

    /// Advances by a second.
    pub(crate) fn tick(&mut self) {
        self.done_in = self.done_in.saturating_sub(1);
        if self.done_in > 0 {
            return;
        }
        let end = if self.is_broken {
            PreflightState::Troubled(no_such_image())
        } else {
            PreflightState::Passed
        };
        self.pods.iter_mut().for_each(|pod| pod.state = end.clone());
    }
}

/// Why a pod with [`crate::simulation::BROKEN_IMAGE`] does not start.
pub(crate) fn no_such_image() -> PodProblem {
    PodProblem {
        reason: "ImagePullBackOff".to_owned(),
        message: "[flink-main-container] no such image".to_owned(),
    }
}

pub(crate) fn image_in(deployment: &serde_json::Value) -> String {
    image_of(&deployment["spec"]["template"])
}

pub(crate) fn image_of(pod: &serde_json::Value) -> String {
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let is_main = |container: &&serde_json::Value| container["name"] == "flink-main-container";
    let main = containers.iter().find(is_main).unwrap();
    main["image"].as_str().unwrap().to_owned()
}

/// Returns the verdict of a validator that is slow or unavailable most of the time.
pub(crate) fn moody_verdict(now: Timestamp) -> Verdict {
    let opinion = |answer| Opinion {
        validator: "policy".to_owned(),
        on_failure: FailurePolicy::Fail,
        answer,
    };
    match now.as_second() / 2 % 4 {
        0 => Verdict::Pending { before: vec![] },
        1 => Verdict::Given(vec![opinion(Err("no answer".to_owned()))]),
        2 => Verdict::Pending { before: vec![opinion(Err("no answer".to_owned()))] },
        _ => Verdict::Given(vec![opinion(Ok(vec![]))]),
    }
}

/// Returns the references to each savepoint of the job's history from elsewhere: someone refers to the `foreign` one.
pub(crate) fn referred_to(job: &JobStatus, foreign: Option<&str>) -> BTreeMap<String, Vec<String>> {
    let history = job.savepoint_info.iter().flat_map(|info| &info.savepoint_history);
    let paths = history.filter_map(|savepoint| savepoint.location.clone());
    let named = |path: String| {
        let others = foreign.filter(|foreign| *foreign == path).map(|_| "a job elsewhere");
        (path, others.into_iter().map(str::to_owned).collect())
    };
    paths.map(named).collect()
}

/// A world in which states are kept, referred to, and disposed of with their snapshots.
pub(crate) trait KeepsState {
    fn snapshots(&mut self) -> &mut Vec<KnownSnapshot>;

    /// Whether the job runs and its JobManager can dispose of savepoints.
    fn is_job_asked(&self) -> bool;

    /// Whether statistics name it as the last state of a job.
    fn is_newest(&self, path: &str) -> bool;

    /// Returns what is recorded of the resource, without its history.
    fn written(&self) -> serde_json::Value;

    /// Returns the paths that revisions and another job name.
    fn named_elsewhere(&self) -> Vec<&str>;

    /// Whether anything may request a start from the state.
    fn is_referred_to(&self, path: &str) -> bool {
        names_state(&self.written(), path) || self.named_elsewhere().contains(&path)
    }

    fn dispose(&mut self, path: &str);

    /// Deletes a snapshot; one that is the newest state of its job waits for the next one.
    fn delete_snapshot(&mut self, name: &str) {
        let found = self.snapshots().iter().position(|snapshot| snapshot.name == name);
        // A request that arrives late finds none.
        let Some(at) = found else { return };
        let KnownSnapshot { path, is_disposed_of, .. } = self.snapshots()[at].clone();
        if let (Some(path), true) = (path, is_disposed_of) {
            if self.is_newest(&path) {
                self.snapshots()[at].is_deleting = true;
                return;
            }
            self.dispose(&path);
        }
        self.snapshots().remove(at);
    }

    /// The controller of snapshots checks again whether anything needs the state to be disposed of.
    fn go_on_deleting_snapshots(&mut self) {
        if !self.is_job_asked() {
            return;
        }
        let all = self.snapshots().iter();
        let going: Vec<_> = all.filter(|snapshot| snapshot.is_deleting).cloned().collect();
        for KnownSnapshot { name, path, .. } in going {
            if path.is_some_and(|path| self.is_referred_to(&path)) {
                self.snapshots().retain(|snapshot| snapshot.name != name);
            } else {
                self.delete_snapshot(&name);
            }
        }
    }
}

/// Returns the status without the history, which a savepoint leaves when it is disposed of.
pub(crate) fn without_history(job: &JobStatus) -> JobStatus {
    let mut job = job.clone();
    if let Some(info) = &mut job.savepoint_info {
        info.savepoint_history.clear();
    }
    job
}

/// Whether the path appears anywhere in the object, including text within text. A law must not ask the code under test
/// which fields there are.
pub(crate) fn names_state(object: &serde_json::Value, path: &str) -> bool {
    let text = object.to_string().replace('\\', "");
    text.contains(&format!("\"{path}\""))
}

/// Returns the savepoint that is removed from the history first.
pub(crate) fn oldest(job: &JobStatus) -> Option<String> {
    job.savepoint_info.as_ref()?.savepoint_history.first()?.location.clone()
}

/// Returns the parallelism that an override requests.
pub(crate) fn parallelism(overrides: Option<&str>) -> u32 {
    overrides
        .and_then(|text| text.strip_prefix(VERTEX)?.strip_prefix(':')?.parse().ok())
        .unwrap_or(1)
}

/// Returns what Flink reports of the recorded stop: what each trigger saved, and which jobs continued.
pub(crate) fn stop_on_record(
    job: &JobStatus,
    triggers: &BTreeMap<String, String>,
    unstopped: &BTreeSet<String>,
) -> Stop {
    let trigger = job.savepoint_info.as_ref().and_then(|info| info.trigger_id.as_ref());
    let Some((trigger, path)) = trigger.and_then(|id| triggers.get_key_value(id)) else {
        return Stop::NotFound;
    };
    let path = path.clone();
    if unstopped.contains(trigger) {
        return Stop::SavedNotStopped { path, message: "the sink is gone".to_owned() };
    }
    Stop::Completed { path }
}

/// Returns what a status keeps of a spec and its job.
pub(crate) fn recorded(
    reconciliation: &ReconciliationStatus,
    job: &JobStatus,
) -> serde_json::Value {
    serde_json::json!({
        "state": reconciliation.state,
        "last": reconciliation.last_reconciled_spec,
        "stable": reconciliation.last_stable_spec,
        "job": job.state,
        "savepoints": job.savepoint_info.as_ref().map(|info| info.savepoint_history.len()),
    })
}

/// Describes the progress of a change: what is carried out, how the job is stopped for it or was started, its state,
/// and whether a stop is in progress.
pub(crate) fn phase(reconciliation: &ReconciliationStatus, job: &JobStatus) -> String {
    let last = reconciliation.last_reconciled_spec.as_deref().unwrap_or("null");
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    let part = |name: &str| last["spec"]["job"][name].as_str().unwrap_or("none").to_owned();
    let (mode, wanted) = (part("upgradeMode"), part("state"));
    let state = job.state.map_or("none", |it| it.into_str());
    let info = job.savepoint_info.as_ref();
    let is_stopping = info.is_some_and(|info| info.trigger_id.is_some());
    let stop = if is_stopping { ", triggered" } else { "" };
    format!("{:?} {mode} to be {wanted}, job {state}{stop}", reconciliation.state)
}

pub(crate) fn fact<T>(is_up: bool, value: impl FnOnce() -> T) -> Fact<T> {
    if is_up { Fact::Known(value()) } else { Fact::Unknown("no answer".to_owned()) }
}

/// The step and pass before which the operator crashes.
#[derive(Clone, Copy)]
pub(crate) struct Crash {
    pub(crate) pass: usize,
    pub(crate) step: usize,
}

impl Crash {
    pub(crate) fn in_pass(self, pass: usize) -> Option<usize> {
        (self.pass == pass).then_some(self.step)
    }

    pub(crate) fn seed(self) -> u64 {
        u64::try_from(self.pass * 100 + self.step).unwrap()
    }
}

/// Tries every crash in the first `passes`: before each step, and before the last status. The scenario returns the
/// number of steps in the pass.
pub(crate) fn crashes(passes: usize, mut scenario: impl FnMut(Crash) -> usize) {
    for pass in 0..passes {
        let mut step = 0;
        while scenario(Crash { pass, step }) > step {
            step += 1;
        }
    }
}

/// What a simulation did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deeds {
    /// Number of edits and faults.
    pub(crate) users: u64,
    /// Number of seconds.
    pub(crate) world: u64,
    /// Number of the operator's passes, and of the steps carried out.
    pub(crate) passes: u64,
    pub(crate) steps: u64,
}

/// Prints how much of each fits into a minute on one core.
pub(crate) fn print_pace<S: Clone>(
    what: &str,
    start: &S,
    step: impl Fn(&mut S, &mut Choices) -> Deeds,
) {
    let mut choices = Choices::new(1);
    let started = std::time::Instant::now();
    let mut all = Deeds::default();
    while started.elapsed() < MEASURED {
        let mut sim = start.clone();
        for _ in 0..WALK {
            let Deeds { users, world, passes, steps } = step(&mut sim, &mut choices);
            all.users += users;
            all.world += world;
            all.passes += passes;
            all.steps += steps;
        }
    }
    let millis = started.elapsed().as_millis();
    let a_minute = |count: u64| u128::from(count) * 60_000 / millis;
    let [users, world] = [all.users, all.world].map(a_minute);
    let [passes, steps] = [all.passes, all.steps].map(a_minute);
    println!(
        "{what}, in a minute: {} steps: {users} of users and faults, {world} of the world, {steps} \
         of the operator in {passes} passes",
        users + world + steps
    );
    assert!(all.steps > 0);
}

/// Prints what a decision allocates, including its questions and their answers.
pub(crate) fn print_allocations(what: &str, mut decide: impl FnMut()) {
    // The first call creates what is cached, which is not part of a pass.
    decide();
    let info = allocation_counter::measure(decide);
    println!(
        "a pass at rest over {what}: {} allocations, {} bytes, {} at a time",
        info.count_total, info.bytes_total, info.bytes_max
    );
    assert!(info.bytes_current <= 0, "{} bytes are kept", info.bytes_current);
}

/// Seconds of one walk.
const WALK: u64 = 200;
/// Long enough for reproducible results.
const MEASURED: std::time::Duration = std::time::Duration::from_secs(10);

/// A simulation with a log.
pub(crate) trait Logged {
    fn log(&self) -> &[String];
}

/// Runs `scenario`, and prints the log if it fails.
pub(crate) fn show_on_failure<S: Logged>(seed: u64, sim: &mut S, scenario: impl FnOnce(&mut S)) {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scenario(sim)));
    if let Err(panic) = result {
        for line in sim.log().iter().rev().take(40).rev() {
            println!("{line}");
        }
        println!("seed {seed}");
        std::panic::resume_unwind(panic);
    }
}
