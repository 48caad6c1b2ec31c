//! Options of the operator itself: a resource cannot set them.

use std::time::Duration;

use super::List;
use crate::label_mapper::LabelMapper;
use crate::log_levels::{LogForm, LogLevels};
use crate::namespaces::Namespaces;
use crate::option::{ConfigOption, MaybeInterval};

options! {
    OF_OPERATOR =>
    /// Resources reconciled at the same time. -1, no limit in the Java operator, stands for the
    /// default.
    AtStart RECONCILE_PARALLELISM: i32 =
        "kubernetes.operator.reconcile.parallelism" or "50"
        formerly ["kubernetes.operator.reconciler.max.parallelism"];
    /// Delay of the Java operator between an open JobManager port and its first request.
    Nowhere OBSERVER_REST_READY_DELAY: Duration =
        "kubernetes.operator.observer.rest-ready.delay" or "10 s";
    /// Age at which ConfigMaps of former clusters and jobs are removed; 0 for never. Those that
    /// lead to state are kept.
    Live LEFTOVERS_RETENTION: Duration = "kubernetes.operator.leftovers.retention" or "7 d";
    /// Includes Flink's stack trace of a failed job in `status.error`.
    Live EXCEPTION_STACKTRACE_ENABLED: bool =
        "kubernetes.operator.exception.stacktrace.enabled" or "false";
    /// Maximum characters of a stack trace in `status.error`.
    Live EXCEPTION_STACKTRACE_MAX_LENGTH: i32 =
        "kubernetes.operator.exception.stacktrace.max.length" or "2048";
    /// Maximum characters of a message in `status.error`, at least 512.
    Live EXCEPTION_FIELD_MAX_LENGTH: i32 =
        "kubernetes.operator.exception.field.max.length" or "2048";
    /// Maximum number of causes in `status.error`, besides those that the operator itself uses.
    Live EXCEPTION_THROWABLE_LIST_MAX_COUNT: i32 =
        "kubernetes.operator.exception.throwable.list.max.count" or "2";
    /// Namespaces to operate, separated by commas, or `JOSDK_ALL_NAMESPACES`.
    Live WATCHED_NAMESPACES: Namespaces =
        "kubernetes.operator.watched.namespaces" or "JOSDK_ALL_NAMESPACES";
    /// Applies a change of the watched namespaces while the operator runs.
    Live DYNAMIC_NAMESPACES_ENABLED: bool =
        "kubernetes.operator.dynamic.namespaces.enabled" or "false";
    /// First delay of the Java operator after a failed pass.
    Nowhere RETRY_INITIAL_INTERVAL: Duration =
        "kubernetes.operator.retry.initial.interval" or "5 s";
    /// Maximum delay of the Java operator after a failed pass.
    Nowhere RETRY_MAX_INTERVAL: Duration = "kubernetes.operator.retry.max.interval";
    /// Factor by which each delay of the Java operator is longer than the one before.
    Nowhere RETRY_INTERVAL_MULTIPLIER: f64 =
        "kubernetes.operator.retry.interval.multiplier" or "1.5";
    /// How often the Java operator retries; -1 for no limit.
    Nowhere RETRY_MAX_ATTEMPTS: i32 = "kubernetes.operator.retry.max.attempts" or "15";
    /// Period in which the Java operator counts passes over a resource.
    Nowhere RATE_LIMITER_REFRESH_PERIOD: Duration =
        "kubernetes.operator.rate-limiter.refresh-period" or "15 s";
    /// Maximum number of passes of the Java operator over a resource in a period; zero or less for
    /// no limit.
    Nowhere RATE_LIMITER_LIMIT: i32 = "kubernetes.operator.rate-limiter.limit" or "5";
    /// Enables leader election: one of the replicas operates, and the others stand by.
    AtStart LEADER_ELECTION_ENABLED: bool =
        "kubernetes.operator.leader-election.enabled" or "false";
    /// Name of the Lease that replicas compete for; required with leader election.
    AtStart LEADER_ELECTION_LEASE_NAME: String = "kubernetes.operator.leader-election.lease-name";
    /// How long a Lease is valid without renewal: from one second to one hour.
    AtStart LEADER_ELECTION_LEASE_DURATION: Duration =
        "kubernetes.operator.leader-election.lease-duration" or "15 s";
    /// How long its holder may act after a renewal; less than the lease duration.
    AtStart LEADER_ELECTION_RENEW_DEADLINE: Duration =
        "kubernetes.operator.leader-election.renew-deadline" or "10 s";
    /// Interval between renewals or attempts; at most half of the renew deadline.
    AtStart LEADER_ELECTION_RETRY_PERIOD: Duration =
        "kubernetes.operator.leader-election.retry-period" or "2 s";
    /// Number of shards into which namespaces are divided among several operators; 0 for one
    /// leader.
    AtStart SHARDING_SHARDS: i32 = "kubernetes.operator.sharding.shards" or "0";
    /// Reloads the configuration files while the operator runs.
    AtStart DYNAMIC_CONFIG_ENABLED: bool = "kubernetes.operator.dynamic.config.enabled" or "true";
    /// Interval between checks of the configuration files, at least 1 s.
    AtStart DYNAMIC_CONFIG_CHECK_INTERVAL: Duration =
        "kubernetes.operator.dynamic.config.check.interval" or "5 min";
    /// How long the Java operator caches a configuration.
    Nowhere CONFIG_CACHE_TIMEOUT: Duration = "kubernetes.operator.config.cache.timeout" or "10 min";
    /// How many configurations the Java operator caches.
    Nowhere CONFIG_CACHE_SIZE: i32 = "kubernetes.operator.config.cache.size" or "1000";
    /// Labels of the resources to operate; all resources when unset. Overridden by `--selector`.
    AtStart LABEL_SELECTOR: String = "kubernetes.operator.label.selector";
    /// Levels of the operator's log, in addition to the default ones.
    Live LOG_LEVELS: LogLevels = "kubernetes.operator.log.levels" or "info";
    /// Format of the operator's log lines.
    AtStart LOG_FORMAT: LogForm = "kubernetes.operator.log.format" or "text";
    /// Serves probes in a pod, or if this option or the port is set.
    AtStart HEALTH_PROBE_ENABLED: bool = "kubernetes.operator.health.probe.enabled" or "true";
    /// Port that serves probes.
    AtStart HEALTH_PROBE_PORT: u16 = "kubernetes.operator.health.probe.port" or "8085";
    /// How long the pass over a changed canary may take before the operator counts as unhealthy.
    Live HEALTH_CANARY_RESOURCE_TIMEOUT: Duration =
        "kubernetes.operator.health.canary.resource.timeout" or "1 min";
    /// Keeps the operator from starting when a namespace cannot be read.
    AtStart STARTUP_STOP_ON_INFORMER_ERROR: bool =
        "kubernetes.operator.startup.stop-on-informer-error" or "true";
    /// How long passes may take to finish when the operator stops or gives up a namespace.
    Live TERMINATION_TIMEOUT: Duration = "kubernetes.operator.termination.timeout" or "10 s";
    /// Caps `kubernetes.operator.savepoint.history.max.count`.
    Live SAVEPOINT_HISTORY_MAX_COUNT_THRESHOLD: i32 =
        "kubernetes.operator.savepoint.history.max.count.threshold";
    /// Caps `kubernetes.operator.savepoint.history.max.age`.
    Live SAVEPOINT_HISTORY_MAX_AGE_THRESHOLD: Duration =
        "kubernetes.operator.savepoint.history.max.age.threshold";
    /// How often the room on the cluster's nodes is read, for the autoscaler to check each
    /// scale-up.
    Live CLUSTER_RESOURCE_VIEW_REFRESH_INTERVAL: MaybeInterval =
        "kubernetes.operator.cluster.resource-view.refresh-interval" or "-1 min";
    /// Labels for errors in `status.error`, each with a regular expression that a message has to
    /// match.
    Live EXCEPTION_LABEL_MAPPER: LabelMapper = "kubernetes.operator.exception.label.mapper" or "";
    /// Maximum number of concurrent upgrades of running jobs and session clusters; 0 for none, no
    /// limit when unset. Suspends, deletions, recoveries and the autoscaler never wait.
    Live UPGRADE_MAX_CONCURRENT: u32 = "kubernetes.operator.upgrade.max-concurrent";
    /// Maximum number of concurrent upgrades per namespace.
    Live UPGRADE_MAX_CONCURRENT_PER_NAMESPACE: u32 =
        "kubernetes.operator.upgrade.max-concurrent.per-namespace";
    /// Number of consecutive failed upgrades after which the others wait, until a spec is changed
    /// or `kubectl flink operator continue`; never when unset or 0.
    Live UPGRADE_PAUSE_AFTER_FAILURES: u32 = "kubernetes.operator.upgrade.pause-after-failures";
    /// Directories in the operator's pod from which a resource may name a keytab and a `krb5.conf`:
    /// everybody who may edit a resource can read them. Files named in the operator's own defaults
    /// are always read.
    Live KERBEROS_DIRECTORIES: List = "kubernetes.operator.kerberos.directories" or "";
    /// Servers of ZooKeeper, each as `host:port`, from which the operator reads HA metadata, and
    /// where it removes it; any that a resource names when empty. Otherwise a resource must also
    /// stay below `high-availability.zookeeper.path.root` of the operator's configuration, if set.
    Live ZOOKEEPER_ALLOWED_SERVERS: List = "kubernetes.operator.zookeeper.allowed-servers" or "";
    /// Creates the Ingress that `spec.ingress` describes. Defaults of a namespace or a Flink version
    /// count too. A resource's own options can only set it to false.
    Live INGRESS_MANAGE: bool = "kubernetes.operator.ingress.manage" or "true";
    /// Domains for which `spec.ingress` may name hosts: each allows the host of this name and all
    /// hosts below it. Empty for any host. As with the other limits of Ingresses, what a resource
    /// had before stays.
    Live INGRESS_ALLOWED_HOSTS: List = "kubernetes.operator.ingress.allowed-hosts" or "";
    /// Ingress classes that `spec.ingress` may name, and then must. Empty for any.
    Live INGRESS_ALLOWED_CLASSES: List = "kubernetes.operator.ingress.allowed-classes" or "";
    /// Beginnings of the annotations that `spec.ingress` may set. Empty for all but those that
    /// change configuration, authentication or hosts of an Ingress controller, such as `-snippet`
    /// and `auth-`: these are only allowed by an entry that continues after the `/`, such as
    /// `nginx.ingress.kubernetes.io/auth-`.
    Live INGRESS_ALLOWED_ANNOTATIONS: List =
        "kubernetes.operator.ingress.allowed-annotations" or "";
}
