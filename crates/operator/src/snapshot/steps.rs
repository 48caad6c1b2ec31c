//! Steps on the snapshots of a job, for both kinds of resources that have one.

use jiff::Timestamp;
use kube::ResourceExt;

use super::{ask, dispose};
use crate::act::Error;
use crate::kind::Operated;
use crate::observe::show;
use crate::resource::Act;
use api::state_snapshot::FlinkStateSnapshot;
use api::status::SnapshotTriggerType;
use api::{TRIGGER_NONCE_ANNOTATION, TRIGGERED_BY_ANNOTATION};
use clients::cluster;
use clients::cluster::apply::{self, Deletion, ObjectId, Writer};
use clients::cluster::read;
use clients::flink::Client;
use lifecycle::event::{Component, Event};
use lifecycle::plan::SnapshotStep;
use lifecycle::snapshot::labels::trigger_type;
use lifecycle::trigger::known::SnapshotKind;

/// The results of one plan's steps on snapshots.
#[derive(Default)]
pub(crate) struct SnapshotSteps {
    /// Savepoints that should have been disposed of and still exist.
    pub(crate) undisposed: Vec<String>,
    /// The kinds of which a nonce requested a snapshot that was rejected.
    pub(crate) refused: Vec<SnapshotKind>,
    refusal: Option<Error>,
    /// A disposal that had to come first failed.
    is_blocked: bool,
}

impl SnapshotSteps {
    /// Takes one step; `flink` addresses the JobManager. A periodic snapshot that may have been requested, or is
    /// rejected, waits a whole interval; one whose request arrived nowhere is still due.
    pub(crate) async fn take<K: Operated>(
        &mut self,
        step: SnapshotStep,
        act: &Act<'_, K>,
        flink: impl FnOnce() -> Result<Client, Error>,
    ) -> Result<(), Error> {
        let periodic = step.periodic();
        let taken = self.take_step(step, act, flink).await;
        if let Some(kind) = periodic
            && taken.as_ref().err().is_none_or(Error::is_outcome_unknown)
        {
            act.context.note_periodic(&act.uid, kind, Timestamp::now());
        }
        taken
    }

    async fn take_step<K: Operated>(
        &mut self,
        step: SnapshotStep,
        act: &Act<'_, K>,
        flink: impl FnOnce() -> Result<Client, Error>,
    ) -> Result<(), Error> {
        match step {
            SnapshotStep::Create(snapshot) => match act.create_snapshot(&snapshot).await {
                // It holds up nothing else: the pass completes first.
                Err(error @ Error::Snapshot { .. }) => {
                    self.refused.push(SnapshotKind::of(&snapshot));
                    self.refusal = Some(error);
                }
                other => other?,
            },
            SnapshotStep::Delete { name, uid, version } => {
                act.delete_snapshot(&name, &uid, &version).await?;
            }
            SnapshotStep::Take(snapshot) => {
                act.context.note_taken(&act.uid, &snapshot);
                // Polling the trigger shows the outcome.
                if let Err(error) = ask(&flink()?, snapshot.request).await {
                    let kind = snapshot.kind.into_str();
                    tracing::warn!(error = show(&error), kind, "the trigger was not confirmed");
                }
            }
            SnapshotStep::Dispose { path, is_in_order } => {
                let is_tried = !(is_in_order && self.is_blocked);
                if !is_tried || !is_disposed_of(&flink()?, &path).await {
                    self.is_blocked |= is_in_order;
                    self.undisposed.push(path);
                }
            }
        }
        Ok(())
    }

    /// Returns the error to report at the end of the pass.
    pub(crate) fn outcome(self) -> Result<(), Error> {
        self.refusal.map_or(Ok(()), Err)
    }
}

/// Disposes of the savepoint. Returns `true` if it is gone.
async fn is_disposed_of(flink: &Client, path: &str) -> bool {
    match dispose(flink, path).await {
        Ok(()) => true,
        Err(why) => {
            tracing::warn!(path, why, "savepoint of the history not disposed of");
            false
        }
    }
}

