//! Every option that this operator reads or writes: its own (`kubernetes.operator.*`) and Flink's.
//!
//! Constants are named by their key without the operator's prefix. Names, types and defaults are
//! those of the Java operator and of Flink; names in [`ConfigOption::formerly`] are deprecated ones
//! that still count.

pub mod autoscaler;
pub mod metrics;
pub mod node_notice;

use std::collections::BTreeMap;
use std::time::Duration;

use api::status::{CheckpointType, SavepointFormatType};

use super::log_levels::{LogForm, LogLevels};
use super::memory::MemorySize;
use super::namespaces::Namespaces;
use super::option::{
    ConfigOption, DeletionPropagation, GatewayName, PullPolicy, ServiceExposedType,
};

type List = Vec<String>;
type TextMap = BTreeMap<String, String>;
type MapList = Vec<TextMap>;

/// Pause between two looks at a quiet resource.
pub const RECONCILE_INTERVAL: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.reconcile.interval")
        .or("60 s")
        .formerly(&["kubernetes.operator.reconciler.reschedule.interval"]);
/// Resources reconciled at the same time; -1 for no limit.
pub const RECONCILE_PARALLELISM: ConfigOption<i32> =
    ConfigOption::new("kubernetes.operator.reconcile.parallelism")
        .or("50")
        .formerly(&["kubernetes.operator.reconciler.max.parallelism"]);
/// Pause between an open JobManager port and the first question.
pub const OBSERVER_REST_READY_DELAY: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.observer.rest-ready.delay").or("10 s");
/// Pause while something is under way.
pub const OBSERVER_PROGRESS_CHECK_INTERVAL: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.observer.progress-check.interval").or("10 s");
pub const FLINK_CLIENT_TIMEOUT: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.flink.client.timeout")
        .or("10 s")
        .formerly(&["kubernetes.operator.observer.flink.client.timeout"]);
pub const FLINK_CLIENT_CANCEL_TIMEOUT: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.flink.client.cancel.timeout")
        .or("1 min")
        .formerly(&["kubernetes.operator.reconciler.flink.cancel.job.timeout"]);
pub const RESOURCE_CLEANUP_TIMEOUT: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.resource.cleanup.timeout")
        .or("5 min")
        .formerly(&["kubernetes.operator.reconciler.flink.cluster.shutdown.timeout"]);
pub const JOB_SUBMISSION_TIMEOUT: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.job.submission.timeout").or("10 min");
pub const USER_ARTIFACTS_BASE_DIR: ConfigOption<String> =
    ConfigOption::new("kubernetes.operator.user.artifacts.base.dir").or("/opt/flink/artifacts");
pub const USER_ARTIFACTS_ALLOWED_SCHEMES: ConfigOption<List> =
    ConfigOption::new("kubernetes.operator.user.artifacts.allowed-schemes").or("https");
pub const USER_ARTIFACTS_DISALLOW_RESTRICTED_HOSTS: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.user.artifacts.disallow-restricted-hosts").or("true");
/// The largest jar that is fetched.
pub const USER_ARTIFACTS_MAX_SIZE: ConfigOption<MemorySize> =
    ConfigOption::new("kubernetes.operator.user.artifacts.max-size").or("1 gb");
/// Longest time that one jar may take, from the first connection to the last byte.
pub const USER_ARTIFACTS_TIMEOUT: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.user.artifacts.timeout").or("10 min");
/// Disk for jars that were fetched before, so that an unchanged one is not sent again; 0 for none.
pub const USER_ARTIFACTS_CACHE_SIZE: ConfigOption<MemorySize> =
    ConfigOption::new("kubernetes.operator.user.artifacts.cache.max-size").or("512 mb");
/// Age from which ConfigMaps of former clusters and jobs are removed; 0 for never. Those that lead
/// to state stay.
pub const LEFTOVERS_RETENTION: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.leftovers.retention").or("7 d");
pub const EXCEPTION_STACKTRACE_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.exception.stacktrace.enabled").or("false");
pub const EXCEPTION_STACKTRACE_MAX_LENGTH: ConfigOption<i32> =
    ConfigOption::new("kubernetes.operator.exception.stacktrace.max.length").or("2048");
pub const EXCEPTION_FIELD_MAX_LENGTH: ConfigOption<i32> =
    ConfigOption::new("kubernetes.operator.exception.field.max.length").or("2048");
pub const EXCEPTION_THROWABLE_LIST_MAX_COUNT: ConfigOption<i32> =
    ConfigOption::new("kubernetes.operator.exception.throwable.list.max.count").or("2");
/// Separated by commas.
pub const WATCHED_NAMESPACES: ConfigOption<Namespaces> =
    ConfigOption::new("kubernetes.operator.watched.namespaces").or("JOSDK_ALL_NAMESPACES");
