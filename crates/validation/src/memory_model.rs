//! Checks that Flink can split the memory of a process, by the rules of Flink's own calculator.
//!
//! Flink derives every part of a process's memory from the sizes that are set, and does not start if they contradict
//! each other or leave nothing for a part. The rules are those of `ProcessMemoryUtils`, `JobManagerFlinkMemoryUtils`
//! and `TaskExecutorFlinkMemoryUtils` in Flink 1.20. The result is yes, or why not, and the parts of a TaskManager.

use config::FlinkConfig;
use config::memory::MemorySize;
use config::option::{ConfigOption, InvalidValue};
use config::options;

/// Flink refuses a JobManager without any heap.
const HEAP_MIN: u64 = 1;

/// Why the memory of a process is invalid.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Problem {
    /// Neither a total nor the parts that determine it are set.
    Undefined,
    /// A size cannot be read.
    Invalid(InvalidValue),
    /// The sizes leave nothing for a part, or contradict each other.
    Contradiction(String),
}

impl From<InvalidValue> for Problem {
    fn from(invalid: InvalidValue) -> Self {
        Self::Invalid(invalid)
    }
}

/// Checks the memory of a JobManager.
pub(super) fn check_job_manager(config: &FlinkConfig) -> Result<(), Problem> {
    let mut config = config.clone();
    map_legacy_heap(&mut config)?;
    let process = Process {
        total: &options::JOB_MANAGER_PROCESS_MEMORY,
        metaspace: &options::JOB_MANAGER_METASPACE,
        overhead_min: &options::JOB_MANAGER_OVERHEAD_MIN,
        overhead_max: &options::JOB_MANAGER_OVERHEAD_MAX,
        overhead_fraction: &options::JOB_MANAGER_OVERHEAD_FRACTION,
    };
    let off_heap = size(&config, &options::JOB_MANAGER_OFF_HEAP_MEMORY)?;
    if config.is_set(&options::JOB_MANAGER_HEAP_MEMORY) {
        let heap = size(&config, &options::JOB_MANAGER_HEAP_MEMORY)?;
        let mut flink = sum(&[heap, off_heap]);
        if config.is_set(&options::JOB_MANAGER_FLINK_MEMORY) {
            let stated = size(&config, &options::JOB_MANAGER_FLINK_MEMORY)?;
            let is_off_heap_stated = config.is_set(&options::JOB_MANAGER_OFF_HEAP_MEMORY);
            if stated < heap || (is_off_heap_stated && stated != flink) {
                return Err(contradiction(&[
                    (options::JOB_MANAGER_FLINK_MEMORY.key(), stated),
                    (options::JOB_MANAGER_HEAP_MEMORY.key(), heap),
                    (options::JOB_MANAGER_OFF_HEAP_MEMORY.key(), off_heap),
                ]));
            }
            flink = stated;
        }
        return process.check_around(&config, flink).map(drop);
    }
    if config.is_set(&options::JOB_MANAGER_FLINK_MEMORY) {
        let flink = size(&config, &options::JOB_MANAGER_FLINK_MEMORY)?;
        let parts = [("off-heap memory", off_heap), ("JVM heap", HEAP_MIN)];
        let _heap = enough(options::JOB_MANAGER_FLINK_MEMORY.key(), flink, &parts)?;
        return process.check_around(&config, flink).map(drop);
    }
    let (total, rest) = process.split(&config)?;
    let parts = [
        ("metaspace and JVM overhead", total - rest),
        ("off-heap memory", off_heap),
        ("JVM heap", HEAP_MIN),
    ];
    let _heap = enough(options::JOB_MANAGER_PROCESS_MEMORY.key(), total, &parts)?;
    Ok(())
}

/// How the memory of a TaskManager is split, in bytes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TaskManagerMemory {
    /// All of Flink's parts together.
    pub flink: u64,
    /// Heap of framework and tasks.
    pub heap: u64,
    pub framework_off_heap: u64,
    pub task_off_heap: u64,
    pub managed: u64,
    pub network: u64,
    pub metaspace: u64,
    pub overhead: u64,
}

/// Splits the memory of a TaskManager; `None` if Flink would not start.
pub fn task_manager_memory(config: &FlinkConfig) -> Option<TaskManagerMemory> {
    split_task_manager(config).ok()
}

