//! The rules by their codes. A code never changes its meaning and is never given again.
//!
//! Up to FK0099 a rule is what the operator refuses; from FK0101 on it is advice, which nobody but
//! `kubectl flink lint` gives.

use std::fmt;

use serde::Serialize;

use super::{Finding, Violation};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Good to know.
    Info,
    /// It runs, and something will go wrong with it one day.
    Warning,
    /// The operator refuses it.
    Error,
}

/// Text about a rule, for people to read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Text {
    pub severity: Severity,
    /// In a few words, lower case.
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
            /// All of them, by code.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// What people read of it.
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
    Name = 1 Error: "the name is not valid",
        "The names of Services and ConfigMaps are made of it, and DNS allows them 63 characters.",
        "Use at most 45 lower case letters, digits and `-`, from a letter to a letter or digit.";
    FlinkVersion = 2 Error: "the Flink version is missing or not supported",
        "The operator speaks to each version of Flink in its own way, and cannot see it in an image.",
        "Set `spec.flinkVersion` to the version of the image, `v1_15` or newer.";
    OperatorKey = 3 Error: "an option that only the operator sets",
        "Flink finds its cluster and its HA metadata by these keys: another value would lead it to those of others.",
        "Leave the key out.";
    OptionValue = 4 Error: "the value of an option cannot be read",
        "What cannot be read would be found out when it is needed, which may be while a job is stopped.",
        "Write the value in the form that the message names.";
    TaskSlots = 5 Error: "a TaskManager without slots",
        "It runs nothing, and Flink refuses to start it.",
        "Set `taskmanager.numberOfTaskSlots` to 1 or more.";
    RollbackNeedsHa = 6 Error: "rollback without high availability",
        "A rollback goes back to the last checkpoint, which HA metadata leads to.",
        "Set `high-availability.type: kubernetes` and `high-availability.storageDir`.";
    HealthNeedsRecovery = 7 Error: "a health check that may not restart anything",
        "The check restarts clusters that are ill, which recovery does.",
        "Leave `kubernetes.operator.jm-deployment-recovery.enabled` on, or switch the check off.";
    KeyInKey = 8 Error: "an option is set beside one below it",
        "From Flink 2.0 on options are a YAML tree, where `a.b` cannot have a value and `a.b.c` too.",
        "Remove one of the two.";
    IngressTemplate = 9 Error: "the template of the Ingress is no URL",
        "No Ingress can be made of it.",
        "Write it like `{{name}}.{{namespace}}.flink.example.com`.";
    LogFile = 10 Error: "a log configuration that Flink does not read",
        "Flink reads two files by these names, and would pass over any other without a word.",
        "Use `log4j-console.properties` or `logback-console.xml`.";
    CheckpointDirectory = 11 Error: "state is to be kept, and there is no checkpoint directory",
        "Upgrade modes `savepoint` and `last-state` restore from it when the job has failed.",
        "Set `state.checkpoints.dir` to a directory that all pods reach.";
    SavepointDirectory = 12 Error: "savepoints are to be taken, and there is no directory for them",
        "Flink refuses a savepoint without a directory, so that the job could not be stopped with its state.",
        "Set `state.savepoints.dir` to a directory that all pods reach.";
    Parallelism = 13 Error: "the parallelism is missing or below 1",
        "Without it nobody knows how many TaskManagers there must be.",
        "Set `spec.job.parallelism`, or `spec.taskManager.replicas` in standalone mode.";
    JarUri = 14 Error: "the jar's address is no URI",
        "Flink would fail to start when it reads it.",
        "Write it like `local:///opt/flink/usrlib/job.jar`.";
    CutArgument = 15 Error: "an argument that `flink-conf.yaml` would cut",
        "Before Flink 2.0 arguments are handed over in a file that ends a value at `#` and at a line break: the job would run with others than it was given.",
        "Use Flink 2.0, standalone mode, or an argument without those characters.";
    MemoryMissing = 16 Error: "the memory of a process is not set",
        "Flink does not start without it, and Kubernetes needs it to choose a node.",
        "Set `resource.memory` of `jobManager` and `taskManager`.";
    MemoryModel = 17 Error: "memory that Flink cannot split",
        "Flink derives all parts of a process's memory from the sizes that are set, and does not start when they contradict each other.",
        "Raise the total, or leave the sizes of parts to Flink.";
    JobManagerReplicas = 18 Error: "fewer than one JobManager",
        "A cluster without a JobManager is none.",
        "Set `spec.jobManager.replicas` to 1 or more; to stop the job set `spec.job.state: suspended`.";
    StandbyNeedsHa = 19 Error: "standby JobManagers without high availability",
        "Several JobManagers agree on a leader by HA metadata; without it each would run the job.",
        "Set `high-availability.type: kubernetes`, or have one replica.";
    TaskManagerReplicas = 20 Error: "fewer than one TaskManager",
        "A job without TaskManagers waits for ever.",
        "Set `spec.taskManager.replicas` to 1 or more; to stop the job set `spec.job.state: suspended`.";
    KindOfCluster = 21 Error: "a session cluster becomes an application, or the other way round",
        "The one has no job of its own and the other nothing else: what runs would be lost.",
        "Create a resource of another name.";
    ModeChange = 22 Error: "native becomes standalone, or the other way round",
        "TaskManagers of the one are not those of the other.",
        "Create a resource of another name, with `initialSavepointPath`.";
    VersionWhileSuspended = 23 Error: "the Flink version changes while the job is suspended by last-state",
        "HA metadata of one version is not read by another.",
        "Resume the job with the former version, then upgrade.";
    RedeployNeedsPath = 24 Error: "a savepoint redeploy without a path",
        "`savepointRedeployNonce` drops the present state for the one of `initialSavepointPath`; without a path the job would start empty.",
        "Set `spec.job.initialSavepointPath`.";
    ServiceAccount = 25 Error: "there is no service account",
        "Flink makes its TaskManagers and keeps HA metadata with the rights of the account.",
        "Set `spec.serviceAccount`; `kubectl flink init` makes one named `flink`.";
    PullPolicy = 26 Error: "an unknown pull policy",
        "The API server would refuse the pods.",
        "Use `IfNotPresent`, `Always` or `Never`.";
    Quantity = 27 Error: "a quantity that cannot be read or is not positive",
        "Neither Kubernetes nor Flink could reserve it.",
        "Write it like `1`, `500m` or `2Gi`.";
    RequestOverLimit = 28 Error: "a request above its limit",
        "The API server would refuse the pods.",
        "Raise the limit or lower the request.";
    AutoscalerRange = 29 Error: "an option of the autoscaler is out of range",
        "Outside of the range its decisions would mean nothing.",
        "Use a value in the range that the message names.";
    ExcludedPeriod = 30 Error: "an excluded period that cannot be read",
        "The autoscaler would scale when it must not.",
        "Write it like `09:30-10:30` or as the message says.";
    MetricsWindow = 31 Error: "a metrics window shorter than the interval between samples",
        "There would never be two samples, and so no decision.",
        "Raise `job.autoscaler.metrics.window`.";
    DeploymentName = 32 Error: "the session cluster is not named, or its name is not valid",
        "A session job runs in a cluster that exists on its own.",
        "Set `spec.deploymentName` to the name of a session FlinkDeployment in the namespace.";
    SessionJobWithoutJob = 33 Error: "a session job without a job",
        "There is nothing to submit.",
        "Set `spec.job`.";
    ClusterChange = 34 Error: "a session job changes its cluster",
        "The job would run on in the old cluster, and nobody would look after it.",
        "Delete the job and create it in the other cluster.";
    JarScheme = 35 Error: "a jar of a scheme that the operator does not fetch",
        "The operator fetches jars of session jobs itself, and must not be sent everywhere.",
        "Use one of the schemes that the message names, or have the operator allow more.";
    JarHost = 36 Error: "a jar on a host that the operator does not go to",
        "The operator reaches places that whoever writes a resource may not.",
        "Put the jar on a public host, or have the operator allow such hosts.";
    NotASessionCluster = 37 Error: "the cluster of a session job is an application",
        "An application cluster runs its own job only.",
        "Name a FlinkDeployment without `spec.job`.";
    SnapshotKind = 38 Error: "a snapshot is neither a savepoint nor a checkpoint, or both",
        "It is not known what to take.",
        "Set one of `spec.savepoint` and `spec.checkpoint`.";
    SnapshotJob = 39 Error: "a snapshot of no job",
        "There is nothing to take it of.",
        "Set `spec.jobReference` to kind and name of a job of the namespace.";
    Schema = 40 Error: "the manifest does not follow the schema",
        "The API server would refuse it, or drop a misspelt field without a word.",
        "Correct the field; `kubectl explain flinkdeployment.spec` shows them all.";
    KerberosFile = 41 Error: "a keytab that Flink cannot use",
        "Flink starts with a keytab and a principal, or with neither, and before 1.17 its native TaskManagers mount no Secret of the user. Files that only the operator's pod has are not judged here: the operator looks for them before it stops or starts anything.",
        "Set `security.kerberos.login.principal`; for an older Flink take standalone mode, or a keytab that the operator has.";
    HighAvailabilityOfJob = 42 Error: "high availability of a session job",
        "A cluster has it for all of its jobs or for none: what one of them says of it changes nothing.",
        "Leave `high-availability.*` out, and set it in the FlinkDeployment of the session cluster.";
    BlueGreenTemplate = 43 Error: "a blue/green deployment without a job",
        "Its children are applications, made from `spec.template.spec`.",
        "Write a FlinkDeployment's spec with `job` into `spec.template.spec`.";
    BlueGreenOption = 44 Error: "an option of a blue/green deployment that cannot be read",
        "`spec.configuration` has three options of `kubernetes.operator.bluegreen`, durations each.",
        "Correct its name or value, or move it to `spec.template.spec.flinkConfiguration`.";
    BlueGreenJobId = 45 Error: "two colours with the same job id",
        "While one takes over from the other both run, and would write each other's checkpoints.",
        "Take `$internal.pipeline.job-id` out.";
    BlueGreenMode = 46 Error: "a transition mode that there is not",
        "`ADVANCED` needs gates in the job that say which colour writes (FLIP-504), and no operator has them yet.",
        "Take `spec.transitionMode` out: with `BASIC` both colours write until the former one ends.";
    LastStateWithoutHa = 101 Warning: "upgrade mode last-state without high availability",
        "Without HA metadata nothing leads to the last checkpoint once a JobManager is gone: the job then waits for a person.",
        "Set `high-availability.type: kubernetes` and `high-availability.storageDir`.";
    NoCheckpoints = 102 Warning: "state is to be kept, and no checkpoints are taken",
        "A job that fails starts from its last savepoint, or from the beginning.",
        "Set `execution.checkpointing.interval`, unless the job does so itself.";
    ImageTag = 103 Warning: "an image without a tag that stays",
        "Pods that start later may run another program than the others, and a rollback brings nothing back.",
        "Use a tag that is never moved, or a digest.";
    SmallMemory = 104 Warning: "a process with very little memory",
        "Metaspace, JVM overhead and network take most of it, so that the job runs out of heap soon.",
        "Give each process 1 GiB or more.";
    Stateless = 105 Info: "each upgrade drops the state",
        "Upgrade mode `stateless` starts the job empty after each change.",
        "Set `spec.job.upgradeMode` to `savepoint` or `last-state`, unless the job has no state.";
    LocalDirectory = 106 Warning: "state in a directory that one pod has for itself",
        "It goes with the pod, and no other pod can read it.",
        "Use an object store, or a volume that all pods mount at that path.";
    NoSavepointDirectory = 107 Info: "no directory for savepoints",
        "Neither a new Flink version nor a deletion can take the state along.",
        "Set `state.savepoints.dir`.";
    PlainSecret = 108 Warning: "a secret in plain text",
        "Everybody who may read the resource, its ConfigMap or a backup of them can read it.",
        "Hand it over by an environment variable from a Secret, or by the identity of the service account.";
    UnknownOption = 109 Warning: "an option of the operator that there is not",
        "It has no effect, and was meant to have one.",
        "Correct its name.";
    DropsUnmatchedState = 110 Warning: "state that no operator takes is dropped",
        "With `allowNonRestoredState` a renamed operator starts empty, and nothing is said.",
        "Set it for the one upgrade that needs it, and take it out again.";
    IdleSlots = 111 Info: "slots that no subtask uses",
        "Parallelism is no multiple of the slots of a TaskManager, so that the last one has idle slots.",
        "Make `spec.job.parallelism` a multiple of `taskmanager.numberOfTaskSlots`.";
    GoneInFlink2 = 112 Warning: "an option that Flink 2 does not read",
        "It had an effect up to Flink 1.20, and has none from 2.0 on.",
        "Take it out. TLS is `security.ssl.rest.enabled` and `security.ssl.internal.enabled`, memory `jobmanager.memory.*` and `taskmanager.memory.network.*`.";
}

impl Rule {
    /// Such as `FK0001`.
    pub fn code(self) -> String {
        format!("FK{:04}", self as u16)
    }

    /// The rule of this code, however it is written.
    pub fn parse(code: &str) -> Option<Self> {
        let number = code.trim().to_ascii_uppercase();
        let number: u16 = number.strip_prefix("FK").unwrap_or(&number).parse().ok()?;
        Self::ALL.iter().copied().find(|rule| *rule as u16 == number)
    }

    /// The rule is broken here.
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
            FK0112 GoneInFlink2 warning"#]]
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