pub const DYNAMIC_NAMESPACES_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.dynamic.namespaces.enabled").or("false");
pub const RETRY_INITIAL_INTERVAL: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.retry.initial.interval").or("5 s");
/// No limit when unset.
pub const RETRY_MAX_INTERVAL: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.retry.max.interval");
pub const RETRY_INTERVAL_MULTIPLIER: ConfigOption<f64> =
    ConfigOption::new("kubernetes.operator.retry.interval.multiplier").or("1.5");
/// -1 for no limit.
pub const RETRY_MAX_ATTEMPTS: ConfigOption<i32> =
    ConfigOption::new("kubernetes.operator.retry.max.attempts").or("15");
pub const RATE_LIMITER_REFRESH_PERIOD: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.rate-limiter.refresh-period").or("15 s");
/// Zero or less for no limit.
pub const RATE_LIMITER_LIMIT: ConfigOption<i32> =
    ConfigOption::new("kubernetes.operator.rate-limiter.limit").or("5");
pub const LEADER_ELECTION_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.leader-election.enabled").or("false");
/// Mandatory with leader election.
pub const LEADER_ELECTION_LEASE_NAME: ConfigOption<String> =
    ConfigOption::new("kubernetes.operator.leader-election.lease-name");
pub const LEADER_ELECTION_LEASE_DURATION: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.leader-election.lease-duration").or("15 s");
pub const LEADER_ELECTION_RENEW_DEADLINE: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.leader-election.renew-deadline").or("10 s");
pub const LEADER_ELECTION_RETRY_PERIOD: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.leader-election.retry-period").or("2 s");
/// Into how many shards the namespaces are divided among several operators; 0 for one leader.
pub const SHARDING_SHARDS: ConfigOption<i32> =
    ConfigOption::new("kubernetes.operator.sharding.shards").or("0");
pub const DYNAMIC_CONFIG_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.dynamic.config.enabled").or("true");
pub const DYNAMIC_CONFIG_CHECK_INTERVAL: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.dynamic.config.check.interval").or("5 min");
pub const CONFIG_CACHE_TIMEOUT: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.config.cache.timeout").or("10 min");
pub const CONFIG_CACHE_SIZE: ConfigOption<i32> =
    ConfigOption::new("kubernetes.operator.config.cache.size").or("1000");
pub const LABEL_SELECTOR: ConfigOption<String> =
    ConfigOption::new("kubernetes.operator.label.selector");
/// What of the operator's log is written, beside what is written by default.
pub const LOG_LEVELS: ConfigOption<LogLevels> =
    ConfigOption::new("kubernetes.operator.log.levels").or("info");
pub const LOG_FORMAT: ConfigOption<LogForm> =
    ConfigOption::new("kubernetes.operator.log.format").or("text");
pub const HEALTH_PROBE_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.health.probe.enabled").or("true");
pub const HEALTH_PROBE_PORT: ConfigOption<u16> =
    ConfigOption::new("kubernetes.operator.health.probe.port").or("8085");
pub const HEALTH_CANARY_RESOURCE_TIMEOUT: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.health.canary.resource.timeout").or("1 min");
pub const STARTUP_STOP_ON_INFORMER_ERROR: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.startup.stop-on-informer-error").or("true");
pub const TERMINATION_TIMEOUT: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.termination.timeout").or("10 s");
/// Caps [`SAVEPOINT_HISTORY_MAX_COUNT`].
pub const SAVEPOINT_HISTORY_MAX_COUNT_THRESHOLD: ConfigOption<i32> =
    ConfigOption::new("kubernetes.operator.savepoint.history.max.count.threshold");
/// Caps [`SAVEPOINT_HISTORY_MAX_AGE`].
pub const SAVEPOINT_HISTORY_MAX_AGE_THRESHOLD: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.savepoint.history.max.age.threshold");
pub const RESOURCE_DELETION_PROPAGATION: ConfigOption<DeletionPropagation> =
    ConfigOption::new("kubernetes.operator.resource.deletion.propagation").or("Foreground");
/// Off when unset.
pub const CLUSTER_RESOURCE_VIEW_REFRESH_INTERVAL: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.cluster.resource-view.refresh-interval");
pub const EVENTS_EXCEPTIONS_STACKTRACE_LINES: ConfigOption<i32> =
    ConfigOption::new("kubernetes.operator.events.exceptions.stacktrace-lines").or("5");
pub const EVENTS_EXCEPTIONS_LIMIT_PER_RECONCILIATION: ConfigOption<i32> =
    ConfigOption::new("kubernetes.operator.events.exceptions.limit-per-reconciliation").or("10");
pub const INGRESS_MANAGE: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.ingress.manage").or("true");
/// Gateway that leads to the web UI instead of an Ingress.
pub const INGRESS_GATEWAY: ConfigOption<GatewayName> =
    ConfigOption::new("kubernetes.operator.ingress.gateway");
