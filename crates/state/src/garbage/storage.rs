//! Files and ZooKeeper nodes that former runs left behind, and which of them may be removed.
//!
//! The decision is based on what was listed and on every name that anything in Kubernetes mentions. A folder is removed
//! only if nothing names it: no resource, stored spec, revision, snapshot or HA metadata, and no metadata in a folder
//! that stays, because checkpoints and savepoints can share files. A view with a gap removes nothing, because what
//! could not be read may name anything.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use super::{ClusterName, is_job_id, job_ids_in};

/// Prefix of the names that Flink gives to savepoints.
pub const SAVEPOINT_PREFIX: &str = "savepoint-";
/// Length of an id such as `6ba7b810-9dad-11d1-80b4-00c04fd430c8`, in characters.
const UUID_CHARS: usize = 36;

/// Contents of a place, in the order in which they are removed: what leads to state is removed before the state.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, strum::IntoStaticStr)]
#[strum(const_into_str)]
#[serde(rename_all = "PascalCase")]
pub enum Kind {
    /// HA metadata of a cluster, below ZooKeeper's root path.
    ZooKeeperNodes,
    /// Files that HA metadata points to: the folder of a cluster in `high-availability.storageDir`.
    HaStorage,
    /// The folder that the operator gives to one run.
    JobResultStore,
    /// The folder of a job in the checkpoint directory.
    Checkpoints,
    Savepoint,
}

impl Kind {
    /// Returns `true` if a folder is named after a cluster, not after a run.
    fn is_of_cluster(self) -> bool {
        matches!(self, Self::ZooKeeperNodes | Self::HaStorage)
    }

    /// Returns `true` if a job could be started from it.
    fn is_restorable(self) -> bool {
        matches!(self, Self::Checkpoints | Self::Savepoint)
    }
}

/// A place that the configuration of a cluster names.
#[derive(Clone, Debug)]
pub struct Place {
    pub kind: Kind,
    /// Without a trailing slash.
    pub uri: String,
    /// Clusters of any namespace with an object that names the place.
    pub users: BTreeSet<ClusterName>,
    pub view: View,
}

/// How much of a place could be seen.
#[derive(Clone, Debug)]
pub enum View {
    /// All of it.
    Complete(Vec<Folder>),
    /// None of it, by its nature or for lack of permissions, with the reason.
    Hidden(String),
    /// Not all of it, with the error.
    Failed(String),
}

/// A folder in a place, or a ZooKeeper node with everything below it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Folder {
    /// Path below the place.
    pub path: String,
    /// The cluster that it is named after.
    pub cluster: Option<String>,
    /// When anything in it was last written; `None` if it is empty.
    pub changed: Option<Timestamp>,
    pub size_bytes: u64,
    /// Number of files or nodes.
    pub count: u64,
    /// Whether everything in it is as Flink writes it; a savepoint has its metadata.
    pub is_recognized: bool,
    /// Whether it is state, or leads to state.
    pub has_state: bool,
    /// Whether a JobManager is registered in it.
    pub is_in_use: bool,
    /// Names in its metadata, as [`names_in`] finds them.
    pub names: BTreeSet<String>,
}

impl Folder {
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// Names and clusters that objects in Kubernetes mention, in all namespaces.
#[derive(Clone, Debug, Default)]
pub struct References {
    /// Descriptions of what could not be read.
    pub unread: Vec<String>,
    /// Names in any object, as [`names_in`] finds them.
    pub names: BTreeSet<String>,
    /// Names of the clusters of any resource, Deployment, pod or ConfigMap.
    pub clusters: BTreeSet<String>,
    /// Those of which every namesake is an application that runs and is idle.
    pub settled: BTreeSet<String>,
    /// Session clusters, which run jobs that only they know.
    pub session_clusters: BTreeSet<ClusterName>,
    /// Those with a restore mode other than `NO_CLAIM`: their jobs can own or use the files of a
    /// savepoint or of a former job.
    pub claimers: BTreeSet<ClusterName>,
}

/// Limits on what may be removed.
#[derive(Clone, Debug)]
pub struct Rules {
    pub now: Timestamp,
    /// Anything younger is left alone.
    pub age_min: Duration,
    /// Also remove state and what leads to it.
    pub includes_state: bool,
    /// Places that only this Kubernetes cluster uses, with everything below them.
    pub sole_user_of: Vec<String>,
}

/// Something that nothing names.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    pub kind: Kind,
    /// The whole address.
    pub path: String,
    pub size_bytes: u64,
    /// Number of files or nodes.
    pub count: u64,
    pub changed: Timestamp,
    /// Why it is garbage.
    pub why: String,
    /// Why it stays all the same.
    pub kept_because: Option<String>,
    #[serde(skip)]
    pub place: String,
    /// Path below the place.
    #[serde(skip)]
    pub below: String,
    #[serde(skip)]
    names: BTreeSet<String>,
}

