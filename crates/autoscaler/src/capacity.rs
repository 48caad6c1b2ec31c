//! Whether the nodes of a cluster have room for the TaskManagers of a scale-up, computed from the allocatable resources
//! of nodes and the requests of the pods on them.
//!
//! It places pods by first fit, as the Java operator does, and is no scheduler: it ignores tolerations, affinity and
//! volumes.

use std::collections::BTreeMap;

use config::memory::MemorySize;

use super::cost::Pod;

/// Maximum number of future nodes considered, of all groups together.
const FUTURE_MAX: usize = 5_000;

/// A node that pods can be scheduled to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Node {
    /// Name of the node group that a cluster autoscaler scales.
    pub group: Option<String>,
    pub allocatable: Pod,
    /// Requests of the pods on it, and of the decisions made since.
    pub used: Pod,
}

/// The nodes of a cluster.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Capacity(pub Vec<Node>);

/// TaskManagers of one size.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TaskManagers {
    pub count: u64,
    pub each: Pod,
}

/// Why there is no scale-up for now.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NoRoom {
    #[error(
        "the nodes of the cluster have room for {placed} of its {wanted} TaskManagers, which request \
         {cpu_millis}m of CPU and {memory} of memory each"
    )]
    Full { placed: u64, wanted: u64, cpu_millis: u64, memory: MemorySize },
    #[error("the free capacity of the cluster's nodes is unknown: {0}")]
    Unknown(String),
}

impl TaskManagers {
    /// Returns whether there are more or larger ones than before.
    pub fn exceed(&self, before: &Self) -> bool {
        self.count > before.count
            || self.each.cpu_millis > before.each.cpu_millis
            || self.each.memory > before.each.memory
    }
}

impl Node {
    fn free(&self) -> Pod {
        let memory = self.allocatable.memory.bytes().saturating_sub(self.used.memory.bytes());
        Pod {
            cpu_millis: self.allocatable.cpu_millis.saturating_sub(self.used.cpu_millis),
            memory: MemorySize(memory),
        }
    }
}

impl Capacity {
    /// Adds, for each group, empty nodes like its first up to the group's maximum size. `sizes` has the maximum number
    /// of nodes of each group.
    #[must_use]
    pub fn with_future_nodes(mut self, sizes: &BTreeMap<String, usize>) -> Self {
        let mut future = Vec::new();
        for (group, most) in sizes {
            let mut of_group = self.0.iter().filter(|node| node.group.as_ref() == Some(group));
            let Some(first) = of_group.next() else { continue };
            let missing = most.saturating_sub(1 + of_group.count());
            let left = FUTURE_MAX.saturating_sub(future.len());
            let empty = Node { used: Pod::default(), ..first.clone() };
            future.extend(std::iter::repeat_n(empty, missing.min(left)));
        }
        self.0.extend(future);
        self
    }

    /// Removes a job's present TaskManagers and places the future ones. Returns the resulting usage.
    ///
    /// # Errors
    /// If they do not all fit.
    pub fn place(&self, before: &TaskManagers, after: &TaskManagers) -> Result<Self, NoRoom> {
        let mut nodes = self.clone();
        let mut left = before.count;
        for node in &mut nodes.0 {
            let count = times(&node.used, &before.each).min(left);
            node.used = with(&node.used, &before.each, count, u64::saturating_sub);
            left -= count;
        }
        let TaskManagers { count: wanted, each } = *after;
        let mut left = wanted;
        for node in &mut nodes.0 {
            let count = times(&node.free(), &each).min(left);
            node.used = with(&node.used, &each, count, u64::saturating_add);
            left -= count;
        }
        if left == 0 {
            return Ok(nodes);
        }
        let Pod { cpu_millis, memory } = each;
        Err(NoRoom::Full { placed: wanted - left, wanted, cpu_millis, memory })
    }
}

/// Returns how often one pod's requests fit into others.
fn times(within: &Pod, each: &Pod) -> u64 {
    let of = |all: u64, one: u64| all.checked_div(one).unwrap_or(u64::MAX);
    of(within.cpu_millis, each.cpu_millis).min(of(within.memory.bytes(), each.memory.bytes()))
}

fn with(used: &Pod, each: &Pod, count: u64, change: fn(u64, u64) -> u64) -> Pod {
    let by = |used: u64, each: u64| change(used, each.saturating_mul(count));
    Pod {
        cpu_millis: by(used.cpu_millis, each.cpu_millis),
        memory: MemorySize(by(used.memory.bytes(), each.memory.bytes())),
    }
}

/// Returns the maximum number of nodes of each group, from the status that the Kubernetes cluster autoscaler writes:
/// the text format before 1.30, with `Name:` and `maxSize=`, or the YAML since, with `- name:` and `maxSize:`.
pub fn group_sizes(status: &str) -> BTreeMap<String, usize> {
    let mut sizes = BTreeMap::new();
    let mut group: Option<&str> = None;
    for line in status.lines().map(str::trim) {
        let name = line.strip_prefix("Name:").or_else(|| line.strip_prefix("- name:"));
        if let Some(name) = name {
            group = Some(name.trim().trim_matches(['"', '\'']));
        }
        let Some((_, size)) = line.split_once("maxSize") else { continue };
        let size = size.trim_start_matches(['=', ':', ' ']);
        let digits = size.split(|letter: char| !letter.is_ascii_digit()).next();
        // Lines before the first group describe the whole cluster.
        if let (Some(group), Some(Ok(size))) = (group.take(), digits.map(str::parse)) {
            sizes.insert(group.to_owned(), size);
        }
    }
    sizes
}

#[cfg(test)]
mod tests;
