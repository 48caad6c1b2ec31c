//! Options of the operator itself: what a resource says of them has no effect.

use std::time::Duration;

use super::List;
use crate::label_mapper::LabelMapper;
use crate::log_levels::{LogForm, LogLevels};
use crate::namespaces::Namespaces;
use crate::option::ConfigOption;

options! {
    OF_OPERATOR =>
    /// Resources reconciled at the same time; -1 for no limit.
    AtStart RECONCILE_PARALLELISM: i32 =
        "kubernetes.operator.reconcile.parallelism" or "50"
        formerly ["kubernetes.operator.reconciler.max.parallelism"];
    /// Pause of the Java operator between an open JobManager port and its first question.
    Nowhere OBSERVER_REST_READY_DELAY: Duration =
        "kubernetes.operator.observer.rest-ready.delay" or "10 s";
    /// Age from which ConfigMaps of former clusters and jobs go; 0 for never. Those that lead to
    /// state stay.
    Live LEFTOVERS_RETENTION: Duration = "kubernetes.operator.leftovers.retention" or "7 d";
    /// Includes Flink's stack trace of a job that failed in `status.error`.
    Live EXCEPTION_STACKTRACE_ENABLED: bool =
        "kubernetes.operator.exception.stacktrace.enabled" or "false";
    /// Characters of a stack trace in `status.error`.
    Live EXCEPTION_STACKTRACE_MAX_LENGTH: i32 =
        "kubernetes.operator.exception.stacktrace.max.length" or "2048";
    /// Characters of a message in `status.error`, at least 512.
    Live EXCEPTION_FIELD_MAX_LENGTH: i32 =
        "kubernetes.operator.exception.field.max.length" or "2048";
    /// Causes in `status.error`, beside those that the operator itself goes by.
    Live EXCEPTION_THROWABLE_LIST_MAX_COUNT: i32 =
        "kubernetes.operator.exception.throwable.list.max.count" or "2";
    /// Namespaces to operate, separated by commas, or `JOSDK_ALL_NAMESPACES`.
    Live WATCHED_NAMESPACES: Namespaces =
        "kubernetes.operator.watched.namespaces" or "JOSDK_ALL_NAMESPACES";
    /// Applies a change of the watched namespaces while the operator runs.
    Live DYNAMIC_NAMESPACES_ENABLED: bool =
        "kubernetes.operator.dynamic.namespaces.enabled" or "false";
    /// First pause of the Java operator after a pass that failed.
    Nowhere RETRY_INITIAL_INTERVAL: Duration =
        "kubernetes.operator.retry.initial.interval" or "5 s";
    /// Longest pause of the Java operator after a pass that failed.
    Nowhere RETRY_MAX_INTERVAL: Duration = "kubernetes.operator.retry.max.interval";
    /// By how much each pause of the Java operator is longer than the one before.
    Nowhere RETRY_INTERVAL_MULTIPLIER: f64 =
        "kubernetes.operator.retry.interval.multiplier" or "1.5";
    /// How often the Java operator tries again; -1 for no limit.
    Nowhere RETRY_MAX_ATTEMPTS: i32 = "kubernetes.operator.retry.max.attempts" or "15";
    /// Period in which the Java operator counts passes over a resource.
    Nowhere RATE_LIMITER_REFRESH_PERIOD: Duration =
        "kubernetes.operator.rate-limiter.refresh-period" or "15 s";
    /// Most passes of the Java operator over a resource in a period; zero or less for no limit.
    Nowhere RATE_LIMITER_LIMIT: i32 = "kubernetes.operator.rate-limiter.limit" or "5";
    /// Enables leader election: one of the replicas operates, and the others stand by.
    AtStart LEADER_ELECTION_ENABLED: bool =
        "kubernetes.operator.leader-election.enabled" or "false";
    /// Name of the Lease for which replicas contend; mandatory with leader election.
    AtStart LEADER_ELECTION_LEASE_NAME: String = "kubernetes.operator.leader-election.lease-name";
    /// How long a Lease lasts that nobody renews: from one second to one hour.
    AtStart LEADER_ELECTION_LEASE_DURATION: Duration =
        "kubernetes.operator.leader-election.lease-duration" or "15 s";
    /// How long after a renewal its holder may act on it; less than the Lease lasts.
    AtStart LEADER_ELECTION_RENEW_DEADLINE: Duration =
        "kubernetes.operator.leader-election.renew-deadline" or "10 s";
    /// Pause between two renewals or tries; at most half of the renew deadline.
    AtStart LEADER_ELECTION_RETRY_PERIOD: Duration =
        "kubernetes.operator.leader-election.retry-period" or "2 s";
    /// Into how many shards the namespaces are divided among several operators; 0 for one leader.
    AtStart SHARDING_SHARDS: i32 = "kubernetes.operator.sharding.shards" or "0";
    /// Reads the files of the configuration again while the operator runs.
    AtStart DYNAMIC_CONFIG_ENABLED: bool = "kubernetes.operator.dynamic.config.enabled" or "true";
    /// Pause between two looks at the files of the configuration, at least 1 s.
    AtStart DYNAMIC_CONFIG_CHECK_INTERVAL: Duration =
        "kubernetes.operator.dynamic.config.check.interval" or "5 min";
    /// How long the Java operator keeps a configuration that it has put together.
    Nowhere CONFIG_CACHE_TIMEOUT: Duration = "kubernetes.operator.config.cache.timeout" or "10 min";
    /// How many configurations the Java operator keeps.
    Nowhere CONFIG_CACHE_SIZE: i32 = "kubernetes.operator.config.cache.size" or "1000";
    /// Labels of the resources that are operated; all of them when unset. `--selector` wins.
    AtStart LABEL_SELECTOR: String = "kubernetes.operator.label.selector";
    /// Levels of the operator's log, in addition to the default ones.
    Live LOG_LEVELS: LogLevels = "kubernetes.operator.log.levels" or "info";
    /// Form of the lines of the operator's log.
    AtStart LOG_FORMAT: LogForm = "kubernetes.operator.log.format" or "text";
    /// Answers probes: in a pod, or where this option or the port is set.
    AtStart HEALTH_PROBE_ENABLED: bool = "kubernetes.operator.health.probe.enabled" or "true";
    /// Port on which probes are answered.
    AtStart HEALTH_PROBE_PORT: u16 = "kubernetes.operator.health.probe.port" or "8085";
    /// How long the pass over a changed canary may take before the operator counts as ill.
    Live HEALTH_CANARY_RESOURCE_TIMEOUT: Duration =
        "kubernetes.operator.health.canary.resource.timeout" or "1 min";
    /// Keeps the operator from starting when a namespace cannot be read.
    AtStart STARTUP_STOP_ON_INFORMER_ERROR: bool =
        "kubernetes.operator.startup.stop-on-informer-error" or "true";
    /// How long passes may take to their end, when the operator stops or a namespace is given up.
    Live TERMINATION_TIMEOUT: Duration = "kubernetes.operator.termination.timeout" or "10 s";
    /// Caps `kubernetes.operator.savepoint.history.max.count`.
    Live SAVEPOINT_HISTORY_MAX_COUNT_THRESHOLD: i32 =
        "kubernetes.operator.savepoint.history.max.count.threshold";
    /// Caps `kubernetes.operator.savepoint.history.max.age`.
    Live SAVEPOINT_HISTORY_MAX_AGE_THRESHOLD: Duration =
        "kubernetes.operator.savepoint.history.max.age.threshold";
    /// How often the room on the cluster's nodes is looked at, on which the autoscaler tries each
    /// scale-up; off when unset.
    Live CLUSTER_RESOURCE_VIEW_REFRESH_INTERVAL: Duration =
        "kubernetes.operator.cluster.resource-view.refresh-interval";
    /// Labels of errors in `status.error`, each by a regular expression that a message has to match.
    Live EXCEPTION_LABEL_MAPPER: LabelMapper = "kubernetes.operator.exception.label.mapper" or "";
    /// How many upgrades of running jobs and session clusters may be under way at once; 0 for none, no
    /// limit when unset. Suspends, deletions, recoveries and the autoscaler wait for nobody.
    Live UPGRADE_MAX_CONCURRENT: u32 = "kubernetes.operator.upgrade.max-concurrent";
    /// How many of them may be under way at once in one namespace.
    Live UPGRADE_MAX_CONCURRENT_PER_NAMESPACE: u32 =
        "kubernetes.operator.upgrade.max-concurrent.per-namespace";
    /// After how many failed upgrades in a row the others wait, until a spec is changed or
    /// `kubectl flink operator continue`; never when unset or 0.
    Live UPGRADE_PAUSE_AFTER_FAILURES: u32 = "kubernetes.operator.upgrade.pause-after-failures";
    /// Directories of the operator's pod from which a resource may name a keytab and a `krb5.conf`:
    /// whoever may edit one reads them. What the operator's own defaults name is read anyway.
    Live KERBEROS_DIRECTORIES: List = "kubernetes.operator.kerberos.directories" or "";
}
