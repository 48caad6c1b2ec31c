//! What the status of a resource says about its upgrade.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use strum::IntoStaticStr;

use crate::application::preflight::PREFLIGHT_FAILED;
use crate::conditions::ReportedWait;
use crate::error_document::reason_of;
use crate::job;
use crate::lifecycle::needs_a_person;
use crate::notes::{PREFLIGHT, generation_of_jobs};
use crate::problem::SAVEPOINT_OVERDUE;
use crate::resource::StatusOfJob;
use api::blue_green::parent_of;
use api::status::{DeploymentStatus, LifecycleState};

/// Progress of an upgrade, by the status of its resource.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// Its spec is tried, or its job is being saved. The job still runs, and both have limits of their own.
    Preparing,
    /// Something is being stopped or started.
    UnderWay,
    /// Something is being started that was never stable.
    Starting,
    /// What was started is not stable yet.
    Deployed {
        since: Timestamp,
        is_first: bool,
    },
    Stable,
    Failed,
    /// No upgrade is under way.
    Idle,
}

impl Progress {
    /// Returns true while something is tried, saved, stopped or started.
    pub fn is_in_progress(self) -> bool {
        matches!(self, Self::Preparing | Self::UnderWay | Self::Starting)
    }

    /// Returns true if others wait for it although it did not ask. A first start takes nothing down.
    pub(super) fn takes_a_place(self) -> bool {
        matches!(self, Self::Preparing | Self::UnderWay | Self::Deployed { is_first: false, .. })
    }

    /// Returns the standing for the stored status.
    pub fn of(status: &DeploymentStatus) -> Self {
        let reason = status.error.as_deref().and_then(reason_of);
        if reason.as_deref() == Some(PREFLIGHT_FAILED) {
            return Self::Failed;
        }
        let info = &status.cluster_info;
        if PREFLIGHT.get(info).is_some_and(|it| it.is_under_way()) {
            return Self::Preparing;
        }
        if generation_of_jobs(info) > status.observed_generation {
            return Self::UnderWay;
        }
        Self::of_job(status, needs_a_person(status))
    }

    pub(super) fn of_job(status: &impl StatusOfJob, needs_a_person: bool) -> Self {
        if job::pending_stop(status.job()).is_some() {
            let reason = status.error().and_then(reason_of);
            let is_overdue = reason.as_deref() == Some(SAVEPOINT_OVERDUE);
            return if is_overdue { Self::UnderWay } else { Self::Preparing };
        }
        let reconciliation = status.reconciliation();
        let was_stable = reconciliation.last_stable_spec.is_some();
        match status.lifecycle_state() {
            // Nothing moves until a person chooses the state.
            Some(LifecycleState::Upgrading | LifecycleState::RollingBack) if needs_a_person => {
                Self::Failed
            }
            Some(LifecycleState::Upgrading) if !was_stable => Self::Starting,
            Some(LifecycleState::Upgrading | LifecycleState::RollingBack) => Self::UnderWay,
            Some(LifecycleState::Deployed) => Self::Deployed {
                since: Timestamp::from_millisecond(reconciliation.reconciliation_timestamp)
                    .unwrap_or_default(),
                is_first: !was_stable,
            },
            Some(LifecycleState::Stable) => Self::Stable,
            Some(LifecycleState::Failed | LifecycleState::RolledBack) => Self::Failed,
            Some(
                LifecycleState::Created
                | LifecycleState::Suspended
                | LifecycleState::Deleting
                | LifecycleState::Deleted,
            )
            | None => Self::Idle,
        }
    }
}

/// What the status of a resource says about its upgrade.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    pub standing: Progress,
    /// Present while it waits.
    pub told: Option<ReportedWait>,
}

impl Record {
    pub fn of(status: &DeploymentStatus) -> Self {
        Self { standing: Progress::of(status), told: ReportedWait::of(&status.conditions) }
    }
}

/// A kind of resource whose upgrades take turns.
#[derive(Clone, Copy, Debug, Eq, PartialEq, IntoStaticStr)]
pub enum ResourceKind {
    FlinkDeployment,
    FlinkSessionJob,
    FlinkBlueGreenDeployment,
}

/// The resource of an upgrade.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Of {
    pub kind: ResourceKind,
    pub uid: String,
    pub namespace: String,
    pub name: String,
    /// Uid of the blue/green deployment that this is a child of, or of the session cluster that it is in.
    pub parent: Option<String>,
}

impl Of {
    pub fn new(kind: ResourceKind, metadata: &ObjectMeta) -> Self {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            kind,
            uid: text(&metadata.uid),
            namespace: text(&metadata.namespace),
            name: text(&metadata.name),
            parent: parent_of(metadata).map(|parent| parent.uid.clone()),
        }
    }

    /// Returns the name for a message.
    pub(super) fn shown(&self) -> String {
        let Self { kind, namespace, name, .. } = self;
        match kind {
            ResourceKind::FlinkDeployment => format!("{namespace}/{name}"),
            ResourceKind::FlinkSessionJob | ResourceKind::FlinkBlueGreenDeployment => {
                format!("{} {namespace}/{name}", <&str>::from(kind))
            }
        }
    }
}
