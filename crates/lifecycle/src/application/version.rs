//! Flink versions that are too old to be started, and not too old to be looked after.
//!
//! A cluster of such a version, left by an older operator, is observed, suspended, saved and
//! deleted like any other. Only its objects are not made any more.

use crate::pass::DeploymentPass;
use crate::problem::{Halt, Problem};
use api::deployment::FlinkDeploymentSpec;
use api::version::FlinkVersion;
use validation::Violation;

/// Reason of the event, as the Java operator has it.
pub(crate) const UNSUPPORTED_VERSION: &str = "UnsupportedFlinkVersion";

/// The version, where this operator starts no cluster of it.
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

/// An old version is no violation while it is the one that runs.
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
    /// Reason of the event about an invalid spec.
    pub(crate) fn violation_reason(&self, otherwise: &'static str) -> &'static str {
        if too_old(&self.world.resource.spec).is_some() { UNSUPPORTED_VERSION } else { otherwise }
    }
}
