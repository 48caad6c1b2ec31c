//! Superseded specs, which are kept beside a resource that has a job.

use jiff::Timestamp;

use super::act::Error;
use super::observe::tell;
use super::reconcile::OperatedJob;
use super::resource::Act;
use clients::cluster::{self, revisions};
use lifecycle::plan::Superseded;
use lifecycle::resource::StatusOfJob as _;
use state::revision;

impl<K: OperatedJob> Act<'_, K> {
    /// Puts a superseded spec into the history, with the status of the job that ran by it.
    pub(super) async fn record_revision(
        &self,
        superseded: Superseded<K::Spec>,
    ) -> Result<(), Error> {
        let Superseded { spec, restore_point } = superseded;
        let job_id = self.stored.job().job_id.as_deref();
        let reconciled_at = self.stored.reconciliation().reconciliation_timestamp;
        let content = revision::Content {
            spec: serde_json::to_value(&spec)?,
            restore_point: revision::RestorePoint::of(&restore_point, job_id),
            reconciled_at: Timestamp::from_millisecond(reconciled_at)
                .unwrap_or(Timestamp::UNIX_EPOCH),
        };
        match revisions::record(&self.context.client, K::JOB, &self.resource, content).await {
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
