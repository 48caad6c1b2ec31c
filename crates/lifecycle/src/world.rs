//! Facts that a decision may use, and how it asks for those that were not looked up yet.
//!
//! A fact is read only if a decision depends on it: a decision that needs a missing fact returns the question, the
//! shell answers it and makes the decision again. Each question is asked at most once per pass, so a pass is bounded. A
//! fact that could not be read is [`Fact::Unknown`], which is never the same as absent.

mod facts;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use kube_core::ObjectMeta;

use super::error_document::WentBack;
use super::memo::Memo;
use super::node_notice::Node;
use super::paused::Parent;
use super::resource::JobResource;
use super::trigger::known::KnownSnapshot;
use super::trigger::memory::Memory;
use crate::verdict::{Validators, Verdict};
use api::deployment::FlinkDeployment;
use config::{FlinkConfig, OperatorConfig};
use render::Objects;
use render::files::HadoopConf;

use render::preflight::Preflight;

pub use facts::{
    Answer, Bounds, Checkpoints, Cluster, CompletedState, DeploymentVersion, Fact, Failure,
    HaMetadata, Job, JobException, JobManager, JobMetrics, Leader, OperatorFile, Pod, PodProblem,
    PreflightPod, PreflightPods, PreflightState, Question, ReportedExceptions, SessionJob,
    StandbyPod, Stop, TaskManagers, Trigger, Turn, UNSCHEDULABLE, UNTRIABLE,
};

/// Everything that was looked up in this pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub job_manager: Fact<Option<JobManager>>,
    pub task_managers: Fact<Option<TaskManagers>>,
    pub pods: Fact<Vec<Pod>>,
    pub jobs: Fact<Vec<Job>>,
    pub checkpoints: Fact<Checkpoints>,
    /// Whether the running job's checkpoints outlive its cancellation.
    pub retention: Fact<bool>,
    pub ha_metadata: Fact<HaMetadata>,
    /// High availability options of the cluster's pods.
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
    /// All pods of the cluster, also those whose processes have ended.
    pub remains: Fact<Vec<Pod>>,
    /// The session jobs that refer to the session cluster.
    pub session_jobs: Fact<Vec<SessionJob>>,
    pub snapshots: Fact<Vec<KnownSnapshot>>,
    pub savepoint: Fact<Trigger>,
    pub checkpoint: Fact<Trigger>,
    pub revisions: Fact<Vec<String>>,
    /// Everything else that refers to each savepoint of the status' history, named for a person.
    pub references: Fact<BTreeMap<String, Vec<String>>>,
    /// Why the API server would refuse an object of the next cluster.
    pub refusal: Fact<Option<String>>,
    pub preflight: Fact<PreflightPods>,
    pub standby_pods: Fact<Vec<StandbyPod>>,
    pub leader: Fact<Leader>,
    pub turn: Fact<Turn>,
    pub verdict: Fact<Verdict>,
    /// Nodes that have any taint, or are cordoned.
    pub nodes: Fact<Vec<Node>>,
    /// Names of the nodes with pods of the job's cluster.
    pub pod_nodes: Fact<BTreeSet<String>>,
    /// Start of the session cluster's JobManager, by the clock of its node.
    pub job_manager_start: Fact<Timestamp>,
    /// If unknown, the reason why the jar of the desired spec cannot be fetched.
    pub jar: Fact<()>,
    /// By their paths in the operator's file system.
    pub files: BTreeMap<String, OperatorFile>,
    /// The obstacle that stopped the last plan for this generation, if it does not resolve by itself. `None` after a
    /// start of the operator, and after a plan that was carried out.
    pub stopped_at: Option<String>,
}

/// Fresh names for this decision. The shell generates them, so that a decision is repeatable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fresh {
    /// 32 hex digits.
    pub job_id: String,
    /// 32 hex digits.
    pub trigger_id: String,
    /// With hyphens.
    pub uuid: String,
}

