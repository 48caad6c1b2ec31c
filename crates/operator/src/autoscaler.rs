//! The autoscaler of the jobs: measures and decides beside the passes, and puts the decisions in force into the specs
//! that the passes act on.
//!
//! A decision applies once it is stored: a pass takes the one in force from [`books`], which hold nothing that the
//! ConfigMap does not. [`in_force`] reads it, and clears it if the autoscaler was turned off; [`drive`] starts the
//! cycles, each in a task that no pass waits for.

mod books;
mod capacity;
mod drive;
mod in_force;
mod report;

use api::deployment::{FlinkConfiguration, FlinkDeployment, FlinkDeploymentSpec};
use api::job::JobSpec;
use api::reconciled::{StoredSpec, running_spec};
use api::session_job::{FlinkSessionJob, FlinkSessionJobSpec};
use autoscaler::eligibility::Candidate;
use config::cluster::{ResourceId, deploy_config};
use config::session_job::{JobSpecs, job_config};
use config::{FlinkConfig, OperatorConfig};
use lifecycle::paused;
use lifecycle::resource::StatusOfJob as _;
use validation::session_job::{SessionCluster, SessionJobInput, validate as validate_session_job};
use validation::{ValidationInput, validate};

use super::reconcile::OperatedJob;

pub(super) use books::Autoscalers;
pub(super) use drive::follow;
pub(super) use in_force::{tidy, wanted};

/// The session cluster of a job, if it has one.
pub(super) type Cluster<'a> = Option<&'a FlinkDeployment>;

/// A kind whose jobs are scaled.
pub(super) trait Scaled: OperatedJob {
    fn configuration(spec: &Self::Spec) -> &FlinkConfiguration;

    fn configuration_mut(spec: &mut Self::Spec) -> &mut FlinkConfiguration;

    /// Returns the spec of an application, which has its own TaskManagers.
    fn application(spec: &mut Self::Spec) -> Option<&mut FlinkDeploymentSpec>;

    /// Returns the user's spec with all defaults, or the reason that it is unknown.
    fn effective(
        &self,
        cluster: Cluster<'_>,
        operator: &OperatorConfig,
    ) -> Result<FlinkConfig, String>;

    /// Returns `true` if the user's spec breaks no rule, so that it will come into force after `last`.
    fn is_sound(&self, last: &Self::Spec, cluster: Cluster<'_>, operator: &OperatorConfig) -> bool;
}

impl Scaled for FlinkDeployment {
    fn configuration(spec: &FlinkDeploymentSpec) -> &FlinkConfiguration {
        &spec.flink_configuration
    }

    fn configuration_mut(spec: &mut FlinkDeploymentSpec) -> &mut FlinkConfiguration {
        &mut spec.flink_configuration
    }

    fn application(spec: &mut FlinkDeploymentSpec) -> Option<&mut FlinkDeploymentSpec> {
        Some(spec)
    }

    fn effective(
        &self,
        _cluster: Cluster<'_>,
        operator: &OperatorConfig,
    ) -> Result<FlinkConfig, String> {
        let mode = self.spec.job.as_ref().map(|job: &JobSpec| job.upgrade_mode);
        let generation = self.metadata.generation.unwrap_or_default();
        deploy_config(operator, &id(self), &self.spec, mode, generation)
            .map_err(|error| error.to_string())
    }

    fn is_sound(
        &self,
        last: &FlinkDeploymentSpec,
        _cluster: Cluster<'_>,
        operator: &OperatorConfig,
    ) -> bool {
        let input = ValidationInput {
            name: self.metadata.name.as_deref().unwrap_or_default(),
            namespace: self.metadata.namespace.as_deref().unwrap_or("default"),
            spec: &self.spec,
            last_reconciled: Some(last),
            operator,
        };
        validate(&input).is_empty()
    }
}

impl Scaled for FlinkSessionJob {
    fn configuration(spec: &FlinkSessionJobSpec) -> &FlinkConfiguration {
        &spec.flink_configuration
    }

    fn configuration_mut(spec: &mut FlinkSessionJobSpec) -> &mut FlinkConfiguration {
        &mut spec.flink_configuration
    }

    fn application(_spec: &mut FlinkSessionJobSpec) -> Option<&mut FlinkDeploymentSpec> {
        None
    }

    fn effective(
        &self,
        cluster: Cluster<'_>,
        operator: &OperatorConfig,
    ) -> Result<FlinkConfig, String> {
        let cluster = cluster.ok_or("the session cluster does not exist")?;
        let deployed = running_spec(cluster).map_err(|error| error.to_string())?;
        job_config(&JobSpecs {
            operator,
            cluster: &id(cluster),
            deployed_cluster: &deployed,
            current_cluster: &cluster.spec,
            name: self.metadata.name.as_deref().unwrap_or_default(),
            deployed: &self.spec,
            current: &self.spec,
        })
        .map_err(|error| error.to_string())
    }

    fn is_sound(
        &self,
        last: &FlinkSessionJobSpec,
        cluster: Cluster<'_>,
        operator: &OperatorConfig,
    ) -> bool {
        let cluster = cluster.map(SessionCluster::of);
        let input = SessionJobInput {
            namespace: self.metadata.namespace.as_deref().unwrap_or("default"),
            spec: &self.spec,
            last_reconciled: Some(last),
            cluster,
            operator,
            // The host of the jar decides nothing here.
            host: None,
        };
        validate_session_job(&input).is_empty()
    }
}

/// Gathers the facts that decide whether a job is eligible.
fn candidate<'a, K: Scaled>(resource: &'a K, status: &'a K::Status) -> Candidate<'a> {
    Candidate {
        job: resource.spec().job(),
        status: status.job(),
        reconciliation: status.reconciliation(),
        lifecycle: status.lifecycle_state(),
        observed_generation: status.observed_generation(),
        generation: resource.meta().generation.unwrap_or_default(),
        is_deleting: resource.meta().deletion_timestamp.is_some(),
        is_paused: paused::is_paused(resource, status),
    }
}

fn id(of: &FlinkDeployment) -> ResourceId {
    ResourceId {
        namespace: of.metadata.namespace.clone().unwrap_or_default(),
        name: of.metadata.name.clone().unwrap_or_default(),
        uid: of.metadata.uid.clone().unwrap_or_default(),
    }
}
