//! Options for how the operator treats one resource: `spec.flinkConfiguration` may set them, and the operator's
//! configuration contains their defaults.

use std::time::Duration;

use api::status::{CheckpointType, SavepointFormatType};

use crate::option::{ConfigOption, DeletionPropagation, GatewayName, Preflight};

options! {
    OF_RESOURCES =>
    /// Interval between passes over a quiet resource.
    Live RECONCILE_INTERVAL: Duration =
        "kubernetes.operator.reconcile.interval" or "60 s"
        formerly ["kubernetes.operator.reconciler.reschedule.interval"];
    /// Interval between checks of a snapshot in progress, if snapshots are not resources.
    Live OBSERVER_PROGRESS_CHECK_INTERVAL: Duration =
        "kubernetes.operator.observer.progress-check.interval" or "10 s";
    /// Timeout of a call to a JobManager.
    Live FLINK_CLIENT_TIMEOUT: Duration =
        "kubernetes.operator.flink.client.timeout" or "10 s"
        formerly ["kubernetes.operator.observer.flink.client.timeout"];
    /// Timeout of a call that cancels a job.
    Live FLINK_CLIENT_CANCEL_TIMEOUT: Duration =
        "kubernetes.operator.flink.client.cancel.timeout" or "1 min"
        formerly ["kubernetes.operator.reconciler.flink.cancel.job.timeout"];
    /// How long each step of a deletion waits before the resource is deleted anyway.
    Live RESOURCE_CLEANUP_TIMEOUT: Duration =
        "kubernetes.operator.resource.cleanup.timeout" or "5 min"
        formerly ["kubernetes.operator.reconciler.flink.cluster.shutdown.timeout"];
    /// How long a submission of a session job may take, and may still result in a job.
    Live JOB_SUBMISSION_TIMEOUT: Duration =
        "kubernetes.operator.job.submission.timeout" or "10 min";
    /// Propagation policy for the dependents of a deleted Deployment.
    Live RESOURCE_DELETION_PROPAGATION: DeletionPropagation =
        "kubernetes.operator.resource.deletion.propagation" or "Foreground";
    /// Lines of the stack trace in the event for an exception of a job.
    Live EVENTS_EXCEPTIONS_STACKTRACE_LINES: i32 =
        "kubernetes.operator.events.exceptions.stacktrace-lines" or "5";
    /// Maximum number of exceptions of a job that one pass reports as events.
    Live EVENTS_EXCEPTIONS_LIMIT_PER_RECONCILIATION: i32 =
        "kubernetes.operator.events.exceptions.limit-per-reconciliation" or "10";
    /// Gateway that routes to the web UI instead of an Ingress.
    AtDeploy INGRESS_GATEWAY: GatewayName = "kubernetes.operator.ingress.gateway";
    /// Age up to which a failed savepoint is retried, if snapshots are not resources.
    Live SAVEPOINT_TRIGGER_GRACE_PERIOD: Duration =
        "kubernetes.operator.savepoint.trigger.grace-period" or "1 min"
        formerly ["kubernetes.operator.observer.savepoint.trigger.grace-period"];
    /// Age up to which a failed checkpoint is retried, if snapshots are not resources.
    Live CHECKPOINT_TRIGGER_GRACE_PERIOD: Duration =
        "kubernetes.operator.checkpoint.trigger.grace-period" or "1 min";
    /// Format of savepoints.
    Live SAVEPOINT_FORMAT_TYPE: SavepointFormatType =
        "kubernetes.operator.savepoint.format.type" or "CANONICAL";
    /// Type of checkpoints, if snapshots are not resources.
    Live CHECKPOINT_TYPE: CheckpointType = "kubernetes.operator.checkpoint.type" or "FULL";
    /// Disposes of the savepoint when a FlinkStateSnapshot that the operator created is deleted.
    Live SAVEPOINT_DISPOSE_ON_DELETE: bool =
        "kubernetes.operator.savepoint.dispose-on-delete" or "false";
    /// Deletes old snapshots, by count and age.
    Live SAVEPOINT_CLEANUP_ENABLED: bool =
        "kubernetes.operator.savepoint.cleanup.enabled" or "true";
    /// Maximum number of savepoints to keep.
    Live SAVEPOINT_HISTORY_MAX_COUNT: i32 =
        "kubernetes.operator.savepoint.history.max.count" or "10";
    /// Maximum age of savepoints to keep.
    Live SAVEPOINT_HISTORY_MAX_AGE: Duration =
        "kubernetes.operator.savepoint.history.max.age" or "24 h";
    /// Schedule of savepoints: a duration or a Quartz cron expression.
    Live PERIODIC_SAVEPOINT_INTERVAL: String =
        "kubernetes.operator.periodic.savepoint.interval" or "";
    /// Schedule of checkpoints: a duration or a Quartz cron expression.
    Live PERIODIC_CHECKPOINT_INTERVAL: String =
        "kubernetes.operator.periodic.checkpoint.interval" or "";
    /// Takes snapshots as FlinkStateSnapshot resources, if that kind is installed.
    Live SNAPSHOT_RESOURCE_ENABLED: bool =
        "kubernetes.operator.snapshot.resource.enabled" or "true";
    /// Rolls back to the last stable spec when a spec does not become stable in time.
    Live DEPLOYMENT_ROLLBACK_ENABLED: bool =
        "kubernetes.operator.deployment.rollback.enabled" or "false";
    /// How long a deployed spec may take to run before it is rolled back.
    Live DEPLOYMENT_READINESS_TIMEOUT: Duration =
        "kubernetes.operator.deployment.readiness.timeout" or "5 min";
    /// How long a job has to run without interruption before its spec counts as stable.
    Live DEPLOYMENT_STABLE_RUNNING_FOR: Duration =
        "kubernetes.operator.deployment.stable.running-for" or "0 s";
    /// Number of checkpoints a job has to complete before its spec counts as stable.
    Live DEPLOYMENT_STABLE_CHECKPOINTS: u32 =
        "kubernetes.operator.deployment.stable.checkpoints" or "0";
    /// Maximum number of restarts since its start for a job to count as stable; no limit when
    /// unset.
    Live DEPLOYMENT_STABLE_RESTARTS_MAX: u32 = "kubernetes.operator.deployment.stable.restarts.max";
    /// Carries out a change of the spec even while a savepoint is in progress.
    Live JOB_UPGRADE_IGNORE_PENDING_SAVEPOINT: bool =
        "kubernetes.operator.job.upgrade.ignore-pending-savepoint" or "false";
    /// Scales a running job of the adaptive scheduler without a restart.
    Live JOB_UPGRADE_INPLACE_SCALING_ENABLED: bool =
        "kubernetes.operator.job.upgrade.inplace-scaling.enabled" or "true";
    /// Allows a savepoint upgrade to use HA metadata instead.
    Live JOB_UPGRADE_LAST_STATE_FALLBACK_ENABLED: bool =
        "kubernetes.operator.job.upgrade.last-state-fallback.enabled" or "true";
    /// Maximum age of a checkpoint for last-state, above which it takes a savepoint instead; no
    /// limit when unset.
    Live JOB_UPGRADE_LAST_STATE_MAX_ALLOWED_CHECKPOINT_AGE: Duration =
        "kubernetes.operator.job.upgrade.last-state.max.allowed.checkpoint.age";
    /// Cancels the job in a last-state upgrade even if HA metadata leads to its state.
    Live JOB_UPGRADE_LAST_STATE_JOB_CANCEL_ENABLED: bool =
        "kubernetes.operator.job.upgrade.last-state.job-cancel.enabled" or "false";
    /// What is checked before a running job is stopped for a changed spec: nothing, whether the API
    /// server accepts the new cluster's objects, or also whether its pods start.
    Live JOB_UPGRADE_PREFLIGHT: Preflight =
        "kubernetes.operator.job.upgrade.preflight" or "pods";
    /// How long preflight pods may take to start before that is reported; they are still waited
    /// for.
    Live JOB_UPGRADE_PREFLIGHT_TIMEOUT: Duration =
        "kubernetes.operator.job.upgrade.preflight.timeout" or "10 min";
    /// Starts the pods of a changed spec next to the running ones, so that they only have to take
    /// over. For standalone applications in mode last-state with Kubernetes high availability;
    /// needs room for both.
    Live JOB_UPGRADE_HOT_ENABLED: bool =
        "kubernetes.operator.job.upgrade.hot.enabled" or "false";
    /// Restarts a permanently failed job.
    Live JOB_RESTART_FAILED: bool = "kubernetes.operator.job.restart.failed" or "false";
    /// Takes a savepoint before a job is deleted; without one the job is not deleted.
    Live JOB_SAVEPOINT_ON_DELETION: bool =
        "kubernetes.operator.job.savepoint-on-deletion" or "false";
    /// Drains a job with the savepoint before its deletion.
    Live JOB_DRAIN_ON_SAVEPOINT_DELETION: bool =
        "kubernetes.operator.job.drain-on-savepoint-deletion" or "false";
    /// Recreates a lost Deployment of a cluster.
    Live JM_DEPLOYMENT_RECOVERY_ENABLED: bool =
        "kubernetes.operator.jm-deployment-recovery.enabled" or "true"
        formerly ["kubernetes.operator.reconciler.jm-deployment-recovery.enabled"];
    /// How long the JobManager of a finished job is kept.
    Live JM_DEPLOYMENT_SHUTDOWN_TTL: Duration =
        "kubernetes.operator.jm-deployment.shutdown-ttl" or "1 d";
    /// Adds a startup probe to JobManagers whose pod template has none.
    AtDeploy JM_DEPLOYMENT_STARTUP_PROBE_ENABLED: bool =
        "kubernetes.operator.jm-deployment.startup.probe.enabled" or "true";
    /// Log configuration of all jobs whose `spec.logConfiguration` has none: the content of the
    /// file of this name next to the operator's configuration.
    AtDeploy LOG4J_CONSOLE: String =
        "kubernetes.operator.log-configuration.log4j-console.properties";
    /// The same for images that log with Logback.
    AtDeploy LOGBACK_CONSOLE: String = "kubernetes.operator.log-configuration.logback-console.xml";
    /// Merges lists of pod templates by the names of their items, not by position.
    AtDeploy POD_TEMPLATE_MERGE_ARRAYS_BY_NAME: bool =
        "kubernetes.operator.pod-template.merge-arrays-by-name" or "false";
    /// Secret in the job's namespace with the keytab of `security.kerberos.login.principal`, for
    /// pods to mount; no file of the operator is read.
    AtDeploy KERBEROS_KEYTAB_SECRET: String = "kubernetes.operator.kerberos.keytab.secret.name";
    /// Key of the keytab in that Secret.
    AtDeploy KERBEROS_KEYTAB_SECRET_KEY: String =
        "kubernetes.operator.kerberos.keytab.secret.key" or "keytab";
    /// ConfigMap in the job's namespace with the key `krb5.conf`, for pods to mount as
    /// `/etc/krb5.conf`.
    AtDeploy KERBEROS_KRB5_CONF_CONFIG_MAP: String =
        "kubernetes.operator.kerberos.krb5-conf.config-map.name";
    /// Replaces unhealthy clusters, judged by the restarts and checkpoints of their job.
    Live CLUSTER_HEALTH_CHECK_ENABLED: bool =
        "kubernetes.operator.cluster.health-check.enabled" or "false";
    /// Time window for counting restarts of the job.
    Live CLUSTER_HEALTH_CHECK_RESTARTS_WINDOW: Duration =
        "kubernetes.operator.cluster.health-check.restarts.window" or "2 min";
    /// A cluster is unhealthy if its job restarts more often than this in the window.
    Live CLUSTER_HEALTH_CHECK_RESTARTS_THRESHOLD: i32 =
        "kubernetes.operator.cluster.health-check.restarts.threshold" or "64";
    /// Considers a cluster unhealthy when no checkpoint completes.
    Live CLUSTER_HEALTH_CHECK_CHECKPOINT_PROGRESS_ENABLED: bool =
        "kubernetes.operator.cluster.health-check.checkpoint-progress.enabled" or "true";
    /// Time in which a checkpoint has to complete; at least the duration of the failures that the
    /// job tolerates.
    Live CLUSTER_HEALTH_CHECK_CHECKPOINT_PROGRESS_WINDOW: Duration =
        "kubernetes.operator.cluster.health-check.checkpoint-progress.window";
    /// Delays an edit of a session cluster whose jobs would end with its JobManager until they are
    /// stopped. The operator stops those of FlinkSessionJobs, and starts them again afterwards.
    Live SESSION_UPGRADE_WAIT_FOR_JOBS: bool =
        "kubernetes.operator.session.upgrade.wait-for-jobs" or "true";
    /// Blocks the deletion of a session cluster until its FlinkSessionJobs are deleted.
    Live SESSION_DELETION_BLOCK_ON_SESSION_JOBS: bool =
        "kubernetes.operator.session.deletion.block-on-session-jobs" or "true";
    /// Blocks the deletion of a session cluster until jobs submitted by others have ended.
    Live SESSION_DELETION_BLOCK_ON_UNMANAGED_JOBS: bool =
        "kubernetes.operator.session.deletion.block-on-unmanaged-jobs" or "true"
        formerly ["kubernetes.operator.session.block-on-unmanaged-jobs"];
}
