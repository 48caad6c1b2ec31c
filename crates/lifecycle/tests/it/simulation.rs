//! The decision against a world in memory: a cluster, Flink, users and crashes, on virtual time.
//!
//! Every job counts records. What a checkpoint or a savepoint holds is durable, and the laws are
//! about it: a stateful job never starts behind what is durable, there is never a second
//! JobManager, a person is asked for the state only in doubt ([`doubt`]), a world at rest is left
//! alone, and when the faults stop the resource settles. A failing case prints its seed, which
//! replays it.

pub(super) mod doubt;
pub(super) mod session;

use std::collections::{BTreeMap, BTreeSet};

use api::deployment::{DeploymentMode, FlinkDeployment};
use api::job::{JobState, UpgradeMode};
use api::state_snapshot::{FlinkStateSnapshot, SnapshotState};
use api::status::{
    DeploymentStatus, JobStatus, JobStatusState, LAST_STATE_PATH, LifecycleState,
    ReconciliationStatus, SnapshotTriggerType,
};
use config::OperatorConfig;
use jiff::{SignedDuration, Timestamp};
use lifecycle::legacy;
use lifecycle::memo::Memo;
use lifecycle::plan::{ClusterStep, Plan, SnapshotStep, Step};
use lifecycle::reconcile::decide;
use lifecycle::snapshot::labels::trigger_type;
use lifecycle::snapshots::are_held;
use lifecycle::trigger::known::{Cause, KnownSnapshot, SnapshotKind};
use lifecycle::trigger::memory::Memory;
use lifecycle::verdict::{Opinion, Validators, Verdict};
use lifecycle::world::Trigger;
use lifecycle::world::{
    Bounds, Checkpoints, Cluster, CompletedState, DeploymentVersion, Fact, Facts, Failure, Fresh,
    HaMetadata, Job, JobManager, Pod, PodProblem, Question, Stop, TaskManagers, World,
};
use render::Objects;
use serde_json::json;
use state::restore_point::RestorePoint;
use validation::extension::FailurePolicy;

use super::support::phases::store_deployment;
use doubt::{Doubt, asks};
use upheaval::{Refused, Upheaval, Upheaved};

use testing::choices::{Choices, another_seed, cases, seeds};

mod care;
mod exploration;
mod generated;
pub(super) mod java;
pub(super) mod upheaval;

/// As many as the real history keeps.
const REVISIONS_KEPT: usize = 10;
/// Seconds in which a resource that has settled comes to rest, and thirds of those that it is seen to.
pub(super) const COMES_TO_REST: usize = 20;
pub(super) const RESTS_FOR: usize = 7;
pub(super) const OVERRIDES: &str = "pipeline.jobvertex-parallelism-overrides";
/// The one vertex of the job.
pub(super) const VERTEX: &str = "0a448493b4782967b150582570326227";
const BROKEN_IMAGE: &str = "flink:no-such-tag";
/// A job with this parallelism fails for good three seconds after its start.
const FAILING_PARALLELISM: i32 = 7;

#[derive(Clone)]
struct Running {
    id: String,
    state: JobStatusState,
    /// Records counted.
    records: u64,
    /// Records in the newest completed checkpoint or restored state, with its path.
    checkpoint: Option<(u64, String)>,
    /// The same of the newest savepoint that it was not stopped with: Flink itself never goes back
    /// to it, and its statistics name it.
    savepoint: Option<(u64, String)>,
    started: Timestamp,
    /// Upper bound of its one vertex.
    parallelism: u32,
}

impl Running {
    fn newest(&self) -> Option<&(u64, String)> {
        newest(self.checkpoint.as_ref(), self.savepoint.as_ref())
    }
}

/// The state that statistics name as the last one: of the same records it is the savepoint.
pub(super) fn newest<'a>(
    checkpoint: Option<&'a (u64, String)>,
    savepoint: Option<&'a (u64, String)>,
) -> Option<&'a (u64, String)> {
    checkpoint.into_iter().chain(savepoint).max_by_key(|(records, _)| *records)
}

/// A nonce that asks for the same once more; a user may have set it to anything.
pub(super) fn asked_again(nonce: Option<i64>) -> i64 {
    nonce.unwrap_or(0).wrapping_add(1)
}

/// Seconds for which parts of a JobManager that runs cannot be seen.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Haze {
    /// Its pod is ready and REST does not answer.
    pub(super) silent: u64,
    /// Its pod is not ready and REST answers.
    pub(super) unready: u64,
    /// It lists its jobs and fails to tell their checkpoints.
    pub(super) unread: u64,
}

impl Haze {
    pub(super) fn is_any(self) -> bool {
        self.silent + self.unready + self.unread > 0
    }

    pub(super) fn tick(&mut self) {
        self.lift(|seconds| seconds.saturating_sub(1));
    }

    pub(super) fn lift(&mut self, lift: impl Fn(u64) -> u64) {
        for seconds in [&mut self.silent, &mut self.unready, &mut self.unread] {
            *seconds = lift(*seconds);
        }
    }
}

/// The TaskManagers' Deployment of a standalone cluster.
#[derive(Clone)]
struct Workers {
    fact: TaskManagers,
    image: String,
    /// Seconds until it is gone, once it is being deleted.
    lingers: u64,
}

impl Workers {
    fn of(objects: &Objects, uid: String) -> Option<Self> {
        let deployment = objects.task_managers.as_ref()?;
        let fact = TaskManagers {
            uid,
            owner_uid: Some("u1".to_owned()),
            is_deleting: false,
            deleting_since: None,
        };
        Some(Self { fact, image: image_in(deployment), lingers: 3 })
    }

    /// A second passes; whether it is still there.
    fn tick(&mut self) -> bool {
        self.lingers -= u64::from(self.fact.is_deleting);
        self.lingers > 0
    }
}

fn image_in(deployment: &serde_json::Value) -> String {
    let containers = deployment["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let is_main = |container: &&serde_json::Value| container["name"] == "flink-main-container";
    let main = containers.iter().find(is_main).unwrap();
    main["image"].as_str().unwrap().to_owned()
}

#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct Sim {
    pub(super) now: Timestamp,
    pub(super) resource: FlinkDeployment,
    pub(super) status: DeploymentStatus,
    operator: OperatorConfig,
    pub(super) job_manager: Option<JobManager>,
    workers: Option<Workers>,
    is_image_broken: bool,
    /// Seconds until the job that was submitted fails for good.
    fails_in: Option<u64>,
    /// Clusters that were created.
    pub(super) starts: usize,
    /// Seconds until the pods of a deleted JobManager are gone.
    pods_linger: u64,
    /// Seconds until the JobManager answers.
    starts_in: u64,
    /// When its process last began.
    came_up: Option<Timestamp>,
    /// What is hard to see of a JobManager that runs, each by itself.
    haze: Haze,
    job: Option<Running>,
    /// What the JobManager will start when it is up: job id and restore path.
    submission: Option<(String, Option<String>)>,
    /// The parallelism that its overrides give the one vertex.
    submitted_parallelism: u32,
    /// Whether it has done so before.
    has_run: bool,
    /// HA metadata by job id: records of the checkpoint that it names.
    pub(super) ha: BTreeMap<String, Option<u64>>,
    /// Records in each savepoint and retained checkpoint.
    pub(super) states: BTreeMap<String, u64>,
    /// Stop-with-savepoint by trigger id.
    triggers: BTreeMap<String, String>,
    /// A stop, or a cancel, is asked for in one second and over in the next.
    is_slow: bool,
    /// Trigger of the stop that is under way.
    stopping: Option<String>,
    /// Triggers of stops whose savepoints failed.
    unsaved: BTreeSet<String>,
    /// The job of the next stop fails when its savepoint is complete, and Flink starts it again.
    fails_while_stopping: bool,
    /// Triggers of stops that ended so.
    unstopped: BTreeSet<String>,
    /// Records that must never be lost again.
    durable: u64,
    /// The same with those in savepoints, which nothing but Flink itself may go back behind.
    saved: u64,
    /// A path that its user named to start from, and that was not followed yet.
    named: Option<String>,
    /// Times that its user was asked which state to go on from.
    asked: usize,
    /// Why they may be.
    doubt: Doubt,
    ids: u64,
    /// Passes that were decided on.
    decisions: u64,
    log: Vec<String>,
    is_high_availability_on: bool,
    has_snapshot_resources: bool,
    pub(super) snapshots: Vec<KnownSnapshot>,
    /// Restore points of former specs.
    revisions: Vec<String>,
    periodic: Memory,
    /// A savepoint that a job elsewhere names.
    foreign: Option<String>,
    pub(super) disposed: usize,
    /// Changes of a running job's parallelism.
    scaled: usize,
    /// Validators outside have a say, and are not always there.
    validators: Validators,
    upheaval: Upheaval,
}

