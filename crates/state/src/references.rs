//! What could start from a savepoint: such a savepoint is never disposed of.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::revision::Revision;
use api::deployment::FlinkDeployment;
use api::job::JobSpec;
use api::reconciled::ReconciledSpec;
use api::session_job::FlinkSessionJob;
use api::state_snapshot::FlinkStateSnapshot;
use api::status::{JobStatus, ReconciliationStatus};
use config::FlinkConfig;

/// Suffixes of the keys that say whether a job takes over what it is restored from.
const RESTORE_MODES: [&str; 2] = ["restore-mode", "claim-mode"];

/// Why a savepoint is kept whose job [`claims`].
pub const CLAIMED: &str = "its job does not restore with NO_CLAIM, so a run that was restored \
                           from it may use its files";

/// Returns `true` if two paths name the same savepoint, however they are spelled.
pub fn is_same_location(one: &str, other: &str) -> bool {
    normal(one) == normal(other)
}

/// Returns the path without irrelevant differences: a trailing slash, the metadata file, `file:` with one slash or
/// three, and by which of its file systems a store is reached.
fn normal(path: &str) -> String {
    let path = path.trim().trim_end_matches('/');
    let path = path.strip_suffix("/_metadata").unwrap_or(path).trim_end_matches('/');
    let parts = path.split_once(':').filter(|(scheme, _)| !scheme.contains('/'));
    let Some((scheme, rest)) = parts else { return path.to_owned() };
    match &*scheme.to_ascii_lowercase() {
        "file" => format!("/{}", rest.trim_start_matches('/')),
        "s3a" | "s3n" | "s3p" => format!("s3:{rest}"),
        "abfss" => format!("abfs:{rest}"),
        "wasbs" => format!("wasb:{rest}"),
        scheme => format!("{scheme}:{rest}"),
    }
}

/// Returns `true` for the path of a checkpoint: Flink wrote it for itself, and it shares files with the checkpoints
/// after it.
pub fn is_checkpoint(path: &str) -> bool {
    normal(path).rsplit('/').next().is_some_and(|last| last.starts_with("chk-"))
}

/// Returns the number of the checkpoint at this path.
pub fn checkpoint_number(path: &str) -> Option<u64> {
    normal(path).rsplit('/').next()?.strip_prefix("chk-")?.parse().ok()
}

/// Returns the path of another checkpoint of the job that took this one. Flink writes them side by side, in the folder of
/// the job ([directory structure]). Without such a folder nobody knows whose a neighbour is.
///
/// [directory structure]: https://nightlies.apache.org/flink/flink-docs-stable/docs/ops/state/checkpoints/#directory-structure
pub fn neighbour(path: &str, job_id: &str, number: u64) -> Option<String> {
    let own = format!("chk-{}", checkpoint_number(path)?);
    let (folder, _) = path.rsplit_once(&own)?;
    folder.ends_with(&format!("/{job_id}/")).then(|| format!("{folder}chk-{number}"))
}

/// Returns `true` for the path of a checkpoint that the job took.
pub fn is_checkpoint_of(path: &str, job_id: &str) -> bool {
    is_checkpoint(path) && normal(path).split('/').any(|part| part == job_id)
}

/// Returns `true` if jobs take over, or continue to use, the files that they are restored from.
pub fn claims(config: &FlinkConfig) -> bool {
    config.iter().any(|(key, value)| {
        RESTORE_MODES.iter().any(|end| key.ends_with(end))
            && !value.trim().eq_ignore_ascii_case("NO_CLAIM")
    })
}

/// Returns the fields of a job resource that name the savepoint.
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

/// Returns `true` if a stored spec names the savepoint. One that cannot be parsed may name anything.
fn stored_spec_names(text: Option<&str>, location: &str) -> bool {
    text.is_some_and(|text| {
        let Ok(stored) = ReconciledSpec::parse(text) else { return true };
        let path = stored.spec.job.and_then(|job| job.initial_savepoint_path);
        path.is_some_and(|path| is_same_location(&path, location))
    })
}

/// Returns `true` if a rollback to the revision could need the savepoint.
pub fn in_revision(revision: &Revision, location: &str) -> bool {
    let content = &revision.content;
    let initial = content.spec.pointer("/job/initialSavepointPath").and_then(Value::as_str);
    [content.restore_point.path.as_deref(), initial]
        .into_iter()
        .flatten()
        .any(|path| is_same_location(path, location))
}

