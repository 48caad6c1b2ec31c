//! Revisions: each spec that was reconciled, with the state it left behind.
//!
//! Kept as `apps/v1` `ControllerRevision` objects, so that a person can go back to a spec that
//! worked. A revision is written when its spec is superseded or suspended, because only then is
//! its restore point known. Numbers only grow; a number names one spec for ever.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;

use super::restore_point;
use api::deployment::FlinkConfiguration;
use api::job::UpgradeMode;
use api::state_snapshot::JobKind;
use config::FlinkConfig;
use config::nested::remove_option;
use config::options::PARALLELISM_OVERRIDES;
use config::options::autoscaler::{ENABLED, MEMORY_TUNING_ENABLED};

/// Maximum number of revisions of one resource, besides the one that its state began with. Ten fit on a screen, and
/// each holds a whole spec.
pub const LIMIT: usize = 10;
/// Value of the label `component` on revisions.
pub const COMPONENT: &str = "flink-revision";

/// One reconciled spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Revision {
    /// Grows by one; 1 is the first.
    pub number: i64,
    pub content: Content,
}

/// Content of a revision, stored in its `data`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// The spec as it was reconciled, including everything that our types do not know.
    pub spec: Value,
    /// Where the next spec starts from.
    pub restore_point: RestorePoint,
    /// When the spec was reconciled.
    pub reconciled_at: Timestamp,
}

/// The state that a spec left behind.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestorePoint {
    pub kind: RestoreKind,
    /// `None` if only HA metadata knows it, and if there is none.
    pub path: Option<String>,
    /// The job that took the checkpoints, if there are some and `path` is `None`: Flink keeps them in a folder of that
    /// name.
    pub job_id: Option<String>,
    /// How the job was stopped.
    pub upgrade_mode: UpgradeMode,
}

impl RestorePoint {
    /// Returns the form that `point`, which the job of this id left, has in the history.
    pub fn of(point: &restore_point::RestorePoint, job_id: Option<&str>) -> Self {
        let (kind, path) = match point {
            restore_point::RestorePoint::Empty => (RestoreKind::None, None),
            restore_point::RestorePoint::HaMetadata => (RestoreKind::LastState, None),
            restore_point::RestorePoint::Path(path) if path.contains("/chk-") => {
                (RestoreKind::Checkpoint, Some(path.clone()))
            }
            restore_point::RestorePoint::Path(path) => (RestoreKind::Savepoint, Some(path.clone())),
        };
        let job_id = job_id.filter(|_| kind == RestoreKind::LastState).map(str::to_owned);
        Self { kind, path, job_id, upgrade_mode: point.upgrade_mode() }
    }
}

/// Kind of the state that a restore point names.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case", const_into_str)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreKind {
    Savepoint,
    Checkpoint,
    /// The latest checkpoint, which HA metadata names.
    LastState,
    /// The spec left no state.
    #[default]
    None,
}

/// Writes and deletions that add a spec to the history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    pub create: Option<Revision>,
    /// Numbers of revisions that are too old to keep, oldest first.
    pub prune: Vec<i64>,
}

/// Returns the name under which the revisions of a resource are kept. No `FlinkDeployment` has a dot in its name.
pub fn history_name(of: JobKind, name: &str) -> String {
    match of {
        JobKind::FlinkDeployment => name.to_owned(),
        JobKind::FlinkSessionJob => format!("sessionjob.{name}"),
    }
}

/// Returns the name of the history that both children of a `FlinkBlueGreenDeployment` share.
pub fn blue_green_history_name(name: &str) -> String {
    format!("bluegreen.{name}")
}

/// Returns the object name of a revision.
pub fn object_name(history: &str, number: i64) -> String {
    format!("{history}-{number}")
}

/// Returns the labels that lead from a history to its revisions.
pub fn labels(history: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app".to_owned(), history.to_owned()),
        ("component".to_owned(), COMPONENT.to_owned()),
    ])
}