pub const SAVEPOINT_TRIGGER_GRACE_PERIOD: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.savepoint.trigger.grace-period")
        .or("1 min")
        .formerly(&["kubernetes.operator.observer.savepoint.trigger.grace-period"]);
pub const CHECKPOINT_TRIGGER_GRACE_PERIOD: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.checkpoint.trigger.grace-period").or("1 min");
pub const SAVEPOINT_FORMAT_TYPE: ConfigOption<SavepointFormatType> =
    ConfigOption::new("kubernetes.operator.savepoint.format.type").or("CANONICAL");
pub const CHECKPOINT_TYPE: ConfigOption<CheckpointType> =
    ConfigOption::new("kubernetes.operator.checkpoint.type").or("FULL");
pub const SAVEPOINT_DISPOSE_ON_DELETE: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.savepoint.dispose-on-delete").or("false");
pub const SAVEPOINT_CLEANUP_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.savepoint.cleanup.enabled").or("true");
pub const SAVEPOINT_HISTORY_MAX_COUNT: ConfigOption<i32> =
    ConfigOption::new("kubernetes.operator.savepoint.history.max.count").or("10");
pub const SAVEPOINT_HISTORY_MAX_AGE: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.savepoint.history.max.age").or("24 h");
/// A duration or a Quartz cron expression.
pub const PERIODIC_SAVEPOINT_INTERVAL: ConfigOption<String> =
    ConfigOption::new("kubernetes.operator.periodic.savepoint.interval").or("");
/// A duration or a Quartz cron expression.
pub const PERIODIC_CHECKPOINT_INTERVAL: ConfigOption<String> =
    ConfigOption::new("kubernetes.operator.periodic.checkpoint.interval").or("");
pub const SNAPSHOT_RESOURCE_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.snapshot.resource.enabled").or("true");
pub const DEPLOYMENT_ROLLBACK_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.deployment.rollback.enabled").or("false");
pub const DEPLOYMENT_READINESS_TIMEOUT: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.deployment.readiness.timeout").or("5 min");
/// How long a job has to run without a break before its spec counts as stable.
pub const DEPLOYMENT_STABLE_RUNNING_FOR: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.deployment.stable.running-for").or("0 s");
/// Checkpoints that a job has to complete before its spec counts as stable.
pub const DEPLOYMENT_STABLE_CHECKPOINTS: ConfigOption<u32> =
    ConfigOption::new("kubernetes.operator.deployment.stable.checkpoints").or("0");
/// Restarts since its start up to which a job counts as stable; no limit when unset.
pub const DEPLOYMENT_STABLE_RESTARTS_MAX: ConfigOption<u32> =
    ConfigOption::new("kubernetes.operator.deployment.stable.restarts.max");
pub const JOB_UPGRADE_IGNORE_PENDING_SAVEPOINT: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.job.upgrade.ignore-pending-savepoint").or("false");
pub const JOB_UPGRADE_INPLACE_SCALING_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.job.upgrade.inplace-scaling.enabled").or("true");
/// Whether a savepoint upgrade may use HA metadata instead.
pub const JOB_UPGRADE_LAST_STATE_FALLBACK_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.job.upgrade.last-state-fallback.enabled").or("true");
/// With an older checkpoint a savepoint is taken instead.
pub const JOB_UPGRADE_LAST_STATE_MAX_ALLOWED_CHECKPOINT_AGE: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.job.upgrade.last-state.max.allowed.checkpoint.age");
pub const JOB_UPGRADE_LAST_STATE_JOB_CANCEL_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.job.upgrade.last-state.job-cancel.enabled").or("false");
pub const JOB_RESTART_FAILED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.job.restart.failed").or("false");
pub const JOB_SAVEPOINT_ON_DELETION: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.job.savepoint-on-deletion").or("false");
pub const JOB_DRAIN_ON_SAVEPOINT_DELETION: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.job.drain-on-savepoint-deletion").or("false");
pub const JM_DEPLOYMENT_RECOVERY_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.jm-deployment-recovery.enabled")
        .or("true")
        .formerly(&["kubernetes.operator.reconciler.jm-deployment-recovery.enabled"]);
/// How long the JobManager of a finished job stays.
pub const JM_DEPLOYMENT_SHUTDOWN_TTL: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.jm-deployment.shutdown-ttl").or("1 d");
pub const JM_DEPLOYMENT_STARTUP_PROBE_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.jm-deployment.startup.probe.enabled").or("true");
pub const POD_TEMPLATE_MERGE_ARRAYS_BY_NAME: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.pod-template.merge-arrays-by-name").or("false");
pub const CLUSTER_HEALTH_CHECK_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.cluster.health-check.enabled").or("false");
pub const CLUSTER_HEALTH_CHECK_RESTARTS_WINDOW: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.cluster.health-check.restarts.window").or("2 min");
pub const CLUSTER_HEALTH_CHECK_RESTARTS_THRESHOLD: ConfigOption<i32> =
    ConfigOption::new("kubernetes.operator.cluster.health-check.restarts.threshold").or("64");
