//! The options `job.autoscaler.*`, read once per cycle.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use config::FlinkConfig;
use config::memory::MemorySize;
use config::option::InvalidValue;
use config::options::TASK_SLOTS;
use config::options::autoscaler::{
    self as options, AdjustMode, AlignmentChoice, AlignmentMode, BusyTimeAggregator,
};
use validation::excluded_period::ExcludedPeriod;

use super::cost::Prices;
use super::plugin::Plugins;
use super::topology::VertexId;

/// How a computed parallelism is aligned with key groups or partitions.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Alignment {
    Mode(AlignmentMode),
    /// The behaviour before there were modes, set only by the deprecated option.
    Legacy(AdjustMode),
}

/// All options of one job's autoscaler.
#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Settings {
    pub is_enabled: bool,
    pub is_scaling_enabled: bool,
    /// Whether decisions of a job that is new to the autoscaler are at first reported but not carried out.
    pub is_first_window_advised: bool,
    /// Until then, decisions are reported but not carried out.
    pub advised_until: Option<Timestamp>,
    /// Why the job cannot follow a decision; decisions are then reported but not carried out.
    pub fixed_by: Option<String>,
    pub metrics_window: Duration,
    pub stabilization: Duration,
    pub excluded_periods: Vec<ExcludedPeriod>,
    pub utilization_target: f64,
    pub utilization_max: f64,
    pub utilization_min: f64,
    pub scale_down_interval: Duration,
    pub min_parallelism: u32,
    pub max_parallelism: u32,
    pub excluded_vertices: BTreeSet<VertexId>,
    pub scale_down_max_factor: f64,
    pub scale_up_max_factor: f64,
    pub catch_up: Duration,
    pub restart_time: Duration,
    /// The longest plausible restart, if restarts are measured.
    pub tracked_restart_max: Option<Duration>,
    pub backlog_lag: Duration,
    pub observed_lag: Duration,
    pub observed_switch: f64,
    pub observed_min: u32,
    pub busy_time: BusyTimeAggregator,
    /// Used unless a rule aligns.
    pub alignment: Alignment,
    /// The rules that the job names.
    pub plugins: Plugins,
    pub is_ineffective_blocked: bool,
    pub effectiveness: f64,
    pub gc_pressure_max: f64,
    pub heap_usage_max: f64,
    /// The minimum coefficient and the required number of observations, if it is enabled.
    pub observed_scalability: Option<(f64, u32)>,
    pub history_max_count: u32,
    pub history_max_age: Duration,
    pub event_interval: Duration,
    pub quota_cpu: Option<f64>,
    pub quota_memory: Option<MemorySize>,
    pub prices: Prices,
    pub slots_per_task_manager: u32,
    pub memory_tuning: MemoryTuning,
}

/// Options of the tuning of TaskManager memory.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryTuning {
    pub is_enabled: bool,
    pub is_scale_down_compensated: bool,
    pub overhead: f64,
    pub is_managed_maximized: bool,
}

