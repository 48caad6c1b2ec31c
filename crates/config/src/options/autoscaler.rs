//! The options `job.autoscaler.*`, with their older names `kubernetes.operator.job.autoscaler.*`.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use strum::EnumString;

use super::List;
use crate::FlinkConfig;
use crate::flink_config::OPERATOR_PREFIX;
use crate::memory::MemorySize;
use crate::option::{ConfigOption, values_from_str};

/// Which figure of the subtasks is used as a vertex's busy time.
#[derive(Clone, Copy, Debug, Eq, PartialEq, EnumString)]
#[strum(ascii_case_insensitive)]
pub enum BusyTimeAggregator {
    Max,
    Min,
    Avg,
}

/// How a computed parallelism is aligned with key groups or partitions.
#[derive(Clone, Copy, Debug, Eq, PartialEq, EnumString)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE")]
pub enum AlignmentMode {
    /// The next one up under which a subtask has less to do.
    Balanced,
    /// The next divisor up.
    EvenlySpread,
    Off,
}

/// A mode of alignment, or the name of a rule in the operator's configuration. A mode's name in another case is also
/// the name of a rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum AlignmentChoice {
    Mode(AlignmentMode),
    Named(String),
}

impl FromStr for AlignmentChoice {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text.parse() {
            Ok(mode) => Ok(Self::Mode(mode)),
            Err(_) if text.is_empty() => Err(()),
            Err(_) => Ok(Self::Named(text.to_owned())),
        }
    }
}

/// The older form of [`AlignmentMode`].
#[derive(Clone, Copy, Debug, Eq, PartialEq, EnumString)]
#[strum(serialize_all = "SCREAMING_SNAKE_CASE", ascii_case_insensitive)]
pub enum AdjustMode {
    EvenlySpread,
    MaximizeUtilisation,
}

values_from_str! {
    BusyTimeAggregator: "`MAX`, `MIN` or `AVG`";
    AlignmentChoice: "`BALANCED`, `EVENLY_SPREAD`, `OFF`, or the name of an alignment mode that the operator's configuration defines";
    AdjustMode: "`EVENLY_SPREAD` or `MAXIMIZE_UTILISATION`";
}

