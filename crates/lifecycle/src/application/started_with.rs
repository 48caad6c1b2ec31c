//! High availability of what runs: as it was started, and not as the operator's defaults have it now. A new
//! default restarts nothing, so that a cluster may run for long with less, or more, than a start would get.
//!
//! While there is a JobManager the ConfigMap tells that its pods mount, whoever made it. That one goes with the
//! JobManager's Deployment; then what is on record of the start does. Where neither does, nothing is assumed.

use std::collections::BTreeMap;

use crate::notes::STARTED_WITH;
use crate::pass::DeploymentPass;
use crate::problem::Halt;
use crate::transitions::stop::LOST;
use api::deployment::FlinkDeploymentSpec;
use config::FlinkConfig;
use config::cluster::{high_availability_of, is_high_availability_on, is_metadata_shared};

/// Why they are not known.
pub(crate) const NOT_ON_RECORD: &str =
    "there is no JobManager, and the status does not say how it was started";

/// Message when only HA metadata lead to the job's state, and a start would not look for them.
const SWITCHED_OFF: &str = "the JobManager is gone, and the job's state is in HA metadata. A \
                            start would not look for it, because high availability is now off in \
                            the spec or in the operator's defaults. Set `high-availability.type` \
                            as it was; or find the job's newest checkpoint or savepoint, set \
                            `spec.job.initialSavepointPath` to it and \
                            `spec.job.savepointRedeployNonce` to a new number.";

/// Puts on record what a cluster is started with.
pub(crate) fn note(info: &mut BTreeMap<String, String>, config: &FlinkConfig) {
    let config = high_availability_of(config);
    let own = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    STARTED_WITH.set(info, &config.iter().map(own).collect());
}

/// The options of high availability that are on record.
pub fn on_record(info: &BTreeMap<String, String>) -> Option<FlinkConfig> {
    Some(STARTED_WITH.get(info)?.into_iter().collect())
}

impl DeploymentPass<'_> {
    /// The options of high availability that what runs was started with, or what ran last; or why they
    /// are not known.
    pub(crate) fn started_with(&self) -> Result<Result<FlinkConfig, String>, Halt> {
        let reason = if self.read_job_manager()?.is_none() {
            NOT_ON_RECORD
        } else {
            match self.world.deployed_config()? {
                Ok(config) => return Ok(Ok(config.clone())),
                Err(reason) => reason,
            }
        };
        Ok(on_record(&self.status.cluster_info).ok_or_else(|| reason.to_owned()))
    }

    /// True if the cluster that runs, or ran last, has high availability; nothing where that is not known.
    pub(crate) fn is_started_with_high_availability(&self) -> Result<Option<bool>, Halt> {
        Ok(self.started_with()?.ok().as_ref().map(is_high_availability_on))
    }

    /// True if what runs keeps its HA metadata where a cluster of `next` does not look for them.
    pub(crate) fn keeps_metadata_elsewhere(
        &self,
        next: &FlinkDeploymentSpec,
    ) -> Result<bool, Halt> {
        let next = self.deploy_config(next, self.generation)?;
        if !is_high_availability_on(&next) {
            return Ok(false);
        }
        Ok(self.started_with()?.is_ok_and(|config| {
            is_high_availability_on(&config) && !is_metadata_shared(&config, &next)
        }))
    }

    /// What a person is told where no JobManager, and no HA metadata that a start would look for, lead to
    /// the job's state.
    pub(crate) fn lost(&self) -> Result<&'static str, Halt> {
        let was_on = self.is_started_with_high_availability()? == Some(true);
        Ok(if was_on && !self.is_high_availability_on()? { SWITCHED_OFF } else { LOST })
    }

    /// Before its JobManager goes, and the ConfigMap with it: what an earlier version of the operator, or
    /// another one, has started.
    pub(crate) fn put_on_record_how_it_was_started(&mut self) -> Result<(), Halt> {
        if on_record(&self.status.cluster_info).is_none()
            && let Ok(config) = self.started_with()?
        {
            note(&mut self.status.cluster_info, &config);
        }
        Ok(())
    }
}
