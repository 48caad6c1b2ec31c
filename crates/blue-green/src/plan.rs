//! What is to be done.

use std::time::Duration;

use api::blue_green::{BlueGreenStatus, Colour};
use api::deployment::FlinkDeployment;
use jiff::Timestamp;
use lifecycle::event::Event;
use state::revision;

/// One thing to do. Steps are taken in order, and the operator may die before any of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// What follows depends on this being stored.
    WriteStatus(Box<BlueGreenStatus>),
    Event(Event),
    /// The spec that another one takes the place of, with the state that it leaves.
    RecordRevision(Box<revision::Content>),
    /// Asks the JobManager of this child for a savepoint under this id; it may have been asked before.
    TriggerSavepoint {
        colour: Colour,
        trigger_id: String,
    },
    /// The savepoint of this child, asked for at that time, is shown as those of upgrades are.
    KeepSavepoint {
        colour: Colour,
        path: String,
        since: Timestamp,
    },
    /// The child of this colour begins with what the autoscaler knows of the other one, or with nothing.
    CopyAutoscalerState {
        to: Colour,
        is_reset: bool,
    },
    CreateChild(Box<FlinkDeployment>),
    /// Gives the child this spec, as long as it is the version that was looked at.
    ChangeChild(Box<FlinkDeployment>),
    DeleteChild {
        name: String,
        uid: String,
    },
    /// What leads to the web UI leads to the child of this colour from now on.
    PointIngress(Colour),
}

impl Step {
    /// As the log and tests call it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::WriteStatus(_) => "write-status",
            Self::Event(_) => "event",
            Self::RecordRevision(_) => "record-revision",
            Self::TriggerSavepoint { .. } => "trigger-savepoint",
            Self::KeepSavepoint { .. } => "keep-savepoint",
            Self::CopyAutoscalerState { .. } => "copy-autoscaler-state",
            Self::CreateChild(_) => "create-child",
            Self::ChangeChild(_) => "change-child",
            Self::DeleteChild { .. } => "delete-child",
            Self::PointIngress(_) => "point-ingress",
        }
    }
}

/// Steps, why, and the status to end with.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub because: String,
    pub steps: Vec<Step>,
    pub status: Box<BlueGreenStatus>,
    /// When to look again without being woken.
    pub look_again: Option<Duration>,
}
