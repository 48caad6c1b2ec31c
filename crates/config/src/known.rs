//! Which options of the operator there are, to point out one that there is not: an option with a
//! slip in its name has no effect, and nobody notices.

use super::FlinkConfig;
use super::flink_config::OPERATOR_PREFIX;

/// Below these, names are chosen by others.
const OPEN: [&str; 5] = [
    "default-configuration.",
    "job.autoscaler.",
    "metrics.",
    "plugins.",
    "user.artifacts.http.header.",
];

/// Names that look less like one that there is are not guessed.
const LIKENESS_MIN: f64 = 0.75;
/// So many names are guessed at most: who gets more than that wrong has another file in mind.
const GUESSES_MAX: usize = 20;

/// Every option below `kubernetes.operator.`, those of the Java operator that have no effect here
/// and deprecated names included.
const KNOWN: &[&str] = &[
    "bluegreen.abort.grace-period",
    "bluegreen.deployment-deletion.delay",
    "bluegreen.reconciliation.reschedule-interval",
    "checkpoint.trigger.grace-period",
    "checkpoint.type",
    "cluster.health-check.checkpoint-progress.enabled",
    "cluster.health-check.checkpoint-progress.window",
    "cluster.health-check.enabled",
    "cluster.health-check.restarts.threshold",
    "cluster.health-check.restarts.window",
    "cluster.resource-view.refresh-interval",
    "config.cache.size",
    "config.cache.timeout",
    "deployment.readiness.timeout",
    "deployment.rollback.enabled",
    "deployment.stable.checkpoints",
    "deployment.stable.restarts.max",
    "deployment.stable.running-for",
    "dynamic.config.check.interval",
    "dynamic.config.enabled",
    "dynamic.namespaces.enabled",
    "events.exceptions.limit-per-reconciliation",
    "events.exceptions.stacktrace-lines",
    "exception.field.max.length",
    "exception.label.mapper",
    "exception.stacktrace.enabled",
    "exception.stacktrace.max.length",
    "exception.throwable.list.max.count",
    "flink.client.cancel.timeout",
    "flink.client.timeout",
    "health.canary.resource.timeout",
    "health.probe.enabled",
    "health.probe.port",
    "ingress.gateway",
    "ingress.manage",
    "jm-deployment-recovery.enabled",
    "jm-deployment.shutdown-ttl",
    "jm-deployment.startup.probe.enabled",
    "job.drain-on-savepoint-deletion",
    "job.restart.failed",
    "job.savepoint-on-deletion",
    "job.submission.timeout",
    "job.upgrade.ignore-pending-savepoint",
    "job.upgrade.inplace-scaling.enabled",
    "job.upgrade.last-state-fallback.enabled",
    "job.upgrade.last-state.job-cancel.enabled",
    "job.upgrade.last-state.max.allowed.checkpoint.age",
    "josdk.metrics.enabled",
    "jvm.metrics.enabled",
    "kubernetes.client.metrics.enabled",
    "kubernetes.client.metrics.http.response.code.groups.enabled",
    "kubernetes.client.metrics.slow.request.threshold",
    "label.selector",
    "leader-election.enabled",
    "leader-election.lease-duration",
    "leader-election.lease-name",
    "leader-election.renew-deadline",
    "leader-election.retry-period",
    "leftovers.retention",
    "log.format",
    "log.levels",
    "node-notice.cooldown",
    "node-notice.snapshot",
    "node-notice.taints",
    "observer.flink.client.timeout",
    "observer.progress-check.interval",
    "observer.rest-ready.delay",
    "observer.savepoint.trigger.grace-period",
    "periodic.checkpoint.interval",
    "periodic.savepoint.interval",
    "pod-template.merge-arrays-by-name",
    "rate-limiter.limit",
    "rate-limiter.refresh-period",
    "reconcile.interval",
    "reconcile.parallelism",
    "reconciler.flink.cancel.job.timeout",
    "reconciler.flink.cluster.shutdown.timeout",
    "reconciler.jm-deployment-recovery.enabled",
    "reconciler.max.parallelism",
    "reconciler.reschedule.interval",
    "resource.cleanup.timeout",
    "resource.deletion.propagation",
    "resource.lifecycle.metrics.enabled",
    "resource.lifecycle.namespace.histograms.enabled",
    "resource.metrics.enabled",
    "retry.initial.interval",
    "retry.interval.multiplier",
    "retry.max.attempts",
    "retry.max.interval",
    "savepoint.cleanup.enabled",
    "savepoint.dispose-on-delete",
    "savepoint.format.type",
    "savepoint.history.max.age",
    "savepoint.history.max.age.threshold",
    "savepoint.history.max.count",
    "savepoint.history.max.count.threshold",
    "savepoint.trigger.grace-period",
    "session.block-on-unmanaged-jobs",
    "session.deletion.block-on-session-jobs",
    "session.deletion.block-on-unmanaged-jobs",
    "sharding.shards",
    "snapshot.resource.enabled",
    "startup.stop-on-informer-error",
    "termination.timeout",
    "user.artifacts.allowed-schemes",
    "user.artifacts.base.dir",
    "user.artifacts.cache.max-size",
    "user.artifacts.checksum",
    "user.artifacts.disallow-restricted-hosts",
    "user.artifacts.http.header",
    "user.artifacts.max-size",
    "user.artifacts.timeout",
    "watched.namespaces",
];

