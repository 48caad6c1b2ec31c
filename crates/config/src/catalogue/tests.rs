use std::collections::BTreeSet;

use expect_test::expect_file;

use super::*;
use crate::flink_config::OPERATOR_PREFIX;
use crate::{duration, memory};

fn wrong(key: &str, value: &str) -> Vec<String> {
    let config: FlinkConfig = [(key, value)].into_iter().collect();
    wrong_values(&config).iter().map(ToString::to_string).collect()
}

#[test]
fn a_value_that_is_not_of_its_type_is_reported_with_its_key() {
    for key in [
        "kubernetes.operator.reconcile.interval",
        "kubernetes.operator.reconciler.reschedule.interval",
        "kubernetes.operator.default-configuration.namespace.shop.kubernetes.operator.reconcile.interval",
        "kubernetes.operator.default-configuration.flink-version.v1_20+.execution.checkpointing.timeout",
    ] {
        let told = wrong(key, "soon");
        let [told] = told.as_slice() else { panic!("{key}: {told:?}") };
        assert!(told.starts_with(&format!("invalid value `soon` of `{key}`: expected")), "{told}");
    }
}

#[test]
fn what_is_right_or_not_the_operators_to_read_is_let_pass() {
    for (key, value) in [
        ("kubernetes.operator.reconcile.interval", "5 MINUTE"),
        ("kubernetes.operator.savepoint.format.type", "native"),
        ("kubernetes.operator.watched.namespaces", "shop, fraud"),
        ("kubernetes.operator.cluster.resource-view.refresh-interval", "-1 min"),
        // Has no effect here, whatever it is.
        ("kubernetes.operator.retry.max.attempts", "many"),
        ("taskmanager.numberOfTaskSlots", "many"),
        ("kubernetes.operator.default-configuration.namespace.shop", "odd"),
    ] {
        assert_eq!(wrong(key, value), [""; 0], "{key}");
    }
}

#[test]
fn what_no_code_reads_is_not_listed_as_read() {
    let unused: Vec<&str> =
        all().filter(|known| known.effect == Effect::Nowhere).map(|known| known.key).collect();
    let prefix = "kubernetes.operator.";
    let names: Vec<&str> = unused.iter().filter_map(|key| key.strip_prefix(prefix)).collect();
    assert_eq!(
        names,
        [
            "observer.rest-ready.delay",
            "retry.initial.interval",
            "retry.max.interval",
            "retry.interval.multiplier",
            "retry.max.attempts",
            "rate-limiter.refresh-period",
            "rate-limiter.limit",
            "config.cache.timeout",
            "config.cache.size",
        ]
    );
}

#[test]
fn a_secret_is_not_shown() {
    let told = wrong("kubernetes.operator.user.artifacts.http.header", "Bearer abc");
    let [told] = told.as_slice() else { panic!("{told:?}") };
    assert!(!told.contains("abc"), "{told}");
}

fn tables() -> [(&'static str, &'static str, &'static [Known]); 7] {
    [
        (
            "Resources",
            "The operator's configuration sets their defaults; `spec.flinkConfiguration` overrides them.",
            o::OF_RESOURCES,
        ),
        (
            "Node notices",
            "Set in the same places, and only in this operator: [nodes.md](nodes.md).",
            o::node_notice::TABLE,
        ),
        (
            "FlinkBlueGreenDeployments",
            "The operator's configuration sets their defaults; their `spec.configuration` overrides them.",
            o::blue_green::TABLE,
        ),
        (
            "The autoscaler",
            "These can also be set for a resource: [autoscaler.md](autoscaler.md).",
            o::autoscaler::TABLE,
        ),
        (
            "Jars of session jobs",
            "Headers and the checksum are set for the job, all others only in the operator's configuration.",
            o::OF_JARS,
        ),
        ("The operator", "Only set in the operator's configuration.", o::OF_OPERATOR),
        (
            "Metrics",
            "Only set in the operator's configuration; reporters are in [metrics.md](metrics.md).",
            o::metrics::TABLE,
        ),
    ]
}

#[test]
fn every_default_reads() {
    let nothing = FlinkConfig::new();
    for known in tables().into_iter().flat_map(|(.., table)| table).chain(o::OF_EACH_LOOK) {
        assert_eq!((known.check)(&nothing), Ok(()));
    }
}

#[test]
fn every_option_is_in_one_table_under_names_of_its_own() {
    let shown = tables().into_iter().flat_map(|(.., table)| table).map(|known| known.key);
    let of_catalogue = all().map(|known| known.key);
    assert_eq!(shown.collect::<BTreeSet<_>>(), of_catalogue.collect());
    let mut names = BTreeSet::new();
    for name in all().flat_map(Known::keys) {
        assert!(names.insert(name), "{name} twice");
    }
}

#[test]
fn the_reference_is_up_to_date() {
    expect_file!["../../../../docs/options.md"].assert_eq(&reference());
}

/// `docs/options.md`.
fn reference() -> String {
    let sections = tables().map(|(title, about, table)| {
        let rows: Vec<String> = table.iter().map(row).collect();
        let head = "| option | default | applies | meaning | value |\n|---|---|---|---|---|\n";
        format!("\n## {title}\n\n{about}\n\n{head}{}", rows.concat())
    });
    format!(
        "\
# Options

<!-- Made from crates/config/src/options/ by a test; UPDATE_EXPECT=1 cargo test -p kubectl-flink-config reference -->

Every option of the operator. [configuration.md](configuration.md) says where options are read and which layer takes precedence. Options with user-defined
names are described on other pages: `kubernetes.operator.plugins.*` in [operator.md](operator.md), `kubernetes.operator.metrics.reporter.*` in
[metrics.md](metrics.md). *Applies* says when a change takes effect: `live` from the next pass over each resource, `at deploy` the next time its cluster
is started, `at start` the next time the operator is started, `never` for options of the Java operator that have no effect here. An older name is used
if the current one is not set. Autoscaler options that the Java operator also has could once be prefixed with `kubernetes.operator.`; this is not
repeated.

A duration is {}.
A size is {}.
{}",
        duration::EXPECTED,
        memory::EXPECTED,
        sections.concat()
    )
}

fn row(known: &Known) -> String {
    let Known { key, default, effect, description, expected, .. } = known;
    let prefixed = format!("{OPERATOR_PREFIX}{key}");
    let former = known.former_keys.iter().filter(|former| **former != prefixed);
    let former: Vec<String> = former.map(|former| format!("`{former}`")).collect();
    let former =
        if former.is_empty() { String::new() } else { format!(" Formerly {}.", former.join(", ")) };
    let default = match default {
        None => String::new(),
        Some("") => "empty".to_owned(),
        Some(default) => format!("`{default}`"),
    };
    let effect = effect.as_str();
    let value = match *expected {
        duration::EXPECTED => "a duration",
        memory::EXPECTED => "a size",
        expected => expected,
    };
    format!("| `{key}` | {default} | {effect} | {description}{former} | {value} |\n")
}
