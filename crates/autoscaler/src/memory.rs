//! Memory tuning: a configuration that sizes TaskManagers by the memory they have used.

use std::collections::BTreeMap;

use config::memory::MemorySize;
use config::option::{ConfigOption, InvalidValue, OptionValue};
use config::{FlinkConfig, options};
use validation::memory_model::{TaskManagerMemory, task_manager_memory};

use super::cycle::ConfigChanges;
use super::evaluate::Evaluation;
use super::metric::Metric;
use super::rate::to_int;
use super::scaling_history::Scaling;
use super::settings::Settings;
use super::topology::{ShipStrategy, Topology, VertexId};

/// The input of tuning.
#[derive(Clone, Copy, Debug)]
pub struct Tuning<'a> {
    /// The user's configuration, without earlier tuning.
    pub config: &'a FlinkConfig,
    pub settings: &'a Settings,
    pub topology: &'a Topology,
    pub evaluation: &'a Evaluation,
    pub scalings: &'a BTreeMap<VertexId, Scaling>,
    /// Memory of a TaskManager's process.
    pub total: MemorySize,
}

/// The memory that is left to distribute.
struct Budget(u64);

impl Budget {
    fn take(&mut self, bytes: u64) -> u64 {
        let taken = bytes.min(self.0);
        self.0 -= taken;
        taken
    }
}

/// Sufficient sizes.
struct Sizes {
    network: u64,
    metaspace: u64,
    heap: u64,
    managed: u64,
    total: u64,
}

