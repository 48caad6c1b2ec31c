//! High availability of what runs, as it was started rather than by the operator's current defaults. A new default
//! restarts nothing, so a cluster may run for long with less, or more, than a start would get.
//!
//! While there is a JobManager, the ConfigMap mounted by its pods is used, whoever created it. It is deleted with the
//! JobManager's Deployment; from then on the record of the start is used. If there is neither, nothing is assumed.

use std::collections::BTreeMap;

use crate::notes::STARTED_WITH;
use crate::pass::DeploymentPass;
use crate::problem::Halt;
use crate::transitions::stop::LOST;
use api::deployment::FlinkDeploymentSpec;
use config::FlinkConfig;
use config::cluster::{high_availability_of, is_high_availability_on, is_metadata_shared};

/// Why the options are not known.
pub(crate) const NOT_ON_RECORD: &str =
    "there is no JobManager, and the status does not say how it was started";

/// Message if only HA metadata leads to the job's state, and a start would not look for it.
const SWITCHED_OFF: &str = "the JobManager is gone, and the job's state is in HA metadata. A \
                            start would not look for it, because high availability is now off in \
                            the spec or in the operator's defaults. Set `high-availability.type` \
                            as it was; or find the job's newest checkpoint or savepoint, set \
                            `spec.job.initialSavepointPath` to it and \
                            `spec.job.savepointRedeployNonce` to a new number.";

/// Records what a cluster is started with.
pub(crate) fn note(info: &mut BTreeMap<String, String>, config: &FlinkConfig) {
    let config = high_availability_of(config);
    let own = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    STARTED_WITH.set(info, &config.iter().map(own).collect());
}

/// Returns the high availability options on record.
pub fn on_record(info: &BTreeMap<String, String>) -> Option<FlinkConfig> {
    Some(STARTED_WITH.get(info)?.into_iter().collect())
}

impl DeploymentPass<'_> {
    /// Returns the high availability options that the current or last cluster was started with, or why they are not
    /// known.
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

    /// Returns true if the current or last cluster has high availability; `None` if that is not known.
    pub(crate) fn is_started_with_high_availability(&self) -> Result<Option<bool>, Halt> {
        Ok(self.started_with()?.ok().as_ref().map(is_high_availability_on))
    }

    /// Returns true if what runs keeps its HA metadata where a cluster of `next` does not look for it.
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

    /// Returns the message for a job to whose state neither a JobManager nor any HA metadata that a start would look
    /// for leads.
    pub(crate) fn lost(&self) -> Result<&'static str, Halt> {
        let was_on = self.is_started_with_high_availability()? == Some(true);
        Ok(if was_on && !self.is_high_availability_on()? { SWITCHED_OFF } else { LOST })
    }

    /// Records what an earlier version of the operator, or another one, has started, before its JobManager is deleted
    /// and the ConfigMap with it.
    pub(crate) fn record_started_config(&mut self) -> Result<(), Halt> {
        if on_record(&self.status.cluster_info).is_none()
            && let Ok(config) = self.started_with()?
        {
            note(&mut self.status.cluster_info, &config);
        }
        Ok(())
    }
}
