//! Options whose values cannot be read.
//!
//! The Java operator meets them when it needs them, and then fails again and again. Here each
//! option that the operator reads for a resource is read once, before anything is done.

use config::FlinkConfig;
use config::option::{ConfigOption, OptionValue};
use config::options as o;

use super::{Finding, Places, Rule};

/// Reads every option that steers the handling of one resource.
pub(super) fn check(config: &FlinkConfig, places: &Places) -> Vec<Finding> {
    let mut form = Form { config, places, violations: Vec::new() };
    form.read(&o::RECONCILE_INTERVAL);
    form.read(&o::OBSERVER_PROGRESS_CHECK_INTERVAL);
    form.read(&o::FLINK_CLIENT_TIMEOUT);
    form.read(&o::FLINK_CLIENT_CANCEL_TIMEOUT);
    form.read(&o::RESOURCE_CLEANUP_TIMEOUT);
    form.read(&o::JOB_SUBMISSION_TIMEOUT);
    form.read(&o::EVENTS_EXCEPTIONS_STACKTRACE_LINES);
    form.read(&o::EVENTS_EXCEPTIONS_LIMIT_PER_RECONCILIATION);
    form.read(&o::RESOURCE_DELETION_PROPAGATION);
    form.read(&o::INGRESS_MANAGE);
    form.read(&o::INGRESS_GATEWAY);
    form.read(&o::SAVEPOINT_TRIGGER_GRACE_PERIOD);
    form.read(&o::CHECKPOINT_TRIGGER_GRACE_PERIOD);
    form.read(&o::SAVEPOINT_FORMAT_TYPE);
    form.read(&o::CHECKPOINT_TYPE);
    form.read(&o::SAVEPOINT_DISPOSE_ON_DELETE);
    form.read(&o::SAVEPOINT_CLEANUP_ENABLED);
    form.read(&o::SAVEPOINT_HISTORY_MAX_COUNT);
    form.read(&o::SAVEPOINT_HISTORY_MAX_AGE);
    form.read(&o::SNAPSHOT_RESOURCE_ENABLED);
    form.read(&o::node_notice::SNAPSHOT);
    form.read(&o::node_notice::COOLDOWN);
    form.read(&o::node_notice::TAINTS);
    form.read(&o::DEPLOYMENT_ROLLBACK_ENABLED);
    form.read(&o::DEPLOYMENT_READINESS_TIMEOUT);
    form.read(&o::DEPLOYMENT_STABLE_RUNNING_FOR);
    form.read(&o::DEPLOYMENT_STABLE_CHECKPOINTS);
    form.read(&o::DEPLOYMENT_STABLE_RESTARTS_MAX);
    form.read(&o::JOB_UPGRADE_IGNORE_PENDING_SAVEPOINT);
    form.read(&o::JOB_UPGRADE_INPLACE_SCALING_ENABLED);
    form.read(&o::JOB_UPGRADE_LAST_STATE_FALLBACK_ENABLED);
    form.read(&o::JOB_UPGRADE_LAST_STATE_MAX_ALLOWED_CHECKPOINT_AGE);
    form.read(&o::JOB_UPGRADE_LAST_STATE_JOB_CANCEL_ENABLED);
    form.read(&o::JOB_RESTART_FAILED);
    form.read(&o::JOB_SAVEPOINT_ON_DELETION);
    form.read(&o::JOB_DRAIN_ON_SAVEPOINT_DELETION);
    form.read(&o::JM_DEPLOYMENT_RECOVERY_ENABLED);
    form.read(&o::JM_DEPLOYMENT_SHUTDOWN_TTL);
    form.read(&o::JM_DEPLOYMENT_STARTUP_PROBE_ENABLED);
    form.read(&o::POD_TEMPLATE_MERGE_ARRAYS_BY_NAME);
    form.read(&o::CLUSTER_HEALTH_CHECK_ENABLED);
    form.read(&o::CLUSTER_HEALTH_CHECK_RESTARTS_WINDOW);
    form.read(&o::CLUSTER_HEALTH_CHECK_RESTARTS_THRESHOLD);
    form.read(&o::CLUSTER_HEALTH_CHECK_CHECKPOINT_PROGRESS_ENABLED);
    form.read(&o::CLUSTER_HEALTH_CHECK_CHECKPOINT_PROGRESS_WINDOW);
    form.read(&o::SESSION_DELETION_BLOCK_ON_SESSION_JOBS);
    form.read(&o::SESSION_DELETION_BLOCK_ON_UNMANAGED_JOBS);
    form.read(&o::CHECKPOINTING_INTERVAL);
    form.read(&o::CHECKPOINTING_TIMEOUT);
    form.read(&o::TOLERABLE_FAILED_CHECKPOINTS);
    form.read(&o::REST_PORT);
    form.read(&o::JOB_MANAGER_RPC_PORT);
    form.read(&o::REST_SERVICE_EXPOSED_TYPE);
    form.read(&o::REST_SERVICE_ANNOTATIONS);
    form.read(&o::INTERNAL_SERVICE_ANNOTATIONS);
    form.read(&o::CONTAINER_IMAGE_PULL_POLICY);
    form.read(&o::CONTAINER_IMAGE_PULL_SECRETS);
    form.read(&o::JOB_MANAGER_CPU);
    form.read(&o::JOB_MANAGER_CPU_LIMIT_FACTOR);
    form.read(&o::JOB_MANAGER_MEMORY_LIMIT_FACTOR);
    form.read(&o::JOB_MANAGER_LABELS);
    form.read(&o::JOB_MANAGER_ANNOTATIONS);
    form.read(&o::JOB_MANAGER_NODE_SELECTOR);
    form.read(&o::JOB_MANAGER_TOLERATIONS);
    form.read(&o::TASK_MANAGER_CPU);
    form.read(&o::TASK_MANAGER_CPU_LIMIT_FACTOR);
    form.read(&o::TASK_MANAGER_MEMORY_LIMIT_FACTOR);
    form.read(&o::TASK_MANAGER_LABELS);
    form.read(&o::TASK_MANAGER_ANNOTATIONS);
    form.read(&o::TASK_MANAGER_NODE_SELECTOR);
    form.read(&o::TASK_MANAGER_TOLERATIONS);
    form.read(&o::ENV_SECRET_KEY_REFS);
    form.read(&o::SECRETS);
    form.read(&o::HOST_NETWORK_ENABLED);
    form.read(&o::PARALLELISM_OVERRIDES);
    form.read(&o::SSL_REST_ENABLED);
    form.slots();
    form.violations
}

struct Form<'a> {
    config: &'a FlinkConfig,
    places: &'a Places,
    violations: Vec<Finding>,
}

impl Form<'_> {
    fn read<T: OptionValue>(&mut self, option: &ConfigOption<T>) -> Option<T> {
        self.config.find(option).unwrap_or_else(|invalid| {
            self.violations.push(self.places.invalid(&invalid));
            None
        })
    }

    /// A TaskManager without slots runs nothing, and Flink refuses to start it.
    fn slots(&mut self) {
        if let Some(slots) = self.read(&o::TASK_SLOTS).filter(|slots| *slots < 1) {
            self.violations.push(Rule::TaskSlots.found(
                self.places.of(self.config, &o::TASK_SLOTS),
                format!("is `{slots}`: it must be 1 or more"),
            ));
        }
    }
}