impl Finding {
    pub fn is_removable(&self) -> bool {
        self.kept_because.is_none()
    }

    fn name(&self) -> String {
        self.below.rsplit('/').next().unwrap_or_default().to_ascii_lowercase()
    }
}

/// Returns `true` if a text can name a place: `scheme://` and something after it.
pub fn is_place(text: &str) -> bool {
    text.split_once("://")
        .is_some_and(|(scheme, rest)| !scheme.is_empty() && !rest.trim_matches('/').is_empty())
}

/// Returns everything that nothing names, in the order of removal.
pub fn garbage(places: &[Place], references: &References, rules: &Rules) -> Vec<Finding> {
    let mut findings = Vec::new();
    // Names in the metadata of what stays and is not a finding.
    let mut kept_names = BTreeSet::new();
    for place in places {
        let View::Complete(folders) = &place.view else { continue };
        let gap = gap(place, places, references);
        for folder in folders {
            match judge(place, folder, gap.as_deref(), references, rules) {
                Some(finding) => findings.push(finding),
                None => kept_names.extend(folder.names.iter().cloned()),
            }
        }
    }
    keep_what_is_used(&mut findings, kept_names);
    findings.sort_by(|one, other| (one.kind, &one.path).cmp(&(other.kind, &other.path)));
    findings.dedup_by(|one, other| one.path == other.path);
    findings
}

/// Keeps what the metadata of anything that stays names, recursively.
fn keep_what_is_used(findings: &mut [Finding], mut kept_names: BTreeSet<String>) {
    for finding in findings.iter().filter(|finding| !finding.is_removable()) {
        kept_names.extend(finding.names.iter().cloned());
    }
    loop {
        let used = findings
            .iter_mut()
            .find(|finding| finding.is_removable() && kept_names.contains(&finding.name()));
        let Some(used) = used else { return };
        used.kept_because = Some("metadata that is kept refers to it".to_owned());
        kept_names.extend(used.names.iter().cloned());
    }
}

/// Returns the folder as a finding, if nothing names it.
fn judge(
    place: &Place,
    folder: &Folder,
    gap: Option<&str>,
    references: &References,
    rules: &Rules,
) -> Option<Finding> {
    let changed = folder.changed?;
    let age = rules.now.duration_since(changed);
    let is_old = SignedDuration::try_from(rules.age_min).is_ok_and(|min| age >= min);
    if !is_old || !folder.is_recognized || folder.is_in_use {
        return None;
    }
    let Needless { why, is_surely_ours } = needless(place.kind, folder, references)?;
    let path = format!("{}/{}", place.uri, folder.path);
    let kept_because = gap.map(str::to_owned).or_else(|| {
        if (folder.has_state || place.kind.is_restorable()) && !rules.includes_state {
            Some("it is state or leads to it: use --include-state".to_owned())
        } else if !is_surely_ours && !rules.sole_user_of.iter().any(|of| is_below(&path, of)) {
            let uri = &place.uri;
            Some(format!("others may use this location: if nobody does, use --sole-user-of {uri}"))
        } else {
            None
        }
    });
    Some(Finding {
        kind: place.kind,
        path,
        size_bytes: folder.size_bytes,
        count: folder.count,
        changed,
        why,
        kept_because,
        place: place.uri.clone(),
        below: folder.path.clone(),
        names: folder.names.clone(),
    })
}

/// Why nothing needs a folder.
struct Needless {
    why: String,
    /// Whether its name says that it belongs to an existing cluster here; otherwise it could belong to another
    /// Kubernetes cluster, or to none.
    is_surely_ours: bool,
}

fn needless(kind: Kind, folder: &Folder, references: &References) -> Option<Needless> {
    let name = folder.name();
    let cluster = folder.cluster.as_deref().unwrap_or_default();
    let is_named = references.names.contains(&name.to_ascii_lowercase());
    let is_there = references.clusters.contains(cluster);
    let gone = || format!("cluster `{cluster}` no longer exists");
    let (why, is_surely_ours) = match kind {
        _ if kind.is_of_cluster() && (cluster.is_empty() || is_there) => return None,
        Kind::ZooKeeperNodes | Kind::HaStorage => (gone(), false),
        _ if is_named => return None,
        Kind::JobResultStore if cluster.is_empty() => return None,
        Kind::JobResultStore if !is_there => (gone(), false),
        Kind::JobResultStore => {
            // A cluster that is changing may start with any of them.
            references.settled.contains(cluster).then_some(())?;
            (format!("`{cluster}` runs with another one"), true)
        }
        Kind::Checkpoints => {
            is_job_id(name).then_some(())?;
            (format!("nothing names job {name}"), false)
        }
        Kind::Savepoint => {
            // Another name could not be found in texts reliably.
            (name.starts_with(SAVEPOINT_PREFIX) && name.chars().all(is_in_name)).then_some(())?;
            ("nothing names it".to_owned(), false)
        }
    };
    Some(Needless { why, is_surely_ours })
}

