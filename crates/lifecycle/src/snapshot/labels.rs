//! Labels of a `FlinkStateSnapshot`, by which people and both operators find it.

use api::state_snapshot::{FlinkStateSnapshot, FlinkStateSnapshotSpec, SnapshotState};
use api::status::SnapshotTriggerType;

/// `SAVEPOINT` or `CHECKPOINT`.
pub const LABEL_TYPE: &str = "snapshot.type";
/// Who requested it.
pub const LABEL_TRIGGER_TYPE: &str = "snapshot.trigger-type";
/// `status.state`.
pub const LABEL_STATE: &str = "snapshot.state";
const LABEL_JOB_KIND: &str = "job-reference.kind";
const LABEL_JOB_NAME: &str = "job-reference.name";

/// Returns the labels that need to change. Those of the job are not touched while it was not looked up (`has_job` is
/// `None`).
pub(super) fn changes(
    resource: &FlinkStateSnapshot,
    state: SnapshotState,
    has_job: Option<bool>,
) -> Vec<(&'static str, Option<String>)> {
    let labels = resource.metadata.labels.as_ref();
    let present = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    let manual = present(LABEL_TRIGGER_TYPE).unwrap_or(SnapshotTriggerType::Manual.into_str());
    let mut wanted = vec![
        (LABEL_TYPE, type_label(&resource.spec).map(str::to_owned)),
        (LABEL_TRIGGER_TYPE, Some(manual.to_owned())),
        (LABEL_STATE, Some(state.into_str().to_owned())),
    ];
    if let Some(has_job) = has_job {
        let reference = resource.spec.job_reference.clone().filter(|_| has_job).unwrap_or_default();
        let kind = reference.kind.map(|kind| kind.into_str().to_owned());
        wanted.extend([(LABEL_JOB_KIND, kind), (LABEL_JOB_NAME, reference.name)]);
    }
    wanted.retain(|(key, value)| present(key) != value.as_deref());
    wanted
}

/// Returns the kind in the spec; `None` if it names neither or both.
pub fn type_label(spec: &FlinkStateSnapshotSpec) -> Option<&'static str> {
    match (&spec.savepoint, &spec.checkpoint) {
        (Some(_), None) => Some("SAVEPOINT"),
        (None, Some(_)) => Some("CHECKPOINT"),
        (None, None) | (Some(_), Some(_)) => None,
    }
}

/// Returns who requested a snapshot according to its label; `UNKNOWN` if that cannot be parsed.
pub fn trigger_type(resource: &FlinkStateSnapshot) -> SnapshotTriggerType {
    let labels = resource.metadata.labels.as_ref();
    match labels.and_then(|labels| labels.get(LABEL_TRIGGER_TYPE)).map(String::as_str) {
        Some("MANUAL") => SnapshotTriggerType::Manual,
        Some("PERIODIC") => SnapshotTriggerType::Periodic,
        Some("UPGRADE") => SnapshotTriggerType::Upgrade,
        Some(_) | None => SnapshotTriggerType::Unknown,
    }
}
