//! What may happen in an explored world.

use api::PAUSED_ANNOTATION;
use api::blue_green::{ABORT_ANNOTATION, Colour, PROMOTE_ANNOTATION, RETRY_ANNOTATION};
use api::job::JobState;
use blue_green::child::Child;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

use crate::upheaval::{Change, Refused, Untold};
use crate::world::{BROKEN_IMAGE, FAILING_PARALLELISM, Sim, SimChild};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Edit {
    Parallelism,
    /// A parallelism with which the job fails soon after each start.
    FailingParallelism,
    BreakImage,
    /// The spec that served first.
    Back,
    Suspend,
    Resume,
    /// Start from an older state.
    Redeploy,
    /// An option that does not affect a running job.
    InPlace,
    Promote,
    Abort,
    Retry,
    Delete,
    Pause,
    Unpause,
}

/// The child that a fault affects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Role {
    Serving,
    Other,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fault {
    /// The next savepoint fails.
    Savepoint,
    /// The JobManager has forgotten its triggers.
    Triggers,
    /// The job fails for good.
    Job(Role),
    /// The job runs again.
    Recovers(Role),
    Unready(Role),
    /// Someone deletes the child.
    Child(Role),
    /// The web UI cannot be pointed to another child.
    WebUi,
    /// Whatever is being waited for takes too long.
    Late,
    /// Other upgrades take all turns, or end.
    Crowd,
    /// Something around it changes.
    Change(Change),
    /// The Java operator makes this many passes.
    Java(u8),
    /// The same, and drops the conditions.
    ForgetfulJava(u8),
}

pub(crate) const EDITS: &[Edit] = &[
    Edit::Parallelism,
    Edit::FailingParallelism,
    Edit::BreakImage,
    Edit::Back,
    Edit::Suspend,
    Edit::Resume,
    Edit::Redeploy,
    Edit::InPlace,
    Edit::Promote,
    Edit::Abort,
    Edit::Retry,
    Edit::Delete,
];
pub(crate) const FAULTS: &[Fault] = &[
    Fault::Savepoint,
    Fault::Triggers,
    Fault::Job(Role::Serving),
    Fault::Job(Role::Other),
    Fault::Recovers(Role::Serving),
    Fault::Unready(Role::Serving),
    Fault::Unready(Role::Other),
    Fault::Child(Role::Serving),
    Fault::Child(Role::Other),
    Fault::WebUi,
    Fault::Late,
];

pub(crate) const JAVA: &[Fault] = &[
    Fault::Java(1),
    Fault::ForgetfulJava(2),
    Fault::Java(4),
    Fault::ForgetfulJava(8),
    Fault::Savepoint,
    Fault::Unready(Role::Other),
    Fault::Child(Role::Other),
    Fault::Late,
];

/// What may happen around it.
pub(crate) const UPHEAVALS: &[Fault] = &[
    Fault::Change(Change::Refused(Refused::Creations)),
    Fault::Change(Change::Refused(Refused::Status)),
    Fault::Change(Change::Refused(Refused::All)),
    Fault::Change(Change::RefusedForGood(Refused::Creations)),
    Fault::Change(Change::RefusedForGood(Refused::Changes)),
    Fault::Change(Change::RefusedForGood(Refused::Deletions)),
    Fault::Change(Change::RefusedForGood(Refused::Status)),
    Fault::Change(Change::RefusedForGood(Refused::Records)),
    Fault::Change(Change::RefusedForGood(Refused::WebUi)),
    Fault::Change(Change::FailsForGood(Refused::Records)),
    Fault::Change(Change::FailsForGood(Refused::Autoscaler)),
    Fault::Change(Change::Untold(Untold::Children)),
    Fault::Change(Change::Untold(Untold::WebUi)),
    Fault::Change(Change::Untold(Untold::Savepoints)),
    Fault::Change(Change::ChildrenStay),
    Fault::Change(Change::NoPods),
    Fault::Change(Change::Admission),
    Fault::Change(Change::Rewrite),
    Fault::Change(Change::Clock(120)),
    Fault::Change(Change::Clock(-120)),
    Fault::Crowd,
];

