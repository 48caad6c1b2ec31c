//! Who could start from a savepoint: such a savepoint is never disposed of.

use serde_json::Value;

use super::reconciled::ReconciledSpec;
use super::revision::Revision;
use crate::api::job::JobSpec;
use crate::api::status::{JobStatus, ReconciliationStatus};

/// Whether two paths name the same savepoint, however they are spelled.
pub fn is_same_location(one: &str, other: &str) -> bool {
    normal(one) == normal(other)
}

/// Without what does not count: a trailing slash, the metadata file, `file:` with one slash or three.
fn normal(path: &str) -> String {
    let path = path.trim().trim_end_matches('/');
    let path = path.strip_suffix("/_metadata").unwrap_or(path).trim_end_matches('/');
    match path.strip_prefix("file:") {
        Some(local) => format!("/{}", local.trim_start_matches('/')),
        None => path.to_owned(),
    }
}

/// The fields of a job resource that name the savepoint.
pub fn in_job(
    spec: Option<&JobSpec>,
    status: &JobStatus,
    reconciliation: &ReconciliationStatus,
    location: &str,
) -> Vec<&'static str> {
    let is_it = |path: &Option<String>| {
        path.as_deref().is_some_and(|path| is_same_location(path, location))
    };
    let info = status.savepoint_info.as_ref();
    let last = info.and_then(|info| info.last_savepoint.as_ref());
    let mut history = info.iter().flat_map(|info| &info.savepoint_history);
    let fields = [
        (
            spec.is_some_and(|job| is_it(&job.initial_savepoint_path)),
            "spec.job.initialSavepointPath",
        ),
        (is_it(&status.upgrade_savepoint_path), "status.jobStatus.upgradeSavepointPath"),
        (
            last.is_some_and(|savepoint| is_it(&savepoint.location)),
            "status.jobStatus.savepointInfo.lastSavepoint",
        ),
        (
            history.any(|savepoint| is_it(&savepoint.location)),
            "status.jobStatus.savepointInfo.savepointHistory",
        ),
        (
            stored_spec_names(reconciliation.last_reconciled_spec.as_deref(), location),
            "status.reconciliationStatus.lastReconciledSpec",
        ),
        (
            stored_spec_names(reconciliation.last_stable_spec.as_deref(), location),
            "status.reconciliationStatus.lastStableSpec",
        ),
    ];
    fields.into_iter().filter(|(names_it, _)| *names_it).map(|(_, field)| field).collect()
}

/// One that cannot be read may name anything.
fn stored_spec_names(text: Option<&str>, location: &str) -> bool {
    text.is_some_and(|text| {
        let Ok(stored) = ReconciledSpec::parse(text) else { return true };
        let path = stored.spec.job.and_then(|job| job.initial_savepoint_path);
        path.is_some_and(|path| is_same_location(&path, location))
    })
}

/// Whether going back to the revision could need the savepoint.
pub fn in_revision(revision: &Revision, location: &str) -> bool {
    let content = &revision.content;
    let initial = content.spec.pointer("/job/initialSavepointPath").and_then(Value::as_str);
    [content.restore_point.path.as_deref(), initial]
        .into_iter()
        .flatten()
        .any(|path| is_same_location(path, location))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_savepoint_are_the_same() {
        for (one, other) in [
            ("s3://lake/sp/savepoint-1", "s3://lake/sp/savepoint-1/"),
            ("s3://lake/sp/savepoint-1", "s3://lake/sp/savepoint-1/_metadata"),
            ("file:/data/sp/savepoint-1", "file:///data/sp/savepoint-1"),
            ("/data/sp/savepoint-1", "file:/data/sp/savepoint-1/"),
        ] {
            assert!(is_same_location(one, other), "{one} {other}");
        }
        assert!(!is_same_location("s3://lake/sp/savepoint-1", "s3://lake/sp/savepoint-12"));
    }

    #[test]
    fn every_field_that_names_a_savepoint_counts() {
        let path = Some("s3://lake/sp/1".to_owned());
        let spec = JobSpec { initial_savepoint_path: path.clone(), ..JobSpec::default() };
        let savepoint = crate::api::status::Savepoint {
            location: path.clone(),
            ..crate::api::status::Savepoint::default()
        };
        let status = JobStatus {
            upgrade_savepoint_path: path,
            savepoint_info: Some(crate::api::status::SavepointInfo {
                last_savepoint: Some(savepoint.clone()),
                savepoint_history: vec![savepoint],
                ..crate::api::status::SavepointInfo::default()
            }),
            ..JobStatus::default()
        };
        let reconciliation = ReconciliationStatus {
            last_reconciled_spec: Some(
                r#"{"spec":{"job":{"initialSavepointPath":"s3://lake/sp/1/"}},"resource_metadata":{}}"#
                    .to_owned(),
            ),
            last_stable_spec: Some("not JSON".to_owned()),
            ..ReconciliationStatus::default()
        };
        let fields = in_job(Some(&spec), &status, &reconciliation, "s3://lake/sp/1");
        assert_eq!(fields.len(), 6, "{fields:?}");
        // Only what cannot be read may still name another one.
        let fields = in_job(Some(&spec), &status, &reconciliation, "s3://lake/sp/2");
        assert_eq!(fields, ["status.reconciliationStatus.lastStableSpec"]);
    }
}
