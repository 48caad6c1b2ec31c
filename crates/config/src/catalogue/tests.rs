use super::*;
use crate::flink_config::OPERATOR_PREFIX;

fn wrong(key: &str, value: &str) -> Vec<String> {
    let config: FlinkConfig = [(key, value)].into_iter().collect();
    wrong_values(&config).iter().map(ToString::to_string).collect()
}

#[test]
fn a_value_that_is_not_of_its_type_is_told_with_its_key() {
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
        // Means nothing here, whatever it is.
        ("kubernetes.operator.retry.max.attempts", "many"),
        ("taskmanager.numberOfTaskSlots", "many"),
        ("kubernetes.operator.default-configuration.namespace.shop", "odd"),
    ] {
        assert_eq!(wrong(key, value), [""; 0], "{key}");
    }
}

#[test]
fn what_no_code_reads_is_not_told_to_count() {
    let unused: Vec<&str> =
        ALL.iter().filter(|known| known.effect == Effect::Nowhere).map(|known| known.key).collect();
    let prefix = "kubernetes.operator.";
    let names: Vec<&str> = unused.iter().filter_map(|key| key.strip_prefix(prefix)).collect();
    assert_eq!(
        names,
        [
            "observer.rest-ready.delay",
            "exception.stacktrace.enabled",
            "exception.stacktrace.max.length",
            "exception.field.max.length",
            "exception.throwable.list.max.count",
            "retry.initial.interval",
            "retry.max.interval",
            "retry.interval.multiplier",
            "retry.max.attempts",
            "rate-limiter.refresh-period",
            "rate-limiter.limit",
            "config.cache.timeout",
            "config.cache.size",
            "cluster.resource-view.refresh-interval",
            "exception.label.mapper",
        ]
    );
}

#[test]
fn a_secret_is_not_told() {
    let told = wrong("kubernetes.operator.user.artifacts.http.header", "Bearer abc");
    let [told] = told.as_slice() else { panic!("{told:?}") };
    assert!(!told.contains("abc"), "{told}");
}

#[test]
fn every_option_of_the_operator_is_in_the_table() {
    let sources = concat!(
        include_str!("../options.rs"),
        include_str!("../options/metrics.rs"),
        include_str!("../options/node_notice.rs"),
    );
    let start = format!("::new(\"{OPERATOR_PREFIX}");
    let flat: String = sources.split_whitespace().collect();
    let keys = flat.split(&start).skip(1).filter_map(|rest| rest.split('"').next());
    let missing: Vec<&str> =
        keys.filter(|name| find(&format!("{OPERATOR_PREFIX}{name}")).is_none()).collect();
    assert!(missing.is_empty(), "not in ALL: {missing:?}");
}

#[test]
fn every_default_is_valid() {
    for known in ALL {
        if let Some(default) = known.default {
            assert!((known.is_valid)(default), "{}", known.key);
        }
    }
}
