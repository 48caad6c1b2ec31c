//! Changing the parallelism of a running job without stopping it.
//!
//! Flink's adaptive scheduler takes new bounds for each vertex while the job runs. Where it cannot,
//! or refuses, the change is brought about by an upgrade like any other.

use std::collections::BTreeMap;

use super::application::{Halt, Pass};
use super::observe::SOON;
use super::plan::{Component, Event, Plan, Step};
use super::reconciled::ReconciledSpec;
use super::world::Bounds;
use crate::api::deployment::{DeploymentMode, FlinkDeploymentSpec};
use crate::api::job::JobState;
use crate::api::status::{JobManagerDeploymentStatus, JobStatusState, ReconciliationState};
use crate::api::version::FlinkVersion;
use crate::config::options;

/// Key in `status.clusterInfo`: the generation that Flink was asked to scale to. A second try would
/// meet the same refusal.
pub const SCALING_KEY: &str = "InPlaceScaling";

/// Parallelism by vertex id.
type Overrides = BTreeMap<String, String>;

/// The bounds that bring `after` about, or nothing where a running job cannot follow: an override
/// that was taken away leaves no number to go back to.
pub fn wanted_bounds(
    current: &BTreeMap<String, Bounds>,
    before: &Overrides,
    after: &Overrides,
) -> Option<BTreeMap<String, Bounds>> {
    if before.keys().any(|vertex| !after.contains_key(vertex)) {
        return None;
    }
    let bounds = |(vertex, bounds): (&String, &Bounds)| {
        let Some(text) = after.get(vertex) else { return Some((vertex.clone(), *bounds)) };
        let upper: u32 = text.trim().parse().ok().filter(|upper| *upper > 0)?;
        // Flink tells zero for a bound that was never set, and takes no zero.
        let lower = bounds.lower.clamp(1, upper);
        Some((vertex.clone(), Bounds { lower, upper }))
    };
    current.iter().map(bounds).collect()
}

impl Pass<'_> {
    /// Scales the running job in place; nothing where that cannot be done.
    pub(super) fn scale_in_place(&mut self, last: &ReconciledSpec) -> Result<Option<Plan>, Halt> {
        if !self.may_scale_in_place(last)? {
            return Ok(None);
        }
        let before = overrides(self, &last.spec)?;
        let after = overrides(self, &self.spec)?;
        if before.is_empty() && after.is_empty() {
            return Ok(None);
        }
        let Ok(current) = self.world.resource_requirements()? else { return Ok(None) };
        let Some(wanted) = wanted_bounds(current, &before, &after) else { return Ok(None) };
        let generation = self.generation.to_string();
        if *current != wanted {
            if self.status.cluster_info.get(SCALING_KEY) == Some(&generation) {
                return Ok(None);
            }
            let job_id = self.job_id()?;
            self.status.cluster_info.insert(SCALING_KEY.to_owned(), generation);
            self.write_intent();
            self.steps.push(Step::Event(Event::normal(
                "Scaling",
                Component::Job,
                "In-place scaling triggered",
            )));
            self.steps.push(Step::ScaleJob { job_id, bounds: wanted });
        }
        self.status.cluster_info.remove(SCALING_KEY);
        let last = self.stored(JobState::Running, self.last_mode(), last.is_first_deployment());
        self.store_deployed(last, ReconciliationState::Deployed);
        self.status.task_manager = self.task_manager_info();
        Ok(Some(self.finish("scaled in place", Some(SOON))))
    }

    fn may_scale_in_place(&self, last: &ReconciledSpec) -> Result<bool, Halt> {
        let config = self.observe_config()?;
        let is_adaptive = config
            .text_of(&options::SCHEDULER)
            .is_some_and(|scheduler| scheduler.trim().eq_ignore_ascii_case("adaptive"));
        let has_job_to_scale = self.status.job_manager_deployment_status
            == JobManagerDeploymentStatus::Ready
            && self.status.job_status.state.is_some_and(|state| {
                !state.is_globally_terminal()
                    && !matches!(state, JobStatusState::Reconciling | JobStatusState::Cancelling)
            });
        Ok(config.get(&options::JOB_UPGRADE_INPLACE_SCALING_ENABLED)?
            && is_adaptive
            && has_job_to_scale
            && self.spec.mode.unwrap_or_default() == DeploymentMode::Native
            && self.status.reconciliation_status.state == ReconciliationState::Deployed
            && last.spec.flink_version.is_some_and(|version| version >= FlinkVersion::V1_18))
    }
}

/// The overrides that a spec leads to, the operator's defaults included.
fn overrides(pass: &Pass<'_>, spec: &FlinkDeploymentSpec) -> Result<Overrides, Halt> {
    let config = pass.deploy_config(spec, pass.generation)?;
    Ok(config.find(&options::PARALLELISM_OVERRIDES)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(pairs: &[(&str, &str)]) -> Overrides {
        pairs.iter().map(|(vertex, text)| ((*vertex).to_owned(), (*text).to_owned())).collect()
    }

    fn bounds(pairs: &[(&str, u32, u32)]) -> BTreeMap<String, Bounds> {
        pairs
            .iter()
            .map(|(vertex, lower, upper)| {
                ((*vertex).to_owned(), Bounds { lower: *lower, upper: *upper })
            })
            .collect()
    }

    #[test]
    fn section_14_bounds_follow_the_overrides() {
        let current = bounds(&[("a", 1, 1), ("b", 2, 2), ("c", 0, 3)]);
        let wanted = wanted_bounds(
            &current,
            &overrides(&[("a", "1")]),
            &overrides(&[("a", "4"), ("b", "1"), ("c", "3"), ("unknown", "9")]),
        );
        assert_eq!(wanted, Some(bounds(&[("a", 1, 4), ("b", 1, 1), ("c", 1, 3)])));
    }

    #[test]
    fn section_14_a_removed_override_needs_an_upgrade() {
        let current = bounds(&[("a", 1, 4)]);
        assert_eq!(wanted_bounds(&current, &overrides(&[("a", "4")]), &overrides(&[])), None);
    }

    #[test]
    fn what_is_no_parallelism_is_left_to_an_upgrade() {
        let current = bounds(&[("a", 1, 4)]);
        for text in ["0", "-1", "many"] {
            let after = overrides(&[("a", text)]);
            assert_eq!(wanted_bounds(&current, &overrides(&[]), &after), None, "{text}");
        }
    }
}
