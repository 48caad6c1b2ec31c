//! One pass over a `FlinkStateSnapshot`: take it, follow it, end it.
//!
//! The trigger id is in the status before Flink gets the request, and the same id may be sent again. A crash in between
//! therefore neither loses the snapshot nor takes it twice. A missing answer does not fail a snapshot: only Flink's own
//! report does, or a timeout.

mod deletion;
pub mod labels;
pub mod request;
pub mod step;
pub mod world;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use self::request::{Request, Wanted};
use self::step::Step;
use self::world::{Job, Question, Target, World};
use super::blocker::{Blocker, Reason};
use super::error_document::{ErrorType, error_document, reason_of};
use super::event::{Component, Event};
use super::paused::{self, PAUSED};
use super::verdict::outcome::{Hold, Outcome, VALIDATOR_UNAVAILABLE};
use super::wait::{Awaited, STILL_WAITING, Waiting};
use super::world::Trigger;
use api::state_snapshot::{
    FlinkStateSnapshotSpec, SavepointSpec, SnapshotState, StateSnapshotStatus,
};
use api::status::{CheckpointType, JobStatusState, SavepointFormatType};
use api::version::FlinkVersion;
use api::{STATE_SNAPSHOT_FINALIZER, is_paused};
use config::options;
use validation::state_snapshot::{StateSnapshotInput, validate};

/// First pause after a failure; it doubles each time, up to [`BACKOFF_MAX`].
const BACKOFF_MIN: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_mins(10);
/// Flink remembers a trigger for five minutes. One that is unknown this soon after the request never arrived, or was
/// lost with its JobManager.
const SEND_AGAIN: SignedDuration = SignedDuration::from_secs(30);
/// Flink ends a snapshot after `execution.checkpointing.timeout`. This long after that, it is considered lost.
pub(super) const OVERDUE: SignedDuration = SignedDuration::from_mins(1);
/// Reason reported for an invalid spec.
const INVALID: &str = "ValidationError";
/// How soon to check a job that is in transition, in case no watch reports it.
const PASSING_INTERVAL: Duration = Duration::from_secs(10);

/// Steps to take now, why, and when to look again.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// The status at the end of the plan; written if it differs from the stored one.
    pub status: Box<StateSnapshotStatus>,
    pub because: String,
    /// `None` to wait for a change.
    pub look_again: Option<Duration>,
    /// The blocker that a deletion waits for.
    pub blocker: Option<Box<Blocker>>,
    /// The wait in which the plan ends, if it ends in one.
    pub waits: Option<Waiting>,
}

/// Decides what to do with a snapshot now.
///
/// # Errors
/// The question to answer before the decision can be made.
pub fn decide(world: &World<'_>) -> Result<Plan, Question> {
    let mut pass = Pass::new(world);
    if let Some(plan) = pass.hold_paused() {
        return Ok(plan);
    }
    if world.resource.metadata.deletion_timestamp.is_some() {
        return pass.delete();
    }
    match pass.status.state {
        SnapshotState::TriggerPending => pass.begin(),
        SnapshotState::InProgress => pass.follow(),
        state @ (SnapshotState::Completed | SnapshotState::Failed | SnapshotState::Abandoned) => {
            let because = format!("the snapshot is {}", state.into_str());
            Ok(pass.rest(because))
        }
    }
}

/// Returns the plan after Flink refused the request of [`Step::Trigger`] for this reason.
pub fn refused(world: &World<'_>, intent: &StateSnapshotStatus, message: &str) -> Plan {
    let mut pass = Pass::new(world);
    pass.status = intent.clone();
    pass.fail(message)
}

/// Returns the plan after the savepoint of [`Step::Dispose`] could not be verified as deleted, for this reason.
pub fn not_disposed(world: &World<'_>, message: &str) -> Plan {
    Pass::new(world).dispose_later(message)
}

/// The state of one pass.
struct Pass<'w> {
    world: &'w World<'w>,
    status: StateSnapshotStatus,
    steps: Vec<Step>,
    /// Whether the referenced job exists; `None` until it was looked up.
    has_job: Option<bool>,
}