/// Returns the [`labels`] as a selector.
pub fn label_selector(history: &str) -> String {
    format!("app={history},component={COMPONENT}")
}

/// Adds `content` to the `existing` revisions, given in any order.
///
/// If the newest revision has the same spec and restore point, it is the same fact, repeated after a crash: nothing is
/// created for it.
pub fn decide_revision(existing: &[Revision], content: Content) -> Change {
    let newest = existing.iter().max_by_key(|revision| revision.number);
    let is_known = newest.is_some_and(|newest| {
        newest.content.spec == content.spec && newest.content.restore_point == content.restore_point
    });
    let create = (!is_known).then(|| Revision {
        number: newest.map_or(0, |newest| newest.number).saturating_add(1),
        content,
    });
    let mut kept: Vec<&Revision> = existing.iter().chain(&create).collect();
    kept.sort_unstable_by_key(|revision| revision.number);
    let origin = origin(&kept);
    let too_many = kept.len().saturating_sub(LIMIT);
    let old = kept.iter().take(too_many).map(|revision| revision.number);
    let prune = old.filter(|number| Some(*number) != origin).collect();
    Change { create, prune }
}

/// Like [`decide_revision`], but a spec that is already the newest one replaces it: a transition may be tried many
/// times, and leaves another savepoint each time.
pub fn decide_repeated_revision(existing: &[Revision], content: Content) -> Change {
    let newest = existing.iter().max_by_key(|revision| revision.number);
    let mut change = decide_revision(existing, content);
    if let (Some(created), Some(newest)) = (&change.create, newest)
        && created.content.spec == newest.content.spec
    {
        change.prune.push(newest.number);
    }
    change
}

/// Returns the revision, of those given from old to new, that names the last savepoint from which the job was started.
/// With `CLAIM` or `LEGACY`, its checkpoints may need the files of that savepoint until it starts from another one,
/// however often it continues from a checkpoint: until then this revision is what refers to it.
fn origin(revisions: &[&Revision]) -> Option<i64> {
    let names_one = |content: &Content| {
        let initial = content.spec.pointer("/job/initialSavepointPath");
        let is_named = initial.and_then(Value::as_str).is_some_and(|path| !path.is_empty());
        is_named || content.restore_point.kind == RestoreKind::Savepoint
    };
    let starts_empty =
        |content: &Content| content.restore_point.upgrade_mode == UpgradeMode::Stateless;
    let newest_first = revisions.iter().rev();
    let found = newest_first
        .take_while(|revision| !starts_empty(&revision.content))
        .find(|revision| names_one(&revision.content));
    found.map(|revision| revision.number)
}

/// Prefix of all options that memory tuning writes.
const TASK_MANAGER_MEMORY: &str = "taskmanager.memory.";

/// Fields of `spec.job` that request an action now and do not belong to a version of the job.
const JOB_REQUESTS: [&str; 5] = [
    "state",
    "savepointTriggerNonce",
    "checkpointTriggerNonce",
    "savepointRedeployNonce",
    "autoscalerResetNonce",
];

/// Returns the spec that brings `old` back while `current` is deployed.
///
/// Nonces and the desired state stay as they are: an old `savepointRedeployNonce` would discard the state. The upgrade
/// mode stays too, because a reconciled spec names the mode that was used, not the desired one (a first deployment is
/// always stateless). Only a stateless mode is replaced, by one that keeps the state.
///
/// The autoscaler's decisions are not the user's: a reconciled spec contains them, and the result has those of the
/// present spec instead. `autoscaled` is what is known of them besides the specs.
pub fn decide_rollback(current: &Value, old: &Value, autoscaled: Autoscaled) -> Value {
    let mut spec = old.clone();
    copy_field(current, &mut spec, "restartNonce");
    if let (Some(job), Some(current_job)) = (spec.get_mut("job"), current.get("job")) {
        for field in JOB_REQUESTS {
            copy_field(current_job, job, field);
        }
        if mode_of(current_job) != UpgradeMode::Stateless || mode_of(job) == UpgradeMode::Stateless
        {
            copy_field(current_job, job, "upgradeMode");
        }
    }
    // The autoscaler decided the options in force then, not the user.
    let stated = Autoscaled::stated_by(current).or(Autoscaled::stated_by(old)).or(autoscaled);
    if stated.parallelism {
        keep_present(current, &mut spec, PARALLELISM_OVERRIDES.key());
    }
    if stated.memory {
        keep_memory(current, &mut spec);
    }
    spec
}

