//! Questions that a decision may ask, and the facts that answer them.

use std::collections::BTreeMap;

use jiff::Timestamp;

use api::status::JobStatusState;
use render::Objects;
use render::preflight::Preflight;

/// A fact that may have been looked up.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Fact<T> {
    #[default]
    NotAsked,
    /// It could not be read, for this reason.
    Unknown(String),
    Known(T),
}

impl<T> Fact<T> {
    /// Returns the fact, or `question`, to be answered first.
    pub fn read<Q>(&self, question: Q) -> Result<Answer<'_, T>, Q> {
        match self {
            Self::NotAsked => Err(question),
            Self::Unknown(reason) => Ok(Err(reason)),
            Self::Known(value) => Ok(Ok(value)),
        }
    }
}

/// A fact that a decision needs and that was not looked up yet.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// The JobManager Deployment, read from the API server so that its absence is certain, and not a stale cache.
    JobManager,
    /// The TaskManagers' Deployment of a standalone cluster, read in the same way.
    TaskManagers,
    /// The JobManager's pods.
    Pods,
    /// `GET /jobs/overview`.
    Jobs,
    /// `GET /jobs/:id/checkpoints`.
    Checkpoints,
    /// `GET /jobs/:id/checkpoints/config`.
    Retention,
    /// HA metadata of the job.
    HaMetadata,
    /// The high availability options in the ConfigMap that the cluster's pods mount.
    DeployedConfig,
    /// The stop-with-savepoint in progress.
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
    /// All pods of the cluster, also those whose processes have ended: each keeps a Deployment that is deleted in the
    /// foreground.
    Remains,
    /// The `FlinkSessionJob`s that refer to the session cluster.
    SessionJobs,
    /// The `FlinkStateSnapshot`s of the job, as last seen by the watch.
    Snapshots,
    /// The savepoint in progress of the job's own bookkeeping.
    Savepoint,
    /// The checkpoint in progress of the job's own bookkeeping.
    Checkpoint,
    /// Paths that revisions of the job refer to.
    Revisions,
    /// Why the API server would refuse these objects: each is sent as a server-side dry run.
    Refusal(Box<Objects>),
    /// The state of the pods that try the desired spec, and whether missing ones can be created.
    Preflight(Box<Preflight>),
    /// The pods that stand by to take over the cluster, or were handed over to it and not all adopted.
    StandbyPods,
    /// Who holds the lock that the JobManagers of the cluster contend for.
    Leader,
    /// Whether the upgrade may begin, according to the budget of concurrent upgrades.
    Turn,
    /// Everything else that refers to the savepoints of the status' history, read completely.
    References,
    /// The external validators' verdict on the desired spec.
    Verdict,
    /// The cluster's nodes, as last seen by the watch.
    Nodes,
    /// The nodes of the job's pods.
    PodNodes,
    /// When the JobManager of the session cluster that now answers was started.
    JobManagerStart,
    /// Whether the jar of the desired spec can be fetched.
    Jar,
    /// Whether the operator can read these files in its own file system.
    Files(Vec<String>),
}

/// A file in the operator's file system.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum OperatorFile {
    Readable,
    /// It is missing, cannot be read or is too large, for this reason.
    Unusable(String),
    /// The process that asks is not the operator, and does not have its files.
    Elsewhere,
}

/// A fact as a decision reads it: the value, or why it could not be read.
pub type Answer<'a, T> = Result<&'a T, &'a str>;

/// The JobManager Deployment.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct JobManager {
    pub uid: String,
    /// Uid of the `FlinkDeployment` that owns it.
    pub owner_uid: Option<String>,
    /// Value of the generation annotation.
    pub generation: Option<i64>,
    /// It is being deleted, or was stopped so that it can be.
    pub is_deleting: bool,
    /// The operator scaled it to zero, and deletes it once its pods have ended.
    pub is_stopped: bool,
    pub version: Option<DeploymentVersion>,
    /// It was stopped like this before any of its processes ran, and was not scaled up since.
    pub is_stopped_unstarted: bool,
    /// When its deletion was requested.
    pub deleting_since: Option<Timestamp>,
    pub replicas: i32,
    pub available_replicas: i32,
    /// Message of condition `ReplicaFailure` when its reason is `FailedCreate`.
    pub replica_failure: Option<String>,
    /// Condition `Available` has been false since the Deployment was created.
    pub was_never_available: bool,
    pub created: Option<Timestamp>,
}