impl Settings {
    /// Reads the settings from the effective configuration of a job; `validation` checks their ranges.
    ///
    /// # Errors
    /// If a value cannot be parsed. [`super::plugin::rules::Rules::check`] checks that the named rules exist.
    pub fn read(config: &FlinkConfig) -> Result<Self, InvalidValue> {
        let (alignment, plugins) = alignment(config, Plugins::read(config)?)?;
        let target = config.get(&options::UTILIZATION_TARGET)?;
        let boundary = config.get(&options::UTILIZATION_TARGET_BOUNDARY)?;
        Ok(Self {
            is_enabled: config.get(&options::ENABLED)?,
            is_scaling_enabled: config.get(&options::SCALING_ENABLED)?,
            is_first_window_advised: config.get(&options::ADVICE_FIRST_WINDOW)?,
            advised_until: None,
            fixed_by: None,
            metrics_window: config.get(&options::METRICS_WINDOW)?,
            stabilization: config.get(&options::STABILIZATION_INTERVAL)?,
            excluded_periods: excluded_periods(config)?,
            utilization_target: target,
            utilization_max: config.find(&options::UTILIZATION_MAX)?.unwrap_or(target + boundary),
            utilization_min: config.find(&options::UTILIZATION_MIN)?.unwrap_or(target - boundary),
            scale_down_interval: config.get(&options::SCALE_DOWN_INTERVAL)?,
            min_parallelism: config.get(&options::VERTEX_MIN_PARALLELISM)?,
            max_parallelism: config.get(&options::VERTEX_MAX_PARALLELISM)?,
            excluded_vertices: config
                .get(&options::VERTEX_EXCLUDE_IDS)?
                .iter()
                .map(|id| VertexId::from(id.trim()))
                .collect(),
            scale_down_max_factor: config.get(&options::SCALE_DOWN_MAX_FACTOR)?,
            scale_up_max_factor: config.get(&options::SCALE_UP_MAX_FACTOR)?,
            catch_up: config.get(&options::CATCH_UP_DURATION)?,
            restart_time: config.get(&options::RESTART_TIME)?,
            tracked_restart_max: if config.get(&options::RESTART_TIME_TRACKING_ENABLED)? {
                Some(config.get(&options::RESTART_TIME_TRACKING_LIMIT)?)
            } else {
                None
            },
            backlog_lag: config.get(&options::BACKLOG_LAG_THRESHOLD)?,
            observed_lag: config.get(&options::OBSERVED_RATE_LAG_THRESHOLD)?,
            observed_switch: config.get(&options::OBSERVED_RATE_SWITCH_THRESHOLD)?,
            observed_min: config.get(&options::OBSERVED_RATE_MIN_OBSERVATIONS)?,
            busy_time: config.get(&options::BUSY_TIME_AGGREGATOR)?,
            alignment,
            plugins,
            is_ineffective_blocked: config.get(&options::EFFECTIVENESS_DETECTION_ENABLED)?,
            effectiveness: config.get(&options::EFFECTIVENESS_THRESHOLD)?,
            gc_pressure_max: config.get(&options::GC_PRESSURE_THRESHOLD)?,
            heap_usage_max: config.get(&options::HEAP_USAGE_THRESHOLD)?,
            observed_scalability: if config.get(&options::OBSERVED_SCALABILITY_ENABLED)? {
                Some((
                    config.get(&options::OBSERVED_SCALABILITY_COEFFICIENT_MIN)?,
                    config.get(&options::OBSERVED_SCALABILITY_MIN_OBSERVATIONS)?,
                ))
            } else {
                None
            },
            history_max_count: config.get(&options::HISTORY_MAX_COUNT)?,
            history_max_age: config.get(&options::HISTORY_MAX_AGE)?,
            event_interval: config.get(&options::EVENT_INTERVAL)?,
            quota_cpu: config.find(&options::QUOTA_CPU)?,
            quota_memory: config.find(&options::QUOTA_MEMORY)?,
            prices: Prices::read(config)?,
            slots_per_task_manager: slots(config)?,
            memory_tuning: MemoryTuning {
                is_enabled: config.get(&options::MEMORY_TUNING_ENABLED)?,
                is_scale_down_compensated: config
                    .get(&options::MEMORY_SCALE_DOWN_COMPENSATION_ENABLED)?,
                overhead: config.get(&options::MEMORY_TUNING_OVERHEAD)?,
                is_managed_maximized: config.get(&options::MEMORY_TUNING_MAXIMIZE_MANAGED)?,
            },
        })
    }
}

/// Returns the timeout of a call to Flink: the autoscaler's own option, otherwise the operator's.
///
/// # Errors
/// If a value cannot be parsed.
pub fn rest_timeout(config: &FlinkConfig, operators: Duration) -> Result<Duration, InvalidValue> {
    let option = &options::REST_CLIENT_TIMEOUT;
    if config.is_set(option) { config.get(option) } else { Ok(operators) }
}

/// Sets options, under any of their names: values under an older name do not win over them.
pub fn set_over<'a>(
    config: &mut FlinkConfig,
    options: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    for (key, value) in options {
        let bare = key.strip_prefix("kubernetes.operator.").unwrap_or(key);
        let _former = config.remove(&format!("kubernetes.operator.{bare}"));
        config.set(key, value);
    }
}

fn excluded_periods(config: &FlinkConfig) -> Result<Vec<ExcludedPeriod>, InvalidValue> {
    let option = &options::EXCLUDED_PERIODS;
    let periods = config.get(option)?;
    let read = |period: &String| {
        ExcludedPeriod::parse(period).map_err(|problem| {
            InvalidValue::new(option.key(), period, format!("a period: {problem}"))
        })
    };
    periods.iter().map(read).collect()
}