pub const CLUSTER_HEALTH_CHECK_CHECKPOINT_PROGRESS_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.cluster.health-check.checkpoint-progress.enabled")
        .or("true");
pub const CLUSTER_HEALTH_CHECK_CHECKPOINT_PROGRESS_WINDOW: ConfigOption<Duration> =
    ConfigOption::new("kubernetes.operator.cluster.health-check.checkpoint-progress.window");
pub const SESSION_DELETION_BLOCK_ON_SESSION_JOBS: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.session.deletion.block-on-session-jobs").or("true");
pub const SESSION_DELETION_BLOCK_ON_UNMANAGED_JOBS: ConfigOption<bool> =
    ConfigOption::new("kubernetes.operator.session.deletion.block-on-unmanaged-jobs")
        .or("true")
        .formerly(&["kubernetes.operator.session.block-on-unmanaged-jobs"]);
pub const USER_ARTIFACTS_HTTP_HEADER: ConfigOption<TextMap> =
    ConfigOption::new("kubernetes.operator.user.artifacts.http.header");
/// What the jar must be: `sha256:` and 64 hexadecimal digits. A session job states it.
pub const USER_ARTIFACTS_CHECKSUM: ConfigOption<String> =
    ConfigOption::new("kubernetes.operator.user.artifacts.checksum");
pub const EXCEPTION_LABEL_MAPPER: ConfigOption<TextMap> =
    ConfigOption::new("kubernetes.operator.exception.label.mapper").or("");

// Flink's.

/// The program's arguments, for Flink's own entry point.
pub const APPLICATION_ARGS: ConfigOption<List> =
    ConfigOption::new("$internal.application.program-args");
pub const APPLICATION_MAIN_CLASS: ConfigOption<String> =
    ConfigOption::new("$internal.application.main");
/// The version that the resource states, such as `v1_20`.
pub const FLINK_VERSION: ConfigOption<String> = ConfigOption::new("$internal.flink.version");
/// 32 hexadecimal digits.
pub const FIXED_JOB_ID: ConfigOption<String> = ConfigOption::new("$internal.pipeline.job-id");
/// A port or a range; see `render` for what becomes of 0.
pub const BLOB_SERVER_PORT: ConfigOption<String> = ConfigOption::new("blob.server.port").or("0");
pub const EXECUTION_TARGET: ConfigOption<String> = ConfigOption::new("execution.target");
pub const SHUTDOWN_ON_APPLICATION_FINISH: ConfigOption<bool> =
    ConfigOption::new("execution.shutdown-on-application-finish").or("true");
pub const SUBMIT_FAILED_JOB_ON_APPLICATION_ERROR: ConfigOption<bool> =
    ConfigOption::new("execution.submit-failed-job-on-application-error").or("false");
/// No checkpoints when unset.
pub const CHECKPOINTING_INTERVAL: ConfigOption<Duration> =
    ConfigOption::new("execution.checkpointing.interval");
pub const CHECKPOINTING_TIMEOUT: ConfigOption<Duration> =
    ConfigOption::new("execution.checkpointing.timeout").or("10 min");
pub const RETAINED_CHECKPOINTS: ConfigOption<i32> =
    ConfigOption::new("execution.checkpointing.num-retained")
        .or("1")
        .formerly(&["state.checkpoints.num-retained"]);
pub const TOLERABLE_FAILED_CHECKPOINTS: ConfigOption<i32> =
    ConfigOption::new("execution.checkpointing.tolerable-failed-checkpoints").or("0");
pub const CHECKPOINT_RETENTION: ConfigOption<String> =
    ConfigOption::new("execution.checkpointing.externalized-checkpoint-retention");
pub const CHECKPOINT_DIRECTORY: ConfigOption<String> =
    ConfigOption::new("execution.checkpointing.dir").formerly(&["state.checkpoints.dir"]);
pub const SAVEPOINT_DIRECTORY: ConfigOption<String> =
    ConfigOption::new("execution.checkpointing.savepoint-dir")
        .formerly(&["state.savepoints.dir", "savepoints.state.backend.fs.dir"]);
/// What a job starts from. Flink prefers the second name where it knows it, so both are cleared
/// together.
pub const SAVEPOINT_PATH: ConfigOption<String> =
    ConfigOption::new("execution.savepoint.path").formerly(&["execution.state-recovery.path"]);
