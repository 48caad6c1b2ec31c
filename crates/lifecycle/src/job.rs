//! The status of a job and the stored specs next to it, shared by all resources that have a job.
//!
//! The functions here change what they are given and return the resulting events or steps. Each resource decides when
//! to call them.

use jiff::{SignedDuration, Timestamp};

use super::event::{Component, Event};
use super::exceptions::{self, Scope};
use super::problem::{Halt, Problem};
use super::world::{Answer, Checkpoints, Failure, JobException, ReportedExceptions, Stop};
use api::job::{JobSpec, JobState, UpgradeMode};
use api::reconciled::{Reconciled, StoredSpec};
use api::status::{
    JobStatus, JobStatusState, LAST_STATE_PATH, ReconciliationStatus, Savepoint,
    SavepointFormatType, SavepointInfo, SnapshotTriggerType,
};
use config::{FlinkConfig, duration, options};
use state::references::is_same_location;

/// Flink's default of how long the adaptive scheduler waits for a job's first resources.
const RESOURCE_WAIT: SignedDuration = SignedDuration::from_mins(5);
/// Time that a JobManager needs to create a job and to give it up.
const MADE_IN: SignedDuration = SignedDuration::from_secs(30);

/// Outcome of a stop-with-savepoint.
pub(super) enum StopOutcome {
    Pending,
    Saved(String),
    Failed(String),
    /// The trigger no longer leads to an answer.
    Lost,
    /// Flink never received it, or lost it with its JobManager. The same id is safe to send again.
    Resend,
    /// Like [`Self::Resend`], but the job does not run: it is sent once the job runs again.
    Unheard,
}

/// Returns the restore point on record: the path of the last savepoint or checkpoint.
pub(super) fn savepoint_path(job: &JobStatus) -> Option<String> {
    let legacy = || {
        let info = job.savepoint_info.as_ref()?;
        info.last_savepoint.as_ref()?.location.clone()
    };
    job.upgrade_savepoint_path.clone().or_else(legacy).filter(|path| !path.trim().is_empty())
}

/// Returns the job's id, once there is one.
pub(super) fn id(job: &JobStatus) -> Option<String> {
    job.job_id.clone().filter(|id| !id.is_empty())
}

/// Records the job's state; returns an event if the change is worth reporting.
pub(super) fn set_state(
    job: &mut JobStatus,
    state: JobStatusState,
    now: Timestamp,
) -> Option<Event> {
    let before = job.state;
    if before == Some(state) {
        return None;
    }
    job.state = Some(state);
    job.update_time = Some(now.as_millisecond().to_string());
    // Losing sight of a job for a moment is not worth an event; the status shows it.
    if state == JobStatusState::Reconciling {
        return None;
    }
    let message = before.map_or_else(
        || format!("Job status changed to {}", state.into_str()),
        |before| format!("Job status changed from {} to {}", before.into_str(), state.into_str()),
    );
    Some(Event::normal("JobStatusChanged", Component::Job, message))
}

/// How long a job may be missing from a slightly older list after its submission, or when it ends.
pub(super) const LIST_AGE_MAX: SignedDuration = SignedDuration::from_secs(10);

/// Returns when the job entered its state or was deployed, whichever is later.
pub(super) fn state_since(
    job: &JobStatus,
    reconciliation: &ReconciliationStatus,
    now: Timestamp,
) -> Timestamp {
    let deployed = reconciliation.reconciliation_timestamp;
    Timestamp::from_millisecond(deployed).map_or(now, |deployed| deployed.max(updated(job)))
}

/// Returns when the job entered its state; long ago if that is not on record.
pub(super) fn updated(job: &JobStatus) -> Timestamp {
    let updated = job.update_time.as_deref().and_then(|text| text.parse().ok()).unwrap_or(0);
    Timestamp::from_millisecond(updated).unwrap_or_default()
}

/// Returns when the job started, according to its JobManager.
pub(super) fn started(job: &JobStatus) -> Option<Timestamp> {
    let at = job.start_time.as_deref()?.parse().ok()?;
    Timestamp::from_millisecond(at).ok()
}

/// Records the trigger of a stop-with-savepoint before it is sent.
pub(super) fn note_stop(
    job: &mut JobStatus,
    trigger_id: &str,
    format: SavepointFormatType,
    now: Timestamp,
) {
    let info = job.savepoint_info.get_or_insert_with(SavepointInfo::default);
    info.trigger_id = Some(trigger_id.to_owned());
    info.trigger_timestamp = Some(now.as_millisecond());
    info.trigger_type = Some(SnapshotTriggerType::Upgrade);
    info.format_type = Some(format);
}

