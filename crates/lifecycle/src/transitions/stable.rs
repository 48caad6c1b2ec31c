//! Decides when a running job is stable.
//!
//! By default, it is enough that it was seen running once, as in the Java operator. Users may require more: to run for
//! a while, to complete checkpoints, not to restart. A rollback restores the last stable spec.

use std::time::Duration;

use jiff::Timestamp;

use crate::kind::Kind;
use crate::pass::Pass;
use crate::problem::Halt;
use crate::world::JobMetrics;
use api::status::JobStatusState;
use config::option::InvalidValue;
use config::{FlinkConfig, options};

/// How often to check while only the job's own metrics are missing.
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

    /// Returns true if the job's own metrics are needed.
    pub fn need_metrics(&self) -> bool {
        self.checkpoints > 0 || self.restarts_max.is_some()
    }
}

/// Whether a running job is stable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Stability {
    Stable,
    /// Not yet, for this reason; check again after `look_again`.
    Unproven {
        because: String,
        look_again: Duration,
    },
}

/// Evaluates a job that has run without interruption since `running_since`. Unknown metrics prove nothing.
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
    /// Marks the deployed spec as stable once the job has proven it.
    pub(crate) fn mark_if_stable(&mut self, state: JobStatusState) -> Result<(), Halt> {
        if self.is_stable() {
            return Ok(());
        }
        let rules = StableRules::of(&*self.observe_config()?)?;
        // Nothing more can be required of a finished job.
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
