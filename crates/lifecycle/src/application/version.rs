//! Flink versions that are too old to start, but not too old to maintain.
//!
//! A cluster of such a version, left by an older operator, is observed, suspended, saved and deleted like any other.
//! Only its objects are no longer created.

use crate::pass::DeploymentPass;
use crate::problem::{Halt, Problem};
use api::deployment::FlinkDeploymentSpec;
use api::version::FlinkVersion;
use validation::Violation;

/// Reason of the event, as in the Java operator.
pub(crate) const UNSUPPORTED_VERSION: &str = "UnsupportedFlinkVersion";

/// Returns the version if this operator no longer starts clusters of it.
fn too_old(spec: &FlinkDeploymentSpec) -> Option<FlinkVersion> {
    spec.flink_version.filter(|version| !version.is_supported())
}

/// Refuses to start a cluster of a version that is too old.
pub(crate) fn refuse_old_version(spec: &FlinkDeploymentSpec) -> Result<(), Halt> {
    let Some(version) = too_old(spec) else { return Ok(()) };
    let message = format!(
        "Flink version {version} is not supported by this operator version: the cluster can be \
         suspended, saved and deleted, but not started. Set spec.flinkVersion to v1_15 or newer, \
         and spec.image to a matching image"
    );
    Err(Halt::problem(Problem { reason: UNSUPPORTED_VERSION, ..Problem::of_resource(message) }))
}

/// Allows an old version while it is the one that runs.
pub fn allow_running_version(
    spec: &FlinkDeploymentSpec,
    last: Option<&FlinkDeploymentSpec>,
    violations: &mut Vec<Violation>,
) {
    if too_old(spec).is_some() && last.is_some_and(|last| last.flink_version == spec.flink_version)
    {
        violations.retain(|violation| violation.path != "spec.flinkVersion");
    }
}

impl DeploymentPass<'_> {
    /// Returns the reason of the event about an invalid spec.
    pub(crate) fn violation_reason(&self, otherwise: &'static str) -> &'static str {
        if too_old(&self.world.resource.spec).is_some() { UNSUPPORTED_VERSION } else { otherwise }
    }
}
