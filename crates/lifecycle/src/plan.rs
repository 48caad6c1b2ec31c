//! A plan: the steps that a decision wants taken, in order.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_core::object::HasStatus;
use serde_json::Value;
use strum::IntoStaticStr;

use api::deployment::{FlinkDeployment, FlinkDeploymentSpec};
use api::state_snapshot::FlinkStateSnapshot;
use api::status::{DeploymentStatus, SavepointFormatType, SnapshotTriggerType};
use render::Objects;
use render::preflight::Preflight;

use super::blocker::Blocker;
use super::event::Event;
use super::resource::{JobResource, OwnStep};
use super::snapshot::labels::trigger_type;
use super::snapshot::request::Request;
use super::trigger::known::{Cause, SnapshotKind, notices_of};
use super::world::{Bounds, DeploymentVersion};
use state::restore_point::RestorePoint;

/// A spec that is superseded, with the state it left.
#[derive(Clone, Debug, PartialEq)]
pub struct Superseded<S = FlinkDeploymentSpec> {
    pub spec: S,
    pub restore_point: RestorePoint,
}

/// A snapshot for the job's own bookkeeping.
#[derive(Clone, Debug, PartialEq)]
pub struct TakeSnapshot {
    pub kind: SnapshotKind,
    pub cause: Cause,
    pub request: Request,
}

/// One effect on the snapshots of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum SnapshotStep {
    /// Creates a `FlinkStateSnapshot`: one to take, or one that an upgrade took.
    Create(Box<FlinkStateSnapshot>),
    /// Deletes a `FlinkStateSnapshot` in the version that was looked at: its user may have made it one
    /// to keep since. Whether its savepoint goes with it, is its own decision.
    Delete { name: String, uid: String, version: String },
    /// Takes a savepoint or a checkpoint for the job's own bookkeeping, which has the trigger id.
    Take(Box<TakeSnapshot>),
    /// Deletes a savepoint of the deprecated history; where that fails its entry stays.
    Dispose {
        path: String,
        /// Those after it in the plan are not tried either, should this one fail.
        is_in_order: bool,
    },
}

impl SnapshotStep {
    /// The step's name in logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "create-snapshot",
            Self::Delete { .. } => "delete-snapshot",
            Self::Take(_) => "take-snapshot",
            Self::Dispose { .. } => "dispose-savepoint",
        }
    }

    /// The kind of the periodic snapshot that it asks for, if it does.
    pub fn periodic(&self) -> Option<SnapshotKind> {
        match self {
            Self::Create(snapshot)
                if trigger_type(snapshot) == SnapshotTriggerType::Periodic
                    && notices_of(snapshot).is_empty() =>
            {
                Some(SnapshotKind::of(snapshot))
            }
            Self::Take(snapshot) if snapshot.cause == Cause::Periodic => Some(snapshot.kind),
            Self::Create(_) | Self::Take(_) | Self::Delete { .. } | Self::Dispose { .. } => None,
        }
    }

    /// Uids of the nodes whose going it asks for a snapshot.
    pub fn notices(&self) -> Vec<String> {
        match self {
            Self::Create(snapshot) => notices_of(snapshot),
            Self::Take(_) | Self::Delete { .. } | Self::Dispose { .. } => Vec::new(),
        }
    }
}

/// One idempotent effect. Steps run in order and stop at the first error; the next pass starts from
/// what the world then is.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<K: JobResource = FlinkDeployment> {
    AddFinalizer,
    RemoveFinalizer,
    /// Writes the status now: an intent, before what follows it.
    WriteStatus(Box<K::Status>),
    Event(Event),
    /// Keeps the superseded spec for `history` and `rollback`.
    RecordRevision(Box<Superseded<K::Spec>>),
    Snapshot(SnapshotStep),
    /// Stop-with-savepoint; the trigger id is in the status already.
    TriggerStop {
        job_id: String,
        trigger_id: String,
        directory: Option<String>,
        format: SavepointFormatType,
        drain: bool,
    },
    /// Cancels the job; with `is_best_effort` an error does not stop the plan. One that is not there, or has
    /// ended, needs no cancelling.
    CancelJob {
        job_id: String,
        is_best_effort: bool,
    },
    /// Gives the running job's vertices new bounds of parallelism.
    ScaleJob {
        job_id: String,
        bounds: BTreeMap<String, Bounds>,
    },
    Own(K::Step),
}

