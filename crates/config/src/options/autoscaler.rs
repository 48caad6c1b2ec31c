//! The options `job.autoscaler.*`, with their older names `kubernetes.operator.job.autoscaler.*`.

use std::time::Duration;

use super::List;
use crate::memory::MemorySize;
use crate::option::{ConfigOption, OptionValue};

/// Which figure of the subtasks counts as a vertex's busy time.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BusyTimeAggregator {
    Max,
    Min,
    Avg,
}

impl OptionValue for BusyTimeAggregator {
    const EXPECTED: &str = "`MAX`, `MIN` or `AVG`";

    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_uppercase().as_str() {
            "MAX" => Some(Self::Max),
            "MIN" => Some(Self::Min),
            "AVG" => Some(Self::Avg),
            _ => None,
        }
    }
}

/// How a computed parallelism is fitted to key groups or partitions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AlignmentMode {
    /// The next one up under which a subtask has less to do.
    Balanced,
    /// The next divisor up.
    EvenlySpread,
    Off,
}

impl OptionValue for AlignmentMode {
    const EXPECTED: &str =
        "`BALANCED`, `EVENLY_SPREAD` or `OFF`; modes that are Java classes do not run here";

    fn parse(text: &str) -> Option<Self> {
        // Exactly so: other names are names of plugins.
        match text.trim() {
            "BALANCED" => Some(Self::Balanced),
            "EVENLY_SPREAD" => Some(Self::EvenlySpread),
            "OFF" => Some(Self::Off),
            _ => None,
        }
    }
}

/// The same, as it was before [`AlignmentMode`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AdjustMode {
    EvenlySpread,
    MaximizeUtilisation,
}

impl OptionValue for AdjustMode {
    const EXPECTED: &str = "`EVENLY_SPREAD` or `MAXIMIZE_UTILISATION`";

    fn parse(text: &str) -> Option<Self> {
        match text.trim().to_uppercase().as_str() {
            "EVENLY_SPREAD" => Some(Self::EvenlySpread),
            "MAXIMIZE_UTILISATION" => Some(Self::MaximizeUtilisation),
            _ => None,
        }
    }
}

pub const ENABLED: ConfigOption<bool> = ConfigOption::new("job.autoscaler.enabled")
    .or("false")
    .formerly(&["kubernetes.operator.job.autoscaler.enabled"]);
pub const METRICS_WINDOW: ConfigOption<Duration> =
    ConfigOption::new("job.autoscaler.metrics.window")
        .or("15 min")
        .formerly(&["kubernetes.operator.job.autoscaler.metrics.window"]);
pub const EXCLUDED_PERIODS: ConfigOption<List> =
    ConfigOption::new("job.autoscaler.excluded.periods")
        .or("")
        .formerly(&["kubernetes.operator.job.autoscaler.excluded.periods"]);
pub const UTILIZATION_TARGET: ConfigOption<f64> =
    ConfigOption::new("job.autoscaler.utilization.target").or("0.7").formerly(&[
        "kubernetes.operator.job.autoscaler.utilization.target",
        "kubernetes.operator.job.autoscaler.target.utilization",
        "job.autoscaler.target.utilization",
    ]);
pub const UTILIZATION_TARGET_BOUNDARY: ConfigOption<f64> =
    ConfigOption::new("job.autoscaler.target.utilization.boundary")
        .or("0.3")
        .formerly(&["kubernetes.operator.job.autoscaler.target.utilization.boundary"]);
pub const UTILIZATION_MAX: ConfigOption<f64> = ConfigOption::new("job.autoscaler.utilization.max")
    .formerly(&["kubernetes.operator.job.autoscaler.utilization.max"]);
pub const UTILIZATION_MIN: ConfigOption<f64> = ConfigOption::new("job.autoscaler.utilization.min")
    .formerly(&["kubernetes.operator.job.autoscaler.utilization.min"]);
pub const SCALE_DOWN_MAX_FACTOR: ConfigOption<f64> =
    ConfigOption::new("job.autoscaler.scale-down.max-factor")
        .or("0.6")
        .formerly(&["kubernetes.operator.job.autoscaler.scale-down.max-factor"]);
pub const SCALE_UP_MAX_FACTOR: ConfigOption<f64> =
    ConfigOption::new("job.autoscaler.scale-up.max-factor")
        .or("100000.0")
        .formerly(&["kubernetes.operator.job.autoscaler.scale-up.max-factor"]);
pub const GC_PRESSURE_THRESHOLD: ConfigOption<f64> =
    ConfigOption::new("job.autoscaler.memory.gc-pressure.threshold")
        .or("1.0")
        .formerly(&["kubernetes.operator.job.autoscaler.memory.gc-pressure.threshold"]);
