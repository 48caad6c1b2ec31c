//! A plan: the steps to take, in order.

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
use super::wait::Waiting;
use super::world::{Bounds, DeploymentVersion};
use state::restore_point::RestorePoint;

/// A superseded spec, with the state it left.
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

/// An effect on the snapshots of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum SnapshotStep {
    /// Creates a `FlinkStateSnapshot`: either a request for a snapshot, or the record of one that an upgrade took.
    Create(Box<FlinkStateSnapshot>),
    /// Deletes a `FlinkStateSnapshot` if it still has the version that was read, because its user may have decided to
    /// keep it since. Whether its savepoint is deleted with it is decided by its own deletion.
    Delete { name: String, uid: String, version: String },
    /// Takes a savepoint or a checkpoint for the job's own bookkeeping, which has the trigger id.
    Take(Box<TakeSnapshot>),
    /// Deletes a savepoint of the deprecated history. If that fails, its entry stays.
    Dispose {
        path: String,
        /// If this one fails, those after it in the plan are not tried either.
        is_in_order: bool,
    },
}

impl SnapshotStep {
    /// Returns the step's name for logs.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "create-snapshot",
            Self::Delete { .. } => "delete-snapshot",
            Self::Take(_) => "take-snapshot",
            Self::Dispose { .. } => "dispose-savepoint",
        }
    }

    /// Returns the kind of the periodic snapshot that the step requests, if it does.
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

    /// Returns the uids of the departing nodes that the step takes a snapshot for.
    pub fn notices(&self) -> Vec<String> {
        match self {
            Self::Create(snapshot) => notices_of(snapshot),
            Self::Take(_) | Self::Delete { .. } | Self::Dispose { .. } => Vec::new(),
        }
    }
}

/// An idempotent effect. Steps run in order and stop at the first error; the next pass continues from whatever it
/// finds.
#[derive(Clone, Debug, PartialEq)]
pub enum Step<K: JobResource = FlinkDeployment> {
    AddFinalizer,
    RemoveFinalizer,
    /// Writes the status now, as an intent before the steps that follow.
    WriteStatus(Box<K::Status>),
    Event(Event),
    /// Keeps the superseded spec for `history` and `rollback`.
    RecordRevision(Box<Superseded<K::Spec>>),
    Snapshot(SnapshotStep),
    /// Triggers a stop-with-savepoint; the trigger id is in the status already.
    TriggerStop {
        job_id: String,
        trigger_id: String,
        directory: Option<String>,
        format: SavepointFormatType,
        drain: bool,
    },
    /// Cancels the job; with `is_best_effort`, an error does not stop the plan. A job that does not exist or has ended
    /// needs no cancellation.
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
    /// Returns the step's name for logs.
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

/// A step on the cluster of a `FlinkDeployment`.
#[derive(Clone, Debug, IntoStaticStr, PartialEq)]
#[strum(serialize_all = "kebab-case")]
pub enum ClusterStep {
    /// Ends the pods of the JobManager Deployment with this uid, and leaves what it owns: its TaskManagers must not go
    /// first.
    StopJobManager {
        uid: String,
        /// The version in which none of its processes had ever run: only this version is stopped, and is marked as
        /// never having run.
        unstarted: Option<DeploymentVersion>,
    },
    /// Deletes the JobManager Deployment with this uid, and everything it owns.
    DeleteJobManager { uid: String },
    /// Ends the pods of a standalone cluster's TaskManager Deployment with this uid. After a deletion they would run
    /// until the garbage collector gets to them.
    StopTaskManagers { uid: String },
    /// Deletes a standalone cluster's TaskManager Deployment with this uid.
    DeleteTaskManagers { uid: String },
    /// Scales a standalone cluster's TaskManager Deployment with this uid.
    ScaleTaskManagers { uid: String, replicas: i32 },
    /// Deletes the HA metadata of the cluster. In ZooKeeper that is the metadata of these jobs, if they are known, and
    /// everything that no other job uses.
    DeleteHaMetadata { jobs: Option<Vec<String>> },
    /// Deletes the stored job graphs, so that a JobManager starts with the new one. In ZooKeeper, next to a JobManager,
    /// only those of these jobs.
    ForgetJobGraphs { jobs: Vec<String> },
    /// Takes leadership from the JobManager that is about to end, or renews that, so that there is no leader until it
    /// has ended: neither it, again, nor one that stands by. It is held for as long as a JobManager waits for the lock
    /// of another one that does not renew it.
    HoldLeadership,
    /// Lets the standby JobManager become the leader. Does nothing if the operator does not hold the lock.
    ReleaseLeadership,
    /// Creates ConfigMaps, Deployments and Services, ConfigMaps first.
    CreateCluster(Box<Objects>),
    /// Creates the pods that try the desired spec, and the ConfigMaps that they mount.
    MakePreflight(Box<Preflight>),
    /// Removes everything that was created to try a spec, except what was handed over to the cluster since. Of pods that
    /// stand by, the JobManagers end first: if one of them leads, it must not see its TaskManagers go.
    RemovePreflight,
    /// Removes the pods that stand by, and those that were handed over to Deployments that are not there. Those of this
    /// run stay.
    RemoveStandby { except: Option<String> },
    /// Leaves pods that were handed over to the Deployments that have adopted them, so that they end with these.
    DisownStandby,
    /// Applies this Ingress, or removes it if `None`.
    ApplyIngress(Option<Box<Value>>),
    /// Creates what a crash between two steps left out in addition to the JobManager, or what was lost since.
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
    /// The status at the end of the plan; written if it differs from the last one.
    pub status: Box<S>,
    /// A phrase that is logged, shown by `plan` and asserted by tests.
    pub because: String,
    /// `None` to wait for a change.
    pub look_again: Option<Duration>,
    /// The blocker that a deletion waits for.
    pub blocker: Option<Box<Blocker>>,
    /// What the plan waits for, to be remembered until the next pass.
    pub waits: Option<Waiting>,
}