/// One version of a Deployment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DeploymentVersion {
    /// `metadata.resourceVersion`.
    pub resource: String,
    /// `metadata.generation`, which counts the changes of its spec.
    pub generation: i64,
}

/// The TaskManagers' Deployment of a standalone cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskManagers {
    pub uid: String,
    /// Uid of the `FlinkDeployment` that owns it.
    pub owner_uid: Option<String>,
    pub is_deleting: bool,
    /// When its deletion was requested.
    pub deleting_since: Option<Timestamp>,
}

/// A pod of a JobManager or a TaskManager.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pod {
    pub name: String,
    pub created: Option<Timestamp>,
    /// When its grace period ends; `None` while its deletion was not requested.
    pub ending_since: Option<Timestamp>,
    /// Its main container ran at least once.
    pub has_started: bool,
    /// Its main container ran more than once.
    pub has_restarted: bool,
    /// When its main container last started, with a resolution of one second.
    pub last_started: Option<Timestamp>,
    /// Problem that keeps it from running.
    pub problem: Option<PodProblem>,
    pub node: Option<String>,
    /// What has to be removed from it before it can go.
    pub finalizers: Vec<String>,
    /// Its processes have ended.
    pub has_ended: bool,
}

impl Pod {
    /// Returns the pod with what may hold it.
    fn describe(&self) -> String {
        let node = self.node.iter().map(|node| format!("on node `{node}`"));
        let finalizers = (!self.finalizers.is_empty())
            .then(|| format!("with finalizers [{}]", self.finalizers.join(", ")));
        let ended = self.has_ended.then(|| "has ended".to_owned());
        let held = ended.into_iter().chain(node).chain(finalizers).collect::<Vec<_>>().join(", ");
        let name = &self.name;
        if held.is_empty() { name.clone() } else { format!("{name} ({held})") }
    }

    /// Returns the pods as a list for a message.
    pub(crate) fn list<'a>(pods: impl Iterator<Item = &'a Self>) -> String {
        pods.map(Self::describe).collect::<Vec<_>>().join(", ")
    }
}

/// Reason of a pod that does not fit on any node.
pub const UNSCHEDULABLE: &str = "Unschedulable";

/// Problem that keeps a pod from running.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodProblem {
    /// Kubernetes' reason, such as `ImagePullBackOff`.
    pub reason: String,
    /// `[container] message`.
    pub message: String,
}

/// Reason of a pod that would try a spec and cannot be created, although those of the spec itself could.
pub const UNTRIABLE: &str = "Untriable";

/// What is known about the pods that try a changed spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PreflightPods {
    pub pods: Vec<PreflightPod>,
    /// Why the API server would reject a pod of the new spec, or one that tries it.
    pub refusal: Option<PodProblem>,
}

/// A pod that tries a changed spec.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PreflightPod {
    pub name: String,
    /// Digest of what it tries, see [`Preflight::digest`].
    pub digest: String,
    pub created: Option<Timestamp>,
    pub state: PreflightState,
}

/// State of such a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PreflightState {
    #[default]
    Pending,
    /// Everything that it tried is in order.
    Passed,
    /// It does not start, or failed. It is retried automatically.
    Troubled(PodProblem),
    /// It has used up its time, or is being deleted.
    Over,
}

/// A pod that stands by, or that stood by and is owned by the `FlinkDeployment` still.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StandbyPod {
    pub name: String,
    /// Name of its run of the job.
    pub run: String,
    pub is_job_manager: bool,
    /// It has the labels of the cluster's pods.
    pub is_handed_over: bool,
    /// It has a controller, which replaces it if it ends.
    pub is_adopted: bool,
    /// When its grace period ends; `None` while its deletion was not requested.
    pub ending_since: Option<Timestamp>,
}

