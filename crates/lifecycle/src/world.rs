//! Facts that a decision may look at, and how it asks for those that nobody has looked up yet.
//!
//! A fact is read only when a decision depends on it: a decision that meets one that was not asked
//! for returns the question, the shell answers it and asks for the decision again. Each question is
//! asked at most once per pass, so a pass is bounded. What could not be read is
//! [`Fact::Unknown`], which is never the same as absent.

mod facts;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kube_core::ObjectMeta;

use super::error_document::WentBack;
use super::memo::Memo;
use super::node_notice::Node;
use super::resource::JobResource;
use super::trigger::known::KnownSnapshot;
use super::trigger::memory::Memory;
use super::upgrade_budget::Turn;
use crate::verdict::{Validators, Verdict};
use api::deployment::FlinkDeployment;
use config::{FlinkConfig, OperatorConfig};
use render::Objects;
use render::files::HadoopConf;
use render::preflight::Preflight;

pub use facts::{
    Answer, Bounds, Checkpoints, Cluster, CompletedState, DeploymentVersion, Fact, Failure,
    HaMetadata, Job, JobException, JobManager, JobMetrics, OperatorFile, Pod, PodProblem,
    PreflightPod, PreflightPods, PreflightState, Question, SessionJob, Stop, TaskManagers,
    ToldExceptions, Trigger, UNSCHEDULABLE, UNTRIABLE,
};

/// Everything that was looked up in this pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub job_manager: Fact<Option<JobManager>>,
    pub task_managers: Fact<Option<TaskManagers>>,
    pub pods: Fact<Vec<Pod>>,
    pub jobs: Fact<Vec<Job>>,
    pub checkpoints: Fact<Checkpoints>,
    /// The running job's checkpoints outlive its cancellation.
    pub retention: Fact<bool>,
    pub ha_metadata: Fact<HaMetadata>,
    /// Options of high availability that the cluster's pods are given.
    pub deployed_config: Fact<FlinkConfig>,
    pub stop: Fact<Stop>,
    pub cluster: Fact<Cluster>,
    pub failure: Fact<Failure>,
    /// In any order.
    pub exceptions: Fact<Vec<JobException>>,
    pub job_metrics: Fact<JobMetrics>,
    /// By vertex id.
    pub resource_requirements: Fact<BTreeMap<String, Bounds>>,
    pub task_manager_pods: Fact<Vec<Pod>>,
    /// Those that refer to the session cluster.
    pub session_jobs: Fact<Vec<SessionJob>>,
    pub snapshots: Fact<Vec<KnownSnapshot>>,
    pub savepoint: Fact<Trigger>,
    pub checkpoint: Fact<Trigger>,
    pub revisions: Fact<Vec<String>>,
    /// By the savepoints of the status' history: who else refers to each, named for a person.
    pub references: Fact<BTreeMap<String, Vec<String>>>,
    /// Why the API server would refuse an object of the cluster that is to come.
    pub refusal: Fact<Option<String>>,
    pub preflight: Fact<PreflightPods>,
    pub turn: Fact<Turn>,
    pub verdict: Fact<Verdict>,
    /// Those that bear any taint, or are cordoned.
    pub nodes: Fact<Vec<Node>>,
    /// Names of the nodes that the pods of the job's cluster are on.
    pub pod_nodes: Fact<BTreeSet<String>>,
    /// Of the session cluster, by the clock of its node.
    pub job_manager_start: Fact<Timestamp>,
    /// Unknown: why the jar of the wanted spec cannot be fetched.
    pub jar: Fact<()>,
    /// By their paths where the operator runs.
    pub files: BTreeMap<String, OperatorFile>,
    /// The obstacle that the last plan for this generation stopped at, where it does not pass by itself.
    /// Absent after a start of the operator, and after a plan that was carried out.
    pub stopped_at: Option<String>,
}

/// Names that may be used up by this decision; drawn by the shell, so that a decision is repeatable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fresh {
    /// 32 hex digits.
    pub job_id: String,
    /// 32 hex digits.
    pub trigger_id: String,
    /// With hyphens.
    pub uuid: String,
}

