//! How a running job is stopped so that its state survives: the upgrade table.
//!
//! The rows and their order are those of the Java operator. Where that one would continue with unknown state, this one
//! waits or refuses.

use std::time::Duration;

use jiff::Timestamp;

use crate::wait::Awaited;
use crate::world::{Answer, Checkpoints, HaMetadata};
use api::job::UpgradeMode;
use api::status::{JobManagerDeploymentStatus, JobStatusState, LAST_STATE_PATH};
use state::references::is_checkpoint;

/// Message if neither a JobManager nor HA metadata leads to the job's state.
pub(crate) const LOST: &str = "JobManager deployment is missing and HA metadata is not available \
     to make stateful upgrades. It is possible that the job has finished or terminally failed, or \
     the configmaps have been deleted. Manual restore required. Find the job's newest checkpoint \
     or savepoint, set `spec.job.initialSavepointPath` to it and `spec.job.savepointRedeployNonce` \
     to a new number.";

/// Message if a job would look for its HA metadata in the wrong place.
pub(crate) const MOVED: &str = "the change moves HA metadata to another place or another job id \
                                (`high-availability.*`, `$internal.pipeline.job-id`), where the \
                                job's own metadata would not be found, and no savepoint of the \
                                job can be taken now: its state would be lost. Revert that change, and \
                                make it while the job runs, with \
                                `execution.checkpointing.savepoint-dir` set";

/// Why a change waits for a job.
pub(crate) const NOT_RUNNING: &str = "the job is not running, so its state cannot be saved yet";

/// Message if a job is unknown to its JobManager and has no HA metadata.
pub(crate) const VANISHED: &str = "Job Not Found: its JobManager no longer knows the job, and \
                                   there is no HA metadata of it. It is possible that the job \
                                   has finished, as it does when it is stopped with a savepoint, \
                                   or terminally failed. Manual restore required";

/// What to do if the newest state of a job is unavailable.
pub(crate) const OTHER_STATE: &str = "To go on without it, find the job's newest checkpoint or \
     savepoint, set `spec.job.initialSavepointPath` to it and `spec.job.savepointRedeployNonce` to a \
     new number";

/// How a job is stopped.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum StopDecision {
    /// It has stopped; the next start restores it in this mode.
    AlreadyStopped(UpgradeMode),
    /// Drop it and its state, as the user requested.
    Stateless,
    /// Stop with a savepoint.
    Savepoint,
    /// Cancel it and start again from the checkpoint that it leaves.
    Cancel,
    /// Delete the JobManager and start again from HA metadata.
    LastState,
    /// The JobManager never ran: remove it and start as the failed start would have.
    NeverStarted(UpgradeMode),
    /// Not now, for this reason.
    Wait(Awaited, String),
    /// A person has to choose the state.
    Refuse(String),
}

impl StopDecision {
    /// Returns true if it ends something that may still be working.
    pub(crate) fn ends_what_runs(&self) -> bool {
        match self {
            Self::Stateless | Self::Savepoint | Self::Cancel | Self::LastState => true,
            Self::AlreadyStopped(_) | Self::NeverStarted(_) | Self::Wait(..) | Self::Refuse(_) => {
                false
            }
        }
    }
}

/// A fact that must be looked up before the table can continue.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Need {
    HaMetadata,
    Checkpoints,
    /// Retention of checkpoints, as configured in the running job.
    Retention,
    /// Whether the JobManager may never have run.
    NeverStarted,
}

/// A fact that is read only if a row depends on it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Lazy<T> {
    NotAsked,
    Unknown(String),
    Known(T),
}

/// Everything that the table depends on.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "independent facts, each named after its option")]
pub struct StopFacts {
    pub now: Timestamp,
    /// The current `spec.job.upgradeMode`.
    pub mode: UpgradeMode,
    /// The mode stored with the last start: how the running job was started.
    pub started_as: UpgradeMode,
    pub state: Option<JobStatusState>,
    pub job_manager: JobManagerDeploymentStatus,
    pub is_high_availability_on: bool,
    /// The desired spec keeps HA metadata in another place, where the job's metadata would not be found.
    pub moves_metadata: bool,
    pub is_version_changed: bool,
    pub has_savepoint_directory: bool,
    /// `job.upgrade.last-state-fallback.enabled`.
    pub may_fall_back: bool,
    /// `job.upgrade.last-state.job-cancel.enabled`.
    pub may_cancel: bool,
    /// According to the configuration, checkpoints outlive a cancelled job.
    pub retains_checkpoints: bool,
    /// According to the running job, its checkpoints outlive its cancellation: its `main()` may override the
    /// configuration.
    pub retention: Lazy<bool>,
    /// `job.upgrade.last-state.max.allowed.checkpoint.age`.
    pub checkpoint_age_max: Option<Duration>,
    pub job_started: Option<Timestamp>,
    /// `status.jobStatus.upgradeSavepointPath`, or else the deprecated last savepoint.
    pub path: Option<String>,
    pub ha_metadata: Lazy<HaMetadata>,
    pub checkpoints: Lazy<Checkpoints>,
    pub never_started: Lazy<bool>,
}