/// An object of which only the text is known: one that cannot be parsed, or of a kind that this operator does not
/// parse.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unread {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Its JSON, as stored.
    pub text: String,
}

impl Unread {
    /// Returns `true` if the savepoint is named anywhere; if in doubt, `true`.
    fn names(&self, location: &str) -> bool {
        let location = normal(location);
        // Whatever the scheme: `s3:` and `s3a:` are one store.
        let path = location.split_once(':').map_or(&*location, |(_, path)| path);
        // Some writers escape slashes in a text within the text.
        self.text.replace('\\', "").contains(path.trim_matches('/'))
    }
}

/// Everything that can refer to a savepoint.
pub struct Referrers<'a> {
    /// Referrers in other namespaces are reported with their namespace.
    pub namespace: &'a str,
    pub deployments: Vec<&'a FlinkDeployment>,
    pub session_jobs: Vec<&'a FlinkSessionJob>,
    /// Each with the name of its history.
    pub revisions: &'a [(String, Revision)],
    pub snapshots: Vec<&'a FlinkStateSnapshot>,
    pub unread: &'a [Unread],
}

impl Referrers<'_> {
    /// Returns everything that refers to the savepoint, in words. The object with the uid `of` is the one that has it.
    /// If it is a snapshot, it is left out. Of a job, only the savepoints of its status are left out, because its spec
    /// may name another start since the decision.
    pub fn of(&self, location: &str, of: Option<&str>) -> Vec<String> {
        let is_itself = |metadata: &ObjectMeta| of.is_some() && metadata.uid.as_deref() == of;
        let mut found = Vec::new();
        for deployment in &self.deployments {
            let mut status = deployment.status.clone().unwrap_or_default();
            if is_itself(&deployment.metadata) {
                status.job_status.savepoint_info = None;
            }
            let spec = deployment.spec.job.as_ref();
            let who = self.who("FlinkDeployment", &deployment.metadata);
            for field in in_job(spec, &status.job_status, &status.reconciliation_status, location) {
                found.push(format!("{who} ({field})"));
            }
        }
        for job in &self.session_jobs {
            let mut status = job.status.clone().unwrap_or_default();
            if is_itself(&job.metadata) {
                status.job_status.savepoint_info = None;
            }
            let spec = job.spec.job.as_ref();
            let who = self.who("FlinkSessionJob", &job.metadata);
            for field in in_job(spec, &status.job_status, &status.reconciliation_status, location) {
                found.push(format!("{who} ({field})"));
            }
        }
        for (owner, revision) in self.revisions {
            if in_revision(revision, location) {
                found.push(format!("revision {} of `{owner}`", revision.number));
            }
        }
        let others = self.snapshots.iter().filter(|other| !is_itself(&other.metadata));
        let others = others.filter(|other| in_snapshot(other, location));
        found.extend(others.map(|other| self.who("FlinkStateSnapshot", &other.metadata)));
        let unread = self.unread.iter().filter(|object| object.names(location));
        found.extend(unread.map(|object| {
            let who = self.named(&object.kind, Some(&object.namespace), &object.name);
            format!("{who} (in its text)")
        }));
        found
    }

    fn who(&self, kind: &str, metadata: &ObjectMeta) -> String {
        let name = metadata.name.as_deref().unwrap_or_default();
        self.named(kind, metadata.namespace.as_deref(), name)
    }

    fn named(&self, kind: &str, namespace: Option<&str>, name: &str) -> String {
        match namespace.filter(|namespace| *namespace != self.namespace) {
            Some(namespace) => format!("{kind} `{name}` in namespace `{namespace}`"),
            None => format!("{kind} `{name}`"),
        }
    }
}