pub const HEAP_USAGE_THRESHOLD: ConfigOption<f64> =
    ConfigOption::new("job.autoscaler.memory.heap-usage.threshold")
        .or("1.0")
        .formerly(&["kubernetes.operator.job.autoscaler.memory.heap-usage.threshold"]);
pub const OBSERVED_SCALABILITY_ENABLED: ConfigOption<bool> =
    ConfigOption::new("job.autoscaler.observed-scalability.enabled")
        .or("false")
        .formerly(&["kubernetes.operator.job.autoscaler.observed-scalability.enabled"]);
pub const OBSERVED_SCALABILITY_COEFFICIENT_MIN: ConfigOption<f64> =
    ConfigOption::new("job.autoscaler.observed-scalability.coefficient-min")
        .or("0.5")
        .formerly(&["kubernetes.operator.job.autoscaler.observed-scalability.coefficient-min"]);
pub const EFFECTIVENESS_DETECTION_ENABLED: ConfigOption<bool> =
    ConfigOption::new("job.autoscaler.scaling.effectiveness.detection.enabled")
        .or("false")
        .formerly(&["kubernetes.operator.job.autoscaler.scaling.effectiveness.detection.enabled"]);
pub const EFFECTIVENESS_THRESHOLD: ConfigOption<f64> =
    ConfigOption::new("job.autoscaler.scaling.effectiveness.threshold")
        .or("0.1")
        .formerly(&["kubernetes.operator.job.autoscaler.scaling.effectiveness.threshold"]);
pub const MEMORY_TUNING_ENABLED: ConfigOption<bool> =
    ConfigOption::new("job.autoscaler.memory.tuning.enabled")
        .or("false")
        .formerly(&["kubernetes.operator.job.autoscaler.memory.tuning.enabled"]);
pub const MEMORY_TUNING_OVERHEAD: ConfigOption<f64> =
    ConfigOption::new("job.autoscaler.memory.tuning.overhead")
        .or("0.2")
        .formerly(&["kubernetes.operator.job.autoscaler.memory.tuning.overhead"]);
/// Whether decisions are carried out, and not only told.
pub const SCALING_ENABLED: ConfigOption<bool> = ConfigOption::new("job.autoscaler.scaling.enabled")
    .or("true")
    .formerly(&["kubernetes.operator.job.autoscaler.scaling.enabled"]);
/// Whether a job that is new to the autoscaler is left as it is for two windows, while decisions are
/// told. An option of this operator's own.
pub const ADVICE_FIRST_WINDOW: ConfigOption<bool> =
    ConfigOption::new("job.autoscaler.advice.first-window").or("true");
/// How long after a start no decision is made.
pub const STABILIZATION_INTERVAL: ConfigOption<Duration> =
    ConfigOption::new("job.autoscaler.stabilization.interval")
        .or("5 min")
        .formerly(&["kubernetes.operator.job.autoscaler.stabilization.interval"]);
/// How long a lower parallelism has to be enough before the job is scaled down.
pub const SCALE_DOWN_INTERVAL: ConfigOption<Duration> =
    ConfigOption::new("job.autoscaler.scale-down.interval").or("1 h").formerly(&[
        "kubernetes.operator.job.autoscaler.scale-up.grace-period",
        "kubernetes.operator.job.autoscaler.scale-down.interval",
        "job.autoscaler.scale-up.grace-period",
    ]);
pub const VERTEX_MIN_PARALLELISM: ConfigOption<u32> =
    ConfigOption::new("job.autoscaler.vertex.min-parallelism")
        .or("1")
        .formerly(&["kubernetes.operator.job.autoscaler.vertex.min-parallelism"]);
pub const VERTEX_MAX_PARALLELISM: ConfigOption<u32> =
    ConfigOption::new("job.autoscaler.vertex.max-parallelism")
        .or("200")
        .formerly(&["kubernetes.operator.job.autoscaler.vertex.max-parallelism"]);
pub const VERTEX_EXCLUDE_IDS: ConfigOption<List> =
    ConfigOption::new("job.autoscaler.vertex.exclude.ids")
        .or("")
        .formerly(&["kubernetes.operator.job.autoscaler.vertex.exclude.ids"]);
/// Time in which a backlog is to be worked off; zero leaves it out of account.
pub const CATCH_UP_DURATION: ConfigOption<Duration> =
    ConfigOption::new("job.autoscaler.catch-up.duration")
        .or("30 min")
        .formerly(&["kubernetes.operator.job.autoscaler.catch-up.duration"]);
pub const RESTART_TIME: ConfigOption<Duration> = ConfigOption::new("job.autoscaler.restart.time")
    .or("5 min")
    .formerly(&["kubernetes.operator.job.autoscaler.restart.time"]);
