//! How much memory a Flink process takes if only parts of it are configured.
//!
//! Flink's model (`ProcessMemoryUtils`): process = Flink memory + metaspace + JVM overhead, where the overhead is a
//! share of the whole process within limits.

use super::memory::MemorySize;
use super::option::{ConfigOption, InvalidValue};
use super::{FlinkConfig, options};

/// Returns the memory of the JobManager process.
pub fn job_manager(config: &FlinkConfig) -> Result<MemorySize, InvalidValue> {
    if let Some(size) = config.find(&options::JOB_MANAGER_PROCESS_MEMORY)? {
        return Ok(size);
    }
    // On Kubernetes, Flink reads the old heap size as the size of the whole process.
    if let Some(size) = config.find(&options::JOB_MANAGER_LEGACY_HEAP)? {
        return Ok(size);
    }
    if let Some(mebibytes) = config.find(&options::JOB_MANAGER_LEGACY_HEAP_MEBIBYTES)? {
        return Ok(MemorySize::from_mebibytes(u64::from(mebibytes)));
    }
    let flink = if let Some(size) = config.find(&options::JOB_MANAGER_FLINK_MEMORY)? {
        size
    } else {
        let heap = config.find(&options::JOB_MANAGER_HEAP_MEMORY)?.ok_or_else(|| {
            unknown(&options::JOB_MANAGER_PROCESS_MEMORY, "spec.jobManager.resource.memory")
        })?;
        sum(&[heap, config.get(&options::JOB_MANAGER_OFF_HEAP_MEMORY)?])
    };
    Ok(with_share(
        sum(&[flink, config.get(&options::JOB_MANAGER_METASPACE)?]),
        &Share {
            fraction: config.get(&options::JOB_MANAGER_OVERHEAD_FRACTION)?,
            min: config.get(&options::JOB_MANAGER_OVERHEAD_MIN)?,
            max: config.get(&options::JOB_MANAGER_OVERHEAD_MAX)?,
        },
    ))
}

/// Returns the memory of one TaskManager process.
pub fn task_manager(config: &FlinkConfig) -> Result<MemorySize, InvalidValue> {
    if let Some(size) = config.find(&options::TASK_MANAGER_PROCESS_MEMORY)? {
        return Ok(size);
    }
    let flink = match config.find(&options::TASK_MANAGER_FLINK_MEMORY)? {
        Some(size) => size,
        None => task_manager_flink_memory(config)?,
    };
    Ok(with_share(
        sum(&[flink, config.get(&options::TASK_MANAGER_METASPACE)?]),
        &Share {
            fraction: config.get(&options::TASK_MANAGER_OVERHEAD_FRACTION)?,
            min: config.get(&options::TASK_MANAGER_OVERHEAD_MIN)?,
            max: config.get(&options::TASK_MANAGER_OVERHEAD_MAX)?,
        },
    ))
}

/// Computes Flink memory from task heap and managed memory; the network gets its share of the whole.
fn task_manager_flink_memory(config: &FlinkConfig) -> Result<MemorySize, InvalidValue> {
    let missing =
        || unknown(&options::TASK_MANAGER_PROCESS_MEMORY, "spec.taskManager.resource.memory");
    let parts = sum(&[
        config.find(&options::TASK_MANAGER_TASK_HEAP)?.ok_or_else(missing)?,
        config.find(&options::TASK_MANAGER_MANAGED_MEMORY)?.ok_or_else(missing)?,
        config.get(&options::TASK_MANAGER_FRAMEWORK_HEAP)?,
        config.get(&options::TASK_MANAGER_FRAMEWORK_OFF_HEAP)?,
        config.get(&options::TASK_MANAGER_TASK_OFF_HEAP)?,
    ]);
    Ok(with_share(
        parts,
        &Share {
            fraction: config.get(&options::TASK_MANAGER_NETWORK_FRACTION)?,
            min: config.get(&options::TASK_MANAGER_NETWORK_MIN)?,
            max: config.get(&options::TASK_MANAGER_NETWORK_MAX)?,
        },
    ))
}

fn unknown(option: &ConfigOption<MemorySize>, field: &str) -> InvalidValue {
    InvalidValue::new(option.key(), "", format!("a memory size, here or in `{field}`"))
}

/// A part that is a share of the whole, within limits.
struct Share {
    fraction: f64,
    min: MemorySize,
    max: MemorySize,
}

/// Returns the whole of which the share leaves `rest`.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "Flink computes the share in doubles too; a float cast saturates"
)]
fn with_share(rest: MemorySize, share: &Share) -> MemorySize {
    let relative = (rest.bytes() as f64 * (share.fraction / (1.0 - share.fraction))) as u64;
    let bounded = relative.min(share.max.bytes()).max(share.min.bytes());
    MemorySize(rest.bytes().saturating_add(bounded))
}

fn sum(parts: &[MemorySize]) -> MemorySize {
    MemorySize(parts.iter().fold(0, |total, part| total.saturating_add(part.bytes())))
}

#[cfg(test)]
mod tests;
