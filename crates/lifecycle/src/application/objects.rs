//! Objects of a cluster that cannot be made: nothing is stopped for them. Those that were refused beside a
//! JobManager that runs already are made later, and hold up no edit.

use crate::diff::ChangeClass;
use crate::kind::Maybe;
use crate::notes::UNFINISHED_DEPLOYMENT;
use crate::pass::DeploymentPass;
use crate::pauses::SOON;
use crate::plan::{ClusterStep, Step};
use crate::problem::{Halt, Problem};
use api::deployment::FlinkDeploymentSpec;
use api::job::JobState;
use api::reconciled::ReconciledSpec;
use config::cluster::{is_zookeeper_high_availability_on, zookeeper_out_of_reach};
use config::options;
use state::restore_point::RestorePoint;

/// The way out where the API server refuses an object.
const MEND: &str =
    "change the spec, or what refuses it (a quota, a policy, an object of this name)";

impl DeploymentPass<'_> {
    /// A running job is not stopped for a spec whose objects cannot be made.
    pub(crate) fn refuse_what_cannot_be_made(&self) -> Result<(), Halt> {
        if self.desired_state() == JobState::Running {
            self.refuse_metadata_out_of_reach(&self.spec, self.generation)?;
            let _objects = self.render(&self.spec, self.generation, &RestorePoint::Empty, "")?;
        }
        Ok(())
    }

    /// A running job is not stopped for objects that the API server would refuse. It is asked last, as
    /// each object costs a request.
    pub(crate) fn refuse_what_is_refused(&self) -> Result<(), Halt> {
        if self.desired_state() != JobState::Running {
            return Ok(());
        }
        let job_id = &self.world.fresh.job_id;
        let objects = self.render(&self.spec, self.generation, &RestorePoint::Empty, job_id)?;
        match self.world.refusal(objects)? {
            Ok(None) => Ok(()),
            Ok(Some(refusal)) => Err(Halt::problem(Problem::upgrade(
                "UpgradeFailed",
                format!("{refusal}. Nothing is stopped, and what runs goes on as it is: {MEND}"),
            ))),
            Err(reason) => Err(Halt::cannot(format!(
                "whether the API server takes the objects of the new cluster is not known: {reason}"
            ))),
        }
    }

    /// Refuses a ZooKeeper out of reach: the operator cannot remove what an earlier job has left there.
    pub(crate) fn refuse_metadata_out_of_reach(
        &self,
        spec: &FlinkDeploymentSpec,
        generation: i64,
    ) -> Result<(), Halt> {
        let config = self.deploy_config(spec, generation)?;
        if spec.job.is_none() || !is_zookeeper_high_availability_on(&config) {
            return Ok(());
        }
        let Some(reason) = zookeeper_out_of_reach(&config) else { return Ok(()) };
        let message = format!(
            "HA metadata is kept in a ZooKeeper that the operator cannot reach: {reason}. It could not \
             remove the graph of an earlier job there, which Flink would run beside the new one: \
             nothing is stopped or started. Set `{}: kubernetes`, or name a ZooKeeper that it can \
             reach",
            options::HA_TYPE.key()
        );
        Err(Halt::problem(Problem::upgrade("UpgradeFailed", message)))
    }

    /// Makes the objects that are missing beside a JobManager. After a crash nothing else is done before.
    /// Refused objects may never be accepted, so that they are tried again beside whatever else there is to
    /// do; the wanted spec is their remedy, by whose Services and TaskManagers the job can be saved.
    pub(crate) fn finish_cluster(&mut self, last: &ReconciledSpec, change: ChangeClass) -> Maybe {
        let was_refused = UNFINISHED_DEPLOYMENT.clear(&mut self.status.cluster_info);
        let is_changed = change != ChangeClass::Ignore;
        let is_mended = was_refused && is_changed && self.desired_state() == JobState::Running;
        let spec =
            if is_mended { self.spec.clone().into_owned() } else { self.deployed_spec(last) };
        let objects = self.render_deployed(&spec)?;
        // A start that is only found to be made left no record of it.
        self.put_on_record_how_it_was_started()?;
        self.steps.push(Step::Own(ClusterStep::FinishCluster(Box::new(objects))));
        Ok((!was_refused).then(|| self.finish("the JobManager was created already", Some(SOON))))
    }
}
