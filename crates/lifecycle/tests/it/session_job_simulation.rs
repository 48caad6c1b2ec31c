//! The decision about session jobs against a simulated world, as in [`super::simulation`]: users, a cluster that comes
//! and goes, lost answers, and a crash before any step, on virtual time.

mod exploration;
mod generated;
mod happenings;
mod java;
mod laws;
mod operated;
mod scaling;
mod upheaval;
mod waves;

use std::collections::{BTreeMap, BTreeSet};

use api::deployment::FlinkDeployment;
use api::job::{JobSpec, JobState, UpgradeMode};
use api::reconciled::ReconciledJob;
use api::session_job::{FlinkSessionJob, SessionJobStatus};
use api::state_snapshot::{FlinkStateSnapshot, SnapshotState};
use api::status::{
    JobManagerDeploymentStatus, JobStatusState, LifecycleState, ReconciliationState,
};
use config::OperatorConfig;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use lifecycle::error_document::WentBack;
use lifecycle::memo::Memo;
use lifecycle::notes::STARTED_WITH;
use lifecycle::plan::SnapshotStep;
use lifecycle::reconcile::decide;
use lifecycle::session_job::identity;
use lifecycle::session_job::plan::{Plan, SessionJobStep, Step, Submission};
use lifecycle::session_job::world::{Arrival, FailedSubmission, Remembered, Tried, World};
use lifecycle::snapshot::labels::trigger_type;
use lifecycle::snapshots::are_held;
use lifecycle::transitions::etcd_restore::{self, Record};
use lifecycle::trigger::known::{KnownSnapshot, SnapshotKind};
use lifecycle::trigger::memory::Memory;
use lifecycle::verdict::Validators;
use lifecycle::world::Trigger;
use lifecycle::world::{
    Bounds, Checkpoints, CompletedState, Fact, Facts, Failure, Fresh, Job, JobMetrics, Question,
    Stop,
};
use serde_json::json;
use state::restore_point::RestorePoint;

use super::simulation::uncertainty::{Uncertainty, asks, shows_all};
use super::simulation::upheaval::{Refused, Upheaval, Upheaved};
use super::support::operated::{
    Event, Interruption, Operated, Stored, assert_is_left_alone, interrupted, operated, pause,
    undisturbed,
};
use super::support::phases::store_session_job;
use super::support::worlds::{
    COMES_TO_REST, Deeds, Haze, KeepsState, Logged, OVERRIDES, RESTS_FOR, REVISIONS_MAX, VERTEX,
    asked_again, crashes, fact, moody_verdict, newest, oldest, parallelism, phase,
    print_allocations, print_pace, recorded, referred_to, show_on_failure, stop_on_record,
    without_history,
};
use api::is_paused;
use testing::choices::{Choices, seeds};
use testing::laws::Law;
use testing::seat::Seat;

/// Seconds that the operator waits for a job whose submission got no answer.
const SUBMISSION_TIMEOUT: i64 = 8;
/// Seconds by which a slow `main()` delays the answer.
const LATE: i64 = 4;