fn alignment(config: &FlinkConfig, plugins: Plugins) -> Result<(Alignment, Plugins), InvalidValue> {
    if !config.is_set(&options::ALIGNMENT_MODE) && config.is_set(&options::ADJUST_MODE) {
        return Ok((Alignment::Legacy(config.get(&options::ADJUST_MODE)?), plugins));
    }
    Ok(match config.get(&options::ALIGNMENT_MODE)? {
        AlignmentChoice::Mode(mode) => (Alignment::Mode(mode), plugins),
        AlignmentChoice::Named(name) => {
            (Alignment::Mode(AlignmentMode::Off), plugins.aligned_by(config, &name))
        }
    })
}

fn slots(config: &FlinkConfig) -> Result<u32, InvalidValue> {
    let slots = config.get(&TASK_SLOTS)?;
    u32::try_from(slots).ok().filter(|slots| *slots > 0).ok_or_else(|| {
        InvalidValue::new(TASK_SLOTS.key(), slots.to_string(), "a whole number above zero")
    })
}

#[cfg(test)]
#[allow(clippy::float_cmp, reason = "the numbers are exact")]
pub(super) mod tests {
    use super::*;

    /// Returns the settings of a job with these options besides the defaults; keys without `job.autoscaler.`.
    pub(crate) fn settings(options: &[(&str, &str)]) -> Settings {
        Settings::read(&config(options)).unwrap()
    }

    fn config(options: &[(&str, &str)]) -> FlinkConfig {
        options.iter().map(|(key, value)| (format!("job.autoscaler.{key}"), *value)).collect()
    }

    #[test]
    fn section_14_defaults() {
        let settings = settings(&[]);
        assert!(!settings.is_enabled && settings.is_scaling_enabled);
        assert_eq!(settings.metrics_window, Duration::from_mins(15));
        assert_eq!((settings.utilization_target, settings.utilization_max), (0.7, 1.0));
        assert_eq!(settings.utilization_min.to_bits(), (0.7_f64 - 0.3).to_bits());
        assert_eq!(settings.scale_down_interval, Duration::from_hours(1));
        assert_eq!((settings.min_parallelism, settings.max_parallelism), (1, 200));
        assert_eq!(settings.alignment, Alignment::Mode(AlignmentMode::Balanced));
        assert_eq!((settings.tracked_restart_max, settings.observed_scalability), (None, None));
    }

    #[test]
    fn section_14_older_names_in_their_order() {
        let config = FlinkConfig::from_iter([
            ("kubernetes.operator.job.autoscaler.utilization.target", "0.6"),
            ("job.autoscaler.target.utilization", "0.5"),
            ("job.autoscaler.scale-up.grace-period", "3 h"),
            ("kubernetes.operator.job.autoscaler.scale-down.interval", "2 h"),
            ("kubernetes.operator.job.autoscaler.scale-up.grace-period", "4 h"),
            ("kubernetes.operator.job.autoscaler.vertex.max-parallelism", "24"),
        ]);
        let settings = Settings::read(&config).unwrap();
        assert_eq!(settings.utilization_target, 0.6);
        assert_eq!(settings.scale_down_interval, Duration::from_hours(4));
        assert_eq!(settings.max_parallelism, 24);
    }

    #[test]
    fn the_deprecated_adjustment_counts_where_it_alone_is_set() {
        let legacy = ("scaling.key-group.partitions.adjust.mode", "maximize_utilisation");
        let mode = ("scaling.parallelism-alignment.mode", "OFF");
        let alignment = |options: &[_]| settings(options).alignment;
        assert_eq!(alignment(&[legacy]), Alignment::Legacy(AdjustMode::MaximizeUtilisation));
        assert_eq!(alignment(&[legacy, mode]), Alignment::Mode(AlignmentMode::Off));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = Settings::read(&config(&[("catch-up.duration", "soon")])).unwrap_err();
        assert_eq!(error.key, "job.autoscaler.catch-up.duration");
        let slots = FlinkConfig::from_iter([("taskmanager.numberOfTaskSlots", "0")]);
        assert_eq!(Settings::read(&slots).unwrap_err().key, "taskmanager.numberOfTaskSlots");
    }
}