/// Checks the memory of a TaskManager.
pub(super) fn check_task_manager(config: &FlinkConfig) -> Result<(), Problem> {
    split_task_manager(config).map(drop)
}

fn split_task_manager(config: &FlinkConfig) -> Result<TaskManagerMemory, Problem> {
    let process = Process {
        total: &options::TASK_MANAGER_PROCESS_MEMORY,
        metaspace: &options::TASK_MANAGER_METASPACE,
        overhead_min: &options::TASK_MANAGER_OVERHEAD_MIN,
        overhead_max: &options::TASK_MANAGER_OVERHEAD_MAX,
        overhead_fraction: &options::TASK_MANAGER_OVERHEAD_FRACTION,
    };
    let framework = sum(&[
        size(config, &options::TASK_MANAGER_FRAMEWORK_HEAP)?,
        size(config, &options::TASK_MANAGER_FRAMEWORK_OFF_HEAP)?,
        size(config, &options::TASK_MANAGER_TASK_OFF_HEAP)?,
    ]);
    let parts = |flink: u64, managed: u64, network: u64, overhead: u64| {
        let framework_off_heap = size(config, &options::TASK_MANAGER_FRAMEWORK_OFF_HEAP)?;
        let task_off_heap = size(config, &options::TASK_MANAGER_TASK_OFF_HEAP)?;
        let others = sum(&[framework_off_heap, task_off_heap, managed, network]);
        Ok(TaskManagerMemory {
            flink,
            heap: flink.saturating_sub(others),
            framework_off_heap,
            task_off_heap,
            managed,
            network,
            metaspace: size(config, process.metaspace)?,
            overhead,
        })
    };
    if config.is_set(&options::TASK_MANAGER_TASK_HEAP)
        && config.is_set(&options::TASK_MANAGER_MANAGED_MEMORY)
    {
        let managed = size(config, &options::TASK_MANAGER_MANAGED_MEMORY)?;
        let without_network =
            sum(&[framework, size(config, &options::TASK_MANAGER_TASK_HEAP)?, managed]);
        let network = Network::read(config)?;
        let (flink, network) = if config.is_set(&options::TASK_MANAGER_FLINK_MEMORY) {
            let flink = size(config, &options::TASK_MANAGER_FLINK_MEMORY)?;
            let left = enough(
                options::TASK_MANAGER_FLINK_MEMORY.key(),
                flink,
                &[("heap, off-heap and managed memory", without_network)],
            )?;
            network.admits(left)?;
            (flink, left)
        } else {
            let network = network.alongside(without_network);
            (sum(&[without_network, network]), network)
        };
        return parts(flink, managed, network, process.check_around(config, flink)?);
    }
    if config.is_set(&options::TASK_MANAGER_FLINK_MEMORY) {
        let flink = size(config, &options::TASK_MANAGER_FLINK_MEMORY)?;
        let (managed, network) = split_task_manager_flink(
            config,
            options::TASK_MANAGER_FLINK_MEMORY.key(),
            flink,
            flink,
            framework,
        )?;
        return parts(flink, managed, network, process.check_around(config, flink)?);
    }
    let (total, flink) = process.split(config)?;
    let key = options::TASK_MANAGER_PROCESS_MEMORY.key();
    let (managed, network) = split_task_manager_flink(config, key, total, flink, framework)?;
    parts(flink, managed, network, total - flink - size(config, process.metaspace)?)
}

/// Returns managed and network memory of `flink`, which is what `total`, set by `key`, leaves, if it has room for all
/// its parts.
fn split_task_manager_flink(
    config: &FlinkConfig,
    key: &str,
    total: u64,
    flink: u64,
    framework: u64,
) -> Result<(u64, u64), Problem> {
    let network = Network::read(config)?;
    let managed = managed_within(config, flink)?;
    let mut parts = vec![
        ("metaspace and JVM overhead", total - flink),
        ("framework and task off-heap memory", framework),
        ("managed memory", managed),
    ];
    if config.is_set(&options::TASK_MANAGER_TASK_HEAP) {
        parts.push(("task heap", size(config, &options::TASK_MANAGER_TASK_HEAP)?));
        // The network then gets what is left, rather than its share.
        let left = enough(key, total, &parts)?;
        network.admits(left)?;
        return Ok((managed, left));
    }
    let network = network.within(flink);
    parts.push(("network memory", network));
    let _task_heap = enough(key, total, &parts)?;
    Ok((managed, network))
}

