//! What the decision about a session job may look at; see [`crate::world`].

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::attempts::Attempts;
use crate::error_document::WentBack;
use crate::job_world::{JobWorld, job_world};
use crate::kind::Kind;
use crate::memo::{Memo, Stored};
use crate::node_notice::Node;
use crate::trigger::known::KnownSnapshot;
use crate::trigger::memory::Memory;
use crate::verdict::{Validators, Verdict, Version};
use crate::world::Trigger;
use crate::world::{
    Answer, AnyQuestion, Bounds, Checkpoints, Fact, Failure, Fresh, Job, JobException, JobMetrics,
    Stop, ToldExceptions,
};
use api::deployment::FlinkDeployment;
use api::session_job::{FlinkSessionJob, FlinkSessionJobSpec, SessionJobStatus};
use config::{FlinkConfig, OperatorConfig};

/// What a decision still has to know.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Question {
    /// `GET /jobs/overview`.
    Jobs,
    /// `GET /jobs/:id/checkpoints`.
    Checkpoints,
    /// `GET /jobs/:id/checkpoints/config`.
    Retention,
    /// The stop-with-savepoint that is under way.
    Stop,
    /// Why the job failed.
    Failure,
    /// `GET /jobs/:id/exceptions`.
    Exceptions,
    /// `GET /jobs/:id/metrics`.
    JobMetrics,
    /// `GET /jobs/:id/resource-requirements`.
    ResourceRequirements,
    /// The `FlinkStateSnapshot`s of the job, as the watch last saw them.
    Snapshots,
    /// The savepoint of the job's own bookkeeping that is under way.
    Savepoint,
    /// The checkpoint of the job's own bookkeeping that is under way.
    Checkpoint,
    /// Paths that revisions of the job refer to.
    Revisions,
    /// Who else refers to the savepoints of the status' history, read so that nobody is overlooked.
    References,
    /// Whether the jar of the wanted spec can be fetched.
    Jar,
    /// What validators outside say of the wanted spec.
    Verdict,
    /// The Kubernetes cluster's nodes, as the watch last saw them.
    Nodes,
    /// The nodes that the pods of the session cluster are on.
    PodNodes,
    /// Since when the JobManager runs that answers now.
    JobManagerStart,
    /// The options of high availability in the ConfigMap that the session cluster's pods mount.
    DeployedConfig,
}

/// Everything that was looked up in this pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub jobs: Fact<Vec<Job>>,
    pub checkpoints: Fact<Checkpoints>,
    /// Whether the running job's checkpoints outlive it when it is cancelled.
    pub retention: Fact<bool>,
    pub stop: Fact<Stop>,
    pub failure: Fact<Failure>,
    /// In any order.
    pub exceptions: Fact<Vec<JobException>>,
    pub job_metrics: Fact<JobMetrics>,
    /// By vertex id.
    pub resource_requirements: Fact<BTreeMap<String, Bounds>>,
    pub snapshots: Fact<Vec<KnownSnapshot>>,
    pub savepoint: Fact<Trigger>,
    pub checkpoint: Fact<Trigger>,
    pub revisions: Fact<Vec<String>>,
    /// By the savepoints of the status' history: who else refers to each, named for a person.
    pub references: Fact<BTreeMap<String, Vec<String>>>,
    /// Unknown: why it cannot be fetched.
    pub jar: Fact<()>,
    pub verdict: Fact<Verdict>,
    /// Those that bear any taint, or are cordoned.
    pub nodes: Fact<Vec<Node>>,
    /// Names of the nodes that the pods of the session cluster are on.
    pub pod_nodes: Fact<BTreeSet<String>>,
    /// Of the session cluster, by the clock of its node.
    pub job_manager_start: Fact<Timestamp>,
    /// Options of high availability that the session cluster's pods are given.
    pub deployed_config: Fact<FlinkConfig>,
    /// What the last plan for this generation stopped at, where it does not pass by itself. Absent
    /// after a start of the operator, and after a plan that was carried out.
    pub stopped_at: Option<String>,
}

/// What this process has tried; nothing after a start of the operator.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Tried {
    /// Attempts to start the failed job again.
    pub restarts: Option<Attempts>,
    /// Generation of the spec that the running job was asked to scale to.
    pub scaled_to: Option<i64>,
    /// Since when a deletion waits for a session cluster that does not answer.
    pub waits_since: Option<Timestamp>,
}

