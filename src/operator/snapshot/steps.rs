//! Steps on the snapshots of a job, for both kinds that have one.

use kube::ResourceExt;

use super::{ask, dispose};
use crate::api::state_snapshot::FlinkStateSnapshot;
use crate::cluster;
use crate::cluster::apply::{self, Deletion, ObjectId, Writer};
use crate::decide::plan::{Component, Event, SnapshotStep};
use crate::flink::Client;
use crate::operator::act::Error;
use crate::operator::kind::Operated;
use crate::operator::observe::tell;
use crate::operator::resource::Act;

/// How the steps on snapshots of one plan went.
#[derive(Default)]
pub(in crate::operator) struct SnapshotSteps {
    /// Savepoints that should have been disposed of and are still there.
    pub(in crate::operator) undisposed: Vec<String>,
    /// One that had to go first did not.
    is_blocked: bool,
}

impl SnapshotSteps {
    /// Takes one step; `flink` addresses the JobManager.
    pub(in crate::operator) async fn take<K: Operated>(
        &mut self,
        step: SnapshotStep,
        act: &Act<'_, K>,
        flink: impl FnOnce() -> Result<Client, Error>,
    ) -> Result<(), Error> {
        match step {
            SnapshotStep::Create(snapshot) => act.create_snapshot(&snapshot).await?,
            SnapshotStep::Delete { name, uid, version } => {
                act.delete_snapshot(&name, &uid, &version).await?;
            }
            SnapshotStep::Take(snapshot) => {
                // What became of it is found out by asking for the trigger.
                if let Err(error) = ask(&flink()?, snapshot.request).await {
                    let kind = snapshot.kind.as_str();
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
}

/// Whether the savepoint is gone.
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
    async fn create_snapshot(&self, snapshot: &FlinkStateSnapshot) -> Result<(), Error> {
        let value = serde_json::to_value(snapshot)?;
        match apply::create(&self.context.client, &value, Writer::OPERATOR).await {
            Ok(_) | Err(cluster::Error::AlreadyExists { .. }) => Ok(()),
            // What an upgrade took is on record in the status; the resource only shows it.
            Err(
                error @ (cluster::Error::Forbidden { .. }
                | cluster::Error::KindMissing { .. }
                | cluster::Error::Invalid { .. }
                | cluster::Error::Rejected { .. }),
            ) => {
                let name = snapshot.name_any();
                let message = format!("snapshot `{name}` cannot be created: {}", tell(&error));
                tracing::warn!(name, "{message}");
                let mut event = Event::warning("SnapshotError", Component::Operator, message);
                // One for each reason, not for each name.
                event.key = Some(error.to_string());
                self.record_event(event).await
            }
            Err(error) => Err(error.into()),
        }
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
