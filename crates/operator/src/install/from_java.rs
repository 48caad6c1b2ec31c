//! Converts a release of the Java operator's chart into values for this installation.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::merge::{defaults, merge, typed};
use super::objects::{LEADER_ELECTION, LEASE_NAME, NAME, values_of};
use super::values::is_of_java;
use super::without_effect::{WithoutEffect, has_content, has_no_effect, without_effect};

/// Maximum size of an unpacked release, in bytes: Helm keeps it in a Secret, which has a mebibyte at most.
const RELEASE_MAX: u64 = 64 << 20;
/// Name of the Java operator's chart.
pub const CHART: &str = "flink-kubernetes-operator";

/// Helm's record of a release, as far as it is read here.
#[derive(Debug, Deserialize)]
pub struct Release {
    pub name: String,
    pub namespace: String,
    pub chart: Chart,
    /// The values that the user set.
    #[serde(default)]
    pub config: Option<Map<String, Value>>,
}

/// The chart of a release.
#[derive(Debug, Deserialize)]
pub struct Chart {
    pub metadata: Metadata,
    /// The defaults of the chart.
    #[serde(default)]
    pub values: Map<String, Value>,
}

/// Name and version of the chart.
#[derive(Debug, Deserialize)]
pub struct Metadata {
    pub name: String,
    pub version: String,
}

impl Release {
    /// Reads the entry `release` of the Secret: JSON, compressed with gzip, in base64.
    pub fn read(entry: &[u8]) -> Result<Self, String> {
        let packed = STANDARD.decode(entry.trim_ascii()).map_err(|error| error.to_string())?;
        let mut text = Vec::new();
        let unpacked = GzDecoder::new(packed.as_slice()).take(RELEASE_MAX).read_to_end(&mut text);
        unpacked.map_err(|error| error.to_string())?;
        serde_json::from_slice(&text).map_err(|error| error.to_string())
    }
}

impl Release {
    /// Returns `true` if the chart ignores `config.yaml` when both files are set. Since 1.16 it uses that one
    /// (FLINK-39791).
    fn reads_the_old_format_alone(&self) -> bool {
        let below = self.chart.metadata.version.strip_prefix("1.");
        let minor = below.and_then(|below| below.split('.').next()?.parse::<u32>().ok());
        minor.is_some_and(|minor| minor < 16)
    }
}

/// Converted values, and remarks about them.
#[derive(Debug, Default)]
pub struct Converted {
    /// The values that differ from the defaults here.
    pub values: Map<String, Value>,
    /// Defaults of the Java operator's chart that the user did not override and that differ here. They are among the
    /// values, so that moving changes nothing by itself.
    pub defaults: Vec<Different>,
    pub without_effect: Vec<WithoutEffect>,
    /// Paths of values that do not exist here.
    pub unknown: Vec<String>,
    /// What differs from the release whatever the values are, or only stays with a value that is named.
    pub not_converted: Vec<String>,
}

/// A default that differs.
#[derive(Debug, Eq, PartialEq)]
pub struct Different {
    pub path: String,
    pub java: Value,
    pub here: Value,
}

/// Returns the values with which an installation does what the release did.
pub fn convert(release: &Release) -> Converted {
    let given = release.config.clone().unwrap_or_default();
    let mut effective = release.chart.values.clone();
    merge(&mut effective, given.clone());
    let old =
        release.reads_the_old_format_alone().then(|| leave_out_config(&mut effective)).flatten();
    let without_effect = old.into_iter().chain(without_effect(&effective)).collect();
    let mut converted = Converted { without_effect, ..Converted::default() };
    let image = effective.get("image").and_then(|image| image.get("repository")?.as_str());
    if image.is_some_and(is_of_java) {
        effective.remove("image");
    }
    // In the Java operator this is not a value, but always the case.
    if effective.get("webhook").is_some_and(|webhook| webhook["create"] == true) {
        effective["webhook"]["failurePolicy"] = json!("Fail");
    }
    converted.not_converted = not_converted(&effective, &given);
    let java = Value::Object(effective);
    let here = Value::Object(defaults());
    if let Some(Value::Object(values)) =
        converted.differing(&mut Vec::new(), &java, Some(&here), Some(&Value::Object(given)))
    {
        converted.values = values;
    }
    // Its chart creates the jobs' account in its own namespace if it watches them all, and jobs may run there.
    let is_empty = |name: &str| converted.values.get(name).is_none_or(|value| value == &json!([]));
    if is_empty("watchNamespaces") {
        converted.values.insert("jobNamespaces".to_owned(), json!([release.namespace]));
    }
    converted
}

