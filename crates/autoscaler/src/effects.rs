//! Applies decisions to the spec of a job: in memory, never in the user's resource.
//!
//! A decision that changes nothing leaves the text of the spec as it is, so that nothing is restarted for it. If the
//! decision in force is unknown, the job keeps what it runs with.

use std::collections::{BTreeMap, BTreeSet};

use api::deployment::{FlinkConfiguration, FlinkDeploymentSpec, TaskManagerSpec};
use api::resources::Quantity;
use config::FlinkConfig;
use config::memory::StatedMemory;
use config::nested::{remove_below, remove_option, set_option};
use config::option::InvalidValue;
use config::options::{PARALLELISM_OVERRIDES, TASK_MANAGER_PROCESS_MEMORY};

use super::cycle::{ConfigChanges, overrides_in_force};
use super::topology::VertexId;

/// Prefix of all options that memory tuning sets.
const MEMORY: &str = "taskmanager.memory.";

/// The decision in force for a job.
#[derive(Clone, Copy, Debug)]
pub enum InForce<'a> {
    Known {
        decided: &'a BTreeMap<VertexId, u32>,
        /// Vertices that keep the parallelism of the user.
        excluded: &'a BTreeSet<VertexId>,
        config: &'a ConfigChanges,
    },
    /// The stored decision cannot be parsed.
    Unknown,
}

/// Returns the job's options with the parallelism in force. `effective` is the user's configuration with all defaults;
/// `running` are the options that the job was started with.
///
/// # Errors
/// If the user's overrides cannot be parsed.
pub fn with_parallelism(
    own: &FlinkConfiguration,
    effective: &FlinkConfig,
    running: Option<&FlinkConfiguration>,
    in_force: InForce<'_>,
) -> Result<FlinkConfiguration, InvalidValue> {
    let running = running.map(FlinkConfig::flatten).unwrap_or_default();
    let text_of_running = running.text_of(&PARALLELISM_OVERRIDES);
    let mut wanted = own.clone();
    let mut set = |text: &str| set_option(&mut wanted.0, PARALLELISM_OVERRIDES.key(), text);
    match in_force {
        InForce::Known { decided, .. } if decided.is_empty() => {}
        InForce::Known { decided, excluded, .. } => {
            let users = effective.find(&PARALLELISM_OVERRIDES)?.unwrap_or_default();
            let overrides = overrides_in_force(&users, decided, excluded);
            let is_same =
                running.find(&PARALLELISM_OVERRIDES).ok().flatten() == Some(overrides.clone());
            let text = config::structure::join_map(&overrides);
            set(text_of_running.filter(|_| is_same).unwrap_or(&text));
        }
        InForce::Unknown => {
            if let Some(text) = text_of_running {
                set(text);
            }
        }
    }
    Ok(wanted)
}

/// Returns the vertices that keep the parallelism of the user: those `named` by the user, and those that the last cycle
/// could not scale. But a vertex that already runs as decided keeps that: the user's parallelism would cost a restart,
/// and another one when the vertex can be scaled again.
pub fn excluded(
    mut named: BTreeSet<VertexId>,
    unscaled: &BTreeSet<VertexId>,
    decided: &BTreeMap<VertexId, u32>,
    running: &FlinkConfiguration,
) -> BTreeSet<VertexId> {
    let running = FlinkConfig::flatten(running);
    let running = running.find(&PARALLELISM_OVERRIDES).ok().flatten().unwrap_or_default();
    let runs_as_decided = |id: &VertexId| {
        let decided = decided.get(id).map(ToString::to_string);
        decided.is_some() && decided.as_ref() == running.get(id.as_str())
    };
    named.extend(unscaled.iter().filter(|id| !runs_as_decided(id)).cloned());
    named
}

/// Gives the TaskManagers of an application the tuned memory, if there is any.
pub fn tune_memory(
    spec: &mut FlinkDeploymentSpec,
    running: Option<&FlinkDeploymentSpec>,
    in_force: InForce<'_>,
) {
    let own = &mut spec.flink_configuration.0;
    let changes = match in_force {
        InForce::Known { config, .. } => config,
        InForce::Unknown => {
            let Some(running) = running else { return };
            remove_below(own, MEMORY);
            for (key, value) in FlinkConfig::flatten(&running.flink_configuration).below(MEMORY) {
                set_option(own, &format!("{MEMORY}{key}"), value);
            }
            let of_running = running.task_manager.as_ref();
            if let (Some(task_manager), Some(running)) = (&mut spec.task_manager, of_running) {
                task_manager.resource.clone_from(&running.resource);
                task_manager.resources.clone_from(&running.resources);
            }
            return;
        }
    };
    for key in &changes.removals {
        remove_option(own, key);
    }
    for (key, value) in &changes.overrides {
        set_option(own, key, value);
    }
    let total = changes.overrides.get(TASK_MANAGER_PROCESS_MEMORY.key());
    let total =
        total.and_then(|text| StatedMemory::parse(text)).map(|stated| stated.size().bytes());
    if let (Some(task_manager), Some(total)) = (&mut spec.task_manager, total.filter(|of| *of > 0))
    {
        set_memory(task_manager, total);
    }
}

/// Sets the memory of the TaskManager resource if it has one; a limit above the request keeps its ratio to it.
fn set_memory(task_manager: &mut TaskManagerSpec, total: u64) {
    let text = || Quantity::Text(total.to_string());
    let of = |quantity: &Quantity| StatedMemory::parse(&quantity.to_string());
    let resources = task_manager.resources.as_mut();
    if let Some(resources) = resources.filter(|of| !of.requests.is_empty() || !of.limits.is_empty())
    {
        let requested = resources.requests.get("memory").map(of);
        let limited = resources.limits.get("memory").map(of);
        match (requested, limited) {
            (Some(requested), limited) => {
                resources.requests.insert("memory".to_owned(), text());
                if let (Some(requested), Some(Some(limit))) = (requested, limited) {
                    let limit = scaled(limit, requested, total);
                    resources.limits.insert("memory".to_owned(), Quantity::Text(limit.to_string()));
                }
            }
            (None, Some(_)) => {
                resources.limits.insert("memory".to_owned(), text());
            }
            (None, None) => {}
        }
    } else if let Some(resource) = &mut task_manager.resource
        && resource.memory.is_some()
    {
        resource.memory = Some(total.to_string());
    }
}

fn scaled(limit: StatedMemory, requested: StatedMemory, total: u64) -> u64 {
    let [limit, requested] = [limit, requested].map(|stated| u128::from(stated.size().bytes()));
    let product = limit * u128::from(total);
    let rounded = (product + requested / 2).checked_div(requested).unwrap_or(product);
    u64::try_from(rounded).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
