//! The decision about session jobs against a world in memory, as in [`super::simulation`]: users,
//! a cluster that comes and goes, lost answers, and a crash before any step, on virtual time.

mod exploration;
mod generated;
mod java;
mod scaling;
mod upheaval;

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

use super::simulation::doubt::{Doubt, asks, tells_all};
use super::simulation::upheaval::{Refused, Upheaval, Upheaved};
use super::simulation::{
    COMES_TO_REST, Deeds, Haze, KeepsState, Logged, OVERRIDES, RESTS_FOR, VERTEX, asked_again,
    crashes, moody_verdict, newest, oldest, parallelism, phase, recorded, referred_to,
    show_on_failure, stop_on_record, tell_allocations, tell_pace, without_history,
};
use super::support::phases::store_session_job;
use testing::choices::{Choices, seeds};

const REVISIONS_KEPT: usize = 10;
/// How long the operator waits for a job whose submission got no answer, in seconds.
const SUBMISSION_TIMEOUT: i64 = 8;
/// How long `main()` takes that delays the answer, in seconds.
const LATE: i64 = 4;

#[derive(Clone, PartialEq)]
pub(super) struct Running {
    pub(super) id: String,
    /// `spec.job.parallelism` of the spec that was submitted.
    asked: Option<u32>,
    pub(super) state: JobStatusState,
    /// Records counted.
    records: u64,
    /// Newest completed checkpoint or restored state.
    checkpoint: Option<(u64, String)>,
    /// Newest savepoint that it was not stopped with: Flink itself never goes back to it, and its
    /// statistics name it.
    savepoint: Option<(u64, String)>,
    /// Upper bound of its one vertex.
    parallelism: u32,
    /// Where its checkpoints go.
    directory: String,
    /// They outlive it when it is cancelled.
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
    /// As a pass is to see it, where that is another.
    wanted: Option<FlinkSessionJob>,
    pub(super) status: SessionJobStatus,
    pub(super) cluster: FlinkDeployment,
    operator: OperatorConfig,
    failed_submission: Option<FailedSubmission>,
    tried: Tried,
    /// The API server's store went back, and this process saw it.
    went_back: Option<WentBack>,
    has_snapshot_resources: bool,
    snapshots: Vec<KnownSnapshot>,
    periodic: Memory,
    /// Restore points of revisions.
    revisions: Vec<String>,
    /// A savepoint that a job elsewhere names.
    foreign: Option<String>,
    /// Savepoints that were disposed of.
    disposed: usize,
    /// Changes of a running job's parallelism.
    scaled: usize,
    pub(super) jobs: Vec<Running>,
    /// Ids that Flink has run.
    pub(super) used: Vec<String>,
    /// When each id was first submitted, with success or without.
    asked_for: BTreeMap<String, Timestamp>,
    /// Those that the JobManager knows: it takes none of them twice.
    taken: BTreeSet<String>,
    /// Records in each savepoint and retained checkpoint.
    states: BTreeMap<String, u64>,
    /// Stop-with-savepoint by trigger id.
    triggers: BTreeMap<String, String>,
    /// A stop is asked for in one second and over in the next.
    is_slow: bool,
    /// The stop that is under way: its job and its trigger.
    stopping: Option<(String, String)>,
    /// Triggers of stops whose savepoints failed.
    unsaved: BTreeSet<String>,
    /// The job of the next stop fails when its savepoint is complete, and Flink starts it again.
    fails_while_stopping: bool,
    /// Triggers of stops that ended so.
    unstopped: BTreeSet<String>,
    /// Seconds until the cluster's JobManager answers again.
    pub(super) away: u64,
    /// What is hard to see of one that does not go away.
    haze: Haze,
    /// When it was started.
    job_manager_start: Timestamp,
    is_high_availability_on: bool,
    /// The next submission is refused.
    pub(super) refuses: bool,
    /// The next submission gets no answer, and Flink starts its job later.
    delays: bool,
    /// What Flink is about to start, and when.
    late: Vec<(Timestamp, Running)>,
    /// Validators outside have a say, and are not always there.
    validators: Validators,
    /// Records that must never be lost again.
    durable: u64,
    /// The same with those in savepoints, which nothing but Flink itself may go back behind.
    saved: u64,
    /// A path that its user named to start from, and that was not followed yet.
    named: Option<String>,
    /// Why its user may be asked for the state to go on from.
    doubt: Doubt,
    upheaval: Upheaval,
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
            job_manager_start: "2025-12-31T00:00:00Z".parse().unwrap(),
            is_high_availability_on,
            refuses: false,
            delays: false,
            late: vec![],
            validators: Validators::default(),
            durable: 0,
            saved: 0,
            named: None,
            doubt: Doubt::default(),
            upheaval: Upheaval::default(),
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

    /// Its user drops the state for one that was kept long ago.
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

    // --- the operator ---