/// Evaluates the table; the first matching row decides.
///
/// # Errors
/// The fact that the next row depends on, if it was not looked up yet.
pub fn decide_stop(facts: &StopFacts) -> Result<StopDecision, Need> {
    let state = facts.state;
    let is_terminal = state.is_some_and(JobStatusState::is_globally_terminal);
    if facts.mode == UpgradeMode::Stateless {
        return Ok(if is_terminal {
            StopDecision::AlreadyStopped(UpgradeMode::Stateless)
        } else {
            StopDecision::Stateless
        });
    }
    if is_terminal {
        let is_ready = facts.job_manager == JobManagerDeploymentStatus::Ready;
        let is_canceled = state == Some(JobStatusState::Canceled);
        if is_ready || is_canceled || !may_have_ha_metadata(facts)? {
            return terminal(facts);
        }
        return terminal_with_metadata(facts);
    }
    if state == Some(JobStatusState::Cancelling) {
        return Ok(StopDecision::Wait(Awaited::JobEnded, "the job is being cancelled".to_owned()));
    }
    let is_running = state == Some(JobStatusState::Running)
        && facts.job_manager == JobManagerDeploymentStatus::Ready;
    if facts.mode == UpgradeMode::Savepoint {
        if is_running {
            return Ok(StopDecision::Savepoint);
        }
        if !facts.may_fall_back && !facts.is_version_changed {
            return last_resort(facts, false);
        }
    }
    if facts.is_version_changed {
        return version_change(facts, is_running);
    }
    if is_running {
        return by_checkpoint_age(facts);
    }
    if let Some(decision) = cancel_where_allowed(facts)? {
        return Ok(decision);
    }
    last_resort(facts, true)
}

/// Decides for a job that ended by itself and may still have HA metadata, although Flink removes it at the end. The
/// metadata is older than a savepoint that the job left, or newer if Flink has run it again since.
fn terminal_with_metadata(facts: &StopFacts) -> Result<StopDecision, Need> {
    let Some(path) = facts.path.as_deref().filter(|path| *path != LAST_STATE_PATH) else {
        let decision = last_resort(facts, !facts.is_version_changed)?;
        let waits_for_nothing = facts.job_manager == JobManagerDeploymentStatus::Missing
            && matches!(facts.ha_metadata, Lazy::Known(_))
            && decision == StopDecision::Wait(Awaited::JobRunning, NOT_RUNNING.to_owned());
        return Ok(if waits_for_nothing {
            StopDecision::Refuse(format!(
                "the job has ended, and only HA metadata leads to its state, which another \
                 version of Flink cannot read. Nothing is started. Revert the change of \
                 `spec.flinkVersion`. {OTHER_STATE}"
            ))
        } else {
            decision
        });
    };
    let has_failed = facts.state == Some(JobStatusState::Failed);
    match &facts.ha_metadata {
        Lazy::Known(HaMetadata { checkpoint: None, .. }) => terminal(facts),
        // Metadata follows each checkpoint: the one it names is this one or a later one. A failed job was not stopped
        // with a savepoint, and Flink itself uses the metadata to restart one.
        Lazy::Known(_) if (is_checkpoint(path) || has_failed) && !facts.is_version_changed => {
            last_resort(facts, true)
        }
        Lazy::Known(_) => Ok(StopDecision::Refuse(format!(
            "the job ended with `{path}`, its JobManager does not answer, and HA metadata still \
             names a checkpoint of the job: which of the two is newer is unknown. Nothing is \
             started until the JobManager answers. {OTHER_STATE}"
        ))),
        Lazy::Unknown(_) | Lazy::NotAsked => last_resort(facts, true),
    }
}