impl Sim {
    pub(crate) fn make(&mut self, edit: Edit) {
        if self.resource.metadata.deletion_timestamp.is_some() {
            return;
        }
        match edit {
            Edit::Parallelism => self.edit_job(|job| job.parallelism = Some(3)),
            Edit::FailingParallelism => {
                self.edit_job(|job| job.parallelism = Some(FAILING_PARALLELISM));
            }
            Edit::BreakImage => self.edit(|spec| spec.image = Some(BROKEN_IMAGE.to_owned())),
            Edit::Back => {
                let mode = self.template().job.as_ref().unwrap().upgrade_mode;
                let first = Self::new(mode).template().clone();
                self.edit(|spec| *spec = first);
            }
            Edit::Suspend => self.edit_job(|job| job.state = JobState::Suspended),
            Edit::Resume => self.edit_job(|job| job.state = JobState::Running),
            Edit::Redeploy => self.redeploy(),
            Edit::InPlace => self.edit(|spec| {
                let options = [("kubernetes.operator.reconcile.interval", "1 min")];
                spec.flink_configuration.0 = options
                    .map(|(key, value)| (key.to_owned(), json!(value)))
                    .into_iter()
                    .collect();
            }),
            Edit::Promote | Edit::Abort => {
                let other = self.struck(Role::Other);
                let uid = other.map(|child| Child(&child.object).uid().to_owned());
                let id = uid.or_else(|| self.status.savepoint_trigger_id.clone());
                let is_promoted = edit == Edit::Promote;
                let key = if is_promoted { PROMOTE_ANNOTATION } else { ABORT_ANNOTATION };
                if let Some(id) = id {
                    self.annotate(key, id);
                }
            }
            Edit::Retry => {
                if let Some(since) = self.given_up_since() {
                    self.annotate(RETRY_ANNOTATION, since);
                }
            }
            Edit::Pause => self.annotate(PAUSED_ANNOTATION, "true".to_owned()),
            Edit::Unpause => self.annotate(PAUSED_ANNOTATION, "false".to_owned()),
            Edit::Delete => self.resource.metadata.deletion_timestamp = Some(Time(self.now)),
        }
    }

    pub(crate) fn strike(&mut self, fault: Fault) {
        match fault {
            Fault::Savepoint => self.savepoint_fails = true,
            Fault::Triggers => self.forget_triggers(),
            Fault::Crowd => self.crowd(),
            Fault::Job(role) => {
                if let Some(child) = self.struck(role) {
                    child.fail();
                }
            }
            Fault::Recovers(role) => {
                if let Some(child) = self.struck(role) {
                    child.recover();
                }
            }
            Fault::Unready(role) => {
                if let Some(child) = self.struck(role) {
                    child.unready = 2;
                }
            }
            Fault::Child(role) => {
                if let Some(colour) = self.colour_of(role) {
                    self.lose_child(colour);
                }
            }
            Fault::WebUi => self.ingress_refused = true,
            Fault::Late => {
                self.now += SignedDuration::try_from(self.settings.grace).unwrap();
            }
            Fault::Change(change) => self.change_around(change),
            Fault::Java(passes) | Fault::ForgetfulJava(passes) => {
                self.make_recorded_change();
                for _ in 0..passes {
                    self.tick();
                    self.java_pass();
                }
                self.take_over(matches!(fault, Fault::Java(_)));
            }
        }
    }

    fn colour_of(&self, role: Role) -> Option<Colour> {
        let serving = self.serving();
        match role {
            Role::Serving => serving,
            Role::Other => Some(serving.map_or(Colour::Blue, Colour::other)),
        }
    }

    fn struck(&mut self, role: Role) -> Option<&mut SimChild> {
        let colour = self.colour_of(role)?;
        self.children.get_mut(&colour)
    }
}