    /// One pass that dies before step `crash_at`, or after the last one without writing status.
    pub(super) fn pass(&mut self, crash_at: Option<usize>) -> Plan {
        let plan = self.plan();
        let is_seen = self.hears()
            && etcd_restore::is_alive(self.status.job_status.job_id.as_deref(), &self.listed());
        if is_seen {
            self.went_back = None;
        }
        let steps: Vec<&str> = plan.steps.iter().map(Step::name).collect();
        let line = format!("{}: {steps:?}", plan.because);
        if self.log.last().is_none_or(|last| !last.ends_with(&line)) {
            self.log.push(format!("{} {line}", self.now));
        }
        for (index, step) in plan.steps.iter().enumerate() {
            if crash_at == Some(index) {
                self.log.push(format!("  crash before step {index}"));
                self.die();
                return plan;
            }
            if !self.take(step) {
                return plan;
            }
        }
        if crash_at.is_some_and(|at| at >= plan.steps.len()) {
            self.log.push("  crash before the last status".to_owned());
            self.went_back = None;
        } else {
            self.upheaval.stopped_at = None;
            if self.upheaval.stops_at(Refused::Status) {
                return plan;
            }
            store_session_job(&mut self.status, (*plan.status).clone());
            self.note_absence_of_state();
            self.doubt.assert_asks_only_in_doubt(self.status.error.as_deref());
            self.doubt.end_if(self.has_seen_all());
        }
        self.assert_runs_as_recorded();
        plan
    }

    /// Whether the status has all that is to be seen now. Of another job than the last one it has not.
    fn has_seen_all(&self) -> bool {
        let record = &self.status.job_status;
        let is_expected = self.delays || !self.late.is_empty() || self.went_back.is_some();
        let is_clear = self.away == 0 && !self.haze.is_any();
        let mine = self.mine().filter(|_| is_clear && !is_expected);
        mine.is_some_and(|job| {
            self.used.last() == Some(&job.id) && tells_all(record, job.state, job.newest())
        })
    }

    /// With high availability a job may have run under a JobManager before this one, whose statistics
    /// nobody has any more: that this one names no state is no proof that there is none.
    fn note_absence_of_state(&mut self) {
        let may_have_had_some = self.mine().is_some_and(|job| {
            job.newest().is_none() && self.job_manager_start > self.asked_for[&job.id]
        });
        if self.is_high_availability_on && may_have_had_some {
            self.doubt.hide();
        }
    }

    /// The law: what is on record as deployed is what runs. A deletion ends what it finds.
    fn assert_runs_as_recorded(&self) {
        if self.resource.metadata.deletion_timestamp.is_some() {
            return;
        }
        let reconciliation = &self.status.reconciliation_status;
        let Some(text) = &reconciliation.last_reconciled_spec else { return };
        let last = ReconciledJob::parse(text).unwrap();
        let is_deployed = reconciliation.state == ReconciliationState::Deployed;
        if is_deployed
            && last.job_state() == JobState::Running
            && let Some(job) = self.mine()
        {
            assert_eq!(job.asked, asked(last.spec.job.as_ref()), "what runs is not on record");
        }
    }

    /// What the process knew goes with it.
    fn die(&mut self) {
        self.failed_submission = None;
        self.tried = Tried::default();
        self.periodic = Memory::default();
        self.went_back = None;
        self.upheaval.stopped_at = None;
    }

    /// By the operator's clock.
    fn operator_now(&self) -> Timestamp {
        self.now + self.upheaval.skew
    }

    /// The API server's store goes back to this.
    fn set_back(&mut self, resource: FlinkSessionJob, status: SessionJobStatus) {
        self.doubt.last();
        let record = |generation, status: &SessionJobStatus| {
            let generation: Option<i64> = generation;
            (generation, status.job_status.clone(), status.reconciliation_status.clone())
        };
        let known = record(self.resource.metadata.generation, &self.status);
        let listed = record(resource.metadata.generation, &status);
        let of = |(generation, job, reconciliation)| Record { generation, job, reconciliation };
        let went_back = etcd_restore::went_back(
            of((known.0, &known.1, &known.2)),
            of((listed.0, &listed.1, &listed.2)),
            resource.spec.job.as_ref(),
        );
        self.went_back = went_back.or(self.went_back.take());
        let nonce = resource.spec.job.as_ref().and_then(|job| job.savepoint_redeploy_nonce);
        self.named = self.named.take().filter(|_| nonce.is_some());
        (self.resource, self.status) = (resource, status);
    }

    /// Whether the job that ran last runs on, as its id tells any process.
    fn is_told_by_what_runs(&self) -> bool {
        let last = self.went_back.as_ref().and_then(|known| known.job_id.as_ref());
        last != self.status.job_status.job_id.as_ref()
            && self.jobs.iter().any(|job| {
                Some(&job.id) == last
                    && job.state == JobStatusState::Running
                    && identity::is_of("u1", &job.id)
            })
    }

