//! The operator's own options as a table: what each is when nobody sets it, how its value is read,
//! and when a change of it takes effect.

use super::FlinkConfig;
use super::option::{ConfigOption, InvalidValue, OptionValue};
use super::options as o;
use super::secret::is_secret;

/// Below it are defaults for resources, by namespace or Flink version.
const DEFAULTS: &str = "kubernetes.operator.default-configuration.";

/// When a new value counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// With the next pass over each resource.
    Live,
    /// When the cluster of a resource is started the next time.
    AtDeploy,
    /// When the operator is started again.
    AtStart,
    /// Never: an option of the Java operator that means nothing here.
    Nowhere,
}

/// One option.
#[derive(Debug)]
pub struct Known {
    pub key: &'static str,
    /// Older names, which count as long as the key itself is not set.
    pub former_keys: &'static [&'static str],
    pub default: Option<&'static str>,
    pub effect: Effect,
    expected: &'static str,
    is_valid: fn(&str) -> bool,
}

impl Known {
    /// Every name of the option, the current one first.
    pub fn keys(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.key).chain(self.former_keys.iter().copied())
    }
}

/// Every option of the operator that has a type.
pub const ALL: &[Known] = &[
    live(&o::RECONCILE_INTERVAL),
    at_start(&o::RECONCILE_PARALLELISM),
    unused(&o::OBSERVER_REST_READY_DELAY),
    live(&o::OBSERVER_PROGRESS_CHECK_INTERVAL),
    live(&o::FLINK_CLIENT_TIMEOUT),
    live(&o::FLINK_CLIENT_CANCEL_TIMEOUT),
    live(&o::RESOURCE_CLEANUP_TIMEOUT),
    live(&o::JOB_SUBMISSION_TIMEOUT),
    live(&o::USER_ARTIFACTS_BASE_DIR),
    live(&o::USER_ARTIFACTS_ALLOWED_SCHEMES),
    live(&o::USER_ARTIFACTS_DISALLOW_RESTRICTED_HOSTS),
    live(&o::USER_ARTIFACTS_MAX_SIZE),
    live(&o::USER_ARTIFACTS_TIMEOUT),
    live(&o::USER_ARTIFACTS_CACHE_SIZE),
    live(&o::LEFTOVERS_RETENTION),
    unused(&o::EXCEPTION_STACKTRACE_ENABLED),
    unused(&o::EXCEPTION_STACKTRACE_MAX_LENGTH),
    unused(&o::EXCEPTION_FIELD_MAX_LENGTH),
    unused(&o::EXCEPTION_THROWABLE_LIST_MAX_COUNT),
    live(&o::WATCHED_NAMESPACES),
    live(&o::DYNAMIC_NAMESPACES_ENABLED),
    unused(&o::RETRY_INITIAL_INTERVAL),
    unused(&o::RETRY_MAX_INTERVAL),
    unused(&o::RETRY_INTERVAL_MULTIPLIER),
    unused(&o::RETRY_MAX_ATTEMPTS),
    unused(&o::RATE_LIMITER_REFRESH_PERIOD),
    unused(&o::RATE_LIMITER_LIMIT),
    at_start(&o::LEADER_ELECTION_ENABLED),
    at_start(&o::LEADER_ELECTION_LEASE_NAME),
    at_start(&o::LEADER_ELECTION_LEASE_DURATION),
    at_start(&o::LEADER_ELECTION_RENEW_DEADLINE),
    at_start(&o::LEADER_ELECTION_RETRY_PERIOD),
    at_start(&o::SHARDING_SHARDS),
    at_start(&o::DYNAMIC_CONFIG_ENABLED),
    at_start(&o::DYNAMIC_CONFIG_CHECK_INTERVAL),
    unused(&o::CONFIG_CACHE_TIMEOUT),
    unused(&o::CONFIG_CACHE_SIZE),
    at_start(&o::LABEL_SELECTOR),
    live(&o::LOG_LEVELS),
    at_start(&o::LOG_FORMAT),
    at_start(&o::HEALTH_PROBE_ENABLED),
    at_start(&o::HEALTH_PROBE_PORT),
    live(&o::HEALTH_CANARY_RESOURCE_TIMEOUT),
    at_start(&o::STARTUP_STOP_ON_INFORMER_ERROR),
    live(&o::TERMINATION_TIMEOUT),
    live(&o::SAVEPOINT_HISTORY_MAX_COUNT_THRESHOLD),
    live(&o::SAVEPOINT_HISTORY_MAX_AGE_THRESHOLD),
    live(&o::RESOURCE_DELETION_PROPAGATION),
    unused(&o::CLUSTER_RESOURCE_VIEW_REFRESH_INTERVAL),
    live(&o::EVENTS_EXCEPTIONS_STACKTRACE_LINES),
    live(&o::EVENTS_EXCEPTIONS_LIMIT_PER_RECONCILIATION),
    at_deploy(&o::INGRESS_GATEWAY),
    live(&o::INGRESS_MANAGE),
    live(&o::SAVEPOINT_TRIGGER_GRACE_PERIOD),
    live(&o::CHECKPOINT_TRIGGER_GRACE_PERIOD),
    live(&o::SAVEPOINT_FORMAT_TYPE),
    live(&o::CHECKPOINT_TYPE),
    live(&o::SAVEPOINT_DISPOSE_ON_DELETE),
    live(&o::SAVEPOINT_CLEANUP_ENABLED),
    live(&o::SAVEPOINT_HISTORY_MAX_COUNT),
    live(&o::SAVEPOINT_HISTORY_MAX_AGE),
    live(&o::PERIODIC_SAVEPOINT_INTERVAL),
    live(&o::PERIODIC_CHECKPOINT_INTERVAL),
    live(&o::SNAPSHOT_RESOURCE_ENABLED),
    live(&o::node_notice::SNAPSHOT),
    live(&o::node_notice::COOLDOWN),
    live(&o::node_notice::TAINTS),
    live(&o::DEPLOYMENT_ROLLBACK_ENABLED),
    live(&o::DEPLOYMENT_READINESS_TIMEOUT),
    live(&o::DEPLOYMENT_STABLE_RUNNING_FOR),
    live(&o::DEPLOYMENT_STABLE_CHECKPOINTS),
    live(&o::DEPLOYMENT_STABLE_RESTARTS_MAX),
    live(&o::JOB_UPGRADE_IGNORE_PENDING_SAVEPOINT),
    live(&o::JOB_UPGRADE_INPLACE_SCALING_ENABLED),
    live(&o::JOB_UPGRADE_LAST_STATE_FALLBACK_ENABLED),
    live(&o::JOB_UPGRADE_LAST_STATE_MAX_ALLOWED_CHECKPOINT_AGE),
    live(&o::JOB_UPGRADE_LAST_STATE_JOB_CANCEL_ENABLED),
    live(&o::JOB_RESTART_FAILED),
    live(&o::JOB_SAVEPOINT_ON_DELETION),
    live(&o::JOB_DRAIN_ON_SAVEPOINT_DELETION),
    live(&o::JM_DEPLOYMENT_RECOVERY_ENABLED),
    live(&o::JM_DEPLOYMENT_SHUTDOWN_TTL),
    at_deploy(&o::JM_DEPLOYMENT_STARTUP_PROBE_ENABLED),
    at_deploy(&o::POD_TEMPLATE_MERGE_ARRAYS_BY_NAME),
    live(&o::CLUSTER_HEALTH_CHECK_ENABLED),
    live(&o::CLUSTER_HEALTH_CHECK_RESTARTS_WINDOW),
    live(&o::CLUSTER_HEALTH_CHECK_RESTARTS_THRESHOLD),
    live(&o::CLUSTER_HEALTH_CHECK_CHECKPOINT_PROGRESS_ENABLED),
    live(&o::CLUSTER_HEALTH_CHECK_CHECKPOINT_PROGRESS_WINDOW),
    live(&o::SESSION_DELETION_BLOCK_ON_SESSION_JOBS),
    live(&o::SESSION_DELETION_BLOCK_ON_UNMANAGED_JOBS),
    live(&o::USER_ARTIFACTS_HTTP_HEADER),
    live(&o::USER_ARTIFACTS_CHECKSUM),
    unused(&o::EXCEPTION_LABEL_MAPPER),
    at_start(&o::metrics::JVM_METRICS_ENABLED),
    at_start(&o::metrics::JOSDK_METRICS_ENABLED),
    at_start(&o::metrics::KUBERNETES_CLIENT_METRICS_ENABLED),
    at_start(&o::metrics::KUBERNETES_CLIENT_METRICS_CODE_GROUPS_ENABLED),
    at_start(&o::metrics::KUBERNETES_CLIENT_METRICS_SLOW_REQUEST_THRESHOLD),
    at_start(&o::metrics::RESOURCE_METRICS_ENABLED),
    at_start(&o::metrics::RESOURCE_LIFECYCLE_METRICS_ENABLED),
    at_start(&o::metrics::RESOURCE_LIFECYCLE_NAMESPACE_HISTOGRAMS_ENABLED),
    at_start(&o::metrics::METRICS_HISTOGRAM_SAMPLE_SIZE),
    at_start(&o::metrics::METRICS_SCOPE_SYSTEM),
    at_start(&o::metrics::METRICS_SCOPE_NAMESPACE),
    at_start(&o::metrics::METRICS_SCOPE_RESOURCE),
];