/// Decides for a job that ended by itself, and whose last state was recorded when that was observed.
fn terminal(facts: &StopFacts) -> Result<StopDecision, Need> {
    let unknown = || {
        StopDecision::Refuse(format!(
            "Job is in terminal state but last checkpoint is unknown, possibly due to an \
             unrecoverable restore error. Manual restore required. {OTHER_STATE}"
        ))
    };
    match facts.path.as_deref() {
        Some(LAST_STATE_PATH) => Ok(unknown()),
        Some(_) => Ok(StopDecision::AlreadyStopped(UpgradeMode::Savepoint)),
        None => match &facts.checkpoints {
            Lazy::NotAsked => Err(Need::Checkpoints),
            Lazy::Known(Checkpoints { unusable: Some(reason), .. }) => {
                Ok(StopDecision::Refuse(format!("{reason}. Manual restore required.")))
            }
            Lazy::Known(Checkpoints { is_blank: true, .. }) => Ok(unknown()),
            Lazy::Known(Checkpoints { latest: None, unusable: None, .. })
                if facts.started_as == UpgradeMode::Stateless =>
            {
                // It was started empty and never completed a checkpoint: there is no state to lose.
                Ok(StopDecision::AlreadyStopped(UpgradeMode::Stateless))
            }
            Lazy::Known(Checkpoints { latest: None, unusable: None, .. }) => {
                Ok(StopDecision::Refuse(
                    "the job has ended without a checkpoint of its own, and the state that it was \
                     started from is not on record. Manual restore required."
                        .to_owned(),
                ))
            }
            Lazy::Known(Checkpoints { latest: Some(_), unusable: None, .. }) => {
                Ok(StopDecision::AlreadyStopped(UpgradeMode::Savepoint))
            }
            Lazy::Unknown(reason) => Ok(StopDecision::Refuse(format!(
                "the job has ended, and it is unknown whether it left any state ({reason}); set \
                 `spec.job.initialSavepointPath` and a new `spec.job.savepointRedeployNonce`. \
                 Manual restore required."
            ))),
        },
    }
}

fn version_change(facts: &StopFacts, is_running: bool) -> Result<StopDecision, Need> {
    if is_running && facts.has_savepoint_directory {
        return Ok(StopDecision::Savepoint);
    }
    if is_cancellable(facts.job_manager, facts.state) {
        let not_retained = "the Flink version changes, and the job's checkpoints are not \
                            retained when it is cancelled: waiting for the job to run. Set \
                            `execution.checkpointing.savepoint-dir`";
        return Ok(cancel(facts)?.unwrap_or_else(|| not_cancelled(facts, not_retained)));
    }
    last_resort(facts, false)
}

fn by_checkpoint_age(facts: &StopFacts) -> Result<StopDecision, Need> {
    let default = |facts: &StopFacts| -> Result<StopDecision, Need> {
        if let Some(decision) = cancel_where_allowed(facts)? {
            return Ok(decision);
        }
        if facts.moves_metadata && !facts.has_savepoint_directory {
            return Ok(StopDecision::Wait(Awaited::Change, MOVED.to_owned()));
        }
        // Metadata is used only as the desired spec reads it: without high availability, it reads none.
        if facts.is_high_availability_on && !facts.moves_metadata {
            match &facts.ha_metadata {
                Lazy::NotAsked => return Err(Need::HaMetadata),
                Lazy::Unknown(reason) => {
                    return Ok(StopDecision::Wait(
                        Awaited::Fact,
                        format!("HA metadata cannot be read: {reason}"),
                    ));
                }
                Lazy::Known(HaMetadata { has_job: true, .. }) => {
                    return Ok(StopDecision::LastState);
                }
                Lazy::Known(HaMetadata { has_job: false, .. }) => {}
            }
        }
        Ok(if facts.has_savepoint_directory {
            StopDecision::Savepoint
        } else {
            not_cancelled(
                facts,
                "the job has no HA metadata, and its checkpoints are not retained when it is \
                 cancelled: set `execution.checkpointing.savepoint-dir`",
            )
        })
    };
    let Some(age_max) = facts.checkpoint_age_max else {
        return default(facts);
    };
    let is_recent = |at: Option<Timestamp>| {
        at.is_some_and(|at| {
            facts.now.duration_since(at)
                <= jiff::SignedDuration::try_from(age_max).unwrap_or(jiff::SignedDuration::MAX)
        })
    };
    if is_recent(facts.job_started) {
        return default(facts);
    }
    match &facts.checkpoints {
        Lazy::NotAsked => Err(Need::Checkpoints),
        Lazy::Unknown(reason) => Ok(StopDecision::Wait(
            Awaited::Fact,
            format!("the checkpoint statistics cannot be read: {reason}"),
        )),
        Lazy::Known(checkpoints) => {
            let latest = checkpoints.latest.as_ref().and_then(|latest| latest.at);
            if is_recent(latest) {
                default(facts)
            } else if is_recent(checkpoints.pending_since) {
                Ok(StopDecision::Wait(
                    Awaited::Checkpoint,
                    "a checkpoint is about to complete".to_owned(),
                ))
            } else {
                Ok(StopDecision::Savepoint)
            }
        }
    }
}

