//! Signs of a cause in the texts of Flink, the JVM and Kubernetes. Pure.
//!
//! Each sign is a part of a message that only this cause produces; the messages are those of Flink 1.15 to 2.1, kubelet
//! and the API server.

use super::verdict::Cause;

/// A cause found in a text, with the line that shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Sign {
    pub(super) cause: Cause,
    pub(super) line: String,
}

/// Maximum number of characters of a quoted line.
const LINE_CHARS_MAX: usize = 240;

/// Signs in order of precedence: a failure to load a class, for example, also fails the checkpoint.
const SIGNS: &[(&str, Cause)] = &[
    ("OutOfMemoryError: Metaspace", Cause::OutOfMetaspace),
    ("metaspace out-of-memory error has occurred", Cause::OutOfMetaspace),
    ("OutOfMemoryError: Java heap space", Cause::OutOfHeap),
    ("OutOfMemoryError: GC overhead limit exceeded", Cause::OutOfHeap),
    ("OutOfMemoryError: Direct buffer memory", Cause::OutOfDirectMemory),
    ("OutOfMemoryError: Cannot reserve", Cause::OutOfDirectMemory),
    ("Cannot map checkpoint/savepoint state for operator", Cause::SavepointIncompatible),
    ("StateMigrationException", Cause::SavepointIncompatible),
    ("must not be incompatible with the old", Cause::SavepointIncompatible),
    ("Max parallelism mismatch between checkpoint/savepoint", Cause::SavepointIncompatible),
    ("Cannot find meta data file '_metadata'", Cause::SavepointMissing),
    ("Cannot find checkpoint or savepoint file/directory", Cause::SavepointMissing),
    ("Could not find a file system implementation for scheme", Cause::FileSystemMissing),
    ("JAR file does not exist", Cause::JarUnusable),
    ("JAR file can't be read", Cause::JarUnusable),
    ("Neither a 'Main-Class', nor a 'program-class' entry was found", Cause::JarUnusable),
    ("entry point class '", Cause::JarUnusable),
    ("was not found in the jar file", Cause::JarUnusable),
    ("java.util.zip.ZipException", Cause::JarUnusable),
    ("FlinkException: Could not provide the user code jar", Cause::JarUnusable),
    ("ClassNotFoundException: ", Cause::ClassNotFound),
    ("NoClassDefFoundError: ", Cause::ClassNotFound),
    ("NoSuchMethodError: ", Cause::ClassNotFound),
    ("\" is forbidden: User \"", Cause::Forbidden),
    ("is forbidden: User \"system:serviceaccount", Cause::Forbidden),
    ("NoResourceAvailableException", Cause::NoSlots),
    ("Could not acquire the minimum required resources", Cause::NoSlots),
    ("Slot request bulk is not fulfillable", Cause::NoSlots),
    ("Exceeded checkpoint tolerable failure threshold", Cause::CheckpointsFailing),
    ("Checkpoint expired before completing", Cause::CheckpointsFailing),
    ("The heartbeat of TaskManager with id", Cause::TaskManagerLost),
    ("is no longer reachable", Cause::TaskManagerLost),
    ("Connection unexpectedly closed by remote task manager", Cause::TaskManagerLost),
];

/// Returns the first sign in the order of [`SIGNS`], with the last line of the text that has it: the last message
/// explains the end.
pub(super) fn of_text(text: &str) -> Option<Sign> {
    let found = |(piece, cause): &(&str, Cause)| {
        let line = text.lines().rev().find(|line| line.contains(piece))?;
        Some(Sign { cause: *cause, line: quoted(line) })
    };
    SIGNS.iter().find_map(found)
}

/// Like [`of_text`], for messages of the API server, or of a controller that cannot create a pod.
pub(super) fn of_refusal(message: &str) -> Option<Sign> {
    let cause = if message.contains("admission webhook") && message.contains("denied the request")
        || message.contains("failed calling webhook")
    {
        Cause::WebhookRefusal
    } else if message.contains("serviceaccount") && message.contains("not found") {
        Cause::ServiceAccountMissing
    } else if message.contains("exceeded quota") {
        Cause::QuotaExceeded
    } else if message.contains("violates PodSecurity") {
        Cause::PodSecurity
    } else if message.contains("is forbidden") {
        Cause::Forbidden
    } else {
        return None;
    };
    Some(Sign { cause, line: quoted(message) })
}

/// Returns the text as one line of limited length, without secrets.
/// How the scheduler names a claim that keeps a pod from every node.
const CLAIM: &str = "persistentvolumeclaim \"";

/// Returns why the scheduler places a pod on no node.
pub(super) fn of_scheduler(message: &str) -> Cause {
    if message.contains("unbound immediate PersistentVolumeClaims") {
        Cause::VolumeClaimUnbound
    } else if message.contains(CLAIM) && message.contains("not found") {
        Cause::VolumeClaimMissing
    } else if message.contains(CLAIM) {
        // It is being deleted, or its volume is gone.
        Cause::VolumeClaimUnbound
    } else {
        Cause::Unschedulable
    }
}

/// Returns the claim that a message of the scheduler names.
pub(super) fn claim(message: &str) -> Option<&str> {
    message.split_once(CLAIM)?.1.split('"').next()
}

pub(super) fn quoted(line: &str) -> String {
    let line = line.trim().trim_start_matches("Caused by: ");
    let line = config::secret::hide_in(&line.replace('\n', " "));
    if line.chars().count() <= LINE_CHARS_MAX {
        return line;
    }
    line.chars().take(LINE_CHARS_MAX - 1).chain(['…']).collect()
}