pub const SAVEPOINT_IGNORE_UNCLAIMED_STATE: ConfigOption<bool> =
    ConfigOption::new("execution.savepoint.ignore-unclaimed-state")
        .or("false")
        .formerly(&["execution.state-recovery.ignore-unclaimed-state"]);
/// `NONE`, `KUBERNETES`, `ZOOKEEPER` or a factory's class; see
/// [`super::cluster::is_high_availability_on`].
pub const HA_TYPE: ConfigOption<String> =
    ConfigOption::new("high-availability.type").formerly(&["high-availability", "recovery.mode"]);
pub const HA_STORAGE_DIRECTORY: ConfigOption<String> =
    ConfigOption::new("high-availability.storageDir")
        .formerly(&["high-availability.zookeeper.storageDir", "recovery.zookeeper.storageDir"]);
pub const HA_CLUSTER_ID: ConfigOption<String> = ConfigOption::new("high-availability.cluster-id")
    .formerly(&["high-availability.zookeeper.path.namespace", "recovery.zookeeper.path.namespace"]);
/// `host:port,…`
pub const ZOOKEEPER_QUORUM: ConfigOption<String> =
    ConfigOption::new("high-availability.zookeeper.quorum")
        .formerly(&["recovery.zookeeper.quorum"]);
pub const ZOOKEEPER_ROOT: ConfigOption<String> =
    ConfigOption::new("high-availability.zookeeper.path.root")
        .or("/flink")
        .formerly(&["recovery.zookeeper.path.root"]);
/// Of Flink before 2.0.
pub const ZOOKEEPER_JOB_GRAPHS: ConfigOption<String> =
    ConfigOption::new("high-availability.zookeeper.path.jobgraphs")
        .or("/jobgraphs")
        .formerly(&["recovery.zookeeper.path.jobgraphs"]);
/// Of Flink from 2.0 on.
pub const ZOOKEEPER_EXECUTION_PLANS: ConfigOption<String> =
    ConfigOption::new("high-availability.zookeeper.path.execution-plans")
        .or("/execution-plans")
        .formerly(&[
            "recovery.zookeeper.path.jobgraphs",
            "high-availability.zookeeper.path.jobgraphs",
        ]);
/// `open` or `creator`.
pub const ZOOKEEPER_ACL: ConfigOption<String> =
    ConfigOption::new("high-availability.zookeeper.client.acl").or("open");
/// Secrets by their scheme.
pub const ZOOKEEPER_AUTHORIZATION: ConfigOption<TextMap> =
    ConfigOption::new("high-availability.zookeeper.client.authorization");
/// In milliseconds.
pub const ZOOKEEPER_CONNECTION_TIMEOUT: ConfigOption<u32> =
    ConfigOption::new("high-availability.zookeeper.client.connection-timeout")
        .or("15000")
        .formerly(&["recovery.zookeeper.client.connection-timeout"]);
/// A port or a range.
pub const HA_JOB_MANAGER_PORT: ConfigOption<String> =
    ConfigOption::new("high-availability.jobmanager.port")
        .or("0")
        .formerly(&["recovery.jobmanager.port"]);
pub const CLUSTER_EXECUTION_MODE: ConfigOption<String> =
    ConfigOption::new("internal.cluster.execution-mode");
/// Level of the root logger in the default logging configuration.
pub const LOG_LEVEL: ConfigOption<String> = ConfigOption::new("env.log.level").or("INFO");
pub const JOB_RESULT_STORE_PATH: ConfigOption<String> =
    ConfigOption::new("job-result-store.storage-path");
pub const JOB_RESULT_STORE_DELETE_ON_COMMIT: ConfigOption<bool> =
    ConfigOption::new("job-result-store.delete-on-commit").or("true");
pub const JOB_MANAGER_RPC_ADDRESS: ConfigOption<String> =
    ConfigOption::new("jobmanager.rpc.address");
pub const JOB_MANAGER_RPC_PORT: ConfigOption<u16> =
    ConfigOption::new("jobmanager.rpc.port").or("6123");
pub const JOB_MANAGER_PROCESS_MEMORY: ConfigOption<MemorySize> =
    ConfigOption::new("jobmanager.memory.process.size");
pub const JOB_MANAGER_FLINK_MEMORY: ConfigOption<MemorySize> =
    ConfigOption::new("jobmanager.memory.flink.size");
pub const JOB_MANAGER_HEAP_MEMORY: ConfigOption<MemorySize> =
    ConfigOption::new("jobmanager.memory.heap.size");
pub const JOB_MANAGER_OFF_HEAP_MEMORY: ConfigOption<MemorySize> =
    ConfigOption::new("jobmanager.memory.off-heap.size").or("128 mb");
