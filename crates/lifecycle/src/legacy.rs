//! The deprecated bookkeeping of snapshots in a job's own status, used if snapshots are not resources.
//!
//! `savepointInfo` also holds the trigger of a stop-with-savepoint, which has its own type. The functions here never
//! touch it.

use jiff::Timestamp;

use super::trigger::known::{Cause, SnapshotKind};
use api::status::{
    Checkpoint, CheckpointType, JobStatus, Savepoint, SavepointFormatType, SnapshotTriggerType,
};

/// A snapshot that was requested from Flink.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    pub trigger_id: String,
    pub trigger_type: SnapshotTriggerType,
    pub since: Timestamp,
}

/// Returns the snapshot in progress.
pub fn pending(job: &JobStatus, kind: SnapshotKind) -> Option<Pending> {
    noted(job, kind).filter(|it| it.trigger_type != SnapshotTriggerType::Upgrade)
}

/// Returns the checkpoint that a hot upgrade waits for.
pub(super) fn upgrade_checkpoint(job: &JobStatus) -> Option<Pending> {
    noted(job, SnapshotKind::Checkpoint)
        .filter(|it| it.trigger_type == SnapshotTriggerType::Upgrade)
}

/// Returns the last snapshot that was requested from Flink and has not ended, whatever its purpose.
pub fn noted(job: &JobStatus, kind: SnapshotKind) -> Option<Pending> {
    let (id, since, trigger_type) = match kind {
        SnapshotKind::Savepoint => {
            let info = job.savepoint_info.as_ref()?;
            (info.trigger_id.clone(), info.trigger_timestamp, info.trigger_type)
        }
        SnapshotKind::Checkpoint => {
            let info = job.checkpoint_info.as_ref()?;
            (info.trigger_id.clone(), info.trigger_timestamp, info.trigger_type)
        }
    };
    let trigger_type = trigger_type.unwrap_or(SnapshotTriggerType::Unknown);
    let trigger_id = id.filter(|id| !id.is_empty())?;
    let since = Timestamp::from_millisecond(since.unwrap_or(0)).unwrap_or(Timestamp::UNIX_EPOCH);
    Some(Pending { trigger_id, trigger_type, since })
}

/// Records that Flink is about to be asked.
pub(super) fn note(
    job: &mut JobStatus,
    kind: SnapshotKind,
    cause: Cause,
    trigger_id: &str,
    formats: (SavepointFormatType, CheckpointType),
    now: Timestamp,
) {
    let (id, at) = (Some(trigger_id.to_owned()), Some(now.as_millisecond()));
    let trigger_type = Some(cause.trigger_type());
    match kind {
        SnapshotKind::Savepoint => {
            let info = job.savepoint_info.get_or_insert_default();
            (info.trigger_id, info.trigger_timestamp, info.trigger_type) = (id, at, trigger_type);
            info.format_type = Some(formats.0);
        }
        SnapshotKind::Checkpoint => {
            let info = job.checkpoint_info.get_or_insert_default();
            (info.trigger_id, info.trigger_timestamp, info.trigger_type) = (id, at, trigger_type);
            info.format_type = Some(formats.1);
        }
    }
}

/// Clears a snapshot that has ended or is given up.
pub(super) fn forget(job: &mut JobStatus, kind: SnapshotKind) {
    match kind {
        SnapshotKind::Savepoint => super::job::forget_stop(job),
        SnapshotKind::Checkpoint => {
            if let Some(info) = &mut job.checkpoint_info {
                info.trigger_id = None;
                info.trigger_timestamp = None;
                info.trigger_type = None;
                info.format_type = None;
            }
        }
    }
}

/// Records a completed snapshot as the last of its kind, and adds a savepoint to the history.
pub(super) fn complete(
    job: &mut JobStatus,
    kind: SnapshotKind,
    pending: &Pending,
    path: Option<&str>,
    nonce: Option<i64>,
) {
    let time_stamp = pending.since.as_millisecond();
    let trigger_nonce = nonce.filter(|_| pending.trigger_type == SnapshotTriggerType::Manual);
    let is_periodic = pending.trigger_type == SnapshotTriggerType::Periodic;
    match kind {
        SnapshotKind::Savepoint => {
            let info = job.savepoint_info.get_or_insert_default();
            let savepoint = Savepoint {
                time_stamp,
                location: path.map(str::to_owned),
                trigger_type: Some(pending.trigger_type),
                format_type: info.format_type,
                trigger_nonce,
            };
            let last = info.savepoint_history.last();
            if last.is_none_or(|last| last.location != savepoint.location) {
                info.savepoint_history.push(savepoint.clone());
            }
            info.last_savepoint = Some(savepoint);
            if is_periodic {
                info.last_periodic_savepoint_timestamp = time_stamp;
            }
        }
        SnapshotKind::Checkpoint => {
            let info = job.checkpoint_info.get_or_insert_default();
            info.last_checkpoint = Some(Checkpoint {
                time_stamp,
                trigger_type: Some(pending.trigger_type),
                format_type: info.format_type,
                trigger_nonce,
            });
            if is_periodic {
                info.last_periodic_checkpoint_timestamp = time_stamp;
            }
        }
    }
    forget(job, kind);
}
