//! Plans: the steps of a pass, the status at its end, and when the next one follows.

use std::time::Duration;

use api::blue_green::{BlueGreenStatus, Colour};
use api::deployment::FlinkDeployment;
use jiff::Timestamp;
use lifecycle::event::Event;
use lifecycle::wait::Waiting;
use state::revision;

/// A single action. Steps are taken in order, and the operator may die before any of them.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// The steps that follow depend on this being stored.
    WriteStatus(Box<BlueGreenStatus>),
    Event(Event),
    /// Keeps the superseded spec, with the state that it leaves.
    RecordRevision(Box<revision::Content>),
    /// Asks the JobManager of this child for a savepoint under this id; it may have been asked before.
    TriggerSavepoint {
        colour: Colour,
        trigger_id: String,
    },
    /// Shows the savepoint of this child, requested at that time, like those of upgrades.
    KeepSavepoint {
        colour: Colour,
        path: String,
        since: Timestamp,
    },
    /// Gives the child of this colour the autoscaler state of the other one, or none.
    CopyAutoscalerState {
        to: Colour,
        is_reset: bool,
    },
    CreateChild(Box<FlinkDeployment>),
    /// Gives the child this spec, if it still has the version that was read.
    ChangeChild(Box<FlinkDeployment>),
    DeleteChild {
        name: String,
        uid: String,
    },
    /// Points the Ingress or route of the web UI to the child of this colour.
    PointIngress(Colour),
}

impl Step {
    /// Returns the name used by logs and tests.
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

/// Steps, why, and the final status.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub because: String,
    pub steps: Vec<Step>,
    pub status: Box<BlueGreenStatus>,
    /// When to run the next pass unless something triggers it earlier.
    pub look_again: Option<Duration>,
    /// The wait in which the plan ends, if it ends in one.
    pub waits: Option<Waiting>,
}
