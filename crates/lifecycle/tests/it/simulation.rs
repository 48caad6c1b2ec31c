//! The decision against a simulated world: a cluster, Flink, users and crashes, on virtual time.
//!
//! Every job counts records. What a checkpoint or a savepoint holds is durable. The laws: a stateful job never starts
//! behind what is durable, there is never a second JobManager, a person is asked for the state only in doubt
//! ([`uncertainty`]), a settled world is left alone, and when the faults stop the resource settles. A failing case prints
//! its seed, which reproduces it.

pub(super) mod session;
pub(super) mod uncertainty;

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
use lifecycle::plan::{ClusterStep, Plan, SnapshotStep, Step, TakeSnapshot};
use lifecycle::reconcile::decide;
use lifecycle::snapshot::labels::trigger_type;
use lifecycle::snapshots::are_held;
use lifecycle::trigger::known::{Cause, KnownSnapshot, SnapshotKind};
use lifecycle::trigger::memory::Memory;
use lifecycle::verdict::Validators;
use lifecycle::world::Trigger;
use lifecycle::world::{
    Bounds, Checkpoints, Cluster, CompletedState, DeploymentVersion, Fact, Facts, Failure, Fresh,
    HaMetadata, Job, JobManager, Pod, Question, Stop, World,
};
use render::Objects;
use serde_json::json;
use state::restore_point::RestorePoint;

use super::support::operated::{
    Event, Interruption, Operated, Stored, assert_is_left_alone, interrupted, is_in_conflict,
    operated, pause, undisturbed,
};
use super::support::phases::store_deployment;
use super::support::worlds::{
    COMES_TO_REST, Deeds, Haze, KeepsState, Logged, OVERRIDES, RESTS_FOR, REVISIONS_MAX, Trial,
    VERTEX, Workers, asked_again, begin_deletion, crashes, fact, image_in, image_of, moody_verdict,
    newest, no_such_image, oldest, parallelism, phase, print_allocations, print_pace, recorded,
    referred_to, show_on_failure, stop_on_record, without_history,
};
use api::is_paused;
use uncertainty::{Uncertainty, asks};
use upheaval::{Refused, Upheaval, Upheaved};

use testing::choices::{Choices, another_seed, cases, seeds};
use testing::laws::Law;
use testing::scene::assert_names_its_wait;
use testing::seat::Seat;

mod care;
mod cluster;
mod colours;
mod exploration;
mod generated;
mod happenings;
pub(super) mod java;
mod laws;
mod operated;
mod standby;
pub(super) mod upheaval;
pub(super) mod waves;

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
    /// As `checkpoint`, for the newest savepoint that it was not stopped with: Flink itself never restores it, but its
    /// statistics name it.
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
    /// Seconds until the submitted job fails for good.
    fails_in: Option<u64>,
    /// Number of created clusters.
    pub(super) starts: usize,
    /// Seconds until the pods of a deleted JobManager are gone.
    pods_linger: u64,
    /// When they were asked to end.
    pods_ending_since: Timestamp,
    /// Seconds until the JobManager answers.
    starts_in: u64,
    /// When its process last started.
    came_up: Option<Timestamp>,
    /// What is temporarily invisible of a running JobManager, each independently.
    haze: Haze,
    /// The job that has ended last, and whether it is not listed because it ended just now.
    ended: Option<String>,
    is_unlisted: bool,
    job: Option<Running>,
    /// A job that runs on a lost node, until the pods of its cluster are gone.
    out_of_reach: Option<Running>,
    /// Job id and restore path that the JobManager will start once it is up.
    submission: Option<(String, Option<String>)>,
    /// Parallelism of the one vertex from its overrides.
    submitted_parallelism: u32,
    /// Whether it has run before.
    has_run: bool,
    /// HA metadata by job id: records of the checkpoint it names.
    pub(super) ha: BTreeMap<String, Option<u64>>,
    /// Records in each savepoint and retained checkpoint.
    pub(super) states: BTreeMap<String, u64>,
    /// Stop-with-savepoint by trigger id.
    triggers: BTreeMap<String, String>,
    /// Whether a stop or cancel requested in one second completes in the next.
    is_slow: bool,
    /// Trigger of the stop in progress.
    stopping: Option<String>,
    /// Triggers of stops whose savepoints failed.
    unsaved: BTreeSet<String>,
    /// Whether the job of the next stop fails once its savepoint is complete, and Flink restarts it.
    fails_while_stopping: bool,
    /// Triggers of stops that ended that way.
    unstopped: BTreeSet<String>,
    /// Number of records that must never be lost again.
    durable: u64,
    /// As `durable`, including those in savepoints; only Flink itself may restore older state.
    saved: u64,
    /// A start path that its user named and that was not followed yet.
    named: Option<String>,
    /// How often its user was asked which state to continue from.
    asked: usize,
    /// Reasons for which they may be asked.
    doubt: Uncertainty,
    ids: u64,
    /// Number of decided passes.
    decisions: u64,
    log: Vec<String>,
    is_high_availability_on: bool,
    has_snapshot_resources: bool,
    pub(super) snapshots: Vec<KnownSnapshot>,
    /// Restore points of former specs.
    revisions: Vec<String>,
    periodic: Memory,
    /// A savepoint that a job elsewhere refers to.
    foreign: Option<String>,
    pub(super) disposed: usize,
    /// Number of changes of a running job's parallelism.
    scaled: usize,
    /// Whether external validators are configured, which are not always available.
    validators: Validators,
    upheaval: Upheaval,
    trial: Trial,
    standby: standby::Standby,
    /// Whether a trial detects a broken image, rather than only the start.
    sees_broken_images: bool,
    /// Its place in a fleet, if any.
    seat: Option<Seat>,
}

