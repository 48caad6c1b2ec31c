//! Puts a verdict into words: what is wrong, what shows it, what fixes it, and what to run next.

use k8s_openapi::api::core::v1::Volume;
use kube::ResourceExt;
use serde_json::Value;

use super::super::signs;
use super::{Cause, Facts, Found, Verdict};

/// Texts of a cause: the problem, the fix, and the next command; `{…}` is filled in.
struct Words {
    what: &'static str,
    remedy: &'static str,
    next: &'static str,
}

const fn words(what: &'static str, remedy: &'static str, next: &'static str) -> Words {
    Words { what, remedy, next }
}

const LOGS: &str = "kubectl flink logs {name}";
const LOGS_OF_POD: &str = "kubectl logs -n {namespace} {pod} --previous";
const DESCRIBE_POD: &str = "kubectl describe pod -n {namespace} {pod}";
const STATUS: &str = "kubectl flink status {name}";
const HISTORY: &str = "kubectl flink history {name}";
const CONFIG: &str = "kubectl get {resource} -n {namespace} -o yaml";

#[allow(clippy::too_many_lines, reason = "a table")]
fn of(cause: Cause) -> Words {
    match cause {
        Cause::Healthy => words("`{name}` is healthy.", "There is nothing to fix.", STATUS),
        Cause::Starting => words(
            "A change of `{name}` is in progress, and nothing has failed so far.",
            "Wait, and look again if it makes no progress.",
            "kubectl flink status {name} --watch",
        ),
        Cause::Deleting => words(
            "`{name}` is being deleted.",
            "It is gone once the operator has cleaned up; `delete --explain` shows what that waits for.",
            "kubectl flink delete {name} --explain",
        ),
        Cause::Paused => words(
            "`{name}` is paused: the operator only observes it.",
            "Unpause it, and the operator carries out what the spec asks for.",
            "kubectl flink unpause {name}",
        ),
        Cause::Suspended => words(
            "`{name}` is suspended on purpose.",
            "Resume it to continue from the state that it left.",
            "kubectl flink resume {name}",
        ),
        Cause::OperatorNotRunning => words(
            "No operator manages `{name}`.",
            "Start the operator, or see why it is not running.",
            "kubectl flink check",
        ),
        Cause::InvalidSpec => words(
            "The operator refuses the spec of `{name}`; what was running keeps running.",
            "Correct the named field and apply the spec again.",
            "kubectl flink plan {name}",
        ),
        Cause::PreflightFailed => words(
            "The operator tried the new spec of `{name}`, and it would not start; what was running keeps running.",
            "Fix what the pod reports and apply the spec again, or revert the change.",
            "kubectl describe pods -n {namespace} -l app.kubernetes.io/name=flink-preflight,app.kubernetes.io/instance={cluster}",
        ),
        Cause::UpgradeWaits => words(
            "The new spec of `{name}` waits because other upgrades are in progress or failed; what was running keeps running.",
            "Wait until it is admitted. If upgrades are paused, fix what failed, or continue the others.",
            "kubectl flink list -A --upgrading",
        ),
        Cause::WebhookRefusal => words(
            "An admission webhook of the cluster rejects what `{name}` needs, or fails.",
            "Change the spec so that the webhook admits it, or have its policy or its service corrected.",
            "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
        ),
        Cause::ServiceAccountMissing => words(
            "The service account of `{name}` does not exist, so no pod is created.",
            "Create it with the permissions of a job.",
            "kubectl flink init -n {namespace} --service-account {account}",
        ),
        Cause::QuotaExceeded => words(
            "A resource quota of the namespace does not leave room for the pods of `{name}`.",
            "Request less memory and CPU, or have the quota raised.",
            "kubectl describe resourcequota -n {namespace}",
        ),
        Cause::PodSecurity => words(
            "Pod Security of the namespace does not admit the pods of `{name}`.",
            "Give the pod template the security context that the level requires.",
            "kubectl get namespace {namespace} -o yaml",
        ),
        Cause::Forbidden => words(
            "The service account of `{name}` lacks permissions that Flink needs.",
            "Give the account the permissions of a job.",
            "kubectl flink init -n {namespace} --service-account {account}",
        ),
        Cause::ImagePull => words(
            "The image of `{name}` cannot be pulled.",
            "Correct spec.image, or name a pull secret in the pod template.",
            DESCRIBE_POD,
        ),
        Cause::ContainerConfig => words(
            "A container of `{name}` cannot be created.",
            "Create the Secret, ConfigMap or command that it names, or correct the pod template.",
            DESCRIBE_POD,
        ),
        Cause::Unschedulable => words(
            "No node has room for a pod of `{name}`.",
            "Request less memory and CPU, add nodes, or relax node selectors and tolerations.",
            DESCRIBE_POD,
        ),
        Cause::VolumeClaimMissing => words(
            "A pod of `{name}` waits for the PersistentVolumeClaim `{claim}`, which does not exist.",
            "Create the claim in the namespace of the job, or correct the volume in the pod template.",
            "kubectl get persistentvolumeclaims -n {namespace}",
        ),
        Cause::VolumeClaimUnbound => words(
            "A pod of `{name}` waits for the PersistentVolumeClaim `{claim}`, which has no volume.",
            "See what the claim waits for: a storage class that exists, a provisioner, or a free volume of \
             its size and access mode.",
            "kubectl describe persistentvolumeclaim -n {namespace} {claim}",
        ),
        Cause::OutOfContainerMemory => words(
            "A container of `{name}` used more memory than its limit.",
            "Raise its memory, or leave more of it to the JVM overhead: native memory of state \
             backends and libraries counts too.",
            "kubectl flink plan {name} --set {process}.resources.requests.memory=SIZE",
        ),
        Cause::OutOfHeap => words(
            "The heap of `{name}` is full.",
            "Raise the memory of the process, or move state out of the heap with RocksDB.",
            "kubectl flink plan {name} --set {process}.resources.requests.memory=SIZE",
        ),
        Cause::OutOfMetaspace => words(
            "The metaspace of `{name}` is full.",
            "Raise the metaspace. If it keeps filling up, classes leak with each restart: put libraries \
             into /opt/flink/lib.",
            "kubectl flink plan {name} --set \
             flinkConfiguration.{process_key}.memory.jvm-metaspace.size=512m",
        ),
        Cause::OutOfDirectMemory => words(
            "The direct memory of `{name}` is used up.",
            "Raise the off-heap memory of the tasks.",
            "kubectl flink plan {name} --set \
             flinkConfiguration.taskmanager.memory.task.off-heap.size=256m",
        ),
        Cause::JarUnusable => words(
            "The jar of `{name}` cannot be run.",
            "Correct spec.job.jarURI or spec.job.entryClass, or build the image with the jar at that \
             path.",
            "kubectl flink plan {name} --set job.jarURI=URI",
        ),
        Cause::ClassNotFound => words(
            "A class that the job of `{name}` needs is not on its class path.",
            "Build it into the jar, or put the library into /opt/flink/lib of the image; a missing \
             method means two versions of one library.",
            LOGS,
        ),
        Cause::FileSystemMissing => words(
            "The image of `{name}` lacks the plugin of a file system that it uses.",
            "Enable the plugin with ENABLE_BUILT_IN_PLUGINS in the pod template, or put it into \
             /opt/flink/plugins of the image.",
            CONFIG,
        ),
        Cause::SavepointIncompatible => words(
            "The new job of `{name}` cannot restore the state of the old one.",
            "Give operators the uids that the state has, or go back to the previous spec. Set \
             spec.job.allowNonRestoredState only if that state may be lost.",
            "kubectl flink rollback {name} --dry-run=client",
        ),
        Cause::SavepointMissing => words(
            "The state that `{name}` should start from does not exist.",
            "Set spec.job.initialSavepointPath to an existing savepoint or checkpoint, and a new \
             spec.job.savepointRedeployNonce.",
            "kubectl flink snapshots {name}",
        ),
        Cause::HaMetadataMissing => words(
            "The pointer to the last checkpoint of `{name}` is lost: its HA metadata is gone.",
            "Find the newest checkpoint or savepoint in its directory, and set \
             spec.job.initialSavepointPath and a new spec.job.savepointRedeployNonce.",
            HISTORY,
        ),
        Cause::RestoreRefused => words(
            "The operator does not know which state `{name}` should start from, and starts nothing.",
            "Choose the state: set spec.job.initialSavepointPath and a new \
             spec.job.savepointRedeployNonce.",
            HISTORY,
        ),
        Cause::CrashLoop => words(
            "A container of `{name}` keeps crashing.",
            "Fix what its log reports.",
            LOGS_OF_POD,
        ),
        Cause::NoSlots => words(
            "The job of `{name}` gets fewer task slots than it needs.",
            "Make sure that TaskManagers can start. In a session or standalone cluster, add TaskManagers or \
             slots, or lower the parallelism.",
            STATUS,
        ),
        Cause::CheckpointsFailing => words(
            "The checkpoints of `{name}` fail.",
            "Make sure that the checkpoint directory is writable and the job is not backpressured. If \
             checkpoints are just slow, raise execution.checkpointing.timeout.",
            LOGS,
        ),
        Cause::TaskManagerLost => words(
            "A TaskManager of `{name}` was lost.",
            "See why its pod ended: memory, an eviction, or a lost node.",
            "kubectl get events -n {namespace} --sort-by=.lastTimestamp",
        ),
        Cause::SessionClusterMissing => words(
            "The session cluster of `{name}` does not exist.",
            "Create the FlinkDeployment, or correct spec.deploymentName.",
            "kubectl flink status",
        ),
        Cause::SessionClusterNotReady => words(
            "The session cluster of `{name}` is not ready.",
            "Fix the cluster: the job waits for it.",
            "kubectl flink why {cluster}",
        ),
        Cause::RestUnreachable => words(
            "The JobManager of `{name}` is running but does not answer.",
            "Check its log, and whether a network policy blocks access.",
            LOGS,
        ),
        Cause::JobFailed => words(
            "The job of `{name}` fails with an exception of its own.",
            "Fix what the exception reports; the state of the last checkpoint is kept.",
            LOGS,
        ),
        Cause::SwitchGivenUp => words(
            "A change of `{name}` was aborted or rolled back; what was running keeps running.",
            "Change the spec to one that works, or retry it once the cause is fixed.",
            "kubectl flink promote {name} --retry",
        ),
        Cause::OperatorReports => words(
            "The operator reports an error for `{name}`.",
            "Fix what it reports.",
            "kubectl describe -n {namespace} {resource}",
        ),
    }
}