/// Of old; on Kubernetes the memory of the whole process.
pub const JOB_MANAGER_LEGACY_HEAP: ConfigOption<MemorySize> =
    ConfigOption::new("jobmanager.heap.size");
/// Of old, in MiB.
pub const JOB_MANAGER_LEGACY_HEAP_MEBIBYTES: ConfigOption<u32> =
    ConfigOption::new("jobmanager.heap.mb");
pub const JOB_MANAGER_METASPACE: ConfigOption<MemorySize> =
    ConfigOption::new("jobmanager.memory.jvm-metaspace.size").or("256 mb");
pub const JOB_MANAGER_OVERHEAD_MIN: ConfigOption<MemorySize> =
    ConfigOption::new("jobmanager.memory.jvm-overhead.min").or("192 mb");
pub const JOB_MANAGER_OVERHEAD_MAX: ConfigOption<MemorySize> =
    ConfigOption::new("jobmanager.memory.jvm-overhead.max").or("1 gb");
pub const JOB_MANAGER_OVERHEAD_FRACTION: ConfigOption<f64> =
    ConfigOption::new("jobmanager.memory.jvm-overhead.fraction").or("0.1");
pub const TASK_MANAGER_PROCESS_MEMORY: ConfigOption<MemorySize> =
    ConfigOption::new("taskmanager.memory.process.size");
pub const TASK_MANAGER_FLINK_MEMORY: ConfigOption<MemorySize> =
    ConfigOption::new("taskmanager.memory.flink.size");
pub const TASK_MANAGER_FRAMEWORK_HEAP: ConfigOption<MemorySize> =
    ConfigOption::new("taskmanager.memory.framework.heap.size").or("128 mb");
pub const TASK_MANAGER_FRAMEWORK_OFF_HEAP: ConfigOption<MemorySize> =
    ConfigOption::new("taskmanager.memory.framework.off-heap.size").or("128 mb");
pub const TASK_MANAGER_TASK_HEAP: ConfigOption<MemorySize> =
    ConfigOption::new("taskmanager.memory.task.heap.size");
pub const TASK_MANAGER_TASK_OFF_HEAP: ConfigOption<MemorySize> =
    ConfigOption::new("taskmanager.memory.task.off-heap.size").or("0 bytes");
pub const TASK_MANAGER_MANAGED_MEMORY: ConfigOption<MemorySize> =
    ConfigOption::new("taskmanager.memory.managed.size").formerly(&["taskmanager.memory.size"]);
pub const TASK_MANAGER_MANAGED_FRACTION: ConfigOption<f64> =
    ConfigOption::new("taskmanager.memory.managed.fraction").or("0.4");
/// Used instead of the network's sizes where none of those is set.
pub const NETWORK_BUFFERS: ConfigOption<i32> =
    ConfigOption::new("taskmanager.network.numberOfBuffers");
pub const NETWORK_BUFFERS_PER_CHANNEL: ConfigOption<u32> =
    ConfigOption::new("taskmanager.network.memory.buffers-per-channel").or("2");
pub const NETWORK_FLOATING_BUFFERS: ConfigOption<u32> =
    ConfigOption::new("taskmanager.network.memory.floating-buffers-per-gate").or("8");
pub const MEMORY_SEGMENT_SIZE: ConfigOption<MemorySize> =
    ConfigOption::new("taskmanager.memory.segment-size").or("32 kb");
pub const TASK_MANAGER_NETWORK_MIN: ConfigOption<MemorySize> =
    ConfigOption::new("taskmanager.memory.network.min")
        .or("64 mb")
        .formerly(&["taskmanager.network.memory.min"]);
pub const TASK_MANAGER_NETWORK_MAX: ConfigOption<MemorySize> =
    ConfigOption::new("taskmanager.memory.network.max")
        .or("8388607 tb")
        .formerly(&["taskmanager.network.memory.max"]);
pub const TASK_MANAGER_NETWORK_FRACTION: ConfigOption<f64> =
    ConfigOption::new("taskmanager.memory.network.fraction")
        .or("0.1")
        .formerly(&["taskmanager.network.memory.fraction"]);
pub const TASK_MANAGER_METASPACE: ConfigOption<MemorySize> =
    ConfigOption::new("taskmanager.memory.jvm-metaspace.size").or("256 mb");
pub const TASK_MANAGER_OVERHEAD_MIN: ConfigOption<MemorySize> =
    ConfigOption::new("taskmanager.memory.jvm-overhead.min").or("192 mb");
pub const TASK_MANAGER_OVERHEAD_MAX: ConfigOption<MemorySize> =
    ConfigOption::new("taskmanager.memory.jvm-overhead.max").or("1 gb");
pub const TASK_MANAGER_OVERHEAD_FRACTION: ConfigOption<f64> =
    ConfigOption::new("taskmanager.memory.jvm-overhead.fraction").or("0.1");