#[derive(Clone, PartialEq)]
pub(super) struct Running {
    pub(super) id: String,
    /// `spec.job.parallelism` of the submitted spec.
    asked: Option<u32>,
    pub(super) state: JobStatusState,
    /// Records counted.
    records: u64,
    /// Newest completed checkpoint or restored state.
    checkpoint: Option<(u64, String)>,
    /// Newest savepoint that it was not stopped with: Flink itself never restores it, but its statistics name it.
    savepoint: Option<(u64, String)>,
    /// Upper bound of its one vertex.
    parallelism: u32,
    /// Directory of its checkpoints.
    directory: String,
    /// Whether they outlive its cancellation.
    retains: bool,
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
    pub(super) resource: FlinkSessionJob,
    /// The resource as passes see it, if different from `resource`.
    wanted: Option<FlinkSessionJob>,
    pub(super) status: SessionJobStatus,
    pub(super) cluster: FlinkDeployment,
    operator: OperatorConfig,
    failed_submission: Option<FailedSubmission>,
    tried: Tried,
    /// What this process saw when the API server's store was reset to an older state.
    went_back: Option<WentBack>,
    has_snapshot_resources: bool,
    snapshots: Vec<KnownSnapshot>,
    periodic: Memory,
    /// Restore points of revisions.
    revisions: Vec<String>,
    /// A savepoint that a job elsewhere refers to.
    foreign: Option<String>,
    /// Number of disposed savepoints.
    disposed: usize,
    /// Number of changes of a running job's parallelism.
    scaled: usize,
    pub(super) jobs: Vec<Running>,
    /// Ids that Flink has run.
    pub(super) used: Vec<String>,
    /// Time of the first submission of each id, successful or not.
    asked_for: BTreeMap<String, Timestamp>,
    /// Ids that the JobManager knows and does not accept again.
    taken: BTreeSet<String>,
    /// Records in each savepoint and retained checkpoint.
    states: BTreeMap<String, u64>,
    /// Stop-with-savepoint by trigger id.
    triggers: BTreeMap<String, String>,
    /// Whether a stop that is requested in one second completes in the next.
    is_slow: bool,
    /// Job and trigger of the stop in progress.
    stopping: Option<(String, String)>,
    /// Triggers of stops whose savepoints failed.
    unsaved: BTreeSet<String>,
    /// Whether the job of the next stop fails once its savepoint is complete, and Flink restarts it.
    fails_while_stopping: bool,
    /// Triggers of stops that ended that way.
    unstopped: BTreeSet<String>,
    /// Seconds until the cluster's JobManager answers again.
    pub(super) away: u64,
    /// What is temporarily invisible of a JobManager that keeps running.
    haze: Haze,
    /// Jobs that have ended, and the one that is not listed because it ended just now.
    ended: BTreeSet<String>,
    unlisted: Option<String>,
    /// Start time of the JobManager.
    job_manager_start: Timestamp,
    is_high_availability_on: bool,
    /// Whether the next submission is rejected.
    pub(super) refuses: bool,
    /// Whether the next submission gets no answer and Flink starts its job later.
    delays: bool,
    /// What Flink is about to start, and when.
    late: Vec<(Timestamp, Running)>,
    /// Whether external validators are configured, which are not always available.
    validators: Validators,
    /// Number of records that must never be lost again.
    durable: u64,
    /// As `durable`, including those in savepoints; only Flink itself may restore older state.
    saved: u64,
    /// A start path that its user named and that was not followed yet.
    named: Option<String>,
    /// Reasons for which its user may be asked for the state to continue from.
    doubt: Uncertainty,
    upheaval: Upheaval,
    /// Its part in the budget of a fleet.
    seat: Option<Seat>,
    ids: u64,
    log: Vec<String>,
}

impl Sim {
    pub(super) fn new(mode: &str, is_high_availability_on: bool) -> Self {
        let resource = json!({
            "apiVersion": "flink.apache.org/v1beta1",
            "kind": "FlinkSessionJob",
            "metadata": {
                "name": "orders",
                "namespace": "shop",
                "uid": "u1",
                "generation": 1,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "deploymentName": "cluster",
                "job": {"jarURI": "https://repo/j.jar", "parallelism": 2, "upgradeMode": mode},
            },
        });
        let ha = if is_high_availability_on { "kubernetes" } else { "NONE" };
        let cluster = json!({
            "apiVersion": "flink.apache.org/v1beta1",
            "kind": "FlinkDeployment",
            "metadata": {"name": "cluster", "namespace": "shop", "uid": "c1", "generation": 1},
            "spec": {
                "image": "flink:1.20",
                "flinkVersion": "v1_20",
                "flinkConfiguration": {
                    "high-availability.type": ha,
                    "jobmanager.scheduler": "adaptive",
                    "execution.checkpointing.dir": "s3://lake/chk",
                    "execution.checkpointing.savepoint-dir": "s3://lake/sp",
                    "kubernetes.operator.job.submission.timeout": format!("{SUBMISSION_TIMEOUT} s"),
                },
            },
            "status": {
                "jobManagerDeploymentStatus": "READY",
                "clusterInfo": {
                    STARTED_WITH.key: json!({"high-availability.type": ha}).to_string(),
                },
            },
        });
        Self {
            now: "2026-01-01T00:00:00Z".parse().unwrap(),
            resource: serde_json::from_value(resource).unwrap(),
            wanted: None,
            status: SessionJobStatus::default(),
            cluster: serde_json::from_value(cluster).unwrap(),
            operator: OperatorConfig::default(),
            failed_submission: None,
            tried: Tried::default(),
            went_back: None,
            has_snapshot_resources: true,
            snapshots: vec![],
            periodic: Memory::default(),
            revisions: vec![],
            foreign: None,
            disposed: 0,
            scaled: 0,
            jobs: vec![],
            used: vec![],
            asked_for: BTreeMap::new(),
            taken: BTreeSet::new(),
            states: BTreeMap::new(),
            triggers: BTreeMap::new(),
            is_slow: false,
            stopping: None,
            unsaved: BTreeSet::new(),
            fails_while_stopping: false,
            unstopped: BTreeSet::new(),
            away: 0,
            haze: Haze::default(),
            ended: BTreeSet::new(),
            unlisted: None,
            job_manager_start: "2025-12-31T00:00:00Z".parse().unwrap(),
            is_high_availability_on,
            refuses: false,
            delays: false,
            late: vec![],
            validators: Validators::default(),
            durable: 0,
            saved: 0,
            named: None,
            doubt: Uncertainty::default(),
            upheaval: Upheaval::default(),
            seat: None,
            ids: 0,
            log: vec![],
        }
    }