pub(super) fn verdict(found: Found, facts: &Facts) -> Verdict {
    let Found { cause, evidence, pod } = found;
    let Words { what, remedy, next } = of(cause);
    let resource = &facts.resource;
    let cluster = facts.cluster.as_ref().unwrap_or(resource);
    let account = cluster.0.pointer("/spec/serviceAccount").and_then(Value::as_str);
    let object = format!("{}/{}", resource.id().kind.to_lowercase(), resource.name());
    let is_task_manager = pod.as_deref().is_some_and(|pod| pod.contains("-taskmanager-"));
    let is_job_manager = pod.is_some() && !is_task_manager;
    let fill = |text: &str| {
        text.replace("{name}", &resource.shown_name())
            .replace("{namespace}", resource.namespace())
            .replace("{cluster}", cluster.name())
            .replace("{account}", account.unwrap_or("flink"))
            .replace("{pod}", pod.as_deref().unwrap_or_default())
            .replace("{resource}", &object)
            .replace("{process_key}", if is_job_manager { "jobmanager" } else { "taskmanager" })
            .replace("{process}", if is_job_manager { "jobManager" } else { "taskManager" })
    };
    let claims = signs::claim(&evidence)
        .map_or_else(|| claims_of(pod.as_deref(), facts).join(" "), str::to_owned);
    let fill = |text: &str| fill(text).replace("{claim}", &claims);
    let shows = pod.as_ref().map_or(String::new(), |pod| format!(" (pod `{pod}`)"));
    Verdict {
        cause,
        what: fill(what),
        evidence: format!("Evidence{shows}: {}.", evidence.trim_end_matches('.')),
        remedy: fill(remedy),
        next: fill(next),
    }
}

/// Returns the claims that a pod mounts. The scheduler does not say which of them has no volume.
fn claims_of(pod: Option<&str>, facts: &Facts) -> Vec<String> {
    let Some(pod) = facts.pods.iter().find(|it| it.metadata.name.as_deref() == pod) else {
        return Vec::new();
    };
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref()).into_iter().flatten();
    let claim = |volume: &Volume| match &volume.persistent_volume_claim {
        Some(claim) => Some(claim.claim_name.clone()),
        // Kubernetes creates it under this name.
        None => volume.ephemeral.as_ref().map(|_| format!("{}-{}", pod.name_any(), volume.name)),
    };
    volumes.filter_map(claim).collect()
}