/// Returns how names, leader election and probes of the operator differ.
fn not_converted(java: &Map<String, Value>, given: &Map<String, Value>) -> Vec<String> {
    let mut all = Vec::new();
    let text = |name: &str| java.get(name).and_then(Value::as_str).unwrap_or_default();
    // In Java's chart the container has the name of the chart, whatever the values are.
    all.push(match text("nameOverride") {
        CHART => format!("the label `helm.sh/chart` is that of `{NAME}`"),
        "" => format!(
            "the Deployment, its container and the label `app.kubernetes.io/name` are `{NAME}`, in \
             the Java operator's chart `{CHART}`: `nameOverride: {CHART}` keeps it, except in the \
             label `helm.sh/chart`"
        ),
        other => format!(
            "the container is `{other}`, in the Java operator's chart `{CHART}`; the label \
             `helm.sh/chart` is that of `{NAME}`"
        ),
    });
    let configuration = java.get("defaultConfiguration").and_then(Value::as_object);
    let mut files = configuration.into_iter().flat_map(Map::values).filter_map(Value::as_str);
    let is_elected = files.any(|text| {
        let is_on = values_of(text, LEADER_ELECTION).any(|value| value.trim() == "true");
        is_on && values_of(text, LEASE_NAME).next().is_some()
    });
    if !is_elected {
        all.push(
            "leader election is on, even for one replica, and off in this release of the Java \
             operator: the operator also needs a Lease, which is named after it"
                .to_owned(),
        );
    }
    let here = json!(defaults());
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let of = |health: Option<&Value>| health.and_then(|it| it.get(probe)).cloned();
        let java = of(java.get("operatorHealth"));
        let here = of(here.get("operatorHealth"));
        if of(given.get("operatorHealth")).is_none() && java != here {
            let shown = |it: Option<Value>| it.map_or("none".to_owned(), |it| it.to_string());
            let (java, here) = (shown(java), shown(here));
            all.push(format!(
                "`operatorHealth.{probe}` is {here}, in the Java operator's chart {java}: nothing \
                 warms up here; set it to keep it"
            ));
        }
    }
    all
}

/// Removes `config.yaml` if `flink-conf.yaml` was in force.
fn leave_out_config(effective: &mut Map<String, Value>) -> Option<WithoutEffect> {
    let configuration = effective.get_mut("defaultConfiguration")?.as_object_mut()?;
    let is_set = |file: &str| configuration.get(file)?.as_str().map(has_content);
    let both = is_set("flink-conf.yaml") == Some(true) && is_set("config.yaml") == Some(true);
    let _left_out = both.then(|| configuration.remove("config.yaml"))?;
    Some(WithoutEffect {
        path: vec!["defaultConfiguration".to_owned(), "config.yaml".to_owned()],
        instead:
            "flink-conf.yaml takes precedence over it in the Java operator's chart before 1.16"
                .to_owned(),
    })
}

impl Converted {
    /// Returns the part of a value that differs here; `given` is what the user set of it.
    fn differing(
        &mut self,
        path: &mut Vec<String>,
        java: &Value,
        here: Option<&Value>,
        given: Option<&Value>,
    ) -> Option<Value> {
        if has_no_effect(path) || is_same(java, here) {
            return None;
        }
        // Its probes are timed for the start of a JVM.
        if given.is_none() && path.first().is_some_and(|first| first == "operatorHealth") {
            return None;
        }
        let inner = here.and_then(Value::as_object).filter(|inner| !inner.is_empty());
        if let (Value::Object(java), Some(inner)) = (java, inner) {
            let mut differing = Map::new();
            for (name, value) in java {
                path.push(name.clone());
                let given = given.and_then(|given| given.get(name));
                let value = self.differing(path, value, inner.get(name), given);
                path.pop();
                differing.extend(value.map(|value| (name.clone(), value)));
            }
            return (!differing.is_empty()).then_some(Value::Object(differing));
        }
        if !is_taken(path, java) {
            self.unknown.push(path.join("."));
            return None;
        }
        if given.is_none() {
            let here = here.cloned().unwrap_or_default();
            self.defaults.push(Different { path: path.join("."), java: java.clone(), here });
        }
        Some(java.clone())
    }
}

/// Returns `true` if both charts treat the value alike, also because `create` turns it off in both.
fn is_same(java: &Value, here: Option<&Value>) -> bool {
    let is_off = |value: &Value| value.get("create").is_some_and(|create| create == false);
    match (java, here) {
        (Value::Null, _) => true,
        (Value::String(java), Some(Value::String(here))) if !has_content(java) => {
            !has_content(here)
        }
        (Value::Object(java), None) => java.is_empty(),
        (java, Some(here)) => java == here || (is_off(java) && is_off(here)),
        (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_), None) => false,
    }
}

/// Returns `true` if the values here accept this value at this path.
fn is_taken(path: &[String], value: &Value) -> bool {
    let alone = path.iter().rev().fold(value.clone(), |inner, name| json!({ name: inner }));
    let mut all = defaults();
    if let Value::Object(alone) = alone {
        merge(&mut all, alone);
    }
    typed(all).is_ok()
}

#[cfg(test)]
mod tests;
