//! How many slots and TaskManagers a change needs, and whether that is within the quota.

use std::collections::BTreeMap;

use config::memory::MemorySize;

use super::settings::Settings;
use super::topology::{Topology, VertexId};

/// The resources of one TaskManager, as far as they are known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TaskManager {
    pub cpu: Option<f64>,
    pub memory: Option<MemorySize>,
}

/// Parallelism of the vertices that change, before and after.
pub type Changes = BTreeMap<VertexId, (u32, u32)>;

/// Which quota a change exceeds.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum Exceeded {
    #[error("{needed} CPUs are more than `job.autoscaler.quota.cpu`, which is {quota}")]
    Cpu { needed: f64, quota: f64 },
    #[error("{needed} of memory are more than `job.autoscaler.quota.memory`, which is {quota}")]
    Memory { needed: MemorySize, quota: MemorySize },
    #[error("there is a CPU quota, but the resource does not say how many CPUs a TaskManager has")]
    UnknownCpu,
    #[error(
        "there is a memory quota, but the resource does not say how much memory a TaskManager has"
    )]
    UnknownMemory,
}

/// Returns the quota that the changes exceed, if there is one. As in the Java operator, vertices that do not change are
/// left out, and only full TaskManagers are counted. If Flink does not report slot sharing groups, nothing is compared.
pub fn exceeded(
    changes: &Changes,
    topology: &Topology,
    task_manager: TaskManager,
    settings: &Settings,
) -> Option<Exceeded> {
    let groups = topology.slot_sharing_groups();
    let slots = |parallelism: fn(&(u32, u32)) -> u32| -> u64 {
        let most = groups.values().map(|vertices| {
            vertices.iter().filter_map(|id| changes.get(*id)).map(parallelism).max().unwrap_or(0)
        });
        most.map(u64::from).sum()
    };
    let per_task_manager = u64::from(settings.slots_per_task_manager);
    let (before, after) = (slots(|change| change.0), slots(|change| change.1));
    let after = after / per_task_manager;
    if groups.is_empty() || after <= before / per_task_manager {
        return None;
    }
    if let Some(quota) = settings.quota_cpu {
        let Some(cpu) = task_manager.cpu else { return Some(Exceeded::UnknownCpu) };
        #[allow(clippy::cast_precision_loss, reason = "far below 2^53 TaskManagers")]
        let needed = cpu * after as f64;
        if needed > quota {
            return Some(Exceeded::Cpu { needed, quota });
        }
    }
    if let Some(quota) = settings.quota_memory {
        let Some(memory) = task_manager.memory else { return Some(Exceeded::UnknownMemory) };
        let needed = MemorySize(memory.bytes().saturating_mul(after));
        if needed > quota {
            return Some(Exceeded::Memory { needed, quota });
        }
    }
    None
}

#[cfg(test)]
mod tests;
