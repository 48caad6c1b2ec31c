//! Snapshots that a job requests: by a new nonce, or by its schedule.
//!
//! This is the same for deployments and session jobs. If snapshots are resources, one is created and its controller
//! takes it; otherwise Flink is asked directly, and the job's status does the bookkeeping.

pub mod known;
pub mod memory;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use self::known::{Asker, Cause, KnownSnapshot, SnapshotKind};
use self::memory::Memory;
use super::node_notice::Notice;
use super::plan::TakeSnapshot;
use super::snapshot::labels::{LABEL_TRIGGER_TYPE, LABEL_TYPE};
use super::snapshot::{OVERDUE, backoff};
use api::job::JobSpec;
use api::state_snapshot::{
    CheckpointSpec, FlinkStateSnapshot, FlinkStateSnapshotSpec, JobKind, JobReference,
    SavepointSpec,
};
use api::status::{JobStatus, JobStatusState, SavepointFormatType, SnapshotTriggerType};
use api::version::FlinkVersion;
use api::{NODE_NOTICES_ANNOTATION, TRIGGER_NONCE_ANNOTATION, TRIGGERED_BY_ANNOTATION};
use config::cluster::savepoint_directory;
use config::{FlinkConfig, options};
use validation::schedule::Schedule;

/// Retries of a snapshot that the operator requests. A busy checkpoint coordinator, or tasks that have not all started,
/// must not use up a nonce.
const BACKOFF_LIMIT: i32 = 3;

/// How soon to check a job again whose periodic snapshot takes longer than its interval.
const OPEN_INTERVAL: Duration = Duration::from_secs(10);

impl Memory {
    /// Remembers which nonce requested a snapshot.
    pub fn note_taken(&mut self, snapshot: &TakeSnapshot) {
        if let Cause::Manual { nonce } = snapshot.cause {
            self.asked.insert(snapshot.kind, (snapshot.request.trigger_id.clone(), nonce));
        }
    }
}

/// A job, and what its snapshots depend on.
#[derive(Clone, Copy, Debug)]
pub struct JobFacts<'a> {
    pub now: Timestamp,
    pub zone: &'a TimeZone,
    pub kind: JobKind,
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    /// Generation of the desired spec.
    pub generation: i64,
    /// When the job resource was created.
    pub created: Timestamp,
    pub wanted: &'a JobSpec,
    /// The reconciled spec, whose nonces are used up.
    pub last: &'a JobSpec,
    pub status: &'a JobStatus,
    pub config: &'a FlinkConfig,
    pub flink_version: Option<FlinkVersion>,
    pub memory: &'a Memory,
    pub known: &'a [KnownSnapshot],
    /// The job does not serve yet. Periodic snapshots are only taken of the serving colour.
    pub is_target: bool,
}