/// All that one decision may look at.
#[derive(Clone, Debug)]
pub struct World<'a, K: JobResource = FlinkDeployment> {
    /// The only clock.
    pub now: Timestamp,
    /// Metadata and spec; its status may be older than `status`.
    pub resource: &'a K,
    /// The status that was written last.
    pub status: &'a K::Status,
    /// Of a session job. Absent only when it was looked for and is not there.
    pub session_cluster: Option<&'a FlinkDeployment>,
    pub operator: &'a OperatorConfig,
    /// `FlinkStateSnapshot` is installed.
    pub has_snapshot_resources: bool,
    /// A colour of a blue/green deployment that does not serve yet.
    pub is_target: bool,
    pub fresh: Fresh,
    /// Absent after a start of the operator.
    pub told_exceptions: Option<ToldExceptions>,
    /// Who else has a say in what is deployed.
    pub validators: Validators,
    /// When periodic snapshots were asked for.
    pub periodic: Memory,
    /// The API server's store went back, and the record of the job with it.
    pub went_back: Option<WentBack>,
    /// In which cron expressions are meant.
    pub zone: TimeZone,
    /// Hadoop's configuration where the operator runs.
    pub hadoop_conf: Option<HadoopConf>,
    pub remembered: K::Remembered,
    pub facts: Facts,
    /// Kept from question to question.
    pub memo: Memo<K::Source, K::Spec>,
}

macro_rules! questions {
    ($($name:ident: $type:ty => $question:ident;)*) => {
        impl<K: JobResource> World<'_, K> {
            $(
                /// The fact, or the question to answer first.
                pub fn $name(&self) -> Result<Answer<'_, $type>, Question> {
                    self.facts.$name.read(Question::$question)
                }
            )*
        }
    };
}

questions! {
    job_manager: Option<JobManager> => JobManager;
    task_managers: Option<TaskManagers> => TaskManagers;
    pods: Vec<Pod> => Pods;
    jobs: Vec<Job> => Jobs;
    checkpoints: Checkpoints => Checkpoints;
    retention: bool => Retention;
    ha_metadata: HaMetadata => HaMetadata;
    deployed_config: FlinkConfig => DeployedConfig;
    stop: Stop => Stop;
    cluster: Cluster => Cluster;
    failure: Failure => Failure;
    exceptions: Vec<JobException> => Exceptions;
    job_metrics: JobMetrics => JobMetrics;
    resource_requirements: BTreeMap<String, Bounds> => ResourceRequirements;
    task_manager_pods: Vec<Pod> => TaskManagerPods;
    session_jobs: Vec<SessionJob> => SessionJobs;
    snapshots: Vec<KnownSnapshot> => Snapshots;
    savepoint: Trigger => Savepoint;
    checkpoint: Trigger => Checkpoint;
    revisions: Vec<String> => Revisions;
    turn: Turn => Turn;
    references: BTreeMap<String, Vec<String>> => References;
    nodes: Vec<Node> => Nodes;
    pod_nodes: BTreeSet<String> => PodNodes;
    job_manager_start: Timestamp => JobManagerStart;
    jar: () => Jar;
}

impl<'a, K: JobResource> World<'a, K> {
    /// One of which nothing is known yet, in a process that has just begun.
    pub fn new(
        now: Timestamp,
        (resource, status): (&'a K, &'a K::Status),
        session_cluster: Option<&'a FlinkDeployment>,
        operator: &'a OperatorConfig,
    ) -> Self {
        Self {
            now,
            resource,
            status,
            session_cluster,
            operator,
            has_snapshot_resources: true,
            is_target: false,
            fresh: Fresh::default(),
            told_exceptions: None,
            validators: Validators::default(),
            periodic: Memory::default(),
            went_back: None,
            zone: TimeZone::UTC,
            hadoop_conf: None,
            remembered: K::Remembered::default(),
            facts: Facts::default(),
            memo: Memo::default(),
        }
    }

    /// Why the API server would refuse one of these objects, or the question to answer first.
    pub fn refusal(&self, objects: Objects) -> Result<Answer<'_, Option<String>>, Question> {
        self.facts.refusal.read(Question::Refusal(Box::new(objects)))
    }

    /// How the pods stand that try a spec, or the question to answer first.
    pub fn preflight(&self, preflight: &Preflight) -> Result<Answer<'_, PreflightPods>, Question> {
        self.facts.preflight.read(Question::Preflight(Box::new(preflight.clone())))
    }

    /// What is known of these files, or the question to answer first.
    pub fn files<'p>(
        &self,
        paths: impl Iterator<Item = &'p String> + Clone,
    ) -> Result<Vec<(&'p String, &OperatorFile)>, Question> {
        let known = paths.clone().map(|path| Some((path, self.facts.files.get(path)?)));
        known.collect::<Option<_>>().ok_or_else(|| Question::Files(paths.cloned().collect()))
    }

    pub(super) fn metadata(&self) -> &ObjectMeta {
        self.resource.meta()
    }

    pub(super) fn spec(&self) -> &K::Spec {
        self.resource.spec()
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or("default")
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    /// `metadata.generation`.
    pub fn generation(&self) -> i64 {
        self.metadata().generation.unwrap_or_default()
    }

    /// Returns what the last plan stopped at, and nobody has mended since.
    pub(super) fn stopped_at(&self) -> Option<&str> {
        self.facts.stopped_at.as_deref()
    }
}