pub const RESTART_TIME_TRACKING_ENABLED: ConfigOption<bool> =
    ConfigOption::new("job.autoscaler.restart.time-tracking.enabled")
        .or("false")
        .formerly(&["kubernetes.operator.job.autoscaler.restart.time-tracking.enabled"]);
pub const RESTART_TIME_TRACKING_LIMIT: ConfigOption<Duration> =
    ConfigOption::new("job.autoscaler.restart.time-tracking.limit")
        .or("15 min")
        .formerly(&["kubernetes.operator.job.autoscaler.restart.time-tracking.limit"]);
pub const BACKLOG_LAG_THRESHOLD: ConfigOption<Duration> =
    ConfigOption::new("job.autoscaler.backlog-processing.lag-threshold")
        .or("5 min")
        .formerly(&["kubernetes.operator.job.autoscaler.backlog-processing.lag-threshold"]);
pub const OBSERVED_RATE_LAG_THRESHOLD: ConfigOption<Duration> =
    ConfigOption::new("job.autoscaler.observed-true-processing-rate.lag-threshold")
        .or("30 s")
        .formerly(&[
            "kubernetes.operator.job.autoscaler.observed-true-processing-rate.lag-threshold",
        ]);
pub const OBSERVED_RATE_SWITCH_THRESHOLD: ConfigOption<f64> =
    ConfigOption::new("job.autoscaler.observed-true-processing-rate.switch-threshold")
        .or("0.15")
        .formerly(&[
            "kubernetes.operator.job.autoscaler.observed-true-processing-rate.switch-threshold",
        ]);
pub const OBSERVED_RATE_MIN_OBSERVATIONS: ConfigOption<u32> =
    ConfigOption::new("job.autoscaler.observed-true-processing-rate.min-observations")
        .or("2")
        .formerly(&[
            "kubernetes.operator.job.autoscaler.observed-true-processing-rate.min-observations",
        ]);
pub const BUSY_TIME_AGGREGATOR: ConfigOption<BusyTimeAggregator> =
    ConfigOption::new("job.autoscaler.metrics.busy-time.aggregator")
        .or("MAX")
        .formerly(&["kubernetes.operator.job.autoscaler.metrics.busy-time.aggregator"]);
pub const ALIGNMENT_MODE: ConfigOption<AlignmentMode> =
    ConfigOption::new("job.autoscaler.scaling.parallelism-alignment.mode")
        .or("BALANCED")
        .formerly(&["kubernetes.operator.job.autoscaler.scaling.parallelism-alignment.mode"]);
/// Counts only where it is set and [`ALIGNMENT_MODE`] is not.
pub const ADJUST_MODE: ConfigOption<AdjustMode> =
    ConfigOption::new("job.autoscaler.scaling.key-group.partitions.adjust.mode")
        .or("EVENLY_SPREAD")
        .formerly(&["kubernetes.operator.job.autoscaler.scaling.key-group.partitions.adjust.mode"]);
pub const OBSERVED_SCALABILITY_MIN_OBSERVATIONS: ConfigOption<u32> =
    ConfigOption::new("job.autoscaler.observed-scalability.min-observations")
        .or("3")
        .formerly(&["kubernetes.operator.job.autoscaler.observed-scalability.min-observations"]);
pub const MEMORY_SCALE_DOWN_COMPENSATION_ENABLED: ConfigOption<bool> =
    ConfigOption::new("job.autoscaler.memory.tuning.scale-down-compensation.enabled")
        .or("true")
        .formerly(&[
            "kubernetes.operator.job.autoscaler.memory.tuning.scale-down-compensation.enabled",
        ]);
pub const MEMORY_TUNING_MAXIMIZE_MANAGED: ConfigOption<bool> =
    ConfigOption::new("job.autoscaler.memory.tuning.maximize-managed-memory")
        .or("false")
        .formerly(&["kubernetes.operator.job.autoscaler.memory.tuning.maximize-managed-memory"]);
pub const HISTORY_MAX_COUNT: ConfigOption<u32> =
    ConfigOption::new("job.autoscaler.history.max.count")
        .or("3")
        .formerly(&["kubernetes.operator.job.autoscaler.history.max.count"]);
pub const HISTORY_MAX_AGE: ConfigOption<Duration> =
    ConfigOption::new("job.autoscaler.history.max.age")
        .or("24 h")
        .formerly(&["kubernetes.operator.job.autoscaler.history.max.age"]);
/// An event is not told again within it.
pub const EVENT_INTERVAL: ConfigOption<Duration> =
    ConfigOption::new("job.autoscaler.scaling.event.interval")
        .or("30 min")
        .formerly(&["kubernetes.operator.job.autoscaler.scaling.event.interval"]);
pub const REST_CLIENT_TIMEOUT: ConfigOption<Duration> =
    ConfigOption::new("job.autoscaler.flink.rest-client.timeout")
        .or("10 s")
        .formerly(&["kubernetes.operator.job.autoscaler.flink.rest-client.timeout"]);
