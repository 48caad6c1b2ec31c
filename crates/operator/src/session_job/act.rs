//! Takes the steps that only a session job has.

use kube::{Resource, ResourceExt};
use serde_json::json;

use super::jar::{self, NotSubmitted};
use crate::act::{Error, Stopped};
use crate::autoscaler::Cluster;
use crate::resource::Act;
use api::deployment::FlinkDeployment;
use api::session_job::FlinkSessionJob;
use clients::cluster::apply::{self, ObjectId, Writer};
use clients::cluster::read;
use lifecycle::session_job::SESSION_LABEL;
use lifecycle::session_job::leaving::{lets_stop, takes_jobs};
use lifecycle::session_job::plan::{SessionJobStep, Submission};

impl Act<'_, FlinkSessionJob> {
    /// Takes a step on the job, or on its submission.
    pub(super) async fn take_own(
        &mut self,
        step: SessionJobStep,
        cluster: Cluster<'_>,
    ) -> Result<(), Stopped> {
        match step {
            SessionJobStep::SetSessionLabel { cluster } => self.set_session_label(&cluster).await?,
            SessionJobStep::Remember(tried) => self.context.note_tried(&self.uid, tried),
            SessionJobStep::Submit(submission) => {
                let flink = self.flink(cluster)?;
                self.find_cluster_staying(&submission, cluster).await?;
                let job: jar::Job<'_> = (&self.resource, cluster, &self.operator);
                jar::submit(*submission, &flink, job, &self.context.jars)
                    .await
                    .map_err(Stopped::Submission)?;
            }
        }
        Ok(())
    }

    /// Checks that the cluster is not being deleted or replaced. It says so in its status before it looks for the jobs
    /// that it waits for, and the id of this job is on record by now.
    async fn find_cluster_staying(
        &self,
        submission: &Submission,
        cluster: Cluster<'_>,
    ) -> Result<(), Stopped> {
        if submission.may_arrive.is_some() {
            return Ok(());
        }
        let name = cluster.map(ResourceExt::name_any).unwrap_or_default();
        if self.read_cluster(&name).await?.as_ref().is_some_and(takes_jobs) {
            return Ok(());
        }
        Err(Stopped::Submission(NotSubmitted {
            job_id: submission.job_id.clone(),
            message: format!("the session cluster `{name}` is being replaced"),
            http_response_code: None,
            may_arrive: None,
        }))
    }

    /// Checks that the cluster is not about to be replaced. It says so in its status before it looks for jobs that are
    /// being stopped, and that this one is stopped is on record by now.
    pub(super) async fn find_cluster_keeping_on(&self, cluster: Cluster<'_>) -> Result<(), Error> {
        let Some(name) = cluster.map(ResourceExt::name_any) else { return Ok(()) };
        if self.read_cluster(&name).await?.as_ref().is_none_or(lets_stop) {
            return Ok(());
        }
        Err(Error::ClusterReplaced { name })
    }

    /// Returns the session cluster as it is now, which the watch may not have shown yet.
    async fn read_cluster(&self, name: &str) -> Result<Option<FlinkDeployment>, Error> {
        Ok(read::get(&self.context.client, &self.namespace(), name).await?)
    }

    async fn set_session_label(&mut self, cluster: &str) -> Result<(), Error> {
        let id = ObjectId::of::<FlinkSessionJob>(&self.namespace(), &self.resource.name_any());
        // Only on the newest version of the resource: otherwise an old status would pass for the newest.
        let patch = json!({"metadata": {
            "resourceVersion": self.resource.metadata.resource_version,
            "labels": {SESSION_LABEL: cluster},
        }});
        let stored = apply::amend(&self.context.client, &id, &patch, Writer::OPERATOR).await?;
        self.resource.meta_mut().resource_version = stored.resource_version;
        self.remember();
        Ok(())
    }
}