/// Returns the trigger id of the stop-with-savepoint in progress.
pub(super) fn pending_stop(job: &JobStatus) -> Option<String> {
    let info = job.savepoint_info.as_ref()?;
    (info.trigger_type == Some(SnapshotTriggerType::Upgrade))
        .then(|| info.trigger_id.clone())
        .flatten()
        .filter(|id| !id.is_empty())
}

/// Returns when the stop-with-savepoint in progress was requested.
pub(super) fn stop_since(job: &JobStatus) -> Option<Timestamp> {
    let at = job.savepoint_info.as_ref()?.trigger_timestamp?;
    Timestamp::from_millisecond(at).ok()
}

pub(super) fn forget_stop(job: &mut JobStatus) {
    if let Some(info) = &mut job.savepoint_info {
        info.trigger_id = None;
        info.trigger_timestamp = None;
        info.trigger_type = None;
        info.format_type = None;
    }
}

/// Decides the outcome of a stop-with-savepoint from what Flink reports about its trigger and its job.
///
/// # Errors
/// The question for the checkpoints of a job that did not end as requested.
pub(super) fn stop_outcome<'a, Q>(
    answer: Answer<'_, Stop>,
    state: Option<JobStatusState>,
    checkpoints: impl FnOnce() -> Result<Answer<'a, Checkpoints>, Q>,
) -> Result<StopOutcome, Q> {
    let has_ended = state.is_some_and(JobStatusState::is_globally_terminal);
    Ok(match answer {
        Err(_) | Ok(Stop::Pending) => StopOutcome::Pending,
        Ok(Stop::Completed { path }) => StopOutcome::Saved(path.clone()),
        // It may have continued for a while before its end.
        Ok(Stop::SavedNotStopped { path, message: _ }) if has_ended => match checkpoints()? {
            Ok(Checkpoints { latest: Some(latest), .. })
                if is_same_location(&latest.path, path) =>
            {
                StopOutcome::Saved(path.clone())
            }
            Ok(_) => StopOutcome::Lost,
            Err(_) => StopOutcome::Pending,
        },
        Ok(Stop::SavedNotStopped { path, message }) => {
            StopOutcome::Failed(format!("{}: {message}", not_stopped(path)))
        }
        Ok(Stop::Failed { message }) => StopOutcome::Failed(message.clone()),
        Ok(Stop::NotFound) => match state {
            Some(JobStatusState::Running) => StopOutcome::Resend,
            Some(_) if has_ended => StopOutcome::Lost,
            Some(_) | None => StopOutcome::Unheard,
        },
    })
}

/// Returns the message for a savepoint that is not a restore point, because the job is ahead of it or soon will be.
fn not_stopped(path: &str) -> String {
    format!(
        "the savepoint {path} is complete, but the job failed while it was being stopped and was \
         restarted from it. Nothing starts from this savepoint, because the job's state may be \
         newer by now"
    )
}

/// Records a completed savepoint of the job as its next restore point; returns its format.
pub(super) fn note_savepoint(job: &mut JobStatus, path: &str) -> SavepointFormatType {
    let format = job.savepoint_info.as_ref().and_then(|info| info.format_type).unwrap_or_default();
    forget_stop(job);
    job.upgrade_savepoint_path = Some(path.to_owned());
    format
}

/// Adds a savepoint to the deprecated history.
pub(super) fn note_in_history(
    job: &mut JobStatus,
    path: &str,
    format: SavepointFormatType,
    now: Timestamp,
) {
    let savepoint = Savepoint {
        time_stamp: now.as_millisecond(),
        location: Some(path.to_owned()),
        trigger_type: Some(SnapshotTriggerType::Upgrade),
        format_type: Some(format),
        trigger_nonce: None,
    };
    let info = job.savepoint_info.get_or_insert_default();
    if info.savepoint_history.iter().all(|known| known.location != savepoint.location) {
        info.savepoint_history.push(savepoint.clone());
    }
    info.last_savepoint = Some(savepoint);
}

/// What it means if the statistics of an ended job contain no state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum WithoutCheckpoint {
    /// The job had none.
    Empty,
    /// Its state is the one it was started from.
    AsStarted,
    /// It had state, at an unknown location.
    Unknown,
}

