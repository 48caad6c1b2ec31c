//! Flink's options that the operator reads or writes.

use std::time::Duration;

use super::{List, MapList, TextMap};
use crate::memory::MemorySize;
use crate::option::{ConfigOption, PullPolicy, ServiceExposedType};

// These options are read each time a cluster is observed. If one could not be parsed, the operator could no longer
// observe any cluster.
options! {
    OF_EACH_LOOK =>
    /// Port of Flink's REST API.
    Live REST_PORT: u16 = "rest.port" or "8081" formerly ["web.port"];
    /// Enables TLS for Flink's REST API.
    Live SSL_REST_ENABLED: bool =
        "security.ssl.rest.enabled" or "false" formerly ["security.ssl.enabled"];
    /// Pause between checkpoints; none are taken when unset.
    Live CHECKPOINTING_INTERVAL: Duration = "execution.checkpointing.interval";
    /// How long a checkpoint may take.
    Live CHECKPOINTING_TIMEOUT: Duration = "execution.checkpointing.timeout" or "10 min";
    /// Parallelism of a job.
    Live PARALLELISM: i32 = "parallelism.default" or "1";
}

/// Options that Flink no longer reads since 2.0, among those that determine here how a cluster is reached or how large
/// its processes are.
pub const GONE_IN_FLINK_2: [&str; 6] = [
    "jobmanager.heap.mb",
    "jobmanager.heap.size",
    "security.ssl.enabled",
    "taskmanager.network.memory.buffers-per-channel",
    "taskmanager.network.memory.floating-buffers-per-gate",
    "taskmanager.network.numberOfBuffers",
];

