//! Changing the parallelism of a running job without stopping it.
//!
//! Flink's adaptive scheduler accepts new bounds for each vertex while the job runs. If it cannot, or refuses, the
//! change is carried out by a normal upgrade.

use std::collections::BTreeMap;

use crate::diff::SpecDiff;
use crate::event::{Component, Event};
use crate::kind::{Kind, Maybe};
use crate::pass::Pass;
use crate::pauses::SOON;
use crate::plan::Step;
use crate::problem::Halt;
use crate::resource::StatusOfJob;
use crate::world::Bounds;
use api::reconciled::Reconciled;
use api::status::{JobStatusState, ReconciliationState};
use api::version::FlinkVersion;
use config::options;

/// Parallelism by vertex id.
type Overrides = BTreeMap<String, String>;

/// Returns the bounds that apply `after`; `None` if a running job cannot follow: for a removed override, there is no
/// previous number to return to.
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
        // Flink reports zero for a bound that was never set, but does not accept zero.
        let lower = bounds.lower.clamp(1, upper);
        Some((vertex.clone(), Bounds { lower, upper }))
    };
    current.iter().map(bounds).collect()
}

impl<K: Kind> Pass<'_, K> {
    /// Scales the running job in place; `None` if that is not possible.
    pub(crate) fn scale_in_place(
        &mut self,
        last: &Reconciled<K::Spec>,
        diff: &SpecDiff,
    ) -> Maybe<K> {
        if !self.may_scale_in_place()? {
            return Ok(None);
        }
        let before = self.overrides(&last.spec)?;
        let after = self.overrides(&self.spec)?;
        if before.is_empty() && after.is_empty() {
            return Ok(None);
        }
        let Ok(current) = self.world.resource_requirements()? else { return Ok(None) };
        let Some(wanted) = wanted_bounds(current, &before, &after) else { return Ok(None) };
        if *current != wanted {
            if K::scaled_to(self) == Some(self.generation) {
                return Ok(None);
            }
            let job_id = self.job_id()?;
            K::note_scaling(self, Some(self.generation));
            self.write_intent();
            self.announce(diff);
            self.emit(Event::normal("Scaling", Component::Job, "In-place scaling triggered"));
            self.steps.push(Step::ScaleJob { job_id, bounds: wanted });
        }
        K::note_scaling(self, None);
        self.store_running(self.last_mode(), last.is_first_deployment());
        Ok(Some(self.go_on("scaled in place", SOON)))
    }

    fn may_scale_in_place(&self) -> Result<bool, Halt> {
        let config = self.observe_config()?;
        let is_adaptive = config
            .text_of(&options::SCHEDULER)
            .is_some_and(|scheduler| scheduler.trim().eq_ignore_ascii_case("adaptive"));
        let has_job_to_scale = K::is_answering(self)
            && self.status.job().state.is_some_and(|state| {
                !state.is_globally_terminal()
                    && !matches!(state, JobStatusState::Reconciling | JobStatusState::Cancelling)
            });
        Ok(config.get(&options::JOB_UPGRADE_INPLACE_SCALING_ENABLED)?
            && is_adaptive
            && has_job_to_scale
            && K::has_elastic_slots(self)
            && self.status.reconciliation().state == ReconciliationState::Deployed
            && K::flink_version(self).is_some_and(|version| version >= FlinkVersion::V1_18))
    }

    /// Returns the overrides that result from a spec, including the operator's defaults.
    fn overrides(&self, spec: &K::Spec) -> Result<Overrides, Halt> {
        let config = K::submit_config(self, spec)?;
        Ok(config.find(&options::PARALLELISM_OVERRIDES)?.unwrap_or_default())
    }
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
