//! What a decision may look at, and how it asks for what nobody has looked up yet.
//!
//! A fact is read only when a decision depends on it: a decision that meets one that was not asked
//! for returns the question, the shell answers it and asks for the decision again. Each question is
//! asked at most once per pass, so a pass is bounded. What could not be read is
//! [`Fact::Unknown`], which is never the same as absent.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::extension::verdict::{Validators, Verdict};
use super::memo::{Memo, Stored};
use super::pass::Kind;
use super::rewind::WentBack;
use super::snapshot::world::Trigger;
use super::trigger::{KnownSnapshot, Memory};
use crate::api::deployment::FlinkDeployment;
use crate::api::status::{DeploymentStatus, JobStatusState};
use crate::config::OperatorConfig;

/// Something that was looked up, or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fact<T> {
    #[default]
    NotAsked,
    /// It could not be read, for this reason.
    Unknown(String),
    Known(T),
}

impl<T> Fact<T> {
    /// The fact, or `question`, to be answered first.
    pub(super) fn read<Q>(&self, question: Q) -> Result<Answer<'_, T>, Q> {
        match self {
            Self::NotAsked => Err(question),
            Self::Unknown(reason) => Ok(Err(reason)),
            Self::Known(value) => Ok(Ok(value)),
        }
    }
}

/// What a decision still has to know.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Question {
    /// The JobManager Deployment, read so that an absence is a fact and not a late cache.
    JobManager,
    /// The TaskManagers' Deployment of a standalone cluster, read in the same way.
    TaskManagers,
    /// The JobManager's pods.
    Pods,
    /// `GET /jobs/overview`.
    Jobs,
    /// `GET /jobs/:id/checkpoints`.
    Checkpoints,
    /// HA metadata of the job.
    HaMetadata,
    /// The stop-with-savepoint that is under way.
    Stop,
    /// `GET /config` and `/taskmanagers`.
    Cluster,
    /// Why the job failed.
    Failure,
    /// `GET /jobs/:id/exceptions`.
    Exceptions,
    /// `GET /jobs/:id/metrics`.
    JobMetrics,
    /// `GET /jobs/:id/resource-requirements`.
    ResourceRequirements,
    /// The TaskManagers' pods.
    TaskManagerPods,
    /// The `FlinkSessionJob`s that refer to the session cluster.
    SessionJobs,
    /// The `FlinkStateSnapshot`s of the job, as the watch last saw them.
    Snapshots,
    /// The savepoint of the job's own bookkeeping that is under way.
    Savepoint,
    /// The checkpoint of the job's own bookkeeping that is under way.
    Checkpoint,
    /// Paths that revisions of the job refer to.
    Revisions,
    /// What validators outside say of the wanted spec.
    Verdict,
}

/// A fact as a decision reads it: the value, or why it could not be read.
pub type Answer<'a, T> = Result<&'a T, &'a str>;

/// The JobManager Deployment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobManager {
    pub uid: String,
    /// Uid of the `FlinkDeployment` that owns it.
    pub owner_uid: Option<String>,
    /// Value of the generation annotation.
    pub generation: Option<i64>,
    pub is_deleting: bool,
    /// When it was asked to go.
    pub deleting_since: Option<Timestamp>,
    pub replicas: i32,
    pub available_replicas: i32,
    /// Message of condition `ReplicaFailure` when its reason is `FailedCreate`.
    pub replica_failure: Option<String>,
    /// Condition `Available` has been false since the Deployment was made.
    pub was_never_available: bool,
    pub created: Option<Timestamp>,
}

/// The TaskManagers' Deployment of a standalone cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskManagers {
    pub uid: String,
    /// Uid of the `FlinkDeployment` that owns it.
    pub owner_uid: Option<String>,
    pub is_deleting: bool,
    /// When it was asked to go.
    pub deleting_since: Option<Timestamp>,
}

/// A pod of a JobManager or a TaskManager.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    pub name: String,
    pub created: Option<Timestamp>,
    /// When its time to end is over; absent while nobody asked it to.
    pub ending_since: Option<Timestamp>,
    /// Whether its main container ever ran.
    pub has_started: bool,
    /// What keeps it from running.
    pub problem: Option<PodProblem>,
}

/// Reason of a pod that no node has room for.
pub const UNSCHEDULABLE: &str = "Unschedulable";

