//! Pod templates: layers, merging, and what the resource adds to them. A resource without one gets that of the
//! operator's defaults.

use serde_json::{Map, Value, json};

use api::deployment::FlinkDeploymentSpec;
use api::pod_template::PodTemplate;
use api::resources::{Quantity, Resource, ResourceRequirements};
use config::option::ConfigOption;
use config::template_file::TemplateFile;
use config::{FlinkConfig, options};

use super::RenderError;
use super::names::MAIN_CONTAINER;
use super::pod::{Pod, array, object};

/// How arrays of two templates are merged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ArrayMerge {
    /// Element by element; if both are scalars, the base's is kept.
    ByPosition,
    /// By `name` if every element of both has one; else by position.
    ByName,
}

/// Returns the template of JobManager pods if there is one. In Java the startup probe is written into a template, which
/// then stands instead of that of the defaults.
pub(super) fn job_manager(
    spec: &FlinkDeploymentSpec,
    config: &FlinkConfig,
) -> Result<Option<Map<String, Value>>, RenderError> {
    match of_job_manager(spec, config)? {
        None if !config.get(&options::JM_DEPLOYMENT_STARTUP_PROBE_ENABLED)? => {
            of_file(config, &options::JOB_MANAGER_POD_TEMPLATE)
        }
        template => Ok(template),
    }
}

fn of_job_manager(
    spec: &FlinkDeploymentSpec,
    config: &FlinkConfig,
) -> Result<Option<Map<String, Value>>, RenderError> {
    let role = spec.job_manager.as_ref();
    let own = role.and_then(|role| role.pod_template.as_ref());
    let template = layers(spec.pod_template.as_ref(), own, config)?;
    let Some(role) = role else { return Ok(template) };
    with_extra_resources(template, role.resource.as_ref(), role.resources.as_ref())
}

/// Returns the template of TaskManager pods if there is one.
pub(super) fn task_manager(
    spec: &FlinkDeploymentSpec,
    config: &FlinkConfig,
) -> Result<Option<Map<String, Value>>, RenderError> {
    match of_task_manager(spec, config)? {
        None => of_file(config, &options::TASK_MANAGER_POD_TEMPLATE),
        template => Ok(template),
    }
}

/// Returns the template in the file that an option names.
fn of_file(
    config: &FlinkConfig,
    option: &ConfigOption<String>,
) -> Result<Option<Map<String, Value>>, RenderError> {
    match TemplateFile::of(config, option) {
        TemplateFile::None | TemplateFile::Elsewhere => Ok(None),
        TemplateFile::Text(text) => read(text).map(Some).map_err(|reason| {
            let path = config.text_of(option).unwrap_or_default().to_owned();
            RenderError::TemplateFile { path, reason }
        }),
        TemplateFile::Unread { key, path } => {
            Err(RenderError::UnreadTemplate { key: key.to_owned(), path: path.to_owned() })
        }
    }
}

/// Returns the pod template in the text of a file, or why it is none.
pub fn read(text: &str) -> Result<Map<String, Value>, String> {
    // Further lines show a part of the file, which may hold a secret.
    let in_short = |text: String| text.lines().next().unwrap_or_default().to_owned();
    let value: Value = serde_yaml::from_str(text).map_err(|error| in_short(error.to_string()))?;
    let Value::Object(template) = value else {
        return Err("it is not a YAML object".to_owned());
    };
    if !template.contains_key("spec") && !template.contains_key("metadata") {
        return Err("it has neither `metadata` nor `spec`".to_owned());
    }
    drop(Pod::from_template(template.clone()).map_err(|error| error.to_string())?);
    Ok(template)
}

fn of_task_manager(
    spec: &FlinkDeploymentSpec,
    config: &FlinkConfig,
) -> Result<Option<Map<String, Value>>, RenderError> {
    let role = spec.task_manager.as_ref();
    let own = role.and_then(|role| role.pod_template.as_ref());
    let template = layers(spec.pod_template.as_ref(), own, config)?;
    let Some(role) = role else { return Ok(template) };
    with_extra_resources(template, role.resource.as_ref(), role.resources.as_ref())
}

fn layers(
    common: Option<&PodTemplate>,
    role: Option<&PodTemplate>,
    config: &FlinkConfig,
) -> Result<Option<Map<String, Value>>, RenderError> {
    let arrays = if config.get(&options::POD_TEMPLATE_MERGE_ARRAYS_BY_NAME)? {
        ArrayMerge::ByName
    } else {
        ArrayMerge::ByPosition
    };
    Ok(match (common, role) {
        (Some(common), Some(role)) => Some(merge_objects(&common.0, &role.0, arrays)),
        (Some(only), None) | (None, Some(only)) => Some(only.0.clone()),
        (None, None) => None,
    })
}

/// Overlays `base` with `over`: objects key by key, scalars from `over`; a null deletes nothing.
pub fn merge_objects(
    base: &Map<String, Value>,
    over: &Map<String, Value>,
    arrays: ArrayMerge,
) -> Map<String, Value> {
    let mut merged = base.clone();
    for (key, value) in over {
        let value = match merged.get(key) {
            Some(below) => merge(below, value, arrays),
            None => value.clone(),
        };
        let _below = merged.insert(key.clone(), value);
    }
    merged
}

