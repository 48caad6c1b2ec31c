//! Options of the autoscaler: rules A1 to A12 and D31, checked only if it is on.

use std::time::Duration;

use config::FlinkConfig;
use config::duration;
use config::option::{ConfigOption, InvalidValue};
use config::options::{self, autoscaler};

use super::excluded_period;
use super::{Finding, Places, Rule};

/// Checks all options of the autoscaler in the effective configuration.
pub(super) fn check(config: &FlinkConfig, places: &Places) -> Vec<Finding> {
    let mut check = Check { config, places, violations: Vec::new() };
    if !check.is_on(&autoscaler::ENABLED) {
        return check.violations;
    }
    check.number(&autoscaler::SCALE_DOWN_MAX_FACTOR, 0.0, f64::INFINITY);
    check.number(&autoscaler::SCALE_UP_MAX_FACTOR, 0.0, f64::INFINITY);
    check.number(&autoscaler::UTILIZATION_TARGET, 0.0, 1.0);
    check.number(&autoscaler::UTILIZATION_TARGET_BOUNDARY, 0.0, f64::INFINITY);
    // Without a readable target there is nothing to compare with, and that is reported above.
    if let Ok(target) = config.get(&autoscaler::UTILIZATION_TARGET) {
        check.number(&autoscaler::UTILIZATION_MAX, target, 1.0);
        check.number(&autoscaler::UTILIZATION_MIN, 0.0, target);
    }
    check.number(&autoscaler::GC_PRESSURE_THRESHOLD, 0.0, 1.0);
    check.number(&autoscaler::HEAP_USAGE_THRESHOLD, 0.0, 1.0);
    if check.is_on(&autoscaler::OBSERVED_SCALABILITY_ENABLED) {
        check.number(&autoscaler::OBSERVED_SCALABILITY_COEFFICIENT_MIN, 0.01, 1.0);
    }
    if check.is_on(&autoscaler::EFFECTIVENESS_DETECTION_ENABLED) {
        check.number(&autoscaler::EFFECTIVENESS_THRESHOLD, 0.0, 1.0);
    }
    if check.is_on(&autoscaler::MEMORY_TUNING_ENABLED) {
        check.number(&autoscaler::MEMORY_TUNING_OVERHEAD, 0.0, 1.0);
    }
    check.number(&autoscaler::COST_CPU_HOUR, 0.0, f64::INFINITY);
    check.number(&autoscaler::COST_GIB_HOUR, 0.0, f64::INFINITY);
    check.excluded_periods();
    check.metrics_window();
    check.violations
}

struct Check<'a> {
    config: &'a FlinkConfig,
    places: &'a Places,
    violations: Vec<Finding>,
}

impl Check<'_> {
    fn invalid(&mut self, invalid: &InvalidValue) {
        self.violations.push(self.places.invalid(invalid));
    }

    /// Returns the value of a switch. One that cannot be read is reported, and treated as off.
    fn is_on(&mut self, option: &ConfigOption<bool>) -> bool {
        self.config.get(option).unwrap_or_else(|invalid| {
            self.invalid(&invalid);
            false
        })
    }

    fn number(&mut self, option: &ConfigOption<f64>, min: f64, max: f64) {
        match self.config.find(option) {
            Ok(Some(number)) if !(min..=max).contains(&number) => {
                let allowed = if max.is_finite() {
                    format!("from {min} to {max}")
                } else {
                    format!("{min} or more")
                };
                self.violations.push(Rule::AutoscalerRange.found(
                    self.places.of(self.config, option),
                    format!("`{number}` is out of range: it must be {allowed}"),
                ));
            }
            Ok(_) => {}
            Err(invalid) => self.invalid(&invalid),
        }
    }

    fn excluded_periods(&mut self) {
        match self.config.get(&autoscaler::EXCLUDED_PERIODS) {
            Ok(periods) => {
                for period in periods {
                    if let Err(problem) = excluded_period::check(&period) {
                        self.violations.push(Rule::ExcludedPeriod.found(
                            self.places.of(self.config, &autoscaler::EXCLUDED_PERIODS),
                            format!("invalid period `{period}`: {problem}"),
                        ));
                    }
                }
            }
            Err(invalid) => self.invalid(&invalid),
        }
    }

    /// D31: each reconcile takes one sample, and the autoscaler needs two.
    fn metrics_window(&mut self) {
        let read = |option: &ConfigOption<Duration>| self.config.get(option);
        match (read(&autoscaler::METRICS_WINDOW), read(&options::RECONCILE_INTERVAL)) {
            (Ok(window), Ok(interval)) if window < interval => {
                self.violations.push(Rule::MetricsWindow.found(
                    self.places.of(self.config, &autoscaler::METRICS_WINDOW),
                    format!(
                        "`{}` is shorter than `{}`, which is {}: there would be fewer than two samples",
                        duration::render(window),
                        options::RECONCILE_INTERVAL.key(),
                        duration::render(interval)
                    ),
                ));
            }
            (Err(invalid), _) => self.invalid(&invalid),
            // The interval itself is checked with the operator's options.
            (_, Err(_)) | (Ok(_), Ok(_)) => {}
        }
    }
}

#[cfg(test)]
mod tests;