options! {
    TABLE =>
    /// Enables the autoscaler, which measures and scales the job.
    Live ENABLED: bool = "job.autoscaler.enabled" or "false" formerly prefixed;
    /// Time over which metrics are averaged before a decision.
    Live METRICS_WINDOW: Duration = "job.autoscaler.metrics.window" or "15 min" formerly prefixed;
    /// Times in which decisions are only reported, such as `09:30-10:30`.
    Live EXCLUDED_PERIODS: List = "job.autoscaler.excluded.periods" or "" formerly prefixed;
    /// Share of its time that a vertex should be busy.
    Live UTILIZATION_TARGET: f64 =
        "job.autoscaler.utilization.target" or "0.7"
        formerly [
            "kubernetes.operator.job.autoscaler.utilization.target",
            "kubernetes.operator.job.autoscaler.target.utilization",
            "job.autoscaler.target.utilization",
        ];
    /// How far a vertex may be from the target before it is scaled, if no minimum or maximum is
    /// set.
    Live UTILIZATION_TARGET_BOUNDARY: f64 =
        "job.autoscaler.target.utilization.boundary" or "0.3" formerly prefixed;
    /// Utilization above which a vertex is scaled up; target plus boundary when unset.
    Live UTILIZATION_MAX: f64 = "job.autoscaler.utilization.max" formerly prefixed;
    /// Utilization below which a vertex is scaled down; target minus boundary when unset.
    Live UTILIZATION_MIN: f64 = "job.autoscaler.utilization.min" formerly prefixed;
    /// Maximum share by which a vertex is scaled down at once.
    Live SCALE_DOWN_MAX_FACTOR: f64 =
        "job.autoscaler.scale-down.max-factor" or "0.6" formerly prefixed;
    /// Maximum share by which a vertex is scaled up at once.
    Live SCALE_UP_MAX_FACTOR: f64 =
        "job.autoscaler.scale-up.max-factor" or "100000.0" formerly prefixed;
    /// Garbage collection pressure above which nothing is scaled.
    Live GC_PRESSURE_THRESHOLD: f64 =
        "job.autoscaler.memory.gc-pressure.threshold" or "1.0" formerly prefixed;
    /// Heap usage above which nothing is scaled.
    Live HEAP_USAGE_THRESHOLD: f64 =
        "job.autoscaler.memory.heap-usage.threshold" or "1.0" formerly prefixed;
    /// Takes into account how effective earlier scalings of a vertex were.
    Live OBSERVED_SCALABILITY_ENABLED: bool =
        "job.autoscaler.observed-scalability.enabled" or "false" formerly prefixed;
    /// Lower bound of the observed share of linear growth.
    Live OBSERVED_SCALABILITY_COEFFICIENT_MIN: f64 =
        "job.autoscaler.observed-scalability.coefficient-min" or "0.5" formerly prefixed;
    /// Does not scale a vertex up again after an ineffective scaling.
    Live EFFECTIVENESS_DETECTION_ENABLED: bool =
        "job.autoscaler.scaling.effectiveness.detection.enabled" or "false" formerly prefixed;
    /// Share of the expected gain below which a scaling is ineffective.
    Live EFFECTIVENESS_THRESHOLD: f64 =
        "job.autoscaler.scaling.effectiveness.threshold" or "0.1" formerly prefixed;
    /// Adapts the memory of TaskManagers to their usage.
    Live MEMORY_TUNING_ENABLED: bool =
        "job.autoscaler.memory.tuning.enabled" or "false" formerly prefixed;
    /// Share that heap and metaspace get in addition to their usage.
    Live MEMORY_TUNING_OVERHEAD: f64 =
        "job.autoscaler.memory.tuning.overhead" or "0.2" formerly prefixed;
    /// Carries out decisions, instead of only reporting them.
    Live SCALING_ENABLED: bool = "job.autoscaler.scaling.enabled" or "true" formerly prefixed;
    /// Only advises a job that is new to the autoscaler, for two windows. An option of this
    /// operator's own.
    Live ADVICE_FIRST_WINDOW: bool = "job.autoscaler.advice.first-window" or "false";
    /// How long no decision is made after a start.
    Live STABILIZATION_INTERVAL: Duration =
        "job.autoscaler.stabilization.interval" or "5 min" formerly prefixed;
    /// How long a lower parallelism has to suffice before the job is scaled down.
    Live SCALE_DOWN_INTERVAL: Duration =
        "job.autoscaler.scale-down.interval" or "1 h"
        formerly [
            "kubernetes.operator.job.autoscaler.scale-up.grace-period",
            "kubernetes.operator.job.autoscaler.scale-down.interval",
            "job.autoscaler.scale-up.grace-period",
        ];
    /// Minimum parallelism of a vertex.
    Live VERTEX_MIN_PARALLELISM: u32 =
        "job.autoscaler.vertex.min-parallelism" or "1" formerly prefixed;
    /// Maximum parallelism of a vertex.
    Live VERTEX_MAX_PARALLELISM: u32 =
        "job.autoscaler.vertex.max-parallelism" or "200" formerly prefixed;
    /// Ids of vertices that are not scaled.
    Live VERTEX_EXCLUDE_IDS: List = "job.autoscaler.vertex.exclude.ids" or "" formerly prefixed;
    /// Time in which a backlog should be processed; zero ignores the backlog.
    Live CATCH_UP_DURATION: Duration =
        "job.autoscaler.catch-up.duration" or "30 min" formerly prefixed;
    /// Expected duration of a restart.
    Live RESTART_TIME: Duration = "job.autoscaler.restart.time" or "5 min" formerly prefixed;
    /// Uses the longest measured restart instead of `job.autoscaler.restart.time`.
    Live RESTART_TIME_TRACKING_ENABLED: bool =
        "job.autoscaler.restart.time-tracking.enabled" or "false" formerly prefixed;
    /// Upper bound of the measured restart time.
    Live RESTART_TIME_TRACKING_LIMIT: Duration =
        "job.autoscaler.restart.time-tracking.limit" or "15 min" formerly prefixed;
    /// Lag, as the time to read it, above which a job is processing a backlog.
    Live BACKLOG_LAG_THRESHOLD: Duration =
        "job.autoscaler.backlog-processing.lag-threshold" or "5 min" formerly prefixed;
    /// Lag, as the time to read it, above which the observed rate of a source is its capacity.
    Live OBSERVED_RATE_LAG_THRESHOLD: Duration =
        "job.autoscaler.observed-true-processing-rate.lag-threshold" or "30 s" formerly prefixed;
    /// Share by which the rate from busy times may exceed the observed one before the latter is
    /// used.
    Live OBSERVED_RATE_SWITCH_THRESHOLD: f64 =
        "job.autoscaler.observed-true-processing-rate.switch-threshold" or "0.15" formerly prefixed;
    /// Minimum number of samples for using an observed rate.
    Live OBSERVED_RATE_MIN_OBSERVATIONS: u32 =
        "job.autoscaler.observed-true-processing-rate.min-observations" or "2" formerly prefixed;
    /// How the busy times of subtasks are aggregated to that of a vertex.
    Live BUSY_TIME_AGGREGATOR: BusyTimeAggregator =
        "job.autoscaler.metrics.busy-time.aggregator" or "MAX" formerly prefixed;
    /// How a parallelism is aligned to key groups or partitions.
    Live ALIGNMENT_MODE: AlignmentChoice =
        "job.autoscaler.scaling.parallelism-alignment.mode" or "BALANCED" formerly prefixed;
    /// Older form of the alignment mode, used only if it is set and the alignment mode is not.
    Live ADJUST_MODE: AdjustMode =
        "job.autoscaler.scaling.key-group.partitions.adjust.mode" or "EVENLY_SPREAD"
        formerly prefixed;
    /// Minimum number of scalings of a vertex for using its observed growth.
    Live OBSERVED_SCALABILITY_MIN_OBSERVATIONS: u32 =
        "job.autoscaler.observed-scalability.min-observations" or "3" formerly prefixed;
    /// Gives each TaskManager more heap when there are fewer of them.
    Live MEMORY_SCALE_DOWN_COMPENSATION_ENABLED: bool =
        "job.autoscaler.memory.tuning.scale-down-compensation.enabled" or "true" formerly prefixed;
    /// Gives managed memory, if used, what tuning leaves of the total.
    Live MEMORY_TUNING_MAXIMIZE_MANAGED: bool =
        "job.autoscaler.memory.tuning.maximize-managed-memory" or "false" formerly prefixed;
    /// How many scalings of a vertex, and how many restarts, are stored.
    Live HISTORY_MAX_COUNT: u32 = "job.autoscaler.history.max.count" or "3" formerly prefixed;
    /// How long they are stored.
    Live HISTORY_MAX_AGE: Duration = "job.autoscaler.history.max.age" or "24 h" formerly prefixed;
    /// Time within which an event is not repeated.
    Live EVENT_INTERVAL: Duration =
        "job.autoscaler.scaling.event.interval" or "30 min" formerly prefixed;
    /// Timeout of a call to Flink; `kubernetes.operator.flink.client.timeout` when unset.
    Live REST_CLIENT_TIMEOUT: Duration =
        "job.autoscaler.flink.rest-client.timeout" or "10 s" formerly prefixed;
    /// Maximum CPUs of the TaskManagers of a scaled job.
    Live QUOTA_CPU: f64 = "job.autoscaler.quota.cpu" formerly prefixed;
    /// Maximum memory of the TaskManagers of a scaled job.
    Live QUOTA_MEMORY: MemorySize = "job.autoscaler.quota.memory" formerly prefixed;
    /// Price of a CPU per hour, in any currency, for the cost of decisions. An
    /// option of this operator's own.
    Live COST_CPU_HOUR: f64 = "job.autoscaler.cost.cpu-hour";
    /// Price of a GiB of memory per hour, like `job.autoscaler.cost.cpu-hour`.
    Live COST_GIB_HOUR: f64 = "job.autoscaler.cost.gib-hour";
    /// Name of an evaluator in the operator's configuration, which sets metrics of vertices.
    Live CUSTOM_EVALUATORS: List =
        "job.autoscaler.metrics.custom-evaluators" or "" formerly prefixed;
    /// Names of executors in the operator's configuration, which approve, change or refuse
    /// decisions.
    Live CUSTOM_EXECUTORS: List = "job.autoscaler.scaling.custom-executors" or "" formerly prefixed;
}