/// Returns how long the adaptive scheduler waits for a job's first resources, including the time to create the job. The
/// option has one name in Flink 2 and another in earlier versions; both default to 5 minutes.
pub(super) fn resource_wait(config: &FlinkConfig) -> SignedDuration {
    let waits = [
        "jobmanager.adaptive-scheduler.submission.resource-wait-timeout",
        "jobmanager.adaptive-scheduler.resource-wait-timeout",
    ];
    let stated = waits.iter().find_map(|key| duration::parse(config.get_text(key)?.trim()));
    let stated = stated.and_then(|stated| SignedDuration::try_from(stated).ok());
    stated.unwrap_or(RESOURCE_WAIT).saturating_add(MADE_IN)
}

/// Returns `without`, or that the state is unknown if there are no statistics although the job may have run.
pub(super) fn unless_blank(
    without: WithoutCheckpoint,
    checkpoints: Answer<'_, Checkpoints>,
    may_have_run: bool,
) -> WithoutCheckpoint {
    let is_blank = checkpoints.is_ok_and(|checkpoints| checkpoints.is_blank);
    if is_blank && may_have_run { WithoutCheckpoint::Unknown } else { without }
}

/// Records the state that an ended job leaves, read while its JobManager still knows it.
///
/// Statistics without any state do not prove that there is none: those of a job that could not read its restore point
/// look the same.
pub(super) fn note_last_state(
    job: &mut JobStatus,
    state: JobStatusState,
    checkpoints: Answer<'_, Checkpoints>,
    without: WithoutCheckpoint,
) -> Result<(), Halt> {
    let checkpoints = checkpoints.map_err(|reason| {
        Halt::cannot(format!(
            "the job is {}, but its last checkpoint cannot be read yet: {reason}",
            state.into_str()
        ))
    })?;
    // There was state, but it cannot be restored: the next start must be refused.
    let unknown = || Some(LAST_STATE_PATH.to_owned());
    match (&checkpoints.latest, &checkpoints.unusable, without) {
        (Some(latest), _, _) => job.upgrade_savepoint_path = Some(latest.path.clone()),
        (None, Some(_), _) | (None, None, WithoutCheckpoint::Unknown) => {
            job.upgrade_savepoint_path = unknown();
        }
        (None, None, WithoutCheckpoint::Empty) => job.upgrade_savepoint_path = None,
        (None, None, WithoutCheckpoint::AsStarted) => {}
    }
    Ok(())
}

/// Returns true if `job` was stored to start from the path that its user named. That path is used regardless of the
/// job's upgrade mode.
pub(super) fn is_savepoint_redeploy(job: &JobSpec, path: Option<&str>) -> bool {
    job.savepoint_redeploy_nonce.is_some()
        && job.upgrade_mode == UpgradeMode::Savepoint
        && job.initial_savepoint_path.is_some()
        && job.initial_savepoint_path.as_deref() == path
}

/// Returns why a job failed, as far as its JobManager reports it.
pub(super) fn failure(answer: Answer<'_, Failure>) -> Problem {
    match answer {
        Ok(failure) => Problem {
            causes: shown_causes(&failure.causes),
            stack_trace: Some(failure.stack_trace.clone()).filter(|it| !it.is_empty()),
            ..Problem::of_job(failure.message.clone())
        },
        Err(reason) => {
            Problem::of_job(format!("the job failed; its exception cannot be read: {reason}"))
        }
    }
}

/// Limits the causes to two, which is what a status has room for by default. The innermost one says what went wrong.
fn shown_causes(causes: &[String]) -> Vec<String> {
    match causes {
        [outermost, .., innermost] => vec![outermost.clone(), innermost.clone()],
        [] | [_] => causes.to_vec(),
    }
}

/// Returns events for the job's exceptions that were not reported yet.
pub(super) fn exception_events(
    exceptions: &[JobException],
    told: Option<&ReportedExceptions>,
    job_id: &str,
    config: &FlinkConfig,
    now: Timestamp,
) -> Vec<Event> {
    let limit = config.get(&options::EVENTS_EXCEPTIONS_LIMIT_PER_RECONCILIATION).unwrap_or(10);
    let lines = config.get(&options::EVENTS_EXCEPTIONS_STACKTRACE_LINES).unwrap_or(5);
    exceptions::events(
        exceptions,
        &Scope {
            since: exceptions::since(told, job_id, now),
            limit: usize::try_from(limit).unwrap_or(0),
            lines: usize::try_from(lines).unwrap_or(0),
        },
    )
}

