//! The ConfigMaps: Flink's configuration with its logging files, and the TaskManager template.

use k8s_openapi::api::core::v1::{ConfigMap, ConfigMapVolumeSource, KeyToPath, Volume};
use serde_json::{Map, Value, json};

use api::version::FlinkVersion;
use config::cluster::is_for_operator;
use config::file::{self, KeyConflict};
use config::{FlinkConfig, options, structure};

use super::names;
use super::{Cluster, RenderError, TextMap, logging};

/// Where a native JobManager finds the template of its TaskManagers.
pub(super) const TEMPLATE_DIRECTORY: &str = "/opt/flink/pod-template";
pub(super) const TEMPLATE_KEY: &str = "taskmanager-pod-template.yaml";

/// Keys that only matter to a client, or that the image sets for its pod.
const CLIENT_KEYS: [&str; 6] = [
    "kubernetes.config.file",
    "$internal.deployment.config-dir",
    "rest.bind-address",
    "jobmanager.bind-host",
    "taskmanager.bind-host",
    "taskmanager.host",
];

pub(super) fn flink(cluster: &Cluster, config: &FlinkConfig) -> Result<Value, RenderError> {
    let mut given = config.clone();
    given.retain(|key| !is_for_operator(key) && !CLIENT_KEYS.contains(&key));
    let text = if is_standard_yaml(cluster) { standard_yaml(&given)? } else { lines(&given) };
    let mut data = logging::files(cluster.spec, config);
    let _never_a_logging_file = data.insert(config_key(cluster).to_owned(), text);
    Ok(config_map(cluster, names::config_map(&cluster.id.name), data))
}

fn is_standard_yaml(cluster: &Cluster) -> bool {
    cluster.spec.flink_version.is_some_and(|version| version >= FlinkVersion::V2_0)
}

fn config_key(cluster: &Cluster) -> &'static str {
    if is_standard_yaml(cluster) { "config.yaml" } else { "flink-conf.yaml" }
}

/// Formats the configuration in the old format, which has neither quotes nor escapes: values are written as they are.
fn lines(config: &FlinkConfig) -> String {
    config.iter().fold(String::new(), |mut text, (key, value)| {
        for part in [key, ": ", value, "\n"] {
            text.push_str(part);
        }
        text
    })
}

/// Formats the configuration as nested YAML with text values; only the program's arguments are a list.
fn standard_yaml(config: &FlinkConfig) -> Result<String, KeyConflict> {
    let mut flat = config.clone();
    let args = flat.remove(options::APPLICATION_ARGS.key());
    let mut nested = file::nest(&flat)?;
    if let Some(args) = args {
        let args = structure::split_list(&args).unwrap_or_else(|| vec![args]);
        insert_at(&mut nested, options::APPLICATION_ARGS.key(), args.into());
    }
    Ok(to_yaml(&Value::Object(nested)))
}

fn insert_at(root: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            let _never_twice = root.insert(key.to_owned(), value);
        }
        Some((first, rest)) => {
            let entry = root.entry(first).or_insert_with(|| Value::Object(Map::new()));
            if let Some(inner) = entry.as_object_mut() {
                insert_at(inner, rest, value);
            }
        }
    }
}

/// Formats block YAML; long and multi-line texts are quoted, not folded.
fn to_yaml(value: &Value) -> String {
    let options = serde_yaml::ser_options! { prefer_block_scalars: false };
    serde_yaml::to_string_with_options(value, options)
        .expect("JSON values with text keys can always be written as YAML")
}

pub(super) fn template(cluster: &Cluster, template: &Map<String, Value>) -> Value {
    let text = to_yaml(&Value::Object(template.clone()));
    let data = TextMap::from([(TEMPLATE_KEY.to_owned(), text)]);
    config_map(cluster, names::pod_template_config_map(&cluster.id.name), data)
}

fn config_map(cluster: &Cluster, name: String, data: TextMap) -> Value {
    let metadata = cluster.metadata(name, cluster.labels(), TextMap::new());
    json!(ConfigMap { metadata, data: Some(data), ..ConfigMap::default() })
}

/// Returns the volume, which lists every file, since others would not be mounted.
pub(super) fn flink_volume(cluster: &Cluster, config: &FlinkConfig) -> Volume {
    let mut keys: Vec<String> = logging::files(cluster.spec, config).into_keys().collect();
    keys.push(config_key(cluster).to_owned());
    volume("flink-config-volume", names::config_map(&cluster.id.name), keys)
}

pub(super) fn template_volume(cluster: &Cluster) -> Volume {
    let name = names::pod_template_config_map(&cluster.id.name);
    volume("pod-template-volume", name, vec![TEMPLATE_KEY.to_owned()])
}

fn volume(name: &str, config_map: String, keys: Vec<String>) -> Volume {
    let items = Some(items(keys));
    let source = ConfigMapVolumeSource { name: config_map, items, ..Default::default() };
    Volume { name: name.to_owned(), config_map: Some(source), ..Volume::default() }
}

/// Returns the items of a volume, with paths equal to their keys.
pub(super) fn items(keys: Vec<String>) -> Vec<KeyToPath> {
    let item = |key: String| KeyToPath { path: key.clone(), key, ..KeyToPath::default() };
    keys.into_iter().map(item).collect()
}