/// Decides if a cancellation would lose the state: waits for the job, or for its configuration, unless its newest
/// checkpoint is unusable.
fn not_cancelled(facts: &StopFacts, not_retained: &str) -> StopDecision {
    if matches!(facts.checkpoints, Lazy::Known(Checkpoints { is_blank: true, .. })) {
        return StopDecision::Wait(Awaited::JobRunning, NOT_RUNNING.to_owned());
    }
    let Lazy::Known(Checkpoints { unusable: Some(reason), .. }) = &facts.checkpoints else {
        return StopDecision::Wait(Awaited::Change, not_retained.to_owned());
    };
    StopDecision::Refuse(format!(
        "the job is not cancelled, because nothing could start from what it leaves: {reason}. \
         Set `execution.checkpointing.savepoint-dir` so that it is stopped with a savepoint"
    ))
}

/// Decides for a job that does not run: HA metadata, a JobManager that never ran, or waiting.
fn last_resort(facts: &StopFacts, may_use_ha_metadata: bool) -> Result<StopDecision, Need> {
    let is_gone = matches!(
        facts.job_manager,
        JobManagerDeploymentStatus::Missing | JobManagerDeploymentStatus::Error
    );
    let has_metadata = may_have_ha_metadata(facts)?;
    if may_use_ha_metadata && has_metadata {
        return Ok(match &facts.ha_metadata {
            Lazy::Unknown(reason) => {
                StopDecision::Wait(Awaited::Fact, format!("HA metadata cannot be read: {reason}"))
            }
            Lazy::Known(_) | Lazy::NotAsked => StopDecision::LastState,
        });
    }
    if !has_metadata && facts.started_as != UpgradeMode::LastState {
        match &facts.never_started {
            Lazy::NotAsked => return Err(Need::NeverStarted),
            Lazy::Known(true) => return Ok(StopDecision::NeverStarted(facts.started_as)),
            Lazy::Known(false) | Lazy::Unknown(_) => {}
        }
    }
    if is_gone && !has_metadata {
        let message = if facts.moves_metadata { MOVED } else { LOST };
        return Ok(StopDecision::Refuse(message.to_owned()));
    }
    Ok(StopDecision::Wait(Awaited::JobRunning, NOT_RUNNING.to_owned()))
}

/// Returns true if HA metadata of the job exists, or might.
pub(crate) fn may_have_ha_metadata(facts: &StopFacts) -> Result<bool, Need> {
    if !facts.is_high_availability_on || facts.moves_metadata {
        return Ok(false);
    }
    match &facts.ha_metadata {
        Lazy::NotAsked => Err(Need::HaMetadata),
        Lazy::Unknown(_) => Ok(true),
        Lazy::Known(metadata) => Ok(metadata.has_job),
    }
}

/// Returns true if there is a job to cancel and a JobManager to ask.
pub(crate) fn is_cancellable(
    job_manager: JobManagerDeploymentStatus,
    state: Option<JobStatusState>,
) -> bool {
    job_manager == JobManagerDeploymentStatus::Ready
        && state.is_some_and(|state| {
            state != JobStatusState::Reconciling && !state.is_globally_terminal()
        })
}

/// Decides to cancel if that is enabled, or if no HA metadata leads to the state.
fn cancel_where_allowed(facts: &StopFacts) -> Result<Option<StopDecision>, Need> {
    let is_possible = is_cancellable(facts.job_manager, facts.state) && facts.retains_checkpoints;
    if !is_possible || !facts.may_cancel && may_have_ha_metadata(facts)? {
        return Ok(None);
    }
    cancel(facts)
}

/// Decides to cancel if that keeps the state: checkpoints must be retained, according to the configuration and the
/// running job itself, and the newest one must be usable. Returns `None` otherwise.
fn cancel(facts: &StopFacts) -> Result<Option<StopDecision>, Need> {
    if !facts.retains_checkpoints {
        return Ok(None);
    }
    match &facts.retention {
        Lazy::NotAsked => Err(Need::Retention),
        Lazy::Known(false) => Ok(None),
        Lazy::Known(true) => match &facts.checkpoints {
            Lazy::NotAsked => Err(Need::Checkpoints),
            Lazy::Known(
                Checkpoints { unusable: Some(_), .. } | Checkpoints { is_blank: true, .. },
            ) => Ok(None),
            // The remaining state is read again before the next start.
            Lazy::Known(_) | Lazy::Unknown(_) => Ok(Some(StopDecision::Cancel)),
        },
        Lazy::Unknown(reason) => Ok(Some(StopDecision::Wait(
            Awaited::Fact,
            format!(
                "could not determine whether the job's checkpoints are retained when it is \
             cancelled: {reason}"
            ),
        ))),
    }
}

pub(crate) fn lazy<T: Clone>(answer: Answer<'_, T>) -> Lazy<T> {
    match answer {
        Ok(value) => Lazy::Known(value.clone()),
        Err(reason) => Lazy::Unknown(reason.to_owned()),
    }
}

#[cfg(test)]
mod tests;
