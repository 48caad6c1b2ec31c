//! Refuses to stop anything for objects of a cluster that cannot be created. Objects that were refused while their
//! JobManager already runs are created later, and do not delay an edit.

use crate::diff::ChangeClass;
use crate::kind::Maybe;
use crate::notes::UNFINISHED_DEPLOYMENT;
use crate::pass::DeploymentPass;
use crate::pauses::SOON;
use crate::plan::{ClusterStep, Step};
use crate::problem::{Halt, Problem};
use crate::world::OperatorFile;
use api::deployment::FlinkDeploymentSpec;
use api::job::JobState;
use api::reconciled::ReconciledSpec;
use config::cluster::{
    is_metadata_shared, is_zookeeper_high_availability_on, zookeeper_out_of_reach,
};
use config::option::Preflight as Level;
use config::{FlinkConfig, options};
use render::Objects;
use render::kerberos::is_in;
use state::restore_point::RestorePoint;

/// What to do if the API server refuses an object.
const MEND: &str =
    "change the spec, or what rejects it (a quota, a policy, an existing object of this name)";

impl DeploymentPass<'_> {
    /// Refuses to stop a running job for a spec whose objects cannot be rendered.
    pub(crate) fn refuse_unrenderable_spec(&self) -> Result<(), Halt> {
        if self.desired_state() == JobState::Running {
            self.refuse_metadata_out_of_reach(&self.spec, self.generation)?;
            self.refuse_nodes_out_of_reach()?;
            let objects = self.render(&self.spec, self.generation, &RestorePoint::Empty, "")?;
            self.refuse_missing_files(&self.spec, self.generation, &objects)?;
        }
        Ok(())
    }

    /// Refuses to stop a running job for objects that the API server would refuse. This is checked last, because each
    /// object costs a request.
    pub(crate) fn refuse_rejected_objects(&self) -> Result<(), Halt> {
        if self.desired_state() != JobState::Running || self.preflight_level()? == Level::None {
            return Ok(());
        }
        let job_id = &self.world.fresh.job_id;
        let objects = self.render(&self.spec, self.generation, &RestorePoint::Empty, job_id)?;
        match self.world.refusal(objects)? {
            Ok(None) => Ok(()),
            Ok(Some(refusal)) => Err(Halt::problem(Problem::upgrade(
                "UpgradeFailed",
                format!("{refusal}. Nothing is stopped: {MEND}"),
            ))),
            Err(reason) => Err(Halt::cannot(format!(
                "could not determine whether the API server accepts the objects of the new \
                 cluster: {reason}"
            ))),
        }
    }

    /// Refuses a ZooKeeper out of reach: the operator cannot remove what an earlier job left there.
    pub(crate) fn refuse_metadata_out_of_reach(
        &self,
        spec: &FlinkDeploymentSpec,
        generation: i64,
    ) -> Result<(), Halt> {
        let config = self.deploy_config(spec, generation)?;
        if spec.job.is_none() || !is_zookeeper_high_availability_on(&config) {
            return Ok(());
        }
        let Some(reason) = self.zookeeper_out_of_reach(&config) else { return Ok(()) };
        let message = format!(
            "HA metadata is kept in a ZooKeeper that the operator cannot reach: {reason}. The \
             operator could not remove the graph of an earlier job there, and Flink would run \
             that job next to the new one. Nothing is stopped or started. Set `{}: kubernetes`, \
             or name a ZooKeeper that the operator can reach",
            options::HA_TYPE.key()
        );
        Err(Halt::problem(Problem::upgrade("UpgradeFailed", message)))
    }

    /// Returns why the operator cannot, or may not, reach the ZooKeeper of a cluster with this configuration.
    pub(crate) fn zookeeper_out_of_reach(&self, config: &FlinkConfig) -> Option<String> {
        let version = self.spec.flink_version;
        let operator = self.world.operator.defaults(self.world.namespace(), version);
        zookeeper_out_of_reach(config, &operator)
    }

    /// Refuses to stop what runs if the operator can reach its ZooKeeper only with the options of the next cluster: the
    /// existing nodes were created without the password, and stay closed to the operator.
    fn refuse_nodes_out_of_reach(&self) -> Result<(), Halt> {
        let next = self.deploy_config(&self.spec, self.generation)?;
        if self.spec.job.is_none() || !is_zookeeper_high_availability_on(&next) {
            return Ok(());
        }
        let Ok(config) = self.started_with()? else { return Ok(()) };
        if !is_metadata_shared(&config, &next) {
            return Ok(());
        }
        let Some(reason) = self.zookeeper_out_of_reach(&config) else { return Ok(()) };
        let message = format!(
            "HA metadata of the running cluster is in a ZooKeeper that the operator cannot \
             reach: {reason}. The operator could not remove the old job graph there, and Flink \
             would run the old job next to the new one. Nothing is stopped. Give the next \
             cluster another `{}`, with `spec.job.upgradeMode: savepoint`",
            options::ZOOKEEPER_ROOT.key()
        );
        Err(Halt::problem(Problem::upgrade("UpgradeFailed", message)))
    }

    /// Refuses to start or stop anything for files that the operator does not have, or that whoever edits the resource
    /// may not use.
    pub(crate) fn refuse_missing_files(
        &self,
        spec: &FlinkDeploymentSpec,
        generation: i64,
        objects: &Objects,
    ) -> Result<(), Halt> {
        let paths = objects.file_objects.iter().flat_map(|object| object.files.values());
        let defaults = self.world.operator.defaults(self.world.namespace(), spec.flink_version);
        let allowed = self.world.operator.base.get(&options::KERBEROS_DIRECTORIES)?;
        let config = self.deploy_config(spec, generation)?;
        let named = [&options::KERBEROS_KEYTAB, &options::KERBEROS_KRB5_CONF];
        for (path, file) in self.world.files(paths)? {
            let is_of_spec = named.iter().any(|option| {
                let of = |config: &FlinkConfig| config.text_of(option).map(str::trim) == Some(path);
                of(&config) && !of(&defaults)
            });
            let problem = match file {
                OperatorFile::Elsewhere => continue,
                _ if is_of_spec && !is_in(path, &allowed) => format!(
                    "is not below a directory that `{}` in the operator's configuration allows \
                     ({}). Put the keytab into a Secret in the namespace and name it in `{}`, \
                     put the krb5.conf into a ConfigMap and name it in `{}`, or allow the \
                     directory",
                    options::KERBEROS_DIRECTORIES.key(),
                    if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") },
                    options::KERBEROS_KEYTAB_SECRET.key(),
                    options::KERBEROS_KRB5_CONF_CONFIG_MAP.key(),
                ),
                OperatorFile::Readable => continue,
                OperatorFile::Unusable(reason) => format!(
                    "cannot be read in the operator's pod: {reason}. Mount it there, or name a \
                     Secret and a ConfigMap in `{}` and `{}`",
                    options::KERBEROS_KEYTAB_SECRET.key(),
                    options::KERBEROS_KRB5_CONF_CONFIG_MAP.key(),
                ),
            };
            let message = format!("the file `{path}` {problem}. Nothing is stopped or started");
            return Err(Halt::problem(Problem::upgrade("UpgradeFailed", message)));
        }
        Ok(())
    }

    /// Creates the objects that are missing next to a JobManager. After a crash, nothing else is done before. Refused
    /// objects may never be accepted, so they are tried again along with everything else; the desired spec may fix
    /// them, and the job may need its Services and TaskManagers to be saved.
    pub(crate) fn finish_cluster(&mut self, last: &ReconciledSpec, change: ChangeClass) -> Maybe {
        let was_refused = UNFINISHED_DEPLOYMENT.clear(&mut self.status.cluster_info);
        let is_changed = change != ChangeClass::Ignore;
        let is_mended = was_refused && is_changed && self.desired_state() == JobState::Running;
        let spec =
            if is_mended { self.spec.clone().into_owned() } else { self.deployed_spec(last) };
        let objects = self.render_deployed(&spec)?;
        // A start that is only now found to have happened left no record of it.
        self.record_started_config()?;
        self.steps.push(Step::Own(ClusterStep::FinishCluster(Box::new(objects))));
        Ok((!was_refused).then(|| self.go_on("the JobManager was already created", SOON)))
    }
}