/// Returns the path of the state with this many records in a job's HA metadata.
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

/// What a JobManager is created with.
#[derive(Clone)]
struct Launch {
    /// `None` if it was not noted.
    generation: Option<i64>,
    image: String,
    parallelism: Option<i32>,
    /// Parallelism of the one vertex from the overrides.
    overrides: u32,
    job_id: String,
    path: Option<String>,
    is_high_availability_on: bool,
}

impl Launch {
    fn of(config_map: &serde_json::Value, image: String, generation: Option<i64>) -> Self {
        let text = config_map["data"]["flink-conf.yaml"].as_str().unwrap();
        let value = |key: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key}: ")));
            line.map(str::to_owned)
        };
        Self {
            generation,
            image,
            parallelism: value("parallelism.default").and_then(|text| text.parse().ok()),
            overrides: parallelism(value(OVERRIDES).as_deref()),
            job_id: value("$internal.pipeline.job-id").unwrap(),
            path: value("execution.state-recovery.path")
                .or_else(|| value("execution.savepoint.path")),
            is_high_availability_on: value("high-availability.type")
                .is_some_and(|kind| kind == "kubernetes"),
        }
    }
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

    /// Enables an early rollback.
    fn with_rollback(mut self) -> Self {
        self.set("kubernetes.operator.deployment.rollback.enabled", "true");
        self.set("kubernetes.operator.deployment.readiness.timeout", "20 s");
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
            trial: Trial::default(),
            standby: standby::Standby::default(),
            sees_broken_images: false,
            seat: None,
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
            pods_ending_since: Timestamp::UNIX_EPOCH,
            starts_in: 0,
            came_up: None,
            haze: Haze::default(),
            ended: None,
            is_unlisted: false,
            job: None,
            out_of_reach: None,
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
            doubt: Uncertainty::default(),
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

    /// Its user replaces the state with one that was kept long ago.
    fn redeploy(&mut self) {
        self.redeploy_from("s3://lake/sp/named".to_owned(), 0);
    }

    /// Its user is asked for the state to continue from, and names the newest.
    fn answer_refusal(&mut self) {
        let is_pending = self.status.observed_generation != self.resource.metadata.generation;
        if !asks(self.status.error.as_deref()) || is_pending && self.named.is_some() {
            return;
        }
        self.asked += 1;
        let (path, records) = newest_of(&self.states, self.durable);
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
}

/// Returns the state that a person names who is asked for the newest, with its records.
fn newest_of(states: &BTreeMap<String, u64>, durable: u64) -> (String, u64) {
    let newest = states.iter().max_by_key(|(_, records)| **records);
    let newest = newest.filter(|(_, records)| **records >= durable);
    let named = newest.map(|(path, records)| (path.clone(), *records));
    // A job that starts with nothing has nothing to lose.
    let (path, records) = named.unwrap_or_else(|| ("s3://lake/sp/empty".to_owned(), 0));
    assert!(records >= durable, "what is durable is kept somewhere");
    (path, records)
}

fn names(steps: &[Step]) -> Vec<&'static str> {
    steps.iter().map(Step::name).collect()
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

    /// The law: a state that anything refers to or continues from is kept, and what is durable is kept somewhere.
    fn dispose(&mut self, path: &str) {
        let law = Law::DeploymentKeptStates;
        assert!(!self.is_referred_to(path), "{law}: {path} is disposed of and named");
        assert!(!self.is_in_use(path), "{law}: {path} is disposed of and in use");
        self.disposed += usize::from(self.states.remove(path).is_some());
        let newest = self.states.values().max().copied().unwrap_or_default();
        assert!(newest >= self.durable.max(self.saved), "{law}: with {path} goes what is durable");
    }
}

impl Logged for Sim {
    fn log(&self) -> &[String] {
        &self.log
    }
}