    pub(super) fn plan(&mut self) -> Plan {
        let fresh = Fresh { job_id: self.id(), trigger_id: self.id(), uuid: self.id() };
        let mut facts = Facts { stopped_at: self.upheaval.stopped_at.clone(), ..Facts::default() };
        let mut memo = Memo::default();
        for _ in 0..14 {
            let world = World {
                has_snapshot_resources: self.has_snapshot_resources,
                fresh: fresh.clone(),
                periodic: self.periodic.clone(),
                went_back: self.went_back.clone(),
                validators: self.validators.clone(),
                facts: facts.clone(),
                memo: std::mem::take(&mut memo),
                remembered: Remembered {
                    failed_submission: self.failed_submission.clone(),
                    tried: self.tried,
                },
                ..World::new(
                    self.operator_now(),
                    (self.wanted.as_ref().unwrap_or(&self.resource), &self.status),
                    Some(&self.cluster),
                    &self.operator,
                )
            };
            let decision = decide(&world);
            memo = world.memo;
            match decision {
                Ok(plan) => {
                    if are_held(&facts.references) {
                        self.periodic.held = Some(self.operator_now());
                    }
                    return plan;
                }
                Err(question) => self.answer(question, &mut facts),
            }
        }
        panic!("no decision after all questions: {facts:?}");
    }

    fn answer(&self, question: Question, facts: &mut Facts) {
        let is_up = self.hears();
        let is_told = is_up && self.haze.unread == 0;
        match question {
            Question::Jobs => facts.jobs = fact(is_up, || self.listed()),
            Question::Checkpoints => facts.checkpoints = fact(is_told, || self.checkpoints()),
            Question::Retention => {
                let retains = self.mine().is_none_or(|job| job.retains);
                facts.retention = fact(is_up, || retains);
            }
            Question::Stop => facts.stop = fact(is_up, || self.stop()),
            Question::Failure => facts.failure = fact(is_up, Failure::default),
            Question::Exceptions => facts.exceptions = fact(is_up, Vec::new),
            Question::Verdict => facts.verdict = Fact::Known(moody_verdict(self.now)),
            Question::Jar => facts.jar = Fact::Known(()),
            Question::JobMetrics => facts.job_metrics = fact(is_up, JobMetrics::default),
            Question::ResourceRequirements => {
                let upper = self.mine().map_or(1, |job| job.parallelism);
                let bounds = [(VERTEX.to_owned(), Bounds { lower: 1, upper })].into();
                facts.resource_requirements = fact(is_up, || bounds);
            }
            Question::Snapshots => facts.snapshots = Fact::Known(self.snapshots.clone()),
            Question::Savepoint | Question::Checkpoint => {
                facts.savepoint = fact(is_up, || self.trigger());
            }
            Question::Revisions => facts.revisions = Fact::Known(self.revisions.clone()),
            Question::References => {
                let foreign = self.foreign.as_deref();
                facts.references = Fact::Known(referred_to(&self.status.job_status, foreign));
            }
            Question::JobManagerStart => {
                facts.job_manager_start = Fact::Known(self.job_manager_start);
            }
            Question::DeployedConfig => {
                let kind = if self.is_high_availability_on { "kubernetes" } else { "NONE" };
                let options = [("high-availability.type", kind)];
                facts.deployed_config = Fact::Known(options.into_iter().collect());
            }
            Question::Nodes
            | Question::PodNodes
            | Question::JobManager
            | Question::TaskManagers
            | Question::Pods
            | Question::HaMetadata
            | Question::Cluster
            | Question::TaskManagerPods
            | Question::SessionJobs
            | Question::Refusal(_) => panic!("not asked of a session job"),
        }
    }

    /// Whether the JobManager's REST API answers.
    fn hears(&self) -> bool {
        self.away == 0 && self.haze.silent == 0
    }

    fn listed(&self) -> Vec<Job> {
        let job = |job: &Running| Job {
            id: job.id.clone(),
            name: "orders".to_owned(),
            state: job.state,
            start_time: 1,
            modified: None,
        };
        self.jobs.iter().map(job).collect()
    }

    fn mine(&self) -> Option<&Running> {
        let id = self.status.job_status.job_id.as_ref()?;
        self.jobs.iter().find(|job| job.id == *id)
    }

    fn checkpoints(&self) -> Checkpoints {
        let latest = self.mine().and_then(Running::newest);
        Checkpoints {
            latest: latest.map(|(_, path)| CompletedState { path: path.clone(), at: None }),
            ..Checkpoints::default()
        }
    }

    fn stop(&self) -> Stop {
        let info = self.status.job_status.savepoint_info.as_ref();
        let asked = info.and_then(|info| info.trigger_id.as_ref());
        if asked.is_some() && asked == self.stopping.as_ref().map(|(_, trigger)| trigger) {
            return Stop::Pending;
        }
        if asked.is_some_and(|id| self.unsaved.contains(id)) {
            return Stop::Failed { message: "the disk is full".to_owned() };
        }
        stop_on_record(&self.status.job_status, &self.triggers, &self.unstopped)
    }

    fn trigger(&self) -> Trigger {
        match self.stop() {
            Stop::Completed { path } => Trigger::Completed { path: Some(path) },
            _ => Trigger::NotFound,
        }
    }