flinks! {
    /// The program's arguments, for Flink's own entry point.
    APPLICATION_ARGS: List = "$internal.application.program-args";
    APPLICATION_MAIN_CLASS: String = "$internal.application.main";
    /// The version that the resource states, such as `v1_20`.
    FLINK_VERSION: String = "$internal.flink.version";
    /// 32 hexadecimal digits.
    FIXED_JOB_ID: String = "$internal.pipeline.job-id";
    /// A port or a range; see `render` for what becomes of 0.
    BLOB_SERVER_PORT: String = "blob.server.port" or "0";
    EXECUTION_TARGET: String = "execution.target";
    SHUTDOWN_ON_APPLICATION_FINISH: bool = "execution.shutdown-on-application-finish" or "true";
    SUBMIT_FAILED_JOB_ON_APPLICATION_ERROR: bool =
        "execution.submit-failed-job-on-application-error" or "false";
    RETAINED_CHECKPOINTS: i32 =
        "execution.checkpointing.num-retained" or "1" formerly ["state.checkpoints.num-retained"];
    TOLERABLE_FAILED_CHECKPOINTS: i32 =
        "execution.checkpointing.tolerable-failed-checkpoints" or "0";
    CHECKPOINT_RETENTION: String = "execution.checkpointing.externalized-checkpoint-retention";
    CHECKPOINT_DIRECTORY: String =
        "execution.checkpointing.dir"
        formerly ["state.checkpoints.dir", "state.backend.fs.checkpointdir"];
    SAVEPOINT_DIRECTORY: String =
        "execution.checkpointing.savepoint-dir"
        formerly ["state.savepoints.dir", "savepoints.state.backend.fs.dir"];
    /// The state that a job starts from. Flink prefers the second name where it knows it, so both
    /// are cleared together.
    SAVEPOINT_PATH: String = "execution.savepoint.path" formerly ["execution.state-recovery.path"];
    SAVEPOINT_IGNORE_UNCLAIMED_STATE: bool =
        "execution.savepoint.ignore-unclaimed-state" or "false"
        formerly ["execution.state-recovery.ignore-unclaimed-state"];
    /// `NONE`, `KUBERNETES`, `ZOOKEEPER` or a factory's class; see
    /// [`crate::cluster::is_high_availability_on`].
    HA_TYPE: String = "high-availability.type" formerly ["high-availability", "recovery.mode"];
    HA_STORAGE_DIRECTORY: String =
        "high-availability.storageDir"
        formerly ["high-availability.zookeeper.storageDir", "recovery.zookeeper.storageDir"];
    HA_CLUSTER_ID: String =
        "high-availability.cluster-id"
        formerly [
            "high-availability.zookeeper.path.namespace",
            "recovery.zookeeper.path.namespace",
        ];
    /// `host:port,…`
    ZOOKEEPER_QUORUM: String =
        "high-availability.zookeeper.quorum" formerly ["recovery.zookeeper.quorum"];
    ZOOKEEPER_ROOT: String =
        "high-availability.zookeeper.path.root" or "/flink"
        formerly ["recovery.zookeeper.path.root"];
    /// Of Flink before 2.0.
    ZOOKEEPER_JOB_GRAPHS: String =
        "high-availability.zookeeper.path.jobgraphs" or "/jobgraphs"
        formerly ["recovery.zookeeper.path.jobgraphs"];
    /// Of Flink from 2.0 on.
    ZOOKEEPER_EXECUTION_PLANS: String =
        "high-availability.zookeeper.path.execution-plans" or "/execution-plans"
        formerly [
            "recovery.zookeeper.path.jobgraphs",
            "high-availability.zookeeper.path.jobgraphs",
        ];
    /// Applications of session clusters, since Flink 2.3.
    ZOOKEEPER_APPLICATIONS: String =
        "high-availability.zookeeper.path.applications" or "/applications";
    /// `open` or `creator`.
    ZOOKEEPER_ACL: String = "high-availability.zookeeper.client.acl" or "open";
    /// Secrets by their scheme.
    ZOOKEEPER_AUTHORIZATION: TextMap = "high-availability.zookeeper.client.authorization";
    ZOOKEEPER_CONNECTION_TIMEOUT: Duration =
        "high-availability.zookeeper.client.connection-timeout" or "15 s"
        formerly ["recovery.zookeeper.client.connection-timeout"];
    /// A port or a range.
    HA_JOB_MANAGER_PORT: String =
        "high-availability.jobmanager.port" or "0" formerly ["recovery.jobmanager.port"];
    CLUSTER_EXECUTION_MODE: String = "internal.cluster.execution-mode";
    JOB_RESULT_STORE_PATH: String = "job-result-store.storage-path";
    JOB_RESULT_STORE_DELETE_ON_COMMIT: bool = "job-result-store.delete-on-commit" or "true";
    /// Since Flink 2.3.
    APPLICATION_RESULT_STORE_PATH: String = "application-result-store.storage-path";
    APPLICATION_RESULT_STORE_DELETE_ON_COMMIT: bool =
        "application-result-store.delete-on-commit" or "true";
    JOB_MANAGER_RPC_ADDRESS: String = "jobmanager.rpc.address";
    JOB_MANAGER_RPC_PORT: u16 = "jobmanager.rpc.port" or "6123";
    JOB_MANAGER_PROCESS_MEMORY: MemorySize = "jobmanager.memory.process.size";
    JOB_MANAGER_FLINK_MEMORY: MemorySize = "jobmanager.memory.flink.size";
    JOB_MANAGER_HEAP_MEMORY: MemorySize = "jobmanager.memory.heap.size";
    JOB_MANAGER_OFF_HEAP_MEMORY: MemorySize = "jobmanager.memory.off-heap.size" or "128 mb";
    /// Of old; on Kubernetes the memory of the whole process.
    JOB_MANAGER_LEGACY_HEAP: MemorySize = "jobmanager.heap.size";
    /// Of old, in MiB.
    JOB_MANAGER_LEGACY_HEAP_MEBIBYTES: u32 = "jobmanager.heap.mb";
    JOB_MANAGER_METASPACE: MemorySize = "jobmanager.memory.jvm-metaspace.size" or "256 mb";
    JOB_MANAGER_OVERHEAD_MIN: MemorySize = "jobmanager.memory.jvm-overhead.min" or "192 mb";
    JOB_MANAGER_OVERHEAD_MAX: MemorySize = "jobmanager.memory.jvm-overhead.max" or "1 gb";
    JOB_MANAGER_OVERHEAD_FRACTION: f64 = "jobmanager.memory.jvm-overhead.fraction" or "0.1";
    TASK_MANAGER_PROCESS_MEMORY: MemorySize = "taskmanager.memory.process.size";
    TASK_MANAGER_FLINK_MEMORY: MemorySize = "taskmanager.memory.flink.size";
    TASK_MANAGER_FRAMEWORK_HEAP: MemorySize = "taskmanager.memory.framework.heap.size" or "128 mb";
    TASK_MANAGER_FRAMEWORK_OFF_HEAP: MemorySize =
        "taskmanager.memory.framework.off-heap.size" or "128 mb";
    TASK_MANAGER_TASK_HEAP: MemorySize = "taskmanager.memory.task.heap.size";
    TASK_MANAGER_TASK_OFF_HEAP: MemorySize = "taskmanager.memory.task.off-heap.size" or "0 bytes";
    TASK_MANAGER_MANAGED_MEMORY: MemorySize =
        "taskmanager.memory.managed.size" formerly ["taskmanager.memory.size"];
    TASK_MANAGER_MANAGED_FRACTION: f64 = "taskmanager.memory.managed.fraction" or "0.4";
    /// Used instead of the network's sizes where none of those is set.
    NETWORK_BUFFERS: i32 = "taskmanager.network.numberOfBuffers";
    NETWORK_BUFFERS_PER_CHANNEL: u32 = "taskmanager.network.memory.buffers-per-channel" or "2";
    NETWORK_FLOATING_BUFFERS: u32 = "taskmanager.network.memory.floating-buffers-per-gate" or "8";
    MEMORY_SEGMENT_SIZE: MemorySize = "taskmanager.memory.segment-size" or "32 kb";
    TASK_MANAGER_NETWORK_MIN: MemorySize =
        "taskmanager.memory.network.min" or "64 mb" formerly ["taskmanager.network.memory.min"];
    TASK_MANAGER_NETWORK_MAX: MemorySize =
        "taskmanager.memory.network.max" or "8388607 tb"
        formerly ["taskmanager.network.memory.max"];
    TASK_MANAGER_NETWORK_FRACTION: f64 =
        "taskmanager.memory.network.fraction" or "0.1"
        formerly ["taskmanager.network.memory.fraction"];
    TASK_MANAGER_METASPACE: MemorySize = "taskmanager.memory.jvm-metaspace.size" or "256 mb";
    TASK_MANAGER_OVERHEAD_MIN: MemorySize = "taskmanager.memory.jvm-overhead.min" or "192 mb";
    TASK_MANAGER_OVERHEAD_MAX: MemorySize = "taskmanager.memory.jvm-overhead.max" or "1 gb";
    TASK_MANAGER_OVERHEAD_FRACTION: f64 = "taskmanager.memory.jvm-overhead.fraction" or "0.1";
    /// A port or a range; see `render` for what becomes of 0.
    TASK_MANAGER_RPC_PORT: String = "taskmanager.rpc.port" or "0";
    TASK_SLOTS: i32 = "taskmanager.numberOfTaskSlots" or "1";
    KUBERNETES_NAMESPACE: String = "kubernetes.namespace" or "default";
    KUBERNETES_CLUSTER_ID: String = "kubernetes.cluster-id";
    /// `APPLICATION` or `SESSION`, of standalone clusters.
    KUBERNETES_CLUSTER_MODE: String = "kubernetes.internal.cluster-mode";
    JOB_MANAGER_ENTRYPOINT_CLASS: String = "kubernetes.internal.jobmanager.entrypoint.class";
    STANDALONE_TASK_MANAGER_REPLICAS: i32 = "kubernetes.internal.taskmanager.replicas";
    /// The older name is the one that Flink before 1.17 knows.
    CONTAINER_IMAGE: String =
        "kubernetes.container.image.ref" formerly ["kubernetes.container.image"];
    CONTAINER_IMAGE_PULL_POLICY: PullPolicy =
        "kubernetes.container.image.pull-policy" or "IfNotPresent";
    CONTAINER_IMAGE_PULL_SECRETS: List = "kubernetes.container.image.pull-secrets";
    /// `REACTIVE`: the job of a standalone cluster uses every slot that there is.
    SCHEDULER_MODE: String = "scheduler-mode";
    /// Of JobManager and TaskManagers.
    SERVICE_ACCOUNT: String = "kubernetes.service-account";
    JOB_MANAGER_SERVICE_ACCOUNT: String = "kubernetes.jobmanager.service-account";
    TASK_MANAGER_SERVICE_ACCOUNT: String = "kubernetes.taskmanager.service-account";
    REST_SERVICE_EXPOSED_TYPE: ServiceExposedType =
        "kubernetes.rest-service.exposed.type" or "ClusterIP";
    REST_SERVICE_ANNOTATIONS: TextMap = "kubernetes.rest-service.annotations";
    INTERNAL_SERVICE_ANNOTATIONS: TextMap = "kubernetes.internal-service.annotations";
    /// A port or a range.
    REST_BIND_PORT: String = "rest.bind-port";
    JOB_MANAGER_REPLICAS: i32 = "kubernetes.jobmanager.replicas" or "1";
    /// The older name is the one that Flink before 1.17 knows.
    JOB_MANAGER_CPU: f64 =
        "kubernetes.jobmanager.cpu.amount" or "1.0" formerly ["kubernetes.jobmanager.cpu"];
    JOB_MANAGER_CPU_LIMIT_FACTOR: f64 = "kubernetes.jobmanager.cpu.limit-factor" or "1.0";
    JOB_MANAGER_MEMORY_LIMIT_FACTOR: f64 = "kubernetes.jobmanager.memory.limit-factor" or "1.0";
    JOB_MANAGER_LABELS: TextMap = "kubernetes.jobmanager.labels";
    JOB_MANAGER_ANNOTATIONS: TextMap = "kubernetes.jobmanager.annotations";
    JOB_MANAGER_NODE_SELECTOR: TextMap = "kubernetes.jobmanager.node-selector";
    JOB_MANAGER_TOLERATIONS: MapList = "kubernetes.jobmanager.tolerations";
    JOB_MANAGER_ENTRYPOINT_ARGS: String = "kubernetes.jobmanager.entrypoint.args" or "";
    JOB_MANAGER_OWNER_REFERENCE: MapList = "kubernetes.jobmanager.owner.reference";
    /// The number of slots when unset.
    TASK_MANAGER_CPU: f64 =
        "kubernetes.taskmanager.cpu.amount" formerly ["kubernetes.taskmanager.cpu"];
    TASK_MANAGER_CPU_LIMIT_FACTOR: f64 = "kubernetes.taskmanager.cpu.limit-factor" or "1.0";
    TASK_MANAGER_MEMORY_LIMIT_FACTOR: f64 = "kubernetes.taskmanager.memory.limit-factor" or "1.0";
    TASK_MANAGER_LABELS: TextMap = "kubernetes.taskmanager.labels";
    TASK_MANAGER_ANNOTATIONS: TextMap = "kubernetes.taskmanager.annotations";
    TASK_MANAGER_NODE_SELECTOR: TextMap = "kubernetes.taskmanager.node-selector";
    TASK_MANAGER_TOLERATIONS: MapList = "kubernetes.taskmanager.tolerations";
    JOB_MANAGER_POD_TEMPLATE: String = "kubernetes.pod-template-file.jobmanager"
        formerly ["kubernetes.pod-template-file.default", "kubernetes.pod-template-file"];
    TASK_MANAGER_POD_TEMPLATE: String = "kubernetes.pod-template-file.taskmanager"
        formerly ["kubernetes.pod-template-file.default", "kubernetes.pod-template-file"];
    FLINK_CONF_DIRECTORY: String = "kubernetes.flink.conf.dir" or "/opt/flink/conf";
    FLINK_LOG_DIRECTORY: String = "kubernetes.flink.log.dir";
    ENTRY_PATH: String = "kubernetes.entry.path" or "/docker-entrypoint.sh";
    ENV_SECRET_KEY_REFS: MapList = "kubernetes.env.secretKeyRef";
    /// Mount paths by the secret's name.
    SECRETS: TextMap = "kubernetes.secrets";
    HOST_NETWORK_ENABLED: bool = "kubernetes.hostnetwork.enabled" or "false";
    HADOOP_CONF_CONFIG_MAP: String = "kubernetes.hadoop.conf.config-map.name";
    HADOOP_CONF_MOUNT_ENABLED: bool = "kubernetes.decorator.hadoop-conf-mount.enabled" or "true";
    /// Known since Flink 1.17.
    KERBEROS_MOUNT_ENABLED: bool = "kubernetes.decorator.kerberos-mount.enabled" or "true";
    USER_ARTIFACTS_DIRECTORY: String = "user.artifacts.base-dir" or "/opt/flink/artifacts";
    KERBEROS_KEYTAB: String = "security.kerberos.login.keytab" formerly ["security.keytab"];
    KERBEROS_PRINCIPAL: String =
        "security.kerberos.login.principal" formerly ["security.principal"];
    KERBEROS_KRB5_CONF: String = "security.kerberos.krb5-conf.path";
    PIPELINE_JARS: List = "pipeline.jars";
    PIPELINE_CLASSPATHS: List = "pipeline.classpaths";
    PIPELINE_NAME: String = "pipeline.name";
    /// Parallelism by the id of a vertex.
    PARALLELISM_OVERRIDES: TextMap = "pipeline.jobvertex-parallelism-overrides";
    SCHEDULER: String = "jobmanager.scheduler";
    HA_LEADER_LEASE_DURATION: Duration =
        "high-availability.kubernetes.leader-election.lease-duration" or "15 s";
    HA_LEADER_RETRY_PERIOD: Duration =
        "high-availability.kubernetes.leader-election.retry-period";
    WEB_CANCEL_ENABLE: bool = "web.cancel.enable" or "true";
}
