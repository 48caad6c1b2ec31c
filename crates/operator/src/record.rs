//! Superseded specs, which are kept beside a resource that has a job.

use jiff::Timestamp;
use serde::Serialize;

use super::act::Error;
use super::kind::Operated;
use super::observe::tell;
use super::resource::Act;
use api::state_snapshot::JobKind;
use clients::cluster::{self, revisions};
use lifecycle::plan::Superseded;
use state::revision;

impl<K: Operated> Act<'_, K> {
    /// Puts a superseded spec into the history, with the status of the job that ran by it.
    pub(super) async fn keep_revision<S: Serialize>(
        &self,
        of: JobKind,
        superseded: Superseded<S>,
        reconciled_at: i64,
        job_id: Option<&str>,
    ) -> Result<(), Error> {
        let Superseded { spec, restore_point } = superseded;
        let content = revision::Content {
            spec: serde_json::to_value(&spec)?,
            restore_point: revision::RestorePoint::of(&restore_point, job_id),
            reconciled_at: Timestamp::from_millisecond(reconciled_at)
                .unwrap_or(Timestamp::UNIX_EPOCH),
        };
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
}