fn merge(base: &Value, over: &Value, arrays: ArrayMerge) -> Value {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            Value::Object(merge_objects(base, over, arrays))
        }
        (Value::Array(base), Value::Array(over)) => Value::Array(merge_arrays(base, over, arrays)),
        (_, Value::Null) => base.clone(),
        _ => over.clone(),
    }
}

fn merge_arrays(base: &[Value], over: &[Value], arrays: ArrayMerge) -> Vec<Value> {
    if arrays == ArrayMerge::ByName
        && let (Some(base), Some(over)) = (by_name(base), by_name(over))
    {
        return merge_named(base, over);
    }
    let mut merged: Vec<Value> = base
        .iter()
        .zip(over)
        .map(|(base, over)| match (base, over) {
            (Value::Object(_), Value::Object(_)) => merge(base, over, arrays),
            _ => base.clone(),
        })
        .collect();
    let longer = if base.len() > over.len() { base } else { over };
    merged.extend(longer.iter().skip(merged.len()).cloned());
    merged
}

/// Returns the elements with their names; `None` if one has none. If a name is repeated, the last element takes the
/// place of the first.
fn by_name(elements: &[Value]) -> Option<Vec<(&str, &Map<String, Value>)>> {
    let mut named: Vec<(&str, &Map<String, Value>)> = Vec::new();
    for element in elements {
        let object = element.as_object()?;
        let name = object.get("name")?.as_str()?;
        match named.iter_mut().find(|(known, _)| *known == name) {
            Some(known) => known.1 = object,
            None => named.push((name, object)),
        }
    }
    Some(named)
}

fn merge_named(
    base: Vec<(&str, &Map<String, Value>)>,
    over: Vec<(&str, &Map<String, Value>)>,
) -> Vec<Value> {
    let in_both = base.iter().map(|(name, below)| {
        match over.iter().find(|(candidate, _)| candidate == name) {
            Some((_, above)) => merge_objects(below, above, ArrayMerge::ByName),
            None => (*below).clone(),
        }
    });
    let only_over = over
        .iter()
        .filter(|(name, _)| !base.iter().any(|(known, _)| known == name))
        .map(|(_, above)| (*above).clone());
    in_both.chain(only_over).map(Value::Object).collect()
}

/// Adds everything except CPU and memory to the main container of the template.
fn with_extra_resources(
    template: Option<Map<String, Value>>,
    resource: Option<&Resource>,
    resources: Option<&ResourceRequirements>,
) -> Result<Option<Map<String, Value>>, RenderError> {
    let is_stated = |r: &&ResourceRequirements| !r.requests.is_empty() || !r.limits.is_empty();
    let extra = match resources.filter(is_stated) {
        Some(resources) => other_resources(resources),
        None => resource.map(ephemeral_storage).unwrap_or_default(),
    };
    if extra.is_empty() {
        return Ok(template);
    }
    let mut template = template.unwrap_or_default();
    let container = main_container(&mut template)?;
    let container = object(container, "resources", "spec.containers[].resources")?;
    for (group, name, quantity) in extra {
        let path = format!("spec.containers[].resources.{group}");
        let _template_value = object(container, group, &path)?.insert(name.to_owned(), quantity);
    }
    Ok(Some(template))
}

/// Returns group, name and quantity of everything except CPU and memory.
fn other_resources(resources: &ResourceRequirements) -> Vec<(&str, &str, Value)> {
    [("requests", &resources.requests), ("limits", &resources.limits)]
        .into_iter()
        .flat_map(|(group, entries)| entries.iter().map(move |(name, value)| (group, name, value)))
        .filter(|(_, name, _)| !["cpu", "memory"].contains(&name.as_str()))
        .map(|(group, name, quantity)| (group, name.as_str(), as_written(quantity)))
        .collect()
}

fn ephemeral_storage(resource: &Resource) -> Vec<(&str, &str, Value)> {
    let stated = resource.ephemeral_storage.as_deref().filter(|text| !text.trim().is_empty());
    let groups = ["requests", "limits"].into_iter();
    groups
        .filter_map(|group| stated.map(|text| (group, "ephemeral-storage", text.into())))
        .collect()
}

fn as_written(quantity: &Quantity) -> Value {
    match quantity {
        Quantity::Number(number) => Value::Number(number.clone()),
        Quantity::Text(text) => Value::String(text.clone()),
    }
}

/// Returns the container that runs Flink, which is appended if the template has none.
fn main_container(
    template: &mut Map<String, Value>,
) -> Result<&mut Map<String, Value>, RenderError> {
    let spec = object(template, "spec", "spec")?;
    let containers = array(spec, "containers", "spec.containers")?;
    let is_main = |container: &Value| container["name"] == MAIN_CONTAINER;
    let index = containers.iter().position(is_main).unwrap_or(containers.len());
    if index == containers.len() {
        containers.push(json!({ "name": MAIN_CONTAINER }));
    }
    containers.get_mut(index).and_then(Value::as_object_mut).ok_or_else(|| {
        RenderError::PodTemplate { path: "spec.containers".into(), expected: "a list of objects" }
    })
}

#[cfg(test)]
mod tests;
