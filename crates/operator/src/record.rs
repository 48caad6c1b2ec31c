//! Superseded specs, which are kept beside a resource that has a job.

use jiff::Timestamp;
use kube::ResourceExt;

use super::act::Error;
use super::kind::Operated;
use super::observe::show;
use super::reconcile::OperatedJob;
use super::resource::Act;
use api::blue_green::{Colour, parent_of};
use blue_green::child;
use clients::cluster::revisions::History;
use clients::cluster::{self, revisions};
use lifecycle::plan::Superseded;
use lifecycle::resource::{JobResource, StatusOfJob as _};
use state::revision;

impl<K: OperatedJob> Act<'_, K> {
    /// Adds a superseded spec to the history, with the status of the job that ran with it.
    pub(super) async fn record_revision(
        &self,
        superseded: Superseded<K::Spec>,
    ) -> Result<(), Error> {
        let Superseded { spec, restore_point } = superseded;
        let job_id = self.stored.job().job_id.as_deref();
        let reconciled_at = self.stored.reconciliation().reconciliation_timestamp;
        let mut spec = serde_json::to_value(&spec)?;
        let is_child = parent_of(self.resource.meta()).is_some();
        let colour = Colour::of_label(self.resource.labels()).filter(|_| is_child);
        if let Some(colour) = colour {
            child::to_template(&mut spec, colour);
        }
        let content = revision::Content {
            spec,
            restore_point: revision::RestorePoint::of(&restore_point, job_id),
            reconciled_at: Timestamp::from_millisecond(reconciled_at)
                .unwrap_or(Timestamp::UNIX_EPOCH),
        };
        self.put_into_history(&history_of(&self.resource), content).await
    }
}

/// Returns the history of a job. For a child, it is that of its blue/green deployment, with specs in the form of its
/// template.
pub(super) fn history_of<K: JobResource>(job: &K) -> History {
    let namespace = job.namespace().unwrap_or_default();
    if let Some(parent) = parent_of(job.meta()) {
        let name = revision::blue_green_history_name(&parent.name);
        return History { namespace, name, owner: parent.clone(), is_repeated: false };
    }
    let name = revision::history_name(K::JOB, &job.name_any());
    History { namespace, name, owner: job.owner_ref(&()).unwrap_or_default(), is_repeated: false }
}

impl<K: Operated> Act<'_, K> {
    /// Adds a superseded spec to a history.
    pub(super) async fn put_into_history(
        &self,
        history: &History,
        content: revision::Content,
    ) -> Result<(), Error> {
        match revisions::record(&self.context.client, history, content).await {
            // History is a convenience: an upgrade continues without the right to write it, and under a name that is
            // too long for a label.
            Err(
                error @ (cluster::Error::Forbidden { .. }
                | cluster::Error::Invalid { .. }
                | cluster::Error::Rejected { .. }),
            ) => {
                tracing::warn!(error = show(&error), "revision not recorded");
                Ok(())
            }
            other => Ok(other?),
        }
    }
}
