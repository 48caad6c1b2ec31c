//! The steps of a plan for a `FlinkStateSnapshot`.

use super::request::Request;
use crate::event::Event;
use api::state_snapshot::StateSnapshotStatus;

/// An idempotent effect of a plan.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Adds the finalizer, and sets these labels; `None` removes one.
    Mark {
        adds_finalizer: bool,
        labels: Vec<(&'static str, Option<String>)>,
    },
    WriteStatus(Box<StateSnapshotStatus>),
    Event(Event),
    /// Sends the request. The trigger id is in the status already. A refusal is passed to [`super::refused`].
    Trigger(Request),
    /// Deletes the savepoint and verifies that it is gone. A failure is passed to [`super::not_disposed`].
    Dispose {
        path: String,
    },
    RemoveFinalizer,
}
