//! CPU, memory and storage of a process: rules D16, D17, D21, D22 and R1 to R5.

use std::collections::BTreeMap;

use api::resources::{Quantity, Resource, ResourceRequirements};
use config::memory::{self, StatedMemory};
use config::quantity;

use super::{Finding, Rule};

const QUANTITY: &str = "a quantity such as `1`, `500m` or `2Gi`";

/// Returns the effective memory and its field, relative to the process: the request, or else the limit, and the
/// deprecated block only if neither block of the new one sets anything.
pub(super) fn stated_memory(
    resource: Option<&Resource>,
    resources: Option<&ResourceRequirements>,
) -> Option<(&'static str, String)> {
    if let Some(resources) = resources.filter(|r| !r.requests.is_empty() || !r.limits.is_empty()) {
        let request = resources.requests.get("memory").map(|m| ("resources.requests.memory", m));
        let limit = resources.limits.get("memory").map(|m| ("resources.limits.memory", m));
        return request.or(limit).map(|(field, memory)| (field, memory.to_string()));
    }
    let memory = resource?.memory.as_ref().filter(|memory| !memory.trim().is_empty())?;
    Some(("resource.memory", memory.clone()))
}

/// Checks the deprecated block at `path`.
pub(super) fn check_resource(path: &str, resource: &Resource) -> Vec<Finding> {
    let Resource { cpu, memory, ephemeral_storage } = resource;
    let mut violations = Vec::new();
    if let Some(cpu) = cpu.filter(|cpu| *cpu < 0.0) {
        violations.push(
            Rule::Quantity.found(format!("{path}.cpu"), format!("`{cpu}` must not be negative")),
        );
    }
    if let Some(text) = memory {
        violations.extend(memory_violation(format!("{path}.memory"), text));
    }
    if let Some(text) = ephemeral_storage
        && quantity::parse(text).is_none()
    {
        violations.push(unreadable(format!("{path}.ephemeralStorage"), text, QUANTITY));
    }
    violations
}

/// Checks requests and limits at `path`.
pub(super) fn check_requirements(path: &str, resources: &ResourceRequirements) -> Vec<Finding> {
    let ResourceRequirements { requests, limits, claims: _ } = resources;
    let mut violations = Vec::new();
    violations.extend(check_quantities(&format!("{path}.requests"), requests));
    violations.extend(check_quantities(&format!("{path}.limits"), limits));
    for name in ["cpu", "memory"] {
        let (Some(request), Some(limit)) = (requests.get(name), limits.get(name)) else { continue };
        if let (Some(requested), Some(limited)) = (amount(name, request), amount(name, limit))
            && requested > limited
        {
            violations.push(Rule::RequestOverLimit.found(
                format!("{path}.requests.{name}"),
                format!("`{request}` must not exceed the limit, which is `{limit}`"),
            ));
        }
    }
    violations
}

fn check_quantities(path: &str, quantities: &BTreeMap<String, Quantity>) -> Vec<Finding> {
    let check = |(name, value): (&String, &Quantity)| {
        let path = format!("{path}.{name}");
        let text = value.to_string();
        if name == "memory" {
            return memory_violation(path, &text);
        }
        match quantity::parse(&text) {
            None => Some(unreadable(path, &text, QUANTITY)),
            Some(amount) if name == "cpu" && amount <= 0.0 => {
                Some(Rule::Quantity.found(path, format!("`{text}` must be positive")))
            }
            Some(amount) if amount < 0.0 => {
                Some(Rule::Quantity.found(path, format!("`{text}` must not be negative")))
            }
            Some(_) => None,
        }
    };
    quantities.iter().filter_map(check).collect()
}

fn memory_violation(path: String, text: &str) -> Option<Finding> {
    match StatedMemory::parse(text) {
        None => Some(unreadable(path, text, memory::EXPECTED)),
        Some(memory) if memory.size().bytes() == 0 => {
            Some(Rule::Quantity.found(path, format!("`{text}` must be positive")))
        }
        Some(_) => None,
    }
}

/// Returns a number by which requests and limits can be compared.
#[allow(clippy::cast_precision_loss, reason = "a comparison of sizes needs no single byte")]
fn amount(name: &str, quantity: &Quantity) -> Option<f64> {
    let text = quantity.to_string();
    if name == "memory" {
        return StatedMemory::parse(&text).map(|memory| memory.size().bytes() as f64);
    }
    quantity::parse(&text)
}

fn unreadable(path: String, text: &str, expected: &str) -> Finding {
    Rule::Quantity.found(path, format!("invalid value `{text}`: expected {expected}"))
}

#[cfg(test)]
mod tests;