/// Below these are the parameters that a job gives to a rule, after the name of the rule.
pub const EVALUATOR_PARAMETERS: &str = "job.autoscaler.metrics.custom-evaluator.";
pub const EXECUTOR_PARAMETERS: &str = "job.autoscaler.scaling.custom-executor.";
pub const ALIGNMENT_PARAMETERS: &str = "job.autoscaler.scaling.parallelism-alignment.mode.";

/// True for a parameter of a rule, whatever the rule makes of it.
pub fn is_parameter(key: &str) -> bool {
    let bare = key.strip_prefix(OPERATOR_PREFIX).unwrap_or(key);
    [EVALUATOR_PARAMETERS, EXECUTOR_PARAMETERS, ALIGNMENT_PARAMETERS]
        .iter()
        .any(|prefix| bare.starts_with(prefix))
}

/// The parameters of the rule of this name. What stands under the current name wins.
pub fn parameters(config: &FlinkConfig, prefix: &str, name: &str) -> BTreeMap<String, String> {
    let current = format!("{prefix}{name}.");
    let former = format!("{OPERATOR_PREFIX}{current}");
    let both = config.below(&former).chain(config.below(&current));
    both.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// True if there is an option with this key, under its current name or an older one.
pub fn is_known(key: &str) -> bool {
    let bare = key.strip_prefix(OPERATOR_PREFIX).unwrap_or(key);
    is_parameter(key) || TABLE.iter().any(|known| known.keys().any(|name| name == bare))
}