/// Attempts to submit one job that Flink may still be at, or may have carried out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// Before the first of them was made: the job may have run from then on.
    pub began: Timestamp,
    /// When the last one was given up: Flink may be at it from then on.
    pub ended: Timestamp,
}

impl Arrival {
    /// With another attempt, made from `began` to `ended`.
    pub fn again(before: Option<Self>, began: Timestamp, ended: Timestamp) -> Self {
        Self { began: before.map_or(began, |before| before.began), ended }
    }
}

/// A submission of this process that did not succeed.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedSubmission {
    pub job_id: String,
    /// Generation of the spec that was submitted.
    pub generation: i64,
    /// What was said, and what to do.
    pub message: String,
    /// Where a job may come of it all the same, or of an attempt before under this id.
    pub may_arrive: Option<Arrival>,
    pub at: Timestamp,
    /// Failures in a row, this one included.
    pub attempts: u32,
}

/// All that one decision may look at.
#[derive(Clone, Debug)]
pub struct World<'a> {
    /// The only clock.
    pub now: Timestamp,
    /// Metadata and spec; its status may be older than `status`.
    pub resource: &'a FlinkSessionJob,
    /// The status that was written last.
    pub status: &'a SessionJobStatus,
    /// The session cluster. Absent only when it was looked for and is not there.
    pub cluster: Option<&'a FlinkDeployment>,
    pub operator: &'a OperatorConfig,
    /// Whether `FlinkStateSnapshot` is installed.
    pub has_snapshot_resources: bool,
    pub fresh: Fresh,
    /// Absent after a start of the operator.
    pub told_exceptions: Option<ToldExceptions>,
    /// When periodic snapshots were asked for.
    pub periodic: Memory,
    /// The API server's store went back, and the record of the job with it.
    pub went_back: Option<WentBack>,
    /// In which cron expressions are meant.
    pub zone: TimeZone,
    /// Absent after a start of the operator, and after a success.
    pub failed_submission: Option<FailedSubmission>,
    pub tried: Tried,
    /// Who else has a say in what is deployed.
    pub validators: Validators,
    pub facts: Facts,
    /// Kept from question to question.
    pub memo: Memo<FlinkSessionJobSpec, FlinkSessionJobSpec>,
}

impl World<'_> {
    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.resource.metadata.name.as_deref().unwrap_or_default()
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.resource.metadata.namespace.as_deref().unwrap_or("default")
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.resource.metadata.uid.as_deref().unwrap_or_default()
    }

    /// `metadata.generation`.
    pub fn generation(&self) -> i64 {
        self.resource.metadata.generation.unwrap_or_default()
    }

    /// What validators judge.
    pub fn version(&self) -> Version {
        let session = self.cluster.and_then(|cluster| cluster.metadata.generation);
        Version { generation: self.generation(), session }
    }

    pub(super) fn jobs(&self) -> Result<Answer<'_, Vec<Job>>, Question> {
        self.facts.jobs.read(Question::Jobs)
    }

    pub(super) fn failure(&self) -> Result<Answer<'_, Failure>, Question> {
        self.facts.failure.read(Question::Failure)
    }

    pub(super) fn jar(&self) -> Result<Answer<'_, ()>, Question> {
        self.facts.jar.read(Question::Jar)
    }

    pub(super) fn job_manager_start(&self) -> Result<Answer<'_, Timestamp>, Question> {
        self.facts.job_manager_start.read(Question::JobManagerStart)
    }

    pub(super) fn deployed_config(&self) -> Result<Answer<'_, FlinkConfig>, Question> {
        self.facts.deployed_config.read(Question::DeployedConfig)
    }
}

job_world! {
    FlinkSessionJob;
    checkpoints: Checkpoints => Checkpoints;
    retention: bool => Retention;
    stop: Stop => Stop;
    exceptions: Vec<JobException> => Exceptions;
    job_metrics: JobMetrics => JobMetrics;
    resource_requirements: BTreeMap<String, Bounds> => ResourceRequirements;
    snapshots: Vec<KnownSnapshot> => Snapshots;
    savepoint: Trigger => Savepoint;
    checkpoint: Trigger => Checkpoint;
    revisions: Vec<String> => Revisions;
    references: BTreeMap<String, Vec<String>> => References;
    nodes: Vec<Node> => Nodes;
    pod_nodes: BTreeSet<String> => PodNodes;
}