/// What a validator says that is late or away most of the time.
pub(super) fn moody_verdict(now: Timestamp) -> Verdict {
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

/// Who beside the job refers to each savepoint of its history: somebody to the one that is `foreign`.
pub(super) fn referred_to(job: &JobStatus, foreign: Option<&str>) -> BTreeMap<String, Vec<String>> {
    let history = job.savepoint_info.iter().flat_map(|info| &info.savepoint_history);
    let paths = history.filter_map(|savepoint| savepoint.location.clone());
    let named = |path: String| {
        let others = foreign.filter(|foreign| *foreign == path).map(|_| "a job elsewhere");
        (path, others.into_iter().map(str::to_owned).collect())
    };
    paths.map(named).collect()
}

/// A world in which states are kept, referred to, and disposed of with their snapshots.
pub(super) trait KeepsState {
    fn snapshots(&mut self) -> &mut Vec<KnownSnapshot>;

    /// Whether the job runs, and its JobManager can be told what to dispose of.
    fn is_job_asked(&self) -> bool;

    /// Whether statistics name it as the last state of a job.
    fn is_newest(&self, path: &str) -> bool;

    /// What is on record of the resource, without its history.
    fn written(&self) -> serde_json::Value;

    /// What revisions and another job name.
    fn named_elsewhere(&self) -> Vec<&str>;

    /// Whether a start from the state may be asked for, by anybody.
    fn is_referred_to(&self, path: &str) -> bool {
        names_state(&self.written(), path) || self.named_elsewhere().contains(&path)
    }

    fn dispose(&mut self, path: &str);

    /// One that is the newest state of its job goes after the next.
    fn delete_snapshot(&mut self, name: &str) {
        let at = self.snapshots().iter().position(|snapshot| snapshot.name == name).unwrap();
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

    /// The controller of snapshots asks again who needs what it was to dispose of.
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

/// Without the history, which a savepoint leaves when it is disposed of.
pub(super) fn without_history(job: &JobStatus) -> JobStatus {
    let mut job = job.clone();
    if let Some(info) = &mut job.savepoint_info {
        info.savepoint_history.clear();
    }
    job
}

/// Whether the path is written anywhere in it, also in a text within a text. It is no law's to ask the
/// code under test which fields there are.
fn names_state(object: &serde_json::Value, path: &str) -> bool {
    let text = object.to_string().replace('\\', "");
    text.contains(&format!("\"{path}\""))
}

/// The savepoint that goes first from the history.
pub(super) fn oldest(job: &JobStatus) -> Option<String> {
    job.savepoint_info.as_ref()?.savepoint_history.first()?.location.clone()
}

/// What an override asks for.
pub(super) fn parallelism(overrides: Option<&str>) -> u32 {
    overrides
        .and_then(|text| text.strip_prefix(VERTEX)?.strip_prefix(':')?.parse().ok())
        .unwrap_or(1)
}

/// What Flink says of the stop that is on record: what each trigger saved, and those whose jobs went on.
pub(super) fn stop_on_record(
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

/// Of the state with so many records that HA metadata of a job names.
fn path_in_metadata(job_id: &str, records: u64) -> String {
    format!("s3://lake/chk/{job_id}/chk-{records}")
}

fn resource(mode: &str) -> FlinkDeployment {
    serde_json::from_value(json!({
        "apiVersion": "flink.apache.org/v1beta1",
        "kind": "FlinkDeployment",
        "metadata": {"name": "orders", "namespace": "shop", "uid": "u1", "generation": 1},
        "spec": {
            "image": "flink:1.20",
            "flinkVersion": "v1_20",
            "serviceAccount": "flink",
            "flinkConfiguration": {
                "taskmanager.numberOfTaskSlots": "2",
                "high-availability.type": "kubernetes",
                "high-availability.storageDir": "s3://lake/ha",
                "execution.checkpointing.dir": "s3://lake/chk",
                "execution.checkpointing.savepoint-dir": "s3://lake/sp",
            },
            "jobManager": {"resource": {"memory": "1g", "cpu": 1}},
            "taskManager": {"resource": {"memory": "1g", "cpu": 1}},
            "job": {"jarURI": "local:///job.jar", "parallelism": 2, "upgradeMode": mode},
        },
    }))
    .unwrap()
}

/// What a JobManager is made with.
struct Launch {
    /// Absent where nobody noted it.
    generation: Option<i64>,
    image: String,
    parallelism: Option<i32>,
    /// What the overrides give the one vertex.
    overrides: u32,
    job_id: String,
    path: Option<String>,
}

impl Sim {
    fn without_high_availability(mode: &str) -> Self {
        let mut sim = Self::new(mode);
        sim.is_high_availability_on = false;
        sim.resource.spec.flink_configuration.0.shift_remove("high-availability.type");
        sim
    }

    pub(super) fn standalone(mut self) -> Self {
        self.resource.spec.mode = Some(DeploymentMode::Standalone);
        self
    }

    fn is_standalone(&self) -> bool {
        self.resource.spec.mode == Some(DeploymentMode::Standalone)
    }

    pub(super) fn new(mode: &str) -> Self {
        Self {
            is_high_availability_on: true,
            has_snapshot_resources: true,
            snapshots: Vec::new(),
            revisions: Vec::new(),
            periodic: Memory::default(),
            foreign: None,
            disposed: 0,
            scaled: 0,
            validators: Validators::default(),
            upheaval: Upheaval::default(),
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            resource: resource(mode),
            status: DeploymentStatus::default(),
            operator: OperatorConfig::default(),
            job_manager: None,
            workers: None,
            is_image_broken: false,
            fails_in: None,
            starts: 0,
            pods_linger: 0,
            starts_in: 0,
            came_up: None,
            haze: Haze::default(),
            job: None,
            submission: None,
            submitted_parallelism: 1,
            has_run: false,
            ha: BTreeMap::new(),
            states: BTreeMap::new(),
            triggers: BTreeMap::new(),
            is_slow: false,
            stopping: None,
            unsaved: BTreeSet::new(),
            fails_while_stopping: false,
            unstopped: BTreeSet::new(),
            durable: 0,
            saved: 0,
            named: None,
            asked: 0,
            doubt: Doubt::default(),
            ids: 0,
            decisions: 0,
            log: Vec::new(),
        }
    }

    fn id(&mut self) -> String {
        self.ids += 1;
        format!("{:032x}", self.ids)
    }

    pub(super) fn edit(&mut self, edit: impl FnOnce(&mut FlinkDeployment)) {
        let before = self.resource.spec.clone();
        edit(&mut self.resource);
        let job = before.job.clone().unwrap();
        let wanted = self.resource.spec.job.clone().unwrap();
        self.log.push(format!(
            "  user: {:?} {:?} {:?} {:?} -> {:?} {:?} {:?} {:?}",
            before.image,
            job.parallelism,
            job.state,
            job.upgrade_mode,
            self.resource.spec.image,
            wanted.parallelism,
            wanted.state,
            wanted.upgrade_mode,
        ));
        if self.resource.spec != before {
            *self.resource.metadata.generation.as_mut().unwrap() += 1;
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        self.resource.spec.flink_configuration.0.insert(key.to_owned(), json!(value));
    }

    /// Its user drops the state for one that was kept long ago.
    fn redeploy(&mut self) {
        self.redeploy_from("s3://lake/sp/named".to_owned(), 0);
    }

    /// Its user is asked for the state to go on from, and names the newest.
    fn answer_refusal(&mut self) {
        let is_pending = self.status.observed_generation != self.resource.metadata.generation;
        if !asks(self.status.error.as_deref()) || is_pending && self.named.is_some() {
            return;
        }
        self.asked += 1;
        let newest = self.states.iter().max_by_key(|(_, records)| **records);
        let newest = newest.filter(|(_, records)| **records >= self.durable);
        let named = newest.map(|(path, records)| (path.clone(), *records));
        // What starts with nothing has nothing to lose.
        let (path, records) = named.unwrap_or_else(|| ("s3://lake/sp/empty".to_owned(), 0));
        assert!(records >= self.durable, "what is durable is kept somewhere");
        self.redeploy_from(path, records);
    }

    fn redeploy_from(&mut self, path: String, records: u64) {
        self.states.insert(path.clone(), records);
        self.named = Some(path.clone());
        self.edit(|r| {
            let job = Self::job_mut(r);
            job.savepoint_redeploy_nonce = Some(asked_again(job.savepoint_redeploy_nonce));
            job.initial_savepoint_path = Some(path);
        });
    }

    fn job_mut(resource: &mut FlinkDeployment) -> &mut api::job::JobSpec {
        resource.spec.job.as_mut().unwrap()
    }

    // --- the operator ---

    /// One pass that dies before step `crash_at`, or after the last one without writing status.
    pub(super) fn pass(&mut self, crash_at: Option<usize>) -> Plan {
        let plan = self.plan();
        let line = format!("{}: {:?}", plan.because, names(&plan.steps));
        if self.log.last().is_none_or(|last| !last.ends_with(&line)) {
            self.log.push(format!("{} {line}", self.now));
        }
        for (index, step) in plan.steps.iter().enumerate() {
            if crash_at == Some(index) {
                self.log.push(format!("  crash before step {index}"));
                return plan;
            }
            if !self.take(step) {
                return plan;
            }
        }
        if crash_at.is_some_and(|at| at >= plan.steps.len()) {
            self.log.push("  crash before the last status".to_owned());
        } else {
            self.conclude(&plan);
        }
        plan
    }

    /// The status that a pass ends with is written.
    fn conclude(&mut self, plan: &Plan) {
        let mut end = (*plan.status).clone();
        self.upheaval.note_unfinished(&mut end);
        if self.upheaval.stops_at(Refused::Status) {
            return;
        }
        store_deployment(&mut self.status, end);
        self.doubt.assert_asks_only_in_doubt(self.status.error.as_deref());
        self.doubt.end_if(self.has_seen_all());
    }

    fn plan(&mut self) -> Plan {
        self.decisions += 1;
        let fresh = Fresh { job_id: self.id(), trigger_id: self.id(), uuid: self.id() };
        let mut facts = Facts { stopped_at: self.upheaval.stopped_at.clone(), ..Facts::default() };
        let mut memo = Memo::default();
        for _ in 0..20 {
            let world = World {
                has_snapshot_resources: self.has_snapshot_resources,
                fresh: fresh.clone(),
                validators: self.validators.clone(),
                periodic: self.periodic.clone(),
                facts: facts.clone(),
                memo: std::mem::take(&mut memo),
                ..World::new(
                    self.now + self.upheaval.skew,
                    (&self.resource, &self.status),
                    None,
                    &self.operator,
                )
            };
            let decision = decide(&world);
            memo = world.memo;
            match decision {
                Ok(plan) => {
                    if are_held(&facts.references) {
                        self.periodic.held = Some(self.now);
                    }
                    return plan;
                }
                Err(question) => self.answer(question, &mut facts),
            }
        }
        panic!("no decision after fifteen questions: {facts:?}");
    }

    fn is_up(&self) -> bool {
        self.job_manager.as_ref().is_some_and(|jm| jm.available_replicas > 0 && !jm.is_deleting)
    }

    /// Whether its REST API does.
    fn answers(&self) -> bool {
        self.is_up() && self.haze.silent == 0
    }

    /// Its Deployment as the API server shows it.
    fn seen_job_manager(&self) -> Option<JobManager> {
        let is_unready = self.haze.unready > 0;
        self.job_manager.clone().map(|seen| JobManager {
            available_replicas: if is_unready { 0 } else { seen.available_replicas },
            ..seen
        })
    }

    fn answer(&self, question: Question, facts: &mut Facts) {
        let is_up = self.answers();
        match question {
            Question::JobManager => facts.job_manager = Fact::Known(self.seen_job_manager()),
            Question::TaskManagers => {
                facts.task_managers = Fact::Known(self.workers.as_ref().map(|w| w.fact.clone()));
            }
            Question::SessionJobs => facts.session_jobs = Fact::Known(vec![]),
            Question::Pods => facts.pods = Fact::Known(self.pods()),
            Question::Jobs => facts.jobs = fact(is_up, || self.jobs()),
            Question::Checkpoints => {
                let is_told = is_up && self.haze.unread == 0;
                facts.checkpoints = fact(is_told, || self.checkpoints());
            }
            Question::HaMetadata => facts.ha_metadata = Fact::Known(self.ha_metadata()),
            Question::DeployedConfig => {
                let kind = if self.is_high_availability_on { "kubernetes" } else { "NONE" };
                let options = [("high-availability.type", kind)];
                facts.deployed_config = Fact::Known(options.into_iter().collect());
            }
            Question::Retention => facts.retention = fact(is_up, || true),
            Question::Stop => facts.stop = fact(is_up, || self.stop()),
            Question::Cluster => facts.cluster = fact(is_up, Cluster::default),
            Question::Exceptions => facts.exceptions = fact(is_up, Vec::new),
            Question::TaskManagerPods => facts.task_manager_pods = Fact::Known(vec![]),
            Question::ResourceRequirements => {
                let upper = self.job.as_ref().map_or(1, |job| job.parallelism);
                let bounds = [(VERTEX.to_owned(), Bounds { lower: 1, upper })].into();
                facts.resource_requirements = fact(is_up, || bounds);
            }
            Question::JobMetrics => {
                facts.job_metrics = fact(is_up, lifecycle::world::JobMetrics::default);
            }
            Question::Failure => facts.failure = fact(is_up, Failure::default),
            Question::Snapshots => facts.snapshots = Fact::Known(self.snapshots.clone()),
            Question::Savepoint => {
                facts.savepoint = fact(is_up, || self.trigger(SnapshotKind::Savepoint));
            }
            Question::Checkpoint => {
                facts.checkpoint = fact(is_up, || self.trigger(SnapshotKind::Checkpoint));
            }
            Question::Verdict => facts.verdict = Fact::Known(moody_verdict(self.now)),
            Question::Refusal(_) => facts.refusal = Fact::Known(self.upheaval.foretold()),
            Question::Revisions => facts.revisions = Fact::Known(self.revisions.clone()),
            Question::References => {
                let foreign = self.foreign.as_deref();
                facts.references = Fact::Known(referred_to(&self.status.job_status, foreign));
            }
            other @ (Question::Nodes
            | Question::PodNodes
            | Question::JobManagerStart
            | Question::Jar) => panic!("{other:?} is not asked of an application"),
        }
    }

    fn pods(&self) -> Vec<Pod> {
        let runs = self.job_manager.as_ref().is_some_and(|jm| !jm.is_stopped);
        let is_there = runs || self.pods_linger > 0;
        let has_started = self.job_manager.as_ref().is_none_or(|jm| !jm.was_never_available);
        let problem = self.is_image_broken.then(|| PodProblem {
            reason: "ImagePullBackOff".to_owned(),
            message: "[flink-main-container] no such image".to_owned(),
        });
        let created = self.job_manager.as_ref().and_then(|jm| jm.created);
        is_there
            .then(|| Pod {
                name: "orders-0".to_owned(),
                created,
                has_started,
                last_started: self.came_up,
                problem,
                ending_since: (!runs).then_some(self.now),
            })
            .into_iter()
            .collect()
    }

    fn jobs(&self) -> Vec<Job> {
        let job = |job: &Running| Job {
            id: job.id.clone(),
            name: "orders".to_owned(),
            state: job.state,
            start_time: job.started.as_millisecond(),
            modified: None,
        };
        self.job.iter().map(job).collect()
    }

    fn checkpoints(&self) -> Checkpoints {
        let latest = self.job.as_ref().and_then(Running::newest);
        Checkpoints {
            latest: latest.map(|(_, path)| CompletedState { path: path.clone(), at: None }),
            ..Checkpoints::default()
        }
    }

    fn ha_metadata(&self) -> HaMetadata {
        let entry = match self.status.job_status.job_id.as_ref() {
            Some(id) => self.ha.get(id),
            None => self.ha.values().next(),
        };
        HaMetadata { has_job: entry.is_some(), has_checkpoint: entry.is_some_and(Option::is_some) }
    }

    fn stop(&self) -> Stop {
        let info = self.status.job_status.savepoint_info.as_ref();
        let asked = info.and_then(|info| info.trigger_id.as_ref());
        if asked.is_some() && asked == self.stopping.as_ref() {
            return Stop::Pending;
        }
        if asked.is_some_and(|id| self.unsaved.contains(id)) {
            return Stop::Failed { message: "the disk is full".to_owned() };
        }
        stop_on_record(&self.status.job_status, &self.triggers, &self.unstopped)
    }

    fn trigger(&self, kind: SnapshotKind) -> Trigger {
        legacy::pending(&self.status.job_status, kind)
            .and_then(|pending| self.triggers.get(&pending.trigger_id))
            .map_or(Trigger::NotFound, |path| Trigger::Completed { path: Some(path.clone()) })
    }

    /// The controller of snapshots takes them at once.
    fn create_snapshot(&mut self, resource: &FlinkStateSnapshot) {
        let savepoint = resource.spec.savepoint.clone().unwrap_or_default();
        let name = resource.metadata.name.clone().unwrap();
        if self.snapshots.iter().any(|snapshot| snapshot.name == name) {
            // It was created before a crash.
            return;
        }
        let path = if savepoint.already_exists == Some(true) {
            savepoint.path
        } else {
            self.flink_savepoint(&name)
        };
        self.snapshots.push(KnownSnapshot {
            name,
            uid: String::new(),
            version: String::new(),
            kind: SnapshotKind::Savepoint,
            trigger_type: trigger_type(resource),
            state: if path.is_some() { SnapshotState::Completed } else { SnapshotState::Abandoned },
            created: self.now,
            path,
            nonce: None,
            asked_by: None,
            notices: Vec::new(),
            is_disposed_of: savepoint.dispose_on_delete == Some(true),
            is_deleting: false,
        });
    }

    /// Whether Flink would miss the state: it will start from it, or may, or names it as its newest.
    fn is_in_use(&self, path: &str) -> bool {
        let submitted = self.submission.as_ref().and_then(|(_, path)| path.as_deref());
        let may_run_again = self.job_manager.is_some()
            && (!self.has_run || !self.is_high_availability_on)
            && submitted == Some(path);
        may_run_again || self.is_newest(path)
    }

    /// A savepoint of the running job, which goes on.
    fn flink_savepoint(&mut self, name: &str) -> Option<String> {
        let is_up = self.answers();
        let job = self.job.as_mut().filter(|job| is_up && job.state == JobStatusState::Running)?;
        let path = format!("s3://lake/sp/{name}");
        self.states.insert(path.clone(), job.records);
        job.savepoint = Some((job.records, path.clone()));
        self.saved = self.saved.max(job.records);
        Some(path)
    }

    /// Whether to go on with the next step.
    fn take(&mut self, step: &Step) -> bool {
        match step {
            Step::AddFinalizer => {
                let finalizer = api::DEPLOYMENT_FINALIZER.to_owned();
                self.resource.metadata.finalizers = Some(vec![finalizer]);
            }
            Step::RemoveFinalizer => self.resource.metadata.finalizers = None,
            Step::WriteStatus(_) if self.upheaval.stops_at(Refused::Status) => return false,
            Step::RecordRevision(_) | Step::Snapshot(SnapshotStep::Create(_))
                if self.upheaval.stops_at(Refused::Records) =>
            {
                return false;
            }
            Step::WriteStatus(status) => store_deployment(&mut self.status, (**status).clone()),
            Step::RecordRevision(superseded) => {
                if let RestorePoint::Path(path) = &superseded.restore_point {
                    self.revisions.push(path.clone());
                    let excess = self.revisions.len().saturating_sub(REVISIONS_KEPT);
                    self.revisions.drain(..excess);
                }
            }
            Step::Snapshot(SnapshotStep::Create(resource)) => {
                if trigger_type(resource) == SnapshotTriggerType::Periodic {
                    self.periodic.note(SnapshotKind::Savepoint, self.now);
                }
                self.create_snapshot(resource);
            }
            Step::Snapshot(SnapshotStep::Delete { name, .. }) => self.delete_snapshot(name),
            Step::Snapshot(SnapshotStep::Take(snapshot)) => {
                self.periodic.note_taken(snapshot);
                if snapshot.cause == Cause::Periodic {
                    self.periodic.note(snapshot.kind, self.now);
                }
                let id = snapshot.request.trigger_id.clone();
                if let Some(path) = self.flink_savepoint(&id) {
                    self.triggers.insert(id, path);
                }
            }
            Step::Snapshot(SnapshotStep::Dispose { path, .. }) => self.dispose(path),
            Step::Event(_)
            | Step::Own(
                ClusterStep::ScaleTaskManagers { .. }
                | ClusterStep::ForgetJobGraphs { .. }
                | ClusterStep::ApplyIngress(_),
            ) => {}
            Step::TriggerStop { job_id, trigger_id, .. } => self.flink_stop(job_id, trigger_id),
            Step::ScaleJob { job_id, bounds } => {
                // One in two is refused.
                let is_taken = self.answers() && self.now.as_second() % 2 == 1;
                let job = self.job.as_mut().filter(|job| is_taken && job.id == *job_id);
                let Some(job) = job else { return false };
                job.parallelism = bounds[VERTEX].upper;
                if self.is_high_availability_on {
                    // It is kept with the job graph.
                    self.submitted_parallelism = job.parallelism;
                }
                self.scaled += 1;
            }
            Step::CancelJob { job_id, .. } => {
                if self.haze.silent == 0 {
                    self.flink_cancel(job_id);
                }
            }
            Step::Own(ClusterStep::StopJobManager { uid, unstarted }) => {
                self.stop_job_manager(uid, unstarted.as_ref());
            }
            Step::Own(ClusterStep::DeleteJobManager { uid }) => {
                if self.job_manager.as_ref().is_some_and(|jm| jm.uid == *uid) {
                    self.delete_job_manager();
                }
            }
            Step::Own(ClusterStep::DeleteTaskManagers { uid }) => {
                if let Some(workers) = self.workers.as_mut().filter(|w| w.fact.uid == *uid) {
                    workers.fact.is_deleting = true;
                }
            }
            Step::Own(ClusterStep::DeleteHaMetadata { .. }) => self.ha.clear(),
            Step::Own(ClusterStep::FinishCluster(objects)) => self.finish(objects),
            Step::Own(ClusterStep::CreateCluster(_))
                if self.upheaval.stops_at(Refused::JobManager) =>
            {
                return false;
            }
            Step::Own(ClusterStep::CreateCluster(objects)) => self.create(objects),
        }
        true
    }

    fn flink_stop(&mut self, job_id: &str, trigger_id: &str) {
        let hears = self.haze.silent == 0;
        let is_there = hears && self.job.as_ref().is_some_and(|job| job.id == job_id);
        if !self.is_slow {
            if is_there {
                self.finish_stop(trigger_id);
            }
        } else if is_there && self.stopping.is_none() && !self.unsaved.contains(trigger_id) {
            self.stopping = Some(trigger_id.to_owned());
        }
    }

    /// The savepoint of a stop is complete.
    fn finish_stop(&mut self, trigger_id: &str) {
        let path = format!("s3://lake/sp/{trigger_id}");
        let is_up = self.is_up();
        let Some(job) = &mut self.job else { return };
        if !is_up || job.state != JobStatusState::Running {
            return;
        }
        let job_id = &job.id;
        job.checkpoint = Some((job.records, path.clone()));
        self.states.insert(path.clone(), job.records);
        self.durable = self.durable.max(job.records);
        let is_new = self.triggers.insert(trigger_id.to_owned(), path).is_none();
        if is_new && std::mem::take(&mut self.fails_while_stopping) {
            self.unstopped.insert(trigger_id.to_owned());
            // Flink restarts a job from what it was to stop with.
            if self.is_high_availability_on {
                self.ha.insert(job_id.to_owned(), Some(job.records));
                self.states.insert(path_in_metadata(job_id, job.records), job.records);
            }
        } else if !self.unstopped.contains(trigger_id) {
            job.state = JobStatusState::Finished;
            self.ha.remove(job_id);
        }
    }

    fn flink_cancel(&mut self, job_id: &str) {
        if let Some(job) = &mut self.job
            && job.id == job_id
            && !job.state.is_globally_terminal()
        {
            job.state = JobStatusState::Cancelling;
            if !self.is_slow {
                self.finish_cancel();
            }
        }
    }

    fn finish_cancel(&mut self) {
        if let Some(job) = &mut self.job
            && job.state == JobStatusState::Cancelling
        {
            job.state = JobStatusState::Canceled;
            self.ha.remove(&job.id);
        }
    }

    /// The savepoint of the stop that is under way fails, and the job goes on.
    fn fail_savepoint(&mut self) {
        self.unsaved.extend(self.stopping.take());
    }

    fn lose_job_manager(&mut self) {
        self.job_manager = None;
        self.end_process();
    }

    /// Somebody deletes its Deployment.
    fn lose_deployment(&mut self) {
        self.doubt.hide();
        self.lose_job_manager();
    }

    /// A job that goes on by HA metadata does so from its checkpoints, whatever savepoints there are.
    fn go_back_to_checkpoints(&mut self) {
        let runs = self.job.as_ref().is_some_and(|job| !job.state.is_globally_terminal());
        if self.is_high_availability_on && runs {
            self.saved = self.saved.min(self.durable);
        }
    }

    fn end_process(&mut self) {
        self.go_back_to_checkpoints();
        self.job = None;
        self.submission = None;
        self.stopping = None;
        self.triggers.clear();
        self.pods_linger = 3;
    }

    fn stop_job_manager(&mut self, uid: &str, unstarted: Option<&DeploymentVersion>) {
        let is_meant = |jm: &&mut JobManager| {
            jm.uid == uid && unstarted.is_none_or(|version| jm.version.as_ref() == Some(version))
        };
        let Some(job_manager) = self.job_manager.as_mut().filter(is_meant) else { return };
        assert!(!job_manager.is_stopped, "it is stopped already");
        job_manager.is_stopped = true;
        job_manager.is_stopped_unstarted = unstarted.is_some();
        job_manager.is_deleting = true;
        job_manager.available_replicas = 0;
        self.end_process();
    }

    /// Kubernetes may end TaskManagers before the JobManager, whose job then uses up its restarts.
    fn delete_job_manager(&mut self) {
        let was_stopped = self.job_manager.as_ref().is_some_and(|jm| jm.is_stopped);
        let lingers = self.pods_linger;
        if !was_stopped {
            self.fail_job();
        }
        self.lose_job_manager();
        if was_stopped {
            self.pods_linger = lingers;
        }
    }

    fn create_workers(&mut self, objects: &Objects) {
        if self.workers.is_none() {
            let uid = self.id();
            self.workers = Workers::of(objects, uid);
        }
    }

    fn create(&mut self, objects: &Objects) {
        if self.job_manager.is_some() {
            return;
        }
        assert_eq!(self.pods_linger, 0, "a second JobManager beside the pods of the first");
        if let Some(workers) = &self.workers {
            assert!(!workers.fact.is_deleting, "a JobManager beside TaskManagers that go");
            assert_eq!(
                workers.image,
                image_in(&objects.deployment),
                "TaskManagers of another spec"
            );
        }
        let text = objects.config_maps[0]["data"]["flink-conf.yaml"].as_str().unwrap();
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key}: ")));
            line.map(str::to_owned)
        };
        let annotations = &objects.deployment["metadata"]["annotations"];
        let generation = annotations[api::GENERATION_ANNOTATION].as_str().unwrap();
        self.is_high_availability_on =
            value("high-availability.type").is_some_and(|kind| kind == "kubernetes");
        self.launch(Launch {
            generation: generation.parse().ok(),
            image: image_in(&objects.deployment),
            parallelism: value("parallelism.default").and_then(|text| text.parse().ok()),
            overrides: parallelism(value(OVERRIDES).as_deref()),
            job_id: value("$internal.pipeline.job-id").unwrap(),
            path: value("execution.state-recovery.path")
                .or_else(|| value("execution.savepoint.path")),
        });
        self.finish(objects);
    }

    /// There is a Deployment, whose JobManager will start the job.
    fn launch(&mut self, launch: Launch) {
        let Launch { generation, image, parallelism, overrides, job_id, path } = launch;
        self.is_image_broken = image == BROKEN_IMAGE;
        self.starts += 1;
        self.fails_in = (parallelism == Some(FAILING_PARALLELISM)).then_some(8);
        self.submission = Some((job_id, path));
        self.submitted_parallelism = overrides;
        self.has_run = false;
        self.starts_in = 5;
        self.came_up = None;
        self.job_manager = Some(JobManager {
            uid: self.id(),
            owner_uid: Some("u1".to_owned()),
            generation,
            is_deleting: false,
            is_stopped: false,
            version: Some(DeploymentVersion { resource: "1".to_owned(), generation: 1 }),
            is_stopped_unstarted: false,
            deleting_since: None,
            replicas: 1,
            available_replicas: 0,
            replica_failure: None,
            was_never_available: true,
            created: Some(self.now),
        });
    }

    // --- the world ---

    /// A second passes.
    pub(super) fn tick(&mut self) {
        self.now += SignedDuration::from_secs(1);
        self.go_on_deleting_snapshots();
        self.haze.tick();
        self.upheaval.tick();
        self.pods_linger = self.pods_linger.saturating_sub(1);
        if let Some(trigger_id) = self.stopping.take() {
            self.finish_stop(&trigger_id);
        }
        self.finish_cancel();
        let runs = self.job_manager.as_ref().is_some_and(|jm| !jm.is_stopped);
        if runs && !self.is_image_broken && !self.is_up() {
            self.starts_in = self.starts_in.saturating_sub(1);
            if self.starts_in == 0 {
                let job_manager = self.job_manager.as_mut().unwrap();
                job_manager.available_replicas = 1;
                job_manager.version =
                    Some(DeploymentVersion { resource: "2".to_owned(), generation: 2 });
                job_manager.was_never_available = false;
                self.came_up = Some(self.now);
                // The job result store knows a job that has ended: it is not run again.
                if self.job.is_none() {
                    self.flink_start();
                }
            }
        }
        if self.workers.as_mut().is_some_and(|workers| !workers.tick()) {
            self.workers = None;
        }
        self.fails_in = self.fails_in.map(|seconds| seconds.saturating_sub(1));
        if self.fails_in == Some(0) {
            self.fail_job();
        }
        let has_slots = self.has_slots();
        let Some(job) = &mut self.job else { return };
        match job.state {
            JobStatusState::Running if has_slots => job.records += 7,
            JobStatusState::Running => job.state = JobStatusState::Restarting,
            JobStatusState::Restarting if has_slots => job.state = JobStatusState::Running,
            _ => {}
        }
    }

    /// Whether the job runs with the parallelism that its overrides ask for.
    fn is_scaled(&self) -> bool {
        let wanted = self.resource.spec.flink_configuration.0.get(OVERRIDES);
        let wanted = parallelism(wanted.and_then(serde_json::Value::as_str));
        self.job.as_ref().is_some_and(|job| job.parallelism == wanted)
    }

    fn has_slots(&self) -> bool {
        !self.is_standalone() || self.workers.as_ref().is_some_and(|w| !w.fact.is_deleting)
    }

    /// Somebody deletes a Deployment of the standalone cluster.
    fn lose_part(&mut self, is_job_manager: bool) {
        let runs = self.job.as_ref().is_some_and(|job| job.state == JobStatusState::Running);
        if !self.is_standalone() || !self.is_high_availability_on || !runs || !self.is_up() {
            return;
        }
        self.log.push(format!("  lost: JobManager {is_job_manager}"));
        if is_job_manager {
            self.lose_deployment();
        } else {
            self.workers = None;
        }
    }

    /// Restart attempts are used up.
    fn fail_job(&mut self) {
        if let Some(job) = &mut self.job
            && job.state == JobStatusState::Running
        {
            job.state = JobStatusState::Failed;
            self.ha.remove(&job.id);
        }
    }

    fn flink_start(&mut self) {
        let (id, path) = self.submission.clone().unwrap();
        let in_metadata = self.ha.get(&id).copied();
        let restored = match (in_metadata, path.as_deref()) {
            // HA metadata wins over the path of the configuration.
            (Some(Some(records)), _) => Some((records, path_in_metadata(&id, records))),
            (_, Some(LAST_STATE_PATH)) => {
                // No such savepoint: the start fails, as it must when HA metadata is gone.
                self.job = Some(Running {
                    id,
                    state: JobStatusState::Failed,
                    records: 0,
                    checkpoint: None,
                    savepoint: None,
                    started: self.now,
                    parallelism: self.submitted_parallelism,
                });
                return;
            }
            (_, Some(path)) => {
                let records = *self.states.get(path).expect("a path that was never written");
                Some((records, path.to_owned()))
            }
            (_, None) => None,
        };
        let records = restored.as_ref().map_or(0, |(records, _)| *records);
        let is_stateful =
            self.resource.spec.job.as_ref().unwrap().upgrade_mode != UpgradeMode::Stateless;
        let is_named = self.named.take_if(|named| path.as_ref() == Some(named)).is_some();
        if is_named {
            self.doubt.end();
        }
        let is_rerun = std::mem::replace(&mut self.has_run, true) && !self.is_high_availability_on;
        if is_rerun {
            // Flink's own doing. While nothing else is on record that run is the one that counts.
            if !is_stateful || !self.is_end_on_record() {
                (self.durable, self.saved) = (records, records);
            }
        } else if is_stateful && !is_named {
            assert!(
                records >= self.durable,
                "started from {records} records although {} are durable",
                self.durable
            );
            assert!(
                records >= self.saved || in_metadata.is_some(),
                "started from {records} records although {} were saved",
                self.saved
            );
        } else {
            (self.durable, self.saved) = (records, records);
        }
        if self.is_high_availability_on {
            self.ha.entry(id.clone()).or_insert(None);
        }
        self.job = Some(Running {
            id,
            state: JobStatusState::Running,
            records,
            checkpoint: restored,
            savepoint: None,
            started: self.now,
            parallelism: self.submitted_parallelism,
        });
    }

    /// Whether a stop, a cancellation or an end of the job is on record.
    fn is_end_on_record(&self) -> bool {
        let job = &self.status.job_status;
        let is_stopping = job.savepoint_info.as_ref().is_some_and(|info| {
            info.trigger_id.is_some() && info.trigger_type == Some(SnapshotTriggerType::Upgrade)
        });
        let is_over = job.state.is_some_and(JobStatusState::is_globally_terminal);
        is_stopping || is_over || job.state == Some(JobStatusState::Cancelling)
    }

    pub(super) fn checkpoint(&mut self) {
        let Some(job) = &mut self.job else { return };
        // While a job is stopped it takes none.
        if job.state != JobStatusState::Running || self.stopping.is_some() {
            return;
        }
        let path = path_in_metadata(&job.id, job.records);
        self.states.insert(path.clone(), job.records);
        if self.is_high_availability_on {
            self.ha.insert(job.id.clone(), Some(job.records));
        }
        self.durable = self.durable.max(job.records);
        job.checkpoint = Some((job.records, path));
    }

    /// The JobManager's process dies and comes back in the same Deployment.
    fn crash_job_manager(&mut self) {
        if !self.is_up() {
            return;
        }
        let ended = self.job.as_ref().is_some_and(|job| job.state.is_globally_terminal());
        self.log.push("  lost: its process".to_owned());
        self.doubt.hide();
        self.go_back_to_checkpoints();
        let job_manager = self.job_manager.as_mut().unwrap();
        job_manager.available_replicas = 0;
        self.stopping = None;
        self.triggers.clear();
        self.starts_in = 3;
        // Without high availability there is no job result store that remembers.
        if !ended || !self.is_high_availability_on {
            self.job = None;
        }
    }

    fn misfortune(&mut self, choices: &mut Choices) {
        match choices.below(24) {
            22 | 23 => {
                let parallelism = 1 + choices.below(4);
                self.edit(|r| {
                    let options = &mut r.spec.flink_configuration.0;
                    let overrides = format!("{VERTEX}:{parallelism}");
                    options.insert(OVERRIDES.to_owned(), json!(overrides));
                });
            }
            0 => self.edit(|r| {
                let job = Self::job_mut(r);
                job.parallelism = Some(job.parallelism.unwrap_or(1) % 6 + 1);
            }),
            1 => self.edit(|r| Self::job_mut(r).state = JobState::Suspended),
            2 | 3 => self.edit(|r| Self::job_mut(r).state = JobState::Running),
            4 => self.edit(|r| r.spec.image = Some(BROKEN_IMAGE.to_owned())),
            5 | 6 => self.edit(|r| r.spec.image = Some("flink:1.20".to_owned())),
            7 => self.edit(|r| Self::job_mut(r).upgrade_mode = UpgradeMode::Savepoint),
            8 => self.edit(|r| Self::job_mut(r).upgrade_mode = UpgradeMode::LastState),
            // An edit that cannot work.
            9 => self.edit(|r| Self::job_mut(r).parallelism = Some(-1)),
            10 => self.crash_job_manager(),
            11 => self.fail_job(),
            // Somebody cancels it behind the operator's back.
            12 if choices.below(2) == 0 => {
                let running = self.job.as_ref().filter(|job| job.state == JobStatusState::Running);
                if let Some(id) = running.map(|job| job.id.clone()) {
                    self.flink_cancel(&id);
                }
            }
            12 => self.edit(|r| Self::job_mut(r).parallelism = Some(FAILING_PARALLELISM)),
            15 => self.lose_part(true),
            16 => self.lose_part(false),
            17 if self.stopping.is_some() => self.fail_savepoint(),
            17 => self.fails_while_stopping = true,
            // Its process dies and does not come back for long, whatever is under way.
            18 if self.is_up() => {
                self.crash_job_manager();
                self.starts_in = 60;
            }
            19 => self.cloud(|haze| haze.silent = 1 + choices.below(60)),
            20 => self.cloud(|haze| haze.unready = 1 + choices.below(30)),
            21 => self.cloud(|haze| haze.unread = 1 + choices.below(60)),
            _ => self.edit(|r| Self::job_mut(r).parallelism = Some(3)),
        }
    }

    /// Something of the JobManager cannot be seen for a while.
    fn cloud(&mut self, cloud: impl FnOnce(&mut Haze)) {
        if self.is_up() {
            cloud(&mut self.haze);
            self.log.push(format!("  hard to see: {:?}", self.haze));
            self.doubt.hide();
        }
    }

    fn heal(&mut self) {
        // What does not answer for long is rolled back, and rightly so.
        self.haze = Haze::default();
        self.end_upheaval();
        self.edit(|r| {
            r.spec.image = Some("flink:1.20".to_owned());
            // A job that has failed stays so until a person asks for another try.
            r.spec.restart_nonce = Some(asked_again(r.spec.restart_nonce));
            let job = Self::job_mut(r);
            job.parallelism = Some(4);
            job.state = JobState::Running;
        });
    }

    pub(super) fn settle(&mut self) {
        for _ in 0..400 {
            self.tick();
            self.pass(None);
            self.answer_refusal();
            let is_stable = self.status.lifecycle_state == Some(LifecycleState::Stable)
                && self.status.observed_generation == self.resource.metadata.generation;
            if is_stable && self.has_slots() && self.is_scaled() {
                return;
            }
        }
        panic!("not stable: {:?} {:?}", self.status.lifecycle_state, self.status.error);
    }

    fn assert_at_rest(&mut self) {
        for _ in 0..3 {
            self.tick();
            let before = self.status.clone();
            let plan = self.pass(None);
            assert!(plan.steps.is_empty(), "at rest: {:?}", names(&plan.steps));
            assert_eq!(before, self.status);
        }
    }

    /// The law: left alone for long enough, the operator writes nothing any more.
    fn assert_comes_to_rest(&mut self) {
        for _ in 0..COMES_TO_REST {
            self.tick();
            self.pass(None);
            self.answer_refusal();
        }
        for _ in 0..RESTS_FOR {
            self.assert_at_rest();
        }
    }

    /// What there is in the end, whatever came in between: without times, and without ids, which a
    /// start after a crash may draw anew.
    fn end(&self) -> serde_json::Value {
        let status = &self.status;
        serde_json::json!({
            "record": recorded(&status.reconciliation_status, &status.job_status),
            "lifecycle": status.lifecycle_state,
            "jobManager": status.job_manager_deployment_status,
            "info": status.cluster_info,
            "error": status.error,
            "generation": self.job_manager.as_ref().map(|job_manager| job_manager.generation),
            "workers": self.workers.as_ref().map(|workers| &workers.image),
            "starts": self.starts,
            "metadata": self.ha.len(),
            "savepoints": self.states.len(),
            "snapshots": self.snapshots.len(),
        })
    }
}

/// What a status keeps of a spec and its job.
pub(super) fn recorded(
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

/// How a change stands: what is carried out, how the job is stopped for it or was started, what the job
/// does, and whether a stop is under way.
pub(super) fn phase(reconciliation: &ReconciliationStatus, job: &JobStatus) -> String {
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

fn fact<T>(is_up: bool, value: impl FnOnce() -> T) -> Fact<T> {
    if is_up { Fact::Known(value()) } else { Fact::Unknown("no answer".to_owned()) }
}

fn names(steps: &[Step]) -> Vec<&'static str> {
    steps.iter().map(Step::name).collect()
}

/// Before which step of which pass the operator crashes.
#[derive(Clone, Copy)]
pub(super) struct Crash {
    pub(super) pass: usize,
    step: usize,
}

impl Crash {
    pub(super) fn in_pass(self, pass: usize) -> Option<usize> {
        (self.pass == pass).then_some(self.step)
    }

    pub(super) fn seed(self) -> u64 {
        u64::try_from(self.pass * 100 + self.step).unwrap()
    }
}

/// Every crash in the first `passes`: before each step, and before the last status. The scenario
/// says how many steps the pass had.
pub(super) fn crashes(passes: usize, mut scenario: impl FnMut(Crash) -> usize) {
    for pass in 0..passes {
        let mut step = 0;
        while scenario(Crash { pass, step }) > step {
            step += 1;
        }
    }
}

/// What a simulation was made to do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deeds {
    /// Edits and faults.
    pub(super) users: u64,
    /// Seconds that passed.
    pub(super) world: u64,
    /// Passes of the operator, and steps of them that were carried out.
    pub(super) passes: u64,
    pub(super) steps: u64,
}

/// Prints how much of each a minute has room for, on one core.
pub(super) fn tell_pace<S: Clone>(
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

/// Prints what a decision allocates, with its questions and the answers to them.
pub(super) fn tell_allocations(what: &str, mut decide: impl FnMut()) {
    // What is made once and kept is no pass's.
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
/// Long enough to be the same the next time.
const MEASURED: std::time::Duration = std::time::Duration::from_secs(10);

/// A simulation that tells what it has done.
pub(super) trait Logged {
    fn log(&self) -> &[String];
}

impl KeepsState for Sim {
    fn snapshots(&mut self) -> &mut Vec<KnownSnapshot> {
        &mut self.snapshots
    }

    fn is_job_asked(&self) -> bool {
        let job = self.job.as_ref().filter(|job| job.state == JobStatusState::Running);
        job.is_some() && self.is_up()
    }

    fn is_newest(&self, path: &str) -> bool {
        self.job.as_ref().and_then(Running::newest).is_some_and(|(_, newest)| newest == path)
    }

    fn written(&self) -> serde_json::Value {
        let status = &self.status;
        json!([
            self.resource.spec,
            without_history(&status.job_status),
            status.reconciliation_status
        ])
    }

    fn named_elsewhere(&self) -> Vec<&str> {
        let revisions = self.revisions.iter().map(String::as_str);
        revisions.chain(self.foreign.as_deref()).collect()
    }

    /// The law: what anything refers to or goes on from stays, and what is durable is kept somewhere.
    fn dispose(&mut self, path: &str) {
        assert!(!self.is_referred_to(path), "{path} is disposed of and named");
        assert!(!self.is_in_use(path), "{path} is disposed of and in use");
        self.disposed += usize::from(self.states.remove(path).is_some());
        let newest = self.states.values().max().copied().unwrap_or_default();
        assert!(newest >= self.durable.max(self.saved), "with {path} goes what is durable");
    }
}

impl Logged for Sim {
    fn log(&self) -> &[String] {
        &self.log
    }
}

/// Runs `scenario` and shows what led to a failure.
pub(super) fn show_on_failure<S: Logged>(seed: u64, sim: &mut S, scenario: impl FnOnce(&mut S)) {
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| scenario(sim)));
    if let Err(panic) = result {
        for line in sim.log().iter().rev().take(40).rev() {
            println!("{line}");
        }
        println!("seed {seed}");
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_new_job_becomes_stable_and_is_then_left_alone() {
    for mode in ["stateless", "savepoint", "last-state"] {
        for mut sim in [Sim::new(mode), Sim::new(mode).standalone()] {
            sim.settle();
            for _ in 0..5 {
                sim.tick();
                let before = sim.status.clone();
                let plan = sim.pass(None);
                assert!(plan.steps.is_empty(), "{mode}: at rest: {:?}", names(&plan.steps));
                assert_eq!(before, sim.status, "{mode}");
            }
        }
    }
}

#[test]
fn users_faults_and_crashes_lose_no_record() {
    let (started, mut decisions, mut asked) = (std::time::Instant::now(), 0, 0);
    let mut scaled = 0;
    for seed in seeds(32) {
        let mut choices = Choices::new(seed);
        let mode = if seed % 2 == 0 { "savepoint" } else { "last-state" };
        let mut sim =
            if seed % 3 == 0 { Sim::without_high_availability(mode) } else { Sim::new(mode) };
        sim.validators.has_any = seed % 4 == 1;
        sim.is_slow = seed % 7 < 3;
        if seed % 4 < 2 {
            sim.set("kubernetes.operator.deployment.readiness.timeout", "20 s");
        }
        if seed % 5 < 2 {
            sim = sim.standalone();
        }
        if seed % 8 < 5 {
            sim.set("jobmanager.scheduler", "adaptive");
        }
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..120 {
                sim.tick();
                if choices.below(4) == 0 {
                    sim.checkpoint();
                }
                if choices.below(9) == 0 {
                    sim.misfortune(&mut choices);
                }
                let crash_at = choices.crash(5, 7);
                sim.pass(crash_at);
            }
            sim.heal();
            sim.settle();
            sim.assert_comes_to_rest();
        });
        decisions += sim.decisions;
        asked += sim.asked;
        scaled += sim.scaled;
    }
    assert!(scaled > 0, "nothing is ever scaled in place");
    let seconds = started.elapsed().as_secs().max(1);
    println!("{decisions} passes, {} a minute", decisions * 60 / seconds);
    println!("{asked} times only a person knew which state is the newest");
}

#[test]
fn a_crash_before_any_step_of_an_upgrade_changes_nothing_in_the_end() {
    for mode in ["savepoint", "last-state", "stateless"] {
        for mut sim in [Sim::new(mode), Sim::new(mode).standalone()] {
            sim.settle();
            sim.checkpoint();
            sim.edit(|r| Sim::job_mut(r).parallelism = Some(5));
            let mut undisturbed = sim.clone();
            undisturbed.settle();
            let end = undisturbed.end();
            crashes(12, |crash| {
                let mut steps = 0;
                show_on_failure(crash.seed(), &mut sim.clone(), |sim| {
                    for pass in 0..=crash.pass {
                        sim.tick();
                        steps = sim.pass(crash.in_pass(pass)).steps.len();
                    }
                    sim.settle();
                    assert_eq!(sim.end(), end);
                });
                steps
            });
        }
    }
}

#[test]
fn a_savepoint_is_kept_in_the_status_where_snapshots_are_no_resources() {
    let mut sim = Sim::new("savepoint");
    sim.has_snapshot_resources = false;
    sim.settle();
    sim.edit(|r| Sim::job_mut(r).parallelism = Some(5));
    sim.settle();
    let info = sim.status.job_status.savepoint_info.unwrap();
    assert_eq!(info.savepoint_history.len(), 1);
    let location = info.last_savepoint.unwrap().location;
    assert_eq!(location, info.savepoint_history[0].location);
    assert!(sim.states.contains_key(&location.unwrap()));
}

#[test]
fn savepoints_come_and_go_and_none_that_is_needed_is_disposed_of() {
    let mut disposed = [0, 0];
    for seed in seeds(32) {
        let mut choices = Choices::new(seed);
        let mut sim = Sim::new(if seed % 3 == 0 { "last-state" } else { "savepoint" });
        sim.has_snapshot_resources = seed % 2 == 0;
        sim.resource.metadata.creation_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(sim.now));
        for (key, value) in [
            ("kubernetes.operator.periodic.savepoint.interval", "7 s"),
            ("kubernetes.operator.savepoint.history.max.count", "2"),
            ("kubernetes.operator.savepoint.history.max.age", "40 s"),
            ("kubernetes.operator.savepoint.dispose-on-delete", "true"),
        ] {
            sim.set(key, value);
        }
        show_on_failure(seed, &mut sim, |sim| {
            sim.settle();
            for _ in 0..200 {
                sim.tick();
                if choices.below(12) == 0 {
                    sim.misfortune(&mut choices);
                }
                if choices.below(20) == 0 {
                    sim.edit(|r| {
                        let job = Sim::job_mut(r);
                        job.savepoint_trigger_nonce =
                            Some(asked_again(job.savepoint_trigger_nonce));
                    });
                }
                if choices.below(10) == 0 {
                    sim.foreign = oldest(&sim.status.job_status);
                }
                if choices.below(30) == 0 {
                    // Another process, which remembers nothing.
                    sim.periodic = Memory::default();
                }
                let crash_at = choices.crash(6, 7);
                sim.pass(crash_at);
            }
            sim.heal();
            // Savepoints come by the clock for ever.
            sim.edit(|r| {
                let options = &mut r.spec.flink_configuration.0;
                options.shift_remove("kubernetes.operator.periodic.savepoint.interval");
            });
            sim.settle();
            sim.checkpoint();
            // Longer than they are kept.
            (0..45).for_each(|_| sim.tick());
            sim.assert_comes_to_rest();
        });
        disposed[usize::from(sim.has_snapshot_resources)] += sim.disposed;
    }
    assert!(disposed.iter().all(|count| *count > 0), "something is disposed of: {disposed:?}");
}

#[test]
fn a_deleted_resource_ends_whatever_its_state() {
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mut sim = Sim::new("last-state");
        if seed % 2 == 0 {
            sim = sim.standalone();
        }
        show_on_failure(seed, &mut sim, |sim| {
            for _ in 0..choices.below(30) {
                sim.tick();
                if choices.below(6) == 0 {
                    sim.misfortune(&mut choices);
                }
                sim.pass(None);
            }
            sim.resource.metadata.deletion_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(sim.now));
            for _ in 0..60 {
                sim.tick();
                let crash_at = choices.crash(4, 4);
                sim.pass(crash_at);
            }
            assert!(sim.job_manager.is_none() && sim.workers.is_none());
            assert!(sim.resource.metadata.finalizers.as_ref().is_none_or(Vec::is_empty));
        });
    }
}

#[test]
#[ignore = "measures; see docs/testing.md"]
fn passes_of_deployments_in_a_minute() {
    let mut sim = Sim::new("savepoint");
    sim.settle();
    tell_pace("deployments", &sim, |sim, choices| {
        sim.tick();
        let is_struck = choices.below(9) == 0;
        if is_struck {
            sim.misfortune(choices);
        }
        let steps = sim.pass(None).steps.len() as u64;
        Deeds { users: u64::from(is_struck), world: 1, passes: 1, steps }
    });
}

#[test]
#[ignore = "measures; see docs/performance.md"]
fn allocations_of_a_pass_at_rest() {
    let mut sim = Sim::new("savepoint");
    sim.settle();
    sim.assert_comes_to_rest();
    sim.tick();
    tell_allocations("a deployment", || drop(sim.plan()));
}