/// State of a job that has to run for a snapshot.
enum Readiness {
    Running,
    /// On its way back to running, since this time, within the limit of [`Awaited::SnapshotJob`].
    Passing(Timestamp),
    Ended,
}

impl<'w> Pass<'w> {
    fn new(world: &'w World<'w>) -> Self {
        let status = world.resource.status.clone().unwrap_or_default();
        Self { world, status, steps: Vec::new(), has_job: None }
    }

    /// Returns the plan for a paused snapshot that would be taken or deleted. One that is being taken is followed.
    fn hold_paused(&mut self) -> Option<Plan> {
        let is_deleting = self.world.resource.metadata.deletion_timestamp.is_some();
        let is_idle = !is_deleting && self.status.state != SnapshotState::TriggerPending;
        if !self.is_paused() || is_idle || is_deleting && !self.has_finalizer() {
            return None;
        }
        let paused = paused::message();
        let message = if is_deleting { format!("the deletion waits: {paused}") } else { paused };
        let told = self.world.resource.status.as_ref().and_then(|status| status.error.as_deref());
        self.refuse(PAUSED, &message, told);
        let blocker = Blocker::new(Reason::Paused, message.clone());
        let waits = Waiting::new(Awaited::Unpaused, self.since(), None);
        let plan = self.finish(message, None, Some(waits));
        Some(Plan { blocker: is_deleting.then(|| Box::new(blocker)), ..plan })
    }

    fn is_paused(&self) -> bool {
        is_paused(&self.world.resource.metadata)
    }

    fn has_finalizer(&self) -> bool {
        let finalizers = self.world.resource.metadata.finalizers.as_deref().unwrap_or_default();
        finalizers.iter().any(|finalizer| finalizer == STATE_SNAPSHOT_FINALIZER)
    }