    fn take_snapshot_step(&mut self, step: &SnapshotStep) {
        if let Some(kind) = step.periodic() {
            self.periodic.note(kind, self.operator_now());
        }
        match step {
            SnapshotStep::Create(resource) => self.create_snapshot(resource),
            SnapshotStep::Delete { name, .. } => self.delete_snapshot(name),
            SnapshotStep::Take(snapshot) => {
                self.periodic.note_taken(snapshot);
                let id = snapshot.request.trigger_id.clone();
                if let Some(path) = self.flink_savepoint(&id) {
                    self.triggers.insert(id, path);
                }
            }
            SnapshotStep::Dispose { path, .. } => self.dispose(path),
        }
    }

    /// The controller of snapshots takes them at once.
    fn create_snapshot(&mut self, resource: &FlinkStateSnapshot) {
        let savepoint = resource.spec.savepoint.clone().expect("no checkpoints in this world");
        let name = resource.metadata.name.clone().unwrap();
        let path = if savepoint.already_exists == Some(true) {
            savepoint.path
        } else {
            self.flink_savepoint(&name)
        };
        self.snapshots.retain(|known| known.name != name);
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

    /// A savepoint of the running job, which goes on.
    fn flink_savepoint(&mut self, name: &str) -> Option<String> {
        let is_up = self.hears();
        let id = self.status.job_status.job_id.clone()?;
        let job = self.jobs.iter_mut().find(|job| job.id == id);
        let job = job.filter(|job| is_up && job.state == JobStatusState::Running)?;
        let (path, records) = (format!("s3://lake/sp/{name}"), job.records);
        job.savepoint = Some((records, path.clone()));
        self.states.insert(path.clone(), records);
        self.saved = self.saved.max(records);
        Some(path)
    }

    /// Whether to go on with the next step.
    fn take(&mut self, step: &Step) -> bool {
        match step {
            Step::AddFinalizer => {
                let finalizer = api::SESSION_JOB_FINALIZER.to_owned();
                self.resource.metadata.finalizers = Some(vec![finalizer]);
            }
            Step::RemoveFinalizer => self.resource.metadata.finalizers = None,
            Step::Own(SessionJobStep::SetSessionLabel { cluster }) => {
                let label = ("target.session".to_owned(), cluster.clone());
                self.resource.metadata.labels = Some([label].into());
            }
            Step::WriteStatus(_) if self.upheaval.stops_at(Refused::Status) => return false,
            Step::RecordRevision(_) | Step::Snapshot(SnapshotStep::Create(_))
                if self.upheaval.stops_at(Refused::Records) =>
            {
                return false;
            }
            Step::WriteStatus(status) => store_session_job(&mut self.status, (**status).clone()),
            Step::Event(_) => {}
            Step::RecordRevision(superseded) => {
                if let RestorePoint::Path(path) = &superseded.restore_point {
                    self.revisions.push(path.clone());
                    let excess = self.revisions.len().saturating_sub(REVISIONS_KEPT);
                    self.revisions.drain(..excess);
                }
            }
            Step::Snapshot(step) => self.take_snapshot_step(step),
            Step::Own(SessionJobStep::Remember(tried)) => self.tried = *tried,
            Step::ScaleJob { job_id, bounds } => {
                // One in two is refused.
                let is_refused = self.now.as_second() % 2 == 0;
                let Some(job) = self.flink_job(job_id).filter(|_| !is_refused) else {
                    return false;
                };
                job.parallelism = bounds[VERTEX].upper;
                self.scaled += 1;
            }
            Step::TriggerStop { job_id, trigger_id, .. } => {
                if self.hears() {
                    self.flink_stop(job_id, trigger_id);
                }
            }
            Step::CancelJob { job_id, .. } => {
                // Flink lets a cancelled job's tasks end first.
                if let Some(job) = self.flink_job(job_id) {
                    job.state = JobStatusState::Cancelling;
                }
            }
            Step::Own(SessionJobStep::Submit(submission)) => return self.submit(submission),
        }
        true
    }

    fn flink_job(&mut self, id: &str) -> Option<&mut Running> {
        let is_up = self.hears();
        self.jobs
            .iter_mut()
            .find(|job| job.id == id && !job.state.is_globally_terminal())
            .filter(|_| is_up)
    }

    fn flink_stop(&mut self, job_id: &str, trigger_id: &str) {
        if !self.is_slow {
            self.finish_stop(job_id, trigger_id);
        } else if self.stopping.is_none()
            && !self.unsaved.contains(trigger_id)
            && self.flink_job(job_id).is_some_and(|job| job.state == JobStatusState::Running)
        {
            self.stopping = Some((job_id.to_owned(), trigger_id.to_owned()));
        }
    }

    /// The savepoint of the stop that is under way fails, and the job goes on.
    fn fail_savepoint(&mut self) {
        self.unsaved.extend(self.stopping.take().map(|(_, trigger)| trigger));
    }

    /// The savepoint of a stop is complete.
    fn finish_stop(&mut self, job_id: &str, trigger_id: &str) {
        let is_new = !self.triggers.contains_key(trigger_id);
        let is_failing = is_new && self.fails_while_stopping;
        let ends = !is_failing && !self.unstopped.contains(trigger_id);
        let path = format!("s3://lake/sp/{trigger_id}");
        let is_it = |job: &&mut Running| job.id == job_id;
        let Some(job) = self.jobs.iter_mut().find(is_it) else { return };
        if job.state != JobStatusState::Running {
            return;
        }
        if ends {
            job.state = JobStatusState::Finished;
        }
        job.checkpoint = Some((job.records, path.clone()));
        let records = job.records;
        if is_failing {
            self.fails_while_stopping = false;
            self.unstopped.insert(trigger_id.to_owned());
        }
        self.states.insert(path.clone(), records);
        self.durable = self.durable.max(records);
        self.triggers.insert(trigger_id.to_owned(), path);
    }

    fn submit(&mut self, submission: &Submission) -> bool {
        let Submission { job_id, savepoint_path, configuration, .. } = submission;
        self.asked_for.entry(job_id.clone()).or_insert(self.now);
        if !self.hears() || std::mem::take(&mut self.refuses) {
            return self.fail(submission, submission.may_arrive);
        }
        if self.taken.contains(job_id) {
            self.failed_submission = None;
            self.went_back = None;
            return true;
        }
        let restored = savepoint_path.as_ref().map(|path| {
            let records = *self.states.get(path).expect("a path that was never written");
            (records, path.clone())
        });
        let records = restored.as_ref().map_or(0, |(records, _)| *records);
        let is_named = self.named.take_if(|named| savepoint_path.as_ref() == Some(named)).is_some();
        if is_named {
            self.doubt.end();
        }
        assert_eq!(
            configuration.get("execution.savepoint.path"),
            None,
            "the request names the path"
        );
        let spec = self.resource.spec.job.as_ref().unwrap();
        if is_named || spec.upgrade_mode == UpgradeMode::Stateless {
            (self.durable, self.saved) = (records, records);
        } else {
            assert!(
                records >= self.durable.max(self.saved),
                "started from {records} records although {} are durable and {} saved",
                self.durable,
                self.saved
            );
        }
        let job = Running {
            id: job_id.clone(),
            asked: submission.parallelism,
            state: JobStatusState::Running,
            records,
            checkpoint: restored,
            savepoint: None,
            parallelism: parallelism(configuration.get(OVERRIDES).map(String::as_str)),
            directory: configuration
                .get("execution.checkpointing.dir")
                .map_or("s3://lake/chk", String::as_str)
                .to_owned(),
            retains: configuration
                .get("execution.checkpointing.externalized-checkpoint-retention")
                .is_none_or(|value| value == "RETAIN_ON_CANCELLATION"),
        };
        let before = self.late.iter().find(|(_, late)| late.id == job.id);
        assert!(before.is_none_or(|(_, late)| *late == job), "one id for two submissions");
        if std::mem::take(&mut self.delays) {
            self.doubt.hide();
            self.late.push((self.now + SignedDuration::from_secs(LATE), job));
            let now = self.operator_now();
            let arrival = Arrival::again(submission.may_arrive, now, now);
            return self.fail(submission, Some(arrival));
        }
        self.failed_submission = None;
        self.went_back = None;
        self.start(job);
        true
    }

    fn fail(&mut self, submission: &Submission, may_arrive: Option<Arrival>) -> bool {
        self.failed_submission = Some(FailedSubmission {
            job_id: submission.job_id.clone(),
            generation: self.resource.metadata.generation.unwrap(),
            message: "refused".to_owned(),
            may_arrive,
            at: self.operator_now(),
            attempts: 1,
        });
        false
    }

    /// Flink starts a job; it takes no id twice.
    fn start(&mut self, job: Running) {
        if self.taken.contains(&job.id) {
            return;
        }
        let runs = self.jobs.iter().filter(|job| !job.state.is_globally_terminal()).count();
        assert_eq!(runs, 0, "a second job beside the first");
        self.used.push(job.id.clone());
        self.taken.insert(job.id.clone());
        self.late.retain(|(_, late)| late.id != job.id);
        self.jobs.push(job);
    }

    // --- the world ---

    /// A second passes.
    pub(super) fn tick(&mut self) {
        self.now += SignedDuration::from_secs(1);
        self.go_on_deleting_snapshots();
        self.upheaval.tick();
        self.follow_cluster();
        self.away = self.away.saturating_sub(1);
        self.haze.tick();
        let is_there = self.away == 0;
        self.cluster.status.as_mut().unwrap().job_manager_deployment_status =
            if self.haze.unready > 0 {
                JobManagerDeploymentStatus::DeployedNotReady
            } else if is_there || self.ids.is_multiple_of(2) {
                JobManagerDeploymentStatus::Ready
            } else {
                JobManagerDeploymentStatus::Missing
            };
        if !is_there {
            return;
        }
        let (arrived, late) = self.late.drain(..).partition(|(at, _)| *at <= self.now);
        self.late = late;
        let arrived: Vec<(Timestamp, Running)> = arrived;
        for (_, job) in arrived {
            self.log.push(format!("{} job {} is there at last", self.now, job.id));
            self.start(job);
        }
        if let Some((job_id, trigger_id)) = self.stopping.take() {
            self.finish_stop(&job_id, &trigger_id);
        }
        for job in &mut self.jobs {
            match job.state {
                JobStatusState::Running => job.records += 7,
                JobStatusState::Cancelling => {
                    job.state = JobStatusState::Canceled;
                    if !job.retains {
                        let own = format!("{}/{}/", job.directory, job.id);
                        self.states.retain(|path, _| !path.starts_with(&own));
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn checkpoint(&mut self) {
        // While a job is stopped it takes none.
        if self.away > 0 || self.stopping.is_some() {
            return;
        }
        for job in self.jobs.iter_mut().filter(|job| job.state == JobStatusState::Running) {
            let path = format!("{}/{}/chk-{}", job.directory, job.id, job.records);
            self.states.insert(path.clone(), job.records);
            self.durable = self.durable.max(job.records);
            job.checkpoint = Some((job.records, path));
        }
    }

    /// The cluster's JobManager goes: with high availability its jobs come back with it.
    fn lose_cluster(&mut self) {
        self.doubt.hide();
        self.away = 5;
        self.job_manager_start = self.now;
        self.triggers.clear();
        self.stopping = None;
        self.late.clear();
        if !self.is_high_availability_on {
            self.jobs.clear();
            self.taken.clear();
            return;
        }
        self.jobs.retain(|job| !job.state.is_globally_terminal());
        for job in &mut self.jobs {
            job.state = JobStatusState::Running;
            job.records = job.checkpoint.as_ref().map_or(0, |(records, _)| *records);
            job.savepoint = None;
            self.saved = self.saved.min(job.records);
        }
    }

    /// No operator runs for a while, in which jobs go on and their cluster may be lost.
    fn leave_alone(&mut self, choices: &mut Choices) {
        self.log.push(format!("{} no operator runs", self.now));
        self.die();
        let (seconds, lost_at) = (3 + choices.below(15), choices.below(30));
        for second in 0..seconds {
            self.tick();
            if choices.below(3) == 0 {
                self.checkpoint();
            }
            if second == lost_at {
                self.lose_cluster();
            }
        }
    }

    fn misfortune(&mut self, choices: &mut Choices) {
        match choices.below(22) {
            0 => self.edit(|job| job.parallelism = Some(job.parallelism.unwrap_or(1) % 8 + 1)),
            1 => self.edit(|job| job.state = JobState::Suspended),
            2 | 3 => self.edit(|job| job.state = JobState::Running),
            4 => self.edit(|job| job.upgrade_mode = UpgradeMode::Savepoint),
            5 => self.edit(|job| job.upgrade_mode = UpgradeMode::LastState),
            // An edit that cannot work.
            6 => self.edit(|job| job.parallelism = Some(-1)),
            7 => self.lose_cluster(),
            // Restart attempts are used up.
            8 => {
                if let Some(job) =
                    self.jobs.iter_mut().find(|job| job.state == JobStatusState::Running)
                {
                    job.state = JobStatusState::Failed;
                }
            }
            9 => self.refuses = true,
            16 => self.delays = true,
            11 => self.edit(|job| {
                job.savepoint_trigger_nonce = Some(asked_again(job.savepoint_trigger_nonce));
            }),
            12 => self.snapshot_often(),
            13 | 14 => {
                let parallelism = 1 + choices.below(4);
                self.configure(OVERRIDES, &format!("{VERTEX}:{parallelism}"));
            }
            15 => self.configure("kubernetes.operator.job.restart.failed", "true"),
            17 if self.stopping.is_some() => self.fail_savepoint(),
            17 => self.fails_while_stopping = true,
            // Somebody cancels it behind the operator's back.
            10 => {
                // Who cancels one that takes its checkpoints with it drops its state.
                if let Some(job) = self
                    .jobs
                    .iter_mut()
                    .find(|job| job.state == JobStatusState::Running && job.retains)
                {
                    job.state = JobStatusState::Cancelling;
                }
            }
            19 => self.cloud(|haze| haze.silent = 1 + choices.below(20)),
            20 => self.cloud(|haze| haze.unready = 1 + choices.below(20)),
            21 => self.cloud(|haze| haze.unread = 1 + choices.below(20)),
            _ => self.edit(|job| job.parallelism = Some(3)),
        }
    }

    /// Something of the JobManager cannot be seen for a while.
    fn cloud(&mut self, cloud: impl FnOnce(&mut Haze)) {
        cloud(&mut self.haze);
        self.log.push(format!("  hard to see: {:?}", self.haze));
        self.doubt.hide();
    }

    /// A person mends the spec, and names the newest state where the operator asks for it.
    fn heal(&mut self) {
        self.end_upheaval();
        self.resource.spec.restart_nonce = Some(asked_again(self.resource.spec.restart_nonce));
        *self.resource.metadata.generation.as_mut().unwrap() += 1;
        let newest = self.states.iter().max_by_key(|(_, records)| **records);
        let newest = newest.map(|(path, _)| path.clone());
        let asks = asks(self.status.error.as_deref());
        self.edit(|job| {
            job.parallelism = Some(4);
            job.state = JobState::Running;
            match (asks, newest) {
                (false, _) => {}
                (true, Some(path)) => {
                    let nonce = asked_again(job.savepoint_redeploy_nonce);
                    job.initial_savepoint_path = Some(path);
                    job.savepoint_redeploy_nonce = Some(nonce);
                }
                // There never was any.
                (true, None) => job.upgrade_mode = UpgradeMode::Stateless,
            }
        });
    }

    fn is_settled(&self) -> bool {
        self.status.lifecycle_state == Some(LifecycleState::Stable)
            && self.status.observed_generation == self.resource.metadata.generation
            && self.mine().is_some_and(|job| {
                let wanted = self.resource.spec.flink_configuration.0.get(OVERRIDES);
                let wanted = parallelism(wanted.and_then(serde_json::Value::as_str));
                job.state == JobStatusState::Running && job.parallelism == wanted
            })
    }

    /// What there is in the end, whatever came in between: without times, and without ids, which a
    /// start after a crash may draw anew.
    fn end(&self) -> serde_json::Value {
        let status = &self.status;
        serde_json::json!({
            "record": recorded(&status.reconciliation_status, &status.job_status),
            "lifecycle": status.lifecycle_state,
            "error": status.error,
            "jobs": self.jobs.iter().map(|job| job.state).collect::<Vec<_>>(),
            "started": self.used.len(),
            "savepoints": self.states.len(),
            "snapshots": self.snapshots.len(),
        })
    }

    /// Settles, and keeps what was stored on the way.
    fn settle_keeping(&mut self, records: &mut Vec<(FlinkSessionJob, SessionJobStatus)>) {
        for _ in 0..120 {
            self.tick();
            self.pass(None);
            records.push((self.resource.clone(), self.status.clone()));
            if self.is_settled() {
                return;
            }
        }
        panic!("not stable: {:?}", self.status);
    }

    /// The resource goes, and with it the job that is not on record.
    fn end_and_delete(&mut self, job_id: &str) {
        self.resource.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(self.now));
        for _ in 0..60 {
            self.tick();
            self.pass(None);
        }
        assert!(self.resource.metadata.finalizers.as_ref().is_none_or(Vec::is_empty));
        let job = self.jobs.iter().find(|job| job.id == job_id);
        assert!(job.is_some_and(|job| job.state.is_globally_terminal()), "left behind");
    }

    /// The law: left alone for long enough, the operator writes nothing any more.
    fn assert_comes_to_rest(&mut self) {
        // Savepoints come by the clock for ever.
        let options = &mut self.resource.spec.flink_configuration.0;
        let interval = "kubernetes.operator.periodic.savepoint.interval";
        if options.shift_remove(interval).is_some() {
            *self.resource.metadata.generation.as_mut().unwrap() += 1;
        }
        for _ in 0..COMES_TO_REST {
            self.tick();
            self.pass(None);
        }
        for _ in 0..RESTS_FOR * 3 {
            self.tick();
            let before = self.status.clone();
            let plan = self.pass(None);
            let steps: Vec<&str> = plan.steps.iter().map(Step::name).collect();
            assert!(steps.is_empty(), "at rest: {}: {steps:?}", plan.because);
            assert_eq!(before, self.status);
        }
    }

    pub(super) fn settle(&mut self) {
        for round in 0..4 {
            for _ in 0..120 {
                self.tick();
                self.pass(None);
                if self.is_settled() {
                    return;
                }
            }
            assert!(round < 3, "not stable: {:?}", self.status);
            self.heal();
        }
    }
}

/// What a submission of this job asks for.
fn asked(job: Option<&JobSpec>) -> Option<u32> {
    job?.parallelism.and_then(|parallelism| u32::try_from(parallelism).ok())
}

fn fact<T>(is_up: bool, value: impl FnOnce() -> T) -> Fact<T> {
    if is_up { Fact::Known(value()) } else { Fact::Unknown("no answer".to_owned()) }
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
        // Former ones stay in the list long after others went on from where they ended.
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

    /// The law: what anything refers to or goes on from stays, and what is durable is kept somewhere.
    fn dispose(&mut self, path: &str) {
        assert!(!self.is_referred_to(path), "{path} is disposed of and named");
        assert!(!self.is_newest(path), "{path} is disposed of and the newest state");
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

#[test]
#[ignore = "measures; see docs/testing.md"]
fn passes_of_session_jobs_in_a_minute() {
    let mut sim = Sim::new("savepoint", false);
    sim.settle();
    tell_pace("session jobs", &sim, |sim, choices| {
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
    let mut sim = Sim::new("savepoint", false);
    sim.settle();
    sim.assert_comes_to_rest();
    sim.tick();
    tell_allocations("a session job", || drop(sim.plan()));
}

#[test]
fn a_new_session_job_becomes_stable_and_is_then_left_alone() {
    for mode in ["stateless", "savepoint", "last-state"] {
        let mut sim = Sim::new(mode, false);
        sim.settle();
        for _ in 0..5 {
            sim.tick();
            let before = sim.status.clone();
            let plan = sim.pass(None);
            assert!(plan.steps.is_empty(), "{mode}: at rest: {}", plan.because);
            assert_eq!(before, sim.status, "{mode}");
        }
    }
}

#[test]
fn users_faults_and_crashes_lose_no_record_of_a_session_job() {
    let (mut disposed, mut scaled) = ([0, 0], 0);
    for seed in seeds(64) {
        let mut choices = Choices::new(seed);
        let mode = if seed % 2 == 0 { "savepoint" } else { "last-state" };
        let mut sim = Sim::new(mode, seed % 3 == 0);
        sim.has_snapshot_resources = seed % 4 < 2;
        // In peace enough for a history to become long.
        let has_peace = seed % 4 == 3;
        if seed % 3 == 1 || has_peace {
            sim.snapshot_often();
        }
        sim.validators.has_any = seed % 4 == 1;
        sim.is_slow = seed % 7 < 3;
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
                if choices.below(10) == 0 {
                    sim.foreign = oldest(&sim.status.job_status);
                }
                let crash_at = choices.crash(5, 7);
                sim.pass(crash_at);
                if crash_at.is_some() && !has_peace && choices.below(4) == 0 {
                    sim.leave_alone(&mut choices);
                }
            }
            sim.heal();
            sim.settle();
            sim.assert_comes_to_rest();
        });
        disposed[usize::from(sim.has_snapshot_resources)] += sim.disposed;
        scaled += sim.scaled;
    }
    assert!(disposed.iter().all(|count| *count > 0), "nothing is ever disposed of: {disposed:?}");
    assert!(scaled > 0, "nothing is ever scaled in place");
}

/// The operator was away while the store went back, so that only the cluster knows what ran last: at
/// whatever moment the record ends, nothing runs beside it, and its state is not replaced.
#[test]
fn a_store_that_goes_back_unseen_starts_nothing_beside_what_runs() {
    let (mut refused, mut asked) = (0, 0);
    for seed in seeds(48) {
        let mut choices = Choices::new(seed);
        let mode = ["savepoint", "last-state"][usize::from(seed % 2 == 1)];
        let mut sim = Sim::new(mode, seed % 3 == 0);
        show_on_failure(seed, &mut sim, |sim| {
            let mut records = vec![(sim.resource.clone(), sim.status.clone())];
            for upgrade in 0..3 {
                sim.settle_keeping(&mut records);
                sim.checkpoint();
                sim.edit(|job| job.parallelism = Some(5 + upgrade));
            }
            sim.settle_keeping(&mut records);
            sim.checkpoint();
            let (newest, known) = (sim.mine().unwrap().id.clone(), sim.used.len());
            let back = usize::try_from(choices.below(records.len() as u64)).unwrap();
            (sim.resource, sim.status) = records.swap_remove(back);
            sim.doubt.last();
            (sim.failed_submission, sim.tried) = (None, Tried::default());
            if sim.status.job_status.job_id.as_ref() == Some(&newest) {
                return;
            }
            refused += 1;
            for _ in 0..90 {
                sim.tick();
                let crash_at = choices.crash(5, 4);
                sim.pass(crash_at);
            }
            assert_eq!(sim.used.len(), known, "something was started");
            let told = sim.status.error.clone().unwrap_or_default();
            assert!(told.contains(&newest), "not told: {told}");
            if choices.below(2) == 0 {
                sim.end_and_delete(&newest);
                return;
            }
            // Somebody stops it: that alone does not bring back what is on record.
            sim.flink_job(&newest).unwrap().state = JobStatusState::Cancelling;
            for _ in 0..90 {
                sim.tick();
                sim.pass(None);
            }
            assert_eq!(sim.used.len(), known, "its end was taken for an answer");
            asked += 1;
            sim.heal();
            sim.settle();
            sim.assert_comes_to_rest();
        });
    }
    assert!(refused > 9 && asked > 3, "{refused} refused, {asked} answered");
}

#[test]
fn a_crash_before_any_step_changes_nothing_for_a_session_job_in_the_end() {
    for mode in ["savepoint", "last-state", "stateless"] {
        let mut sim = Sim::new(mode, false);
        sim.settle();
        sim.checkpoint();
        sim.edit(|job| job.parallelism = Some(5));
        let mut undisturbed = sim.clone();
        for _ in 0..30 {
            undisturbed.tick();
            undisturbed.pass(None);
        }
        let end = undisturbed.end();
        crashes(8, |crash| {
            let mut steps = 0;
            show_on_failure(crash.seed(), &mut sim.clone(), |sim| {
                for pass in 0..30 {
                    sim.tick();
                    let plan = sim.pass(crash.in_pass(pass));
                    if pass == crash.pass {
                        steps = plan.steps.len();
                    }
                }
                assert!(sim.is_settled(), "{mode}: {:?}", sim.status);
                assert_eq!(sim.end(), end);
            });
            steps
        });
    }
}

#[test]
fn a_deleted_session_job_ends_whatever_its_state() {
    for seed in seeds(22) {
        let mut choices = Choices::new(seed);
        let mut sim = Sim::new("last-state", seed % 2 == 0);
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
            assert!(sim.resource.metadata.finalizers.as_ref().is_none_or(Vec::is_empty));
            let runs = sim.jobs.iter().any(|job| !job.state.is_globally_terminal());
            assert!(!runs && sim.late.is_empty(), "its job still runs, or comes later");
        });
    }
}