fn managed_within(config: &FlinkConfig, flink: u64) -> Result<u64, Problem> {
    if config.is_set(&options::TASK_MANAGER_MANAGED_MEMORY) {
        return size(config, &options::TASK_MANAGER_MANAGED_MEMORY);
    }
    let key = options::TASK_MANAGER_MANAGED_FRACTION.key();
    Ok(share(flink, fraction(key, config.get(&options::TASK_MANAGER_MANAGED_FRACTION)?)?))
}

/// Applies Flink's heap option from before 1.11 to the JVM heap unless the new one is set.
fn map_legacy_heap(config: &mut FlinkConfig) -> Result<(), Problem> {
    if config.is_set(&options::JOB_MANAGER_HEAP_MEMORY) {
        return Ok(());
    }
    if config.is_set(&options::JOB_MANAGER_LEGACY_HEAP) {
        let heap = size(config, &options::JOB_MANAGER_LEGACY_HEAP)?;
        config.force(&options::JOB_MANAGER_HEAP_MEMORY, heap.to_string());
    } else if let Some(mebibytes) = config.find(&options::JOB_MANAGER_LEGACY_HEAP_MEBIBYTES)? {
        config.force(&options::JOB_MANAGER_HEAP_MEMORY, format!("{mebibytes} mb"));
    }
    Ok(())
}

/// The parts that both kinds of process have in addition to Flink's own memory.
struct Process<'a> {
    total: &'a ConfigOption<MemorySize>,
    metaspace: &'a ConfigOption<MemorySize>,
    overhead_min: &'a ConfigOption<MemorySize>,
    overhead_max: &'a ConfigOption<MemorySize>,
    overhead_fraction: &'a ConfigOption<f64>,
}

impl Process<'_> {
    /// Returns the total that is set, and what it leaves for Flink.
    fn split(&self, config: &FlinkConfig) -> Result<(u64, u64), Problem> {
        if !config.is_set(self.total) {
            return Err(Problem::Undefined);
        }
        let total = size(config, self.total)?;
        let metaspace = size(config, self.metaspace)?;
        let (min, max, fraction) = self.overhead(config)?;
        let overhead = share(total, fraction).clamp(min, max);
        let parts = [("metaspace", metaspace), ("JVM overhead", overhead)];
        Ok((total, enough(self.total.key(), total, &parts)?))
    }

    /// Returns the overhead in addition to Flink's memory; the total must fit that if it is also set.
    fn check_around(&self, config: &FlinkConfig, flink: u64) -> Result<u64, Problem> {
        let metaspace = size(config, self.metaspace)?;
        let (min, max, fraction) = self.overhead(config)?;
        if !config.is_set(self.total) {
            let beside = share(sum(&[flink, metaspace]), fraction / (1.0 - fraction));
            return Ok(beside.clamp(min, max));
        }
        let total = size(config, self.total)?;
        let parts = [("Flink memory", flink), ("metaspace", metaspace)];
        let overhead = enough(self.total.key(), total, &parts)?;
        if (min..=max).contains(&overhead) {
            return Ok(overhead);
        }
        Err(Problem::Contradiction(format!(
            "`{}` of {} leaves {} for JVM overhead, which must be from {} to {}",
            self.total.key(),
            shown(total),
            shown(overhead),
            shown(min),
            shown(max)
        )))
    }

    fn overhead(&self, config: &FlinkConfig) -> Result<(u64, u64, f64), Problem> {
        range(config, self.overhead_min, self.overhead_max, self.overhead_fraction)
    }
}

/// Bounds of the network memory.
struct Network {
    min: u64,
    max: u64,
    fraction: f64,
}