    fn spec(&self) -> &'w FlinkStateSnapshotSpec {
        &self.world.resource.spec
    }

    fn begin(&mut self) -> Result<Plan, Question> {
        let spec = self.spec();
        if spec.job_reference.is_some() {
            match self.world.target()? {
                Ok(Target::Foreign) => {
                    return Ok(self.untouched("its job belongs to another operator"));
                }
                Ok(Target::Absent) => self.has_job = Some(false),
                Ok(Target::Present(_) | Target::Unserved(_)) => self.has_job = Some(true),
                // An existing savepoint needs no job.
                Err(_) if self.record().is_some() => {}
                Err(reason) => return Ok(self.wait_to_read(reason)),
            }
        }
        if let Some(plan) = self.refuse_invalid()? {
            return Ok(plan);
        }
        if let Some(savepoint) = self.record() {
            let path = savepoint.path.clone();
            self.status.trigger_timestamp = Some(self.world.now.to_string());
            return Ok(self.complete(path, "the savepoint already exists"));
        }
        if let Some(left) = self.backoff_left() {
            return Ok(self.await_retry("waiting after a failure", left));
        }
        let job = match self.world.target()? {
            Ok(Target::Present(job)) => job,
            Ok(Target::Unserved(why)) => return Ok(self.give_up_unserved(why)),
            // Reported above.
            Ok(Target::Absent | Target::Foreign) | Err(_) => {
                return Ok(self.wait_for(Awaited::Fact, self.since(), "its job cannot be read"));
            }
        };
        match self.readiness(job) {
            Readiness::Running => Ok(self.trigger(job)),
            Readiness::Passing(since) => {
                Ok(self.wait_for(Awaited::SnapshotJob, since, "waiting for the job to run"))
            }
            Readiness::Ended => Ok(self.abandon("is not running")),
        }
    }

    /// Returns the existing savepoint that is only to be recorded.
    fn record(&self) -> Option<&'w SavepointSpec> {
        self.spec().savepoint.as_ref().filter(|savepoint| savepoint.already_exists == Some(true))
    }

    /// Returns the plan for an invalid spec. It is reported once, and stays in the status until the spec is valid.
    fn refuse_invalid(&mut self) -> Result<Option<Plan>, Question> {
        let input = StateSnapshotInput {
            spec: self.spec(),
            state: self.world.resource.status.as_ref().map(|status| status.state),
            has_target: self.has_job == Some(true),
        };
        let mut violations = validate(&input);
        let told = self.status.error.take_if(|error| {
            matches!(
                reason_of(error).as_deref(),
                Some(INVALID | VALIDATOR_UNAVAILABLE | STILL_WAITING | PAUSED)
            )
        });
        if violations.is_empty() && self.record().is_some() {
            // Nothing is taken, so external validators are not asked.
            return Ok(None);
        }
        let World { now, validators, facts, .. } = self.world;
        let version = self.world.version();
        let Outcome { violations: of_others, hold } =
            validators.judge(version, *now, &facts.verdict, Question::Verdict)?;
        violations.extend(of_others);
        if violations.is_empty() {
            return Ok(hold.map(|hold| self.hold(hold, told.as_deref())));
        }
        let message = violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
        self.refuse(INVALID, &message, told.as_deref());
        let pause = hold.map_or(self.world.interval, |hold| hold.look_again);
        let pause = pause.min(self.world.interval);
        Ok(Some(self.finish(message, Some(pause), None)))
    }

    /// Waits for a validator that has not answered.
    fn hold(&mut self, hold: Hold, told: Option<&str>) -> Plan {
        if let Some(problem) = hold.problem() {
            self.refuse(problem.reason, &problem.message, told);
        }
        let waits = Waiting::new(Awaited::Validator, self.since(), None);
        self.finish(hold.because, Some(hold.look_again), Some(waits))
    }

    /// Returns the error as it is stored.
    pub(super) fn document(&self, message: &str, reason: Option<&str>) -> String {
        let document = error_document(ErrorType::Reconciliation, message, reason, &[]);
        self.world.form.apply(&document)
    }

    /// Puts the refusal into the status, and into an event unless `told` is the same already.
    fn refuse(&mut self, reason: &'static str, message: &str, told: Option<&str>) {
        let error = self.document(message, Some(reason));
        if told != Some(&*error) {
            let generation = self.world.resource.metadata.generation.unwrap_or_default();
            let mut event = Event::warning(reason, Component::Operator, message);
            event.key = Some(format!("{generation}: {message}"));
            self.steps.push(Step::Event(event));
        }
        self.status.error = Some(error);
    }

    /// Records the trigger id, then asks Flink.
    fn trigger(&mut self, job: &Job) -> Plan {
        let Some(job_id) = job.id.clone() else {
            let since = job.since.unwrap_or(self.world.created());
            return self.wait_for(Awaited::Fact, since, "the status of its job has no job id");
        };
        let what = match self.wanted(job) {
            Ok(what) => what,
            Err(message) => return self.fail(&message),
        };
        let trigger_id = self.world.trigger_id.clone();
        self.status.state = SnapshotState::InProgress;
        self.status.trigger_id = Some(trigger_id.clone());
        self.status.trigger_timestamp = Some(self.world.now.to_string());
        self.mark();
        self.steps.push(Step::WriteStatus(Box::new(self.status.clone())));
        self.steps.push(Step::Trigger(Request { job_id, trigger_id, what }));
        self.finish("triggering the snapshot", Some(self.poll_interval()), None)
    }

    /// Gives up after a while, because the job cannot run and no snapshot of it completes. Until then, its cluster may
    /// be recreated at any moment.
    fn give_up_unserved(&mut self, why: &str) -> Plan {
        self.has_job = Some(true);
        if !self.waiting(Awaited::SnapshotJob, self.since()).is_late(self.world.now) {
            return self.wait_for(Awaited::SnapshotJob, self.since(), why);
        }
        self.abandon(&format!("is not running: {why}"))
    }

    /// Decides what to request, or why nothing can be requested.
    fn wanted(&self, job: &Job) -> Result<Wanted, String> {
        let Some(savepoint) = &self.spec().savepoint else {
            let is_able = job.flink_version.is_none_or(|version| version >= FlinkVersion::V1_17);
            return if is_able {
                Ok(Wanted::Checkpoint(CheckpointType::Full))
            } else {
                Err("triggering a checkpoint requires Flink 1.17+".to_owned())
            };
        };
        let stated = savepoint.path.clone().filter(|path| !path.trim().is_empty());
        let directory = stated.or_else(|| job.savepoint_directory.clone()).ok_or_else(|| {
            format!(
                "no savepoint path: set `spec.savepoint.path`, or `{}` for the job",
                options::SAVEPOINT_DIRECTORY.key()
            )
        })?;
        let format = savepoint.format_type.unwrap_or_default();
        if format == SavepointFormatType::Unknown {
            return Err("cannot take a savepoint with `spec.savepoint.formatType: UNKNOWN`: use \
                        CANONICAL or NATIVE"
                .to_owned());
        }
        Ok(Wanted::Savepoint { directory, format })
    }

    /// Follows a snapshot that was requested.
    fn follow(&mut self) -> Result<Plan, Question> {
        let Some(trigger_id) = self.status.trigger_id.clone().filter(|id| !id.is_empty()) else {
            self.status.state = SnapshotState::TriggerPending;
            return self.begin();
        };
        let job = match self.world.target()? {
            Ok(Target::Foreign) => return Ok(self.untouched("its job belongs to another operator")),
            Ok(Target::Absent) => {
                self.has_job = Some(false);
                return Ok(self.abandon("was not found"));
            }
            Ok(Target::Present(job)) => job,
            Ok(Target::Unserved(why)) => return Ok(self.give_up_unserved(why)),
            Err(reason) => return Ok(self.wait_to_read(reason)),
        };
        self.has_job = Some(true);
        self.status.error.take_if(|error| reason_of(error).as_deref() == Some(STILL_WAITING));
        let readiness = self.readiness(job);
        let is_running = matches!(readiness, Readiness::Running);
        // This follows from the job's status, which may be newer than the end of the snapshot. Flink is therefore asked
        // for the snapshot first.
        let has_ended = matches!(readiness, Readiness::Ended);
        let is_overdue = self.age() > job.timeout.saturating_add(OVERDUE);
        match self.world.trigger()? {
            Ok(Trigger::Completed { path, checkpoint: _ }) => {
                let path = path.clone();
                if path.is_none() {
                    self.report_missing_path();
                }
                Ok(self.complete(Some(path.unwrap_or_default()), "the snapshot is done"))
            }
            Ok(Trigger::Failed { message }) => Ok(self.fail(message)),
            Ok(Trigger::NotFound) if has_ended || (!is_running && is_overdue) => {
                Ok(self.abandon("is not running"))
            }
            // The status may be out of date, and a missing answer proves nothing. A snapshot given up now may complete
            // in a moment, and its path would be unknown.
            Ok(Trigger::Pending) | Err(_) if has_ended && is_overdue => {
                Ok(self.abandon("is not running"))
            }
            Ok(Trigger::NotFound) if is_running && self.age() < SEND_AGAIN => {
                if !self.is_paused()
                    && let (Some(job_id), Ok(what)) = (job.id.clone(), self.wanted(job))
                {
                    self.steps.push(Step::Trigger(Request { job_id, trigger_id, what }));
                }
                Ok(self.wait_for(Awaited::Snapshot, self.since(), "triggering the snapshot again"))
            }
            Ok(Trigger::NotFound) if is_running => {
                Ok(self.fail("Flink no longer knows the trigger: its JobManager has restarted"))
            }
            Ok(Trigger::Pending) | Err(_) if is_overdue => Ok(self.fail(&format!(
                "the snapshot did not finish within `{}` ({})",
                options::CHECKPOINTING_TIMEOUT.key(),
                config::duration::render(job.timeout.unsigned_abs())
            ))),
            Ok(Trigger::NotFound) => {
                let because = "waiting for the job to run again";
                Ok(self.wait_for(Awaited::Snapshot, self.since(), because))
            }
            Ok(Trigger::Pending) => {
                Ok(self.wait_for(Awaited::Snapshot, self.since(), "the snapshot is being taken"))
            }
            Err(reason) => {
                let because =
                    format!("could not get the progress of the snapshot from Flink: {reason}");
                Ok(self.wait_for(Awaited::Snapshot, self.since(), because))
            }
        }
    }

    fn readiness(&self, job: &Job) -> Readiness {
        match job.state {
            Some(JobStatusState::Running) => Readiness::Running,
            Some(
                JobStatusState::Initializing
                | JobStatusState::Created
                | JobStatusState::Restarting
                | JobStatusState::Reconciling,
            )
            | None => {
                let since = job.since.unwrap_or(self.world.created());
                // A later snapshot waits as long as any other.
                let since = since.max(self.world.created());
                if self.waiting(Awaited::SnapshotJob, since).is_late(self.world.now) {
                    Readiness::Ended
                } else {
                    Readiness::Passing(since)
                }
            }
            Some(
                JobStatusState::Failing
                | JobStatusState::Failed
                | JobStatusState::Cancelling
                | JobStatusState::Canceled
                | JobStatusState::Finished
                | JobStatusState::Suspended,
            ) => Readiness::Ended,
        }
    }

    /// Returns when the snapshot was triggered, or else requested.
    fn since(&self) -> Timestamp {
        let noted = self.status.trigger_timestamp.as_deref().and_then(|text| text.parse().ok());
        noted.unwrap_or_else(|| self.world.created())
    }

    /// Returns the time since the trigger.
    fn age(&self) -> SignedDuration {
        self.world.now.duration_since(self.since())
    }

    /// Returns the rest of the pause after the last failure.
    fn backoff_left(&self) -> Option<Duration> {
        if self.status.failures <= 0 {
            return None;
        }
        let failed: Timestamp = self.status.result_timestamp.as_deref()?.parse().ok()?;
        let waited = self.world.now.duration_since(failed).max(SignedDuration::ZERO);
        let left = backoff(self.status.failures).checked_sub(waited.unsigned_abs())?;
        (!left.is_zero()).then_some(left)
    }

    fn report_missing_path(&mut self) {
        self.steps.push(Step::Event(Event::warning(
            "CheckpointError",
            Component::Snapshot,
            "the checkpoint was taken, but its path could not be read. It may have dropped out \
             of Flink's checkpoint history; to keep more checkpoints there, raise \
             `web.checkpoints.history` (default 10)",
        )));
    }

    fn complete(&mut self, path: Option<String>, because: &str) -> Plan {
        self.status.state = SnapshotState::Completed;
        self.status.path = path;
        self.status.error = None;
        self.status.result_timestamp = Some(self.world.now.to_string());
        self.rest(because)
    }

    /// Counts a failure, and tries again unless the limit is reached.
    fn fail(&mut self, message: &str) -> Plan {
        let error = self.document(message, None);
        let reason =
            if self.spec().savepoint.is_some() { "SavepointError" } else { "CheckpointError" };
        self.steps.push(Step::Event(Event::warning(reason, Component::Snapshot, error.clone())));
        self.status.error = Some(error);
        self.status.failures = self.status.failures.saturating_add(1);
        self.status.result_timestamp = Some(self.world.now.to_string());
        let limit = self.spec().backoff_limit.unwrap_or(-1);
        if limit >= 0 && self.status.failures > limit {
            self.status.state = SnapshotState::Failed;
            return self.rest(message);
        }
        self.status.state = SnapshotState::TriggerPending;
        self.await_retry(message, backoff(self.status.failures))
    }

    fn abandon(&mut self, what: &str) -> Plan {
        let reference = self.spec().job_reference.clone().unwrap_or_default();
        let kind = reference.kind.map_or("unknown kind", |kind| kind.into_str());
        let job = reference.name.unwrap_or_default();
        let snapshot = if self.spec().savepoint.is_some() { "savepoint" } else { "checkpoint" };
        let name = self.world.name();
        let message = format!("the job `{job} ({kind})` of {snapshot} `{name}` {what}");
        let event = Event::warning("SnapshotAbandoned", Component::Snapshot, message.clone());
        self.steps.push(Step::Event(event));
        self.status.state = SnapshotState::Abandoned;
        self.status.path = None;
        self.status.error = Some(message.clone());
        self.status.result_timestamp = Some(self.world.now.to_string());
        self.rest(message)
    }

    /// Waits until the job can be read.
    fn wait_to_read(&mut self, reason: &str) -> Plan {
        let because = format!("its job cannot be read: {reason}");
        self.wait_for(Awaited::Fact, self.since(), because)
    }

    /// Ends the plan with the pause after a failure, which the status has.
    fn await_retry(&mut self, because: &str, left: Duration) -> Plan {
        let waits = Waiting::new(Awaited::Retry, self.world.now, None);
        self.finish(because, Some(left), Some(waits))
    }

    /// Ends the plan with a wait since this time, which is reported once it is longer than normal.
    fn wait_for(&mut self, on: Awaited, since: Timestamp, because: impl Into<String>) -> Plan {
        let because = because.into();
        let waits = self.waiting(on, since);
        if let Some(limit) = self.limit(on)
            && waits.is_late(self.world.now)
        {
            let told = self.world.resource.status.as_ref().and_then(|it| it.error.as_deref());
            self.refuse(STILL_WAITING, &on.overdue(&because, limit), told);
        }
        let interval = match self.status.state {
            SnapshotState::InProgress => self.poll_interval(),
            SnapshotState::TriggerPending
            | SnapshotState::Completed
            | SnapshotState::Failed
            | SnapshotState::Abandoned => PASSING_INTERVAL,
        };
        self.finish(because, Some(interval), Some(waits))
    }

    fn waiting(&self, on: Awaited, since: Timestamp) -> Waiting {
        Waiting::new(on, since, self.limit(on))
    }

    fn limit(&self, on: Awaited) -> Option<Duration> {
        // Only the job that is known has a timeout. The snapshot has failed before this is said.
        on.limit().time(|_| match self.world.target() {
            Ok(Ok(Target::Present(job))) => {
                Duration::try_from(job.timeout.saturating_add(OVERDUE + OVERDUE)).ok()
            }
            Ok(Ok(Target::Absent | Target::Foreign | Target::Unserved(_)) | Err(_)) | Err(_) => {
                None
            }
        })
    }

    /// Returns the polling interval. Most snapshots complete in seconds; the others take minutes.
    fn poll_interval(&self) -> Duration {
        match self.age().as_secs() {
            ..10 => Duration::from_secs(1),
            10..60 => Duration::from_secs(3),
            60.. => Duration::from_secs(10),
        }
    }

    /// Updates finalizer and labels from the current status.
    fn mark(&mut self) {
        let is_leaving = self.world.resource.metadata.deletion_timestamp.is_some();
        let adds_finalizer = !is_leaving && !self.has_finalizer();
        let labels = labels::changes(self.world.resource, self.status.state, self.has_job);
        if adds_finalizer || !labels.is_empty() {
            self.steps.push(Step::Mark { adds_finalizer, labels });
        }
    }

    /// Ends the plan with nothing to wait for.
    fn rest(&mut self, because: impl Into<String>) -> Plan {
        self.finish(because, None, None)
    }

    fn finish(
        &mut self,
        because: impl Into<String>,
        look_again: Option<Duration>,
        waits: Option<Waiting>,
    ) -> Plan {
        if !self.steps.iter().any(|step| matches!(step, Step::Mark { .. })) {
            self.mark();
        }
        Plan {
            steps: std::mem::take(&mut self.steps),
            status: Box::new(self.status.clone()),
            because: because.into(),
            look_again,
            blocker: None,
            waits,
        }
    }

    fn untouched(&self, because: &str) -> Plan {
        Plan {
            steps: vec![],
            status: Box::new(self.world.resource.status.clone().unwrap_or_default()),
            because: because.to_owned(),
            look_again: None,
            blocker: None,
            waits: None,
        }
    }
}

/// Returns the pause after this many failures.
pub(super) fn backoff(failures: i32) -> Duration {
    let doublings = u32::try_from(failures.saturating_sub(1).clamp(0, 16)).unwrap_or(0);
    BACKOFF_MIN.saturating_mul(1 << doublings).min(BACKOFF_MAX)
}

#[cfg(test)]
mod tests;