impl<K: JobResource> Step<K> {
    /// Its name in logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AddFinalizer => "add-finalizer",
            Self::RemoveFinalizer => "remove-finalizer",
            Self::WriteStatus(_) => "write-status",
            Self::Event(_) => "event",
            Self::RecordRevision(_) => "record-revision",
            Self::Snapshot(step) => step.name(),
            Self::TriggerStop { .. } => "stop-with-savepoint",
            Self::CancelJob { .. } => "cancel-job",
            Self::ScaleJob { .. } => "scale-job",
            Self::Own(step) => step.name(),
        }
    }
}

impl<K: JobResource> From<Event> for Step<K> {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

impl<K: JobResource> From<SnapshotStep> for Step<K> {
    fn from(step: SnapshotStep) -> Self {
        Self::Snapshot(step)
    }
}

/// Step that is taken on the cluster of a `FlinkDeployment`.
#[derive(Clone, Debug, IntoStaticStr, PartialEq)]
#[strum(serialize_all = "kebab-case")]
pub enum ClusterStep {
    /// Ends the pods of the JobManager Deployment with this uid, and leaves what it owns: its
    /// TaskManagers must not go first.
    StopJobManager {
        uid: String,
        /// The version of it in which no process of it had ever run: only this one is stopped, and
        /// that it never ran is noted on it.
        unstarted: Option<DeploymentVersion>,
    },
    /// Deletes the JobManager Deployment with this uid and everything that it owns.
    DeleteJobManager { uid: String },
    /// Ends the pods of the TaskManagers' Deployment, with this uid, of a standalone cluster. Those of one that is
    /// deleted end only when the garbage collector comes by.
    StopTaskManagers { uid: String },
    /// Deletes the TaskManagers' Deployment, with this uid, of a standalone cluster.
    DeleteTaskManagers { uid: String },
    /// Gives the TaskManagers' Deployment, with this uid, of a standalone cluster this many replicas.
    ScaleTaskManagers { uid: String, replicas: i32 },
    /// Deletes the HA metadata of the cluster: in ZooKeeper that of these jobs, where they are known,
    /// and all that no other job has a part in.
    DeleteHaMetadata { jobs: Option<Vec<String>> },
    /// Deletes the stored job graphs, so that a JobManager starts with the new one; in ZooKeeper beside
    /// a JobManager those of these jobs only.
    ForgetJobGraphs { jobs: Vec<String> },
    /// Takes the lead from the JobManager that is about to end, so that nobody leads until it has: neither it, again,
    /// nor one that stands by.
    HoldLeadership,
    /// Lets the JobManager lead that stands by. Nothing where the operator does not hold the lock.
    ReleaseLeadership,
    /// Creates ConfigMaps, Deployments and Services, ConfigMaps first.
    CreateCluster(Box<Objects>),
    /// Makes the pods that try the wanted spec, and the ConfigMaps that they mount.
    MakePreflight(Box<Preflight>),
    /// Removes whatever tried a spec.
    RemovePreflight,
    /// Makes the Ingress this one; nothing: there is to be none.
    ApplyIngress(Option<Box<Value>>),
    /// Creates what a crash between two steps may have left out beside the JobManager, or what of
    /// it was lost since.
    FinishCluster(Box<Objects>),
}

impl OwnStep for ClusterStep {
    fn name(&self) -> &'static str {
        self.into()
    }
}

impl From<ClusterStep> for Step {
    fn from(step: ClusterStep) -> Self {
        Self::Own(step)
    }
}

/// The plan for a resource of this kind.
pub type PlanOf<K> = Plan<Step<K>, <K as HasStatus>::Status>;

/// Steps to take now, why, and when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<T = Step, S = DeploymentStatus> {
    pub steps: Vec<T>,
    /// The status at the end of the plan; written when it differs from the last one.
    pub status: Box<S>,
    /// One phrase: logged, shown by `plan`, asserted by tests.
    pub because: String,
    /// `None`: wait for a change.
    pub look_again: Option<Duration>,
    /// The blocker that a deletion waits for.
    pub blocker: Option<Box<Blocker>>,
}