/// An option that there is not, or that nobody reads where it is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unknown {
    pub key: String,
    /// The one that may be meant.
    pub nearest: Option<String>,
}

impl Unknown {
    fn is_of_blue_green(&self) -> bool {
        split(&self.key).is_some_and(|(_, name)| is_of_blue_green(name))
    }
}

impl std::fmt::Display for Unknown {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_of_blue_green() {
            return write!(
                formatter,
                "`{}` has no effect: FlinkBlueGreenDeployments are not operated here, and the Java \
                 operator reads it in their `spec.configuration` alone",
                self.key
            );
        }
        write!(formatter, "`{}` has no effect: there is no such option", self.key)?;
        match &self.nearest {
            Some(nearest) => write!(formatter, "; is `{nearest}` meant?"),
            None => Ok(()),
        }
    }
}

/// The options of the operator that nobody knows, as defaults of a namespace or version too.
pub fn unknown_options(config: &FlinkConfig) -> Vec<Unknown> {
    let mut all = Vec::new();
    for (key, _) in config.iter() {
        let Some((before, name)) = split(key) else { continue };
        let is_read = KNOWN.contains(&name) && !is_of_blue_green(name);
        if is_read || OPEN.iter().any(|open| name.starts_with(open)) {
            continue;
        }
        let nearest = if all.len() < GUESSES_MAX { nearest(name) } else { None };
        let nearest = nearest.map(|nearest| format!("{before}{nearest}"));
        all.push(Unknown { key: key.to_owned(), nearest });
    }
    all
}

/// Whether it is an option of `FlinkBlueGreenDeployment`s.
fn is_of_blue_green(name: &str) -> bool {
    name.starts_with("bluegreen.") && KNOWN.contains(&name)
}

/// Up to and with the last prefix of the operator, and the rest.
fn split(key: &str) -> Option<(&str, &str)> {
    let (before, name) = key.rsplit_once(OPERATOR_PREFIX)?;
    let is_whole = before.is_empty() || before.ends_with('.');
    is_whole.then(|| (key.strip_suffix(name).unwrap_or(key), name))
}

