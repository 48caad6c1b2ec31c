//! The options `job.autoscaler.*`, with their older names `kubernetes.operator.job.autoscaler.*`.

use std::time::Duration;

use super::List;
use crate::config::option::ConfigOption;

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
        "job.autoscaler.target.utilization",
        "kubernetes.operator.job.autoscaler.utilization.target",
        "kubernetes.operator.job.autoscaler.target.utilization",
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
