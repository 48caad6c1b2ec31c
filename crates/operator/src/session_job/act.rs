//! Takes the steps of a session job's plan.

use kube::{Resource, ResourceExt};
use serde_json::json;

use super::jar::{self, NotSubmitted};
use crate::act::{Error, cancel, scale, stop_with_savepoint};
use crate::resource::Act;
use crate::snapshot::steps::SnapshotSteps;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::JobKind;
use clients::cluster::apply::{self, ObjectId, Writer};
use clients::cluster::read;
use clients::flink::Client;
use clients::flink::savepoints::StopRequest;
use lifecycle::session_job::SESSION_LABEL;
use lifecycle::session_job::leaving::takes_jobs;
use lifecycle::session_job::plan::{Step, Submission, Superseded};

/// Why a plan stopped.
pub(super) enum Stopped {
    Error(Error),
    /// The job was not submitted, or nobody knows whether it was.
    Submission(NotSubmitted),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl Act<'_, FlinkSessionJob> {
    /// Takes the steps in order and stops at the first error. Answers what became of those on
    /// snapshots.
    pub(super) async fn take(
        &mut self,
        steps: Vec<Step>,
        cluster: Option<&FlinkDeployment>,
    ) -> Result<SnapshotSteps, Stopped> {
        let mut snapshots = SnapshotSteps::default();
        for step in steps {
            match step {
                Step::Snapshot(step) => {
                    snapshots.take(step, self, || self.flink(cluster)).await?;
                }
                other => self.step(other, cluster).await?,
            }
        }
        Ok(snapshots)
    }

    async fn step(&mut self, step: Step, cluster: Option<&FlinkDeployment>) -> Result<(), Stopped> {
        match step {
            Step::AddFinalizer => self.change_finalizers(true).await?,
            Step::RemoveFinalizer => self.change_finalizers(false).await?,
            Step::SetSessionLabel { cluster } => self.set_session_label(&cluster).await?,
            Step::WriteStatus(status) => self.write_status(&status).await?,
            Step::Event(event) => self.record_event(event).await?,
            Step::RecordRevision(superseded) => self.record_superseded(*superseded).await?,
            // Taken by `take`, which keeps what was not disposed of.
            Step::Snapshot(_) => {}
            Step::TriggerStop { job_id, trigger_id, directory, format, drain } => {
                let request =
                    StopRequest { target_directory: directory, drain, format, trigger_id };
                stop_with_savepoint(&self.flink(cluster)?, &job_id, &request).await?;
            }
            Step::ScaleJob { job_id, bounds } => {
                scale(&self.flink(cluster)?, &job_id, &bounds).await?;
            }
            Step::Remember(tried) => self.context.note_tried(&self.uid, tried),
            Step::CancelJob { job_id } => cancel(&self.flink(cluster)?, &job_id).await?,
            Step::Submit(submission) => {
                let flink = self.flink(cluster)?;
                self.find_cluster_staying(&submission, cluster).await?;
                jar::submit(*submission, &flink, (&self.resource, cluster, &self.operator))
                    .await
                    .map_err(Stopped::Submission)?;
            }
        }
        Ok(())
    }

    /// A cluster that is going tells so in its status before it looks for the jobs that it waits for, and the id of
    /// this one is on record by now.
    async fn find_cluster_staying(
        &self,
        submission: &Submission,
        cluster: Option<&FlinkDeployment>,
    ) -> Result<(), Stopped> {
        if submission.may_arrive.is_some() {
            return Ok(());
        }
        let name = cluster.map(ResourceExt::name_any).unwrap_or_default();
        let (client, namespace) = (&self.context.client, self.namespace());
        let found = read::get::<FlinkDeployment>(client, &namespace, &name).await;
        let found = found.map_err(Error::Cluster)?;
        if found.as_ref().is_some_and(takes_jobs) {
            return Ok(());
        }
        Err(Stopped::Submission(NotSubmitted {
            job_id: submission.job_id.clone(),
            message: format!("the session cluster `{name}` is being replaced"),
            may_arrive: None,
        }))
    }

    fn flink(&self, cluster: Option<&FlinkDeployment>) -> Result<Client, Error> {
        super::flink(cluster, &self.operator, self.context).map_err(Error::Address)
    }

    async fn set_session_label(&mut self, cluster: &str) -> Result<(), Error> {
        let id = ObjectId::of::<FlinkSessionJob>(&self.namespace(), &self.resource.name_any());
        // Of a resource that is not the newest: its status would pass for that.
        let patch = json!({"metadata": {
            "resourceVersion": self.resource.metadata.resource_version,
            "labels": {SESSION_LABEL: cluster},
        }});
        let stored = apply::amend(&self.context.client, &id, &patch, Writer::OPERATOR).await?;
        self.resource.meta_mut().resource_version = stored.resource_version;
        self.remember();
        Ok(())
    }

    async fn record_superseded(&self, superseded: Superseded) -> Result<(), Error> {
        let reconciled = self.stored.reconciliation_status.reconciliation_timestamp;
        let job_id = self.stored.job_status.job_id.as_deref();
        self.keep_revision(JobKind::FlinkSessionJob, superseded, reconciled, job_id).await
    }
}
