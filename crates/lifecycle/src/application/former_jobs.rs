//! Limits the removal of HA metadata to that of jobs on record.

use crate::job;
use crate::notes::{FORMER_JOBS, JobIds};
use crate::pass::DeploymentPass;
use crate::plan::{ClusterStep, Step};
use crate::problem::Halt;
use api::deployment::FlinkDeploymentSpec;
use config::cluster::is_zookeeper_high_availability_on;

/// Maximum number of former jobs on record; the newest are kept.
const FORMER_MAX: usize = 16;

impl DeploymentPass<'_> {
    /// Records the previous job, until its HA metadata is removed.
    pub(crate) fn note_former_job(
        &mut self,
        spec: &FlinkDeploymentSpec,
        job_id: &str,
    ) -> Result<(), Halt> {
        let config = self.deploy_config(spec, self.generation)?;
        if !is_zookeeper_high_availability_on(&config) {
            FORMER_JOBS.clear(&mut self.status.cluster_info);
            return Ok(());
        }
        let mut jobs = self.former_jobs();
        jobs.extend(job::id(&self.status.job_status));
        jobs.retain(|id| id != job_id);
        jobs.dedup();
        jobs.drain(..jobs.len().saturating_sub(FORMER_MAX));
        if !jobs.is_empty() {
            FORMER_JOBS.set(&mut self.status.cluster_info, &JobIds(jobs));
        }
        Ok(())
    }

    fn former_jobs(&self) -> Vec<String> {
        FORMER_JOBS.get(&self.status.cluster_info).unwrap_or_default().0
    }

    /// Returns the ids of the jobs whose HA metadata belongs to this resource.
    pub(crate) fn jobs_on_record(&self) -> Vec<String> {
        self.former_jobs().into_iter().chain(job::id(&self.status.job_status)).collect()
    }

    /// Removes the HA metadata of the jobs on record. A session cluster keeps no record of the jobs that ran in it.
    pub(crate) fn delete_ha_metadata(&mut self) {
        let jobs = (!self.is_session()).then(|| self.jobs_on_record());
        self.steps.push(Step::Own(ClusterStep::DeleteHaMetadata { jobs }));
        FORMER_JOBS.clear(&mut self.status.cluster_info);
    }
}