impl Network {
    fn read(config: &FlinkConfig) -> Result<Self, Problem> {
        let is_range_set = config.is_set(&options::TASK_MANAGER_NETWORK_MIN)
            || config.is_set(&options::TASK_MANAGER_NETWORK_MAX)
            || config.is_set(&options::TASK_MANAGER_NETWORK_FRACTION);
        if !is_range_set && let Some(buffers) = config.find(&options::NETWORK_BUFFERS)? {
            let bytes = u64::try_from(buffers)
                .unwrap_or_default()
                .saturating_mul(size(config, &options::MEMORY_SEGMENT_SIZE)?);
            return Ok(Self { min: bytes, max: bytes, fraction: 0.0 });
        }
        let (min, max, fraction) = range(
            config,
            &options::TASK_MANAGER_NETWORK_MIN,
            &options::TASK_MANAGER_NETWORK_MAX,
            &options::TASK_MANAGER_NETWORK_FRACTION,
        )?;
        Ok(Self { min, max, fraction })
    }

    /// Returns the network's part of `flink`.
    fn within(&self, flink: u64) -> u64 {
        share(flink, self.fraction).clamp(self.min, self.max)
    }

    /// Returns the network's part in addition to `rest`.
    fn alongside(&self, rest: u64) -> u64 {
        share(rest, self.fraction / (1.0 - self.fraction)).clamp(self.min, self.max)
    }

    fn admits(&self, network: u64) -> Result<(), Problem> {
        if (self.min..=self.max).contains(&network) {
            return Ok(());
        }
        Err(Problem::Contradiction(format!(
            "{} are left for network memory, which must be from {} to {}",
            shown(network),
            shown(self.min),
            shown(self.max)
        )))
    }
}

fn range(
    config: &FlinkConfig,
    min: &ConfigOption<MemorySize>,
    max: &ConfigOption<MemorySize>,
    share: &ConfigOption<f64>,
) -> Result<(u64, u64, f64), Problem> {
    let (low, high) = (size(config, min)?, size(config, max)?);
    if low > high {
        return Err(Problem::Contradiction(format!(
            "`{}` is {} and `{}` is {}",
            min.key(),
            shown(low),
            max.key(),
            shown(high)
        )));
    }
    Ok((low, high, fraction(share.key(), config.get(share)?)?))
}

/// Returns the fraction in single precision, as Flink stores it, which decides when a size is exactly used up.
#[allow(clippy::cast_possible_truncation, reason = "as Flink does")]
fn fraction(key: &str, value: f64) -> Result<f64, Problem> {
    if (0.0..1.0).contains(&value) {
        return Ok(f64::from(value as f32));
    }
    Err(InvalidValue::new(key, value.to_string(), "a number from 0 to below 1").into())
}

fn size(config: &FlinkConfig, option: &ConfigOption<MemorySize>) -> Result<u64, Problem> {
    Ok(config.get(option)?.bytes())
}

/// Adds sizes without overflow: what is too much stays too much.
fn sum(sizes: &[u64]) -> u64 {
    sizes.iter().fold(0, |sum, size| sum.saturating_add(*size))
}

#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a memory size is not exact, and never negative"
)]
fn share(bytes: u64, fraction: f64) -> u64 {
    (bytes as f64 * fraction) as u64
}

/// Returns what is left of `total` after `parts`, if it has room for them.
fn enough(key: &str, total: u64, parts: &[(&str, u64)]) -> Result<u64, Problem> {
    let needed = sum(&parts.iter().map(|(_, part)| *part).collect::<Vec<_>>());
    if needed <= total {
        return Ok(total - needed);
    }
    let parts: Vec<String> = parts
        .iter()
        .filter(|(_, part)| *part > 0)
        .map(|(name, part)| format!("{name} {}", shown(*part)))
        .collect();
    Err(Problem::Contradiction(format!(
        "`{key}` of {} is less than the required {}: {}",
        shown(total),
        shown(needed),
        parts.join(", ")
    )))
}

fn contradiction(sizes: &[(&str, u64)]) -> Problem {
    let sizes: Vec<String> =
        sizes.iter().map(|(key, size)| format!("`{key}` is {}", shown(*size))).collect();
    Problem::Contradiction(format!("the sizes contradict each other: {}", sizes.join(", ")))
}

/// Formats bytes in MiB for readability, rounded up so that requirements are not understated.
fn shown(bytes: u64) -> String {
    match bytes.div_ceil(1 << 20) {
        0 => "0 mb".to_owned(),
        mebibytes => format!("{mebibytes} mb"),
    }
}

#[cfg(test)]
mod tests;