/// Returns `true` if the resource represents the savepoint, which is removed with the last of them. One that is being
/// deleted holds nothing.
fn in_snapshot(snapshot: &FlinkStateSnapshot, location: &str) -> bool {
    if snapshot.metadata.deletion_timestamp.is_some() {
        return false;
    }
    let taken = snapshot.status.as_ref().and_then(|status| status.path.as_deref());
    let recorded = snapshot.spec.savepoint.as_ref();
    let recorded = recorded.filter(|savepoint| savepoint.already_exists == Some(true));
    let recorded = recorded.and_then(|savepoint| savepoint.path.as_deref());
    taken.into_iter().chain(recorded).any(|other| is_same_location(other, location))
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
            ("/Data/a:b/sp-1", "file:/Data/a:b/sp-1"),
            ("s3://lake/sp/savepoint-1", "s3a://lake/sp/savepoint-1/_metadata"),
            ("s3p://lake/sp/savepoint-1", "s3n://lake/sp/savepoint-1"),
            ("abfs://lake@one/sp/1", "abfss://lake@one/sp/1"),
            ("wasb://lake@one/sp/1", "WASBS://lake@one/sp/1"),
        ] {
            assert!(is_same_location(one, other), "{one} {other}");
        }
        assert!(!is_same_location("s3://lake/sp/savepoint-1", "s3://lake/sp/savepoint-12"));
        assert!(!is_same_location("s3://lake/sp/savepoint-1", "gs://lake/sp/savepoint-1"));
    }

    #[test]
    fn a_checkpoint_is_known_by_its_folder_and_its_job() {
        for (path, is_one, is_own) in [
            ("s3://lake/chk/abc/chk-7", true, true),
            ("s3://lake/chk/abc/chk-7/_metadata", true, true),
            ("s3://lake/chk/abcd/chk-7/", true, false),
            ("s3://lake/abc/savepoint-abc-7", false, false),
        ] {
            assert_eq!(is_checkpoint(path), is_one, "{path}");
            assert_eq!(checkpoint_number(path), is_one.then_some(7), "{path}");
            assert_eq!(is_checkpoint_of(path, "abc"), is_own, "{path}");
        }
    }

    #[test]
    fn the_checkpoints_of_a_job_are_side_by_side() {
        for (path, neighbouring) in [
            ("s3://lake/chk/abc/chk-7", Some("s3://lake/chk/abc/chk-12")),
            ("file:/chk-7/abc/chk-7/_metadata", Some("file:/chk-7/abc/chk-12")),
            ("s3://lake/chk/abc/chk-7/", Some("s3://lake/chk/abc/chk-12")),
            ("s3://lake/chk/zabc/chk-7", None),
            ("s3://lake/chk/chk-7", None),
            ("s3://lake/abc/savepoint-abc-7", None),
        ] {
            assert_eq!(neighbour(path, "abc", 12).as_deref(), neighbouring, "{path}");
        }
    }

    #[test]
    fn whoever_does_not_say_no_claim_may_claim() {
        for (key, value, expected) in [
            ("execution.savepoint-restore-mode", "NO_CLAIM", false),
            ("execution.savepoint-restore-mode", "LEGACY", true),
            ("execution.state-recovery.claim-mode", "claim", true),
            ("execution.state-recovery.path", "s3://lake/sp", false),
        ] {
            assert_eq!(claims(&[(key, value)].into_iter().collect()), expected, "{key}: {value}");
        }
    }

    #[test]
    fn every_field_that_names_a_savepoint_counts() {
        let path = Some("s3://lake/sp/1".to_owned());
        let spec = JobSpec { initial_savepoint_path: path.clone(), ..JobSpec::default() };
        let savepoint =
            api::status::Savepoint { location: path.clone(), ..api::status::Savepoint::default() };
        let status = JobStatus {
            upgrade_savepoint_path: path,
            savepoint_info: Some(api::status::SavepointInfo {
                last_savepoint: Some(savepoint.clone()),
                savepoint_history: vec![savepoint],
                ..api::status::SavepointInfo::default()
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
        // Only what cannot be parsed may still name another one.
        let fields = in_job(Some(&spec), &status, &reconciliation, "s3://lake/sp/2");
        assert_eq!(fields, ["status.reconciliationStatus.lastStableSpec"]);
    }

    fn object<K: serde::de::DeserializeOwned>(kind: &str, namespace: &str, fields: Value) -> K {
        let mut object = serde_json::json!({
            "apiVersion": "flink.apache.org/v1beta1", "kind": kind,
            "metadata": {"name": "orders", "namespace": namespace, "uid": namespace},
        });
        for (key, value) in fields.as_object().unwrap() {
            object[key] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn who_refers_from_another_namespace_is_reported_with_it_and_the_snapshot_itself_is_not() {
        let spec = serde_json::json!({"spec": {"job": {"initialSavepointPath": "s3://lake/sp/1"}}});
        let deployment: FlinkDeployment = object("FlinkDeployment", "shop", spec.clone());
        let job: FlinkSessionJob = object("FlinkSessionJob", "test", spec);
        let snapshot: FlinkStateSnapshot = object(
            "FlinkStateSnapshot",
            "test",
            serde_json::json!({"spec": {}, "status": {"path": "s3://lake/sp/1"}}),
        );
        let snapshot = FlinkStateSnapshot {
            metadata: ObjectMeta { uid: Some("taken".to_owned()), ..snapshot.metadata },
            ..snapshot
        };
        let referrers = Referrers {
            namespace: "shop",
            deployments: vec![&deployment],
            session_jobs: vec![&job],
            revisions: &[],
            snapshots: vec![&snapshot],
            unread: &[],
        };
        let all = [
            "FlinkDeployment `orders` (spec.job.initialSavepointPath)",
            "FlinkSessionJob `orders` in namespace `test` (spec.job.initialSavepointPath)",
            "FlinkStateSnapshot `orders` in namespace `test`",
        ];
        assert_eq!(referrers.of("s3://lake/sp/1", None), all);
        assert_eq!(referrers.of("s3://lake/sp/1", Some("taken")), all[..2]);
        assert!(referrers.of("s3://lake/sp/2", None).is_empty());
    }

    #[test]
    fn a_savepoint_of_the_jobs_own_history_is_one_that_its_spec_may_name() {
        let entry = |path: &str| serde_json::json!({"timeStamp": 1, "location": path});
        let books = serde_json::json!({"jobStatus": {"savepointInfo": {
            "lastSavepoint": entry("s3://lake/sp/2"),
            "savepointHistory": [entry("s3://lake/sp/1"), entry("s3://lake/sp/2")],
        }}});
        let spec = serde_json::json!({"job": {"initialSavepointPath": "s3://lake/sp/1"}});
        let fields = serde_json::json!({"spec": spec, "status": books});
        let deployment: FlinkDeployment = object("FlinkDeployment", "shop", fields.clone());
        let job: FlinkSessionJob = object("FlinkSessionJob", "shop", fields);
        let referrers = |with_job: bool| Referrers {
            namespace: "shop",
            deployments: if with_job { vec![] } else { vec![&deployment] },
            session_jobs: if with_job { vec![&job] } else { vec![] },
            revisions: &[],
            snapshots: vec![],
            unread: &[],
        };
        for (with_job, kind) in [(false, "FlinkDeployment"), (true, "FlinkSessionJob")] {
            let referrers = referrers(with_job);
            let who = format!("{kind} `orders` (spec.job.initialSavepointPath)");
            assert_eq!(referrers.of("s3://lake/sp/1", Some("shop")), [who]);
            assert!(referrers.of("s3://lake/sp/2", Some("shop")).is_empty(), "{kind}");
            assert_eq!(referrers.of("s3://lake/sp/2", Some("other")).len(), 2, "{kind}");
        }
    }

    #[test]
    fn the_text_of_what_cannot_be_read_is_searched_however_the_path_is_spelled() {
        let unread = |text: &str| Unread {
            kind: "FlinkSessionJob".to_owned(),
            namespace: "test".to_owned(),
            name: "orders".to_owned(),
            text: text.to_owned(),
        };
        let named = |text: &str, location: &str| {
            let referrers = Referrers {
                namespace: "shop",
                deployments: vec![],
                session_jobs: vec![],
                revisions: &[],
                snapshots: vec![],
                unread: &[unread(text)],
            };
            referrers.of(location, None)
        };
        let text = r#"{"spec":{"job":{"initialSavepointPath":"s3a://lake/sp/savepoint-1"}}}"#;
        let who = "FlinkSessionJob `orders` in namespace `test` (in its text)";
        for location in ["s3a://lake/sp/savepoint-1", "s3://lake/sp/savepoint-1/_metadata"] {
            assert_eq!(named(text, location), [who], "{location}");
        }
        assert_eq!(named(r#"{"a":"file:\/data\/sp\/1"}"#, "file:///data/sp/1"), [who]);
        assert!(named(text, "s3://lake/sp/savepoint-2").is_empty());
    }
}