/// Holder of the lock that the JobManagers of a cluster contend for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Leader {
    Nobody,
    Operator,
    /// The holder has published the address of a standby JobManager of the noted run.
    Standby,
    /// The holder has published the address of another JobManager.
    Other,
    /// The holder has not published an address by which it can be told.
    Unproven,
}

/// A job in `/jobs/overview`.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    pub id: String,
    pub name: String,
    /// `CREATED` for a running job whose tasks are not all running.
    pub state: JobStatusState,
    /// Milliseconds since the epoch.
    pub start_time: i64,
    /// When one of its tasks last changed its state, in milliseconds since the epoch, by Flink's clock.
    pub modified: Option<i64>,
}

impl Job {
    pub(crate) fn started_at(&self) -> Option<Timestamp> {
        Timestamp::from_millisecond(self.start_time).ok()
    }

    pub(crate) fn modified_at(&self) -> Option<Timestamp> {
        Timestamp::from_millisecond(self.modified?).ok()
    }
}

/// Checkpoint statistics of a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoints {
    /// The newest usable state.
    pub latest: Option<CompletedState>,
    /// Why the newest state is unusable, if it is.
    pub unusable: Option<String>,
    /// Trigger time of a checkpoint in progress.
    pub pending_since: Option<Timestamp>,
    /// Size of the last completed checkpoint, in bytes.
    pub state_size: Option<i64>,
    /// The JobManager has no statistics of the job, whatever state it had: the job waits for resources, or ended while
    /// it did, or while it was being created.
    pub is_blank: bool,
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
    /// The metadata has an entry for the job.
    pub has_job: bool,
    /// Number of the newest checkpoint that the entry names.
    pub checkpoint: Option<u64>,
}

/// The stop-with-savepoint in progress.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    Pending,
    Completed {
        path: String,
    },
    /// The savepoint is complete, and the job failed while it was being stopped. If Flink restarts the job, it
    /// continues, and is soon ahead of the savepoint.
    SavedNotStopped {
        path: String,
        message: String,
    },
    Failed {
        message: String,
    },
    /// Flink does not know the trigger: it was never received, or its JobManager restarted.
    NotFound,
}

/// Facts that a cluster reports about itself.
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
    pub stack_trace: String,
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

/// Metrics of a job since its JobManager started it; `None` if Flink has none yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobMetrics {
    pub restarts: Option<i64>,
    pub completed_checkpoints: Option<i64>,
}

/// Bounds for the parallelism of a vertex.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Bounds {
    /// Zero if it was never set.
    pub lower: u32,
    pub upper: u32,
}

/// Up to when the exceptions of a job were reported.
#[derive(Clone, Debug, PartialEq)]
pub struct ReportedExceptions {
    pub job_id: String,
    /// Milliseconds since the epoch.
    pub until: i64,
    /// [`Job::modified`] of a job whose exceptions up to then were all read.
    pub complete_at: Option<i64>,
}

/// State of a triggered snapshot.
#[derive(Clone, Debug, PartialEq)]
pub enum Trigger {
    Pending,
    Completed {
        /// `None` for a checkpoint that is no longer in Flink's history.
        path: Option<String>,
        /// Number of a checkpoint.
        checkpoint: Option<u64>,
    },
    Failed {
        message: String,
    },
    /// Flink does not know the trigger.
    NotFound,
}

/// A `FlinkSessionJob` as its session cluster sees it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SessionJob {
    pub name: String,
    /// `status.jobStatus.jobId`.
    pub job_id: Option<String>,
    /// According to its record, which may be out of date: its job runs, is being stopped, or may result from a
    /// submission.
    pub is_active: bool,
    /// Its job is being stopped, for its successor or to be suspended.
    pub is_stopping: bool,
}

/// The answer to an upgrade that asks whether it may begin.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Turn {
    /// It may begin, or already has.
    Taken,
    /// The maximum number of upgrades is under way.
    Waits,
    /// As many are under way, and one of them has been for a while.
    WaitsFor { name: String, since: Timestamp },
    /// Too many earlier upgrades failed.
    Paused,
}