/// An option, and the size that it gets.
type Tuned = (&'static ConfigOption<MemorySize>, fn(&Sizes) -> u64);

/// The sizes that tuning sets.
const SIZES: [Tuned; 5] = [
    (&options::TASK_MANAGER_PROCESS_MEMORY, |of| of.total),
    (&options::TASK_MANAGER_FRAMEWORK_HEAP, |_| 0),
    (&options::TASK_MANAGER_NETWORK_MIN, |of| of.network),
    (&options::TASK_MANAGER_NETWORK_MAX, |of| of.network),
    (&options::TASK_MANAGER_METASPACE, |of| of.metaspace),
];

/// The fractions that it sets.
const MANAGED_FRACTION: &ConfigOption<f64> = &options::TASK_MANAGER_MANAGED_FRACTION;
const OVERHEAD_FRACTION: &ConfigOption<f64> = &options::TASK_MANAGER_OVERHEAD_FRACTION;

/// The options that it removes, under all their names, because they would contradict those that it sets.
const REMOVED: [&ConfigOption<MemorySize>; 3] = [
    &options::TASK_MANAGER_FLINK_MEMORY,
    &options::TASK_MANAGER_TASK_HEAP,
    &options::TASK_MANAGER_MANAGED_MEMORY,
];

/// Maximum length of the value of a tuned option.
const VALUE_MAX: usize = 500;
/// Maximum length of a key in a message, in characters.
const REPORTED_MAX: usize = 200;

/// Recommends memory; `None` if Flink could not divide the present memory, or if usage was not measured: a TaskManager
/// without metaspace does not start.
///
/// # Errors
/// If an option of Flink cannot be parsed.
pub fn tune(of: &Tuning<'_>) -> Result<Option<ConfigChanges>, InvalidValue> {
    let Some(spec) = task_manager_memory(of.config) else { return Ok(None) };
    let is_measured = |metric| of.evaluation.job.average(metric).is_finite();
    let used = [Metric::HeapMemoryUsed, Metric::MetaspaceMemoryUsed, Metric::ManagedMemoryUsed];
    if of.total.bytes() == 0 || !used.into_iter().all(is_measured) {
        return Ok(None);
    }
    let network = of.network()?;
    let sizes = of.sizes(&spec, network);
    Ok(changes(&spec, &sizes))
}

impl Tuning<'_> {
    fn sizes(&self, spec: &TaskManagerMemory, network: u64) -> Sizes {
        let mut budget = Budget(self.total.bytes());
        for fixed in [spec.framework_off_heap, spec.task_off_heap, spec.overhead] {
            budget.take(fixed);
        }
        let network = budget.take(network);
        let metaspace = budget.take(self.with_overhead(Metric::MetaspaceMemoryUsed));
        let heap = budget.take(self.with_overhead(Metric::HeapMemoryUsed));
        let managed = if self.used(Metric::ManagedMemoryUsed) == 0 {
            0
        } else if self.settings.memory_tuning.is_managed_maximized {
            budget.take(u64::MAX)
        } else {
            budget.take(spec.managed)
        };
        let heap = if self.settings.memory_tuning.is_scale_down_compensated {
            heap + budget.take(scaled(heap, self.compensation()).saturating_sub(heap))
        } else {
            heap
        };
        let total = self.total.bytes() - budget.0;
        Sizes { network, metaspace, heap, managed, total }
    }

    /// Returns the average, in whole bytes.
    fn used(&self, metric: Metric) -> u64 {
        scaled(1, self.evaluation.job.average(metric))
    }

    fn with_overhead(&self, metric: Metric) -> u64 {
        scaled(self.used(metric), 1.0 + self.settings.memory_tuning.overhead)
    }

    /// Returns how much more each TaskManager has to do because there are fewer of them.
    fn compensation(&self) -> f64 {
        let used = to_int(self.evaluation.job.current(Metric::NumTaskSlotsUsed));
        let used = u32::try_from(used).unwrap_or(0);
        let per_task_manager = self.settings.slots_per_task_manager;
        let before = used.div_ceil(per_task_manager);
        let after = self.slots_after(used).div_ceil(u64::from(per_task_manager));
        #[allow(clippy::cast_precision_loss, reason = "far below 2^53 TaskManagers")]
        let factor = f64::from(before) / after.max(1) as f64;
        factor.max(1.0)
    }

    /// All vertices share slots if as many are in use as the widest one has subtasks.
    fn slots_after(&self, used: u32) -> u64 {
        let vertices = self.topology.vertices();
        let widest = vertices.values().map(|vertex| vertex.parallelism).max().unwrap_or(0);
        let after = vertices.keys().map(|id| u64::from(self.parallelism(id)));
        if widest == used { after.max().unwrap_or(0) } else { after.sum() }
    }

    fn parallelism(&self, id: &VertexId) -> u32 {
        let now = || self.topology.get(id).map_or(1, |vertex| vertex.parallelism);
        self.scalings.get(id).map_or_else(now, |scaling| scaling.new)
    }

    /// Returns the memory for the buffers of all edges, at both of their ends, for each slot.
    fn network(&self) -> Result<u64, InvalidValue> {
        let per_channel = u64::from(self.config.get(&options::NETWORK_BUFFERS_PER_CHANNEL)?);
        let floating = u64::from(self.config.get(&options::NETWORK_FLOATING_BUFFERS)?);
        let segment = self.config.get(&options::MEMORY_SEGMENT_SIZE)?.bytes();
        let mut segments: u64 = 0;
        for (id, vertex) in self.topology.vertices() {
            let inputs = vertex.inputs.iter().map(|(input, ship)| (input, *ship));
            for (other, ship) in inputs.chain(self.topology.outputs(id)) {
                let channels = channels(self.parallelism(id), self.parallelism(other), ship);
                let of_gate = channels.saturating_mul(per_channel).saturating_add(floating);
                segments = segments.saturating_add(of_gate);
            }
        }
        let slots = u64::from(self.settings.slots_per_task_manager);
        Ok(segments.saturating_mul(segment).saturating_mul(slots))
    }
}

