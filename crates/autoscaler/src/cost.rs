//! The cost of a decision: the requests of a job's pods before and after it, and their price if prices are known.
//!
//! TaskManagers are counted as Flink needs them: for each slot sharing group, as many slots as its widest vertex has
//! subtasks. Other workloads of the cluster, and nodes that stay half empty, are not known here. Whole numbers
//! saturate, and money is never NaN.

use std::fmt;

use serde::{Deserialize, Serialize};

use config::memory::MemorySize;
use config::option::{ConfigOption, InvalidValue};
use config::options::autoscaler as options;
use config::options::{JOB_MANAGER_CPU, JOB_MANAGER_REPLICAS, TASK_MANAGER_CPU, TASK_SLOTS};
use config::{FlinkConfig, process_memory};

use super::state::Data;
use super::topology::{Topology, VertexId};

/// Key in the stored state, which the Java operator ignores.
pub const KEY: &str = "costEstimate";
/// A longer text was not written by this program.
const TEXT_MAX: usize = 4096;
const GIB: f64 = 1_073_741_824.0;

/// Prices of the resources that pods request, in any currency.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Prices {
    /// Of one CPU per hour.
    pub cpu_hour: Option<f64>,
    /// Of one GiB of memory per hour.
    pub gib_hour: Option<f64>,
}

impl Prices {
    /// Reads the prices; there are no defaults.
    ///
    /// # Errors
    /// If a price is negative or not a number.
    pub fn read(config: &FlinkConfig) -> Result<Self, InvalidValue> {
        let price = |option: &ConfigOption<f64>| {
            let price = config.find(option)?;
            match price.filter(|price| !(price.is_finite() && *price >= 0.0)) {
                Some(price) => {
                    Err(InvalidValue::new(option.key(), price.to_string(), "a price, 0 or more"))
                }
                None => Ok(price),
            }
        };
        Ok(Self {
            cpu_hour: price(&options::COST_CPU_HOUR)?,
            gib_hour: price(&options::COST_GIB_HOUR)?,
        })
    }

    /// Returns the cost per hour. A resource without a price costs nothing. Without any price the cost is unknown.
    fn per_hour(self, cpu_millis: u64, memory: MemorySize) -> Option<f64> {
        if self == Self::default() {
            return None;
        }
        #[allow(clippy::cast_precision_loss, reason = "an estimate")]
        let (cpus, gib) = (cpu_millis as f64 / 1000.0, memory.bytes() as f64 / GIB);
        let cost = cpus * self.cpu_hour.unwrap_or(0.0) + gib * self.gib_hour.unwrap_or(0.0);
        Some(cost.min(f64::MAX))
    }
}

/// The requests of one pod.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pod {
    pub cpu_millis: u64,
    pub memory: MemorySize,
}

/// The pods of a job.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Pods {
    pub task_manager: Pod,
    pub slots_per_task_manager: u32,
    pub job_manager: Pod,
    /// Zero for a session job, because its JobManager also serves other jobs.
    pub job_managers: u32,
}

impl Pods {
    /// Reads the requests from the effective configuration; `None` if it does not contain them.
    pub fn of(config: &FlinkConfig, is_session_job: bool) -> Option<Self> {
        let slots = u32::try_from(config.get(&TASK_SLOTS).ok()?).ok().filter(|slots| *slots > 0)?;
        let cpu = config.find(&TASK_MANAGER_CPU).ok()?.filter(|cpu| *cpu > 0.0);
        let task_manager = Pod {
            cpu_millis: millis(cpu.unwrap_or_else(|| f64::from(slots))),
            memory: process_memory::task_manager(config).ok()?,
        };
        let (job_manager, job_managers) = if is_session_job {
            (Pod::default(), 0)
        } else {
            let pod = Pod {
                cpu_millis: millis(config.get(&JOB_MANAGER_CPU).ok()?),
                memory: process_memory::job_manager(config).ok()?,
            };
            (pod, u32::try_from(config.get(&JOB_MANAGER_REPLICAS).ok()?).unwrap_or(1))
        };
        Some(Self { task_manager, slots_per_task_manager: slots, job_manager, job_managers })
    }