/// Options of Flink that the operator reads at each look at a cluster: with one that cannot be read
/// it would lose sight of all of them.
const FLINKS: &[Known] = &[
    live(&o::REST_PORT),
    live(&o::SSL_REST_ENABLED),
    live(&o::CHECKPOINTING_INTERVAL),
    live(&o::CHECKPOINTING_TIMEOUT),
    live(&o::PARALLELISM),
];

const fn live<T: OptionValue>(option: &ConfigOption<T>) -> Known {
    known(option, Effect::Live)
}

const fn at_deploy<T: OptionValue>(option: &ConfigOption<T>) -> Known {
    known(option, Effect::AtDeploy)
}

const fn at_start<T: OptionValue>(option: &ConfigOption<T>) -> Known {
    known(option, Effect::AtStart)
}

const fn unused<T: OptionValue>(option: &ConfigOption<T>) -> Known {
    known(option, Effect::Nowhere)
}

const fn known<T: OptionValue>(option: &ConfigOption<T>, effect: Effect) -> Known {
    Known {
        key: option.key(),
        former_keys: option.former_keys(),
        default: option.default_text(),
        effect,
        expected: T::EXPECTED,
        is_valid: is_valid::<T>,
    }
}

fn is_valid<T: OptionValue>(text: &str) -> bool {
    T::parse(text).is_some()
}

/// The option that has this name, now or formerly.
pub fn find(key: &str) -> Option<&'static Known> {
    ALL.iter().find(|known| known.keys().any(|name| name == key))
}

/// The key without what makes it a default of a namespace or Flink version.
pub(super) fn plain(key: &str) -> &str {
    let Some(below) = key.strip_prefix(DEFAULTS) else { return key };
    below.splitn(3, '.').nth(2).unwrap_or(key)
}

/// Values that are not of their option's type, as defaults of a namespace or version too.
pub fn wrong_values(config: &FlinkConfig) -> Vec<InvalidValue> {
    let mut all = Vec::new();
    for (key, text) in config.iter() {
        let name = plain(key);
        let flinks = FLINKS.iter().find(|known| known.keys().any(|known| known == name));
        let Some(known) = find(name).or(flinks) else { continue };
        if known.effect == Effect::Nowhere || (known.is_valid)(text) {
            continue;
        }
        let wrong = InvalidValue::new(key, text, known.expected);
        all.push(if is_secret(key) { wrong.hidden() } else { wrong });
    }
    all
}

#[cfg(test)]
mod tests;
