//! What is kept beside a resource that has a job: superseded specs.

use super::act::Error;
use super::kind::Operated;
use super::observe::tell;
use super::resource::Act;
use api::state_snapshot::JobKind;
use clients::cluster::{self, revisions};
use lifecycle::revision;

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
}