    /// Returns the pods with TaskManagers of another memory size.
    #[must_use]
    pub fn with_memory(mut self, memory: Option<MemorySize>) -> Self {
        self.task_manager.memory = memory.unwrap_or(self.task_manager.memory);
        self
    }

    /// Returns the requests of all pods if the job takes this number of slots.
    pub fn request(&self, slots: u64, prices: Prices) -> Requested {
        let task_managers = slots.div_ceil(u64::from(self.slots_per_task_manager.max(1)));
        let sum = |of: fn(&Pod) -> u64| {
            let task_managers = of(&self.task_manager).saturating_mul(task_managers);
            let job_managers = of(&self.job_manager).saturating_mul(self.job_managers.into());
            task_managers.saturating_add(job_managers)
        };
        let cpu_millis = sum(|pod| pod.cpu_millis);
        let memory_bytes = sum(|pod| pod.memory.bytes());
        let per_hour = prices.per_hour(cpu_millis, MemorySize(memory_bytes));
        Requested { task_managers, cpu_millis, memory_bytes, per_hour }
    }
}

/// Returns thousandths of a CPU; a float cast saturates, and turns NaN into zero.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates")]
fn millis(cpu: f64) -> u64 {
    (cpu * 1000.0).round() as u64
}

/// Returns the number of slots that a job takes with this parallelism. If Flink does not report slot sharing groups,
/// all vertices share.
pub fn slots(topology: &Topology, parallelism: impl Fn(&VertexId, u32) -> u32) -> u64 {
    let of =
        |id: &VertexId| topology.get(id).map_or(0, |vertex| parallelism(id, vertex.parallelism));
    let groups = topology.slot_sharing_groups();
    if groups.is_empty() {
        return u64::from(topology.vertices().keys().map(of).max().unwrap_or(0));
    }
    let widest = groups.values().map(|ids| ids.iter().map(|id| of(id)).max().unwrap_or(0));
    widest.map(u64::from).fold(0, u64::saturating_add)
}

/// The total requests of all pods of a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requested {
    pub task_managers: u64,
    /// Of all pods.
    pub cpu_millis: u64,
    pub memory_bytes: u64,
    /// Cost per hour, if there are prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_hour: Option<f64>,
}

/// Before a decision and after it.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Cost {
    pub before: Requested,
    pub after: Requested,
}

impl Cost {
    /// Returns the form in which it is stored.
    pub fn text(&self) -> String {
        // Serialization cannot fail: the numbers are finite and keys are texts.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the stored cost of the last decision; `None` if the text is invalid.
    pub fn stored(kept: &Data) -> Option<Self> {
        let text = kept.get(KEY).filter(|text| text.len() <= TEXT_MAX)?;
        serde_json::from_str(text).ok()
    }

    /// Returns TaskManagers, CPU, memory and money, each as text.
    pub fn columns(&self) -> [String; 4] {
        let Self { before, after } = self;
        let money = match (before.per_hour, after.per_hour) {
            (Some(before), Some(after)) => change(&money(before), &money(after)),
            (Some(_) | None, _) => String::new(),
        };
        [
            change(&before.task_managers.to_string(), &after.task_managers.to_string()),
            change(&cpus(before.cpu_millis), &cpus(after.cpu_millis)),
            change(&gib(before.memory_bytes), &gib(after.memory_bytes)),
            money,
        ]
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [task_managers, cpu, memory, money] = self.columns();
        write!(f, "{task_managers} TaskManagers, {cpu} CPU, {memory} GiB")?;
        if money.is_empty() { Ok(()) } else { write!(f, ", {money} per hour") }
    }
}

fn change(before: &str, after: &str) -> String {
    if before == after { before.to_owned() } else { format!("{before} -> {after}") }
}

fn cpus(millis: u64) -> String {
    let (whole, rest) = (millis / 1000, millis % 1000);
    let text = format!("{whole}.{rest:03}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[allow(clippy::cast_precision_loss, reason = "two decimals are shown")]
fn gib(bytes: u64) -> String {
    shortest(bytes as f64 / GIB, 2)
}

/// Three decimals, because small jobs cost cents.
fn money(amount: f64) -> String {
    shortest(amount, 3)
}

fn shortest(number: f64, decimals: usize) -> String {
    let text = format!("{number:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
