//! Blockers of a deletion, in one form for people and for programs.
//!
//! Every wait of a deletion either has a [`Deadline`] or is a refusal that the status reports and that a person has to
//! resolve. A refusal protects state, which does not lose its value over time.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;

use super::problem::{Halt, Problem};
use config::{FlinkConfig, options};

/// Default of `kubernetes.operator.resource.cleanup.timeout` if the configuration cannot be read.
const PATIENCE: Duration = Duration::from_mins(5);
/// Flink ends a savepoint after `execution.checkpointing.timeout`. This long after that, it is considered lost.
const OVERDUE: Duration = Duration::from_mins(1);

pub(super) const WITHOUT_SAVEPOINT: &str =
    "set `kubernetes.operator.job.savepoint-on-deletion: false` to delete it without a savepoint";

/// What a deletion waits for; part of the machine-readable output.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub enum Reason {
    /// The resource is paused.
    Paused,
    /// Session jobs refer to the session cluster.
    SessionJobs,
    /// Jobs without a resource run in the session cluster.
    UnmanagedJobs,
    /// The JobManager's Deployment is still there.
    JobManager,
    /// The TaskManagers' Deployment of a standalone cluster is still there.
    TaskManagers,
    /// Pods of the JobManager are still there.
    Pods,
    /// A savepoint is being taken, or could not be taken.
    Savepoint,
    /// The job does not run, so no savepoint of it can be taken.
    JobNotRunning,
    /// The session cluster does not answer.
    SessionCluster,
    /// The job was cancelled and has not ended.
    Cancellation,
    /// It is not known whether the job was submitted.
    Submission,
    /// A snapshot is being taken.
    SnapshotInProgress,
    /// The savepoint could not be disposed of yet.
    Disposal,
    /// Another operator owns the resource.
    ForeignOperator,
    /// Something that the decision depends on cannot be read.
    Unreadable,
}

/// The time at which a wait ends by itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Deadline {
    pub at: Timestamp,
    /// What happens at the deadline.
    pub then: &'static str,
}

/// Something that a deletion waits for.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Blocker {
    pub reason: Reason,
    pub message: String,
    /// `None` if only the action in `remedy` ends the wait.
    pub deadline: Option<Deadline>,
    /// What a person can do, and what it costs.
    pub remedy: Option<String>,
}

impl Blocker {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), deadline: None, remedy: None }
    }

    pub(super) fn until(self, at: Timestamp, then: &'static str) -> Self {
        Self { deadline: Some(Deadline { at, then }), ..self }
    }

    pub(super) fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    /// Returns the blocker as a problem for the status.
    pub(super) fn problem(&self) -> Problem {
        let message = match &self.remedy {
            Some(remedy) => format!("{}: {remedy}", self.message),
            None => self.message.clone(),
        };
        cleanup_failed(message)
    }
}

/// Returns the problem of a deletion that cannot continue.
pub(super) fn cleanup_failed(message: String) -> Problem {
    let reason = "CleanupFailed";
    Problem { reason, detail: Some(reason.to_owned()), ..Problem::of_resource(message) }
}

/// Ensures that the status reports why a deletion halts. A message that is only in the log would not reach whoever
/// waits for it.
pub(super) fn noted(blocker: &mut Option<Box<Blocker>>, halt: Halt) -> Halt {
    match halt {
        Halt::Ask(question) => Halt::Ask(question),
        Halt::Cannot(because) | Halt::Wait(_, because) if blocker.is_none() => {
            let message = format!("the deletion waits: {because}");
            let found = Blocker::new(Reason::Unreadable, message);
            let problem = found.problem();
            *blocker = Some(Box::new(found));
            Halt::problem(problem)
        }
        Halt::Cannot(because) => Halt::Cannot(because),
        Halt::Wait(on, because) => Halt::Wait(on, because),
        Halt::Problem(problem) => {
            blocker.get_or_insert_with(|| {
                Box::new(Blocker::new(Reason::Unreadable, problem.message.clone()))
            });
            Halt::Problem(problem)
        }
    }
}

/// Returns how long a step of a deletion may take.
pub(super) fn patience(config: Option<&FlinkConfig>) -> Duration {
    let configured = config.and_then(|config| config.get(&options::RESOURCE_CLEANUP_TIMEOUT).ok());
    configured.unwrap_or(PATIENCE)
}

/// Returns how long the savepoint before a deletion may take.
pub(super) fn savepoint_patience(config: &FlinkConfig) -> Duration {
    config.get(&options::CHECKPOINTING_TIMEOUT).unwrap_or(PATIENCE).saturating_add(OVERDUE)
}

/// Returns when a step that began `since`, or with the deletion, is given up.
pub(super) fn give_up_at(
    metadata: &ObjectMeta,
    since: Option<Timestamp>,
    patience: Duration,
    now: Timestamp,
) -> Timestamp {
    let asked = metadata.deletion_timestamp.as_ref().map(|at| at.0);
    let since = since.or(asked).unwrap_or(now);
    let patience = SignedDuration::try_from(patience).unwrap_or(SignedDuration::MAX);
    since.checked_add(patience).unwrap_or(Timestamp::MAX)
}