pub const QUOTA_CPU: ConfigOption<f64> = ConfigOption::new("job.autoscaler.quota.cpu")
    .formerly(&["kubernetes.operator.job.autoscaler.quota.cpu"]);
pub const QUOTA_MEMORY: ConfigOption<MemorySize> = ConfigOption::new("job.autoscaler.quota.memory")
    .formerly(&["kubernetes.operator.job.autoscaler.quota.memory"]);
/// Price of a CPU for an hour, with which decisions tell what they cost. An option of this
/// operator's own.
pub const COST_CPU_HOUR: ConfigOption<f64> = ConfigOption::new("job.autoscaler.cost.cpu-hour");
/// The same of a GiB of memory.
pub const COST_GIB_HOUR: ConfigOption<f64> = ConfigOption::new("job.autoscaler.cost.gib-hour");
/// Java classes that rewrite figures.
pub const CUSTOM_EVALUATORS: ConfigOption<List> =
    ConfigOption::new("job.autoscaler.metrics.custom-evaluators")
        .or("")
        .formerly(&["kubernetes.operator.job.autoscaler.metrics.custom-evaluators"]);
/// Java classes that have a say in each decision.
pub const CUSTOM_EXECUTORS: ConfigOption<List> =
    ConfigOption::new("job.autoscaler.scaling.custom-executors")
        .or("")
        .formerly(&["kubernetes.operator.job.autoscaler.scaling.custom-executors"]);

/// Every option, by its current key.
pub const KEYS: &[&str] = &[
    ENABLED.key(),
    METRICS_WINDOW.key(),
    EXCLUDED_PERIODS.key(),
    UTILIZATION_TARGET.key(),
    UTILIZATION_TARGET_BOUNDARY.key(),
    UTILIZATION_MAX.key(),
    UTILIZATION_MIN.key(),
    SCALE_DOWN_MAX_FACTOR.key(),
    SCALE_UP_MAX_FACTOR.key(),
    GC_PRESSURE_THRESHOLD.key(),
    HEAP_USAGE_THRESHOLD.key(),
    OBSERVED_SCALABILITY_ENABLED.key(),
    OBSERVED_SCALABILITY_COEFFICIENT_MIN.key(),
    EFFECTIVENESS_DETECTION_ENABLED.key(),
    EFFECTIVENESS_THRESHOLD.key(),
    MEMORY_TUNING_ENABLED.key(),
    MEMORY_TUNING_OVERHEAD.key(),
    SCALING_ENABLED.key(),
    ADVICE_FIRST_WINDOW.key(),
    STABILIZATION_INTERVAL.key(),
    SCALE_DOWN_INTERVAL.key(),
    VERTEX_MIN_PARALLELISM.key(),
    VERTEX_MAX_PARALLELISM.key(),
    VERTEX_EXCLUDE_IDS.key(),
    CATCH_UP_DURATION.key(),
    RESTART_TIME.key(),
    RESTART_TIME_TRACKING_ENABLED.key(),
    RESTART_TIME_TRACKING_LIMIT.key(),
    BACKLOG_LAG_THRESHOLD.key(),
    OBSERVED_RATE_LAG_THRESHOLD.key(),
    OBSERVED_RATE_SWITCH_THRESHOLD.key(),
    OBSERVED_RATE_MIN_OBSERVATIONS.key(),
    BUSY_TIME_AGGREGATOR.key(),
    ALIGNMENT_MODE.key(),
    ADJUST_MODE.key(),
    OBSERVED_SCALABILITY_MIN_OBSERVATIONS.key(),
    MEMORY_SCALE_DOWN_COMPENSATION_ENABLED.key(),
    MEMORY_TUNING_MAXIMIZE_MANAGED.key(),
    HISTORY_MAX_COUNT.key(),
    HISTORY_MAX_AGE.key(),
    EVENT_INTERVAL.key(),
    REST_CLIENT_TIMEOUT.key(),
    QUOTA_CPU.key(),
    QUOTA_MEMORY.key(),
    COST_CPU_HOUR.key(),
    COST_GIB_HOUR.key(),
    CUSTOM_EVALUATORS.key(),
    CUSTOM_EXECUTORS.key(),
];

/// Whether there is an option with this key, under its current name or an older one.
pub fn is_known(key: &str) -> bool {
    let bare = key.strip_prefix("kubernetes.operator.").unwrap_or(key);
    KEYS.contains(&bare) || FORMER_KEYS.contains(&bare)
}

/// Names that were other ones once.
const FORMER_KEYS: [&str; 2] =
    ["job.autoscaler.target.utilization", "job.autoscaler.scale-up.grace-period"];