/// Returns true if a cancelled job retains its checkpoint according to its configuration; this operator sets that
/// unless the user does. Its `main()` can override it, so the job itself is asked before it is cancelled.
pub(super) fn retains_checkpoints(config: &FlinkConfig) -> bool {
    config
        .get_text("execution.checkpointing.externalized-checkpoint-retention")
        .is_none_or(|value| value.trim().eq_ignore_ascii_case("RETAIN_ON_CANCELLATION"))
}

/// Returns `spec` as it is stored for a job in `state` that was started or stopped by `mode`.
pub(super) fn stored<S: StoredSpec>(
    spec: &S,
    state: JobState,
    mode: UpgradeMode,
    is_first: bool,
) -> Reconciled<S> {
    let mut spec = spec.clone();
    if let Some(job) = spec.job_mut() {
        job.state = state;
        job.upgrade_mode = mode;
    }
    Reconciled::new(spec, is_first)
}

/// Stores `last` with the trigger nonces that were used up `before`; returns it as stored.
pub(super) fn store<S: StoredSpec>(
    reconciliation: &mut ReconciliationStatus,
    before: Option<&Reconciled<S>>,
    mut last: Reconciled<S>,
) -> Reconciled<S> {
    let before = before.and_then(|last| last.spec.job());
    if let (Some(job), Some(before)) = (last.spec.job_mut(), before) {
        job.savepoint_trigger_nonce = before.savepoint_trigger_nonce;
        job.checkpoint_trigger_nonce = before.checkpoint_trigger_nonce;
    }
    reconciliation.last_reconciled_spec = Some(last.to_text());
    last
}

/// Returns `last` after it was found that its job was started.
pub(super) fn running<S: StoredSpec>(last: &Reconciled<S>) -> Reconciled<S> {
    let mut last = last.clone();
    if let Some(job) = last.spec.job_mut() {
        job.state = JobState::Running;
    }
    last
}

/// Returns `last` after its job ended on request, when the stored spec no longer runs.
pub(super) fn stopped<S: StoredSpec>(last: &Reconciled<S>, has_state: bool) -> Reconciled<S> {
    let mut last = last.clone();
    last.first_deployment = Some(false);
    if let Some(job) = last.spec.job_mut() {
        job.state = JobState::Suspended;
        // Without state, the job was started empty and never completed a checkpoint. With state, the mode that it was
        // started by must not be used: that of a first start is always stateless.
        job.upgrade_mode = if has_state { UpgradeMode::Savepoint } else { UpgradeMode::Stateless };
    }
    last
}

/// Returns the spec that stays in force while the user's is invalid. The stored upgrade mode says how the job was
/// started, which is stateless at first. The user's spec decides what happens to the state, except for dropping it: a
/// spec that was refused or not validated yet drops none.
pub(super) fn in_force<S: StoredSpec>(last: &S, wanted: &S) -> S {
    let mut spec = last.clone();
    if let (Some(job), Some(wanted)) = (spec.job_mut(), wanted.job()) {
        job.upgrade_mode = match wanted.upgrade_mode {
            UpgradeMode::Stateless => UpgradeMode::LastState,
            kept @ (UpgradeMode::Savepoint | UpgradeMode::LastState) => kept,
        };
    }
    spec
}

/// Returns `last` with the desired values of the fields that do not affect a cluster, so that their change is not
/// detected again.
pub(super) fn refreshed<S: StoredSpec>(last: &Reconciled<S>, wanted: &S) -> Reconciled<S> {
    let mut refreshed = last.clone();
    if let (Some(stored), Some(wanted)) = (refreshed.spec.job_mut(), wanted.job()) {
        stored.initial_savepoint_path.clone_from(&wanted.initial_savepoint_path);
        stored.allow_non_restored_state = wanted.allow_non_restored_state;
    }
    refreshed
}

/// Returns an event about `problem`, with its message and up to two causes.
pub(super) fn problem_event(problem: &Problem) -> Event {
    let Problem { reason, component, message, causes, .. } = problem;
    let chain = std::iter::once(message).chain(causes).take(3).map(String::as_str);
    let text = chain.collect::<Vec<_>>().join(" -> ");
    Event::warning(reason, *component, text)
}