/// Returns the number of subtasks at the other end that one subtask is connected to.
fn channels(own: u32, other: u32, ship: ShipStrategy) -> u64 {
    u64::from(match ship {
        ShipStrategy::Forward | ShipStrategy::Rescale => other.div_ceil(own.max(1)),
        ShipStrategy::Hash
        | ShipStrategy::Rebalance
        | ShipStrategy::Custom
        | ShipStrategy::Broadcast
        | ShipStrategy::Global
        | ShipStrategy::Shuffle
        | ShipStrategy::Unknown => other,
    })
}

fn changes(spec: &TaskManagerMemory, sizes: &Sizes) -> Option<ConfigChanges> {
    let Sizes { network, metaspace: _, heap, managed, total } = *sizes;
    if total == 0 {
        return None;
    }
    let flink = i128::from(spec.flink) + i128::from(heap) - i128::from(spec.heap)
        + i128::from(managed)
        - i128::from(spec.managed)
        + i128::from(network)
        - i128::from(spec.network);
    let sizes = SIZES.map(|(option, of)| (option.key(), MemorySize(of(sizes)).to_string()));
    let fractions = [
        (MANAGED_FRACTION.key(), fraction(managed, flink)?),
        (OVERHEAD_FRACTION.key(), fraction(spec.overhead, total.into())?),
    ];
    let set = sizes.into_iter().chain(fractions);
    Some(ConfigChanges {
        overrides: set.map(|(key, value)| (key.to_owned(), value)).collect(),
        removals: removed().map(str::to_owned).collect(),
    })
}

fn removed() -> impl Iterator<Item = &'static str> {
    REMOVED.into_iter().flat_map(ConfigOption::keys)
}

/// Rejects changes that tuning never makes. Code of a job may write the ConfigMap that stores them, and must not reach
/// the options that its resource controls: its state, image and account.
///
/// # Errors
/// Contains the key. Values are not shown: one that does not belong here may be a secret.
pub fn check(changes: &ConfigChanges) -> Result<(), String> {
    let ConfigChanges { overrides, removals } = changes;
    let untuned = |key: &str| {
        let key: String = key.chars().flat_map(char::escape_debug).take(REPORTED_MAX).collect();
        format!("`{key}` is not tuned")
    };
    for (key, value) in overrides {
        let size = SIZES.iter().find(|(option, _)| option.key() == key);
        let fraction = [MANAGED_FRACTION, OVERHEAD_FRACTION].into_iter().find(|of| of.key() == key);
        let (is_of_type, expected) = match (size, fraction) {
            (Some((option, _)), _) => (option.parse(key, value).is_ok(), MemorySize::EXPECTED),
            (None, Some(option)) => (option.parse(key, value).is_ok(), f64::EXPECTED),
            (None, None) => return Err(untuned(key)),
        };
        let is_plain =
            value.len() <= VALUE_MAX && value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !is_of_type || !is_plain {
            return Err(format!("the value of `{key}` is not {expected}"));
        }
    }
    removals
        .iter()
        .find(|key| !removed().any(|of| of == *key))
        .map_or(Ok(()), |key| Err(untuned(key)))
}

/// Rounds up at the third decimal; `None` for a share of nothing.
#[allow(clippy::cast_precision_loss, reason = "a share is not exact")]
fn fraction(part: u64, whole: i128) -> Option<String> {
    if whole <= 0 {
        return None;
    }
    let text = (part as f64 / whole as f64).to_string();
    let (ones, decimals) = text.split_once('.').unwrap_or((&text, "0"));
    if decimals.len() <= 3 {
        return Some(format!("{ones}.{decimals}"));
    }
    let thousandths = ones.parse::<u64>().ok()? * 1000 + decimals[..3].parse::<u64>().ok()? + 1;
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    let text = text.trim_end_matches('0');
    Some(if text.ends_with('.') { format!("{text}0") } else { text.to_owned() })
}

/// Returns whole bytes; zero for NaN.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as the Java operator does; a float cast saturates"
)]
fn scaled(bytes: u64, factor: f64) -> u64 {
    (bytes as f64 * factor) as u64
}

#[cfg(test)]
mod tests;
