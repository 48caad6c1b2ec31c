//! Classes of changes of the template, and what each leads to.

use api::deployment::FlinkDeploymentSpec;
use api::job::{JobState, UpgradeMode};
use lifecycle::diff::{ChangeClass, diff};

/// The change from the spec on record to the desired one; the first class that applies.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Change {
    None,
    /// Does not affect the running job, or only whether it runs: applied to the child in place.
    InPlace,
    /// The other colour starts from the named state.
    Redeploy,
    /// The other colour starts from the state of the serving one.
    Transition,
}

/// Returns the class of a change. `initialSavepointPath` alone is not a change, because only a redeploy reads it.
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

/// Returns true if the change starts the job from the named state, whatever else it changes.
pub fn is_redeploy(from: &FlinkDeploymentSpec, to: &FlinkDeploymentSpec) -> bool {
    let nonce =
        |spec: &FlinkDeploymentSpec| spec.job.as_ref().and_then(|job| job.savepoint_redeploy_nonce);
    nonce(to).is_some() && nonce(from) != nonce(to)
}

/// Returns the state that such a change names.
pub fn named_state(from: &FlinkDeploymentSpec, to: &FlinkDeploymentSpec) -> Option<String> {
    let path = to.job.as_ref()?.initial_savepoint_path.as_ref()?;
    (is_redeploy(from, to) && !path.trim().is_empty()).then(|| path.clone())
}

/// Returns true if the job of the spec should be stopped.
pub fn is_suspended(spec: &FlinkDeploymentSpec) -> bool {
    spec.job.as_ref().is_some_and(|job| job.state == JobState::Suspended)
}

/// Returns true if the job of the spec keeps no state.
pub fn is_stateless(spec: &FlinkDeploymentSpec) -> bool {
    spec.job.as_ref().is_some_and(|job| job.upgrade_mode == UpgradeMode::Stateless)
}
