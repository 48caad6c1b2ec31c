//! Health of a running job, by its restarts and checkpoints over time.
//!
//! Earlier observations are in `status.clusterInfo.ClusterHealthInfo`, in the Java operator's format. A figure lower
//! than before comes from a new JobManager, and the count starts over.

use std::time::Duration;

use super::notes::{HealthInfo, HealthResult};
use super::world::JobMetrics;
use config::option::InvalidValue;
use config::{FlinkConfig, options};

/// Rules for a job to be considered healthy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HealthRules {
    pub restarts_window: Duration,
    /// Maximum number of restarts within a window.
    pub restarts_threshold: i32,
    /// Time within which a checkpoint has to complete; `None` if this is not checked.
    pub checkpoint_window: Option<Duration>,
}

impl HealthRules {
    /// # Errors
    /// When a value is not of its option's type.
    pub fn of(config: &FlinkConfig) -> Result<Self, InvalidValue> {
        Ok(Self {
            restarts_window: config.get(&options::CLUSTER_HEALTH_CHECK_RESTARTS_WINDOW)?,
            restarts_threshold: config.get(&options::CLUSTER_HEALTH_CHECK_RESTARTS_THRESHOLD)?,
            checkpoint_window: checkpoint_window(config)?,
        })
    }
}

/// Returns the window, which is at least as long as the tolerable number of failed checkpoints can take. Within a
/// smaller one, every job would be unhealthy.
fn checkpoint_window(config: &FlinkConfig) -> Result<Option<Duration>, InvalidValue> {
    let is_asked = config.get(&options::CLUSTER_HEALTH_CHECK_CHECKPOINT_PROGRESS_ENABLED)?;
    let interval = config.find(&options::CHECKPOINTING_INTERVAL)?;
    let (true, Some(interval)) = (is_asked, interval) else { return Ok(None) };
    let timeout: Duration = config.get(&options::CHECKPOINTING_TIMEOUT)?;
    let tolerable = config.get(&options::TOLERABLE_FAILED_CHECKPOINTS)?.max(0);
    let rounds = u32::try_from(tolerable).unwrap_or(0).saturating_add(2);
    let least = interval.max(timeout).saturating_mul(rounds);
    let stated = config.find(&options::CLUSTER_HEALTH_CHECK_CHECKPOINT_PROGRESS_WINDOW)?;
    Ok(Some(stated.map_or(least, |stated: Duration| stated.max(least))))
}

/// Evaluates what is observed at `now`, in milliseconds since the epoch, against earlier observations. Draws no
/// conclusion without the number of restarts.
pub fn evaluate(
    before: Option<&HealthInfo>,
    metrics: &JobMetrics,
    rules: &HealthRules,
    now: i64,
) -> Option<HealthInfo> {
    let restarts = metrics.restarts?;
    let completed = metrics.completed_checkpoints.unwrap_or(0);
    let Some(before) = before.filter(|before| before.time_stamp != 0 && before.time_stamp <= now)
    else {
        return Some(HealthInfo {
            time_stamp: now,
            num_restarts: restarts,
            num_restarts_evaluation_time_stamp: now,
            num_completed_checkpoints: completed,
            num_completed_checkpoints_increased_time_stamp: now,
            health_result: HealthResult::default(),
        });
    };
    let mut info = HealthInfo { time_stamp: now, ..before.clone() };
    let errors: Vec<String> = [
        judge_restarts(&mut info, restarts, rules, now),
        judge_checkpoints(&mut info, completed, rules, now),
    ]
    .into_iter()
    .flatten()
    .collect();
    info.health_result = HealthResult {
        healthy: errors.is_empty(),
        error: (!errors.is_empty()).then(|| errors.join("|")),
    };
    Some(info)
}

fn judge_restarts(
    info: &mut HealthInfo,
    restarts: i64,
    rules: &HealthRules,
    now: i64,
) -> Option<String> {
    let window = millis(rules.restarts_window);
    let elapsed = now.saturating_sub(info.num_restarts_evaluation_time_stamp);
    let more = restarts.saturating_sub(info.num_restarts);
    // If more time than the window has passed, only the window's share of the restarts is used.
    let in_window =
        if elapsed > window { more.saturating_mul(window) / elapsed.max(1) } else { more };
    let is_over = in_window > i64::from(rules.restarts_threshold);
    if more < 0 || elapsed > window || is_over {
        info.num_restarts = restarts;
        info.num_restarts_evaluation_time_stamp = now;
    }
    is_over.then(|| format!("Restart count hit threshold: {}", rules.restarts_threshold))
}

fn judge_checkpoints(
    info: &mut HealthInfo,
    completed: i64,
    rules: &HealthRules,
    now: i64,
) -> Option<String> {
    if completed != info.num_completed_checkpoints
        || info.num_completed_checkpoints_increased_time_stamp == 0
    {
        info.num_completed_checkpoints = completed;
        info.num_completed_checkpoints_increased_time_stamp = now;
        return None;
    }
    let window = millis(rules.checkpoint_window?);
    let since = now.saturating_sub(info.num_completed_checkpoints_increased_time_stamp);
    (since > window).then(|| "Cluster is not able to complete checkpoints".to_owned())
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