/// Returns why nothing in the place can be decided reliably.
fn gap(place: &Place, places: &[Place], references: &References) -> Option<String> {
    if let Some(unread) = references.unread.first() {
        return Some(format!("not everything could be read: {unread}"));
    }
    let failed = places.iter().find_map(|other| match &other.view {
        View::Failed(problem) => Some(format!("`{}` could not be read: {problem}", other.uri)),
        View::Complete(_) | View::Hidden(_) => None,
    });
    failed.or_else(|| hidden_metadata(place, places)).or_else(|| {
        if !place.kind.is_restorable() {
            return None;
        }
        let claimer = references.claimers.iter().find(|of| may_use(of, place, places));
        claimer
            .map(|of| {
                format!(
                    "`{}` does not restore with NO_CLAIM, so its jobs can use the files of others",
                    of.name
                )
            })
            .or_else(|| unknown_jobs(place, references))
    })
}

/// Returns why a cluster of the place may keep metadata that cannot be read, and that may name anything.
fn hidden_metadata(place: &Place, places: &[Place]) -> Option<String> {
    let may_name = |other: &Place| match place.kind {
        Kind::Checkpoints | Kind::Savepoint => true,
        Kind::HaStorage => other.kind == Kind::ZooKeeperNodes,
        // Only objects in Kubernetes name them.
        Kind::ZooKeeperNodes | Kind::JobResultStore => false,
    };
    let hidden = places.iter().find(|other| {
        let is_hidden = matches!(other.view, View::Hidden(_));
        is_hidden && may_name(other) && !other.users.is_disjoint(&place.users)
    })?;
    Some(format!("its users keep metadata in `{}`, which cannot be seen from here", hidden.uri))
}

/// Returns why jobs without a resource may run here: a session cluster uses the place.
fn unknown_jobs(place: &Place, references: &References) -> Option<String> {
    let session = place.users.iter().find(|user| references.session_clusters.contains(*user))?;
    (place.kind == Kind::Checkpoints)
        .then(|| format!("session cluster `{}` may run jobs that only it knows", session.name))
}

/// Returns `true` if a cluster that claims files could own part of the place: it uses the place, or its own
/// checkpoints, which would show it, are not in view.
fn may_use(claimer: &ClusterName, place: &Place, places: &[Place]) -> bool {
    let its: Vec<&Place> = places.iter().filter(|other| other.users.contains(claimer)).collect();
    let is_seen = |other: &&Place| matches!(other.view, View::Complete(_));
    let tells = its.iter().any(|other| other.kind == Kind::Checkpoints);
    place.users.contains(claimer) || !tells || !its.iter().all(is_seen)
}

fn is_below(path: &str, place: &str) -> bool {
    let rest = path.strip_prefix(place.trim_end_matches('/'));
    is_place(place) && rest.is_some_and(|rest| rest.starts_with('/'))
}

/// Returns everything in a text that could be the name of a folder of Flink: ids of jobs and of runs, and savepoints,
/// in lower case. The text may be the metadata of a checkpoint, most of which is not text.
pub fn names_in(text: &str) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = job_ids_in(text).map(str::to_ascii_lowercase).collect();
    names.extend(text.match_indices(SAVEPOINT_PREFIX).map(|(at, _)| {
        let rest = &text[at..];
        let end = rest.find(|c: char| !is_in_name(c)).unwrap_or(rest.len());
        rest[..end].to_ascii_lowercase()
    }));
    let runs = text.split(|c: char| !(c.is_ascii_hexdigit() || c == '-'));
    names.extend(runs.filter(|run| is_uuid(run)).map(str::to_ascii_lowercase));
    names
}

fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

/// Returns `true` if the operator names a folder of one run like this.
pub fn is_uuid(word: &str) -> bool {
    let dashes = word.bytes().enumerate().filter(|(_, byte)| *byte == b'-').map(|(at, _)| at);
    word.len() == UUID_CHARS
        && dashes.eq([8, 13, 18, 23])
        && word.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests;
