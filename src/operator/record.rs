//! What is kept beside a resource that has a job: superseded specs, and savepoints as resources.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt;

use super::act::Error;
use super::kind::Operated;
use super::observe::tell;
use super::resource::Act;
use crate::api::state_snapshot::{
    FlinkStateSnapshot, FlinkStateSnapshotSpec, JobKind, JobReference, SavepointSpec,
    SnapshotState, StateSnapshotStatus,
};
use crate::api::status::SavepointFormatType;
use crate::cluster::apply::{self, Writer};
use crate::cluster::{self, revisions};
use crate::decide::revision;

impl<K: Operated> Act<'_, K> {
    /// Puts a superseded spec into the history.
    pub(super) async fn keep_revision(
        &self,
        of: JobKind,
        content: revision::Content,
    ) -> Result<(), Error> {
        match revisions::record(&self.context.client, of, &self.resource, content).await {
            // History is a convenience: an upgrade goes on without the right to write it, and
            // under a name that is too long for a label.
            Err(
                error @ (cluster::Error::Forbidden { .. }
                | cluster::Error::Invalid { .. }
                | cluster::Error::Rejected { .. }),
            ) => {
                tracing::warn!(error = tell(&error), "revision not recorded");
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Shows a completed savepoint as a `FlinkStateSnapshot`.
    pub(super) async fn show_savepoint(
        &self,
        of: JobKind,
        path: &str,
        format: SavepointFormatType,
    ) -> Result<(), Error> {
        let snapshot = upgrade_snapshot(&self.resource, of, (path, format), Timestamp::now());
        let value = serde_json::to_value(&snapshot)?;
        let client = &self.context.client;
        let stored = match apply::create(client, &value, Writer::OPERATOR).await {
            Ok(stored) => stored,
            Err(cluster::Error::AlreadyExists { .. }) => return Ok(()),
            // The savepoint is on record in the status; this object only shows it.
            Err(
                error @ (cluster::Error::Forbidden { .. }
                | cluster::Error::KindMissing { .. }
                | cluster::Error::Invalid { .. }
                | cluster::Error::Rejected { .. }),
            ) => {
                tracing::warn!(error = tell(&error), path, "savepoint not recorded as a resource");
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let stored: FlinkStateSnapshot = serde_json::from_value(stored)?;
        apply::replace_status(client, &stored, &snapshot.status, Writer::OPERATOR).await?;
        Ok(())
    }
}

fn upgrade_snapshot<K: ResourceExt>(
    resource: &K,
    of: JobKind,
    (path, format): (&str, SavepointFormatType),
    now: Timestamp,
) -> FlinkStateSnapshot {
    let name = resource.name_any();
    let kind = match of {
        JobKind::FlinkDeployment => "FlinkDeployment",
        JobKind::FlinkSessionJob => "FlinkSessionJob",
    };
    let spec = FlinkStateSnapshotSpec {
        job_reference: Some(JobReference { kind: Some(of), name: Some(name.clone()) }),
        savepoint: Some(SavepointSpec {
            path: Some(path.to_owned()),
            format_type: Some(format),
            dispose_on_delete: Some(false),
            already_exists: Some(true),
        }),
        checkpoint: None,
        backoff_limit: Some(0),
    };
    let object_name = format!("{name}-savepoint-upgrade-{}", now.as_millisecond());
    let mut snapshot = FlinkStateSnapshot::new(&object_name, spec);
    snapshot.metadata.namespace = resource.namespace();
    snapshot.metadata.labels = Some(BTreeMap::from([
        ("snapshot.type".to_owned(), "SAVEPOINT".to_owned()),
        ("snapshot.trigger-type".to_owned(), "UPGRADE".to_owned()),
        ("snapshot.state".to_owned(), "COMPLETED".to_owned()),
        ("job-reference.kind".to_owned(), kind.to_owned()),
        ("job-reference.name".to_owned(), name),
    ]));
    snapshot.status = Some(StateSnapshotStatus {
        state: SnapshotState::Completed,
        trigger_id: None,
        trigger_timestamp: Some(now.to_string()),
        result_timestamp: Some(now.to_string()),
        path: Some(path.to_owned()),
        error: None,
        failures: 0,
    });
    snapshot
}
