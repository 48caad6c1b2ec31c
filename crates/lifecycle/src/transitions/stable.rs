//! When a running job counts as stable.
//!
//! By default it is enough that it was seen running once, as with the Java operator. A user may ask
//! for more: to run for a while, to complete checkpoints, not to restart. What is stable is what a
//! rollback goes back to.

use std::time::Duration;

use jiff::Timestamp;

use crate::kind::Kind;
use crate::pass::Pass;
use crate::problem::Halt;
use crate::world::JobMetrics;
use api::status::JobStatusState;
use config::option::InvalidValue;
use config::{FlinkConfig, options};

/// How often to look while only the job's own figures are missing.
const FIGURES_INTERVAL: Duration = Duration::from_secs(10);

/// Conditions that the user sets for a job to be stable.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct StableRules {
    /// `kubernetes.operator.deployment.stable.running-for`.
    pub running_for: Duration,
    /// `kubernetes.operator.deployment.stable.checkpoints`.
    pub checkpoints: u32,
    /// `kubernetes.operator.deployment.stable.restarts.max`.
    pub restarts_max: Option<u32>,
}

impl StableRules {
    /// # Errors
    /// When a value is not of its option's type.
    pub fn of(config: &FlinkConfig) -> Result<Self, InvalidValue> {
        Ok(Self {
            running_for: config.get(&options::DEPLOYMENT_STABLE_RUNNING_FOR)?,
            checkpoints: config.get(&options::DEPLOYMENT_STABLE_CHECKPOINTS)?,
            restarts_max: config.find(&options::DEPLOYMENT_STABLE_RESTARTS_MAX)?,
        })
    }

    /// True if the job's own figures matter.
    pub fn need_metrics(&self) -> bool {
        self.checkpoints > 0 || self.restarts_max.is_some()
    }
}

/// Verdict on whether a running job is stable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Stability {
    Stable,
    /// Not yet, for this reason; worth another look after `look_again`.
    Unproven {
        because: String,
        look_again: Duration,
    },
}

/// Judges a job that has run without a break since `running_since`. Figures that are not known
/// prove nothing.
pub fn judge(
    rules: &StableRules,
    now: Timestamp,
    running_since: Timestamp,
    metrics: &JobMetrics,
) -> Stability {
    let ran = Duration::try_from(now.duration_since(running_since)).unwrap_or_default();
    if ran < rules.running_for {
        return Stability::Unproven {
            because: format!("it must run for {:?} first", rules.running_for),
            look_again: rules.running_for.saturating_sub(ran),
        };
    }
    let unproven = |because: String| Stability::Unproven { because, look_again: FIGURES_INTERVAL };
    let completed = metrics.completed_checkpoints.unwrap_or(0);
    if completed < i64::from(rules.checkpoints) {
        return unproven(format!(
            "only {completed} of {} checkpoints have completed",
            rules.checkpoints
        ));
    }
    match (rules.restarts_max, metrics.restarts) {
        (Some(_), None) => unproven("its number of restarts is unknown".to_owned()),
        (Some(max), Some(restarts)) if restarts > i64::from(max) => {
            unproven(format!("it restarted {restarts} times, more than {max}"))
        }
        (Some(_) | None, Some(_)) | (None, None) => Stability::Stable,
    }
}

impl<K: Kind> Pass<'_, K> {
    /// Marks the deployed spec as stable when the job has proven it.
    pub(crate) fn mark_if_stable(&mut self, state: JobStatusState) -> Result<(), Halt> {
        if self.is_stable() {
            return Ok(());
        }
        let rules = StableRules::of(&*self.observe_config()?)?;
        // A finished job has done all that can be asked of it.
        if state == JobStatusState::Finished || rules == StableRules::default() {
            self.mark_stable();
            return Ok(());
        }
        let metrics = if rules.need_metrics() {
            self.world.job_metrics()?.cloned().unwrap_or_default()
        } else {
            JobMetrics::default()
        };
        match judge(&rules, self.world.now, self.job_state_since(), &metrics) {
            Stability::Stable => self.mark_stable(),
            Stability::Unproven { because, look_again } => {
                self.unproven = Some(because);
                self.wake_within(look_again);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
