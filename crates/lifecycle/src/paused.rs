//! A resource that is paused: the operator observes it, and starts, stops and deletes nothing.
//!
//! What it finds goes into the status, events and metrics as always. So the restore point of a job that ends meanwhile
//! is recorded while its JobManager can tell it.

use std::time::Duration;

use crate::blocker::{Blocker, Reason};
use crate::conditions::{self, of_type};
use crate::event::{Component, Event};
use crate::kind::{End, Lifecycle};
use crate::pass::Pass;
use crate::plan::Step;
use crate::problem::Halt;
use crate::resource::{JobResource, StatusOfJob};
use crate::wait::Awaited;
use crate::world::World;
use api::status::Condition;
use api::{PAUSED_ANNOTATION, paused_by_itself};
use jiff::Timestamp;

/// Condition of a resource that is paused, and reason of the event about it.
pub const PAUSED: &str = "Paused";

/// Returns what is said of a resource with this annotation.
pub fn message() -> String {
    format!(
        "the resource is paused by its annotation `{PAUSED_ANNOTATION}`: nothing is started, stopped \
         or deleted until `kubectl flink unpause`"
    )
}

/// A blue/green deployment, by name, that its child may be paused with.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Parent {
    Paused(String),
    /// It does not exist any more. If it was paused, so is what it leaves.
    Gone(String),
}

impl Parent {
    fn message(&self) -> String {
        match self {
            Self::Paused(name) => format!(
                "the FlinkBlueGreenDeployment `{name}`, to which the resource belongs, is paused by \
                 its annotation `{PAUSED_ANNOTATION}`: nothing is started, stopped or deleted until \
                 `kubectl flink unpause bluegreen/{name}`"
            ),
            Self::Gone(name) => format!(
                "the FlinkBlueGreenDeployment `{name}`, to which the resource belonged, was deleted \
                 while it was paused: nothing is started, stopped or deleted until `kubectl flink \
                 unpause` for this resource"
            ),
        }
    }
}

/// Returns the condition of a resource that is paused for this reason.
pub fn condition(before: &[Condition], message: &str, now: Timestamp) -> Condition {
    conditions::condition(before, None, (PAUSED, "True"), (PAUSED, message), now)
}

/// Returns whether a resource with this status is paused, as far as they say.
pub fn is_paused<K: JobResource>(resource: &K, status: &K::Status) -> bool {
    let is_reported = status.conditions().is_some_and(|it| of_type(it, PAUSED).is_some());
    paused_by_itself(resource.meta()).unwrap_or(is_reported)
}

impl<K: JobResource> World<'_, K> {
    /// Returns why the resource is only observed, if it is.
    pub fn paused(&self) -> Option<String> {
        match (paused_by_itself(self.metadata()), &self.parent) {
            (Some(true), _) => Some(message()),
            (_, Some(parent @ Parent::Paused(_))) => Some(parent.message()),
            (None, Some(parent @ Parent::Gone(_))) => {
                is_paused(self.resource, self.status).then(|| parent.message())
            }
            (Some(false), _) | (None, None) => None,
        }
    }
}

impl<K: JobResource> Step<K> {
    /// Returns true if the step only records what was found.
    pub fn is_record(&self) -> bool {
        matches!(self, Self::WriteStatus(_) | Self::Event(_) | Self::RecordRevision(_))
    }
}

impl<K: Lifecycle> Pass<'_, K> {
    /// Observes and validates a paused resource.
    pub(crate) fn only_observe(&mut self, message: &str) -> End<K> {
        if self.world.metadata().deletion_timestamp.is_some() {
            return self.hold_deletion(message);
        }
        if let Err(error) = self.read_last() {
            return Err(Halt::problem(K::unreadable(&error.reason)));
        }
        if let Some(plan) = K::observe(self)? {
            return Ok(plan);
        }
        if let Some(plan) = K::validate(self)? {
            return Ok(plan);
        }
        if self.world.waits.is_none_or(|before| before.on != Awaited::Unpaused) {
            self.emit(Event::normal(PAUSED, Component::Operator, message));
        }
        let interval = self.interval();
        Ok(self.wait_for(Awaited::Unpaused, message, interval))
    }

    fn hold_deletion(&mut self, message: &str) -> End<K> {
        if !self.has_finalizer() {
            return Ok(self.untouched("being deleted without this operator's finalizer"));
        }
        let _unreadable = self.read_last();
        let blocker = Blocker::new(Reason::Paused, format!("the deletion waits: {message}"));
        self.wait(blocker, self.world.now, Duration::ZERO)
    }
}