/// A port or a range; see `render` for what becomes of 0.
pub const TASK_MANAGER_RPC_PORT: ConfigOption<String> =
    ConfigOption::new("taskmanager.rpc.port").or("0");
pub const TASK_SLOTS: ConfigOption<i32> =
    ConfigOption::new("taskmanager.numberOfTaskSlots").or("1");
pub const KUBERNETES_NAMESPACE: ConfigOption<String> =
    ConfigOption::new("kubernetes.namespace").or("default");
pub const KUBERNETES_CLUSTER_ID: ConfigOption<String> = ConfigOption::new("kubernetes.cluster-id");
/// `APPLICATION` or `SESSION`, of standalone clusters.
pub const KUBERNETES_CLUSTER_MODE: ConfigOption<String> =
    ConfigOption::new("kubernetes.internal.cluster-mode");
pub const JOB_MANAGER_ENTRYPOINT_CLASS: ConfigOption<String> =
    ConfigOption::new("kubernetes.internal.jobmanager.entrypoint.class");
pub const STANDALONE_TASK_MANAGER_REPLICAS: ConfigOption<i32> =
    ConfigOption::new("kubernetes.internal.taskmanager.replicas");
/// The older name is the one that Flink before 1.17 knows.
pub const CONTAINER_IMAGE: ConfigOption<String> =
    ConfigOption::new("kubernetes.container.image.ref").formerly(&["kubernetes.container.image"]);
pub const CONTAINER_IMAGE_PULL_POLICY: ConfigOption<PullPolicy> =
    ConfigOption::new("kubernetes.container.image.pull-policy").or("IfNotPresent");
pub const CONTAINER_IMAGE_PULL_SECRETS: ConfigOption<List> =
    ConfigOption::new("kubernetes.container.image.pull-secrets");
/// `REACTIVE`: the job of a standalone cluster uses every slot that there is.
pub const SCHEDULER_MODE: ConfigOption<String> = ConfigOption::new("scheduler-mode");
/// Of JobManager and TaskManagers.
pub const SERVICE_ACCOUNT: ConfigOption<String> = ConfigOption::new("kubernetes.service-account");
pub const JOB_MANAGER_SERVICE_ACCOUNT: ConfigOption<String> =
    ConfigOption::new("kubernetes.jobmanager.service-account");
pub const TASK_MANAGER_SERVICE_ACCOUNT: ConfigOption<String> =
    ConfigOption::new("kubernetes.taskmanager.service-account");
pub const REST_SERVICE_EXPOSED_TYPE: ConfigOption<ServiceExposedType> =
    ConfigOption::new("kubernetes.rest-service.exposed.type").or("ClusterIP");
pub const REST_SERVICE_ANNOTATIONS: ConfigOption<TextMap> =
    ConfigOption::new("kubernetes.rest-service.annotations");
pub const INTERNAL_SERVICE_ANNOTATIONS: ConfigOption<TextMap> =
    ConfigOption::new("kubernetes.internal-service.annotations");
pub const REST_PORT: ConfigOption<u16> =
    ConfigOption::new("rest.port").or("8081").formerly(&["web.port"]);
/// A port or a range.
pub const REST_BIND_PORT: ConfigOption<String> = ConfigOption::new("rest.bind-port");
pub const JOB_MANAGER_REPLICAS: ConfigOption<i32> =
    ConfigOption::new("kubernetes.jobmanager.replicas").or("1");
/// The older name is the one that Flink before 1.17 knows.
pub const JOB_MANAGER_CPU: ConfigOption<f64> =
    ConfigOption::new("kubernetes.jobmanager.cpu.amount")
        .or("1.0")
        .formerly(&["kubernetes.jobmanager.cpu"]);
pub const JOB_MANAGER_CPU_LIMIT_FACTOR: ConfigOption<f64> =
    ConfigOption::new("kubernetes.jobmanager.cpu.limit-factor").or("1.0");
pub const JOB_MANAGER_MEMORY_LIMIT_FACTOR: ConfigOption<f64> =
    ConfigOption::new("kubernetes.jobmanager.memory.limit-factor").or("1.0");
pub const JOB_MANAGER_LABELS: ConfigOption<TextMap> =
    ConfigOption::new("kubernetes.jobmanager.labels");
pub const JOB_MANAGER_ANNOTATIONS: ConfigOption<TextMap> =
    ConfigOption::new("kubernetes.jobmanager.annotations");
pub const JOB_MANAGER_NODE_SELECTOR: ConfigOption<TextMap> =
    ConfigOption::new("kubernetes.jobmanager.node-selector");
pub const JOB_MANAGER_TOLERATIONS: ConfigOption<MapList> =
    ConfigOption::new("kubernetes.jobmanager.tolerations");