impl JobFacts<'_> {
    /// Returns the cause of a snapshot of this kind that is due now.
    pub fn due(&self, kind: SnapshotKind) -> Option<Cause> {
        let is_running = self.status.state == Some(JobStatusState::Running);
        if !is_running || !self.can_take(kind) || self.has_trigger(kind) {
            return None;
        }
        if let Some(nonce) = kind.nonce(self.wanted)
            && kind.nonce(self.last) != Some(nonce)
        {
            return Some(Cause::Manual { nonce });
        }
        let is_due = self
            .schedule(kind)
            .is_some_and(|schedule| schedule.is_due(self.last_periodic(kind), self.now, self.zone));
        (is_due && !self.has_open_periodic(kind)).then_some(Cause::Periodic)
    }

    /// Returns the time until the next periodic snapshot; `None` if there will be none.
    pub fn next_in(&self, kind: SnapshotKind) -> Option<Duration> {
        let is_running = self.status.state == Some(JobStatusState::Running);
        if !is_running || !self.can_take(kind) {
            return None;
        }
        let next = self.schedule(kind)?.next(self.last_periodic(kind), self.zone)?;
        if self.has_open_periodic(kind) {
            return Some(OPEN_INTERVAL);
        }
        // A cron time applies once it has passed.
        let left = next.duration_since(self.now) + SignedDuration::from_millis(50);
        Some(Duration::try_from(left).unwrap_or_default().max(Duration::from_secs(1)))
    }

    pub(super) fn can_take(&self, kind: SnapshotKind) -> bool {
        kind == SnapshotKind::Savepoint
            || self.flink_version.is_some_and(|version| version >= FlinkVersion::V1_17)
    }

    /// Returns true if a snapshot was requested from Flink and has not ended.
    fn has_trigger(&self, kind: SnapshotKind) -> bool {
        let info = self.status.savepoint_info.as_ref();
        let trigger = match kind {
            SnapshotKind::Savepoint => info.and_then(|info| info.trigger_id.as_ref()),
            SnapshotKind::Checkpoint => {
                self.status.checkpoint_info.as_ref().and_then(|info| info.trigger_id.as_ref())
            }
        };
        trigger.is_some_and(|id| !id.is_empty())
    }

    /// Returns true if a periodic snapshot is in progress. One that has not ended after all of its attempts is ignored.
    fn has_open_periodic(&self, kind: SnapshotKind) -> bool {
        let open_max = open_max(self.config);
        self.periodic(kind).any(|snapshot| {
            let is_open = !snapshot.state.is_final() && !snapshot.is_deleting;
            is_open && self.now.duration_since(snapshot.created) <= open_max
        })
    }

    fn periodic(&self, kind: SnapshotKind) -> impl Iterator<Item = &KnownSnapshot> {
        self.known.iter().filter(move |snapshot| {
            snapshot.kind == kind
                && snapshot.trigger_type == SnapshotTriggerType::Periodic
                // A snapshot for a departing node does not postpone the next one.
                && snapshot.notices.is_empty()
        })
    }

    /// Returns the schedule. One that cannot be parsed never fires; that is reported when the spec is new.
    fn schedule(&self, kind: SnapshotKind) -> Option<Schedule> {
        if self.is_target {
            return None;
        }
        let text = self.config.get(&kind.schedule_option()).ok()?;
        match Schedule::parse(&text) {
            Ok(Schedule::Off) | Err(_) => None,
            Ok(schedule) => Some(schedule),
        }
    }

    /// Returns the time of the last periodic snapshot. After a start of the operator it is taken from the resources, or
    /// else is the age of the job.
    fn last_periodic(&self, kind: SnapshotKind) -> Timestamp {
        if let Some(last) = self.memory.of(kind) {
            return last;
        }
        if let Some(newest) = self.periodic(kind).map(|snapshot| snapshot.created).max() {
            return newest;
        }
        let noted = match kind {
            SnapshotKind::Savepoint => {
                self.status.savepoint_info.as_ref().map(|i| i.last_periodic_savepoint_timestamp)
            }
            SnapshotKind::Checkpoint => {
                self.status.checkpoint_info.as_ref().map(|i| i.last_periodic_checkpoint_timestamp)
            }
        };
        let noted = noted.and_then(|at| Timestamp::from_millisecond(at).ok());
        noted.map_or(self.created, |noted| noted.max(self.created))
    }

    /// Returns true if a resource for this nonce was created before a crash. The same number may have been used
    /// earlier, by an older spec or by another resource of the same name.
    pub fn was_created(&self, kind: SnapshotKind, cause: Cause) -> bool {
        let Cause::Manual { nonce } = cause else { return false };
        let is_asker = |snapshot: &KnownSnapshot| match &snapshot.asked_by {
            Some(Asker { uid, generation }) => uid == self.uid && *generation == self.generation,
            None => snapshot.created >= self.created,
        };
        self.known.iter().any(|snapshot| {
            snapshot.kind == kind && snapshot.nonce == Some(nonce) && is_asker(snapshot)
        })
    }

    /// Returns the resource that requests the snapshot; `None` if its directory is unknown.
    pub fn resource(&self, kind: SnapshotKind, cause: Cause) -> Option<FlinkStateSnapshot> {
        let savepoint = match kind {
            SnapshotKind::Savepoint => Some(SavepointSpec {
                path: Some(savepoint_directory(self.config)?),
                format_type: Some(savepoint_format(self.config)),
                dispose_on_delete: Some(disposes(self.config)),
                already_exists: Some(false),
            }),
            SnapshotKind::Checkpoint => None,
        };
        let spec = FlinkStateSnapshotSpec {
            job_reference: None,
            checkpoint: savepoint.is_none().then(CheckpointSpec::default),
            savepoint,
            backoff_limit: Some(BACKOFF_LIMIT),
        };
        let job = (self.kind, self.namespace, self.name);
        let suffix = match cause {
            // A request is one resource, whatever became of the first attempt.
            Cause::Manual { nonce } => {
                let uid = self.uid.split('-').next().unwrap_or_default();
                format!("{uid}-{}-{nonce}", self.generation)
            }
            Cause::Periodic | Cause::Upgrade => self.now.as_millisecond().to_string(),
        };
        let mut resource = resource_of(job, spec, kind, cause.trigger_type(), &suffix);
        if let Cause::Manual { nonce } = cause {
            let asker = format!("{}/{}", self.uid, self.generation);
            resource.metadata.annotations = Some(BTreeMap::from([
                (TRIGGER_NONCE_ANNOTATION.to_owned(), nonce.to_string()),
                (TRIGGERED_BY_ANNOTATION.to_owned(), asker),
            ]));
        }
        Some(resource)
    }

    /// Returns the resource that answers the notices of nodes. It is one of the periodic snapshots, of which old ones
    /// are removed.
    pub fn answer_to(&self, kind: SnapshotKind, notices: &[Notice]) -> Option<FlinkStateSnapshot> {
        let mut resource = self.resource(kind, Cause::Periodic)?;
        let uids: Vec<&str> = notices.iter().map(|notice| notice.uid.as_str()).collect();
        let annotation = (NODE_NOTICES_ANNOTATION.to_owned(), uids.join(","));
        resource.metadata.annotations = Some(BTreeMap::from([annotation]));
        Some(resource)
    }
}