    fn id(&mut self) -> String {
        self.ids += 1;
        format!("{:032x}", self.ids)
    }

    pub(super) fn edit(&mut self, edit: impl FnOnce(&mut JobSpec)) {
        let before = self.resource.spec.clone();
        edit(self.resource.spec.job.as_mut().unwrap());
        if self.resource.spec != before {
            *self.resource.metadata.generation.as_mut().unwrap() += 1;
            let job = self.resource.spec.job.as_ref().unwrap();
            self.log.push(format!(
                "  user: {:?} {:?} {:?} {:?}",
                job.parallelism, job.state, job.upgrade_mode, job.initial_savepoint_path
            ));
        }
    }

    /// Its user replaces the state with one that was kept long ago.
    fn redeploy(&mut self) {
        let path = "s3://lake/sp/named".to_owned();
        self.states.insert(path.clone(), 0);
        self.named = Some(path.clone());
        self.edit(|job| {
            job.savepoint_redeploy_nonce = Some(asked_again(job.savepoint_redeploy_nonce));
            job.initial_savepoint_path = Some(path);
        });
    }

    fn configure(&mut self, key: &str, value: &str) {
        let value = serde_json::Value::from(value);
        let before = self.resource.spec.flink_configuration.0.insert(key.to_owned(), value.clone());
        if before.as_ref() != Some(&value) {
            *self.resource.metadata.generation.as_mut().unwrap() += 1;
            self.log.push(format!("  user: {key} {value}"));
        }
    }

    fn snapshot_often(&mut self) {
        self.configure("kubernetes.operator.periodic.savepoint.interval", "6 s");
        self.configure("kubernetes.operator.savepoint.history.max.count", "2");
        self.configure("kubernetes.operator.savepoint.dispose-on-delete", "true");
    }
}

/// Returns the parallelism that a submission of this job requests.
fn asked(job: Option<&JobSpec>) -> Option<u32> {
    job?.parallelism.and_then(|parallelism| u32::try_from(parallelism).ok())
}

impl KeepsState for Sim {
    fn snapshots(&mut self) -> &mut Vec<KnownSnapshot> {
        &mut self.snapshots
    }

    fn is_job_asked(&self) -> bool {
        let job = self.mine().filter(|job| job.state == JobStatusState::Running);
        job.is_some() && self.away == 0
    }

    fn is_newest(&self, path: &str) -> bool {
        let newest = |job: &&Running| job.newest().is_some_and(|(_, newest)| newest == path);
        // Earlier jobs stay listed long after others continued from where they ended.
        let last = self.used.last();
        let may_go_on = |job: &&Running| !job.state.is_globally_terminal() || Some(&job.id) == last;
        self.jobs.iter().filter(newest).any(|job| may_go_on(&job))
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
        let law = Law::SessionJobKeptStates;
        assert!(!self.is_referred_to(path), "{law}: {path} is disposed of and named");
        assert!(!self.is_newest(path), "{law}: {path} is disposed of and the newest state");
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
