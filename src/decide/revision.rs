//! Revisions: each spec that was reconciled, with the state it left behind.
//!
//! Kept as `apps/v1` `ControllerRevision` objects, so that a person can go back to a spec that
//! worked. A revision is written when its spec is superseded or suspended, because only then is
//! its restore point known. Numbers only grow; a number names one spec for ever.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::restore;
use crate::api::deployment::FlinkConfiguration;
use crate::api::job::UpgradeMode;
use crate::api::state_snapshot::JobKind;
use crate::config::FlinkConfig;
use crate::config::options::PARALLELISM_OVERRIDES;
use crate::config::options::autoscaler::ENABLED;

/// Revisions kept of one deployment. Ten fit on a screen, and each holds a whole spec.
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

/// What a revision stores in `data`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// The spec as it was reconciled, with everything that our types do not know.
    pub spec: Value,
    /// Where the next spec starts from.
    pub restore_point: RestorePoint,
    /// When the spec was reconciled.
    pub reconciled_at: Timestamp,
}

/// The state that a spec left behind.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RestorePoint {
    pub kind: RestoreKind,
    /// Absent where only HA metadata knows it, and where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// How the job was stopped.
    pub upgrade_mode: UpgradeMode,
}

impl RestorePoint {
    /// What `point` is in the history.
    pub fn of(point: &restore::RestorePoint) -> Self {
        let (kind, path) = match point {
            restore::RestorePoint::Empty => (RestoreKind::None, None),
            restore::RestorePoint::HaMetadata => (RestoreKind::LastState, None),
            restore::RestorePoint::Path(path) if path.contains("/chk-") => {
                (RestoreKind::Checkpoint, Some(path.clone()))
            }
            restore::RestorePoint::Path(path) => (RestoreKind::Savepoint, Some(path.clone())),
        };
        Self { kind, path, upgrade_mode: super::deploy::mode_of(point) }
    }
}

/// What kind of state it is.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestoreKind {
    Savepoint,
    Checkpoint,
    /// The latest checkpoint, which HA metadata leads to.
    LastState,
    /// The spec left no state.
    #[default]
    None,
}

impl RestoreKind {
    /// The spelling in the object.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Savepoint => "savepoint",
            Self::Checkpoint => "checkpoint",
            Self::LastState => "last-state",
            Self::None => "none",
        }
    }
}

/// What to write and what to delete so that a spec is in the history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Change {
    pub create: Option<Revision>,
    /// Numbers of revisions that are too old to keep, oldest first.
    pub prune: Vec<i64>,
}

/// Under which name the revisions of a resource are kept. No `FlinkDeployment` has a dot in its name.
pub fn history_name(of: JobKind, name: &str) -> String {
    match of {
        JobKind::FlinkDeployment => name.to_owned(),
        JobKind::FlinkSessionJob => format!("sessionjob.{name}"),
    }
}

/// Object name of a revision.
pub fn object_name(history: &str, number: i64) -> String {
    format!("{history}-{number}")
}

/// Labels that lead from a history to its revisions.
pub fn labels(history: &str) -> BTreeMap<String, String> {
    BTreeMap::from([
        ("app".to_owned(), history.to_owned()),
        ("component".to_owned(), COMPONENT.to_owned()),
    ])
}

/// The same labels as a selector.
pub fn label_selector(history: &str) -> String {
    format!("app={history},component={COMPONENT}")
}

/// Puts `content` behind the `existing` revisions, given in any order.
///
/// The newest revision with the same spec and restore point is the same fact, told again after a
/// crash: nothing is created for it.
pub fn decide_revision(existing: &[Revision], content: Content) -> Change {
    let newest = existing.iter().max_by_key(|revision| revision.number);
    let is_known = newest.is_some_and(|newest| {
        newest.content.spec == content.spec && newest.content.restore_point == content.restore_point
    });
    let create = (!is_known).then(|| Revision {
        number: newest.map_or(0, |newest| newest.number).saturating_add(1),
        content,
    });
    let mut numbers = existing.iter().map(|revision| revision.number).collect::<Vec<_>>();
    numbers.sort_unstable();
    let excess = (numbers.len() + usize::from(create.is_some())).saturating_sub(LIMIT);
    numbers.truncate(excess);
    Change { create, prune: numbers }
}

/// Fields of `spec.job` that ask for an action now and do not belong to a version of the job.
const JOB_REQUESTS: [&str; 5] = [
    "state",
    "savepointTriggerNonce",
    "checkpointTriggerNonce",
    "savepointRedeployNonce",
    "autoscalerResetNonce",
];

/// The spec that brings `old` back while `current` is deployed.
///
/// Nonces and the desired state stay as they are: an old `savepointRedeployNonce` would throw the
/// state away. The upgrade mode stays too, because a reconciled spec names the mode that was used,
/// not the one that was wanted (a first deployment is always stateless). Only a stateless one gives
/// way to one that keeps the state.
pub fn decide_rollback(current: &Value, old: &Value) -> Value {
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
    if is_autoscaled(current)
        && let (Some(own), Some(old)) =
            (current.get("flinkConfiguration"), spec.get_mut("flinkConfiguration"))
    {
        // What was in force then the autoscaler had decided, and not the user.
        copy_field(own, old, PARALLELISM_OVERRIDES.key());
    }
    spec
}

fn is_autoscaled(spec: &Value) -> bool {
    let own = spec.get("flinkConfiguration").and_then(Value::as_object);
    let own = own.map(|own| FlinkConfig::flatten(&FlinkConfiguration(own.clone())));
    own.is_some_and(|own| own.get(&ENABLED).unwrap_or_default())
}

/// The upgrade mode of a job; stateless when it does not say.
fn mode_of(job: &Value) -> UpgradeMode {
    job.get("upgradeMode").and_then(|mode| UpgradeMode::deserialize(mode).ok()).unwrap_or_default()
}

/// Makes `field` in `to` what it is in `from`, absence included.
fn copy_field(from: &Value, to: &mut Value, field: &str) {
    let Some(to) = to.as_object_mut() else { return };
    match from.get(field) {
        Some(value) => drop(to.insert(field.to_owned(), value.clone())),
        None => drop(to.remove(field)),
    }
}

#[cfg(test)]
mod tests;
