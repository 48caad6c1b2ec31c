use expect_test::{Expect, expect};

use super::*;
use crate::lines;

#[track_caller]
fn check_options(entries: &[(&str, &str)], expected: Expect) {
    let own: FlinkConfig =
        entries.iter().map(|(k, v)| (format!("job.autoscaler.{k}"), *v)).collect();
    let places = Places { own: own.clone() };
    let text = lines(&check(&own, &places));
    expected.assert_eq(&text);
}

#[test]
fn d30_off_means_unchecked() {
    check_options(&[("utilization.target", "7")], expect![""]);
    check_options(&[("enabled", "false"), ("excluded.periods", "nonsense")], expect![""]);
}

#[test]
fn defaults_are_sound() {
    check_options(&[("enabled", "true")], expect![""]);
}

#[test]
fn a01_to_a08_every_number_has_a_range() {
    check_options(
        &[
            ("enabled", "true"),
            ("scale-down.max-factor", "-0.1"),
            ("scale-up.max-factor", "-1"),
            ("utilization.target", "0.5"),
            ("target.utilization.boundary", "-2"),
            ("utilization.max", "0.4"),
            ("utilization.min", "0.6"),
            ("memory.gc-pressure.threshold", "1.1"),
            ("memory.heap-usage.threshold", "full"),
        ],
        expect![[r#"
            spec.flinkConfiguration.job.autoscaler.scale-down.max-factor: `-0.1` is out of range: it must be 0 or more
            spec.flinkConfiguration.job.autoscaler.scale-up.max-factor: `-1` is out of range: it must be 0 or more
            spec.flinkConfiguration.job.autoscaler.target.utilization.boundary: `-2` is out of range: it must be 0 or more
            spec.flinkConfiguration.job.autoscaler.utilization.max: `0.4` is out of range: it must be from 0.5 to 1
            spec.flinkConfiguration.job.autoscaler.utilization.min: `0.6` is out of range: it must be from 0 to 0.5
            spec.flinkConfiguration.job.autoscaler.memory.gc-pressure.threshold: `1.1` is out of range: it must be from 0 to 1
            spec.flinkConfiguration.job.autoscaler.memory.heap-usage.threshold: invalid value `full`: expected a number
        "#]],
    );
}

#[test]
fn a09_a10_a11_options_of_a_feature_count_when_it_is_on() {
    let off = [
        ("enabled", "true"),
        ("observed-scalability.coefficient-min", "0"),
        ("scaling.effectiveness.threshold", "2"),
        ("memory.tuning.overhead", "2"),
    ];
    check_options(&off, expect![""]);
    let on = [
        ("observed-scalability.enabled", "true"),
        ("scaling.effectiveness.detection.enabled", "true"),
        ("memory.tuning.enabled", "true"),
    ];
    check_options(
        &[&off[..], &on].concat(),
        expect![[r#"
            spec.flinkConfiguration.job.autoscaler.observed-scalability.coefficient-min: `0` is out of range: it must be from 0.01 to 1
            spec.flinkConfiguration.job.autoscaler.scaling.effectiveness.threshold: `2` is out of range: it must be from 0 to 1
            spec.flinkConfiguration.job.autoscaler.memory.tuning.overhead: `2` is out of range: it must be from 0 to 1
        "#]],
    );
}

#[test]
fn a12_d31_window_and_periods() {
    check_options(
        &[
            ("enabled", "true"),
            ("metrics.window", "30 s"),
            ("excluded.periods", "9:00-10:00;never"),
        ],
        expect![[r#"
            spec.flinkConfiguration.job.autoscaler.excluded.periods: invalid period `never`: `never` is neither a daily range such as `9:30-10:50:20` nor a Quartz cron expression (expected 6 or 7 fields, found 1)
            spec.flinkConfiguration.job.autoscaler.metrics.window: `30 s` is shorter than `kubernetes.operator.reconcile.interval`, which is 1 min: there would be fewer than two samples
        "#]],
    );
}

/// The operator's own configuration is blamed for options that it sets.
#[test]
fn places() {
    let config = FlinkConfig::from_iter([
        ("kubernetes.operator.job.autoscaler.enabled", "true"),
        ("job.autoscaler.target.utilization", "5"),
    ]);
    let own = FlinkConfig::from_iter([("kubernetes.operator.job.autoscaler.enabled", "true")]);
    let text = lines(&check(&config, &Places { own }));
    expect![[r#"
        operator configuration `job.autoscaler.target.utilization`: `5` is out of range: it must be from 0 to 1
    "#]]
    .assert_eq(&text);
}