fn nearest(name: &str) -> Option<&'static str> {
    // Two of very different length are not alike: a long name, which anybody may send to the webhook,
    // is compared with few or none.
    let may_be_alike = |known: &&&str| {
        let (shorter, longer) = (name.len().min(known.len()), name.len().max(known.len()));
        shorter * 2 >= longer
    };
    let likeness = |known| (strsim::normalized_damerau_levenshtein(name, known), known);
    let all = KNOWN.iter().filter(may_be_alike).map(|known| likeness(*known));
    let (likeness, best) = all.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (likeness >= LIKENESS_MIN).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(key: &str) -> Vec<String> {
        let config: FlinkConfig = [(key, "1")].into_iter().collect();
        unknown_options(&config).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_slip_is_told_with_what_is_meant() {
        assert_eq!(
            found("kubernetes.operator.reconcile.intervall"),
            [
                "`kubernetes.operator.reconcile.intervall` has no effect: there is no such option; is \
              `kubernetes.operator.reconcile.interval` meant?"
            ]
        );
        assert_eq!(
            found(
                "kubernetes.operator.default-configuration.namespace.shop.kubernetes.operator.job.restart.faild"
            ),
            [
                "`kubernetes.operator.default-configuration.namespace.shop.kubernetes.operator.job.restart.faild` \
              has no effect: there is no such option; is \
              `kubernetes.operator.default-configuration.namespace.shop.kubernetes.operator.job.restart.failed` \
              meant?"
            ]
        );
    }

    #[test]
    fn an_option_of_blue_green_deployments_is_read_nowhere_else() {
        for prefix in ["", "kubernetes.operator.default-configuration.namespace.shop."] {
            let key = format!("{prefix}kubernetes.operator.bluegreen.abort.grace-period");
            let all = found(&key);
            assert_eq!(all.len(), 1);
            assert!(all[0].contains("`spec.configuration` alone"), "{all:?}");
        }
        let slip = found("kubernetes.operator.bluegreen.abort.grace-periods");
        assert!(slip[0].contains("is `kubernetes.operator.bluegreen.abort.grace-period` meant"));
    }

    #[test]
    fn what_is_like_nothing_is_not_guessed() {
        assert_eq!(
            found("kubernetes.operator.cloud"),
            ["`kubernetes.operator.cloud` has no effect: there is no such option"]
        );
    }

    #[test]
    fn few_names_are_guessed_and_none_for_what_is_very_long() {
        let name = |number| format!("kubernetes.operator.reconcile.intervall{number}");
        let config: FlinkConfig = (0..50).map(|number| (name(number), "1")).collect();
        let unknown = unknown_options(&config);
        assert_eq!(unknown.len(), 50);
        assert_eq!(unknown.iter().filter(|one| one.nearest.is_some()).count(), GUESSES_MAX);
        let long = "x".repeat(1 << 20);
        assert_eq!(nearest(&format!("reconcile.interval{long}")), None);
    }

    #[test]
    fn what_others_name_and_what_is_flinks_is_let_pass() {
        for key in [
            "kubernetes.operator.plugins.listeners.audit.url",
            "kubernetes.operator.metrics.reporter.slf4j.interval",
            "kubernetes.operator.default-configuration.flink-version.v1_20.state.backend",
            "kubernetes.operator.reconciler.reschedule.interval",
            "taskmanager.numberOfTaskSlots",
            "kubernetes.operators",
        ] {
            assert_eq!(found(key), [""; 0], "{key}");
        }
    }

    #[test]
    fn every_option_of_this_operator_is_known() {
        let sources = [
            include_str!("options.rs"),
            include_str!("options/metrics.rs"),
            include_str!("options/node_notice.rs"),
        ];
        let start = format!("\"{OPERATOR_PREFIX}");
        let quoted = sources.iter().flat_map(|source| source.split(&start).skip(1));
        let names = quoted.filter_map(|rest| rest.split('"').next());
        let is_open = |name: &str| OPEN.iter().any(|open| name.starts_with(open));
        let missing: Vec<&str> =
            names.filter(|name| !KNOWN.contains(name) && !is_open(name)).collect();
        assert!(missing.is_empty(), "not in KNOWN: {missing:?}");
    }
}