/// What keeps a pod from running.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodProblem {
    /// Kubernetes' reason, such as `ImagePullBackOff`.
    pub reason: String,
    /// `[container] message`.
    pub message: String,
}

/// A job in `/jobs/overview`.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub id: String,
    pub name: String,
    /// With `CREATED` for a running job whose tasks are not all running.
    pub state: JobStatusState,
    /// Milliseconds since the epoch.
    pub start_time: i64,
    /// When one of its tasks last changed its state, in milliseconds since the epoch, by Flink's
    /// clock.
    pub modified: Option<i64>,
}

/// What the checkpoint statistics say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoints {
    /// Newest usable state.
    pub latest: Option<CompletedState>,
    /// There is a newest state, and it cannot be started from, for this reason.
    pub unusable: Option<String>,
    /// Trigger time of a checkpoint that is under way.
    pub pending_since: Option<Timestamp>,
    /// Bytes of the last completed checkpoint.
    pub state_size: Option<i64>,
}

/// A completed checkpoint or savepoint.
#[derive(Clone, Debug, PartialEq)]
pub struct CompletedState {
    pub path: String,
    pub at: Option<Timestamp>,
}

/// HA metadata of the job, by its job id.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HaMetadata {
    /// The job has an entry.
    pub has_job: bool,
    /// The entry names at least one checkpoint.
    pub has_checkpoint: bool,
}

/// The stop-with-savepoint that is under way.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    Pending,
    Completed {
        path: String,
    },
    Failed {
        message: String,
    },
    /// Flink does not know the trigger: it was never received, or its JobManager restarted.
    NotFound,
}

/// What a cluster says of itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cluster {
    pub flink_version: String,
    pub flink_revision: String,
    pub task_managers: i64,
}

/// Why a job failed: its exception and the causes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Failure {
    pub message: String,
    pub causes: Vec<String>,
}

/// An exception in a job's history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobException {
    /// Milliseconds since the epoch.
    pub at: i64,
    pub stack_trace: String,
    pub task_name: Option<String>,
    /// `host:port` of the TaskManager.
    pub endpoint: Option<String>,
    pub task_manager_id: Option<String>,
    pub labels: BTreeMap<String, String>,
}

/// Figures of a job since its JobManager started it; absent where Flink has none yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobMetrics {
    pub restarts: Option<i64>,
    pub completed_checkpoints: Option<i64>,
}

/// How much parallelism a vertex may have.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bounds {
    /// Zero where it was never set.
    pub lower: u32,
    pub upper: u32,
}

/// Up to where the exceptions of a job were told.
#[derive(Clone, Debug, PartialEq)]
pub struct ToldExceptions {
    pub job_id: String,
    /// Milliseconds since the epoch.
    pub until: i64,
    /// [`Job::modified`] of a job all of whose exceptions until then were read.
    pub complete_at: Option<i64>,
}

/// Everything that was looked up in this pass.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    pub job_manager: Fact<Option<JobManager>>,
    pub task_managers: Fact<Option<TaskManagers>>,
    pub pods: Fact<Vec<Pod>>,
    pub jobs: Fact<Vec<Job>>,
    pub checkpoints: Fact<Checkpoints>,
    pub ha_metadata: Fact<HaMetadata>,
    pub stop: Fact<Stop>,
    pub cluster: Fact<Cluster>,
    pub failure: Fact<Failure>,
    /// In any order.
    pub exceptions: Fact<Vec<JobException>>,
    pub job_metrics: Fact<JobMetrics>,
    /// By vertex id.
    pub resource_requirements: Fact<BTreeMap<String, Bounds>>,
    pub task_manager_pods: Fact<Vec<Pod>>,
    /// Names of the `FlinkSessionJob`s that refer to the session cluster.
    pub session_jobs: Fact<Vec<String>>,
    pub snapshots: Fact<Vec<KnownSnapshot>>,
    pub savepoint: Fact<Trigger>,
    pub checkpoint: Fact<Trigger>,
    pub revisions: Fact<Vec<String>>,
    pub verdict: Fact<Verdict>,
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
pub struct World<'a> {
    /// The only clock.
    pub now: Timestamp,
    /// Metadata and spec; its status may be older than `status`.
    pub resource: &'a FlinkDeployment,
    /// The status that was written last.
    pub status: &'a DeploymentStatus,
    pub operator: &'a OperatorConfig,
    /// Whether `FlinkStateSnapshot` is installed.
    pub has_snapshot_resources: bool,
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
    pub facts: Facts,
    /// Kept from question to question.
    pub memo: Memo,
}

