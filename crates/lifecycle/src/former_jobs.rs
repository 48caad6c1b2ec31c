//! Whose HA metadata are removed: those of jobs on record, and no other's.

use super::application::{Halt, Pass};
use super::job;
use super::plan::Step;
use api::deployment::FlinkDeploymentSpec;
use config::cluster::is_zookeeper_high_availability_on;

/// In `status.clusterInfo`: ids of jobs that ran before the one on record, and whose HA metadata in
/// ZooKeeper may still be there. What else is there may be another's: a cluster of this name in another
/// namespace has the same place unless its `path.root` says otherwise.
const FORMER_KEY: &str = "FormerJobs";
/// Ids that are kept of those, the newest.
const FORMER_MAX: usize = 16;

impl Pass<'_> {
    /// Notes the job before this one, until its HA metadata is removed.
    pub(super) fn note_former_job(
        &mut self,
        spec: &FlinkDeploymentSpec,
        job_id: &str,
    ) -> Result<(), Halt> {
        let config = self.deploy_config(spec, self.generation)?;
        if !is_zookeeper_high_availability_on(&config) {
            self.status.cluster_info.remove(FORMER_KEY);
            return Ok(());
        }
        let mut jobs = self.former_jobs();
        jobs.extend(job::id(&self.status.job_status));
        jobs.retain(|id| id != job_id);
        jobs.dedup();
        jobs.drain(..jobs.len().saturating_sub(FORMER_MAX));
        if !jobs.is_empty() {
            self.status.cluster_info.insert(FORMER_KEY.to_owned(), jobs.join(","));
        }
        Ok(())
    }

    fn former_jobs(&self) -> Vec<String> {
        let jobs = self.status.cluster_info.get(FORMER_KEY);
        let jobs = jobs.into_iter().flat_map(|jobs| jobs.split(','));
        // They become paths, and anybody may have written them.
        let is_id = |id: &&str| !id.is_empty() && id.bytes().all(|b| b.is_ascii_alphanumeric());
        jobs.filter(is_id).map(str::to_owned).collect()
    }

    /// Ids of the jobs whose HA metadata are this resource's own.
    pub(super) fn jobs_on_record(&self) -> Vec<String> {
        self.former_jobs().into_iter().chain(job::id(&self.status.job_status)).collect()
    }

    /// Removes the HA metadata of the jobs on record. A session cluster keeps no record of what ran in it.
    pub(super) fn delete_ha_metadata(&mut self) {
        let jobs = (!self.is_session()).then(|| self.jobs_on_record());
        self.steps.push(Step::DeleteHaMetadata { jobs });
        self.status.cluster_info.remove(FORMER_KEY);
    }
}