pub const JOB_MANAGER_ENTRYPOINT_ARGS: ConfigOption<String> =
    ConfigOption::new("kubernetes.jobmanager.entrypoint.args").or("");
pub const JOB_MANAGER_OWNER_REFERENCE: ConfigOption<MapList> =
    ConfigOption::new("kubernetes.jobmanager.owner.reference");
/// The number of slots when unset.
pub const TASK_MANAGER_CPU: ConfigOption<f64> =
    ConfigOption::new("kubernetes.taskmanager.cpu.amount")
        .formerly(&["kubernetes.taskmanager.cpu"]);
pub const TASK_MANAGER_CPU_LIMIT_FACTOR: ConfigOption<f64> =
    ConfigOption::new("kubernetes.taskmanager.cpu.limit-factor").or("1.0");
pub const TASK_MANAGER_MEMORY_LIMIT_FACTOR: ConfigOption<f64> =
    ConfigOption::new("kubernetes.taskmanager.memory.limit-factor").or("1.0");
pub const TASK_MANAGER_LABELS: ConfigOption<TextMap> =
    ConfigOption::new("kubernetes.taskmanager.labels");
pub const TASK_MANAGER_ANNOTATIONS: ConfigOption<TextMap> =
    ConfigOption::new("kubernetes.taskmanager.annotations");
pub const TASK_MANAGER_NODE_SELECTOR: ConfigOption<TextMap> =
    ConfigOption::new("kubernetes.taskmanager.node-selector");
pub const TASK_MANAGER_TOLERATIONS: ConfigOption<MapList> =
    ConfigOption::new("kubernetes.taskmanager.tolerations");
pub const JOB_MANAGER_POD_TEMPLATE: ConfigOption<String> =
    ConfigOption::new("kubernetes.pod-template-file.jobmanager");
pub const TASK_MANAGER_POD_TEMPLATE: ConfigOption<String> =
    ConfigOption::new("kubernetes.pod-template-file.taskmanager");
pub const FLINK_CONF_DIRECTORY: ConfigOption<String> =
    ConfigOption::new("kubernetes.flink.conf.dir").or("/opt/flink/conf");
pub const FLINK_LOG_DIRECTORY: ConfigOption<String> = ConfigOption::new("kubernetes.flink.log.dir");
pub const ENTRY_PATH: ConfigOption<String> =
    ConfigOption::new("kubernetes.entry.path").or("/docker-entrypoint.sh");
pub const ENV_SECRET_KEY_REFS: ConfigOption<MapList> =
    ConfigOption::new("kubernetes.env.secretKeyRef");
/// Mount paths by the secret's name.
pub const SECRETS: ConfigOption<TextMap> = ConfigOption::new("kubernetes.secrets");
pub const HOST_NETWORK_ENABLED: ConfigOption<bool> =
    ConfigOption::new("kubernetes.hostnetwork.enabled").or("false");
pub const HADOOP_CONF_CONFIG_MAP: ConfigOption<String> =
    ConfigOption::new("kubernetes.hadoop.conf.config-map.name");
pub const USER_ARTIFACTS_DIRECTORY: ConfigOption<String> =
    ConfigOption::new("user.artifacts.base-dir").or("/opt/flink/artifacts");
pub const KERBEROS_KEYTAB: ConfigOption<String> =
    ConfigOption::new("security.kerberos.login.keytab").formerly(&["security.keytab"]);
pub const KERBEROS_PRINCIPAL: ConfigOption<String> =
    ConfigOption::new("security.kerberos.login.principal").formerly(&["security.principal"]);
pub const KERBEROS_KRB5_CONF: ConfigOption<String> =
    ConfigOption::new("security.kerberos.krb5-conf.path");
pub const PARALLELISM: ConfigOption<i32> = ConfigOption::new("parallelism.default").or("1");
pub const PIPELINE_JARS: ConfigOption<List> = ConfigOption::new("pipeline.jars");
pub const PIPELINE_CLASSPATHS: ConfigOption<List> = ConfigOption::new("pipeline.classpaths");
pub const PIPELINE_NAME: ConfigOption<String> = ConfigOption::new("pipeline.name");
/// Parallelism by the id of a vertex.
pub const PARALLELISM_OVERRIDES: ConfigOption<TextMap> =
    ConfigOption::new("pipeline.jobvertex-parallelism-overrides");
pub const SCHEDULER: ConfigOption<String> = ConfigOption::new("jobmanager.scheduler");
pub const SSL_REST_ENABLED: ConfigOption<bool> =
    ConfigOption::new("security.ssl.rest.enabled").or("false").formerly(&["security.ssl.enabled"]);
pub const WEB_CANCEL_ENABLE: ConfigOption<bool> = ConfigOption::new("web.cancel.enable").or("true");

#[cfg(test)]
mod tests;