macro_rules! questions {
    ($($name:ident: $type:ty => $question:ident;)*) => {
        impl World<'_> {
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
    ha_metadata: HaMetadata => HaMetadata;
    stop: Stop => Stop;
    cluster: Cluster => Cluster;
    failure: Failure => Failure;
    task_manager_pods: Vec<Pod> => TaskManagerPods;
    session_jobs: Vec<String> => SessionJobs;
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
}

/// A question that a decision may end with.
pub(super) trait AnyQuestion {}

macro_rules! job_facts {
    ($($name:ident: $type:ty;)*) => {
        /// What decisions about any resource with a job may look at.
        pub(super) trait JobWorld {
            type Kind: Kind;

            fn now(&self) -> Timestamp;
            fn metadata(&self) -> &ObjectMeta;
            fn spec(&self) -> &<Self::Kind as Kind>::Spec;
            fn status(&self) -> &<Self::Kind as Kind>::Status;
            fn operator(&self) -> &OperatorConfig;
            fn has_snapshot_resources(&self) -> bool;
            fn fresh(&self) -> &Fresh;
            fn told_exceptions(&self) -> Option<&ToldExceptions>;
            fn periodic(&self) -> &Memory;
            fn zone(&self) -> &TimeZone;
            fn went_back(&self) -> Option<&WentBack>;

            /// The stored spec of this text.
            fn parse(&self, text: &str) -> Stored<<Self::Kind as Kind>::Spec>;

            $(
                /// The fact, or the question to answer first.
                fn $name(&self) -> Result<Answer<'_, $type>, <Self::Kind as Kind>::Question>;
            )*

            fn name(&self) -> &str {
                self.metadata().name.as_deref().unwrap_or_default()
            }

            fn namespace(&self) -> &str {
                self.metadata().namespace.as_deref().unwrap_or("default")
            }

            fn generation(&self) -> i64 {
                self.metadata().generation.unwrap_or_default()
            }
        }
    };
}

job_facts! {
    exceptions: Vec<JobException>;
    job_metrics: JobMetrics;
    resource_requirements: BTreeMap<String, Bounds>;
    snapshots: Vec<KnownSnapshot>;
    savepoint: Trigger;
    checkpoint: Trigger;
    revisions: Vec<String>;
}

/// Implements [`JobWorld`] for a world whose facts and questions have the usual names.
macro_rules! job_world {
    ($kind:ty; $($name:ident: $type:ty => $question:ident;)*) => {
        impl AnyQuestion for Question {}

        impl JobWorld for World<'_> {
            type Kind = $kind;

            fn now(&self) -> Timestamp {
                self.now
            }

            fn metadata(&self) -> &ObjectMeta {
                &self.resource.metadata
            }

            fn spec(&self) -> &<$kind as Kind>::Spec {
                &self.resource.spec
            }

            fn status(&self) -> &<$kind as Kind>::Status {
                self.status
            }

            fn operator(&self) -> &OperatorConfig {
                self.operator
            }

            fn has_snapshot_resources(&self) -> bool {
                self.has_snapshot_resources
            }

            fn fresh(&self) -> &Fresh {
                &self.fresh
            }

            fn told_exceptions(&self) -> Option<&ToldExceptions> {
                self.told_exceptions.as_ref()
            }

            fn periodic(&self) -> &Memory {
                &self.periodic
            }

            fn zone(&self) -> &TimeZone {
                &self.zone
            }

            fn went_back(&self) -> Option<&WentBack> {
                self.went_back.as_ref()
            }

            fn parse(&self, text: &str) -> Stored<<$kind as Kind>::Spec> {
                self.memo.parse(text)
            }

            $(
                fn $name(&self) -> Result<Answer<'_, $type>, Question> {
                    self.facts.$name.read(Question::$question)
                }
            )*
        }
    };
}
pub(super) use job_world;

job_world! {
    FlinkDeployment;
    exceptions: Vec<JobException> => Exceptions;
    job_metrics: JobMetrics => JobMetrics;
    resource_requirements: BTreeMap<String, Bounds> => ResourceRequirements;
    snapshots: Vec<KnownSnapshot> => Snapshots;
    savepoint: Trigger => Savepoint;
    checkpoint: Trigger => Checkpoint;
    revisions: Vec<String> => Revisions;
}
