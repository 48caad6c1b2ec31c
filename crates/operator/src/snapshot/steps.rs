//! Steps on the snapshots of a job, for both kinds that have one.

use jiff::Timestamp;
use kube::ResourceExt;

use super::{ask, dispose};
use crate::act::Error;
use crate::kind::Operated;
use crate::observe::tell;
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

/// How the steps on snapshots of one plan went.
#[derive(Default)]
pub(crate) struct SnapshotSteps {
    /// Savepoints that should have been disposed of and are still there.
    pub(crate) undisposed: Vec<String>,
    /// Of which a nonce asked for one that was refused.
    pub(crate) refused: Vec<SnapshotKind>,
    refusal: Option<Error>,
    /// One that had to go first did not.
    is_blocked: bool,
}

impl SnapshotSteps {
    /// Takes one step; `flink` addresses the JobManager. A periodic snapshot that may have been asked
    /// for, or is refused, waits a whole interval; one that nobody heard of is still due.
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
                // It holds up nothing else: the pass comes to its end first.
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
                // Asking for the trigger shows the outcome.
                if let Err(error) = ask(&flink()?, snapshot.request).await {
                    let kind = snapshot.kind.into_str();
                    tracing::warn!(error = tell(&error), kind, "the trigger was not confirmed");
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

    /// The error to report at the end of the pass.
    pub(crate) fn outcome(self) -> Result<(), Error> {
        self.refusal.map_or(Ok(()), Err)
    }
}

/// Disposes of the savepoint. True if it is gone.
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
                    // The next is due in an interval, and what an upgrade took is only shown.
                    SnapshotTriggerType::Periodic
                    | SnapshotTriggerType::Upgrade
                    | SnapshotTriggerType::Unknown => Ok(()),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// True if the existing snapshot of this name is the one that was asked for, by a request whose
    /// answer was lost or before a crash. A snapshot that no nonce asks for is known by its time.
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
        let mut message = format!("snapshot `{name}` cannot be created: {}", tell(error));
        // One for each reason, not for each name.
        let mut key = error.to_string();
        let savepoint = snapshot.spec.savepoint.as_ref();
        let taken = savepoint.filter(|savepoint| savepoint.already_exists == Some(true));
        if let Some(path) = taken.and_then(|savepoint| savepoint.path.as_deref()) {
            // Nothing else tells of it once there is a newer one.
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
            // It went, or is not what was looked at: the next pass looks at what there is.
            Ok(_) | Err(cluster::Error::Conflict { .. }) => Ok(()),
            // History that cannot be tidied up must not keep the job from anything.
            Err(error @ cluster::Error::Forbidden { .. }) => {
                tracing::warn!(error = tell(&error), name, "old snapshot not deleted");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }
}