impl<K: Operated> Act<'_, K> {
    pub(crate) async fn create_snapshot(&self, snapshot: &FlinkStateSnapshot) -> Result<(), Error> {
        let value = serde_json::to_value(snapshot)?;
        let created = apply::create(&self.context.client, &value, Writer::OPERATOR).await;
        if matches!(created, Err(cluster::Error::AlreadyExists { .. }))
            && self.is_asked_by_same(snapshot).await?
        {
            return Ok(());
        }
        match created {
            Ok(_) => Ok(()),
            Err(
                error @ (cluster::Error::AlreadyExists { .. }
                | cluster::Error::Forbidden { .. }
                | cluster::Error::KindMissing { .. }
                | cluster::Error::Invalid { .. }
                | cluster::Error::Rejected { .. }),
            ) => {
                self.report_refused(snapshot, &error).await?;
                match trigger_type(snapshot) {
                    SnapshotTriggerType::Manual => {
                        Err(Error::Snapshot { name: snapshot.name_any(), source: error })
                    }
                    // The next one is due in an interval, and one that an upgrade took is only shown.
                    SnapshotTriggerType::Periodic
                    | SnapshotTriggerType::Upgrade
                    | SnapshotTriggerType::Unknown => Ok(()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns `true` if the existing snapshot of this name is the requested one, from a request whose answer was lost
    /// or before a crash. A snapshot that no nonce requests is identified by its time.
    async fn is_asked_by_same(&self, wanted: &FlinkStateSnapshot) -> Result<bool, Error> {
        if trigger_type(wanted) != SnapshotTriggerType::Manual {
            return Ok(true);
        }
        let found: Option<FlinkStateSnapshot> =
            read::get(&self.context.client, &self.namespace(), &wanted.name_any()).await?;
        let asked = |snapshot: &FlinkStateSnapshot| {
            [TRIGGER_NONCE_ANNOTATION, TRIGGERED_BY_ANNOTATION]
                .map(|annotation| snapshot.annotations().get(annotation).cloned())
        };
        Ok(found.is_some_and(|found| asked(&found) == asked(wanted)))
    }

    async fn report_refused(
        &self,
        snapshot: &FlinkStateSnapshot,
        error: &cluster::Error,
    ) -> Result<(), Error> {
        let name = snapshot.name_any();
        let mut message = format!("snapshot `{name}` cannot be created: {}", show(error));
        // One event for each reason, not for each name.
        let mut key = error.to_string();
        let savepoint = snapshot.spec.savepoint.as_ref();
        let taken = savepoint.filter(|savepoint| savepoint.already_exists == Some(true));
        if let Some(path) = taken.and_then(|savepoint| savepoint.path.as_deref()) {
            // Nothing else reports it once there is a newer one.
            message = format!("savepoint `{path}` was taken and is kept, but {message}");
            key = message.clone();
        }
        tracing::warn!(name, "{message}");
        let mut event = Event::warning("SnapshotError", Component::Operator, message);
        event.key = Some(key);
        self.record_event(event).await
    }

    async fn delete_snapshot(&self, name: &str, uid: &str, version: &str) -> Result<(), Error> {
        let id = ObjectId::of::<FlinkStateSnapshot>(&self.namespace(), name);
        let deletion = Deletion {
            uid: Some(uid),
            resource_version: Some(version),
            ..Deletion::with(apply::Propagation::Background)
        };
        match apply::delete(&self.context.client, &id, deletion).await {
            // It was deleted, or is not what was looked at: the next pass handles what exists.
            Ok(_) | Err(cluster::Error::Conflict { .. }) => Ok(()),
            // History that cannot be tidied up must not hold up the job.
            Err(error @ cluster::Error::Forbidden { .. }) => {
                tracing::warn!(error = show(&error), name, "old snapshot not deleted");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}