/// Returns the longest time that a snapshot requested by the operator can take: all attempts, each as long as the
/// limits of Flink and of the operator allow, and the pauses between them.
pub(super) fn open_max(config: &FlinkConfig) -> SignedDuration {
    let timeout = config.get(&options::CHECKPOINTING_TIMEOUT).unwrap_or_default();
    let timeout = SignedDuration::try_from(timeout).unwrap_or(SignedDuration::MAX);
    let one = |failures: i32| {
        let pause = if failures < BACKOFF_LIMIT { backoff(failures + 1) } else { Duration::ZERO };
        let pause = SignedDuration::try_from(pause).unwrap_or(SignedDuration::MAX);
        timeout.saturating_add(OVERDUE).saturating_add(pause)
    };
    (0..=BACKOFF_LIMIT).map(one).fold(SignedDuration::ZERO, SignedDuration::saturating_add)
}

/// Returns the format of savepoints, CANONICAL if none is configured.
pub fn savepoint_format(config: &FlinkConfig) -> SavepointFormatType {
    config.get(&options::SAVEPOINT_FORMAT_TYPE).unwrap_or_default()
}

fn disposes(config: &FlinkConfig) -> bool {
    config.get(&options::SAVEPOINT_DISPOSE_ON_DELETE).unwrap_or(false)
}

/// Returns the resource of the savepoint that an upgrade requested at `since` and that has completed.
pub fn upgrade_resource(
    job: (JobKind, &str, &str),
    path: &str,
    format: SavepointFormatType,
    config: &FlinkConfig,
    since: Timestamp,
) -> FlinkStateSnapshot {
    let spec = FlinkStateSnapshotSpec {
        job_reference: None,
        savepoint: Some(SavepointSpec {
            path: Some(path.to_owned()),
            format_type: Some(format),
            dispose_on_delete: Some(disposes(config)),
            already_exists: Some(true),
        }),
        checkpoint: None,
        backoff_limit: Some(0),
    };
    let suffix = since.as_millisecond().to_string();
    resource_of(job, spec, SnapshotKind::Savepoint, SnapshotTriggerType::Upgrade, &suffix)
}

/// Creates the resource `<job>-<savepoint|checkpoint>-<periodic|upgrade>-<epoch millis>`, or
/// `<job>-<savepoint|checkpoint>-manual-<uid of the job>-<generation>-<nonce>` with the first part of the uid. It has
/// no owner, because it outlives its job.
fn resource_of(
    (kind, namespace, name): (JobKind, &str, &str),
    spec: FlinkStateSnapshotSpec,
    snapshot: SnapshotKind,
    trigger_type: SnapshotTriggerType,
    suffix: &str,
) -> FlinkStateSnapshot {
    let object_name = format!(
        "{name}-{}-{}-{suffix}",
        snapshot.into_str(),
        trigger_type.into_str().to_lowercase()
    );
    let job_reference = Some(JobReference { kind: Some(kind), name: Some(name.to_owned()) });
    let spec = FlinkStateSnapshotSpec { job_reference, ..spec };
    let mut resource = FlinkStateSnapshot::new(&object_name, spec);
    resource.metadata.namespace = Some(namespace.to_owned());
    resource.metadata.labels = Some(BTreeMap::from([
        (LABEL_TYPE.to_owned(), snapshot.into_str().to_uppercase()),
        (LABEL_TRIGGER_TYPE.to_owned(), trigger_type.into_str().to_owned()),
    ]));
    resource
}

#[cfg(test)]
mod tests;