/// Everything that one decision may use.
#[derive(Clone, Debug)]
pub struct World<'a, K: JobResource = FlinkDeployment> {
    /// The only clock.
    pub now: Timestamp,
    /// Metadata and spec; its status may be older than `status`.
    pub resource: &'a K,
    /// The status that was written last.
    pub status: &'a K::Status,
    /// The cluster of a session job. `None` only if it was looked for and does not exist.
    pub session_cluster: Option<&'a FlinkDeployment>,
    pub operator: &'a OperatorConfig,
    /// Whether `FlinkStateSnapshot` is installed.
    pub has_snapshot_resources: bool,
    /// Whether the resource is a colour of a blue/green deployment that does not serve yet.
    pub is_target: bool,
    /// The blue/green deployment that the resource belongs to, if that is paused or gone.
    pub parent: Option<Parent>,
    pub fresh: Fresh,
    /// `None` after a start of the operator.
    pub reported_exceptions: Option<ReportedExceptions>,
    /// External validators of what is deployed.
    pub validators: Validators,
    /// When periodic snapshots were requested.
    pub periodic: Memory,
    /// What the last plan waited for, as far as this process made it.
    pub waits: Option<crate::wait::Waiting>,
    /// Set if the API server's store went back, and the record of the job with it.
    pub went_back: Option<WentBack>,
    /// Time zone of cron expressions.
    pub zone: TimeZone,
    /// The operator's own Hadoop configuration.
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
                /// Returns the fact, or the question to answer first.
                pub fn $name(&self) -> Result<Answer<'_, $type>, Question> {
                    self.facts.$name.read(Question::$question)
                }
            )*
        }

        impl Facts {
            /// Notes that the fact that answers the question could not be read, for this reason.
            pub fn note_unknown(&mut self, question: &Question, reason: String) {
                match question {
                    $(Question::$question => self.$name = Fact::Unknown(reason),)*
                    Question::Refusal(_) => self.refusal = Fact::Unknown(reason),
                    Question::Preflight(_) => self.preflight = Fact::Unknown(reason),
                    Question::Verdict => self.verdict = Fact::Unknown(reason),
                    Question::Files(paths) => {
                        for path in paths {
                            let file = OperatorFile::Unusable(reason.clone());
                            self.files.insert(path.clone(), file);
                        }
                    }
                }
            }
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
    remains: Vec<Pod> => Remains;
    session_jobs: Vec<SessionJob> => SessionJobs;
    snapshots: Vec<KnownSnapshot> => Snapshots;
    savepoint: Trigger => Savepoint;
    checkpoint: Trigger => Checkpoint;
    revisions: Vec<String> => Revisions;
    turn: Turn => Turn;
    standby_pods: Vec<StandbyPod> => StandbyPods;
    leader: Leader => Leader;
    references: BTreeMap<String, Vec<String>> => References;
    nodes: Vec<Node> => Nodes;
    pod_nodes: BTreeSet<String> => PodNodes;
    job_manager_start: Timestamp => JobManagerStart;
    jar: () => Jar;
}

impl<'a, K: JobResource> World<'a, K> {
    /// Creates the world of a new process, in which nothing is known yet.
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
            parent: None,
            fresh: Fresh::default(),
            reported_exceptions: None,
            waits: None,
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

    /// Returns why the API server would refuse one of these objects, or the question to answer first.
    pub fn refusal(&self, objects: Objects) -> Result<Answer<'_, Option<String>>, Question> {
        self.facts.refusal.read(Question::Refusal(Box::new(objects)))
    }

    /// Returns the state of the pods that try a spec, or the question to answer first.
    pub fn preflight(&self, preflight: &Preflight) -> Result<Answer<'_, PreflightPods>, Question> {
        self.facts.preflight.read(Question::Preflight(Box::new(preflight.clone())))
    }

    /// Returns what is known of these files, or the question to answer first.
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

    /// Returns `metadata.name`.
    pub fn name(&self) -> &str {
        self.metadata().name.as_deref().unwrap_or_default()
    }

    /// Returns `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.metadata().namespace.as_deref().unwrap_or("default")
    }

    /// Returns `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.metadata().uid.as_deref().unwrap_or_default()
    }

    /// Returns `metadata.generation`.
    pub fn generation(&self) -> i64 {
        self.metadata().generation.unwrap_or_default()
    }

    /// Returns what stopped the last plan, unless it was resolved since.
    pub(super) fn stopped_at(&self) -> Option<&str> {
        self.facts.stopped_at.as_deref()
    }
}
