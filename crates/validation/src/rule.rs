//! The rules by their codes. A code never changes its meaning and is never reused.
//!
//! Up to FK0099, a rule is something that the operator refuses. From FK0101 on it is advice, which only
//! `kubectl flink lint` gives.

use std::fmt;

use serde::Serialize;

use super::{Finding, Violation};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// It runs, but something will go wrong one day.
    Warning,
    /// The operator refuses it.
    Error,
}

/// Text about a rule for people to read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Text {
    pub severity: Severity,
    /// A few words in lower case.
    pub title: &'static str,
    pub why: &'static str,
    pub remedy: &'static str,
}

macro_rules! rules {
    ($($name:ident = $number:literal $severity:ident: $title:literal, $why:literal, $remedy:literal;)*) => {
        /// One rule.
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum Rule {
            $(#[doc = $title] $name = $number,)*
        }

        impl Rule {
            /// All rules, by code.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the text for people.
            pub fn text(self) -> Text {
                match self {
                    $(Self::$name => Text {
                        severity: Severity::$severity,
                        title: $title,
                        why: $why,
                        remedy: $remedy,
                    },)*
                }
            }
        }
    };
}

rules! {
    Name = 1 Error: "invalid name",
        "The names of Services and ConfigMaps are derived from it, and DNS limits them to 63 characters.",
        "Use at most 45 lower case letters, digits and `-`, starting with a letter and ending with a letter or digit.";
    FlinkVersion = 2 Error: "the Flink version is missing or not supported",
        "The operator handles each Flink version differently, and cannot tell the version from an image.",
        "Set `spec.flinkVersion` to the version of the image, `v1_15` or newer.";
    OperatorKey = 3 Error: "an option that only the operator sets",
        "Flink finds its cluster and its HA metadata by these keys: with another value it would \
         use another cluster's.",
        "Remove the key.";
    OptionValue = 4 Error: "the value of an option cannot be read",
        "Otherwise the error would only show when the value is needed, possibly while a job is stopped.",
        "Write the value in the format given in the message.";
    TaskSlots = 5 Error: "a TaskManager without slots",
        "It can run nothing, and Flink refuses to start it.",
        "Set `taskmanager.numberOfTaskSlots` to 1 or more.";
    RollbackNeedsHa = 6 Error: "rollback without high availability",
        "A rollback returns to the last checkpoint, which it finds through HA metadata.",
        "Set `high-availability.type: kubernetes` and `high-availability.storageDir`.";
    HealthNeedsRecovery = 7 Error: "a health check that cannot restart anything",
        "The check restarts unhealthy clusters by means of recovery.",
        "Leave `kubernetes.operator.jm-deployment-recovery.enabled` on, or disable the check.";
    KeyInKey = 8 Error: "an option is set together with one below it",
        "Since Flink 2.0 options are a YAML tree, in which `a.b` and `a.b.c` cannot both have a value.",
        "Remove one of the two.";
    IngressTemplate = 9 Error: "the Ingress template is not a URL",
        "No Ingress can be created from it.",
        "Write it like `{{name}}.{{namespace}}.flink.example.com`.";
    LogFile = 10 Error: "a log configuration that Flink does not read",
        "Flink reads two files with these names, and silently ignores any other.",
        "Use `log4j-console.properties` or `logback-console.xml`.";
    CheckpointDirectory = 11 Error: "the job keeps its state, but there is no checkpoint directory",
        "Upgrade modes `savepoint` and `last-state` restore from it after the job has failed.",
        "Set `state.checkpoints.dir` to a directory that all pods can access.";
    SavepointDirectory = 12 Error: "savepoints are required, but there is no directory for them",
        "Flink rejects a savepoint without a directory, so the job could not be stopped with its state.",
        "Set `state.savepoints.dir` to a directory that all pods can access.";
    Parallelism = 13 Error: "the parallelism is missing or below 1",
        "The number of TaskManagers follows from it.",
        "Set `spec.job.parallelism`, or `spec.taskManager.replicas` in standalone mode.";
    JarUri = 14 Error: "the jar's address is not a URI",
        "Flink would fail to start.",
        "Write it like `local:///opt/flink/usrlib/job.jar`.";
    CutArgument = 15 Error: "an argument that `flink-conf.yaml` would truncate",
        "Before Flink 2.0 arguments are passed in a file in which a value ends at `#` or a line break: the job would run with other arguments.",
        "Use Flink 2.0, standalone mode, or an argument without those characters.";
    MemoryMissing = 16 Error: "the memory of a process is not set",
        "Flink does not start without it, and Kubernetes needs it to select a node.",
        "Set `resource.memory` of `jobManager` and `taskManager`.";
    MemoryModel = 17 Error: "memory that Flink cannot split",
        "Flink derives all parts of a process's memory from the configured sizes, and does not start if they contradict each other.",
        "Increase the total, or let Flink choose the sizes of the parts.";
    JobManagerReplicas = 18 Error: "fewer than one JobManager",
        "A cluster needs a JobManager.",
        "Set `spec.jobManager.replicas` to 1 or more; to stop the job set `spec.job.state: suspended`.";
    StandbyNeedsHa = 19 Error: "standby JobManagers without high availability",
        "JobManagers elect a leader through HA metadata; without it each would run the job.",
        "Set `high-availability.type: kubernetes`, or use one replica.";
    TaskManagerReplicas = 20 Error: "fewer than one TaskManager",
        "A job without TaskManagers waits forever.",
        "Set `spec.taskManager.replicas` to 1 or more; to stop the job set `spec.job.state: suspended`.";
    KindOfCluster = 21 Error: "a session cluster becomes an application, or the other way round",
        "A session cluster has no job of its own, and an application cluster only has its own: the \
         running jobs would be lost.",
        "Create a resource with another name.";
    ModeChange = 22 Error: "native becomes standalone, or the other way round",
        "The two modes create TaskManagers differently.",
        "Create a resource with another name, with `initialSavepointPath`.";
    VersionWhileSuspended = 23 Error: "the Flink version changes while the job is suspended by last-state",
        "A Flink version cannot read the HA metadata of another.",
        "Resume the job with the previous version, then upgrade.";
    RedeployNeedsPath = 24 Error: "a savepoint redeploy without a path",
        "`savepointRedeployNonce` replaces the current state with that of `initialSavepointPath`; \
         without a path the job would start empty.",
        "Set `spec.job.initialSavepointPath`.";
    ServiceAccount = 25 Error: "there is no service account",
        "Flink creates its TaskManagers and keeps HA metadata with the permissions of the account.",
        "Set `spec.serviceAccount`; `kubectl flink init` creates one named `flink`.";
    PullPolicy = 26 Error: "an unknown pull policy",
        "The API server would reject the pods.",
        "Use `IfNotPresent`, `Always` or `Never`.";
    Quantity = 27 Error: "a quantity that cannot be read or is not positive",
        "Neither Kubernetes nor Flink could reserve it.",
        "Write it like `1`, `500m` or `2Gi`.";
    RequestOverLimit = 28 Error: "a request above its limit",
        "The API server would reject the pods.",
        "Raise the limit or lower the request.";
    AutoscalerRange = 29 Error: "an option of the autoscaler is out of range",
        "Outside the range its decisions would be meaningless.",
        "Use a value in the range given in the message.";
    ExcludedPeriod = 30 Error: "an excluded period that cannot be read",
        "The autoscaler would scale when it must not.",
        "Write it like `09:30-10:30`, or as the message says.";
    MetricsWindow = 31 Error: "a metrics window shorter than the interval between samples",
        "There would never be two samples, so no decision.",
        "Raise `job.autoscaler.metrics.window`.";
    DeploymentName = 32 Error: "the session cluster is missing, or its name is invalid",
        "A session job runs in a separate cluster.",
        "Set `spec.deploymentName` to the name of a session FlinkDeployment in the namespace.";
    SessionJobWithoutJob = 33 Error: "a session job without a job",
        "There is nothing to submit.",
        "Set `spec.job`.";
    ClusterChange = 34 Error: "a session job changes its cluster",
        "The job would keep running in the old cluster, unmanaged.",
        "Delete the job and create it in the other cluster.";
    JarScheme = 35 Error: "a jar with a scheme that the operator does not fetch",
        "The operator fetches jars of session jobs itself, and must not be sent to arbitrary places.",
        "Use one of the schemes given in the message, or configure the operator to allow more.";
    JarHost = 36 Error: "a jar on a host that the operator does not connect to",
        "The operator can reach places that the author of a resource may not.",
        "Put the jar on a public host, or configure the operator to allow such hosts.";
    NotASessionCluster = 37 Error: "the cluster of a session job is an application",
        "An application cluster only runs its own job.",
        "Name a FlinkDeployment without `spec.job`.";
    SnapshotKind = 38 Error: "a snapshot is neither a savepoint nor a checkpoint, or both",
        "It is unclear what to take.",
        "Set one of `spec.savepoint` and `spec.checkpoint`.";
    SnapshotJob = 39 Error: "a snapshot without a job",
        "There is nothing to take a snapshot of.",
        "Set `spec.jobReference` to the kind and name of a job in the namespace.";
    Schema = 40 Error: "the manifest does not follow the schema",
        "The API server would reject it, or silently drop a misspelt field.",
        "Correct the field; `kubectl explain flinkdeployment.spec` shows them all.";
    KerberosFile = 41 Error: "a keytab that Flink cannot use",
        "Flink needs both a keytab and a principal, or neither, and before 1.17 its native \
         TaskManagers cannot mount a user's Secret. Files in the operator's pod are not checked \
         here: the operator checks them before it stops or starts anything.",
        "Set `security.kerberos.login.principal`; for an older Flink use standalone mode, or a keytab in the operator's pod.";
    HighAvailabilityOfJob = 42 Error: "high availability of a session job",
        "A cluster has it for all its jobs or for none: setting it for one of them has no effect.",
        "Remove `high-availability.*`, and set it in the FlinkDeployment of the session cluster.";
    BlueGreenTemplate = 43 Error: "a blue/green deployment without a job",
        "Its children are applications, created from `spec.template.spec`.",
        "Put a FlinkDeployment's spec with `job` into `spec.template.spec`.";
    BlueGreenOption = 44 Error: "an option of a blue/green deployment that cannot be read",
        "`spec.configuration` has three options of `kubernetes.operator.bluegreen`, all durations.",
        "Correct its name or value, or move it to `spec.template.spec.flinkConfiguration`.";
    BlueGreenJobId = 45 Error: "two colours with the same job id",
        "During a transition both run, and would overwrite each other's checkpoints.",
        "Remove `$internal.pipeline.job-id`.";
    BlueGreenMode = 46 Error: "an unsupported transition mode",
        "`ADVANCED` needs gates in the job that control which colour writes (FLIP-504), and this operator has none.",
        "Remove `spec.transitionMode`: with `BASIC` both colours write until the former one ends. If nothing may be written twice, use a `FlinkDeployment` with hot upgrades (`kubernetes.operator.job.upgrade.hot.enabled`): only one job writes at a time, and it needs no gates.";
    IngressLimit = 47 Error: "an Ingress that the installation does not allow",
        "The operator creates it with its own permissions, and a host or an annotation can affect others who use the same Ingress controller.",
        "Change it, or ask for an exception in the operator's options `kubernetes.operator.ingress.allowed-…`.";
    LastStateWithoutHa = 101 Warning: "upgrade mode last-state without high availability",
        "Without HA metadata there is no pointer to the last checkpoint once a JobManager is gone: \
         the job then waits for manual action.",
        "Set `high-availability.type: kubernetes` and `high-availability.storageDir`.";
    NoCheckpoints = 102 Warning: "the job keeps its state, but takes no checkpoints",
        "A failed job starts from its last savepoint, or from the beginning.",
        "Set `execution.checkpointing.interval`, unless the job does so itself.";
    ImageTag = 103 Warning: "an image without a fixed tag",
        "Pods that start later may run a different program, and a rollback does not bring the old one back.",
        "Use a tag that never moves, or a digest.";
    SmallMemory = 104 Warning: "a process with very little memory",
        "Metaspace, JVM overhead and network buffers take most of it, so the job soon runs out of heap.",
        "Give each process 1 GiB or more.";
    Stateless = 105 Info: "every upgrade drops the state",
        "Upgrade mode `stateless` starts the job empty after every change.",
        "Set `spec.job.upgradeMode` to `savepoint` or `last-state`, unless the job has no state.";
    LocalDirectory = 106 Warning: "state in a directory local to a pod",
        "It is deleted with the pod, and no other pod can read it.",
        "Use an object store, or a volume that all pods mount at that path.";
    NoSavepointDirectory = 107 Info: "no directory for savepoints",
        "Neither an upgrade of Flink nor a deletion can save the state.",
        "Set `state.savepoints.dir`.";
    PlainSecret = 108 Warning: "a secret in plain text",
        "Anyone who can read the resource, its ConfigMap or a backup can read it.",
        "Pass it as an environment variable from a Secret, or use the identity of the service account.";
    UnknownOption = 109 Warning: "an unknown option of the operator",
        "It has no effect.",
        "Correct its name.";
    DropsUnmatchedState = 110 Warning: "state without an operator is dropped",
        "With `allowNonRestoredState` a renamed operator silently starts empty.",
        "Only set it for the upgrade that needs it, and remove it afterwards.";
    IdleSlots = 111 Info: "unused slots",
        "The parallelism is not a multiple of the slots of a TaskManager, so the last one has idle slots.",
        "Make `spec.job.parallelism` a multiple of `taskmanager.numberOfTaskSlots`.";
    GoneInFlink2 = 112 Warning: "an option that Flink 2 does not read",
        "It has no effect since Flink 2.0.",
        "Remove it. For TLS use `security.ssl.rest.enabled` and `security.ssl.internal.enabled`, for memory `jobmanager.memory.*` and `taskmanager.memory.network.*`.";
    OperatorOption = 113 Warning: "an option that only the operator's own configuration sets",
        "It has no effect in a resource: it protects others from who edits one.",
        "Remove it, or ask whoever runs the operator.";
    OperatorFile = 114 Warning: "a file in the operator's pod that the operator refuses",
        "A resource may only name keytabs and a `krb5.conf` in directories that the operator's configuration allows, and no pod templates. Nothing is started or stopped with others. Without `--operator-config` no directory is allowed.",
        "Use a Secret and a ConfigMap of the namespace, and `spec.podTemplate`, or have the directory allowed.";
}

impl Rule {
    /// Returns the code, such as `FK0001`.
    pub fn code(self) -> String {
        format!("FK{:04}", self as u16)
    }

    /// Parses the code of a rule in any notation.
    pub fn parse(code: &str) -> Option<Self> {
        let number = code.trim().to_ascii_uppercase();
        let number: u16 = number.strip_prefix("FK").unwrap_or(&number).parse().ok()?;
        Self::ALL.iter().copied().find(|rule| *rule as u16 == number)
    }

    /// Creates a finding of this rule.
    pub(crate) fn found(self, path: impl Into<String>, message: impl Into<String>) -> Finding {
        Finding { rule: self, violation: Violation::new(path, message) }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.code())
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn codes_keep_their_meaning() {
        let table: Vec<String> = Rule::ALL
            .iter()
            .map(|rule| format!("{rule} {rule:?} {}", rule.text().severity.into_str()))
            .collect();
        expect![[r#"
            FK0001 Name error
            FK0002 FlinkVersion error
            FK0003 OperatorKey error
            FK0004 OptionValue error
            FK0005 TaskSlots error
            FK0006 RollbackNeedsHa error
            FK0007 HealthNeedsRecovery error
            FK0008 KeyInKey error
            FK0009 IngressTemplate error
            FK0010 LogFile error
            FK0011 CheckpointDirectory error
            FK0012 SavepointDirectory error
            FK0013 Parallelism error
            FK0014 JarUri error
            FK0015 CutArgument error
            FK0016 MemoryMissing error
            FK0017 MemoryModel error
            FK0018 JobManagerReplicas error
            FK0019 StandbyNeedsHa error
            FK0020 TaskManagerReplicas error
            FK0021 KindOfCluster error
            FK0022 ModeChange error
            FK0023 VersionWhileSuspended error
            FK0024 RedeployNeedsPath error
            FK0025 ServiceAccount error
            FK0026 PullPolicy error
            FK0027 Quantity error
            FK0028 RequestOverLimit error
            FK0029 AutoscalerRange error
            FK0030 ExcludedPeriod error
            FK0031 MetricsWindow error
            FK0032 DeploymentName error
            FK0033 SessionJobWithoutJob error
            FK0034 ClusterChange error
            FK0035 JarScheme error
            FK0036 JarHost error
            FK0037 NotASessionCluster error
            FK0038 SnapshotKind error
            FK0039 SnapshotJob error
            FK0040 Schema error
            FK0041 KerberosFile error
            FK0042 HighAvailabilityOfJob error
            FK0043 BlueGreenTemplate error
            FK0044 BlueGreenOption error
            FK0045 BlueGreenJobId error
            FK0046 BlueGreenMode error
            FK0047 IngressLimit error
            FK0101 LastStateWithoutHa warning
            FK0102 NoCheckpoints warning
            FK0103 ImageTag warning
            FK0104 SmallMemory warning
            FK0105 Stateless info
            FK0106 LocalDirectory warning
            FK0107 NoSavepointDirectory info
            FK0108 PlainSecret warning
            FK0109 UnknownOption warning
            FK0110 DropsUnmatchedState warning
            FK0111 IdleSlots info
            FK0112 GoneInFlink2 warning
            FK0113 OperatorOption warning
            FK0114 OperatorFile warning"#]]
        .assert_eq(&table.join("\n"));
    }

    #[test]
    fn a_code_is_found_however_it_is_written() {
        for text in ["FK0011", "fk0011", "11", " FK0011 "] {
            assert_eq!(Rule::parse(text), Some(Rule::CheckpointDirectory), "{text}");
        }
        for text in ["FK0000", "FK9999", "x", ""] {
            assert_eq!(Rule::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_refused_is_an_error_and_advice_is_not() {
        for rule in Rule::ALL {
            let is_error = rule.text().severity == Severity::Error;
            assert_eq!(is_error, (*rule as u16) < 100, "{rule}");
        }
    }
}
