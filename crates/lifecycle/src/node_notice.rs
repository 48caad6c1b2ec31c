//! Snapshots of a job that are taken because one of its nodes is about to go.
//!
//! Each notice is answered once: the snapshot that answers it carries the uids of its nodes, so that another operator
//! knows. Notices that arrive together share a snapshot. Later ones wait for the cooldown, and for any snapshot of the
//! job in progress.

mod heed;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::trigger::known::KnownSnapshot;

/// Taints of a node that is drained, shut down or reclaimed by its provider. Taints of nodes that are already gone, and
/// of mere candidates, are left out.
const TAINTS: [&str; 10] = [
    UNSCHEDULABLE,
    CLUSTER_AUTOSCALER,
    "karpenter.sh/disrupted",
    "karpenter.sh/disruption",
    "aws-node-termination-handler/spot-itn",
    "aws-node-termination-handler/scheduled-maintenance",
    "aws-node-termination-handler/asg-lifecycle-termination",
    "aws-node-termination-handler/rebalance-recommendation",
    "cloud.google.com/impending-node-termination",
    "remediator.kubernetes.azure.com/unschedulable",
];
/// Taint that Kubernetes puts on a cordoned node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Taint whose value is the time it was added, in seconds since the epoch.
const CLUSTER_AUTOSCALER: &str = "ToBeDeletedByClusterAutoscaler";

/// A node is cordoned first, and tainted with the time a moment later. A notice that seems to begin this soon after a
/// snapshot is the one that the snapshot answers.
const TAINTED_AFTER: SignedDuration = SignedDuration::from_mins(1);
/// Maximum number of notices that one snapshot answers; each is stored with it.
const NOTICES_MAX: usize = 500;
/// Maximum number of a job's notices that are remembered in addition to those of the snapshots.
const REMEMBERED_MAX: usize = 2000;

/// The parts of a node that show whether it is about to go.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Node {
    pub name: String,
    pub uid: String,
    /// `spec.unschedulable`.
    pub is_unschedulable: bool,
    pub taints: Vec<Taint>,
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taint {
    pub key: String,
    pub value: Option<String>,
    /// Many taints do not have it.
    pub added: Option<Timestamp>,
}

impl Taint {
    fn since(&self) -> Option<Timestamp> {
        self.added.or_else(|| {
            let second = self.value.as_deref().filter(|_| self.key == CLUSTER_AUTOSCALER)?;
            Timestamp::from_second(second.parse().ok()?).ok()
        })
    }
}

/// The announcement that a node is about to go.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Notice {
    pub node: String,
    pub uid: String,
    /// The taint that announces it, or that the node is cordoned.
    pub sign: String,
    /// When it began, if known.
    pub since: Option<Timestamp>,
}

/// Returns the node's notice, if it has one; `further` are keys of additional taints to heed.
pub fn notice(node: &Node, further: &[String]) -> Option<Notice> {
    let counts = |key: &str| TAINTS.contains(&key) || further.iter().any(|it| it.trim() == key);
    let signs = || node.taints.iter().filter(|taint| counts(&taint.key));
    // A taint with a reason says more than that the node is cordoned.
    let sign = signs().find(|taint| taint.key != UNSCHEDULABLE).or_else(|| signs().next());
    if sign.is_none() && !node.is_unschedulable {
        return None;
    }
    Some(Notice {
        node: node.name.clone(),
        uid: node.uid.clone(),
        sign: sign.map_or("it is cordoned".to_owned(), |taint| format!("taint `{}`", taint.key)),
        since: signs().filter_map(Taint::since).min(),
    })
}

/// When this process requested the snapshot that answers a node's notice, by the node's uid.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answered(BTreeMap<String, Timestamp>);

impl Answered {
    /// Records that a snapshot was requested.
    pub fn note(&mut self, uids: &[String], at: Timestamp) {
        self.0.extend(uids.iter().map(|uid| (uid.clone(), at)));
        while self.0.len() > REMEMBERED_MAX {
            let oldest = self.0.iter().min_by_key(|(_, at)| **at).map(|(uid, _)| uid.clone());
            oldest.and_then(|uid| self.0.remove(&uid));
        }
    }

    fn newest(&self) -> Option<Timestamp> {
        self.0.values().max().copied()
    }
}

/// Facts for the decision.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    pub now: Timestamp,
    pub cooldown: Duration,
    /// The job's snapshots, with the notices that they answer.
    pub known: &'a [KnownSnapshot],
    pub answered: &'a Answered,
    /// A snapshot that is not a resource was requested from Flink, or any in this pass.
    pub is_asking: bool,
}

/// How to respond to notices.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Heed {
    Nothing,
    /// Look again after at most this long.
    Wait(Duration),
    /// Take one snapshot that answers all of these.
    Take(Vec<Notice>),
}

impl Facts<'_> {
    /// Returns the notices that no snapshot answers yet.
    pub fn unanswered(&self, nodes: &[Node], further: &[String]) -> Vec<Notice> {
        let notices = nodes.iter().filter_map(|node| notice(node, further));
        notices.filter(|notice| !self.is_answered(notice)).collect()
    }

    fn is_answered(&self, notice: &Notice) -> bool {
        let covers = |at: Timestamp| notice.since.is_none_or(|since| since <= at + TAINTED_AFTER);
        let remembered = self.answered.0.get(&notice.uid).copied();
        let of_snapshots = self.known.iter().filter(|it| it.notices.contains(&notice.uid));
        of_snapshots.map(|it| it.created).chain(remembered).any(covers)
    }

    /// Decides how to respond to unanswered notices, given the nodes of the job's pods.
    pub fn heed(&self, mut unanswered: Vec<Notice>, pod_nodes: &BTreeSet<String>) -> Heed {
        unanswered.retain(|notice| pod_nodes.contains(&notice.node));
        if unanswered.is_empty() {
            return Heed::Nothing;
        }
        let is_open =
            |snapshot: &KnownSnapshot| !snapshot.state.is_final() && !snapshot.is_deleting;
        if self.is_asking || self.known.iter().any(is_open) {
            return Heed::Wait(WHILE_OPEN);
        }
        let of_notices = self.known.iter().filter(|it| !it.notices.is_empty());
        let last = of_notices.map(|it| it.created).chain(self.answered.newest()).max();
        // A clock that was set back must not extend the pause beyond the cooldown.
        let elapsed = |at: Timestamp| {
            Duration::try_from(self.now.duration_since(at)).unwrap_or(Duration::ZERO)
        };
        let left = last.map(|at| self.cooldown.saturating_sub(elapsed(at)));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            return Heed::Wait(left);
        }
        unanswered.sort_by(|one, other| one.node.cmp(&other.node));
        unanswered.truncate(NOTICES_MAX);
        Heed::Take(unanswered)
    }
}

/// How soon to check whether another snapshot has ended.
const WHILE_OPEN: Duration = Duration::from_secs(10);

/// Returns the beginning of a sentence about the notices: `Node … is`, or `Nodes … are about to go`.
pub fn described(notices: &[Notice]) -> String {
    const SHOWN: usize = 5;
    let one = |notice: &Notice| format!("`{}` ({})", notice.node, notice.sign);
    let mut names = notices.iter().take(SHOWN).map(one).collect::<Vec<_>>().join(", ");
    let more = notices.len().saturating_sub(SHOWN);
    if more > 0 {
        names = format!("{names} and {more} more");
    }
    let (word, verb) = if notices.len() == 1 { ("Node", "is") } else { ("Nodes", "are") };
    format!("{word} {names} {verb} about to go")
}

#[cfg(test)]
mod tests;
