//! Classes of changes of the template: what each of them leads to.

use api::deployment::FlinkDeploymentSpec;
use api::job::{JobState, UpgradeMode};
use lifecycle::diff::{ChangeClass, diff};

/// From the spec on record to the wanted one; the first that applies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    None,
    /// Something that concerns no running job, or whether it runs: done to the child in place.
    InPlace,
    /// The other colour starts from the state that is named.
    Redeploy,
    /// The other colour starts from the state of the one that serves.
    Transition,
}

/// `initialSavepointPath` alone is no change: only a redeploy reads it.
pub fn change(last: &FlinkDeploymentSpec, wanted: &FlinkDeploymentSpec) -> Change {
    let state = |spec: &FlinkDeploymentSpec| spec.job.as_ref().map(|job| job.state);
    let class = diff(last, wanted).class();
    match class {
        _ if state(last) != state(wanted) => Change::InPlace,
        ChangeClass::SavepointRedeploy => Change::Redeploy,
        ChangeClass::Upgrade | ChangeClass::Scale => Change::Transition,
        ChangeClass::Ignore if without_path(last) == without_path(wanted) => Change::None,
        ChangeClass::Ignore => Change::InPlace,
    }
}

fn without_path(spec: &FlinkDeploymentSpec) -> FlinkDeploymentSpec {
    let mut spec = spec.clone();
    if let Some(job) = &mut spec.job {
        job.initial_savepoint_path = None;
    }
    spec
}

/// The change starts the job from the state that is named, whatever else is changed with it.
pub fn is_redeploy(from: &FlinkDeploymentSpec, to: &FlinkDeploymentSpec) -> bool {
    let nonce =
        |spec: &FlinkDeploymentSpec| spec.job.as_ref().and_then(|job| job.savepoint_redeploy_nonce);
    nonce(to).is_some() && nonce(from) != nonce(to)
}

/// The state that such a change names.
pub fn named_state(from: &FlinkDeploymentSpec, to: &FlinkDeploymentSpec) -> Option<String> {
    let path = to.job.as_ref()?.initial_savepoint_path.as_ref()?;
    (is_redeploy(from, to) && !path.trim().is_empty()).then(|| path.clone())
}

/// The job of the spec is to be stopped.
pub fn is_suspended(spec: &FlinkDeploymentSpec) -> bool {
    spec.job.as_ref().is_some_and(|job| job.state == JobState::Suspended)
}

/// The job of the spec keeps no state.
pub fn is_stateless(spec: &FlinkDeploymentSpec) -> bool {
    spec.job.as_ref().is_some_and(|job| job.upgrade_mode == UpgradeMode::Stateless)
}
