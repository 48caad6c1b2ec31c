//! Garbage that former clusters and jobs left behind in Kubernetes, and which of it may be removed.
//!
//! Flink's HA ConfigMaps have no owner, so nothing removes those of a cluster that ended badly or of a job that was
//! started under a new id. Nothing is removed that anything still names: the id of a job in a status, a spec, a stored
//! revision or a snapshot keeps what belongs to it, and so does a running cluster. ConfigMaps that name checkpoints or
//! jobs may be all that leads to a job's state: they are reported, with all of their cluster, and removed only if a
//! person requests it.

pub mod snapshots;
pub mod storage;

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// Number of digits in a job id.
const JOB_ID_DIGITS: usize = 32;
/// Suffixes of the names that Flink gives to HA ConfigMaps, in all versions.
const HA_SUFFIXES: [&str; 5] = [
    "-config-map",
    "-jobmanager-leader",
    "-dispatcher-leader",
    "-resourcemanager-leader",
    "-restserver-leader",
];

/// A cluster in a namespace.
#[derive(Clone, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
pub struct ClusterName {
    pub namespace: String,
    pub name: String,
}

/// A ConfigMap with the labels of Flink.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FoundMap {
    /// Its label `app`.
    pub cluster: ClusterName,
    pub name: String,
    pub uid: String,
    /// Its `metadata.resourceVersion` when it was read.
    pub version: String,
    /// Whether its label `component` is `autoscaler`.
    pub is_autoscaler: bool,
    /// When it was last written.
    pub changed: Timestamp,
    /// Whether it names checkpoints, or jobs to recover.
    pub has_state: bool,
    /// Whether Kubernetes removes it with its owner, or is already removing it.
    pub is_taken_care_of: bool,
}

/// Everything in scope. An inventory must be complete: anything that is not in it counts as gone.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    pub maps: Vec<FoundMap>,
    /// Clusters that a resource of any kind names, by its own name or in a field.
    pub named: BTreeSet<ClusterName>,
    /// Those with a job of their own that are idle: neither being upgraded nor deleted.
    pub settled_applications: BTreeSet<ClusterName>,
    /// Clusters with a Deployment or a pod, whoever created it.
    pub running: BTreeSet<ClusterName>,
    /// Ids that a status, spec, revision or snapshot of the namespace mentions.
    pub mentioned: BTreeSet<(String, String)>,
}

/// Limits on what may be removed.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub now: Timestamp,
    /// Anything younger is left alone.
    pub age_min: Duration,
    /// Also remove ConfigMaps that lead to state.
    pub includes_state: bool,
}

/// Subject of a finding.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, strum::IntoStaticStr)]
#[strum(const_into_str)]
#[serde(rename_all = "PascalCase")]
pub enum Kind {
    HaMetadata,
    AutoscalerState,
}

/// A ConfigMap that nothing is known to need.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub namespace: String,
    pub name: String,
    #[serde(skip)]
    pub uid: String,
    /// The resource version that was read; a newer one is in use.
    #[serde(skip)]
    pub version: String,
    pub kind: Kind,
    pub cluster: String,
    pub changed: Timestamp,
    /// Whether it may be removed; otherwise it is only reported.
    pub is_removable: bool,
    pub why: String,
}

/// Returns what may be removed, and what is only reported, by namespace and name.
pub fn garbage(inventory: &Inventory, rules: &Rules) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        inventory.maps.iter().filter_map(|map| judge(map, inventory, rules)).collect();
    findings
        .sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    findings
}

fn judge(map: &FoundMap, inventory: &Inventory, rules: &Rules) -> Option<Finding> {
    let FoundMap {
        cluster,
        name,
        uid,
        version,
        is_autoscaler,
        changed,
        has_state,
        is_taken_care_of,
    } = map;
    let age = rules.now.duration_since(*changed);
    let is_old = SignedDuration::try_from(rules.age_min).is_ok_and(|min| age >= min);
    if *is_taken_care_of || !is_old || cluster.name.is_empty() {
        return None;
    }
    let why = if *is_autoscaler {
        let is_named = inventory.named.contains(cluster) || inventory.running.contains(cluster);
        (!is_named).then(|| format!("`{}` no longer exists", cluster.name))?
    } else {
        needless_because(map, inventory)?
    };
    let leads_to_state = *has_state || is_next_to_state(map, inventory);
    let is_removable = !leads_to_state || rules.includes_state;
    let note = if leads_to_state { "; it leads to the state of a job" } else { "" };
    Some(Finding {
        namespace: cluster.namespace.clone(),
        name: name.clone(),
        uid: uid.clone(),
        version: version.clone(),
        kind: if *is_autoscaler { Kind::AutoscalerState } else { Kind::HaMetadata },
        cluster: cluster.name.clone(),
        changed: *changed,
        is_removable,
        why: format!("{why}{note}"),
    })
}

/// Returns `true` if another ConfigMap of a cluster that is gone leads to state, which is restored with all of them. An
/// existing cluster has a new one for what all of its jobs share.
fn is_next_to_state(map: &FoundMap, inventory: &Inventory) -> bool {
    let is_gone = !inventory.named.contains(&map.cluster);
    let alongside = |other: &FoundMap| other.cluster == map.cluster && other.has_state;
    !map.is_autoscaler && is_gone && inventory.maps.iter().any(alongside)
}

/// Returns why nothing needs the HA ConfigMap, if that is so.
fn needless_because(map: &FoundMap, inventory: &Inventory) -> Option<String> {
    let cluster = &map.cluster;
    let rest = map.name.strip_prefix(cluster.name.as_str())?.strip_prefix('-');
    let is_ha = HA_SUFFIXES.iter().any(|suffix| map.name.ends_with(suffix));
    let job_id = rest.and_then(|rest| rest.split('-').next()).filter(|id| is_job_id(id));
    let is_mentioned = job_id.is_some_and(|id| {
        inventory.mentioned.contains(&(cluster.namespace.clone(), id.to_owned()))
    });
    if !is_ha || is_mentioned {
        return None;
    }
    if inventory.named.contains(cluster) {
        // A session cluster runs jobs that only it knows; one that is changing may need any of them.
        let id = job_id.filter(|_| inventory.settled_applications.contains(cluster))?;
        return Some(format!("`{}` no longer runs job {id}", cluster.name));
    }
    let is_running = inventory.running.contains(cluster);
    (!is_running).then(|| format!("cluster `{}` no longer exists", cluster.name))
}

/// Returns all job ids in a text of any format.
pub fn job_ids_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_hexdigit()).filter(|word| is_job_id(word))
}

fn is_job_id(word: &str) -> bool {
    word.len() == JOB_ID_DIGITS && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests;