/// Parts of a reconciled spec that the autoscaler may have set.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Autoscaled {
    pub parallelism: bool,
    /// Memory of the TaskManagers.
    pub memory: bool,
}

impl Autoscaled {
    /// Returns what the spec itself says; the operator's defaults may turn it on as well.
    fn stated_by(spec: &Value) -> Self {
        let Some(own) = spec.get("flinkConfiguration").and_then(Value::as_object) else {
            return Self::default();
        };
        let own = FlinkConfig::flatten(&FlinkConfiguration(own.clone()));
        let parallelism = own.get(&ENABLED).unwrap_or_default();
        let memory = parallelism && own.get(&MEMORY_TUNING_ENABLED).unwrap_or_default();
        Self { parallelism, memory }
    }

    fn or(self, other: Self) -> Self {
        Self {
            parallelism: self.parallelism || other.parallelism,
            memory: self.memory || other.memory,
        }
    }
}

/// Gives an option in `to` the value that it has in `from`, or removes it if it has none, flat or nested.
fn keep_present(from: &Value, to: &mut Value, key: &str) {
    let own = from.get("flinkConfiguration").and_then(Value::as_object);
    let present = own.and_then(|own| {
        let nested = || {
            let flat = FlinkConfig::flatten(&FlinkConfiguration(own.clone()));
            flat.get_text(key).map(Value::from)
        };
        own.get(key).cloned().or_else(nested)
    });
    if let Some(own) = to.get_mut("flinkConfiguration").and_then(Value::as_object_mut) {
        remove_option(own, key);
    }
    if let (Some(value), Some(to)) = (present, to.as_object_mut()) {
        let own = to.entry("flinkConfiguration").or_insert_with(|| Value::Object(Map::new()));
        if let Some(own) = own.as_object_mut() {
            own.insert(key.to_owned(), value);
        }
    }
}

/// Like [`keep_present`], for all options that memory tuning writes.
fn keep_memory(from: &Value, to: &mut Value) {
    let flat = |spec: &Value| {
        let own = spec.get("flinkConfiguration").and_then(Value::as_object).cloned();
        FlinkConfig::flatten(&FlinkConfiguration(own.unwrap_or_default()))
    };
    let (present, former) = (flat(from), flat(to));
    let keys: BTreeSet<&str> = present.iter().chain(former.iter()).map(|(key, _)| key).collect();
    for key in keys.into_iter().filter(|key| key.starts_with(TASK_MANAGER_MEMORY)) {
        keep_present(from, to, key);
    }
    for place in [
        "/taskManager/resource",
        "/taskManager/resources/requests",
        "/taskManager/resources/limits",
    ] {
        let nothing = Value::Null;
        let present = from.pointer(place).unwrap_or(&nothing);
        if let Some(place) = to.pointer_mut(place) {
            copy_field(present, place, "memory");
        }
    }
}

/// Returns the upgrade mode of a job; stateless if it names none.
fn mode_of(job: &Value) -> UpgradeMode {
    job.get("upgradeMode").and_then(|mode| UpgradeMode::deserialize(mode).ok()).unwrap_or_default()
}

/// Gives `field` in `to` the value that it has in `from`, or removes it if it has none.
fn copy_field(from: &Value, to: &mut Value, field: &str) {
    let Some(to) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => drop(to.insert(field.to_owned(), value.clone())),
        None => drop(to.remove(field)),
    }
}

#[cfg(test)]
mod tests;
