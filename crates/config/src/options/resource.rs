//! Options by which the operator treats one resource: `spec.flinkConfiguration` may set them, and the
//! operator's configuration has their defaults.

use std::time::Duration;

use api::status::{CheckpointType, SavepointFormatType};

use crate::option::{ConfigOption, DeletionPropagation, GatewayName, Preflight};

options! {
    OF_RESOURCES =>
    /// Pause between two looks at a quiet resource.
    Live RECONCILE_INTERVAL: Duration =
        "kubernetes.operator.reconcile.interval" or "60 s"
        formerly ["kubernetes.operator.reconciler.reschedule.interval"];
    /// Pause between two looks at a snapshot that is being taken, where snapshots are no resources.
    Live OBSERVER_PROGRESS_CHECK_INTERVAL: Duration =
        "kubernetes.operator.observer.progress-check.interval" or "10 s";
    /// How long a call to a JobManager may take.
    Live FLINK_CLIENT_TIMEOUT: Duration =
        "kubernetes.operator.flink.client.timeout" or "10 s"
        formerly ["kubernetes.operator.observer.flink.client.timeout"];
    /// How long a call that cancels a job may take.
    Live FLINK_CLIENT_CANCEL_TIMEOUT: Duration =
        "kubernetes.operator.flink.client.cancel.timeout" or "1 min"
        formerly ["kubernetes.operator.reconciler.flink.cancel.job.timeout"];
    /// How long each step of a deletion waits, before the resource goes all the same.
    Live RESOURCE_CLEANUP_TIMEOUT: Duration =
        "kubernetes.operator.resource.cleanup.timeout" or "5 min"
        formerly ["kubernetes.operator.reconciler.flink.cluster.shutdown.timeout"];
    /// How long the submission of a session job may take, and a job may still come of it.
    Live JOB_SUBMISSION_TIMEOUT: Duration =
        "kubernetes.operator.job.submission.timeout" or "10 min";
    /// Propagation policy for the dependents of a Deployment that is deleted.
    Live RESOURCE_DELETION_PROPAGATION: DeletionPropagation =
        "kubernetes.operator.resource.deletion.propagation" or "Foreground";
    /// Lines of the stack trace in the event that tells of an exception of a job.
    Live EVENTS_EXCEPTIONS_STACKTRACE_LINES: i32 =
        "kubernetes.operator.events.exceptions.stacktrace-lines" or "5";
    /// Most exceptions of a job that one pass tells by events.
    Live EVENTS_EXCEPTIONS_LIMIT_PER_RECONCILIATION: i32 =
        "kubernetes.operator.events.exceptions.limit-per-reconciliation" or "10";
    /// Creates what `spec.ingress` asks for.
    Live INGRESS_MANAGE: bool = "kubernetes.operator.ingress.manage" or "true";
    /// Gateway that leads to the web UI instead of an Ingress.
    AtDeploy INGRESS_GATEWAY: GatewayName = "kubernetes.operator.ingress.gateway";
    /// Age up to which a savepoint that failed is asked for again, where snapshots are no resources.
    Live SAVEPOINT_TRIGGER_GRACE_PERIOD: Duration =
        "kubernetes.operator.savepoint.trigger.grace-period" or "1 min"
        formerly ["kubernetes.operator.observer.savepoint.trigger.grace-period"];
    /// Age up to which a checkpoint that failed is asked for again, where snapshots are no resources.
    Live CHECKPOINT_TRIGGER_GRACE_PERIOD: Duration =
        "kubernetes.operator.checkpoint.trigger.grace-period" or "1 min";
    /// Format of savepoints.
    Live SAVEPOINT_FORMAT_TYPE: SavepointFormatType =
        "kubernetes.operator.savepoint.format.type" or "CANONICAL";
    /// Type of checkpoints, where snapshots are no resources.
    Live CHECKPOINT_TYPE: CheckpointType = "kubernetes.operator.checkpoint.type" or "FULL";
    /// Disposes of the savepoint when a FlinkStateSnapshot that the operator created is deleted.
    Live SAVEPOINT_DISPOSE_ON_DELETE: bool =
        "kubernetes.operator.savepoint.dispose-on-delete" or "false";
    /// Deletes old snapshots, by count and age.
    Live SAVEPOINT_CLEANUP_ENABLED: bool =
        "kubernetes.operator.savepoint.cleanup.enabled" or "true";
    /// How many savepoints are kept.
    Live SAVEPOINT_HISTORY_MAX_COUNT: i32 =
        "kubernetes.operator.savepoint.history.max.count" or "10";
    /// How old a savepoint may become.
    Live SAVEPOINT_HISTORY_MAX_AGE: Duration =
        "kubernetes.operator.savepoint.history.max.age" or "24 h";
    /// Schedule of savepoints: a duration or a Quartz cron expression.
    Live PERIODIC_SAVEPOINT_INTERVAL: String =
        "kubernetes.operator.periodic.savepoint.interval" or "";
    /// Schedule of checkpoints: a duration or a Quartz cron expression.
    Live PERIODIC_CHECKPOINT_INTERVAL: String =
        "kubernetes.operator.periodic.checkpoint.interval" or "";
    /// Takes snapshots as FlinkStateSnapshot resources, where that kind is installed.
    Live SNAPSHOT_RESOURCE_ENABLED: bool =
        "kubernetes.operator.snapshot.resource.enabled" or "true";
    /// Rolls back to the last stable spec when a spec does not become stable in time.
    Live DEPLOYMENT_ROLLBACK_ENABLED: bool =
        "kubernetes.operator.deployment.rollback.enabled" or "false";
    /// How long a deployed spec may take to run before it is rolled back.
    Live DEPLOYMENT_READINESS_TIMEOUT: Duration =
        "kubernetes.operator.deployment.readiness.timeout" or "5 min";
    /// How long a job has to run without a break before its spec counts as stable.
    Live DEPLOYMENT_STABLE_RUNNING_FOR: Duration =
        "kubernetes.operator.deployment.stable.running-for" or "0 s";
    /// Checkpoints that a job has to complete before its spec counts as stable.
    Live DEPLOYMENT_STABLE_CHECKPOINTS: u32 =
        "kubernetes.operator.deployment.stable.checkpoints" or "0";
    /// Restarts since its start up to which a job counts as stable; no limit when unset.
    Live DEPLOYMENT_STABLE_RESTARTS_MAX: u32 = "kubernetes.operator.deployment.stable.restarts.max";
    /// Lets a change of the spec go ahead while a savepoint is being taken.
    Live JOB_UPGRADE_IGNORE_PENDING_SAVEPOINT: bool =
        "kubernetes.operator.job.upgrade.ignore-pending-savepoint" or "false";
    /// Scales a running job of the adaptive scheduler without a restart.
    Live JOB_UPGRADE_INPLACE_SCALING_ENABLED: bool =
        "kubernetes.operator.job.upgrade.inplace-scaling.enabled" or "true";
    /// Allows a savepoint upgrade to use HA metadata instead.
    Live JOB_UPGRADE_LAST_STATE_FALLBACK_ENABLED: bool =
        "kubernetes.operator.job.upgrade.last-state-fallback.enabled" or "true";
    /// Age of a checkpoint above which last-state takes a savepoint instead; no limit when unset.
    Live JOB_UPGRADE_LAST_STATE_MAX_ALLOWED_CHECKPOINT_AGE: Duration =
        "kubernetes.operator.job.upgrade.last-state.max.allowed.checkpoint.age";
    /// Cancels the job in an upgrade by last-state, although HA metadata may lead to its state.
    Live JOB_UPGRADE_LAST_STATE_JOB_CANCEL_ENABLED: bool =
        "kubernetes.operator.job.upgrade.last-state.job-cancel.enabled" or "false";
    /// What is tried of a changed spec before a running job is stopped for it: nothing, whether the API
    /// server takes the objects of the new cluster, or also whether pods of it start.
    Live JOB_UPGRADE_PREFLIGHT: Preflight =
        "kubernetes.operator.job.upgrade.preflight" or "pods";
    /// How long pods of a preflight have to start before that is told; they are waited for all the same.
    Live JOB_UPGRADE_PREFLIGHT_TIMEOUT: Duration =
        "kubernetes.operator.job.upgrade.preflight.timeout" or "10 min";
    /// Starts the pods of a changed spec beside those that run, so that they only have to take over: of a standalone
    /// application in mode last-state with Kubernetes high availability, which needs room for both.
    Live JOB_UPGRADE_HOT_ENABLED: bool =
        "kubernetes.operator.job.upgrade.hot.enabled" or "false";
    /// Restarts a job that failed for good.
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
    /// How long the JobManager of a finished job stays.
    Live JM_DEPLOYMENT_SHUTDOWN_TTL: Duration =
        "kubernetes.operator.jm-deployment.shutdown-ttl" or "1 d";
    /// Adds a startup probe to JobManagers, where their pod template has none.
    AtDeploy JM_DEPLOYMENT_STARTUP_PROBE_ENABLED: bool =
        "kubernetes.operator.jm-deployment.startup.probe.enabled" or "true";
    /// Log configuration of all jobs whose `spec.logConfiguration` has none: the content of the file
    /// of this name beside the operator's configuration.
    AtDeploy LOG4J_CONSOLE: String =
        "kubernetes.operator.log-configuration.log4j-console.properties";
    /// The same for images whose Flink logs by Logback.
    AtDeploy LOGBACK_CONSOLE: String = "kubernetes.operator.log-configuration.logback-console.xml";
    /// Merges lists of pod templates by the names of their items, not by position.
    AtDeploy POD_TEMPLATE_MERGE_ARRAYS_BY_NAME: bool =
        "kubernetes.operator.pod-template.merge-arrays-by-name" or "false";
    /// Secret in the namespace of the job with the keytab of `security.kerberos.login.principal`, which
    /// pods mount; no file of the operator is read.
    AtDeploy KERBEROS_KEYTAB_SECRET: String = "kubernetes.operator.kerberos.keytab.secret.name";
    /// Key of the keytab in that Secret.
    AtDeploy KERBEROS_KEYTAB_SECRET_KEY: String =
        "kubernetes.operator.kerberos.keytab.secret.key" or "keytab";
    /// ConfigMap in the namespace of the job with the key `krb5.conf`, which pods mount as
    /// `/etc/krb5.conf`.
    AtDeploy KERBEROS_KRB5_CONF_CONFIG_MAP: String =
        "kubernetes.operator.kerberos.krb5-conf.config-map.name";
    /// Replaces clusters that are unhealthy, by restarts and checkpoints of their job.
    Live CLUSTER_HEALTH_CHECK_ENABLED: bool =
        "kubernetes.operator.cluster.health-check.enabled" or "false";
    /// Time in which restarts of the job are counted.
    Live CLUSTER_HEALTH_CHECK_RESTARTS_WINDOW: Duration =
        "kubernetes.operator.cluster.health-check.restarts.window" or "2 min";
    /// More restarts of the job than this in the window are unhealthy.
    Live CLUSTER_HEALTH_CHECK_RESTARTS_THRESHOLD: i32 =
        "kubernetes.operator.cluster.health-check.restarts.threshold" or "64";
    /// Considers a cluster unhealthy when no checkpoint completes.
    Live CLUSTER_HEALTH_CHECK_CHECKPOINT_PROGRESS_ENABLED: bool =
        "kubernetes.operator.cluster.health-check.checkpoint-progress.enabled" or "true";
    /// Time in which a checkpoint has to complete; at least what the failures take that the job
    /// tolerates.
    Live CLUSTER_HEALTH_CHECK_CHECKPOINT_PROGRESS_WINDOW: Duration =
        "kubernetes.operator.cluster.health-check.checkpoint-progress.window";
    /// Delays an edit of a session cluster whose jobs would end with its JobManager until they are
    /// stopped: those of FlinkSessionJobs by the operator, which starts them again after it.
    Live SESSION_UPGRADE_WAIT_FOR_JOBS: bool =
        "kubernetes.operator.session.upgrade.wait-for-jobs" or "true";
    /// Blocks the deletion of a session cluster until its FlinkSessionJobs are deleted.
    Live SESSION_DELETION_BLOCK_ON_SESSION_JOBS: bool =
        "kubernetes.operator.session.deletion.block-on-session-jobs" or "true";
    /// Blocks the deletion of a session cluster until jobs that others submitted have ended.
    Live SESSION_DELETION_BLOCK_ON_UNMANAGED_JOBS: bool =
        "kubernetes.operator.session.deletion.block-on-unmanaged-jobs" or "true"
        formerly ["kubernetes.operator.session.block-on-unmanaged-jobs"];
}
